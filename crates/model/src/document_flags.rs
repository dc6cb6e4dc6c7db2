//! Properties of a document besides its body.

use std::{
    fmt,
    ops::{BitOr, BitOrAssign},
};

/// A set of marks of a document. The text form, `HasRevisions, HasAttachments`, is what metadata
/// shows as `@flags`; the numbers are stored and exchanged between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DocumentFlags(u32);

macro_rules! flags {
    ($($constant:ident = $bit:literal, $text:literal, $doc:literal;)*) => {
        impl DocumentFlags {
            $(#[doc = $doc] pub const $constant: Self = Self($bit);)*
            /// Every known mark and its text, by rising bit.
            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$constant, $text)),*];
        }
    };
}

flags! {
    ARTIFICIAL = 0x1, "Artificial", "Written by the server itself, not by a user.";
    HAS_REVISIONS = 0x2, "HasRevisions", "Older versions of the document are kept.";
    DELETE_REVISION = 0x4, "DeleteRevision", "A revision that records a deletion.";
    FROM_OLD_DOCUMENT_REVISION = 0x8, "FromOldDocumentRevision", "A revision of a version that was written before revisions were kept.";
    FROM_INDEX = 0x10, "FromIndex", "The output of an index.";
    REVISION = 0x20, "Revision", "An older version of a document.";
    FROM_REPLICATION = 0x40, "FromReplication", "Arrived from another node.";
    HAS_ATTACHMENTS = 0x100, "HasAttachments", "The document has attachments.";
    RESOLVED = 0x200, "Resolved", "The outcome of a conflict.";
    CONFLICTED = 0x400, "Conflicted", "One side of a conflict.";
    HAS_COUNTERS = 0x800, "HasCounters", "The document has counters.";
    FROM_CLUSTER_TRANSACTION = 0x1000, "FromClusterTransaction", "Written by a cluster-wide transaction.";
    REVERTED = 0x2000, "Reverted", "Set back to an older version.";
    HAS_TIME_SERIES = 0x4000, "HasTimeSeries", "The document has time series.";
    FORCE_CREATED = 0x8000, "ForceCreated", "A revision that a client requested.";
    ARCHIVED = 0x0100_0000, "Archived", "Put aside: indexes leave it out unless they say otherwise.";
}

impl DocumentFlags {
    /// No flag is set.
    pub const NONE: Self = Self(0);

    /// From the stored number; unknown bits are kept.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number to store.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether no mark is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all marks of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These marks and those of `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These marks without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Reads the text form; words that are not known are left out.
    pub fn read_text(text: &str) -> Self {
        let known = |word: &str| Self::NAMES.iter().find(|(_, name)| *name == word.trim());
        text.split(',').filter_map(known).fold(Self::NONE, |flags, (flag, _)| flags.with(*flag))
    }

    /// Appends the text form, without quotes; nothing for the empty set.
    pub fn write_text(self, out: &mut Vec<u8>) {
        let mut first = true;
        for (flag, text) in Self::NAMES {
            if !self.contains(*flag) {
                continue;
            }
            if !first {
                out.extend_from_slice(b", ");
            }
            first = false;
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl BitOr for DocumentFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for DocumentFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for DocumentFlags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_text(&mut text);
        formatter.pad(std::str::from_utf8(&text).expect("the names are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_lists_the_marks_by_rising_bit() {
        let flags = DocumentFlags::HAS_TIME_SERIES
            | DocumentFlags::HAS_REVISIONS
            | DocumentFlags::HAS_ATTACHMENTS;
        assert_eq!(flags.to_string(), "HasRevisions, HasAttachments, HasTimeSeries");
        assert_eq!(
            DocumentFlags::read_text("HasRevisions, Other,HasAttachments, HasTimeSeries"),
            flags
        );
        assert_eq!(flags.bits(), 0x4102);
        assert_eq!(DocumentFlags::NONE.to_string(), "");
        assert!(flags.contains(DocumentFlags::HAS_REVISIONS));
        assert!(!flags.contains(DocumentFlags::HAS_COUNTERS));
        assert_eq!(DocumentFlags::from_bits(flags.bits()), flags);
        assert_eq!(flags.without(DocumentFlags::HAS_REVISIONS).bits(), 0x4100);
    }
}
