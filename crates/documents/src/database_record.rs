//! The identity and the progress of a database: the two records of the tree `Meta`.
//!
//! ```text
//! "database"                          "progress"
//!  0      version, 1                   0      version, 1
//!  1..4   not used, 0                  1..4   not used, 0
//!  4..8   node tag, zero-filled        4..8   number of the newest collection
//!  8..24  database id                  8..16  last etag
//!                                     16..24  live documents
//!                                     24..32  tombstones
//!                                     32..    change vector of the database, text
//! ```
//!
//! All numbers are little-endian. `database` is written once, and once more when a copy becomes another database; `progress` at the end of each batch.

use model::{ChangeVector, DatabaseId, Etag, NodeTag};
use storage::{Transaction, WriteTransaction};

use crate::{
    error::{DocumentError, corrupt},
    replicated::leave_group,
    schema::meta,
};

const VERSION: u8 = 1;
pub(crate) const DATABASE: &[u8] = b"database";
pub(crate) const PROGRESS: &[u8] = b"progress";
const DATABASE_BYTES: usize = 24;
const PROGRESS_BYTES: usize = 32;

/// The permanent identity of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseIdentity {
    /// Generated when the database was created on this node.
    pub database_id: DatabaseId,
    /// The node on which it was created.
    pub node_tag: NodeTag,
}

/// The last etag, change vector and counts of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseProgress {
    /// The etag of the last change.
    pub last_etag: Etag,
    /// Everything the database contains, its own changes and those of others.
    pub change_vector: ChangeVector,
    /// Live documents in all collections.
    pub documents: u64,
    /// Tombstones of documents.
    pub tombstones: u64,
    /// The number of the newest collection; the first is 1.
    pub(crate) newest_collection: u32,
}

/// Initializes the environment as a database unless it is one already; returns its identity.
///
/// # Errors
/// Storage errors, and of a damaged record.
pub fn initialize(
    tx: &mut WriteTransaction,
    wanted: DatabaseIdentity,
) -> Result<DatabaseIdentity, DocumentError> {
    if let Some(identity) = read_identity(tx)? {
        return Ok(identity);
    }
    tx.tree_mut(&meta())?.put(DATABASE, &identity_bytes(&wanted))?;
    write_progress(tx, &DatabaseProgress::default())?;
    Ok(wanted)
}

/// Makes a copy of a database another one, in a group of its own. What it contains keeps its versions, and its log goes on.
///
/// # Errors
/// Storage errors; the environment is not a database.
pub fn renew_identity(
    tx: &mut WriteTransaction,
    wanted: DatabaseIdentity,
) -> Result<(), DocumentError> {
    database_identity(tx)?;
    tx.tree_mut(&meta())?.put(DATABASE, &identity_bytes(&wanted))?;
    leave_group(tx)
}

/// The identity of the database.
///
/// # Errors
/// Storage errors; a record that is damaged or missing.
pub fn database_identity(tx: &impl Transaction) -> Result<DatabaseIdentity, DocumentError> {
    read_identity(tx)?.ok_or(corrupt("the environment is not a database"))
}

/// The identity of the database; `None` when the environment is no database yet.
///
/// # Errors
/// Storage errors; a record that is damaged.
pub fn read_identity(tx: &impl Transaction) -> Result<Option<DatabaseIdentity>, DocumentError> {
    tx.tree(&meta())?.get(DATABASE)?.map(parse_identity).transpose()
}

fn identity_bytes(identity: &DatabaseIdentity) -> [u8; DATABASE_BYTES] {
    let mut record = [0; DATABASE_BYTES];
    record[0] = VERSION;
    let tag = identity.node_tag.as_str().as_bytes();
    record[4..4 + tag.len()].copy_from_slice(tag);
    record[8..].copy_from_slice(&identity.database_id.0);
    record
}

pub(crate) fn parse_identity(record: &[u8]) -> Result<DatabaseIdentity, DocumentError> {
    let Ok(record) = <&[u8; DATABASE_BYTES]>::try_from(record) else {
        return Err(corrupt("the database's identity has another length"));
    };
    if record[0] != VERSION {
        return Err(corrupt("the database's identity has an unknown version"));
    }
    let tag = std::str::from_utf8(&record[4..8]).ok().map(|tag| tag.trim_end_matches('\0'));
    let Some(node_tag) = tag.and_then(|tag| tag.parse().ok()) else {
        return Err(corrupt("the database's identity has an impossible node tag"));
    };
    let mut database_id = [0; 16];
    database_id.copy_from_slice(&record[8..]);
    Ok(DatabaseIdentity { database_id: DatabaseId(database_id), node_tag })
}

/// The progress of the database.
///
/// # Errors
/// Storage errors; a record that is damaged or missing.
pub fn progress(tx: &impl Transaction) -> Result<DatabaseProgress, DocumentError> {
    match tx.tree(&meta())?.get(PROGRESS)? {
        Some(record) => parse_progress(record),
        None => Err(corrupt("the environment is not a database")),
    }
}

pub(crate) fn write_progress(
    tx: &mut WriteTransaction,
    progress: &DatabaseProgress,
) -> Result<(), DocumentError> {
    tx.tree_mut(&meta())?.put(PROGRESS, &progress_bytes(progress))?;
    Ok(())
}

fn progress_bytes(progress: &DatabaseProgress) -> Vec<u8> {
    let mut record = Vec::with_capacity(PROGRESS_BYTES + progress.change_vector.as_str().len());
    record.extend_from_slice(&[VERSION, 0, 0, 0]);
    record.extend_from_slice(&progress.newest_collection.to_le_bytes());
    record.extend_from_slice(&progress.last_etag.0.to_le_bytes());
    record.extend_from_slice(&progress.documents.to_le_bytes());
    record.extend_from_slice(&progress.tombstones.to_le_bytes());
    record.extend_from_slice(progress.change_vector.as_str().as_bytes());
    record
}

pub(crate) fn parse_progress(record: &[u8]) -> Result<DatabaseProgress, DocumentError> {
    let Some((header, change_vector)) = record.split_first_chunk::<PROGRESS_BYTES>() else {
        return Err(corrupt("the database's progress is too short"));
    };
    if header[0] != VERSION {
        return Err(corrupt("the database's progress has an unknown version"));
    }
    let change_vector = std::str::from_utf8(change_vector).ok().and_then(|text| text.parse().ok());
    let number = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[at + i]));
    Ok(DatabaseProgress {
        newest_collection: u32::from_le_bytes([header[4], header[5], header[6], header[7]]),
        last_etag: Etag(number(8)),
        documents: number(16),
        tombstones: number(24),
        change_vector: change_vector.ok_or(corrupt("the database's change vector is damaged"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_lies_where_the_drawing_says() {
        let node_tag = "BC".parse().unwrap();
        let identity = DatabaseIdentity { database_id: DatabaseId(*b"0123456789abcdef"), node_tag };
        let bytes = identity_bytes(&identity);
        assert_eq!(&bytes, b"\x01\0\0\0BC\0\x000123456789abcdef");
        assert_eq!(parse_identity(&bytes).unwrap(), identity);
        for (position, value) in [(0, 2), (4, b'x'), (4, 0)] {
            let mut damaged = bytes;
            damaged[position] = value;
            assert!(parse_identity(&damaged).is_err(), "{position} {value}");
        }
        assert!(parse_identity(&bytes[1..]).is_err());
    }

    #[test]
    fn the_progress_lies_where_the_drawing_says() {
        let progress = DatabaseProgress {
            last_etag: Etag(258),
            change_vector: "A:258-AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap(),
            documents: 3,
            tombstones: 4,
            newest_collection: 5,
        };
        let bytes = progress_bytes(&progress);
        let golden = b"\x01\0\0\0\x05\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
                       \x04\0\0\0\0\0\0\0A:258-AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(bytes, golden);
        assert_eq!(parse_progress(&bytes).unwrap(), progress);
        assert!(parse_progress(&bytes[..31]).is_err());
        assert!(parse_progress(&bytes[..40]).is_err(), "a cut change vector");
    }
}
