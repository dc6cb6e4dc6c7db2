//! The progress of an index: what remains to be indexed in each collection.

use documents::{
    DocumentError,
    log::{self, EntryKind, EntryKinds, Selection},
};
use indexing::{Index, SourceKind};
use model::{CollectionName, Etag};
use storage::ReadTransaction;
use wire::index_shapes::CollectionProgress;

/// Maximum number of changes of counters or time series that are counted.
const COUNTED_MAX: u64 = 1_000_000;
/// The collection name of an index over all documents.
pub const ALL_DOCUMENTS: &str = "@all_docs";

/// The progress of an index in each of its collections.
pub fn progress_of(
    documents: &ReadTransaction,
    index: &Index,
) -> Result<Vec<CollectionProgress>, DocumentError> {
    let of_one = match index.source_kind() {
        SourceKind::Documents => progress_in,
        SourceKind::Counters => progress_in_counters,
        SourceKind::TimeSeries => progress_in_time_series,
    };
    match index.collections() {
        [] => Ok(vec![of_one(documents, None, index.progress())?]),
        names => {
            let names = names.iter();
            names.map(|name| of_one(documents, Some(name), index.progress())).collect()
        }
    }
}

fn progress_in(
    documents: &ReadTransaction,
    name: Option<&CollectionName>,
    progress: Etag,
) -> Result<CollectionProgress, DocumentError> {
    let (collection, last) = match name {
        None => {
            let last = documents::progress(documents)?.last_etag;
            (ALL_DOCUMENTS.to_owned(), last)
        }
        Some(name) => {
            let of_collection = Selection::of_collection(EntryKinds::DOCUMENTS, name);
            let last = log::last_etag(documents, &[of_collection])?;
            let known = documents::collection(documents, name)?;
            let shown = known.map_or_else(|| name.clone(), |known| known.name);
            (shown.as_str().to_owned(), last)
        }
    };
    let all = documents::all_changes(documents, name)?;
    let pending = documents::pending_changes(documents, name, progress)?;
    Ok(CollectionProgress {
        collection,
        last_etag: progress.min(last).0,
        lag: pending.documents,
        tombstone_lag: pending.tombstones,
        documents: all.documents,
        tombstones: all.tombstones,
        deleted_range_lag: 0,
        deleted_ranges: 0,
    })
}

/// The same for an index of counters. Deleted ones are counted with the others.
fn progress_in_counters(
    documents: &ReadTransaction,
    name: Option<&CollectionName>,
    progress: Etag,
) -> Result<CollectionProgress, DocumentError> {
    let counters = [Selection::of_collection(EntryKinds::COUNTERS, name)];
    let last = log::last_etag(documents, &counters)?;
    let changed_after = |after| log::count_after(documents, &counters, after, COUNTED_MAX);
    Ok(CollectionProgress {
        collection: name.map_or(ALL_DOCUMENTS, CollectionName::as_str).to_owned(),
        last_etag: progress.min(last).0,
        lag: changed_after(progress)?,
        tombstone_lag: 0,
        documents: changed_after(Etag::ZERO)?,
        tombstones: 0,
        deleted_range_lag: 0,
        deleted_ranges: 0,
    })
}

/// The same for an index of time series: segments, and deleted ranges.
fn progress_in_time_series(
    documents: &ReadTransaction,
    name: Option<&CollectionName>,
    progress: Etag,
) -> Result<CollectionProgress, DocumentError> {
    let all = Selection::of_collection(EntryKinds::TIME_SERIES, name);
    let last = log::last_etag(documents, &[all])?;
    let changed_after = |kind: EntryKind, after| {
        let selected = Selection::of_collection(kind, name);
        log::count_after(documents, &[selected], after, COUNTED_MAX)
    };
    Ok(CollectionProgress {
        collection: name.map_or(ALL_DOCUMENTS, CollectionName::as_str).to_owned(),
        last_etag: progress.min(last).0,
        lag: changed_after(EntryKind::Segment, progress)?,
        tombstone_lag: 0,
        documents: changed_after(EntryKind::Segment, Etag::ZERO)?,
        tombstones: 0,
        deleted_range_lag: changed_after(EntryKind::DeletedRange, progress)?,
        deleted_ranges: changed_after(EntryKind::DeletedRange, Etag::ZERO)?,
    })
}
