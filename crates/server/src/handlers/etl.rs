//! ETL tasks: defining them, and what they do.

use std::sync::Arc;

use ::security::Requirement;
use documents::log::EntryKind;
use engine::{EtlProblem, EtlRun, EtlStatistics, EtlTask, ProcessStatistics};
use http::StatusCode;
use model::{DatabaseRecord, date};
use serde_json::{Map, Value, json};
use wire::RavenEtl;

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::ongoing_tasks::responsible_json, http::router::Answering, request_json::read_object,
};

/// `PUT /databases/*/admin/etl`: adds a task, or replaces the one that the request names.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        let (replaced, reset) = {
            let query = call.query();
            let id = query.long("id")?;
            let reset: Vec<String> = query.all("reset").map(str::to_owned).collect();
            (id.map(|id| u64::try_from(id).unwrap_or(0)), reset)
        };
        let database = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            let changed = state.engine.put_etl_task(&database, &sent, replaced, &reset)?;
            let answer = json!({"RaftCommandIndex": changed.index, "TaskId": changed.id});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// `RESET /databases/*/admin/etl`: has a transformation begin with the first change again.
pub(crate) fn reset(call: Call) -> Answering {
    Box::pin(async move {
        let (task, transform) = {
            let query = call.query();
            let task = query.required("configurationName")?.to_owned();
            (task, query.required("transformationName")?.to_owned())
        };
        let record = call.database()?.record();
        let state = call.state;
        blocking(move || {
            let index = state.engine.reset_etl(&record, &task, &transform)?;
            Ok(Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": index})))
        })
        .await
    })
}

/// `POST /databases/*/admin/etl/raven/test`: runs a transformation over a document without sending anything.
pub(crate) fn test(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        blocking(move || {
            let id = sent.get("DocumentId").and_then(Value::as_str).unwrap_or_default();
            if id.trim().is_empty() {
                return Err(ApiError::argument("Argument is null or whitespace (Parameter 'id')"));
            }
            let as_deleted = sent.get("IsDelete").and_then(Value::as_bool).unwrap_or(false);
            let none = Map::new();
            let definition = sent.get("Configuration").and_then(Value::as_object).unwrap_or(&none);
            let trial = state.engine.try_etl(&database, definition, id, as_deleted)?;
            let now = date::format(state.engine.clock().now().ticks());
            let problems: Vec<Value> = trial
                .problem
                .iter()
                .map(|error| json!({"DocumentId": id, "Date": now, "Error": error}))
                .collect();
            let mut answer = b"{\"Commands\":[".to_vec();
            answer.extend_from_slice(&trial.commands);
            let rest = json!({"TransformationErrors": problems, "DebugOutput": trial.output});
            answer.extend_from_slice(b"],");
            answer.extend_from_slice(&rest.to_string().as_bytes()[1..]);
            Ok(Answer::json(answer))
        })
        .await
    })
}

/// The enabled tasks of the database, with what their processes have done.
fn running(call: &Call) -> Result<Vec<(EtlTask, ProcessStatistics)>, ApiError> {
    let record = call.database()?.record();
    let engine = &call.state.engine;
    let tasks = engine.etl_tasks(&record).into_iter();
    let running = tasks.filter_map(|task| {
        let statistics = engine.etl_statistics(&record, task.definition.id)?;
        Some((task, statistics))
    });
    Ok(running.collect())
}

/// `GET /databases/*/etl/stats`.
pub(crate) fn stats(call: &Call) -> Result<Answer, ApiError> {
    let results = results(call, |_, statistics| statistics_json(statistics))?;
    let metadata = json!(call.state.debug_metadata());
    Ok(Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Results": results})))
}

/// `GET /databases/*/etl/debug/stats`: the same with what went wrong.
pub(crate) fn debug_stats(call: &Call) -> Result<Answer, ApiError> {
    let results = results(call, |_, statistics| {
        let mut shown = statistics_json(statistics);
        let (of_documents, of_requests): (Vec<&EtlProblem>, Vec<&EtlProblem>) =
            statistics.problems.iter().partition(|problem| problem.document.is_some());
        let list = |problems: Vec<&EtlProblem>| json!({"Errors": problems.into_iter().map(problem_json).collect::<Vec<_>>()});
        shown["TransformationErrorsInCurrentBatch"] = list(of_documents);
        shown["LastLoadErrors"] = list(of_requests);
        shown
    })?;
    Ok(Answer::shape(StatusCode::OK, &json!({ "Results": results })))
}

fn results(
    call: &Call,
    shown: impl Fn(&str, &EtlStatistics) -> Value,
) -> Result<Vec<Value>, ApiError> {
    let results = running(call)?.into_iter().map(|(task, process)| {
        let stats = process.transforms.iter().map(|(name, statistics)| {
            json!({"TransformationName": name, "Statistics": shown(name, statistics)})
        });
        json!({
            "TaskName": task.definition.name, "TaskId": task.definition.id, "EtlType": "Raven",
            "Stats": stats.collect::<Vec<_>>()
        })
    });
    Ok(results.collect())
}

fn time(ticks: Option<i64>) -> Value {
    ticks.map_or(Value::Null, |ticks| date::format(ticks).into())
}

fn statistics_json(statistics: &EtlStatistics) -> Value {
    json!({
        "LastProcessedEtag": statistics.last_etag.0,
        "LastTransformationErrorTime": time(statistics.transform_error_ticks),
        "LastLoadErrorTime": time(statistics.load_error_ticks),
        "LastAlert": statistics.problems.back().map(|problem| problem.message.clone()),
        "TransformationSuccesses": statistics.transformed,
        "TransformationErrors": statistics.transform_errors,
        "LoadSuccesses": statistics.loaded,
        "LoadErrors": statistics.load_errors,
        "WasLatestLoadSuccessful": !statistics.is_failing,
        "NextRetryTime": time(statistics.retry_ticks),
    })
}

fn problem_json(problem: &EtlProblem) -> Value {
    json!({
        "DocumentId": problem.document, "Date": date::format(problem.at_ticks),
        "Error": problem.message
    })
}

/// `GET /databases/*/etl/performance`.
pub(crate) fn performance(call: &Call) -> Result<Answer, ApiError> {
    let results = running(call)?.into_iter().map(|(task, process)| {
        let stats = process.transforms.iter().map(|(name, statistics)| {
            let runs: Vec<Value> = statistics.runs.iter().map(run_json).collect();
            json!({"TransformationName": name, "Performance": runs})
        });
        json!({
            "TaskName": task.definition.name, "TaskId": task.definition.id, "EtlType": "Raven",
            "Stats": stats.collect::<Vec<_>>()
        })
    });
    let results: Vec<Value> = results.collect();
    Ok(Answer::shape(StatusCode::OK, &json!({ "Results": results })))
}

fn run_json(run: &EtlRun) -> Value {
    let took_ms = run.transform_ms.saturating_add(run.load_ms);
    let ticks = i64::try_from(took_ms).unwrap_or(i64::MAX).saturating_mul(10_000);
    json!({
        "Id": run.number,
        "Started": date::format(run.began_ticks),
        "Completed": date::format(run.began_ticks.saturating_add(ticks)),
        "DurationInMs": took_ms,
        "NumberOfExtractedItems": {"Document": run.changes},
        "NumberOfTransformedItems": {"Document": run.changes - run.problems},
        "NumberOfTransformedTombstones": {},
        "NumberOfLoadedItems": if run.has_succeeded { run.commands } else { 0 },
        "LastTransformedEtags": {"Document": run.last_etag.0},
        "LastLoadedEtag": if run.has_succeeded { run.last_etag.0 } else { 0 },
        "LastFilteredOutEtags": {},
        "TransformationErrorCount": run.problems,
        "SuccessfullyLoaded": run.has_succeeded,
        "BatchTransformationCompleteReason": null,
        "BatchStopReason": null,
        "CurrentlyAllocated": {"SizeInBytes": run.bytes},
        "BatchSize": {"SizeInBytes": run.bytes},
        "Details": {
            "Name": "ETL", "DurationInMs": took_ms,
            "Operations": [
                {"Name": "Transform", "DurationInMs": run.transform_ms, "Operations": []},
                {"Name": "Load", "DurationInMs": run.load_ms, "Operations": []}
            ]
        }
    })
}

/// The kinds whose progress is shown, and their names there.
const KINDS: [(EntryKind, &str); 6] = [
    (EntryKind::Document, "Documents"),
    (EntryKind::DocumentTombstone, "DocumentTombstones"),
    (EntryKind::Counter, "CounterGroups"),
    (EntryKind::CounterTombstone, "CounterTombstones"),
    (EntryKind::Segment, "TimeSeriesSegments"),
    (EntryKind::DeletedRange, "TimeSeriesDeletedRanges"),
];

/// `GET /databases/*/etl/progress`: how much each transformation has still to send.
pub(crate) fn progress(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let (record, engine) = (database.record(), &call.state.engine);
    let mut results = Vec::new();
    for task in engine.etl_tasks(&record) {
        let definition = &task.definition;
        let statistics = engine.etl_statistics(&record, definition.id).unwrap_or_default();
        let mut processes = Vec::new();
        for transform in &definition.transforms {
            let kinds = KINDS.map(|(kind, _)| kind);
            let of_kinds =
                engine.etl_progress(&record, database, &definition.name, transform, &kinds)?;
            let mut shown = Map::new();
            shown.insert("TransformationName".to_owned(), transform.name.clone().into());
            for ((_, name), progress) in KINDS.iter().zip(&of_kinds) {
                shown.insert(format!("NumberOf{name}ToProcess"), progress.left.into());
                shown.insert(format!("TotalNumberOf{name}"), progress.total.into());
            }
            let is_complete = of_kinds.iter().all(|progress| progress.left == 0);
            let speed = statistics.transforms.iter().find(|(name, _)| *name == transform.name);
            let speed = speed.map_or(0.0, |(_, statistics)| speed_of(statistics));
            shown.insert("AverageProcessedPerSecond".to_owned(), speed.into());
            shown.insert("Completed".to_owned(), is_complete.into());
            let is_disabled = definition.is_disabled || transform.is_disabled;
            shown.insert("Disabled".to_owned(), is_disabled.into());
            processes.push(Value::Object(shown));
        }
        results.push(json!({
            "TaskName": definition.name, "EtlType": "Raven", "ProcessesProgress": processes
        }));
    }
    let metadata = json!(call.state.debug_metadata());
    Ok(Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Results": results})))
}

/// Changes per second of the batches that are remembered.
fn speed_of(statistics: &EtlStatistics) -> f64 {
    let changes: u64 = statistics.runs.iter().map(|run| run.changes).sum();
    let took_ms: u64 = statistics.runs.iter().map(|run| run.transform_ms + run.load_ms).sum();
    if took_ms == 0 { 0.0 } else { changes as f64 * 1000.0 / took_ms as f64 }
}

/// Whether the client may have the server send documents elsewhere, which it does with its own certificate.
pub(crate) fn check_enabling(call: &Call) -> Result<(), ApiError> {
    Ok(call.caller.check(Requirement::Operator, None)?)
}

/// An ETL task among the ongoing tasks of its database.
pub(crate) fn task_json(
    call: &Call,
    record: &DatabaseRecord,
    task: &EtlTask,
) -> Map<String, Value> {
    let definition = &task.definition;
    let statistics = call.state.engine.etl_statistics(record, definition.id);
    let transforms = statistics.iter().flat_map(|process| &process.transforms);
    let failing: Vec<_> = transforms.filter(|(_, statistics)| statistics.is_failing).collect();
    let last = |(_, statistics): &&(String, EtlStatistics)| {
        statistics.problems.back().map(|problem| problem.message.clone())
    };
    let error = match (&task.connection, failing.first()) {
        (Err(reason), _) => Some(reason.clone()),
        (_, Some(first)) => last(first),
        (_, None) => None,
    };
    let is_here = record.topology.responsible() == Some(call.state.engine.node_tag());
    let connection_status = match (&statistics, failing.is_empty()) {
        _ if !is_here => "NotOnThisNode",
        (None, _) => "NotActive",
        (Some(_), true) => "Active",
        (Some(_), false) => "Reconnect",
    };
    let connection = task.connection.clone().unwrap_or_default();
    let addresses: Vec<String> = connection.addresses.iter().map(ToString::to_string).collect();
    let shown = json!({
        "TaskId": definition.id,
        "TaskType": "RavenEtl",
        "ResponsibleNode": responsible_json(call, record.topology.responsible()),
        "TaskState": state_word(definition),
        "TaskConnectionStatus": connection_status,
        "TaskName": definition.name,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "Error": error,
        "DestinationUrl": statistics.and_then(|process| process.destination_url),
        "DestinationDatabase": connection.database,
        "ConnectionStringName": definition.connection,
        "TopologyDiscoveryUrls": addresses,
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}

/// The same with its definition.
pub(crate) fn details_json(call: &Call, record: &DatabaseRecord, task: &EtlTask) -> Value {
    let mut shown = task_json(call, record, task);
    let mut configuration = task.stored.clone();
    // The type of the task says it, and clients do not expect it a second time.
    configuration.retain(|name, _| !name.eq_ignore_ascii_case("EtlType"));
    for (name, default) in [
        ("MentorNode", Value::Null),
        ("Disabled", false.into()),
        ("AllowEtlOnNonEncryptedChannel", false.into()),
        ("LoadRequestTimeoutInSec", Value::Null),
    ] {
        configuration.entry(name).or_insert(default);
    }
    shown.insert("Configuration".to_owned(), Value::Object(configuration));
    Value::Object(shown)
}

fn state_word(definition: &RavenEtl) -> &'static str {
    let has_disabled = definition.transforms.iter().any(|transform| transform.is_disabled);
    match (definition.is_disabled, has_disabled) {
        (true, _) => "Disabled",
        (false, true) => "PartiallyEnabled",
        (false, false) => "Enabled",
    }
}
