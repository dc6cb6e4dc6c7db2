//! Up to where the changes of other databases have been received.
//!
//! ```text
//! tree ReplicationSources   id of the database, 16 bytes ->
//!  0       version, 1 or 2
//!  1       1 if it is another member of the group of databases
//!  2..4    not used, 0
//!  4..8    tag of its node, zero-filled
//!  8..16   everything up to this etag of that database was received, little-endian
//! 16..48   version 2: the moment in the history of its files when the last of it was read, see storage::HistoryPoint
//! tree Meta   "replicated" -> change vector, text: nothing is missing of other databases up to there
//! ```
//!
//! The vector of the database says more: it contains what was imported, of which much may be missing.
//!
//! Invariant: a position changes in the transaction that stores what was received, so a batch is received completely or
//! not at all, and what is sent again after a crash begins where this says.
//!
//! The moment is for the source: files that do not contain it are an older copy, which has lost changes that others have.

use std::ops::Bound;

use model::{ChangeVector, ChangeVectorEntry, DatabaseId, Etag, NodeTag, TRANSACTION_NUMBER_TAG};
use storage::{HistoryPoint, Transaction, TreeName, WriteTransaction};

use crate::{
    database_record::{DatabaseIdentity, database_identity, progress},
    error::{DocumentError, corrupt},
    schema::meta,
};

const REPLICATED: &[u8] = b"replicated";
const VERSION: u8 = 1;
const VERSION_WITH_POINT: u8 = 2;
const BYTES: usize = 16;

fn tree() -> TreeName {
    TreeName::from("ReplicationSources")
}

/// A database that sends its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its id.
    pub database_id: DatabaseId,
    /// The tag of its node.
    pub node_tag: NodeTag,
}

/// Up to where the changes of a source were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProgress {
    /// The source.
    pub source: Source,
    /// Everything up to this etag of the source was received.
    pub accepted: Etag,
    /// The moment in the history of its files when the last of it was read; `None` if it did not say.
    pub point: Option<HistoryPoint>,
    /// Whether it is another member of the group of databases.
    pub is_member: bool,
}

/// Up to where the changes of a database were received; `None` if none were.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn source_progress(
    tx: &impl Transaction,
    database_id: DatabaseId,
) -> Result<Option<SourceProgress>, DocumentError> {
    let record = tx.tree(&tree())?.get(&database_id.0)?;
    record.map(|record| parse(database_id, record)).transpose()
}

/// The etag up to which the changes of a database were received; zero if none were.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn accepted_of(tx: &impl Transaction, database_id: DatabaseId) -> Result<Etag, DocumentError> {
    Ok(source_progress(tx, database_id)?.map_or(Etag::ZERO, |progress| progress.accepted))
}

/// All databases from which anything was received.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn sources(tx: &impl Transaction) -> Result<Vec<SourceProgress>, DocumentError> {
    let tree = tx.tree(&tree())?;
    let records = tree.range(Bound::Unbounded)?.map(|entry| {
        let (key, record) = entry?;
        let id = key.as_slice().try_into();
        let database_id = DatabaseId(id.map_err(|_| corrupt("the id of a source is damaged"))?);
        parse(database_id, record)
    });
    records.collect()
}

/// Whether anything was received from another database.
pub(crate) fn has_sources(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(!tx.tree(&tree())?.is_empty())
}

/// Up to where a database has everything, of itself and of others: what this covers need not be sent to it.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn contained(tx: &impl Transaction) -> Result<ChangeVector, DocumentError> {
    let DatabaseIdentity { database_id, node_tag: tag } = database_identity(tx)?;
    let etag = progress(tx)?.change_vector.etag_of(database_id);
    let replicated = replicated(tx)?;
    match etag {
        Etag::ZERO => Ok(replicated),
        etag => Ok(replicated.with(ChangeVectorEntry { tag, etag, database_id })),
    }
}

/// The same with the cluster-wide transactions that the database has executed, which each member executes by itself.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn contained_with_transactions(tx: &impl Transaction) -> Result<ChangeVector, DocumentError> {
    let vector = progress(tx)?.change_vector;
    let executed = vector.entries().filter(|entry| entry.tag.as_str() == TRANSACTION_NUMBER_TAG);
    Ok(executed.fold(contained(tx)?, |contained, entry| contained.with(entry)))
}

/// The same of other databases alone.
pub(super) fn replicated(tx: &impl Transaction) -> Result<ChangeVector, DocumentError> {
    let Some(text) = tx.tree(&meta())?.get(REPLICATED)? else { return Ok(ChangeVector::empty()) };
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or(corrupt("the vector of what was received is damaged"))
}

/// Notes up to where nothing is missing.
pub(super) fn set_replicated(
    tx: &mut WriteTransaction,
    change_vector: &ChangeVector,
) -> Result<(), DocumentError> {
    tx.tree_mut(&meta())?.put(REPLICATED, change_vector.as_str().as_bytes())?;
    Ok(())
}

/// Takes note that the database is in another group than before: no source is a member of its own. What was received of
/// them stays received.
///
/// # Errors
/// Storage errors; a damaged record.
pub(crate) fn leave_group(tx: &mut WriteTransaction) -> Result<(), DocumentError> {
    for source in sources(tx)?.iter().filter(|source| source.is_member) {
        set_progress(tx, &SourceProgress { is_member: false, ..*source })?;
    }
    Ok(())
}

/// Notes that everything up to an etag was received.
pub(super) fn set_progress(
    tx: &mut WriteTransaction,
    progress: &SourceProgress,
) -> Result<(), DocumentError> {
    let key = progress.source.database_id.0;
    tx.tree_mut(&tree())?.put(&key, &write(progress))?;
    Ok(())
}

fn write(progress: &SourceProgress) -> Vec<u8> {
    let mut record = vec![0; BYTES];
    (record[0], record[1]) = (VERSION, u8::from(progress.is_member));
    let tag = progress.source.node_tag.as_str().as_bytes();
    record[4..4 + tag.len()].copy_from_slice(tag);
    record[8..].copy_from_slice(&progress.accepted.0.to_le_bytes());
    if let Some(point) = progress.point {
        record[0] = VERSION_WITH_POINT;
        record.extend_from_slice(&point.to_bytes());
    }
    record
}

fn parse(database_id: DatabaseId, record: &[u8]) -> Result<SourceProgress, DocumentError> {
    let (head, point) = record
        .split_at_checked(BYTES)
        .ok_or(corrupt("the position of a source has another length"))?;
    let point = match (head[0], point) {
        (VERSION, []) => None,
        (VERSION_WITH_POINT, point) => {
            let point = HistoryPoint::from_bytes(point);
            Some(point.ok_or(corrupt("the history of a source has another length"))?)
        }
        (VERSION, _) => return Err(corrupt("the position of a source has another length")),
        _ => return Err(corrupt("the position of a source has an unknown version")),
    };
    let tag = std::str::from_utf8(&head[4..8]).ok();
    let tag = tag.and_then(|tag| tag.trim_end_matches('\0').parse().ok());
    let node_tag = tag.ok_or(corrupt("a source has an impossible node tag"))?;
    let mut accepted = [0; 8];
    accepted.copy_from_slice(&head[8..]);
    let accepted = Etag(u64::from_le_bytes(accepted));
    let source = Source { database_id, node_tag };
    Ok(SourceProgress { source, accepted, point, is_member: head[1] == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DatabaseId = DatabaseId([7; 16]);

    #[test]
    fn a_position_lies_where_the_drawing_says() {
        let source = Source { database_id: ID, node_tag: "BC".parse().unwrap() };
        let progress =
            SourceProgress { source, accepted: Etag(258), point: None, is_member: false };
        let record = write(&progress);
        assert_eq!(&record, b"\x01\0\0\0BC\0\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(parse(ID, &record).unwrap(), progress);
        assert!(parse(ID, &record[1..]).is_err());
        for (position, value) in [(0, 2), (0, 3), (4, b'x'), (4, 0)] {
            let mut damaged = record.clone();
            damaged[position] = value;
            assert!(parse(ID, &damaged).is_err(), "{position} {value}");
        }
        let point = HistoryPoint { environment: 1, incarnation: 2, transaction: 3 };
        let progress = SourceProgress { point: Some(point), is_member: true, ..progress };
        let record = write(&progress);
        assert_eq!((record[0], record[1], &record[16..]), (2, 1, &point.to_bytes()[..]));
        assert_eq!(parse(ID, &record).unwrap(), progress);
        assert!(parse(ID, &record[..47]).is_err());
    }
}
