//! The workers of subscriptions, for operators; and a dry run of a subscription's query.

use engine::position_of;
use http::StatusCode;
use model::{Etag, date, ticks::TICKS_PER_MILLISECOND};
use serde_json::{Value, json};
use storage::CountedOutput;
use subscriptions::{
    ActivityFacts, BatchFacts, EndedConnection, ReadError, Standing, Subscription, WorkerShared,
    changes_behind, preview,
};
use wire::SubscriptionBody;

use crate::{
    answers::{
        answer::Answer,
        answer_memory::{counting_memory, wait_for_room},
    },
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::subscriptions::{for_each, named_by, shown_time, shown_vector},
    http::router::Answering,
    tcp::read_error,
};

/// Maximum number of changes that are counted as the lag of a subscription; higher lags are
/// reported as this.
const LAG_MAX: u64 = 1_000_000;
/// Default number of rows of a dry run.
const TRIAL_ROWS: i32 = 128;

/// Workers of a subscription in the protocol's form.
pub(crate) struct ConnectionsShown {
    /// The active workers.
    pub(crate) working: Value,
    /// Those that wait to become active.
    pub(crate) waiting: Value,
    /// Those that have disconnected.
    pub(crate) past: PastShown,
}

/// Disconnected workers, and connections that were rejected.
pub(crate) struct PastShown {
    pub(crate) ended: Value,
    pub(crate) rejected: Value,
}

/// The connections of a subscription.
pub(crate) fn connections_json(subscription: Option<&Subscription>) -> ConnectionsShown {
    let Some(subscription) = subscription else {
        let past = PastShown { ended: json!([]), rejected: json!([]) };
        return ConnectionsShown { working: json!([]), waiting: json!([]), past };
    };
    let connections = subscription.connections();
    let of_standing = |standing: Standing| {
        let chosen = connections.iter().filter(|worker| worker.standing() == standing);
        chosen.map(|worker| connection_json(worker)).collect::<Vec<Value>>()
    };
    let past = subscription.past();
    let ended = |connections: Vec<&EndedConnection>| {
        let shown = connections.into_iter().map(|ended| ended_json(subscription, ended));
        Value::Array(shown.collect())
    };
    ConnectionsShown {
        working: Value::Array(of_standing(Standing::Works)),
        waiting: Value::Array(of_standing(Standing::Waits)),
        past: PastShown {
            ended: ended(past.ended().collect()),
            rejected: ended(past.rejected().collect()),
        },
    }
}

fn connection_json(worker: &WorkerShared) -> Value {
    let activity = worker.activity();
    let facts = activity.facts();
    let so_far = activity.so_far();
    let count = |count: u64| json!({"Count": count});
    json!({
        "ClientUri": facts.client_address,
        "WorkerId": facts.worker_id,
        "Strategy": activity.strategy().name(),
        "Stats": {
            "AckRate": count(so_far.acknowledgements),
            "BytesRate": count(so_far.bytes),
            "ConnectedAt": date::format(facts.connected_ticks),
            "DocsRate": count(so_far.documents),
            "LastAckReceivedAt": shown_time(so_far.last_acknowledged_ticks),
            "LastMessageSentAt": shown_time(so_far.last_sent_ticks),
        },
        "ConnectionException": so_far.exception,
        "TcpConnectionStats": {
            "Id": facts.connection,
            "Operation": "Subscription",
            "ClientUri": facts.client_address,
            "ConnectedAt": date::format(facts.connected_ticks),
        },
        "RecentSubscriptionStatuses": so_far.steps,
    })
}

fn ended_json(subscription: &Subscription, ended: &EndedConnection) -> Value {
    json!({
        "ClientUri": ended.facts.client_address,
        "Query": subscription.query_text(),
        "Strategy": ended.strategy.name(),
        "Date": date::format(ended.facts.connected_ticks),
        "ConnectionException": ended.activity.exception,
        "RecentSubscriptionStatuses": ended.activity.steps,
    })
}

/// `GET /subscriptions/connection-details`.
pub(crate) fn details(call: &Call) -> Result<Answer, ApiError> {
    let name = call.query().single_non_empty("name")?.to_owned();
    let known = named_by(call, Some(&name), None).ok();
    let subscriptions = call.database()?.subscriptions();
    let subscription = known.and_then(|record| subscriptions.get(record.id));
    let connections = subscription.as_ref().map(|found| found.connections()).unwrap_or_default();
    let results: Vec<Value> = connections
        .iter()
        .map(|worker| {
            let facts = worker.activity().facts();
            json!({
                "ClientUri": facts.client_address,
                "WorkerId": facts.worker_id,
                "Strategy": worker.activity().strategy().name(),
            })
        })
        .collect();
    let mode = match &subscription {
        Some(subscription) if subscription.is_shared() => "Concurrent",
        Some(_) if !results.is_empty() => "Single",
        Some(_) | None => "None",
    };
    let answer = json!({"Results": results, "SubscriptionMode": mode});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `POST /subscriptions/drop`.
pub(crate) fn drop_workers(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = query.long("id")?.and_then(|id| u64::try_from(id).ok());
    let record = named_by(call, query.get("name"), id)?;
    call.database()?.subscriptions().drop_workers(record.id, query.get("workerId"));
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /debug/subscriptions/running`: the lag of each subscription, its worker and throughput, and
/// the last errors.
pub(crate) fn running(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let mut results = Vec::new();
    for_each(call, |record| {
        let Some(subscription) = database.subscriptions().get(record.id) else { return Ok(true) };
        let tx = database.read();
        let cursor = subscription.cursor();
        let lag = changes_behind(&tx, subscription.query(), cursor, LAG_MAX).map_err(read_error)?;
        let workers: Vec<Value> = subscription
            .connections()
            .iter()
            .map(|worker| {
                let mut shown = connection_json(worker);
                let so_far = worker.activity().so_far();
                shown["Batches"] = batches_json(&so_far);
                shown["LastFailedDocument"] = failed_json(&so_far);
                shown
            })
            .collect();
        let past = connections_json(Some(&subscription)).past;
        results.push(json!({
            "SubscriptionId": record.id,
            "SubscriptionName": record.name,
            "ChangeVectorForNextBatchStartingPoint": shown_vector(record),
            "LastEtagLookedAt": cursor.0,
            "ChangesBehind": lag,
            "UnacknowledgedDocuments": subscription.unsettled(),
            "LastBatchAckTime": shown_time(record.last_acknowledged_ticks),
            "Workers": workers,
            "RecentConnections": past.ended,
            "RecentRejectedConnections": past.rejected,
        }));
        Ok(true)
    })?;
    let answer = json!({"@metadata": call.state.debug_metadata(), "Results": results});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn batches_json(activity: &ActivityFacts) -> Value {
    let milliseconds = |ticks: i64| ticks as f64 / TICKS_PER_MILLISECOND as f64;
    let shown = |batch: &BatchFacts| {
        let waited = batch.sent_ticks.zip(batch.acknowledged_ticks);
        json!({
            "Began": date::format(batch.began_ticks),
            "Documents": batch.documents,
            "FailedDocuments": batch.failed,
            "SendingInMs": batch.sent_ticks.map(|sent| milliseconds(sent - batch.began_ticks)),
            "AcknowledgingInMs": waited.map(|(sent, done)| milliseconds(done - sent)),
        })
    };
    Value::Array(activity.batches.iter().map(shown).collect())
}

fn failed_json(activity: &ActivityFacts) -> Value {
    let failed = activity.failed_document.as_ref();
    failed.map_or(Value::Null, |failed| json!({"Id": failed.id, "Error": failed.error}))
}

/// `POST /subscriptions/try`: the results of a query. Nothing is stored.
pub(crate) fn try_out(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.database()?.record().name.lower_cased().to_owned();
        let place = call.state.rooms.counting.take(&name).await?;
        blocking(move || {
            let _place = place;
            previewed(&call)
        })
        .await
    })
}

fn previewed(call: &Call) -> Result<Answer, ApiError> {
    let body = SubscriptionBody::read(&call.body)?;
    let page_size = call.query().int("pageSize")?.unwrap_or(TRIAL_ROWS);
    let text = body.query.as_deref().unwrap_or_default();
    let query = call.state.engine.check_subscription_query(text)?;
    if query.contains_script() {
        call.check_scripts()?;
    }
    let database = call.database()?;
    let position = position_of(database, &body.start(true)?)?;
    let after = position.map_or(Etag::ZERO, |position| position.cursor);
    let rows_max = usize::try_from(page_size).unwrap_or(0);
    let memory = counting_memory(&call.state);
    let scripts = call.state.engine.scripts();
    let (tx, values) = (database.read(), database.values());
    let output = wait_for_room(&memory, ReadError::may_find_memory_later, || {
        let mut output = CountedOutput::new(&memory);
        preview((&tx, Some(&values)), &query, after, rows_max, scripts, &mut output)?;
        Ok(output)
    });
    Ok(Answer::counted_json(output.map_err(read_error)?))
}
