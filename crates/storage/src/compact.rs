//! Compaction: a new environment with the content of an old one and none of its holes.
//!
//! Everything is written through the public interface: trees entry by entry, tables row by row in
//! the order of their primary keys. Rows are copied as they are, but get new ids, so the indexes of
//! a table are rebuilt by its schema and not copied. The old environment is only read;
//! unfinished.rs describes how the new one takes its place and what a power cut leaves behind at
//! each step.

use std::{
    ops::{Bound, ControlFlow},
    path::PathBuf,
    sync::Arc,
};

use platform::Platform;

use crate::{
    bulk_writer::BulkWriter,
    catalog::{TreeKind, TreeState},
    environment::{Environment, EnvironmentOptions},
    error::StorageError,
    format::PageNumber,
    open::DATA_FILE,
    table::TableSchema,
    transaction::{ReadTransaction, Transaction},
    tree,
    tree_name::TreeName,
    unfinished::UnfinishedEnvironment,
};

/// The numbers of items that compaction copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Trees, without those that are part of a table.
    pub trees: u64,
    /// The entries of these trees.
    pub entries: u64,
    /// Tables with their rows.
    pub tables: u64,
    /// The rows of these tables.
    pub rows: u64,
    /// Bytes of these rows.
    pub row_bytes: u64,
}

/// The result of compacting an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactOutcome {
    /// Bytes of the data file before compaction.
    pub before_bytes: u64,
    /// Bytes of the data file after compaction.
    pub after_bytes: u64,
    /// The numbers of items that were copied.
    pub report: CompactReport,
}

/// What a compaction is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactStep {
    /// It copies a tree with variable keys.
    Tree,
    /// It copies a tree with fixed keys.
    FixedTree,
    /// It copies the rows of a table.
    Table,
    /// Everything is copied; the copy is being read and checked.
    Verifying,
}

/// How far a compaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactProgress {
    /// The step that is being executed.
    pub step: CompactStep,
    /// The tree or table being copied; empty while verifying.
    pub name: String,
    /// Entries or rows of that tree or table copied so far.
    pub entries_done: u64,
    /// Entries or rows in it altogether.
    pub entries: u64,
    /// Trees and tables copied completely.
    pub trees_done: u64,
    /// Trees and tables to copy.
    pub trees: u64,
    /// Bytes of keys, values and rows copied so far, over all trees and tables.
    pub bytes_done: u64,
}

/// Receives the progress of a compaction and decides whether it continues.
pub type CompactObserver<'o> = &'o mut dyn FnMut(&CompactProgress) -> ControlFlow<()>;

/// The observer is called each time this many entries have been copied, and at the start and end of
/// each tree.
const OBSERVED_ENTRIES: u64 = 1024;
const OBSERVED_BYTES: u64 = 1024 * 1024;
/// Entries and bytes of values that are read before what was decrypted is released.
const PORTION_ENTRIES: usize = 2000;
const PORTION_BYTES: usize = 16 * 1024 * 1024;

/// Copies everything in `source` to the empty environment `target`, in transactions of bounded size.
///
/// # Errors
/// [`StorageError::UnknownTable`] when a table is in none of `schemas`; [`StorageError::Stopped`]
/// when the observer asks for it; errors of reading and writing. Whatever has been written to
/// `target` by then stays there.
pub fn compact(
    source: &ReadTransaction,
    target: &Arc<Environment>,
    schemas: &[&'static TableSchema],
    observer: CompactObserver<'_>,
) -> Result<CompactReport, StorageError> {
    let trees: Vec<(TreeName, TreeState)> = named_trees(source)?
        .into_iter()
        // The indexes of a table are rebuilt from its schema.
        .filter(|(_, state)| {
            state.kind == TreeKind::Rows || state.flags & TreeState::OWNED_BY_TABLE == 0
        })
        .collect();
    let progress = Progress::over(trees.len() as u64, observer);
    let writer = BulkWriter::new(target);
    let mut copying = Copying { source, writer, report: CompactReport::default(), progress };
    for (name, state) in trees {
        copying.progress.begin(&name, &state)?;
        match state.kind {
            TreeKind::Rows => copying.table(schema_of(&name, schemas)?, &state)?,
            TreeKind::Variable => copying.tree(&name, &state)?,
            TreeKind::Fixed => copying.fixed_tree(&name, &state)?,
        }
        copying.progress.end()?;
    }
    copying.writer.finish()?;
    copying.progress.verifying()?;
    Ok(copying.report)
}

/// Counts what is copied and periodically reports it to the observer.
struct Progress<'o> {
    now: CompactProgress,
    reported_entries: u64,
    reported_bytes: u64,
    observer: CompactObserver<'o>,
}

impl<'o> Progress<'o> {
    fn over(trees: u64, observer: CompactObserver<'o>) -> Self {
        let now = CompactProgress {
            step: CompactStep::Tree,
            name: String::new(),
            entries_done: 0,
            entries: 0,
            trees_done: 0,
            trees,
            bytes_done: 0,
        };
        Self { now, reported_entries: 0, reported_bytes: 0, observer }
    }

    fn begin(&mut self, name: &TreeName, state: &TreeState) -> Result<(), StorageError> {
        self.now.step = match state.kind {
            TreeKind::Rows => CompactStep::Table,
            TreeKind::Variable => CompactStep::Tree,
            TreeKind::Fixed => CompactStep::FixedTree,
        };
        self.now.name = String::from_utf8_lossy(name.as_bytes()).into_owned();
        (self.now.entries_done, self.now.entries) = (0, state.entries);
        self.report()
    }

    fn copied(&mut self, bytes: usize) -> Result<(), StorageError> {
        self.now.entries_done += 1;
        self.now.bytes_done += bytes as u64;
        let is_due = self.now.entries_done - self.reported_entries >= OBSERVED_ENTRIES
            || self.now.bytes_done - self.reported_bytes >= OBSERVED_BYTES;
        if is_due { self.report() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.now.trees_done += 1;
        self.report()
    }

    fn verifying(&mut self) -> Result<(), StorageError> {
        self.now.step = CompactStep::Verifying;
        self.now.name.clear();
        (self.now.entries_done, self.now.entries) = (0, 0);
        self.report()
    }

    fn report(&mut self) -> Result<(), StorageError> {
        (self.reported_entries, self.reported_bytes) = (self.now.entries_done, self.now.bytes_done);
        match (self.observer)(&self.now) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(StorageError::Stopped),
        }
    }
}

/// Compacts the environment of a directory, which must not be open anywhere else. It needs disk
/// space for a full copy in addition to the original; on any error, including a stop by the
/// observer, the original is unchanged.
///
/// # Errors
/// [`StorageError::NotAnEnvironment`]; [`StorageError::Locked`]; those of [`compact`].
pub fn compact_in_place(
    platform: &Platform,
    options: &EnvironmentOptions,
    schemas: &[&'static TableSchema],
    observer: CompactObserver<'_>,
) -> Result<CompactOutcome, StorageError> {
    let Copied { source, unfinished, before_bytes, report } =
        copy_of(platform, options, options, schemas, observer)?;
    let after_bytes = unfinished.publish()?;
    drop(source);
    // Proves that it opens, and removes the old journals.
    drop(Environment::open(platform, options.clone())?);
    Ok(CompactOutcome { before_bytes, after_bytes, report })
}

/// A checked copy of an environment.
pub(crate) struct Copied {
    /// Stays open, and therefore locked, until the copy is in its place.
    pub(crate) source: Arc<Environment>,
    pub(crate) unfinished: UnfinishedEnvironment,
    pub(crate) before_bytes: u64,
    pub(crate) report: CompactReport,
}

/// Copies the environment that `options` open, as `target` says: with the same directories, but perhaps another key. On any
/// error nothing of the copy is left.
pub(crate) fn copy_of(
    platform: &Platform,
    options: &EnvironmentOptions,
    target: &EnvironmentOptions,
    schemas: &[&'static TableSchema],
    observer: CompactObserver<'_>,
) -> Result<Copied, StorageError> {
    require_environment(platform, &options.directory)?;
    let source = Environment::open(platform, options.clone())?;
    let before_bytes = source.statistics().data_file_bytes;
    let origin = source.origin_of_copy();
    let unfinished = UnfinishedEnvironment::create_from(platform, target, Some(origin))?;
    let copied = copy_and_verify(&source.read(), unfinished.environment(), schemas, observer)
        .and_then(|report| {
            unfinished.environment().end_copied_incarnation(origin.transaction)?;
            Ok(report)
        });
    match copied {
        Ok(report) => Ok(Copied { source, unfinished, before_bytes, report }),
        Err(error) => {
            // The copy may have filled the disk; the first error is the one to report.
            drop(unfinished.discard());
            Err(error)
        }
    }
}

/// Refuses a directory in which opening would create a new environment.
pub(crate) fn require_environment(
    platform: &Platform,
    directory: &std::path::Path,
) -> Result<(), StorageError> {
    let path: PathBuf = directory.join(DATA_FILE);
    match platform.disk.exists(&path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StorageError::NotAnEnvironment { path: directory.to_path_buf() }),
        Err(error) => Err(StorageError::io(path, "find", error)),
    }
}

fn copy_and_verify(
    source: &ReadTransaction,
    target: &Arc<Environment>,
    schemas: &[&'static TableSchema],
    observer: CompactObserver<'_>,
) -> Result<CompactReport, StorageError> {
    let report = compact(source, target, schemas, observer)?;
    let checked = target.read().check()?;
    if checked.rows != report.rows {
        return Err(StorageError::structure(PageNumber(0), "the compacted copy lacks rows"));
    }
    Ok(report)
}

/// The names of all trees and what is stored about them.
pub(crate) fn named_trees(
    source: &ReadTransaction,
) -> Result<Vec<(TreeName, TreeState)>, StorageError> {
    let snapshot = source.view();
    let root_tree = snapshot.root.root_tree;
    tree::range(snapshot, &root_tree, Bound::Unbounded)?
        .map(|entry| {
            let (name, bytes) = entry?;
            if name.len() > TreeName::BYTES_MAX {
                return Err(StorageError::structure(root_tree.root, "a tree's name is too long"));
            }
            Ok((TreeName::of(&[&name]), TreeState::read(bytes, root_tree.root)?))
        })
        .collect()
}

fn schema_of(
    rows: &TreeName,
    schemas: &[&'static TableSchema],
) -> Result<&'static TableSchema, StorageError> {
    let schema = schemas.iter().find(|schema| schema.rows_name() == *rows);
    schema.copied().ok_or_else(|| StorageError::UnknownTable {
        rows: String::from_utf8_lossy(rows.as_bytes()).into_owned(),
    })
}

/// What is read in one go: memory for what is decrypted is released in between.
struct Portion<K> {
    entries: usize,
    bytes: usize,
    /// The key of its last entry, once it is over.
    last: Option<K>,
}

impl<K> Default for Portion<K> {
    fn default() -> Self {
        Self { entries: 0, bytes: 0, last: None }
    }
}

impl<K> Portion<K> {
    /// Counts an entry and a value of that length; true when it is the last one.
    fn ends_with(&mut self, key: K, value_bytes: usize) -> bool {
        self.entries += 1;
        self.bytes += value_bytes;
        let is_over = PORTION_ENTRIES <= self.entries || PORTION_BYTES <= self.bytes;
        if is_over {
            self.last = Some(key);
        }
        is_over
    }
}

fn bound(after: Option<&Vec<u8>>) -> Bound<&[u8]> {
    after.map_or(Bound::Unbounded, |key| Bound::Excluded(key))
}

struct Copying<'a> {
    source: &'a ReadTransaction,
    writer: BulkWriter<'a>,
    report: CompactReport,
    progress: Progress<'a>,
}

impl Copying<'_> {
    fn table(
        &mut self,
        schema: &'static TableSchema,
        state: &TreeState,
    ) -> Result<(), StorageError> {
        let (mut rows, mut bytes) = (0, 0);
        let mut after = None;
        loop {
            let (source, mut portion) = (self.source.renewed(), Portion::default());
            for entry in source.table(schema).range(bound(after.as_ref()))? {
                let (key, row) = entry?;
                self.writer.transaction()?.table_mut(schema).insert(row)?;
                rows += 1;
                bytes += row.len() as u64;
                self.progress.copied(row.len())?;
                if portion.ends_with(key, row.len()) {
                    break;
                }
            }
            after = portion.last;
            if after.is_none() {
                break;
            }
        }
        if (rows, bytes) != (state.entries, state.extra) {
            return Err(StorageError::structure(state.root, "a table miscounts its rows"));
        }
        self.report.tables += 1;
        self.report.rows += rows;
        self.report.row_bytes += bytes;
        Ok(())
    }

    fn tree(&mut self, name: &TreeName, state: &TreeState) -> Result<(), StorageError> {
        let mut entries = 0;
        let mut after = None;
        loop {
            let (source, mut portion) = (self.source.renewed(), Portion::default());
            for entry in source.tree(name)?.range(bound(after.as_ref()))? {
                let (key, value) = entry?;
                self.writer.transaction()?.tree_mut(name)?.put(&key, value)?;
                entries += 1;
                self.progress.copied(key.len() + value.len())?;
                if portion.ends_with(key, value.len()) {
                    break;
                }
            }
            after = portion.last;
            if after.is_none() {
                break;
            }
        }
        self.count_tree(entries, state)
    }

    fn fixed_tree(&mut self, name: &TreeName, state: &TreeState) -> Result<(), StorageError> {
        let mut entries = 0;
        let mut from = Some(0);
        while let Some(first) = from {
            let (source, mut portion) = (self.source.renewed(), Portion::default());
            for entry in source.fixed_tree(name)?.range(first)? {
                let (key, value) = entry?;
                let tx = self.writer.transaction()?;
                tx.fixed_tree_mut(name, state.value_bytes)?.put(key, value)?;
                entries += 1;
                self.progress.copied(size_of_val(&key) + value.len())?;
                if portion.ends_with(key, value.len()) {
                    break;
                }
            }
            from = portion.last.and_then(|last: u64| last.checked_add(1));
        }
        self.count_tree(entries, state)
    }

    fn count_tree(&mut self, entries: u64, state: &TreeState) -> Result<(), StorageError> {
        if entries != state.entries {
            return Err(StorageError::structure(state.root, "a tree miscounts its entries"));
        }
        self.report.trees += 1;
        self.report.entries += entries;
        Ok(())
    }
}
