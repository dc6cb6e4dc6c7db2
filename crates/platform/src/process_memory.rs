//! How much memory this process has taken, and how much it may take.
//!
//! The limit is the physical memory, or that of the process's control group where it is less. What is
//! taken counts only what the kernel cannot take back by itself: pages of mapped files and of the
//! page cache are left out, because they yield to whoever needs the room.

use std::{fs, io, path::Path};

use crate::control_group;

/// The most memory that a process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes.
    pub bytes: u64,
    /// Who sets it.
    pub source: MemoryLimitSource,
}

/// Who sets a limit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimitSource {
    /// The machine has no more.
    Physical,
    /// A control group of the system, as containers and services have one.
    ControlGroup,
}

/// What is taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Bytes in memory that belong to the process alone or to no file.
    pub taken_bytes: u64,
    /// Bytes in memory altogether, those of mapped files included.
    pub resident_bytes: u64,
    /// Bytes that the machine could still give to any process.
    pub machine_free_bytes: u64,
}

/// The memory of this process.
pub trait ProcessMemory: Send + Sync + 'static {
    /// The most that it may take. Asked for once, at the start.
    fn limit(&self) -> io::Result<MemoryLimit>;
    /// What it has taken. Cheap enough for once a second.
    fn usage(&self) -> io::Result<MemoryUsage>;
    /// [`MemoryUsage::taken_bytes`] alone. Cheap enough for every few milliseconds.
    fn taken_bytes(&self) -> io::Result<u64> {
        self.usage().map(|usage| usage.taken_bytes)
    }
    /// Gives back what this thread has allocated and others have freed since: the allocator keeps it
    /// for the thread, which may sleep for long. Worth calling before such a sleep only.
    fn release_unused(&self);
    /// From now on the allocator returns freed memory to the system after a millisecond, not after a
    /// second: what is freed within a second may be a hundred megabytes. For processes that may take
    /// little. A delay that the environment sets (`MIMALLOC_PURGE_DELAY`) remains.
    fn return_freed_at_once(&self);
}

/// The number of mimalloc's option for how long freed memory is kept, in milliseconds.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
const PURGE_DELAY_MILLISECONDS: std::ffi::c_long = 1;

/// As the kernel tells it.
pub struct RealProcessMemory;

impl ProcessMemory for RealProcessMemory {
    fn limit(&self) -> io::Result<MemoryLimit> {
        let (_, physical) = machine_memory()?;
        let of_group = read(Path::new("/proc/self/cgroup")).ok().and_then(|groups| {
            control_group::memory_limit(&groups, Path::new("/sys/fs/cgroup"), &read)
        });
        Ok(match of_group {
            Some(bytes) if bytes < physical => {
                MemoryLimit { bytes, source: MemoryLimitSource::ControlGroup }
            }
            _ => MemoryLimit { bytes: physical, source: MemoryLimitSource::Physical },
        })
    }

    fn usage(&self) -> io::Result<MemoryUsage> {
        let status = read(Path::new("/proc/self/status"))?;
        let (machine_free_bytes, _) = machine_memory()?;
        let resident_bytes = kilobytes(&status, "VmRSS:").ok_or_else(unreadable)?;
        let taken_bytes = taken_bytes(&status)?;
        Ok(MemoryUsage { taken_bytes, resident_bytes, machine_free_bytes })
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        taken_bytes(&read(Path::new("/proc/self/status"))?)
    }

    fn release_unused(&self) {
        // SAFETY: the function may be called by any thread at any time; it touches nothing but what
        // the allocator has of this thread, and that is nothing where the process has another one.
        unsafe { libmimalloc_sys::mi_collect(true) }
    }

    fn return_freed_at_once(&self) {
        // SAFETY: the number is that of an option, as a test checks; options are plain numbers that may
        // be set at any time, and are without effect where the process has another allocator.
        unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLISECONDS) }
    }
}

fn taken_bytes(status: &str) -> io::Result<u64> {
    let of = |name| kilobytes(status, name).ok_or_else(unreadable);
    Ok(of("RssAnon:")? + of("RssShmem:")?)
}

/// What the machine could still give to processes, and what it has altogether, in bytes.
pub(crate) fn machine_memory() -> io::Result<(u64, u64)> {
    let report = read(Path::new("/proc/meminfo"))?;
    let of = |name| kilobytes(&report, name).ok_or_else(unreadable);
    Ok((of("MemAvailable:")?, of("MemTotal:")?))
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

fn unreadable() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// The number behind a name in a report of the kernel, in bytes.
fn kilobytes(report: &str, name: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.strip_prefix(name))?;
    let count: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(count * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_is_taken_and_what_may_be() {
        let (limit, usage) =
            (RealProcessMemory.limit().unwrap(), RealProcessMemory.usage().unwrap());
        assert!(0 < usage.taken_bytes && usage.taken_bytes <= usage.resident_bytes);
        assert!(usage.resident_bytes < limit.bytes);
        assert!(0 < usage.machine_free_bytes);
    }

    /// Options have no names at run time; the delay is the one that is a second at first.
    #[test]
    fn freed_memory_is_returned_after_a_millisecond_when_that_is_asked_for() {
        // SAFETY: reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000);
        RealProcessMemory.return_freed_at_once();
        assert_eq!(delay(), PURGE_DELAY_MILLISECONDS);
    }

    #[test]
    fn what_a_process_takes_grows_with_what_it_fills() {
        let before = RealProcessMemory.usage().unwrap().taken_bytes;
        let filled = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = RealProcessMemory.usage().unwrap().taken_bytes;
        // Other tests of this process let go of memory meanwhile.
        assert!(after > before + (32 << 20), "{before} and {after}");
        drop(filled);
    }

    #[test]
    fn numbers_of_reports_are_in_kilobytes() {
        let report = "MemTotal:       2097152 kB\nMemAvailable: 3 kB\nHugePages_Total: 7\n";
        assert_eq!(kilobytes(report, "MemTotal:"), Some(2 << 30));
        assert_eq!(kilobytes(report, "MemAvailable:"), Some(3072));
        assert_eq!(kilobytes(report, "HugePages_Total:"), None);
        assert_eq!(kilobytes(report, "SwapFree:"), None);
    }
}
