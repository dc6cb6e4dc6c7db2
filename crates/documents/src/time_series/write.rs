//! Changes of series.

use std::ops::{Bound, Range};

use model::{ChangeVector, DocumentId, Etag, TimeSeriesName, ticks::TICKS_PER_MILLISECOND};
use storage::Transaction;
use timeseries::{Entries, Entry};

use super::{
    deleted_range::{self, DeletedRangeFields},
    read::{self, Series, SeriesReader, records_of, segments_of},
    requests::{
        CopyTimeSeries, InvalidTimeSeries, MomentRange, RollupRight, TimeSeriesChange,
        TimeSeriesWritten,
    },
    rewrite::{self, Meeting},
    segment_row::{self, SegmentFields, SegmentRow},
    series::{self, RolledUp, SeriesRecord},
    tables::{self, DELETED_RANGES, SEGMENTS, segment_key, series_key},
};
use crate::{
    Change, DocumentWriter, TimeSeriesChangeKind,
    error::{DocumentError, corrupt},
    write::parsed,
};

/// The number of segments that are looked up before they are removed.
const REMOVED_CHUNK: usize = 256;
/// The number of entries held in memory while a series is copied.
const COPIED_CHUNK: usize = 1 << 14;

/// A series that is being changed.
pub(super) struct OpenSeries {
    pub(super) key: Vec<u8>,
    pub(super) lower_id: String,
    pub(super) lower_name: String,
    /// As its first entry was written.
    pub(super) name: String,
    pub(super) collection_number: u32,
    /// Entries that a reader sees.
    pub(super) entries: u64,
    /// Whether it existed before.
    pub(super) was_there: bool,
    /// Versions that a change replaces, if they may not be in the database's change vector.
    replaced: Option<ChangeVector>,
    /// The etag of its previous change, and the database's etag.
    changed: Etag,
    opened_at: Etag,
    rolled_up: RolledUp,
}

/// What is needed of a segment before it is rewritten.
struct OldSegment {
    key: Vec<u8>,
    start_ms: i64,
    end_ms: i64,
    moments: u64,
    is_full: bool,
    change_vector: String,
}

impl OldSegment {
    fn of(row: &SegmentRow<'_>) -> Self {
        let stored = row.moments() as usize;
        Self {
            key: row.primary_key().to_vec(),
            start_ms: row.start_ms(),
            end_ms: row.end_ms(),
            moments: row.moments(),
            is_full: rewrite::is_full(stored, row.segment_bytes()),
            change_vector: row.change_vector().to_owned(),
        }
    }
}

impl DocumentWriter<'_> {
    /// Changes a series of an existing document.
    ///
    /// # Errors
    /// [`DocumentError::DocumentMissing`], [`DocumentError::InvalidTimeSeries`]; storage errors.
    /// The transaction has to be rolled back then.
    pub fn change_time_series(
        &mut self,
        change: &TimeSeriesChange,
    ) -> Result<TimeSeriesWritten, DocumentError> {
        change.check()?;
        if change.ignores_missing && crate::read::get(self.transaction(), &change.id)?.is_none() {
            let id = change.id.clone();
            return Ok(TimeSeriesWritten { id, change_vector: None, is_document_touched: false });
        }
        let (before, _) = self.last_change();
        let mut series = self.open_series(&change.id, &change.name)?;
        self.check_rollup_right(change, &series)?;
        for range in &change.deletes {
            let (before, _) = self.last_change();
            self.delete_range(&mut series, *range)?;
            if before != self.last_change().0 {
                self.note_series(change, &series, TimeSeriesChangeKind::Delete, *range)?;
            }
        }
        if !change.appends.is_empty() {
            let new = rewrite::in_order(&change.appends, Meeting::Replace);
            self.write_entries(&mut series, &new, Meeting::Replace)?;
            self.tally.time_series.add(new.len() as u64, 0);
            self.note_written(change, &series, &new)?;
        }
        if !change.increments.is_empty() {
            let tagged = self.tagged(&change.increments);
            let new = rewrite::in_order(&tagged, Meeting::Add);
            self.write_entries(&mut series, &new, Meeting::Add)?;
            self.tally.time_series.add(new.len() as u64, 0);
            self.note_written(change, &series, &new)?;
        }
        if !change.imported.is_empty() {
            let meeting = match change.name.is_incremental() {
                true => Meeting::ReplaceOfTag,
                false => Meeting::Replace,
            };
            let new = rewrite::in_order(&change.imported, meeting);
            self.write_entries(&mut series, &new, meeting)?;
            self.tally.time_series.add(new.len() as u64, 0);
            self.note_written(change, &series, &new)?;
        }
        series.rolled_up = change.rolled_up.unwrap_or(series.rolled_up);
        let is_document_touched = self.close_series(&change.id, &series)?;
        let (after, change_vector) = self.last_change();
        let change_vector = (before != after).then(|| change_vector.clone());
        Ok(TimeSeriesWritten { id: change.id.clone(), change_vector, is_document_touched })
    }

    fn check_rollup_right(
        &mut self,
        change: &TimeSeriesChange,
        series: &OpenSeries,
    ) -> Result<(), DocumentError> {
        let RollupRight::OfCollections(allowed) = &change.rollup_right else { return Ok(()) };
        let collection = &self.collections.numbered(self.tx, series.collection_number)?.name;
        if change.name.is_rollup() && !allowed.contains(collection) {
            let name = change.name.to_string();
            return Err(InvalidTimeSeries::ReservedName { name }.into());
        }
        Ok(())
    }

    /// Records written entries for change listeners; they are in order.
    fn note_written(
        &mut self,
        change: &TimeSeriesChange,
        series: &OpenSeries,
        new: &Entries,
    ) -> Result<(), DocumentError> {
        let moments = new.timestamps();
        let (Some(&from), Some(&to)) = (moments.first(), moments.last()) else { return Ok(()) };
        self.note_series(change, series, TimeSeriesChangeKind::Put, MomentRange { from, to })
    }

    pub(super) fn note_series(
        &mut self,
        change: &TimeSeriesChange,
        series: &OpenSeries,
        kind: TimeSeriesChangeKind,
        range: MomentRange,
    ) -> Result<(), DocumentError> {
        if !self.changes.are_wanted() {
            return Ok(());
        }
        let number = series.collection_number;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        let change_vector = self.last_change().1.to_string();
        let ticks = |moment: i64| moment.saturating_mul(TICKS_PER_MILLISECOND);
        // A deletion without an end reports none.
        let is_open = |end: i64, moment: i64| kind == TimeSeriesChangeKind::Delete && moment == end;
        self.changes.note(|| {
            Change::TimeSeries(crate::TimeSeriesChange {
                kind,
                name: change.name.as_str().to_owned(),
                from: (!is_open(MomentRange::ALL.from, range.from)).then(|| ticks(range.from)),
                to: (!is_open(MomentRange::ALL.to, range.to)).then(|| ticks(range.to)),
                document_id: change.id.clone(),
                collection,
                change_vector,
            })
        });
        Ok(())
    }

    /// The entries of a series in a range, with the changes of this writer.
    ///
    /// # Errors
    /// Storage errors.
    pub fn time_series_reader(
        &self,
        id: &DocumentId,
        name: &TimeSeriesName,
        range: MomentRange,
    ) -> Result<SeriesReader<'_>, DocumentError> {
        SeriesReader::new(self.transaction(), id, name, range)
    }

    /// The current series, with the changes of this writer.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn time_series(
        &self,
        id: &DocumentId,
        name: &TimeSeriesName,
    ) -> Result<Option<Series>, DocumentError> {
        read::series(self.transaction(), id, name)
    }

    /// Copies entries from one series to another, whose entries of the same moments are replaced.
    ///
    /// # Errors
    /// As of a change.
    pub fn copy_time_series(
        &mut self,
        copy: &CopyTimeSeries,
    ) -> Result<TimeSeriesWritten, DocumentError> {
        let mut written: Option<TimeSeriesWritten> = None;
        let mut rest = copy.range;
        loop {
            let change = self.next_copied(copy, rest)?;
            let copied = match copy.destination_name.is_incremental() {
                true => &change.increments,
                false => &change.appends,
            };
            let (count, last) = (copied.len(), copied.timestamps().last().copied());
            let part = self.change_time_series(&change)?;
            let whole = match written {
                None => part,
                Some(before) => TimeSeriesWritten {
                    change_vector: part.change_vector.or(before.change_vector),
                    is_document_touched: part.is_document_touched || before.is_document_touched,
                    ..part
                },
            };
            match last {
                Some(last) if count == COPIED_CHUNK => rest.from = last + 1,
                Some(_) | None => return Ok(whole),
            }
            written = Some(whole);
        }
    }

    /// The first entries of a range to copy, as a change of the destination series.
    fn next_copied(
        &self,
        copy: &CopyTimeSeries,
        range: MomentRange,
    ) -> Result<TimeSeriesChange, DocumentError> {
        let mut change =
            TimeSeriesChange::new(copy.destination_id.clone(), copy.destination_name.clone());
        let into = match copy.destination_name.is_incremental() {
            true => &mut change.increments,
            false => &mut change.appends,
        };
        let mut reader = SeriesReader::new(self.transaction(), &copy.id, &copy.name, range)?;
        while into.len() < COPIED_CHUNK
            && let Some(entry) = reader.next_entry()?
        {
            let (timestamp_ms, values) = (entry.timestamp_ms, entry.values);
            into.push(Entry { timestamp_ms, values, tag: entry.tag });
        }
        Ok(change)
    }

    /// Deletes all series of a document that is being deleted.
    pub(crate) fn delete_time_series_of(
        &mut self,
        id: &DocumentId,
        collection_number: u32,
    ) -> Result<(), DocumentError> {
        let records = records_of(self.transaction(), id.lower_cased())?;
        let names = records.map(|entry| Ok(series::read(entry?.1)?.name.to_owned()));
        for name in names.collect::<Result<Vec<String>, DocumentError>>()? {
            let name = TimeSeriesName::new(name)?;
            let mut series = self.series_in(id, &name, collection_number)?;
            self.delete_range(&mut series, MomentRange::ALL)?;
            self.tx.tree_mut(&tables::series_tree())?.delete(&series.key)?;
        }
        Ok(())
    }

    fn open_series(
        &mut self,
        id: &DocumentId,
        name: &TimeSeriesName,
    ) -> Result<OpenSeries, DocumentError> {
        let Some(document) = crate::read::get(self.transaction(), id)? else {
            return Err(DocumentError::DocumentMissing {
                message: format!(
                    "Document '{id}' does not exist. Cannot operate on time series of a missing \
                     document"
                ),
            });
        };
        self.series_in(id, name, document.collection_number())
    }

    pub(super) fn series_in(
        &self,
        id: &DocumentId,
        name: &TimeSeriesName,
        collection_number: u32,
    ) -> Result<OpenSeries, DocumentError> {
        let key = series_key(id, name);
        let tree = self.transaction().tree(&tables::series_tree())?;
        let record = tree.get(&key)?.map(series::read).transpose()?;
        let was_there = record.is_some();
        let (opened_at, _) = self.last_change();
        let none = SeriesRecord {
            name: name.as_str(),
            collection_number,
            entries: 0,
            changed: opened_at,
            rolled_up: RolledUp::default(),
        };
        let SeriesRecord { name: written, entries, changed, rolled_up, .. } =
            record.unwrap_or(none);
        let written = written.to_owned();
        // What was deleted elsewhere and is written again here must be known to be later.
        let replaced = match self.has_sources {
            true => Some(
                self.deleted_ranges(&key)?
                    .iter()
                    .fold(ChangeVector::empty(), |replaced, (_, _, version)| {
                        replaced.merge(version)
                    }),
            ),
            false => None,
        };
        Ok(OpenSeries {
            key,
            replaced,
            lower_id: id.lower_cased().to_owned(),
            lower_name: name.lower_cased().to_owned(),
            name: written,
            collection_number,
            entries,
            was_there,
            changed,
            opened_at,
            rolled_up,
        })
    }

    /// Records the current state of the series; returns whether the document's list changed.
    pub(super) fn close_series(
        &mut self,
        id: &DocumentId,
        series: &OpenSeries,
    ) -> Result<bool, DocumentError> {
        let is_there = series.entries != 0;
        if is_there {
            let (now, _) = self.last_change();
            let changed = if now == series.opened_at { series.changed } else { now };
            let record = series::write(&SeriesRecord {
                name: &series.name,
                collection_number: series.collection_number,
                entries: series.entries,
                changed,
                rolled_up: series.rolled_up,
            });
            self.tx.tree_mut(&tables::series_tree())?.put(&series.key, &record)?;
        } else if series.was_there {
            self.tx.tree_mut(&tables::series_tree())?.delete(&series.key)?;
        }
        let is_touched = is_there != series.was_there;
        if is_touched {
            self.keep_before_change(id)?;
            self.touched.add(id);
        }
        Ok(is_touched)
    }

    /// Records a series that is in another collection than before.
    pub(super) fn close_moved_series(
        &mut self,
        id: &DocumentId,
        series: &OpenSeries,
    ) -> Result<(), DocumentError> {
        let (changed, _) = self.last_change();
        let record = series::write(&SeriesRecord {
            name: &series.name,
            collection_number: series.collection_number,
            entries: series.entries,
            changed,
            rolled_up: series.rolled_up,
        });
        self.tx.tree_mut(&tables::series_tree())?.put(&series.key, &record)?;
        self.touched.add(id);
        Ok(())
    }

    /// Adds this node's tag to increments and decrements.
    fn tagged(&self, increments: &Entries) -> Entries {
        let node = self.database_id();
        let (up, down) = (format!("TC:INC-{node}"), format!("TC:DEC-{node}"));
        let mut tagged = Entries::default();
        for entry in increments.iter() {
            let is_down = entry.values.first().is_some_and(|value| value.is_sign_negative());
            tagged.push(Entry { tag: Some(if is_down { &down } else { &up }), ..entry });
        }
        tagged
    }

    /// Writes entries that are in order.
    fn write_entries(
        &mut self,
        series: &mut OpenSeries,
        new: &Entries,
        meeting: Meeting,
    ) -> Result<(), DocumentError> {
        let mut at = 0;
        while let Some(&moment) = new.timestamps().get(at) {
            let (old, next_start) = self.segment_for(series, moment)?;
            let behind = &new.timestamps()[at..];
            let count = next_start
                .map_or(behind.len(), |next| behind.partition_point(|moment| *moment < next));
            let range = at..at + count;
            let is_at_end = next_start.is_none();
            match old {
                Some(old) if !(old.is_full && old.end_ms < moment) => {
                    let entries = self.decoded(&old)?;
                    let all = rewrite::merged(&entries, new, range, meeting);
                    self.replace_segment(series, &old, &all, is_at_end)?;
                }
                Some(_) | None => self.store_segments(series, new, range, is_at_end)?,
            }
            at += count;
        }
        Ok(())
    }

    /// The segment to which a moment belongs: the last that begins at or before it, or else the
    /// first. Also returns where the next one begins.
    fn segment_for(
        &self,
        series: &OpenSeries,
        moment: i64,
    ) -> Result<(Option<OldSegment>, Option<i64>), DocumentError> {
        let tx = self.transaction();
        let found = match read::last_segment_to(tx, &series.key, moment)? {
            Some(found) => Some(found),
            None => read::next_segment(tx, &series.key, Bound::Excluded(moment))?,
        };
        let Some(found) = found else { return Ok((None, None)) };
        let next = read::next_segment(tx, &series.key, Bound::Excluded(found.start_ms()))?;
        Ok((Some(OldSegment::of(&found)), next.map(|next| next.start_ms())))
    }

    /// The stored entries of a segment.
    fn decoded(&self, old: &OldSegment) -> Result<Entries, DocumentError> {
        let found = self.transaction().table(&SEGMENTS).get(&old.key)?;
        let (_, row) = found.ok_or(corrupt("a segment that was read is not found"))?;
        let mut entries = Entries::default();
        segment_row::read(row)?.decode(&mut entries)?;
        Ok(entries)
    }

    /// Replaces a segment by entries.
    fn replace_segment(
        &mut self,
        series: &mut OpenSeries,
        old: &OldSegment,
        entries: &Entries,
        is_at_end: bool,
    ) -> Result<(), DocumentError> {
        note_replaced(series, old)?;
        // A row of the same key is replaced anyway.
        if entries.timestamps().first() != Some(&old.start_ms) {
            self.remove_segment(&old.key)?;
        }
        series.entries = series.entries.saturating_sub(old.moments);
        self.store_segments(series, entries, 0..entries.len(), is_at_end)
    }

    fn remove_segment(&mut self, key: &[u8]) -> Result<(), DocumentError> {
        match self.tx.table_mut(&SEGMENTS).delete(key)? {
            true => Ok(()),
            false => Err(corrupt("a segment that was read cannot be removed")),
        }
    }

    /// Writes segments of the entries in the range.
    fn store_segments(
        &mut self,
        series: &mut OpenSeries,
        entries: &Entries,
        range: Range<usize>,
        is_at_end: bool,
    ) -> Result<(), DocumentError> {
        if range.is_empty() {
            return Ok(());
        }
        let pieces = rewrite::cut(entries, range, is_at_end)?;
        for (range, segment) in pieces {
            let etag = self.next_etag()?;
            let replaced = series.replaced.as_ref().map(ChangeVector::as_str);
            let change_vector = self.next_version_over(etag, replaced)?;
            let fields = SegmentFields {
                series: &series.key,
                lower_id: &series.lower_id,
                name: &series.name,
                lower_name: &series.lower_name,
                collection_number: series.collection_number,
                change_vector: change_vector.as_str(),
                etag,
            };
            let row = segment_row::write(&fields, entries, range, &segment)?;
            series.entries += segment_row::read(&row)?.moments();
            self.tx.table_mut(&SEGMENTS).insert(&row)?;
            self.tally.time_series.add(0, row.len() as u64);
        }
        Ok(())
    }

    /// Deletes the entries in a range and records the deletion.
    fn delete_range(
        &mut self,
        series: &mut OpenSeries,
        range: MomentRange,
    ) -> Result<(), DocumentError> {
        let mut is_anything_gone = false;
        let mut from = range.from;
        loop {
            let rest = MomentRange { from, ..range };
            let found = segments_of(self.transaction(), series.key.clone(), rest)?;
            let found = found.take(REMOVED_CHUNK).map(|row| Ok(OldSegment::of(&row?)));
            let found = found.collect::<Result<Vec<_>, DocumentError>>()?;
            for old in &found {
                is_anything_gone |= self.delete_in_segment(series, old, &range)?;
            }
            match found.last() {
                Some(last) if found.len() == REMOVED_CHUNK => from = last.end_ms + 1,
                Some(_) | None => break,
            }
        }
        if is_anything_gone {
            self.keep_deleted_range(series, range)?;
        }
        Ok(())
    }

    /// Whether any entry of the segment was in the range.
    fn delete_in_segment(
        &mut self,
        series: &mut OpenSeries,
        old: &OldSegment,
        range: &MomentRange,
    ) -> Result<bool, DocumentError> {
        if range.from <= old.start_ms && old.end_ms <= range.to {
            note_replaced(series, old)?;
            self.remove_segment(&old.key)?;
            series.entries = series.entries.saturating_sub(old.moments);
            return Ok(true);
        }
        let entries = self.decoded(old)?;
        let mut kept = Entries::default();
        entries
            .iter()
            .filter(|entry| !range.contains(entry.timestamp_ms))
            .for_each(|entry| kept.push(entry));
        if kept.len() == entries.len() {
            return Ok(false);
        }
        self.replace_segment(series, old, &kept, false)?;
        Ok(true)
    }

    fn keep_deleted_range(
        &mut self,
        series: &OpenSeries,
        range: MomentRange,
    ) -> Result<(), DocumentError> {
        let from = segment_key(&series.key, range.from);
        let rows = self.transaction().table(&DELETED_RANGES).range(Bound::Included(&from))?;
        let mut replaced = Vec::new();
        for entry in rows {
            let (key, row) = entry?;
            let row = deleted_range::read(row)?;
            let older = row.range();
            if !tables::is_of_series(&key, &series.key) || range.to < older.from {
                break;
            }
            // Readers of the collection that the document was in before find the range only there.
            if range.includes(&older) && row.collection_number() == series.collection_number {
                replaced.push(key);
            }
        }
        for key in replaced {
            self.tx.table_mut(&DELETED_RANGES).delete(&key)?;
        }
        let etag = self.next_etag()?;
        let replaced = series.replaced.as_ref().map(ChangeVector::as_str);
        let change_vector = self.next_version_over(etag, replaced)?;
        let row = deleted_range::write(&DeletedRangeFields {
            series: &series.key,
            id_bytes: series.lower_id.len(),
            collection_number: series.collection_number,
            change_vector: change_vector.as_str(),
            etag,
            range,
            now_ticks: self.now_ticks(),
        })?;
        self.tx.table_mut(&DELETED_RANGES).insert(&row)?;
        Ok(())
    }
}

/// A change of a series knows what it replaces.
fn note_replaced(series: &mut OpenSeries, old: &OldSegment) -> Result<(), DocumentError> {
    if let Some(replaced) = &mut series.replaced {
        *replaced = replaced.merge(&parsed(&old.change_vector)?);
    }
    Ok(())
}
