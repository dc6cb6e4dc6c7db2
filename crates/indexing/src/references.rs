//! What the map of each document has read, so that it is mapped again when that changes: other
//! documents, and compare exchange values.
//!
//! ```text
//! tree `References`     looked at · 0 · looking            → nothing
//! tree `ReferencesOf`   looking                            → looked at · 0 · looked at · 0 …
//! ```
//!
//! That is of documents; the trees `ValueReferences` and `ValueReferencesOf` are the same of values. All
//! ids and keys are lower-cased; none has a zero byte that would matter, because they are compared as
//! wholes by the second tree.

use std::ops::Bound;

use model::lower_case;
use storage::{StorageError, Transaction, TreeName, WriteTransaction};

const SEPARATOR: u8 = 0;

/// The kinds of things that maps read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedAt {
    Documents,
    /// Values of compare exchange.
    Values,
}

impl LookedAt {
    pub(crate) const ALL: [Self; 2] = [Self::Documents, Self::Values];

    fn tree(self) -> TreeName {
        TreeName::of(&[match self {
            Self::Documents => b"References".as_slice(),
            Self::Values => b"ValueReferences",
        }])
    }

    /// The tree of those that have read any.
    pub(crate) fn tree_of_looking(self) -> TreeName {
        TreeName::of(&[match self {
            Self::Documents => b"ReferencesOf".as_slice(),
            Self::Values => b"ValueReferencesOf",
        }])
    }
}

/// What a map has read besides what it maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    documents: Vec<String>,
    values: Vec<String>,
}

impl References {
    /// A document, by its id in lower case.
    pub(crate) fn note_document(&mut self, lower_id: &str) {
        self.documents.push(lower_id.to_owned());
    }

    /// A value of compare exchange, by its key.
    pub(crate) fn note_value(&mut self, key: &str) {
        self.values.push(lower_case(key).into_owned());
    }

    pub(crate) fn add(&mut self, mut others: Self) {
        self.documents.append(&mut others.documents);
        self.values.append(&mut others.values);
    }

    /// The approximate memory use in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.documents.iter().chain(&self.values);
        names.map(|name| size_of::<String>() + name.len()).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.documents.clear();
        self.values.clear();
    }

    /// Takes the names of one kind, without duplicates.
    fn take(&mut self, kind: LookedAt) -> Vec<String> {
        let mut taken = std::mem::take(match kind {
            LookedAt::Documents => &mut self.documents,
            LookedAt::Values => &mut self.values,
        });
        taken.sort_unstable();
        taken.dedup();
        taken
    }
}

/// What one document has read.
pub(crate) struct Looked {
    pub(crate) document: String,
    pub(crate) at: References,
}

fn key(looked_at: &str, looking: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(looked_at.len() + 1 + looking.len());
    key.extend_from_slice(looked_at.as_bytes());
    key.push(SEPARATOR);
    key.extend_from_slice(looking.as_bytes());
    key
}

/// The documents that have read this: up to `limit` of them after `after`, in the order of ids.
pub(crate) fn looking_at(
    tx: &impl Transaction,
    (kind, looked_at): (LookedAt, &str),
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, StorageError> {
    let prefix = key(looked_at, "");
    let from = after.map(|after| key(looked_at, after));
    let from = match &from {
        Some(after) => Bound::Excluded(after.as_slice()),
        None => Bound::Included(prefix.as_slice()),
    };
    let mut found = Vec::new();
    for entry in tx.tree(&kind.tree())?.range(from)? {
        let (key, _) = entry?;
        let Some(looking) = key.strip_prefix(prefix.as_slice()) else { break };
        if found.len() == limit {
            break;
        }
        found.push(String::from_utf8_lossy(looking).into_owned());
    }
    Ok(found)
}

/// Whether anything of this kind has been read.
pub(crate) fn is_any_looked_at(
    tx: &impl Transaction,
    kind: LookedAt,
) -> Result<bool, StorageError> {
    Ok(!tx.tree(&kind.tree())?.is_empty())
}

/// Replaces what a document has read.
pub(crate) fn replace(tx: &mut WriteTransaction, looked: &mut Looked) -> Result<(), StorageError> {
    for kind in LookedAt::ALL {
        let at = looked.at.take(kind);
        replace_kind(tx, kind, &looked.document, &at)?;
    }
    Ok(())
}

fn replace_kind(
    tx: &mut WriteTransaction,
    kind: LookedAt,
    document: &str,
    at: &[String],
) -> Result<(), StorageError> {
    let of = kind.tree_of_looking();
    let before = tx.tree(&of)?.get(document.as_bytes())?.map(<[u8]>::to_vec);
    if before.is_none() && at.is_empty() {
        return Ok(());
    }
    let mut references = tx.tree_mut(&kind.tree())?;
    for id in before.iter().flat_map(|ids| ids.split(|byte| *byte == SEPARATOR)) {
        if !id.is_empty() {
            references.delete(&key(&String::from_utf8_lossy(id), document))?;
        }
    }
    for id in at {
        references.put(&key(id, document), &[])?;
    }
    let mut of = tx.tree_mut(&of)?;
    if at.is_empty() {
        of.delete(document.as_bytes())?;
    } else {
        of.put(document.as_bytes(), at.join("\0").as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use storage::{Environment, EnvironmentOptions};

    use super::*;

    #[test]
    fn who_looked_at_something_is_found_until_it_looks_elsewhere() {
        let environment =
            Environment::open(&Platform::memory(), EnvironmentOptions::new("index")).unwrap();
        let look = |document: &str, documents: &[&str], values: &[&str]| {
            let mut at = References::default();
            documents.iter().for_each(|id| at.note_document(id));
            values.iter().for_each(|key| at.note_value(key));
            let mut tx = environment.write().unwrap();
            replace(&mut tx, &mut Looked { document: document.to_owned(), at }).unwrap();
            tx.commit().unwrap();
        };
        let found = |kind: LookedAt, id: &str, after: Option<&str>, limit: usize| {
            looking_at(&environment.read(), (kind, id), after, limit).unwrap()
        };
        let none = Vec::<String>::new();
        for kind in LookedAt::ALL {
            assert!(!is_any_looked_at(&environment.read(), kind).unwrap());
        }
        look("orders/1", &["companies/1", "companies/2", "companies/1"], &["Rate"]);
        look("orders/2", &["companies/1"], &["rate", "companies/1"]);
        look("orders/3", &["companies/11"], &[]);
        let documents = |id: &str, after, limit| found(LookedAt::Documents, id, after, limit);
        assert_eq!(documents("companies/1", None, 9), ["orders/1", "orders/2"]);
        assert_eq!(documents("companies/1", None, 1), ["orders/1"]);
        assert_eq!(documents("companies/1", Some("orders/1"), 9), ["orders/2"]);
        assert_eq!(documents("rate", None, 9), none);
        let values = |key: &str| found(LookedAt::Values, key, None, 9);
        assert_eq!(values("rate"), ["orders/1", "orders/2"]);
        assert_eq!(values("companies/1"), ["orders/2"]);
        look("orders/1", &["companies/2"], &[]);
        assert_eq!(documents("companies/1", None, 9), ["orders/2"]);
        assert_eq!(values("rate"), ["orders/2"]);
        look("orders/1", &[], &[]);
        assert_eq!(documents("companies/2", None, 9), none);
        assert!(is_any_looked_at(&environment.read(), LookedAt::Values).unwrap());
    }
}
