//! `timeseries(document, name)` in the script of a patch.

use documents::{
    DocumentError, DocumentWriter,
    time_series::{
        Entry, InvalidTimeSeries, MOMENT_MAX, MomentRange, TimeSeriesChange, YEAR_1970_MS,
    },
};
use model::{DocumentId, TimeSeriesName};
use script::{TimeSeriesEntry, TimeSeriesStats};

use crate::error::CommandError;

/// Approximate bytes of an entry in a script, without its values.
const ENTRY_BYTES: usize = 128;

/// An operation on a series.
pub(crate) enum SeriesCall {
    Append(TimeSeriesEntry),
    Increment(TimeSeriesEntry),
    Delete { from: Option<f64>, to: Option<f64> },
}

/// Converts a script's timestamp to that of documents. The conversion saturates.
fn moment(millis: f64) -> i64 {
    (millis as i64).saturating_add(YEAR_1970_MS)
}

fn millis(moment: i64) -> f64 {
    moment.saturating_sub(YEAR_1970_MS) as f64
}

fn range(from: Option<f64>, to: Option<f64>) -> MomentRange {
    MomentRange { from: from.map_or(0, moment), to: to.map_or(MOMENT_MAX, moment) }
}

fn series_of(id: &str, name: &str) -> Result<(DocumentId, TimeSeriesName), DocumentError> {
    let name = TimeSeriesName::new(name).map_err(InvalidTimeSeries::NameTooLong)?;
    Ok((DocumentId::new(id)?, name))
}

/// Changes a series.
pub(crate) fn change(
    writer: &mut DocumentWriter<'_>,
    (id, name): (&str, &str),
    call: &SeriesCall,
) -> Result<(), CommandError> {
    let (id, name) = series_of(id, name)?;
    let mut change = TimeSeriesChange::new(id, name);
    let entry = |entry: &TimeSeriesEntry, into: &mut documents::time_series::Entries| {
        let (timestamp_ms, tag) = (moment(entry.timestamp_millis), entry.tag.as_deref());
        into.push(Entry { timestamp_ms, values: &entry.values, tag });
    };
    match call {
        SeriesCall::Append(new) => entry(new, &mut change.appends),
        SeriesCall::Increment(new) => entry(new, &mut change.increments),
        SeriesCall::Delete { from, to } => change.deletes.push(range(*from, *to)),
    }
    writer.change_time_series(&change)?;
    Ok(())
}

/// The entries of a series in a range; `None` when they exceed the limit in bytes.
pub(crate) fn entries(
    writer: &DocumentWriter<'_>,
    (id, name): (&str, &str),
    (from, to): (Option<f64>, Option<f64>),
    bytes_max: usize,
) -> Result<Option<(Vec<TimeSeriesEntry>, usize)>, CommandError> {
    let (id, name) = series_of(id, name)?;
    let mut reader = writer.time_series_reader(&id, &name, range(from, to))?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(entry) = reader.next_entry()? {
        bytes += ENTRY_BYTES + size_of_val(entry.values);
        if bytes_max < bytes {
            return Ok(None);
        }
        entries.push(TimeSeriesEntry {
            timestamp_millis: millis(entry.timestamp_ms),
            tag: entry.tag.map(str::to_owned),
            values: entry.values.to_vec(),
            is_rollup: entry.is_rollup,
        });
    }
    Ok(Some((entries, bytes)))
}

/// The statistics of a series.
pub(crate) fn stats(
    writer: &DocumentWriter<'_>,
    (id, name): (&str, &str),
) -> Result<Option<TimeSeriesStats>, CommandError> {
    let (id, name) = series_of(id, name)?;
    let found = writer.time_series(&id, &name)?;
    Ok(found.map(|found| TimeSeriesStats {
        start_millis: millis(found.start_ms),
        end_millis: millis(found.end_ms),
        count: found.entries,
    }))
}
