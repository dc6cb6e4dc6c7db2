//! A journal file: a header sector, then records.
//!
//! ```text
//!  0 magic u64 "CORVUSJF" · 8 version u32 · 12 zero u32 · 16 environment id u128
//! 32 journal number u64 · 40 checksum u128 (XXH3-128 of bytes 0..40)
//! 4096 … records, each starting on a sector
//! ```
//!
//! A file is filled with zeroes before its first record, so that writing a record changes no metadata
//! of the file system. A recycled file keeps its old records: they carry smaller transaction numbers
//! than any record that belongs where they stand.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, AlignedBuffer, Disk, File, SECTOR_BYTES};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    error::StorageError,
    format::{read_u32, read_u64, read_u128, write_u32, write_u64, write_u128},
};

/// Offset of the first record of a file.
pub(crate) const FIRST_RECORD: u64 = SECTOR_BYTES as u64;

const MAGIC: u64 = u64::from_le_bytes(*b"CORVUSJF");
const VERSION: u32 = 1;
const ZEROES_BYTES: usize = 1024 * 1024;
const EXTENSION: &str = ".journal";
/// The number of the file that waits to become the next journal; real ones start at 1.
pub(super) const SPARE: u64 = 0;

/// A journal file that records are written to.
pub(super) struct JournalFile {
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) name: Arc<str>,
    pub(super) bytes: u64,
}

fn name_of(number: u64) -> String {
    if number == SPARE { "spare".into() } else { format!("{number:019}{EXTENSION}") }
}

pub(super) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(name_of(number))
}

/// Removes what a process that ended had prepared.
pub(super) fn remove_spare(disk: &dyn Disk, directory: &Path) -> Result<(), StorageError> {
    let path = path_of(directory, SPARE);
    match disk.exists(&path) {
        Ok(true) => remove(disk, directory, SPARE),
        Ok(false) => Ok(()),
        Err(error) => Err(StorageError::io(path, "find", error)),
    }
}

/// The numbers of the journal files in a directory, ascending.
pub(super) fn numbers(disk: &dyn Disk, directory: &Path) -> Result<Vec<u64>, StorageError> {
    let names = disk.list(directory).map_err(|error| StorageError::io(directory, "list", error))?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| name.strip_suffix(EXTENSION)?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) fn remove(disk: &dyn Disk, directory: &Path, number: u64) -> Result<(), StorageError> {
    let path = path_of(directory, number);
    disk.remove_file(&path).map_err(|error| StorageError::io(path, "remove", error))
}

impl JournalFile {
    fn new(file: Arc<dyn File>, directory: &Path, number: u64, bytes: u64) -> Self {
        let path = path_of(directory, number);
        Self { number, file, path, name: name_of(number).into(), bytes }
    }

    /// A new file of `bytes` bytes, its space written once, but for what the caller will write there
    /// at once: a first record of so many bytes. Whatever was made of it is removed again when that
    /// fails.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        environment_id: u128,
        number: u64,
        bytes: u64,
        first_record_bytes: u64,
    ) -> Result<Self, StorageError> {
        let path = path_of(directory, number);
        let fill = || {
            // Numbers only grow: a file of that number is what a failed attempt could not remove.
            if disk.exists(&path)? {
                disk.remove_file(&path)?;
            }
            let file = disk.create(&path, Access::DirectSync)?;
            file.allocate(bytes)?;
            let zeroes = AlignedBuffer::zeroed(ZEROES_BYTES.min(bytes as usize));
            let mut at = FIRST_RECORD + first_record_bytes;
            while at < bytes {
                let step = zeroes.len().min((bytes - at) as usize);
                file.write_all_at(&zeroes[..step], at)?;
                at += step as u64;
            }
            file.write_all_at(&header(environment_id, number), 0)?;
            file.sync_data()?;
            disk.sync_dir(directory)?;
            Ok(file)
        };
        match fill() {
            Ok(file) => Ok(Self::new(file, directory, number, bytes)),
            Err(error) => {
                // Half a journal holds nothing; if it cannot be removed either, opening will do it.
                drop(disk.remove_file(&path));
                Err(StorageError::io(path, "create the journal", error))
            }
        }
    }

    /// Gives a file whose records are no longer needed a new number.
    pub(super) fn recycle(
        self,
        disk: &dyn Disk,
        directory: &Path,
        environment_id: u128,
        number: u64,
    ) -> Result<Self, StorageError> {
        let path = path_of(directory, number);
        let rename = || {
            self.file.write_all_at(&header(environment_id, number), 0)?;
            disk.rename(&self.path, &path)?;
            disk.sync_dir(directory)
        };
        rename().map_err(|error| StorageError::io(&path, "recycle the journal", error))?;
        Ok(Self::new(self.file, directory, number, self.bytes))
    }

    /// Opens a file for reading whatever its header says; `None` when it is missing or too short for
    /// a record.
    pub(super) fn open_any(
        disk: &dyn Disk,
        directory: &Path,
        number: u64,
    ) -> Result<Option<Self>, StorageError> {
        let path = path_of(directory, number);
        let open = || {
            if !disk.exists(&path)? {
                return Ok(None);
            }
            let file = disk.open(&path, Access::Buffered)?;
            let bytes = file.len()?;
            Ok((FIRST_RECORD < bytes).then_some((file, bytes)))
        };
        let opened = open().map_err(|error| StorageError::io(&path, "read", error))?;
        Ok(opened.map(|(file, bytes)| Self::new(file, directory, number, bytes)))
    }

    /// Opens a file for reading; `None` when it is missing or is not that journal. Refuses a journal
    /// of a version that is not known.
    pub(super) fn open(
        disk: &dyn Disk,
        directory: &Path,
        environment_id: u128,
        number: u64,
    ) -> Result<Option<Self>, StorageError> {
        let path = path_of(directory, number);
        let read = || {
            if !disk.exists(&path)? {
                return Ok(None);
            }
            let file = disk.open(&path, Access::Buffered)?;
            let bytes = file.len()?;
            let mut sector = [0; 56];
            if bytes < FIRST_RECORD {
                return Ok(None);
            }
            file.read_exact_at(&mut sector, 0)?;
            let found = version(&sector, environment_id, number);
            Ok(found.map(|found| (file, bytes, found)))
        };
        let opened = read().map_err(|error| StorageError::io(&path, "read", error))?;
        match opened {
            Some((_, _, found)) if found != VERSION => {
                Err(StorageError::UnknownVersion { path, found, known: VERSION })
            }
            opened => Ok(opened.map(|(file, bytes, _)| Self::new(file, directory, number, bytes))),
        }
    }
}

fn header(environment_id: u128, number: u64) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::zeroed(SECTOR_BYTES);
    write_u64(&mut bytes, 0, MAGIC);
    write_u32(&mut bytes, 8, VERSION);
    write_u128(&mut bytes, 16, environment_id);
    write_u64(&mut bytes, 32, number);
    let sum = xxh3_128(&bytes[..40]);
    write_u128(&mut bytes, 40, sum);
    bytes
}

/// The version that the header of that journal names; `None` when it is not the header of that
/// journal.
fn version(bytes: &[u8], environment_id: u128, number: u64) -> Option<u32> {
    let is_header = read_u64(bytes, 0) == MAGIC
        && read_u128(bytes, 16) == environment_id
        && read_u64(bytes, 32) == number
        && read_u128(bytes, 40) == xxh3_128(&bytes[..40]);
    is_header.then(|| read_u32(bytes, 8))
}

#[cfg(test)]
mod tests {
    use platform::Platform;

    use super::*;

    #[test]
    fn a_journal_of_a_newer_version_is_refused_by_name_and_stays() {
        let disk = Platform::simulated(1).platform.disk;
        let directory = Path::new("/journals");
        disk.create_dir_all(directory).expect("creates");
        let bytes = 4 * SECTOR_BYTES as u64;
        let journal = JournalFile::create(&*disk, directory, 7, 3, bytes, 0).expect("creates");
        assert!(matches!(JournalFile::open(&*disk, directory, 7, 3), Ok(Some(_))));
        assert!(matches!(JournalFile::open(&*disk, directory, 8, 3), Ok(None)));
        let mut newer = header(7, 3);
        write_u32(&mut newer, 8, VERSION + 1);
        let sum = xxh3_128(&newer[..40]);
        write_u128(&mut newer, 40, sum);
        journal.file.write_all_at(&newer, 0).expect("writes");
        let refused = JournalFile::open(&*disk, directory, 7, 3).err();
        assert!(
            matches!(refused, Some(StorageError::UnknownVersion { found: 2, known: 1, .. })),
            "{refused:?}"
        );
        assert_eq!(numbers(&*disk, directory).expect("lists"), [3]);
    }
}
