//! `/timeseries`: ranges and statistics of series, changes; `/streams/timeseries`.

use commands::Batch;
use documents::time_series::{MomentRange, SeriesReader, series, series_of};
use engine::RecordedSeries;
use http::StatusCode;
use model::DocumentId;
use storage::ReadTransaction;
use wire::{HashEtag, QueryString};

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject},
        long_answer::{INLINE_BYTES_MAX, LongAnswer, Sink, at_once, reason_after_results},
        piece_sender::PieceSender,
        time_series_range::{Extras, Output, Page, Total, WantedRange, write_range},
        time_series_text::write_streamed_entry,
    },
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::{
        submitting::submit,
        time_series_commands::{change_command, moment_text, series_name},
    },
};

/// Responses with at most this many entries may be produced on the thread that reads the
/// connection.
const INLINE_ENTRIES_MAX: u64 = 1024;
/// Maximum number of ranges in one request.
const RANGES_MAX: usize = 1 << 12;

/// `POST /timeseries`.
pub(crate) fn post(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let id = query.single_non_empty("docId")?;
        let series = RecordedSeries::of(call.database()?);
        let command = change_command(id, wire::read_time_series(&call.body)?, &series)?;
        submit(&call.state, call.database()?, Batch::one(command)).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// `GET /timeseries`.
pub(crate) fn get(call: Call) -> Answering {
    Box::pin(async move {
        let wanted = Wanted::one(&call.query())?;
        answer(call, wanted).await
    })
}

/// `GET /timeseries/ranges`.
pub(crate) fn ranges(call: Call) -> Answering {
    Box::pin(async move {
        let wanted = Wanted::several(&call.query())?;
        answer(call, wanted).await
    })
}

/// What a request selects.
struct Wanted {
    id: DocumentId,
    ranges: Vec<WantedRange>,
    page: Page,
    extras: Extras,
    /// Whether the response is the only range, rather than a list.
    is_one: bool,
}

impl Wanted {
    fn one(query: &QueryString<'_>) -> Result<Wanted, ApiError> {
        let id = DocumentId::new(query.single_non_empty("docId")?)?;
        let name = series_name(query.required("name")?)?;
        let (from, to) = (query.get("from").unwrap_or(""), query.get("to").unwrap_or(""));
        let ranges = vec![WantedRange::parse(name, from, to)?];
        let page = page_of(query)?;
        let extras = Extras { total: Total::OfPages, ..extras_of(query)? };
        Ok(Wanted { id, ranges, page, extras, is_one: true })
    }

    fn several(query: &QueryString<'_>) -> Result<Wanted, ApiError> {
        let id = DocumentId::new(query.single_non_empty("docId")?)?;
        query.required("name")?;
        query.required("from")?;
        query.required("to")?;
        let names: Vec<&str> = query.all("name").collect();
        let (from, to): (Vec<_>, Vec<_>) = (query.all("from").collect(), query.all("to").collect());
        for (first, second, of) in [
            ("name", "from", (names.len(), from.len())),
            ("name", "to", (names.len(), to.len())),
            ("from", "to", (from.len(), to.len())),
        ] {
            if of.0 != of.1 {
                return Err(ApiError::argument(format!(
                    "Length of query string values '{first}' must be equal to the length of query \
                     string values '{second}'"
                )));
            }
        }
        if RANGES_MAX < names.len() {
            let message = format!("A request may select at most {RANGES_MAX} ranges");
            return Err(ApiError::argument(message));
        }
        if names.contains(&"") {
            return Err(ApiError::invalid_operation(format!(
                "GetMultipleTimeSeriesOperation : Missing 'Name' argument in 'TimeSeriesRange' on \
                 document '{id}'. 'Name' cannot be null or empty"
            )));
        }
        let ranges = names.iter().zip(from.iter().zip(&to));
        let ranges =
            ranges.map(|(name, (from, to))| WantedRange::parse(series_name(name)?, from, to));
        let ranges = ranges.collect::<Result<_, ApiError>>()?;
        let (page, extras) = (page_of(query)?, extras_of(query)?);
        Ok(Wanted { id, ranges, page, extras, is_one: false })
    }

    /// The entity tag of the response, and the approximate number of entries to scan; `None` when
    /// nothing is found.
    fn survey(&self, tx: &ReadTransaction) -> Result<Option<(String, u64)>, ApiError> {
        let mut etag = HashEtag::new();
        let mut entries: u64 = 0;
        for range in &self.ranges {
            let found = series(tx, &self.id, &range.name)?;
            if found.is_none() && self.is_one {
                return Ok(None);
            }
            etag.add(found.as_ref().map(|found| found.changed.0.to_string()).as_deref());
            entries = entries.saturating_add(found.map_or(0, |found| found.entries));
        }
        if self.extras.document || self.extras.tagged_documents {
            let progress = documents::progress(tx)?;
            etag.add(Some(progress.change_vector.as_str()));
        }
        Ok(Some((etag.finish(), entries.min(self.page.start.saturating_add(self.page.size)))))
    }

    /// Writes the whole response; `false` when it must be aborted.
    async fn write(&self, tx: &ReadTransaction, output: Output<'_>) -> Result<bool, ApiError> {
        if let ([range], true) = (self.ranges.as_slice(), self.is_one) {
            let written = write_range(tx, &self.id, range, self.page, self.extras, output).await?;
            return Ok(written.is_some());
        }
        let Output { out, sink } = output;
        let mut object = JsonObject::begin(out);
        object.text("Id", self.id.as_str());
        let mut values = JsonObject::begin(object.name("Values"));
        let mut page = self.page;
        let mut done = vec![false; self.ranges.len()];
        for first in 0..self.ranges.len() {
            if done[first] || page.size == 0 {
                continue;
            }
            let mut ranges = JsonArray::begin(values.key(self.ranges[first].name.as_str()));
            for (index, range) in self.ranges.iter().enumerate().skip(first) {
                let is_same = range.name.lower_cased() == self.ranges[first].name.lower_cased();
                if !is_same || page.size == 0 {
                    continue;
                }
                done[index] = true;
                let output = Output { out: ranges.element(), sink };
                let written = write_range(tx, &self.id, range, page, self.extras, output).await?;
                let Some(written) = written else { return Ok(false) };
                page.start -= written.start;
                page.size = page.size.saturating_sub(written.size);
            }
            ranges.end();
        }
        values.end();
        object.end();
        Ok(true)
    }
}

fn page_of(query: &QueryString<'_>) -> Result<Page, ApiError> {
    let start = u64::try_from(query.start()?).unwrap_or(0);
    let size = match query.int("pageSize")? {
        None => u64::MAX,
        Some(size) => u64::try_from(size)
            .map_err(|_| ApiError::argument(format!("A page cannot have {size} entries")))?,
    };
    // The maximum that clients can send means all.
    let size = if size == i32::MAX as u64 { u64::MAX } else { size };
    Ok(Page { start, size })
}

fn extras_of(query: &QueryString<'_>) -> Result<Extras, ApiError> {
    let flag = |name| Ok::<_, ApiError>(query.bool(name)?.unwrap_or(false));
    Ok(Extras {
        document: flag("includeDocument")?,
        tagged_documents: flag("includeTags")?,
        node_values: flag("full")?,
        total: Total::OfWhole,
    })
}

/// Produces a short response inline, and a long one while it is sent.
async fn answer(call: Call, wanted: Wanted) -> Result<Answer, ApiError> {
    let tx = call.read()?;
    let Some((etag, entries)) = wanted.survey(&tx)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    if wanted.is_one && wanted.page.size == 0 {
        return Ok(Answer::json(Vec::new()).with_quoted_etag(&etag));
    }
    let answer = match entries <= INLINE_ENTRIES_MAX {
        true => short_answer(&tx, &wanted)?,
        false => None,
    };
    let answer = answer.map_or_else(|| long_answer(&call, tx, wanted), Ok)?;
    Ok(answer.with_quoted_etag(&etag))
}

/// Writes a short response to its end; `None` for one that is not short.
fn short_answer(tx: &ReadTransaction, wanted: &Wanted) -> Result<Option<Answer>, ApiError> {
    let mut body = Vec::new();
    let sink = Sink::Whole { bytes_max: INLINE_BYTES_MAX };
    let written = at_once(wanted.write(tx, Output { out: &mut body, sink }));
    Ok(written.transpose()?.unwrap_or(false).then(|| Answer::json(body)))
}

/// A response that is produced while it is sent.
fn long_answer(call: &Call, tx: ReadTransaction, wanted: Wanted) -> Result<Answer, ApiError> {
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        wanted.write(&tx, Output { out, sink: Sink::Pieces(sender) }).await
    };
    let long = LongAnswer::new(call.database()?, "a time series", reason_after_results, write);
    Ok(Answer::long(long))
}

/// `GET /timeseries/stats`: the series of a document.
pub(crate) fn stats(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.required("docId")?)?;
    let tx = call.read()?;
    let Some(document) = documents::get(&tx, &id)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.text("DocumentId", document.id());
    let mut series = JsonArray::begin(object.name("TimeSeries"));
    for found in series_of(&tx, &id)? {
        let found = found?;
        let mut one = JsonObject::begin(series.element());
        one.text("Name", &found.name);
        one.number("NumberOfEntries", found.entries);
        one.text("StartDate", &moment_text(found.start_ms));
        one.text("EndDate", &moment_text(found.end_ms));
        one.end();
    }
    series.end();
    object.end();
    Ok(Answer::json(body))
}

/// `GET /streams/timeseries`.
pub(crate) fn stream(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.single_non_empty("docId")?)?;
    let name = series_name(query.required("name")?)?;
    let (from, to) = (query.get("from").unwrap_or(""), query.get("to").unwrap_or(""));
    let wanted = WantedRange::parse(name, from, to)?;
    let database = call.database()?;
    let tx = call.read()?;
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"Results\":[");
        if !stream_entries(&tx, &id, &wanted, sender, out).await? {
            return Ok(false);
        }
        out.extend_from_slice(b"]}");
        Ok(true)
    };
    let long = LongAnswer::new(database, "a time series", reason_after_results, write);
    Ok(Answer::long(long))
}

/// Writes the entries, each followed by a comma, as in the protocol.
async fn stream_entries(
    tx: &ReadTransaction,
    id: &DocumentId,
    wanted: &WantedRange,
    sender: &PieceSender,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let range: MomentRange = wanted.moments();
    let mut reader = SeriesReader::new(tx, id, &wanted.name, range)?;
    while let Some(entry) = reader.next_entry()? {
        write_streamed_entry(&entry, out);
        out.push(b',');
        if !sender.send_if_enough(out).await {
            return Ok(false);
        }
    }
    Ok(true)
}
