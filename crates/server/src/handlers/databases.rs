//! Databases: creating, listing, enabling, disabling and deleting them.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use database::{NewDatabase, Replacement};
use engine::{Departure, EngineError, FilesLeft, WantedNodes};
use http::StatusCode;
use model::{DatabaseId, DatabaseName, DatabaseRecord, NodeTag, TimeSpan};
use serde_json::{Map, Value, json};
use wire::{
    ErrorKind, RecordBody, check_record_settings,
    database_shapes::{
        ListedConfigurations, ListedDatabase, ToggleStatus, database_put_result, topology_answer,
    },
    header_names::{DATABASE_MISSING, unquote},
    studio_environment_of_record,
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{
        index_faults::all_known, indexes::indexing_status, notifications, statistics::size_on_disk,
    },
    http::router::Answering,
    request_json::{read_object, texts_of},
    server_state::ServerState,
    stored_record::{body_of, nodes_of, record_json, topology_facts},
};

/// How long the answer to a new or changed record waits until the nodes of the database have it.
const CREATION_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the answer to a deletion waits for the other nodes, unless the request names a time.
const DELETION_WAIT_MAX: Duration = Duration::from_secs(15);

/// `GET /databases`: all, a page, only names, or one.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let state = &call.state;
    let address = state.address_in_passing(&call.headers);
    if let Some(name) = query.get("name").filter(|name| !name.is_empty()) {
        call.check_database(name)?;
        return Ok(match state.engine.record(name) {
            Some(record) => {
                Answer::shape(StatusCode::OK, &listed(state, &record, name, &address).to_json())
            }
            None => Answer::empty(StatusCode::NOT_FOUND).with_header(DATABASE_MISSING, name),
        });
    }
    let names_only = query.bool("namesOnly")?.unwrap_or(false);
    let skip = usize::try_from(query.start()?).unwrap_or(0);
    let take = usize::try_from(query.page_size()?).unwrap_or(0);
    let records = call.visible_records().into_iter().skip(skip).take(take);
    let databases: Vec<Value> = records
        .map(|record| match names_only {
            true => Value::from(record.name.as_str()),
            false => listed(state, &record, record.name.as_str(), &address).to_json(),
        })
        .collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Databases": databases})))
}

/// The state of a database, without opening it.
pub(crate) fn listed_state(state: &ServerState, record: &DatabaseRecord) -> Value {
    listed(state, record, record.name.as_str(), state.address()).to_state_json()
}

/// The dashboard's view of a database, without opening it.
pub(crate) fn listed_overview(state: &ServerState, record: &DatabaseRecord) -> Value {
    listed(state, record, record.name.as_str(), state.address()).to_overview_json()
}

/// A database that is not open is listed without opening it.
fn listed(
    state: &ServerState,
    record: &DatabaseRecord,
    name: &str,
    own_url: &str,
) -> ListedDatabase {
    let open = state.engine.if_open(record.name.as_str());
    let documents_count = open.as_ref().and_then(|database| {
        documents::progress(&database.read()).ok().map(|progress| progress.documents)
    });
    let up_time = open.as_ref().map(|database| {
        let now = state.engine.clock().monotonic();
        TimeSpan::of(now.saturating_sub(database.opened_after())).to_string()
    });
    let body = body_of(record);
    let count =
        |section: &str| body.get(section).and_then(Value::as_object).map_or(0, Map::len) as u64;
    let indexing_errors =
        open.as_ref().map(|database| indexing_errors(database)).unwrap_or_default();
    let notifications =
        open.as_ref().map(|database| notifications::counts(state, database)).unwrap_or_default();
    // Subscriptions are the only kind so far. Read errors are reported where they are used.
    let tasks = state.engine.cluster_state();
    let ongoing_tasks = tasks.subscriptions(record.topology_id).map_or(0, Iterator::count) as u64;
    ListedDatabase {
        name: name.to_owned(),
        indexes_count: count("Indexes") + count("AutoIndexes"),
        indexing_errors: indexing_errors.iter().sum(),
        errored_indexes: indexing_errors.iter().filter(|errors| 0 < **errors).count() as u64,
        indexing_status: open.as_ref().map(|database| indexing_status(database.indexes())),
        alerts: notifications.alerts,
        performance_hints: notifications.hints,
        ongoing_tasks,
        environment: studio_environment_of_record(&body).to_owned(),
        disabled: record.disabled,
        is_encrypted: RecordBody::of_record(record).is_encrypted(),
        lock_mode: RecordBody::of_record(record).lock_mode(),
        size_bytes: open.as_ref().map_or(0, |database| size_on_disk(database)),
        up_time,
        documents_count: documents_count.unwrap_or(0),
        configurations: ListedConfigurations::of_record(&body),
        load_error: None,
        nodes: nodes_of(state, record, own_url),
        topology: topology_facts(record),
    }
}

/// How many errors each index has. Errors that cannot be counted are reported elsewhere.
fn indexing_errors(database: &database::Database) -> Vec<u64> {
    let indexes = all_known(database.indexes());
    indexes.iter().map(|index| index.error_count().unwrap_or(0)).collect()
}

/// `GET /topology`.
pub(crate) fn topology(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    call.check_database(name)?;
    let state = &call.state;
    let Some(record) = state.engine.record(name) else {
        return Ok(missing(StatusCode::SERVICE_UNAVAILABLE, name));
    };
    let url = match query.get("localUrl").filter(|url| !url.is_empty()) {
        Some(url) => Cow::Borrowed(url),
        None => state.address_for(&call.headers)?,
    };
    let version = state.engine.settings().protocol_version.as_str();
    let answer = topology_answer(
        record.name.as_str(),
        &nodes_of(state, &record, &url),
        record.topology_index,
        version,
    );
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn missing(status: StatusCode, name: &str) -> Answer {
    let message = format!("Database {name} wasn't found");
    Answer::shape(status, &json!({"Type": "Error", "Message": message}))
        .with_header(DATABASE_MISSING, name)
}

/// `GET /admin/databases`.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    match call.state.engine.record(name) {
        Some(record) => Ok(Answer::shape(StatusCode::OK, &record_json(&call.state, &record))),
        None => Ok(missing(StatusCode::NOT_FOUND, name)),
    }
}

/// `GET /databases/*/admin/record`.
pub(crate) fn record(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &record_json(&call.state, &call.database()?.record())))
}

/// `PUT /admin/databases`: creates a database, or replaces its record when the header `ETag`
/// contains the version of the record.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let factor = call.query().int("replicationFactor")?;
        // A header that is not a number, such as `"undefined"`, is ignored.
        let expected = call.header("etag").and_then(|etag| unquote(etag).parse::<i64>().ok());
        let expected = expected.map(|etag| u64::try_from(etag).unwrap_or(u64::MAX));
        let sent = read_record(&call)?;
        let address = call.state.address_in_passing(&call.headers).into_owned();
        let state = call.state;
        let engine = Arc::clone(&state.engine);
        let put = blocking(move || {
            Ok(match expected {
                None => {
                    let wanted = wanted_nodes(&sent.body, factor);
                    let topology = Some(engine.choose_nodes(&wanted)?);
                    engine.create_database(NewDatabase { topology, ..sent })?
                }
                Some(expected) => {
                    let NewDatabase { name, disabled, body, request_id, .. } = sent;
                    let replacement = Replacement { name, expected, disabled, body, request_id };
                    engine.replace_record(replacement)?
                }
            })
        })
        .await?;
        let record = put.record;
        // A client goes on to any of them. One that is away has the database once it is back.
        let members: Vec<NodeTag> = record.topology.nodes().collect();
        state.engine.seen_by(&members, put.index, CREATION_WAIT_MAX).await;
        let name = record.name.as_str();
        let facts = topology_facts(&record);
        let nodes = nodes_of(&state, &record, &address);
        let urls: Vec<String> = nodes.into_iter().map(|node| node.url).collect();
        let result = database_put_result(name, put.index, &facts, &urls);
        Ok(Answer::shape(StatusCode::CREATED, &result))
    })
}

/// The nodes that the record of a new database names. Without them, `factor` counts.
fn wanted_nodes(body: &[u8], factor: Option<i32>) -> WantedNodes {
    let record: Value = serde_json::from_slice(body).unwrap_or_default();
    let topology = &record["Topology"];
    let members = topology["Members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored_factor = topology["ReplicationFactor"].as_u64().and_then(|n| u32::try_from(n).ok());
    WantedNodes {
        members: members.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        replication_factor: factor.and_then(|factor| u32::try_from(factor).ok()).or(stored_factor),
        is_dynamic: topology["DynamicNodesDistribution"].as_bool().unwrap_or(false),
    }
}

fn read_record(call: &Call) -> Result<NewDatabase, ApiError> {
    let body = read_object(&call.body)?;
    let refused = |message: &str| ApiError::new(ErrorKind::BadRequest, message);
    let name = match body.get("DatabaseName") {
        Some(Value::String(name)) => name,
        Some(Value::Null) | None => return Err(refused("Name cannot be null or empty.")),
        Some(_) => return Err(refused("'DatabaseName' must be a text.")),
    };
    let name = DatabaseName::new(name).map_err(|error| refused(&error.to_string()))?;
    check_record_settings(body.get("Settings"))?;
    let disabled = match body.get("Disabled") {
        Some(Value::Bool(disabled)) => *disabled,
        Some(Value::Null) | None => false,
        Some(_) => {
            let message = "'Disabled' of a record must be true or false.";
            return Err(ApiError::new(ErrorKind::Format, message));
        }
    };
    let request_id = call.query().get("raft-request-id").map(str::to_owned);
    // Only a restore may say that a database is incomplete: the next start would remove it.
    let mut record = RecordBody::read(&call.body);
    let body = match record.is_restoring() {
        true => {
            record.set_restoring(false);
            record.to_json()
        }
        false => call.body.to_vec(),
    };
    Ok(NewDatabase { name, disabled, topology: None, body, request_id })
}

/// `DELETE /admin/databases`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let names = texts_of(&body, "DatabaseNames")?;
        let hard = body.get("HardDelete").and_then(Value::as_bool).unwrap_or(false);
        let nodes = match body.get("FromNodes") {
            Some(Value::Array(_)) => texts_of(&body, "FromNodes")?,
            Some(_) | None => Vec::new(),
        };
        let wait_max = match body.get("TimeToWaitForConfirmation") {
            Some(Value::Null) | None => DELETION_WAIT_MAX,
            Some(time) => time_of(time)?,
        };
        let engine = Arc::clone(&call.state.engine);
        let records = names.iter().filter_map(|name| engine.record(name));
        let members: BTreeSet<NodeTag> =
            records.flat_map(|record| record.topology.nodes().collect::<Vec<_>>()).collect();
        let deleted = blocking(move || {
            Ok(match nodes.is_empty() {
                true => engine.delete_databases(&names, hard)?,
                false => engine.take_databases_from(&names, &nodes, hard)?,
            })
        })
        .await?;
        let (mut index, mut left) = (None, Vec::new());
        for deleted in deleted {
            index = Some(deleted.index);
            left.extend(deleted.left.into_iter().map(files_left_json));
        }
        let members: Vec<NodeTag> = members.into_iter().collect();
        let pending = match index {
            Some(index) => call.state.engine.seen_by(&members, index, wait_max).await,
            None => Vec::new(),
        };
        let pending: Vec<String> = pending.into_iter().map(|tag| tag.to_string()).collect();
        let last_index = index.map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX));
        let mut answer = json!({"RaftCommandIndex": last_index, "PendingDeletes": pending});
        if !left.is_empty() {
            answer["FilesLeft"] = Value::from(left);
        }
        Ok(Answer::shape(StatusCode::OK, &answer))
    })
}

/// `POST /admin/databases/leave`: has this node leave a database, for another node that was asked for it.
pub(crate) fn leave(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let database = query.single_non_empty("name")?.to_owned();
        let group = DatabaseId::parse(query.required("group")?);
        let group =
            group.ok_or_else(|| ApiError::argument("'group' is not the id of a topology"))?;
        let node = query.required("node")?.to_owned();
        let removes_files = query.bool("hardDelete")?.unwrap_or(false);
        drop(query);
        let engine = Arc::clone(&call.state.engine);
        let node = node.parse::<NodeTag>().ok().filter(|node| *node == engine.node_tag());
        let node = node.ok_or_else(|| ApiError::argument("'node' is not the tag of this node"))?;
        let departure = Departure { database, group, node, removes_files };
        let index = blocking(move || Ok(engine.depart(&departure)?)).await?;
        Ok(Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": index})))
    })
}

/// A time that a client waits at most.
fn time_of(value: &Value) -> Result<Duration, ApiError> {
    let time = value.as_str().and_then(|text| text.parse::<TimeSpan>().ok());
    let refused = || {
        let message = "'TimeToWaitForConfirmation' must be a time such as '00:00:15'.";
        ApiError::new(ErrorKind::Format, message)
    };
    time.map(TimeSpan::to_duration).ok_or_else(refused)
}

fn files_left_json(left: FilesLeft) -> Value {
    let paths: Vec<String> = left.paths.iter().map(|path| path.display().to_string()).collect();
    json!({"DatabaseName": left.database, "Paths": paths, "Reason": left.reason})
}

/// `POST /admin/databases/disable`.
pub(crate) fn disable(call: Call) -> Answering {
    toggle(call, true)
}

/// `POST /admin/databases/enable`.
pub(crate) fn enable(call: Call) -> Answering {
    toggle(call, false)
}

fn toggle(call: Call, disabled: bool) -> Answering {
    Box::pin(async move {
        let names = texts_of(&read_object(&call.body)?, "DatabaseNames")?;
        let state = call.state;
        blocking(move || {
            let mut statuses = Vec::with_capacity(names.len());
            for name in &names {
                statuses.push(toggle_one(&state, name, disabled)?);
            }
            Ok(Answer::shape(StatusCode::OK, &json!({"Status": statuses})))
        })
        .await
    })
}

fn toggle_one(state: &ServerState, name: &str, disabled: bool) -> Result<ToggleStatus, ApiError> {
    match state.engine.set_disabled(name, disabled) {
        Ok(_) => Ok(ToggleStatus::done(name, disabled)),
        Err(EngineError::DatabaseMissing { .. }) => Ok(ToggleStatus::missing(name)),
        Err(error) => Err(error.into()),
    }
}

/// `GET /debug/is-loaded`.
pub(crate) fn is_loaded(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    call.check_database(name)?;
    let is_loaded = call.state.engine.if_open(name).is_some();
    Ok(Answer::shape(StatusCode::OK, &json!({"DatabaseName": name, "IsLoaded": is_loaded})))
}
