//! The bodies of requests that create, change and try out subscriptions.

use model::ChangeVector;
use serde::Deserialize;

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// A subscription sent by a client. Missing properties are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SubscriptionBody {
    /// Its number, to change an existing one.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Its RQL query.
    pub query: Option<String>,
    /// Where it starts or continues.
    pub change_vector: Option<String>,
    /// The preferred node.
    pub mentor_node: Option<String>,
    /// Whether no other node may serve it.
    pub pin_to_mentor_node: Option<bool>,
    /// Whether workers are refused.
    pub disabled: Option<bool>,
    /// Whether to create it if it does not exist.
    pub create_new: Option<bool>,
}

/// Where a subscription starts or continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionStart {
    /// Not specified.
    Unspecified,
    /// With the first change.
    BeginningOfTime,
    /// After the current last document.
    LastDocument,
    /// After this change vector.
    After(ChangeVector),
}

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 512;

impl SubscriptionBody {
    /// Reads the body.
    ///
    /// # Errors
    /// The body is malformed, or the name is too long.
    pub fn read(body: &[u8]) -> Result<SubscriptionBody, ProtocolError> {
        let read: SubscriptionBody = serde_json::from_slice(body).map_err(|error| {
            let message = format!("The body is not a subscription: {error}");
            ProtocolError::new(ErrorKind::InvalidData, message)
        })?;
        if read.name.as_ref().is_some_and(|name| NAME_BYTES_MAX < name.len()) {
            let message =
                format!("Subscription Name is too long, must be at most {NAME_BYTES_MAX} bytes");
            return Err(ProtocolError::new(ErrorKind::SubscriptionName, message));
        }
        Ok(read)
    }

    /// Where it starts; `keep_word` is whether the client may request to leave the position unchanged.
    ///
    /// # Errors
    /// The change vector is malformed.
    pub fn start(&self, keep_word: bool) -> Result<SubscriptionStart, ProtocolError> {
        let refused = |text: &str| {
            let message = format!(
                "Received change vector {text} is not in a valid format, therefore request cannot \
                 be processed."
            );
            ProtocolError::new(ErrorKind::StateChangeRefused, message)
        };
        match self.change_vector.as_deref() {
            None | Some("") => Ok(SubscriptionStart::Unspecified),
            Some("DoNotChange") if keep_word => Ok(SubscriptionStart::Unspecified),
            Some("BeginningOfTime") => Ok(SubscriptionStart::BeginningOfTime),
            Some("LastDocument") => Ok(SubscriptionStart::LastDocument),
            Some(text) => text.parse().map(SubscriptionStart::After).map_err(|_| refused(text)),
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
        assert_eq!(start("DoNotChange", true), Ok(SubscriptionStart::Unspecified));
        assert!(start("DoNotChange", false).is_err());
        assert!(matches!(
            start("A:3-AAAAAAAAAAAAAAAAAAAAAA", false),
            Ok(SubscriptionStart::After(_))
        ));
        for vector in ["garbage", "A:3", "A:3-abc"] {
            assert!(start(vector, true).is_err(), "{vector}");
        }
        assert_eq!(
            SubscriptionBody::read(b"{}").unwrap().start(false),
            Ok(SubscriptionStart::Unspecified)
        );
        let long = format!("{{\"Name\":\"{}\"}}", "n".repeat(513));
        assert!(SubscriptionBody::read(long.as_bytes()).is_err());
    }
}
