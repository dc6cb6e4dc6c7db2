//! Queries: `/queries` and `/streams/queries`.
//!
//! A short result is written at once. For a long one the query is run a second time, from the same
//! snapshot, and written in pieces as fast as the client takes them.

use std::{
    borrow::Cow,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use blittable::BlittableBuf;
use cluster_state::DatabaseValues;
use database::{DatabaseLease, HeldSnapshot};
use documents::DocumentRow;
use engine::{NEW_INDEX_WAIT, QueryFacts, RunningQuery, StopWhenGone};
use http::StatusCode;
use indexing::Index;
use query::{
    BoundScripts, IndexSnapshot, Paging, QueryError, QueryResult, QueryScripts, ResultKind,
    RowOptions, SeriesForm, SeriesOptions, SeriesSettings,
};
use rql::{Query, SourceKind};
use script::ScriptPool;
use storage::{ReadTransaction, WorkingMemory};
use tokio::sync::Notify;
use wire::{
    ErrorKind,
    header_names::{INDEX_CREATED, REQUEST_TIME},
};

use crate::{
    answer::Answer,
    api_error::{ApiError, canceled},
    blocking::blocking,
    call::Call,
    counter_includes,
    csv_rows::{self, CsvRows},
    handlers::{
        aggregated_queries, query_debug,
        query_memory::{forget_behind, memory_to_count},
        query_pages::{
            write_page_tail, write_series_fields, write_stream_head, write_stream_statistics,
            write_texts,
        },
    },
    index_choice::{
        Target, catch_up, no_index_in_snapshot, refuse_invalid, target_of, target_of_the_past,
    },
    json_text::{JsonObject, is_large, write_large_to},
    long_answer::{
        INLINE_BYTES_MAX, LongAnswer, Sink, at_once, no_reason, reason_behind_results,
        reason_in_a_line,
    },
    piece_sender::{PieceSender, WriteReason},
    query_notes,
    query_request::{exported_by_form, row_options, stop_signal, wait_of, whole_collection},
    query_timings::{QueryTimings, milliseconds},
    recorded_series::RecordedSeries,
    revision_includes,
    router::Answering,
    server_state::ServerState,
    time_series_includes, value_includes,
};

/// Results of at most so many rows are written at once.
const INLINE_ROWS_MAX: u64 = 256;
/// How often a row is in memory while it becomes a line of csv, beside its JSON.
const CSV_COPIES: u64 = 3;
/// Keeps JSON rows apart until they are lines of csv: printed JSON has no line breaks.
const BETWEEN_CSV_ROWS: &[u8] = b"
";

/// `GET` and `POST /queries`.
pub(crate) fn query(call: Call) -> Answering {
    Box::pin(async move {
        let began = call.state.platform.clock.monotonic();
        match call.query().get("debug").filter(|operation| !operation.is_empty()) {
            None => run(call, Shape::Page).await,
            Some(operation) if call.snapshot.is_some() => Err(ApiError::new(
                ErrorKind::BadRequest,
                format!("'debug={operation}' does not read from a snapshot"),
            )),
            Some("entries") => {
                query_debug::entries(&call, &prepare(&call, Shape::Page, began)?).await
            }
            Some("explain") => query_debug::explain(&call, &prepare(&call, Shape::Page, began)?),
            Some("serverSideQuery") => query_debug::text(&prepare(&call, Shape::Page, began)?),
            Some(operation) => Err(ApiError::new(
                ErrorKind::NotSupported,
                format!("Not supported query debug operation: '{operation}'"),
            )),
        }
    })
}

/// `GET`, `HEAD` and `POST /streams/queries`.
pub(crate) fn stream(call: Call) -> Answering {
    Box::pin(async move {
        let shape = match call.query().get("format") {
            Some(format) if format.eq_ignore_ascii_case("jsonl") => Shape::Lines,
            Some(format) if format.eq_ignore_ascii_case("csv") => Shape::Csv,
            _ => Shape::Stream,
        };
        run(call, shape).await
    })
}

/// The form of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Page,
    Stream,
    Lines,
    Csv,
}

/// A query that has been read and parsed.
pub(crate) struct Prepared {
    pub(crate) query: Query,
    parameters: Option<BlittableBuf>,
    pub(crate) paging: Paging,
    rows: RowOptions,
    /// How long to wait for an index that has not caught up.
    pub(crate) wait: Option<Duration>,
    metadata_only: bool,
    /// Whether the names of the values of time series are told.
    tells_value_names: bool,
    /// Whether the answer repeats the query.
    shows_query: bool,
    /// The columns of a text with separated values; the first row's when there are none.
    csv_fields: Vec<String>,
    shape: Shape,
    pub(crate) began: Duration,
    /// Decides the order of `random()`.
    pub(crate) seed: u64,
    /// Its place in the list of queries that run.
    pub(super) running: Option<RunningQuery>,
    timings: QueryTimings,
}

/// What a query runs on, as it is at one moment. The entries are older than the documents, so that
/// every entry's document is there, or was deleted since.
pub(crate) struct Snapshot {
    index: Option<(Arc<Index>, ReadTransaction)>,
    documents: ReadTransaction,
    series: RecordedSeries,
    /// Of compare exchange: always the newest, since they belong to no snapshot of a database.
    values: DatabaseValues,
}

impl Snapshot {
    /// The newest of both, or what is held.
    ///
    /// # Errors
    /// When what is held has nothing of the index.
    pub(crate) fn take(
        database: &DatabaseLease,
        index: Option<Arc<Index>>,
        held: Option<&HeldSnapshot>,
    ) -> Result<Self, ApiError> {
        let entries_of = |index: Arc<Index>| {
            let entries = match held {
                None => index.read(),
                Some(held) => {
                    let entries = held.entries(&index);
                    entries.ok_or_else(|| no_index_in_snapshot(index.name()))?.clone()
                }
            };
            Ok::<_, ApiError>((index, entries))
        };
        let index = index.map(entries_of).transpose()?;
        let documents = held.map_or_else(|| database.read(), |held| held.documents().clone());
        let (series, values) = (RecordedSeries::of(database), database.values());
        Ok(Self { index, documents, series, values })
    }

    pub(crate) fn documents(&self) -> &ReadTransaction {
        &self.documents
    }
}

async fn run(call: Call, shape: Shape) -> Result<Answer, ApiError> {
    let clock = &call.state.platform.clock;
    let began = clock.monotonic();
    let mut prepared = prepare(&call, shape, began)?;
    let database = call.database()?.clone();
    let parameters = prepared.parameters.as_ref();
    let mut is_created = false;
    let is_held = call.snapshot.is_some();
    let target = match is_held {
        true => target_of_the_past(&database, &prepared.query, parameters),
        false => target_of(&call.state, &database, &prepared.query, parameters).await,
    };
    let index = match target {
        Ok(Target::Documents) => {
            let name = whole_collection(&prepared.query).unwrap_or_default();
            let name = format!("collection/{name}");
            prepared.running = Some(list(&call, &prepared, &database, &name).0);
            None
        }
        Ok(Target::Index { index, is_new }) => {
            index.note_query();
            let (running, stopped) = list(&call, &prepared, &database, index.name());
            let is_named = matches!(prepared.query.source.kind, SourceKind::Index(_));
            prepared.timings.chosen = (!is_named).then(|| clock.monotonic());
            is_created = is_new;
            let new_waits = is_new.then_some(NEW_INDEX_WAIT);
            // What is held does not catch up: the answer says whether it is stale.
            let wait_max = prepared.wait.or(new_waits).filter(|_| !is_held);
            if let Some(wait_max) = wait_max {
                tokio::select! {
                    caught_up = catch_up(&database, &index, wait_max) => drop(caught_up?),
                    () = stopped.notified() => return Err(canceled()),
                }
            }
            prepared.timings.caught_up = Some(clock.monotonic());
            // Another one may have taken its place meanwhile.
            let index = if is_held { index } else { database.indexes().current(index) };
            prepared.running = Some(running);
            refuse_invalid(&index)?;
            Some(index)
        }
        Err(error) if error.kind == ErrorKind::IndexDoesNotExist => {
            return match (query::result_kind(&prepared.query), &prepared.query.source.kind) {
                (ResultKind::Rows, SourceKind::Index(name)) => Ok(missing_index(name, shape)),
                _ => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    let answer = match query::result_kind(&prepared.query) {
        // A filter may look at all documents, and a time series may have very many entries.
        ResultKind::Rows
            if prepared.query.filter.is_some() || query::names_time_series(&prepared.query) =>
        {
            let places = &call.state.rooms.counting;
            let place = places.take(database.record().name.lower_cased()).await?;
            let stop = StopWhenGone::begin(prepared.stop_flag());
            let answer = blocking(move || {
                let _place = place;
                answer(&call, prepared, database, index)
            })
            .await;
            stop.end();
            answer?
        }
        ResultKind::Rows => answer(&call, prepared, database, index)?,
        kind => aggregated_queries::answer(&call, prepared, database, index, kind).await?,
    };
    Ok(if is_created { answer.with_header(INDEX_CREATED, "true") } else { answer })
}

/// Puts a query on the list of those that run. The other value is notified when it is stopped from outside.
fn list(
    call: &Call,
    prepared: &Prepared,
    database: &DatabaseLease,
    index_name: &str,
) -> (RunningQuery, Arc<Notify>) {
    let (stopped, wake) = stop_signal();
    let facts = QueryFacts {
        database: database.record().name.as_str().to_owned(),
        index_name: index_name.to_owned(),
        text: prepared.query.text.as_str().to_owned(),
        start: prepared.paging.start,
        page_size: prepared.paging.page_size,
        skips_duplicate_checking: prepared.rows.repeats_documents,
        wait: prepared.wait,
        is_streaming: prepared.shape != Shape::Page,
        began: prepared.began,
        began_ticks: call.state.platform.clock.now().ticks(),
    };
    (call.state.running_queries.begin(facts, wake), stopped)
}

fn answer(
    call: &Call,
    prepared: Prepared,
    database: DatabaseLease,
    index: Option<Arc<Index>>,
) -> Result<Answer, ApiError> {
    let (shape, began) = (prepared.shape, prepared.began);
    let csv_source = whole_collection(&prepared.query);
    let snapshot = Snapshot::take(&database, index, call.snapshot.as_deref())?;
    let scripts = prepared.scripts(call.state.scripts())?;
    let scripts = prepared.bind(scripts.as_ref())?;
    let result = prepared.execute(&snapshot)?;
    let memory = memory_to_count(&call.state);
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
    if shape == Shape::Page {
        prepared.count_filtered(&database, &mut result, &memory)?;
    }
    let gives_along = result.included_paths().is_some()
        || result.wants_revisions()
        || result.wants_values()
        || result.included_series().is_some();
    if shape != Shape::Page && gives_along {
        let message = "Includes are not supported by this type of query.";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    refuse_notes_of_a_stream(shape, &result)?;
    let etag = result.result_etag().to_string();
    if shape == Shape::Page && call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let is_short = result.rows_max().is_some_and(|rows| rows <= INLINE_ROWS_MAX);
    let mut out = Vec::new();
    let whole = Sink::Whole { bytes_max: INLINE_BYTES_MAX };
    let is_written = match is_short {
        true => match at_once(prepared.write(&call.state, result, &mut out, whole)) {
            // What takes more than a short answer may is long.
            Some(Err(error)) if error.kind == ErrorKind::LowMemory => None,
            written => written.transpose()?,
        },
        false => {
            drop(result);
            None
        }
    };
    drop(scripts);
    let answer = match is_written {
        Some(true) => Answer::json(out),
        Some(false) | None => stream_result(call, &database, snapshot, prepared),
    };
    let elapsed = call.state.platform.clock.monotonic().saturating_sub(began).as_millis();
    let answer = answer.with_header(REQUEST_TIME, &elapsed.to_string());
    Ok(match shape {
        Shape::Page => answer.with_header("etag", &etag),
        Shape::Stream | Shape::Lines => answer,
        Shape::Csv => {
            let name = csv_rows::file_name(call, csv_source.as_deref())?;
            let disposition = format!("attachment; filename=\"{name}\"; filename*=UTF-8''{name}");
            answer.with_content_type("text/csv").with_header("content-disposition", &disposition)
        }
    })
}

/// Only pages have a place for what is told of rows beside them.
fn refuse_notes_of_a_stream(
    shape: Shape,
    result: &QueryResult<'_, ReadTransaction>,
) -> Result<(), ApiError> {
    let message = match shape {
        Shape::Page => return Ok(()),
        _ if result.wants_highlights() => "Highlighting is not supported by this type of query.",
        _ if result.wants_explanations() => "Explanations are not supported by this type of query.",
        Shape::Stream | Shape::Lines | Shape::Csv => return Ok(()),
    };
    Err(ApiError::new(ErrorKind::NotSupported, message))
}

/// Clients know a missing index by the status; only those who stream are told the name.
fn missing_index(name: &str, shape: Shape) -> Answer {
    let answer = match shape {
        Shape::Page => Answer::empty(StatusCode::NOT_FOUND),
        Shape::Stream | Shape::Lines | Shape::Csv => {
            let message = format!("Index {name} does not exist");
            Answer::shape(StatusCode::NOT_FOUND, &serde_json::json!({"Error": message}))
        }
    };
    answer.with_header(REQUEST_TIME, "0")
}

fn prepare(call: &Call, shape: Shape, began: Duration) -> Result<Prepared, ApiError> {
    let parameters = call.query();
    let request = if call.method == http::Method::POST {
        let body = exported_by_form(&call.body, shape == Shape::Csv)
            .map_or(Cow::Borrowed(&*call.body), Cow::Owned);
        call.state.with_builder(|builder| wire::read_query(&body, builder))?
    } else {
        let text = parameters.get("query").ok_or_else(|| {
            ApiError::invalid_operation("Missing mandatory query string parameter 'query'.")
        })?;
        wire::QueryRequest {
            text: text.to_owned(),
            parameters: None,
            start: i64::from(parameters.start()?),
            page_size: parameters.int("pageSize")?.map(i64::from),
            wait_for_non_stale_results: parameters
                .bool("waitForNonStaleResults")?
                .unwrap_or_default(),
            wait_timeout: parameters.get("waitForNonStaleResultsTimeout").map(str::to_owned),
            projection_behavior: parameters.get("projectionBehavior").map(str::to_owned),
            skip_duplicate_checking: parameters.bool("skipDuplicateChecking")?.unwrap_or_default(),
        }
    };
    prepare_request(call, request, shape, began)
}

fn prepare_request(
    call: &Call,
    request: wire::QueryRequest,
    shape: Shape,
    began: Duration,
) -> Result<Prepared, ApiError> {
    let parameters = call.query();
    let wait = wait_of(&request)?;
    let rows = row_options(&request)?;
    let query = query::parse(&request.text)?;
    Ok(Prepared {
        query,
        parameters: request.parameters,
        paging: Paging { start: request.start, page_size: request.page_size },
        rows,
        wait,
        metadata_only: parameters.bool("metadataOnly")?.unwrap_or(false),
        tells_value_names: parameters.bool("addTimeSeriesNames")?.unwrap_or(false),
        shows_query: parameters.bool("includeServerSideQuery")?.unwrap_or(false),
        csv_fields: parameters.all("field").map(str::to_owned).collect(),
        shape,
        began,
        seed: call.state.random_number(),
        running: None,
        timings: QueryTimings::default(),
    })
}

fn stream_result(
    call: &Call,
    database: &DatabaseLease,
    snapshot: Snapshot,
    prepared: Prepared,
) -> Answer {
    let state = Arc::clone(&call.state);
    let write_reason: WriteReason = match prepared.shape {
        Shape::Page | Shape::Stream => reason_behind_results,
        Shape::Lines => reason_in_a_line,
        Shape::Csv => no_reason,
    };
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        if let Some((index, _)) = &snapshot.index {
            sender.also_holds(index.environment());
        }
        let scripts = prepared.scripts(state.scripts())?;
        let scripts = prepared.bind(scripts.as_ref())?;
        let result = prepared.execute(&snapshot)?;
        let sink = Sink::Pieces(sender);
        let mut result = result.with_scripts(scripts.as_ref()).counted_in(sender.memory());
        if prepared.shape == Shape::Page {
            prepared.with_room(sink, || result.count_filtered()).await?;
        }
        prepared.write(&state, result, out, sink).await
    };
    Answer::long(LongAnswer::new(database, "the result of a query", write_reason, write))
}

impl Prepared {
    /// A query whose rows are shown as in a page.
    pub(crate) fn page_of(
        call: &Call,
        request: wire::QueryRequest,
        began: Duration,
    ) -> Result<Prepared, ApiError> {
        prepare_request(call, request, Shape::Page, began)
    }

    /// The rows as JSON with commas between them; `None` when they take more bytes than that. What they hold beside
    /// those bytes is counted in `memory`.
    pub(crate) fn rows_of(
        &self,
        state: &ServerState,
        snapshot: &Snapshot,
        bytes_max: usize,
        memory: &Rc<WorkingMemory>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let scripts = self.scripts(state.scripts())?;
        let scripts = self.bind(scripts.as_ref())?;
        let result = self.execute(snapshot)?;
        let mut result = result.with_scripts(scripts.as_ref()).counted_in(memory);
        let (mut rows, sink) = (Vec::new(), Sink::Whole { bytes_max });
        let written = at_once(self.write_rows(&mut result, memory, &mut rows, sink));
        let is_whole = written.transpose()?;
        Ok((is_whole == Some(true)).then_some(rows))
    }

    /// The values that the text refers to.
    pub(crate) fn parameters(&self) -> Option<blittable::Object<'_>> {
        self.parameters.as_ref().map(|values| values.as_view().root())
    }

    fn scripts(&self, pool: &ScriptPool) -> Result<Option<QueryScripts>, ApiError> {
        QueryScripts::of(&self.query, self.parameters(), pool).map_err(ApiError::from)
    }

    /// Gives the scripts of the query its parameters.
    fn bind<'s>(
        &self,
        scripts: Option<&'s QueryScripts>,
    ) -> Result<Option<BoundScripts<'s>>, ApiError> {
        let bound = scripts.map(|scripts| scripts.bind(&self.query, self.parameters()));
        bound.transpose().map_err(ApiError::from)
    }

    /// The entries of the snapshot; `None` without an index.
    pub(crate) fn index_snapshot<'t>(
        &self,
        snapshot: &'t Snapshot,
    ) -> Option<IndexSnapshot<'t, ReadTransaction>> {
        let (index, tx) = snapshot.index.as_ref()?;
        let (values, seed, stop) = (Some(&snapshot.values), self.seed, self.stop_flag());
        Some(IndexSnapshot { index, tx, values, seed, stop })
    }

    /// Set when the query is to end without an answer.
    fn stop_flag(&self) -> Arc<AtomicBool> {
        let running = self.running.as_ref();
        running.map(|running| Arc::clone(running.stop_flag())).unwrap_or_default()
    }

    /// Whether the answer is a page, not a stream.
    pub(crate) fn is_page(&self) -> bool {
        self.shape == Shape::Page
    }

    fn execute<'t>(
        &self,
        snapshot: &'t Snapshot,
    ) -> Result<QueryResult<'t, ReadTransaction>, QueryError> {
        let parameters = self.parameters.as_ref().map(|values| values.as_view().root());
        let documents = &snapshot.documents;
        let Some(entries) = self.index_snapshot(snapshot) else {
            let result = query::execute(
                documents,
                &self.query,
                parameters,
                self.paging,
                Some(&snapshot.values),
            )?;
            return Ok(result
                .stopped_by(self.stop_flag())
                .with_series(self.series_options(snapshot)));
        };
        let stop = Arc::clone(&entries.stop);
        let result = query::execute_on_index(
            documents,
            &entries,
            &self.query,
            parameters,
            self.paging,
            self.rows,
        )?;
        Ok(result.stopped_by(stop).with_series(self.series_options(snapshot)))
    }

    fn series_options<'t>(&self, snapshot: &'t Snapshot) -> SeriesOptions<'t> {
        let form = match self.shape {
            Shape::Page => SeriesForm::Page,
            Shape::Stream | Shape::Lines => SeriesForm::Stream,
            Shape::Csv => SeriesForm::Table,
        };
        let settings = Some(&snapshot.series as &dyn SeriesSettings);
        SeriesOptions { form, settings, tells_names: self.tells_value_names }
    }

    /// The columns of a text with separated values, as far as they do not depend on its rows.
    fn csv_columns(&self, result: &QueryResult<'_, ReadTransaction>) -> Vec<String> {
        match result.series_columns() {
            Some(columns) if self.csv_fields.is_empty() => {
                let first = ["@id", "@metadata.@projection"].map(str::to_owned);
                first.into_iter().chain(columns).collect()
            }
            _ => self.csv_fields.clone(),
        }
    }

    /// Writes the whole answer; `false` when `sink` said that it must not go on.
    async fn write(
        &self,
        state: &ServerState,
        result: QueryResult<'_, ReadTransaction>,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let memory = sink.working_memory();
        let mut result = result.counted_in(&memory);
        self.with_room(sink, || result.expect_notes()).await?;
        let found = state.platform.clock.monotonic();
        match self.shape {
            Shape::Page => {
                let skipped = self.with_room(sink, || result.skipped_results()).await?;
                self.write_page_head(state, &result, skipped, out);
            }
            Shape::Stream => write_stream_head(&result, out),
            Shape::Lines => {
                out.extend_from_slice(b"{\"Stats\":{");
                write_stream_statistics(&result, out);
                out.extend_from_slice(b"}}\r\n");
            }
            Shape::Csv => out.extend_from_slice(csv_rows::BYTE_ORDER_MARK),
        }
        if !self.write_rows(&mut result, &memory, out, sink).await? {
            return Ok(false);
        }
        match self.shape {
            Shape::Page => self.write_behind_rows(state, found, &mut result, out, sink).await,
            Shape::Stream => {
                out.extend_from_slice(b"]}");
                Ok(true)
            }
            Shape::Lines | Shape::Csv => Ok(true),
        }
    }

    /// Writes the rows; `false` when `sink` said that it must not go on.
    async fn write_rows(
        &self,
        result: &mut QueryResult<'_, ReadTransaction>,
        memory: &WorkingMemory,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let mut is_first = true;
        let mut csv = CsvRows::new(&self.csv_columns(result));
        while let Some(row) = self.with_room(sink, || result.next_row()).await? {
            self.refuse_when_stopped()?;
            let end = out.len();
            if self.shape != Shape::Csv {
                match self.shape {
                    Shape::Lines => out.extend_from_slice(b"{\"Item\":"),
                    _ if is_first => {}
                    Shape::Page | Shape::Stream | Shape::Csv => out.push(b','),
                }
            }
            let begin = out.len();
            if let Some((document, beside)) = self.large_document(result, &row) {
                if !write_large_to(sink, document, &beside, out).await? {
                    return Ok(false);
                }
            } else {
                let written = sink.with_room(|| {
                    self.refuse_when_stopped()?;
                    let scope = memory.scope();
                    let written = self.write_whole_row(result, &row, memory, &mut csv, out);
                    if written.is_err() {
                        forget_behind(begin, out);
                    }
                    sink.end_row(scope, out);
                    written
                });
                if let Err(error) = written.await {
                    // What was written is whole rows.
                    out.truncate(end);
                    return Err(error);
                }
                if out.len() == begin {
                    // A script made no row of this document.
                    out.truncate(end);
                    continue;
                }
            }
            is_first = false;
            if self.shape == Shape::Lines {
                out.extend_from_slice(b"}\r\n");
            }
            if !sink.take(out).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The document that a row is, if it is to be printed in pieces.
    fn large_document<'r, 't>(
        &self,
        result: &QueryResult<'t, ReadTransaction>,
        row: &'r query::Row<'t>,
    ) -> Option<(&'r DocumentRow<'t>, Vec<u8>)> {
        let is_in_pieces = !self.metadata_only && self.shape != Shape::Csv;
        let is_large = is_in_pieces && row.document.stored().is_some_and(is_large);
        is_large.then(|| result.whole_document(row)).flatten()
    }

    /// Appends a row in the form of the answer, without what stands around it.
    fn write_whole_row<'t>(
        &self,
        result: &mut QueryResult<'t, ReadTransaction>,
        row: &query::Row<'t>,
        memory: &WorkingMemory,
        csv: &mut CsvRows,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        if self.shape != Shape::Csv {
            return self.write_row(result, row, out);
        }
        let mut json = Vec::new();
        self.write_row(result, row, &mut json)?;
        // The text is parsed, and its cells become lines.
        let taken = memory.take(CSV_COPIES * json.len() as u64);
        taken.map_err(|exhausted| ApiError::from(QueryError::from(exhausted)))?;
        let rows = json.split(|byte| *byte == BETWEEN_CSV_ROWS[0]);
        rows.filter(|row| !row.is_empty()).try_for_each(|row| csv.write(row, out))
    }

    /// Writes what a page has behind its rows, which were found at `found`; `false` when `sink` said that
    /// it must not go on.
    async fn write_behind_rows(
        &self,
        state: &ServerState,
        found: Duration,
        result: &mut QueryResult<'_, ReadTransaction>,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        if !write_page_tail(result.includes(), result.facts(), out, sink).await? {
            return Ok(false);
        }
        revision_includes::write_behind(result.revisions(), out)?;
        query_notes::write(result.notes(), out);
        self.write_additions(state, found, out);
        if let Some(counters) = result.counters() {
            counter_includes::write_behind(counters, out);
            counter_includes::write_names_behind(counters, out);
        }
        if self.tells_value_names
            && let Some(names) = result.series_fields()
        {
            write_series_fields(&names, out);
        }
        if let Some((included, values)) = result.included_values() {
            value_includes::write_behind(&included, values, out)?;
        }
        let Some(series) = result.included_series() else { return Ok(true) };
        time_series_includes::write_of_query(result.documents(), series, out, sink).await
    }

    /// Writes what the request asks for behind everything else. The rows were found at `found`.
    pub(crate) fn write_additions(&self, state: &ServerState, found: Duration, out: &mut Vec<u8>) {
        if query::wants_timings(&self.query) {
            let timings = QueryTimings { found: Some(found), ..self.timings };
            let ended = state.platform.clock.monotonic();
            out.pop();
            out.extend_from_slice(b",\"Timings\":");
            out.extend_from_slice(timings.shape(self.began, ended).to_string().as_bytes());
            out.push(b'}');
        }
        if self.shows_query {
            out.pop();
            out.extend_from_slice(b",\"ServerSideQuery\":");
            blittable::write_json_string(&self.query.to_string(), out);
            out.push(b'}');
        }
    }

    /// What keeps the rows apart that a script makes of one document.
    fn between_rows(&self) -> &'static [u8] {
        match self.shape {
            Shape::Page | Shape::Stream => b",",
            Shape::Lines => b"}\r\n{\"Item\":",
            Shape::Csv => BETWEEN_CSV_ROWS,
        }
    }

    fn write_row<'t>(
        &self,
        result: &mut QueryResult<'t, ReadTransaction>,
        row: &query::Row<'t>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        match self.metadata_only {
            true => {
                result.write_row_metadata(row, self.between_rows(), out).map_err(ApiError::from)
            }
            false => result.write_row(row, self.between_rows(), out).map_err(ApiError::from),
        }
    }

    fn write_page_head(
        &self,
        state: &ServerState,
        result: &QueryResult<'_, ReadTransaction>,
        skipped: u64,
        out: &mut Vec<u8>,
    ) {
        let elapsed = state.platform.clock.monotonic().saturating_sub(self.began);
        let mut object = JsonObject::begin(out);
        object.number("TotalResults", result.total_results());
        object.number("LongTotalResults", result.total_results());
        if let Some(capped) = result.capped_max_results() {
            object.number("CappedMaxResults", capped);
        }
        object.number("ScannedResults", result.scanned_results());
        object.number("SkippedResults", skipped);
        object.number("DurationInMs", milliseconds(Duration::ZERO, elapsed));
        match result.included_paths() {
            None => object.optional_text("IncludedPaths", None),
            Some(paths) => write_texts(&paths, object.name("IncludedPaths")),
        }
        object.text("IndexName", result.index_name());
        object.name("Results").push(b'[');
    }
}
