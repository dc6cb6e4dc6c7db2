//! Rates and totals of requests, writes and indexing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use documents::{Stored, WriteTally};
use indexing::IndexedBatch;
use platform::{Clock, Meter};

/// Meters of one database since it was opened, or of all databases together since the server started.
pub struct Activity {
    clock: Arc<dyn Clock>,
    requests_running: AtomicU64,
    /// Requests. The server-wide meters are marked separately, because not every request names a database.
    pub requests: Arc<Meter>,
    /// Microseconds until requests were answered.
    pub request_micros: Arc<Meter>,
    /// Versions of documents written.
    pub documents: StoredMeters,
    /// Attachments written.
    pub attachments: StoredMeters,
    /// Values of counters written.
    pub counters: StoredMeters,
    /// Entries of time series.
    pub time_series: StoredMeters,
    /// Entries of indexes without a reduce.
    pub indexed: Arc<Meter>,
    /// Rows mapped by indexes with a reduce.
    pub mapped: Arc<Meter>,
    /// Rows reduced by those indexes.
    pub reduced: Arc<Meter>,
}

/// A request in progress. Dropping it ends the request, even if its client no longer waits for the answer.
pub struct RunningRequest {
    among: Arc<Activity>,
    began: Duration,
}

/// Meters of one kind of stored item.
pub struct StoredMeters {
    /// Number of items written.
    pub puts: Arc<Meter>,
    /// Bytes of all items.
    pub bytes: Arc<Meter>,
}

impl Activity {
    /// New meters, starting now.
    pub fn new(clock: Arc<dyn Clock>) -> Activity {
        Activity::begin(clock, None)
    }

    /// New meters, starting now. Writes and indexing are counted by `whole` as well.
    pub fn part_of(whole: &Activity) -> Activity {
        Activity::begin(Arc::clone(&whole.clock), Some(whole))
    }

    fn begin(clock: Arc<dyn Clock>, whole: Option<&Activity>) -> Activity {
        let now = clock.monotonic();
        let stored = |of: fn(&Activity) -> &StoredMeters| {
            let whole = whole.map(of);
            StoredMeters {
                puts: meter(whole.map(|whole| &whole.puts), now),
                bytes: meter(whole.map(|whole| &whole.bytes), now),
            }
        };
        Activity {
            clock,
            requests_running: AtomicU64::new(0),
            requests: meter(None, now),
            request_micros: meter(None, now),
            documents: stored(|of| &of.documents),
            attachments: stored(|of| &of.attachments),
            counters: stored(|of| &of.counters),
            time_series: stored(|of| &of.time_series),
            indexed: meter(whole.map(|whole| &whole.indexed), now),
            mapped: meter(whole.map(|whole| &whole.mapped), now),
            reduced: meter(whole.map(|whole| &whole.reduced), now),
        }
    }

    /// Counts a request as running until the returned value is dropped.
    pub fn begin_request(self: &Arc<Activity>) -> RunningRequest {
        let began = self.clock.monotonic();
        self.requests.mark(began, 1);
        self.requests_running.fetch_add(1, Ordering::Relaxed);
        RunningRequest { among: Arc::clone(self), began }
    }

    /// The number of requests that have started and not ended.
    pub fn requests_running(&self) -> u64 {
        self.requests_running.load(Ordering::Relaxed)
    }

    /// The average duration of requests since the meters started, in milliseconds.
    pub fn average_request_ms(&self) -> f64 {
        let now = self.clock.monotonic();
        let (micros, requests) = (self.request_micros.read(now), self.requests.read(now));
        micros.count as f64 / requests.count.max(1) as f64 / 1000.0
    }

    /// The current time of the meters' clock.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Counts the items and bytes of batches once they are durable.
    pub(crate) fn note_written(&self, tally: WriteTally) {
        let now = self.clock.monotonic();
        let kinds = [
            (&self.documents, tally.documents),
            (&self.attachments, tally.attachments),
            (&self.counters, tally.counters),
            (&self.time_series, tally.time_series),
        ];
        for (meters, Stored { count, bytes }) in kinds {
            meters.puts.mark(now, count);
            meters.bytes.mark(now, bytes);
        }
    }

    /// Counts an index batch.
    pub(crate) fn note_indexed(&self, batch: IndexedBatch) {
        let now = self.clock.monotonic();
        let mapped = if batch.has_reduce { &self.mapped } else { &self.indexed };
        mapped.mark(now, batch.outputs);
        self.reduced.mark(now, batch.reduced);
    }
}

/// A new meter. Its events are also counted by `whole`, if there is one.
fn meter(whole: Option<&Arc<Meter>>, now: Duration) -> Arc<Meter> {
    Arc::new(match whole {
        Some(whole) => Meter::part_of(whole, now),
        None => Meter::new(now),
    })
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.among.requests_running.fetch_sub(1, Ordering::Relaxed);
        let now = self.among.clock.monotonic();
        let micros = now.saturating_sub(self.began).as_micros();
        self.among.request_micros.mark(now, u64::try_from(micros).unwrap_or(u64::MAX));
    }
}
