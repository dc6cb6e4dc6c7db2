//! A range of a time series, page by page, as JSON: for loads, includes and `/timeseries`.

use documents::{
    DocumentError,
    time_series::{MOMENT_MAX, MomentRange, Series, SeriesReader, series},
};
use model::{DocumentId, TimeSeriesName, date, ticks::TICKS_PER_MILLISECOND};
use storage::ReadTransaction;

use crate::{
    answers::{
        json_text::{JsonArray, JsonObject, write_row_to},
        long_answer::Sink,
        time_series_text::{write_entry, write_node_values},
    },
    api_error::ApiError,
    writes::time_series_commands::moment_text,
};

/// Maximum number of documents that one range includes because tags name them.
const INCLUDED_TAGS_MAX: usize = 1 << 14;

/// A range of a time series, as requested.
#[derive(Clone, Debug)]
pub(crate) struct WantedRange {
    pub(crate) name: TimeSeriesName,
    /// In ticks; `None` for an open end.
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
}

impl WantedRange {
    /// Parses the ends of a range; an empty text leaves it open.
    pub(crate) fn parse(
        name: TimeSeriesName,
        from: &str,
        to: &str,
    ) -> Result<WantedRange, ApiError> {
        let end = |text: &str| match text {
            "" => Ok(None),
            text => match date::parse(text) {
                Some(found) if !matches!(found.zone, date::Zone::Offset(_)) => {
                    Ok(Some(found.utc_ticks()))
                }
                Some(_) | None => Err(ApiError::argument(format!(
                    "Could not parse query string '{name}' as date, val '{text}'"
                ))),
            },
        };
        let (from, to) = (end(from)?, end(to)?);
        Ok(WantedRange { name, from, to })
    }

    /// The range in milliseconds.
    pub(crate) fn moments(&self) -> MomentRange {
        // Timestamps have a resolution of milliseconds.
        let up = |ticks: i64| -(-ticks).div_euclid(TICKS_PER_MILLISECOND);
        let down = |ticks: i64| ticks.div_euclid(TICKS_PER_MILLISECOND);
        MomentRange { from: self.from.map_or(0, up), to: self.to.map_or(MOMENT_MAX, down) }
    }
}

/// The page of the entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// How many to skip.
    pub(crate) start: u64,
    /// Maximum number to return.
    pub(crate) size: u64,
}

/// When the total is reported for a range that is the whole series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Total {
    #[default]
    Never,
    /// When all entries are returned.
    OfWhole,
    /// Also with a page of them.
    OfPages,
}

/// What is written besides the entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) document: bool,
    /// Documents named by tags.
    pub(crate) tagged_documents: bool,
    /// The contribution of each node to an entry.
    pub(crate) node_values: bool,
    /// When the total is reported for a range that is the whole series.
    pub(crate) total: Total,
}

/// The ends of a page, as the response names them.
struct Ends {
    from: Option<String>,
    to: Option<String>,
    /// Whether the page omits entries of the range.
    is_part: bool,
}

/// Where ranges are written: the response so far, and its receiver when it has grown, which returns
/// `false` when the response must be aborted.
pub(crate) struct Output<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) sink: Sink<'o>,
}

/// Writes a range of a series of a document. Returns how many entries were skipped and how many
/// written; `None` when the response must be aborted.
pub(crate) async fn write_range(
    tx: &ReadTransaction,
    id: &DocumentId,
    wanted: &WantedRange,
    page: Page,
    extras: Extras,
    output: Output<'_>,
) -> Result<Option<Page>, ApiError> {
    let known = series(tx, id, &wanted.name)?;
    let ends = ends_of_page(tx, id, wanted, page, known.as_ref())?;
    let Output { out, sink } = output;
    let mut range = JsonObject::begin(out);
    range.optional_text("From", ends.from.as_deref());
    range.optional_text("To", ends.to.as_deref());
    let mut entries = JsonArray::begin(range.name("Entries"));
    let mut reader = SeriesReader::new(tx, id, &wanted.name, wanted.moments())?;
    let left_out = reader.skip(page.start)?;
    let node_tag = match extras.node_values {
        true => Some(documents::database_identity(tx)?.node_tag),
        false => None,
    };
    let (mut written, mut tags) = (0, Vec::new());
    while written < page.size {
        let Some(entry) = reader.next_entry()? else { break };
        written += 1;
        let mut object = JsonObject::begin(entries.element());
        write_entry(&entry, &mut object);
        if let Some(tag) = entry.tag.filter(|_| extras.tagged_documents)
            && tags.len() < INCLUDED_TAGS_MAX
            && !tags.iter().any(|known| known == tag)
        {
            tags.push(tag.to_owned());
        }
        if let Some(node_tag) = node_tag {
            write_node_values(&reader, node_tag.as_str(), &mut object);
        }
        object.end();
        if !sink.take(entries.out()).await {
            return Ok(None);
        }
    }
    entries.end();
    let shows_total = |known: &&Series| {
        let of_series = MomentRange { from: known.start_ms, to: known.end_ms };
        wanted.moments().includes(&of_series)
            && match extras.total {
                Total::Never => false,
                Total::OfWhole => !ends.is_part,
                Total::OfPages => true,
            }
    };
    if let Some(known) = known.as_ref().filter(shows_total) {
        range.number("TotalResults", known.entries);
    }
    if (extras.document || written > 0)
        && !write_includes(tx, (id, &tags), extras, &mut range, sink).await?
    {
        return Ok(None);
    }
    range.end();
    Ok(Some(Page { start: left_out, size: written }))
}

/// A page begins with its first entry, unless it is the first page; and it ends with its last,
/// unless it is the last page. A range outside the series stays unchanged.
fn ends_of_page(
    tx: &ReadTransaction,
    id: &DocumentId,
    wanted: &WantedRange,
    page: Page,
    known: Option<&Series>,
) -> Result<Ends, DocumentError> {
    let mut ends = Ends {
        from: wanted.from.map(date::format),
        to: wanted.to.map(date::format),
        is_part: false,
    };
    let range = wanted.moments();
    let Some(known) = known.filter(|known| {
        let is_beside = known.end_ms < range.from || range.to < known.start_ms || range.is_empty();
        !is_beside && (page.start != 0 || page.size != u64::MAX)
    }) else {
        return Ok(ends);
    };
    let mut reader = SeriesReader::new(tx, id, &wanted.name, range)?;
    let moment = |reader: &mut SeriesReader<'_>| -> Result<Option<i64>, DocumentError> {
        Ok(reader.next_entry()?.map(|entry| entry.timestamp_ms))
    };
    reader.skip(page.start)?;
    let first = moment(&mut reader)?;
    if page.start != 0 {
        ends.from = Some(moment_text(first.unwrap_or(known.end_ms)));
        ends.is_part = true;
    }
    // One of the page was read, and one is to be the last.
    let last = match page.size {
        0 | 1 => first,
        size => {
            reader.skip(size - 2)?;
            moment(&mut reader)?
        }
    };
    if let (Some(last), true) = (last, reader.next_entry()?.is_some()) {
        ends.to = Some(moment_text(last));
        ends.is_part = true;
    }
    Ok(ends)
}

/// Adds the document and those named by tags; `false` when the response must be aborted.
async fn write_includes(
    tx: &ReadTransaction,
    (id, tags): (&DocumentId, &[String]),
    extras: Extras,
    range: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    if !extras.document && !extras.tagged_documents {
        return Ok(true);
    }
    let mut includes = JsonObject::begin(range.name("Includes"));
    // A tag that is too long for an id matches no document.
    let tagged = tags.iter().filter_map(|tag| DocumentId::new(tag.as_str()).ok());
    for id in extras.document.then(|| id.clone()).into_iter().chain(tagged) {
        let found = documents::get(tx, &id)?;
        let Some(row) = found else { continue };
        if !write_row_to(sink, &row, false, includes.key(row.id())).await? {
            return Ok(false);
        }
    }
    includes.end();
    Ok(true)
}
