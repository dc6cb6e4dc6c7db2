//! Locks by the name of a database. Names share a fixed number of locks, so there is nothing to clean up.
//!
//! A thread that holds one must not take another: both names may share a lock.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use model::DatabaseName;

const LOCKS: usize = 64;

pub(crate) struct NameLocks([Mutex<()>; LOCKS]);

impl NameLocks {
    /// Waits until no other thread holds the lock of this name, in any case.
    pub(crate) fn lock(&self, name: &DatabaseName) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        name.lower_cased().hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0);
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for NameLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}
