//! The last batches of an index: their work and durations, for diagnosing slow indexing.

use std::{collections::VecDeque, time::Duration};

use model::ticks;

/// The number of batches that are kept for an index.
pub const BATCHES_KEPT: usize = 25;
/// The rate of an index is computed over its batches within this time.
const RATE_WINDOW: Duration = Duration::from_secs(60);

/// What one batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// The batch's number since the index was opened, from 1.
    pub number: u64,
    /// When it began, in ticks.
    pub started_ticks: i64,
    /// How long its oldest change had waited when it began.
    pub lag: Duration,
    /// How long its steps took.
    pub times: BatchTimes,
    /// Documents that were mapped.
    pub mapped: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The entries, or rows for the reduce, that the maps returned.
    pub outputs: u64,
    /// Rows that were reduced.
    pub reduced: u64,
    /// How many of them failed.
    pub reduces_failed: u64,
    /// Pages that its transaction changed.
    pub pages: u64,
    /// Why the batch ended.
    pub end: BatchEnd,
}

/// The durations of a batch's steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// Reading, mapping and analyzing.
    pub map: Duration,
    /// Reducing, including storing the rows.
    pub reduce: Duration,
    /// Writing entries and their terms.
    pub entries: Duration,
    /// Recording which documents the maps read.
    pub references: Duration,
    /// Making the transaction of the batch durable.
    pub commit: Duration,
}

impl BatchTimes {
    /// The duration of all steps together.
    pub fn sum(&self) -> Duration {
        self.map + self.reduce + self.entries + self.references + self.commit
    }
}

/// Why a batch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchEnd {
    /// Everything that was pending at its beginning is indexed.
    #[default]
    Finished,
    /// It reached the maximum number of changes.
    Changes,
    /// Its entries reached the memory limit.
    Memory,
    /// It reached the time limit.
    Time,
    /// The index is closing.
    Closing,
}

impl BatchEnd {
    /// Whether changes remain for the next batch.
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

/// The totals of all batches since the index was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTotals {
    /// The number of batches.
    pub batches: u64,
    /// The duration of all batches together.
    pub time: Duration,
    /// How long changes waited for them, in total.
    pub lag: Duration,
}

impl BatchLog {
    /// Adds a batch under the next number.
    pub(crate) fn add(&mut self, batch: BatchFacts) {
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.totals.batches += 1;
        self.totals.time += batch.times.sum();
        self.totals.lag += batch.lag;
        self.batches.push_back(BatchFacts { number: self.totals.batches, ..batch });
    }

    /// The batches, oldest first.
    pub(crate) fn batches(&self) -> Vec<BatchFacts> {
        self.batches.iter().copied().collect()
    }

    /// The totals, including batches that are no longer kept.
    pub(crate) fn totals(&self) -> BatchTotals {
        self.totals
    }

    /// Documents mapped and rows reduced per second recently, computed over the batches that are
    /// still kept.
    pub(crate) fn rates(&self, now_ticks: i64) -> BatchRates {
        let window = ticks::of_duration(RATE_WINDOW);
        let recent = self.batches.iter().filter(|batch| now_ticks - window <= batch.started_ticks);
        let (mapped, reduced) = recent.fold((0, 0), |(mapped, reduced), batch| {
            (mapped + batch.mapped, reduced + batch.reduced)
        });
        let per_second = |count: u64| count as f64 / RATE_WINDOW.as_secs_f64();
        BatchRates { mapped: per_second(mapped), reduced: per_second(reduced) }
    }
}

/// The work that a batch did for its index.
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
    /// Documents mapped per second.
    pub mapped: f64,
    /// Rows reduced per second.
    pub reduced: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_batches_are_kept_and_numbered() {
        let mut log = BatchLog::default();
        let started = |second: i64| second * ticks::TICKS_PER_SECOND;
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
        assert_eq!(log.rates(started(87)).mapped, 0.3, "three of them are recent enough");
        assert_eq!(log.rates(started(1000)), BatchRates::default());
        let (time, lag) = (Duration::from_millis(150), Duration::from_millis(90));
        assert_eq!(log.totals(), BatchTotals { batches: 30, time, lag }, "nothing is forgotten");
    }
}
