//! A copy of an environment under another key, next to the data file whose place it will take.
//!
//! The key of an environment, or that it has none, is known by its caller. A change of that knowledge is what
//! changes the key, at one moment: the copy is made and durable before, and which of the two data files is the
//! environment follows from the key with which it is opened.
//!
//! ```text
//! corvus.data             the environment under its former key
//! corvus.data.prepared    the copy under the next one
//! ```
//!
//! - Opened with the former key, nothing has happened; the copy is removed, since it will be out of date.
//! - Opened with the next one, the copy is renamed first. After a power cut before that is durable, the same rename
//!   simply happens again.
//!
//! Both only if it is certain that this key is the present one ([`EnvironmentOptions::is_key_certain`]); trying a key
//! changes nothing.
//!
//! Invariant: a data file that can be opened with the key is never replaced, so that an old copy that somebody puts there
//! has no effect. Writes between copying and the change would be lost; the caller rules them out. A copy without a key is
//! plaintext until then.

use std::path::Path;

use platform::{Access, Disk, Platform};

use crate::{
    compact::{CompactObserver, CompactOutcome, Copied, copy_of},
    encryption_key::EncryptionKey,
    environment::EnvironmentOptions,
    error::StorageError,
    header::EnvironmentHeader,
    open::{DATA_FILE, take_lock},
    table::TableSchema,
};

/// The name of the copy, in the directory of the environment.
pub(crate) const PREPARED: &str = "corvus.data.prepared";

/// Copies the environment of a directory, which must not be open anywhere else, so that it can be opened with `key` from
/// then on, or without one, as well as before. The key in `options`, or that there is none, must be what counts. It needs
/// disk space for a full copy; an earlier copy is settled first.
///
/// # Errors
/// As [`crate::compact_in_place`]; nothing is left then.
pub fn prepare_copy(
    platform: &Platform,
    options: &EnvironmentOptions,
    key: Option<EncryptionKey>,
    schemas: &[&'static TableSchema],
    observer: CompactObserver<'_>,
) -> Result<CompactOutcome, StorageError> {
    let options = EnvironmentOptions { is_key_certain: true, ..options.clone() };
    let target = EnvironmentOptions { encryption_key: key, ..options.clone() };
    let Copied { source, unfinished, before_bytes, report } =
        copy_of(platform, &options, &target, schemas, observer)?;
    let after_bytes = unfinished.finish_as(PREPARED)?;
    drop(source);
    Ok(CompactOutcome { before_bytes, after_bytes, report })
}

/// Settles what a copy that was prepared in the directory of an environment is, which must not be open: if the key in
/// `options` is that of the copy, it takes the place of the environment; otherwise it is removed. That key, or that there is
/// none, must be what counts.
///
/// # Errors
/// [`StorageError::Locked`]; the system's.
pub fn settle_prepared(
    platform: &Platform,
    options: &EnvironmentOptions,
) -> Result<(), StorageError> {
    let options = EnvironmentOptions { is_key_certain: true, ..options.clone() };
    let _lock = take_lock(&*platform.disk, &options.directory)?;
    settle(&*platform.disk, &options)
}

/// Makes the copy the environment, if there is one and the key is that of the copy alone. To be called before the data file
/// is opened.
pub(crate) fn settle(disk: &dyn Disk, options: &EnvironmentOptions) -> Result<(), StorageError> {
    if !options.is_key_certain {
        return Ok(());
    }
    let directory = &options.directory;
    let (path, prepared) = (directory.join(DATA_FILE), directory.join(PREPARED));
    // Without the one there is nothing to decide about the other; opening it reports why.
    for file in [&prepared, &path] {
        if !disk.exists(file).map_err(|error| StorageError::io(file, "find", error))? {
            return Ok(());
        }
    }
    let key = options.encryption_key.as_ref();
    match (is_of(disk, &path, key)?, is_of(disk, &prepared, key)?) {
        (false, true) => {
            let publish = || disk.rename(&prepared, &path).and_then(|()| disk.sync_dir(directory));
            publish().map_err(|error| StorageError::io(&path, "put in place", error))
        }
        (true, _) => {
            let remove = || disk.remove_file(&prepared).and_then(|()| disk.sync_dir(directory));
            remove().map_err(|error| StorageError::io(&prepared, "remove", error))
        }
        (false, false) => Ok(()),
    }
}

/// Whether a data file can be opened with this key, or without one.
fn is_of(disk: &dyn Disk, path: &Path, key: Option<&EncryptionKey>) -> Result<bool, StorageError> {
    let file = disk.open(path, Access::Buffered);
    let file = file.map_err(|error| StorageError::io(path, "open", error))?;
    match EnvironmentHeader::read(&*file, path, key) {
        Ok(_) => Ok(true),
        // Opening it reports these.
        Err(
            StorageError::WrongKey { .. }
            | StorageError::KeyMissing { .. }
            | StorageError::NotEncrypted { .. }
            | StorageError::Corrupt(_)
            | StorageError::UnknownVersion { .. },
        ) => Ok(false),
        Err(error) => Err(error),
    }
}
