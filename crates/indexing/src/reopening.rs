//! Indexes that stopped because of their files or the disk are reopened automatically, after
//! growing pauses. Permanent failures wait for an operator, who can reset the index.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use model::IndexPriority;
use storage::StorageError;

use crate::{
    error::IndexError,
    index_set::{IndexSet, IndexSetEvent},
    indexing_pool::{NextTurn, Worker},
};

/// How long to wait before an index is reopened, for the first time, the second …
const PAUSES: [Duration; 6] = [
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(3600),
];
/// After an index has worked for this long, it starts with the first pause again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2 * 3600);

/// How often an index was reopened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reopenings {
    count: usize,
    last: Duration,
}

impl Reopenings {
    /// How long to wait before the next attempt; `None` after too many.
    pub(crate) fn next_pause(&mut self, now: Duration) -> Option<Duration> {
        if FORGOTTEN_AFTER < now.saturating_sub(self.last) {
            self.count = 0;
        }
        let pause = PAUSES.get(self.count).copied();
        (self.count, self.last) = (self.count + 1, now);
        pause
    }
}

/// Whether opening or writing the same files may succeed later.
pub(crate) fn may_pass(error: &IndexError) -> bool {
    if let Some(error) = error.storage() {
        return storage_may_pass(error);
    }
    match error {
        IndexError::Directory { .. } | IndexError::DeletionsMissed => true,
        IndexError::Storage(_)
        | IndexError::Definition { .. }
        | IndexError::Search(_)
        | IndexError::Documents(_)
        | IndexError::Values(_)
        | IndexError::Corrupt { .. }
        | IndexError::Closing
        | IndexError::Invalid { .. }
        | IndexError::Output { .. }
        | IndexError::Panicked => false,
    }
}

fn storage_may_pass(error: &StorageError) -> bool {
    match error {
        StorageError::Failed { reason } | StorageError::BuiltOnFailed { reason } => {
            storage_may_pass(reason)
        }
        StorageError::DiskFull { .. }
        | StorageError::TooManyUnflushed { .. }
        | StorageError::NoMemory(_)
        | StorageError::GivenUp { .. }
        | StorageError::Locked { .. }
        | StorageError::Io { .. } => true,
        _ => false,
    }
}

/// A task of a set of indexes that runs on a thread of the pool.
pub(crate) struct ScheduledTask {
    pub(crate) set: Weak<IndexSet>,
    pub(crate) key: String,
    pub(crate) what: TaskKind,
}

/// See [`ScheduledTask`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskKind {
    /// To swap in a replacement.
    Swap,
    /// To reopen an index.
    Reopen,
}

/// How long to wait before a failed swap is retried.
const REST_AFTER_SWAP: Duration = Duration::from_secs(5);

impl Worker for ScheduledTask {
    fn priority(&self) -> IndexPriority {
        IndexPriority::High
    }

    fn take_turn(self: Arc<Self>, _spare_threads: usize) -> NextTurn {
        let Some(set) = self.set.upgrade() else { return NextTurn::None };
        match self.what {
            TaskKind::Swap => match set.replace_when_caught_up(&self.key) {
                Ok(_) => NextTurn::None,
                // A broken environment is reopened first, and then reaches its swap again.
                Err(error) => match set.is_open_and_well(&self.key) {
                    true if may_pass(&error) => NextTurn::After(REST_AFTER_SWAP),
                    _ => NextTurn::None,
                },
            },
            TaskKind::Reopen => {
                set.reopen(&self.key);
                NextTurn::None
            }
        }
    }
}

impl IndexSet {
    /// Schedules the reopening of a broken index, or reports that it will not be reopened.
    pub(crate) fn reopen_later(&self, key: &str, name: &str, error: &IndexError) {
        let pause = match may_pass(error) {
            true => self.next_pause(key),
            false => None,
        };
        self.report(&IndexSetEvent::Failed { index: name, error, again_after: pause });
        if let Some(pause) = pause {
            self.schedule(key, TaskKind::Reopen, pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use search::SearchError;

    use super::*;

    #[test]
    fn a_failure_of_the_disk_passes_wherever_it_was_seen() {
        let full = StorageError::DiskFull { path: "x".into() };
        for (error, expected) in [(full, true), (StorageError::Closed, false)] {
            let wrapped = [
                IndexError::Storage(error.clone()),
                IndexError::Search(SearchError::Storage(error.clone())),
                IndexError::Documents(error.into()),
            ];
            for error in wrapped {
                assert_eq!(may_pass(&error), expected, "{error:?}");
            }
        }
        assert!(may_pass(&IndexError::DeletionsMissed) && !may_pass(&IndexError::Panicked));
    }

    #[test]
    fn pauses_grow_end_and_are_forgotten() {
        let mut reopenings = Reopenings::default();
        let mut now = Duration::from_secs(10);
        for pause in PAUSES {
            assert_eq!(reopenings.next_pause(now), Some(pause));
            now += pause;
        }
        assert_eq!(reopenings.next_pause(now), None);
        now += FORGOTTEN_AFTER + Duration::from_secs(1);
        assert_eq!(reopenings.next_pause(now), Some(PAUSES[0]));
    }
}
