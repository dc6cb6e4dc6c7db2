//! Subscriptions: creating, changing and listing them.

use std::sync::Arc;

use cluster_state::{
    Applied, Command, Outcome, SubscriptionCommand, SubscriptionOutcome, SubscriptionPosition,
    SubscriptionRecord, SubscriptionSettings,
};
use database::Database;
use http::StatusCode;
use model::{DatabaseId, date};
use serde_json::{Map, Value, json};
use subscriptions::Ended;
use wire::{ErrorKind, SubscriptionBody, SubscriptionStart};

use crate::{
    answers::{answer::Answer, counted_list::CountedList},
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::subscription_workers::{PastShown, connections_json},
    http::router::Answering,
    server_state::ServerState,
    tcp::check_query,
};

/// `PUT /subscriptions`.
pub(crate) fn create(call: Call) -> Answering {
    Box::pin(async move {
        let body = SubscriptionBody::read(&call.body)?;
        let id = call.query().long("id")?.and_then(|id| u64::try_from(id).ok());
        create_from(&call, body, id).await
    })
}

async fn create_from(
    call: &Call,
    body: SubscriptionBody,
    id: Option<u64>,
) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let query = body.query.clone().unwrap_or_default();
    checked_query(call, &query).await?;
    let position = position_of(database, &body.start(false)?)?.unwrap_or_default();
    let is_disabled = call.query().bool("disabled")?.or(body.disabled).unwrap_or(false);
    let command = SubscriptionCommand::Create {
        database: database.record().topology_id,
        id,
        name: body.name.clone().filter(|name| !name.is_empty()),
        settings: SubscriptionSettings {
            query,
            mentor_node: body.mentor_node,
            is_pinned: body.pin_to_mentor_node.unwrap_or(false),
            is_disabled,
        },
        position,
    };
    match submit(call, command).await? {
        SubscriptionOutcome::Done(record) => Ok(named(&record)),
        SubscriptionOutcome::NameTaken => {
            Err(name_taken(database, body.name.as_deref().unwrap_or_default()))
        }
        other => Err(unexpected(&other)),
    }
}

fn named(record: &SubscriptionRecord) -> Answer {
    Answer::shape(StatusCode::CREATED, &json!({"Name": record.name}))
}

fn name_taken(database: &Database, name: &str) -> ApiError {
    let database = database.record();
    let message = format!(
        "A subscription could not be modified because the name 'values/{}/subscriptions/{name}' is \
         already in use in a subscription with different Id.",
        database.name.as_str()
    );
    ApiError::new(ErrorKind::StateChangeRefused, message)
}

fn unexpected(outcome: &SubscriptionOutcome) -> ApiError {
    ApiError::new(
        ErrorKind::Internal,
        format!("unexpected outcome of a subscription command: {outcome:?}"),
    )
}

/// Compiling scripts takes a while, so this is not done inline.
async fn checked_query(call: &Call, query: &str) -> Result<(), ApiError> {
    let (state, query) = (Arc::clone(&call.state), query.to_owned());
    blocking(move || check_query(&state, &query).map(drop)).await
}

/// The start of a subscription; `None` if the request has none.
pub(crate) fn position_of(
    database: &Database,
    start: &SubscriptionStart,
) -> Result<Option<SubscriptionPosition>, ApiError> {
    let tx = database.read();
    let read_at = database.environment().point_of(&tx)?;
    let change_vector = match start {
        SubscriptionStart::Unspecified => return Ok(None),
        SubscriptionStart::BeginningOfTime => return Ok(Some(SubscriptionPosition::default())),
        SubscriptionStart::LastDocument => {
            let last = documents::newest_first(&tx)?.next();
            let Some(last) = last else { return Ok(Some(SubscriptionPosition::default())) };
            let last = last?;
            return Ok(Some(SubscriptionPosition {
                cursor: last.etag(),
                change_vector: last.change_vector().to_owned(),
                unsettled: Vec::new(),
                read_at,
            }));
        }
        SubscriptionStart::After(change_vector) => change_vector,
    };
    Ok(Some(SubscriptionPosition {
        cursor: change_vector.etag_of(database.identity().database_id),
        change_vector: change_vector.as_str().to_owned(),
        unsettled: Vec::new(),
        read_at,
    }))
}

async fn submit(
    call: &Call,
    command: SubscriptionCommand,
) -> Result<SubscriptionOutcome, ApiError> {
    let request_id = call.query().get("raft-request-id").map(str::to_owned);
    let command = Command::Subscription(command);
    let submitted = call.state.engine.submit_to_cluster(&command, request_id.as_deref());
    let submitted = submitted?;
    match submitted.await? {
        Applied { outcome: Outcome::Subscription(outcome), .. } => Ok(outcome),
        _ => Err(ApiError::new(
            ErrorKind::Internal,
            "the outcome of the subscription's command is missing",
        )),
    }
}

pub(crate) fn missing_name(name: &str) -> ApiError {
    let message = format!("Subscription with name '{name}' was not found in server store");
    ApiError::new(ErrorKind::SubscriptionDoesNotExist, message)
}

fn missing_id(id: u64) -> ApiError {
    let message = format!("Subscription with id '{id}' was not found in server store");
    ApiError::new(ErrorKind::SubscriptionDoesNotExist, message)
}

/// The subscription with a name.
pub(crate) fn stored(
    state: &ServerState,
    database: DatabaseId,
    name: &str,
) -> Result<SubscriptionRecord, ApiError> {
    let found = state.engine.cluster_state().subscription(database, name);
    found?.ok_or_else(|| missing_name(name))
}

/// The subscription that a request identifies by name or number.
pub(crate) fn named_by(
    call: &Call,
    name: Option<&str>,
    id: Option<u64>,
) -> Result<SubscriptionRecord, ApiError> {
    let database = call.database()?.record().topology_id;
    match (name, id) {
        (Some(name), _) => stored(&call.state, database, name),
        (None, Some(id)) => {
            let found = call.state.engine.cluster_state().subscription_by_id(database, id);
            found?.ok_or_else(|| missing_id(id))
        }
        (None, None) => Err(missing_name("")),
    }
}

/// `POST /subscriptions/update`.
pub(crate) fn update(call: Call) -> Answering {
    Box::pin(async move {
        let body = SubscriptionBody::read(&call.body)?;
        let name = body.name.as_deref().filter(|_| body.id.is_none());
        let known = match named_by(&call, name, body.id) {
            Ok(known) => known,
            Err(_) if body.create_new == Some(true) => {
                let id = body.id;
                return create_from(&call, body, id).await;
            }
            Err(missing) => return Err(missing),
        };
        update_known(&call, known, body).await
    })
}

async fn update_known(
    call: &Call,
    known: SubscriptionRecord,
    body: SubscriptionBody,
) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let position = position_of(database, &body.start(true)?)?
        .filter(|position| position.change_vector != known.position.change_vector);
    let name = body.name.filter(|name| !name.is_empty()).unwrap_or_else(|| known.name.clone());
    let settings = SubscriptionSettings {
        query: body.query.unwrap_or_else(|| known.settings.query.clone()),
        mentor_node: body.mentor_node.or_else(|| known.settings.mentor_node.clone()),
        is_pinned: body.pin_to_mentor_node.unwrap_or(known.settings.is_pinned),
        is_disabled: body.disabled.unwrap_or(known.settings.is_disabled),
    };
    if position.is_none() && settings == known.settings && name == known.name {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let has_new_query = settings.query != known.settings.query;
    if has_new_query {
        checked_query(call, &settings.query).await?;
    }
    let (is_moved, is_disabled) = (position.is_some(), settings.is_disabled);
    let command = SubscriptionCommand::Update {
        database: database.record().topology_id,
        id: known.id,
        expected: None,
        name: name.clone(),
        settings,
        position,
    };
    let record = match submit(call, command).await? {
        SubscriptionOutcome::Done(record) => record,
        SubscriptionOutcome::NameTaken => return Err(name_taken(database, &name)),
        SubscriptionOutcome::Missing => return Err(missing_id(known.id)),
        other => return Err(unexpected(&other)),
    };
    let ended = match () {
        () if is_disabled => Some(Ended::Disabled),
        () if has_new_query => Some(Ended::QueryChanged),
        () if is_moved || name != known.name => Some(Ended::Moved),
        () => None,
    };
    if let Some(ended) = ended {
        database.subscriptions().end(known.id, &ended);
    }
    Ok(named(&record))
}

/// `DELETE /subscriptions`, and the same for tasks.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("taskName")?.to_owned();
        remove(&call, name).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// Deletes a subscription, if there is one.
pub(crate) async fn remove(call: &Call, name: String) -> Result<(), ApiError> {
    let database = call.database()?;
    let command = SubscriptionCommand::Delete { database: database.record().topology_id, name };
    match submit(call, command).await? {
        SubscriptionOutcome::Deleted(id) => {
            if let Some(id) = id {
                database.subscriptions().end(id, &Ended::Deleted);
            }
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

/// Disables or enables a subscription; returns its new state.
pub(crate) async fn set_disabled(
    call: &Call,
    known: &SubscriptionRecord,
    is_disabled: bool,
) -> Result<SubscriptionRecord, ApiError> {
    let database = call.database()?;
    let command = SubscriptionCommand::Disable {
        database: database.record().topology_id,
        id: known.id,
        is_disabled,
    };
    let record = match submit(call, command).await? {
        SubscriptionOutcome::Done(record) => *record,
        SubscriptionOutcome::Missing => return Err(missing_id(known.id)),
        other => return Err(unexpected(&other)),
    };
    if is_disabled {
        database.subscriptions().end(known.id, &Ended::Disabled);
    }
    Ok(record)
}

/// A timestamp in the protocol's form.
pub(crate) fn shown_time(ticks: Option<i64>) -> Value {
    ticks.map_or(Value::Null, |ticks| Value::String(date::format(ticks)))
}

/// A change vector in the protocol's form.
pub(crate) fn shown_vector(record: &SubscriptionRecord) -> Value {
    let vector = &record.position.change_vector;
    if vector.is_empty() { Value::Null } else { Value::String(vector.clone()) }
}

/// `GET /subscriptions/state`.
pub(crate) fn state(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = query.long("id")?.and_then(|id| u64::try_from(id).ok());
    let record = named_by(call, query.get("name"), id)?;
    let settings = &record.settings;
    let answer = json!({
        "Query": settings.query,
        "ChangeVectorForNextBatchStartingPoint": shown_vector(&record),
        "SubscriptionId": record.id,
        "SubscriptionName": record.name,
        "MentorNode": settings.mentor_node,
        "PinToMentorNode": settings.is_pinned,
        "NodeTag": record.node_tag,
        "LastBatchAckTime": shown_time(record.last_acknowledged_ticks),
        "LastClientConnectionTime": shown_time(record.last_connected_ticks),
        "Disabled": settings.is_disabled,
        "RaftCommandIndex": record.index,
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /subscriptions`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (name, id) = (query.get("name"), query.long("id")?);
    let database = call.database()?;
    let head = format!("{{\"@metadata\":{},\"Results\":[", json!(call.state.debug_metadata()));
    let mut list = CountedList::begin(&call.state, head.as_bytes());
    let mut add = |record: &SubscriptionRecord| {
        list.add(record_bytes(record), |out| {
            out.extend_from_slice(Value::Object(listed(database, record)).to_string().as_bytes());
            Ok(())
        })
    };
    match (name, id) {
        (None, None) => {
            let is_running = query.bool("running")?.unwrap_or(false);
            let start = usize::try_from(query.start()?).unwrap_or(0);
            let page_size = usize::try_from(query.page_size()?).unwrap_or(usize::MAX);
            let has_workers = |record: &SubscriptionRecord| {
                let subscription = database.subscriptions().get(record.id);
                subscription.is_some_and(|subscription| !subscription.connections().is_empty())
            };
            let (mut skipped, mut taken) = (0, 0);
            for_each(call, |record| {
                if is_running && !has_workers(record) {
                    return Ok(true);
                }
                if skipped < start {
                    skipped += 1;
                    return Ok(true);
                }
                if taken == page_size {
                    return Ok(false);
                }
                taken += 1;
                add(record).map(|()| true)
            })?;
        }
        (name, id) => add(&named_by(call, name, id.and_then(|id| u64::try_from(id).ok()))?)?,
    }
    Ok(list.end(b"]}"))
}

/// Visits the subscriptions of the database of a request, one at a time, until `visit` returns `false`.
pub(crate) fn for_each(
    call: &Call,
    mut visit: impl FnMut(&SubscriptionRecord) -> Result<bool, ApiError>,
) -> Result<(), ApiError> {
    let state = call.state.engine.cluster_state();
    for record in state.subscriptions(call.database()?.record().topology_id)? {
        if !visit(&record?)? {
            break;
        }
    }
    Ok(())
}

/// Approximate size of a listed subscription: its query may be escaped, and its connections are few.
pub(crate) fn record_bytes(record: &SubscriptionRecord) -> usize {
    2 * record.settings.query.len() + 8 * 1024
}

fn listed(database: &Database, record: &SubscriptionRecord) -> Map<String, Value> {
    let settings = &record.settings;
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
    put("SubscriptionId", record.id.into());
    put("SubscriptionName", record.name.clone().into());
    put("ChangeVectorForNextBatchStartingPoint", shown_vector(record));
    put("Query", settings.query.clone().into());
    put("Disabled", settings.is_disabled.into());
    put("LastClientConnectionTime", shown_time(record.last_connected_ticks));
    put("LastBatchAckTime", shown_time(record.last_acknowledged_ticks));
    put("MentorNode", settings.mentor_node.clone().into());
    put("PinToMentorNode", settings.is_pinned.into());
    let subscription = database.subscriptions().get(record.id);
    let shown = connections_json(subscription.as_deref());
    put("Connections", shown.working);
    let PastShown { ended, rejected } = shown.past;
    put("RecentConnections", ended);
    put("RecentRejectedConnections", rejected);
    put("CurrentPendingConnections", shown.waiting);
    entry
}
