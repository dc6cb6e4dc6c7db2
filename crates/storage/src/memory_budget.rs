//! Memory for page versions that all environments of a process share.
//!
//! Each environment has a limit of its own; this one holds for their sum, so that many environments
//! that are written at once do not each take all they could have alone. Invariant: every byte counted
//! in is counted out when its version is dropped.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// An environment that holds no more than this may be written whatever the others hold. So the sum
/// may exceed the limit by this much for each environment, and by the transactions that are open.
pub(crate) const ALWAYS_ALLOWED_BYTES: u64 = 1024 * 1024;

/// A number of bytes that several environments may hold together.
#[derive(Debug)]
pub struct MemoryBudget {
    held: AtomicU64,
    bytes_max: u64,
}

impl MemoryBudget {
    /// A budget of that many bytes, of which none is taken.
    pub fn new(bytes_max: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { held: AtomicU64::new(0), bytes_max })
    }

    /// A budget that is never exhausted.
    pub fn unlimited() -> Arc<MemoryBudget> {
        MemoryBudget::new(u64::MAX)
    }

    /// Bytes of page versions that are held now.
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes that may be held.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}
