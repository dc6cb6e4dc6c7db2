//! Decides whether to compress a journal record: whether that takes less time than writing the
//! bytes it saves.
//!
//! On a drive that writes two bytes per nanosecond it does not, on one that writes a fifth of a
//! byte it does. Both costs are measured on the records themselves; until there are measurements,
//! records are compressed. The clock stands still on the simulated disk, so there everything is
//! always compressed.

use std::time::Duration;

/// Shorter writes are not measured: their cost is per write, not per byte.
const WRITE_BYTES_MIN: u64 = 32 * 1024;
/// After this many uncompressed records one is compressed to measure the cost again.
const RETRY_AFTER: u32 = 64;
/// The weight of the newest measurement is one part in this many.
const MEMORY: f64 = 8.0;

/// A decaying average; `None` before the first measurement.
#[derive(Clone, Copy, Default)]
struct Average(Option<f64>);

impl Average {
    fn add(&mut self, value: f64) {
        self.0 = Some(self.0.map_or(value, |average| average + (value - average) / MEMORY));
    }
}

/// Recent costs of writing and compressing.
#[derive(Default)]
pub(super) struct CompressionCosts {
    /// Nanoseconds per byte written.
    write: Average,
    /// Nanoseconds per byte of input.
    compress: Average,
    /// Bytes saved per byte of input.
    saved: Average,
    uncompressed: u32,
}

impl CompressionCosts {
    /// Whether the next record should be compressed.
    pub(super) fn is_worthwhile(&self) -> bool {
        match (self.write.0, self.compress.0, self.saved.0) {
            (Some(write), Some(compress), Some(saved)) => {
                compress <= saved * write || self.uncompressed >= RETRY_AFTER
            }
            _ => true,
        }
    }

    /// A record was written.
    pub(super) fn written(&mut self, bytes: u64, took: Duration) {
        if bytes >= WRITE_BYTES_MIN {
            self.write.add(took.as_nanos() as f64 / bytes as f64);
        }
    }

    /// A record was compressed from `before` bytes to `after`.
    pub(super) fn compressed(&mut self, before: u64, after: u64, took: Duration) {
        self.uncompressed = 0;
        self.compress.add(took.as_nanos() as f64 / before as f64);
        self.saved.add(before.saturating_sub(after) as f64 / before as f64);
    }

    /// A record was left as it is.
    pub(super) fn left_uncompressed(&mut self) {
        self.uncompressed = self.uncompressed.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1 << 20;

    fn costs(write_micros: u64) -> CompressionCosts {
        let mut costs = CompressionCosts::default();
        costs.compressed(MEGABYTE, MEGABYTE / 2, Duration::from_micros(2_000));
        assert!(costs.is_worthwhile(), "nothing is known of writing");
        costs.written(4096, Duration::from_secs(1));
        assert!(costs.is_worthwhile(), "a short write is not measured");
        costs.written(MEGABYTE, Duration::from_micros(write_micros));
        costs
    }

    #[test]
    fn compressing_is_worthwhile_when_writing_what_it_saves_takes_longer() {
        assert!(costs(5_000).is_worthwhile());
        assert!(!costs(3_000).is_worthwhile());
    }

    #[test]
    fn now_and_then_it_is_tried_again() {
        let mut costs = costs(500);
        for _ in 0..RETRY_AFTER {
            assert!(!costs.is_worthwhile());
            costs.left_uncompressed();
        }
        assert!(costs.is_worthwhile());
        for _ in 0..40 {
            costs.compressed(MEGABYTE, MEGABYTE / 2, Duration::from_micros(100));
        }
        assert!(costs.is_worthwhile(), "it became cheaper than writing");
    }

    #[test]
    fn while_time_stands_still_everything_is_compressed() {
        let mut costs = CompressionCosts::default();
        for _ in 0..3 {
            assert!(costs.is_worthwhile());
            costs.compressed(MEGABYTE, 10, Duration::ZERO);
            costs.written(MEGABYTE, Duration::ZERO);
        }
    }
}
