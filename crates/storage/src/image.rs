//! An image of an environment: the pages of a snapshot as a stream, taken while it is written to.
//!
//! ```text
//! each page, or run of pages, as in the data file of an environment that is not encrypted, with its checksum; in the
//! order in which they were copied. Of two copies of a page the later one counts. Free pages are missing.
//! ```
//!
//! A snapshot that is held for long keeps the flush from making room in memory. So the pages are copied in passes. In
//! the first ones the caller may go over to a newer snapshot at each section of the environment
//! ([`ImageStep::SectionEnd`]), where no run of pages goes across. Each pass copies what was written since the one
//! before it began. The image is that of a snapshot when a pass was made with that one alone.
//!
//! Invariant: a page that the last snapshot has, and that was written before some pass began, was copied by that pass
//! or by an earlier one: it has been the same page ever since.

use std::collections::HashMap;

use crate::{
    error::{Corruption, StorageError},
    format::{
        PAGE_BYTES, PAGE_HEADER_BYTES, PageKind, PageNumber, VALUE_BYTES_MAX, checksum_matches,
        page_kind, page_number, page_transaction, run_bytes, run_pages, stamp_checksum,
    },
    free_space::{BITMAP_AT, bitmap_page, is_free, is_free_on, section_of},
    snapshot::{EnvironmentRoot, Pages, ROOT_PAGE, View},
    transaction::ReadTransaction,
};

/// A step copies about this much, or one value that is longer.
const STEP_BYTES: usize = 1024 * 1024;
/// Pages that a step looks at, at most.
const STEP_PAGES: u64 = 4096;
/// In pages: what belongs to encryption.
const NONCE_AND_MAC: std::ops::Range<usize> = 24..PAGE_HEADER_BYTES;

/// Where an image ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageEnd {
    /// The newest transaction in it.
    pub transaction: u64,
    /// The first page that was never allocated.
    pub next_page: u64,
    /// Pages and runs that were copied, some of them more than once.
    pub copies: u64,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageStep {
    /// The pass goes on, with the same snapshot.
    Within,
    /// The pass goes on, and may go on with a newer snapshot.
    SectionEnd,
    /// The pass is over; the image is that of its snapshot if all steps were made with one.
    PassEnd {
        /// Whether that is so.
        is_whole: bool,
    },
}

/// The pages of an environment, on their way into an image.
#[derive(Debug, Default)]
pub struct ImagePages {
    /// Pages of this transaction or an older one were copied; none were when `None`.
    copied_until: Option<u64>,
    /// The first snapshot of the pass, and whether it was the only one.
    snapshot: Option<(u64, bool)>,
    next: u64,
    copies: u64,
}

impl ImagePages {
    /// Copies the next pages of a pass, a new one if there is none.
    ///
    /// # Errors
    /// A page cannot be read, or is damaged.
    pub fn step(
        &mut self,
        read: &ReadTransaction,
        out: &mut Vec<u8>,
    ) -> Result<ImageStep, StorageError> {
        let began = match &mut self.snapshot {
            Some((began, is_only)) => {
                *is_only &= *began == read.id();
                *began
            }
            None => {
                self.next = ROOT_PAGE.get();
                self.snapshot = Some((read.id(), true));
                read.id()
            }
        };
        let renewed = read.renewed();
        let view = renewed.view();
        let (end, bytes_before) = (view.root.next_page.get(), out.len());
        let looked_at = self.next;
        while self.next < end {
            self.next += self.copy(view, PageNumber(self.next), out)?;
            // A bitmap has a place of its own, so no run goes across it.
            if bitmap_page(section_of(PageNumber(self.next))).get() == self.next {
                return Ok(ImageStep::SectionEnd);
            }
            if STEP_BYTES <= out.len() - bytes_before || STEP_PAGES <= self.next - looked_at {
                return Ok(ImageStep::Within);
            }
        }
        let is_whole = self.snapshot.take().is_some_and(|(_, is_only)| is_only);
        self.copied_until = Some(began);
        Ok(ImageStep::PassEnd { is_whole })
    }

    /// Where the image ends, after a pass with that snapshot alone.
    pub fn end(&self, read: &ReadTransaction) -> ImageEnd {
        let next_page = read.view().root.next_page.get();
        ImageEnd { transaction: read.id(), next_page, copies: self.copies }
    }

    /// Copies a page or a run, unless it is free or was copied; returns how many pages that are.
    fn copy(
        &mut self,
        view: &View,
        page: PageNumber,
        out: &mut Vec<u8>,
    ) -> Result<u64, StorageError> {
        let bitmap = bitmap_page(section_of(page));
        // The root of the first section, and what is before it, is never free.
        let is_fixed = page == bitmap || page == ROOT_PAGE;
        if !is_fixed && is_free(view, page)? {
            return Ok(1);
        }
        let stored = view.stored_bytes_of(page)?;
        let pages = (stored.len() / PAGE_BYTES) as u64;
        if self.copied_until.is_some_and(|until| page_transaction(stored) <= until) {
            return Ok(pages);
        }
        let start = out.len();
        out.extend_from_slice(view.page(page)?);
        let copied = &mut out[start..];
        copied[NONCE_AND_MAC].fill(0);
        stamp_checksum(copied);
        self.copies += 1;
        Ok(pages)
    }
}

/// Receives a page or a run of pages.
pub type TakePage<'t> = &'t mut dyn FnMut(PageNumber, &mut [u8]) -> Result<(), StorageError>;

/// Reads an image that arrives in pieces, and checks all that can be checked.
#[derive(Debug, Default)]
pub struct ImageReader {
    buffer: Vec<u8>,
    copies: u64,
    /// A bit for each page that was copied.
    copied: Vec<u64>,
    root: Option<EnvironmentRoot>,
    /// The bitmaps, by section.
    bitmaps: HashMap<u64, Box<[u8]>>,
}

impl ImageReader {
    /// Takes a piece, and hands over each page or run that is complete.
    ///
    /// # Errors
    /// The image is damaged; those of `take`.
    pub fn take(&mut self, piece: &[u8], take: TakePage<'_>) -> Result<(), StorageError> {
        self.buffer.extend_from_slice(piece);
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = 0;
        while let Some(bytes) = copy_at(&buffer[done..])? {
            let copy = &mut buffer[done..done + bytes];
            self.check(copy)?;
            take(page_number(copy), copy)?;
            done += bytes;
        }
        buffer.drain(..done);
        self.buffer = buffer;
        Ok(())
    }

    /// Checks that the image has everything: each page that is not free.
    ///
    /// # Errors
    /// Something is missing.
    pub fn end(self, end: &ImageEnd) -> Result<(), StorageError> {
        let missing = |page: u64, what| StorageError::structure(PageNumber(page), what);
        let Some(root) = self.root else {
            return Err(missing(ROOT_PAGE.get(), "the image has no root"));
        };
        if !self.buffer.is_empty() || self.copies != end.copies {
            return Err(missing(end.next_page, "the image is cut off"));
        }
        if root.next_page.get() != end.next_page {
            return Err(missing(ROOT_PAGE.get(), "the image is of another snapshot"));
        }
        for number in BITMAP_AT..end.next_page {
            let page = PageNumber(number);
            let Some(bitmap) = self.bitmaps.get(&section_of(page)) else {
                return Err(missing(number, "its bitmap is missing in the image"));
            };
            let is_copied = self.copied.get((number / 64) as usize);
            let is_copied = is_copied.is_some_and(|word| word & (1 << (number % 64)) != 0);
            if !is_copied && !is_free_on(bitmap, page) {
                return Err(missing(number, "it is missing in the image"));
            }
        }
        Ok(())
    }

    fn check(&mut self, copy: &[u8]) -> Result<(), StorageError> {
        let page = page_number(copy);
        if !checksum_matches(copy) {
            return Err(Corruption::PageChecksum { page }.into());
        }
        let end = page.get().checked_add((copy.len() / PAGE_BYTES) as u64);
        let Some(end) = end.filter(|end| ROOT_PAGE.get() <= page.get() && *end <= PAGES_MAX) else {
            return Err(Corruption::PageOutOfRange { page }.into());
        };
        if page == ROOT_PAGE {
            self.root = Some(EnvironmentRoot::read(copy)?);
        }
        let section = section_of(page);
        if page == bitmap_page(section) {
            if page_kind(copy) != Some(PageKind::FreeSpace) {
                return Err(StorageError::structure(page, "it is not a free-space bitmap"));
            }
            self.bitmaps.insert(section, copy.into());
        }
        let words = end.div_ceil(64) as usize;
        if self.copied.len() < words {
            self.copied.resize(words, 0);
        }
        for number in page.get()..end {
            self.copied[(number / 64) as usize] |= 1 << (number % 64);
        }
        self.copies += 1;
        Ok(())
    }
}

/// A higher page number is damage: 64 TB.
const PAGES_MAX: u64 = 1 << 33;

/// Bytes of the page or run that begins there; `None` while it is not complete.
fn copy_at(bytes: &[u8]) -> Result<Option<usize>, StorageError> {
    if bytes.len() < PAGE_BYTES {
        return Ok(None);
    }
    let kind = page_kind(bytes);
    let pages = match kind {
        Some(PageKind::Run) if VALUE_BYTES_MAX < run_bytes(bytes) => None,
        Some(PageKind::Run) => Some(run_pages(run_bytes(bytes))),
        Some(_) => Some(1),
        None => None,
    };
    let Some(pages) = pages else {
        return Err(Corruption::PageChecksum { page: page_number(bytes) }.into());
    };
    let bytes_of_all = pages as usize * PAGE_BYTES;
    Ok((bytes_of_all <= bytes.len()).then_some(bytes_of_all))
}
