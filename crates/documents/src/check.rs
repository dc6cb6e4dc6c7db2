//! Whether the log, the table, the collections and the counts are consistent.
//!
//! Reads every row; for operators and tests. Pages are checked by the storage; see its `check`.

use model::{DocumentId, Etag};
use storage::Transaction;

use crate::{
    attachments::check_attachments,
    collections::{CollectionStatistics, collections},
    compression,
    counters::check_counters,
    database_record::progress,
    due,
    ensure::ensure,
    error::{DocumentError, corrupt},
    listed::check_lists,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
    read::{get, get_tombstone},
    revisions,
    row::{self, TombstoneRow},
    schema::DOCUMENTS,
    time_series::check_time_series,
    tombstones::check_removed,
};

/// A log reader returned an entry outside its selection.
pub(crate) const NOT_SELECTED: &str = "the log has an entry of an unexpected kind";

/// Row counts of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentsReport {
    /// Live documents in all collections.
    pub documents: u64,
    /// Tombstones of documents.
    pub tombstones: u64,
    /// Collections, including empty ones.
    pub collections: u64,
    /// Revisions, including those of deletions.
    pub revisions: u64,
    /// Attachments of documents and revisions.
    pub attachments: u64,
    /// Different contents of attachments.
    pub contents: u64,
    /// Counters of all documents.
    pub counters: u64,
    /// Segments of time series.
    pub time_series_segments: u64,
}

/// Compares everything that is stored redundantly.
///
/// # Errors
/// [`DocumentError::Corrupt`] with the first contradiction; storage errors; a damaged row.
pub fn check(tx: &impl Transaction) -> Result<DocumentsReport, DocumentError> {
    let progress = progress(tx)?;
    let mut report = check_log(tx, progress.last_etag)?;
    ensure(progress.documents == report.documents, "the database miscounts its documents")?;
    ensure(progress.tombstones == report.tombstones, "the database miscounts its tombstones")?;
    let rows = tx.table(&DOCUMENTS).len()?;
    ensure(rows == report.documents + report.tombstones, "the log lacks rows of the table")?;
    let mut in_collections = 0;
    let collections = collections(tx)?;
    for collection in &collections {
        check_collection(tx, collection)?;
        in_collections += collection.documents + collection.tombstones;
        report.collections += 1;
    }
    ensure(rows == in_collections, "rows belong to no collection")?;
    report.revisions = revisions::check::check(tx, progress.last_etag)?;
    ensure(report.collections == u64::from(progress.newest_collection), "a collection is missing")?;
    compression::dictionary::check(tx)?;
    check_removed(tx, progress.last_etag)?;
    (report.attachments, report.contents) = check_attachments(tx, progress.last_etag)?;
    report.counters = check_counters(tx, &collections, progress.last_etag)?;
    report.time_series_segments = check_time_series(tx, progress.last_etag)?;
    Ok(report)
}

fn check_log(tx: &impl Transaction, last_etag: Etag) -> Result<DocumentsReport, DocumentError> {
    let mut report = DocumentsReport::default();
    let (mut previous, mut times) = (Etag::ZERO, 0);
    for entry in log::read(tx, &[Selection::all(EntryKinds::DOCUMENTS)], Etag::ZERO)? {
        let entry = entry?;
        ensure(previous < entry.etag(), "the log is out of order")?;
        previous = entry.etag();
        let (document, tombstone) = by_id(tx, &entry)?;
        match entry {
            LogEntry::Document(row) => {
                check_lists(tx, &row)?;
                ensure(tombstone.is_none(), "a live document has a tombstone")?;
                ensure(document == Some(previous), "a document's id leads elsewhere")?;
                times += due::check_document(tx, row.lower_id(), &row.body()?)?;
                report.documents += 1;
            }
            LogEntry::DocumentTombstone(row) if row.is_moved() => {
                check_moved(tx, &row)?;
                report.tombstones += 1;
            }
            LogEntry::DocumentTombstone(row) => {
                ensure(document.is_none(), "a deleted document lives")?;
                ensure(tombstone == Some(previous), "a tombstone's id leads elsewhere")?;
                ensure(row.deleted_etag() < previous, "a tombstone is older than its document")?;
                report.tombstones += 1;
            }
            _ => return Err(corrupt(NOT_SELECTED)),
        }
    }
    ensure(previous <= last_etag, "the log goes beyond the last etag")?;
    ensure(due::times_count(tx)? == times, "times are kept of documents that are not there")?;
    Ok(report)
}

/// The tombstone of a document that was recreated in another collection.
fn check_moved(tx: &impl Transaction, row: &TombstoneRow<'_>) -> Result<(), DocumentError> {
    let (id, number) = (DocumentId::new(row.id())?, row.collection_number());
    let found = tx.table(&DOCUMENTS).get(row.primary_key())?;
    let etag = found.map(|(_, bytes)| Etag(row::etag_of(bytes)));
    ensure(etag == Some(row.etag()), "a tombstone's id leads elsewhere")?;
    ensure(
        row.primary_key() == row::moved_key(row.lower_id(), number),
        "a tombstone is under the number of another collection",
    )?;
    let lives_here = get(tx, &id)?.is_some_and(|document| document.collection_number() == number);
    ensure(!lives_here, "a live document has a tombstone in its collection")
}

/// The etags of the document and of the tombstone under the id of an entry.
fn by_id(
    tx: &impl Transaction,
    entry: &LogEntry<'_>,
) -> Result<(Option<Etag>, Option<Etag>), DocumentError> {
    let (id, lower_id) = match entry {
        LogEntry::Document(row) => (row.id(), row.lower_id()),
        LogEntry::DocumentTombstone(row) => (row.id(), row.lower_id()),
        _ => return Err(corrupt(NOT_SELECTED)),
    };
    let id = DocumentId::new(id)?;
    ensure(id.lower_cased() == lower_id, "an id and its lower-cased form differ")?;
    let document = get(tx, &id)?.map(|row| row.etag());
    Ok((document, get_tombstone(tx, &id)?.map(|row| row.etag())))
}

fn check_collection(
    tx: &impl Transaction,
    collection: &CollectionStatistics,
) -> Result<(), DocumentError> {
    let (mut documents, mut tombstones) = (0, 0);
    for entry in log::read_number(tx, EntryKinds::DOCUMENTS, collection.number, Etag::ZERO)? {
        let entry = entry?;
        match entry.kind() {
            EntryKind::Document => documents += 1,
            _ => tombstones += 1,
        }
        let number = entry.collection_number();
        ensure(number == Some(collection.number), "a row is in the log of another collection")?;
    }
    ensure(documents == collection.documents, "a collection miscounts its documents")?;
    ensure(tombstones == collection.tombstones, "a collection miscounts its tombstones")
}
