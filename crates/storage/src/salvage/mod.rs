//! Salvage: recovering what can be read of an environment that does not open or has damaged pages.
//!
//! Nothing of the source is written. Its files are read page by page; a page whose checksum is
//! wrong, or that the disk cannot read, is skipped. The contents of sound journal records are kept
//! in a scratch file in the target's directory, in addition to the pages of the data file and not
//! over them. So salvage finds more than the newest state: also rows that were replaced or deleted
//! and whose pages have not been reused. The caller that rebuilds from them decides by the rows'
//! own content which is the newest.
//!
//! Journal records are applied in order up to the first gap. Behind a gap a difference is useless
//! until its page appears whole again; whatever can be reassembled there is found by scanning, row
//! by row and entry by entry, and never counts as the newest state of a tree.
//!
//! The new environment is built as unfinished.rs says: it appears in its directory only when it is
//! complete.
//!
//! Memory: some 50 bytes per page that the journal changed, plus the list of its records (see
//! journal/salvage.rs) and up to [`DAMAGED_PAGES_NAMED_MAX`] page numbers.

mod pages;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use pages::{SurvivingPages, Unsound, transaction};
use platform::{Access, DirectoryLock, Disk, Platform};

use crate::{
    bulk_writer::BulkWriter,
    catalog::{TreeKind, TreeState},
    compact::require_environment,
    environment::{Environment, EnvironmentOptions},
    error::{Corruption, StorageError},
    fixed_tree,
    format::{PAGE_HEADER_BYTES, PageKind, PageNumber, page_kind},
    free_space::{SECTION_PAGES, bitmap_page, section_of},
    header::EnvironmentHeader,
    history,
    journal::{self, SurvivingJournal},
    open::{DATA_FILE, encryption_of, take_lock},
    page_buffer::PageBuffer,
    plaintext::{Encryption, Plaintext},
    rows::{self, RowId},
    snapshot::{EnvironmentRoot, ROOT_PAGE},
    table::TableSchema,
    tree::{LeafValue, leaf_entries, surviving_entries},
    tree_name::TreeName,
    unfinished::UnfinishedEnvironment,
    write_pages::run_content,
};

/// Damaged pages listed in the findings by number; all are counted.
pub const DAMAGED_PAGES_NAMED_MAX: usize = 1000;
/// The first two pages hold the header's copies.
const FIRST_PAGE: PageNumber = PageNumber(2);
pub(crate) const SCRATCH_FILE: &str = "salvage.pages";

/// What salvage found in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageFindings {
    /// Copies of the header that are whole, of two.
    pub header_copies: usize,
    /// Pages of the data file.
    pub pages: u64,
    /// Pages that were in use, as far as is known, and cannot be read.
    pub damaged_pages: u64,
    /// The first of them.
    pub damaged_pages_named: Vec<u64>,
    /// First and last of transactions that are missing in the journal although later ones are
    /// there. With fewer than two whole copies of the header, transactions older than the first in
    /// the journal are expected to be in the data file.
    pub transactions_lost: Vec<(u64, u64)>,
    /// The newest transaction of which anything was found.
    pub newest_transaction: u64,
    /// Whether the list of trees could not be read completely, so that the names and roots of trees
    /// were collected from every page that looks like a part of it.
    pub is_tree_list_damaged: bool,
}

impl SalvageFindings {
    /// Whether anything that was acknowledged is known to be missing.
    pub fn is_anything_lost(&self) -> bool {
        self.damaged_pages != 0 || !self.transactions_lost.is_empty() || self.is_tree_list_damaged
    }
}

/// Something that [`Salvage::scan`] came across.
pub enum Found<'a> {
    /// A row of a table, or a large value of a tree, possibly one that is no longer in it.
    Row {
        /// The place to pass to [`Salvage::row`].
        place: RowId,
        /// The row.
        row: &'a [u8],
    },
    /// An entry of some tree, possibly of one that no longer exists.
    Entry {
        /// The transaction that wrote the page.
        transaction: u64,
        /// The key.
        key: &'a [u8],
        /// The value; large ones are left out.
        value: &'a [u8],
    },
}

/// What was copied of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedTree {
    /// The name of the tree.
    pub name: String,
    /// Entries that were copied.
    pub entries: u64,
    /// Pages of it that could not be read; the entries in or below them are lost.
    pub unreadable_pages: u64,
}

/// A damaged environment and the new one built from it.
pub struct Salvage {
    pages: SurvivingPages,
    trees: BTreeMap<TreeName, TreeState>,
    next_page: Option<PageNumber>,
    findings: SalvageFindings,
    target: UnfinishedEnvironment,
    scratch: PathBuf,
    disk: Arc<dyn Disk>,
    _lock: Box<dyn DirectoryLock>,
}

impl Salvage {
    /// Reads the journal of `source` and starts a new environment for `target`, a directory that is
    /// missing, or empty but for leftovers of an earlier attempt.
    ///
    /// # Errors
    /// [`StorageError::NotAnEnvironment`]; [`StorageError::Locked`] when a server has the source;
    /// [`StorageError::TargetInUse`]; those of writing the target.
    pub fn open(
        platform: &Platform,
        source: &EnvironmentOptions,
        target: &Path,
    ) -> Result<Salvage, StorageError> {
        require_environment(platform, &source.directory)?;
        let disk = platform.disk.clone();
        check_target(&*disk, &source.directory, target)?;
        let lock = take_lock(&*disk, &source.directory)?;
        let path = source.directory.join(DATA_FILE);
        let data = disk
            .open(&path, Access::Buffered)
            .map_err(|error| StorageError::io(&path, "open", error))?;
        let key = source.encryption_key.as_ref();
        let header_copies = EnvironmentHeader::sound_copies(&*data, &path, key);
        let header = match EnvironmentHeader::read(&*data, &path, key) {
            Err(
                error @ (StorageError::UnknownVersion { .. }
                | StorageError::KeyMissing { .. }
                | StorageError::NotEncrypted { .. }
                | StorageError::WrongKey { .. }),
            ) => return Err(error),
            // Salvage has to cope with an unreadable header.
            header => header.ok(),
        };
        let options = EnvironmentOptions { directory: target.to_path_buf(), ..source.clone() };
        let new = UnfinishedEnvironment::create(platform, &options)?;
        let scratch = target.join(SCRATCH_FILE);
        remove_scratch(&*disk, &scratch)?;
        let encryption = encryption_of_damaged(platform, source, header)?;
        let pages = SurvivingPages::new(&*disk, data, &path, &scratch, encryption)?;
        let mut salvage = Salvage {
            findings: SalvageFindings {
                header_copies,
                pages: pages.data_pages(),
                ..SalvageFindings::default()
            },
            pages,
            trees: BTreeMap::new(),
            next_page: None,
            target: new,
            scratch,
            disk,
            _lock: lock,
        };
        salvage.read_journal(&source.journals(), header)?;
        salvage.read_tree_list();
        Ok(salvage)
    }

    fn read_journal(
        &mut self,
        directory: &Path,
        header: Option<EnvironmentHeader>,
    ) -> Result<(), StorageError> {
        // The older copy may name a position whose file has already been released.
        let from = header.filter(|_| self.findings.header_copies == 2);
        let plaintext = self.pages.plaintext();
        let keys = plaintext.as_deref().map(Plaintext::keys).transpose()?;
        let journal = SurvivingJournal::find(
            &*self.disk,
            directory,
            header.map(|header| header.environment_id),
            from.map(|header| header.replay_from),
            keys,
        )?;
        self.findings.newest_transaction =
            header.map_or(0, |header| header.replay_from.transaction);
        self.findings.transactions_lost.clone_from(&journal.lost);
        let (pages, findings) = (&mut self.pages, &mut self.findings);
        journal.visit(|changes| {
            findings.newest_transaction = findings.newest_transaction.max(changes.transaction);
            pages.apply(&changes, &self.scratch)
        })?;
        self.pages.finish();
        Ok(())
    }

    /// Reads the names and roots of all trees, from the top if that can be done.
    fn read_tree_list(&mut self) {
        let root = self.pages.page(ROOT_PAGE).and_then(|page| EnvironmentRoot::read(&page).ok());
        self.next_page = root.map(|root| root.next_page);
        let mut reached = BTreeMap::new();
        let unreadable = root.map_or(1, |root| {
            self.walk(&root.root_tree, &mut |name, value| {
                if let (Some(name), Ok(state)) =
                    (tree_name(name), TreeState::read(value, ROOT_PAGE))
                {
                    reached.insert(name, state);
                }
            })
        });
        self.findings.is_tree_list_damaged = unreadable != 0;
        if unreadable != 0 {
            self.trees = self.trees_by_scanning();
        }
        self.trees.append(&mut reached);
    }

    /// Every entry of any leaf that says what a tree is, from the newest page that has it.
    fn trees_by_scanning(&self) -> BTreeMap<TreeName, TreeState> {
        let mut newest: BTreeMap<TreeName, (u64, TreeState)> = BTreeMap::new();
        self.pages.scan(FIRST_PAGE, &mut |_, page| {
            let Ok(page) = page else { return };
            let mut states = Vec::new();
            let mut is_list = true;
            leaf_entries(page, &mut |key, value| match value {
                LeafValue::Inline(value) => match (tree_name(key), tree_state(value)) {
                    (Some(name), Some(state)) => states.push((name, state)),
                    _ => is_list = false,
                },
                LeafValue::Run(_) => is_list = false,
            });
            for (name, state) in states.into_iter().filter(|_| is_list) {
                let known = newest.get(&name).map_or(0, |(written, _)| *written);
                if known <= transaction(page) {
                    newest.insert(name, (transaction(page), state));
                }
            }
        });
        newest.into_iter().map(|(name, (_, state))| (name, state)).collect()
    }

    /// Visits every page that is left of the data file and the journal, and counts the damaged
    /// ones. To be called once.
    pub fn scan(&mut self, visit: &mut dyn FnMut(Found<'_>)) {
        let mut free = FreePages { pages: &self.pages, next_page: self.next_page, section: None };
        let findings = &mut self.findings;
        self.pages.scan(FIRST_PAGE, &mut |place, page| match page {
            Ok(page) => {
                if page_kind(page) == Some(PageKind::TreeLeaf) {
                    let transaction = transaction(page);
                    leaf_entries(page, &mut |key, value| {
                        if let LeafValue::Inline(value) = value {
                            visit(Found::Entry { transaction, key, value });
                        }
                    });
                }
                for (place, row) in rows::all_in(page, place) {
                    visit(Found::Row { place, row });
                }
            }
            Err(unsound) => {
                if !self.pages.is_journaled(place) && !free.contains(place, unsound) {
                    findings.damaged_pages += 1;
                    if findings.damaged_pages_named.len() < DAMAGED_PAGES_NAMED_MAX {
                        findings.damaged_pages_named.push(place.get());
                    }
                }
            }
        });
    }

    /// The findings so far.
    pub fn findings(&self) -> &SalvageFindings {
        &self.findings
    }

    /// A row that [`Salvage::scan`] found.
    pub fn row(&self, place: RowId) -> Option<Vec<u8>> {
        row_in(&self.pages.read(place.page())?, place)
    }

    /// Calls `visit` with every primary key of a table that can be reached, and whether its row can
    /// be read. Returns the number of pages of keys that could not be read.
    pub fn table_keys(
        &self,
        schema: &'static TableSchema,
        visit: &mut dyn FnMut(&[u8], bool),
    ) -> u64 {
        let Some(state) = self.trees.get(&schema.primary_tree()) else { return 0 };
        self.walk(state, &mut |key, value| {
            let row = RowId::from_bytes(value).ok();
            let row = row.and_then(|id| row_in(&self.pages.page(id.page())?, id));
            visit(key, row.is_some_and(|row| (schema.primary)(&row) == key));
        })
    }

    /// Calls `visit` with every entry of a tree that can be reached. Returns the number of pages
    /// that could not be read; `None` when no such tree is known.
    pub fn tree(&self, name: &TreeName, visit: &mut dyn FnMut(&[u8], &[u8])) -> Option<u64> {
        let state = self.trees.get(name).filter(|state| state.kind == TreeKind::Variable)?;
        Some(self.walk(state, visit))
    }

    fn walk(&self, state: &TreeState, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        let mut lost_values = 0;
        let read = |number| self.pages.page(number);
        let pages_max = self.pages.places();
        let unreadable =
            surviving_entries(&read, state, pages_max, &mut |key, value| match value {
                LeafValue::Inline(value) => visit(key, value),
                LeafValue::Run(number) => match self.pages.page(number) {
                    Some(run) if page_kind(&run) == Some(PageKind::Run) => {
                        visit(key, run_content(&run));
                    }
                    _ => lost_values += 1,
                },
            });
        unreadable + lost_values
    }

    /// Copies what can be reached of every tree that is not part of a table, except those named and
    /// the history: a salvaged environment is a new one, whose transactions are numbered from the
    /// beginning.
    pub fn copy_trees(&self, except: &[TreeName]) -> Result<Vec<SalvagedTree>, StorageError> {
        let mut writer = BulkWriter::new(self.target());
        let mut copied = Vec::new();
        let history = history::tree();
        for (name, state) in &self.trees {
            let is_left_out = *name == history || except.contains(name);
            if state.flags & TreeState::OWNED_BY_TABLE == 0 && !is_left_out {
                copied.push(self.copy_tree(name, state, &mut writer)?);
            }
        }
        writer.finish()?;
        Ok(copied)
    }

    fn copy_tree(
        &self,
        name: &TreeName,
        state: &TreeState,
        writer: &mut BulkWriter<'_>,
    ) -> Result<SalvagedTree, StorageError> {
        let (mut entries, mut failed) = (0, None);
        let mut keep = |put: Result<bool, StorageError>| match put {
            Ok(_) => entries += 1,
            Err(error) => failed = failed.take().or(Some(error)),
        };
        let unreadable_pages = match state.kind {
            TreeKind::Variable => self.walk(state, &mut |key, value| {
                keep(writer.transaction().and_then(|tx| tx.tree_mut(name)?.put(key, value)));
            }),
            TreeKind::Fixed => {
                let read = |number| self.pages.page(number);
                let pages_max = self.pages.places();
                fixed_tree::surviving_entries(&read, state, pages_max, &mut |key, value| {
                    let bytes = state.value_bytes;
                    let tx = writer.transaction();
                    keep(tx.and_then(|tx| tx.fixed_tree_mut(name, bytes)?.put(key, value)));
                })
            }
            TreeKind::Rows => 0,
        };
        match failed {
            Some(error) => Err(error),
            None => {
                let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
                Ok(SalvagedTree { name, entries, unreadable_pages })
            }
        }
    }

    /// The new environment, to be filled.
    pub fn target(&self) -> &Arc<Environment> {
        self.target.environment()
    }

    /// Moves the new environment to its final place. Returns the length of its data file, in bytes.
    pub fn publish(self) -> Result<u64, StorageError> {
        remove_scratch(&*self.disk, &self.scratch)?;
        self.target.publish()
    }
}

/// What an environment was encrypted with whose header may be damaged: its files of the journal name it, too.
///
/// # Errors
/// [`StorageError::Corrupt`] when nothing names the environment: without its name there are no keys.
fn encryption_of_damaged(
    platform: &Platform,
    source: &EnvironmentOptions,
    header: Option<EnvironmentHeader>,
) -> Result<Option<Encryption>, StorageError> {
    if source.encryption_key.is_none() {
        return Ok(None);
    }
    let of_journals = || {
        let names = platform.disk.list(&source.journals()).unwrap_or_default();
        let paths = names.iter().map(|name| source.journals().join(name));
        let mut ids = paths.filter_map(|path| journal::environment_of(&*platform.disk, &path).ok());
        ids.find_map(|id| id)
    };
    let id = header.map(|header| header.environment_id).or_else(of_journals);
    let path = source.directory.join(DATA_FILE);
    let id = id.ok_or(Corruption::Header { path })?;
    Ok(encryption_of(platform, source, id))
}

/// The target must be an empty or missing directory outside of the source.
fn check_target(disk: &dyn Disk, source: &Path, target: &Path) -> Result<(), StorageError> {
    let in_use = || StorageError::TargetInUse { path: target.to_path_buf() };
    let find = |error| StorageError::io(target, "look into", error);
    if target.starts_with(source) {
        return Err(in_use());
    }
    if !disk.exists(target).map_err(find)? {
        return Ok(());
    }
    let leftovers = [SCRATCH_FILE, crate::unfinished::BUILDING];
    let mut names = disk.list(target).map_err(find)?.into_iter();
    if names.all(|name| leftovers.contains(&name.as_str())) { Ok(()) } else { Err(in_use()) }
}

fn remove_scratch(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    let remove = || if disk.exists(path)? { disk.remove_file(path) } else { Ok(()) };
    remove().map_err(|error| StorageError::io(path, "remove", error))
}

fn row_in(page: &[u8], id: RowId) -> Option<Vec<u8>> {
    let rows = rows::all_in(page, id.page());
    rows.into_iter().find(|(found, _)| *found == id).map(|(_, row)| row.to_vec())
}

fn tree_name(bytes: &[u8]) -> Option<TreeName> {
    (bytes.len() <= TreeName::BYTES_MAX).then(|| TreeName::of(&[bytes]))
}

/// The tree state that a value describes, if it looks like one.
fn tree_state(bytes: &[u8]) -> Option<TreeState> {
    let state = TreeState::read(bytes, ROOT_PAGE).ok()?;
    (state.flags & !TreeState::OWNED_BY_TABLE == 0).then_some(state)
}

/// The pages that are known to be free.
struct FreePages<'a> {
    pages: &'a SurvivingPages,
    next_page: Option<PageNumber>,
    /// The section whose bitmap was read last, and the bitmap if it was readable.
    section: Option<(u64, Option<PageBuffer>)>,
}

impl FreePages<'_> {
    fn contains(&mut self, page: PageNumber, unsound: Unsound) -> bool {
        let Some(next_page) = self.next_page else { return unsound == Unsound::Empty };
        if next_page <= page {
            return true;
        }
        let section = section_of(page);
        if self.section.as_ref().is_none_or(|(known, _)| *known != section) {
            let bitmap = self.pages.page(bitmap_page(section));
            let bitmap = bitmap.filter(|page| page_kind(page) == Some(PageKind::FreeSpace));
            self.section = Some((section, bitmap));
        }
        let bit = (page.get() % SECTION_PAGES) as usize;
        match &self.section {
            Some((_, Some(bitmap))) => bitmap[PAGE_HEADER_BYTES + bit / 8] & (1 << (bit % 8)) != 0,
            _ => unsound == Unsound::Empty,
        }
    }
}
