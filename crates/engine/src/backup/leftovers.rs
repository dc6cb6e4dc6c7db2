//! Removes what the runs of earlier processes have left, such as one that was killed: files that are not complete, and
//! folders without anything else. They may be as large as the database.

use std::path::Path;

use platform::Disk;

use super::{
    backup_file::complete_name,
    claimed_names::ClaimedNames,
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName},
};

/// Removes the leftovers of a database and a node in a folder; returns how many files that were. What a run of this
/// process is writing has a claimed name and stays, and so do all other files.
pub(super) fn remove_leftovers(
    disk: &dyn Disk,
    claimed: &ClaimedNames,
    folder: &Path,
    (database, node_tag): (&str, &str),
) -> Result<u64, BackupError> {
    let list =
        |folder: &Path| disk.list(folder).map_err(|error| BackupError::io(folder, "list", error));
    let mut removed = 0;
    for name in list(folder)? {
        let is_own =
            |parsed: BackupFolderName| parsed.database == database && parsed.node_tag == node_tag;
        if !BackupFolderName::parse(&name).is_some_and(is_own) {
            continue;
        }
        let backup = folder.join(&name);
        let files = list(&backup)?;
        let unfinished = files.iter().filter(|file| {
            complete_name(file).is_some_and(|name| BackupFileName::parse(name).is_some())
        });
        for file in unfinished.clone() {
            let path = backup.join(file);
            let key = complete_name(file).unwrap_or_default();
            let done = claimed.unless_claimed(&format!("{name}/{key}"), || disk.remove_file(&path));
            match done {
                Some(Ok(())) => removed += 1,
                // Its run has ended meanwhile.
                Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Some(Err(error)) => return Err(BackupError::io(&path, "remove", error)),
                None => {}
            }
        }
        if unfinished.count() == files.len() {
            // It is empty, unless something came into it meanwhile.
            drop(claimed.unless_claimed(&name, || disk.remove_empty_dir(&backup)));
        }
    }
    if 0 < removed {
        disk.sync_dir(folder).map_err(|error| BackupError::io(folder, "sync", error))?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use platform::{Access, Platform};

    use super::*;

    #[test]
    fn what_an_earlier_process_left_is_removed_and_nothing_else() {
        let disk = Platform::memory().disk;
        let root = Path::new("b");
        let make = |path: &str| {
            let path = root.join(path);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create(&path, Access::Buffered).unwrap();
        };
        let full = "2026-01-01-00-00-00.ravendb-full-backup";
        let incremental = "2026-01-02-00-00-00.ravendb-incremental-backup";
        let [own, whole, running] =
            [1, 2, 3].map(|day| format!("2026-01-0{day}-00-00-00.ravendb-x-A-backup"));
        let others = [
            "2026-01-01-00-00-00.ravendb-y-A-backup",
            "2026-01-01-00-00-00.ravendb-x-B-backup",
            "notes",
        ];
        make(&format!("{own}/{full}.in-progress"));
        make(&format!("{whole}/{full}"));
        make(&format!("{whole}/{incremental}.in-progress"));
        make(&format!("{whole}/notes.in-progress"));
        make(&format!("{running}/{full}.in-progress"));
        for other in others {
            make(&format!("{other}/{full}.in-progress"));
        }
        let empty = "2026-01-04-00-00-00.ravendb-x-A-backup";
        disk.create_dir_all(&root.join(empty)).unwrap();
        let claimed = ClaimedNames::default();
        let _folder = claimed.claim(running.clone()).unwrap();
        let _file = claimed.claim(format!("{running}/{full}")).unwrap();
        assert_eq!(remove_leftovers(&*disk, &claimed, root, ("x", "A")).unwrap(), 2);
        let mut left = vec![&*whole, &*running];
        left.extend(others);
        left.sort();
        assert_eq!(disk.list(root).unwrap(), left);
        assert_eq!(disk.list(&root.join(&whole)).unwrap(), [full, "notes.in-progress"]);
        assert_eq!(disk.list(&root.join(&running)).unwrap(), [format!("{full}.in-progress")]);
        assert_eq!(remove_leftovers(&*disk, &claimed, root, ("x", "A")).unwrap(), 0);
    }
}
