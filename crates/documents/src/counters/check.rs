//! Whether counters and documents agree with each other.

use model::{DocumentId, Etag};
use storage::Transaction;

use super::{
    read::{count_owners, counted_documents, counters_count},
    row,
    tables::COUNTERS,
};
use crate::{
    check::NOT_SELECTED,
    collections::CollectionStatistics,
    ensure::ensure,
    error::{DocumentError, corrupt},
    log::{self, EntryKinds, LogEntry, Selection},
    read,
    replicated::has_sources,
};

/// Compares everything that is stored about counters; returns their number.
pub(crate) fn check_counters(
    tx: &impl Transaction,
    collections: &[CollectionStatistics],
    last_etag: Etag,
) -> Result<u64, DocumentError> {
    let (mut counters, mut tombstones) = (0, 0);
    let has_sources = has_sources(tx)?;
    let mut previous = Etag::ZERO;
    for entry in log::read(tx, &[Selection::all(EntryKinds::COUNTERS)], Etag::ZERO)? {
        let entry = entry?;
        ensure(previous < entry.etag(), "the log of counters is out of order")?;
        previous = entry.etag();
        let found = under_keys(tx, &entry)?;
        match &entry {
            LogEntry::Counter(row) => {
                ensure(found.0 == Some(previous), "the key of a counter leads elsewhere")?;
                let is_later = found.1.is_none_or(|tombstone| tombstone < previous);
                ensure(is_later, "a counter is older than its deletion")?;
                let document = read::get(tx, &DocumentId::new(row.lower_document_id())?)?;
                let number = document.map(|document| document.collection_number());
                let has_document = has_sources || number == Some(row.collection_number());
                ensure(has_document, "a counter has no document")?;
                counters += 1;
            }
            LogEntry::CounterTombstone(row) => {
                ensure(found.1 == Some(previous), "the key of a deleted counter leads elsewhere")?;
                ensure(has_sources || found.0.is_none(), "a deleted counter lives")?;
                ensure(row.deleted_etag() < previous, "a tombstone is older than its counter")?;
                tombstones += 1;
            }
            _ => return Err(corrupt(NOT_SELECTED)),
        }
    }
    ensure(previous <= last_etag, "the log of counters goes beyond the last etag")?;
    let rows = tx.table(&COUNTERS).len()?;
    ensure(rows == counters + tombstones, "the log of counters lacks rows")?;
    let mut in_collections = 0;
    for collection in collections {
        for entry in log::read_number(tx, EntryKinds::COUNTERS, collection.number, Etag::ZERO)? {
            let number = entry?.collection_number();
            ensure(number == Some(collection.number), "a counter is in another collection's log")?;
            in_collections += 1;
        }
    }
    ensure(rows == in_collections, "counters belong to no collection")?;
    ensure(counters_count(tx)? == counters, "the database miscounts its counters")?;
    let owners = count_owners(tx)?;
    ensure(counted_documents(tx)? == owners, "the database miscounts documents with counters")?;
    Ok(counters)
}

/// The etags of the counter and of the tombstone under the name of an entry.
fn under_keys(
    tx: &impl Transaction,
    entry: &LogEntry<'_>,
) -> Result<(Option<Etag>, Option<Etag>), DocumentError> {
    let id = entry.lower_document_id().unwrap_or_default();
    let name = entry.lower_name().unwrap_or_default();
    let etag = |key: Vec<u8>| {
        let found = tx.table(&COUNTERS).get(&key)?;
        Ok::<_, DocumentError>(found.map(|(_, bytes)| Etag(row::etag_of(bytes))))
    };
    Ok((etag(row::counter_key(id, name))?, etag(row::tombstone_key(id, name))?))
}

/// Whether the row under a primary key can be read and has that key.
pub(crate) fn check_row(tx: &impl Transaction, key: &[u8]) -> Result<(), DocumentError> {
    let Some((_, bytes)) = tx.table(&COUNTERS).get(key)? else {
        return Err(corrupt("a key leads to no row"));
    };
    ensure(row::primary_key_of(bytes) == key, "a key leads to the row of another counter")?;
    match row::is_counter_key(key) {
        true => row::read(bytes).map(drop),
        false => row::read_tombstone(bytes).map(drop),
    }
}

/// The lower-cased id of the document in the primary key of a counter.
pub(crate) fn owner_of_key(key: &[u8]) -> String {
    String::from_utf8_lossy(row::parts_of_key(key).0).into_owned()
}
