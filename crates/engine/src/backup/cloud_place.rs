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
    cloud::{CloudError, CloudObject, CloudStorage},
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName},
    restore_points::{FolderContents, contents_of},
};
use crate::{engine::Engine, error::EngineError};

/// Below the data directory.
const TEMPORARY: &str = "BackupTemp";
/// Files of backups that are known at once: about 100 bytes each.
const FILES_MAX: usize = 250_000;

/// Asked several times a second whether a request is still wanted.
pub(super) type GoesOn<'g> = &'g (dyn Fn() -> Result<(), EngineError> + Sync);

/// A folder of a bucket.
pub(super) struct CloudPlace<'p> {
    pub(super) storage: Arc<dyn CloudStorage>,
    pub(super) bucket: &'p S3Settings,
    pub(super) goes_on: GoesOn<'p>,
    files_max: usize,
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
        let storage = Arc::clone(storage);
        Ok(CloudPlace { storage, bucket, goes_on, files_max: FILES_MAX })
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

    /// The names of the files of backups that are directly in a folder of the place.
    pub(super) fn names_in(&self, folder: &str) -> Result<Vec<String>, EngineError> {
        let key = self.key(folder);
        let mut folders = self.folders_below(&key, &|found| found == key)?;
        Ok(folders.remove(&key).unwrap_or_default())
    }

    /// The backups in the place itself, and in the folders below it, by the keys of the folders.
    pub(super) fn contents(&self) -> Result<Vec<FolderContents>, EngineError> {
        let folders = self.folders_below(&self.bucket.folder, &|_| true)?;
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

    /// Removes the backups of a database in this place whose newest file is from before `until`, in ticks of UTC, except
    /// the one in the folder `present`; returns how many. What is in folders further below is in other places.
    pub(super) fn remove_expired(
        &self,
        database: &str,
        present: &str,
        until: i64,
    ) -> Result<u64, EngineError> {
        let may_be_old = |folder: &str| {
            let name = folder.rsplit('/').next().unwrap_or_default();
            let parsed = BackupFolderName::parse(name);
            let is_of_database = parsed.is_some_and(|parsed| parsed.database == database);
            is_of_database && name != present && folder == self.key(name)
        };
        let mut removed = 0;
        for (folder, names) in self.folders_below(&self.bucket.folder, &may_be_old)? {
            let parsed = |name: String| Some((BackupFileName::parse(&name)?, name));
            let mut files: Vec<(BackupFileName, String)> =
                names.into_iter().filter_map(parsed).collect();
            files.sort_unstable();
            if files.last().is_none_or(|(newest, _)| until <= newest.ticks) {
                continue;
            }
            // The file of everything goes first: without it, what is left is no backup.
            for (_, name) in files {
                let key = format!("{folder}/{name}");
                let deleted = self.storage.delete(self.bucket, &key, &|| (self.goes_on)().is_ok());
                deleted.map_err(|error| self.failure("delete from", error))?;
            }
            removed += 1;
        }
        Ok(removed)
    }

    /// The names of files of backups by the keys of the folders in which they are, of those folders that are wanted. All of
    /// them: who misses the newest would take a backup for an old one.
    fn folders_below(
        &self,
        folder: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Vec<String>>, EngineError> {
        let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut count = 0;
        let mut take = |object: CloudObject| {
            let (folder, name) = object.key.rsplit_once('/').unwrap_or(("", &object.key));
            if BackupFileName::parse(name).is_some() && is_wanted(folder) {
                folders.entry(folder.to_owned()).or_default().push(name.to_owned());
                count += 1;
            }
            count <= self.files_max
        };
        let goes_on = || (self.goes_on)().is_ok();
        let listed = self.storage.list(self.bucket, folder, &mut take, &goes_on);
        listed.map_err(|error| self.failure("list", error))?;
        if count <= self.files_max {
            return Ok(folders);
        }
        let message = format!(
            "There are more than {} files of backups in {}: remove old ones, or name another folder.",
            self.files_max,
            self.shown()
        );
        Err(BackupError::Cloud { message }.into())
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

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read},
        sync::Mutex,
    };

    use model::date;
    use wire::CloudSecret;

    use super::*;
    use crate::backup::cloud::StillWantedThere;

    /// Keys, and nothing behind them.
    struct Keys(Mutex<Vec<String>>);

    impl CloudStorage for Keys {
        fn upload(
            &self,
            _: &S3Settings,
            _: &str,
            _: (&mut dyn Read, u64),
            _: StillWantedThere<'_>,
        ) -> Result<(), CloudError> {
            Err(CloudError::Canceled)
        }

        fn list(
            &self,
            _: &S3Settings,
            folder: &str,
            take: &mut dyn FnMut(CloudObject) -> bool,
            _: StillWantedThere<'_>,
        ) -> Result<(), CloudError> {
            let mut keys = self.0.lock().unwrap().clone();
            keys.sort();
            let is_below =
                |key: &String| folder.is_empty() || key.starts_with(&format!("{folder}/"));
            let mut below = keys.into_iter().filter(is_below);
            below.all(|key| take(CloudObject { key, bytes: 1 }));
            Ok(())
        }

        fn download(
            &self,
            _: &S3Settings,
            _: &str,
            _: &mut dyn FnMut(&[u8]) -> io::Result<()>,
            _: StillWantedThere<'_>,
        ) -> Result<(), CloudError> {
            Err(CloudError::Canceled)
        }

        fn delete(
            &self,
            _: &S3Settings,
            key: &str,
            _: StillWantedThere<'_>,
        ) -> Result<(), CloudError> {
            self.0.lock().unwrap().retain(|known| known != key);
            Ok(())
        }
    }

    const OLD: &str = "2026-01-01-00-00-00.ravendb-x-A-backup";
    const LONG: &str = "2026-01-02-00-00-00.ravendb-x-A-backup";
    const PRESENT: &str = "2026-03-01-00-00-00.ravendb-x-A-backup";
    const FULL: &str = "2026-01-01-00-00-00.ravendb-full-backup";
    const LATE: &str = "2026-02-28-00-00-00.ravendb-incremental-backup";

    fn bucket(folder: &str) -> S3Settings {
        S3Settings {
            bucket: "b".to_owned(),
            region: "r".to_owned(),
            access_key: "k".to_owned(),
            secret_key: CloudSecret("s".to_owned()),
            session_token: None,
            folder: folder.to_owned(),
            server_url: None,
            names_bucket_in_path: false,
        }
    }

    /// Removes what is old in a folder of a bucket with these objects; returns how many, and what is left.
    fn remove(
        folder: &str,
        keys: &[String],
        files_max: usize,
    ) -> (Result<u64, String>, Vec<String>) {
        let storage = Arc::new(Keys(Mutex::new(keys.to_vec())));
        let (bucket, goes_on) = (bucket(folder), || Ok(()));
        let place = CloudPlace {
            storage: Arc::clone(&storage) as Arc<dyn CloudStorage>,
            bucket: &bucket,
            goes_on: &goes_on,
            files_max,
        };
        let until = date::parse("2026-02-01T00:00:00Z").unwrap().utc_ticks();
        let removed = place.remove_expired("x", PRESENT, until);
        let left = storage.0.lock().unwrap().clone();
        (removed.map_err(|error| error.to_string()), left)
    }

    #[test]
    fn old_backups_in_the_place_are_removed_and_none_in_folders_below_it() {
        for folder in ["", "backups"] {
            let below = |key: String| match folder {
                "" => key,
                folder => format!("{folder}/{key}"),
            };
            let old = below(format!("{OLD}/{FULL}"));
            let others = [
                format!("{LONG}/{FULL}"),
                format!("{LONG}/{LATE}"),
                format!("{OLD}/notes.txt"),
                format!("{PRESENT}/{FULL}"),
                // Those of another task, which keeps them for longer, and what somebody has put aside.
                format!("yearly/{OLD}/{FULL}"),
                format!("aside/2025/{OLD}/{FULL}"),
                format!("2026-01-01-00-00-00.ravendb-y-A-backup/{FULL}"),
                FULL.to_owned(),
            ];
            let mut keys: Vec<String> = others.into_iter().map(below).collect();
            let expected = keys.clone();
            keys.push(old);
            assert_eq!(remove(folder, &keys, 100), (Ok(1), expected), "{folder}");
        }
    }

    #[test]
    fn nothing_is_removed_when_not_everything_is_known() {
        let keys = [format!("{LONG}/{FULL}"), format!("{LONG}/{LATE}"), format!("{OLD}/{FULL}")];
        // The last one that is listed is the file that says how young the backup is.
        let (removed, left) = remove("", &keys, 2);
        assert!(removed.unwrap_err().contains("more than 2 files of backups"));
        assert_eq!(left, keys);
        assert_eq!(remove("", &keys, 3).0, Ok(1));
        // What is no file of a backup does not count.
        let others = (0..9).map(|number| format!("{number}/photo.jpg"));
        let keys: Vec<String> = keys.into_iter().chain(others).collect();
        assert_eq!(remove("", &keys, 3).0, Ok(1));
    }
}
