//! The tables and trees of attachments.
//!
//! ```text
//! table Attachments            see row
//!   primary                    kind, owner, 0xff, lower-cased name -> row
//!   AttachmentLog              etag                                -> row
//!   AttachmentHashes           hash, etag big-endian               -> row
//! table AttachmentTombstones   see row
//!   primary                    kind, owner, 0xff, lower-cased name -> row
//!   AttachmentTombstoneLog     etag                                -> row
//! table Contents               see content_row
//!   primary                    hash                                -> row
//!   ContentNumbers             number                              -> row
//! table ContentChunks          see content_row
//!   primary                    number, index, both big-endian      -> row
//! fixed tree ContentLeftovers  number -> one byte: 's' staged, 'd' to be removed
//! tree Meta, "contents"        -> the number of the newest content, 64 bits little-endian
//! ```
//!
//! The attachments of a document are one range of the primary keys: no owner's key contains 0xff, which
//! is in no UTF-8 text, except that of a revision, which has a fixed length.

use std::borrow::Cow;

use storage::{FixedIndexSchema, IndexSchema, IndexTree, TableSchema, TreeName};

use super::{content_row, row};

const HASHES: &str = "AttachmentHashes";
const LOG: &str = "AttachmentLog";
const TOMBSTONE_LOG: &str = "AttachmentTombstoneLog";
const NUMBERS: &str = "ContentNumbers";

/// The record of `Meta` with the number of the newest content.
pub(super) const NEWEST_CONTENT: &[u8] = b"contents";

pub(crate) static ATTACHMENTS: TableSchema = TableSchema {
    name: "Attachments",
    primary: |bytes| Cow::Borrowed(row::primary_key_of(bytes)),
    fixed: &[FixedIndexSchema { tree: IndexTree::One(LOG), key: row::etag_of }],
    indexes: &[IndexSchema { tree: IndexTree::One(HASHES), key: row::hash_key_of }],
};

pub(crate) static ATTACHMENT_TOMBSTONES: TableSchema = TableSchema {
    name: "AttachmentTombstones",
    primary: |bytes| Cow::Borrowed(row::tombstone_key_of(bytes)),
    fixed: &[FixedIndexSchema { tree: IndexTree::One(TOMBSTONE_LOG), key: row::etag_of }],
    indexes: &[],
};

pub(crate) static CONTENTS: TableSchema = TableSchema {
    name: "Contents",
    primary: |bytes| Cow::Borrowed(content_row::hash_of(bytes)),
    fixed: &[FixedIndexSchema { tree: IndexTree::One(NUMBERS), key: content_row::number_of }],
    indexes: &[],
};

pub(crate) static CONTENT_CHUNKS: TableSchema = TableSchema {
    name: "ContentChunks",
    primary: |bytes| Cow::Borrowed(content_row::chunk_key_of(bytes)),
    fixed: &[],
    indexes: &[],
};

/// The index of attachments by hash.
pub(super) fn hashes() -> TreeName {
    TreeName::from(HASHES)
}

/// The log of attachments.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// The log of deleted attachments.
pub(crate) fn tombstone_log() -> TreeName {
    TreeName::from(TOMBSTONE_LOG)
}

/// The tree of contents that are staged or to be removed.
pub(crate) fn leftovers() -> TreeName {
    TreeName::from("ContentLeftovers")
}
