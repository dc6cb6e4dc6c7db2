//! What clients are known by at this moment, as a value that each change replaces.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use security::{Certificate, TrustedCertificates};

/// The certificates that are trusted, and the server's own.
#[derive(Default)]
pub(crate) struct KnownCertificates {
    trusted: RwLock<Arc<TrustedCertificates>>,
    /// The certificate with which the server listens.
    own: Mutex<Option<Certificate>>,
    /// Held while a change is stored and comes into force.
    changing: Mutex<()>,
}

impl KnownCertificates {
    /// Held while a change is stored and comes into force.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trusted(&self) -> Arc<TrustedCertificates> {
        Arc::clone(&self.trusted.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, trusted: TrustedCertificates) {
        *self.trusted.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(trusted);
    }

    pub(crate) fn own(&self) -> Option<Certificate> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_own(&self, certificate: Certificate) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate);
    }
}
