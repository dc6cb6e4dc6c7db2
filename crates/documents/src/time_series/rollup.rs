//! Rollups: entries that a policy aggregates from others, one for each time frame.
//!
//! An entry has six values for each value of its source: first, last, smallest, largest, sum and
//! count. A frame is rolled up when it is over, and again when a segment that overlaps it is
//! written later. The progress of a rollup is stored in its record, together with its entries. A
//! frame whose entries may have been deleted by retention is rolled up only if it never was.

use model::{DocumentId, TimeSeriesName, date, ticks::TICKS_PER_MILLISECOND};
use storage::Transaction;
use timeseries::{Entries, Entry, Summary, VALUES_MAX};

use super::{
    MOMENT_MAX,
    read::{SeriesReader, segments, series},
    requests::MomentRange,
    series::{self, RolledUp},
    tables::{self, series_key},
};
use crate::error::DocumentError;

/// Values of a rollup for each value of its source.
pub const ROLLUP_VALUES: usize = 6;
/// Further values of the source are ignored.
const POSITIONS_MAX: usize = VALUES_MAX / ROLLUP_VALUES;
const MILLISECONDS_PER_SECOND: i64 = 1000;

/// The frames of time of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A number of seconds, counted from the year 1.
    Seconds(i64),
    /// A number of calendar months.
    Months(i64),
}

impl Frame {
    /// The beginning of the frame that contains a moment.
    pub fn start(self, moment: i64) -> i64 {
        match self {
            Self::Seconds(seconds) => {
                let length = seconds.max(1).saturating_mul(MILLISECONDS_PER_SECOND);
                moment.div_euclid(length) * length
            }
            Self::Months(months) => {
                let ticks = moment.saturating_mul(TICKS_PER_MILLISECOND);
                date::start_of_months(ticks, months) / TICKS_PER_MILLISECOND
            }
        }
    }

    /// The beginning of the frame after the one that contains a moment.
    pub fn next(self, moment: i64) -> i64 {
        let start = self.start(moment);
        match self {
            Self::Seconds(seconds) => {
                start.saturating_add(seconds.max(1).saturating_mul(MILLISECONDS_PER_SECOND))
            }
            Self::Months(months) => {
                let ticks = start.saturating_mul(TICKS_PER_MILLISECOND);
                (date::add_months(ticks, months.max(1)) / TICKS_PER_MILLISECOND).max(start + 1)
            }
        }
    }
}

/// A rollup to bring up to date.
#[derive(Clone, Debug)]
pub struct Rollup {
    /// The id of the document that has both series.
    pub id: DocumentId,
    /// The source: a series that clients write, or a finer rollup.
    pub source: TimeSeriesName,
    /// The series to which the rollup is written.
    pub target: TimeSeriesName,
    /// The time that one entry of the rollup covers.
    pub frame: Frame,
    /// Entries of the source before this moment may be deleted.
    pub kept_from: i64,
}

/// The pending part of a rollup.
#[derive(Clone, Debug)]
pub struct RollupStep {
    /// The entries to write.
    pub entries: Entries,
    /// The progress of the rollup after these entries.
    pub rolled_up: RolledUp,
    /// Whether more is pending.
    pub has_more: bool,
}

impl Rollup {
    /// The pending entries of frames that were over at a moment, up to a maximum number; `None`
    /// when the rollup is up to date.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn step(
        &self,
        tx: &impl Transaction,
        now: i64,
        entries_max: usize,
    ) -> Result<Option<RollupStep>, DocumentError> {
        let Some(source) = series(tx, &self.id, &self.source)? else { return Ok(None) };
        let known = self.known(tx)?;
        let closed = self.frame.start(now.clamp(0, MOMENT_MAX));
        if known.source_changed == source.changed && closed <= known.closed_to {
            return Ok(None);
        }
        let mut step = RollupStep {
            entries: Entries::default(),
            rolled_up: RolledUp { source_changed: source.changed, closed_to: closed },
            has_more: false,
        };
        for range in self.ranges(tx, &known, (source.start_ms, closed))? {
            if let Some(stopped_at) = self.roll_up(tx, range, entries_max, &mut step.entries)? {
                // Everything after this is rolled up again, changed or not.
                step.rolled_up.closed_to = stopped_at;
                step.has_more = true;
                break;
            }
        }
        step.entries = self.without_partial(tx, step.entries)?;
        Ok(Some(step))
    }

    /// Drops frames that were rolled up when they were complete and may be incomplete now.
    fn without_partial(
        &self,
        tx: &impl Transaction,
        entries: Entries,
    ) -> Result<Entries, DocumentError> {
        let is_old = |moment: &i64| *moment < self.kept_from;
        if !entries.timestamps().first().is_some_and(is_old) {
            return Ok(entries);
        }
        let mut kept = Entries::default();
        for entry in entries.iter() {
            let moment = MomentRange { from: entry.timestamp_ms, to: entry.timestamp_ms };
            let is_known = is_old(&entry.timestamp_ms)
                && SeriesReader::new(tx, &self.id, &self.target, moment)?.next_entry()?.is_some();
            if !is_known {
                kept.push(entry);
            }
        }
        Ok(kept)
    }

    fn known(&self, tx: &impl Transaction) -> Result<RolledUp, DocumentError> {
        let key = series_key(&self.id, &self.target);
        let record = tx.tree(&tables::series_tree())?.get(&key)?.map(series::read).transpose()?;
        Ok(record.map_or(RolledUp::default(), |record| record.rolled_up))
    }

    /// Complete frames to roll up, in order, without duplicates.
    fn ranges(
        &self,
        tx: &impl Transaction,
        known: &RolledUp,
        (start, closed): (i64, i64),
    ) -> Result<Vec<MomentRange>, DocumentError> {
        let mut ranges = Vec::new();
        let done = MomentRange { from: 0, to: known.closed_to - 1 };
        for segment in segments(tx, &self.id, &self.source, done)? {
            let segment = segment?;
            if known.source_changed < segment.etag() {
                let to = self.frame.next(segment.end_ms()).min(known.closed_to) - 1;
                ranges.push(MomentRange { from: self.frame.start(segment.start_ms()), to });
            }
        }
        let from = known.closed_to.max(self.frame.start(start));
        ranges.push(MomentRange { from, to: closed - 1 });
        let mut merged: Vec<MomentRange> = Vec::new();
        for range in ranges {
            if let Some(last) = merged.last_mut()
                && range.from <= last.to + 1
            {
                last.to = last.to.max(range.to);
            } else if !range.is_empty() {
                merged.push(range);
            }
        }
        Ok(merged)
    }

    /// Adds the entries of the frames of a range; returns the frame at which it stopped before the
    /// end of the range.
    fn roll_up(
        &self,
        tx: &impl Transaction,
        range: MomentRange,
        entries_max: usize,
        into: &mut Entries,
    ) -> Result<Option<i64>, DocumentError> {
        let mut reader = SeriesReader::new(tx, &self.id, &self.source, range)?;
        let mut open = OpenFrame::default();
        while let Some(segment) = reader.next_segment()? {
            let start = self.frame.start(segment.start_ms());
            let is_one_frame =
                segment.is_inside(&range) && segment.end_ms() < self.frame.next(start);
            if let Some(summaries) = segment.summaries().filter(|_| is_one_frame)
                && !self.source.is_rollup()
            {
                open.begin(start, into);
                if entries_max <= into.len() {
                    return Ok(Some(start));
                }
                summaries.take(POSITIONS_MAX).enumerate().for_each(|(at, of)| open.add(at, &of));
                continue;
            }
            reader.open(&segment)?;
            while let Some(entry) = reader.next_of_segment() {
                let start = self.frame.start(entry.timestamp_ms);
                open.begin(start, into);
                if entries_max <= into.len() {
                    return Ok(Some(start));
                }
                if self.source.is_rollup() {
                    let parts = entry.values.chunks_exact(ROLLUP_VALUES).map(summary_of);
                    parts.enumerate().for_each(|(at, of)| open.add(at, &of));
                } else {
                    let values = entry.values.iter().take(POSITIONS_MAX).enumerate();
                    values.for_each(|(at, value)| open.add(at, &Summary::of(*value)));
                }
            }
        }
        open.finish(into);
        Ok(None)
    }
}

/// The frame being aggregated.
#[derive(Default)]
struct OpenFrame {
    start: i64,
    summaries: Vec<Summary>,
    values: Vec<f64>,
}

impl OpenFrame {
    /// Ends the previous frame, unless it is the same.
    fn begin(&mut self, start: i64, into: &mut Entries) {
        if self.start != start {
            self.finish(into);
            self.start = start;
        }
    }

    fn add(&mut self, position: usize, summary: &Summary) {
        match self.summaries.get_mut(position) {
            Some(known) => known.merge(summary),
            None => self.summaries.push(*summary),
        }
    }

    fn finish(&mut self, into: &mut Entries) {
        if self.summaries.is_empty() {
            return;
        }
        self.values.clear();
        for Summary { count, first, last, min, max, sum } in self.summaries.drain(..) {
            self.values.extend([first, last, min, max, sum, count as f64]);
        }
        into.push(Entry { timestamp_ms: self.start, values: &self.values, tag: None });
    }
}

/// The rollup's values for one value of its source.
fn summary_of(values: &[f64]) -> Summary {
    let value = |position: usize| values.get(position).copied().unwrap_or_default();
    Summary {
        first: value(0),
        last: value(1),
        min: value(2),
        max: value(3),
        sum: value(4),
        count: value(5) as u64,
    }
}

/// A document, one of its series, and the number of its collection.
pub type SeriesAt = (DocumentId, TimeSeriesName, u32);

/// A page of the series of all documents, starting at a key, and the key of the next page, if any.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn series_page(
    tx: &impl Transaction,
    from: &[u8],
    count: usize,
) -> Result<(Vec<SeriesAt>, Option<Vec<u8>>), DocumentError> {
    let mut page = Vec::new();
    for entry in tx.tree(&tables::series_tree())?.range(std::ops::Bound::Included(from))? {
        let (key, record) = entry?;
        if page.len() == count {
            return Ok((page, Some(key)));
        }
        let record = series::read(record)?;
        let (id, _) = tables::document_of_key(&key);
        let (id, name) = (DocumentId::new(id)?, TimeSeriesName::new(record.name)?);
        page.push((id, name, record.collection_number));
    }
    Ok((page, None))
}

/// The moment that precedes another one by a span.
pub fn moment_before(moment: i64, span: Frame) -> i64 {
    match span {
        Frame::Seconds(seconds) => {
            moment.saturating_sub(seconds.saturating_mul(MILLISECONDS_PER_SECOND))
        }
        Frame::Months(months) => months_behind(moment, months.saturating_neg()),
    }
}

/// The first moment that follows another one by a span, or up to three days earlier.
pub fn moment_behind(moment: i64, span: Frame) -> i64 {
    match span {
        Frame::Seconds(seconds) => {
            let length = seconds.saturating_mul(MILLISECONDS_PER_SECOND);
            moment.saturating_add(length).saturating_add(1)
        }
        Frame::Months(months) => months_behind(moment, months),
    }
}

fn months_behind(moment: i64, months: i64) -> i64 {
    let ticks = moment.saturating_mul(TICKS_PER_MILLISECOND);
    date::add_months(ticks, months) / TICKS_PER_MILLISECOND
}
