//! Whether the disks of a database have room: a state that begins and ends by itself.
//!
//! There are two limits: below the higher one a warning is raised, below the lower one writes are refused,
//! which reserves space for what must not fail (the flush, the last journal) and for the operator. A write
//! that found no room also starts the refusal, whatever the file system reports. Each level ends slightly
//! above the limit at which it began, so that the state does not flap.
//!
//! When the disks are checked and who is notified is decided in `resource_watch`.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use commands::LowDiskSpace;
use platform::{Disk, DiskSpace};

/// How long writes are refused after one found no room although the file system reports some, because of a
/// quota, or because space comes and goes.
const FULL_HOLD: Duration = Duration::from_secs(5);
/// A level ends when free space exceeds its limit by `1 / MARGIN`.
const MARGIN: u64 = 8;

/// How much space must be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpaceLimits {
    /// Free bytes below which a warning is raised.
    pub alert_bytes: u64,
    /// Percentage of the disk below which a warning is raised.
    pub alert_percent: u64,
    /// Free bytes below which writes are refused.
    pub write_bytes: u64,
}

impl DiskSpaceLimits {
    /// No limits: writes are refused only when the disk is full.
    pub const NONE: DiskSpaceLimits =
        DiskSpaceLimits { alert_bytes: 0, alert_percent: 0, write_bytes: 0 };

    /// Free bytes below which a warning is raised, on a disk of that size.
    fn alert_below(&self, total_bytes: u64) -> u64 {
        let part = u128::from(total_bytes) * u128::from(self.alert_percent) / 100;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        self.alert_bytes.max(part).max(self.write_bytes)
    }
}

/// The level of free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskSpaceLevel {
    /// More space is free than the warning threshold.
    Enough,
    /// A warning is raised: the operator should free some space.
    Low,
    /// Writes are refused, reads continue.
    Refusing,
}

/// The state of the disk with the least room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpaceReading {
    /// The level that follows from the free bytes.
    pub level: DiskSpaceLevel,
    /// The database's directory on that disk.
    pub directory: PathBuf,
    /// Free bytes on it.
    pub free_bytes: u64,
    /// Size of the disk in bytes.
    pub total_bytes: u64,
    /// Bytes that must be free for the level to end.
    pub needed_bytes: u64,
    /// Whether a write recently found no room.
    pub was_full: bool,
}

struct State {
    reading: DiskSpaceReading,
    /// Until when writes are refused because one found no room.
    full_until: Option<Duration>,
    announced: DiskSpaceLevel,
}

/// The disks of one database.
pub(crate) struct DiskSpaceGauge {
    disk: Arc<dyn Disk>,
    directories: Vec<PathBuf>,
    limits: DiskSpaceLimits,
    state: Mutex<State>,
}

impl DiskSpaceGauge {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        directories: Vec<PathBuf>,
        limits: DiskSpaceLimits,
    ) -> DiskSpaceGauge {
        let reading = DiskSpaceReading {
            level: DiskSpaceLevel::Enough,
            directory: directories.first().cloned().unwrap_or_default(),
            free_bytes: 0,
            total_bytes: 0,
            needed_bytes: 0,
            was_full: false,
        };
        let state = State { reading, full_until: None, announced: DiskSpaceLevel::Enough };
        DiskSpaceGauge { disk, directories, limits, state: Mutex::new(state) }
    }

    /// Checks the disks. `found_full` says that a write has found no room since the last check. If a disk
    /// cannot be queried, the state is left unchanged.
    pub(crate) fn look(&self, found_full: bool, now: Duration) -> DiskSpaceReading {
        let spaces = self.directories.iter().filter_map(|directory| {
            let space = self.disk.space(directory).ok()?;
            Some((directory, space))
        });
        let fullest = spaces.min_by_key(|(_, space)| space.free_bytes);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if found_full {
            state.full_until = Some(now + FULL_HOLD);
        }
        let was_full = state.full_until.is_some_and(|until| now < until);
        if let Some((directory, space)) = fullest {
            let (level, needed_bytes) = judge(state.reading.level, space, self.limits, was_full);
            state.reading = DiskSpaceReading {
                level,
                directory: directory.clone(),
                free_bytes: space.free_bytes,
                total_bytes: space.total_bytes,
                needed_bytes,
                was_full,
            };
        }
        state.reading.clone()
    }

    /// The most recent reading.
    pub(crate) fn reading(&self) -> DiskSpaceReading {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reading.clone()
    }

    /// The last reading, if its level differs from the one last announced.
    pub(crate) fn take_change(&self) -> Option<DiskSpaceReading> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let level = state.reading.level;
        let before = std::mem::replace(&mut state.announced, level);
        (before != level).then(|| state.reading.clone())
    }
}

/// The new level, depending on the old one, and how many bytes must be free for it to end.
fn judge(
    before: DiskSpaceLevel,
    space: DiskSpace,
    limits: DiskSpaceLimits,
    was_full: bool,
) -> (DiskSpaceLevel, u64) {
    let DiskSpace { free_bytes, total_bytes } = space;
    let begins_below = [
        (DiskSpaceLevel::Refusing, limits.write_bytes),
        (DiskSpaceLevel::Low, limits.alert_below(total_bytes)),
    ];
    for (level, limit) in begins_below {
        let end = limit.saturating_add(limit / MARGIN).min(total_bytes);
        let has_begun = match before {
            DiskSpaceLevel::Refusing => true,
            DiskSpaceLevel::Low => level == DiskSpaceLevel::Low,
            DiskSpaceLevel::Enough => false,
        };
        let is_refused_for_fullness = was_full && level == DiskSpaceLevel::Refusing;
        if is_refused_for_fullness || free_bytes < limit || (has_begun && free_bytes < end) {
            return (level, end);
        }
    }
    (DiskSpaceLevel::Enough, 0)
}

impl DiskSpaceReading {
    /// Why writes are refused, if they are.
    pub fn refusal(&self) -> Option<Arc<LowDiskSpace>> {
        (self.level == DiskSpaceLevel::Refusing).then(|| {
            Arc::new(LowDiskSpace {
                directory: self.directory.clone(),
                free_bytes: self.free_bytes,
                free_bytes_min: self.needed_bytes,
                was_full: self.was_full,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DiskSpaceLimits =
        DiskSpaceLimits { alert_bytes: 1000, alert_percent: 10, write_bytes: 80 };

    #[test]
    fn the_level_follows_the_room_and_ends_above_where_it_began() {
        use DiskSpaceLevel::{Enough, Low, Refusing};
        let story = [
            (5000, Enough),
            (1000, Enough),
            (999, Low),
            (1124, Low),
            (1125, Enough),
            (900, Low),
            (80, Low),
            (79, Refusing),
            (89, Refusing),
            (90, Low),
            (80, Low),
            (10, Refusing),
            (5000, Enough),
        ];
        let mut level = Enough;
        for (free_bytes, expected) in story {
            let space = DiskSpace { free_bytes, total_bytes: 10_000 };
            level = judge(level, space, LIMITS, false).0;
            assert_eq!(level, expected, "{free_bytes} free");
        }
    }

    #[test]
    fn a_large_disk_warns_by_its_part_and_an_empty_one_never_refuses() {
        let of = |before, free_bytes, total_bytes| {
            judge(before, DiskSpace { free_bytes, total_bytes }, LIMITS, false).0
        };
        assert_eq!(of(DiskSpaceLevel::Enough, 9_999, 100_000), DiskSpaceLevel::Low);
        assert_eq!(of(DiskSpaceLevel::Enough, 10_000, 100_000), DiskSpaceLevel::Enough);
        assert_eq!(of(DiskSpaceLevel::Low, 600, 600), DiskSpaceLevel::Low);
        assert_eq!(of(DiskSpaceLevel::Refusing, 85, 85), DiskSpaceLevel::Low);
    }

    #[test]
    fn without_limits_only_fullness_refuses() {
        let space = DiskSpace { free_bytes: 0, total_bytes: 100 };
        assert_eq!(
            judge(DiskSpaceLevel::Enough, space, DiskSpaceLimits::NONE, false).0,
            DiskSpaceLevel::Enough
        );
        assert_eq!(
            judge(DiskSpaceLevel::Enough, space, DiskSpaceLimits::NONE, true).0,
            DiskSpaceLevel::Refusing
        );
        assert_eq!(
            judge(DiskSpaceLevel::Refusing, space, DiskSpaceLimits::NONE, false).0,
            DiskSpaceLevel::Enough
        );
    }
}
