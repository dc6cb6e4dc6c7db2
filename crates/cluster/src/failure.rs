//! The error that stopped openraft. openraft wraps errors in its own types, so the original is kept here.

use std::sync::{Arc, Mutex, PoisonError};

use cluster_state::ClusterError;
use openraft::{AnyError, StorageIOError};

use crate::raft_types::RaftStorageError;

#[derive(Clone, Debug)]
enum Failure {
    /// Appending an entry failed: the log does not contain it.
    Appending(ClusterError),
    /// Anything else failed, such as applying an entry, deleting applied entries, or storing the vote: the log
    /// may contain the commands, and then they will be or are applied.
    Elsewhere(ClusterError),
}

/// The last failure since the machine was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<Failure>>>);

impl LastFailure {
    /// Appending entries failed.
    pub(crate) fn appending(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_logs(AnyError::new(&error)).into();
        self.set(Failure::Appending(error));
        wrapped
    }

    /// Reading the log, or deleting entries of it, failed.
    pub(crate) fn in_log(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_logs(AnyError::new(&error)).into();
        self.set(Failure::Elsewhere(error));
        wrapped
    }

    /// Reading or writing the vote failed.
    pub(crate) fn in_vote(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_vote(AnyError::new(&error)).into();
        self.set(Failure::Elsewhere(error));
        wrapped
    }

    /// Reading or writing the state failed.
    pub(crate) fn in_state(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_state_machine(AnyError::new(&error)).into();
        self.set(Failure::Elsewhere(error));
        wrapped
    }

    fn set(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The error of a machine that could not be started. `reason` is openraft's own, used if no failure was
    /// recorded.
    pub(crate) fn at_start(&self, reason: &dyn std::fmt::Display) -> ClusterError {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            Some(Failure::Appending(error) | Failure::Elsewhere(error)) => error,
            None => {
                let source = std::io::Error::other(reason.to_string());
                ClusterError::Start { source: Arc::new(source) }
            }
        }
    }

    /// The error returned to callers whose commands openraft did not finish. `reason` is openraft's own, used
    /// if no failure was recorded.
    pub(crate) fn as_reported(&self, reason: &dyn std::fmt::Display) -> ClusterError {
        use storage::StorageError::{Failed, Io};
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            // It is unknown what a write that failed like this has left on disk.
            Some(Failure::Appending(ClusterError::Storage(
                source @ (Failed { .. } | Io { .. }),
            )))
            | Some(Failure::Elsewhere(ClusterError::Storage(source))) => {
                ClusterError::Unfinished { reason: source.to_string(), source: Some(source) }
            }
            Some(Failure::Appending(error)) => error,
            Some(Failure::Elsewhere(error)) => {
                ClusterError::Unfinished { reason: error.to_string(), source: None }
            }
            None => ClusterError::Unfinished { reason: reason.to_string(), source: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::StorageError;

    use super::*;

    fn full() -> ClusterError {
        ClusterError::Storage(StorageError::DiskFull { path: "journal".into() })
    }

    fn reported(fail: impl FnOnce(&LastFailure) -> RaftStorageError) -> ClusterError {
        let failure = LastFailure::default();
        drop(fail(&failure));
        failure.as_reported(&"openraft stopped")
    }

    #[test]
    fn only_a_command_that_was_not_appended_is_reported_as_not_applied() {
        let appending = reported(|failure| failure.appending(full()));
        assert!(matches!(appending, ClusterError::Storage(StorageError::DiskFull { .. })));
        let elsewhere: [fn(&LastFailure) -> RaftStorageError; 3] = [
            |failure| failure.in_log(full()),
            |failure| failure.in_vote(full()),
            |failure| failure.in_state(full()),
        ];
        for fail in elsewhere {
            let error = reported(fail);
            let ClusterError::Unfinished { source: Some(source), .. } = error else {
                panic!("{error:?}");
            };
            assert!(matches!(source, StorageError::DiskFull { .. }));
        }
    }
}
