//! The activity of workers, for monitoring. It has no effect on delivery.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{ended::Ended, holders::Strategy};

/// The number of ended and of rejected connections that are kept.
const PAST_MAX: usize = 10;
/// The number of steps that are kept of a connection.
const STEPS_MAX: usize = 15;
/// The number of batches that are kept of a connection.
const BATCHES_MAX: usize = 25;
/// The length to which an error is truncated, in characters.
const ERROR_CHARACTERS_MAX: usize = 2000;

/// The identity of a worker.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFacts {
    /// The number of its connection.
    pub connection: u64,
    /// The address it comes from.
    pub client_address: String,
    /// The name that its client chose.
    pub worker_id: String,
    /// When it connected, in ticks of UTC.
    pub connected_ticks: i64,
}

/// The size of a batch's includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncludesFacts {
    /// Number of included documents.
    pub documents: u64,
    /// Bytes of these documents.
    pub document_bytes: u64,
    /// Number of included counters.
    pub counters: u64,
    /// Bytes of these counters.
    pub counter_bytes: u64,
    /// Bytes of time series.
    pub series_bytes: u64,
}

/// One batch of a worker. Times are ticks of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// Its number, among those of the database's workers.
    pub number: u64,
    /// When reading its first document began.
    pub began_ticks: i64,
    /// Number of documents in the batch.
    pub documents: u64,
    /// Bytes of these documents.
    pub bytes: u64,
    /// How many of them the query failed on.
    pub failed: u64,
    /// The included documents, counters and time series.
    pub includes: IncludesFacts,
    /// When it was completely sent.
    pub sent_ticks: Option<i64>,
    /// When its acknowledgement was stored.
    pub acknowledged_ticks: Option<i64>,
}

/// A document that a query failed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDocument {
    /// The id of the document.
    pub id: String,
    /// The text of the error.
    pub error: String,
}

/// The activity of a worker so far.
#[derive(Clone, Debug, Default)]
pub struct ActivityFacts {
    /// When it was admitted, in ticks of UTC.
    pub admitted_ticks: Option<i64>,
    /// When it ended, in ticks of UTC.
    pub ended_ticks: Option<i64>,
    /// Documents that were sent.
    pub documents: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Batches that it acknowledged.
    pub acknowledgements: u64,
    /// The bytes of the documents in these.
    pub acknowledged_bytes: u64,
    /// When a batch was last sent, in ticks of UTC.
    pub last_sent_ticks: Option<i64>,
    /// When one was last acknowledged, in ticks of UTC.
    pub last_acknowledged_ticks: Option<i64>,
    /// Its last batches, in order; the last one may be in progress.
    pub batches: Vec<BatchFacts>,
    /// The last document that the query failed on.
    pub failed_document: Option<FailedDocument>,
    /// Why it ended; `None` when the client disconnected, or it has not ended.
    pub exception: Option<String>,
    /// Its last steps, in order.
    pub steps: Vec<String>,
}

#[derive(Debug, Default)]
struct Seen {
    facts: ActivityFacts,
    /// The batch in progress.
    current: Option<BatchFacts>,
    batches: VecDeque<BatchFacts>,
    steps: VecDeque<String>,
}

/// The activity of one worker.
#[derive(Debug)]
pub struct ConnectionActivity {
    facts: ConnectionFacts,
    strategy: Strategy,
    seen: Mutex<Seen>,
}

impl ConnectionActivity {
    pub(crate) fn new(facts: ConnectionFacts, strategy: Strategy) -> ConnectionActivity {
        ConnectionActivity { facts, strategy, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is connected: the facts of the worker's connection.
    pub fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    /// The opening strategy of the worker.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Its activity so far.
    pub fn so_far(&self) -> ActivityFacts {
        let seen = self.seen();
        let current = seen.current.filter(|batch| 0 < batch.documents);
        ActivityFacts {
            batches: seen.batches.iter().copied().chain(current).collect(),
            steps: seen.steps.iter().cloned().collect(),
            ..seen.facts.clone()
        }
    }

    /// Records a step of the connection, for operators; only the newest are kept.
    pub fn step(&self, text: &str) {
        push(&mut self.seen().steps, text.to_owned(), STEPS_MAX);
    }

    /// Records that the worker was admitted.
    pub fn admitted(&self, now_ticks: i64) {
        self.seen().facts.admitted_ticks = Some(now_ticks);
        self.step("The connection was accepted");
    }

    /// Records the end, with the reason unless the client disconnected.
    pub fn ended(&self, why: Option<&str>, now_ticks: i64) {
        let mut seen = self.seen();
        seen.facts.ended_ticks = Some(now_ticks);
        let Some(why) = why else { return };
        let why = beginning(why);
        push(&mut seen.steps, why.clone(), STEPS_MAX);
        seen.facts.exception = Some(why);
    }

    /// Records the beginning of a batch.
    pub(crate) fn batch_begins(&self, number: u64, now_ticks: i64) {
        let batch = BatchFacts { number, began_ticks: now_ticks, ..BatchFacts::default() };
        self.seen().current = Some(batch);
    }

    /// Records documents that were read for a batch.
    pub(crate) fn documents_read(&self, documents: u64, bytes: u64) {
        let mut seen = self.seen();
        seen.facts.documents += documents;
        seen.facts.bytes += bytes;
        if let Some(batch) = &mut seen.current {
            batch.documents += documents;
            batch.bytes += bytes;
        }
    }

    /// Records that the query failed on a document.
    pub(crate) fn document_failed(&self, id: &str, error: &str) {
        let mut seen = self.seen();
        let error = beginning(error);
        seen.facts.failed_document = Some(FailedDocument { id: id.to_owned(), error });
        if let Some(batch) = &mut seen.current {
            batch.failed += 1;
        }
    }

    /// Records that a batch was sent.
    pub fn batch_sent(&self, includes: IncludesFacts, now_ticks: i64) {
        let mut seen = self.seen();
        seen.facts.last_sent_ticks = Some(now_ticks);
        if let Some(batch) = &mut seen.current {
            batch.includes = includes;
            batch.sent_ticks = Some(now_ticks);
        }
    }

    /// Records that the acknowledgement of the batch was stored.
    pub fn batch_acknowledged(&self, now_ticks: i64) {
        let mut seen = self.seen();
        seen.facts.acknowledgements += 1;
        seen.facts.last_acknowledged_ticks = Some(now_ticks);
        if let Some(mut batch) = seen.current.take() {
            batch.acknowledged_ticks = Some(now_ticks);
            seen.facts.acknowledged_bytes += batch.bytes;
            push(&mut seen.batches, batch, BATCHES_MAX);
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, items_max: usize) {
    if list.len() == items_max {
        list.pop_front();
    }
    list.push_back(item);
}

/// An error, truncated.
fn beginning(error: &str) -> String {
    error.chars().take(ERROR_CHARACTERS_MAX).collect()
}

/// A connection that has ended or was rejected.
#[derive(Clone, Debug)]
pub struct EndedConnection {
    /// Who was connected: the facts of the worker's connection.
    pub facts: ConnectionFacts,
    /// The opening strategy of the worker.
    pub strategy: Strategy,
    /// What the connection did while it lasted.
    pub activity: ActivityFacts,
}

/// The last connections of a subscription.
#[derive(Debug, Default)]
pub struct PastConnections {
    ended: VecDeque<EndedConnection>,
    rejected: VecDeque<EndedConnection>,
}

impl PastConnections {
    /// Connections that had been admitted, most recent last.
    pub fn ended(&self) -> impl Iterator<Item = &EndedConnection> {
        self.ended.iter()
    }

    /// Connections that were rejected, most recent last.
    pub fn rejected(&self) -> impl Iterator<Item = &EndedConnection> {
        self.rejected.iter()
    }

    pub(crate) fn add(&mut self, activity: &ConnectionActivity, ended: Option<Ended>) {
        let mut so_far = activity.so_far();
        if so_far.exception.is_none() {
            so_far.exception = ended.map(|ended| ended.reason().to_owned());
        }
        let connection = EndedConnection {
            facts: activity.facts.clone(),
            strategy: activity.strategy,
            activity: so_far,
        };
        push(&mut self.ended, connection, PAST_MAX);
    }

    pub(crate) fn reject(
        &mut self,
        facts: ConnectionFacts,
        strategy: Strategy,
        reason: &str,
        now_ticks: i64,
    ) {
        let activity = ActivityFacts {
            ended_ticks: Some(now_ticks),
            exception: Some(beginning(reason)),
            ..ActivityFacts::default()
        };
        push(&mut self.rejected, EndedConnection { facts, strategy, activity }, PAST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_seen_while_it_is_under_way_and_when_it_is_done() {
        let activity = ConnectionActivity::new(ConnectionFacts::default(), Strategy::OpenIfFree);
        activity.batch_begins(1, 100);
        assert!(activity.so_far().batches.is_empty());
        activity.documents_read(2, 50);
        activity.document_failed("users/1", "it throws");
        let under_way = activity.so_far().batches;
        let expected = BatchFacts {
            number: 1,
            began_ticks: 100,
            documents: 2,
            bytes: 50,
            failed: 1,
            ..BatchFacts::default()
        };
        assert_eq!(under_way, [expected]);
        activity.batch_sent(IncludesFacts::default(), 110);
        activity.batch_acknowledged(130);
        // The next one has no documents.
        activity.batch_begins(2, 140);
        let facts = activity.so_far();
        let done = BatchFacts { sent_ticks: Some(110), acknowledged_ticks: Some(130), ..expected };
        assert_eq!(facts.batches, [done]);
        assert_eq!((facts.documents, facts.bytes, facts.acknowledgements), (2, 50, 1));
        assert_eq!(facts.acknowledged_bytes, 50);
        assert_eq!(facts.failed_document.unwrap().id, "users/1");
    }

    #[test]
    fn only_so_much_is_remembered() {
        let activity = ConnectionActivity::new(ConnectionFacts::default(), Strategy::OpenIfFree);
        for number in 0..100 {
            activity.batch_begins(number, 0);
            activity.documents_read(1, 1);
            activity.batch_acknowledged(1);
            activity.step("again");
        }
        activity.ended(Some(&"long ".repeat(1000)), 7);
        let facts = activity.so_far();
        assert_eq!((facts.batches.len(), facts.steps.len()), (BATCHES_MAX, STEPS_MAX));
        assert_eq!(facts.batches[0].number, 100 - BATCHES_MAX as u64);
        assert_eq!(facts.exception.unwrap().len(), ERROR_CHARACTERS_MAX);
        let mut past = PastConnections::default();
        for _ in 0..20 {
            past.add(&activity, Some(Ended::Dropped));
            past.reject(ConnectionFacts::default(), Strategy::TakeOver, "occupied", 9);
        }
        assert_eq!((past.ended().count(), past.rejected().count()), (PAST_MAX, PAST_MAX));
        assert!(
            past.ended().next().unwrap().activity.exception.as_ref().unwrap().starts_with("long")
        );
    }
}
