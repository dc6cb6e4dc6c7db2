//! What made openraft give up. It wraps errors in its own, so the original is kept here.

use std::sync::{Arc, Mutex, PoisonError};

use cluster_state::ClusterError;
use openraft::{AnyError, StorageIOError};

use crate::raft_types::RaftStorageError;

#[derive(Clone, Debug)]
enum Failure {
    /// While the log was read or written: what was to be appended is not in it.
    InLog(ClusterError),
    /// While the state was read or written: the log has the commands, and they will be applied.
    InState(ClusterError),
}

/// The failure since the machine was started last.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<Failure>>>);

impl LastFailure {
    pub(crate) fn in_log(&self, error: ClusterError) -> RaftStorageError {
        let told = StorageIOError::write_logs(AnyError::new(&error)).into();
        self.set(Failure::InLog(error));
        told
    }

    pub(crate) fn in_state(&self, error: ClusterError) -> RaftStorageError {
        let told = StorageIOError::write_state_machine(AnyError::new(&error)).into();
        self.set(Failure::InState(error));
        told
    }

    fn set(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What those hear whose commands openraft did not finish, for the reason that it gives.
    pub(crate) fn told_as(&self, reason: &dyn std::fmt::Display) -> ClusterError {
        use storage::StorageError::{Failed, Io};
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            // Nobody knows what a write has left that ended like this.
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
