//! Ranges of time series included with documents: `TimeSeriesIncludes` of a load or a query.

use std::collections::HashSet;

use documents::{
    DocumentError, DocumentRow,
    time_series::{MomentRange, SeriesReader, series, series_of},
};
use model::{
    DocumentId, TimeSeriesName, date,
    ticks::{TICKS_PER_MILLISECOND, TICKS_PER_SECOND},
};
use query::{IncludedSeries, SeriesInclude, SeriesPart};
use storage::ReadTransaction;
use wire::{ErrorKind, HashEtag, QueryString};

use crate::{
    answers::{
        json_text::{JsonArray, JsonObject},
        long_answer::{Sink, at_once},
        time_series_range::{Extras, Output, Page, WantedRange, write_range},
    },
    api_error::ApiError,
    writes::time_series_commands::series_name,
};

/// The property of a page, and the type of a message.
const INCLUDES: &str = "TimeSeriesIncludes";
/// Stands for all series of a document.
const ALL_SERIES: &str = "@all_timeseries";
/// Maximum number of ranges.
const RANGES_MAX: usize = 1 << 10;
/// Maximum size of the time series included with a batch of a subscription, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 28;

/// What the parameters of a load request.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeSeriesIncludes {
    wanted: Vec<Included>,
}

#[derive(Clone, Debug)]
struct Included {
    /// `None` for every series of the document.
    name: Option<TimeSeriesName>,
    part: Part,
}

/// Which entries of a series.
#[derive(Clone, Debug)]
enum Part {
    /// Those between two timestamps, in ticks.
    Between(Option<i64>, Option<i64>),
    /// The last ones, this many.
    LastCount(u64),
    /// Those at most this many seconds before the last entry.
    LastSeconds(i64),
    /// Those at most this many months before the last entry.
    LastMonths(i64),
}

impl TimeSeriesIncludes {
    /// Parses the query parameters of a load; an error is the caller's.
    pub(crate) fn of_query(query: &QueryString<'_>) -> Result<TimeSeriesIncludes, ApiError> {
        let mut includes = TimeSeriesIncludes::default();
        let names: Vec<&str> = query.all("timeseries").collect();
        if !names.is_empty() {
            let (from, to): (Vec<_>, Vec<_>) =
                (query.all("from").collect(), query.all("to").collect());
            let lengths = (names.len(), from.len(), to.len());
            if lengths.0 != lengths.1 || lengths.0 != lengths.2 {
                return Err(ApiError::invalid_operation(format!(
                    "Parameters 'timeseriesNames', 'fromList' and 'toList' must be of equal length. \
                     Got : timeseriesNames.Count = {}, fromList.Count = {}, toList.Count = {}.",
                    lengths.0, lengths.1, lengths.2
                )));
            }
            for (name, (from, to)) in names.iter().zip(from.iter().zip(&to)) {
                let range = WantedRange::parse(series_name(name)?, from, to)?;
                includes.add(name, Part::Between(range.from, range.to))?;
            }
        }
        includes.add_last(query, "timeseriescount", "countType", "countValue", |value, _| {
            Ok(Part::LastCount(u64::try_from(value).unwrap_or(0)))
        })?;
        includes.add_last(query, "timeseriestime", "timeType", "timeValue", |value, unit| {
            match unit {
                "Second" => Ok(Part::LastSeconds(value)),
                "Month" => Ok(Part::LastMonths(value)),
                other => Err(not_found(other)),
            }
        })?;
        Ok(includes)
    }

    /// What a query requests of one document.
    fn of_parts(wanted: &[SeriesInclude]) -> Result<TimeSeriesIncludes, ApiError> {
        let mut includes = TimeSeriesIncludes::default();
        for SeriesInclude { name, part } in wanted {
            let part = match *part {
                SeriesPart::Between(from, to) => Part::Between(from, to),
                SeriesPart::LastCount(count) => Part::LastCount(count),
                SeriesPart::LastTicks(ticks) => Part::LastSeconds(ticks / TICKS_PER_SECOND),
                SeriesPart::LastMonths(months) => Part::LastMonths(months),
            };
            includes.add(name.as_deref().unwrap_or(ALL_SERIES), part)?;
        }
        Ok(includes)
    }

    /// Whether nothing is requested.
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    fn add_last(
        &mut self,
        query: &QueryString<'_>,
        property: &str,
        kind: &str,
        value: &str,
        part: impl Fn(i64, &str) -> Result<Part, ApiError>,
    ) -> Result<(), ApiError> {
        let (mut kinds, mut values) = (query.all(kind), query.all(value));
        let mut units = query.all("timeUnit");
        for name in query.all(property) {
            match kinds.next() {
                Some(kind) if kind.eq_ignore_ascii_case("Last") => {}
                Some(kind) if kind.eq_ignore_ascii_case("None") => {
                    let message = format!("Not supported time series range type '{kind}'.");
                    return Err(ApiError::new(ErrorKind::NotSupported, message));
                }
                other => return Err(not_found(other.unwrap_or_default())),
            }
            let text = values.next().unwrap_or_default();
            let number = text.trim().parse().map_err(|_| {
                ApiError::argument(format!("Could not parse '{value}', val '{text}'"))
            })?;
            self.add(name, part(number, units.next().unwrap_or_default())?)?;
        }
        Ok(())
    }

    /// The first request for a series wins, as in the protocol.
    fn add(&mut self, name: &str, part: Part) -> Result<(), ApiError> {
        let name = match name {
            ALL_SERIES => None,
            name => Some(series_name(name)?),
        };
        let lower =
            |name: &Option<TimeSeriesName>| name.as_ref().map(|name| name.lower_cased().to_owned());
        if self.wanted.len() == RANGES_MAX {
            let message = format!("At most {RANGES_MAX} time series may be included at once");
            return Err(ApiError::argument(message));
        }
        if !self.wanted.iter().any(|known| lower(&known.name) == lower(&name)) {
            self.wanted.push(Included { name, part });
        }
        Ok(())
    }

    /// The entity tag of a response that also depends on the series of documents.
    pub(crate) fn tag_of<'d>(
        &self,
        tx: &ReadTransaction,
        rows: impl Iterator<Item = &'d DocumentRow<'d>>,
        tag: &str,
    ) -> Result<String, ApiError> {
        let mut etag = HashEtag::new();
        etag.add(Some(tag));
        for row in rows {
            let id = DocumentId::new(row.id())
                .map_err(|error| ApiError::from(DocumentError::from(error)))?;
            for found in series_of(tx, &id)? {
                let found = found?;
                etag.add(Some(&found.changed.0.to_string()));
            }
        }
        Ok(etag.finish())
    }

    /// Adds the ranges of the documents to a page; `false` when the response must be aborted.
    pub(crate) async fn write<'d>(
        &self,
        tx: &ReadTransaction,
        rows: impl Iterator<Item = &'d DocumentRow<'d>>,
        page: &mut JsonObject<'_>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        if self.is_empty() {
            return Ok(true);
        }
        let mut documents = JsonObject::begin(page.name(INCLUDES));
        for row in rows {
            if !self.write_of_document(tx, row.id(), documents.key(row.id()), sink).await? {
                return Ok(false);
            }
        }
        documents.end();
        Ok(true)
    }

    async fn write_of_document(
        &self,
        tx: &ReadTransaction,
        id: &str,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let id =
            &DocumentId::new(id).map_err(|error| ApiError::from(DocumentError::from(error)))?;
        let mut series = JsonObject::begin(out);
        // The first request for a series wins.
        let mut met = HashSet::new();
        for Included { name, part } in &self.wanted {
            let names = match name {
                Some(name) => vec![name.clone()],
                None => all_names(tx, id)?,
            };
            for name in names {
                if !met.insert(name.lower_cased().to_owned()) {
                    continue;
                }
                let range = part.range(tx, id, name)?;
                let Some((range, page)) = range else { continue };
                let mut ranges = JsonArray::begin(series.key(range.name.as_str()));
                let output = Output { out: ranges.element(), sink };
                let written = write_range(tx, id, &range, page, Extras::default(), output).await?;
                if written.is_none() {
                    return Ok(false);
                }
                ranges.end();
            }
        }
        series.end();
        Ok(true)
    }
}

/// Adds what a query requests to a page; `false` when the response must be aborted.
pub(crate) async fn write_of_query(
    tx: &ReadTransaction,
    found: &IncludedSeries,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    let mut documents = JsonObject::begin(page.name(INCLUDES));
    for (id, wanted) in found.documents() {
        let includes = TimeSeriesIncludes::of_parts(wanted)?;
        if !includes.write_of_document(tx, id, documents.key(id), sink).await? {
            return Ok(false);
        }
    }
    documents.end();
    Ok(true)
}

/// Appends what a batch of a subscription includes, as a message of the protocol; nothing when it
/// requests nothing.
pub(crate) fn write_message(
    tx: &ReadTransaction,
    found: &IncludedSeries,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    if found.documents().is_empty() {
        return Ok(());
    }
    let end = out.len().saturating_add(MESSAGE_BYTES_MAX);
    let fits = Sink::Whole { bytes_max: end };
    let mut message = JsonObject::begin(out);
    message.text("Type", INCLUDES);
    match at_once(write_of_query(tx, found, &mut message, fits)).transpose()? {
        Some(true) => {
            message.end();
            Ok(())
        }
        Some(false) | None => Err(ApiError::invalid_operation(format!(
            "The time series included with one batch have more than {MESSAGE_BYTES_MAX} bytes; \
             let it have fewer documents, or include fewer entries of each"
        ))),
    }
}

fn all_names(tx: &ReadTransaction, id: &DocumentId) -> Result<Vec<TimeSeriesName>, DocumentError> {
    series_of(tx, id)?.map(|found| Ok(TimeSeriesName::new(found?.name)?)).collect()
}

impl Part {
    /// The range of this part of a series; `None` when the series does not exist.
    fn range(
        &self,
        tx: &ReadTransaction,
        id: &DocumentId,
        name: TimeSeriesName,
    ) -> Result<Option<(WantedRange, Page)>, DocumentError> {
        let all = Page { start: 0, size: u64::MAX };
        if let Part::Between(from, to) = *self {
            return Ok(Some((WantedRange { name, from, to }, all)));
        }
        let Some(known) = series(tx, id, &name)? else { return Ok(None) };
        let end = known.end_ms * TICKS_PER_MILLISECOND;
        let (from, page) = match *self {
            Part::Between(..) => (0, all),
            Part::LastSeconds(seconds) => {
                (end.saturating_sub(seconds.saturating_mul(TICKS_PER_SECOND)), all)
            }
            Part::LastMonths(months) => (date::add_months(end, months.saturating_neg()), all),
            Part::LastCount(0) => (end, Page { start: 0, size: 0 }),
            Part::LastCount(count) => {
                let mut reader = SeriesReader::new(tx, id, &name, MomentRange::ALL)?;
                reader.skip(known.entries.saturating_sub(count))?;
                let first = reader.next_entry()?.map(|entry| entry.timestamp_ms);
                (first.map_or(end, |first| first * TICKS_PER_MILLISECOND), all)
            }
        };
        Ok(Some((WantedRange { name, from: Some(from.max(0)), to: None }, page)))
    }
}

fn not_found(value: &str) -> ApiError {
    ApiError::argument(format!("Requested value '{value}' was not found."))
}
