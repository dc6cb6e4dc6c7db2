//! The last batches of an index: what they took and how long, for whoever asks why indexing is slow.

use std::{collections::VecDeque, time::Duration};

/// Batches that are kept of one index.
pub const BATCHES_KEPT: usize = 25;
/// The rate of an index is that of its batches within this time.
const RATE_WINDOW: Duration = Duration::from_secs(60);

/// What one batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// Counts the batches since the index was opened, from 1.
    pub number: u64,
    /// When it began, in ticks.
    pub started_ticks: i64,
    /// How long the oldest of its changes had waited when it began.
    pub lag: Duration,
    /// How long its steps took.
    pub times: BatchTimes,
    /// Documents that were mapped.
    pub mapped: u64,
    /// Documents of them that failed.
    pub failed: u64,
    /// Entries, or rows for the reduce, that they gave.
    pub outputs: u64,
    /// Rows that were reduced.
    pub reduced: u64,
    /// Rows of them whose reduce failed.
    pub reduces_failed: u64,
    /// Pages that its transaction changed.
    pub pages: u64,
    /// Why it ended.
    pub end: BatchEnd,
}

/// How long the steps of a batch took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// Reading, mapping and analysing.
    pub map: Duration,
    /// Reducing, with keeping the rows.
    pub reduce: Duration,
    /// Bringing entries to their terms.
    pub entries: Duration,
    /// Noting which documents the maps looked at.
    pub references: Duration,
    /// Making it durable.
    pub commit: Duration,
}

impl BatchTimes {
    /// All of them.
    pub fn sum(&self) -> Duration {
        self.map + self.reduce + self.entries + self.references + self.commit
    }
}

/// Why a batch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchEnd {
    /// Everything that was there at its beginning is indexed.
    #[default]
    Finished,
    /// It had as many changes as one may have.
    Changes,
    /// Its entries took as much memory as they may.
    Memory,
    /// It took as long as one may.
    Time,
    /// The index is to be closed.
    Closing,
}

impl BatchEnd {
    /// Whether changes were left for the next batch.
    pub fn has_more(self) -> bool {
        self != Self::Finished
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BatchLog {
    batches: VecDeque<BatchFacts>,
    totals: BatchTotals,
}

/// What all batches since the index was opened came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTotals {
    /// How many there were.
    pub batches: u64,
    /// How long they took.
    pub time: Duration,
    /// How long changes waited for them.
    pub lag: Duration,
}

impl BatchLog {
    /// Notes a batch, under the next number.
    pub(crate) fn add(&mut self, batch: BatchFacts) {
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.totals.batches += 1;
        self.totals.time += batch.times.sum();
        self.totals.lag += batch.lag;
        self.batches.push_back(BatchFacts { number: self.totals.batches, ..batch });
    }

    /// The oldest first.
    pub(crate) fn batches(&self) -> Vec<BatchFacts> {
        self.batches.iter().copied().collect()
    }

    /// Of all batches, also those that are not kept.
    pub(crate) fn totals(&self) -> BatchTotals {
        self.totals
    }

    /// Documents mapped and rows reduced per second lately, as far as batches of that time are kept.
    pub(crate) fn rates(&self, now_ticks: i64) -> BatchRates {
        let window = i64::try_from(RATE_WINDOW.as_nanos() / 100).unwrap_or(i64::MAX);
        let recent = self.batches.iter().filter(|batch| now_ticks - window <= batch.started_ticks);
        let (mapped, reduced) = recent.fold((0, 0), |(mapped, reduced), batch| {
            (mapped + batch.mapped, reduced + batch.reduced)
        });
        let per_second = |count: u64| count as f64 / RATE_WINDOW.as_secs_f64();
        BatchRates { mapped: per_second(mapped), reduced: per_second(reduced) }
    }
}

/// What a batch added to the work of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedBatch {
    /// Whether the index has a reduce.
    pub has_reduce: bool,
    /// Entries, or rows for the reduce.
    pub outputs: u64,
    /// Rows that were reduced.
    pub reduced: u64,
}

/// What an index does per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchRates {
    /// Documents.
    pub mapped: f64,
    /// Rows.
    pub reduced: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_batches_are_kept_and_numbered() {
        let mut log = BatchLog::default();
        let started = |second: i64| second * 10_000_000;
        for second in 0..BATCHES_KEPT as i64 + 5 {
            log.add(BatchFacts {
                started_ticks: started(second),
                mapped: 6,
                reduced: 12,
                lag: Duration::from_millis(3),
                times: BatchTimes {
                    map: Duration::from_millis(4),
                    commit: Duration::from_millis(1),
                    ..BatchTimes::default()
                },
                ..BatchFacts::default()
            });
        }
        let batches = log.batches();
        assert_eq!((batches.len(), batches[0].number), (BATCHES_KEPT, 6));
        assert_eq!(log.rates(started(30)), BatchRates { mapped: 2.5, reduced: 5.0 });
        assert_eq!(log.rates(started(87)).mapped, 0.3, "three of them are no older");
        assert_eq!(log.rates(started(1000)), BatchRates::default());
        let (time, lag) = (Duration::from_millis(150), Duration::from_millis(90));
        assert_eq!(log.totals(), BatchTotals { batches: 30, time, lag }, "nothing is forgotten");
    }
}
