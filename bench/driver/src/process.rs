//! A process seen from outside: its processor time and its memory, from /proc.

use std::{fs, time::Duration};

use rustix::param::clock_ticks_per_second;

/// A process by its id.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) id: u32,
}

/// Memory of a process in MB (10^6 bytes).
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// Everything resident, mapped file pages included (`VmRSS`).
    pub(crate) resident: f64,
    /// Resident and not backed by a file (`RssAnon`).
    pub(crate) anonymous: f64,
    /// The highest that `resident` ever was (`VmHWM`).
    pub(crate) peak: f64,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Self {
        Self { id: std::process::id() }
    }

    /// User and system time of all its threads since it began, in steps of a clock tick (10 ms).
    /// `None` when the process is gone.
    pub(crate) fn processor_time(self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id)).ok()?;
        processor_ticks(&text)
            .map(|ticks| Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
    }

    /// `None` when the process is gone.
    pub(crate) fn memory(self) -> Option<Memory> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id)).ok()?;
        Some(Memory {
            resident: megabytes(&text, "VmRSS:")?,
            anonymous: megabytes(&text, "RssAnon:")?,
            peak: megabytes(&text, "VmHWM:")?,
        })
    }

    /// How many threads it has; `None` when the process is gone.
    pub(crate) fn threads(self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
    }
}

/// Fields 14 and 15 of `/proc/<id>/stat`; the name in field 2 may contain anything, so the count
/// starts behind its closing parenthesis.
fn processor_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn megabytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_process_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 3 2 20 0 1 0 99 0 0";
        assert_eq!(processor_ticks(stat), Some(22));
    }

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let own = Process::own();
        let memory = own.memory().unwrap();
        assert!(memory.peak >= memory.resident && memory.resident > memory.anonymous);
        assert!(own.processor_time().is_some() && own.threads() >= Some(1));
        assert!(Process { id: u32::MAX }.processor_time().is_none());
    }
}
