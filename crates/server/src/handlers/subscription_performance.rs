//! Activity of subscription workers, live over a WebSocket: their connections and their batches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use database::Database;
use model::date;
use serde_json::{Map, Value, json};
use subscriptions::{
    ActivityFacts, BatchFacts, ConnectionFacts, Strategy, Subscription, WorkerShared,
};

use crate::{
    api_error::ApiError,
    call::Call,
    feeds::live_feed::{LiveFeed, News},
    http::web_socket::Session,
    server_state::ServerState,
};

/// `GET /subscriptions/performance/live`: every few seconds all subscriptions, with the connections
/// and batches that are in progress or have ended since the last message.
pub(crate) fn live(call: &Call) -> Result<Session, ApiError> {
    let state = Arc::clone(&call.state);
    LiveFeed::begin(call, Performance { state, sent: Sent::default() })
}

/// The live reports for one client.
struct Performance {
    state: Arc<ServerState>,
    sent: Sent,
}

/// What was sent to a reader already.
#[derive(Default)]
struct Sent {
    /// Connections that had ended.
    ended: BTreeSet<u64>,
    /// The last batch of each connection that had one.
    batches: BTreeMap<u64, u64>,
}

impl News for Performance {
    /// Sends something on every call: that shows readers that the server is alive.
    fn take(&mut self, database: &Database) -> Option<Value> {
        let state = self.state.engine.cluster_state();
        let records = match state.subscriptions(database.record().topology_id) {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%error, "subscriptions could not be read");
                return None;
            }
        };
        let mut report = Report {
            before: std::mem::take(&mut self.sent),
            sent: Sent::default(),
            now_ticks: self.state.engine.clock().now().ticks(),
        };
        let results = records.flatten().map(|record| {
            let mut shown = Map::new();
            shown.insert("TaskId".to_owned(), record.id.into());
            shown.insert("TaskName".to_owned(), record.name.into());
            if let Some(subscription) = database.subscriptions().get(record.id) {
                report.add(&subscription, &mut shown);
            }
            Value::Object(shown)
        });
        let results: Vec<Value> = results.collect();
        self.sent = report.sent;
        Some(json!({"Results": results}))
    }

    fn nothing(&self) -> Value {
        json!({"Results": []})
    }
}

/// One connection, whether it has ended or not.
struct Connection {
    facts: ConnectionFacts,
    strategy: Strategy,
    activity: ActivityFacts,
    is_rejected: bool,
}

impl Connection {
    fn of_worker(worker: &WorkerShared) -> Connection {
        let activity = worker.activity();
        Connection {
            facts: activity.facts().clone(),
            strategy: activity.strategy(),
            activity: activity.so_far(),
            is_rejected: false,
        }
    }
}

/// Ended connections come first.
fn connections(subscription: &Subscription) -> Vec<Connection> {
    // One that ends in the meantime is reported twice rather than not at all; the reader identifies
    // it by its number.
    let working = subscription.connections();
    let past = subscription.past();
    let ended = past.ended().map(|ended| (ended, false));
    let rejected = past.rejected().map(|rejected| (rejected, true));
    let past = ended.chain(rejected).map(|(connection, is_rejected)| Connection {
        facts: connection.facts.clone(),
        strategy: connection.strategy,
        activity: connection.activity.clone(),
        is_rejected,
    });
    past.chain(working.iter().map(|worker| Connection::of_worker(worker))).collect()
}

/// One message, and what must be recorded as sent with it.
struct Report {
    before: Sent,
    sent: Sent,
    now_ticks: i64,
}

impl Report {
    fn add(&mut self, subscription: &Subscription, shown: &mut Map<String, Value>) {
        let (mut of_connections, mut of_batches) = (Vec::new(), Vec::new());
        for connection in connections(subscription) {
            let number = connection.facts.connection;
            if !self.before.ended.contains(&number) {
                of_connections.push(self.connection_json(&connection));
            }
            let has_ended = connection.activity.ended_ticks.is_some();
            if has_ended {
                self.sent.ended.insert(number);
            }
            let known = self.before.batches.get(&number).copied().unwrap_or_default();
            let mut complete = known;
            for batch in connection.activity.batches.iter().filter(|batch| known < batch.number) {
                of_batches.push(self.batch_json(&connection, batch));
                if has_ended || batch.acknowledged_ticks.is_some() {
                    complete = batch.number;
                }
            }
            self.sent.batches.insert(number, complete);
        }
        for (name, list) in
            [("ConnectionPerformance", of_connections), ("BatchPerformance", of_batches)]
        {
            if !list.is_empty() {
                shown.insert(name.to_owned(), Value::Array(list));
            }
        }
    }

    fn connection_json(&self, connection: &Connection) -> Value {
        let Connection { facts, strategy, activity, is_rejected } = connection;
        let until = activity.ended_ticks.unwrap_or(self.now_ticks);
        let began = facts.connected_ticks;
        let admitted = activity.admitted_ticks;
        let mut steps = vec![step("ConnectionPending", admitted.unwrap_or(until) - began)];
        steps.extend(admitted.map(|admitted| step("ConnectionActive", until - admitted)));
        let error_type = match (&activity.exception, is_rejected) {
            (_, true) => Some("ConnectionRejected"),
            (Some(_), false) => Some("Error"),
            (None, false) => None,
        };
        json!({
            "ConnectionId": facts.connection,
            "WorkerId": facts.worker_id,
            "ClientUri": facts.client_address,
            "Strategy": strategy.name(),
            "BatchCount": activity.acknowledgements,
            "TotalBatchSizeInBytes": activity.acknowledged_bytes,
            "Exception": activity.exception,
            "ErrorType": error_type,
            "Started": date::format(began),
            "Completed": activity.ended_ticks.map(date::format),
            "DurationInMs": milliseconds(until - began),
            "Details": step_of("Connection", until - began, steps),
        })
    }

    fn batch_json(&self, connection: &Connection, batch: &BatchFacts) -> Value {
        let ended = batch.acknowledged_ticks.or(connection.activity.ended_ticks);
        let until = ended.unwrap_or(self.now_ticks);
        let sent = batch.sent_ticks;
        let mut steps = vec![step("BatchSendDocuments", sent.unwrap_or(until) - batch.began_ticks)];
        steps.extend(sent.map(|sent| step("BatchWaitForAcknowledge", until - sent)));
        let is_acknowledged = batch.acknowledged_ticks.is_some();
        let exception = connection.activity.exception.as_ref().filter(|_| !is_acknowledged);
        let includes = batch.includes;
        json!({
            "BatchId": batch.number,
            "ConnectionId": connection.facts.connection,
            "NumberOfDocuments": batch.documents,
            "SizeOfDocumentsInBytes": batch.bytes,
            "NumberOfIncludedDocuments": includes.documents,
            "SizeOfIncludedDocumentsInBytes": includes.document_bytes,
            "NumberOfIncludedCounters": includes.counters,
            "SizeOfIncludedCountersInBytes": includes.counter_bytes,
            "NumberOfIncludedTimeSeriesEntries": 0,
            "SizeOfIncludedTimeSeriesInBytes": includes.series_bytes,
            "Started": date::format(batch.began_ticks),
            "Completed": ended.map(date::format),
            "Exception": exception,
            "DurationInMs": milliseconds(until - batch.began_ticks),
            "Details": step_of("Batch", until - batch.began_ticks, steps),
        })
    }
}

fn step(name: &str, ticks: i64) -> Value {
    step_of(name, ticks, Vec::new())
}

fn step_of(name: &str, ticks: i64, steps: Vec<Value>) -> Value {
    json!({"Name": name, "DurationInMs": milliseconds(ticks), "Operations": steps})
}

/// Ticks as milliseconds with two decimals.
fn milliseconds(ticks: i64) -> f64 {
    (ticks as f64 / 100.0).round() / 100.0
}
