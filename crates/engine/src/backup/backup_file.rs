//! A file of a backup that is written, and one that is read.
//!
//! It is written under a name of its own, next to the final one. Invariant: it gets the final name only when all of it
//! is on stable storage and was read back; otherwise it is removed.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{Access, Disk, File};
use smuggler::{DUMP_KEY_BYTES, DecryptedDump, DumpEncryptor, DumpText};

use super::error::BackupError;

/// The ending of the name of a file that is not complete.
const UNFINISHED: &str = ".in-progress";
/// Written to the file at once.
const WRITE_BYTES: usize = 1 << 20;
/// Synced at once: a backup that is written faster than the disk must not fill the page cache, in which the databases
/// are.
const SYNC_BYTES: u64 = 32 << 20;
/// Read from a file at once.
const READ_BYTES: usize = 256 << 10;

/// The name that a file would have got that is not complete; `None` if the name is that of another file.
pub(super) fn complete_name(unfinished: &str) -> Option<&str> {
    unfinished.strip_suffix(UNFINISHED)
}

/// A file that is being written. Removed on drop, unless it is completed.
pub(super) struct BackupFile<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    unfinished: PathBuf,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    at: u64,
    unsynced_bytes: u64,
    is_complete: bool,
}

impl<'d> BackupFile<'d> {
    /// Creates a file that is to have that path.
    pub(super) fn create(disk: &'d dyn Disk, path: PathBuf) -> Result<BackupFile<'d>, BackupError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(UNFINISHED);
        let unfinished = path.with_file_name(name);
        let file = disk.create(&unfinished, Access::Buffered);
        let file = file.map_err(|error| BackupError::io(&unfinished, "create", error))?;
        let buffer = Vec::with_capacity(WRITE_BYTES);
        let (at, unsynced_bytes, is_complete) = (0, 0, false);
        Ok(Self { disk, path, unfinished, file, buffer, at, unsynced_bytes, is_complete })
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() < WRITE_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// How long it is, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn flush(&mut self) -> Result<(), BackupError> {
        let written = self.file.write_all_at(&self.buffer, self.at);
        written.map_err(|error| BackupError::io(&self.unfinished, "write to", error))?;
        self.at += self.buffer.len() as u64;
        self.unsynced_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if SYNC_BYTES <= self.unsynced_bytes {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackupError> {
        self.unsynced_bytes = 0;
        let synced = self.file.sync_data();
        synced.map_err(|error| BackupError::io(&self.unfinished, "sync", error))
    }

    /// Syncs the file, has it verified, and gives it its name, durably.
    pub(super) fn complete<T, E: From<BackupError>>(
        mut self,
        verify: impl FnOnce(SequentialFile) -> Result<T, E>,
    ) -> Result<T, E> {
        self.flush()?;
        self.sync()?;
        let verified = verify(SequentialFile::of(Arc::clone(&self.file)))?;
        let renamed = self.disk.rename(&self.unfinished, &self.path);
        renamed.map_err(|error| BackupError::io(&self.unfinished, "rename", error))?;
        self.is_complete = true;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let synced = self.disk.sync_dir(folder);
        synced.map_err(|error| BackupError::io(folder, "sync", error))?;
        Ok(verified)
    }
}

impl Drop for BackupFile<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            // What remains cannot be taken for a backup, because of its name.
            drop(self.disk.remove_file(&self.unfinished));
        }
    }
}

/// A file that is being written, and encrypted on the way if there is a key.
pub(super) struct SealedFile<'d> {
    file: BackupFile<'d>,
    encryptor: Option<DumpEncryptor>,
    ready: Vec<u8>,
}

impl<'d> SealedFile<'d> {
    /// Begins to write a file; `begin` begins to encrypt it, and appends what that has to write first.
    pub(super) fn begin(
        file: BackupFile<'d>,
        begin: impl FnOnce(&mut Vec<u8>) -> Option<DumpEncryptor>,
    ) -> SealedFile<'d> {
        let mut ready = Vec::new();
        let encryptor = begin(&mut ready);
        SealedFile { file, encryptor, ready }
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        match &mut self.encryptor {
            Some(encryptor) => encryptor.write(bytes, &mut self.ready),
            None => self.ready.extend_from_slice(bytes),
        }
        self.file.write(&self.ready)?;
        self.ready.clear();
        Ok(())
    }

    /// Ends the encryption; the file is still to be completed.
    pub(super) fn end(mut self) -> Result<BackupFile<'d>, BackupError> {
        if let Some(encryptor) = self.encryptor.take() {
            encryptor.finish(&mut self.ready);
        }
        self.file.write(&self.ready)?;
        Ok(self.file)
    }
}

/// A file that is read from its begin to its end.
pub struct SequentialFile {
    file: Arc<dyn File>,
    at: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl SequentialFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<SequentialFile> {
        Ok(SequentialFile::of(disk.open(path, Access::Buffered)?))
    }

    fn of(file: Arc<dyn File>) -> SequentialFile {
        SequentialFile { file, at: 0, buffer: Vec::new(), used: 0 }
    }
}

impl Read for SequentialFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            let left = self.file.len()?.saturating_sub(self.at);
            let bytes = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
            self.buffer.resize(bytes, 0);
            self.file.read_exact_at(&mut self.buffer, self.at)?;
            self.at += bytes as u64;
            self.used = 0;
        }
        let taken = out.len().min(self.buffer.len() - self.used);
        out[..taken].copy_from_slice(&self.buffer[self.used..self.used + taken]);
        self.used += taken;
        Ok(taken)
    }
}

/// What is in a file, decrypted with a key if there is one.
///
/// # Errors
/// Those of reading; the key is not that of the file.
pub(super) fn open_plain<'f>(
    file: impl Read + 'f,
    key: Option<&[u8; DUMP_KEY_BYTES]>,
) -> io::Result<Box<dyn Read + 'f>> {
    Ok(match key {
        Some(key) => Box::new(DecryptedDump::open(file, key)?),
        None => Box::new(file),
    })
}

/// The text of a dump, decrypted with a key if there is one.
///
/// # Errors
/// Those of reading; the key is not that of the file.
pub(super) fn open_text<'f>(
    file: impl Read + 'f,
    key: Option<&[u8; DUMP_KEY_BYTES]>,
) -> io::Result<Box<dyn Read + 'f>> {
    Ok(Box::new(DumpText::open(open_plain(file, key)?)?))
}

#[cfg(test)]
mod tests {
    use platform::Platform;

    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_verified() {
        let disk = Platform::memory().disk;
        let folder = Path::new("b");
        disk.create_dir_all(folder).unwrap();
        let path = folder.join("x.ravendb-full-backup");
        for is_good in [false, true] {
            let mut file = BackupFile::create(&*disk, path.clone()).unwrap();
            let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 7) as u8).collect();
            for piece in bytes.chunks(700_001) {
                file.write(piece).unwrap();
            }
            assert_eq!(file.bytes(), 3_000_000);
            assert_eq!(disk.list(folder).unwrap(), ["x.ravendb-full-backup.in-progress"]);
            let completed = file.complete(|mut file| {
                let mut read = Vec::new();
                file.read_to_end(&mut read).unwrap();
                assert!(read == bytes);
                let refused = BackupError::PlaceRefused { message: String::new() };
                if is_good { Ok(()) } else { Err(refused) }
            });
            assert_eq!(completed.is_ok(), is_good);
            assert_eq!(disk.list(folder).unwrap().is_empty(), !is_good);
        }
        assert_eq!(disk.list(folder).unwrap(), ["x.ravendb-full-backup"]);
    }
}
