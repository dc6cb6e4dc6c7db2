//! The name of a collection.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::{DocumentId, DocumentIdTooLong};

/// The collection of documents whose metadata names none.
pub const EMPTY_COLLECTION: &str = "@empty";
/// The collection of the documents that record ranges of ids assigned to clients.
pub const HILO_COLLECTION: &str = "@hilo";
/// Stands for all collections in queries; no document is in it.
pub const ALL_DOCUMENTS_COLLECTION: &str = "@all_docs";

/// A collection's name. Compares without case, keeps its spelling, and obeys the same limit of
/// length as an id. The empty name is a name like any other.
#[derive(Clone, PartialEq, Eq)]
pub struct CollectionName(DocumentId);

impl CollectionName {
    /// Takes the name as it is.
    ///
    /// # Errors
    /// When its lower-cased form has more than 512 bytes.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self, DocumentIdTooLong> {
        DocumentId::new(name).map(Self)
    }

    /// `@empty`, the collection of documents without one.
    pub fn empty() -> Self {
        Self::new(EMPTY_COLLECTION).expect("far below the limit")
    }

    /// `@hilo`, the collection of HiLo documents.
    pub fn hilo() -> Self {
        Self::new(HILO_COLLECTION).expect("far below the limit")
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The lower-cased bytes by which names are compared.
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }
}

impl Hash for CollectionName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for CollectionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CollectionName({:?})", self.as_str())
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_keep_their_spelling() {
        let users = CollectionName::new("Users").unwrap();
        assert_eq!(users, CollectionName::new("uSERS").unwrap());
        assert_eq!(users.to_string(), "Users");
    }
}
