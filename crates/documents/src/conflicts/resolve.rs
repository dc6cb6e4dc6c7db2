//! What is written over a conflict: by a client, by another database, or by the configuration.

use blittable::BlittableBuf;
use model::{ChangeVector, DocumentFlags, DocumentId, Etag};
use storage::invariant;

use super::{
    CONFLICTS, conflicts_of, documents_in_conflict, row::ConflictRow, set_documents_in_conflict,
};
use crate::{
    error::DocumentError,
    replicated::ReceivedVersion,
    requests::{DeletedDocument, ExpectedVersion, RequestedId},
    write::{DocumentWriter, Marks},
};

/// How a conflict is resolved.
#[derive(Clone, Debug)]
pub enum ConflictResolution {
    /// All versions have the same content, which is kept.
    Same,
    /// The version that was written last is kept.
    Latest,
    /// This document is.
    Document(Box<BlittableBuf>),
    /// The document is deleted.
    Deletion,
}

/// What became of a resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictResolved {
    /// Whether the document was in conflict between the versions that the resolution was decided on.
    pub is_done: bool,
}

/// The versions that a write replaces, which are gone.
pub(crate) struct TakenConflict {
    /// Everything that they know.
    pub(crate) change_vector: ChangeVector,
    /// When the last one was written, and its place in the log.
    pub(crate) last: (i64, Etag),
    versions: Vec<ReceivedVersion>,
}

/// Whether the versions that a write replaces are kept as revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepsLosers {
    Yes,
    No,
}

impl DocumentWriter<'_> {
    /// Removes the versions of a document in conflict; `None` if it is in none.
    pub(crate) fn take_conflict(
        &mut self,
        id: &DocumentId,
        keeps: KeepsLosers,
    ) -> Result<Option<TakenConflict>, DocumentError> {
        let versions = self.versions_in_conflict(id)?;
        if versions.is_empty() {
            return Ok(None);
        }
        let rows = conflicts_of(self.transaction(), id)?;
        let etag = rows.iter().map(ConflictRow::etag).max().unwrap_or(Etag::ZERO);
        let keys: Vec<Vec<u8>> = rows.iter().map(ConflictRow::primary_key).collect();
        for key in keys {
            self.tx.table_mut(&CONFLICTS).delete(&key)?;
        }
        let count = documents_in_conflict(self.transaction())?;
        invariant!(0 < count, "a document in conflict was counted");
        set_documents_in_conflict(self.tx, count - 1)?;
        for version in &versions {
            if let Some(body) = version.body.as_ref().filter(|_| keeps == KeepsLosers::Yes) {
                self.keep_of_conflict(version, body.as_bytes(), DocumentFlags::CONFLICTED)?;
            }
        }
        let vectors = versions.iter().map(|version| &version.change_vector);
        let change_vector = vectors.fold(ChangeVector::empty(), |all, one| all.join(one));
        let ticks = versions.iter().map(|version| version.last_modified_ticks).max();
        Ok(Some(TakenConflict { change_vector, last: (ticks.unwrap_or(0), etag), versions }))
    }

    /// Deletes a document in conflict; `None` if it is in none.
    pub(crate) fn delete_conflicted(
        &mut self,
        id: &DocumentId,
    ) -> Result<Option<DeletedDocument>, DocumentError> {
        let Some(taken) = self.take_conflict(id, KeepsLosers::Yes)? else { return Ok(None) };
        let time = self.time_over(taken.last.0, taken.last.1);
        let etag = self.next_etag()?;
        let change_vector = self.next_change_vector(etag).merge(&taken.change_vector);
        let [first, ..] = taken.versions.as_slice() else { return Ok(None) };
        let (id, collection) = (first.id.clone(), first.collection.clone());
        let deletion = ReceivedVersion {
            id: id.clone(),
            change_vector: change_vector.clone(),
            last_modified_ticks: time.ticks(),
            flags: DocumentFlags::NONE,
            collection: collection.clone(),
            body: None,
        };
        self.store_over_conflict(&deletion, etag)?;
        self.note_delete(&id, &collection, Some(change_vector.as_str()));
        let number = self.collections.named(self.tx, &collection, &mut self.progress)?.number;
        self.delete_attachments_of(&id)?;
        self.delete_counters_of(&id, number)?;
        self.delete_time_series_of(&id, number)?;
        Ok(Some(DeletedDocument { id, etag, change_vector, collection }))
    }

    /// Resolves a conflict between exactly the versions of these change vectors.
    ///
    /// # Errors
    /// Those of [`DocumentWriter::put`] and [`DocumentWriter::delete`].
    pub fn resolve_conflict(
        &mut self,
        id: &DocumentId,
        versions: &[String],
        resolution: &ConflictResolution,
    ) -> Result<ConflictResolved, DocumentError> {
        let present = conflicts_of(self.transaction(), id)?;
        let mut known: Vec<&str> = present.iter().map(ConflictRow::change_vector).collect();
        let mut decided: Vec<&str> = versions.iter().map(String::as_str).collect();
        known.sort_unstable();
        decided.sort_unstable();
        if known.is_empty() || known != decided {
            return Ok(ConflictResolved { is_done: false });
        }
        let body = match resolution {
            ConflictResolution::Same => {
                self.join_conflicted(id)?;
                return Ok(ConflictResolved { is_done: true });
            }
            ConflictResolution::Latest => self.latest_of(id)?,
            ConflictResolution::Document(body) => Some(body.as_ref().clone()),
            ConflictResolution::Deletion => None,
        };
        match body {
            Some(body) => {
                let id = RequestedId::Exactly(id.clone());
                self.put_marked(&id, &ExpectedVersion::Any, &body, Marks::default())?;
            }
            None => drop(self.delete_conflicted(id)?),
        }
        Ok(ConflictResolved { is_done: true })
    }

    /// Keeps the last of versions that have the same content, as a version that knows all of them.
    fn join_conflicted(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        let Some(taken) = self.take_conflict(id, KeepsLosers::No)? else { return Ok(()) };
        let last = taken.versions.iter().max_by_key(|version| version.last_modified_ticks);
        let Some(last) = last.cloned() else { return Ok(()) };
        let etag = self.next_etag()?;
        let change_vector = self.next_change_vector(etag).merge(&taken.change_vector);
        self.store_over_conflict(&ReceivedVersion { change_vector, ..last }, etag)
    }

    /// The body of the version that ranks highest; `None` if that is a deletion.
    fn latest_of(&mut self, id: &DocumentId) -> Result<Option<BlittableBuf>, DocumentError> {
        let mut versions = self.versions_in_conflict(id)?.into_iter();
        let Some(mut latest) = versions.next() else { return Ok(None) };
        for version in versions {
            if latest.ranked().compare(&version.ranked())?.is_lt() {
                latest = version;
            }
        }
        Ok(latest.body)
    }
}
