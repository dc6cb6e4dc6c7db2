//! Reading revisions: `/revisions` and what is below it.

use documents::{
    DocumentError, RevisionRow,
    log::{EntryKind, LogEntry, Selection},
};
use http::StatusCode;
use model::{DocumentFlags, DocumentId, Etag, date};
use storage::{ReadTransaction, pass_over};
use wire::{ErrorKind, HashEtag, QueryString};

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject, SMALL_ROW_BYTES, write_revision_to},
        long_answer::{INLINE_BYTES_MAX, LongAnswer, Sink, at_once, reason_after_results},
        piece_sender::PieceSender,
    },
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::documents_compression::RowSizes,
    http::router::Answering,
};

/// Responses that scan at most this many revisions are produced inline, on the thread that reads
/// the connection.
const INLINE_ROWS_MAX: u64 = 1024;
/// How many entries of the log are returned by default.
const LOG_PAGE_DEFAULT: usize = 1024;
/// Maximum number of versions in one request.
const VERSIONS_MAX: usize = 1 << 16;

/// `GET /revisions`: of a document, or by version.
pub(crate) fn list(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let metadata_only = query.bool("metadataOnly")?.unwrap_or(false);
        let wanted = Wanted::of(&query)?;
        drop(query);
        if wanted.rows_looked_at(&call.read()?)? <= INLINE_ROWS_MAX {
            return answer(&call, wanted, metadata_only, true);
        }
        blocking(move || answer(&call, wanted, metadata_only, false)).await
    })
}

/// Writes a short response inline, if allowed, and a long one while it is sent.
fn answer(
    call: &Call,
    wanted: Wanted,
    metadata_only: bool,
    may_be_short: bool,
) -> Result<Answer, ApiError> {
    let tx = call.read()?;
    let Some(etag) = wanted.etag(&tx)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    if call.if_none_match() == Some(etag.as_str()) && !etag.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let mut body = Vec::new();
    let whole = Sink::Whole { bytes_max: INLINE_BYTES_MAX };
    let written =
        may_be_short.then(|| at_once(wanted.write(&tx, metadata_only, &mut body, whole))).flatten();
    if written.transpose()?.unwrap_or(false) {
        return Ok(Answer::json(body).with_quoted_etag(&etag));
    }
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        wanted.write(&tx, metadata_only, out, Sink::Pieces(sender)).await
    };
    let long = LongAnswer::new(call.database()?, "revisions", reason_after_results, write);
    Ok(Answer::long(long).with_quoted_etag(&etag))
}

/// What a request for revisions selects.
enum Wanted {
    Versions(Vec<String>),
    Before { id: DocumentId, ticks: i64 },
    Page { id: DocumentId, start: usize, take: usize },
}

impl Wanted {
    fn of(query: &QueryString<'_>) -> Result<Wanted, ApiError> {
        if query.has("changeVector") {
            let versions: Vec<_> = query.all("changeVector").map(change_vector).collect();
            if VERSIONS_MAX < versions.len() {
                let message = format!("At most {VERSIONS_MAX} revisions may be asked for at once");
                return Err(ApiError::argument(message));
            }
            return Ok(Wanted::Versions(versions));
        }
        let id = DocumentId::new(query.single_non_empty("id")?)?;
        if let Some(text) = query.get("before").filter(|text| !text.is_empty()) {
            let Some(date) = date::parse(text) else {
                let message =
                    format!("Could not parse query string 'before' as date, val '{text}'");
                return Err(ApiError::argument(message));
            };
            return Ok(Wanted::Before { id, ticks: date.utc_ticks() });
        }
        let (start, take) = page_of(query)?;
        Ok(Wanted::Page { id, start, take })
    }

    /// Maximum number of revisions to scan.
    fn rows_looked_at(&self, tx: &ReadTransaction) -> Result<u64, ApiError> {
        match self {
            Wanted::Versions(versions) => Ok(versions.len() as u64),
            Wanted::Before { id, .. } => count_of(tx, id),
            Wanted::Page { id, start, take } => {
                let end = start.saturating_add(*take) as u64;
                Ok(count_of(tx, id)?.min(end))
            }
        }
    }

    /// The selected revisions; nothing for a missing version.
    fn rows<'t>(&'t self, tx: &'t ReadTransaction) -> Result<Rows<'t>, ApiError> {
        let failed = |error: DocumentError| ApiError::from(error);
        match self {
            Wanted::Versions(versions) => Ok(Box::new(versions.iter().map(move |version| {
                documents::revision_by_change_vector(tx, version).map_err(failed)
            }))),
            Wanted::Before { id, ticks } => {
                let found = documents::revision_at(tx, id, *ticks)?;
                Ok(Box::new(found.map(|row| Ok(Some(row))).into_iter()))
            }
            Wanted::Page { id, start, take } => {
                let rows = documents::revisions_newest_first(tx, id)?;
                let page = rows.skip_while(pass_over(*start)).take(*take);
                Ok(Box::new(page.map(move |row| row.map(Some).map_err(failed))))
            }
        }
    }

    /// The entity tag; `None` if the one requested version does not exist.
    fn etag(&self, tx: &ReadTransaction) -> Result<Option<String>, ApiError> {
        if let Wanted::Versions(versions) = self
            && versions.len() != 1
        {
            let mut etag = HashEtag::new();
            for row in self.rows(tx)? {
                etag.add(row?.as_ref().map(RevisionRow::change_vector));
            }
            return Ok(Some(etag.finish()));
        }
        let first = self.rows(tx)?.next().transpose()?.flatten();
        let first = first.map(|row| row.change_vector().to_owned());
        match self {
            Wanted::Versions(_) => Ok(first),
            Wanted::Before { .. } | Wanted::Page { .. } => Ok(Some(first.unwrap_or_default())),
        }
    }

    /// Writes the whole response; `false` when `sink` requests to stop.
    async fn write(
        &self,
        tx: &ReadTransaction,
        metadata_only: bool,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let mut page = JsonObject::begin(out);
        let mut results = JsonArray::begin(page.name("Results"));
        let mut written = 0_u64;
        for row in self.rows(tx)? {
            let row = row?;
            let end = results.out().len();
            let out = results.element();
            written += 1;
            match row {
                Some(row) if !metadata_only && SMALL_ROW_BYTES < row.uncompressed_bytes() => {
                    if !write_revision_to(sink, &row, out).await? {
                        return Ok(false);
                    }
                    continue;
                }
                Some(row) => {
                    let written = match metadata_only {
                        true => documents::write_revision_metadata_json(&row, out),
                        false => documents::write_revision_json(&row, out),
                    };
                    if let Err(error) = written {
                        // Only whole revisions were written.
                        out.truncate(end);
                        return Err(error.into());
                    }
                }
                None => out.extend_from_slice(b"null"),
            }
            if !sink.take(out).await {
                return Ok(false);
            }
        }
        let total = match self {
            Wanted::Versions(_) => None,
            Wanted::Before { .. } => Some(written),
            Wanted::Page { id, .. } => Some(count_of(tx, id)?),
        };
        results.end();
        if let Some(total) = total {
            page.number("TotalResults", total);
        }
        page.end();
        Ok(true)
    }
}

type Rows<'t> = Box<dyn Iterator<Item = Result<Option<RevisionRow<'t>>, ApiError>> + 't>;

fn count_of(tx: &ReadTransaction, id: &DocumentId) -> Result<u64, ApiError> {
    documents::revision_count(tx, id).map_err(ApiError::from)
}

/// `GET /revisions/count`.
pub(crate) fn count(call: &Call) -> Result<Answer, ApiError> {
    let id = DocumentId::new(call.query().single_non_empty("id")?)?;
    let count = count_of(&call.read()?, &id)?;
    Ok(Answer::json(format!("{{\"RevisionsCount\":{count}}}").into_bytes()))
}

/// `GET /revisions/size`.
pub(crate) fn size(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let version = change_vector(query.single_non_empty("changeVector")?);
    let tx = call.database()?.read();
    let Some(row) = documents::revision_by_change_vector(&tx, &version)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    let sizes = RowSizes {
        actual_bytes: row.uncompressed_bytes(),
        stored_bytes: row.size_bytes(),
        is_compressed: row.is_compressed(),
    };
    Ok(sizes.answer("ChangeVector", row.change_vector()))
}

/// `GET /revisions/bin`: the deleted documents, latest deletion first.
pub(crate) fn bin(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (start, take) = page_of(&query)?;
    // Clients of version 5 send the number to skip under this name.
    let passed_over = query.long("etag")?.map_or(0, |count| usize::try_from(count).unwrap_or(0));
    let start = start.max(passed_over);
    let tx = call.read()?;
    let newest = documents::deleted_documents(&tx)?.next();
    let etag = match newest.transpose()? {
        Some(newest) => {
            let total = documents::revisions_total(&tx)?;
            format!("{}/{total}", newest.change_vector())
        }
        None => String::new(),
    };
    if call.if_none_match() == Some(etag.as_str()) && !etag.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    // A revision of a deletion is a few hundred bytes.
    const SHOWN_MAX: usize = 1 << 16;
    let rows = documents::deleted_documents(&tx)?;
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut results = JsonArray::begin(page.name("Results"));
    for row in rows.skip_while(pass_over(start)).take(take.min(SHOWN_MAX)) {
        documents::write_revision_json(&row?, results.element())?;
    }
    results.end();
    page.end();
    Ok(Answer::json(body).with_quoted_etag(&etag))
}

/// `GET /revisions/difference`: what turns the version `from` into the version `to`, or into the
/// current document. An extension of RavenDB's protocol.
pub(crate) fn difference(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let from = change_vector(query.single_non_empty("from")?);
    let to = query.get("to").filter(|to| !to.is_empty()).map(change_vector);
    let tx = call.database()?.read();
    let failed = |error: DocumentError| ApiError::from(error);
    let by_version =
        |version: &str| documents::revision_by_change_vector(&tx, version).map_err(failed);
    let Some(old) = by_version(&from)? else { return Ok(Answer::empty(StatusCode::NOT_FOUND)) };
    let (revision, document);
    let (lower_id, version, ticks, body) = match &to {
        Some(to) => {
            revision = by_version(to)?;
            let Some(new) = &revision else { return Ok(Answer::empty(StatusCode::NOT_FOUND)) };
            (new.lower_id(), new.change_vector(), new.last_modified_ticks(), new.body())
        }
        None => {
            document = documents::get(&tx, &DocumentId::new(old.id())?)?;
            let Some(new) = &document else { return Ok(Answer::empty(StatusCode::NOT_FOUND)) };
            (new.lower_id(), new.change_vector(), new.last_modified_ticks(), new.body())
        }
    };
    if lower_id != old.lower_id() {
        let message = "The two versions are of different documents";
        return Err(ApiError::argument(message));
    }
    let (before, after) = (old.body()?, body?);
    let mut out = Vec::new();
    let mut object = JsonObject::begin(&mut out);
    object.text("Id", old.id());
    write_version(old.change_vector(), old.last_modified_ticks(), object.name("From"));
    write_version(version, ticks, object.name("To"));
    documents::write_difference(before.root(), after.root(), object.name("Patch"))?;
    object.end();
    Ok(Answer::json(out))
}

fn write_version(change_vector: &str, last_modified_ticks: i64, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.text("ChangeVector", change_vector);
    object.text("LastModified", &date::format(last_modified_ticks));
    object.end();
}

/// `GET /revisions/resolved`: the revisions of what conflicts were resolved to.
pub(crate) fn resolved(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let take = query.int("take")?.map(|take| usize::try_from(take).unwrap_or(0));
    let take = take.unwrap_or(LOG_PAGE_DEFAULT).min(VERSIONS_MAX);
    let mut since_ticks = i64::MIN;
    if let Some(since) = query.get("since").filter(|since| !since.is_empty()) {
        let parsed = date::parse(since).ok_or_else(|| {
            let message = format!("The string '{since}' was not recognized as a valid DateTime.");
            ApiError::new(ErrorKind::Format, message)
        })?;
        since_ticks = parsed.utc_ticks();
    }
    let tx = call.database()?.read();
    let log = documents::log::read(&tx, &[Selection::all(EntryKind::Revision)], Etag::ZERO)?;
    let rows = log.filter_map(|entry| entry.map(LogEntry::revision).transpose());
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut results = JsonArray::begin(page.name("Results"));
    let mut listed = 0;
    for row in rows {
        let row = row?;
        let is_listed = row.flags().contains(DocumentFlags::RESOLVED)
            && since_ticks <= row.last_modified_ticks();
        if listed == take {
            break;
        }
        if is_listed {
            listed += 1;
            documents::write_revision_json(&row, results.element())?;
        }
    }
    results.end();
    page.end();
    Ok(Answer::json(body))
}

/// `GET /debug/documents/get-revisions`: the log of revisions from an etag on.
pub(crate) fn log(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (start, _) = page_of(&query)?;
    let take = query.int("pageSize")?.map(|size| usize::try_from(size).unwrap_or(0));
    let take = take.unwrap_or(LOG_PAGE_DEFAULT).min(VERSIONS_MAX);
    let from = u64::try_from(query.long("etag")?.unwrap_or(0)).unwrap_or(0);
    let tx = call.database()?.read();
    let revisions = [Selection::all(EntryKind::Revision)];
    let after = Etag(from.saturating_sub(1));
    let log = documents::log::read(&tx, &revisions, after)?;
    let rows = log.filter_map(|entry| entry.map(LogEntry::revision).transpose());
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut listed = JsonArray::begin(page.name("Revisions"));
    for row in rows.skip_while(pass_over(start)).take(take) {
        let row = row?;
        let mut object = JsonObject::begin(listed.element());
        object.text("Id", row.id());
        object.number("Etag", row.etag().0);
        object.text("LastModified", &date::format(row.last_modified_ticks()));
        object.text("ChangeVector", row.change_vector());
        object.end();
    }
    listed.end();
    page.end();
    Ok(Answer::json(body))
}

/// How many to skip and how many to return. A negative start or size selects nothing.
fn page_of(query: &QueryString<'_>) -> Result<(usize, usize), ApiError> {
    let (start, size) = (query.start()?, query.page_size()?);
    let take = if start < 0 { 0 } else { usize::try_from(size).unwrap_or(0) };
    Ok((usize::try_from(start).unwrap_or(0), take))
}

/// Repairs a change vector: some clients do not escape its `+`, which then arrives as a blank. A
/// valid change vector has blanks only after commas.
fn change_vector(text: &str) -> String {
    text.replace(", ", "\n").replace(' ', "+").replace('\n', ", ")
}
