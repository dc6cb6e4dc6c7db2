//! Who may take how much of the memory that the server has: every bound follows from one limit.
//!
//! The limit is the smallest of the setting, the control group's and the machine's. Invariant: what
//! is bounded here together leaves half of it for everything else.

use std::sync::Arc;

use commands::CommitQueueOptions;
use database::MemoryPressure;
use platform::{MemoryLimit, MemoryLimitSource, Platform};
use settings::{MemorySettings, Settings};
use storage::MemoryBudget;

use crate::body_share::BodyBudget;

/// Of one database's unflushed changes, unless a setting says otherwise.
const UNFLUSHED_BYTES_MAX: u64 = 256 << 20;
/// Memory is low when less than this is left, however much there is.
const LOW_BYTES_MAX: u64 = 2 << 30;
/// Assumed when the system does not say how much memory it has.
const UNKNOWN_LIMIT_BYTES: u64 = 4 << 30;

/// The bounds.
pub(crate) struct MemoryPlan {
    /// How much is left, and what that means.
    pub(crate) pressure: Arc<MemoryPressure>,
    /// Who sets the limit, in words.
    pub(crate) limited_by: &'static str,
    /// What one database may keep unflushed.
    pub(crate) unflushed_bytes_max: u64,
    /// What all databases may keep unflushed together.
    pub(crate) unflushed: Arc<MemoryBudget>,
    /// What may wait in the queue of one database.
    pub(crate) queue: CommitQueueOptions,
    /// What large bodies of requests may take together.
    pub(crate) bodies: Arc<BodyBudget>,
}

impl MemoryPlan {
    /// The plan for this machine and these settings.
    pub(crate) fn new(settings: &Settings, platform: &Platform) -> MemoryPlan {
        let system = platform.memory.limit().unwrap_or_else(|error| {
            tracing::warn!(%error, "the system does not say how much memory there is");
            MemoryLimit { bytes: UNKNOWN_LIMIT_BYTES, source: MemoryLimitSource::Physical }
        });
        let asked = settings.database.unflushed_bytes_max;
        MemoryPlan::within(system, &settings.memory, asked)
    }

    fn within(
        system: MemoryLimit,
        settings: &MemorySettings,
        unflushed_asked: Option<u64>,
    ) -> MemoryPlan {
        let set = settings.limit_bytes.filter(|bytes| *bytes < system.bytes);
        let limit = MemoryLimit { bytes: set.unwrap_or(system.bytes), ..system };
        let limited_by = match (set, system.source) {
            (Some(_), _) => "Memory.LimitInMb",
            (None, MemoryLimitSource::ControlGroup) => "the control group",
            (None, MemoryLimitSource::Physical) => "the machine",
        };
        let bytes = limit.bytes;
        let low = settings.low_bytes.unwrap_or_else(|| (bytes / 5).min(LOW_BYTES_MAX));
        let standard = CommitQueueOptions::default();
        let part = |of: u64| usize::try_from(bytes / of).unwrap_or(usize::MAX);
        let unflushed_bytes_max =
            unflushed_asked.unwrap_or_else(|| (bytes / 8).min(UNFLUSHED_BYTES_MAX));
        MemoryPlan {
            pressure: Arc::new(MemoryPressure::new(limit, low)),
            limited_by,
            unflushed_bytes_max,
            unflushed: MemoryBudget::new((bytes / 4).max(unflushed_bytes_max)),
            queue: CommitQueueOptions {
                bytes_max: standard.bytes_max.min(part(16)),
                transaction_bytes_max: standard.transaction_bytes_max.min(part(32)),
                ..standard
            },
            bodies: BodyBudget::new(bytes / 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn plan(system_mb: u64, limit_mb: Option<u64>, unflushed_mb: Option<u64>) -> MemoryPlan {
        let system = MemoryLimit { bytes: system_mb * MB, source: MemoryLimitSource::ControlGroup };
        let limit_bytes = limit_mb.map(|mb| mb * MB);
        let settings = MemorySettings { limit_bytes, low_bytes: None };
        MemoryPlan::within(system, &settings, unflushed_mb.map(|mb| mb * MB))
    }

    #[test]
    fn much_memory_changes_nothing_and_little_shrinks_every_bound() {
        let much = plan(64 << 10, None, None);
        assert_eq!(much.unflushed_bytes_max, 256 * MB);
        assert_eq!(much.queue, CommitQueueOptions::default());
        assert_eq!(much.pressure.low_bytes(), 2048 * MB);
        let little = plan(256, None, None);
        assert_eq!(little.unflushed_bytes_max, 32 * MB);
        assert_eq!(little.unflushed.bytes_max(), 64 * MB);
        assert_eq!(little.queue.bytes_max as u64, 16 * MB);
        assert_eq!(little.queue.transaction_bytes_max as u64, 8 * MB);
        assert_eq!(little.pressure.low_bytes(), 256 * MB / 5);
    }

    #[test]
    fn the_smallest_limit_counts_and_says_whose_it_is() {
        let set = plan(1000, Some(500), None);
        assert_eq!((set.pressure.limit().bytes, set.limited_by), (500 * MB, "Memory.LimitInMb"));
        let group = plan(1000, Some(2000), None);
        assert_eq!(group.pressure.limit().bytes, 1000 * MB);
        assert_eq!(group.limited_by, "the control group");
    }

    #[test]
    fn who_asks_for_more_unflushed_changes_gets_them() {
        let asked = plan(256, None, Some(200));
        assert_eq!(asked.unflushed_bytes_max, 200 * MB);
        assert_eq!(asked.unflushed.bytes_max(), 200 * MB);
    }
}
