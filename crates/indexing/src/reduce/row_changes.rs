//! The rows of a batch by key instead of by document: which rows of each key are added, changed and
//! removed, and where the rows of each document are stored afterwards.
//!
//! Invariant: after any key, the places that [`RowChanges::write_places`] writes are those of all
//! rows that are stored of a document, of keys that were processed and of those that were not.

use std::collections::HashMap;

use storage::{StorageError, Transaction, WriteTransaction};

use super::{
    MappedRow,
    format::{RowPlace, documents_tree},
    key::ReduceKey,
    touched_key::TouchedKey,
};
use crate::error::IndexError;

/// The approximate overhead of a row: its change, its place and that of the previous one.
const ROW_BYTES: usize = size_of::<RowChange>() + 3 * size_of::<RowPlace>();
/// The approximate memory of a key.
const KEY_BYTES: usize = 3 * size_of::<ReduceKey>();
/// The approximate bytes of pages that a key changes: its rows, its nodes, its state, its entry.
const PAGE_BYTES_OF_KEY: u64 = 16 << 10;
/// The number of a row that has none yet.
const UNPLACED: u64 = u64::MAX;

/// See the module.
#[derive(Default)]
pub(super) struct RowChanges {
    /// In processing order.
    keys: Vec<ReduceKey>,
    ranks: HashMap<ReduceKey, u32>,
    changes: Vec<RowChange>,
    documents: Vec<PlacedDocument>,
    /// Changes and keys that were processed.
    changes_done: usize,
    keys_done: usize,
    names_bytes: usize,
}

/// A row that is added, replaces another one of its document, or is removed.
struct RowChange {
    /// Which key.
    rank: u32,
    document: u32,
    /// The position among the changes of its document: the new rows in order, then the removed
    /// ones.
    at: u32,
    /// The row that was there.
    number: Option<u64>,
    /// `None` when the row is removed.
    row: Option<Vec<u8>>,
}

struct PlacedDocument {
    id: String,
    /// The previous places of its rows, for keys that are not processed yet.
    before: Vec<RowPlace>,
    /// The places of its new rows.
    now: Vec<RowPlace>,
    /// Whether any of its places change.
    is_moved: bool,
    /// Whether they have changed since they were written.
    is_touched: bool,
}

impl RowChanges {
    /// Sets the rows of a document. A row replaces an old one of the same key, so that a changed
    /// document moves nothing, and a key whose rows stay the same is not touched.
    pub(super) fn add(
        &mut self,
        tx: &WriteTransaction,
        id: String,
        rows: Vec<MappedRow>,
    ) -> Result<(), IndexError> {
        let before = match tx.tree(&documents_tree())?.get(id.as_bytes())? {
            Some(bytes) => RowPlace::read_all(bytes)?,
            None => Vec::new(),
        };
        if before.is_empty() && rows.is_empty() {
            return Ok(());
        }
        let mut old: HashMap<ReduceKey, Vec<u64>> = HashMap::new();
        for place in before.iter().rev() {
            old.entry(place.key).or_default().push(place.number);
        }
        let keys_before = before.iter().map(|place| place.key);
        let is_moved = !keys_before.eq(rows.iter().map(|row| row.key));
        let document = self.documents.len() as u32;
        let mut now = Vec::with_capacity(if is_moved { rows.len() } else { 0 });
        let mut at = 0;
        for MappedRow { key, row } in rows {
            let number = old.get_mut(&key).and_then(Vec::pop);
            let rank = self.rank_of(key);
            self.changes.push(RowChange { rank, document, at, number, row: Some(row) });
            if is_moved {
                now.push(RowPlace { key, number: UNPLACED });
            }
            at += 1;
        }
        for place in &before {
            if old.get(&place.key).is_some_and(|numbers| numbers.contains(&place.number)) {
                let (rank, number) = (self.rank_of(place.key), Some(place.number));
                self.changes.push(RowChange { rank, document, at, number, row: None });
                at += 1;
            }
        }
        let before = if is_moved { before } else { Vec::new() };
        self.names_bytes += id.len() + size_of::<PlacedDocument>();
        self.documents.push(PlacedDocument { id, before, now, is_moved, is_touched: false });
        Ok(())
    }

    fn rank_of(&mut self, key: ReduceKey) -> u32 {
        let keys = &mut self.keys;
        *self.ranks.entry(key).or_insert_with(|| {
            keys.push(key);
            (keys.len() - 1) as u32
        })
    }

    /// The approximate memory use in bytes, without the rows themselves.
    pub(super) fn memory_bytes(&self) -> usize {
        ROW_BYTES * self.changes.len() + KEY_BYTES * self.keys.len() + self.names_bytes
    }

    /// The approximate bytes of pages that the keys will change.
    pub(super) fn page_bytes(&self) -> u64 {
        PAGE_BYTES_OF_KEY * self.keys.len() as u64
    }

    /// Ends gathering: keys are processed in the order in which they were first added.
    pub(super) fn sort(&mut self) {
        self.ranks = HashMap::new();
        self.changes.sort_unstable_by_key(|change| (change.rank, change.document, change.at));
    }

    /// Ends gathering: keys are processed in the order in which they are stored, so that each page
    /// is changed once however many transactions it takes.
    pub(super) fn sort_by_key(&mut self) {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_unstable_by_key(|rank| self.keys[*rank]);
        let mut ranks = vec![0; order.len()];
        for (rank, before) in (0..).zip(order) {
            ranks[before] = rank;
        }
        self.keys.sort_unstable();
        self.changes.iter_mut().for_each(|change| change.rank = ranks[change.rank as usize]);
        self.sort();
    }

    /// Whether all keys were processed.
    pub(super) fn is_done(&self) -> bool {
        self.keys_done == self.keys.len()
    }

    /// The next key with all its changes; the rows are not written yet.
    pub(super) fn next_key(
        &mut self,
        tx: &WriteTransaction,
    ) -> Result<Option<TouchedKey>, IndexError> {
        let Some(key) = self.keys.get(self.keys_done).copied() else { return Ok(None) };
        let mut touched = TouchedKey::read(tx, key)?;
        while let Some(change) = self.changes.get_mut(self.changes_done) {
            if change.rank as usize != self.keys_done {
                break;
            }
            self.changes_done += 1;
            let now = match (change.row.take(), change.number) {
                (Some(row), Some(number)) if touched.holds(tx, number, &row)? => Some(number),
                (Some(row), Some(number)) => Some(touched.put(number, row)),
                (Some(row), None) => Some(touched.add(row)),
                (None, Some(number)) => {
                    touched.delete(number);
                    None
                }
                (None, None) => None,
            };
            let document = &mut self.documents[change.document as usize];
            document.place(key, change.at, change.number, now);
        }
        self.keys_done += 1;
        Ok(Some(touched))
    }

    /// Writes the changed places of the documents' rows.
    pub(super) fn write_places(&mut self, tx: &mut WriteTransaction) -> Result<(), StorageError> {
        let mut touched: Vec<_> =
            self.documents.iter_mut().filter(|document| document.is_touched).collect();
        touched.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let mut tree = tx.tree_mut(&documents_tree())?;
        for document in touched {
            document.is_touched = false;
            let placed = document.now.iter().filter(|place| place.number != UNPLACED);
            let places: Vec<_> = placed.chain(&document.before).copied().collect();
            match places.as_slice() {
                [] => tree.delete(document.id.as_bytes())?,
                places => tree.put(document.id.as_bytes(), &RowPlace::write_all(places))?,
            };
        }
        Ok(())
    }
}

impl PlacedDocument {
    /// Records a move: the row that was at `before` is at `now`.
    fn place(&mut self, key: ReduceKey, at: u32, before: Option<u64>, now: Option<u64>) {
        if !self.is_moved {
            return;
        }
        self.is_touched = true;
        if let Some(number) = before {
            self.before.retain(|place| *place != RowPlace { key, number });
        }
        if let (Some(number), Some(place)) = (now, self.now.get_mut(at as usize)) {
            place.number = number;
        }
    }
}
