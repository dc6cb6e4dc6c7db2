//! Whether attachments, contents and documents agree with each other.

use std::{collections::BTreeMap, ops::Bound};

use model::{DocumentId, Etag};
use storage::Transaction;

use super::{
    content::content,
    content_hasher::ContentHasher,
    content_row::{self, ContentNumber},
    read::{by_key, is_referenced},
    row::{AttachmentRow, Owner},
    staging::newest_content,
    tables::{ATTACHMENT_TOMBSTONES, ATTACHMENTS, CONTENT_CHUNKS, CONTENTS, hashes, leftovers},
};
use crate::{
    check::NOT_SELECTED,
    ensure::ensure,
    error::{DocumentError, corrupt},
    log::{self, EntryKinds, LogEntry, Selection},
    read,
    replicated::has_sources,
    revisions::{self, schema::REVISIONS},
};

/// Compares everything that is stored about attachments; returns the number of attachments and that
/// of contents.
pub(crate) fn check_attachments(
    tx: &impl Transaction,
    last_etag: Etag,
) -> Result<(u64, u64), DocumentError> {
    let (mut attachments, mut tombstones) = (0, 0);
    let mut previous = Etag::ZERO;
    for entry in log::read(tx, &[Selection::all(EntryKinds::ATTACHMENTS)], Etag::ZERO)? {
        let entry = entry?;
        ensure(previous < entry.etag(), "the log of attachments is out of order")?;
        previous = entry.etag();
        match entry {
            LogEntry::Attachment(row) => {
                check_attachment(tx, &row)?;
                attachments += 1;
            }
            LogEntry::AttachmentTombstone(row) => {
                let key = Owner::Document(row.lower_document_id()).key(row.lower_name());
                ensure(by_key(tx, &key)?.is_none(), "a live attachment has a tombstone")?;
                ensure(row.deleted_etag() < previous, "a tombstone is older than its attachment")?;
                tombstones += 1;
            }
            _ => return Err(corrupt(NOT_SELECTED)),
        }
    }
    ensure(previous <= last_etag, "the log of attachments goes beyond the last etag")?;
    let rows = tx.table(&ATTACHMENTS).len()?;
    ensure(rows == attachments, "the log of attachments lacks rows")?;
    ensure(rows == tx.tree(&hashes())?.len(), "the hashes of attachments miscount them")?;
    let rows = tx.table(&ATTACHMENT_TOMBSTONES).len()?;
    ensure(rows == tombstones, "the log of attachments lacks tombstones")?;
    Ok((attachments, check_contents(tx)?))
}

/// Reads an attachment to the end of its content.
pub(crate) fn read_whole(tx: &impl Transaction, key: &[u8]) -> Result<(), DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let row = by_key(tx, key)?.ok_or(corrupt("a key leads to no row"))?;
    let found = content(tx, &row.hash())?.ok_or(corrupt("a content is not found"))?;
    let mut hasher = ContentHasher::default();
    for index in 0..found.record().chunks() {
        hasher.update(found.chunk(tx, index)?);
    }
    ensure(hasher.finish() == row.hash(), "a content has another hash")
}

/// The lower-cased id of the document in the primary key of an attachment; of a revision's, its etag.
pub(crate) fn document_of_key(key: &[u8]) -> String {
    match key.split_first() {
        Some((b'd', rest)) => {
            let id = rest.split(|byte| *byte == 0xff).next().unwrap_or_default();
            String::from_utf8_lossy(id).into_owned()
        }
        Some((_, rest)) => {
            let etag = rest.first_chunk().map_or(0, |etag| u64::from_be_bytes(*etag));
            format!("revision {etag}")
        }
        None => String::new(),
    }
}

fn check_attachment(tx: &impl Transaction, row: &AttachmentRow<'_>) -> Result<(), DocumentError> {
    let found = by_key(tx, row.primary_key())?;
    let found = found.map(|found| found.etag());
    ensure(found == Some(row.etag()), "the key of an attachment leads elsewhere")?;
    let found = content(tx, &row.hash())?;
    let bytes = found.map(|content| content.bytes());
    ensure(bytes == Some(row.content_bytes()), "the content of an attachment is missing")?;
    let has_owner = match row.owner()? {
        // What is received may come before its document, or be left without it.
        Owner::Document(lower_id) => {
            has_sources(tx)? || read::get(tx, &DocumentId::new(lower_id)?)?.is_some()
        }
        Owner::Revision(etag) => {
            let log = revisions::schema::log();
            let mut revisions = tx.table(&REVISIONS).fixed_range(&log, etag.0)?;
            revisions.next().transpose()?.is_some_and(|(found, _)| found == etag.0)
        }
    };
    ensure(has_owner, "an attachment has no document or revision")
}

/// Compares contents with chunks, references and hashes; returns the number of contents.
fn check_contents(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let newest = newest_content(tx)?;
    // How many chunks each number may have; those of leftovers are not known.
    let mut chunks: BTreeMap<ContentNumber, Option<u64>> = BTreeMap::new();
    for entry in tx.fixed_tree(&leftovers())?.range(0)? {
        chunks.insert(ContentNumber(entry?.0), None);
    }
    let mut contents = 0;
    for entry in tx.table(&CONTENTS).range(Bound::Unbounded)? {
        let record = content_row::read(entry?.1)?;
        ensure(is_referenced(tx, &record.hash)?, "a content is unreferenced")?;
        ensure(record.number.0 <= newest, "a content has a number that was not given")?;
        let other = chunks.insert(record.number, Some(record.chunks()));
        ensure(other.is_none(), "two contents share a number, or one is also a leftover")?;
        let mut hasher = ContentHasher::default();
        let known = content(tx, &record.hash)?;
        let known = known.ok_or(DocumentError::Corrupt { detail: "a content is not found" })?;
        for index in 0..record.chunks() {
            hasher.update(known.chunk(tx, index)?);
        }
        ensure(hasher.finish() == record.hash, "a content has another hash")?;
        contents += 1;
    }
    for entry in tx.tree(&CONTENT_CHUNKS.primary_tree())?.range(Bound::Unbounded)? {
        let (number, index) = content_row::read_chunk_key(&entry?.0)?;
        let is_known = match chunks.get(&number) {
            Some(Some(chunks)) => u64::from(index) < *chunks,
            Some(None) => true,
            None => false,
        };
        ensure(is_known, "a chunk belongs to no content")?;
    }
    Ok(contents)
}
