//! How many scripts of patches run at the same time, for all databases together.
//!
//! Each may fill the heap of its thread, which is in no budget: their number is what bounds that memory. More
//! than there are processors would only slow each other down, until they run into their limits of time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The places.
pub(crate) struct ScriptPlaces {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place of one script, until this is dropped.
pub(crate) struct ScriptPlace<'p>(&'p ScriptPlaces);

impl ScriptPlaces {
    /// This many.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Waits for a place; scripts are bounded in time.
    pub(crate) fn take(&self) -> ScriptPlace<'_> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        ScriptPlace(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScriptPlace<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}
