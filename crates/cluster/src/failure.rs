//! The error that stopped openraft. openraft wraps errors in its own types, so the original is kept here.

use std::sync::{Arc, Mutex, PoisonError};

use cluster_state::ClusterError;
use openraft::{AnyError, StorageIOError};

use crate::raft_types::RaftStorageError;

#[derive(Clone, Debug)]
enum Failure {
    /// Reading or writing the log failed: the log does not contain the entry to append.
    InLog(ClusterError),
    /// Reading or writing the state failed: the log has the commands, and they will be applied.
    InState(ClusterError),
}

/// The last failure since the machine was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<Failure>>>);

impl LastFailure {
    pub(crate) fn in_log(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_logs(AnyError::new(&error)).into();
        self.set(Failure::InLog(error));
        wrapped
    }

    pub(crate) fn in_state(&self, error: ClusterError) -> RaftStorageError {
        let wrapped = StorageIOError::write_state_machine(AnyError::new(&error)).into();
        self.set(Failure::InState(error));
        wrapped
    }

    fn set(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The error returned to callers whose commands openraft did not finish. `reason` is openraft's own, used
    /// if no failure was recorded.
    pub(crate) fn as_reported(&self, reason: &dyn std::fmt::Display) -> ClusterError {
        use storage::StorageError::{Failed, Io};
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            // It is unknown what a write that failed like this has left on disk.
            Some(Failure::InLog(ClusterError::Storage(source @ (Failed { .. } | Io { .. }))))
            | Some(Failure::InState(ClusterError::Storage(source))) => {
                ClusterError::Unfinished { reason: source.to_string(), source: Some(source) }
            }
            Some(Failure::InLog(error)) => error,
            Some(Failure::InState(error)) => {
                ClusterError::Unfinished { reason: error.to_string(), source: None }
            }
            None => ClusterError::Unfinished { reason: reason.to_string(), source: None },
        }
    }
}
