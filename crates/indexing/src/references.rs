//! Which documents the map of which document looked at, so that a change of the one leads to the
//! other.
//!
//! ```text
//! tree `References`     looked at · 0 · looking            → nothing
//! tree `ReferencesOf`   looking                            → looked at · 0 · looked at · 0 …
//! ```
//!
//! All ids are lower-cased; none has a zero byte that would matter, because ids are compared as wholes
//! by the second tree.

use std::ops::Bound;

use storage::{StorageError, Transaction, TreeName, WriteTransaction};

const REFERENCES: &[u8] = b"References";
const REFERENCES_OF: &[u8] = b"ReferencesOf";
const SEPARATOR: u8 = 0;

/// What one document looked at, ids each once.
pub(crate) struct Looked {
    pub(crate) document: String,
    pub(crate) at: Vec<String>,
}

/// The tree whose keys are the documents that looked at any.
pub(crate) fn references_of() -> TreeName {
    TreeName::of(&[REFERENCES_OF])
}

fn key(looked_at: &str, looking: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(looked_at.len() + 1 + looking.len());
    key.extend_from_slice(looked_at.as_bytes());
    key.push(SEPARATOR);
    key.extend_from_slice(looking.as_bytes());
    key
}

/// The documents that looked at this one: up to `limit` of them behind `after`, in the order of ids.
pub(crate) fn looking_at(
    tx: &impl Transaction,
    looked_at: &str,
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
    for entry in tx.tree(&TreeName::of(&[REFERENCES]))?.range(from)? {
        let (key, _) = entry?;
        let Some(looking) = key.strip_prefix(prefix.as_slice()) else { break };
        if found.len() == limit {
            break;
        }
        found.push(String::from_utf8_lossy(looking).into_owned());
    }
    Ok(found)
}

/// Replaces what a document looked at.
pub(crate) fn replace(tx: &mut WriteTransaction, looked: &Looked) -> Result<(), StorageError> {
    let of = references_of();
    let before = tx.tree(&of)?.get(looked.document.as_bytes())?.map(<[u8]>::to_vec);
    let mut references = tx.tree_mut(&TreeName::of(&[REFERENCES]))?;
    for id in before.iter().flat_map(|ids| ids.split(|byte| *byte == SEPARATOR)) {
        if !id.is_empty() {
            references.delete(&key(&String::from_utf8_lossy(id), &looked.document))?;
        }
    }
    for id in &looked.at {
        references.put(&key(id, &looked.document), &[])?;
    }
    let mut of = tx.tree_mut(&of)?;
    if looked.at.is_empty() {
        of.delete(looked.document.as_bytes())?;
    } else {
        of.put(looked.document.as_bytes(), looked.at.join("\0").as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use storage::{Environment, EnvironmentOptions};

    use super::*;

    #[test]
    fn who_looked_at_a_document_is_found_until_it_looks_elsewhere() {
        let environment =
            Environment::open(&Platform::memory(), EnvironmentOptions::new("index")).unwrap();
        let look = |document: &str, at: &[&str]| {
            let at = at.iter().map(|id| (*id).to_owned()).collect();
            let mut tx = environment.write().unwrap();
            replace(&mut tx, &Looked { document: document.to_owned(), at }).unwrap();
            tx.commit().unwrap();
        };
        let found = |id: &str, after: Option<&str>, limit: usize| {
            looking_at(&environment.read(), id, after, limit).unwrap()
        };
        look("orders/1", &["companies/1", "companies/2"]);
        look("orders/2", &["companies/1"]);
        look("orders/3", &["companies/11"]);
        assert_eq!(found("companies/1", None, 9), ["orders/1", "orders/2"]);
        assert_eq!(found("companies/1", None, 1), ["orders/1"]);
        assert_eq!(found("companies/1", Some("orders/1"), 9), ["orders/2"]);
        look("orders/1", &["companies/2"]);
        assert_eq!(found("companies/1", None, 9), ["orders/2"]);
        look("orders/1", &[]);
        assert_eq!(found("companies/2", None, 9), Vec::<String>::new());
    }
}
