//! What an environment spends its space on.

use std::ops::Bound;

use crate::{
    catalog::{TreeKind, TreeState},
    environment::{Environment, EnvironmentStatistics},
    error::StorageError,
    fixed_tree,
    free_space::bitmap_page,
    snapshot::{Snapshot, View},
    tree,
};

/// The space of an environment, at one moment.
#[derive(Clone, Debug)]
pub struct StorageReport {
    /// The totals of the environment.
    pub statistics: EnvironmentStatistics,
    /// The named trees, indexes of tables included, in the order of their names.
    pub trees: Vec<TreeReport>,
    /// The tables, in the order of their names.
    pub tables: Vec<TableReport>,
    /// The journal files, oldest first; the spare for the next one is last.
    pub journals: Vec<JournalReport>,
    /// Pages of headers, bitmaps, the root, and the tree of names.
    pub system_pages: u64,
    /// Pages of rows, and runs of large rows and values.
    pub row_and_run_pages: u64,
}

/// The size of one named tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeReport {
    /// The name of the tree.
    pub name: String,
    /// Whether its keys have 8 bytes each.
    pub has_fixed_keys: bool,
    /// The number of levels of pages.
    pub depth: u8,
    /// The number of entries.
    pub entries: u64,
    /// Pages above the leaves.
    pub branch_pages: u64,
    /// Pages with entries; runs of long values are not counted here.
    pub leaf_pages: u64,
}

/// The rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// The name of the table.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// Bytes of all rows.
    pub row_bytes: u64,
}

/// The size and content of one journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalReport {
    /// Its number; 0 for the spare.
    pub number: u64,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Bytes that no record has taken yet.
    pub unused_bytes: u64,
    /// The newest transaction in it; `None` for the spare.
    pub last_transaction: Option<u64>,
}

impl Environment {
    /// What the environment spends its space on. Reads the inner pages of every tree, no leaves.
    pub fn report(&self) -> Result<StorageReport, StorageError> {
        let read = self.read();
        let snapshot = read.view();
        let (trees, tables) = named_trees(snapshot)?;
        let (branches, leaves) = count_pages(snapshot, &snapshot.root.root_tree)?;
        let statistics = self.statistics();
        let system_pages = system_pages(snapshot) + branches + leaves;
        let tree_pages: u64 = trees.iter().map(|tree| tree.branch_pages + tree.leaf_pages).sum();
        let used = snapshot.root.next_page.get() - snapshot.free_space.free_pages();
        Ok(StorageReport {
            statistics,
            trees,
            tables,
            journals: self.journal.files(),
            system_pages,
            row_and_run_pages: used.saturating_sub(system_pages + tree_pages),
        })
    }
}

/// Two headers, the root, and a bitmap per section.
fn system_pages(snapshot: &Snapshot) -> u64 {
    let bitmaps = (0..).take_while(|section| bitmap_page(*section) < snapshot.root.next_page);
    3 + bitmaps.count() as u64
}

fn named_trees(snapshot: &View) -> Result<(Vec<TreeReport>, Vec<TableReport>), StorageError> {
    let root_tree = snapshot.root.root_tree;
    let (mut trees, mut tables) = (Vec::new(), Vec::new());
    for entry in tree::range(snapshot, &root_tree, Bound::Unbounded)? {
        let (name, bytes) = entry?;
        let state = TreeState::read(bytes, root_tree.root)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        if state.kind == TreeKind::Rows {
            let name = name.strip_suffix("/Rows").unwrap_or(&name).to_owned();
            tables.push(TableReport { name, rows: state.entries, row_bytes: state.extra });
            continue;
        }
        let (branch_pages, leaf_pages) = count_pages(snapshot, &state)?;
        trees.push(TreeReport {
            name,
            has_fixed_keys: state.kind == TreeKind::Fixed,
            depth: state.depth,
            entries: state.entries,
            branch_pages,
            leaf_pages,
        });
    }
    Ok((trees, tables))
}

/// Branches and leaves of a tree, without reading the leaves.
fn count_pages(snapshot: &View, state: &TreeState) -> Result<(u64, u64), StorageError> {
    let mut level = if state.depth == 0 { Vec::new() } else { vec![state.root] };
    let mut branches = 0;
    for _ in 1..state.depth {
        branches += level.len() as u64;
        let mut below = Vec::new();
        for number in level {
            below.extend(match state.kind {
                TreeKind::Fixed => fixed_tree::children(snapshot, number)?,
                TreeKind::Variable | TreeKind::Rows => tree::children(snapshot, number)?,
            });
        }
        level = below;
    }
    Ok((branches, level.len() as u64))
}
