//! Which pages are free: a bitmap page per section of the environment.
//!
//! A section is [`SECTION_PAGES`] pages (508 MB). Its bitmap is the page at offset
//! [`BITMAP_AT`] in the section, so finding it needs no lookup and growing needs no allocation. A set
//! bit is a free page. Pages at or after the environment's `next_page` were never allocated and have
//! no bit set.
//!
//! Bitmaps are ordinary pages: versioned, journaled and rolled back like any other. The
//! [`FreeSpaceSummary`] is an in-memory hint on top of them, rebuilt when an environment opens.

use crate::{
    error::StorageError,
    format::{PAGE_BODY_BYTES, PAGE_HEADER_BYTES, PageKind, PageNumber, page_kind, read_u64},
    page_mut::PageMut,
    snapshot::Pages,
};

/// Pages per section: as many as a page body has bits.
pub(crate) const SECTION_PAGES: u64 = PAGE_BODY_BYTES as u64 * 8;
/// Offset of the bitmap in its section, in pages; in the first section the two headers and the root
/// precede it.
pub(crate) const BITMAP_AT: u64 = 3;

/// The section of a page.
pub(crate) fn section_of(page: PageNumber) -> u64 {
    page.0 / SECTION_PAGES
}

/// The page that holds the bitmap of a section.
pub(crate) fn bitmap_page(section: u64) -> PageNumber {
    PageNumber(section * SECTION_PAGES + BITMAP_AT)
}

/// What is known about a section without reading its bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionSummary {
    /// Free pages.
    pub(crate) free: u32,
    /// No page before this one (in the section) is free.
    pub(crate) search_from: u32,
    /// No run of more free pages exists; an upper bound.
    pub(crate) run_max: u32,
}

/// A summary per section that has a bitmap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeSpaceSummary {
    pub(crate) sections: Vec<SectionSummary>,
}

impl FreeSpaceSummary {
    /// Reads every bitmap below `next_page`.
    pub(crate) fn read(pages: &impl Pages, next_page: PageNumber) -> Result<Self, StorageError> {
        let mut sections = Vec::new();
        while bitmap_page(sections.len() as u64) < next_page {
            let number = bitmap_page(sections.len() as u64);
            let page = bitmap(pages, number)?;
            let free: u32 = words(page).map(u64::count_ones).sum();
            sections.push(SectionSummary { free, search_from: 0, run_max: free });
        }
        Ok(Self { sections })
    }

    /// Free pages in all sections.
    pub(crate) fn free_pages(&self) -> u64 {
        self.sections.iter().map(|section| u64::from(section.free)).sum()
    }
}

/// The bitmap page, checked to be one.
pub(crate) fn bitmap(pages: &impl Pages, number: PageNumber) -> Result<&[u8], StorageError> {
    let page = pages.page(number)?;
    if page_kind(page) != Some(PageKind::FreeSpace) {
        return Err(StorageError::structure(number, "it is not a free-space bitmap"));
    }
    Ok(page)
}

fn words(page: &[u8]) -> impl Iterator<Item = u64> + '_ {
    page[PAGE_HEADER_BYTES..].chunks_exact(8).map(|word| read_u64(word, 0))
}

/// The first run of `pages` set bits at or after `from`.
pub(crate) fn find_free_run(page: &[u8], from: u32, pages: u32) -> Option<u32> {
    let mut run_start = from;
    let mut at = from;
    while u64::from(at) < SECTION_PAGES {
        let word = read_u64(page, PAGE_HEADER_BYTES + (at as usize / 64) * 8) >> (at % 64);
        if word == 0 {
            at = (at / 64 + 1) * 64;
            run_start = at;
            continue;
        }
        let zeros = word.trailing_zeros();
        if zeros > 0 {
            at += zeros;
            run_start = at;
            continue;
        }
        at += word.trailing_ones();
        if at - run_start >= pages {
            return Some(run_start);
        }
    }
    None
}

/// Sets or clears the bits `from..from + pages`. Every bit must have had the other value: a page is
/// never freed twice nor allocated twice.
pub(crate) fn set_free(
    page: &mut PageMut<'_>,
    number: PageNumber,
    from: u32,
    pages: u32,
    free: bool,
) -> Result<(), StorageError> {
    for bit in from..from + pages {
        let at = PAGE_HEADER_BYTES + (bit as usize / 64) * 8;
        let mask = 1u64 << (bit % 64);
        let word = read_u64(page, at);
        if (word & mask != 0) == free {
            return Err(StorageError::structure(number, "a page is freed or allocated twice"));
        }
        page.write_u64(at, word ^ mask);
    }
    Ok(())
}

/// Whether a page below `next_page` is free according to its section's bitmap.
pub(crate) fn is_free(pages: &impl Pages, page: PageNumber) -> Result<bool, StorageError> {
    Ok(is_free_on(bitmap(pages, bitmap_page(section_of(page)))?, page))
}

/// Whether a page is free according to the bitmap of its section.
pub(crate) fn is_free_on(bitmap: &[u8], page: PageNumber) -> bool {
    let bit = (page.0 % SECTION_PAGES) as usize;
    bitmap[PAGE_HEADER_BYTES + bit / 8] & (1 << (bit % 8)) != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        format::{PAGE_BYTES, init_page},
        page_mut::Lines,
    };

    fn empty() -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        init_page(&mut page, bitmap_page(0), PageKind::FreeSpace);
        page
    }

    fn set(page: &mut [u8], from: u32, pages: u32, free: bool) -> Result<(), StorageError> {
        let mut lines = Lines::NONE;
        set_free(&mut PageMut::new(page, &mut lines), bitmap_page(0), from, pages, free)
    }

    proptest! {
        #[test]
        fn finds_the_first_run_like_a_naive_scan(
            free in prop::collection::btree_set(0u32..400, 0..200),
            from in 0u32..400,
            pages in 1u32..6,
        ) {
            let mut page = empty();
            for bit in &free {
                set(&mut page, *bit, 1, true).expect("was in use");
            }
            let naive = (from..SECTION_PAGES as u32 - pages)
                .find(|start| (*start..start + pages).all(|bit| free.contains(&bit)));
            prop_assert_eq!(find_free_run(&page, from, pages), naive);
        }
    }

    #[test]
    fn freeing_twice_is_corruption() {
        let mut page = empty();
        set(&mut page, 63, 3, true).expect("in use");
        assert!(set(&mut page, 65, 1, true).is_err());
        assert!(set(&mut page, 66, 1, false).is_err());
    }

    #[test]
    fn the_last_page_of_a_section_can_be_found() {
        let mut page = empty();
        let last = SECTION_PAGES as u32 - 1;
        set(&mut page, last, 1, true).expect("in use");
        assert_eq!(find_free_run(&page, 0, 1), Some(last));
        assert_eq!(find_free_run(&page, 0, 2), None);
    }
}
