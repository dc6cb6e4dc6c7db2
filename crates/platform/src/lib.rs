//! The only crate that touches disk, clock, randomness and the memory of the process.
//!
//! Everything above uses a [`Platform`] for its I/O, time and randomness, so that the same engine
//! runs on the real machine, in memory (`RunInMemory`), and on a simulated disk that loses power,
//! fails a chosen call, or flips bits. That is what makes crash tests repeatable.
//!
//! | module | what |
//! |---|---|
//! | [`disk`] | the traits [`Disk`] and [`File`], [`Mapping`] and [`AlignedBuffer`] |
//! | [`clock`] | [`Clock`]: wall-clock time and a monotonic counter |
//! | [`entropy`] | [`Entropy`]: random bytes |
//! | [`process_memory`] | [`ProcessMemory`]: how much memory the process has and may have |
//! | [`real`] | the machine this process runs on |
//! | [`meter`] | how often something happens: in total and recently |
//! | [`secret_memory`] | locked memory for keys and decrypted data, zeroed when it is returned |
//! | [`memory`] | files in memory, which disappear with the process |
//! | [`simulated`] | a disk that forgets what was not synced, and fails on command |
//! | [`other_process`] | when another process ends |
//! | [`own_signals`] | which signals this process was started to ignore |
//! | [`sockets`] | connections whose peer has vanished, or does not read |
//! | [`program`] | programs of the operator whose output is a secret |
//! | [`descriptors`] | how many files may be open at the same time |
//! | [`processor_time`] | processor time used, and which processors may be used |
//! | [`separate_blocks`], `moved_block` | large blocks have mappings of their own, where memory is scarce; moving blocks |
//! | [`wiping_allocator`] | zeroes memory that is freed, while there are secrets |
//! | [`thread_priority`] | threads that yield to others |

pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod entropy;
pub mod memory;
pub mod meter;
pub mod other_process;
pub mod own_signals;
pub mod process_memory;
pub mod processor_time;
pub mod program;
pub mod real;
pub mod secret_memory;
pub mod separate_blocks;
pub mod simulated;
pub mod sockets;
pub mod thread_priority;
pub mod wiping_allocator;

#[cfg(test)]
mod conformance;
mod control_group;
mod mapped;
mod moved_block;

use std::sync::Arc;

pub use crate::{
    clock::{Clock, Timestamp},
    disk::{
        Access, AlignedBuffer, DirectoryLock, Disk, DiskSpace, Exposure, File, LOCK_FILE, Mapping,
        SECTOR_BYTES,
    },
    entropy::Entropy,
    meter::{Meter, MeterReading},
    process_memory::{MemoryLimit, MemoryLimitSource, MemoryUsage, ProcessMemory},
};

/// The four things that code must not access directly. Created by `Platform::real`,
/// `Platform::memory` or `Platform::simulated`.
#[derive(Clone)]
pub struct Platform {
    /// Files and directories.
    pub disk: Arc<dyn Disk>,
    /// Wall-clock and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// How much memory there is and how much is used.
    pub memory: Arc<dyn ProcessMemory>,
}
