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
    /// How long reading, mapping and analysing took.
    pub map_time: Duration,
    /// How long writing entries and making them durable took.
    pub commit_time: Duration,
    /// Documents that were mapped.
    pub mapped: u64,
    /// Documents of them that failed.
    pub failed: u64,
    /// Entries that they gave.
    pub entries: u64,
    /// Whether changes were left for the next batch.
    pub has_more: bool,
}

impl BatchFacts {
    /// How long it took.
    pub fn time(&self) -> Duration {
        self.map_time + self.commit_time
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BatchLog {
    batches: VecDeque<BatchFacts>,
    count: u64,
}

impl BatchLog {
    /// Notes a batch, under the next number.
    pub(crate) fn add(&mut self, batch: BatchFacts) {
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.count += 1;
        self.batches.push_back(BatchFacts { number: self.count, ..batch });
    }

    /// The oldest first.
    pub(crate) fn batches(&self) -> Vec<BatchFacts> {
        self.batches.iter().copied().collect()
    }

    /// Documents mapped per second lately, as far as batches of that time are kept.
    pub(crate) fn mapped_per_second(&self, now_ticks: i64) -> f64 {
        let window = i64::try_from(RATE_WINDOW.as_nanos() / 100).unwrap_or(i64::MAX);
        let recent = self.batches.iter().filter(|batch| now_ticks - window <= batch.started_ticks);
        let mapped: u64 = recent.map(|batch| batch.mapped).sum();
        mapped as f64 / RATE_WINDOW.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_batches_are_kept_and_numbered() {
        let mut log = BatchLog::default();
        let started = |second: i64| second * 10_000_000;
        for second in 0..BATCHES_KEPT as i64 + 5 {
            log.add(BatchFacts { started_ticks: started(second), mapped: 6, ..Default::default() });
        }
        let batches = log.batches();
        assert_eq!((batches.len(), batches[0].number), (BATCHES_KEPT, 6));
        assert_eq!(log.mapped_per_second(started(30)), 2.5);
        assert_eq!(log.mapped_per_second(started(87)), 0.3, "three of them are no older");
        assert_eq!(log.mapped_per_second(started(1000)), 0.0);
    }
}
