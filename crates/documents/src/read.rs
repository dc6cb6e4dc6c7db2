//! Reading one document, a collection, or a prefix of ids. For the log, see [`crate::log`].

use std::ops::{Bound, Deref};

use model::{ChangeVector, CollectionName, DocumentId, lower_case};
use storage::{StorageError, Transaction, TreeName};

use crate::{
    collections::collection,
    compression::dictionary::finder,
    error::{DocumentError, corrupt},
    row::{self, AnyRow, DocumentRow, TombstoneRow},
    schema::{self, DOCUMENTS},
};

/// The live document of an id.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn get<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
) -> Result<Option<DocumentRow<'t>>, DocumentError> {
    match tx.table(&DOCUMENTS).get(&row::document_key(id.lower_cased()))? {
        Some((_, bytes)) => row::read_document(bytes, &finder(tx)).map(Some),
        None => Ok(None),
    }
}

/// The tombstone of an id.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn get_tombstone<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
) -> Result<Option<TombstoneRow<'t>>, DocumentError> {
    match tx.table(&DOCUMENTS).get(&row::tombstone_key(id.lower_cased()))? {
        Some((_, bytes)) => row::read_tombstone(bytes).map(Some),
        None => Ok(None),
    }
}

/// The version of a document, or of its deletion; empty if there is neither.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn version_of(tx: &impl Transaction, id: &DocumentId) -> Result<ChangeVector, DocumentError> {
    let live = get(tx, id)?.map(|row| row.change_vector().parse());
    let version = match live {
        Some(version) => Some(version),
        None => get_tombstone(tx, id)?.map(|row| row.change_vector().parse()),
    };
    let damaged = |_| corrupt("the change vector of a document is damaged");
    version.map_or(Ok(ChangeVector::empty()), |version| version.map_err(damaged))
}

/// Live documents, most recently written first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn newest_first<'t, T: Transaction>(
    tx: &'t T,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, schema::log())
}

/// Live documents of a collection, most recently written first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn newest_first_of_collection<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, log_name(tx, name)?)
}

/// Live documents whose id starts with `prefix`, without regard to case, in the order of their
/// lower-cased ids; with `start_after`, only those after that id.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn by_prefix<'t, T: Transaction>(
    tx: &'t T,
    prefix: &str,
    start_after: Option<&str>,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let prefix = row::document_key(&lower_case(prefix));
    let start_after = start_after.map(|id| row::document_key(&lower_case(id)));
    let from = match &start_after {
        Some(start_after) if prefix <= *start_after => Bound::Excluded(start_after.as_slice()),
        Some(_) | None => Bound::Included(prefix.as_slice()),
    };
    let rows = tx.table(&DOCUMENTS).range(from)?;
    Ok(with_prefix(rows, prefix).map(|row| row::read_document(row?, &finder(tx))))
}

/// As [`by_prefix`], from the last id to the first.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn by_prefix_descending<'t, T: Transaction>(
    tx: &'t T,
    prefix: &str,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let prefix = row::document_key(&lower_case(prefix));
    let behind = key_behind(&prefix);
    let to = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let rows = tx.table(&DOCUMENTS).range_back(to)?;
    Ok(with_prefix(rows, prefix).map(|row| row::read_document(row?, &finder(tx))))
}

/// The rows whose keys start with `prefix`. Iteration ends after an error.
pub(crate) fn with_prefix<'t, K: Deref<Target = [u8]>>(
    rows: impl Iterator<Item = Result<(K, &'t [u8]), StorageError>>,
    prefix: Vec<u8>,
) -> impl Iterator<Item = Result<&'t [u8], StorageError>> {
    let mut is_done = false;
    rows.map_while(move |entry| match entry {
        _ if is_done => None,
        Ok((key, row)) => key.starts_with(&prefix).then_some(Ok(row)),
        Err(error) => {
            is_done = true;
            Some(Err(error))
        }
    })
}

/// The smallest key after all that start with `prefix`; `None` when there is none.
fn key_behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// The name of a collection's log; that of an empty log when there is no such collection.
fn log_name(tx: &impl Transaction, name: &CollectionName) -> Result<TreeName, DocumentError> {
    // Collection numbers start at 1.
    let number = collection(tx, name)?.map_or(0, |collection| collection.number);
    Ok(schema::log_of_collection(number))
}

fn newest_first_in<'t, T: Transaction>(
    tx: &'t T,
    tree: TreeName,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let rows = tx.table(&DOCUMENTS).fixed_range_back(&tree, u64::MAX)?;
    Ok(rows.filter_map(move |entry| match entry {
        Ok((_, bytes)) => match row::read(bytes, &finder(tx)) {
            Ok(AnyRow::Document(document)) => Some(Ok(document)),
            Ok(AnyRow::Tombstone(_)) => None,
            Err(error) => Some(Err(error)),
        },
        Err(error) => Some(Err(error.into())),
    }))
}
