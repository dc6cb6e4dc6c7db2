//! A journal file: a header sector, then records, then a sector that names the next file.
//!
//! ```text
//!  0 magic u64 "CORVUSJF" · 8 version u32 · 12 zero u32 · 16 environment id u128
//! 32 journal number u64 · 40 length of the file u64 · 48 checksum u128 (XXH3-128 of bytes 0..48)
//! 4096 … records, each starting on a sector
//! last sector: 0 magic u64 "CORVUSJN" · 8 environment id u128 · 24 this journal's number u64
//!             32 next journal's number u64 · 40 last transaction in this journal u64
//!             48 checksum u128 (XXH3-128 of bytes 0..48)
//! ```
//!
//! The last sector is written before the next file gets its first record. So a truncated file and a
//! missing one are detected, although both may have ended with a torn record. Files of version 1
//! have neither the length nor the last sector; their checksum is of bytes 0..40, at 40.
//!
//! A file is filled with zeroes before its first record, so that writing a record changes no
//! metadata of the file system. A recycled file keeps its old records: they carry smaller
//! transaction numbers than any record written over them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, AlignedBuffer, Disk, File, SECTOR_BYTES};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    error::{Corruption, StorageError},
    format::{read_u32, read_u64, read_u128, write_u32, write_u64, write_u128},
};

/// Offset of the first record of a file.
pub(crate) const FIRST_RECORD: u64 = SECTOR_BYTES as u64;

const MAGIC: u64 = u64::from_le_bytes(*b"CORVUSJF");
const NEXT_MAGIC: u64 = u64::from_le_bytes(*b"CORVUSJN");
const VERSION: u32 = 2;
/// Without the length of the file and the name of the next one.
const VERSION_WITHOUT_LENGTH: u32 = 1;
const HEADER_BYTES: usize = 64;
const NEXT_SECTOR_BYTES: u64 = SECTOR_BYTES as u64;
/// Bytes of a file that are not records.
pub(super) const OVERHEAD_BYTES: u64 = FIRST_RECORD + NEXT_SECTOR_BYTES;
const ZEROES_BYTES: usize = 1024 * 1024;
const EXTENSION: &str = ".journal";
/// The number of a spare, which becomes the next journal; used ones start at 1.
pub(super) const SPARE: u64 = 0;

/// A journal file that records are written to.
pub(super) struct JournalFile {
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) name: Arc<str>,
    /// Length of the file.
    pub(super) bytes: u64,
    /// Records end at or before this offset.
    pub(super) records_end: u64,
}

/// What the last sector of a journal file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextJournal {
    /// The journal in which the records continue.
    pub(super) number: u64,
    /// The last transaction before it.
    pub(super) after: u64,
}

/// What the header of a journal file says.
struct JournalHeader {
    version: u32,
    environment_id: u128,
    number: u64,
    /// The length with which the file was created; 0 in version 1.
    bytes: u64,
}

fn name_of(number: u64) -> String {
    if number == SPARE { "spare".into() } else { format!("{number:019}{EXTENSION}") }
}

pub(super) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(name_of(number))
}

/// Removes a spare that an earlier process prepared.
pub(super) fn remove_spare(disk: &dyn Disk, directory: &Path) -> Result<(), StorageError> {
    match has_spare(disk, directory)? {
        true => remove(disk, directory, SPARE),
        false => Ok(()),
    }
}

pub(super) fn has_spare(disk: &dyn Disk, directory: &Path) -> Result<bool, StorageError> {
    let path = path_of(directory, SPARE);
    disk.exists(&path).map_err(|error| StorageError::io(path, "find", error))
}

/// The numbers of the journal files in a directory, ascending.
pub(super) fn numbers(disk: &dyn Disk, directory: &Path) -> Result<Vec<u64>, StorageError> {
    let names = disk.list(directory).map_err(|error| StorageError::io(directory, "list", error))?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| name.strip_suffix(EXTENSION)?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A journal file of the directory, if there is one.
pub(crate) fn any_journal(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Option<PathBuf>, StorageError> {
    let numbers = numbers(disk, directory)?;
    Ok(numbers.first().map(|number| path_of(directory, *number)))
}

pub(super) fn remove(disk: &dyn Disk, directory: &Path, number: u64) -> Result<(), StorageError> {
    let path = path_of(directory, number);
    disk.remove_file(&path).map_err(|error| StorageError::io(path, "remove", error))
}

/// Whether a file of this name is one of a journal, or the next one of it.
pub(crate) fn is_name(name: &str) -> bool {
    let digits = name.strip_suffix(EXTENSION);
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    name == name_of(SPARE) || digits.is_some_and(is_number)
}

/// The environment that a journal file belongs to; `None` when it is no journal file.
pub(crate) fn environment_of(disk: &dyn Disk, path: &Path) -> Result<Option<u128>, StorageError> {
    let head = head_of(disk, path)?.filter(|head| read_u64(head, 0) == MAGIC);
    Ok(head.map(|head| read_u128(&head, 16)))
}

/// Whether the creation of a file ended before anything was written to it.
pub(crate) fn is_unwritten(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    Ok(head_of(disk, path)?.is_none_or(|head| head.iter().all(|byte| *byte == 0)))
}

/// The first bytes of a file; `None` when it is shorter.
fn head_of(disk: &dyn Disk, path: &Path) -> Result<Option<[u8; 32]>, StorageError> {
    let mut bytes = [0; 32];
    let failed = |error| StorageError::io(path, "read", error);
    let file = disk.open(path, Access::Buffered).map_err(failed)?;
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some(bytes)).map_err(failed),
    }
}

impl JournalFile {
    fn new(file: Arc<dyn File>, directory: &Path, number: u64, bytes: u64) -> Self {
        let path = path_of(directory, number);
        let records_end = bytes.saturating_sub(NEXT_SECTOR_BYTES);
        Self { number, file, path, name: name_of(number).into(), bytes, records_end }
    }

    /// Names the journal in which the records continue. Durable when it returns.
    pub(super) fn name_next(
        &self,
        environment_id: u128,
        next: NextJournal,
    ) -> Result<(), StorageError> {
        let mut sector = AlignedBuffer::zeroed(SECTOR_BYTES);
        write_u64(&mut sector, 0, NEXT_MAGIC);
        write_u128(&mut sector, 8, environment_id);
        write_u64(&mut sector, 24, self.number);
        write_u64(&mut sector, 32, next.number);
        write_u64(&mut sector, 40, next.after);
        let sum = xxh3_128(&sector[..48]);
        write_u128(&mut sector, 48, sum);
        self.file
            .write_all_at(&sector, self.records_end)
            .map_err(|error| StorageError::io(&self.path, "name the next journal in", error))
    }

    /// The journal in which the records continue, if one was begun.
    pub(super) fn next(&self, environment_id: u128) -> Result<Option<NextJournal>, StorageError> {
        if self.records_end == self.bytes {
            return Ok(None);
        }
        let mut bytes = AlignedBuffer::zeroed(SECTOR_BYTES);
        self.file
            .read_exact_at(&mut bytes, self.records_end)
            .map_err(|error| StorageError::io(&self.path, "read", error))?;
        // A recycled file still names the successor that it had before.
        let is_named = read_u64(&bytes, 0) == NEXT_MAGIC
            && read_u128(&bytes, 8) == environment_id
            && read_u64(&bytes, 24) == self.number
            && read_u128(&bytes, 48) == xxh3_128(&bytes[..48]);
        let next = || NextJournal { number: read_u64(&bytes, 32), after: read_u64(&bytes, 40) };
        Ok(is_named.then(next))
    }

    /// Creates a file of `bytes` bytes and fills it with zeroes, except for the space of the first
    /// record, which the caller writes right away. A partially created file is removed on failure.
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
            file.write_all_at(&header(environment_id, number, bytes), 0)?;
            file.sync_data()?;
            disk.sync_dir(directory)?;
            Ok(file)
        };
        match fill() {
            Ok(file) => Ok(Self::new(file, directory, number, bytes)),
            Err(error) => {
                // A half-created journal holds nothing; if it cannot be removed now, opening will
                // remove it.
                drop(disk.remove_file(&path));
                Err(StorageError::io(path, "create the journal", error))
            }
        }
    }

    /// Whether a record of this size fits behind this offset.
    pub(super) fn fits(&self, record_bytes: u64, offset: u64) -> bool {
        offset + record_bytes <= self.records_end
    }

    /// Assigns a new number to a file whose records are no longer needed.
    pub(super) fn recycle(
        self,
        disk: &dyn Disk,
        directory: &Path,
        environment_id: u128,
        number: u64,
    ) -> Result<Self, StorageError> {
        let path = path_of(directory, number);
        let rename = || {
            self.file.write_all_at(&header(environment_id, number, self.bytes), 0)?;
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
        Ok(opened.map(|(file, bytes)| {
            let journal = Self::new(file, directory, number, bytes);
            Self { records_end: bytes, ..journal }
        }))
    }

    /// Opens a file for reading; `None` when it is missing or is not that journal.
    ///
    /// # Errors
    /// [`StorageError::UnknownVersion`]; [`Corruption::JournalTooShort`] when it has been
    /// truncated.
    pub(super) fn open(
        disk: &dyn Disk,
        directory: &Path,
        environment_id: u128,
        number: u64,
    ) -> Result<Option<Self>, StorageError> {
        let path = path_of(directory, number);
        let opened = open_with_header(disk, &path);
        let opened = opened.map_err(|error| StorageError::io(&path, "read", error))?;
        let Some((file, bytes, header)) = opened else { return Ok(None) };
        if header.environment_id != environment_id || header.number != number {
            return Ok(None);
        }
        let mut journal = Self::new(file, directory, number, bytes);
        match header.version {
            VERSION if bytes < header.bytes => {
                let expected = header.bytes;
                Err(Corruption::JournalTooShort { path, bytes, expected }.into())
            }
            VERSION => Ok(Some(journal)),
            VERSION_WITHOUT_LENGTH => {
                journal.records_end = bytes;
                Ok(Some(journal))
            }
            found => Err(StorageError::UnknownVersion { path, found, known: VERSION }),
        }
    }
}

/// Refuses a directory with a journal file of another environment, which would be destroyed here.
pub(super) fn refuse_others(
    disk: &dyn Disk,
    directory: &Path,
    environment_id: u128,
) -> Result<(), StorageError> {
    for number in numbers(disk, directory)? {
        let path = path_of(directory, number);
        let opened = open_with_header(disk, &path);
        let opened = opened.map_err(|error| StorageError::io(&path, "read", error))?;
        if opened.is_some_and(|(_, _, header)| header.environment_id != environment_id) {
            return Err(StorageError::JournalOfAnother { path });
        }
    }
    Ok(())
}

/// A file, its length, and its header.
type FileWithHeader = (Arc<dyn File>, u64, JournalHeader);

/// `None` when the file is missing or has no sound header.
fn open_with_header(disk: &dyn Disk, path: &Path) -> io::Result<Option<FileWithHeader>> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let file = disk.open(path, Access::Buffered)?;
    let bytes = file.len()?;
    let mut sector = [0; HEADER_BYTES];
    if bytes < FIRST_RECORD {
        return Ok(None);
    }
    file.read_exact_at(&mut sector, 0)?;
    Ok(read_header(&sector).map(|header| (file, bytes, header)))
}

fn header(environment_id: u128, number: u64, bytes: u64) -> AlignedBuffer {
    let mut sector = AlignedBuffer::zeroed(SECTOR_BYTES);
    write_u64(&mut sector, 0, MAGIC);
    write_u32(&mut sector, 8, VERSION);
    write_u128(&mut sector, 16, environment_id);
    write_u64(&mut sector, 32, number);
    write_u64(&mut sector, 40, bytes);
    let sum = xxh3_128(&sector[..48]);
    write_u128(&mut sector, 48, sum);
    sector
}

/// `None` when the bytes are no sound header.
fn read_header(sector: &[u8]) -> Option<JournalHeader> {
    if read_u64(sector, 0) != MAGIC {
        return None;
    }
    let version = read_u32(sector, 8);
    let checked = if version == VERSION_WITHOUT_LENGTH { 40 } else { 48 };
    (read_u128(sector, checked) == xxh3_128(&sector[..checked])).then(|| JournalHeader {
        version,
        environment_id: read_u128(sector, 16),
        number: read_u64(sector, 32),
        bytes: if version == VERSION_WITHOUT_LENGTH { 0 } else { read_u64(sector, 40) },
    })
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
        let mut newer = header(7, 3, bytes);
        write_u32(&mut newer, 8, VERSION + 1);
        let sum = xxh3_128(&newer[..48]);
        write_u128(&mut newer, 48, sum);
        journal.file.write_all_at(&newer, 0).expect("writes");
        let refused = JournalFile::open(&*disk, directory, 7, 3).err();
        assert!(
            matches!(refused, Some(StorageError::UnknownVersion { found: 3, known: 2, .. })),
            "{refused:?}"
        );
        assert_eq!(numbers(&*disk, directory).expect("lists"), [3]);
    }

    #[test]
    fn a_journal_names_the_next_one_and_its_own_length() {
        let disk = Platform::simulated(1).platform.disk;
        let directory = Path::new("/journals");
        disk.create_dir_all(directory).expect("creates");
        let bytes = 4 * SECTOR_BYTES as u64;
        let journal = JournalFile::create(&*disk, directory, 7, 3, bytes, 0).expect("creates");
        assert_eq!(journal.next(7).expect("reads"), None);
        let next = NextJournal { number: 4, after: 99 };
        journal.name_next(7, next).expect("writes");
        assert_eq!(journal.next(7).expect("reads"), Some(next));
        assert_eq!(journal.next(8).expect("reads"), None);
        journal.file.set_len(bytes - 1).expect("cuts");
        let refused = JournalFile::open(&*disk, directory, 7, 3).err();
        let Some(StorageError::Corrupt(Corruption::JournalTooShort { expected, .. })) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!(expected, bytes);
    }

    /// See `docs/internals/journal.md`.
    #[test]
    fn the_worked_examples_of_the_documents() {
        let disk = Platform::simulated(1).platform.disk;
        let directory = Path::new("/journals");
        disk.create_dir_all(directory).expect("creates");
        let (id, bytes) = (0x08c9_eb46_85b1_dad7_778b_1aa9_c29b_c868, 256 * 1024);
        let journal = JournalFile::create(&*disk, directory, id, 1, bytes, 0).expect("creates");
        journal.name_next(id, NextJournal { number: 2, after: 2 }).expect("writes");
        let written = disk.read_file(&journal.path).expect("reads");
        assert_eq!(read_u128(&written, 0x30), 0x02dbce4ee358751ef294494d89793c78);
        assert_eq!(read_u128(&written, 0x3f030), 0x7c6fcf9a18eb53fe938cd89a47cd45d9);
    }

    #[test]
    fn a_recycled_journal_forgets_what_it_named() {
        let disk = Platform::simulated(1).platform.disk;
        let directory = Path::new("/journals");
        disk.create_dir_all(directory).expect("creates");
        let bytes = 4 * SECTOR_BYTES as u64;
        let journal = JournalFile::create(&*disk, directory, 7, 3, bytes, 0).expect("creates");
        journal.name_next(7, NextJournal { number: 4, after: 99 }).expect("writes");
        let recycled = journal.recycle(&*disk, directory, 7, 5).expect("recycles");
        assert_eq!(recycled.next(7).expect("reads"), None);
    }
}
