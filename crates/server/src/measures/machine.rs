//! Facts about the machine that the server runs on.

use std::fs;

use wire::server_shapes::OsInfo;

const KB_PER_GB: f64 = (1u64 << 20) as f64;

/// Facts that do not change while the server runs.
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) memory_gb: f64,
    pub(crate) os: OsInfo,
}

impl Machine {
    /// Collects them once. Unknown facts are left empty: clients only display them.
    pub(crate) fn look() -> Machine {
        // The kernel's own files are not data: they do not go through the disk of the platform.
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gb: total_memory_kb(&memory) / KB_PER_GB,
            os: OsInfo {
                r#type: capitalized(std::env::consts::OS),
                full_name: release_value(&release, "PRETTY_NAME"),
                version: release_value(&release, "VERSION_ID"),
                build_version: kernel.trim().to_owned(),
                is64_bit: cfg!(target_pointer_width = "64"),
            },
        }
    }
}

fn total_memory_kb(meminfo: &str) -> f64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

fn release_value(release: &str, key: &str) -> String {
    let value = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or("").trim_matches('"').to_owned()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_the_systems_files() {
        assert_eq!(total_memory_kb("MemTotal:       2097152 kB\nMemFree: 1 kB\n"), 2_097_152.0);
        assert_eq!(total_memory_kb(""), 0.0);
        let release = "NAME=\"X\"\nVERSION_ID=\"12\"\nPRETTY_NAME=\"X GNU/Linux 12\"\n";
        assert_eq!(release_value(release, "PRETTY_NAME"), "X GNU/Linux 12");
        assert_eq!(release_value(release, "NAME_ID"), "");
        assert_eq!(capitalized("linux"), "Linux");
    }
}
