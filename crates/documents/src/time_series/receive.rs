//! Storing the segments and deleted ranges of time series that another database has sent.
//!
//! A segment is a version of all moments from its first to its last. Where it meets segments that are stored, it is taken
//! in parts: a part that it contains is replaced by it, one that contains it stays, and of two that do not know each
//! other both are kept; at the same moment, the entry with the higher values. Such a part gets a version of its own unless
//! both were equal, so that in the end all databases have the same. An entry is live if its version contains every deletion of
//! its moment.

use std::{cmp::Ordering, collections::BTreeSet};

use model::{ChangeVector, Comparison, TimeSeriesName};
use storage::Transaction;
use timeseries::{Entries, Entry};

use super::{
    MOMENT_MAX, MomentRange,
    deleted_range::{self, DeletedRangeFields},
    read::{records_of, segments_of},
    rewrite,
    segment_row::{self, SegmentFields, SegmentRow},
    series,
    tables::{self, DELETED_RANGES, SEGMENTS, segment_key, series_key},
    write::OpenSeries,
};
use crate::{
    DocumentWriter, TimeSeriesChangeKind,
    error::DocumentError,
    replicated::{ReceivedDeletedRange, ReceivedSegment},
    write::parsed,
};

/// The entries of a segment of another database; `None` if they are damaged, out of order, or none.
pub fn decode_segment(encoded: &[u8]) -> Option<Entries> {
    let mut entries = Entries::default();
    timeseries::decode(encoded, &mut entries).ok()?;
    let timestamps = entries.timestamps();
    let is_possible = timestamps.is_sorted()
        && timestamps.first().is_some_and(|first| 0 <= *first)
        && timestamps.last().is_some_and(|last| *last <= MOMENT_MAX);
    is_possible.then_some(entries)
}

/// Entries of one version.
struct Part {
    entries: Entries,
    version: ChangeVector,
    /// Whether the version is to be a new one that contains this one.
    is_new: bool,
}

/// A segment that is stored.
struct StoredSegment {
    key: Vec<u8>,
    moments: u64,
    start_ms: i64,
    end_ms: i64,
    version: ChangeVector,
    entries: Entries,
}

impl StoredSegment {
    fn of(row: &SegmentRow<'_>) -> Result<Self, DocumentError> {
        let mut entries = Entries::default();
        row.decode(&mut entries)?;
        Ok(Self {
            key: row.primary_key().to_vec(),
            moments: row.moments(),
            start_ms: row.start_ms(),
            end_ms: row.end_ms(),
            version: parsed(row.change_vector())?,
            entries,
        })
    }

    fn part(&self, entries: Entries) -> Part {
        Part { entries, version: self.version.clone(), is_new: false }
    }
}

impl DocumentWriter<'_> {
    pub(crate) fn receive_segment(
        &mut self,
        received: &ReceivedSegment,
    ) -> Result<(), DocumentError> {
        let timestamps = received.entries.timestamps();
        let (Some(&from), Some(&to)) = (timestamps.first(), timestamps.last()) else {
            return Ok(());
        };
        let range = MomentRange { from, to };
        let key = series_key(&received.id, &received.name);
        let stored = self.stored_segments(&key, range)?;
        let live = self.live_entries(&key, received, range)?;
        let is_incremental = received.name.is_incremental();
        let joins = Joining { is_incremental, keeps_missing: self.refuses_deletions };
        let parts = parts_of(&stored, &live, (&received.change_vector, range), joins);
        let Some(parts) = parts else { return Ok(()) };
        let number = self.number_of_owner(&received.id, &received.collection)?;
        self.move_series(&received.id, &received.name, number)?;
        let mut series = self.series_in(&received.id, &received.name, number)?;
        self.replace_parts(&mut series, &stored, parts)?;
        self.note_received(received, &series, (TimeSeriesChangeKind::Put, range))?;
        self.tally.time_series.add(live.len() as u64, 0);
        self.close_received_series(&received.id, &received.name, &series)
    }

    pub(crate) fn receive_deleted_range(
        &mut self,
        received: &ReceivedDeletedRange,
    ) -> Result<(), DocumentError> {
        let ReceivedDeletedRange { id, name, range, change_vector, .. } = received;
        let key = series_key(id, name);
        for (_, known, version) in self.deleted_ranges(&key)? {
            if known.includes(range) && change_vector.compare(&version) == Comparison::AlreadyMerged
            {
                return Ok(());
            }
        }
        let number = self.number_of_owner(id, &received.collection)?;
        self.move_series(id, name, number)?;
        let mut series = self.series_in(id, name, number)?;
        for stored in self.stored_segments(&key, *range)? {
            // What was written with the knowledge of the deletion stays.
            if change_vector.compare(&stored.version) == Comparison::AlreadyMerged {
                continue;
            }
            let left = only(&stored.entries, |moment| !range.contains(moment));
            if left.len() != stored.entries.len() {
                let part = stored.part(left);
                self.replace_parts(&mut series, &[stored], vec![part])?;
            }
        }
        self.store_received_range(received, &series)?;
        self.close_received_series(id, name, &series)
    }

    /// Moves the series of a document to its collection: it may be in another one than where they came from.
    pub(crate) fn move_time_series(
        &mut self,
        id: &model::DocumentId,
        number: u32,
    ) -> Result<(), DocumentError> {
        let mut names = Vec::new();
        for entry in records_of(self.transaction(), id.lower_cased())? {
            let (_, record) = entry?;
            let record = series::read(record)?;
            if record.collection_number != number {
                names.push(TimeSeriesName::new(record.name)?);
            }
        }
        names.iter().try_for_each(|name| self.move_series(id, name, number))
    }

    /// Moves a series to a collection, if it is there and in another one.
    fn move_series(
        &mut self,
        id: &model::DocumentId,
        name: &TimeSeriesName,
        number: u32,
    ) -> Result<(), DocumentError> {
        let key = series_key(id, name);
        let record = self.transaction().tree(&tables::series_tree())?;
        let record = record.get(&key)?.map(series::read).transpose()?;
        if record.is_none_or(|record| record.collection_number == number) {
            return Ok(());
        }
        let rows = segments_of(self.transaction(), key, MomentRange::ALL)?;
        let rows = rows.map(|row| row.map(|row| row.as_bytes().to_vec()));
        for mut row in rows.collect::<Result<Vec<_>, _>>()? {
            segment_row::set_place(&mut row, number, self.next_etag()?);
            self.tx.table_mut(&SEGMENTS).insert(&row)?;
        }
        let series = self.series_in(id, name, number)?;
        self.close_moved_series(id, &series)
    }

    fn stored_segments(
        &self,
        series: &[u8],
        range: MomentRange,
    ) -> Result<Vec<StoredSegment>, DocumentError> {
        let rows = segments_of(self.transaction(), series.to_vec(), range)?;
        rows.map(|row| StoredSegment::of(&row?)).collect()
    }

    /// The deleted ranges of a series: key, range and version.
    pub(super) fn deleted_ranges(
        &self,
        series: &[u8],
    ) -> Result<Vec<(Vec<u8>, MomentRange, ChangeVector)>, DocumentError> {
        let from = segment_key(series, 0);
        let rows = self.transaction().table(&DELETED_RANGES);
        let mut found = Vec::new();
        for entry in rows.range(std::ops::Bound::Included(&from))? {
            let (key, row) = entry?;
            if !tables::is_of_series(&key, series) {
                break;
            }
            let row = deleted_range::read(row)?;
            found.push((key, row.range(), parsed(row.change_vector())?));
        }
        Ok(found)
    }

    /// The entries of a segment that were not deleted by somebody whom its writer did not know.
    fn live_entries(
        &self,
        series: &[u8],
        received: &ReceivedSegment,
        range: MomentRange,
    ) -> Result<Entries, DocumentError> {
        let mut deleted = self.deleted_ranges(series)?;
        deleted.retain(|(_, of, version)| {
            of.from <= range.to
                && range.from <= of.to
                && version.compare(&received.change_vector) != Comparison::AlreadyMerged
        });
        let is_live = |moment: i64| !deleted.iter().any(|(_, of, _)| of.contains(moment));
        Ok(only(&received.entries, is_live))
    }

    /// Replaces segments by entries of several versions.
    fn replace_parts(
        &mut self,
        series: &mut OpenSeries,
        replaced: &[StoredSegment],
        parts: Vec<Part>,
    ) -> Result<(), DocumentError> {
        for segment in replaced {
            self.tx.table_mut(&SEGMENTS).delete(&segment.key)?;
            series.entries = series.entries.saturating_sub(segment.moments);
        }
        for part in parts {
            self.store_part(series, &part)?;
        }
        Ok(())
    }

    fn store_part(&mut self, series: &mut OpenSeries, part: &Part) -> Result<(), DocumentError> {
        if part.entries.is_empty() {
            return Ok(());
        }
        for (range, segment) in rewrite::cut(&part.entries, 0..part.entries.len(), true)? {
            let etag = self.next_etag()?;
            let version = match part.is_new {
                true => self.next_version_over(etag, Some(part.version.as_str()))?,
                false => part.version.clone(),
            };
            let fields = SegmentFields {
                series: &series.key,
                lower_id: &series.lower_id,
                name: &series.name,
                lower_name: &series.lower_name,
                collection_number: series.collection_number,
                change_vector: version.as_str(),
                etag,
            };
            let row = segment_row::write(&fields, &part.entries, range, &segment)?;
            series.entries += segment_row::read(&row)?.moments();
            self.tx.table_mut(&SEGMENTS).insert(&row)?;
            self.tally.time_series.add(0, row.len() as u64);
        }
        Ok(())
    }

    fn store_received_range(
        &mut self,
        received: &ReceivedDeletedRange,
        series: &OpenSeries,
    ) -> Result<(), DocumentError> {
        let ReceivedDeletedRange { range, change_vector, deleted_at_ticks, .. } = received;
        for (key, known, version) in self.deleted_ranges(&series.key)? {
            let is_contained = range.includes(&known)
                && version.compare(change_vector) == Comparison::AlreadyMerged;
            if is_contained {
                self.tx.table_mut(&DELETED_RANGES).delete(&key)?;
            }
        }
        let row = deleted_range::write(&DeletedRangeFields {
            series: &series.key,
            id_bytes: series.lower_id.len(),
            collection_number: series.collection_number,
            change_vector: change_vector.as_str(),
            etag: self.next_etag()?,
            range: *range,
            now_ticks: *deleted_at_ticks,
        })?;
        self.tx.table_mut(&DELETED_RANGES).insert(&row)?;
        Ok(())
    }

    fn close_received_series(
        &mut self,
        id: &model::DocumentId,
        name: &TimeSeriesName,
        series: &OpenSeries,
    ) -> Result<(), DocumentError> {
        // Readers of the log also follow collections.
        self.collections.count(self.tx, series.collection_number, 0, 0)?;
        let was_listed = series.was_there;
        self.close_series(id, series)?;
        if !was_listed || super::read::series(self.transaction(), id, name)?.is_none() {
            self.touched.add(id);
        }
        Ok(())
    }

    fn note_received(
        &mut self,
        received: &ReceivedSegment,
        series: &OpenSeries,
        change: (TimeSeriesChangeKind, MomentRange),
    ) -> Result<(), DocumentError> {
        let of = super::TimeSeriesChange::new(received.id.clone(), received.name.clone());
        self.note_series(&of, series, change.0, change.1)
    }
}

/// The entries of these moments.
fn only(entries: &Entries, wanted: impl Fn(i64) -> bool) -> Entries {
    let mut found = Entries::default();
    entries.iter().filter(|entry| wanted(entry.timestamp_ms)).for_each(|entry| found.push(entry));
    found
}

/// How entries of two segments are joined.
#[derive(Clone, Copy)]
struct Joining {
    /// Each database has entries of its own.
    is_incremental: bool,
    /// What a newer segment lacks is not deleted.
    keeps_missing: bool,
}

/// What is to be stored instead of the stored segments, in order; `None` if they stay as they are.
fn parts_of(
    stored: &[StoredSegment],
    live: &Entries,
    (version, range): (&ChangeVector, MomentRange),
    joins: Joining,
) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    // What was received and is not placed yet begins here.
    let mut from = i64::MIN;
    let mut pending = Entries::default();
    let mut is_changed = false;
    let place = |parts: &mut Vec<Part>, pending: &mut Entries| {
        if !pending.is_empty() {
            let entries = std::mem::take(pending);
            parts.push(Part { entries, version: version.clone(), is_new: false });
        }
    };
    for segment in stored {
        let in_gap = only(live, |moment| from <= moment && moment < segment.start_ms);
        is_changed |= !in_gap.is_empty();
        pending.extend_from(&in_gap, 0..in_gap.len());
        from = segment.end_ms.saturating_add(1);
        let meets = only(live, |moment| segment.start_ms <= moment && moment <= segment.end_ms);
        let [before, inside, after] = [
            only(&segment.entries, |moment| moment < range.from),
            only(&segment.entries, |moment| range.contains(moment)),
            only(&segment.entries, |moment| range.to < moment),
        ];
        match version.compare(&segment.version) {
            Comparison::AlreadyMerged => {
                place(&mut parts, &mut pending);
                parts.push(segment.part(segment.entries.clone()));
                continue;
            }
            Comparison::Update => {
                is_changed = true;
                if !before.is_empty() {
                    place(&mut parts, &mut pending);
                    parts.push(segment.part(before));
                }
                let missing = match joins.keeps_missing {
                    true => without(&inside, &meets, joins.is_incremental),
                    false => Entries::default(),
                };
                if missing.is_empty() {
                    pending.extend_from(&meets, 0..meets.len());
                } else {
                    place(&mut parts, &mut pending);
                    let entries = met(&missing, &meets, joins.is_incremental);
                    parts.push(Part { entries, version: version.clone(), is_new: true });
                }
            }
            Comparison::Conflict => {
                is_changed = true;
                place(&mut parts, &mut pending);
                if !before.is_empty() {
                    parts.push(segment.part(before));
                }
                let entries = met(&inside, &meets, joins.is_incremental);
                let is_new = !(is_equal(&entries, &inside) && is_equal(&entries, &meets));
                parts.push(Part { entries, version: version.join(&segment.version), is_new });
            }
        }
        if !after.is_empty() {
            place(&mut parts, &mut pending);
            parts.push(segment.part(after));
        }
    }
    let rest = only(live, |moment| from <= moment);
    is_changed |= !rest.is_empty();
    pending.extend_from(&rest, 0..rest.len());
    place(&mut parts, &mut pending);
    is_changed.then_some(parts)
}

/// The entries of one for whose moments the other one has none.
fn without(one: &Entries, other: &Entries, is_incremental: bool) -> Entries {
    let key = |entry: &Entry<'_>| {
        let tag = entry.tag.filter(|_| is_incremental).map(str::to_owned);
        (entry.timestamp_ms, tag)
    };
    let known: BTreeSet<_> = other.iter().map(|entry| key(&entry)).collect();
    let mut missing = Entries::default();
    one.iter().filter(|entry| !known.contains(&key(entry))).for_each(|entry| missing.push(entry));
    missing
}

/// Both, in order; at the same moment, the entry with the higher values. In an incremental series each database has entries
/// of its own, which only grow in magnitude.
fn met(one: &Entries, other: &Entries, is_incremental: bool) -> Entries {
    let tag_of = |entry: &Entry<'_>| match is_incremental {
        true => entry.tag.map(str::to_owned),
        false => None,
    };
    let mut all: Vec<Entry<'_>> = one.iter().chain(other.iter()).collect();
    all.sort_by(|a, b| {
        let key = a.timestamp_ms.cmp(&b.timestamp_ms).then_with(|| tag_of(a).cmp(&tag_of(b)));
        key.then_with(|| higher(b, a, is_incremental))
    });
    let mut kept = Entries::default();
    let mut last: Option<(i64, Option<String>)> = None;
    for entry in all {
        let key = (entry.timestamp_ms, tag_of(&entry));
        if last.as_ref() != Some(&key) {
            kept.push(entry);
            last = Some(key);
        }
    }
    kept
}

fn higher(a: &Entry<'_>, b: &Entry<'_>, is_incremental: bool) -> Ordering {
    let value = |value: &f64| if is_incremental { value.abs() } else { *value };
    let pairs = a.values.iter().zip(b.values);
    let by_values = pairs.map(|(a, b)| value(a).total_cmp(&value(b))).find(|order| order.is_ne());
    by_values
        .unwrap_or(Ordering::Equal)
        .then(a.values.len().cmp(&b.values.len()))
        .then_with(|| a.tag.cmp(&b.tag))
}

fn is_equal(one: &Entries, other: &Entries) -> bool {
    one.len() == other.len()
        && one.iter().zip(other.iter()).all(|(a, b)| {
            a.timestamp_ms == b.timestamp_ms
                && a.tag == b.tag
                && a.values.len() == b.values.len()
                && a.values.iter().zip(b.values).all(|(a, b)| a.to_bits() == b.to_bits())
        })
}
