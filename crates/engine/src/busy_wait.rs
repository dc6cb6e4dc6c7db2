//! Waiting for a busy database, instead of failing at once.

use std::time::Duration;

use commands::SubmitError;
use database::DatabaseLease;

use crate::error::EngineError;

/// How many times a caller waits before it fails.
const TRIES_MAX: usize = 600;
/// How long it waits each time, and how long a bulk insert waits before it tries a batch again.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Counts how often a caller has waited until a database takes another batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyWait {
    tries: usize,
}

impl BusyWait {
    /// How long to wait before the next call; `None` if the database takes another batch now.
    ///
    /// # Errors
    /// It has been busy for too long ([`SubmitError::Full`]), or is being closed
    /// ([`EngineError::DatabaseClosing`]).
    pub fn next(&mut self, database: &DatabaseLease) -> Result<Option<Duration>, EngineError> {
        match database.has_room() {
            false if database.is_closing() => {
                Err(EngineError::DatabaseClosing { is_written: false })
            }
            has_room => self.next_unless(has_room),
        }
    }

    /// The same for a caller that waits for something else, too.
    pub(crate) fn next_unless(&mut self, is_ready: bool) -> Result<Option<Duration>, EngineError> {
        if is_ready {
            return Ok(None);
        }
        if self.tries == TRIES_MAX {
            return Err(SubmitError::Full.into());
        }
        self.tries += 1;
        Ok(Some(BUSY_PAUSE))
    }

    /// How often it has waited.
    pub(crate) fn tries(self) -> usize {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_does_not_wait_forever() {
        let mut wait = BusyWait::default();
        assert_eq!(wait.next_unless(true).unwrap(), None);
        for tries in 1..=TRIES_MAX {
            assert_eq!(wait.next_unless(false).unwrap(), Some(BUSY_PAUSE));
            assert_eq!(wait.tries(), tries);
        }
        assert!(matches!(wait.next_unless(false), Err(EngineError::Submit(SubmitError::Full))));
        assert_eq!(wait.next_unless(true).unwrap(), None);
    }
}
