//! Removes backups that are older than they are to be kept.

use std::path::Path;

use platform::Disk;

use super::{
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName},
};

/// Removes the backups of a database in a folder whose newest file is from before `until`, in ticks of UTC, except the
/// one in the folder `present`. Returns how many. Files of others are left, and so is their folder.
pub(super) fn remove_expired_backups(
    disk: &dyn Disk,
    folder: &Path,
    database: &str,
    present: &str,
    until: i64,
) -> Result<u64, BackupError> {
    let list =
        |folder: &Path| disk.list(folder).map_err(|error| BackupError::io(folder, "list", error));
    let mut removed = 0;
    for name in list(folder)? {
        let parsed = BackupFolderName::parse(&name);
        if name == present || parsed.is_none_or(|parsed| parsed.database != database) {
            continue;
        }
        let backup = folder.join(&name);
        let mut files: Vec<(String, BackupFileName)> = list(&backup)?
            .into_iter()
            .filter_map(|file| BackupFileName::parse(&file).map(|parsed| (file, parsed)))
            .collect();
        let newest = files.iter().map(|(_, parsed)| parsed.ticks).max();
        if newest.is_none_or(|newest| until <= newest) {
            continue;
        }
        // The file of everything goes first: without it, what is left is no backup.
        files.sort_by_key(|(_, parsed)| *parsed);
        for (file, _) in &files {
            let path = backup.join(file);
            disk.remove_file(&path).map_err(|error| BackupError::io(&path, "remove", error))?;
        }
        drop(disk.remove_empty_dir(&backup));
        removed += 1;
    }
    if 0 < removed {
        disk.sync_dir(folder).map_err(|error| BackupError::io(folder, "sync", error))?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use model::date;
    use platform::{Access, Platform};

    use super::*;

    #[test]
    fn old_backups_of_the_database_are_removed_and_nothing_else() {
        let disk = Platform::memory().disk;
        let root = Path::new("b");
        let make = |folder: &str, file: &str| {
            let folder = root.join(folder);
            disk.create_dir_all(&folder).unwrap();
            disk.create(&folder.join(file), Access::Buffered).unwrap();
        };
        make("2026-01-01-00-00-00.ravendb-x-A-backup", "2026-01-01-00-00-00.ravendb-full-backup");
        make("2026-01-02-00-00-00.ravendb-x-A-backup", "2026-01-02-00-00-00.ravendb-full-backup");
        make(
            "2026-01-02-00-00-00.ravendb-x-A-backup",
            "2026-02-02-00-00-00.ravendb-incremental-backup",
        );
        make("2026-01-01-00-00-00.ravendb-y-A-backup", "2026-01-01-00-00-00.ravendb-full-backup");
        make("2026-01-03-00-00-00.ravendb-x-A-backup", "2026-01-03-00-00-00.ravendb-full-backup");
        make("2026-01-03-00-00-00.ravendb-x-A-backup", "notes.txt");
        make("2026-01-04-00-00-00.ravendb-x-A-backup", "2026-01-04-00-00-00.ravendb-full-backup");
        make("other", "2026-01-01-00-00-00.ravendb-full-backup");
        let until = date::parse("2026-02-01T00:00:00Z").unwrap().utc_ticks();
        let present = "2026-01-04-00-00-00.ravendb-x-A-backup";
        assert_eq!(remove_expired_backups(&*disk, root, "x", present, until).unwrap(), 2);
        let left = [
            "2026-01-01-00-00-00.ravendb-y-A-backup",
            "2026-01-02-00-00-00.ravendb-x-A-backup",
            "2026-01-03-00-00-00.ravendb-x-A-backup",
            "2026-01-04-00-00-00.ravendb-x-A-backup",
            "other",
        ];
        assert_eq!(disk.list(root).unwrap(), left);
        assert_eq!(disk.list(&root.join(left[2])).unwrap(), ["notes.txt"]);
    }
}
