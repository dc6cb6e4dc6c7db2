//! Where each kind of entry is stored.

use storage::{TableSchema, Transaction, TreeName};

use super::{
    entry::LogEntry,
    kinds::{EntryKind, EntryKinds},
};
use crate::{
    attachments::{self, ATTACHMENT_TOMBSTONES, ATTACHMENTS},
    compression::dictionary::finder,
    conflicts::{self, CONFLICTS},
    counters::{self, COUNTERS},
    error::DocumentError,
    revisions::{self, schema::REVISIONS},
    row::{self, AnyRow},
    schema::{self, DOCUMENTS},
    time_series::{DELETED_RANGES, SEGMENTS, deleted_range, segment_row, tables as series_tables},
};

/// A table that keeps a log.
pub(super) struct LogTable {
    pub(super) schema: &'static TableSchema,
    /// What its rows are.
    pub(super) kinds: EntryKinds,
    /// The log of all its rows.
    pub(super) log: fn() -> TreeName,
    /// The log of those of one collection, where they know it.
    pub(super) log_of_collection: Option<fn(u32) -> TreeName>,
    rows: Rows,
}

/// What the rows of a table are.
#[derive(Clone, Copy)]
enum Rows {
    Documents,
    Revisions,
    Attachments,
    AttachmentTombstones,
    Counters,
    Segments,
    DeletedRanges,
    Conflicts,
}

/// All tables that keep a log.
pub(super) static LOG_TABLES: &[LogTable] = &[
    LogTable {
        schema: &DOCUMENTS,
        kinds: EntryKinds::DOCUMENTS,
        log: schema::log,
        log_of_collection: Some(schema::log_of_collection),
        rows: Rows::Documents,
    },
    LogTable {
        schema: &REVISIONS,
        kinds: EntryKinds::of(&[EntryKind::Revision]),
        log: revisions::schema::log,
        log_of_collection: Some(revisions::schema::log_of_collection),
        rows: Rows::Revisions,
    },
    LogTable {
        schema: &ATTACHMENTS,
        kinds: EntryKinds::of(&[EntryKind::Attachment]),
        log: attachments::tables::log,
        log_of_collection: None,
        rows: Rows::Attachments,
    },
    LogTable {
        schema: &ATTACHMENT_TOMBSTONES,
        kinds: EntryKinds::of(&[EntryKind::AttachmentTombstone]),
        log: attachments::tables::tombstone_log,
        log_of_collection: None,
        rows: Rows::AttachmentTombstones,
    },
    LogTable {
        schema: &COUNTERS,
        kinds: EntryKinds::COUNTERS,
        log: counters::tables::log,
        log_of_collection: Some(counters::tables::log_of_collection),
        rows: Rows::Counters,
    },
    LogTable {
        schema: &SEGMENTS,
        kinds: EntryKinds::of(&[EntryKind::Segment]),
        log: series_tables::log,
        log_of_collection: Some(series_tables::log_of_collection),
        rows: Rows::Segments,
    },
    LogTable {
        schema: &DELETED_RANGES,
        kinds: EntryKinds::of(&[EntryKind::DeletedRange]),
        log: series_tables::deleted_log,
        log_of_collection: Some(series_tables::deleted_log_of_collection),
        rows: Rows::DeletedRanges,
    },
    LogTable {
        schema: &CONFLICTS,
        kinds: EntryKinds::of(&[EntryKind::Conflict]),
        log: conflicts::log,
        log_of_collection: None,
        rows: Rows::Conflicts,
    },
];

impl LogTable {
    /// A bit that no other table has.
    pub(super) fn bit(&self) -> u16 {
        1 << self.rows as u16
    }

    /// The kind of a row, from its first bytes; `None` if the row is damaged, which `read` reports.
    pub(super) fn kind_of(&self, row: &[u8]) -> Option<EntryKind> {
        match self.rows {
            Rows::Documents => match row::is_tombstone(row)? {
                true => Some(EntryKind::DocumentTombstone),
                false => Some(EntryKind::Document),
            },
            Rows::Counters if counters::row::is_tombstone(row) => Some(EntryKind::CounterTombstone),
            Rows::Counters => counters::row::is_row(row).then_some(EntryKind::Counter),
            Rows::Revisions => Some(EntryKind::Revision),
            Rows::Attachments => Some(EntryKind::Attachment),
            Rows::AttachmentTombstones => Some(EntryKind::AttachmentTombstone),
            Rows::Segments => Some(EntryKind::Segment),
            Rows::DeletedRanges => Some(EntryKind::DeletedRange),
            Rows::Conflicts => Some(EntryKind::Conflict),
        }
    }

    /// Reads a row in place.
    #[inline]
    pub(super) fn read<'t>(
        &self,
        tx: &'t impl Transaction,
        row: &'t [u8],
    ) -> Result<LogEntry<'t>, DocumentError> {
        Ok(match self.rows {
            Rows::Documents => match row::read(row, &finder(tx))? {
                AnyRow::Document(document) => LogEntry::Document(document),
                AnyRow::Tombstone(tombstone) => LogEntry::DocumentTombstone(tombstone),
            },
            Rows::Revisions => LogEntry::Revision(revisions::row::read(row, &finder(tx))?),
            Rows::Attachments => LogEntry::Attachment(attachments::row::read(row)?),
            Rows::AttachmentTombstones => {
                LogEntry::AttachmentTombstone(attachments::row::read_tombstone(row)?)
            }
            Rows::Counters if counters::row::is_tombstone(row) => {
                LogEntry::CounterTombstone(counters::row::read_tombstone(row)?)
            }
            Rows::Counters => LogEntry::Counter(counters::row::read(row)?),
            Rows::Segments => LogEntry::Segment(segment_row::read(row)?),
            Rows::DeletedRanges => LogEntry::DeletedRange(deleted_range::read(row)?),
            Rows::Conflicts => LogEntry::Conflict(conflicts::read(row)?),
        })
    }
}
