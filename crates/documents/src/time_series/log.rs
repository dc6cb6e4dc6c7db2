//! The log of time series: segments where they were last written, and deleted ranges.
//!
//! A segment whose first entry is another one leaves no trace under its old key. Whoever follows the log
//! finds it all the same: a key is the moment of an entry. Once no segment begins there, the entry lies
//! further inside of a segment that was written later, or a range was deleted later that it was in. So a
//! reader that knows keys forgets, at a segment, those behind its start up to its end, and at a deleted
//! range, those in it.

use model::{CollectionName, Etag};
use storage::{Transaction, TreeName};

use super::{
    deleted_range::{self, DeletedRangeRow},
    segment_row::{self, SegmentRow},
    tables::{self, DELETED_RANGES, SEGMENTS},
};
use crate::{collections::collection, error::DocumentError};

/// One entry of the log of time series.
#[derive(Clone, Copy)]
pub enum TimeSeriesLogEntry<'t> {
    /// A segment, where it was last written.
    Segment(SegmentRow<'t>),
    /// A deletion.
    Deleted(DeletedRangeRow<'t>),
}

impl TimeSeriesLogEntry<'_> {
    /// The position in the log.
    pub fn etag(&self) -> Etag {
        match self {
            Self::Segment(row) => row.etag(),
            Self::Deleted(row) => row.etag(),
        }
    }
}

/// How many entries the log of time series, of a collection or of everything, has after an etag; counting
/// ends at `at_most` for segments and for deleted ranges. Reads no rows.
///
/// # Errors
/// Those of the storage.
pub fn time_series_changed_after(
    tx: &impl Transaction,
    collection: Option<&CollectionName>,
    after: Etag,
    at_most: u64,
) -> Result<TimeSeriesChanges, DocumentError> {
    let Some(from) = after.next() else { return Ok(TimeSeriesChanges::default()) };
    let (written, deleted) = log_names(tx, collection)?;
    Ok(TimeSeriesChanges {
        segments: tx.fixed_tree(&written)?.count_from(from.0, at_most)?,
        deleted_ranges: tx.fixed_tree(&deleted)?.count_from(from.0, at_most)?,
    })
}

/// Entries of the log of time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSeriesChanges {
    /// Segments.
    pub segments: u64,
    /// Deleted ranges.
    pub deleted_ranges: u64,
}

/// The etags of the last segment and the last deleted range of a collection or of everything; zero when
/// there is none.
///
/// # Errors
/// Those of the storage.
pub fn last_time_series_etags(
    tx: &impl Transaction,
    collection: Option<&CollectionName>,
) -> Result<(Etag, Etag), DocumentError> {
    let last = |tree: &TreeName| -> Result<Etag, DocumentError> {
        Ok(tx.fixed_tree(tree)?.last()?.map_or(Etag::ZERO, |(etag, _)| Etag(etag)))
    };
    let (written, deleted) = log_names(tx, collection)?;
    Ok((last(&written)?, last(&deleted)?))
}

/// The trees of segments and of deleted ranges.
fn log_names(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
) -> Result<(TreeName, TreeName), DocumentError> {
    let Some(name) = name else { return Ok((tables::log(), tables::deleted_log())) };
    // No collection has the number 0.
    let number = collection(tx, name)?.map_or(0, |found| found.number);
    Ok((tables::log_of_collection(number), tables::deleted_log_of_collection(number)))
}

/// The log of time series after an etag: segments and deleted ranges, in one order.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn time_series_log<'t, T: Transaction>(
    tx: &'t T,
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<TimeSeriesLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    merged_log(tx, log_names(tx, None)?, after)
}

/// The same of the documents of one collection.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn time_series_log_of_collection<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<TimeSeriesLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    merged_log(tx, log_names(tx, Some(name))?, after)
}

fn merged_log<'t, T: Transaction>(
    tx: &'t T,
    (written, deleted): (TreeName, TreeName),
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<TimeSeriesLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    // No change has the last of all etags, so nothing is missed behind it.
    let from = after.next().map_or(u64::MAX, |etag| etag.0);
    let mut written = tx.table(&SEGMENTS).fixed_range(&written, from)?.peekable();
    let mut deleted = tx.table(&DELETED_RANGES).fixed_range(&deleted, from)?.peekable();
    Ok(std::iter::from_fn(move || {
        let position = |entry: Option<&storage::RowBy<'t, u64>>| match entry {
            Some(Ok((etag, _))) => Some(*etag),
            Some(Err(_)) => Some(0),
            None => None,
        };
        let is_written = match (position(written.peek()), position(deleted.peek())) {
            (Some(written), Some(deleted)) => written < deleted,
            (written, _) => written.is_some(),
        };
        let next = if is_written { written.next() } else { deleted.next() };
        next.map(|entry| {
            let (_, bytes) = entry?;
            Ok(match is_written {
                true => TimeSeriesLogEntry::Segment(segment_row::read(bytes)?),
                false => TimeSeriesLogEntry::Deleted(deleted_range::read(bytes)?),
            })
        })
    }))
}
