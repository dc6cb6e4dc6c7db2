//! Time series functions that scripts of queries call.

use std::sync::atomic::AtomicBool;

use documents::time_series::{self, MOMENT_MAX, MomentRange, YEAR_1970_MS};
use model::DocumentId;
use model::ticks::TICKS_PER_MILLISECOND;
use script::{HostError, ScriptValue, SeriesArgument, TimeSeriesEntry, TimeSeriesStats};
use storage::{Transaction, WorkingMemory};

use crate::error::QueryError;
use crate::loaded::Loaded;
use crate::row_document::{RowDocument, decompressed_bytes};
use crate::time_series::condition::Cell;
use crate::time_series::evaluation::RowDocuments;
use crate::time_series::planned::{Place, PlannedArgument, PlannedSeries};
use crate::time_series::reader::SeriesReader;
use crate::time_series::settings::{NoSettings, SeriesSettings};
use crate::time_series::shown::{SeriesForm, SeriesShown};
use crate::time_series::stored::{StoredSeries, key_of};

/// Maximum number of entries returned to a script by one call.
const ENTRIES_MAX: usize = 1 << 20;
/// Approximate memory of an entry, here and in the script.
const ENTRY_BYTES: u64 = 512;

/// The implementation of those functions.
#[derive(Clone, Copy)]
pub(crate) struct SeriesCalls<'h> {
    /// The functions that `declare timeseries` declares.
    pub(crate) functions: &'h [PlannedSeries],
    pub(crate) settings: Option<&'h dyn SeriesSettings>,
    /// Set when the query is canceled.
    pub(crate) stop: &'h AtomicBool,
    /// Where the memory of returned entries is charged.
    pub(crate) memory: &'h WorkingMemory,
}

impl SeriesCalls<'_> {
    /// `timeseries(document, name).get(from, to)`.
    pub(crate) fn entries<T: Transaction>(
        &self,
        documents: &T,
        (id, name): (&str, &str),
        (from, to): (Option<f64>, Option<f64>),
    ) -> Result<Vec<TimeSeriesEntry>, HostError> {
        let Some((id, name)) = key_of(id, name) else { return Ok(Vec::new()) };
        let moment = |millis: f64| (millis as i64).saturating_add(YEAR_1970_MS);
        let range = MomentRange {
            from: from.map_or(0, moment).clamp(0, MOMENT_MAX),
            to: to.map_or(MOMENT_MAX, moment),
        };
        let mut reader = time_series::SeriesReader::new(documents, &id, &name, range)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            if ENTRIES_MAX <= entries.len() {
                let message =
                    format!("get() returns at most {ENTRIES_MAX} entries of a time series");
                return Err(message.into());
            }
            self.memory.take(ENTRY_BYTES)?;
            entries.push(TimeSeriesEntry {
                timestamp_millis: (entry.timestamp_ms - YEAR_1970_MS) as f64,
                tag: entry.tag.map(str::to_owned),
                values: entry.values.to_vec(),
                is_rollup: entry.is_rollup,
            });
        }
        Ok(entries)
    }

    /// `timeseries(document, name).getStats()`.
    pub(crate) fn stats<T: Transaction>(
        &self,
        documents: &T,
        id: &str,
        name: &str,
    ) -> Result<Option<TimeSeriesStats>, HostError> {
        let facts = StoredSeries::new(documents, self.stop).facts(id, name)?;
        Ok(facts.map(|facts| TimeSeriesStats {
            start_millis: (facts.first_ms - YEAR_1970_MS) as f64,
            end_millis: (facts.last_ms - YEAR_1970_MS) as f64,
            count: facts.count,
        }))
    }

    /// A call of a declared function; returns JSON.
    pub(crate) fn call<T: Transaction>(
        &self,
        documents: &T,
        function: &str,
        arguments: Vec<SeriesArgument>,
    ) -> Result<Vec<u8>, HostError> {
        let known = self.functions.iter().find(|known| known.function == function);
        let mut series = known.ok_or_else(|| format!("There is no function '{function}'"))?.clone();
        let mut loaded = Vec::new();
        let mut row = None;
        for (place, argument) in arguments.into_iter().enumerate() {
            let argument = match argument {
                SeriesArgument::Value(value) => PlannedArgument::Value(cell_of(&value)),
                SeriesArgument::Document(id) => {
                    let document = documents::get(documents, &DocumentId::new(id.as_str())?)?;
                    if row.is_none() {
                        row = documents::get(documents, &DocumentId::new(id)?)?;
                    }
                    let bytes = document.as_ref().map_or(0, decompressed_bytes);
                    // The first one exists twice.
                    self.memory.take(if row.is_none() { 2 * bytes } else { bytes })?;
                    loaded.push(Loaded::One(document));
                    PlannedArgument::Document(Place::Loaded(loaded.len() - 1))
                }
            };
            if let Some(planned) = series.arguments.get_mut(place) {
                *planned = argument;
            }
        }
        let Some(row) = row else {
            return Err(format!("{function}() requires a document as an argument here").into());
        };
        Ok(self.value_of(documents, &series, &RowDocument::Stored(row), &loaded)?)
    }

    fn value_of<T: Transaction>(
        &self,
        documents: &T,
        series: &PlannedSeries,
        row: &RowDocument<'_>,
        loaded: &[Loaded<'_>],
    ) -> Result<Vec<u8>, QueryError> {
        let stored = StoredSeries::new(documents, self.stop);
        let shown = SeriesShown {
            reader: &stored,
            tags: &stored,
            settings: self.settings.unwrap_or(&NoSettings),
            reports_value_names: false,
            form: SeriesForm::Page,
            memory: self.memory,
        };
        let mut json = Vec::new();
        shown.write_value(series, RowDocuments { row, loaded }, &mut json)?;
        Ok(json)
    }
}

fn cell_of(value: &ScriptValue) -> Cell {
    match value {
        ScriptValue::Undefined | ScriptValue::Null => Cell::Null,
        ScriptValue::Bool(value) => Cell::Bool(*value),
        ScriptValue::String(text) => Cell::Text(text.to_string()),
        ScriptValue::Date(millis) => {
            let moment = (*millis as i64).saturating_add(YEAR_1970_MS);
            Cell::Moment(moment.saturating_mul(TICKS_PER_MILLISECOND))
        }
        ScriptValue::Integer(_) | ScriptValue::Number(_) | ScriptValue::Double(_) => {
            value.as_f64().map_or(Cell::Composite, Cell::Number)
        }
        ScriptValue::Array(_) | ScriptValue::Object(_) | ScriptValue::Stored(_) => Cell::Composite,
    }
}
