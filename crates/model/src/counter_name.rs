//! The name of a counter.

use std::fmt;

use crate::document_id::{DOCUMENT_ID_BYTES_MAX, DocumentId};

/// A counter name as it was written. As with document ids, case is ignored and the same length
/// limit applies; a name is never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterName(DocumentId);

impl CounterName {
    /// Takes the text as it is.
    ///
    /// # Errors
    /// When it is empty or too long.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, InvalidCounterName> {
        let text = text.into();
        if text.is_empty() {
            return Err(InvalidCounterName::Empty);
        }
        DocumentId::new(text).map(Self).map_err(|error| InvalidCounterName::TooLong(error.id))
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The lower-cased form.
    pub fn lower_cased(&self) -> &str {
        self.0.lower_cased()
    }
}

impl fmt::Display for CounterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Why a text is no name of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidCounterName {
    /// It is empty.
    Empty,
    /// This text has a lower-cased form of too many bytes.
    TooLong(String),
}

impl fmt::Display for InvalidCounterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("The name of a counter cannot be empty"),
            Self::TooLong(text) => write!(
                formatter,
                "Counter name cannot exceed {DOCUMENT_ID_BYTES_MAX} bytes, but counter name has {} \
                 characters. The invalid counter name is '{text}'.",
                text.chars().count()
            ),
        }
    }
}

impl std::error::Error for InvalidCounterName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_only_by_more_than_case() {
        let name = |text: &str| CounterName::new(text).unwrap();
        assert_eq!(name("Likes"), name("lIKES"));
        assert_ne!(name("likes"), name(" likes"));
        assert_eq!(CounterName::new(""), Err(InvalidCounterName::Empty));
        assert!(CounterName::new("x".repeat(512)).is_ok());
        let error = CounterName::new("x".repeat(513)).unwrap_err();
        assert!(error.to_string().contains("513 characters"));
    }
}
