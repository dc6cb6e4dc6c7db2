//! Names that the runs of this process are using: no two may get one folder, and what one is writing is not removed.
//!
//! Nobody holds a lock while waiting for a disk because of this.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Names in use.
#[derive(Default)]
pub(super) struct ClaimedNames {
    names: Mutex<HashSet<String>>,
}

/// A name that is in use until this is dropped.
pub(super) struct ClaimedName<'n> {
    of: &'n ClaimedNames,
    name: String,
}

impl ClaimedNames {
    /// Claims a name; `None` if it is in use.
    pub(super) fn claim(&self, name: String) -> Option<ClaimedName<'_>> {
        let is_new = self.lock().insert(name.clone());
        is_new.then(|| ClaimedName { of: self, name })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClaimedName<'_> {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
    }
}
