//! The memory of the process that its budgets do not count: code and threads, open databases, memory retained
//! by the allocator, and everything too small to count.
//!
//! It cannot be read directly: the kernel reports the total, and the budgets report what they count. Counted
//! memory may not have been touched yet, and touched memory may not have been counted yet, so the largest
//! difference of the last second is used, not the latest one. It is measured with every memory check, and
//! whenever a share grows while little memory is left.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use platform::{Clock, Platform, ProcessMemory};
use storage::Uncounted;

/// The maximum of the current window and the previous one is used.
const WINDOW: Duration = Duration::from_millis(500);
/// The minimum interval between measurements, however many shares grow.
const INTERVAL_MIN: Duration = Duration::from_millis(2);
/// While more than `1 / LITTLE_PART` of the limit is left, growing shares use the last measurement.
const LITTLE_PART: u64 = 4;

/// Measures the memory of the process that no budget accounts for.
pub struct UncountedMemory {
    memory: Arc<dyn ProcessMemory>,
    clock: Arc<dyn Clock>,
    limit_bytes: u64,
    /// The maximum of both windows.
    largest: AtomicU64,
    windows: Mutex<Windows>,
}

#[derive(Default)]
struct Windows {
    measured_at: Duration,
    began: Duration,
    largest: u64,
    largest_before: u64,
}

impl UncountedMemory {
    /// For a process limited to this many bytes.
    pub fn new(platform: &Platform, limit_bytes: u64) -> UncountedMemory {
        let (memory, clock) = (Arc::clone(&platform.memory), Arc::clone(&platform.clock));
        let (largest, windows) = Default::default();
        UncountedMemory { memory, clock, limit_bytes, largest, windows }
    }

    /// The maximum of the last second, in bytes.
    pub fn largest_bytes(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// Records that the process has taken `taken_bytes` while `held` were counted.
    pub(crate) fn measured(&self, taken_bytes: u64, held: u64) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        self.note(&mut windows, taken_bytes, held);
    }

    fn note(&self, windows: &mut Windows, taken_bytes: u64, held: u64) {
        let now = self.clock.monotonic();
        windows.measured_at = now;
        if WINDOW <= now.saturating_sub(windows.began) {
            let is_recent = now.saturating_sub(windows.began) < 2 * WINDOW;
            windows.largest_before = if is_recent { windows.largest } else { 0 };
            windows.largest = 0;
            windows.began = now;
        }
        windows.largest = windows.largest.max(taken_bytes.saturating_sub(held));
        self.largest.store(windows.largest.max(windows.largest_before), Ordering::Relaxed);
    }

    /// Measures again, unless another thread is measuring or just has.
    fn measure(&self, held: u64) {
        let Ok(mut windows) = self.windows.try_lock() else { return };
        if self.clock.monotonic().saturating_sub(windows.measured_at) < INTERVAL_MIN {
            return;
        }
        // If it cannot be measured, the last value stays.
        if let Ok(taken_bytes) = self.memory.taken_bytes() {
            self.note(&mut windows, taken_bytes, held);
        }
    }
}

impl Uncounted for UncountedMemory {
    fn bytes(&self, held: u64, wanted: u64) -> u64 {
        let last = self.largest_bytes();
        let taken = held.saturating_add(wanted).saturating_add(last);
        if self.limit_bytes.saturating_sub(taken) < self.limit_bytes / LITTLE_PART {
            self.measure(held);
            return self.largest_bytes();
        }
        last
    }
}

impl fmt::Debug for UncountedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UncountedMemory").field("largest", &self.largest).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_of_the_last_second_counts_and_is_measured_again_when_little_is_left() {
        let simulation = Platform::simulated(1);
        let uncounted = UncountedMemory::new(&simulation.platform, 1000);
        let pass = |time| simulation.clock.advance(time);
        pass(WINDOW);
        uncounted.measured(500, 200);
        assert_eq!(uncounted.bytes(200, 10), 300);
        simulation.memory.set_taken(450);
        pass(INTERVAL_MIN);
        assert_eq!(uncounted.bytes(0, 10), 300, "enough is left: nothing is measured");
        assert_eq!(uncounted.bytes(50, 450), 400, "little would be left");
        simulation.memory.set_taken(900);
        assert_eq!(uncounted.bytes(50, 450), 400, "it was measured just now");
        pass(WINDOW);
        simulation.memory.set_taken(100);
        uncounted.measured(100, 100);
        assert_eq!(uncounted.largest_bytes(), 400, "the window still covers the maximum");
        pass(WINDOW);
        uncounted.measured(100, 60);
        assert_eq!(uncounted.largest_bytes(), 40);
    }
}
