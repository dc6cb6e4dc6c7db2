//! The kinds of entries of the log, and sets of them.

use std::ops::BitOr;

/// What an entry of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A live document.
    Document,
    /// A document was deleted, or moved to another collection.
    DocumentTombstone,
    /// A revision of a document, also one that records a deletion.
    Revision,
    /// An attachment of a document or of a revision.
    Attachment,
    /// An attachment of a document was deleted.
    AttachmentTombstone,
    /// A counter.
    Counter,
    /// A counter was deleted.
    CounterTombstone,
    /// A segment of a time series.
    Segment,
    /// A range of a time series was deleted.
    DeletedRange,
    /// One of the versions of a document in conflict.
    Conflict,
}

impl EntryKind {
    /// Every kind of entry, once.
    pub const ALL: [Self; 10] = [
        Self::Document,
        Self::DocumentTombstone,
        Self::Revision,
        Self::Attachment,
        Self::AttachmentTombstone,
        Self::Counter,
        Self::CounterTombstone,
        Self::Segment,
        Self::DeletedRange,
        Self::Conflict,
    ];
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryKinds(u16);

impl EntryKinds {
    /// Documents and their tombstones.
    pub const DOCUMENTS: Self = Self::of(&[EntryKind::Document, EntryKind::DocumentTombstone]);
    /// Attachments and their tombstones.
    pub const ATTACHMENTS: Self =
        Self::of(&[EntryKind::Attachment, EntryKind::AttachmentTombstone]);
    /// Counters and their tombstones.
    pub const COUNTERS: Self = Self::of(&[EntryKind::Counter, EntryKind::CounterTombstone]);
    /// Segments and deleted ranges of time series.
    pub const TIME_SERIES: Self = Self::of(&[EntryKind::Segment, EntryKind::DeletedRange]);

    /// The set of these kinds.
    pub const fn of(kinds: &[EntryKind]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Whether a kind is in the set.
    pub const fn contains(self, kind: EntryKind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    /// Whether there is no kind in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds that are in both.
    pub const fn shared_with(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for EntryKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<EntryKind> for EntryKinds {
    fn from(kind: EntryKind) -> Self {
        Self::of(&[kind])
    }
}
