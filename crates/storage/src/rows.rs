//! Rows of a table: small ones share pages, large ones have runs of their own.
//!
//! ```text
//! 64 live rows u16 · 66 dead bytes u16 · 68 slots, upwards: offset u16 · length u16   (offset 0: free)
//! rows, downwards from the end of the page
//! ```
//!
//! A row keeps its [`RowId`] for life; rows move inside their page when it is tidied. New rows go
//! to the table's active page. A page that is at least half empty is listed in the table's tree of
//! reusable pages and becomes active again; an empty page is freed.

use crate::{
    catalog::TreeState,
    error::StorageError,
    fixed_tree,
    format::{
        PAGE_BYTES, PAGE_HEADER_BYTES, PAGE_UPPER, PageKind, PageNumber, page_count, page_kind,
        page_lower, page_upper, read_u16, to_u16, write_u16,
    },
    page_mut::PageMut,
    snapshot::Pages,
    write_pages::{WritePages, run_content},
};

/// Longer rows, in bytes, are stored in a separate run.
pub(crate) const ROW_INLINE_MAX: usize = 4000;

const LIVE_ROWS: usize = 64;
const DEAD_BYTES: usize = 66;
const SLOTS: usize = 68;
const SLOT_BYTES: usize = 4;
const SLOT_BITS: u32 = 12;
/// The slot number of a row stored in a run.
const RUN_SLOT: u64 = (1 << SLOT_BITS) - 1;
/// A page with this much free space accepts rows again.
const REUSABLE_BYTES: usize = PAGE_BYTES / 2;

/// Where a row is stored: its page and its place in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u64);

impl RowId {
    /// The id as it is stored in indexes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, StorageError> {
        let bytes = bytes
            .try_into()
            .map_err(|_| StorageError::structure(PageNumber(0), "a row id is not 8 bytes long"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    fn new(page: PageNumber, slot: u64) -> Self {
        Self(page.0 << SLOT_BITS | slot)
    }

    pub(crate) fn page(self) -> PageNumber {
        PageNumber(self.0 >> SLOT_BITS)
    }

    fn slot(self) -> u64 {
        self.0 & RUN_SLOT
    }
}

/// The row's bytes.
pub(crate) fn get<P: Pages>(pages: &P, id: RowId) -> Result<&[u8], StorageError> {
    let (number, slot) = (id.page(), id.slot() as usize);
    let page = pages.page(number)?;
    if id.slot() == RUN_SLOT {
        if page_kind(page) != Some(PageKind::Run) {
            return Err(StorageError::structure(number, "it is not the run of a row"));
        }
        return Ok(run_content(page));
    }
    let missing = || StorageError::structure(number, "there is no such row");
    if page_kind(page) != Some(PageKind::Rows) || slot >= page_count(page) {
        return Err(missing());
    }
    let at = SLOTS + slot * SLOT_BYTES;
    let place = page.get(at..at + SLOT_BYTES).ok_or_else(missing)?;
    let (start, bytes) = (usize::from(read_u16(place, 0)), usize::from(read_u16(place, 2)));
    page.get(start..start + bytes).filter(|_| start != 0).ok_or_else(missing)
}

/// Every row of a sound page of rows, or the one row of a run; for salvage.
pub(crate) fn all_in(page: &[u8], number: PageNumber) -> Vec<(RowId, &[u8])> {
    match page_kind(page) {
        Some(PageKind::Run) => vec![(RowId::new(number, RUN_SLOT), run_content(page))],
        Some(PageKind::Rows) => (0..page_count(page))
            .filter_map(|slot| {
                let place = page.get(SLOTS + slot * SLOT_BYTES..)?.first_chunk::<SLOT_BYTES>()?;
                let (start, bytes) = (read_u16(place, 0), read_u16(place, 2));
                let row = page.get(usize::from(start)..usize::from(start) + usize::from(bytes))?;
                (start != 0).then(|| (RowId::new(number, slot as u64), row))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Bytes that a row of that length occupies in its pages; a long row has pages to itself.
pub fn allocated_row_bytes(row_bytes: usize) -> u64 {
    if row_bytes <= ROW_INLINE_MAX {
        return row_bytes as u64;
    }
    (PAGE_HEADER_BYTES + row_bytes).next_multiple_of(PAGE_BYTES) as u64
}

/// Stores a row. `rows` is the table's row state, `reusable` its fixed tree of reusable pages.
pub(crate) fn insert(
    pages: &mut WritePages,
    rows: &mut TreeState,
    reusable: &mut TreeState,
    row: &[u8],
) -> Result<RowId, StorageError> {
    rows.entries += 1;
    rows.extra += row.len() as u64;
    if row.len() > ROW_INLINE_MAX {
        return Ok(RowId::new(pages.allocate_run(row)?, RUN_SLOT));
    }
    if rows.root.0 != 0
        && let Some(slot) = insert_into(&mut pages.page_mut(rows.root)?, row)
    {
        return Ok(RowId::new(rows.root, slot));
    }
    retire_active(pages, rows, reusable)?;
    rows.root = next_active(pages, reusable)?;
    match insert_into(&mut pages.page_mut(rows.root)?, row) {
        Some(slot) => Ok(RowId::new(rows.root, slot)),
        None => Err(StorageError::structure(rows.root, "a reusable page of rows has no room")),
    }
}

/// Rows may have been removed from the full active page meanwhile.
fn retire_active(
    pages: &mut WritePages,
    rows: &TreeState,
    reusable: &mut TreeState,
) -> Result<(), StorageError> {
    if rows.root.0 != 0 && room(pages.page(rows.root)?) >= REUSABLE_BYTES {
        fixed_tree::put(pages, reusable, rows.root.0, &[])?;
    }
    Ok(())
}

fn next_active(
    pages: &mut WritePages,
    reusable: &mut TreeState,
) -> Result<PageNumber, StorageError> {
    let first = fixed_tree::range(pages, reusable, 0)?.next().transpose()?;
    if let Some((page, _)) = first {
        fixed_tree::delete(pages, reusable, page)?;
        return Ok(PageNumber(page));
    }
    let number = pages.allocate_page(PageKind::Rows)?;
    let mut page = pages.page_mut(number)?;
    page.set_lower(SLOTS);
    page.set_upper(PAGE_BYTES);
    Ok(number)
}

/// Removes a row.
pub(crate) fn delete(
    pages: &mut WritePages,
    rows: &mut TreeState,
    reusable: &mut TreeState,
    id: RowId,
) -> Result<(), StorageError> {
    rows.entries -= 1;
    rows.extra -= get(pages, id)?.len() as u64;
    let number = id.page();
    if id.slot() == RUN_SLOT {
        return pages.free(number);
    }
    let mut page = pages.page_mut(number)?;
    let before = room(&page);
    remove_from(&mut page, id.slot() as usize);
    let (after, live) = (room(&page), read_u16(&page, LIVE_ROWS));
    if number == rows.root {
        return Ok(());
    }
    if live == 0 {
        if before >= REUSABLE_BYTES {
            fixed_tree::delete(pages, reusable, number.0)?;
        }
        pages.free(number)
    } else if before < REUSABLE_BYTES && after >= REUSABLE_BYTES {
        fixed_tree::put(pages, reusable, number.0, &[]).map(|_| ())
    } else {
        Ok(())
    }
}

/// Bytes available for rows once the page is compacted.
fn room(page: &[u8]) -> usize {
    page_upper(page) - page_lower(page) + usize::from(read_u16(page, DEAD_BYTES))
}

/// The slot of the row, or `None` when there is no room.
fn insert_into(page: &mut PageMut<'_>, row: &[u8]) -> Option<u64> {
    let count = page_count(page);
    let live = usize::from(read_u16(page, LIVE_ROWS));
    let slot = if live < count { free_slot(page)? } else { count };
    let slot_bytes = if slot == count { SLOT_BYTES } else { 0 };
    if room(page) < row.len() + slot_bytes {
        return None;
    }
    if page_upper(page) - page_lower(page) < row.len() + slot_bytes {
        tidy(page.whole());
    }
    if slot == count {
        page.set_count(count + 1);
        let lower = page_lower(page);
        page.set_lower(lower + SLOT_BYTES);
    }
    let at = page_upper(page) - row.len();
    page.write(at, row);
    page.set_upper(at);
    page.write_u16(SLOTS + slot * SLOT_BYTES, to_u16(at));
    page.write_u16(SLOTS + slot * SLOT_BYTES + 2, to_u16(row.len()));
    page.write_u16(LIVE_ROWS, to_u16(live + 1));
    Some(slot as u64)
}

fn free_slot(page: &[u8]) -> Option<usize> {
    (0..page_count(page)).find(|slot| read_u16(page, SLOTS + slot * SLOT_BYTES) == 0)
}

fn remove_from(page: &mut PageMut<'_>, slot: usize) {
    let at = SLOTS + slot * SLOT_BYTES;
    let dead = read_u16(page, DEAD_BYTES) + read_u16(page, at + 2);
    page.write_u16(DEAD_BYTES, dead);
    page.write_u16(at, 0);
    page.write_u16(at + 2, 0);
    let live = read_u16(page, LIVE_ROWS) - 1;
    page.write_u16(LIVE_ROWS, live);
}

/// Moves the rows together at the end of the page; their slots keep their numbers.
fn tidy(page: &mut [u8]) {
    let old = page.to_vec();
    let mut upper = PAGE_BYTES;
    for slot in 0..page_count(&old) {
        let at = SLOTS + slot * SLOT_BYTES;
        let (start, bytes) = (usize::from(read_u16(&old, at)), usize::from(read_u16(&old, at + 2)));
        if start != 0 {
            upper -= bytes;
            page[upper..upper + bytes].copy_from_slice(&old[start..start + bytes]);
            write_u16(page, at, to_u16(upper));
        }
    }
    write_u16(page, PAGE_UPPER, to_u16(upper));
    write_u16(page, DEAD_BYTES, 0);
}
