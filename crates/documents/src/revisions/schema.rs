//! The table of revisions and its trees.
//!
//! ```text
//! table Revisions
//!   primary                     lower-cased id, 255, etag       -> row (see row)
//!   RevisionLog                 etag                            -> row
//!   RevisionLog/<collection>    etag                            -> row     the same of one collection
//!   RevisionVersions            change vector, 0, etag          -> row
//! tree RevisionChains           lower-cased id                  -> see chain
//! tree RevisionBin              etag of the deletion, 8 bytes   -> lower-cased id
//! ```
//!
//! Etags in keys are big-endian, so that keys are ordered as they are. No byte of an id is 255, so
//! the revisions of a document are one range, and another document's are not in it. A change vector
//! that is too long for a key is truncated in it; the etag makes the key unique.

use std::{borrow::Cow, ops::Bound};

use model::Etag;
use storage::{FixedIndexSchema, IndexSchema, IndexTree, TableSchema, TreeName};

use super::row;
use crate::schema::tree_of_collection;

const LOG: &str = "RevisionLog";
const VERSIONS: &str = "RevisionVersions";
/// The length to which a change vector is truncated in the key of a version.
const VERSION_BYTES_MAX: usize = 512;

pub(crate) static REVISIONS: TableSchema = TableSchema {
    name: "Revisions",
    primary: primary_key,
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One(LOG), key: row::etag_of },
        FixedIndexSchema { tree: IndexTree::PerRow(log_of_row), key: row::etag_of },
    ],
    indexes: &[IndexSchema { tree: IndexTree::One(VERSIONS), key: version_key }],
};

fn primary_key(row: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(row::primary_key_of(row))
}

fn log_of_row(row: &[u8]) -> TreeName {
    log_of_collection(row::collection_number_of(row))
}

fn version_key(row: &[u8]) -> Cow<'_, [u8]> {
    let mut key = version_prefix(row::change_vector_of(row));
    key.extend_from_slice(&row::etag_of(row).to_be_bytes());
    Cow::Owned(key)
}

/// The prefix of the keys of a version's revisions.
pub(crate) fn version_prefix(change_vector: &[u8]) -> Vec<u8> {
    let length = change_vector.len().min(VERSION_BYTES_MAX);
    let mut key = Vec::with_capacity(length + 9);
    key.extend_from_slice(&change_vector[..length]);
    key.push(0);
    key
}

/// The range of the keys of a document's revisions; the end is exclusive.
pub(crate) struct ChainRange {
    pub(crate) from: Vec<u8>,
    to: Vec<u8>,
}

impl ChainRange {
    pub(crate) fn of(lower_id: &str) -> Self {
        let mut from = Vec::with_capacity(lower_id.len() + 9);
        from.extend_from_slice(lower_id.as_bytes());
        from.push(row::BEHIND_ID);
        let mut to = from.clone();
        to.extend_from_slice(&u64::MAX.to_be_bytes());
        Self { from, to }
    }

    pub(crate) fn start(&self) -> Bound<&[u8]> {
        Bound::Included(&self.from)
    }

    pub(crate) fn end(&self) -> Bound<&[u8]> {
        Bound::Included(&self.to)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(&self.from)
    }
}

/// The tree of the versions of revisions.
pub(crate) fn versions() -> TreeName {
    TreeName::from(VERSIONS)
}

/// The index that is the log of all revisions.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// The index that is the log of the revisions of one collection.
pub(crate) fn log_of_collection(number: u32) -> TreeName {
    tree_of_collection(LOG, number)
}

/// The tree of what is known about the revisions of each document.
pub(crate) fn chains() -> TreeName {
    TreeName::from("RevisionChains")
}

/// The tree of deleted documents.
pub(crate) fn bin() -> TreeName {
    TreeName::from("RevisionBin")
}

/// The key of a deletion in the bin.
pub(crate) fn bin_key(deletion: Etag) -> [u8; 8] {
    deletion.0.to_be_bytes()
}
