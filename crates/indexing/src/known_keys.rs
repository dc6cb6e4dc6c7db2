//! The keys that an index has data for, in order: used for changes that affect keys without listing
//! them.

use std::ops::Bound;

use search::IndexReader;
use storage::{ReadTransaction, StorageError, Transaction, TreeName};

use crate::{
    error::IndexError,
    mapper::{Follows, Mapper},
    reduce::documents_tree,
    references::LookedAt,
    segment_key::KeyRange,
};

/// Keys in a range that have entries, rows or references: the first ones, up to `limit`.
pub(crate) fn known_keys(
    entries: &ReadTransaction,
    mapper: &dyn Mapper,
    range: &KeyRange,
    limit: usize,
) -> Result<Vec<String>, IndexError> {
    let mut known = match mapper.reducer() {
        Some(_) => keys_of_tree(entries, &documents_tree(), range, limit)?,
        None => {
            let reader = IndexReader::open(entries)?;
            reader.documents_between(&range.after, &range.last, limit)?
        }
    };
    if mapper.looks_at() != Follows::Collections(&[]) || mapper.reads_values() {
        for kind in LookedAt::ALL {
            known.append(&mut keys_of_tree(entries, &kind.tree_of_looking(), range, limit)?);
        }
        known.sort_unstable();
        known.dedup();
        known.truncate(limit);
    }
    Ok(known)
}

fn keys_of_tree(
    entries: &ReadTransaction,
    tree: &TreeName,
    range: &KeyRange,
    limit: usize,
) -> Result<Vec<String>, IndexError> {
    let rows = entries.tree(tree)?.range(Bound::Excluded(range.after.as_bytes()))?;
    let keys = rows.take_while(|row| match row {
        Ok((key, _)) => key.as_slice() <= range.last.as_bytes(),
        Err(_) => true,
    });
    let text = |row: Result<(Vec<u8>, &[u8]), StorageError>| {
        String::from_utf8(row?.0).map_err(|_| IndexError::corrupt("a key of an index is not UTF-8"))
    };
    keys.take(limit).map(text).collect()
}
