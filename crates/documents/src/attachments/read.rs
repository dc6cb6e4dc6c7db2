//! Reading attachments: one, those of a document or revision, how many there are.

use std::ops::Bound;

use model::{AttachmentName, ContentHash, DocumentId, Etag};
use storage::Transaction;

use super::{
    row::{self, AttachmentRow, AttachmentTombstoneRow, Owner},
    tables::{self, ATTACHMENT_TOMBSTONES, ATTACHMENTS, CONTENTS},
};
use crate::{error::DocumentError, read::with_prefix};

/// How many attachments a database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachmentCounts {
    /// Of documents and revisions.
    pub attachments: u64,
    /// Distinct contents; equal ones are stored once.
    pub contents: u64,
}

/// An attachment of a document.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn attachment<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &AttachmentName,
) -> Result<Option<AttachmentRow<'t>>, DocumentError> {
    by_key(tx, &Owner::Document(id.lower_cased()).key(name.lower_cased()))
}

/// The tombstone of an attachment of a document.
pub(super) fn tombstone<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &AttachmentName,
) -> Result<Option<AttachmentTombstoneRow<'t>>, DocumentError> {
    let key = Owner::Document(id.lower_cased()).key(name.lower_cased());
    match tx.table(&ATTACHMENT_TOMBSTONES).get(&key)? {
        Some((_, bytes)) => row::read_tombstone(bytes).map(Some),
        None => Ok(None),
    }
}

pub(super) fn by_key<'t>(
    tx: &'t impl Transaction,
    key: &[u8],
) -> Result<Option<AttachmentRow<'t>>, DocumentError> {
    match tx.table(&ATTACHMENTS).get(key)? {
        Some((_, bytes)) => row::read(bytes).map(Some),
        None => Ok(None),
    }
}

/// The attachments of a document in the order of their lower-cased names.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn attachments_of<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<
    impl Iterator<Item = Result<AttachmentRow<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    of_owner(tx, Owner::Document(id.lower_cased()))
}

/// The attachments that the revision of that etag holds, in the order of their lower-cased names.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn attachments_of_revision<'t, T: Transaction>(
    tx: &'t T,
    revision: Etag,
) -> Result<
    impl Iterator<Item = Result<AttachmentRow<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    of_owner(tx, Owner::Revision(revision))
}

pub(super) fn of_owner<'t, T: Transaction>(
    tx: &'t T,
    owner: Owner<'_>,
) -> Result<
    impl Iterator<Item = Result<AttachmentRow<'t>, DocumentError>> + use<'t, T>,
    DocumentError,
> {
    let prefix = owner.prefix();
    let rows = tx.table(&ATTACHMENTS).range(Bound::Included(&prefix))?;
    Ok(with_prefix(rows, prefix).map(|row| row::read(row?)))
}

/// How many attachments have that content.
///
/// # Errors
/// Storage errors.
pub fn references_of(tx: &impl Transaction, hash: &ContentHash) -> Result<u64, DocumentError> {
    let mut count = 0;
    for entry in tx.tree(&tables::hashes())?.range(Bound::Included(&hash.0))? {
        if !entry?.0.starts_with(&hash.0) {
            break;
        }
        count += 1;
    }
    Ok(count)
}

/// Whether any attachment has that content.
pub(super) fn is_referenced(
    tx: &impl Transaction,
    hash: &ContentHash,
) -> Result<bool, DocumentError> {
    let first = tx.tree(&tables::hashes())?.range(Bound::Included(&hash.0))?.next().transpose()?;
    Ok(first.is_some_and(|(key, _)| key.starts_with(&hash.0)))
}

/// How many attachments and contents there are.
///
/// # Errors
/// Storage errors.
pub fn attachment_counts(tx: &impl Transaction) -> Result<AttachmentCounts, DocumentError> {
    let attachments = tx.table(&ATTACHMENTS).len()?;
    Ok(AttachmentCounts { attachments, contents: tx.table(&CONTENTS).len()? })
}
