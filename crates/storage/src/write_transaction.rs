//! Writing: one transaction at a time, on top of the newest sealed state.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{
    catalog::{TreeKind, TreeState},
    environment::Environment,
    error::StorageError,
    fixed_tree,
    format::PageNumber,
    memory_budget::MemoryShare,
    rows::{self, RowId},
    sealed::SealedTransaction,
    snapshot::View,
    table::TableSchema,
    table_mut::TableMut,
    transaction::{Catalog, Transaction, stored_state},
    tree,
    tree_name::TreeName,
    write_pages::{PagesSavepoint, WritePages},
};

struct OpenTree {
    name: TreeName,
    state: TreeState,
    /// Its state as stored in the tree of trees, `None` when it is not there.
    stored: Option<TreeState>,
}

impl OpenTree {
    /// A tree that was opened but not changed, or never created, is not stored.
    fn needs_storing(&self) -> bool {
        match self.stored {
            Some(stored) => stored != self.state,
            None => self.state.root.get() != 0 || self.state.entries != 0,
        }
    }
}

/// A moment inside a write transaction to which it can return; see [`WriteTransaction::savepoint`].
pub struct Savepoint {
    pages: PagesSavepoint,
    trees: Vec<TreeState>,
}

/// The one writer of an environment. Dropping it rolls everything back.
pub struct WriteTransaction {
    environment: Arc<Environment>,
    id: u64,
    generation: u64,
    /// `None` once sealed.
    pages: Option<WritePages>,
    trees: Vec<OpenTree>,
    by_name: FxHashMap<TreeName, usize>,
}

impl WriteTransaction {
    /// The caller holds the environment's writer lock, which this value releases. Its pages draw
    /// from `memory`.
    pub(crate) fn new(
        environment: Arc<Environment>,
        base: View,
        generation: u64,
        memory: MemoryShare,
    ) -> Self {
        Self {
            environment,
            id: base.transaction + 1,
            generation,
            pages: Some(WritePages::new(base, memory)),
            trees: Vec::new(),
            by_name: FxHashMap::default(),
        }
    }

    /// The number of this transaction; they are consecutive.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes of pages held: changed ones, and what undoing would need.
    pub fn held_bytes(&self) -> u64 {
        self.pages.as_ref().map_or(0, WritePages::held_bytes)
    }

    /// Pages changed so far.
    pub fn dirty_pages(&self) -> usize {
        self.pages.as_ref().map_or(0, WritePages::dirty_pages)
    }

    /// The tree with variable keys of that name, created by the first `put`.
    pub fn tree_mut(&mut self, name: &TreeName) -> Result<TreeMut<'_>, StorageError> {
        let index = self.open(name, TreeKind::Variable, 0)?;
        Ok(TreeMut { tx: self, index })
    }

    /// The tree with 8-byte keys of that name, created by the first `put`. Its values have
    /// `value_bytes` bytes, up to 64, always the same.
    pub fn fixed_tree_mut(
        &mut self,
        name: &TreeName,
        value_bytes: u16,
    ) -> Result<FixedTreeMut<'_>, StorageError> {
        let index = self.open(name, TreeKind::Fixed, value_bytes)?;
        Ok(FixedTreeMut { tx: self, index })
    }

    /// The table of that schema, created by the first `insert`.
    pub fn table_mut(&mut self, schema: &'static TableSchema) -> TableMut<'_> {
        TableMut::new(self, schema)
    }

    /// Empties a tree and frees its pages.
    pub fn drop_tree(&mut self, name: &TreeName) -> Result<(), StorageError> {
        let Some(state) = self.tree_state(name)? else { return Ok(()) };
        let index = self.open(name, state.kind, state.value_bytes)?;
        let (pages, trees) = self.parts();
        let mut freed = Vec::new();
        let mut visit = |page| {
            freed.push(page);
            Ok(())
        };
        match state.kind {
            TreeKind::Variable => tree::walk_pages(pages, &state, &mut visit)?,
            TreeKind::Fixed => fixed_tree::walk_pages(pages, &state, &mut visit)?,
            TreeKind::Rows => {
                let detail = "the rows of a table are not a tree";
                return Err(StorageError::structure(state.root, detail));
            }
        }
        freed.into_iter().try_for_each(|page| pages.free(page))?;
        trees[index].state = TreeState { depth: 0, root: PageNumber(0), entries: 0, ..state };
        Ok(())
    }

    /// Sets a savepoint, to which [`WriteTransaction::roll_back_to`] can return. Only the newest
    /// savepoint is valid.
    pub fn savepoint(&mut self) -> Savepoint {
        let trees = self.trees.iter().map(|tree| tree.state).collect();
        Savepoint { pages: self.parts().0.savepoint(), trees }
    }

    /// Undoes everything since the savepoint.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) {
        self.parts().0.roll_back(savepoint.pages);
        for tree in self.trees.drain(savepoint.trees.len()..) {
            self.by_name.remove(&tree.name);
        }
        for (tree, state) in self.trees.iter_mut().zip(savepoint.trees) {
            tree.state = state;
        }
    }

    /// Sets whether changes go through even when the budget has no room for their pages. They are
    /// counted all the same. For changes that were already accepted with a bounded size.
    pub fn exceed_memory(&mut self, exceeds: bool) {
        self.parts().0.exceed_memory(exceeds);
    }

    /// Makes the transaction durable: `Ok` means that it survives a power cut.
    pub fn commit(self) -> Result<(), StorageError> {
        self.seal()?.make_durable()
    }

    /// Closes the transaction: the next one builds on it, but readers do not see it and it is not
    /// durable before [`SealedTransaction::make_durable`].
    pub fn seal(mut self) -> Result<SealedTransaction, StorageError> {
        if self.parts().0.is_clean() {
            return Ok(SealedTransaction::unchanged(self.environment.clone()));
        }
        // Closing takes a few pages.
        self.exceed_memory(true);
        self.store_tree_states()?;
        let Some(pages) = self.pages.take() else { unreachable!("sealing consumes") };
        let environment = self.environment.clone();
        let versions = environment.version_bytes();
        let frozen = pages.seal(self.id, versions, environment.encryption.as_ref())?;
        environment.accept_sealed(frozen, self.generation)
    }

    fn store_tree_states(&mut self) -> Result<(), StorageError> {
        let Some(pages) = self.pages.as_mut() else { unreachable!("sealing consumes") };
        for open in &self.trees {
            if !open.needs_storing() {
                continue;
            }
            let mut root_tree = pages.root.root_tree;
            tree::put(pages, &mut root_tree, open.name.as_bytes(), &open.state.to_bytes())?;
            pages.root.root_tree = root_tree;
        }
        Ok(())
    }

    fn parts(&mut self) -> (&mut WritePages, &mut Vec<OpenTree>) {
        match &mut self.pages {
            Some(pages) => (pages, &mut self.trees),
            None => unreachable!("only sealing takes the pages, and it consumes the transaction"),
        }
    }

    /// The position of the tree among the open ones.
    fn open(
        &mut self,
        name: &TreeName,
        kind: TreeKind,
        value_bytes: u16,
    ) -> Result<usize, StorageError> {
        if let Some(index) = self.by_name.get(name) {
            let state = self.trees[*index].state;
            return self.check_kind(state, kind, value_bytes).map(|()| *index);
        }
        let stored = self.tree_state(name)?;
        let state = stored.unwrap_or(TreeState { value_bytes, ..TreeState::empty(kind) });
        self.check_kind(state, kind, value_bytes)?;
        self.trees.push(OpenTree { name: *name, state, stored });
        self.by_name.insert(*name, self.trees.len() - 1);
        Ok(self.trees.len() - 1)
    }

    fn check_kind(
        &self,
        state: TreeState,
        kind: TreeKind,
        value_bytes: u16,
    ) -> Result<(), StorageError> {
        if state.kind == kind && state.value_bytes == value_bytes {
            return Ok(());
        }
        Err(StorageError::structure(state.root, "a tree is not of the requested kind"))
    }

    fn owned(
        &mut self,
        name: &TreeName,
        kind: TreeKind,
        value_bytes: u16,
    ) -> Result<usize, StorageError> {
        let index = self.open(name, kind, value_bytes)?;
        self.trees[index].state.flags |= TreeState::OWNED_BY_TABLE;
        Ok(index)
    }

    /// True when the key is new.
    pub(crate) fn owned_tree_put(
        &mut self,
        name: &TreeName,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StorageError> {
        let index = self.owned(name, TreeKind::Variable, 0)?;
        let (pages, trees) = self.parts();
        tree::put(pages, &mut trees[index].state, key, value)
    }

    pub(crate) fn owned_tree_delete(
        &mut self,
        name: &TreeName,
        key: &[u8],
    ) -> Result<(), StorageError> {
        let index = self.owned(name, TreeKind::Variable, 0)?;
        let (pages, trees) = self.parts();
        if tree::delete(pages, &mut trees[index].state, key)? {
            return Ok(());
        }
        Err(StorageError::structure(
            self.trees[index].state.root,
            "an index lacks a row of its table",
        ))
    }

    pub(crate) fn owned_fixed_put(
        &mut self,
        name: &TreeName,
        key: u64,
        value: &[u8],
    ) -> Result<(), StorageError> {
        let index = self.owned(name, TreeKind::Fixed, value.len() as u16)?;
        let (pages, trees) = self.parts();
        fixed_tree::put(pages, &mut trees[index].state, key, value).map(|_| ())
    }

    pub(crate) fn owned_fixed_delete(
        &mut self,
        name: &TreeName,
        key: u64,
    ) -> Result<(), StorageError> {
        let index = self.owned(name, TreeKind::Fixed, 8)?;
        let (pages, trees) = self.parts();
        if fixed_tree::delete(pages, &mut trees[index].state, key)? {
            return Ok(());
        }
        Err(StorageError::structure(
            self.trees[index].state.root,
            "an index lacks a row of its table",
        ))
    }

    pub(crate) fn insert_row(
        &mut self,
        schema: &TableSchema,
        row: &[u8],
    ) -> Result<RowId, StorageError> {
        self.with_rows(schema, |pages, rows, reusable| rows::insert(pages, rows, reusable, row))
    }

    pub(crate) fn delete_row(
        &mut self,
        schema: &TableSchema,
        id: RowId,
    ) -> Result<(), StorageError> {
        self.with_rows(schema, |pages, rows, reusable| rows::delete(pages, rows, reusable, id))
    }

    fn with_rows<R>(
        &mut self,
        schema: &TableSchema,
        change: impl FnOnce(&mut WritePages, &mut TreeState, &mut TreeState) -> Result<R, StorageError>,
    ) -> Result<R, StorageError> {
        let rows = self.owned(&schema.rows_name(), TreeKind::Rows, 0)?;
        let reusable = self.owned(&schema.reusable_name(), TreeKind::Fixed, 0)?;
        let (pages, trees) = self.parts();
        let (mut rows_state, mut reusable_state) = (trees[rows].state, trees[reusable].state);
        let result = change(pages, &mut rows_state, &mut reusable_state);
        trees[rows].state = rows_state;
        trees[reusable].state = reusable_state;
        result
    }
}

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        self.environment.release_writer();
    }
}

impl Catalog for WriteTransaction {
    type Pages = WritePages;

    fn pages(&self) -> &WritePages {
        match &self.pages {
            Some(pages) => pages,
            None => unreachable!("only sealing takes the pages, and it consumes the transaction"),
        }
    }

    fn tree_state(&self, name: &TreeName) -> Result<Option<TreeState>, StorageError> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(Some(self.trees[*index].state));
        }
        let pages = self.pages();
        stored_state(pages, &pages.root.root_tree, name)
    }
}

impl Transaction for WriteTransaction {}

/// A tree with variable keys, for writing.
pub struct TreeMut<'t> {
    tx: &'t mut WriteTransaction,
    index: usize,
}

impl TreeMut<'_> {
    /// The value under the key.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, StorageError> {
        tree::get(self.tx.pages(), &self.tx.trees[self.index].state, key)
    }

    /// Stores the value under the key; true when the key is new.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StorageError> {
        let index = self.index;
        let (pages, trees) = self.tx.parts();
        tree::put(pages, &mut trees[index].state, key, value)
    }

    /// Stores the value under a new key; false, and nothing changes, when the key is there. One
    /// descent of the tree where [`TreeMut::get`] and [`TreeMut::put`] would take two.
    pub fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StorageError> {
        let index = self.index;
        let (pages, trees) = self.tx.parts();
        tree::insert_new(pages, &mut trees[index].state, key, value)
    }

    /// Removes the key; false when it was not there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, StorageError> {
        let index = self.index;
        let (pages, trees) = self.tx.parts();
        tree::delete(pages, &mut trees[index].state, key)
    }
}

/// A tree with 8-byte keys, for writing.
pub struct FixedTreeMut<'t> {
    tx: &'t mut WriteTransaction,
    index: usize,
}

impl FixedTreeMut<'_> {
    /// The value under the key.
    pub fn get(&self, key: u64) -> Result<Option<&[u8]>, StorageError> {
        fixed_tree::get(self.tx.pages(), &self.tx.trees[self.index].state, key)
    }

    /// Stores the value under the key; true when the key is new.
    pub fn put(&mut self, key: u64, value: &[u8]) -> Result<bool, StorageError> {
        let index = self.index;
        let (pages, trees) = self.tx.parts();
        fixed_tree::put(pages, &mut trees[index].state, key, value)
    }

    /// Removes the key; false when it was not there.
    pub fn delete(&mut self, key: u64) -> Result<bool, StorageError> {
        let index = self.index;
        let (pages, trees) = self.tx.parts();
        fixed_tree::delete(pages, &mut trees[index].state, key)
    }
}
