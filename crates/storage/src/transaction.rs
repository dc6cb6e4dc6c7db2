//! Reading: what read and write transactions have in common.

use std::ops::Bound;

use crate::{
    catalog::{TreeKind, TreeState},
    error::StorageError,
    fixed_tree,
    rows::{self, RowId},
    snapshot::{Pages, View},
    table::{Table, TableSchema},
    tree,
    tree_name::TreeName,
};

/// A key and its value.
pub type TreeEntry<'t> = Result<(Vec<u8>, &'t [u8]), StorageError>;
/// A key, borrowed until the next step, and its value.
pub type ScannedEntry<'s, 't> = (&'s [u8], &'t [u8]);
/// An 8-byte key and its value.
pub type FixedEntry<'t> = Result<(u64, &'t [u8]), StorageError>;

/// Where trees are found by name; sealed, since pages are the engine's own business.
pub(crate) trait Catalog {
    type Pages: Pages;
    fn pages(&self) -> &Self::Pages;
    /// The state of a named tree, if it exists.
    fn tree_state(&self, name: &TreeName) -> Result<Option<TreeState>, StorageError>;

    /// The state of a tree of that kind; an empty one when there is none.
    fn tree_state_or_empty(
        &self,
        name: &TreeName,
        kind: TreeKind,
    ) -> Result<TreeState, StorageError> {
        let state = self.tree_state(name)?.unwrap_or(TreeState::empty(kind));
        if state.kind != kind {
            return Err(StorageError::structure(state.root, "a tree is not of the requested kind"));
        }
        Ok(state)
    }
}

/// A consistent view of an environment: [`ReadTransaction`] or [`crate::WriteTransaction`].
#[expect(private_bounds, reason = "sealed: the engine's transactions are the only ones")]
pub trait Transaction: Catalog + Sized + Sync {
    /// The tree with variable keys of that name; a missing one reads as empty.
    fn tree(&self, name: &TreeName) -> Result<Tree<'_, Self>, StorageError> {
        Ok(Tree { tx: self, state: self.tree_state_or_empty(name, TreeKind::Variable)? })
    }

    /// The tree with 8-byte keys of that name; a missing one reads as empty.
    fn fixed_tree(&self, name: &TreeName) -> Result<FixedTree<'_, Self>, StorageError> {
        Ok(FixedTree { tx: self, state: self.tree_state_or_empty(name, TreeKind::Fixed)? })
    }

    /// The table of that schema; a missing one reads as empty.
    fn table(&self, schema: &'static TableSchema) -> Table<'_, Self> {
        Table::new(self, schema)
    }

    /// A row of a table by its storage id.
    fn row(&self, id: RowId) -> Result<&[u8], StorageError> {
        rows::get(self.pages(), id)
    }
}

/// The newest durable state at the moment the transaction began. Cheap to create and to clone;
/// never blocks the writer and is never blocked by it. Holding one for long keeps old page versions
/// in memory.
#[derive(Clone)]
pub struct ReadTransaction {
    view: View,
}

impl ReadTransaction {
    pub(crate) fn new(view: View) -> Self {
        Self { view }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// A transaction on the same snapshot that starts without decrypted pages. All that a transaction reads of an
    /// encrypted environment stays in memory until it and its clones have ended, so those that read very much
    /// continue with a renewed one now and then. Of an environment that is not encrypted: the same as a clone.
    pub fn renewed(&self) -> ReadTransaction {
        ReadTransaction { view: self.view.renewed() }
    }

    /// The newest transaction that this one sees.
    pub fn id(&self) -> u64 {
        self.view.transaction
    }
}

impl Catalog for ReadTransaction {
    type Pages = View;

    fn pages(&self) -> &View {
        &self.view
    }

    fn tree_state(&self, name: &TreeName) -> Result<Option<TreeState>, StorageError> {
        stored_state(&self.view, &self.view.root.root_tree, name)
    }
}

impl Transaction for ReadTransaction {}

pub(crate) fn stored_state(
    pages: &impl Pages,
    root_tree: &TreeState,
    name: &TreeName,
) -> Result<Option<TreeState>, StorageError> {
    tree::get(pages, root_tree, name.as_bytes())?
        .map(|bytes| TreeState::read(bytes, root_tree.root))
        .transpose()
}

/// A tree with variable keys, for reading.
pub struct Tree<'t, T> {
    tx: &'t T,
    state: TreeState,
}

impl<'t, T: Transaction> Tree<'t, T> {
    /// Entries in the tree.
    pub fn len(&self) -> u64 {
        self.state.entries
    }

    /// Whether the tree has no entry.
    pub fn is_empty(&self) -> bool {
        self.state.entries == 0
    }

    /// The value under the key.
    pub fn get(&self, key: &[u8]) -> Result<Option<&'t [u8]>, StorageError> {
        tree::get(self.tx.pages(), &self.state, key)
    }

    /// Entries from `from` upwards.
    pub fn range(
        &self,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = TreeEntry<'t>> + use<'t, T>, StorageError> {
        tree::range(self.tx.pages(), &self.state, from)
    }

    /// Entries from `to` downwards.
    pub fn range_back(
        &self,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = TreeEntry<'t>> + use<'t, T>, StorageError> {
        tree::range_back(self.tx.pages(), &self.state, to)
    }

    /// The same as [`Tree::range`], lending its keys.
    pub fn scan(&self, from: Bound<&[u8]>) -> Result<TreeScan<'t>, StorageError> {
        let range = tree::range(self.tx.pages(), &self.state, from)?;
        Ok(TreeScan { scan: Box::new(tree::Scan::forward(range)), key: Vec::new() })
    }

    /// The same as [`Tree::range_back`], lending its keys.
    pub fn scan_back(&self, to: Bound<&[u8]>) -> Result<TreeScan<'t>, StorageError> {
        let range = tree::range_back(self.tx.pages(), &self.state, to)?;
        Ok(TreeScan { scan: Box::new(tree::Scan::backward(range)), key: Vec::new() })
    }
}

/// Walks the entries of a tree. Unlike an iterator it lends its keys, so an entry costs no allocation.
pub struct TreeScan<'t> {
    scan: Box<dyn tree::Step<'t> + Send + 't>,
    key: Vec<u8>,
}

impl<'t> TreeScan<'t> {
    /// The next entry, `None` after the last.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its keys")]
    pub fn next(&mut self) -> Result<Option<ScannedEntry<'_, 't>>, StorageError> {
        let value = self.scan.step(&mut self.key)?;
        Ok(value.map(|value| (&self.key[..], value)))
    }
}

/// A tree with 8-byte keys, for reading.
pub struct FixedTree<'t, T> {
    tx: &'t T,
    state: TreeState,
}

impl<'t, T: Transaction> FixedTree<'t, T> {
    /// Entries in the tree.
    pub fn len(&self) -> u64 {
        self.state.entries
    }

    /// Whether the tree has no entry.
    pub fn is_empty(&self) -> bool {
        self.state.entries == 0
    }

    /// The value under the key.
    pub fn get(&self, key: u64) -> Result<Option<&'t [u8]>, StorageError> {
        fixed_tree::get(self.tx.pages(), &self.state, key)
    }

    /// The entry with the smallest key.
    pub fn first(&self) -> Result<Option<(u64, &'t [u8])>, StorageError> {
        self.range(0)?.next().transpose()
    }

    /// The entry with the largest key.
    pub fn last(&self) -> Result<Option<(u64, &'t [u8])>, StorageError> {
        self.range_back(u64::MAX)?.next().transpose()
    }

    /// How many entries there are from `from` (inclusive) upwards; counting ends at `at_most`. Reads
    /// no values, and a page for some 500 entries.
    pub fn count_from(&self, from: u64, at_most: u64) -> Result<u64, StorageError> {
        fixed_tree::count_from(self.tx.pages(), &self.state, from, at_most)
    }

    /// Entries from `from` (inclusive) upwards.
    pub fn range(
        &self,
        from: u64,
    ) -> Result<impl Iterator<Item = FixedEntry<'t>> + use<'t, T>, StorageError> {
        fixed_tree::range(self.tx.pages(), &self.state, from)
    }

    /// Entries from `to` (inclusive) downwards.
    pub fn range_back(
        &self,
        to: u64,
    ) -> Result<impl Iterator<Item = FixedEntry<'t>> + use<'t, T>, StorageError> {
        fixed_tree::range_back(self.tx.pages(), &self.state, to)
    }
}
