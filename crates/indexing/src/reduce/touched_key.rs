//! One reduce key in a batch: its state, and the rows that are added, changed and removed.

use std::collections::{BTreeMap, BTreeSet};

use storage::{StorageError, Transaction, WriteTransaction};

use super::{
    format::{KeyRows, KeyState, keys_tree, row_key, rows_tree},
    key::ReduceKey,
    key_tree::FANOUT,
};
use crate::error::IndexError;

/// See the module.
pub(super) struct TouchedKey {
    pub(super) key: ReduceKey,
    pub(super) state: KeyState,
    /// Whether any row was added, changed or removed.
    pub(super) is_changed: bool,
    /// Nodes of level 0 to recompute.
    pub(super) changed: BTreeSet<u64>,
    /// Rows of a spread key to put or delete.
    rows: BTreeMap<u64, Option<Vec<u8>>>,
}

impl TouchedKey {
    /// The stored key.
    pub(super) fn read(tx: &WriteTransaction, key: ReduceKey) -> Result<Self, IndexError> {
        let state = match tx.tree(&keys_tree())?.get(key.bytes())? {
            Some(bytes) => KeyState::read(bytes)?,
            None => KeyState::default(),
        };
        let (is_changed, changed, rows) = Default::default();
        Ok(Self { key, state, is_changed, changed, rows })
    }

    /// Writes rows and state.
    pub(super) fn write(&mut self, tx: &mut WriteTransaction) -> Result<(), StorageError> {
        let mut tree = tx.tree_mut(&rows_tree())?;
        for (number, row) in std::mem::take(&mut self.rows) {
            let place = row_key(&self.key, number);
            match row {
                Some(row) => tree.put(&place, &row)?,
                None => tree.delete(&place)?,
            };
        }
        let mut tree = tx.tree_mut(&keys_tree())?;
        match self.state.count {
            0 => tree.delete(self.key.bytes())?,
            _ => tree.put(self.key.bytes(), &self.state.write())?,
        };
        Ok(())
    }

    /// Adds a row; returns its number.
    pub(super) fn add(&mut self, row: Vec<u8>) -> u64 {
        let number = self.state.next;
        self.state.next += 1;
        self.state.count += 1;
        self.put(number, row)
    }

    /// Whether this is already the row of that number.
    pub(super) fn holds(
        &self,
        tx: &WriteTransaction,
        number: u64,
        row: &[u8],
    ) -> Result<bool, StorageError> {
        if let Some(pending) = self.rows.get(&number) {
            return Ok(pending.as_deref() == Some(row));
        }
        Ok(match &self.state.rows {
            KeyRows::Inline(rows) => rows.get(&number).is_some_and(|own| own == row),
            KeyRows::Spread => {
                tx.tree(&rows_tree())?.get(&row_key(&self.key, number))? == Some(row)
            }
        })
    }

    /// Replaces the row of this number; returns the number.
    pub(super) fn put(&mut self, number: u64, row: Vec<u8>) -> u64 {
        self.is_changed = true;
        match &mut self.state.rows {
            KeyRows::Inline(rows) => {
                rows.insert(number, row);
                if self.state.rows.is_too_long() {
                    self.spread();
                }
            }
            KeyRows::Spread => {
                self.rows.insert(number, Some(row));
                self.changed.insert(number / FANOUT);
            }
        }
        number
    }

    /// Deletes the row of this number.
    pub(super) fn delete(&mut self, number: u64) {
        self.is_changed = true;
        self.state.count = self.state.count.saturating_sub(1);
        match &mut self.state.rows {
            KeyRows::Inline(rows) => drop(rows.remove(&number)),
            KeyRows::Spread => {
                self.rows.insert(number, None);
                self.changed.insert(number / FANOUT);
            }
        }
    }

    /// Moves inline rows to the tree.
    fn spread(&mut self) {
        let KeyRows::Inline(rows) = std::mem::replace(&mut self.state.rows, KeyRows::Spread) else {
            return;
        };
        for (number, row) in rows {
            self.rows.insert(number, Some(row));
            self.changed.insert(number / FANOUT);
        }
    }
}
