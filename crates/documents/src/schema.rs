//! The tables and trees of a database's environment.
//!
//! ```text
//! table Documents            rows of documents and tombstones (see row)
//!   primary                  kind, lower-cased id          -> row
//!   Log                      etag                          -> row     the document log
//!   Log/<collection number>  etag                          -> row     the same of one collection
//! tree Meta                  "database", "progress"        -> see database_record
//! tree Collections           collection number, big-endian -> see collection_record
//! tree CollectionNumbers     lower-cased name              -> collection number
//! tree Identities            lower-cased name with its `|` -> value, signed 64 bits little-endian
//! table Revisions            see revisions::schema
//! table Dictionaries         see compression::dictionary
//! tree Due                   see due
//! ```
//!
//! The tables of attachments are drawn in attachments/tables, that of counters in counters/tables,
//! those of time series in time_series/tables, that of versions in conflict in conflicts/row.
//!
//! Every write moves its row to a new etag, so the log holds each document once, at its last
//! change, and each deletion where it happened.

use std::borrow::Cow;

use storage::{FixedIndexSchema, IndexTree, TableSchema, TreeName};

use crate::{
    attachments::{ATTACHMENT_TOMBSTONES, ATTACHMENTS, CONTENT_CHUNKS, CONTENTS},
    compression::dictionary::DICTIONARIES,
    conflicts::CONFLICTS,
    counters::COUNTERS,
    revisions::schema::REVISIONS,
    row,
    time_series::{DELETED_RANGES, SEGMENTS},
};

const META: &str = "Meta";
const COLLECTIONS: &str = "Collections";
const COLLECTION_NUMBERS: &str = "CollectionNumbers";
const IDENTITIES: &str = "Identities";
const LOG: &str = "Log";

/// Every table of a database, for code that copies whole environments.
pub static TABLES: &[&TableSchema] = &[
    &DOCUMENTS,
    &REVISIONS,
    &ATTACHMENTS,
    &ATTACHMENT_TOMBSTONES,
    &CONTENTS,
    &CONTENT_CHUNKS,
    &COUNTERS,
    &DICTIONARIES,
    &SEGMENTS,
    &DELETED_RANGES,
    &CONFLICTS,
];

pub(crate) static DOCUMENTS: TableSchema = TableSchema {
    name: "Documents",
    primary: primary_key,
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One(LOG), key: row::etag_of },
        FixedIndexSchema { tree: IndexTree::PerRow(log_of_row), key: row::etag_of },
    ],
    indexes: &[],
};

fn primary_key(row: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(row::primary_key_of(row))
}

fn log_of_row(row: &[u8]) -> TreeName {
    log_of_collection(row::collection_number_of(row))
}

/// The tree of the two records about the database.
pub(crate) fn meta() -> TreeName {
    TreeName::from(META)
}

/// The tree of collection records.
pub(crate) fn collections() -> TreeName {
    TreeName::from(COLLECTIONS)
}

/// The tree of collections by name.
pub(crate) fn collection_numbers() -> TreeName {
    TreeName::from(COLLECTION_NUMBERS)
}

/// The tree of identities.
pub(crate) fn identities() -> TreeName {
    TreeName::from(IDENTITIES)
}

/// The log of the database.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// The log of one collection.
pub(crate) fn log_of_collection(number: u32) -> TreeName {
    tree_of_collection(LOG, number)
}

/// The name of the tree that an index has for one collection.
pub(crate) fn tree_of_collection(index: &str, number: u32) -> TreeName {
    const DIGITS_MAX: usize = 10;
    let mut digits = [0; DIGITS_MAX];
    let mut rest = number;
    let mut first = DIGITS_MAX;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    TreeName::of(&[index.as_bytes(), b"/", &digits[first..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_collection_has_a_log_of_its_own_name() {
        for (number, name) in
            [(0, "Log/0"), (7, "Log/7"), (120, "Log/120"), (u32::MAX, "Log/4294967295")]
        {
            assert_eq!(log_of_collection(number).as_bytes(), name.as_bytes());
        }
    }
}
