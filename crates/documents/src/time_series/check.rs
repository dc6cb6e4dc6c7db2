//! Whether segments, records and documents are consistent.

use std::ops::Bound;

use model::{DocumentId, Etag};
use storage::Transaction;
use timeseries::{Entries, Summary};

use super::{
    read::{add_up, last_segment_to},
    segment_row::{self, SegmentRow},
    series,
    tables::{DELETED_RANGES, SEGMENTS, is_of_series, segment_key, series_key_of, series_tree},
};
use crate::{
    ensure::ensure,
    error::DocumentError,
    log::{self, EntryKinds, LogEntry, Selection},
    read,
    replicated::has_sources,
};

/// Compares everything that is stored about time series; returns the number of segments.
pub(crate) fn check_time_series(
    tx: &impl Transaction,
    last_etag: Etag,
) -> Result<u64, DocumentError> {
    let (mut segments, mut deleted) = (0, 0);
    let mut previous = Etag::ZERO;
    for entry in log::read(tx, &[Selection::all(EntryKinds::TIME_SERIES)], Etag::ZERO)? {
        let entry = entry?;
        ensure(previous < entry.etag(), "the log of time series is out of order")?;
        previous = entry.etag();
        match entry {
            LogEntry::Segment(row) => {
                check_segment(tx, &row)?;
                segments += 1;
            }
            _ => deleted += 1,
        }
    }
    ensure(previous <= last_etag, "the log of time series goes beyond the last etag")?;
    ensure(tx.table(&SEGMENTS).len()? == segments, "the log of time series lacks segments")?;
    let rows = tx.table(&DELETED_RANGES).len()?;
    ensure(rows == deleted, "the log of time series lacks deleted ranges")?;
    let mut in_series = 0;
    for entry in tx.tree(&series_tree())?.range(Bound::Unbounded)? {
        let (key, record) = entry?;
        in_series += check_series(tx, &key, &series::read(record)?)?;
    }
    ensure(in_series == segments, "a segment belongs to no time series")?;
    Ok(segments)
}

/// Reads the segment of a key completely.
pub(crate) fn read_whole(tx: &impl Transaction, key: &[u8]) -> Result<(), DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let found = tx.table(&SEGMENTS).get(key)?;
    let (_, row) = found.ok_or(corrupt("a key leads to no row"))?;
    let row = segment_row::read(row)?;
    ensure(row.primary_key() == key, "a key leads to the row of another segment")?;
    row.decode(&mut Entries::default())
}

fn check_segment(tx: &impl Transaction, row: &SegmentRow<'_>) -> Result<(), DocumentError> {
    let series = series_key_of(row.lower_document_id(), row.lower_name());
    let found = last_segment_to(tx, &series, row.start_ms())?.map(|found| found.etag());
    ensure(found == Some(row.etag()), "the key of a segment leads elsewhere")?;
    let (mut stored, mut seen) = (Entries::default(), Entries::default());
    row.decode(&mut stored)?;
    add_up(&stored, &mut seen);
    ensure(row.moments() == seen.len() as u64, "a segment miscounts its entries")?;
    let timestamps = stored.timestamps();
    let ends = timestamps.first().zip(timestamps.last());
    ensure(ends == Some((&row.start_ms(), &row.end_ms())), "a segment begins or ends elsewhere")?;
    if let Some(summaries) = row.summaries() {
        let agrees = |(found, expected): (Summary, &Summary)| found == *expected;
        let expected = stored.summaries(0..stored.len());
        let agree = summaries.zip(&expected).all(agrees);
        ensure(agree && row.positions() == expected.len(), "a segment's summaries are wrong")?;
    }
    // What is received may come before its document, or be left without it.
    if has_sources(tx)? {
        return Ok(());
    }
    let document = read::get(tx, &DocumentId::new(row.lower_document_id())?)?;
    let number = document.map(|document| document.collection_number());
    ensure(number == Some(row.collection_number()), "a segment has no document")
}

/// Returns the number of the segments of a series.
fn check_series(
    tx: &impl Transaction,
    key: &[u8],
    record: &series::SeriesRecord<'_>,
) -> Result<u64, DocumentError> {
    let (mut segments, mut entries) = (0, 0);
    let mut end = -1;
    for row in tx.table(&SEGMENTS).range(Bound::Included(&segment_key(key, 0)))? {
        let (row_key, row) = row?;
        if !is_of_series(&row_key, key) {
            break;
        }
        let row = segment_row::read(row)?;
        ensure(end < row.start_ms(), "segments of a time series overlap")?;
        ensure(row.name() == record.name, "a time series has two names")?;
        let number = row.collection_number();
        ensure(number == record.collection_number, "a time series is in two collections")?;
        ensure(row.etag() <= record.changed, "a time series was changed later than it says")?;
        end = row.end_ms();
        segments += 1;
        entries += row.moments();
    }
    ensure(segments != 0, "a time series has no entries")?;
    ensure(entries == record.entries, "a time series miscounts its entries")?;
    Ok(segments)
}
