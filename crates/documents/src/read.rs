//! Reading: one document, the log, a collection, a prefix of ids.

use std::ops::{Bound, Deref};

use model::{CollectionName, DocumentId, Etag, lower_case};
use storage::{StorageError, Transaction, TreeName};

use crate::{
    collections::collection,
    compression::dictionary::finder,
    error::DocumentError,
    row::{self, AnyRow, DocumentRow, TombstoneRow},
    schema::{self, DOCUMENTS},
};

/// One entry of the document log.
pub enum LogEntry<'t> {
    /// A live document, where it was last written.
    Document(DocumentRow<'t>),
    /// A deletion.
    Tombstone(TombstoneRow<'t>),
}

impl<'t> LogEntry<'t> {
    /// The position in the log.
    pub fn etag(&self) -> Etag {
        match self {
            Self::Document(document) => document.etag(),
            Self::Tombstone(tombstone) => tombstone.etag(),
        }
    }

    /// The document, if it is one.
    pub fn document(self) -> Option<DocumentRow<'t>> {
        match self {
            Self::Document(document) => Some(document),
            Self::Tombstone(_) => None,
        }
    }

    /// The tombstone, if it is one.
    pub fn tombstone(self) -> Option<TombstoneRow<'t>> {
        match self {
            Self::Document(_) => None,
            Self::Tombstone(tombstone) => Some(tombstone),
        }
    }
}

/// The live document of an id.
///
/// # Errors
/// Those of the storage; a damaged row.
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
/// Those of the storage; a damaged row.
pub fn get_tombstone<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
) -> Result<Option<TombstoneRow<'t>>, DocumentError> {
    match tx.table(&DOCUMENTS).get(&row::tombstone_key(id.lower_cased()))? {
        Some((_, bytes)) => row::read_tombstone(bytes).map(Some),
        None => Ok(None),
    }
}

/// The log after an etag, documents and tombstones in one order.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn log<'t, T: Transaction>(
    tx: &'t T,
    after: Etag,
) -> Result<impl Iterator<Item = Result<LogEntry<'t>, DocumentError>> + use<'t, T>, DocumentError> {
    log_in(tx, schema::log(), after)
}

/// The log of one collection after an etag; empty when there is no such collection.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn log_of_collection<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
    after: Etag,
) -> Result<impl Iterator<Item = Result<LogEntry<'t>, DocumentError>> + use<'t, T>, DocumentError> {
    log_in(tx, log_name(tx, name)?, after)
}

/// The log of the collection of that number after an etag.
pub(crate) fn log_of_number<'t, T: Transaction>(
    tx: &'t T,
    number: u32,
    after: Etag,
) -> Result<impl Iterator<Item = Result<LogEntry<'t>, DocumentError>> + use<'t, T>, DocumentError> {
    log_in(tx, schema::log_of_collection(number), after)
}

/// How many entries the log of a collection, or of everything, has after an etag; counting ends at
/// `at_most`. Reads no documents.
///
/// # Errors
/// Those of the storage.
pub fn changes_after(
    tx: &impl Transaction,
    collection: Option<&CollectionName>,
    after: Etag,
    at_most: u64,
) -> Result<u64, DocumentError> {
    let tree = collection.map_or_else(|| Ok(schema::log()), |name| log_name(tx, name))?;
    let Some(from) = after.next() else { return Ok(0) };
    Ok(tx.fixed_tree(&tree)?.count_from(from.0, at_most)?)
}

/// The etag of the last change in a collection, deletions included; zero when there is none.
///
/// # Errors
/// Those of the storage.
pub fn last_etag_of_collection(
    tx: &impl Transaction,
    name: &CollectionName,
) -> Result<Etag, DocumentError> {
    let tree = tx.fixed_tree(&log_name(tx, name)?)?;
    Ok(tree.last()?.map_or(Etag::ZERO, |(etag, _)| Etag(etag)))
}

/// Live documents, those written last first.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn newest_first<'t, T: Transaction>(
    tx: &'t T,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, schema::log())
}

/// Live documents of a collection, those written last first.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn newest_first_of_collection<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    newest_first_in(tx, log_name(tx, name)?)
}

/// Live documents whose id starts with `prefix`, without regard to case, in the order of their
/// lower-cased ids; with `start_after`, only those behind that id.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
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
/// Those of the storage; each entry may be a damaged row.
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

/// The rows whose keys start with `prefix`, up to the first other key. Behind an error there is nothing.
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

/// The least key behind all that start with `prefix`; `None` when nothing is behind them.
fn key_behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// The name of a collection's log; of one that never has entries when there is no such collection.
fn log_name(tx: &impl Transaction, name: &CollectionName) -> Result<TreeName, DocumentError> {
    // Numbers begin with 1.
    let number = collection(tx, name)?.map_or(0, |collection| collection.number);
    Ok(schema::log_of_collection(number))
}

fn log_in<'t, T: Transaction>(
    tx: &'t T,
    tree: TreeName,
    after: Etag,
) -> Result<impl Iterator<Item = Result<LogEntry<'t>, DocumentError>> + use<'t, T>, DocumentError> {
    // No change has the last of all etags, so nothing is missed behind it.
    let from = after.next().map_or(u64::MAX, |etag| etag.0);
    let rows = tx.table(&DOCUMENTS).fixed_range(&tree, from)?;
    Ok(rows.map(move |entry| read_entry(tx, entry?.1)))
}

fn newest_first_in<'t, T: Transaction>(
    tx: &'t T,
    tree: TreeName,
) -> Result<impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let rows = tx.table(&DOCUMENTS).fixed_range_back(&tree, u64::MAX)?;
    Ok(rows.filter_map(move |entry| match entry.map_err(DocumentError::from) {
        Ok((_, bytes)) => read_entry(tx, bytes).map(LogEntry::document).transpose(),
        Err(error) => Some(Err(error)),
    }))
}

fn read_entry<'t>(
    tx: &'t impl Transaction,
    bytes: &'t [u8],
) -> Result<LogEntry<'t>, DocumentError> {
    Ok(match row::read(bytes, &finder(tx))? {
        AnyRow::Document(document) => LogEntry::Document(document),
        AnyRow::Tombstone(tombstone) => LogEntry::Tombstone(tombstone),
    })
}
