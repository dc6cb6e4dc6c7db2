//! The pages a write transaction has changed, on top of the snapshot it started from.
//!
//! Changing a page copies it once per transaction. A savepoint records the earlier content of each
//! page touched after it, so that one failing batch among many merged ones can be rolled back
//! alone.
//!
//! Invariant: memory for pages, and for undoing their changes, is drawn from a share before it is
//! allocated, so that no transaction uses more than there is, however much its caller changes.

use std::{collections::hash_map::Entry, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    cipher::Nonce,
    error::StorageError,
    format::{
        PAGE_BYTES, PAGE_HEADER_BYTES, PageKind, PageNumber, VALUE_BYTES_MAX, init_page, init_run,
        run_bytes, run_pages, set_page_transaction,
    },
    free_space::{
        FreeSpaceSummary, SECTION_PAGES, SectionSummary, bitmap, bitmap_page, find_free_run,
        section_of, set_free,
    },
    memory_budget::MemoryShare,
    page_buffer::PageBuffer,
    page_mut::{Lines, PageMut},
    page_table::{PageVersion, VersionBytes},
    plaintext::{Encryption, Plaintext},
    snapshot::{EnvironmentRoot, Pages, ROOT_PAGE, Snapshot, View},
};

/// Pages whose memory is kept for the next savepoint: about what small batches change again and again.
const SPARE_PAGES_MAX: usize = 32;
/// The memory share grows in steps of this many bytes.
const SHARE_STEP_BYTES: u64 = 128 * 1024;

struct DirtyPage {
    bytes: PageBuffer,
    /// What may differ from `base`.
    lines: Lines,
    /// The version it was copied from, if that was in memory: the journal can write a difference.
    base: Option<Arc<PageVersion>>,
    /// The savepoint that has remembered this page's earlier content.
    saved_at: u32,
    /// The savepoint after which it was touched or created.
    touched_at: u32,
}

impl DirtyPage {
    fn page_mut(&mut self) -> PageMut<'_> {
        PageMut::new(&mut self.bytes, &mut self.lines)
    }
}

enum Undo {
    /// The page was changed before the savepoint too: its content then.
    Changed { page: PageNumber, bytes: PageBuffer, lines: Lines, saved_at: u32 },
    /// The page was first touched after the savepoint.
    Touched { page: PageNumber },
    /// The page was allocated.
    Allocated { page: PageNumber, was_freed: bool },
    /// The page was freed.
    Freed { page: PageNumber, dirty: Option<DirtyPage> },
}

/// One changed page, frozen by sealing.
pub(crate) struct ChangedPage {
    pub(crate) number: PageNumber,
    pub(crate) version: Arc<PageVersion>,
    /// Its content before it was encrypted; `None` unless the environment is.
    pub(crate) plain: Option<PageBuffer>,
    pub(crate) base: Option<Arc<PageVersion>>,
    /// What may differ from `base`.
    pub(crate) lines: Lines,
}

impl ChangedPage {
    /// The content of the page.
    pub(crate) fn content(&self) -> &[u8] {
        self.plain.as_deref().unwrap_or_else(|| self.version.bytes())
    }
}

/// The changes of a transaction that was sealed.
pub(crate) struct Frozen {
    pub(crate) snapshot: Arc<Snapshot>,
    /// In page order.
    pub(crate) changed: Vec<ChangedPage>,
    /// What the transaction decrypted with; `None` unless the environment is encrypted.
    pub(crate) plaintext: Option<Arc<Plaintext>>,
    /// The share that the pages were drawn from.
    pub(crate) memory: MemoryShare,
}

/// The state of page allocation at a savepoint.
pub(crate) struct PagesSavepoint {
    root: EnvironmentRoot,
    free_space: FreeSpaceSummary,
    held_bytes: u64,
}

pub(crate) struct WritePages {
    base: View,
    dirty: FxHashMap<PageNumber, DirtyPage>,
    /// Pages of new runs after their first ones.
    run_pages: usize,
    freed: FxHashSet<PageNumber>,
    pub(crate) root: EnvironmentRoot,
    free_space: FreeSpaceSummary,
    undo: Vec<Undo>,
    /// Page buffers that were used for undoing and are free for reuse.
    spare: Vec<PageBuffer>,
    /// The number of the current savepoint; 0 before the first.
    savepoint: u32,
    /// Bytes of dirty pages, and of those kept for undoing.
    held_bytes: u64,
    memory: MemoryShare,
    /// Whether pages are allocated even when the budget has no room for them.
    exceeds_memory: bool,
}

impl Pages for WritePages {
    type Renewed<'p> = &'p WritePages;

    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        match self.dirty.get(&page) {
            Some(dirty) => Ok(&dirty.bytes),
            None => self.base.page(page),
        }
    }

    /// A write transaction is bounded by its budget, whatever it reads.
    fn renewed(&self) -> &WritePages {
        self
    }
}

impl Pages for &WritePages {
    type Renewed<'p>
        = &'p WritePages
    where
        Self: 'p;

    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        (**self).page(page)
    }

    fn renewed(&self) -> &WritePages {
        self
    }
}

impl WritePages {
    pub(crate) fn new(base: View, memory: MemoryShare) -> Self {
        Self {
            dirty: FxHashMap::default(),
            run_pages: 0,
            freed: FxHashSet::default(),
            root: base.root,
            free_space: (*base.free_space).clone(),
            undo: Vec::new(),
            spare: Vec::new(),
            savepoint: 0,
            held_bytes: 0,
            memory,
            exceeds_memory: false,
            base,
        }
    }

    /// Whether nothing was changed.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.freed.is_empty()
    }

    /// Pages changed so far; those of new runs count even when they were freed again.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.len() + self.run_pages
    }

    /// Bytes of dirty pages, and of those kept for undoing.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Sets whether changes go through even when the budget has no room.
    pub(crate) fn exceed_memory(&mut self, exceeds: bool) {
        self.exceeds_memory = exceeds;
    }

    /// Counts bytes in, before they are allocated.
    fn hold(&mut self, bytes: usize) -> Result<(), StorageError> {
        let held_bytes = self.held_bytes + bytes as u64;
        if self.memory.bytes() < held_bytes {
            let wanted = held_bytes.next_multiple_of(SHARE_STEP_BYTES);
            match self.exceeds_memory {
                true => self.memory.grow_to(wanted),
                false => self.memory.try_grow_to(wanted)?,
            }
        }
        self.held_bytes = held_bytes;
        Ok(())
    }

    /// Counts in, before a page is changed, what changing it allocates: a copy for undoing, or the
    /// page itself.
    fn hold_changed(&mut self, page: PageNumber) -> Result<(), StorageError> {
        match self.dirty.get(&page) {
            Some(dirty) if self.savepoint <= dirty.saved_at => Ok(()),
            Some(dirty) => self.hold(dirty.bytes.len()),
            None => self.hold(PAGE_BYTES),
        }
    }

    /// The page's bytes, to be changed. Runs are never changed, only replaced.
    pub(crate) fn page_mut(&mut self, page: PageNumber) -> Result<PageMut<'_>, StorageError> {
        self.hold_changed(page)?;
        match self.dirty.entry(page) {
            Entry::Occupied(entry) => {
                let dirty = entry.into_mut();
                if dirty.saved_at < self.savepoint {
                    let bytes = match self.spare.pop() {
                        Some(mut spare) if spare.len() == dirty.bytes.len() => {
                            spare.copy_from_slice(&dirty.bytes);
                            spare
                        }
                        Some(_) | None => dirty.bytes.clone(),
                    };
                    let (lines, saved_at) = (dirty.lines, dirty.saved_at);
                    self.undo.push(Undo::Changed { page, bytes, lines, saved_at });
                    dirty.saved_at = self.savepoint;
                }
                Ok(dirty.page_mut())
            }
            Entry::Vacant(entry) => {
                let base = self.base.table.get(page).cloned();
                let bytes = match &base {
                    Some(version) => self.base.open(page, version.bytes())?,
                    None => self.base.page_at_rest(page)?,
                };
                let bytes = PageBuffer::new(bytes, self.base.plaintext.is_some());
                if bytes.len() != PAGE_BYTES {
                    return Err(StorageError::structure(page, "a run where a page belongs"));
                }
                if self.savepoint > 0 {
                    self.undo.push(Undo::Touched { page });
                }
                let (lines, saved_at) = (Lines::NONE, self.savepoint);
                let dirty = DirtyPage { bytes, lines, base, saved_at, touched_at: saved_at };
                Ok(entry.insert(dirty).page_mut())
            }
        }
    }

    /// A new page of `kind`, zeroed.
    pub(crate) fn allocate_page(&mut self, kind: PageKind) -> Result<PageNumber, StorageError> {
        self.hold(PAGE_BYTES)?;
        let number = self.allocate(1)?;
        let mut bytes = self.zeroed(PAGE_BYTES);
        init_page(&mut bytes, number, kind);
        self.add_fresh(number, bytes);
        Ok(number)
    }

    /// A new run that holds `content`.
    pub(crate) fn allocate_run(&mut self, content: &[u8]) -> Result<PageNumber, StorageError> {
        if content.len() > VALUE_BYTES_MAX {
            return Err(StorageError::ValueTooLong { bytes: content.len() });
        }
        let pages = run_pages(content.len());
        self.hold(pages as usize * PAGE_BYTES)?;
        let number = self.allocate(pages)?;
        let mut bytes = self.zeroed(pages as usize * PAGE_BYTES);
        init_run(&mut bytes, number, content.len());
        bytes[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + content.len()].copy_from_slice(content);
        self.add_fresh(number, bytes);
        self.run_pages += pages as usize - 1;
        Ok(number)
    }

    fn zeroed(&self, bytes: usize) -> PageBuffer {
        PageBuffer::zeroed(bytes, self.base.plaintext.is_some())
    }

    fn add_fresh(&mut self, page: PageNumber, bytes: PageBuffer) {
        let was_freed = self.freed.remove(&page);
        if self.savepoint > 0 {
            self.undo.push(Undo::Allocated { page, was_freed });
        }
        let (lines, base, saved_at) = (Lines::ALL, None, self.savepoint);
        let dirty = DirtyPage { bytes, lines, base, saved_at, touched_at: saved_at };
        self.dirty.insert(page, dirty);
    }

    /// Frees the page, or the whole run that starts there.
    pub(crate) fn free(&mut self, page: PageNumber) -> Result<(), StorageError> {
        let bytes = match self.dirty.get(&page) {
            Some(dirty) => dirty.bytes.len(),
            None => self.base.verified_bytes_of(page)?,
        };
        let pages = (bytes / PAGE_BYTES) as u32;
        self.mark_free(page, pages)?;
        let dirty = self.dirty.remove(&page);
        self.freed.insert(page);
        // Undoing returns to the state before it was touched and does not need it.
        let (needed, dropped) = match dirty {
            Some(dirty) if dirty.touched_at < self.savepoint => (Some(dirty), None),
            dirty => (None, dirty),
        };
        if let Some(dropped) = dropped {
            self.held_bytes = self.held_bytes.saturating_sub(dropped.bytes.len() as u64);
        }
        if self.savepoint > 0 {
            self.undo.push(Undo::Freed { page, dirty: needed });
        }
        Ok(())
    }

    fn mark_free(&mut self, page: PageNumber, pages: u32) -> Result<(), StorageError> {
        let (section, at) = (section_of(page), (page.0 % SECTION_PAGES) as u32);
        let number = bitmap_page(section);
        set_free(&mut self.page_mut(number)?, number, at, pages, true)?;
        let summary = self.section_mut(section)?;
        summary.free += pages;
        summary.search_from = summary.search_from.min(at);
        summary.run_max = summary.free;
        Ok(())
    }

    fn section_mut(&mut self, section: u64) -> Result<&mut SectionSummary, StorageError> {
        self.free_space
            .sections
            .get_mut(section as usize)
            .ok_or(StorageError::structure(bitmap_page(section), "the section was never used"))
    }

    fn allocate(&mut self, pages: u64) -> Result<PageNumber, StorageError> {
        match self.allocate_free(pages as u32)? {
            Some(page) => Ok(page),
            None => self.extend(pages),
        }
    }

    /// The first free run of that length in any section.
    fn allocate_free(&mut self, pages: u32) -> Result<Option<PageNumber>, StorageError> {
        for section in 0..self.free_space.sections.len() {
            let summary = self.free_space.sections[section];
            if summary.free < pages || summary.run_max < pages {
                continue;
            }
            let number = bitmap_page(section as u64);
            let found = find_free_run(bitmap(self, number)?, summary.search_from, pages);
            let summary = &mut self.free_space.sections[section];
            let Some(at) = found else {
                summary.run_max = pages - 1;
                continue;
            };
            summary.free -= pages;
            if pages == 1 || at == summary.search_from {
                summary.search_from = at + pages;
            }
            set_free(&mut self.page_mut(number)?, number, at, pages, false)?;
            return Ok(Some(PageNumber(section as u64 * SECTION_PAGES + u64::from(at))));
        }
        Ok(None)
    }

    /// Takes pages that were never used, from the end of the environment.
    fn extend(&mut self, pages: u64) -> Result<PageNumber, StorageError> {
        loop {
            let start = self.root.next_page;
            let section = section_of(start);
            if start <= bitmap_page(section) {
                self.start_section(section)?;
                continue;
            }
            let section_end = (section + 1) * SECTION_PAGES;
            if start.0 + pages > section_end {
                // A run does not cross into the next section, where that section's bitmap is.
                self.root.next_page = PageNumber(section_end);
                let rest = (section_end - start.0) as u32;
                if rest > 0 {
                    self.mark_free(start, rest)?;
                }
                continue;
            }
            self.root.next_page = start.plus(pages);
            return Ok(start);
        }
    }

    /// Creates the bitmap of a section; the pages of the section before it become free.
    fn start_section(&mut self, section: u64) -> Result<(), StorageError> {
        self.hold(PAGE_BYTES)?;
        let (start, number) = (self.root.next_page, bitmap_page(section));
        let mut bytes = self.zeroed(PAGE_BYTES);
        init_page(&mut bytes, number, PageKind::FreeSpace);
        self.add_fresh(number, bytes);
        self.root.next_page = number.plus(1);
        self.free_space.sections.push(SectionSummary { free: 0, search_from: 0, run_max: 0 });
        let before = (number.0 - start.0) as u32;
        if before > 0 { self.mark_free(start, before) } else { Ok(()) }
    }

    /// Sets a savepoint, to which [`WritePages::roll_back`] can return. An earlier savepoint is
    /// released.
    pub(crate) fn savepoint(&mut self) -> PagesSavepoint {
        self.savepoint += 1;
        let mut forgotten = 0;
        for undo in self.undo.drain(..) {
            match undo {
                Undo::Changed { bytes, .. } => {
                    forgotten += bytes.len();
                    if self.spare.len() < SPARE_PAGES_MAX {
                        self.spare.push(bytes);
                    }
                }
                Undo::Freed { dirty: Some(dirty), .. } => forgotten += dirty.bytes.len(),
                Undo::Touched { .. } | Undo::Allocated { .. } | Undo::Freed { dirty: None, .. } => {
                }
            }
        }
        self.held_bytes = self.held_bytes.saturating_sub(forgotten as u64);
        let (root, free_space) = (self.root, self.free_space.clone());
        PagesSavepoint { root, free_space, held_bytes: self.held_bytes }
    }

    pub(crate) fn roll_back(&mut self, savepoint: PagesSavepoint) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Changed { page, bytes, lines, saved_at } => {
                    if let Some(dirty) = self.dirty.get_mut(&page) {
                        dirty.bytes = bytes;
                        dirty.lines = lines;
                        dirty.saved_at = saved_at;
                    }
                }
                Undo::Touched { page } => {
                    self.dirty.remove(&page);
                }
                Undo::Allocated { page, was_freed } => {
                    self.dirty.remove(&page);
                    if was_freed {
                        self.freed.insert(page);
                    }
                }
                Undo::Freed { page, dirty } => {
                    self.freed.remove(&page);
                    if let Some(dirty) = dirty {
                        self.dirty.insert(page, dirty);
                    }
                }
            }
        }
        self.root = savepoint.root;
        self.free_space = savepoint.free_space;
        self.held_bytes = savepoint.held_bytes;
        self.memory.shrink_to(self.held_bytes.next_multiple_of(SHARE_STEP_BYTES));
    }

    /// Freezes the changes as `transaction`: the resulting snapshot and the pages to journal, in
    /// page order, with the memory share they were drawn from. With `encryption`, the versions are encrypted.
    pub(crate) fn seal(
        mut self,
        transaction: u64,
        held: &Arc<VersionBytes>,
        encryption: Option<&Encryption>,
    ) -> Result<Frozen, StorageError> {
        let root = self.root;
        root.write_to(&mut self.page_mut(ROOT_PAGE)?);
        let mut table = self.base.table.clone();
        for page in &self.freed {
            table.remove(*page);
        }
        let mut dirty: Vec<_> = self.dirty.into_iter().collect();
        dirty.sort_unstable_by_key(|(number, _)| *number);
        let mut changed = Vec::with_capacity(dirty.len());
        let mut nonces = encryption.map(|encryption| encryption.nonces(dirty.len()).into_iter());
        for (number, mut dirty) in dirty {
            set_page_transaction(&mut dirty.page_mut(), transaction);
            let DirtyPage { bytes, lines, base, .. } = dirty;
            let nonce = nonces.as_mut().and_then(Iterator::next);
            let (bytes, plain) = match (nonce, &self.base.plaintext) {
                (Some(nonce), Some(plaintext)) => {
                    (sealed(number, &bytes, &nonce, plaintext)?, Some(bytes))
                }
                _ => (bytes.into_bytes(), None),
            };
            let version = Arc::new(PageVersion::new(transaction, bytes, held));
            table.insert(number, version.clone());
            changed.push(ChangedPage { number, version, plain, base, lines });
        }
        let snapshot = Snapshot {
            transaction,
            table,
            root,
            data: self.base.data.clone(),
            free_space: Arc::new(self.free_space),
        };
        let snapshot = Arc::new(snapshot);
        Ok(Frozen { snapshot, changed, plaintext: self.base.plaintext, memory: self.memory })
    }
}

/// The encrypted form of a page. The page itself is kept among the decrypted ones.
fn sealed(
    number: PageNumber,
    page: &[u8],
    nonce: &Nonce,
    plaintext: &Plaintext,
) -> Result<Box<[u8]>, StorageError> {
    let mut sealed: Box<[u8]> = page.into();
    plaintext.keys()?.seal_page(number, nonce, &mut sealed);
    plaintext.keep(number, nonce, page);
    Ok(sealed)
}

/// The content of a run.
pub(crate) fn run_content(page: &[u8]) -> &[u8] {
    &page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + run_bytes(page)]
}
