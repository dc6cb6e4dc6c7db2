//! Memory that is as large and as full as a test says.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::process_memory::{MemoryLimit, MemoryLimitSource, MemoryUsage, ProcessMemory};

/// What a machine has of which no test said anything: so much that nothing is ever short.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The memory of a simulated process. Starts empty, and as good as unlimited.
pub struct SimulatedMemory {
    state: Mutex<(MemoryLimit, MemoryUsage)>,
}

impl SimulatedMemory {
    pub(crate) fn new() -> Self {
        let limit = MemoryLimit { bytes: UNLIMITED_BYTES, source: MemoryLimitSource::Physical };
        let usage =
            MemoryUsage { taken_bytes: 0, resident_bytes: 0, machine_free_bytes: UNLIMITED_BYTES };
        Self { state: Mutex::new((limit, usage)) }
    }

    /// Sets the limit, in bytes, as a control group would.
    pub fn set_limit(&self, bytes: u64) {
        self.state().0 = MemoryLimit { bytes, source: MemoryLimitSource::ControlGroup };
    }

    /// Sets what the process has taken, in bytes.
    pub fn set_taken(&self, bytes: u64) {
        let usage = &mut self.state().1;
        (usage.taken_bytes, usage.resident_bytes) = (bytes, bytes);
    }

    /// Sets what the machine could still give to any process, in bytes.
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

    fn release_unused(&self) {}
}
