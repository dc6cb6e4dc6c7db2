//! How much memory is left for this process: a level that begins and ends by itself.
//!
//! What is left is the smaller of two values: what the process may still take, and what the machine has
//! available. Each level ends slightly above the limit at which it began. Reading the level costs one atomic
//! load, so requests check it.
//!
//! When memory is measured and how the server reacts is decided in `resource_watch`.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use platform::{MemoryLimit, MemoryUsage, Timestamp};
use storage::MemoryBudget;

use crate::uncounted_memory::UncountedMemory;

/// A level ends when free memory exceeds its limit by `1 / MARGIN`.
const MARGIN: u64 = 8;
/// The critical limit is `1 / CRITICAL_PART` of the low one.
const CRITICAL_PART: u64 = 3;
/// Remembered changes of the level.
const CHANGES_MAX: usize = 256;

/// The level of free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryLevel {
    /// More memory remains than the threshold of `Low`.
    Enough,
    /// The server saves memory.
    Low,
    /// The server refuses requests that take much memory.
    Critical,
}

/// One measurement of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReading {
    /// The level that follows from the remaining bytes.
    pub level: MemoryLevel,
    /// The measured values of the process and the machine.
    pub usage: MemoryUsage,
    /// Bytes that are left.
    pub left_bytes: u64,
}

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// When the level changed.
    pub at: Timestamp,
    /// The measurement that changed it.
    pub reading: MemoryReading,
}

#[derive(Default)]
struct State {
    reading: Option<MemoryReading>,
    changes: VecDeque<MemoryChange>,
}

/// The memory level of the process.
pub struct MemoryPressure {
    limit: MemoryLimit,
    low_bytes: u64,
    level: AtomicU8,
    state: Mutex<State>,
    /// The budget that counts the memory of the process, and the estimate of what it does not count.
    counted: Option<(Arc<MemoryBudget>, Arc<UncountedMemory>)>,
}

impl MemoryPressure {
    /// At most `limit` may be taken; memory is low when less than `low_bytes` are left.
    pub fn new(limit: MemoryLimit, low_bytes: u64) -> MemoryPressure {
        let level = AtomicU8::new(MemoryLevel::Enough as u8);
        MemoryPressure { limit, low_bytes, level, state: Mutex::default(), counted: None }
    }

    /// The same, and passes measurements to `uncounted` to compare with what `process` counts.
    #[must_use]
    pub fn counted_by(
        self,
        process: &Arc<MemoryBudget>,
        uncounted: &Arc<UncountedMemory>,
    ) -> MemoryPressure {
        let counted = Some((Arc::clone(process), Arc::clone(uncounted)));
        MemoryPressure { counted, ..self }
    }

    /// The limit of the process.
    pub fn limit(&self) -> MemoryLimit {
        self.limit
    }

    /// Bytes left below which memory is low.
    pub fn low_bytes(&self) -> u64 {
        self.low_bytes
    }

    /// Bytes left below which memory is critical.
    pub fn critical_bytes(&self) -> u64 {
        self.low_bytes / CRITICAL_PART
    }

    /// The current level; reading it takes no lock.
    pub fn level(&self) -> MemoryLevel {
        match self.level.load(Ordering::Relaxed) {
            0 => MemoryLevel::Enough,
            1 => MemoryLevel::Low,
            _ => MemoryLevel::Critical,
        }
    }

    /// The most recent measurement; `None` before the first one.
    pub fn reading(&self) -> Option<MemoryReading> {
        self.state().reading
    }

    /// The newest changes of the level, oldest first.
    pub fn changes(&self) -> Vec<MemoryChange> {
        self.state().changes.iter().copied().collect()
    }

    /// Records a measurement; returns it if it changes the level.
    pub(crate) fn measured(&self, usage: MemoryUsage, at: Timestamp) -> Option<MemoryReading> {
        let left = self.limit.bytes.saturating_sub(usage.taken_bytes);
        let left_bytes = left.min(usage.machine_free_bytes);
        let before = self.level();
        let level = judge(before, left_bytes, self.low_bytes, self.critical_bytes());
        let reading = MemoryReading { level, usage, left_bytes };
        self.level.store(level as u8, Ordering::Relaxed);
        if let Some((process, uncounted)) = &self.counted {
            uncounted.measured(usage.taken_bytes, process.used_bytes());
        }
        let mut state = self.state();
        state.reading = Some(reading);
        if level == before {
            return None;
        }
        if state.changes.len() == CHANGES_MAX {
            state.changes.pop_front();
        }
        state.changes.push_back(MemoryChange { at, reading });
        Some(reading)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn judge(before: MemoryLevel, left_bytes: u64, low: u64, critical: u64) -> MemoryLevel {
    for (level, limit) in [(MemoryLevel::Critical, critical), (MemoryLevel::Low, low)] {
        let end = limit.saturating_add(limit / MARGIN);
        if left_bytes < limit || (before >= level && left_bytes < end) {
            return level;
        }
    }
    MemoryLevel::Enough
}

#[cfg(test)]
mod tests {
    use platform::MemoryLimitSource;

    use super::*;

    fn usage(taken_bytes: u64, machine_free_bytes: u64) -> MemoryUsage {
        MemoryUsage { taken_bytes, resident_bytes: taken_bytes, machine_free_bytes }
    }

    #[test]
    fn the_level_follows_what_is_left_and_changes_are_remembered() {
        use MemoryLevel::{Critical, Enough, Low};
        let limit = MemoryLimit { bytes: 10_000, source: MemoryLimitSource::ControlGroup };
        let pressure = MemoryPressure::new(limit, 2400);
        let story = [
            (5000, 99_999, Enough),
            (7601, 99_999, Low),
            (7400, 99_999, Low),
            (7300, 99_999, Enough),
            (9201, 99_999, Critical),
            (9150, 99_999, Critical),
            (9100, 99_999, Low),
            (100, 99_999, Enough),
            (100, 700, Critical),
            (20_000, 99_999, Critical),
            (0, 99_999, Enough),
        ];
        let mut changes = 0;
        let mut before = Enough;
        for (taken, free, expected) in story {
            let change = pressure.measured(usage(taken, free), Timestamp::from_ticks(1));
            assert_eq!(pressure.level(), expected, "{taken} taken, {free} free");
            assert_eq!(change.is_some(), expected != before);
            changes += usize::from(change.is_some());
            before = expected;
        }
        assert_eq!(pressure.changes().len(), changes);
        assert_eq!(pressure.reading().unwrap().left_bytes, 10_000);
    }

    #[test]
    fn only_so_many_changes_are_remembered() {
        let limit = MemoryLimit { bytes: 100, source: MemoryLimitSource::Physical };
        let pressure = MemoryPressure::new(limit, 50);
        for round in 0..2 * CHANGES_MAX as u64 {
            pressure.measured(usage(100 * (round % 2), 1000), Timestamp::from_ticks(1));
        }
        assert_eq!(pressure.changes().len(), CHANGES_MAX);
    }
}
