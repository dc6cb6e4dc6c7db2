//! A control group with a memory limit, below the one of this process, so that the limits of this
//! process also apply to its children.
//!
//! Creating one requires root, and with version 2 a parent that delegates the controller; otherwise
//! [`ControlGroup::create`] returns the reason. The group is removed when the value is dropped; its
//! processes must have ended by then.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::Failure;

const MOUNT: &str = "/sys/fs/cgroup";

/// The file names of a version of control groups.
struct Names {
    limit: &'static str,
    peak: &'static str,
    /// The file with the line `oom_kill N`.
    events: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};
const VERSION_2: Names =
    Names { limit: "memory.max", peak: "memory.peak", events: "memory.events" };

pub(crate) struct ControlGroup {
    directory: PathBuf,
    names: &'static Names,
}

impl ControlGroup {
    /// Creates a group whose processes may use `bytes` of memory together.
    pub(crate) fn create(bytes: u64) -> Result<ControlGroup, Failure> {
        let (parent, names) = own_group()?;
        let directory = parent.join(format!("corvus-memory-{}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let group = ControlGroup { directory, names };
        let limit = group.directory.join(names.limit);
        fs::write(&limit, bytes.to_string())
            .map_err(|error| format!("cannot set {}: {error}", limit.display()))?;
        Ok(group)
    }

    /// The file to which a process writes its id to join the group.
    pub(crate) fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// The peak memory use, including the page cache; `None` if the kernel does not report it.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        fs::read_to_string(self.directory.join(self.names.peak)).ok()?.trim().parse().ok()
    }

    /// The number of processes of the group killed by the kernel because of memory.
    pub(crate) fn killed(&self) -> Result<u64, Failure> {
        let events = fs::read_to_string(self.directory.join(self.names.events))?;
        let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let count = line.ok_or("the kernel does not count what it kills")?;
        Ok(count.trim().parse()?)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A group that still contains a process is kept, for the user to inspect.
        drop(fs::remove_dir(&self.directory));
    }
}

/// The memory control group of this process.
fn own_group() -> Result<(PathBuf, &'static Names), Failure> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let below = |mount: PathBuf, path: &str| mount.join(path.trim_start_matches('/'));
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|name| name == "memory") {
            return Ok((below(Path::new(MOUNT).join("memory"), path), &VERSION_1));
        }
    }
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let path = unified.ok_or("this process is in no control group")?;
    Ok((below(PathBuf::from(MOUNT), path), &VERSION_2))
}
