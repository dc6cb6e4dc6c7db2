//! What API keys clients are known by at this moment, as a value that each change replaces.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use security::TrustedKeys;

/// The keys that are trusted at this moment, as a value that each change replaces.
#[derive(Default)]
pub(crate) struct KnownKeys {
    trusted: RwLock<Arc<TrustedKeys>>,
    /// Held while a change is stored and comes into force.
    changing: Mutex<()>,
}

impl KnownKeys {
    /// Held while a change is stored and comes into force.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trusted(&self) -> Arc<TrustedKeys> {
        Arc::clone(&self.trusted.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, trusted: TrustedKeys) {
        *self.trusted.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(trusted);
    }
}
