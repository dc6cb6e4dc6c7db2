//! Reading, storing and deleting single documents: `/docs` and `/docs/size`.

use std::collections::HashSet;

use commands::{Batch, Command, CommandResult};
use database::DatabaseLease;
use documents::{DocumentError, DocumentRow, ExpectedVersion, PutDocument, RequestedId};
use http::StatusCode;
use model::{DocumentId, Etag};
use query::{CounterIncludes, IncludePath, IncludedCounters, IncludedRevisions, RevisionIncludes};
use serde_json::json;
use storage::{Held, ReadTransaction};
use wire::{HashEtag, QueryString};

use crate::{
    answers::{
        answer::Answer,
        answer_memory::counting_memory,
        counter_includes,
        document_pages::{Listing, list_documents},
        json_text::{JsonArray, JsonObject, write_row_to},
        long_answer::{INLINE_BYTES_MAX, LongAnswer, Sink, at_once, reason_after_results},
        piece_sender::PieceSender,
        revision_includes,
        time_series_includes::TimeSeriesIncludes,
        value_includes::ValueIncludes,
    },
    api_error::{ApiError, no_room},
    call::Call,
    handlers::documents_compression::RowSizes,
    http::router::Answering,
    writes::submitting::submit,
};

/// What is in memory of a document that a load found, besides its id.
const FOUND_BYTES: usize = size_of::<Option<DocumentRow<'_>>>() + 2 * size_of::<String>();
/// Maximum number of documents that one load may request, and that it may include.
const LOADED_IDS_MAX: usize = 1 << 17;

/// `GET /docs`: by ids, by prefix, by etag, or newest first.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    if query.has("id") {
        let ids: Vec<&str> = query.all("id").collect();
        return load(call, &query, &ids);
    }
    list(call, &query)
}

/// The entity tag that clients have for a document that they know to be missing.
const TAG_OF_MISSING: &str = "404 Response";

/// `POST /docs`: by ids in the body.
pub(crate) fn post(call: &Call) -> Result<Answer, ApiError> {
    let ids = wire::read_ids(&call.body)?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    load(call, &call.query(), &ids)
}

/// `HEAD /docs`: whether a document exists, and its version.
pub(crate) fn head(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.single_non_empty("id")?)?;
    let tx = call.read()?;
    let Some(row) = documents::get(&tx, &id)? else {
        if documents::conflict_etag(&tx, &id)?.is_some() {
            return Ok(Answer::empty(StatusCode::CONFLICT));
        }
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    if call.if_none_match() == Some(row.change_vector()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    Ok(Answer::json(Vec::new()).with_quoted_etag(row.change_vector()))
}

/// `GET /docs/size`.
pub(crate) fn size(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.single_non_empty("id")?)?;
    let tx = call.read()?;
    let Some(row) = documents::get(&tx, &id)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    let sizes = RowSizes {
        actual_bytes: row.uncompressed_bytes(),
        stored_bytes: row.size_bytes(),
        is_compressed: row.is_compressed(),
    };
    Ok(sizes.answer("DocId", row.id()))
}

/// `GET /debug/documents/huge`: the largest documents that were used recently.
pub(crate) fn huge(call: &Call) -> Result<Answer, ApiError> {
    let documents = call.database()?.huge_documents().largest();
    let rows: Vec<_> = documents
        .into_iter()
        .map(|document| {
            json!({
                "Id": document.id,
                "Size": document.bytes,
                "LastAccess": model::date::format(document.used.ticks()),
            })
        })
        .collect();
    let answer = json!({ "@metadata": call.state.debug_metadata(), "Results": rows });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `PUT /docs`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let put = read_put(&call)?;
        let outcome = submit(&call.state, call.database()?, Batch::one(Command::Put(put))).await?;
        let Some(CommandResult::Put(stored)) = outcome.results.into_iter().next() else {
            return Err(ApiError::invalid_operation(
                "the outcome of the document's command is missing",
            ));
        };
        let mut body = Vec::new();
        let mut object = JsonObject::begin(&mut body);
        object.text("Id", stored.id.as_str());
        object.text("ChangeVector", &stored.change_vector.to_string());
        object.end();
        Ok(Answer::json_with(StatusCode::CREATED, body))
    })
}

fn read_put(call: &Call) -> Result<PutDocument, ApiError> {
    let query = call.query();
    let id = query.single_non_empty("id")?;
    let id = RequestedId::parse(Some(id), call.id_separator()?)
        .map_err(|error| ApiError::argument(error.to_string()))?;
    let body = call.state.with_builder(|builder| wire::read_document_body(&call.body, builder))?;
    Ok(PutDocument { id, expected: ExpectedVersion::parse(call.if_match()), body })
}

/// `DELETE /docs`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let id = DocumentId::new(call.query().single_non_empty("id")?)?;
        let expected = ExpectedVersion::parse(call.if_match());
        let batch = Batch::one(Command::Delete { id, expected });
        submit(&call.state, call.database()?, batch).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

fn load(call: &Call, query: &QueryString<'_>, ids: &[&str]) -> Result<Answer, ApiError> {
    check_count(ids.len())?;
    let metadata_only = query.bool("metadataOnly")?.unwrap_or(false);
    let paths: Vec<IncludePath> =
        query.all("include").filter(|path| !path.is_empty()).map(IncludePath::parse).collect();
    let revisions = revision_includes::of_query(query);
    let counters = counter_includes::of_query(query);
    let database = call.database()?;
    let values = ValueIncludes::of_query(query, || database.values());
    let time_series = TimeSeriesIncludes::of_query(query)?;
    let tx = call.read()?;
    let mut held = counting_memory(&call.state).holding();
    let rows = find_all(&tx, ids, &mut held)?;
    note_huge(call, &rows)?;
    if let ([None], true) = (rows.as_slice(), paths.is_empty() || rows.len() == 1) {
        let is_known = call.if_none_match() == Some(TAG_OF_MISSING);
        return Ok(Answer::empty(match is_known {
            true => StatusCode::NOT_MODIFIED,
            false => StatusCode::NOT_FOUND,
        }));
    }
    let included = included_rows(&tx, &rows, &paths, &mut held)?;
    let found_counters = counters_of(&tx, &rows, &counters)?;
    let versions = values.as_ref().map(|values| values.versions(&rows));
    let versions = versions.transpose()?;
    let is_plain = paths.is_empty() && versions.is_none() && time_series.is_empty();
    let mut etag = load_etag(&rows, &included, found_counters.as_ref(), is_plain);
    for version in versions.iter().flatten() {
        etag.push_str(&format!("-{}", version.unwrap_or_default()));
    }
    if !time_series.is_empty() {
        etag = time_series.tag_of(&tx, rows.iter().flatten(), &etag)?;
    }
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let bytes: usize =
        rows.iter().flatten().chain(&included.rows).map(|row| row.size_bytes()).sum();
    let mut body = Vec::with_capacity((bytes + bytes / 2 + 256).min(INLINE_BYTES_MAX));
    let includes = (&revisions, &counters, values.as_ref());
    let whole = Sink::Whole { bytes_max: INLINE_BYTES_MAX };
    let loaded = (rows.as_slice(), &included);
    let written =
        at_once(write_load(&tx, loaded, includes, &time_series, metadata_only, &mut body, whole));
    if written.transpose()?.unwrap_or(false) {
        return Ok(Answer::json(body).with_quoted_etag(&etag));
    }
    drop((rows, included, held));
    let ids = ids.iter().map(ToString::to_string).collect();
    let load = Load { ids, paths, revisions, counters, values, time_series, metadata_only };
    Ok(stream_load(call.database()?, tx, load).with_quoted_etag(&etag))
}

fn check_count(ids: usize) -> Result<(), ApiError> {
    if ids <= LOADED_IDS_MAX {
        return Ok(());
    }
    Err(ApiError::argument(format!(
        "A load may have {LOADED_IDS_MAX} ids, and as many included ones, but has {ids} or more"
    )))
}

fn note_huge(call: &Call, rows: &[Option<DocumentRow<'_>>]) -> Result<(), ApiError> {
    let known = call.database()?.huge_documents();
    for row in rows.iter().flatten() {
        let bytes = row.body_bytes();
        if known.is_huge(bytes) {
            known.note(row.id(), bytes, call.state.engine.clock().now());
        }
    }
    Ok(())
}

fn find_all<'t>(
    tx: &'t ReadTransaction,
    ids: &[impl AsRef<str>],
    held: &mut Held,
) -> Result<Vec<Option<DocumentRow<'t>>>, ApiError> {
    hold(held, ids.len() * FOUND_BYTES)?;
    ids.iter().map(|id| find(tx, id.as_ref())).collect()
}

fn find<'t>(tx: &'t ReadTransaction, id: &str) -> Result<Option<DocumentRow<'t>>, ApiError> {
    if id.is_empty() {
        return Ok(None);
    }
    if id.trim().is_empty() {
        return Err(ApiError::argument("Argument is null or whitespace (Parameter 'id')"));
    }
    let id = DocumentId::new(id)?;
    let found = documents::get(tx, &id)?;
    if found.is_none() {
        documents::require_no_conflict(tx, &id)?;
    }
    Ok(found)
}

/// Charges what a load finds, before it looks it up.
fn hold(held: &mut Held, bytes: usize) -> Result<(), ApiError> {
    held.grow_to(bytes as u64).map_err(|error| no_room("Answers", error))
}

/// The documents that are included with others.
#[derive(Default)]
struct IncludedRows<'t> {
    rows: Vec<DocumentRow<'t>>,
    /// Those that are in conflict, so that there is no document.
    conflicted: Vec<DocumentId>,
}

/// The documents that the paths lead to, each once, except those that were requested.
fn included_rows<'t>(
    tx: &'t ReadTransaction,
    rows: &[Option<DocumentRow<'t>>],
    paths: &[IncludePath],
    held: &mut Held,
) -> Result<IncludedRows<'t>, ApiError> {
    let mut included = IncludedRows::default();
    if paths.is_empty() {
        return Ok(included);
    }
    let known_bytes: usize = rows.iter().flatten().map(|row| row.lower_id().len()).sum();
    let mut bytes = rows.len() * (FOUND_BYTES + size_of::<String>()) + known_bytes;
    hold(held, bytes)?;
    let mut seen: HashSet<String> =
        rows.iter().flatten().map(|row| row.lower_id().to_owned()).collect();
    let mut ids = Vec::new();
    for row in rows.iter().flatten() {
        // Its decompressed form is in memory only temporarily.
        let row = row.unread();
        let root = row.body()?.root();
        for path in paths {
            let count = ids.len();
            // One more than allowed is noticed; the number of those beyond it is up to the client.
            path.ids(root, &mut |id| {
                if ids.len() <= LOADED_IDS_MAX {
                    ids.push(id.to_owned());
                }
            })
            .map_err(|error| ApiError::from(DocumentError::from(error)))?;
            check_count(ids.len())?;
            bytes += ids[count..].iter().map(|id| FOUND_BYTES + 2 * id.len()).sum::<usize>();
            hold(held, bytes)?;
        }
    }
    for id in ids {
        // A string that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { continue };
        if !seen.insert(id.lower_cased().to_owned()) {
            continue;
        }
        match documents::get(tx, &id)? {
            Some(row) => included.rows.push(row),
            None if documents::conflict_etag(tx, &id)?.is_some() => included.conflicted.push(id),
            None => {}
        }
    }
    Ok(included)
}

/// The revisions that the rows request.
fn revisions_of<'t>(
    tx: &'t ReadTransaction,
    rows: &[Option<DocumentRow<'_>>],
    wanted: &RevisionIncludes,
) -> Result<IncludedRevisions<'t>, ApiError> {
    let mut found = IncludedRevisions::default();
    if wanted.is_empty() {
        return Ok(found);
    }
    for row in rows.iter().flatten() {
        let root = row.body()?.root();
        found.add(tx, wanted, Some(row.lower_id()), root)?;
    }
    Ok(found)
}

/// The counters that the rows request; `None` when none are requested.
fn counters_of(
    tx: &ReadTransaction,
    rows: &[Option<DocumentRow<'_>>],
    wanted: &CounterIncludes,
) -> Result<Option<IncludedCounters>, ApiError> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut found = IncludedCounters::default();
    for row in rows.iter().flatten() {
        let root = row.body()?.root();
        found.add(tx, wanted, Some(row.id()), root)?;
    }
    Ok(Some(found))
}

/// Adds what is included with the documents to the response.
fn write_includes(
    tx: &ReadTransaction,
    rows: &[Option<DocumentRow<'_>>],
    (revisions, counters, values): LoadIncludes<'_>,
    page: &mut JsonObject<'_>,
) -> Result<(), ApiError> {
    if let Some(found) = counters_of(tx, rows, counters)? {
        let whole = Sink::Whole { bytes_max: usize::MAX };
        let _ = at_once(counter_includes::write(&found, page, whole));
    }
    if let Some(values) = values {
        values.write(rows, page)?;
    }
    let found = revisions_of(tx, rows, revisions)?;
    let whole = Sink::Whole { bytes_max: usize::MAX };
    at_once(revision_includes::write(&found, page, whole)).transpose()?;
    Ok(())
}

/// A single document without includes has its own version; everything else a tag of all versions.
fn load_etag(
    rows: &[Option<DocumentRow<'_>>],
    included: &IncludedRows<'_>,
    counters: Option<&IncludedCounters>,
    is_plain: bool,
) -> String {
    if let ([Some(row)], true, None) = (rows, is_plain, counters) {
        return row.change_vector().to_owned();
    }
    let mut etag = HashEtag::new();
    for row in rows {
        etag.add(row.as_ref().map(|row| row.change_vector()));
    }
    for row in &included.rows {
        etag.add(Some(row.change_vector()));
    }
    for id in &included.conflicted {
        etag.add(Some(id.as_str()));
    }
    for document in counters.iter().flat_map(|counters| counters.documents()) {
        for counter in &document.counters {
            let etag_text = counter.as_ref().map(|counter| counter.etag.0.to_string());
            etag.add(etag_text.as_deref());
        }
    }
    etag.finish()
}

/// What is included with documents.
type LoadIncludes<'a> = (&'a RevisionIncludes, &'a CounterIncludes, Option<&'a ValueIncludes>);

/// Writes the whole response; `false` when `sink` requests to stop.
async fn write_load(
    tx: &ReadTransaction,
    (rows, included): (&[Option<DocumentRow<'_>>], &IncludedRows<'_>),
    includes: LoadIncludes<'_>,
    time_series: &TimeSeriesIncludes,
    metadata_only: bool,
    out: &mut Vec<u8>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    let mut page = JsonObject::begin(out);
    if !write_documents(rows, included, metadata_only, &mut page, sink).await? {
        return Ok(false);
    }
    write_includes(tx, rows, includes, &mut page)?;
    if !time_series.write(tx, rows.iter().flatten(), &mut page, sink).await? {
        return Ok(false);
    }
    page.end();
    Ok(true)
}

/// Writes the requested and the included documents; `false` when `sink` requests to stop.
async fn write_documents(
    rows: &[Option<DocumentRow<'_>>],
    included: &IncludedRows<'_>,
    metadata_only: bool,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    let mut results = JsonArray::begin(page.name("Results"));
    for row in rows {
        let end = results.out().len();
        let out = results.element();
        let Some(row) = row else {
            out.extend_from_slice(b"null");
            continue;
        };
        match write_row_to(sink, row, metadata_only, out).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                // Only whole rows were written, unless a part of this one was sent already.
                out.truncate(end);
                return Err(error);
            }
        }
    }
    results.end();
    let mut includes = JsonObject::begin(page.name("Includes"));
    for row in &included.rows {
        if !write_row_to(sink, row, false, includes.key(row.id())).await? {
            return Ok(false);
        }
    }
    for id in &included.conflicted {
        let marker = json!({
            "@metadata": {"@id": id.as_str(), "@change-vector": "", "@conflict": true}
        });
        includes.key(id.as_str()).extend_from_slice(marker.to_string().as_bytes());
    }
    includes.end();
    Ok(true)
}

/// The parameters of a load.
struct Load {
    ids: Vec<String>,
    paths: Vec<IncludePath>,
    revisions: RevisionIncludes,
    counters: CounterIncludes,
    values: Option<ValueIncludes>,
    time_series: TimeSeriesIncludes,
    metadata_only: bool,
}

/// Answers a load in pieces, looking the documents up again in the same snapshot.
fn stream_load(database: &DatabaseLease, tx: ReadTransaction, load: Load) -> Answer {
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        let (sink, mut held) = (Sink::Pieces(sender), sender.memory().holding());
        let rows = sink.with_room(|| find_all(&tx, &load.ids, &mut held)).await?;
        let included = sink.with_room(|| included_rows(&tx, &rows, &load.paths, &mut held)).await?;
        let includes = (&load.revisions, &load.counters, load.values.as_ref());
        let loaded = (rows.as_slice(), &included);
        write_load(&tx, loaded, includes, &load.time_series, load.metadata_only, out, sink).await
    };
    Answer::long(LongAnswer::new(database, "a load", reason_after_results, write))
}

fn list(call: &Call, query: &QueryString<'_>) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let tx = call.read()?;
    let etag = database_change_vector(&tx)?;
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let listing = Listing::of(query)?.pinned(call.snapshot.is_some());
    let listing = match query.long("etag")? {
        Some(after) if !query.has("startsWith") => {
            // `etag` is the first requested one, so the log is read from the one before.
            listing.after(Etag(u64::try_from(after).unwrap_or(0).saturating_sub(1)))
        }
        _ => listing,
    };
    Ok(list_documents(database.clone(), tx, listing).with_quoted_etag(&etag))
}

fn database_change_vector(tx: &ReadTransaction) -> Result<String, ApiError> {
    let progress = documents::progress(tx)?;
    Ok(progress.change_vector.to_string())
}
