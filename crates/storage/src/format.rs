//! The layout of a page, shared by everything that is stored in one.
//!
//! All integers are little endian. A page is [`PAGE_BYTES`] long; a value that needs more is a *run*
//! of consecutive pages of which only the first has a header.
//!
//! ```text
//!  0        8        16     24              48        64                                8192
//!  ├────────┼────────┼──────┼───────────────┼─────────┼─────────────────────────────────┤
//!  │ number │ trans- │ kind │ nonce         │ MAC or  │ body, by kind                   │
//!  │        │ action │ etc. │ (encryption)  │ checksum│                                 │
//!  └────────┴────────┴──────┴───────────────┴─────────┴─────────────────────────────────┘
//!  16 kind u8 · 17 flags u8 · 18 count u16 · 20 lower u16 · 22 upper u16     (pages with entries)
//!  16 kind u8 · 17 flags u8 · 18 zero  u16 · 20 bytes u32                     (runs)
//! ```
//!
//! The nonce is zero and bytes 48..64 hold the XXH3-128 of the rest of the page (of the whole run)
//! until an environment is encrypted; then they hold the nonce and the MAC of an authenticated cipher.
//! The checksum is stamped when the page is written to the data file, not while it is in memory.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use crate::page_mut::PageMut;

/// Bytes in a page.
pub const PAGE_BYTES: usize = 8192;
/// Bytes of a page before its body.
pub(crate) const PAGE_HEADER_BYTES: usize = 64;
/// Bytes in the body of a page.
pub(crate) const PAGE_BODY_BYTES: usize = PAGE_BYTES - PAGE_HEADER_BYTES;
/// The longest key of a tree, in bytes.
pub const KEY_BYTES_MAX: usize = 1056;
/// The longest value or row, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 * 1024 * 1024;

pub(crate) const PAGE_FLAGS: usize = 17;
pub(crate) const PAGE_COUNT: usize = 18;
pub(crate) const PAGE_LOWER: usize = 20;
pub(crate) const PAGE_UPPER: usize = 22;
const TRANSACTION: usize = 8;
const CHECKSUM: std::ops::Range<usize> = 48..64;

/// The number of a page: its place in the data file, which it keeps for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNumber(pub(crate) u64);

impl PageNumber {
    /// The number as an integer.
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn plus(self, pages: u64) -> PageNumber {
        PageNumber(self.0 + pages)
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 * PAGE_BYTES as u64
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// The root of the environment (page 2).
    Root = 1,
    /// One bit per page of a section: free or not.
    FreeSpace = 2,
    /// Inner page of a tree with variable keys.
    TreeBranch = 3,
    /// Leaf of a tree with variable keys.
    TreeLeaf = 4,
    /// Inner page of a tree with 8-byte keys.
    FixedBranch = 5,
    /// Leaf of a tree with 8-byte keys.
    FixedLeaf = 6,
    /// Small rows of a table.
    Rows = 7,
    /// The first page of a run: one large value or row.
    Run = 8,
}

impl PageKind {
    fn from_byte(byte: u8) -> Option<PageKind> {
        Some(match byte {
            1 => PageKind::Root,
            2 => PageKind::FreeSpace,
            3 => PageKind::TreeBranch,
            4 => PageKind::TreeLeaf,
            5 => PageKind::FixedBranch,
            6 => PageKind::FixedLeaf,
            7 => PageKind::Rows,
            8 => PageKind::Run,
            _ => return None,
        })
    }
}

pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn read_u128(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

pub(crate) fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_u128(bytes: &mut [u8], at: usize, value: u128) {
    bytes[at..at + 16].copy_from_slice(&value.to_le_bytes());
}

/// The transaction that wrote this version.
pub(crate) fn page_transaction(page: &[u8]) -> u64 {
    read_u64(page, TRANSACTION)
}

pub(crate) fn page_number(page: &[u8]) -> PageNumber {
    PageNumber(read_u64(page, 0))
}

pub(crate) fn page_kind(page: &[u8]) -> Option<PageKind> {
    PageKind::from_byte(page[16])
}

pub(crate) fn page_flags(page: &[u8]) -> u8 {
    page[PAGE_FLAGS]
}

/// Entries in the page.
pub(crate) fn page_count(page: &[u8]) -> usize {
    usize::from(read_u16(page, PAGE_COUNT))
}

/// End of the slots that grow upwards.
pub(crate) fn page_lower(page: &[u8]) -> usize {
    usize::from(read_u16(page, PAGE_LOWER))
}

/// Start of the heap that grows downwards.
pub(crate) fn page_upper(page: &[u8]) -> usize {
    usize::from(read_u16(page, PAGE_UPPER))
}

/// Positions inside a page always fit in 16 bits: a page has 8,192 bytes.
pub(crate) fn to_u16(position: usize) -> u16 {
    u16::try_from(position).expect("a position inside a page")
}

/// Bytes stored in a run.
pub(crate) fn run_bytes(page: &[u8]) -> usize {
    read_u32(page, 20) as usize
}

/// Pages that a run of `bytes` occupies, header included.
pub(crate) fn run_pages(bytes: usize) -> u64 {
    (bytes + PAGE_HEADER_BYTES).div_ceil(PAGE_BYTES) as u64
}

/// Starts an empty page of `kind`; the transaction is stamped when it is sealed.
pub(crate) fn init_page(page: &mut [u8], number: PageNumber, kind: PageKind) {
    page[..PAGE_HEADER_BYTES].fill(0);
    write_u64(page, 0, number.0);
    page[16] = kind as u8;
}

pub(crate) fn init_run(page: &mut [u8], number: PageNumber, bytes: usize) {
    init_page(page, number, PageKind::Run);
    write_u32(page, 20, u32::try_from(bytes).expect("at most VALUE_BYTES_MAX"));
}

pub(crate) fn set_page_transaction(page: &mut PageMut<'_>, transaction: u64) {
    page.write_u64(TRANSACTION, transaction);
}

/// The checksum of a page or a whole run, over everything but the checksum itself.
pub(crate) fn checksum(page: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&page[..CHECKSUM.start]);
    hash.update(&page[CHECKSUM.end..]);
    hash.digest128()
}

pub(crate) fn stamp_checksum(page: &mut [u8]) {
    let sum = checksum(page);
    write_u128(page, CHECKSUM.start, sum);
}

pub(crate) fn checksum_matches(page: &[u8]) -> bool {
    read_u128(page, CHECKSUM.start) == checksum(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_page_matches_until_any_byte_changes() {
        let mut page = vec![7; PAGE_BYTES];
        init_page(&mut page, PageNumber(42), PageKind::TreeLeaf);
        stamp_checksum(&mut page);
        assert!(checksum_matches(&page));
        for at in [0, 9, 17, 47, 48, 63, 64, PAGE_BYTES - 1] {
            page[at] ^= 1;
            assert!(!checksum_matches(&page), "a flip at {at} goes unnoticed");
            page[at] ^= 1;
        }
        assert_eq!(page_number(&page), PageNumber(42));
        assert_eq!(page_kind(&page), Some(PageKind::TreeLeaf));
    }

    #[test]
    fn a_run_counts_its_header() {
        assert_eq!(run_pages(0), 1);
        assert_eq!(run_pages(PAGE_BODY_BYTES), 1);
        assert_eq!(run_pages(PAGE_BODY_BYTES + 1), 2);
        assert_eq!(run_pages(PAGE_BODY_BYTES + PAGE_BYTES), 2);
    }
}
