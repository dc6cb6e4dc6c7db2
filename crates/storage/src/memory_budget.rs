//! Memory for page versions and buffers that all environments of a process share.
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
pub(crate) const ALWAYS_ALLOWED_BYTES: u64 = 256 * 1024;

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

    /// Bytes of page versions and kept buffers that are held now.
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

/// A buffer that is kept for later use, counted as part of a budget for as long as it is kept.
pub(crate) struct Kept<T> {
    value: Option<T>,
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl<T> Kept<T> {
    pub(crate) fn nothing(budget: Arc<MemoryBudget>) -> Self {
        Self { value: None, bytes: 0, budget }
    }

    /// Gives the buffer away, if one is kept.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.budget.give_back(std::mem::take(&mut self.bytes));
        self.value.take()
    }

    /// Keeps a buffer of that many bytes, unless the budget is half used up.
    pub(crate) fn keep(&mut self, value: T, bytes: u64) {
        drop(self.take());
        if self.budget.held_bytes().saturating_add(bytes) <= self.budget.bytes_max() / 2 {
            self.budget.take(bytes);
            (self.value, self.bytes) = (Some(value), bytes);
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_buffer_counts_until_it_is_taken_and_is_not_kept_when_memory_is_short() {
        let budget = MemoryBudget::new(100);
        let mut kept = Kept::nothing(Arc::clone(&budget));
        kept.keep("buffer", 40);
        assert_eq!(budget.held_bytes(), 40);
        assert_eq!((kept.take(), budget.held_bytes()), (Some("buffer"), 0));
        budget.take(20);
        kept.keep("buffer", 40);
        assert_eq!((kept.take(), budget.held_bytes()), (None, 20));
        kept.keep("buffer", 10);
        kept.keep("other", 20);
        assert_eq!(budget.held_bytes(), 40);
        drop(kept);
        assert_eq!(budget.held_bytes(), 20);
    }
}
