//! What workers did, for whoever operates the server. Nothing here decides anything.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{holders::Strategy, subscription::Ended};

/// Connections that came to their end, and those that were refused, that are remembered.
const PAST_MAX: usize = 10;
/// Steps of a connection that are remembered.
const STEPS_MAX: usize = 15;
/// Batches of a connection that are remembered.
const BATCHES_MAX: usize = 25;

/// Who a worker is.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFacts {
    /// The number of its connection.
    pub connection: u64,
    /// The address it comes from.
    pub client_address: String,
    /// What its client calls it.
    pub worker_id: String,
    /// When it came, in ticks of UTC.
    pub connected_ticks: i64,
}

/// One batch of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchTiming {
    /// When its first document was read, in ticks of UTC.
    pub began_ticks: i64,
    /// Documents.
    pub documents: u64,
    /// How long it took to send, in ticks.
    pub sending_ticks: i64,
    /// How long the worker took to acknowledge it, in ticks; `None` while it has not.
    pub acknowledging_ticks: Option<i64>,
}

#[derive(Debug, Default)]
struct Seen {
    last_sent_ticks: Option<i64>,
    last_acknowledged_ticks: Option<i64>,
    steps: VecDeque<String>,
    batches: VecDeque<BatchTiming>,
    exception: Option<String>,
}

/// What one worker did.
#[derive(Debug)]
pub struct ConnectionActivity {
    facts: ConnectionFacts,
    strategy: Strategy,
    documents: AtomicU64,
    bytes: AtomicU64,
    acknowledgements: AtomicU64,
    seen: Mutex<Seen>,
}

impl ConnectionActivity {
    pub(crate) fn new(facts: ConnectionFacts, strategy: Strategy) -> ConnectionActivity {
        ConnectionActivity {
            facts,
            strategy,
            documents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            acknowledgements: AtomicU64::new(0),
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who it is.
    pub fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    /// How it deals with others.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How many documents, bytes and acknowledgements there were.
    pub fn counts(&self) -> (u64, u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.documents), load(&self.bytes), load(&self.acknowledgements))
    }

    /// When something was last sent to it, and when it last acknowledged, in ticks of UTC.
    pub fn last_times(&self) -> (Option<i64>, Option<i64>) {
        let seen = self.seen();
        (seen.last_sent_ticks, seen.last_acknowledged_ticks)
    }

    /// What it did last, in order.
    pub fn steps(&self) -> Vec<String> {
        self.seen().steps.iter().cloned().collect()
    }

    /// Its last batches, in order.
    pub fn batches(&self) -> Vec<BatchTiming> {
        self.seen().batches.iter().copied().collect()
    }

    /// Why it failed, if it did.
    pub fn exception(&self) -> Option<String> {
        self.seen().exception.clone()
    }

    /// Remembers a step.
    pub fn step(&self, text: String) {
        push(&mut self.seen().steps, text, STEPS_MAX);
    }

    /// Remembers why it failed.
    pub fn failed(&self, message: String) {
        self.seen().exception = Some(message);
    }

    /// Documents were read for it.
    pub(crate) fn sent(&self, documents: u64, bytes: u64) {
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A batch was sent.
    pub fn batch_sent(&self, batch: BatchTiming, now_ticks: i64) {
        let mut seen = self.seen();
        seen.last_sent_ticks = Some(now_ticks);
        push(&mut seen.batches, batch, BATCHES_MAX);
    }

    /// The last batch was acknowledged.
    pub fn batch_acknowledged(&self, now_ticks: i64) {
        self.acknowledgements.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen();
        seen.last_acknowledged_ticks = Some(now_ticks);
        let sent = seen.last_sent_ticks.unwrap_or(now_ticks);
        if let Some(batch) = seen.batches.back_mut() {
            batch.acknowledging_ticks = Some(now_ticks - sent);
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, items_max: usize) {
    if list.len() == items_max {
        list.pop_front();
    }
    list.push_back(item);
}

/// A connection that is over, or never was accepted.
#[derive(Clone, Debug)]
pub struct EndedConnection {
    /// Who it was.
    pub facts: ConnectionFacts,
    /// How it dealt with others.
    pub strategy: Strategy,
    /// Why it ended; `None` when the client went.
    pub exception: Option<String>,
    /// What it did last.
    pub steps: Vec<String>,
}

/// The last connections of a subscription.
#[derive(Debug, Default)]
pub struct PastConnections {
    ended: VecDeque<EndedConnection>,
    rejected: VecDeque<EndedConnection>,
}

impl PastConnections {
    /// Connections that had worked, the last one last.
    pub fn ended(&self) -> impl Iterator<Item = &EndedConnection> {
        self.ended.iter()
    }

    /// Connections that were refused, the last one last.
    pub fn rejected(&self) -> impl Iterator<Item = &EndedConnection> {
        self.rejected.iter()
    }

    pub(crate) fn add(&mut self, activity: &ConnectionActivity, ended: Option<Ended>) {
        let exception =
            activity.exception().or_else(|| ended.map(|ended| ended.reason().to_owned()));
        let connection = EndedConnection {
            facts: activity.facts.clone(),
            strategy: activity.strategy,
            exception,
            steps: activity.steps(),
        };
        push(&mut self.ended, connection, PAST_MAX);
    }

    pub(crate) fn reject(&mut self, facts: ConnectionFacts, strategy: Strategy, exception: &str) {
        let exception = Some(exception.to_owned());
        let connection = EndedConnection { facts, strategy, exception, steps: Vec::new() };
        push(&mut self.rejected, connection, PAST_MAX);
    }
}
