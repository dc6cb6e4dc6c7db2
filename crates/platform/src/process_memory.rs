//! How much memory this process uses, and how much it may use.
//!
//! The limit is the physical memory, or that of the process's control group where it is less. Use
//! counts only what the kernel cannot reclaim by itself: pages of mapped files and of the page
//! cache are left out, because they yield to any other demand.

use std::{fs, io, path::Path};

use crate::{control_group, memory::content, separate_blocks::separate_large_blocks};

/// The most memory that a process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// Whether the machine or a control group imposes it.
    pub source: MemoryLimitSource,
}

/// What imposes a memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimitSource {
    /// The machine has no more.
    Physical,
    /// A control group of the system, as containers and services have one.
    ControlGroup,
}

/// Memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Bytes in memory that belong to the process alone, or to files in memory, mapped or not; with the page tables,
    /// which grow with mapped files.
    pub taken_bytes: u64,
    /// Bytes in memory altogether: those of [`MemoryUsage::taken_bytes`] and those of mapped files.
    pub resident_bytes: u64,
    /// Bytes that the machine has available for any process.
    pub machine_free_bytes: u64,
}

/// The memory of this process.
pub trait ProcessMemory: Send + Sync + 'static {
    /// The memory limit. Called once, at startup.
    fn limit(&self) -> io::Result<MemoryLimit>;
    /// The memory in use. Cheap enough to call once a second.
    fn usage(&self) -> io::Result<MemoryUsage>;
    /// [`MemoryUsage::taken_bytes`] alone. Cheap enough to call every few milliseconds.
    fn taken_bytes(&self) -> io::Result<u64> {
        self.usage().map(|usage| usage.taken_bytes)
    }
    /// Returns memory to the system that this thread has allocated and others have freed since: the
    /// allocator retains it for the thread, which may sleep for long. Only worthwhile before such a
    /// sleep.
    fn release_unused(&self);
    /// From now on the allocator returns freed memory to the system after a millisecond, not after
    /// a second: what is freed within a second may be a hundred megabytes. Large blocks are returned as
    /// soon as they are freed ([`crate::separate_blocks`]). For processes with a small memory limit. A
    /// delay set in the environment (`MIMALLOC_PURGE_DELAY`) takes
    /// precedence.
    fn return_freed_at_once(&self);
}

/// The number of mimalloc's option for how long freed memory is kept, in milliseconds.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
const PURGE_DELAY_MILLISECONDS: std::ffi::c_long = 1;

/// Has the kernel back the memory of this process and its children by pages of 4 KB only, whatever the
/// machine prefers. With huge pages, which some kernels use everywhere and allocators may request, a
/// few bytes in use hold 2 MB: a server with 60 small databases took 74 MB instead of 34. Without effect
/// where the kernel knows no huge pages.
pub fn use_small_pages() {
    let _unsupported = rustix::thread::disable_transparent_huge_pages(true);
}

/// Process memory as reported by the kernel.
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
        let of_files = kilobytes(&status, "RssFile:").ok_or_else(unreadable)?;
        let taken_bytes = taken_bytes(&status)?;
        let resident_bytes = taken_bytes + of_files;
        Ok(MemoryUsage { taken_bytes, resident_bytes, machine_free_bytes })
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        taken_bytes(&read(Path::new("/proc/self/status"))?)
    }

    fn release_unused(&self) {
        // SAFETY: the function may be called by any thread at any time; it touches only the
        // allocator's state of this thread, which is empty where the process uses another
        // allocator.
        unsafe { libmimalloc_sys::mi_collect(true) }
    }

    fn return_freed_at_once(&self) {
        // SAFETY: the number is that of an option, as a test checks; options are plain numbers that
        // may be set at any time, and have no effect where the process uses another allocator.
        unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLISECONDS) }
        separate_large_blocks();
    }
}

fn taken_bytes(status: &str) -> io::Result<u64> {
    let of = |name| kilobytes(status, name).ok_or_else(unreadable);
    // Thousands of small environments have tens of megabytes of page tables.
    Ok(of("RssAnon:")? + of("VmPTE:")? + of("RssShmem:")?.max(content::occupied_bytes()))
}

/// Available and total memory of the machine, in bytes.
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

/// The number after `name` in a report of the kernel, in bytes.
fn kilobytes(report: &str, name: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.strip_prefix(name))?;
    let count: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(count * 1024)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Held by tests that take so much memory that others would measure it.
    fn measuring() -> MutexGuard<'static, ()> {
        static MEASURING: Mutex<()> = Mutex::new(());
        MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn the_kernel_reports_use_and_limit() {
        let (limit, usage) =
            (RealProcessMemory.limit().unwrap(), RealProcessMemory.usage().unwrap());
        assert!(0 < usage.taken_bytes && usage.taken_bytes <= usage.resident_bytes);
        assert!(usage.resident_bytes < limit.bytes);
        assert!(0 < usage.machine_free_bytes);
    }

    #[test]
    fn page_tables_are_counted() {
        let status = "VmPTE:\t  24 kB\nRssAnon:\t 1000 kB\nRssFile:\t 7 kB\nRssShmem:\t 0 kB\n";
        assert!((1024 << 10) <= taken_bytes(status).unwrap());
        assert!(kilobytes(&read(Path::new("/proc/self/status")).unwrap(), "VmPTE:").is_some());
    }

    #[test]
    fn a_process_can_do_without_huge_pages() {
        use_small_pages();
        let status = read(Path::new("/proc/self/status")).unwrap();
        assert!(!status.contains("THP_enabled:\t1"), "{status}");
    }

    /// Options have no names at run time; the delay is the one that is initially a second.
    #[test]
    fn freed_memory_is_returned_after_a_millisecond_on_request() {
        // SAFETY: reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000);
        RealProcessMemory.return_freed_at_once();
        assert_eq!(delay(), PURGE_DELAY_MILLISECONDS);
    }

    #[test]
    fn what_a_process_takes_grows_with_what_it_fills() {
        let _alone = measuring();
        let before = RealProcessMemory.usage().unwrap().taken_bytes;
        let filled = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = RealProcessMemory.usage().unwrap().taken_bytes;
        // Other tests of this process free memory meanwhile.
        assert!(after > before + (32 << 20), "{before} and {after}");
        drop(filled);
    }

    #[test]
    fn a_file_in_memory_is_taken_although_it_is_not_mapped() {
        const BYTES: usize = 64 << 20;
        let _alone = measuring();
        let taken = || RealProcessMemory.taken_bytes().unwrap();
        let before = taken();
        let content = content::Content::empty().unwrap();
        content.set_len(2 * BYTES as u64).unwrap();
        let of_holes = taken();
        content.write_all_at(&vec![1; BYTES], 0).unwrap();
        let written = taken();
        content.set_len(0).unwrap();
        let truncated = taken();
        // Other tests of this process take and free memory meanwhile.
        let margin = (BYTES / 2) as u64;
        assert!(of_holes < before + margin, "{before} and {of_holes}");
        assert!(written > before + margin, "{before} and {written}");
        assert!(truncated < written - margin, "{written} and {truncated}");
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
