//! Operations on a directory that no server uses: compaction and salvage; here, the content they
//! are tested on.

mod compaction;
mod prepared;
mod salvage;

use std::{borrow::Cow, collections::BTreeMap, ops::Bound, sync::Arc};

use super::{Bench, name};
use crate::{
    Environment, FixedIndexSchema, IndexTree, StorageError, TableSchema, Transaction, TreeName,
    WriteTransaction,
};

/// Rows of `ROWS`: etag u64 · key u64, big-endian · content.
static ROWS: TableSchema = TableSchema {
    name: "Things",
    primary: |row| Cow::Borrowed(&row[8..16]),
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One("ByEtag"), key: etag },
        FixedIndexSchema {
            tree: IndexTree::PerRow(|row| TreeName::of(&[b"Odd/", &[b'0' + row[15] % 2]])),
            key: etag,
        },
    ],
    indexes: &[],
};

fn etag(row: &[u8]) -> u64 {
    u64::from_be_bytes(row[..8].try_into().expect("a row"))
}

fn row(key: u64, etag: u64) -> Vec<u8> {
    let bytes =
        if key.is_multiple_of(13) { 9000 + key as usize } else { (key * 37 % 700) as usize };
    let mut row = [etag.to_be_bytes(), key.to_be_bytes()].concat();
    row.extend((0..bytes).map(|at| (at as u64 * 7 + key + etag) as u8));
    row
}

/// Everything that is stored, as a reader sees it.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    by_etag: Vec<u64>,
    odd: Vec<u64>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    fixed: Vec<(u64, Vec<u8>)>,
}

fn content(tx: &impl Transaction) -> Result<Content, StorageError> {
    let table = tx.table(&ROWS);
    let rows = table.range(Bound::Unbounded)?.map(|entry| entry.map(|(k, row)| (k, row.to_vec())));
    let etags = |tree: &str| {
        let rows = table.fixed_range(&name(tree), 0)?;
        rows.map(|entry| {
            let (key, row) = entry?;
            assert_eq!(key, etag(row));
            Ok(key)
        })
        .collect::<Result<Vec<u64>, StorageError>>()
    };
    let entries = tx.tree(&name("plain"))?;
    let entries = entries.range(Bound::Unbounded)?;
    let fixed = tx.fixed_tree(&name("numbers"))?;
    let fixed = fixed.range(0)?;
    Ok(Content {
        rows: rows.collect::<Result<_, _>>()?,
        by_etag: etags("ByEtag")?,
        odd: etags("Odd/1")?,
        entries: entries.map(|e| e.map(|(k, v)| (k, v.to_vec()))).collect::<Result<_, _>>()?,
        fixed: fixed.map(|e| e.map(|(k, v)| (k, v.to_vec()))).collect::<Result<_, _>>()?,
    })
}

fn change(
    environment: &Arc<Environment>,
    work: impl FnOnce(&mut WriteTransaction) -> Result<(), StorageError>,
) {
    let mut tx = environment.write().expect("writer");
    work(&mut tx).expect("changes");
    tx.commit().expect("commits");
}

/// Rows 0..`rows`, of which every third was written twice, and some entries in two other trees.
fn populate(environment: &Arc<Environment>, rows: u64) {
    for first in (0..rows).step_by(20) {
        change(environment, |tx| {
            for key in first..rows.min(first + 20) {
                tx.table_mut(&ROWS).insert(&row(key, key + 1))?;
                let value = vec![key as u8; if key % 50 == 7 { 5000 } else { 20 }];
                tx.tree_mut(&name("plain"))?.put(format!("entry {key:05}").as_bytes(), &value)?;
                tx.fixed_tree_mut(&name("numbers"), 4)?.put(key * 3, &[key as u8; 4])?;
            }
            Ok(())
        });
    }
    change(environment, |tx| {
        for key in (0..rows).step_by(3) {
            tx.table_mut(&ROWS).insert(&row(key, rows + key + 1))?;
        }
        Ok(())
    });
}
