//! Names that the runs of this process are using: no two may get one folder, and what one is writing is not removed.
//!
//! A run waits for a disk without a lock. Only what removes leftovers holds this one, for the removal of one file:
//! those who wait for it are runs that begin.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Names in use: of folders of backups, and of files after those of their folders.
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

    /// Does something unless a name is in use, which nobody can claim meanwhile; it should be short.
    pub(super) fn unless_claimed<T>(&self, name: &str, action: impl FnOnce() -> T) -> Option<T> {
        let names = self.lock();
        if names.contains(name) { None } else { Some(action()) }
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
