//! Subscriptions: creating, changing and listing them.

use cluster_state::{SubscriptionRecord, SubscriptionSettings};
use database::Database;
use engine::{NewSubscription, SubscriptionKey, SubscriptionUpdate};
use http::StatusCode;
use model::date;
use serde_json::{Map, Value, json};
use wire::SubscriptionBody;

use crate::{
    answers::{answer::Answer, counted_list::CountedList},
    api_error::ApiError,
    call::Call,
    handlers::subscription_workers::{PastShown, connections_json},
};

/// `PUT /subscriptions`.
pub(crate) fn create(call: &Call) -> Result<Answer, ApiError> {
    let body = SubscriptionBody::read(&call.body)?;
    let id = call.query().long("id")?.and_then(|id| u64::try_from(id).ok());
    create_from(call, body, id)
}

fn create_from(call: &Call, body: SubscriptionBody, id: Option<u64>) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let start = body.start(false)?;
    let is_disabled = call.query().bool("disabled")?.or(body.disabled).unwrap_or(false);
    let new = NewSubscription {
        id,
        name: body.name.filter(|name| !name.is_empty()),
        settings: SubscriptionSettings {
            query: body.query.unwrap_or_default(),
            mentor_node: body.mentor_node,
            is_pinned: body.pin_to_mentor_node.unwrap_or(false),
            is_disabled,
        },
        start,
    };
    Ok(named(&call.state.engine.create_subscription(database, new, request_id(call).as_deref())?))
}

fn named(record: &SubscriptionRecord) -> Answer {
    Answer::shape(StatusCode::CREATED, &json!({"Name": record.name}))
}

fn request_id(call: &Call) -> Option<String> {
    call.query().get("raft-request-id").map(str::to_owned)
}

/// How a request identifies a subscription: by its name, or else by its number.
fn key_of(name: Option<&str>, id: Option<u64>) -> SubscriptionKey {
    match (name, id) {
        (None, Some(id)) => SubscriptionKey::Id(id),
        // No subscription has an empty name.
        (name, _) => SubscriptionKey::Name(name.unwrap_or_default().to_owned()),
    }
}

/// The subscription that a request identifies by name or number.
pub(crate) fn named_by(
    call: &Call,
    name: Option<&str>,
    id: Option<u64>,
) -> Result<SubscriptionRecord, ApiError> {
    Ok(call.state.engine.subscription(call.database()?, &key_of(name, id))?)
}

/// `POST /subscriptions/update`.
pub(crate) fn update(call: &Call) -> Result<Answer, ApiError> {
    let body = SubscriptionBody::read(&call.body)?;
    let key = key_of(body.name.as_deref().filter(|_| body.id.is_none()), body.id);
    let (engine, database) = (&call.state.engine, call.database()?);
    if let Err(missing) = engine.subscription(database, &key) {
        let id = body.id;
        return match body.create_new {
            Some(true) => create_from(call, body, id),
            Some(false) | None => Err(missing.into()),
        };
    }
    let update = SubscriptionUpdate {
        start: body.start(true)?,
        name: body.name.filter(|name| !name.is_empty()),
        query: body.query,
        mentor_node: body.mentor_node,
        is_pinned: body.pin_to_mentor_node,
        is_disabled: body.disabled,
    };
    let request_id = request_id(call);
    let updated = engine.update_subscription(database, &key, &update, request_id.as_deref())?;
    Ok(match updated {
        Some(record) => named(&record),
        None => Answer::empty(StatusCode::NOT_MODIFIED),
    })
}

/// `DELETE /subscriptions`.
pub(crate) fn delete(call: &Call) -> Result<Answer, ApiError> {
    remove(call, call.query().single_non_empty("taskName")?)?;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// Deletes a subscription, if there is one. Blocks.
pub(crate) fn remove(call: &Call, name: &str) -> Result<(), ApiError> {
    let request_id = request_id(call);
    let engine = &call.state.engine;
    Ok(engine.delete_subscription(call.database()?, name, request_id.as_deref())?)
}

/// Disables or enables a subscription; returns its new state. Blocks.
pub(crate) fn set_disabled(
    call: &Call,
    known: &SubscriptionRecord,
    is_disabled: bool,
) -> Result<SubscriptionRecord, ApiError> {
    let (engine, database) = (&call.state.engine, call.database()?);
    let request_id = request_id(call);
    let id = request_id.as_deref();
    Ok(engine.set_subscription_disabled(database, known.id, is_disabled, id)?)
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
