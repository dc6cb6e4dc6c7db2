//! Which older versions of documents a database keeps.

use std::collections::BTreeMap;

use crate::{CollectionName, HILO_COLLECTION, TimeSpan};

/// The rules of a database. The rule of a collection replaces the default one; it does not add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionsConfiguration {
    /// The rule for collections without a specific one.
    default: Option<RevisionsRule>,
    /// By the key of the collection's name.
    collections: BTreeMap<Box<[u8]>, RevisionsRule>,
}

/// What is kept of the documents of a collection. A revision in excess of the number to keep is
/// removed when it is also older than the age to keep; without a number only the age decides,
/// without an age only the number. Without either, everything is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionsRule {
    /// New versions create no revisions. Deleting a document still closes and trims its existing
    /// ones.
    pub is_disabled: bool,
    /// Revisions kept per document; a negative number counts as zero.
    pub count_to_keep: Option<i64>,
    /// Revisions younger than this stay.
    pub age_to_keep: Option<TimeSpan>,
    /// Deleting a document deletes its revisions.
    pub purge_on_delete: bool,
    /// Revisions of a document that one write removes at most; a negative number counts as zero.
    pub removed_by_write_max: Option<i64>,
}

static NOTHING: RevisionsConfiguration = RevisionsConfiguration::new(None);

impl RevisionsConfiguration {
    /// A configuration in which all collections follow the default.
    pub const fn new(default: Option<RevisionsRule>) -> Self {
        Self { default, collections: BTreeMap::new() }
    }

    /// The configuration of a database that has none.
    pub fn nothing() -> &'static Self {
        &NOTHING
    }

    /// Adds a rule for a collection; `false` when it already has one.
    pub fn insert(&mut self, collection: &CollectionName, rule: RevisionsRule) -> bool {
        self.collections.insert(collection.key().into(), rule).is_none()
    }

    /// The rule for the documents of a collection, which may be a disabled one.
    pub fn rule_of(&self, collection: &CollectionName) -> Option<&RevisionsRule> {
        // The server's own bookkeeping changes with every client and is of no interest.
        if collection.key() == HILO_COLLECTION.as_bytes() {
            return None;
        }
        self.collections.get(collection.key()).or(self.default.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collections_own_rule_replaces_the_default() {
        let rule = |count| RevisionsRule { count_to_keep: Some(count), ..RevisionsRule::default() };
        let name = |name: &str| CollectionName::new(name).unwrap();
        let mut configuration = RevisionsConfiguration::new(Some(rule(5)));
        assert!(configuration.insert(&name("Users"), rule(1)));
        assert!(!configuration.insert(&name("uSERS"), rule(2)));
        assert_eq!(configuration.rule_of(&name("USERS")), Some(&rule(2)));
        assert_eq!(configuration.rule_of(&name("Orders")), Some(&rule(5)));
        assert_eq!(configuration.rule_of(&CollectionName::hilo()), None);
        assert_eq!(RevisionsConfiguration::nothing().rule_of(&name("Users")), None);
    }
}
