//! Whether compressing a journal record pays: whether it takes less time than writing what it saves.
//!
//! On a drive that takes two bytes in a nanosecond it does not, on one that takes a fifth of a byte it
//! does. Both sides are measured on the records themselves; until that was possible, records are
//! compressed. Time is the clock's, which stands still on the simulated disk: there everything is
//! compressed, always.

use std::time::Duration;

/// Shorter writes say little about bytes: they cost what any write costs.
const WRITE_BYTES_MIN: u64 = 32 * 1024;
/// How many records go by uncompressed before one is compressed to see what that would be like.
const RETRY_AFTER: u32 = 64;
/// The newest measurement counts one part in so many.
const MEMORY: f64 = 8.0;

/// An average that forgets; nothing before the first measurement.
#[derive(Clone, Copy, Default)]
struct Average(Option<f64>);

impl Average {
    fn add(&mut self, value: f64) {
        self.0 = Some(self.0.map_or(value, |average| average + (value - average) / MEMORY));
    }
}

/// What writing and compressing cost lately.
#[derive(Default)]
pub(super) struct CompressionCosts {
    /// Nanoseconds for each byte written.
    write: Average,
    /// Nanoseconds for each byte that went in.
    compress: Average,
    /// Bytes saved for each byte that went in.
    saved: Average,
    uncompressed: u32,
}

impl CompressionCosts {
    /// Whether the next record should be compressed.
    pub(super) fn pays(&self) -> bool {
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
        assert!(costs.pays(), "nothing is known of writing");
        costs.written(4096, Duration::from_secs(1));
        assert!(costs.pays(), "a short write says nothing");
        costs.written(MEGABYTE, Duration::from_micros(write_micros));
        costs
    }

    #[test]
    fn compressing_pays_when_writing_what_it_saves_takes_longer() {
        assert!(costs(5_000).pays());
        assert!(!costs(3_000).pays());
    }

    #[test]
    fn now_and_then_it_is_tried_again() {
        let mut costs = costs(500);
        for _ in 0..RETRY_AFTER {
            assert!(!costs.pays());
            costs.left_uncompressed();
        }
        assert!(costs.pays());
        for _ in 0..40 {
            costs.compressed(MEGABYTE, MEGABYTE / 2, Duration::from_micros(100));
        }
        assert!(costs.pays(), "it became cheaper than writing");
    }

    #[test]
    fn where_time_stands_still_everything_is_compressed() {
        let mut costs = CompressionCosts::default();
        for _ in 0..3 {
            assert!(costs.pays());
            costs.compressed(MEGABYTE, 10, Duration::ZERO);
            costs.written(MEGABYTE, Duration::ZERO);
        }
    }
}
