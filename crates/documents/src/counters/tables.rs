//! The table of counters.
//!
//! ```text
//! table Counters                      see row
//!   primary                           kind, lower-cased id, 0xff, lower-cased name -> row
//!   CounterLog                        etag                                         -> row
//!   CounterLog/<collection number>    etag                                         -> row
//! tree Meta, "counters"               -> how many counters there are, 64 bits little-endian
//! tree Meta, "counted-documents"      -> how many documents have counters, 64 bits little-endian
//! ```
//!
//! The counters of a document are one range of the primary keys: 0xff is in no UTF-8 text.

use std::borrow::Cow;

use storage::{FixedIndexSchema, IndexTree, TableSchema, TreeName};

use super::row;
use crate::schema::tree_of_collection;

const LOG: &str = "CounterLog";

/// The record of `Meta` with the number of counters.
pub(super) const COUNT: &[u8] = b"counters";

/// The record of `Meta` with the number of documents that have counters. A database of an earlier version has none
/// until it is opened.
pub(super) const OWNERS: &[u8] = b"counted-documents";

pub(crate) static COUNTERS: TableSchema = TableSchema {
    name: "Counters",
    primary: |bytes| Cow::Borrowed(row::primary_key_of(bytes)),
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One(LOG), key: row::etag_of },
        FixedIndexSchema { tree: IndexTree::PerRow(log_of_row), key: row::etag_of },
    ],
    indexes: &[],
};

fn log_of_row(bytes: &[u8]) -> TreeName {
    log_of_collection(row::collection_number_of(bytes))
}

/// The log of all counters.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// The log of the counters of one collection.
pub(crate) fn log_of_collection(number: u32) -> TreeName {
    tree_of_collection(LOG, number)
}
