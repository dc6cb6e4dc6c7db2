//! Reading counters: one, those of a document, their log, how many there are.

use std::ops::Bound;

use model::{CollectionName, CounterName, DocumentId, Etag};
use storage::{Transaction, TreeName, WriteTransaction};

use super::{
    row::{self, CounterRow, CounterTombstoneRow},
    tables::{self, COUNTERS},
};
use crate::{
    collections::collection,
    error::{DocumentError, corrupt},
    read::with_prefix,
    schema::meta,
};

/// One entry of the log of counters.
#[derive(Clone, Copy)]
pub enum CounterLogEntry<'t> {
    /// A counter, where it last changed.
    Counter(CounterRow<'t>),
    /// A deletion.
    Tombstone(CounterTombstoneRow<'t>),
}

impl<'t> CounterLogEntry<'t> {
    /// The position in the log.
    pub fn etag(&self) -> Etag {
        match self {
            Self::Counter(row) => row.etag(),
            Self::Tombstone(row) => row.etag(),
        }
    }

    /// The lower-cased id of the document.
    pub fn lower_document_id(&self) -> &'t str {
        match self {
            Self::Counter(row) => row.lower_document_id(),
            Self::Tombstone(row) => row.lower_document_id(),
        }
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'t str {
        match self {
            Self::Counter(row) => row.lower_name(),
            Self::Tombstone(row) => row.lower_name(),
        }
    }
}

/// A counter of a document.
///
/// # Errors
/// Those of the storage; a damaged row.
pub fn counter<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &CounterName,
) -> Result<Option<CounterRow<'t>>, DocumentError> {
    by_key(tx, &row::counter_key(id.lower_cased(), name.lower_cased()))
}

pub(super) fn by_key<'t>(
    tx: &'t impl Transaction,
    key: &[u8],
) -> Result<Option<CounterRow<'t>>, DocumentError> {
    match tx.table(&COUNTERS).get(key)? {
        Some((_, bytes)) => row::read(bytes).map(Some),
        None => Ok(None),
    }
}

/// The counters of a document in the order of their lower-cased names.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn counters_of<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<impl Iterator<Item = Result<CounterRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    of_document(tx, id.lower_cased())
}

pub(super) fn of_document<'t, T: Transaction>(
    tx: &'t T,
    lower_id: &str,
) -> Result<impl Iterator<Item = Result<CounterRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let prefix = row::counter_key(lower_id, "");
    let rows = tx.table(&COUNTERS).range(Bound::Included(&prefix))?;
    Ok(with_prefix(rows, prefix).map(|row| row::read(row?)))
}

/// How many counters all documents have together.
///
/// # Errors
/// Those of the storage.
pub fn counters_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let Some(bytes) = tx.tree(&meta())?.get(tables::COUNT)? else { return Ok(0) };
    let bytes = bytes.try_into().map_err(|_| corrupt("the number of counters is damaged"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes how many counters there are.
pub(super) fn write_count(tx: &mut WriteTransaction, count: u64) -> Result<(), DocumentError> {
    tx.tree_mut(&meta())?.put(tables::COUNT, &count.to_le_bytes())?;
    Ok(())
}

/// The log of counters after an etag, deletions included.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn counter_log<'t, T: Transaction>(
    tx: &'t T,
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<CounterLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    log_in(tx, &tables::log(), after)
}

/// The log of the counters of one collection after an etag; empty when there is no such collection.
///
/// # Errors
/// Those of the storage; each entry may be a damaged row.
pub fn counter_log_of_collection<'t, T: Transaction>(
    tx: &'t T,
    name: &CollectionName,
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<CounterLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    log_in(tx, &log_name(tx, Some(name))?, after)
}

/// How many entries the log of counters, of a collection or of everything, has after an etag; counting
/// ends at `at_most`. Reads no counters.
///
/// # Errors
/// Those of the storage.
pub fn counters_changed_after(
    tx: &impl Transaction,
    collection: Option<&CollectionName>,
    after: Etag,
    at_most: u64,
) -> Result<u64, DocumentError> {
    let Some(from) = after.next() else { return Ok(0) };
    let tree = log_name(tx, collection)?;
    Ok(tx.fixed_tree(&tree)?.count_from(from.0, at_most)?)
}

/// The etag of the last change of a counter in a collection or anywhere, deletions included; zero when
/// there is none.
///
/// # Errors
/// Those of the storage.
pub fn last_counter_etag_of_collection(
    tx: &impl Transaction,
    collection: Option<&CollectionName>,
) -> Result<Etag, DocumentError> {
    let tree = tx.fixed_tree(&log_name(tx, collection)?)?;
    Ok(tree.last()?.map_or(Etag::ZERO, |(etag, _)| Etag(etag)))
}

fn log_name(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
) -> Result<TreeName, DocumentError> {
    let Some(name) = name else { return Ok(tables::log()) };
    // Numbers begin with 1.
    let number = collection(tx, name)?.map_or(0, |collection| collection.number);
    Ok(tables::log_of_collection(number))
}

fn log_in<'t, T: Transaction>(
    tx: &'t T,
    tree: &TreeName,
    after: Etag,
) -> Result<
    impl Iterator<Item = Result<CounterLogEntry<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    // No change has the last of all etags, so nothing is missed behind it.
    let from = after.next().map_or(u64::MAX, |etag| etag.0);
    Ok(tx.table(&COUNTERS).fixed_range(tree, from)?.map(|entry| {
        let (_, bytes) = entry?;
        Ok(match row::is_tombstone(bytes) {
            true => CounterLogEntry::Tombstone(row::read_tombstone(bytes)?),
            false => CounterLogEntry::Counter(row::read(bytes)?),
        })
    }))
}
