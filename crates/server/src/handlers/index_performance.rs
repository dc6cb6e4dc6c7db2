//! Performance of index batches: the last ones, totals, and live over a WebSocket.

use std::{collections::BTreeMap, sync::Arc};

use database::Database;
use http::StatusCode;
use indexing::{BatchEnd, BatchFacts, Index};
use model::{TimeSpan, date};
use platform::Timestamp;
use serde_json::{Value, json};
use storage::PAGE_BYTES;
use wire::index_performance::{IndexBatch, ReduceStep};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    feeds::live_feed::{LiveFeed, News},
    handlers::indexes::{known_or_all, results},
    http::web_socket::Session,
};

/// `GET /indexes/performance`: the last batches. Names of missing indexes are ignored.
pub(crate) fn performance(call: &Call) -> Result<Answer, ApiError> {
    let shown = known_or_all(call)?.into_iter().map(|index| shown_batches(&index, 0));
    Ok(results(call, shown.collect()))
}

/// An index with its batches after the one with that number.
fn shown_batches(index: &Index, after: u64) -> Value {
    let batches = index.batches();
    let batches = batches.iter().filter(|batch| after < batch.number);
    let shown: Vec<_> = batches.map(|batch| shown_batch(index, batch).to_json()).collect();
    json!({"Name": index.name(), "Performance": shown})
}

/// A batch in the protocol's form.
pub(crate) fn shown_batch(index: &Index, batch: &BatchFacts) -> IndexBatch {
    let completed = Timestamp::from_ticks(batch.started_ticks).plus(batch.times.sum());
    let reduce = index.has_reduce().then_some(ReduceStep {
        time: batch.times.reduce,
        attempts: batch.reduced,
        errors: batch.reduces_failed,
    });
    IndexBatch {
        number: batch.number,
        started: date::format(batch.started_ticks),
        completed: date::format(completed.ticks()),
        map_time: batch.times.map,
        reduce,
        entries_time: batch.times.entries,
        references_time: batch.times.references,
        commit_time: batch.times.commit,
        pages: batch.pages,
        page_bytes: PAGE_BYTES as u64,
        inputs: batch.mapped,
        failed: batch.failed,
        outputs: batch.outputs,
        reason: match batch.end {
            BatchEnd::Finished => "No more documents to index",
            BatchEnd::Changes => "The batch reached the maximum number of changes",
            BatchEnd::Memory => "The batch reached its memory limit",
            BatchEnd::Time => "The batch reached its time limit",
            BatchEnd::Closing => "The index is being closed",
        },
    }
}

/// `GET /indexes/total-time`: the duration of all batches since the index was opened, and how long
/// changes waited for them.
pub(crate) fn total_time(call: &Call) -> Result<Answer, ApiError> {
    let span = |time: std::time::Duration| TimeSpan::of(time).to_string();
    let of_one = |index: Arc<Index>| {
        let totals = index.batch_totals();
        json!({
            "Name": index.name(), "TotalIndexingTime": span(totals.time),
            "LagTime": span(totals.lag)
        })
    };
    let listed: Vec<_> = known_or_all(call)?.into_iter().map(of_one).collect();
    Ok(Answer::shape(StatusCode::OK, &json!(listed)))
}

/// `GET /indexes/performance/live`: first the last batches, then every few seconds the new ones.
pub(crate) fn live(call: &Call) -> Result<Session, ApiError> {
    let query = call.query();
    let names = query.all("name").filter(|name| !name.is_empty()).map(str::to_lowercase);
    let batches = NewBatches { names: names.collect(), sent: BTreeMap::new() };
    LiveFeed::begin(call, batches)
}

/// The batches that were not sent to a reader yet.
struct NewBatches {
    /// In lower case; all indexes if empty.
    names: Vec<String>,
    /// The number of the last batch of each index that was sent, and when it began.
    sent: BTreeMap<String, (u64, i64)>,
}

impl News for NewBatches {
    fn take(&mut self, database: &Database) -> Option<Value> {
        let mut results = Vec::new();
        let is_wanted = |name: &str| {
            self.names.is_empty() || self.names.iter().any(|wanted| *wanted == name.to_lowercase())
        };
        let indexes = database.indexes().all();
        self.sent.retain(|name, _| indexes.iter().any(|index| index.name() == name));
        for index in indexes.iter().filter(|index| is_wanted(index.name())) {
            let batches = index.batches();
            let Some(last) = batches.last() else { continue };
            let sent = self.sent.get(index.name()).copied();
            // A reopened index counts from 1 again.
            let is_the_same = |number| {
                let known = batches.iter().find(|batch| batch.number == number);
                known.is_none_or(|batch| Some((number, batch.started_ticks)) == sent)
            };
            let after = match sent {
                Some((number, _)) if number <= last.number && is_the_same(number) => number,
                _ => 0,
            };
            if after < last.number {
                results.push(shown_batches(index, after));
            }
            self.sent.insert(index.name().to_owned(), (last.number, last.started_ticks));
        }
        (!results.is_empty()).then(|| json!({"Results": results}))
    }

    fn nothing(&self) -> Value {
        json!({"Results": []})
    }
}
