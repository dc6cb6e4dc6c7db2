//! Lists the damaged rows of a database, for an operator who has to decide what to do.
//!
//! Where `check` stops at the first contradiction, this continues with the next document. It
//! follows the primary keys, so it does not see what is below a damaged page of keys.

use std::ops::Bound;

use storage::Transaction;

use crate::{
    attachments::{self, ATTACHMENTS, read_whole},
    compression::dictionary::finder,
    counters::{self, COUNTERS},
    database_record::DATABASE,
    error::DocumentError,
    json::{write_document_json, write_revision_json},
    revisions::{self, schema::REVISIONS},
    row::{self, AnyRow},
    schema::{self, DOCUMENTS},
    time_series::{self, SEGMENTS},
};

/// A row that cannot be read.
#[derive(Clone, Debug)]
pub struct DamagedRow {
    /// The lower-cased id of the document.
    pub id: String,
    /// The kind of row.
    pub kind: RowKind,
    /// The error that reading the row returned.
    pub error: DocumentError,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A live document.
    Document,
    /// A deleted one.
    Tombstone,
    /// A revision.
    Revision,
    /// An attachment, with its content.
    Attachment,
    /// A counter, or the tombstone of one.
    Counter,
    /// A segment of a time series.
    TimeSeries,
}

/// Whether the environment holds a database.
///
/// # Errors
/// Storage errors.
pub fn is_database(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(tx.tree(&schema::meta())?.get(DATABASE)?.is_some())
}

/// Reads every row, including every value of each document, and calls `visit` for each damaged one.
///
/// # Errors
/// When the keys themselves cannot be read further.
pub fn damaged_rows(
    tx: &impl Transaction,
    visit: &mut dyn FnMut(DamagedRow),
) -> Result<(), DocumentError> {
    let mut json = Vec::new();
    for entry in tx.tree(&DOCUMENTS.primary_tree())?.range(Bound::Unbounded)? {
        let (key, _) = entry?;
        if let Err(error) = check_row(tx, &key, &mut json) {
            let id = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
            let is_document = row::is_document_key(&key);
            let kind = if is_document { RowKind::Document } else { RowKind::Tombstone };
            visit(DamagedRow { id, kind, error });
        }
    }
    for entry in tx.tree(&REVISIONS.primary_tree())?.range(Bound::Unbounded)? {
        let (key, _) = entry?;
        if let Err(error) = check_revision(tx, &key, &mut json) {
            let id = String::from_utf8_lossy(revisions::row::id_of_key(&key)).into_owned();
            visit(DamagedRow { id, kind: RowKind::Revision, error });
        }
    }
    for entry in tx.tree(&ATTACHMENTS.primary_tree())?.range(Bound::Unbounded)? {
        let (key, _) = entry?;
        if let Err(error) = read_whole(tx, &key) {
            let id = attachments::document_of_key(&key);
            visit(DamagedRow { id, kind: RowKind::Attachment, error });
        }
    }
    for entry in tx.tree(&COUNTERS.primary_tree())?.range(Bound::Unbounded)? {
        let (key, _) = entry?;
        if let Err(error) = counters::check_row(tx, &key) {
            let id = counters::owner_of_key(&key);
            visit(DamagedRow { id, kind: RowKind::Counter, error });
        }
    }
    for entry in tx.tree(&SEGMENTS.primary_tree())?.range(Bound::Unbounded)? {
        let (key, _) = entry?;
        if let Err(error) = time_series::read_whole(tx, &key) {
            let (id, _) = time_series::document_of_key(&key);
            visit(DamagedRow { id, kind: RowKind::TimeSeries, error });
        }
    }
    Ok(())
}

fn check_revision(
    tx: &impl Transaction,
    key: &[u8],
    json: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    let corrupt = |detail| Err(DocumentError::Corrupt { detail });
    let Some((_, bytes)) = tx.table(&REVISIONS).get(key)? else {
        return corrupt("a key leads to no row");
    };
    let revision = revisions::row::read(bytes, &finder(tx))?;
    if revision.primary_key() != key {
        return corrupt("a key leads to the row of another revision");
    }
    json.clear();
    write_revision_json(&revision, json)
}

fn check_row(tx: &impl Transaction, key: &[u8], json: &mut Vec<u8>) -> Result<(), DocumentError> {
    let corrupt = |detail| Err(DocumentError::Corrupt { detail });
    let Some((_, bytes)) = tx.table(&DOCUMENTS).get(key)? else {
        return corrupt("a key leads to no row");
    };
    if row::primary_key_of(bytes) != key {
        return corrupt("a key leads to the row of another document");
    }
    let AnyRow::Document(document) = row::read(bytes, &finder(tx))? else { return Ok(()) };
    json.clear();
    write_document_json(&document, json)
}
