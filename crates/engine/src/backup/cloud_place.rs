//! A folder in a bucket, where the files of backups are copied to, or where they are alone.
//!
//! A file is made and verified on the disk of the backups first, in a temporary folder if it is to be in the bucket alone,
//! and then uploaded. A restore downloads the files that it needs into a temporary folder. Invariant: what is left there by
//! a process that was killed is removed by the next start.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, Disk};
use wire::S3Settings;

use super::{
    backup_file::SequentialFile,
    cloud::{CloudError, CloudStorage},
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName},
    restore_points::{FolderContents, contents_of},
};
use crate::{engine::Engine, error::EngineError};

/// Below the data directory.
const TEMPORARY: &str = "BackupTemp";

/// Asked several times a second whether a request is still wanted.
pub(super) type GoesOn<'g> = &'g (dyn Fn() -> Result<(), EngineError> + Sync);

/// A folder of a bucket.
pub(super) struct CloudPlace<'p> {
    pub(super) storage: Arc<dyn CloudStorage>,
    pub(super) bucket: &'p S3Settings,
    pub(super) goes_on: GoesOn<'p>,
}

impl Engine {
    /// Sets who makes requests to buckets. The first call counts.
    pub fn set_cloud_storage(&self, storage: Arc<dyn CloudStorage>) {
        drop(self.backups.cloud.set(storage));
    }

    pub(super) fn cloud_place<'p>(
        &self,
        bucket: &'p S3Settings,
        goes_on: GoesOn<'p>,
    ) -> Result<CloudPlace<'p>, EngineError> {
        let message = "This server cannot reach other servers.".to_owned();
        let storage = self.backups.cloud.get().ok_or(EngineError::Refused { message })?;
        Ok(CloudPlace { storage: Arc::clone(storage), bucket, goes_on })
    }

    /// A folder for the files of one run, which is not created.
    pub(super) fn temporary_folder(&self, name: &str) -> PathBuf {
        self.settings.data_dir.join(TEMPORARY).join(name)
    }

    /// Removes what an earlier process has left.
    pub(crate) fn remove_temporary_backups(&self) {
        let folder = self.settings.data_dir.join(TEMPORARY);
        let exists = self.backup_disk.exists(&folder).unwrap_or(false);
        if exists && let Err(error) = self.backup_disk.remove_dir_all(&folder) {
            tracing::warn!(%error, "temporary files of backups remain");
        }
    }
}

/// A temporary folder, removed on drop.
pub(super) struct TemporaryFolder<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) path: PathBuf,
}

impl Drop for TemporaryFolder<'_> {
    fn drop(&mut self) {
        // The next start tries again.
        drop(self.disk.remove_dir_all(&self.path));
    }
}

impl CloudPlace<'_> {
    /// How it is shown.
    pub(super) fn shown(&self) -> String {
        match self.bucket.folder.as_str() {
            "" => format!("the bucket '{}'", self.bucket.bucket),
            folder => format!("'{folder}' in the bucket '{}'", self.bucket.bucket),
        }
    }

    /// Copies a file there, below a folder of the place; returns its length.
    pub(super) fn upload(
        &self,
        disk: &dyn Disk,
        path: &Path,
        below: &str,
    ) -> Result<u64, EngineError> {
        let failed = |error| BackupError::io(path, "read", error);
        let bytes =
            disk.open(path, Access::Buffered).and_then(|file| file.len()).map_err(failed)?;
        let mut file = SequentialFile::open(disk, path).map_err(failed)?;
        let uploaded =
            self.storage.upload(self.bucket, &self.key(below), (&mut file, bytes), &|| {
                (self.goes_on)().is_ok()
            });
        uploaded.map_err(|error| self.failure("write to", error))?;
        Ok(bytes)
    }

    /// The names of what is directly in a folder of the place.
    pub(super) fn names_in(&self, folder: &str) -> Result<Vec<String>, EngineError> {
        let mut folders = self.folders_below(&self.key(folder))?;
        Ok(folders.remove(&self.key(folder)).unwrap_or_default())
    }

    /// The backups in the place itself, and in the folders below it, by the keys of the folders.
    pub(super) fn contents(&self) -> Result<Vec<FolderContents>, EngineError> {
        let folders = self.folders_below(&self.bucket.folder)?;
        Ok(folders.iter().map(|(folder, names)| contents_of(Path::new(folder), names)).collect())
    }

    /// Copies a file from there.
    pub(super) fn download(
        &self,
        disk: &dyn Disk,
        name: &str,
        path: &Path,
    ) -> Result<(), EngineError> {
        let failed = |error| BackupError::io(path, "write", error);
        let file = disk.create(path, Access::Buffered).map_err(failed)?;
        let mut at = 0;
        let mut take = |piece: &[u8]| {
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
            Ok(())
        };
        let is_wanted = || (self.goes_on)().is_ok();
        let done = self.storage.download(self.bucket, &self.key(name), &mut take, &is_wanted);
        done.map_err(|error| self.failure("read from", error))
    }

    /// Removes the backups of a database whose newest file is from before `until`, in ticks of UTC, except the one in the
    /// folder `present`; returns how many.
    pub(super) fn remove_expired(
        &self,
        database: &str,
        present: &str,
        until: i64,
    ) -> Result<u64, EngineError> {
        let mut removed = 0;
        for (folder, names) in self.folders_below(&self.bucket.folder)? {
            let name = folder.rsplit('/').next().unwrap_or_default();
            let parsed = BackupFolderName::parse(name);
            if name == present || parsed.is_none_or(|parsed| parsed.database != database) {
                continue;
            }
            let mut files: Vec<BackupFileName> =
                names.iter().filter_map(|name| BackupFileName::parse(name)).collect();
            files.sort();
            if files.last().is_none_or(|newest| until <= newest.ticks) {
                continue;
            }
            // The file of everything goes first: without it, what is left is no backup.
            for file in files {
                let key = format!("{folder}/{file}");
                let deleted = self.storage.delete(self.bucket, &key, &|| (self.goes_on)().is_ok());
                deleted.map_err(|error| self.failure("delete from", error))?;
            }
            removed += 1;
        }
        Ok(removed)
    }

    /// Names by the keys of the folders in which they are.
    fn folders_below(&self, folder: &str) -> Result<BTreeMap<String, Vec<String>>, EngineError> {
        let listed = self.storage.list(self.bucket, folder, &|| (self.goes_on)().is_ok());
        let objects = listed.map_err(|error| self.failure("list", error))?;
        let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in objects {
            let (folder, name) = object.key.rsplit_once('/').unwrap_or(("", &object.key));
            folders.entry(folder.to_owned()).or_default().push(name.to_owned());
        }
        Ok(folders)
    }

    fn key(&self, below: &str) -> String {
        let parts = [self.bucket.folder.as_str(), below];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/")
    }

    fn failure(&self, what: &str, error: CloudError) -> EngineError {
        match error {
            CloudError::Canceled => EngineError::Stopped,
            CloudError::Failed { message } => {
                let message = format!("Cannot {what} {}: {message}", self.shown());
                BackupError::Cloud { message }.into()
            }
        }
    }
}
