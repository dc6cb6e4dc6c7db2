//! Below which directory backups are.
//!
//! A client names the folder of a backup, and one that it restores from: places on the server's disks. Invariant:
//! they lie below the directory that the operator has chosen.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Disk, Platform};
use settings::Settings;

use super::error::BackupError;
use crate::{directories::resolved, engine::Engine, error::EngineError};

/// The setting by which an operator chooses the directory.
const ROOT: &str = "Backup.LocalRootPath";
/// Where backups are otherwise, below the data directory.
const DEFAULT_ROOT: &str = "Backups";

/// The disk of backups. A server in memory writes its backups to the machine's.
pub(crate) fn backup_disk(settings: &Settings, platform: &Platform) -> Arc<dyn Disk> {
    match settings.database.run_in_memory {
        true => Platform::real().disk,
        false => Arc::clone(&platform.disk),
    }
}

impl Engine {
    /// The directory below which backups are.
    pub fn backup_root(&self) -> PathBuf {
        let named = self.settings.backups.local_root.clone();
        named.unwrap_or_else(|| self.settings.data_dir.join(DEFAULT_ROOT))
    }

    /// The folder that a client names, which need not exist.
    ///
    /// # Errors
    /// It is not below the directory for backups, or cannot be resolved.
    pub fn backup_folder(&self, named: &str) -> Result<PathBuf, EngineError> {
        let (root, disk) = (self.backup_root(), &*self.backup_disk);
        let folder = root.join(named);
        let is_below = resolved(disk, &folder)?.starts_with(resolved(disk, &root)?);
        match is_below {
            true => Ok(folder),
            false => Err(refused(&folder, &root).into()),
        }
    }
}

/// Creates a folder of backups, durably.
pub(super) fn create_folder(disk: &dyn Disk, folder: &Path) -> Result<(), BackupError> {
    let created = disk.create_dir_all(folder);
    created.map_err(|error| BackupError::io(folder, "create the folder", error))
}

fn refused(folder: &Path, root: &Path) -> BackupError {
    let (folder, root) = (folder.display(), root.display());
    BackupError::PlaceRefused {
        message: format!(
            "The folder {folder} is outside of the directory for backups ({root}). The operator of the server \
             must allow it first: set {ROOT} to a directory above it."
        ),
    }
}
