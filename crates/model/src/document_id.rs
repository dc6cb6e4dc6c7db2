//! The id of a document.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::lower_case::lower_case;

/// Longest id, in bytes of UTF-8 of its lower-cased form.
pub const DOCUMENT_ID_BYTES_MAX: usize = 512;

/// An id as it was written, and the lower-cased key under which the document is found. Two ids are
/// equal when their keys are. The empty id is allowed here and names no document.
#[derive(Clone)]
pub struct DocumentId {
    text: Box<str>,
    /// Absent when it would be the same as the text, as it is for most generated ids.
    lowered: Option<Box<str>>,
}

impl DocumentId {
    /// Takes the text as it is, blanks included.
    ///
    /// # Errors
    /// When the lower-cased form has more than [`DOCUMENT_ID_BYTES_MAX`] bytes.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, DocumentIdTooLong> {
        let text = text.into();
        let lowered = lower_case(&text);
        if DOCUMENT_ID_BYTES_MAX < lowered.len() {
            let bytes = lowered.len();
            return Err(DocumentIdTooLong { id: text.into(), bytes });
        }
        let lowered = match lowered {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(lowered) => Some(lowered.into_boxed_str()),
        };
        Ok(Self { text, lowered })
    }

    /// The id as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The lower-cased form.
    pub fn lower_cased(&self) -> &str {
        self.lowered.as_deref().unwrap_or(&self.text)
    }

    /// The bytes under which the document is stored.
    pub fn key(&self) -> &[u8] {
        self.lower_cased().as_bytes()
    }
}

/// The lower-cased id has too many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentIdTooLong {
    /// The id as it was written.
    pub id: String,
    /// The bytes of its lower-cased form.
    pub bytes: usize,
}

impl fmt::Display for DocumentIdTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Document ID cannot exceed {DOCUMENT_ID_BYTES_MAX} bytes, but the ID was {} bytes. \
             The invalid ID is '{}'. (Parameter 'str')",
            self.bytes, self.id
        )
    }
}

impl std::error::Error for DocumentIdTooLong {}

impl fmt::Debug for DocumentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DocumentId({:?})", self.text)
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl PartialEq for DocumentId {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for DocumentId {}

impl Hash for DocumentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_only_by_more_than_case() {
        let one = DocumentId::new("Users/1-A").unwrap();
        let other = DocumentId::new("users/1-a").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.as_str(), "Users/1-A");
        assert_eq!(one.key(), b"users/1-a");
        assert_ne!(one, DocumentId::new(" users/1-a").unwrap());
    }

    #[test]
    fn the_limit_counts_bytes_of_the_lower_cased_form() {
        assert!(DocumentId::new("x".repeat(512)).is_ok());
        assert!(DocumentId::new("É".repeat(256)).is_ok());
        // One character of three bytes becomes one of one byte: 600 bytes of text, 200 of key.
        assert!(DocumentId::new("\u{212a}".repeat(200)).is_ok());
        // Two bytes become three.
        let refused = DocumentId::new("Ⱥ".repeat(200)).unwrap_err();
        assert_eq!(refused.bytes, 600);
        let refused = DocumentId::new("é".repeat(257)).unwrap_err();
        let expected = format!(
            "Document ID cannot exceed 512 bytes, but the ID was 514 bytes. \
             The invalid ID is '{}'. (Parameter 'str')",
            "é".repeat(257)
        );
        assert_eq!(refused.to_string(), expected);
    }
}
