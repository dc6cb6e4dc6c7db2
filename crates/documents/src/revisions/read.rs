//! Reading revisions.

use std::ops::Bound;

use model::{CollectionName, DocumentId, Etag};
use storage::{Transaction, TreeName};

use super::{
    chain,
    row::{self, RevisionRow},
    schema::{self, ChainRange, REVISIONS},
};
use crate::{collections::collection, compression::dictionary::finder, error::DocumentError};

/// The number of revisions of a document.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn revision_count(tx: &impl Transaction, id: &DocumentId) -> Result<u64, DocumentError> {
    Ok(chain::get(tx, id.lower_cased())?.count)
}

/// The number of revisions.
///
/// # Errors
/// Storage errors.
pub fn revisions_total(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.table(&REVISIONS).len()?)
}

/// The number of revisions of a collection's documents.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn revisions_of_collection_count(
    tx: &impl Transaction,
    name: &CollectionName,
) -> Result<u64, DocumentError> {
    Ok(tx.table(&REVISIONS).fixed_len(&log_name(tx, name)?)?)
}

/// The revisions of a document, the newest first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn revisions_newest_first<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let range = ChainRange::of(id.lower_cased());
    let rows = tx.table(&REVISIONS).range_back(range.end())?;
    Ok(rows.map_while(move |entry| match entry {
        Ok((key, bytes)) => range.contains(&key).then(|| row::read(bytes, &finder(tx))),
        Err(error) => Some(Err(error.into())),
    }))
}

/// The revisions of a document, the oldest first.
pub(super) fn oldest_first<'t, T: Transaction>(
    tx: &'t T,
    lower_id: &str,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let range = ChainRange::of(lower_id);
    let rows = tx.table(&REVISIONS).range(range.start())?;
    Ok(rows.map_while(move |entry| match entry {
        Ok((key, bytes)) => range.contains(&key).then(|| row::read(bytes, &finder(tx))),
        Err(error) => Some(Err(error.into())),
    }))
}

/// The revision of a document that precedes another one.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn previous_revision<'t>(
    tx: &'t impl Transaction,
    revision: &RevisionRow<'_>,
) -> Result<Option<RevisionRow<'t>>, DocumentError> {
    let range = ChainRange::of(revision.lower_id());
    let mut key = range.from.clone();
    key.extend_from_slice(&revision.etag().0.to_be_bytes());
    match tx.table(&REVISIONS).range_back(Bound::Excluded(&key))?.next().transpose()? {
        Some((key, bytes)) if range.contains(&key) => row::read(bytes, &finder(tx)).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// The newest revision of a document that was not written after a moment.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn revision_at<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    ticks: i64,
) -> Result<Option<RevisionRow<'t>>, DocumentError> {
    for revision in revisions_newest_first(tx, id)? {
        let revision = revision?;
        if revision.last_modified_ticks() <= ticks {
            return Ok(Some(revision));
        }
    }
    Ok(None)
}

/// The revision that keeps a version.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn revision_by_change_vector<'t>(
    tx: &'t impl Transaction,
    change_vector: &str,
) -> Result<Option<RevisionRow<'t>>, DocumentError> {
    let prefix = schema::version_prefix(change_vector.as_bytes());
    let from = Bound::Included(prefix.as_slice());
    for entry in tx.table(&REVISIONS).index_range(&schema::versions(), from)? {
        let (key, bytes) = entry?;
        if !key.starts_with(&prefix) {
            break;
        }
        let revision = row::read(bytes, &finder(tx))?;
        if revision.change_vector() == change_vector {
            return Ok(Some(revision));
        }
    }
    Ok(None)
}

/// All revisions up to an etag, the newest first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn revision_log_newest_first<'t, T: Transaction>(
    tx: &'t T,
    from: Etag,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, schema::log(), from)
}

/// The same of the documents of one collection.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn revision_log_of_collection_newest_first<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
    from: Etag,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, log_name(tx, name)?, from)
}

fn newest_first_in<'t, T: Transaction>(
    tx: &'t T,
    tree: TreeName,
    from: Etag,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let rows = tx.table(&REVISIONS).fixed_range_back(&tree, from.0)?;
    Ok(rows.map(move |entry| row::read(entry?.1, &finder(tx))))
}

/// The bin: the revisions that record a deletion, most recent first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn deleted_documents<'t, T: Transaction>(
    tx: &'t T,
) -> Result<impl Iterator<Item = Result<RevisionRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let entries = tx.tree(&schema::bin())?.range_back(Bound::Unbounded)?;
    Ok(entries.map(move |entry| {
        let (key, _) = entry?;
        let bytes = tx.table(&REVISIONS).by_fixed(&schema::log(), row::etag_of_key(&key))?;
        match bytes {
            Some(bytes) => row::read(bytes, &finder(tx)),
            None => Err(DocumentError::Corrupt { detail: "the bin names a missing revision" }),
        }
    }))
}

/// The lower-cased ids of the documents that have revisions, starting at a bound.
///
/// # Errors
/// Storage errors.
pub fn revised_ids<'t, T: Transaction>(
    tx: &'t T,
    from: Bound<&str>,
) -> Result<impl Iterator<Item = Result<DocumentId, DocumentError>> + use<'t, T>, DocumentError> {
    let from = from.map(str::as_bytes);
    Ok(tx.tree(&schema::chains())?.range(from)?.map(|entry| {
        let (key, _) = entry?;
        let id = String::from_utf8(key);
        let id = id.map_err(|_| DocumentError::Corrupt { detail: "a chain has a damaged id" })?;
        Ok(DocumentId::new(id)?)
    }))
}

/// The name of a collection's log; that of an empty log when there is no such collection.
fn log_name(tx: &impl Transaction, name: &CollectionName) -> Result<TreeName, DocumentError> {
    let number = collection(tx, name)?.map_or(0, |collection| collection.number);
    Ok(schema::log_of_collection(number))
}
