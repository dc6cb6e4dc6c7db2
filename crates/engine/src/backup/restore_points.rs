//! What can be restored from a folder.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use model::ticks::TICKS_PER_MILLISECOND;
use platform::Disk;
use wire::{S3Settings, backup_result::RestorePoint};

use super::{
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName, FileKind},
};
use crate::{engine::Engine, error::EngineError};

/// Restore points that are listed: the newest.
const POINTS_MAX: usize = 10_000;

/// The files of one backup: one of everything, and what follows.
pub(super) struct BackupFiles {
    /// Their folder.
    pub(super) folder: PathBuf,
    /// In the order in which they are restored.
    pub(super) files: Vec<BackupFileName>,
}

impl BackupFiles {
    /// Whether the first file has the pages of a database.
    pub(super) fn begins_with_snapshot(&self) -> bool {
        self.files.first().is_some_and(|first| first.kind == FileKind::Snapshot)
    }
}

/// What is in a folder, by the names of its files.
#[derive(Default)]
pub(super) struct FolderContents {
    /// The folder.
    pub(super) folder: PathBuf,
    /// The backups, in the order of their times.
    pub(super) backups: Vec<BackupFiles>,
    /// Incremental files that are older than every full one.
    pub(super) without_full: Vec<BackupFileName>,
}

impl FolderContents {
    /// Why an incremental file cannot be restored; `None` if there is none without a full one.
    pub(super) fn without_full_text(&self, folder: &Path) -> Option<String> {
        let file = self.without_full.first()?;
        Some(format!(
            "The incremental backup '{file}' in {} has no full backup before it, so it cannot be restored.",
            folder.display()
        ))
    }
}

impl Engine {
    /// What can be restored from a folder that a client names, or from those below it; the newest first. Blocks.
    ///
    /// # Errors
    /// The folder is outside of the directory for backups, does not exist, or cannot be read; there is nothing in it.
    pub fn restore_points(&self, named: &str) -> Result<Vec<RestorePoint>, EngineError> {
        let (folder, disk) = (self.backup_folder(named)?, &*self.backup_disk);
        let exists =
            disk.exists(&folder).map_err(|error| BackupError::io(&folder, "read", error))?;
        if !exists {
            let message = format!("Path '{}' doesn't exist", folder.display());
            return Err(BackupError::NothingToRestore { message }.into());
        }
        let mut points = Vec::new();
        let mut without_full = add_points(files_in(disk, &folder)?, &mut points);
        let below = disk.list(&folder).map_err(|error| BackupError::io(&folder, "list", error))?;
        for name in below.iter().rev() {
            if POINTS_MAX <= points.len() {
                break;
            }
            if BackupFolderName::parse(name).is_some() {
                let found = add_points(files_in(disk, &folder.join(name))?, &mut points);
                without_full = without_full.or(found);
            }
        }
        newest_first(points, without_full)
    }

    /// What can be restored from a folder in a bucket, or from those below it; the newest first. Blocks.
    ///
    /// # Errors
    /// The bucket cannot be read; there is nothing in it.
    pub fn cloud_restore_points(
        &self,
        bucket: &S3Settings,
    ) -> Result<Vec<RestorePoint>, EngineError> {
        let (mut points, mut without_full) = (Vec::new(), None);
        for contents in self.cloud_place(bucket, &|| Ok(()))?.contents()? {
            let found = add_points(contents, &mut points);
            without_full = without_full.or(found);
        }
        newest_first(points, without_full)
    }
}

fn newest_first(
    mut points: Vec<RestorePoint>,
    without_full: Option<String>,
) -> Result<Vec<RestorePoint>, EngineError> {
    if points.is_empty() {
        let message = without_full.unwrap_or_else(|| "Couldn't locate any backup files.".into());
        return Err(BackupError::NothingToRestore { message }.into());
    }
    points.sort_by_key(|point| Reverse(point.ticks));
    points.truncate(POINTS_MAX);
    Ok(points)
}

/// The files of backups in a folder: those of everything, each with what follows. A name may be that of a
/// file or a folder of somebody else; it is only listed here.
pub(super) fn files_in(disk: &dyn Disk, folder: &Path) -> Result<FolderContents, BackupError> {
    let names = disk.list(folder).map_err(|error| BackupError::io(folder, "list", error))?;
    Ok(contents_of(folder, &names))
}

/// The same for names that are known.
pub(super) fn contents_of(folder: &Path, names: &[String]) -> FolderContents {
    let mut files: Vec<_> = names.iter().filter_map(|name| BackupFileName::parse(name)).collect();
    files.sort();
    let mut contents = FolderContents { folder: folder.to_owned(), ..FolderContents::default() };
    for file in files {
        match (file.kind, contents.backups.last_mut()) {
            (FileKind::Incremental, Some(backup)) => backup.files.push(file),
            (FileKind::Incremental, None) => contents.without_full.push(file),
            _ => {
                contents.backups.push(BackupFiles { folder: folder.to_owned(), files: vec![file] });
            }
        }
    }
    contents
}

/// Adds what can be restored from a folder; returns what cannot, and why.
fn add_points(contents: FolderContents, points: &mut Vec<RestorePoint>) -> Option<String> {
    let folder = &contents.folder;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let named = name.as_deref().and_then(BackupFolderName::parse);
    let (database, node_tag) =
        named.map(|named| (named.database, named.node_tag)).unwrap_or_default();
    let without_full = contents.without_full_text(folder);
    if let Some(reason) = &without_full {
        tracing::warn!(reason, "a file of a backup cannot be restored");
    }
    for backup in contents.backups {
        let Some(first) = backup.files.first().copied() else { continue };
        for (position, file) in backup.files.iter().enumerate() {
            let is_incremental = file.kind == FileKind::Incremental;
            // So that files of the same second have an order.
            let later = i64::from(file.number) + i64::from(is_incremental);
            points.push(RestorePoint {
                ticks: file.ticks + later * TICKS_PER_MILLISECOND,
                folder: folder.display().to_string(),
                file: folder.join(file.to_string()).display().to_string(),
                is_snapshot: first.kind == FileKind::Snapshot,
                is_encrypted: file.is_encrypted,
                is_incremental,
                files: position + 1,
                database: database.clone(),
                node_tag: node_tag.clone(),
            });
        }
    }
    without_full
}
