//! Which documents a database compresses.

use std::collections::BTreeSet;

use crate::CollectionName;

/// The rules of a database. They apply to documents that are written from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentsCompression {
    /// The documents of every collection are compressed.
    pub all_collections: bool,
    /// Revisions are compressed, in every collection.
    pub revisions: bool,
    /// By the keys of their names.
    collections: BTreeSet<Box<[u8]>>,
}

impl DocumentsCompression {
    /// The rules of a database that compresses nothing.
    pub const fn nothing() -> Self {
        Self { all_collections: false, revisions: false, collections: BTreeSet::new() }
    }

    /// Has the documents of a collection compressed.
    pub fn insert(&mut self, collection: &CollectionName) {
        self.collections.insert(collection.key().into());
    }

    /// Whether the documents of a collection are compressed.
    pub fn compresses(&self, collection: &CollectionName) -> bool {
        self.all_collections || self.collections.contains(collection.key())
    }

    /// Whether anything is compressed.
    pub fn compresses_anything(&self) -> bool {
        self.all_collections || self.revisions || !self.collections.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_named_without_regard_to_case() {
        let name = |name: &str| CollectionName::new(name).unwrap();
        let mut rules = DocumentsCompression::nothing();
        assert!(!rules.compresses_anything());
        rules.insert(&name("Users"));
        assert!(rules.compresses_anything() && rules.compresses(&name("uSERS")));
        assert!(!rules.compresses(&name("Orders")) && !rules.revisions);
        rules.all_collections = true;
        assert!(rules.compresses(&name("Orders")));
    }
}
