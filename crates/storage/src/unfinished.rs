//! An environment that is being built inside the directory whose environment it will become.
//!
//! At the end a single file, the data file, is put in place by one rename within one file system:
//! once everything is flushed, an environment is its data file alone. A compacted one continues the
//! history of the old one: its transactions and journals have larger numbers, so that old journals
//! still in the directory are ignored, and removed when it is opened.
//!
//! What a power cut leaves behind:
//!
//! 1. while the new environment is built in its own directory: the old one, untouched;
//! 2. after its flush, its trimming and the sync of its file: the old one, untouched;
//! 3. during the rename: the old data file with its journals, or the new data file, which was
//!    synced before it got the name. The old journals are still there, with smaller numbers. A file
//!    system whose renames are not atomic leaves the new file under both names, which is just as
//!    good;
//! 4. after the two directories are synced: the new one;
//! 5. while the building directory and the old journals are removed: the new one. Leftovers contain
//!    nothing that is needed; the next attempt or the next opening removes them. They may be the plaintext of an
//!    environment that stayed encrypted.
//!
//! The building directory is inside the environment's own, not next to it: so it is certain to be
//! on the same file system, and can never be mistaken for another database of that name.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, Platform};

use crate::{
    environment::{Environment, EnvironmentOptions},
    error::StorageError,
    format::{PAGE_BYTES, PageNumber},
    header::EnvironmentHeader,
    history::History,
    open::DATA_FILE,
    origin::Origin,
};

/// The subdirectory in which the new environment is built.
pub(crate) const BUILDING: &str = "building";

/// An environment under construction; see the head of this file.
pub struct UnfinishedEnvironment {
    platform: Platform,
    directory: PathBuf,
    environment: Arc<Environment>,
}

impl UnfinishedEnvironment {
    /// Starts an empty environment that will become the one of `options.directory`, after removing
    /// what an earlier attempt left there. The caller holds the lock of that directory, or is its
    /// only user.
    pub fn create(
        platform: &Platform,
        options: &EnvironmentOptions,
    ) -> Result<UnfinishedEnvironment, StorageError> {
        Self::create_from(platform, options, None)
    }

    /// As [`UnfinishedEnvironment::create`], continuing another environment's history.
    pub(crate) fn create_from(
        platform: &Platform,
        options: &EnvironmentOptions,
        origin: Option<Origin>,
    ) -> Result<UnfinishedEnvironment, StorageError> {
        let directory = options.directory.clone();
        remove_building(platform, &directory)?;
        let building = EnvironmentOptions {
            directory: directory.join(BUILDING),
            journals_directory: None,
            history: History::NotKept,
            ..options.clone()
        };
        let environment = Environment::open_from(platform, building, origin)?;
        Ok(UnfinishedEnvironment { platform: platform.clone(), directory, environment })
    }

    /// The environment, to be filled.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// Moves the environment to its final place, replacing any data file there. Returns the length
    /// of its data file, in bytes. No transaction of it may still be open.
    pub fn publish(self) -> Result<u64, StorageError> {
        self.finish_as(DATA_FILE)
    }

    /// As [`UnfinishedEnvironment::publish`], with another name for the data file.
    pub(crate) fn finish_as(self, name: &str) -> Result<u64, StorageError> {
        let building = self.directory.join(BUILDING);
        let (from, to) = (building.join(DATA_FILE), self.directory.join(name));
        let end = self.flush_all()?;
        let (disk, directory) = (self.platform.disk.clone(), self.directory.clone());
        // Releases the lock and the mapping.
        drop(self);
        let bytes = end.get() * PAGE_BYTES as u64;
        let place = || {
            let file = disk.open(&from, Access::Buffered)?;
            file.set_len(bytes)?;
            file.sync_data()?;
            disk.rename(&from, &to)?;
            disk.sync_dir(&directory)?;
            disk.sync_dir(&building)?;
            disk.remove_dir_all(&building)?;
            disk.sync_dir(&directory)
        };
        place().map_err(|error| StorageError::io(&to, "put in place", error))?;
        Ok(bytes)
    }

    /// Abandons and removes what was built.
    pub fn discard(self) -> Result<(), StorageError> {
        let (platform, directory) = (self.platform.clone(), self.directory.clone());
        drop(self);
        remove_building(&platform, &directory)
    }

    /// Flushes everything to the data file, so that it needs no journal. Returns the end of its
    /// pages.
    fn flush_all(&self) -> Result<PageNumber, StorageError> {
        self.environment.close()?;
        let data = &self.environment.data;
        let key = self.environment.options.encryption_key.as_ref();
        let header = EnvironmentHeader::read(data.file(), data.path(), key)?;
        let read = self.environment.read();
        if header.needs_journal || header.replay_from.transaction != read.id() {
            return Err(StorageError::structure(
                PageNumber(0),
                "a reader keeps the new environment from being flushed",
            ));
        }
        Ok(read.view().root.next_page)
    }
}

/// Removes what an attempt that was interrupted has left in a directory, whose lock the caller holds.
pub(crate) fn remove_leftovers(platform: &Platform, directory: &Path) -> Result<(), StorageError> {
    let building = directory.join(BUILDING);
    let exists = platform.disk.exists(&building);
    match exists.map_err(|error| StorageError::io(&building, "find", error))? {
        true => remove_building(platform, directory),
        false => Ok(()),
    }
}

fn remove_building(platform: &Platform, directory: &Path) -> Result<(), StorageError> {
    let building = directory.join(BUILDING);
    platform
        .disk
        .remove_dir_all(&building)
        .map_err(|error| StorageError::io(&building, "remove", error))
}
