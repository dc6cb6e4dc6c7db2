//! Tables: rows with a primary key and any number of secondary indexes.
//!
//! A row is opaque bytes; the schema's functions extract the keys from it. Rows live in pages of
//! rows and keep their [`RowId`]; every index maps its key to the row id. The schema makes
//! non-unique keys unique by appending something that is.

use std::{borrow::Cow, ops::Bound};

use crate::{
    catalog::TreeKind,
    error::StorageError,
    fixed_tree::{self, FixedRange},
    rows::{self, RowId},
    snapshot::Pages,
    transaction::Transaction,
    tree,
    tree_name::TreeName,
};

/// Extracts a key from a row.
pub type KeyOf = for<'r> fn(&'r [u8]) -> Cow<'r, [u8]>;

/// Which tree an index keeps a row in.
#[derive(Clone, Copy)]
pub enum IndexTree {
    /// The same tree for every row.
    One(&'static str),
    /// A tree chosen by the row, such as one per collection.
    PerRow(fn(&[u8]) -> TreeName),
}

impl IndexTree {
    pub(crate) fn name(&self, row: &[u8]) -> TreeName {
        match self {
            IndexTree::One(name) => TreeName::from(*name),
            IndexTree::PerRow(name) => name(row),
        }
    }
}

/// An index by an 8-byte key.
pub struct FixedIndexSchema {
    /// The tree of the index.
    pub tree: IndexTree,
    /// The key of a row, unique in its tree.
    pub key: fn(&[u8]) -> u64,
}

/// An index by a variable key.
pub struct IndexSchema {
    /// The tree of the index.
    pub tree: IndexTree,
    /// The key of a row, unique in its tree.
    pub key: KeyOf,
}

/// The definition of a table.
pub struct TableSchema {
    /// Up to 48 bytes; the names of the table's own trees start with it.
    pub name: &'static str,
    /// The primary key of a row.
    pub primary: KeyOf,
    /// Indexes by 8-byte keys.
    pub fixed: &'static [FixedIndexSchema],
    /// Indexes by variable keys.
    pub indexes: &'static [IndexSchema],
}

impl TableSchema {
    /// The name of the tree of primary keys.
    pub fn primary_tree(&self) -> TreeName {
        TreeName::of(&[self.name.as_bytes(), b"/Primary"])
    }

    pub(crate) fn rows_name(&self) -> TreeName {
        TreeName::of(&[self.name.as_bytes(), b"/Rows"])
    }

    pub(crate) fn reusable_name(&self) -> TreeName {
        TreeName::of(&[self.name.as_bytes(), b"/Reusable"])
    }
}

/// A table, for reading.
pub struct Table<'t, T> {
    tx: &'t T,
    schema: &'static TableSchema,
}

impl<'t, T: Transaction> Table<'t, T> {
    pub(crate) fn new(tx: &'t T, schema: &'static TableSchema) -> Self {
        Self { tx, schema }
    }

    /// Rows in the table.
    pub fn len(&self) -> Result<u64, StorageError> {
        Ok(self.tx.tree_state_or_empty(&self.schema.rows_name(), TreeKind::Rows)?.entries)
    }

    /// Whether the table has no row.
    pub fn is_empty(&self) -> Result<bool, StorageError> {
        Ok(self.len()? == 0)
    }

    /// Bytes of all rows.
    pub fn row_bytes(&self) -> Result<u64, StorageError> {
        Ok(self.tx.tree_state_or_empty(&self.schema.rows_name(), TreeKind::Rows)?.extra)
    }

    /// The row of that primary key.
    pub fn get(&self, primary_key: &[u8]) -> Result<Option<(RowId, &'t [u8])>, StorageError> {
        let primary =
            self.tx.tree_state_or_empty(&self.schema.primary_tree(), TreeKind::Variable)?;
        let Some(bytes) = tree::get(self.tx.pages(), &primary, primary_key)? else {
            return Ok(None);
        };
        let id = RowId::from_bytes(bytes)?;
        Ok(Some((id, rows::get(self.tx.pages(), id)?)))
    }

    /// Rows from the primary key `from` upwards.
    pub fn range(
        &self,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = RowBy<'t, Vec<u8>>> + use<'t, T>, StorageError> {
        let state = self.tx.tree_state_or_empty(&self.schema.primary_tree(), TreeKind::Variable)?;
        let entries = tree::range(self.tx.pages(), &state, from)?;
        Ok(Rows { pages: self.tx.pages(), entries })
    }

    /// Rows from the primary key `to` downwards.
    pub fn range_back(
        &self,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = RowBy<'t, Vec<u8>>> + use<'t, T>, StorageError> {
        let state = self.tx.tree_state_or_empty(&self.schema.primary_tree(), TreeKind::Variable)?;
        let entries = tree::range_back(self.tx.pages(), &state, to)?;
        Ok(Rows { pages: self.tx.pages(), entries })
    }

    /// Rows of the index by variable keys that is kept in `tree`, from the key `from` upwards.
    pub fn index_range(
        &self,
        tree: &TreeName,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = RowBy<'t, Vec<u8>>> + use<'t, T>, StorageError> {
        let state = self.tx.tree_state_or_empty(tree, TreeKind::Variable)?;
        let entries = tree::range(self.tx.pages(), &state, from)?;
        Ok(Rows { pages: self.tx.pages(), entries })
    }

    /// Entries in the fixed index kept in `tree`.
    pub fn fixed_len(&self, tree: &TreeName) -> Result<u64, StorageError> {
        Ok(self.tx.tree_state_or_empty(tree, TreeKind::Fixed)?.entries)
    }

    /// The row under `key` in the fixed index kept in `tree`.
    pub fn by_fixed(&self, tree: &TreeName, key: u64) -> Result<Option<&'t [u8]>, StorageError> {
        let state = self.tx.tree_state_or_empty(tree, TreeKind::Fixed)?;
        fixed_tree::get(self.tx.pages(), &state, key)?
            .map(|bytes| rows::get(self.tx.pages(), RowId::from_bytes(bytes)?))
            .transpose()
    }

    /// Rows of a fixed index from `from` (inclusive) upwards.
    pub fn fixed_range(
        &self,
        tree: &TreeName,
        from: u64,
    ) -> Result<FixedRows<'t, T>, StorageError> {
        let state = self.tx.tree_state_or_empty(tree, TreeKind::Fixed)?;
        let entries = fixed_tree::range(self.tx.pages(), &state, from)?;
        Ok(FixedRows(Rows { pages: self.tx.pages(), entries }))
    }

    /// Rows of a fixed index from `to` (inclusive) downwards.
    pub fn fixed_range_back(
        &self,
        tree: &TreeName,
        to: u64,
    ) -> Result<FixedRows<'t, T>, StorageError> {
        let state = self.tx.tree_state_or_empty(tree, TreeKind::Fixed)?;
        let entries = fixed_tree::range_back(self.tx.pages(), &state, to)?;
        Ok(FixedRows(Rows { pages: self.tx.pages(), entries }))
    }
}

/// A row and the key it was found by.
pub type RowBy<'t, K> = Result<(K, &'t [u8]), StorageError>;

/// Rows in the order of one of their keys.
struct Rows<'t, P, I> {
    pages: &'t P,
    entries: I,
}

impl<'t, K, P: Pages, I> Iterator for Rows<'t, P, I>
where
    I: Iterator<Item = Result<(K, &'t [u8]), StorageError>>,
{
    type Item = RowBy<'t, K>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|entry| {
            let (key, id) = entry?;
            Ok((key, rows::get(self.pages, RowId::from_bytes(id)?)?))
        })
    }
}

/// Rows in the order of a fixed index.
pub struct FixedRows<'t, T: Transaction>(Rows<'t, T::Pages, FixedRange<'t, T::Pages>>);

impl<'t, T: Transaction> Iterator for FixedRows<'t, T> {
    type Item = RowBy<'t, u64>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}
