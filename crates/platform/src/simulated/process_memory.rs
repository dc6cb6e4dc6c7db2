//! Memory that is as large and as full as a test says.

use std::{
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::process_memory::{MemoryLimit, MemoryLimitSource, MemoryUsage, ProcessMemory};

/// The default memory of a machine: so much that it never runs short.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The memory of a simulated process. Starts empty and practically unlimited.
pub struct SimulatedMemory {
    state: Mutex<(MemoryLimit, MemoryUsage)>,
    /// How often it was asked to release unused memory.
    releases: Mutex<u64>,
    released: Condvar,
    returns_freed_at_once: AtomicBool,
}

impl SimulatedMemory {
    pub(crate) fn new() -> Self {
        let limit = MemoryLimit { bytes: UNLIMITED_BYTES, source: MemoryLimitSource::Physical };
        let usage =
            MemoryUsage { taken_bytes: 0, resident_bytes: 0, machine_free_bytes: UNLIMITED_BYTES };
        let (releases, released, returns_freed_at_once) = Default::default();
        Self { state: Mutex::new((limit, usage)), releases, released, returns_freed_at_once }
    }

    /// Whether it was asked at least `times` times to release unused memory; waits for that up to
    /// `patience`.
    pub fn was_released(&self, times: u64, patience: Duration) -> bool {
        let releases = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.released.wait_timeout_while(releases, patience, |count| *count < times);
        let (releases, _) = waited.unwrap_or_else(PoisonError::into_inner);
        times <= *releases
    }

    /// Whether freed memory is returned at once.
    pub fn returns_freed_at_once(&self) -> bool {
        self.returns_freed_at_once.load(Ordering::SeqCst)
    }

    /// Sets the limit, in bytes, as a control group would.
    pub fn set_limit(&self, bytes: u64) {
        self.state().0 = MemoryLimit { bytes, source: MemoryLimitSource::ControlGroup };
    }

    /// Sets the memory used by the process, in bytes.
    pub fn set_taken(&self, bytes: u64) {
        let usage = &mut self.state().1;
        (usage.taken_bytes, usage.resident_bytes) = (bytes, bytes);
    }

    /// Sets the memory that the machine has available for any process, in bytes.
    pub fn set_machine_free(&self, bytes: u64) {
        self.state().1.machine_free_bytes = bytes;
    }

    fn state(&self) -> MutexGuard<'_, (MemoryLimit, MemoryUsage)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessMemory for SimulatedMemory {
    fn limit(&self) -> io::Result<MemoryLimit> {
        Ok(self.state().0)
    }

    fn usage(&self) -> io::Result<MemoryUsage> {
        Ok(self.state().1)
    }

    fn release_unused(&self) {
        *self.releases.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.released.notify_all();
    }

    fn return_freed_at_once(&self) {
        self.returns_freed_at_once.store(true, Ordering::SeqCst);
    }
}
