//! Removing an environment: the files that Corvus created for it, and nothing else.
//!
//! A directory may have been named by a client, so it is not trusted: the identity in the data
//! file, and in the header of every journal file, must be the one that the caller knows. Files
//! whose names are not those of an environment stay, as does any directory that holds one.
//!
//! The data file, which carries the identity, goes last. So a removal that a power cut interrupted
//! is continued by the next attempt, and without a data file only empty directories are left.

use std::{
    io,
    path::{Path, PathBuf},
};

use platform::{Disk, LOCK_FILE, Platform};

use crate::{
    environment::EnvironmentOptions,
    error::StorageError,
    journal,
    open::{DATA_FILE, UNFINISHED, environment_id_in, take_lock},
    prepared::PREPARED,
    salvage::SCRATCH_FILE,
    unfinished::BUILDING,
};

/// Files left behind that are reported by name.
const NAMED_MAX: usize = 20;
/// Directories of indexes are nested at most this deep.
const DEPTH_MAX: usize = 3;

/// What became of the files of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Files and directories left behind because they are not known, the first twenty.
    pub left: Vec<PathBuf>,
    /// How many are left behind.
    pub left_count: usize,
}

impl Removal {
    fn leave(&mut self, path: PathBuf) {
        self.left_count += 1;
        if self.left.len() < NAMED_MAX {
            self.left.push(path);
        }
    }
}

/// Removes the environment `id` from the directories of `options`, and the environments in the
/// directories named `inner` inside of it (those of indexes). Missing directories are no error.
///
/// # Errors
/// [`StorageError::AnotherEnvironment`] when the directory holds another one,
/// [`StorageError::Locked`] when it is in use, and errors of reading its header: nothing was
/// removed in these cases. Errors of the disk: a part may have been removed, and the next attempt
/// continues.
pub fn remove_environment(
    platform: &Platform,
    options: &EnvironmentOptions,
    id: u128,
    inner: &[&str],
) -> Result<Removal, StorageError> {
    remove(platform, options, Some(id), inner)
}

/// Removes what was left in the directories of `options` by the creation of an environment that did
/// not come to its end.
///
/// # Errors
/// As [`remove_environment`]: there is one after all.
pub fn remove_unfinished(
    platform: &Platform,
    options: &EnvironmentOptions,
) -> Result<Removal, StorageError> {
    remove(platform, options, None, &[])
}

/// `id` is that of the environment, if there is one.
fn remove(
    platform: &Platform,
    options: &EnvironmentOptions,
    id: Option<u128>,
    inner: &[&str],
) -> Result<Removal, StorageError> {
    let disk = &*platform.disk;
    let directory = &options.directory;
    let mut removal = Removal::default();
    if exists(disk, directory)? {
        let lock = take_lock(disk, directory)?;
        match environment_id_in(platform, directory)? {
            Some(found) if Some(found) == id => {
                for name in inner.iter().chain(&[BUILDING]) {
                    let of_inner = directory.join(name);
                    if exists(disk, &of_inner)? {
                        remove_inner(disk, &of_inner, DEPTH_MAX, &mut removal)?;
                    }
                }
            }
            Some(_) => return Err(StorageError::AnotherEnvironment { path: directory.clone() }),
            // The data file is removed last, so every file still left can be matched to its
            // environment.
            None => {}
        }
        remove_journals(disk, &options.journals(), id, &mut removal)?;
        remove_files(disk, directory, &[UNFINISHED, PREPARED, SCRATCH_FILE])?;
        sync(disk, directory)?;
        remove_files(disk, directory, &[DATA_FILE, LOCK_FILE])?;
        leave_unknown(disk, directory, &mut removal)?;
        drop(lock);
        remove_if_empty(disk, directory)?;
    } else {
        remove_journals(disk, &options.journals(), id, &mut removal)?;
    }
    Ok(removal)
}

/// Removes the journal files of an environment, and their directory when nothing else is in it.
fn remove_journals(
    disk: &dyn Disk,
    journals: &Path,
    id: Option<u128>,
    removal: &mut Removal,
) -> Result<(), StorageError> {
    if !exists(disk, journals)? {
        return Ok(());
    }
    for name in list(disk, journals)? {
        let path = journals.join(&name);
        // One that was never written belongs to nobody, and its directory is locked.
        let is_own = journal::is_name(&name)
            && (id.is_some() && journal::environment_of(disk, &path)? == id
                || journal::is_unwritten(disk, &path)?);
        if is_own || name == LOCK_FILE {
            remove_file(disk, &path)?;
        } else {
            removal.leave(path);
        }
    }
    remove_if_empty(disk, journals)
}

/// Removes the files of nested environments, by name, and the directories left empty.
fn remove_inner(
    disk: &dyn Disk,
    directory: &Path,
    depth: usize,
    removal: &mut Removal,
) -> Result<(), StorageError> {
    for name in list(disk, directory)? {
        let path = directory.join(&name);
        let is_known = matches!(name.as_str(), DATA_FILE | UNFINISHED | PREPARED | LOCK_FILE)
            || journal::is_name(&name);
        if disk.list(&path).is_ok() {
            match depth {
                0 => removal.leave(path),
                depth => remove_inner(disk, &path, depth - 1, removal)?,
            }
        } else if is_known {
            remove_file(disk, &path)?;
        } else {
            removal.leave(path);
        }
    }
    remove_if_empty(disk, directory)
}

fn leave_unknown(
    disk: &dyn Disk,
    directory: &Path,
    removal: &mut Removal,
) -> Result<(), StorageError> {
    let named_below = |path: &Path| removal.left.iter().any(|left| left.starts_with(path));
    let unknown: Vec<PathBuf> = list(disk, directory)?
        .iter()
        .map(|name| directory.join(name))
        .filter(|path| !named_below(path))
        .collect();
    unknown.into_iter().for_each(|path| removal.leave(path));
    Ok(())
}

fn remove_files(disk: &dyn Disk, directory: &Path, names: &[&str]) -> Result<(), StorageError> {
    for path in names.iter().map(|name| directory.join(name)) {
        if exists(disk, &path)? {
            remove_file(disk, &path)?;
        }
    }
    Ok(())
}

fn remove_file(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    disk.remove_file(path).map_err(|error| StorageError::io(path, "remove", error))
}

fn remove_if_empty(disk: &dyn Disk, directory: &Path) -> Result<(), StorageError> {
    match disk.remove_empty_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => sync(disk, directory),
        // A link or a mount point, which the operator created.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotADirectory | io::ErrorKind::ResourceBusy
            ) =>
        {
            sync(disk, directory)
        }
        Err(error) => Err(StorageError::io(directory, "remove", error)),
        Ok(()) => sync(disk, directory.parent().unwrap_or(Path::new(""))),
    }
}

fn sync(disk: &dyn Disk, directory: &Path) -> Result<(), StorageError> {
    disk.sync_dir(directory).map_err(|error| StorageError::io(directory, "sync", error))
}

fn exists(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    disk.exists(path).map_err(|error| StorageError::io(path, "find", error))
}

fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<String>, StorageError> {
    disk.list(directory).map_err(|error| StorageError::io(directory, "list", error))
}

/// Whether a directory has a journal file of this environment. An unreadable file does not count.
pub fn has_journal_of(platform: &Platform, directory: &Path, id: u128) -> bool {
    let disk = &*platform.disk;
    let is_own = |name: &String| {
        journal::is_name(name)
            && journal::environment_of(disk, &directory.join(name)).is_ok_and(|of| of == Some(id))
    };
    disk.list(directory).is_ok_and(|names| names.iter().any(is_own))
}
