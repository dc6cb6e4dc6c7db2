//! The machine of a run. Facts that cannot be read are left empty, not guessed.

use std::{fmt, fs, path::Path, thread};

use serde_json::{Value, json};

/// The machine of a run.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Device, file system and mount point of the data.
    pub disk: String,
    /// Load averages when the run started: anything beyond 0 is caused by other processes.
    pub load_before: String,
}

impl Machine {
    /// Inspects the machine; `data` is the directory of the data.
    pub fn look(data: &Path) -> Self {
        let uname = rustix::system::uname();
        let kernel =
            format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
        Self {
            cores: thread::available_parallelism().map_or(0, usize::from),
            processor: after_colon("/proc/cpuinfo", "model name"),
            kernel,
            memory_mib: kibibytes(&after_colon("/proc/meminfo", "MemTotal")) / 1024,
            disk: disk_of(data).unwrap_or_default(),
            load_before: load_averages(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cores": self.cores,
            "processor": self.processor,
            "kernel": self.kernel,
            "memory_mib": self.memory_mib,
            "disk": self.disk,
            "load_before": self.load_before,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, processor, kernel, memory_mib, disk, load_before } = self;
        write!(f, "{cores} cores ({processor}), {memory_mib} MiB, {kernel}, {disk}, ")?;
        write!(f, "load before {load_before}")
    }
}

fn after_colon(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn kibibytes(text: &str) -> u64 {
    text.trim_end_matches(" kB").parse().unwrap_or(0)
}

fn load_averages() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The deepest mount point above the path is the one that contains it.
fn disk_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (device, mount, kind) = (fields.next()?, fields.next()?, fields.next()?);
            path.starts_with(mount).then(|| (mount.len(), format!("{device} {kind} on {mount}")))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_this_machine_can_be_read() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > 0 && machine.memory_mib > 0, "{machine:?}");
        assert!(machine.disk.ends_with("on /"), "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }
}
