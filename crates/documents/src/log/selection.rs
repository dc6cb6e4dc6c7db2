//! Which part of the log is read.

use std::slice;

use model::{CollectionName, Etag};
use storage::{Transaction, TreeName};

use super::{
    kinds::{EntryKind, EntryKinds},
    tables::{LOG_TABLES, LogTable},
};
use crate::{collections::collection, error::DocumentError};

/// Kinds of entries, of some collections or of all. Several together select what any of them does.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    kinds: EntryKinds,
    collections: &'a [CollectionName],
    last: Etag,
}

impl<'a> Selection<'a> {
    /// These kinds, whatever collection they belong to.
    pub fn all(kinds: impl Into<EntryKinds>) -> Self {
        Self::of_collections(kinds, &[])
    }

    /// These kinds of documents of one collection; of all, when there is none given. Attachments are
    /// filed under no collection: they, and their tombstones, are in no selection by collections.
    pub fn of_collection(
        kinds: impl Into<EntryKinds>,
        collection: impl Into<Option<&'a CollectionName>>,
    ) -> Self {
        let collections = collection.into().map_or(&[][..], slice::from_ref);
        Self::of_collections(kinds, collections)
    }

    /// As [`Selection::of_collection`] for several collections; of all, as [`Selection::all`], when there
    /// are none.
    pub fn of_collections(kinds: impl Into<EntryKinds>, collections: &'a [CollectionName]) -> Self {
        Self { kinds: kinds.into(), collections, last: Etag(u64::MAX) }
    }

    /// Whether entries of a kind are selected.
    pub fn has(&self, kind: EntryKind) -> bool {
        self.kinds.contains(kind)
    }

    /// The same up to an etag, inclusive.
    pub fn up_to(self, last: Etag) -> Self {
        Self { last: self.last.min(last), ..self }
    }
}

/// A tree that holds selected entries.
pub(super) struct SelectedTree {
    pub(super) table: &'static LogTable,
    pub(super) tree: TreeName,
    /// The kinds that are selected of those in the tree.
    pub(super) kinds: EntryKinds,
    /// The last etag that is selected; any is, if it is the last of all.
    pub(super) last: Etag,
}

impl SelectedTree {
    /// Whether all of its entries are selected.
    pub(super) fn is_whole(&self) -> bool {
        self.has_all_kinds() && self.last == Etag(u64::MAX)
    }

    /// Whether entries of all of its kinds are selected.
    pub(super) fn has_all_kinds(&self) -> bool {
        self.kinds == self.table.kinds
    }
}

/// The trees that hold what is selected. Of a collection that does not exist there is none.
pub(super) fn trees_of(
    tx: &impl Transaction,
    selections: &[Selection<'_>],
) -> Result<Vec<SelectedTree>, DocumentError> {
    let mut trees = Vec::new();
    for Selection { kinds, collections, last } in selections {
        if collections.is_empty() {
            add_trees(&mut trees, *kinds, *last, |table| Some((table.log)()));
        }
        for name in *collections {
            let Some(number) = collection(tx, name)?.map(|found| found.number) else { continue };
            add_trees(&mut trees, *kinds, *last, |table| {
                table.log_of_collection.map(|log_of| log_of(number))
            });
        }
    }
    Ok(trees)
}

/// The trees of one collection, by its number.
pub(super) fn trees_of_number(kinds: EntryKinds, number: u32) -> Vec<SelectedTree> {
    let mut trees = Vec::new();
    add_trees(&mut trees, kinds, Etag(u64::MAX), |table| {
        table.log_of_collection.map(|log_of| log_of(number))
    });
    trees
}

/// Adds trees; one that is there with the same end is not added a second time.
fn add_trees(
    trees: &mut Vec<SelectedTree>,
    kinds: EntryKinds,
    last: Etag,
    tree_of: impl Fn(&LogTable) -> Option<TreeName>,
) {
    for table in LOG_TABLES {
        let kinds = kinds.shared_with(table.kinds);
        if kinds.is_empty() {
            continue;
        }
        let Some(tree) = tree_of(table) else { continue };
        match trees.iter_mut().find(|known| known.tree == tree && known.last == last) {
            Some(known) => known.kinds = known.kinds | kinds,
            None => trees.push(SelectedTree { table, tree, kinds, last }),
        }
    }
}
