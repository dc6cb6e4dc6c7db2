//! The memory limit of the control group of a process, for both versions of control groups.
//!
//! The limit of any ancestor applies as well, so the smallest one on the path to the root counts.
//! In a container the group's own path often does not exist below the mount; then the mount itself
//! is the group. Reading is left to the caller, so that every layout can be tested.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Reads a file of the kernel.
pub(crate) type Read<'r> = &'r dyn Fn(&Path) -> io::Result<String>;

/// Where a version of control groups keeps its limit.
struct Hierarchy {
    mount: PathBuf,
    file: &'static str,
}

/// The smallest limit, in bytes, of the groups in `groups` (the content of `/proc/self/cgroup`) and
/// their ancestors; `None` when none is limited.
pub(crate) fn memory_limit(groups: &str, mount: &Path, read: Read<'_>) -> Option<u64> {
    groups.lines().filter_map(|line| limit_of_line(line, mount, read)).min()
}

/// A line is `number:controllers:path`; version 2 has the number 0 and names no controllers.
fn limit_of_line(line: &str, mount: &Path, read: Read<'_>) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = Path::new(path.trim_start_matches('/'));
    let hierarchies = if controllers.split(',').any(|name| name == "memory") {
        vec![Hierarchy { mount: mount.join("memory"), file: "memory.limit_in_bytes" }]
    } else if number == "0" && controllers.is_empty() {
        let of = |mount| Hierarchy { mount, file: "memory.max" };
        vec![of(mount.to_path_buf()), of(mount.join("unified"))]
    } else {
        return None;
    };
    hierarchies.iter().filter_map(|hierarchy| smallest_on_the_way_up(hierarchy, path, read)).min()
}

fn smallest_on_the_way_up(hierarchy: &Hierarchy, path: &Path, read: Read<'_>) -> Option<u64> {
    let limit = |group: &Path| -> Option<u64> {
        let text = read(&hierarchy.mount.join(group).join(hierarchy.file)).ok()?;
        // Without a limit, version 2 says "max" and version 1 a number larger than any machine's
        // memory.
        text.trim().parse().ok()
    };
    path.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(groups: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let files: BTreeMap<&Path, &str> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let read = |path: &Path| {
            let text = files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok((*text).to_owned())
        };
        assert_eq!(memory_limit(groups, Path::new("/g"), &read), expected, "{groups}");
    }

    #[test]
    fn version_1_has_a_limit_in_the_hierarchy_of_memory() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n";
        let file = "/g/memory/a/b/memory.limit_in_bytes";
        check(groups, &[(file, "1000\n")], Some(1000));
        check(groups, &[], None);
    }

    #[test]
    fn version_2_says_max_for_no_limit() {
        check("0::/a\n", &[("/g/a/memory.max", "2000\n")], Some(2000));
        check("0::/a\n", &[("/g/a/memory.max", "max\n")], None);
        check("0::/a\n", &[("/g/unified/a/memory.max", "3000\n")], Some(3000));
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_holds() {
        let files = [
            ("/g/a/b/memory.max", "max\n"),
            ("/g/a/memory.max", "500\n"),
            ("/g/memory.max", "700\n"),
        ];
        check("0::/a/b\n", &files, Some(500));
    }

    #[test]
    fn inside_a_container_the_mount_is_the_group() {
        let groups = "4:memory:/docker/0123\n";
        check(groups, &[("/g/memory/memory.limit_in_bytes", "4000\n")], Some(4000));
    }

    #[test]
    fn lines_that_are_none_are_skipped() {
        check("nonsense\n1:cpu:/x\n", &[("/g/memory.max", "1")], None);
    }
}
