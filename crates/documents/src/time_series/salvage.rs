//! Time series of a damaged database: what can be rebuilt.
//!
//! The scan also finds rows of segments that were replaced or removed. An entry is live unless a
//! newer segment or a later deletion covers its moment: a replacement of a segment covers all of
//! its entries that were not deleted.

use std::collections::BTreeMap;

use model::{ChangeVector, Etag};
use storage::{BulkWriter, RowId, Salvage};
use timeseries::Entries;

use super::{
    deleted_range,
    requests::MomentRange,
    rewrite,
    segment_row::{self, SegmentFields, SegmentRow},
    series::{self, RolledUp, SeriesRecord},
    tables::{DELETED_RANGES, SEGMENTS, series_key_of, series_tree},
};
use crate::error::DocumentError;

/// The rows of one series.
#[derive(Default)]
struct GatheredSeries {
    segments: Vec<FoundRow>,
    deleted: Vec<FoundRow>,
}

#[derive(Clone, Copy)]
struct FoundRow {
    etag: u64,
    range: MomentRange,
    place: RowId,
}

/// What the scan of a damaged database found of its time series.
#[derive(Default)]
pub(crate) struct GatheredTimeSeries {
    /// By the key of the series.
    series: BTreeMap<Vec<u8>, GatheredSeries>,
}

/// The time series that were rebuilt.
#[derive(Default)]
pub(crate) struct SalvagedTimeSeries {
    pub(crate) segments: u64,
    /// Keys of segments that are lost.
    pub(crate) lost: Vec<Box<[u8]>>,
    /// Pages of keys that could not be read.
    pub(crate) unreadable_key_pages: u64,
    pub(crate) last_etag: Etag,
    pub(crate) change_vector: ChangeVector,
}

impl SalvagedTimeSeries {
    fn note_version(&mut self, etag: Etag, version: &str) {
        self.last_etag = self.last_etag.max(etag);
        if let Ok(version) = version.parse() {
            self.change_vector = self.change_vector.merge(&version);
        }
    }
}

impl GatheredTimeSeries {
    /// Adds a row found by the scan; `false` when it is not a time series'.
    pub(crate) fn row(&mut self, place: RowId, bytes: &[u8]) -> bool {
        if let Ok(row) = segment_row::read(bytes) {
            let range = MomentRange { from: row.start_ms(), to: row.end_ms() };
            let found = FoundRow { etag: row.etag().0, range, place };
            self.of(row.lower_document_id(), row.lower_name()).segments.push(found);
        } else if let Ok(row) = deleted_range::read(bytes) {
            let found = FoundRow { etag: row.etag().0, range: row.range(), place };
            self.of(row.lower_document_id(), row.lower_name()).deleted.push(found);
        } else {
            return false;
        }
        true
    }

    fn of(&mut self, lower_id: &str, lower_name: &str) -> &mut GatheredSeries {
        self.series.entry(series_key_of(lower_id, lower_name)).or_default()
    }

    fn has_segment(&self, key: &[u8]) -> bool {
        let Some((series, moment)) = key.split_last_chunk::<8>() else { return false };
        let series = self.series.get(&series[..series.len().saturating_sub(1)]);
        let start = i64::from_be_bytes(*moment);
        series.is_some_and(|series| series.segments.iter().any(|found| found.range.from == start))
    }

    /// Copies the live entries of existing documents; `document` returns the number of a document's
    /// collection.
    pub(crate) fn rebuild(
        &self,
        salvage: &Salvage,
        writer: &mut BulkWriter<'_>,
        last_etag: Etag,
        document: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<SalvagedTimeSeries, DocumentError> {
        let mut salvaged = SalvagedTimeSeries::default();
        salvaged.unreadable_key_pages = salvage.table_keys(&SEGMENTS, &mut |key, is_readable| {
            if !is_readable && !key.is_empty() && !self.has_segment(key) {
                salvaged.lost.push(key.into());
            }
        });
        let newest =
            self.series.values().flat_map(|series| series.segments.iter().chain(&series.deleted));
        let newest = newest.map(|found| Etag(found.etag)).max().unwrap_or(Etag::ZERO);
        salvaged.last_etag = last_etag.max(newest);
        for (key, series) in &self.series {
            Rebuilding { salvage, writer, salvaged: &mut salvaged, key, document }.run(series)?;
        }
        Ok(salvaged)
    }
}

/// A series being copied into the new database.
struct Rebuilding<'a, 'w> {
    salvage: &'a Salvage,
    writer: &'a mut BulkWriter<'w>,
    salvaged: &'a mut SalvagedTimeSeries,
    key: &'a [u8],
    document: &'a dyn Fn(&str) -> Option<u32>,
}

impl Rebuilding<'_, '_> {
    fn run(&mut self, gathered: &GatheredSeries) -> Result<(), DocumentError> {
        let mut deleted = gathered.deleted.clone();
        deleted.sort_by_key(|found| found.etag);
        deleted.dedup_by_key(|found| found.etag);
        self.copy_deleted(&deleted)?;
        let mut segments = gathered.segments.clone();
        segments.sort_by_key(|found| std::cmp::Reverse(found.etag));
        segments.dedup_by_key(|found| found.etag);
        // Disjoint: first and last moment.
        let mut covered = BTreeMap::new();
        let mut record: Option<(String, u32)> = None;
        let mut entries = 0;
        for found in &segments {
            let newer = &deleted[deleted.partition_point(|deleted| deleted.etag < found.etag)..];
            if newer.iter().any(|deleted| deleted.range.includes(&found.range)) {
                continue;
            }
            let Some(bytes) = self.salvage.row(found.place) else { continue };
            let row = segment_row::read(&bytes)?;
            if (self.document)(row.lower_document_id()) != Some(row.collection_number()) {
                continue;
            }
            let mut stored = Entries::default();
            if row.decode(&mut stored).is_err() {
                self.salvaged.lost.push(row.primary_key().into());
                continue;
            }
            self.salvaged.note_version(row.etag(), row.change_vector());
            let (name, number) =
                record.get_or_insert((row.name().to_owned(), row.collection_number()));
            if *number != row.collection_number() {
                continue;
            }
            let counts = |moment: i64| {
                let below = covered.range(..=moment).next_back();
                below.is_none_or(|(_, end)| *end < moment)
                    && !newer.iter().any(|deleted| deleted.range.contains(moment))
            };
            let is_whole = stored.timestamps().iter().all(|moment| counts(*moment))
                && covered.range(row.start_ms()..=row.end_ms()).next().is_none();
            if is_whole && row.name() == name {
                self.writer.transaction()?.table_mut(&SEGMENTS).insert(&bytes)?;
                self.salvaged.segments += 1;
                entries += row.moments();
                covered.insert(row.start_ms(), row.end_ms());
                continue;
            }
            for run in runs(&stored, &counts, &covered) {
                let ends = run.timestamps().first().copied().zip(run.timestamps().last().copied());
                entries += self.write_run(&row, name, &run)?;
                covered.extend(ends);
            }
        }
        self.write_record(record, entries)
    }

    fn copy_deleted(&mut self, deleted: &[FoundRow]) -> Result<(), DocumentError> {
        for (position, found) in deleted.iter().enumerate() {
            let is_replaced =
                deleted[position + 1..].iter().any(|later| later.range.includes(&found.range));
            if is_replaced {
                continue;
            }
            let Some(bytes) = self.salvage.row(found.place) else { continue };
            let row = deleted_range::read(&bytes)?;
            self.salvaged.note_version(row.etag(), row.change_vector());
            self.writer.transaction()?.table_mut(&DELETED_RANGES).insert(&bytes)?;
        }
        Ok(())
    }

    /// Writes the remaining entries of a segment that newer, lost ones partly replaced; returns
    /// their number.
    fn write_run(
        &mut self,
        row: &SegmentRow<'_>,
        name: &str,
        run: &Entries,
    ) -> Result<u64, DocumentError> {
        let mut entries = 0;
        for (range, segment) in rewrite::cut(run, 0..run.len(), false)? {
            let no_etag = DocumentError::Corrupt { detail: "no etag is left" };
            let etag = self.salvaged.last_etag.next().ok_or(no_etag)?;
            self.salvaged.last_etag = etag;
            let fields = SegmentFields {
                series: self.key,
                lower_id: row.lower_document_id(),
                name,
                lower_name: row.lower_name(),
                collection_number: row.collection_number(),
                change_vector: row.change_vector(),
                etag,
            };
            let bytes = segment_row::write(&fields, run, range, &segment)?;
            entries += segment_row::read(&bytes)?.moments();
            self.writer.transaction()?.table_mut(&SEGMENTS).insert(&bytes)?;
            self.salvaged.segments += 1;
        }
        Ok(entries)
    }

    fn write_record(
        &mut self,
        record: Option<(String, u32)>,
        entries: u64,
    ) -> Result<(), DocumentError> {
        let Some((name, collection_number)) = record.filter(|_| entries != 0) else {
            return Ok(());
        };
        // Everything recorded about the series before is outdated.
        let changed = self.salvaged.last_etag;
        let record = series::write(&SeriesRecord {
            name: &name,
            collection_number,
            entries,
            changed,
            rolled_up: RolledUp::default(),
        });
        self.writer.transaction()?.tree_mut(&series_tree())?.put(self.key, &record)?;
        Ok(())
    }
}

/// The live entries, in runs not interrupted by anything that is covered.
fn runs(
    stored: &Entries,
    counts: &impl Fn(i64) -> bool,
    covered: &BTreeMap<i64, i64>,
) -> Vec<Entries> {
    let mut runs: Vec<Entries> = Vec::new();
    let mut previous = None;
    for entry in stored.iter().filter(|entry| counts(entry.timestamp_ms)) {
        let moment = entry.timestamp_ms;
        let is_apart =
            previous.is_none_or(|previous| covered.range(previous..=moment).next().is_some());
        if is_apart {
            runs.push(Entries::default());
        }
        if let Some(run) = runs.last_mut() {
            run.push(entry);
        }
        previous = Some(moment);
    }
    runs
}
