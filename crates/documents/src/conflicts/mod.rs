//! Documents in conflict: versions that do not know each other, kept until one is written that knows all of them.
//!
//! This happens only where the configuration says so; otherwise one of the versions is kept at once (`replicated`). While
//! a document is in conflict there is no document of its id. All its versions are here, those of deletions, too, each
//! with a place in the log, so that other databases receive all of them. Readers of the log that follow documents see a
//! tombstone with the flag `Conflicted`, which is never sent.
//!
//! What is kept is the set of those versions that no other one contains, which does not depend on the order in which they
//! arrive. Versions of the same content are kept, too: joining them would depend on that order. The node that
//! resolves conflicts makes one of them at once.
//!
//! ```text
//! tree Meta   "conflicts" -> number of documents in conflict, u64 little-endian
//! ```
//!
//! | file | what |
//! |---|---|
//! | `row` | the row of a version |
//! | `receive` | versions that arrive |
//! | `resolve` | what is written over a conflict |

mod receive;
mod resolve;
mod row;

use std::ops::Bound;

use blittable::{Document, Value};
use model::{DocumentId, Etag};
use storage::{Transaction, WriteTransaction};

pub(crate) use self::{
    resolve::KeepsLosers,
    row::{CONFLICTS, log, read},
};
pub use self::{
    resolve::{ConflictResolution, ConflictResolved},
    row::ConflictRow,
};
use crate::{
    error::{DocumentError, corrupt},
    schema::meta,
};

const CONFLICTED_DOCUMENTS: &[u8] = b"conflicts";

/// A document in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictedDocument {
    /// Its id.
    pub id: String,
    /// When the last of its versions was written, in ticks of UTC.
    pub last_modified_ticks: i64,
    /// How many versions there are.
    pub versions: usize,
}

/// Whether any document is in conflict.
///
/// # Errors
/// Storage errors.
pub fn has_conflicts(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(!tx.table(&CONFLICTS).is_empty()?)
}

/// How many documents are in conflict, and how many versions they have.
///
/// # Errors
/// Storage errors.
pub fn count_conflicts(tx: &impl Transaction) -> Result<(u64, u64), DocumentError> {
    Ok((documents_in_conflict(tx)?, tx.table(&CONFLICTS).len()?))
}

fn documents_in_conflict(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let Some(bytes) = tx.tree(&meta())?.get(CONFLICTED_DOCUMENTS)? else { return Ok(0) };
    let number = bytes.try_into().map(u64::from_le_bytes);
    number.map_err(|_| corrupt("the number of documents in conflict is damaged"))
}

fn set_documents_in_conflict(tx: &mut WriteTransaction, count: u64) -> Result<(), DocumentError> {
    tx.tree_mut(&meta())?.put(CONFLICTED_DOCUMENTS, &count.to_le_bytes())?;
    Ok(())
}

/// The versions of a document in conflict, in the order in which they were stored; none if it is in none.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn conflicts_of<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
) -> Result<Vec<ConflictRow<'t>>, DocumentError> {
    let table = tx.table(&CONFLICTS);
    if table.is_empty()? {
        return Ok(Vec::new());
    }
    let prefix = row::prefix_of(id.lower_cased().as_bytes());
    let rows = table.range(Bound::Included(&prefix))?;
    let mut versions = Vec::new();
    for entry in rows {
        let (key, bytes) = entry?;
        if !key.starts_with(&prefix) {
            break;
        }
        versions.push(read(bytes)?);
    }
    Ok(versions)
}

/// Whether two versions have the same content; a deletion has none. Bodies that cannot be read are not the same.
pub fn has_same_content(one: Option<&Document<'_>>, other: Option<&Document<'_>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            let (one, other) = (Value::Object(one.root()), Value::Object(other.root()));
            blittable::equal(&one, &other).unwrap_or(false)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The largest etag of the versions of a document; `None` if it is not in conflict.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn conflict_etag(
    tx: &impl Transaction,
    id: &DocumentId,
) -> Result<Option<Etag>, DocumentError> {
    Ok(conflicts_of(tx, id)?.last().map(ConflictRow::etag))
}

/// Fails if a document is in conflict, so that there is none to read.
///
/// # Errors
/// [`DocumentError::Conflict`]; storage errors; a damaged row.
pub fn require_no_conflict(tx: &impl Transaction, id: &DocumentId) -> Result<(), DocumentError> {
    match conflict_etag(tx, id)? {
        Some(largest_etag) => {
            Err(DocumentError::Conflict { id: id.as_str().to_owned(), largest_etag })
        }
        None => Ok(()),
    }
}

/// The documents in conflict, in the order of their lower-cased ids: those after `skip`, at most `take`.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn conflicted_documents(
    tx: &impl Transaction,
    skip: usize,
    take: usize,
) -> Result<Vec<ConflictedDocument>, DocumentError> {
    let mut documents: Vec<ConflictedDocument> = Vec::new();
    let (mut last, mut count) = (None, 0);
    for entry in tx.table(&CONFLICTS).range(Bound::Unbounded)? {
        let version = read(entry?.1)?;
        if last != Some(version.lower_id()) {
            (last, count) = (Some(version.lower_id()), count + 1);
            if skip.saturating_add(take) < count {
                break;
            }
            if skip < count {
                let (id, last_modified_ticks) = (version.id().to_owned(), i64::MIN);
                documents.push(ConflictedDocument { id, last_modified_ticks, versions: 0 });
            }
        }
        if skip < count
            && let Some(document) = documents.last_mut()
        {
            document.last_modified_ticks =
                document.last_modified_ticks.max(version.last_modified_ticks());
            document.versions += 1;
        }
    }
    Ok(documents)
}
