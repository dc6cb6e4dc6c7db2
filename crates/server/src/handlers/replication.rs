//! Replication: tasks that send to other databases, what links do, and what they receive.

use std::sync::Arc;

use ::replication::LinkKind;
use ::security::Requirement;
use documents::log::{self, EntryKind, EntryKinds, LogEntry, Selection};
use engine::{DestinationKey, IncomingLink, LinkRun, LinkState, LinkStatistics, ReplicationTask};
use http::StatusCode;
use model::{DatabaseRecord, Etag, TimeSpan, date};
use serde_json::{Map, Value, json};
use wire::ExternalReplication;

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::ongoing_tasks::responsible_json, http::router::Answering, request_json::read_object,
};

/// `POST /databases/*/replication/messages`: a message of another server; see the crate `replication`.
pub(crate) fn receive(call: Call) -> Answering {
    Box::pin(async move {
        let database = call.database()?.clone();
        let (state, body) = (Arc::clone(&call.state), call.body.clone());
        // Who may write to the database is no member of its group yet.
        let may_be_member = call.caller.check(Requirement::ClusterAdmin, None).is_ok();
        blocking(move || {
            let answer = state.engine.receive_replication(&database, &body, may_be_member)?;
            Ok(Answer::json(answer).with_content_type("application/octet-stream"))
        })
        .await
    })
}

/// `POST /databases/*/admin/tasks/external-replication`: adds a task, or replaces the one with its number.
pub(crate) fn put_external(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let sent = ExternalReplication::sent_in(&body)?.clone();
        let database = call.database()?.record().name.as_str().to_owned();
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.put_replication_task(&database, &sent)?;
            let answer = json!({
                "RaftCommandIndex": changed.index, "TaskId": changed.id,
                "ResponsibleNode": state.node_tag(),
            });
            Ok(Answer::shape(StatusCode::CREATED, &answer))
        })
        .await
    })
}

/// A task of external replication among the ongoing tasks of its database.
pub(crate) fn task_json(
    call: &Call,
    record: &DatabaseRecord,
    task: &ReplicationTask,
) -> Map<String, Value> {
    let definition = &task.definition;
    let links = call.state.engine.outgoing_links(record);
    let link = links.get(&DestinationKey::Task(definition.id)).map(|(_, statistics)| statistics);
    let is_here = task.node(&record.topology) == Some(call.state.engine.node_tag());
    let status = match link.map(|link| link.state) {
        _ if !is_here => "NotOnThisNode",
        Some(LinkState::Active) => "Active",
        Some(LinkState::Failing | LinkState::Refused | LinkState::Unreadable) => "Reconnect",
        Some(LinkState::Connecting) | None => "NotActive",
    };
    let failure = link.filter(|link| link.is_failing());
    let failure = failure.and_then(|link| link.failure.as_ref());
    let error = match &task.connection {
        Err(reason) => Some(reason.clone()),
        Ok(_) => failure.map(|(_, message)| message.clone()),
    };
    let connection = task.connection.clone().unwrap_or_default();
    let addresses: Vec<String> = connection.addresses.iter().map(ToString::to_string).collect();
    let shown = json!({
        "TaskId": definition.id,
        "TaskType": "Replication",
        "ResponsibleNode": responsible_json(call, task.node(&record.topology)),
        "TaskState": if definition.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": status,
        "TaskName": definition.name,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "Error": error,
        "DestinationUrl": link.and_then(|link| link.destination_url.clone()),
        "DestinationDatabase": connection.database,
        "ConnectionStringName": definition.connection,
        "TopologyDiscoveryUrls": addresses,
        "DelayReplicationFor": TimeSpan::of(definition.delay).to_string(),
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}

/// The links of the database, those of tasks first.
fn outgoing(call: &Call) -> Result<Vec<(DestinationKey, String, LinkStatistics)>, ApiError> {
    let record = call.database()?.record();
    let links = call.state.engine.outgoing_links(&record).into_iter();
    Ok(links.map(|(key, (database, statistics))| (key, database, statistics)).collect())
}

fn incoming(call: &Call) -> Result<Vec<IncomingLink>, ApiError> {
    let record = call.database()?.record();
    Ok(call.state.engine.incoming_links(&record))
}

fn kind_of(key: &DestinationKey) -> &'static str {
    match key {
        DestinationKey::Task(_) => "External",
        DestinationKey::Member(_) => "Internal",
        DestinationKey::Sink(..) => "PullAsSink",
    }
}

/// Where a link leads, as operators see it.
fn destination_json(key: &DestinationKey, database: &str, statistics: &LinkStatistics) -> Value {
    let mut shown = json!({
        "Type": kind_of(key),
        "Database": database,
        "Url": statistics.destination_url,
        "Disabled": false,
    });
    match key {
        DestinationKey::Task(id) | DestinationKey::Sink(id, _) => {
            shown["TaskId"] = (*id).into();
        }
        DestinationKey::Member(tag) => shown["NodeTag"] = tag.clone().into(),
    }
    shown
}

fn source_json(link: &IncomingLink) -> Value {
    json!({
        "SourceDatabaseId": link.source.to_string(),
        "SourceDatabaseName": link.database,
        "SourceMachineName": null,
        "SourceTag": link.node_tag.as_str(),
        "SourceUrl": link.url,
        "Type": match link.kind {
            LinkKind::External => "External",
            LinkKind::Internal => "Internal",
            LinkKind::HubToSink => "PullAsSink",
            LinkKind::SinkToHub => "PullAsHub",
        },
    })
}

/// `GET /replication/active-connections`.
pub(crate) fn active_connections(call: &Call) -> Result<Answer, ApiError> {
    let outgoing = outgoing(call)?.into_iter();
    let outgoing: Vec<Value> = outgoing
        .filter(|(.., statistics)| statistics.state == LinkState::Active)
        .map(|(key, database, statistics)| destination_json(&key, &database, &statistics))
        .collect();
    let incoming: Vec<Value> = incoming(call)?.iter().map(source_json).collect();
    let answer = json!({"IncomingConnections": incoming, "OutgoingConnections": outgoing});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn run_json(run: &LinkRun, is_outgoing: bool) -> Value {
    let took_ms = run.read_ms.saturating_add(run.network_ms);
    let ticks = i64::try_from(took_ms).unwrap_or(i64::MAX).saturating_mul(10_000);
    let errors: Vec<&String> = run.error.iter().collect();
    let mut shown = json!({
        "Id": run.number,
        "Started": date::format(run.began_ticks),
        "Completed": date::format(run.began_ticks.saturating_add(ticks)),
        "DurationInMs": took_ms,
        "BatchSize": run.bytes,
        "Errors": errors,
        "Details": {
            "Name": "Replication", "DurationInMs": took_ms,
            "Operations": match is_outgoing {
                true => json!([
                    {"Name": "Storage/Read", "DurationInMs": run.read_ms, "Operations": []},
                    {"Name": "Network", "DurationInMs": run.network_ms, "Operations": []}
                ]),
                false => json!([
                    {"Name": "Storage/Write", "DurationInMs": run.network_ms, "Operations": []}
                ]),
            }
        },
    });
    match is_outgoing {
        true => {
            shown["SendLastEtag"] = run.last_etag.0.into();
            shown["Network"] =
                json!({"DocumentOutputCount": run.items, "SkippedCount": run.skipped});
        }
        false => {
            shown["ReceivedLastEtag"] = run.last_etag.0.into();
            shown["Network"] = json!({"DocumentReadCount": run.items});
        }
    }
    shown
}

/// `GET /replication/performance`.
pub(crate) fn performance(call: &Call) -> Result<Answer, ApiError> {
    let incoming: Vec<Value> = incoming(call)?
        .iter()
        .map(|link| {
            let runs: Vec<Value> =
                link.statistics.runs.iter().map(|run| run_json(run, false)).collect();
            json!({"Source": format!("{} ({})", link.database, link.url), "Performance": runs})
        })
        .collect();
    let outgoing: Vec<Value> = outgoing(call)?
        .iter()
        .map(|(key, database, statistics)| {
            let runs: Vec<Value> = statistics.runs.iter().map(|run| run_json(run, true)).collect();
            let url = statistics.destination_url.as_deref().unwrap_or_default();
            json!({"Destination": format!("{database} ({url})"), "Type": kind_of(key), "Performance": runs})
        })
        .collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Incoming": incoming, "Outgoing": outgoing})))
}

fn stats_answer(call: &Call, stats: Vec<Value>) -> Answer {
    let metadata = json!(call.state.debug_metadata());
    Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Stats": stats}))
}

/// `GET /replication/debug/incoming-last-activity-time`.
pub(crate) fn incoming_activity(call: &Call) -> Result<Answer, ApiError> {
    let stats = incoming(call)?.into_iter().map(|link| {
        let last = date::format(link.last_ticks);
        json!({"IncomingConnectionInfo": source_json(&link), "LastActivityTime": last})
    });
    let stats = stats.collect();
    Ok(stats_answer(call, stats))
}

/// `GET /replication/debug/incoming-rejection-info`.
pub(crate) fn incoming_rejections(call: &Call) -> Result<Answer, ApiError> {
    let stats = incoming(call)?.into_iter().filter_map(|link| {
        let (at, reason) = link.statistics.failure.as_ref()?;
        let rejection = json!({"Reason": reason, "When": date::format(*at)});
        Some(json!({
            "Key": source_json(&link),
            "Value": [rejection],
        }))
    });
    let stats = stats.collect();
    Ok(stats_answer(call, stats))
}

/// `GET /replication/debug/outgoing-failures`.
pub(crate) fn outgoing_failures(call: &Call) -> Result<Answer, ApiError> {
    let stats = outgoing(call)?.into_iter().filter_map(|(key, database, statistics)| {
        let (at, message) = statistics.failure.clone()?;
        let retry = statistics.retry_ticks.map(date::format);
        Some(json!({
            "Key": destination_json(&key, &database, &statistics),
            "Value": {
                "ErrorsCount": statistics.failures,
                "LastException": message,
                "LastFailure": date::format(at),
                "RetryOn": retry,
            },
        }))
    });
    let stats = stats.collect();
    Ok(stats_answer(call, stats))
}

/// `GET /replication/debug/outgoing-reconnect-queue`: the links that are tried again.
pub(crate) fn reconnect_queue(call: &Call) -> Result<Answer, ApiError> {
    let failing = outgoing(call)?.into_iter();
    let queue: Vec<Value> = failing
        .filter(|(.., statistics)| statistics.is_failing())
        .map(|(key, database, statistics)| destination_json(&key, &database, &statistics))
        .collect();
    let metadata = json!(call.state.debug_metadata());
    Ok(Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Queue-Info": queue})))
}

/// How many tombstones one answer has at most.
const TOMBSTONES_MAX: usize = 1024;

/// `GET /replication/tombstones`: what was deleted, from an etag on.
pub(crate) fn tombstones(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let start = query.long("start")?.unwrap_or(0).max(0).cast_unsigned();
    let take = query.long("take")?.and_then(|take| usize::try_from(take).ok());
    let take = take.unwrap_or(TOMBSTONES_MAX).min(TOMBSTONES_MAX);
    let tx = call.database()?.read();
    let kinds = EntryKinds::of(&[
        EntryKind::DocumentTombstone,
        EntryKind::AttachmentTombstone,
        EntryKind::CounterTombstone,
    ]);
    let mut results = Vec::new();
    let after = Etag(start.saturating_sub(1));
    for entry in log::read(&tx, &[Selection::all(kinds)], after)?.take(take) {
        let entry = entry?;
        let collection = match entry.collection_number() {
            Some(number) => Some(documents::collection_numbered(&tx, number)?.name.to_string()),
            None => None,
        };
        let (id, deleted, kind) = match &entry {
            LogEntry::DocumentTombstone(row) => {
                (row.id().to_owned(), row.deleted_etag(), "Document")
            }
            LogEntry::AttachmentTombstone(row) => {
                let id = format!("{}/{}", row.lower_document_id(), row.lower_name());
                (id, row.deleted_etag(), "Attachment")
            }
            LogEntry::CounterTombstone(row) => {
                let id = format!("{}/{}", row.lower_document_id(), row.lower_name());
                (id, row.deleted_etag(), "Counter")
            }
            _ => continue,
        };
        results.push(json!({
            "Id": id,
            "Etag": entry.etag().0,
            "DeletedEtag": deleted.0,
            "Type": kind,
            "ChangeVector": entry.change_vector(),
            "Collection": collection,
        }));
    }
    Ok(Answer::shape(StatusCode::OK, &json!({ "Results": results })))
}
