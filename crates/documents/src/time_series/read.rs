//! Reading time series: their segments, their entries, and the series of a document.

use std::ops::{Bound, Range};

use blittable::ObjectBuilder;
use model::{DocumentId, Etag, TimeSeriesName};
use storage::Transaction;
use timeseries::Entries;

use super::{
    requests::MomentRange,
    segment_row::{self, SegmentRow},
    series::{self, SeriesRecord},
    tables::{
        self, DELETED_RANGES, SEGMENTS, document_prefix, is_of_series, segment_key, series_key,
    },
};
use crate::{error::DocumentError, metadata::TIME_SERIES};

/// The stored facts about a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Its name, as its first entry was written.
    pub name: String,
    /// The number of the document's collection.
    pub collection_number: u32,
    /// How many entries it has; at least one.
    pub entries: u64,
    /// The etag of its last change.
    pub changed: Etag,
    /// The moment of the first, in milliseconds since the year 1.
    pub start_ms: i64,
    /// The moment of the last.
    pub end_ms: i64,
}

/// The number of segments in the database.
///
/// # Errors
/// Storage errors.
pub fn segments_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.table(&SEGMENTS).len()?)
}

/// The size of all segments' rows, in bytes.
///
/// # Errors
/// Storage errors.
pub fn segments_bytes(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.table(&SEGMENTS).row_bytes()?)
}

/// The number of deleted ranges in the database.
///
/// # Errors
/// Storage errors.
pub fn deleted_ranges_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.table(&DELETED_RANGES).len()?)
}

/// A series of a document, if it has entries.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn series(
    tx: &impl Transaction,
    id: &DocumentId,
    name: &TimeSeriesName,
) -> Result<Option<Series>, DocumentError> {
    let key = series_key(id, name);
    let record = tx.tree(&tables::series_tree())?.get(&key)?;
    record.map(|record| completed(tx, &key, &series::read(record)?)).transpose()
}

/// The series of a document in the order of their lower-cased names.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn series_of<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<impl Iterator<Item = Result<Series, DocumentError>> + use<'t, T>, DocumentError> {
    let records = records_of(tx, id.lower_cased())?;
    Ok(records.map(move |entry| {
        let (key, record) = entry?;
        completed(tx, &key, &series::read(record)?)
    }))
}

/// The key of a series, and its record.
pub(super) type KeyedRecord<'t> = Result<(Vec<u8>, &'t [u8]), DocumentError>;

/// The records of the series of a document, by their keys.
pub(super) fn records_of<'t, T: Transaction>(
    tx: &'t T,
    lower_id: &str,
) -> Result<impl Iterator<Item = KeyedRecord<'t>> + use<'t, T>, DocumentError> {
    let prefix = document_prefix(lower_id);
    let entries = tx.tree(&tables::series_tree())?.range(Bound::Included(&prefix))?;
    let entries = entries.map(|entry| entry.map_err(DocumentError::from));
    Ok(entries.take_while(move |entry| match entry {
        Ok((key, _)) => key.starts_with(&prefix),
        Err(_) => true,
    }))
}

fn completed(
    tx: &impl Transaction,
    key: &[u8],
    record: &SeriesRecord<'_>,
) -> Result<Series, DocumentError> {
    let missing = DocumentError::Corrupt { detail: "a time series has no entries" };
    let first = next_segment(tx, key, Bound::Included(0))?;
    let last = last_segment_to(tx, key, i64::MAX)?;
    let (Some(first), Some(last)) = (first, last) else { return Err(missing) };
    Ok(Series {
        name: record.name.to_owned(),
        collection_number: record.collection_number,
        entries: record.entries,
        changed: record.changed,
        start_ms: first.start_ms(),
        end_ms: last.end_ms(),
    })
}

/// The first segment of a series that begins at or after a moment.
pub(super) fn next_segment<'t>(
    tx: &'t impl Transaction,
    series: &[u8],
    from: Bound<i64>,
) -> Result<Option<SegmentRow<'t>>, DocumentError> {
    let key = from.map(|moment| segment_key(series, moment));
    let bound = match &key {
        Bound::Included(key) => Bound::Included(key.as_slice()),
        Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
        Bound::Unbounded => Bound::Unbounded,
    };
    let found = tx.table(&SEGMENTS).range(bound)?.next().transpose()?;
    let found = found.filter(|(key, _)| is_of_series(key, series));
    found.map(|(_, row)| segment_row::read(row)).transpose()
}

/// The segment of a series that begins at a moment.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn segment_at<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &TimeSeriesName,
    start_ms: i64,
) -> Result<Option<SegmentRow<'t>>, DocumentError> {
    let found = tx.table(&SEGMENTS).get(&segment_key(&series_key(id, name), start_ms))?;
    found.map(|(_, row)| segment_row::read(row)).transpose()
}

/// The names of the series of a document, as their first entries were written.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn series_names<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<impl Iterator<Item = Result<&'t str, DocumentError>> + use<'t, T>, DocumentError> {
    Ok(records_of(tx, id.lower_cased())?.map(|entry| Ok(series::read(entry?.1)?.name)))
}

/// The last segment of a series that begins at or before a moment.
pub(super) fn last_segment_to<'t>(
    tx: &'t impl Transaction,
    series: &[u8],
    moment: i64,
) -> Result<Option<SegmentRow<'t>>, DocumentError> {
    let key = segment_key(series, moment);
    let found = tx.table(&SEGMENTS).range_back(Bound::Included(&key))?.next().transpose()?;
    let found = found.filter(|(key, _)| is_of_series(key, series));
    found.map(|(_, row)| segment_row::read(row)).transpose()
}

/// The segments of a series that may have entries in the range, in order. They may extend beyond
/// its ends.
///
/// # Errors
/// Storage errors; each segment may be a damaged row.
pub fn segments<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
    name: &TimeSeriesName,
    range: MomentRange,
) -> Result<impl Iterator<Item = Result<SegmentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    segments_of(tx, series_key(id, name), range)
}

pub(super) fn segments_of<'t, T: Transaction>(
    tx: &'t T,
    series: Vec<u8>,
    range: MomentRange,
) -> Result<impl Iterator<Item = Result<SegmentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let before = last_segment_to(tx, &series, range.from)?;
    let first = before.filter(|row| range.from <= row.end_ms());
    let first = first.map_or(range.from, |row| row.start_ms());
    let rows = tx.table(&SEGMENTS).range(Bound::Included(&segment_key(&series, first)))?;
    let mut is_done = range.is_empty();
    Ok(rows.map_while(move |entry| match entry {
        _ if is_done => None,
        Ok((key, row)) => {
            let row = is_of_series(&key, &series).then(|| segment_row::read(row))?;
            match &row {
                Ok(row) if range.to < row.start_ms() => return None,
                Ok(_) => {}
                Err(_) => is_done = true,
            }
            Some(row)
        }
        Err(error) => {
            is_done = true;
            Some(Err(error.into()))
        }
    }))
}

/// An entry of a series as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSeriesEntry<'a> {
    /// The moment, in milliseconds since 0001-01-01T00:00:00Z.
    pub timestamp_ms: i64,
    /// The values; in an incremental series, the sums over all nodes.
    pub values: &'a [f64],
    /// The tag; in an incremental series, none where several entries are merged.
    pub tag: Option<&'a str>,
    /// Whether it was aggregated from others by a policy.
    pub is_rollup: bool,
}

/// The entries of a series in a range, in order, from a snapshot. One segment is in memory at a
/// time.
pub struct SeriesReader<'t> {
    segments: Box<dyn Iterator<Item = Result<SegmentRow<'t>, DocumentError>> + Send + 't>,
    range: MomentRange,
    is_rollup: bool,
    is_incremental: bool,
    /// The entries of the segment that was decoded last.
    entries: Entries,
    /// Those in the range that have not been returned yet.
    waiting: Range<usize>,
    /// The entries as stored, before merging.
    stored: Entries,
}

impl<'t> SeriesReader<'t> {
    /// A reader of a series, which need not exist.
    ///
    /// # Errors
    /// Storage errors.
    pub fn new<T: Transaction>(
        tx: &'t T,
        id: &DocumentId,
        name: &TimeSeriesName,
        range: MomentRange,
    ) -> Result<Self, DocumentError> {
        let segments = segments(tx, id, name, range)?;
        Ok(Self {
            segments: Box::new(segments),
            range,
            is_rollup: name.is_rollup(),
            is_incremental: name.is_incremental(),
            entries: Entries::default(),
            waiting: 0..0,
            stored: Entries::default(),
        })
    }

    /// The next segment, whose entries [`SeriesReader::next_entry`] skips unless it is passed to
    /// [`SeriesReader::open`]. It may extend beyond the range.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn next_segment(&mut self) -> Result<Option<SegmentRow<'t>>, DocumentError> {
        self.waiting = 0..0;
        self.segments.next().transpose()
    }

    /// Decodes a segment: the next entries are its entries in the range.
    ///
    /// # Errors
    /// A damaged segment.
    pub fn open(&mut self, segment: &SegmentRow<'t>) -> Result<(), DocumentError> {
        self.entries.clear();
        if self.is_incremental {
            self.stored.clear();
            segment.decode(&mut self.stored)?;
            add_up(&self.stored, &mut self.entries);
        } else {
            segment.decode(&mut self.entries)?;
        }
        let timestamps = self.entries.timestamps();
        let from = timestamps.partition_point(|moment| *moment < self.range.from);
        let to = timestamps.partition_point(|moment| *moment <= self.range.to);
        self.waiting = from..to.max(from);
        Ok(())
    }

    /// The next entry.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn next_entry(&mut self) -> Result<Option<TimeSeriesEntry<'_>>, DocumentError> {
        while self.waiting.is_empty() {
            let Some(segment) = self.next_segment()? else { return Ok(None) };
            self.open(&segment)?;
        }
        let position = self.waiting.start;
        self.waiting.start += 1;
        Ok(self.entries.get(position).map(|entry| TimeSeriesEntry {
            timestamp_ms: entry.timestamp_ms,
            values: entry.values,
            tag: entry.tag,
            is_rollup: self.is_rollup,
        }))
    }

    /// The next entry of the opened segment; `None` after its last one.
    pub fn next_entry_of_segment(&mut self) -> Option<TimeSeriesEntry<'_>> {
        let position = self.waiting.next()?;
        let is_rollup = self.is_rollup;
        self.entries.get(position).map(|entry| TimeSeriesEntry {
            timestamp_ms: entry.timestamp_ms,
            values: entry.values,
            tag: entry.tag,
            is_rollup,
        })
    }

    /// The next entry of the segment opened last.
    pub(super) fn next_of_segment(&mut self) -> Option<timeseries::Entry<'_>> {
        let position = self.waiting.next()?;
        self.entries.get(position)
    }

    /// Skips up to `count` entries, whole segments without decoding them; returns how many.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn skip(&mut self, count: u64) -> Result<u64, DocumentError> {
        let mut left = count;
        while left != 0 {
            if !self.waiting.is_empty() {
                let passed = left.min(self.waiting.len() as u64);
                self.waiting.start += passed as usize;
                left -= passed;
                continue;
            }
            let Some(segment) = self.next_segment()? else { break };
            if segment.is_inside(&self.range) && segment.moments() <= left {
                left -= segment.moments();
            } else {
                self.open(&segment)?;
            }
        }
        Ok(count - left)
    }

    /// Counts the remaining entries.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn count(mut self) -> Result<u64, DocumentError> {
        self.skip(u64::MAX)
    }

    /// The stored entries behind the last returned one: an incremental series has one for each
    /// node, for increments and for decrements.
    pub fn stored_entries(&self) -> impl Iterator<Item = timeseries::Entry<'_>> {
        let last = self.waiting.start.checked_sub(1).and_then(|last| self.entries.get(last));
        let moment = last.map(|entry| entry.timestamp_ms);
        self.stored.iter().filter(move |entry| Some(entry.timestamp_ms) == moment)
    }
}

/// Merges entries of the same moment.
pub(super) fn add_up(stored: &Entries, into: &mut Entries) {
    let mut values = Vec::new();
    let mut at = 0;
    while let Some(first) = stored.get(at) {
        let moment = first.timestamp_ms;
        let same = stored.timestamps()[at..].iter().take_while(|other| **other == moment).count();
        if same == 1 {
            into.push(first);
        } else {
            values.clear();
            for entry in (at..at + same).filter_map(|position| stored.get(position)) {
                add_values(&mut values, entry.values);
            }
            into.push(timeseries::Entry { timestamp_ms: moment, values: &values, tag: None });
        }
        at += same;
    }
}

/// Adds values to others by position.
pub(super) fn add_values(to: &mut Vec<f64>, values: &[f64]) {
    if to.len() < values.len() {
        to.resize(values.len(), 0.0);
    }
    to.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Adds the names of a document's series under their name in metadata; `false` when there are none.
pub(crate) fn add_listing(
    tx: &impl Transaction,
    lower_id: &str,
    builder: &mut ObjectBuilder,
) -> Result<bool, DocumentError> {
    let mut records = records_of(tx, lower_id)?.peekable();
    if records.peek().is_none() {
        return Ok(false);
    }
    builder.begin_array(TIME_SERIES);
    for record in records {
        builder.push(series::read(record?.1)?.name);
    }
    builder.end();
    Ok(true)
}
