//! Whether an index has missed deletions because tombstones were removed before it read them.

use documents::{DocumentError, TombstoneKind, last_removed_tombstone};
use model::Etag;
use storage::Transaction;

use crate::{
    index_files::IndexFiles,
    index_record::IndexRecord,
    mapper::Mapper,
    source::{Followed, SourceKind},
};

impl From<SourceKind> for TombstoneKind {
    fn from(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Documents => Self::Documents,
            SourceKind::Counters => Self::Counters,
            SourceKind::TimeSeries => Self::TimeSeries,
        }
    }
}

/// The etag up to which an index has seen all deletions.
pub(crate) fn known_up_to(record: &IndexRecord, began_at: Etag) -> Etag {
    began_at.max(Etag(record.last_etag))
}

/// Whether tombstones were removed that a reader of these logs needs which has seen all deletions
/// up to `known`.
pub(crate) fn are_missed(
    followed: &Followed,
    documents: &impl Transaction,
    known: Etag,
) -> Result<bool, DocumentError> {
    for (kind, names) in followed.logs() {
        let each = names.iter().map(Some);
        let all = if names.is_empty() { Some(None) } else { None };
        for name in each.chain(all) {
            if known < last_removed_tombstone(documents, kind.into(), name)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl IndexFiles {
    /// Whether tombstones that the index of these files needed were removed.
    pub(crate) fn miss_deletions(
        &self,
        mapper: &dyn Mapper,
        documents: &impl Transaction,
    ) -> Result<bool, DocumentError> {
        are_missed(&Followed::by(mapper), documents, known_up_to(&self.record, self.began_at))
    }
}
