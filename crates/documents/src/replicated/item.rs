//! What is received.

use blittable::BlittableBuf;
use model::{
    AttachmentName, ChangeVector, CollectionName, ContentHash, CounterName, DocumentFlags,
    DocumentId, TimeSeriesName,
};
use timeseries::Entries;

use super::rank::Ranked;
use crate::{
    counters::{CounterValue, version_of},
    import::ImportedAttachment,
    time_series::MomentRange,
};

/// A change that another database has sent.
#[derive(Clone, Debug)]
pub enum ReceivedItem {
    /// A document, or that it was deleted.
    Version(ReceivedVersion),
    /// A revision, also one of a deletion.
    Revision(ReceivedRevision),
    /// An attachment of a document.
    Attachment(ReceivedAttachment),
    /// An attachment was deleted.
    AttachmentTombstone(ReceivedAttachmentTombstone),
    /// A counter.
    Counter(ReceivedCounter),
    /// A counter was deleted.
    CounterTombstone(ReceivedCounterTombstone),
    /// A segment of a time series.
    Segment(Box<ReceivedSegment>),
    /// A range of a time series was deleted.
    DeletedRange(ReceivedDeletedRange),
}

/// A version of a document.
#[derive(Clone, Debug)]
pub struct ReceivedVersion {
    /// The id in the spelling of that version.
    pub id: DocumentId,
    /// Its change vector.
    pub change_vector: ChangeVector,
    /// When it was written, in ticks of UTC.
    pub last_modified_ticks: i64,
    /// Its flags at the sender.
    pub flags: DocumentFlags,
    /// Its collection.
    pub collection: CollectionName,
    /// The document as it is stored there; `None` if it was deleted.
    pub body: Option<BlittableBuf>,
}

/// A revision of a document.
#[derive(Clone, Debug)]
pub struct ReceivedRevision {
    /// The version that it keeps; its body says nothing but the collection if it is that of a deletion.
    pub version: ReceivedVersion,
    /// Its attachments.
    pub attachments: Vec<ImportedAttachment>,
}

/// An attachment of a document.
#[derive(Clone, Debug)]
pub struct ReceivedAttachment {
    /// The document.
    pub id: DocumentId,
    /// Its name.
    pub name: AttachmentName,
    /// The type of its content; may be empty.
    pub content_type: String,
    /// What identifies the content.
    pub hash: ContentHash,
    /// How often an attachment of this name was written or deleted before it.
    pub generation: u32,
    /// Its version.
    pub change_vector: ChangeVector,
}

/// An attachment was deleted.
#[derive(Clone, Debug)]
pub struct ReceivedAttachmentTombstone {
    /// The document.
    pub id: DocumentId,
    /// The name of the attachment.
    pub name: AttachmentName,
    /// As of an attachment.
    pub generation: u32,
    /// When it was deleted, in ticks of UTC.
    pub deleted_at_ticks: i64,
    /// The version of the deletion.
    pub change_vector: ChangeVector,
}

/// A counter of a document.
#[derive(Clone, Debug)]
pub struct ReceivedCounter {
    /// The document.
    pub id: DocumentId,
    /// Its name.
    pub name: CounterName,
    /// The collection of the document.
    pub collection: CollectionName,
    /// What each database has counted.
    pub values: Vec<CounterValue>,
    /// The version: the last value counted by each database.
    pub change_vector: ChangeVector,
}

/// A counter was deleted.
#[derive(Clone, Debug)]
pub struct ReceivedCounterTombstone {
    /// The document.
    pub id: DocumentId,
    /// The name of the counter.
    pub name: CounterName,
    /// The collection of the document.
    pub collection: CollectionName,
    /// The version of the deletion, which covers the values that it has seen.
    pub change_vector: ChangeVector,
}

/// A segment of a time series: all entries from its first moment to its last.
#[derive(Clone, Debug)]
pub struct ReceivedSegment {
    /// The document.
    pub id: DocumentId,
    /// The name of the series.
    pub name: TimeSeriesName,
    /// The collection of the document.
    pub collection: CollectionName,
    /// The version of the segment.
    pub change_vector: ChangeVector,
    /// Its entries as they are stored, in order; at least one.
    pub entries: Entries,
}

/// A range of a time series was deleted.
#[derive(Clone, Debug)]
pub struct ReceivedDeletedRange {
    /// The document.
    pub id: DocumentId,
    /// The name of the series.
    pub name: TimeSeriesName,
    /// The collection of the document.
    pub collection: CollectionName,
    /// The version of the deletion.
    pub change_vector: ChangeVector,
    /// What was deleted.
    pub range: MomentRange,
    /// When it was deleted, in ticks of UTC.
    pub deleted_at_ticks: i64,
}

impl ReceivedVersion {
    /// As it is compared with others. Its body has to be without its lists.
    pub(crate) fn ranked(&self) -> Ranked<'_> {
        Ranked {
            change_vector: &self.change_vector,
            last_modified_ticks: self.last_modified_ticks,
            collection: self.collection.as_str(),
            body: self.body.as_ref(),
        }
    }
}

impl ReceivedCounter {
    /// A counter with what each database has counted.
    pub fn new(
        id: DocumentId,
        name: CounterName,
        collection: CollectionName,
        values: Vec<CounterValue>,
    ) -> Self {
        let change_vector = version_of(&values);
        Self { id, name, collection, values, change_vector }
    }
}

impl ReceivedItem {
    /// Approximate bytes that it adds to a transaction, besides a fixed part.
    pub fn size_bytes(&self) -> usize {
        /// Of an attachment, or of a value of a counter.
        const ROW_BYTES: usize = 256;
        let body = |version: &ReceivedVersion| {
            version.body.as_ref().map_or(0, |body| body.as_bytes().len())
        };
        match self {
            Self::Version(version) => body(version),
            Self::Revision(revision) => {
                body(&revision.version) + ROW_BYTES * revision.attachments.len()
            }
            Self::Counter(counter) => ROW_BYTES * counter.values.len(),
            Self::Segment(segment) => 16 * segment.entries.len(),
            Self::Attachment(_)
            | Self::AttachmentTombstone(_)
            | Self::CounterTombstone(_)
            | Self::DeletedRange(_) => ROW_BYTES,
        }
    }

    /// Its change vector.
    pub fn change_vector(&self) -> &ChangeVector {
        match self {
            Self::Version(version) => &version.change_vector,
            Self::Revision(revision) => &revision.version.change_vector,
            Self::Attachment(attachment) => &attachment.change_vector,
            Self::AttachmentTombstone(tombstone) => &tombstone.change_vector,
            Self::Counter(counter) => &counter.change_vector,
            Self::CounterTombstone(tombstone) => &tombstone.change_vector,
            Self::Segment(segment) => &segment.change_vector,
            Self::DeletedRange(range) => &range.change_vector,
        }
    }

    /// Whether it may be left out at a database whose change vector covers its own.
    pub fn is_known_by_its_version(&self) -> bool {
        match self {
            Self::Revision(revision) => !is_made_later(revision.version.flags),
            _ => true,
        }
    }
}

/// Why there is a revision of a version. One that its writer made counts for more than one of a version that won a conflict,
/// and that for more than one of a version that lost. Of two revisions of one version the one that counts for more is kept,
/// whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Lost,
    Won,
    Written,
}

impl Origin {
    pub(crate) fn of(flags: DocumentFlags) -> Origin {
        match () {
            () if flags.contains(DocumentFlags::CONFLICTED) => Origin::Lost,
            () if flags.contains(DocumentFlags::RESOLVED) => Origin::Won,
            () => Origin::Written,
        }
    }
}

/// Whether a revision may have been made later than the version that it keeps, so that its change vector does not say who has
/// it: when a conflict was resolved, or when a version from before there were revisions was replaced.
pub fn is_made_later(flags: DocumentFlags) -> bool {
    let reasons = [
        DocumentFlags::CONFLICTED,
        DocumentFlags::RESOLVED,
        DocumentFlags::FROM_OLD_DOCUMENT_REVISION,
    ];
    reasons.into_iter().any(|reason| flags.contains(reason))
}
