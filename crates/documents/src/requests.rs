//! What a caller requests of the writer, and the results.

use blittable::BlittableBuf;
use model::{
    ChangeVector, CollectionName, DocumentFlags, DocumentId, DocumentIdTooLong, Etag, IdSeparator,
};

use crate::error::DocumentError;

/// The id that a caller requests for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedId {
    /// This one.
    Exactly(DocumentId),
    /// Any id: a random one is generated.
    Random,
    /// The prefix, ending in the separator of ids, to which the etag of the write and the node's tag are appended.
    Numbered(String),
    /// An identity, whose next value is appended.
    Identity(IdentityName),
}

/// An id that is numbered by an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityName {
    /// The name of the identity, without its `|`.
    pub name: String,
    /// The separator between the name and the number.
    pub separator: IdSeparator,
}

impl IdentityName {
    /// The id with this number.
    ///
    /// # Errors
    /// When it is too long.
    pub fn numbered(&self, number: i64) -> Result<DocumentId, DocumentIdTooLong> {
        let IdentityName { name, separator } = self;
        DocumentId::new(format!("{name}{separator}{number}"))
    }
}

impl RequestedId {
    /// Parses the id of a request: absent or blank is [`RequestedId::Random`]; the separator or `|`
    /// as the last character means that the server numbers the document.
    ///
    /// # Errors
    /// When a complete id is too long.
    pub fn parse(text: Option<&str>, separator: IdSeparator) -> Result<Self, DocumentIdTooLong> {
        let text = text.unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(Self::Random);
        }
        if text.ends_with(separator.character()) {
            return Ok(Self::Numbered(text.to_owned()));
        }
        match text.strip_suffix(IdSeparator::IDENTITY_SUFFIX) {
            Some(name) => Ok(Self::Identity(IdentityName { name: name.to_owned(), separator })),
            None => DocumentId::new(text).map(Self::Exactly),
        }
    }
}

/// The version that a caller expects to replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version, or none.
    #[default]
    Any,
    /// No version: the document must be new.
    New,
    /// The document with exactly this change vector, compared as text.
    Exactly(String),
}

impl ExpectedVersion {
    /// Parses the version of a request: absent means any, empty means new.
    pub fn parse(change_vector: Option<&str>) -> Self {
        match change_vector {
            None => Self::Any,
            Some("") => Self::New,
            Some(text) => Self::Exactly(text.to_owned()),
        }
    }

    /// The text that [`ExpectedVersion::parse`] parses.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::New => Some(""),
            Self::Exactly(text) => Some(text),
        }
    }
}

/// A document to store.
#[derive(Clone, Debug)]
pub struct PutDocument {
    /// The id, or how the server is to generate one.
    pub id: RequestedId,
    /// The version to replace.
    pub expected: ExpectedVersion,
    /// The document as the client sent it, with its `@metadata`.
    pub body: BlittableBuf,
}

impl PutDocument {
    /// Completes an id that an identity numbers; the document must be new.
    ///
    /// # Errors
    /// When a version was expected, or the id is too long.
    pub fn finish_id(&mut self, number: i64) -> Result<(), DocumentError> {
        let RequestedId::Identity(identity) = &self.id else { return Ok(()) };
        let id = identity.numbered(number)?;
        if let ExpectedVersion::Exactly(expected) = &self.expected {
            let expected = expected.clone();
            return Err(DocumentError::VersionOfIdentity { id: id.to_string(), expected });
        }
        (self.id, self.expected) = (RequestedId::Exactly(id), ExpectedVersion::New);
        Ok(())
    }
}

/// The result of storing a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its id, in the spelling of this write.
    pub id: DocumentId,
    /// The position of the write in the log.
    pub etag: Etag,
    /// The new version of the document.
    pub change_vector: ChangeVector,
    /// Its collection, in the spelling of the collection's first document.
    pub collection: CollectionName,
    /// The modification time, in ticks of UTC.
    pub last_modified_ticks: i64,
    /// The flags of the stored document.
    pub flags: DocumentFlags,
}

/// The result of deleting a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedDocument {
    /// The id in the spelling with which it was stored.
    pub id: DocumentId,
    /// The position of the deletion in the log.
    pub etag: Etag,
    /// The version of the tombstone.
    pub change_vector: ChangeVector,
    /// The collection that contained it.
    pub collection: CollectionName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_character_decides_who_numbers_a_document() {
        let exactly = |id: &str| RequestedId::Exactly(DocumentId::new(id).unwrap());
        let (slash, colon) = (IdSeparator::default(), IdSeparator::new(':').unwrap());
        let numbered = |prefix: &str| RequestedId::Numbered(prefix.to_owned());
        let identity = |name: &str, separator| {
            RequestedId::Identity(IdentityName { name: name.to_owned(), separator })
        };
        let cases = [
            (None, slash, RequestedId::Random),
            (Some(""), slash, RequestedId::Random),
            (Some("  "), slash, RequestedId::Random),
            (Some("/"), slash, numbered("/")),
            (Some("  /"), slash, numbered("  /")),
            (Some("users/"), slash, numbered("users/")),
            (Some("users:"), slash, exactly("users:")),
            (Some("users|"), slash, identity("users", slash)),
            (Some("|"), slash, identity("", slash)),
            (Some(" a "), slash, exactly(" a ")),
            (Some("users/1-A"), slash, exactly("users/1-A")),
            (Some("users:"), colon, numbered("users:")),
            (Some("users/"), colon, exactly("users/")),
            (Some("users|"), colon, identity("users", colon)),
        ];
        for (text, separator, expected) in cases {
            assert_eq!(RequestedId::parse(text, separator), Ok(expected), "{text:?} {separator}");
        }
        assert!(RequestedId::parse(Some(&"x".repeat(513)), slash).is_err());
        let identity = IdentityName { name: "users".to_owned(), separator: colon };
        assert_eq!(identity.numbered(7).unwrap().as_str(), "users:7");
    }

    #[test]
    fn absent_and_empty_expectations_differ() {
        assert_eq!(ExpectedVersion::parse(None), ExpectedVersion::Any);
        assert_eq!(ExpectedVersion::parse(Some("")), ExpectedVersion::New);
        let exactly = ExpectedVersion::parse(Some("A:1-x"));
        assert_eq!(exactly.as_text(), Some("A:1-x"));
    }
}
