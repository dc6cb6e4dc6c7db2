//! The header of an environment: pages 0 and 1 of the data file, written in turn.
//!
//! ```text
//!   0 magic             u64      "CORVUSDB"
//!   8 format version    u32
//!  12 page bytes        u32
//!  16 environment id    u128
//!  32 revision          u64      the copy with the higher revision is the valid one
//!  40 floor transaction u64      recovery replays the transactions after this one …
//!  48 journal number    u64      … from this journal file …
//!  56 journal offset    u64      … at this byte …
//!  64 chain             u128     … where the first record names this checksum as its predecessor's
//!  80 flags             u64      1: that journal file is there, and recovery needs it
//!  88 checksum          u128     XXH3-128 of bytes 0..88
//! ```
//!
//! Version 3 is that of encrypted environments; the header itself is not encrypted:
//!
//! ```text
//! 104 nonce             [24]
//! 128 MAC               [16]     of bytes 0..104
//! ```
//!
//! Version 1 has no flags; its checksum is of bytes 0..80, at 80.
//!
//! A header is one 512-byte sector, so a power cut leaves the old or the new one. Were it torn
//! after all, its checksum would not match, and the other copy is at most one flush older and still
//! valid, because journals are recycled only after the newer header is synced.

use std::path::Path;

use platform::File;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    cipher::{Keys, MAC_BYTES, NONCE_BYTES, Nonce},
    encryption_key::EncryptionKey,
    error::{Corruption, StorageError},
    format::{PAGE_BYTES, read_u32, read_u64, read_u128, write_u32, write_u64, write_u128},
};

const MAGIC: u64 = u64::from_le_bytes(*b"CORVUSDB");
/// The newest format that this build reads.
pub(crate) const FORMAT_VERSION: u32 = VERSION_ENCRYPTED;
/// What it writes, unless the environment is encrypted.
const VERSION_PLAIN: u32 = 2;
const VERSION_ENCRYPTED: u32 = 3;
const VERSION_WITHOUT_FLAGS: u32 = 1;
const FLAG_NEEDS_JOURNAL: u64 = 1;
/// The header without nonce and MAC.
const CHECKED_BYTES: usize = 104;
const MAC_AT: usize = CHECKED_BYTES + NONCE_BYTES;
const HEADER_BYTES: usize = MAC_AT + MAC_BYTES;
const SECTOR: usize = 512;

/// A position in the journal: everything up to and including `transaction` precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalPosition {
    pub(crate) transaction: u64,
    pub(crate) journal: u64,
    pub(crate) offset: u64,
    /// Checksum of the record of `transaction`, which the next record must name.
    pub(crate) chain: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnvironmentHeader {
    pub(crate) environment_id: u128,
    pub(crate) revision: u64,
    pub(crate) replay_from: JournalPosition,
    /// Whether the journal file of `replay_from` was created. If so and it is missing, the
    /// environment is not opened.
    pub(crate) needs_journal: bool,
}

/// What a header is authenticated with.
pub(crate) type Signing<'k> = Option<(&'k Keys, Nonce)>;

/// A header that was read.
#[derive(Debug)]
struct Found {
    header: EnvironmentHeader,
    is_encrypted: bool,
    bytes: [u8; HEADER_BYTES],
}

impl Found {
    /// Refuses a header that is not encrypted exactly when there is a key, or that the key does not vouch for.
    fn is_of(&self, key: Option<&EncryptionKey>, path: &Path) -> Result<(), StorageError> {
        let path = path.to_path_buf();
        match key {
            Some(_) if !self.is_encrypted => Err(StorageError::NotEncrypted { path }),
            None if self.is_encrypted => Err(StorageError::KeyMissing { path }),
            None => Ok(()),
            Some(key) => {
                let keys = Keys::derive(key, self.header.environment_id).map_err(|error| {
                    StorageError::io(&path, "read the encryption key of", error)
                })?;
                let (header, rest) = self.bytes.split_at(CHECKED_BYTES);
                let (nonce, mac) = rest.split_at(NONCE_BYTES);
                let (nonce, mac) = (nonce.try_into(), mac.try_into());
                match (nonce, mac) {
                    (Ok(nonce), Ok(mac)) if keys.verifies_header(&nonce, header, &mac) => Ok(()),
                    _ => Err(StorageError::WrongKey { path }),
                }
            }
        }
    }
}

impl EnvironmentHeader {
    fn to_bytes(self, signing: Signing<'_>) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        write_u64(&mut bytes, 0, MAGIC);
        write_u32(&mut bytes, 8, if signing.is_some() { VERSION_ENCRYPTED } else { VERSION_PLAIN });
        write_u32(&mut bytes, 12, PAGE_BYTES as u32);
        write_u128(&mut bytes, 16, self.environment_id);
        write_u64(&mut bytes, 32, self.revision);
        write_u64(&mut bytes, 40, self.replay_from.transaction);
        write_u64(&mut bytes, 48, self.replay_from.journal);
        write_u64(&mut bytes, 56, self.replay_from.offset);
        write_u128(&mut bytes, 64, self.replay_from.chain);
        write_u64(&mut bytes, 80, if self.needs_journal { FLAG_NEEDS_JOURNAL } else { 0 });
        let sum = xxh3_128(&bytes[..88]);
        write_u128(&mut bytes, 88, sum);
        if let Some((keys, nonce)) = signing {
            let mac = keys.sign_header(&nonce, &bytes[..CHECKED_BYTES]);
            bytes[CHECKED_BYTES..MAC_AT].copy_from_slice(&nonce);
            bytes[MAC_AT..HEADER_BYTES].copy_from_slice(&mac);
        }
        bytes
    }

    /// `Ok(None)` when the bytes are not a whole header. A MAC is not verified.
    fn from_bytes(bytes: &[u8], path: &Path) -> Result<Option<Found>, StorageError> {
        let version = read_u32(bytes, 8);
        let checked = if version == VERSION_WITHOUT_FLAGS { 80 } else { 88 };
        if read_u64(bytes, 0) != MAGIC || read_u128(bytes, checked) != xxh3_128(&bytes[..checked]) {
            return Ok(None);
        }
        let is_known = matches!(version, VERSION_WITHOUT_FLAGS | VERSION_PLAIN | VERSION_ENCRYPTED);
        if !is_known || read_u32(bytes, 12) as usize != PAGE_BYTES {
            return Err(StorageError::UnknownVersion {
                path: path.to_path_buf(),
                found: version,
                known: FORMAT_VERSION,
            });
        }
        let header = Self {
            environment_id: read_u128(bytes, 16),
            revision: read_u64(bytes, 32),
            replay_from: JournalPosition {
                transaction: read_u64(bytes, 40),
                journal: read_u64(bytes, 48),
                offset: read_u64(bytes, 56),
                chain: read_u128(bytes, 64),
            },
            needs_journal: version != VERSION_WITHOUT_FLAGS
                && read_u64(bytes, 80) & FLAG_NEEDS_JOURNAL != 0,
        };
        let mut whole = [0; HEADER_BYTES];
        whole.copy_from_slice(&bytes[..HEADER_BYTES]);
        Ok(Some(Found { header, is_encrypted: version == VERSION_ENCRYPTED, bytes: whole }))
    }

    /// The next header, once everything up to `position` is in the data file: recovery needs no journal.
    pub(crate) fn after_replay(self, position: JournalPosition) -> Self {
        let revision = self.revision + 1;
        Self { revision, replay_from: position, needs_journal: false, ..self }
    }

    /// Writes the header over the older copy. Durable after the file's next sync.
    pub(crate) fn write(
        &self,
        file: &dyn File,
        path: &Path,
        signing: Signing<'_>,
    ) -> Result<(), StorageError> {
        let offset = (self.revision % 2) * PAGE_BYTES as u64;
        file.write_all_at(&self.to_bytes(signing), offset)
            .map_err(|error| StorageError::io(path, "write the header of", error))
    }

    /// How many of the two copies are whole; for salvage.
    pub(crate) fn sound_copies(file: &dyn File, path: &Path, key: Option<&EncryptionKey>) -> usize {
        let read = |copy| Self::copy(file, path, copy);
        let is_sound = |found: &Found| found.is_of(key, path).is_ok();
        (0..2).filter_map(|copy| read(copy).ok().flatten()).filter(is_sound).count()
    }

    /// The newer of the copies that are whole, and that `key` vouches for if there is one.
    ///
    /// # Errors
    /// [`StorageError::KeyMissing`], [`StorageError::NotEncrypted`], and [`StorageError::WrongKey`] when no copy that
    /// is whole is right; [`Corruption::Header`] when none is whole.
    pub(crate) fn read(
        file: &dyn File,
        path: &Path,
        key: Option<&EncryptionKey>,
    ) -> Result<Self, StorageError> {
        Self::newest(file, path, |found| found.is_of(key, path))
    }

    /// The same without a key, and unverified: for the identity of an environment that is not opened.
    pub(crate) fn read_unverified(file: &dyn File, path: &Path) -> Result<Self, StorageError> {
        Self::newest(file, path, |_| Ok(()))
    }

    /// Whether the environment is encrypted, by any copy that is whole; `None` when there is none.
    pub(crate) fn is_encrypted(file: &dyn File, path: &Path) -> Result<Option<bool>, StorageError> {
        let copies = [Self::copy(file, path, 0)?, Self::copy(file, path, 1)?];
        Ok(copies.into_iter().flatten().map(|found| found.is_encrypted).next())
    }

    fn newest(
        file: &dyn File,
        path: &Path,
        verify: impl Fn(&Found) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let mut newest: Option<Self> = None;
        let mut refused = None;
        for copy in 0..2 {
            let Some(found) = Self::copy(file, path, copy)? else { continue };
            match verify(&found) {
                Ok(()) if newest.is_none_or(|newest| newest.revision < found.header.revision) => {
                    newest = Some(found.header);
                }
                Ok(()) => {}
                Err(error) => refused = Some(error),
            }
        }
        match (newest, refused) {
            (Some(newest), _) => Ok(newest),
            (None, Some(refused)) => Err(refused),
            (None, None) => Err(Corruption::Header { path: path.to_path_buf() }.into()),
        }
    }

    fn copy(file: &dyn File, path: &Path, copy: u64) -> Result<Option<Found>, StorageError> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, copy * PAGE_BYTES as u64)
            .map_err(|error| StorageError::io(path, "read the header of", error))?;
        Self::from_bytes(&bytes, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(revision: u64) -> EnvironmentHeader {
        EnvironmentHeader {
            environment_id: 77,
            revision,
            replay_from: JournalPosition { transaction: 5, journal: 2, offset: 4096, chain: 9 },
            needs_journal: true,
        }
    }

    #[test]
    fn a_header_reads_back_as_written() {
        let bytes = header(3).to_bytes(None);
        let read = EnvironmentHeader::from_bytes(&bytes, Path::new("x")).expect("known version");
        assert_eq!(read.map(|found| found.header), Some(header(3)));
    }

    /// See `docs/internals/header.md`.
    #[test]
    fn the_worked_example_of_the_documents() {
        let id = [0x778b_1aa9_c29b_c868, 0x08c9_eb46_85b1_dad7];
        let chain = [0xe109_c6e4_8f73_c79b, 0xb8fe_8326_0f42_11dd];
        let whole = |[low, high]: [u128; 2]| low | high << 64;
        let header = EnvironmentHeader {
            environment_id: whole(id),
            revision: 3,
            replay_from: JournalPosition {
                transaction: 2,
                journal: 1,
                offset: 0x3000,
                chain: whole(chain),
            },
            needs_journal: true,
        };
        assert_eq!(read_u128(&header.to_bytes(None), 88), 0x59a559a06748633d7d92c138cbf76e82);
    }

    #[test]
    fn a_damaged_header_is_no_header() {
        for at in 0..CHECKED_BYTES {
            let mut bytes = header(3).to_bytes(None);
            bytes[at] ^= 0x10;
            let read = EnvironmentHeader::from_bytes(&bytes, Path::new("x")).expect("read");
            assert!(read.is_none());
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut bytes = header(3).to_bytes(None);
        write_u32(&mut bytes, 8, FORMAT_VERSION + 1);
        let sum = xxh3_128(&bytes[..88]);
        write_u128(&mut bytes, 88, sum);
        let error = EnvironmentHeader::from_bytes(&bytes, Path::new("x")).expect_err("unknown");
        assert!(matches!(error, StorageError::UnknownVersion { found: 4, known: 3, .. }));
    }
}
