//! Numbers of entries and fields.

use std::fmt;

/// The number of an index entry. Numbers go upwards and are never used again, so the order of entries
/// is the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a field in its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u16);

impl FieldId {
    /// `id()`: the lower-cased id of the document an entry comes from.
    pub const DOCUMENT_ID: FieldId = FieldId(0);
    /// Not a field: the key of the list of all live entries.
    pub(crate) const ALL_ENTRIES: FieldId = FieldId(u16::MAX);
}
