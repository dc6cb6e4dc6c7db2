//! The pages that are left of a damaged environment, for salvage.
//!
//! Pages of the data file stay where they are. Those recovered from the journal go to a scratch
//! file, each at a separate place after the last page of the data file, so that nothing readable is
//! ever overwritten. A *place* is a page of either file, numbered consecutively.
//!
//! Invariant: every page that is handed out has a valid checksum, or could be decrypted, and every page
//! of the data file carries its own number. What is written is encrypted where the environment is.

use std::{path::Path, sync::Arc};

use platform::{Access, Disk, File};
use rustc_hash::FxHashMap;

use crate::{
    error::StorageError,
    format::{
        PAGE_BYTES, PageKind, PageNumber, VALUE_BYTES_MAX, checksum_matches, page_kind,
        page_number, read_u64, run_bytes, run_pages, stamp_checksum,
    },
    journal::{PageChange, SurvivingChanges, apply_difference},
    page_buffer::PageBuffer,
    plaintext::{Encryption, Plaintext},
};

/// Pages of the data file read at once.
const SCAN_PAGES: u64 = 128;

pub(crate) struct SurvivingPages {
    data: Arc<dyn File>,
    scratch: Arc<dyn File>,
    data_pages: u64,
    end: u64,
    /// The place of the newest version of each page that the journal holds before its first gap.
    newest: FxHashMap<PageNumber, PageNumber>,
    /// The same after the last gap; differences apply to these.
    current: FxHashMap<PageNumber, PageNumber>,
    /// The places of the scratch file at which a page or a run starts.
    scratch_starts: Vec<PageNumber>,
    is_behind_gap: bool,
    encryption: Option<Encryption>,
    /// Holds the keys, and no pages.
    plaintext: Option<Arc<Plaintext>>,
}

impl SurvivingPages {
    /// Over a data file, with an empty scratch file that must not exist yet.
    pub(crate) fn new(
        disk: &dyn Disk,
        data: Arc<dyn File>,
        data_path: &Path,
        scratch_path: &Path,
        encryption: Option<Encryption>,
    ) -> Result<Self, StorageError> {
        let plaintext = encryption.as_ref().map(Encryption::plaintext);
        let bytes = data.len().map_err(|error| StorageError::io(data_path, "measure", error))?;
        let scratch = disk
            .create(scratch_path, Access::Buffered)
            .map_err(|error| StorageError::io(scratch_path, "create", error))?;
        let data_pages = bytes / PAGE_BYTES as u64;
        Ok(Self {
            data,
            scratch,
            data_pages,
            end: data_pages,
            newest: FxHashMap::default(),
            current: FxHashMap::default(),
            scratch_starts: Vec::new(),
            is_behind_gap: false,
            encryption,
            plaintext,
        })
    }

    /// What holds the keys of an encrypted environment.
    pub(crate) fn plaintext(&self) -> Option<Arc<Plaintext>> {
        self.plaintext.clone()
    }

    fn buffer(&self, bytes: usize) -> PageBuffer {
        PageBuffer::zeroed(bytes, self.plaintext.is_some())
    }

    /// Pages of the data file.
    pub(crate) fn data_pages(&self) -> u64 {
        self.data_pages
    }

    /// Places in both files.
    pub(crate) fn places(&self) -> u64 {
        self.end
    }

    /// Applies the changes of a transaction; transactions arrive in order.
    pub(crate) fn apply(
        &mut self,
        changes: &SurvivingChanges<'_>,
        scratch_path: &Path,
    ) -> Result<(), StorageError> {
        if !changes.follows {
            if !self.is_behind_gap {
                self.newest = std::mem::take(&mut self.current);
            }
            self.current.clear();
            self.is_behind_gap = true;
        }
        for (number, change) in &changes.pages {
            match change {
                PageChange::Whole(bytes) => self.put(*number, bytes, scratch_path)?,
                PageChange::Difference(difference) => {
                    self.change(*number, difference, scratch_path)?;
                }
            }
        }
        Ok(())
    }

    /// Called after the last transaction.
    pub(crate) fn finish(&mut self) {
        if !self.is_behind_gap {
            self.newest = std::mem::take(&mut self.current);
        }
    }

    fn put(&mut self, number: PageNumber, bytes: &[u8], path: &Path) -> Result<(), StorageError> {
        let place = PageNumber(self.end);
        self.end += (bytes.len() / PAGE_BYTES) as u64;
        self.scratch_starts.push(place);
        self.current.insert(number, place);
        self.write(place, PageBuffer::new(bytes, self.plaintext.is_some()), path)
    }

    /// A difference is useless without a whole image before it: if nothing was lost, the data file
    /// has a newer version.
    fn change(
        &self,
        number: PageNumber,
        difference: &[u8],
        path: &Path,
    ) -> Result<(), StorageError> {
        let Some(place) = self.current.get(&number) else { return Ok(()) };
        let Some(mut page) = self.read(*place) else { return Ok(()) };
        match apply_difference(&mut page, difference) {
            Some(()) => self.write(*place, page, path),
            None => Ok(()),
        }
    }

    fn write(
        &self,
        place: PageNumber,
        mut page: PageBuffer,
        path: &Path,
    ) -> Result<(), StorageError> {
        match (&self.plaintext, &self.encryption) {
            (Some(plaintext), Some(encryption)) => {
                let number = page_number(&page);
                plaintext.keys()?.seal_page(number, &encryption.nonce(), &mut page);
            }
            _ => stamp_checksum(&mut page),
        }
        let offset = (place.0 - self.data_pages) * PAGE_BYTES as u64;
        let written = self.scratch.write_all_at(&page, offset);
        written.map_err(|error| StorageError::io(path, "write", error))
    }

    /// The newest version of a page, or of the run that starts there.
    pub(crate) fn page(&self, number: PageNumber) -> Option<PageBuffer> {
        let own = (number.0 < self.data_pages).then(|| self.read(number)).flatten();
        let journaled = self.newest.get(&number).and_then(|place| self.read(*place));
        match (own, journaled) {
            (Some(own), Some(journaled)) if transaction(&own) > transaction(&journaled) => {
                Some(own)
            }
            (_, Some(journaled)) => Some(journaled),
            (own, None) => own,
        }
    }

    /// Whether the journal has a version of the page that counts.
    pub(crate) fn is_journaled(&self, number: PageNumber) -> bool {
        self.newest.contains_key(&number)
    }

    /// The sound page, or whole run, at a place.
    pub(crate) fn read(&self, place: PageNumber) -> Option<PageBuffer> {
        let mut first = self.buffer(PAGE_BYTES);
        self.read_into(&mut first, place)?;
        self.complete(first, place)
    }

    /// Turns the bytes of one page into the sound page or the whole run.
    fn complete(&self, first: PageBuffer, place: PageNumber) -> Option<PageBuffer> {
        let bytes = if page_kind(&first) == Some(PageKind::Run) { run_bytes(&first) } else { 0 };
        let pages = run_pages(bytes);
        if bytes > VALUE_BYTES_MAX || place.0.checked_add(pages)? > self.end {
            return None;
        }
        let mut page = first;
        if pages > 1 {
            page = self.buffer(pages as usize * PAGE_BYTES);
            self.read_into(&mut page, place)?;
        }
        let is_its_own = self.data_pages <= place.0 || page_number(&page) == place;
        let is_sound = match &self.plaintext {
            Some(plaintext) => {
                let number = page_number(&page);
                is_its_own && plaintext.keys().is_ok_and(|keys| keys.open_page(number, &mut page))
            }
            None => is_its_own && checksum_matches(&page),
        };
        is_sound.then_some(page)
    }

    fn read_into(&self, buffer: &mut [u8], place: PageNumber) -> Option<()> {
        let read = match place.0.checked_sub(self.data_pages) {
            None => self.data.read_exact_at(buffer, place.offset()),
            Some(page) => self.scratch.read_exact_at(buffer, page * PAGE_BYTES as u64),
        };
        read.ok()
    }

    /// Calls `visit` with every place from `from` on at which a page could start, and the page or run
    /// when it is sound; places inside a sound run are left out.
    pub(crate) fn scan(&self, from: PageNumber, visit: &mut dyn FnMut(PageNumber, SeenPage<'_>)) {
        let mut chunk = Vec::new();
        let (mut chunk_at, mut place) = (0, from);
        while place.0 < self.data_pages {
            let in_chunk = place.0.checked_sub(chunk_at).map(|page| page as usize * PAGE_BYTES);
            let bytes = match in_chunk.and_then(|at| chunk.get(at..at + PAGE_BYTES)) {
                Some(bytes) => Some(PageBuffer::new(bytes, self.plaintext.is_some())),
                None => {
                    chunk_at = place.0;
                    let pages = SCAN_PAGES.min(self.data_pages - place.0);
                    chunk.resize(pages as usize * PAGE_BYTES, 0);
                    let read = self.read_into(&mut chunk, place);
                    if read.is_none() {
                        chunk.clear();
                    }
                    let mut alone = self.buffer(PAGE_BYTES);
                    self.read_into(&mut alone, place).map(|()| alone)
                }
            };
            place = place.plus(self.visit_one(bytes, place, visit));
        }
        for place in &self.scratch_starts {
            if let Some(page) = self.read(*place) {
                visit(*place, Ok(&page));
            }
        }
    }

    /// Returns the number of pages visited.
    fn visit_one(
        &self,
        bytes: Option<PageBuffer>,
        place: PageNumber,
        visit: &mut dyn FnMut(PageNumber, SeenPage<'_>),
    ) -> u64 {
        let Some(bytes) = bytes else {
            visit(place, Err(Unsound::Damaged));
            return 1;
        };
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        match self.complete(bytes, place) {
            Some(page) => {
                visit(place, Ok(&page));
                (page.len() / PAGE_BYTES) as u64
            }
            None => {
                visit(place, Err(if is_empty { Unsound::Empty } else { Unsound::Damaged }));
                1
            }
        }
    }
}

/// A page or run, when it is sound.
pub(crate) type SeenPage<'p> = Result<&'p [u8], Unsound>;

/// Why a page cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsound {
    /// It is all zeroes: space that was reserved and not written yet.
    Empty,
    /// It cannot be read, or is not what was written.
    Damaged,
}

/// The transaction that wrote the page.
pub(crate) fn transaction(page: &[u8]) -> u64 {
    read_u64(page, 8)
}
