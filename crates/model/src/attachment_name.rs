//! The name of an attachment.

use std::fmt;

use crate::document_id::{DocumentId, DocumentIdTooLong};

/// The name of an attachment as it was written, and the lower-cased key under which it is found
/// among those of its document. Never empty; otherwise the rules for document ids apply, including
/// the error text for a long one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttachmentName(DocumentId);

impl AttachmentName {
    /// Takes the text as it is.
    ///
    /// # Errors
    /// When it is blank or too long.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, InvalidAttachmentName> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(InvalidAttachmentName::Blank);
        }
        DocumentId::new(text).map(Self).map_err(InvalidAttachmentName::TooLong)
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

impl fmt::Display for AttachmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Why a text is no name of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAttachmentName {
    /// It is empty or only blanks.
    Blank,
    /// Its lower-cased form has too many bytes.
    TooLong(DocumentIdTooLong),
}

impl fmt::Display for InvalidAttachmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => formatter.write_str("The name of an attachment cannot be empty"),
            Self::TooLong(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for InvalidAttachmentName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_only_by_more_than_case() {
        let name = |text: &str| AttachmentName::new(text).unwrap();
        assert_eq!(name("A.txt"), name("a.TXT"));
        assert_ne!(name("a.txt"), name(" a.txt"));
        assert_eq!(AttachmentName::new(" \t"), Err(InvalidAttachmentName::Blank));
        assert!(AttachmentName::new("x".repeat(512)).is_ok());
        let error = AttachmentName::new("x".repeat(513)).unwrap_err();
        assert!(matches!(error, InvalidAttachmentName::TooLong(_)));
    }
}
