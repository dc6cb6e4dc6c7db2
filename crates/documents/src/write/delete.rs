//! Deleting documents.

use model::{ChangeVector, CollectionName, DocumentFlags, DocumentId, Etag};

use storage::invariant;

use crate::{
    change::{Change, DocumentChange, DocumentChangeKind},
    error::{DocumentError, corrupt},
    read,
    requests::{DeletedDocument, ExpectedVersion},
    row::{self, RowFields},
    schema::DOCUMENTS,
};

use super::{DocumentWriter, VIOLATION};

/// The number of documents that a deletion by prefix looks up before it deletes them.
const PREFIX_CHUNK: usize = 1024;

/// A document that is replaced by its tombstone.
pub(crate) struct Gone {
    /// The number of its collection.
    pub(crate) number: u32,
    pub(crate) flags: DocumentFlags,
    /// Its etag.
    pub(crate) deleted: Etag,
    /// The etag of the tombstone.
    pub(crate) etag: Etag,
}

impl DocumentWriter<'_> {
    /// Deletes a document and leaves a tombstone; `None` when the document does not exist and was
    /// not expected to.
    ///
    /// # Errors
    /// [`DocumentError::Concurrency`]; storage errors. The transaction has to be rolled back
    /// then.
    pub fn delete(
        &mut self,
        id: &DocumentId,
        expected: &ExpectedVersion,
    ) -> Result<Option<DeletedDocument>, DocumentError> {
        self.delete_marked(id, expected, DocumentFlags::NONE)
    }

    /// As [`DocumentWriter::delete`], with further flags for the revision of the deletion.
    pub(crate) fn delete_marked(
        &mut self,
        id: &DocumentId,
        expected: &ExpectedVersion,
        marks: DocumentFlags,
    ) -> Result<Option<DeletedDocument>, DocumentError> {
        // Who expects a version expects a document, and there is none while it is in conflict.
        if self.has_conflicts
            && *expected == ExpectedVersion::Any
            && let Some(deleted) = self.delete_conflicted(id)?
        {
            return Ok(Some(deleted));
        }
        let Some(document) = read::get(self.tx, id)? else {
            return match expected.as_text() {
                None => self.note_deleted_before(id).map(|()| None),
                Some(expected) => Err(missing_to_delete(id, expected)),
            };
        };
        if let Some(expected) = expected.as_text()
            && document.change_vector() != expected
        {
            return Err(changed_before_delete(id, expected, document.change_vector()));
        }
        let deleted = document.etag();
        let (number, flags) = (document.collection_number(), document.flags());
        let (stored_id, requested_id) = (DocumentId::new(document.id())?, id);
        let version = self.has_sources.then(|| document.change_vector().to_owned());
        let time = self.time_over(document.last_modified_ticks(), deleted);
        let old = self.before_delete(&stored_id)?;
        let now = self.set_now(time);
        let etag = self.next_etag()?;
        let version = self.next_version_over(etag, version.as_deref())?;
        let gone = Gone { number, flags, deleted, etag };
        let deleted = self.replace_with_tombstone(stored_id, &gone, version)?;
        let change_vector = Some(deleted.change_vector.as_str());
        self.note_delete(requested_id, &deleted.collection, change_vector);
        self.revise_delete(&deleted, &old, marks)?;
        let kinds = self.kinds_to_list(&deleted.id, flags);
        if kinds.contains(DocumentFlags::HAS_ATTACHMENTS) {
            self.delete_attachments_of(&deleted.id)?;
        }
        if kinds.contains(DocumentFlags::HAS_COUNTERS) {
            self.delete_counters_of(&deleted.id, number)?;
        }
        if kinds.contains(DocumentFlags::HAS_TIME_SERIES) {
            self.delete_time_series_of(&deleted.id, number)?;
        }
        self.set_now(now);
        Ok(Some(deleted))
    }

    /// Deletes every document whose id starts with the prefix; returns their number.
    ///
    /// # Errors
    /// A prefix that is too long; those of [`DocumentWriter::delete`].
    pub fn delete_prefix(&mut self, prefix: &str) -> Result<u64, DocumentError> {
        let prefix = DocumentId::new(prefix)?;
        let mut deleted = 0;
        loop {
            let found = read::by_prefix(self.tx, prefix.lower_cased(), None)?;
            let ids = found.take(PREFIX_CHUNK).map(|row| Ok(DocumentId::new(row?.id())?));
            let ids = ids.collect::<Result<Vec<_>, DocumentError>>()?;
            for id in &ids {
                let gone = self.delete(id, &ExpectedVersion::Any)?;
                gone.ok_or(corrupt("a document is not found by its own id"))?;
            }
            deleted += ids.len() as u64;
            if ids.len() < PREFIX_CHUNK {
                return Ok(deleted);
            }
        }
    }

    /// Change listeners are also notified when the document was already deleted.
    fn note_deleted_before(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        if !self.changes.are_wanted() {
            return Ok(());
        }
        let Some(tombstone) = read::get_tombstone(self.tx, id)? else { return Ok(()) };
        let number = tombstone.collection_number();
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        self.note_delete(id, &collection, None);
        Ok(())
    }

    pub(crate) fn note_delete(
        &mut self,
        id: &DocumentId,
        collection: &CollectionName,
        change_vector: Option<&str>,
    ) {
        self.changes.note(|| {
            Change::Document(DocumentChange {
                kind: DocumentChangeKind::Delete,
                id: id.clone(),
                collection: collection.clone(),
                change_vector: change_vector.map(str::to_owned),
            })
        });
    }

    /// Replaces a live document by its tombstone.
    pub(crate) fn replace_with_tombstone(
        &mut self,
        id: DocumentId,
        gone: &Gone,
        change_vector: ChangeVector,
    ) -> Result<DeletedDocument, DocumentError> {
        let Gone { number, flags, deleted, etag } = *gone;
        let fields = RowFields {
            lower_id: id.lower_cased(),
            id: id.as_str(),
            change_vector: change_vector.as_str(),
            flags,
            collection_number: number,
            etag,
            last_modified_ticks: self.context.now.ticks(),
        };
        self.reschedule(&id, None, false)?;
        row::write_tombstone(&mut self.row, &fields, deleted)?;
        self.remove_row(&row::document_key(id.lower_cased()))?;
        self.tx.table_mut(&DOCUMENTS).insert(&self.row)?;
        self.collections.count(self.tx, number, -1, 1)?;
        invariant!(0 < self.progress.documents, "a document that is deleted was counted");
        self.progress.documents -= 1;
        self.progress.tombstones += 1;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        Ok(DeletedDocument { id, etag, change_vector, collection })
    }
}

fn missing_to_delete(id: &DocumentId, expected: &str) -> DocumentError {
    DocumentError::Concurrency {
        id: Some(id.as_str().to_owned()),
        expected: None,
        actual: None,
        message: format!(
            "Document {id} does not exist, but delete was called with change vector '{expected}'. \
             {VIOLATION}"
        ),
    }
}

fn changed_before_delete(id: &DocumentId, expected: &str, actual: &str) -> DocumentError {
    DocumentError::Concurrency {
        id: Some(id.as_str().to_owned()),
        expected: Some(expected.to_owned()),
        actual: Some(actual.to_owned()),
        message: format!(
            "Document {id} has change vector {actual}, but Delete was called with change vector \
             '{expected}'. {VIOLATION}"
        ),
    }
}
