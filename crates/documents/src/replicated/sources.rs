//! Up to where the changes of other databases have been received.
//!
//! ```text
//! tree ReplicationSources   id of the database, 16 bytes ->
//!  0       version, 1
//!  1..4    not used, 0
//!  4..8    tag of its node, zero-filled
//!  8..16   everything up to this etag of that database was received, little-endian
//! tree Meta   "replicated" -> change vector, text: nothing is missing of other databases up to there
//! ```
//!
//! The vector of the database says more: it contains what was imported, of which much may be missing.
//!
//! Invariant: a position changes in the transaction that stores what was received, so a batch is received completely or
//! not at all, and what is sent again after a crash begins where this says.

use std::ops::Bound;

use model::{ChangeVector, ChangeVectorEntry, DatabaseId, Etag, NodeTag};
use storage::{Transaction, TreeName, WriteTransaction};

use crate::{
    database_record::{DatabaseIdentity, database_identity, progress},
    error::{DocumentError, corrupt},
    schema::meta,
};

const REPLICATED: &[u8] = b"replicated";
/// The tag under which a change vector counts the documents of cluster-wide transactions.
const TRANSACTIONS_TAG: &str = "RAFT";
const VERSION: u8 = 1;
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
}

/// Up to where the changes of a database were received; zero if none were.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn source_progress(
    tx: &impl Transaction,
    database_id: DatabaseId,
) -> Result<Etag, DocumentError> {
    let record = tx.tree(&tree())?.get(&database_id.0)?;
    record.map_or(Ok(Etag::ZERO), |record| Ok(parse(record)?.1))
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
        let (node_tag, accepted) = parse(record)?;
        Ok(SourceProgress { source: Source { database_id, node_tag }, accepted })
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
    let executed = vector.entries().filter(|entry| entry.tag.as_str() == TRANSACTIONS_TAG);
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

/// Notes that everything up to an etag was received.
pub(super) fn set_progress(
    tx: &mut WriteTransaction,
    progress: &SourceProgress,
) -> Result<(), DocumentError> {
    let record = write(progress.source.node_tag, progress.accepted);
    tx.tree_mut(&tree())?.put(&progress.source.database_id.0, &record)?;
    Ok(())
}

fn write(node_tag: NodeTag, accepted: Etag) -> [u8; BYTES] {
    let mut record = [0; BYTES];
    record[0] = VERSION;
    let tag = node_tag.as_str().as_bytes();
    record[4..4 + tag.len()].copy_from_slice(tag);
    record[8..].copy_from_slice(&accepted.0.to_le_bytes());
    record
}

fn parse(record: &[u8]) -> Result<(NodeTag, Etag), DocumentError> {
    let Ok(record) = <&[u8; BYTES]>::try_from(record) else {
        return Err(corrupt("the position of a source has another length"));
    };
    if record[0] != VERSION {
        return Err(corrupt("the position of a source has an unknown version"));
    }
    let tag = std::str::from_utf8(&record[4..8]).ok();
    let tag = tag.and_then(|tag| tag.trim_end_matches('\0').parse().ok());
    let tag = tag.ok_or(corrupt("a source has an impossible node tag"))?;
    let mut accepted = [0; 8];
    accepted.copy_from_slice(&record[8..]);
    Ok((tag, Etag(u64::from_le_bytes(accepted))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_lies_where_the_drawing_says() {
        let record = write("BC".parse().unwrap(), Etag(258));
        assert_eq!(&record, b"\x01\0\0\0BC\0\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(parse(&record).unwrap(), ("BC".parse().unwrap(), Etag(258)));
        assert!(parse(&record[1..]).is_err());
        for (position, value) in [(0, 2), (4, b'x'), (4, 0)] {
            let mut damaged = record;
            damaged[position] = value;
            assert!(parse(&damaged).is_err(), "{position} {value}");
        }
    }
}
