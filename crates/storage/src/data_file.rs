//! The data file: pages at rest, read through a mapping and written by the flush only.
//!
//! Invariant that makes reading without locks sound: the flush writes a page's version of
//! transaction F only while no active snapshot is older than F, and every snapshot at or after F
//! that was taken before that page was written and synced has that version in its page table. So no
//! page is read through the mapping while it is being written.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use platform::{File, Mapping};

use crate::{
    error::{Corruption, StorageError},
    format::{
        PAGE_BYTES, PageKind, PageNumber, checksum_matches, page_kind, page_number, run_bytes,
        run_pages, stamp_checksum,
    },
    io_statistics::{IoKind, IoMeter},
    page_table::PageVersion,
    snapshot::PageSource,
};

/// Adjacent pages are gathered into writes of at most this many bytes.
const WRITE_BYTES_MAX: usize = 1024 * 1024;
const MAPPED_BYTES_MIN: usize = 64 * 1024 * 1024;
const GROWTH_PAGES_MIN: u64 = 32;
const GROWTH_PAGES_MAX: u64 = 8192;

pub(crate) struct DataFile {
    file: Arc<dyn File>,
    is_encrypted: bool,
    path: PathBuf,
    name: Arc<str>,
    pages: Arc<AtomicU64>,
    mapped: Mutex<Arc<MappedPages>>,
}

impl DataFile {
    pub(crate) fn new(
        file: Arc<dyn File>,
        path: PathBuf,
        is_encrypted: bool,
    ) -> Result<Self, StorageError> {
        let bytes = file.len().map_err(|error| StorageError::io(&path, "measure", error))?;
        let pages = Arc::new(AtomicU64::new(bytes / PAGE_BYTES as u64));
        let mapped = Arc::new(MappedPages::new(&*file, &path, &pages)?);
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let mapped = Mutex::new(mapped);
        Ok(Self { file, is_encrypted, path, name: name.into(), pages, mapped })
    }

    pub(crate) fn file(&self) -> &dyn File {
        &*self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that the file occupies.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.load(Ordering::Acquire) * PAGE_BYTES as u64
    }

    /// The current mapping; a snapshot keeps the one it started with.
    pub(crate) fn mapped(&self) -> Arc<MappedPages> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Grows the file to hold `pages` pages, in steps, and maps them. The space is reserved, so
    /// writing the pages later cannot run out of disk.
    pub(crate) fn grow_to(&self, pages: u64) -> Result<(), StorageError> {
        let now = self.pages.load(Ordering::Acquire);
        if pages <= now {
            return Ok(());
        }
        let step = (now / 4).clamp(GROWTH_PAGES_MIN, GROWTH_PAGES_MAX);
        let target = pages.max(now + step);
        self.file
            .allocate(target * PAGE_BYTES as u64)
            .map_err(|error| StorageError::io(&self.path, "extend", error))?;
        self.pages.store(target, Ordering::Release);
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if mapped.mapping.len() < (target as usize) * PAGE_BYTES {
            *mapped = Arc::new(MappedPages::new(&*self.file, &self.path, &self.pages)?);
        }
        Ok(())
    }

    /// Writes the versions to their pages, with checksums stamped unless they are encrypted. Does not sync.
    pub(crate) fn write(
        &self,
        versions: &[(PageNumber, Arc<PageVersion>)],
        meter: &IoMeter,
    ) -> Result<(), StorageError> {
        let mapped = self.mapped();
        let mut gathered = GatheredWrite::new(self, meter);
        for (page, version) in versions {
            gathered.add(*page, version.bytes())?;
            mapped.forget_verified(*page);
        }
        gathered.finish()
    }

    /// Writes bytes that are already stamped to their page.
    pub(crate) fn write_at(
        &self,
        bytes: &[u8],
        page: PageNumber,
        meter: &IoMeter,
    ) -> Result<(), StorageError> {
        meter
            .measure(IoKind::DataFlush, &self.name, self.bytes(), bytes.len() as u64, || {
                self.file.write_all_at(bytes, page.offset())
            })
            .map_err(|error| StorageError::io(&self.path, "write", error))
    }

    pub(crate) fn sync(&self, meter: &IoMeter) -> Result<(), StorageError> {
        meter
            .measure(IoKind::DataSync, &self.name, self.bytes(), 0, || self.file.sync_data())
            .map_err(|error| StorageError::io(&self.path, "sync", error))
    }
}

/// Joins writes of adjacent pages.
struct GatheredWrite<'a> {
    data: &'a DataFile,
    meter: &'a IoMeter,
    first: PageNumber,
    bytes: Vec<u8>,
}

impl<'a> GatheredWrite<'a> {
    fn new(data: &'a DataFile, meter: &'a IoMeter) -> Self {
        Self { data, meter, first: PageNumber(0), bytes: Vec::new() }
    }

    fn add(&mut self, page: PageNumber, content: &[u8]) -> Result<(), StorageError> {
        let next = self.first.plus((self.bytes.len() / PAGE_BYTES) as u64);
        if next != page || self.bytes.len() + content.len() > WRITE_BYTES_MAX {
            self.finish()?;
            self.first = page;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(content);
        if !self.data.is_encrypted {
            stamp_checksum(&mut self.bytes[start..]);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        if !self.bytes.is_empty() {
            self.data.write_at(&self.bytes, self.first, self.meter)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// The data file seen through one mapping, with one bit per page, set once the page has been
/// verified since it was last written.
pub(crate) struct MappedPages {
    mapping: Mapping,
    path: PathBuf,
    pages: Arc<AtomicU64>,
    verified: Box<[AtomicU64]>,
}

impl PageSource for MappedPages {
    /// Checks a page on its first touch. A device that cannot read it is an error then; a page that the system
    /// evicted after that, and that the device has lost meanwhile, ends the process by SIGBUS.
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        if self.is_verified(page) {
            let bytes = self.slice(page, 1)?;
            return match page_kind(bytes) {
                Some(PageKind::Run) => self.slice(page, run_pages(run_bytes(bytes))),
                _ => Ok(bytes),
            };
        }
        let bytes = self.load(page, 1)?;
        let bytes = match page_kind(bytes) {
            Some(PageKind::Run) => self.load(page, run_pages(run_bytes(bytes)))?,
            _ => bytes,
        };
        self.verify(page, bytes)
    }

    fn sealed_page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        let read = |pages| match self.is_verified(page) {
            true => self.slice(page, pages),
            false => self.load(page, pages),
        };
        let bytes = read(1)?;
        match page_kind(bytes) {
            // Whoever has changed the length has not left the run as it was, which shows when it is decrypted.
            Some(PageKind::Run) => read(run_pages(run_bytes(bytes))),
            _ => Ok(bytes),
        }
    }

    fn note_verified(&self, page: PageNumber) {
        if let Some(word) = self.verified.get((page.0 / 64) as usize) {
            word.fetch_or(1 << (page.0 % 64), Ordering::Relaxed);
        }
    }
}

impl MappedPages {
    fn new(file: &dyn File, path: &Path, pages: &Arc<AtomicU64>) -> Result<Self, StorageError> {
        let used = pages.load(Ordering::Acquire) as usize * PAGE_BYTES;
        let bytes = (used * 2).max(MAPPED_BYTES_MIN);
        let mapping = file.map(bytes).map_err(|error| StorageError::io(path, "map", error))?;
        let words = (mapping.len() / PAGE_BYTES).div_ceil(64);
        let verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { mapping, path: path.to_owned(), pages: pages.clone(), verified })
    }

    fn is_verified(&self, page: PageNumber) -> bool {
        let word = self.verified.get((page.0 / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (page.0 % 64)) != 0)
    }

    /// As [`MappedPages::slice`], for pages that may never have been read.
    fn load(&self, page: PageNumber, pages: u64) -> Result<&[u8], StorageError> {
        self.check_range(page, pages)?;
        let (offset, len) = (page.0 as usize * PAGE_BYTES, pages as usize * PAGE_BYTES);
        let loaded = self.mapping.load(offset, len);
        loaded.map_err(|error| StorageError::io(&self.path, "read", error))?;
        self.slice(page, pages)
    }

    fn check_range(&self, page: PageNumber, pages: u64) -> Result<(), StorageError> {
        let present = self.pages.load(Ordering::Acquire);
        let mapped = (self.mapping.len() / PAGE_BYTES) as u64;
        let end = page.0.checked_add(pages);
        if end.is_none_or(|end| end > present.min(mapped)) {
            return Err(Corruption::PageOutOfRange { page }.into());
        }
        Ok(())
    }

    fn slice(&self, page: PageNumber, pages: u64) -> Result<&[u8], StorageError> {
        self.check_range(page, pages)?;
        // SAFETY: the range is inside the file (checked above; the file never shrinks while it is
        // open), and no page is written that a snapshot may still read through the mapping (see the
        // invariant at the head of this file).
        Ok(unsafe { self.mapping.slice(page.0 as usize * PAGE_BYTES, pages as usize * PAGE_BYTES) })
    }

    fn verify<'a>(&self, page: PageNumber, bytes: &'a [u8]) -> Result<&'a [u8], StorageError> {
        let (word, bit) = (&self.verified[(page.0 / 64) as usize], 1 << (page.0 % 64));
        if !checksum_matches(bytes) {
            return Err(Corruption::PageChecksum { page }.into());
        }
        if page_number(bytes) != page {
            return Err(Corruption::PageHeader { page, expected: "the page of that number" }.into());
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(bytes)
    }

    fn forget_verified(&self, page: PageNumber) {
        if let Some(word) = self.verified.get((page.0 / 64) as usize) {
            word.fetch_and(!(1 << (page.0 % 64)), Ordering::Relaxed);
        }
    }
}
