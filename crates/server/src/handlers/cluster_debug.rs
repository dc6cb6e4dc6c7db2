//! What operators see of the cluster's log, its leader, and the observer of databases, and how they intervene.

use std::{sync::Arc, time::Duration};

use cluster::{Contact, LogExtent, LoggedEntry};
use http::StatusCode;
use model::{date, ticks};
use serde_json::{Value, json};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::cluster_nodes::{Part, contact_json},
    http::router::Answering,
    server_state::ServerState,
};

/// Entries of the log that one answer lists.
const ENTRIES_MAX: usize = 4096;
/// Entries that are listed if a request does not say how many.
const ENTRIES_DEFAULT: usize = 1024;
/// The version of the commands of the log, as clients know it.
const COMMANDS_VERSION: u32 = 60_001;

/// The time so long ago.
pub(super) fn time_before(state: &ServerState, before: Duration) -> String {
    let now = state.engine.clock().now().ticks();
    date::format(now.saturating_sub(ticks::of_duration(before)))
}

/// Sends the client on to the leader, if that is another node.
fn elsewhere(call: &Call) -> Result<Option<Answer>, ApiError> {
    let topology = call.state.engine.cluster_topology()?;
    let leader = topology.leader.filter(|leader| *leader != topology.this);
    let url = leader.and_then(|leader| topology.url_of(leader));
    Ok(url.map(|url| {
        let location = format!("{url}{}", call.target);
        Answer::empty(StatusCode::TEMPORARY_REDIRECT).with_header("location", &location)
    }))
}

/// `GET /admin/cluster/log`.
pub(crate) fn log(call: &Call) -> Result<Answer, ApiError> {
    let (state, query) = (&call.state, call.query());
    let engine = &state.engine;
    let from = query.long("from")?.and_then(|from| u64::try_from(from).ok());
    let take = query.long("pageSize")?.and_then(|size| usize::try_from(size).ok());
    let take = take.unwrap_or(ENTRIES_DEFAULT).min(ENTRIES_MAX);
    let extent = engine.cluster_log_extent()?;
    let entries = engine.cluster_log_entries(from.unwrap_or(u64::MAX), take)?;
    let topology = engine.cluster_topology()?;
    let part = Part::of(&topology);
    let since = engine.leader_changes().last().map(|change| time_before(state, change.before));
    let mut answer = json!({
        "@metadata": state.debug_metadata(),
        "Role": part.state,
        "Term": topology.term,
        "CommandsVersion": {"Cluster": COMMANDS_VERSION, "Local": COMMANDS_VERSION},
        "Since": since,
        "Log": log_json(&extent, &entries),
    });
    let contacts: Vec<Value> =
        engine.node_contacts().iter().map(|contact| connection_json(state, contact)).collect();
    match topology.leader {
        Some(leader) if leader == topology.this => {
            answer["ElectionReason"] = part.reason.into();
            answer["ConnectionToPeers"] = contacts.into();
        }
        Some(leader) => {
            answer["Phase"] = "Steady".into();
            answer["ConnectionToLeader"] = json!({
                "Status": "Connected", "Destination": leader.to_string(), "Connected": true
            });
        }
        None => answer["LastStateChangeReason"] = part.reason.into(),
    }
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn log_json(extent: &LogExtent, entries: &[LoggedEntry]) -> Value {
    let logs: Vec<Value> = entries.iter().map(entry_json).collect();
    json!({
        "LastAppendedTime": null, "LastCommitedTime": null,
        "CommitIndex": extent.applied,
        "LastTruncatedIndex": extent.purged, "LastTruncatedTerm": extent.term,
        "FirstEntryIndex": (extent.last + 1).saturating_sub(extent.count),
        "LastLogEntryIndex": extent.last,
        "TotalEntries": extent.count,
        "CriticalError": null,
        "Logs": logs,
    })
}

fn entry_json(entry: &LoggedEntry) -> Value {
    let flags = match entry.kinds.as_slice() {
        ["Noop"] => "Noop",
        ["Topology"] => "Topology",
        _ => "StateMachineCommand",
    };
    json!({
        "Term": entry.term, "Index": entry.index, "SizeInBytes": entry.bytes,
        "CommandType": entry.kinds.join(", "), "Flags": flags, "CreateAt": null, "Entry": null
    })
}

fn connection_json(state: &ServerState, contact: &Contact) -> Value {
    let status = match &contact.failing {
        None => format!("Connected with {}", contact.tag),
        Some((_, error)) => format!("Disconnected from {}: {error}", contact.tag),
    };
    json!({
        "Status": status, "Destination": contact.tag.to_string(),
        "Connected": contact.failing.is_none(),
        "LastSent": time_before(state, contact.sent_before),
        "LastReceived": contact.answered_before.map(|before| time_before(state, before)),
        "LastMatchingIndex": contact.matched,
    })
}

/// `GET /admin/cluster/log/entry`.
pub(crate) fn log_entry(call: &Call) -> Result<Answer, ApiError> {
    let index = call.query().long("index")?.and_then(|index| u64::try_from(index).ok());
    let index = index.ok_or_else(|| {
        ApiError::argument("Query string index is mandatory, but wasn't specified.")
    })?;
    let found = call.state.engine.cluster_log_entries(index, 1)?;
    let entry = found.first().filter(|entry| entry.index == index);
    let entry = entry.ok_or_else(|| {
        ApiError::argument(format!("The log of this node has no entry with the index {index}"))
    })?;
    let mut answer = entry_json(entry);
    answer["@metadata"] = json!(call.state.debug_metadata());
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/cluster/observer/decisions`.
pub(crate) fn decisions(call: &Call) -> Result<Answer, ApiError> {
    if let Some(elsewhere) = elsewhere(call)? {
        return Ok(elsewhere);
    }
    let engine = &call.state.engine;
    let topology = engine.cluster_topology()?;
    let (iteration, decisions) = engine.observer_decisions();
    let decisions: Vec<Value> = decisions
        .iter()
        .map(|decision| {
            json!({
                "Date": date::format(decision.ticks), "Iteration": decision.iteration,
                "Database": decision.database, "Message": decision.message
            })
        })
        .collect();
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "LeaderNode": topology.leader.map(|leader| leader.to_string()),
        "Term": topology.term,
        "Suspended": engine.is_observer_suspended(),
        "Iteration": iteration,
        "ObserverLog": decisions,
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `POST /admin/cluster/observer/suspend`.
pub(crate) fn suspend(call: &Call) -> Result<Answer, ApiError> {
    let is_suspended = call.query().bool("value")?.ok_or_else(|| {
        ApiError::argument("Query string value is mandatory, but wasn't specified.")
    })?;
    if let Some(elsewhere) = elsewhere(call)? {
        return Ok(elsewhere);
    }
    call.state.engine.suspend_observer(is_suspended);
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `POST /admin/cluster/reelect`: the leader has another node be elected.
pub(crate) fn reelect(call: Call) -> Answering {
    Box::pin(async move {
        if let Some(elsewhere) = elsewhere(&call)? {
            return Ok(elsewhere);
        }
        call.state.engine.resign().await;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// `POST /admin/cluster/timeout`: this node stands for election.
pub(crate) fn timeout(call: &Call) -> Result<Answer, ApiError> {
    call.state.engine.stand_for_election();
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /admin/cluster/maintenance-stats`: what the leader knows of the nodes, with the databases of its own.
pub(crate) fn maintenance(call: Call) -> Answering {
    Box::pin(async move {
        if let Some(elsewhere) = elsewhere(&call)? {
            return Ok(elsewhere);
        }
        let state = Arc::clone(&call.state);
        blocking(move || Ok(Answer::shape(StatusCode::OK, &maintenance_json(&state)?))).await
    })
}

fn maintenance_json(state: &ServerState) -> Result<Value, ApiError> {
    let engine = &state.engine;
    let topology = engine.cluster_topology()?;
    let now = time_before(state, Duration::ZERO);
    let mut nodes = serde_json::Map::new();
    let mut reports = serde_json::Map::new();
    for record in engine.records() {
        let Some(database) = engine.if_open(record.name.as_str()) else { continue };
        let tx = database.read();
        let progress = documents::progress(&tx)?;
        let sent: serde_json::Map<String, Value> = engine
            .outgoing_links(&record)
            .into_iter()
            .filter_map(|(key, (_, link))| match key {
                engine::DestinationKey::Member(tag) => {
                    Some((tag, link.accepted.map(|etag| etag.0).into()))
                }
                engine::DestinationKey::Task(_) | engine::DestinationKey::Sink(..) => None,
            })
            .collect();
        let report = json!({
            "Name": record.name.as_str(), "NodeName": topology.this.to_string(),
            "Status": "Loaded", "LastEtag": progress.last_etag.0,
            "NumberOfConflicts": documents::count_conflicts(&tx)?.0,
            "NumberOfDocuments": progress.documents,
            "DatabaseChangeVector": progress.change_vector.to_string(),
            "LastCompletedClusterTransaction": database.executed_transaction(),
            "LastSentEtag": sent, "Error": null
        });
        reports.insert(record.name.as_str().to_owned(), report);
    }
    let own = json!({
        "Report": reports, "Status": "Ok", "Error": null, "UpdateDateTime": now,
        "LastSuccessfulUpdateDateTime": now
    });
    nodes.insert(topology.this.to_string(), own);
    for contact in engine.node_contacts() {
        let error = contact.failing.as_ref().map(|(_, error)| error.clone());
        let entry = json!({
            "Report": {}, "Status": if error.is_none() { "Ok" } else { "Timeout" }, "Error": error,
            "UpdateDateTime": time_before(state, contact.sent_before),
            "LastSuccessfulUpdateDateTime":
                contact.answered_before.map(|before| time_before(state, before)),
        });
        nodes.insert(contact.tag.to_string(), entry);
    }
    Ok(Value::Object(nodes))
}

/// `GET /admin/debug/node/ping`: whether the nodes can be reached from this one.
pub(crate) fn ping(call: Call) -> Answering {
    Box::pin(async move {
        let state = Arc::clone(&call.state);
        let own = call.state.address_in_passing(&call.headers).into_owned();
        let wanted = call.query().get("url").filter(|url| !url.is_empty()).map(str::to_owned);
        blocking(move || {
            let topology = state.engine.cluster_topology()?;
            let urls = topology.nodes.iter().map(|node| match node.url.as_str() {
                "" => own.clone(),
                url => url.to_owned(),
            });
            let urls = urls.filter(|url| wanted.as_ref().is_none_or(|wanted| wanted == url));
            let results: Vec<Value> = urls.map(|url| pinged(&state, &url)).collect();
            let answer = json!({"@metadata": state.debug_metadata(), "Result": results});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

fn pinged(state: &ServerState, url: &str) -> Value {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let ask = |path: &str| match state.engine.reach_node(url, path) {
        Ok(time) => (Some(milliseconds(time)), None),
        Err(error) => (None, Some(error)),
    };
    let ((alive, alive_error), (tcp, tcp_error)) = (ask("/setup/alive"), ask("/info/tcp?tag=ping"));
    json!({
        "Url": url,
        "SetupAlive": {"Time": alive, "Error": alive_error},
        "TcpInfo": {"TcpInfoTime": tcp, "SendTime": tcp, "ReceiveTime": tcp, "Error": tcp_error},
        "Log": [],
    })
}

/// `GET /admin/debug/node/remote-connections`: which nodes this one reaches for.
pub(crate) fn remote_connections(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let term = state.engine.cluster_topology()?.term;
    let contacts = state.engine.node_contacts();
    let reached = contacts.iter().filter(|contact| contact.failing.is_none());
    let shown: Vec<Value> = reached
        .enumerate()
        .map(|(number, contact)| {
            json!({
                "Caller": "Run", "Term": term, "Destination": contact.tag.to_string(),
                "StartAt": contact.answered_before.map(|before| time_before(state, before)),
                "Duration": null, "Number": number + 1
            })
        })
        .collect();
    let answer = json!({"@metadata": state.debug_metadata(), "Remote-Connections": shown});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/debug/node/engine-logs`: the nodes that this one reaches for, and who has led.
pub(crate) fn engine_logs(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let contacts = state.engine.node_contacts();
    let timing: serde_json::Map<String, Value> = contacts
        .iter()
        .map(|contact| (contact.tag.to_string(), contact_json(state, contact)))
        .collect();
    let answer = json!({
        "@metadata": state.debug_metadata(), "TimingTracking": timing,
        "StateChangeTracking": state_changes(state)
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/debug/node/state-change-history`: who has led, as this node saw it.
pub(crate) fn state_history(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let answer = json!({"@metadata": state.debug_metadata(), "States": state_changes(state)});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn state_changes(state: &ServerState) -> Vec<String> {
    let changes = state.engine.leader_changes().into_iter();
    let shown = changes.map(|change| {
        let at = time_before(state, change.before);
        let term = change.term;
        match change.leader {
            Some(leader) => format!("{at} the node {leader} leads in term {term}"),
            None => format!("{at} no node leads, in term {term}"),
        }
    });
    shown.collect()
}

/// `GET /admin/debug/node/clear-http-clients-pool`: connections that were kept are usable, or replaced when they are not.
pub(crate) fn clear_clients(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::OK))
}

/// `GET /databases/*/admin/debug/cluster/txinfo`: transactions of the cluster that this node is still to execute.
pub(crate) fn pending_transactions(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let take = call
        .query()
        .int("take")?
        .map_or(ENTRIES_DEFAULT, |take| usize::try_from(take).unwrap_or(0));
    let executed = database.executed_transaction();
    let state = call.state.engine.cluster_state();
    let pending = state.transactions_after(database.record().topology_id, executed)?;
    let mut shown = Vec::new();
    for transaction in pending.take(take.min(ENTRIES_MAX)) {
        let transaction = transaction?;
        let commands: Vec<Value> = transaction
            .documents
            .iter()
            .map(|change| {
                let kind = if change.body.is_some() { "PUT" } else { "DELETE" };
                json!({"Id": change.id, "Type": kind})
            })
            .collect();
        shown.push(json!({
            "Index": transaction.index, "PreviousCount": transaction.before,
            "DatabaseCommands": commands
        }));
    }
    let answer = json!({"@metadata": call.state.debug_metadata(), "Results": shown});
    Ok(Answer::shape(StatusCode::OK, &answer))
}
