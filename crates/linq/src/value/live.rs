//! The memory of the values that a definition creates: counted per thread, while they exist.
//!
//! Values stay on the thread that created them, and one evaluation runs there at a time, so a number
//! per thread is the number of the evaluation. What is shared is counted once.

use std::cell::Cell;

/// Approximate bytes of a container besides its elements.
const CONTAINER_BYTES: usize = 64;

thread_local! {
    static LIVE: Cell<u64> = const { Cell::new(0) };
}

/// Bytes of the values of the evaluation on this thread.
#[inline]
pub(crate) fn live_bytes() -> u64 {
    LIVE.get()
}

/// Begins an evaluation, which has created nothing yet.
pub(crate) fn begin() {
    LIVE.set(0);
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: usize,
}

impl Counted {
    /// Of a container with so many elements of that type.
    pub(crate) fn elements<T>(count: usize) -> Counted {
        Counted::bytes(CONTAINER_BYTES + count * size_of::<T>())
    }

    pub(crate) fn bytes(bytes: usize) -> Counted {
        LIVE.set(LIVE.get().saturating_add(bytes as u64));
        Counted { bytes }
    }

    /// Counts one element more.
    #[inline]
    pub(crate) fn add<T>(&mut self) {
        self.bytes += size_of::<T>();
        LIVE.set(LIVE.get().saturating_add(size_of::<T>() as u64));
    }
}

impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted::bytes(self.bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.set(LIVE.get().saturating_sub(self.bytes as u64));
    }
}
