//! Makes an environment of an image ([`crate::image`]).
//!
//! It is another environment than the one that the image is of: it has an identity of its own, and knows nothing of
//! the other's incarnations. It may have a key, whether the other had one or not.
//!
//! The data file is written under another name, and gets its own when it is whole and synced. What a power cut leaves
//! before that is removed when an environment is created in the directory.

use std::{path::PathBuf, sync::Arc};

use platform::{Access, File, Platform};

use crate::{
    environment::{Environment, EnvironmentOptions},
    error::StorageError,
    format::PAGE_BYTES,
    header::{EnvironmentHeader, JournalPosition},
    history::{self, History},
    image::{ImageEnd, ImageReader},
    journal::FIRST_RECORD,
    open::{DATA_FILE, UNFINISHED, encryption_of, random},
    plaintext::{Encryption, Plaintext},
    transaction::Transaction,
};

/// The file grows by this much.
const GROWTH_BYTES: u64 = 64 * 1024 * 1024;
/// Synced at once: what is restored must not fill the page cache, in which other databases are.
const SYNC_BYTES: u64 = 64 * 1024 * 1024;
/// Rows that a transaction removes.
const ROWS_MAX: usize = 1000;

/// An environment that is being made of an image. Its file is removed on drop, unless it is complete.
pub struct ImageRestore {
    platform: Platform,
    options: EnvironmentOptions,
    target: Target,
    reader: ImageReader,
    is_complete: bool,
}

/// The file, and how pages get into it.
struct Target {
    path: PathBuf,
    file: Arc<dyn File>,
    allocated_bytes: u64,
    unsynced_bytes: u64,
    environment_id: u128,
    sealing: Option<(Arc<Plaintext>, Encryption)>,
}

impl ImageRestore {
    /// Begins one in a directory without an environment.
    ///
    /// # Errors
    /// [`StorageError::TargetInUse`]; those of the disk; the key cannot be read.
    pub fn begin(
        platform: &Platform,
        options: EnvironmentOptions,
    ) -> Result<ImageRestore, StorageError> {
        let (disk, directory) = (&*platform.disk, &options.directory);
        let path = directory.join(UNFINISHED);
        let environment_id = u128::from_le_bytes(random(platform));
        let create = || {
            disk.create_dir_all(directory)?;
            if disk.exists(&directory.join(DATA_FILE))? {
                return Ok(None);
            }
            if disk.exists(&path)? {
                disk.remove_file(&path)?;
            }
            disk.create(&path, Access::Buffered).map(Some)
        };
        let file = create().map_err(|error| StorageError::io(&path, "create", error))?;
        let Some(file) = file else {
            return Err(StorageError::TargetInUse { path: directory.clone() });
        };
        let sealing = encryption_of(platform, &options, environment_id)
            .map(|encryption| (encryption.plaintext(), encryption));
        let (allocated_bytes, unsynced_bytes) = (0, 0);
        let target =
            Target { path, file, allocated_bytes, unsynced_bytes, environment_id, sealing };
        let reader = ImageReader::default();
        Ok(Self { platform: platform.clone(), options, target, reader, is_complete: false })
    }

    /// Takes a piece of the image.
    ///
    /// # Errors
    /// The image is damaged; the file cannot be written.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), StorageError> {
        let target = &mut self.target;
        self.reader.take(piece, &mut |page, bytes| {
            if let Some((plaintext, encryption)) = &target.sealing {
                plaintext.keys()?.seal_page(page, &encryption.nonce(), bytes);
            }
            target.write(page.offset(), bytes)
        })
    }

    /// Puts the data file in its place, durably.
    ///
    /// # Errors
    /// The image is not complete; the file cannot be written.
    pub fn complete(mut self, end: &ImageEnd) -> Result<(), StorageError> {
        std::mem::take(&mut self.reader).end(end)?;
        self.target.write_headers(&self.platform, end)?;
        let (disk, directory) = (&*self.platform.disk, &self.options.directory);
        let path = directory.join(DATA_FILE);
        let place = || {
            self.target.file.set_len(end.next_page * PAGE_BYTES as u64)?;
            self.target.file.sync_data()?;
            disk.rename(&self.target.path, &path)?;
            disk.sync_dir(directory)
        };
        place().map_err(|error| StorageError::io(&path, "put in place", error))?;
        self.is_complete = true;
        let options = EnvironmentOptions { history: History::NotKept, ..self.options.clone() };
        let environment = Environment::open(&self.platform, options)?;
        forget_incarnations(&environment)?;
        environment.close()
    }
}

impl Target {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let end = offset + bytes.len() as u64;
        let write = |allocated: &mut u64| {
            if *allocated < end {
                *allocated = end.next_multiple_of(GROWTH_BYTES);
                self.file.allocate(*allocated)?;
            }
            self.file.write_all_at(bytes, offset)
        };
        let written = write(&mut self.allocated_bytes);
        written.map_err(|error| StorageError::io(&self.path, "write", error))?;
        self.unsynced_bytes += bytes.len() as u64;
        if SYNC_BYTES <= self.unsynced_bytes {
            self.unsynced_bytes = 0;
            let synced = self.file.sync_data();
            synced.map_err(|error| StorageError::io(&self.path, "sync", error))?;
        }
        Ok(())
    }

    fn write_headers(&self, platform: &Platform, end: &ImageEnd) -> Result<(), StorageError> {
        let replay_from = JournalPosition {
            transaction: end.transaction,
            journal: 1,
            offset: FIRST_RECORD,
            chain: u128::from_le_bytes(random(platform)),
        };
        for revision in 0..2 {
            let environment_id = self.environment_id;
            let header =
                EnvironmentHeader { environment_id, revision, replay_from, needs_journal: false };
            let signing = match &self.sealing {
                Some((plaintext, encryption)) => Some((plaintext.keys()?, encryption.nonce())),
                None => None,
            };
            header.write(&*self.file, &self.path, signing)?;
        }
        Ok(())
    }
}

impl Drop for ImageRestore {
    fn drop(&mut self) {
        if !self.is_complete {
            // What remains has a name that no environment has.
            drop(self.platform.disk.remove_file(&self.target.path));
        }
    }
}

/// They are those of another environment.
fn forget_incarnations(environment: &Arc<Environment>) -> Result<(), StorageError> {
    loop {
        let mut tx = environment.write()?;
        let rows = tx.fixed_tree(&history::tree())?;
        let first: Result<Vec<u64>, StorageError> =
            rows.range(0)?.take(ROWS_MAX).map(|row| row.map(|(first, _)| first)).collect();
        let first = first?;
        if first.is_empty() {
            return Ok(());
        }
        let mut rows = tx.fixed_tree_mut(&history::tree(), history::VALUE_BYTES as u16)?;
        for key in first {
            rows.delete(key)?;
        }
        tx.commit()?;
    }
}
