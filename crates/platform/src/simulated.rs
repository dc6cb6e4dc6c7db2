//! A machine for crash tests: a disk that loses power, fails a chosen call or flips a bit, a clock
//! that stands still until a test advances it, seeded randomness, and memory that is as full as a
//! test says. [`Scheduler`] runs tasks of several such machines in virtual time.
//!
//! The disk keeps apart what a running process sees and what would survive a power cut, for the
//! bytes of each file and for the names in each directory. It is stricter than most file systems:
//! syncing a file does not sync its name, and nothing reaches the disk by itself. It models neither
//! the duration of I/O nor misdirected writes.
//!
//! A crash test runs a workload once to learn its number of operations, and then again and again:
//!
//! ```
//! use platform::{Access, Platform, simulated::{OperationFilter, Survival, is_power_lost}};
//! use std::path::Path;
//!
//! let simulation = Platform::simulated(7);
//! let disk = &simulation.disk;
//! disk.cut_power_at_operation(2, Survival::Random);
//! let outcome = simulation.platform.disk.create(Path::new("a"), Access::Buffered)
//!     .and_then(|file| file.write_all_at(b"never acknowledged", 0));
//! assert!(is_power_lost(&outcome.unwrap_err()));
//! disk.restart();
//! assert_eq!(disk.operation_count(OperationFilter::Mutating), 2);
//! ```

mod clock;
mod disk;
mod faults;
mod names;
mod power;
mod process_memory;
mod random;
mod scheduler;
mod unsynced;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::{
    clock::{SeededEntropy, SimulatedClock},
    disk::SimulatedDisk,
    faults::{
        FaultKind, FaultSpan, LoggedOperation, OperationFilter, OperationKind, PowerLost,
        is_power_lost,
    },
    power::Survival,
    process_memory::SimulatedMemory,
    random::Random,
    scheduler::{Scheduler, Sleep, TaskGroup, TaskId},
};
use crate::Platform;

/// A simulated platform and the handles through which a test controls it.
pub struct Simulation {
    /// The platform to pass to the code under test.
    pub platform: Platform,
    /// The disk of `platform`.
    pub disk: Arc<SimulatedDisk>,
    /// The clock of `platform`.
    pub clock: Arc<SimulatedClock>,
    /// The memory of `platform`.
    pub memory: Arc<SimulatedMemory>,
}

impl Platform {
    /// A machine that behaves identically for the same seed and the same sequence of calls.
    pub fn simulated(seed: u64) -> Simulation {
        let mut seeds = Random::new(seed);
        let disk = Arc::new(SimulatedDisk::new(seeds.next_u64()));
        let clock = Arc::new(SimulatedClock::new());
        let entropy = Arc::new(SeededEntropy::new(seeds.next_u64()));
        let memory = Arc::new(SimulatedMemory::new());
        let platform =
            Self { disk: disk.clone(), clock: clock.clone(), entropy, memory: memory.clone() };
        Simulation { platform, disk, clock, memory }
    }
}
