//! One change of a database.

use std::borrow::Cow;

use model::Etag;

use super::kinds::EntryKind;
use crate::{
    attachments::{AttachmentRow, AttachmentTombstoneRow},
    conflicts::ConflictRow,
    counters::{CounterRow, CounterTombstoneRow},
    revisions::RevisionRow,
    row::{DocumentRow, TombstoneRow},
    time_series::{DeletedRangeRow, SegmentRow},
};

/// One entry of the log: a row, read in place. Bodies, contents and entries of series are reached through
/// the rows.
pub enum LogEntry<'t> {
    /// A live document, where it was last written.
    Document(DocumentRow<'t>),
    /// A document was deleted, or moved to another collection.
    DocumentTombstone(TombstoneRow<'t>),
    /// A revision, where it was made.
    Revision(RevisionRow<'t>),
    /// An attachment, where it was last put; its content is [`crate::content`] of its hash.
    Attachment(AttachmentRow<'t>),
    /// An attachment of a document was deleted.
    AttachmentTombstone(AttachmentTombstoneRow<'t>),
    /// A counter, where it last changed.
    Counter(CounterRow<'t>),
    /// A counter was deleted.
    CounterTombstone(CounterTombstoneRow<'t>),
    /// A segment of a time series, where it was last written.
    ///
    /// A segment whose first entry changed leaves no trace under its old key. A reader that tracks
    /// keys can still follow: a key is the moment of an entry. Once no segment begins there, the
    /// entry is inside a segment that was written later, or inside a range that was deleted later.
    /// So such a reader drops, at a segment, the keys after its start up to its end, and at a
    /// deleted range, the keys in it.
    Segment(SegmentRow<'t>),
    /// A range of a time series was deleted.
    DeletedRange(DeletedRangeRow<'t>),
    /// One of the versions of a document in conflict. It leaves no trace when the conflict is resolved: what resolves it
    /// is behind it in the log.
    Conflict(ConflictRow<'t>),
}

impl<'t> LogEntry<'t> {
    /// The kind of entry.
    pub fn kind(&self) -> EntryKind {
        match self {
            Self::Document(_) => EntryKind::Document,
            Self::DocumentTombstone(_) => EntryKind::DocumentTombstone,
            Self::Revision(_) => EntryKind::Revision,
            Self::Attachment(_) => EntryKind::Attachment,
            Self::AttachmentTombstone(_) => EntryKind::AttachmentTombstone,
            Self::Counter(_) => EntryKind::Counter,
            Self::CounterTombstone(_) => EntryKind::CounterTombstone,
            Self::Segment(_) => EntryKind::Segment,
            Self::DeletedRange(_) => EntryKind::DeletedRange,
            Self::Conflict(_) => EntryKind::Conflict,
        }
    }

    /// The position in the log; also the cursor to continue after it.
    pub fn etag(&self) -> Etag {
        match self {
            Self::Document(row) => row.etag(),
            Self::DocumentTombstone(row) => row.etag(),
            Self::Revision(row) => row.etag(),
            Self::Attachment(row) => row.etag(),
            Self::AttachmentTombstone(row) => row.etag(),
            Self::Counter(row) => row.etag(),
            Self::CounterTombstone(row) => row.etag(),
            Self::Segment(row) => row.etag(),
            Self::DeletedRange(row) => row.etag(),
            Self::Conflict(row) => row.etag(),
        }
    }

    /// The version. That of a counter is computed from its values, all others are stored.
    pub fn change_vector(&self) -> Cow<'t, str> {
        Cow::Borrowed(match self {
            Self::Document(row) => row.change_vector(),
            Self::DocumentTombstone(row) => row.change_vector(),
            Self::Revision(row) => row.change_vector(),
            Self::Attachment(row) => row.change_vector(),
            Self::AttachmentTombstone(row) => row.change_vector(),
            Self::Counter(row) => return Cow::Owned(row.change_vector().to_string()),
            Self::CounterTombstone(row) => row.change_vector(),
            Self::Segment(row) => row.change_vector(),
            Self::DeletedRange(row) => row.change_vector(),
            Self::Conflict(row) => row.change_vector(),
        })
    }

    /// The lower-cased id of its document; `None` for an attachment of a revision, which
    /// [`AttachmentRow::revision`] returns.
    pub fn lower_document_id(&self) -> Option<&'t str> {
        match self {
            Self::Document(row) => Some(row.lower_id()),
            Self::DocumentTombstone(row) => Some(row.lower_id()),
            Self::Revision(row) => Some(row.lower_id()),
            Self::Attachment(row) => row.lower_document_id(),
            Self::AttachmentTombstone(row) => Some(row.lower_document_id()),
            Self::Counter(row) => Some(row.lower_document_id()),
            Self::CounterTombstone(row) => Some(row.lower_document_id()),
            Self::Segment(row) => Some(row.lower_document_id()),
            Self::DeletedRange(row) => Some(row.lower_document_id()),
            Self::Conflict(row) => Some(row.lower_id()),
        }
    }

    /// The lower-cased name of the attachment, counter or time series.
    pub fn lower_name(&self) -> Option<&'t str> {
        match self {
            Self::Document(_)
            | Self::DocumentTombstone(_)
            | Self::Revision(_)
            | Self::Conflict(_) => None,
            Self::Attachment(row) => Some(row.lower_name()),
            Self::AttachmentTombstone(row) => Some(row.lower_name()),
            Self::Counter(row) => Some(row.lower_name()),
            Self::CounterTombstone(row) => Some(row.lower_name()),
            Self::Segment(row) => Some(row.lower_name()),
            Self::DeletedRange(row) => Some(row.lower_name()),
        }
    }

    /// The number of its collection; attachments have none.
    pub fn collection_number(&self) -> Option<u32> {
        match self {
            Self::Document(row) => Some(row.collection_number()),
            Self::DocumentTombstone(row) => Some(row.collection_number()),
            Self::Revision(row) => Some(row.collection_number()),
            Self::Attachment(_) | Self::AttachmentTombstone(_) => None,
            Self::Counter(row) => Some(row.collection_number()),
            Self::CounterTombstone(row) => Some(row.collection_number()),
            Self::Segment(row) => Some(row.collection_number()),
            Self::DeletedRange(row) => Some(row.collection_number()),
            Self::Conflict(row) => Some(row.collection_number()),
        }
    }

    /// The document, if it is one.
    pub fn document(self) -> Option<DocumentRow<'t>> {
        match self {
            Self::Document(row) => Some(row),
            _ => None,
        }
    }

    /// The tombstone of a document, if it is one.
    pub fn document_tombstone(self) -> Option<TombstoneRow<'t>> {
        match self {
            Self::DocumentTombstone(row) => Some(row),
            _ => None,
        }
    }

    /// The revision, if it is one.
    pub fn revision(self) -> Option<RevisionRow<'t>> {
        match self {
            Self::Revision(row) => Some(row),
            _ => None,
        }
    }
}
