//! Which part of the log is read.

use std::slice;

use model::CollectionName;
use storage::{Transaction, TreeName};

use super::{
    kinds::EntryKinds,
    tables::{LOG_TABLES, LogTable},
};
use crate::{collections::collection, error::DocumentError};

/// Kinds of entries, of some collections or of all. Several together select what any of them does.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    kinds: EntryKinds,
    collections: &'a [CollectionName],
}

impl<'a> Selection<'a> {
    /// These kinds, whatever collection they belong to.
    pub fn all(kinds: impl Into<EntryKinds>) -> Self {
        Self { kinds: kinds.into(), collections: &[] }
    }

    /// These kinds of documents of one collection; of all, when there is none given. Attachments are
    /// filed under no collection: they, and their tombstones, are in no selection by collections.
    pub fn of_collection(
        kinds: impl Into<EntryKinds>,
        collection: impl Into<Option<&'a CollectionName>>,
    ) -> Self {
        let collections = collection.into().map_or(&[][..], slice::from_ref);
        Self { kinds: kinds.into(), collections }
    }

    /// As [`Selection::of_collection`] for several collections; of all, as [`Selection::all`], when there
    /// are none.
    pub fn of_collections(kinds: impl Into<EntryKinds>, collections: &'a [CollectionName]) -> Self {
        Self { kinds: kinds.into(), collections }
    }
}

/// A tree that holds selected entries.
pub(super) struct SelectedTree {
    pub(super) table: &'static LogTable,
    pub(super) tree: TreeName,
    /// The kinds that are selected of those in the tree.
    pub(super) kinds: EntryKinds,
}

impl SelectedTree {
    /// Whether all of its entries are selected.
    pub(super) fn is_whole(&self) -> bool {
        self.kinds == self.table.kinds
    }
}

/// The trees that hold what is selected, each once. Of a collection that does not exist there is none.
pub(super) fn trees_of(
    tx: &impl Transaction,
    selections: &[Selection<'_>],
) -> Result<Vec<SelectedTree>, DocumentError> {
    let mut trees = Vec::new();
    for selection in selections {
        if selection.collections.is_empty() {
            add_trees(&mut trees, selection.kinds, |table| Some((table.log)()));
        }
        for name in selection.collections {
            let Some(number) = collection(tx, name)?.map(|found| found.number) else { continue };
            add_trees(&mut trees, selection.kinds, |table| {
                table.log_of_collection.map(|log_of| log_of(number))
            });
        }
    }
    leave_out_repeated(&mut trees);
    Ok(trees)
}

/// What is selected of all collections is not read a second time from those of single ones.
fn leave_out_repeated(trees: &mut Vec<SelectedTree>) {
    for at in 0..trees.len() {
        let (log, repeated) = ((trees[at].table.log)(), trees[at].kinds);
        if trees[at].tree == log {
            let others = trees.iter_mut().filter(|other| (other.table.log)() == log);
            let of_collections = others.filter(|other| other.tree != log);
            of_collections.for_each(|other| other.kinds = other.kinds.without(repeated));
        }
    }
    trees.retain(|selected| !selected.kinds.is_empty());
}

/// The trees of one collection, by its number.
pub(super) fn trees_of_number(kinds: EntryKinds, number: u32) -> Vec<SelectedTree> {
    let mut trees = Vec::new();
    add_trees(&mut trees, kinds, |table| table.log_of_collection.map(|log_of| log_of(number)));
    trees
}

fn add_trees(
    trees: &mut Vec<SelectedTree>,
    kinds: EntryKinds,
    tree_of: impl Fn(&LogTable) -> Option<TreeName>,
) {
    for table in LOG_TABLES {
        let kinds = kinds.shared_with(table.kinds);
        if kinds.is_empty() {
            continue;
        }
        let Some(tree) = tree_of(table) else { continue };
        match trees.iter_mut().find(|known| known.tree == tree) {
            Some(known) => known.kinds = known.kinds | kinds,
            None => trees.push(SelectedTree { table, tree, kinds }),
        }
    }
}
