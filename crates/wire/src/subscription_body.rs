//! The bodies with which subscriptions are made, changed and tried.

use model::ChangeVector;
use serde::Deserialize;

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// What a client says of a subscription. What it does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SubscriptionBody {
    /// Its number, where one is changed.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// What it asks.
    pub query: Option<String>,
    /// Where it begins or goes on.
    pub change_vector: Option<String>,
    /// The node that is to serve it.
    pub mentor_node: Option<String>,
    /// Whether no other node may.
    pub pin_to_mentor_node: Option<bool>,
    /// Whether workers are refused.
    pub disabled: Option<bool>,
    /// Whether it is made when there is none to change.
    pub create_new: Option<bool>,
}

/// Where a subscription begins or goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionStart {
    /// It is not said.
    Unsaid,
    /// With the first change that there is.
    BeginningOfTime,
    /// Behind the last document that there is.
    LastDocument,
    /// Behind this.
    Behind(ChangeVector),
}

/// A name is no longer than this.
const NAME_BYTES_MAX: usize = 512;

impl SubscriptionBody {
    /// Reads the body.
    ///
    /// # Errors
    /// When it is none, or the name is too long.
    pub fn read(body: &[u8]) -> Result<SubscriptionBody, ProtocolError> {
        let read: SubscriptionBody = serde_json::from_slice(body).map_err(|error| {
            let message = format!("The body is no subscription: {error}");
            ProtocolError::new(ErrorKind::InvalidData, message)
        })?;
        if read.name.as_ref().is_some_and(|name| NAME_BYTES_MAX < name.len()) {
            let message =
                format!("Subscription Name is too long, must be at most {NAME_BYTES_MAX} bytes");
            return Err(ProtocolError::new(ErrorKind::SubscriptionName, message));
        }
        Ok(read)
    }

    /// Where it begins; `keep_word` is whether the client may say that nothing changes.
    ///
    /// # Errors
    /// When the change vector is none.
    pub fn start(&self, keep_word: bool) -> Result<SubscriptionStart, ProtocolError> {
        let refused = |text: &str| {
            let message = format!(
                "Received change vector {text} is not in a valid format, therefore request cannot \
                 be processed."
            );
            ProtocolError::new(ErrorKind::StateChangeRefused, message)
        };
        match self.change_vector.as_deref() {
            None | Some("") => Ok(SubscriptionStart::Unsaid),
            Some("DoNotChange") if keep_word => Ok(SubscriptionStart::Unsaid),
            Some("BeginningOfTime") => Ok(SubscriptionStart::BeginningOfTime),
            Some("LastDocument") => Ok(SubscriptionStart::LastDocument),
            Some(text) => text.parse().map(SubscriptionStart::Behind).map_err(|_| refused(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_words_or_change_vectors() {
        let start = |vector: &str, keep_word| {
            let body = serde_json::json!({"ChangeVector": vector}).to_string();
            SubscriptionBody::read(body.as_bytes()).unwrap().start(keep_word)
        };
        assert_eq!(start("BeginningOfTime", false), Ok(SubscriptionStart::BeginningOfTime));
        assert_eq!(start("LastDocument", false), Ok(SubscriptionStart::LastDocument));
        assert_eq!(start("DoNotChange", true), Ok(SubscriptionStart::Unsaid));
        assert!(start("DoNotChange", false).is_err());
        assert!(matches!(
            start("A:3-AAAAAAAAAAAAAAAAAAAAAA", false),
            Ok(SubscriptionStart::Behind(_))
        ));
        for vector in ["garbage", "A:3", "A:3-abc"] {
            assert!(start(vector, true).is_err(), "{vector}");
        }
        assert_eq!(
            SubscriptionBody::read(b"{}").unwrap().start(false),
            Ok(SubscriptionStart::Unsaid)
        );
        let long = format!("{{\"Name\":\"{}\"}}", "n".repeat(513));
        assert!(SubscriptionBody::read(long.as_bytes()).is_err());
    }
}
