//! Reverting a document to a moment or to one of its revisions.

use blittable::BlittableBuf;
use model::{DocumentFlags, DocumentId, Etag};

use super::{
    chain,
    read::{oldest_first, revision_at, revision_by_change_vector, revisions_newest_first},
    row::RevisionRow,
};
use crate::{
    counters::without_snapshot,
    error::DocumentError,
    requests::{ExpectedVersion, RequestedId},
    time_series,
    write::{DocumentWriter, Marks},
};

/// The result of reverting a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reversion {
    /// The document already had that content.
    Unchanged,
    /// The document has its old content again; it may have been deleted.
    Reverted,
    /// The old content is no longer kept. The document has the content of its oldest revision.
    RevertedToOldest {
        /// The number of revisions kept of a document.
        count_to_keep: i64,
    },
}

/// The content to restore.
enum Target {
    /// That of a revision.
    Body {
        body: BlittableBuf,
        /// Its etag.
        revision: Etag,
        collection_number: u32,
    },
    Deleted,
}

impl DocumentWriter<'_> {
    /// Reverts a document to its content at a moment, as a new version.
    ///
    /// # Errors
    /// Storage errors; damaged rows.
    pub fn revert_document(
        &mut self,
        id: &DocumentId,
        ticks: i64,
    ) -> Result<Reversion, DocumentError> {
        let Some(newest) = revisions_newest_first(self.tx, id)?.next().transpose()? else {
            return Ok(Reversion::Unchanged);
        };
        if newest.last_modified_ticks() <= ticks {
            return Ok(Reversion::Unchanged);
        }
        if let Some(revision) = revision_at(self.tx, id, ticks)? {
            let target = target_of(&revision)?;
            return self.become_again(id, target);
        }
        let keep = self.rule_of_newest(id)?.and_then(|rule| rule.count_to_keep);
        let count = chain::get(self.tx, id.lower_cased())?.count;
        match keep.filter(|keep| keep.max(&0).cast_unsigned() <= count) {
            // No older revision was removed, so the document did not exist yet.
            None => self.become_again(id, Target::Deleted),
            Some(count_to_keep) => {
                let oldest = oldest_first(self.tx, id.lower_cased())?.next().transpose()?;
                let target = oldest.map_or(Ok(Target::Deleted), |oldest| target_of(&oldest))?;
                self.become_again(id, target)?;
                Ok(Reversion::RevertedToOldest { count_to_keep })
            }
        }
    }

    /// Reverts a document to one of its revisions, as a new version.
    ///
    /// # Errors
    /// [`DocumentError::DocumentMissing`] when the document has no such revision; storage errors;
    /// damaged rows.
    pub fn restore_revision(
        &mut self,
        id: &DocumentId,
        change_vector: &str,
    ) -> Result<Reversion, DocumentError> {
        let target = match revision_by_change_vector(self.tx, change_vector)? {
            Some(found) if found.lower_id() == id.lower_cased() => target_of(&found)?,
            Some(_) | None => {
                let message =
                    format!("Revision with the cv \"{change_vector}\" doesn't exist (id: '{id}')");
                return Err(DocumentError::DocumentMissing { message });
            }
        };
        self.become_again(id, target)
    }

    fn become_again(
        &mut self,
        id: &DocumentId,
        target: Target,
    ) -> Result<Reversion, DocumentError> {
        let (any, mark) = (ExpectedVersion::Any, DocumentFlags::REVERTED);
        let is_changed = match target {
            Target::Body { body, revision, collection_number } => {
                self.restore_attachments_of_revision(id, revision)?;
                self.restore_counters_of_revision(id, collection_number, &body.as_view())?;
                let body = without_snapshot(&body.as_view())?;
                let body = time_series::without_snapshot(&body.as_view())?;
                let id = RequestedId::Exactly(id.clone());
                self.put_marked(&id, &any, &body, Marks::with(mark))?;
                true
            }
            Target::Deleted => self.delete_marked(id, &any, mark)?.is_some(),
        };
        Ok(if is_changed { Reversion::Reverted } else { Reversion::Unchanged })
    }
}

fn target_of(revision: &RevisionRow<'_>) -> Result<Target, DocumentError> {
    if revision.is_deletion() {
        return Ok(Target::Deleted);
    }
    Ok(Target::Body {
        body: revision.body()?.to_buf(),
        revision: revision.etag(),
        collection_number: revision.collection_number(),
    })
}
