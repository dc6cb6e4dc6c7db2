//! Reads a file of a backup through and checks it, without a database.

use std::io::Read;

use smuggler::DUMP_KEY_BYTES;

use super::{
    backup_file::{open_plain, open_text},
    error::BackupError,
    snapshot::{is_snapshot, verify_snapshot},
};
use crate::smuggler::{VerifiedDump, verify_dump};

/// Reads a dump or a backup through, and checks all that can be checked without a database: that it is complete, that
/// each element is intact, and that contents of attachments have their hashes; of a snapshot, that each of its pages is
/// there and intact. An encrypted file needs its key.
/// `goes_on` is asked now and then, with how many bytes of text were read.
///
/// # Errors
/// The file cannot be read; what is wrong with it; [`io::ErrorKind::Interrupted`] if `goes_on` says no.
pub fn verify_backup(
    file: impl Read,
    name: &str,
    key: Option<&[u8; DUMP_KEY_BYTES]>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<VerifiedDump, BackupError> {
    let failed = |error| BackupError::io(name, "read", error);
    if is_snapshot(name) {
        let plain = open_plain(file, key).map_err(failed)?;
        return verify_snapshot(plain, name, goes_on);
    }
    let mut text = open_text(file, key).map_err(failed)?;
    verify_dump(&mut *text, name, goes_on)
}
