//! The tables and trees of time series.
//!
//! ```text
//! table TimeSeriesSegments            see segment_row
//!   primary                           series, 0xff, first moment big-endian        -> row
//!   TimeSeriesLog                     etag                                         -> row
//!   TimeSeriesLog/<collection number> etag                                         -> row
//! table TimeSeriesDeletedRanges       see deleted_range
//!   primary                           series, 0xff, first moment, etag, big-endian -> row
//!   TimeSeriesDeletedLog              etag                                         -> row
//!   TimeSeriesDeletedLog/<coll. no.>  etag                                         -> row
//! tree TimeSeries                     series                                       -> see series
//! ```
//!
//! A series is the lower-cased id of its document, 0xff, and its lower-cased name; 0xff is in no UTF-8
//! text.

use std::borrow::Cow;

use model::{DocumentId, TimeSeriesName};
use storage::{FixedIndexSchema, IndexTree, TableSchema, TreeName};

use super::{deleted_range, segment_row};
use crate::schema::tree_of_collection;

const LOG: &str = "TimeSeriesLog";
const DELETED_LOG: &str = "TimeSeriesDeletedLog";
const SEPARATOR: u8 = 0xff;

pub(crate) static SEGMENTS: TableSchema = TableSchema {
    name: "TimeSeriesSegments",
    primary: |row| Cow::Borrowed(segment_row::primary_key_of(row)),
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One(LOG), key: segment_row::etag_of },
        FixedIndexSchema {
            tree: IndexTree::PerRow(|row| {
                log_of_collection(segment_row::collection_number_of(row))
            }),
            key: segment_row::etag_of,
        },
    ],
    indexes: &[],
};

pub(crate) static DELETED_RANGES: TableSchema = TableSchema {
    name: "TimeSeriesDeletedRanges",
    primary: |row| Cow::Owned(deleted_range::primary_key_of(row)),
    fixed: &[
        FixedIndexSchema { tree: IndexTree::One(DELETED_LOG), key: deleted_range::etag_of },
        FixedIndexSchema {
            tree: IndexTree::PerRow(|row| {
                deleted_log_of_collection(deleted_range::collection_number_of(row))
            }),
            key: deleted_range::etag_of,
        },
    ],
    indexes: &[],
};

/// The tree of series.
pub(crate) fn series_tree() -> TreeName {
    TreeName::from("TimeSeries")
}

/// The log of segments.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// The log of the segments of one collection.
pub(crate) fn log_of_collection(number: u32) -> TreeName {
    tree_of_collection(LOG, number)
}

/// The log of deleted ranges.
pub(crate) fn deleted_log() -> TreeName {
    TreeName::from(DELETED_LOG)
}

/// The log of the deleted ranges of one collection.
pub(crate) fn deleted_log_of_collection(number: u32) -> TreeName {
    tree_of_collection(DELETED_LOG, number)
}

/// The prefix of the keys of a document's series.
pub(super) fn document_prefix(lower_id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(lower_id.len() + 1);
    key.extend_from_slice(lower_id.as_bytes());
    key.push(SEPARATOR);
    key
}

/// The key of a series.
pub(super) fn series_key(id: &DocumentId, name: &TimeSeriesName) -> Vec<u8> {
    series_key_of(id.lower_cased(), name.lower_cased())
}

pub(super) fn series_key_of(lower_id: &str, lower_name: &str) -> Vec<u8> {
    let mut key = document_prefix(lower_id);
    key.extend_from_slice(lower_name.as_bytes());
    key
}

/// The key of the segment of a series that begins at a moment, or would.
pub(super) fn segment_key(series: &[u8], moment: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(series.len() + 1 + size_of::<i64>());
    key.extend_from_slice(series);
    key.push(SEPARATOR);
    key.extend_from_slice(&moment.to_be_bytes());
    key
}

/// Whether a key of a row belongs to a series.
pub(super) fn is_of_series(key: &[u8], series: &[u8]) -> bool {
    key.strip_prefix(series).is_some_and(|rest| rest.first() == Some(&SEPARATOR))
}

/// The lower-cased id of the document and the lower-cased name in the key of a series or of a row of one.
pub(crate) fn document_of_key(key: &[u8]) -> (String, String) {
    let mut parts = key.splitn(3, |byte| *byte == SEPARATOR);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    (text(), text())
}
