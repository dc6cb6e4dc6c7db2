//! Whether the revisions are consistent with their chains, the bin and the documents.

use std::ops::Bound;

use model::{DocumentId, Etag};
use storage::Transaction;

use super::{
    chain,
    read::{oldest_first, revision_by_change_vector},
    row,
    schema::{self, REVISIONS},
};
use crate::{
    check::NOT_SELECTED,
    collections::collections,
    error::{DocumentError, corrupt},
    log::{self, EntryKind, Selection},
    read::get,
};

/// Counts the revisions while comparing everything that is stored redundantly.
pub(crate) fn check(tx: &impl Transaction, last_etag: Etag) -> Result<u64, DocumentError> {
    let count = check_log(tx, last_etag)?;
    let table = tx.table(&REVISIONS);
    ensure(table.len()? == count, "the log of revisions lacks rows")?;
    ensure(tx.tree(&schema::versions())?.len() == count, "revisions are not found by version")?;
    let mut in_collections = 0;
    for collection in collections(tx)? {
        for entry in log::read_number(tx, EntryKind::Revision, collection.number, Etag::ZERO)? {
            let number = entry?.collection_number();
            ensure(number == Some(collection.number), "a revision is in another collection's log")?;
            in_collections += 1;
        }
    }
    ensure(in_collections == count, "revisions belong to no collection")?;
    check_chains(tx, count)?;
    Ok(count)
}

fn check_log(tx: &impl Transaction, last_etag: Etag) -> Result<u64, DocumentError> {
    let (mut count, mut previous) = (0, Etag::ZERO);
    for entry in log::read(tx, &[Selection::all(EntryKind::Revision)], Etag::ZERO)? {
        let Some(revision) = entry?.revision() else { return Err(corrupt(NOT_SELECTED)) };
        ensure(previous < revision.etag(), "the log of revisions is out of order")?;
        previous = revision.etag();
        revision.body()?;
        let found = tx.table(&REVISIONS).get(revision.primary_key())?;
        let found = found.map(|(_, bytes)| row::read(bytes, &|_| None)).transpose()?;
        let etag = found.map(|found| found.etag());
        ensure(etag == Some(previous), "a revision's key leads elsewhere")?;
        let by_version = revision_by_change_vector(tx, revision.change_vector())?;
        ensure(by_version.is_some(), "a revision is not found by its version")?;
        count += 1;
    }
    ensure(previous <= last_etag, "the log of revisions goes beyond the last etag")?;
    Ok(count)
}

fn check_chains(tx: &impl Transaction, count: u64) -> Result<(), DocumentError> {
    let (mut in_chains, mut deletions) = (0, 0);
    for entry in tx.tree(&schema::chains())?.range(Bound::Unbounded)? {
        let (key, record) = entry?;
        let chain = chain::read(record)?;
        let id = String::from_utf8(key).ok().and_then(|id| DocumentId::new(id).ok());
        let Some(id) = id else { return ensure(false, "a chain has an impossible id") };
        let (mut length, mut newest) = (0, None);
        for revision in oldest_first(tx, id.lower_cased())? {
            newest = Some(revision?);
            length += 1;
        }
        ensure(length == chain.count && length != 0, "a chain miscounts its revisions")?;
        in_chains += length;
        if chain.deletion != Etag::ZERO {
            let newest = newest.filter(|newest| newest.is_deletion());
            let is_newest = newest.is_some_and(|newest| newest.etag() == chain.deletion);
            ensure(is_newest, "a document is in the bin without having been deleted last")?;
            ensure(get(tx, &id)?.is_none(), "a live document is in the bin")?;
            let named = tx.tree(&schema::bin())?.get(&schema::bin_key(chain.deletion))?;
            ensure(named == Some(id.lower_cased().as_bytes()), "the bin lacks a document")?;
            deletions += 1;
        }
    }
    ensure(in_chains == count, "revisions belong to no chain")?;
    ensure(tx.tree(&schema::bin())?.len() == deletions, "the bin has strange documents")
}

fn ensure(holds: bool, detail: &'static str) -> Result<(), DocumentError> {
    if holds { Ok(()) } else { Err(DocumentError::Corrupt { detail }) }
}
