//! Queries: `/queries` and `/streams/queries`.
//!
//! A short result is written in one go. A long one is written in pieces at the client's pace, on
//! another thread: there the query is run again on the same snapshot, with what was planned, found
//! and counted before.

mod response;

use std::{borrow::Cow, rc::Rc, sync::Arc, time::Duration};

use database::DatabaseLease;
use engine::{
    BoundQuery, EngineError, NEW_INDEX_WAIT, QueryFacts, QueryPlan, QuerySnapshot, QueryTarget,
    RunningQuery, StopWhenGone, answering_index, check_index_answers,
};
use http::StatusCode;
use indexing::Index;
use query::{
    BoundScripts, Paging, QueryError, QueryResult, ResultKind, SeriesForm, SeriesOptions,
    SeriesSettings,
};
use rql::SourceKind;
use storage::{MemoryShare, ReadTransaction, WorkingMemory};
use tokio::sync::Notify;
use wire::{
    ErrorKind,
    header_names::{INDEX_CREATED, REQUEST_TIME},
};

use crate::{
    answers::{
        answer::Answer,
        answer_memory::counting_memory,
        answer_places::Place,
        csv_rows,
        long_answer::{
            INLINE_BYTES_MAX, LongAnswer, Sink, at_once, no_reason, reason_after_results,
            reason_in_a_line,
        },
        piece_sender::{PieceSender, WriteReason},
        query_timings::QueryTimings,
    },
    api_error::{ApiError, canceled, no_room},
    blocking::blocking,
    call::Call,
    handlers::{aggregated_queries, query_debug},
    http::router::Answering,
    index_choice::{Target, catch_up, ready_target},
    query_request::{exported_by_form, row_options, stop_signal, wait_of, whole_collection},
    server_state::ServerState,
};

/// Queries of at most this many bytes are planned by the thread that reads the request.
const PLANNED_INLINE_MAX: u64 = 256 << 10;
/// Scripts of rows run for this time, all together, on the thread that reads the request: it reads the
/// requests of others, too.
const INLINE_SCRIPTS_TIME_MAX: Duration = Duration::from_millis(25);
/// Results of at most this many rows are written inline.
const INLINE_ROWS_MAX: u64 = 256;

/// `GET` and `POST /queries`.
pub(crate) fn query(call: Call) -> Answering {
    Box::pin(async move {
        let began = call.state.engine.clock().monotonic();
        match call.query().get("debug").filter(|operation| !operation.is_empty()) {
            None => run(call, Shape::Page).await,
            Some(operation) if call.snapshot.is_some() => Err(ApiError::new(
                ErrorKind::BadRequest,
                format!("'debug={operation}' does not read from a snapshot"),
            )),
            Some("entries") => query_debug::entries(&call, &prepare_short(&call, began)?).await,
            Some("explain") => query_debug::explain(&call, &prepare_short(&call, began)?),
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

/// The format of the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Page,
    Stream,
    Lines,
    Csv,
}

/// A parsed query request.
pub(crate) struct Prepared {
    pub(crate) bound: BoundQuery,
    /// How long to wait for a stale index.
    pub(crate) wait: Option<Duration>,
    metadata_only: bool,
    /// Whether the names of the values of time series are reported.
    reports_value_names: bool,
    /// Whether the response repeats the query.
    shows_query: bool,
    /// The columns of CSV; those of the first row if empty.
    csv_fields: Vec<String>,
    shape: Shape,
    pub(crate) began: Duration,
    plan: QueryPlan,
    /// Whether planning it takes long.
    is_long: bool,
    /// What it takes besides its rows, if it is long.
    _memory: Option<MemoryShare>,
    /// Its entry in the list of running queries.
    pub(super) running: Option<RunningQuery>,
    timings: QueryTimings,
}

async fn run(call: Call, shape: Shape) -> Result<Answer, ApiError> {
    let clock = call.state.engine.clock();
    let began = clock.monotonic();
    let mut prepared = prepare(&call, shape, began)?;
    let database = call.database()?.clone();
    let mut is_created = false;
    let is_held = call.snapshot.is_some();
    let target;
    (prepared, target) = plan(&call, &database, prepared).await?;
    let index = match ready_target(&call.state, &database, target, is_held).await {
        Ok(Target::Documents(plan)) => {
            let name = whole_collection(&prepared.bound.query).unwrap_or_default();
            let name = format!("collection/{name}");
            list(&call, &mut prepared, &database, &name);
            prepared.plan = QueryPlan::Documents(Arc::from(plan));
            None
        }
        Ok(Target::Index { index, is_new }) => {
            index.note_query();
            let stopped = list(&call, &mut prepared, &database, index.name());
            let is_named = matches!(prepared.bound.query.source.kind, SourceKind::Index(_));
            prepared.timings.chosen = (!is_named).then(|| clock.monotonic());
            is_created = is_new;
            let new_waits = is_new.then_some(NEW_INDEX_WAIT);
            // A held snapshot does not catch up: the response says whether it is stale.
            let wait_max = prepared.wait.or(new_waits).filter(|_| !is_held);
            if let Some(wait_max) = wait_max {
                tokio::select! {
                    caught_up = catch_up(&call.state.engine, &database, &index, wait_max) => drop(caught_up?),
                    () = stopped.notified() => return Err(canceled()),
                }
            }
            prepared.timings.caught_up = Some(clock.monotonic());
            if is_held {
                check_index_answers(&index)?;
                Some(index)
            } else {
                Some(answering_index(&database, index)?)
            }
        }
        Err(error) if error.kind == ErrorKind::IndexDoesNotExist => {
            return match (
                query::result_kind(&prepared.bound.query),
                &prepared.bound.query.source.kind,
            ) {
                (ResultKind::Rows, SourceKind::Index(name)) => Ok(missing_index(name, shape)),
                _ => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    let answer = match query::result_kind(&prepared.bound.query) {
        ResultKind::Rows if prepared.is_heavy() => {
            let place = place_of(&call, &database).await?;
            let stop = StopWhenGone::begin(Arc::clone(&prepared.bound.stop));
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

/// Determines what runs the query. Planning a long one takes long, and this thread reads the requests of
/// others.
async fn plan(
    call: &Call,
    database: &DatabaseLease,
    prepared: Prepared,
) -> Result<(Prepared, Result<QueryTarget, EngineError>), ApiError> {
    if !prepared.is_long {
        let target = prepared.bound.target(database);
        return Ok((prepared, target));
    }
    let (place, database) = (place_of(call, database).await?, database.clone());
    blocking(move || {
        let _place = place;
        let target = prepared.bound.target(&database);
        Ok((prepared, target))
    })
    .await
}

/// Waits for a place among the queries that take long on a thread of their own.
async fn place_of(call: &Call, database: &DatabaseLease) -> Result<Place, ApiError> {
    let places = &call.state.rooms.counting;
    places.take(database.record().name.lower_cased()).await
}

/// Adds a query to the list of running ones. The result is notified when an operator stops it.
fn list(
    call: &Call,
    prepared: &mut Prepared,
    database: &DatabaseLease,
    index_name: &str,
) -> Arc<Notify> {
    let (stopped, wake) = stop_signal();
    let facts = QueryFacts {
        database: database.record().name.as_str().to_owned(),
        index_name: index_name.to_owned(),
        text: prepared.bound.query.text.as_str().to_owned(),
        start: prepared.bound.paging.start,
        page_size: prepared.bound.paging.page_size,
        skips_duplicate_checking: prepared.bound.rows.repeats_documents,
        wait: prepared.wait,
        is_streaming: prepared.shape != Shape::Page,
        began: prepared.began,
        began_ticks: call.state.engine.clock().now().ticks(),
    };
    let running = call.state.engine.running_queries().begin(facts, wake);
    prepared.bound.stop = Arc::clone(running.stop_flag());
    prepared.running = Some(running);
    stopped
}

fn answer(
    call: &Call,
    prepared: Prepared,
    database: DatabaseLease,
    index: Option<Arc<Index>>,
) -> Result<Answer, ApiError> {
    let (shape, began) = (prepared.shape, prepared.began);
    let csv_source = whole_collection(&prepared.bound.query);
    let snapshot = QuerySnapshot::take(&database, index, call.snapshot.as_deref())?;
    let scripts = prepared.bound.scripts(call.state.engine.scripts())?;
    let scripts = prepared.bound.bind(scripts.as_ref())?;
    if let Some(scripts) = scripts.as_ref().filter(|_| !prepared.is_heavy()) {
        scripts.limit_time_of_rows(INLINE_SCRIPTS_TIME_MAX);
    }
    let is_slow = || scripts.as_ref().is_some_and(BoundScripts::rows_have_run_out_of_time);
    let result = prepared.execute(&snapshot)?;
    let memory = counting_memory(&call.state);
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
    if shape == Shape::Page {
        prepared.count_filtered(&database, &mut result, &memory)?;
    }
    let has_includes = result.included_paths().is_some()
        || result.wants_revisions()
        || result.wants_values()
        || result.included_series().is_some();
    if shape != Shape::Page && has_includes {
        let message = "Includes are not supported by this type of query.";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    refuse_notes_of_a_stream(shape, &result)?;
    let (etag, planned) = (result.result_etag().to_string(), result.planned());
    if shape == Shape::Page && call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let is_short = result.rows_max().is_some_and(|rows| rows <= INLINE_ROWS_MAX);
    let mut out = Vec::new();
    let whole = Sink::Whole { bytes_max: INLINE_BYTES_MAX };
    let is_written = match is_short {
        true => match at_once(prepared.write(&call.state, result, &mut out, whole)) {
            // A result that may exceed the memory of a short response is long, and so is one whose
            // scripts take long.
            Some(Err(error)) if error.kind == ErrorKind::LowMemory => None,
            Some(Err(_)) if is_slow() => None,
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
        Some(false) | None => {
            let plan = QueryPlan::Again(planned);
            stream_result(call, &database, snapshot, Prepared { plan, ..prepared })
        }
    };
    let elapsed = call.state.engine.clock().monotonic().saturating_sub(began).as_millis();
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

/// Only pages have room for notes about rows.
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

/// Clients recognize a missing index by the status; only streams report the name.
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

/// A query that this thread may plan.
fn prepare_short(call: &Call, began: Duration) -> Result<Prepared, ApiError> {
    let prepared = prepare(call, Shape::Page, began)?;
    if !prepared.is_long {
        return Ok(prepared);
    }
    let message = "The query is too long for 'debug', or its parameters have too many values.";
    Err(ApiError::new(ErrorKind::NotSupported, message))
}

fn prepare_request(
    call: &Call,
    request: wire::QueryRequest,
    shape: Shape,
    began: Duration,
) -> Result<Prepared, ApiError> {
    let parameters = call.query();
    let wait = wait_of(&request)?;
    let bound = BoundQuery {
        rows: row_options(&request)?,
        query: query::parse(&request.text)?,
        parameters: request.parameters,
        paging: Paging { start: request.start, page_size: request.page_size },
        seed: call.state.engine.random_number(),
        stop: Arc::default(),
    };
    if query::contains_script(&bound.query) {
        call.check_scripts()?;
    }
    let bytes = bound.bytes()?;
    let is_long = PLANNED_INLINE_MAX < bytes;
    let memory = is_long.then(|| {
        let mut memory = call.state.engine.memory().bodies.share(PLANNED_INLINE_MAX);
        memory.try_grow_to(bytes).map(|()| memory)
    });
    let memory = memory.transpose().map_err(|exhausted| no_room("Queries", exhausted))?;
    Ok(Prepared {
        bound,
        is_long,
        _memory: memory,
        wait,
        metadata_only: parameters.bool("metadataOnly")?.unwrap_or(false),
        reports_value_names: parameters.bool("addTimeSeriesNames")?.unwrap_or(false),
        shows_query: parameters.bool("includeServerSideQuery")?.unwrap_or(false),
        csv_fields: parameters.all("field").map(str::to_owned).collect(),
        shape,
        began,
        plan: QueryPlan::Unplanned,
        running: None,
        timings: QueryTimings::default(),
    })
}

fn stream_result(
    call: &Call,
    database: &DatabaseLease,
    snapshot: QuerySnapshot,
    prepared: Prepared,
) -> Answer {
    let (state, stop) = (Arc::clone(&call.state), Arc::clone(&prepared.bound.stop));
    let write_reason: WriteReason = match prepared.shape {
        Shape::Page | Shape::Stream => reason_after_results,
        Shape::Lines => reason_in_a_line,
        Shape::Csv => no_reason,
    };
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        if let Some(index) = snapshot.index() {
            sender.also_holds_index(index.environment());
        }
        let scripts = prepared.bound.scripts(state.engine.scripts())?;
        let scripts = prepared.bound.bind(scripts.as_ref())?;
        let result = prepared.execute(&snapshot)?;
        let sink = Sink::Pieces(sender);
        let mut result = result.with_scripts(scripts.as_ref()).counted_in(sender.memory());
        if prepared.shape == Shape::Page {
            prepared
                .with_room_to_count(sink, &mut result, |result| result.count_filtered())
                .await?;
        }
        prepared.write(&state, result, out, sink).await
    };
    let answer = LongAnswer::new(database, "the result of a query", write_reason, write);
    Answer::long(answer.stopped_by(stop))
}

impl Prepared {
    /// Whether its first rows are not made on the threads that read requests: filters may scan all
    /// documents, time series may have very many entries. Scripts that make rows are tried on those threads
    /// first, for [`INLINE_SCRIPTS_TIME_MAX`].
    fn is_heavy(&self) -> bool {
        let query = &self.bound.query;
        self.is_long || query.filter.is_some() || query::names_time_series(query)
    }

    /// A query whose rows are returned as in a page.
    pub(crate) fn page_of(
        call: &Call,
        request: wire::QueryRequest,
        began: Duration,
    ) -> Result<Prepared, ApiError> {
        prepare_request(call, request, Shape::Page, began)
    }

    /// The rows as JSON with commas between them; `None` when they exceed that many bytes. Other
    /// memory that they hold is charged to `memory`.
    pub(crate) fn rows_of(
        &self,
        state: &ServerState,
        snapshot: &QuerySnapshot,
        bytes_max: usize,
        memory: &Rc<WorkingMemory>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let scripts = self.bound.scripts(state.engine.scripts())?;
        let scripts = self.bound.bind(scripts.as_ref())?;
        let result = self.execute(snapshot)?;
        let mut result = result.with_scripts(scripts.as_ref()).counted_in(memory);
        let (mut rows, sink) = (Vec::new(), Sink::Whole { bytes_max });
        let written = at_once(self.write_rows(&mut result, memory, &mut rows, sink));
        let is_whole = written.transpose()?;
        Ok((is_whole == Some(true)).then_some(rows))
    }

    /// Whether the response is a page rather than a stream.
    pub(crate) fn is_page(&self) -> bool {
        self.shape == Shape::Page
    }

    fn execute<'s>(
        &self,
        snapshot: &'s QuerySnapshot,
    ) -> Result<QueryResult<'s, ReadTransaction>, QueryError> {
        let result = self.bound.run(snapshot, &self.plan)?;
        Ok(result.with_series(self.series_options(snapshot)))
    }

    fn series_options<'s>(&self, snapshot: &'s QuerySnapshot) -> SeriesOptions<'s> {
        let form = match self.shape {
            Shape::Page => SeriesForm::Page,
            Shape::Stream | Shape::Lines => SeriesForm::Stream,
            Shape::Csv => SeriesForm::Table,
        };
        let settings = Some(snapshot.series() as &dyn SeriesSettings);
        SeriesOptions { form, settings, reports_value_names: self.reports_value_names }
    }
}
