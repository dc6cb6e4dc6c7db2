//! A segment of a time series as maps see it.
//!
//! In incremental series, the entries are those of each node; the aggregates are over what readers
//! see, with entries of the same moment merged.

use std::rc::Rc;

use documents::{
    DocumentError,
    time_series::{Entries, SegmentRow, Summary, YEAR_1970_MS},
};
use linq::{TimeSeriesEntry, TimeSeriesInput};
use model::ticks::TICKS_PER_MILLISECOND;
use script::ScriptValue;

/// A segment for maps in C#.
pub(crate) struct SegmentSource<'t> {
    row: &'t SegmentRow<'t>,
    stored: Entries,
    min: Vec<f64>,
    max: Vec<f64>,
    sum: Vec<f64>,
}

impl<'t> SegmentSource<'t> {
    /// # Errors
    /// A damaged segment.
    pub(crate) fn of(row: &'t SegmentRow<'t>) -> Result<Self, DocumentError> {
        let mut stored = Entries::default();
        row.decode(&mut stored)?;
        let summaries: Vec<Summary> = match row.summaries() {
            Some(summaries) => summaries.collect(),
            None => {
                let mut seen = Entries::default();
                row.decode_seen(&mut seen)?;
                seen.summaries(0..seen.len())
            }
        };
        Ok(Self {
            row,
            stored,
            min: summaries.iter().map(|summary| summary.min).collect(),
            max: summaries.iter().map(|summary| summary.max).collect(),
            sum: summaries.iter().map(|summary| summary.sum).collect(),
        })
    }

    pub(crate) fn entries(&self) -> Vec<TimeSeriesEntry<'_>> {
        let entries = self.stored.iter().map(|entry| TimeSeriesEntry {
            timestamp_ticks: ticks_of(entry.timestamp_ms),
            tag: entry.tag,
            values: entry.values,
        });
        entries.collect()
    }

    pub(crate) fn input<'s>(&'s self, entries: &'s [TimeSeriesEntry<'s>]) -> TimeSeriesInput<'s> {
        TimeSeriesInput {
            document_id: self.row.lower_document_id(),
            name: self.row.name(),
            start_ticks: ticks_of(self.row.start_ms()),
            end_ticks: ticks_of(self.row.end_ms()),
            count: self.row.moments().cast_signed(),
            min: &self.min,
            max: &self.max,
            sum: &self.sum,
            entries,
        }
    }
}

/// A segment for maps in JavaScript, which see fewer properties.
///
/// # Errors
/// A damaged segment.
pub(crate) fn script_value(row: &SegmentRow<'_>) -> Result<ScriptValue, DocumentError> {
    let mut stored = Entries::default();
    row.decode(&mut stored)?;
    let entries = stored.iter().map(|entry| {
        let values: Vec<_> = entry.values.iter().copied().map(ScriptValue::Double).collect();
        object([
            ("Tag", entry.tag.map_or(ScriptValue::Null, text)),
            ("Timestamp", date(entry.timestamp_ms)),
            ("Value", values.first().cloned().unwrap_or(ScriptValue::Undefined)),
            ("Values", ScriptValue::Array(values)),
        ])
    });
    Ok(object([
        ("DocumentId", text(row.lower_document_id())),
        ("Name", text(row.lower_name())),
        ("Start", date(row.start_ms())),
        ("End", date(row.end_ms())),
        ("Count", ScriptValue::Integer(row.moments().cast_signed())),
        ("Entries", ScriptValue::Array(entries.collect())),
    ]))
}

fn ticks_of(moment_ms: i64) -> i64 {
    moment_ms.saturating_mul(TICKS_PER_MILLISECOND)
}

fn text(text: &str) -> ScriptValue {
    ScriptValue::String(Rc::from(text))
}

fn date(moment_ms: i64) -> ScriptValue {
    ScriptValue::Date((moment_ms - YEAR_1970_MS) as f64)
}

fn object<const N: usize>(properties: [(&str, ScriptValue); N]) -> ScriptValue {
    let properties = properties.into_iter();
    ScriptValue::Object(properties.map(|(name, value)| (Rc::from(name), value)).collect())
}
