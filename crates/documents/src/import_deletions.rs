//! Deletions that a dump records.
//!
//! What was deleted may have been created again since, and the dump has that, too. Invariant: a deletion never removes
//! anything that is newer than itself.

use model::{AttachmentName, ChangeVector, Comparison, ContentHash, CounterName, DocumentId};

use crate::{
    attachments::{DeleteAttachment, attachment},
    counters::counter,
    error::DocumentError,
    import::Imported,
    read,
    requests::ExpectedVersion,
    write::DocumentWriter,
};

/// A deletion that a dump records.
#[derive(Clone, Debug)]
pub struct ImportedDeletion {
    /// The document.
    pub id: DocumentId,
    /// The version of the deletion; `None` if the dump does not say it: then it is newer than anything.
    pub change_vector: Option<ChangeVector>,
    /// What was deleted of it.
    pub deleted: Deleted,
}

/// What was deleted.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The document.
    Document,
    /// One of its attachments.
    Attachment {
        /// Its name.
        name: AttachmentName,
        /// What identifies its content; `None` if the dump does not say it.
        hash: Option<ContentHash>,
    },
    /// One of its counters.
    Counter {
        /// Its name.
        name: CounterName,
    },
}

impl DocumentWriter<'_> {
    /// Deletes what a dump says is deleted, unless there is something newer.
    pub(crate) fn import_deletion(
        &mut self,
        deletion: &ImportedDeletion,
    ) -> Result<Imported, DocumentError> {
        let ImportedDeletion { id, change_vector, deleted } = deletion;
        match deleted {
            Deleted::Document => {
                let stored = read::get(self.transaction(), id)?;
                let version = stored.map(|row| row.change_vector().parse().ok());
                let is_newer = |version: &ChangeVector| {
                    let deletion = change_vector.as_ref();
                    deletion.is_some_and(|deletion| version.compare(deletion) == Comparison::Update)
                };
                if version.is_some_and(|version| !version.is_some_and(|v| is_newer(&v))) {
                    self.delete(id, &ExpectedVersion::Any)?;
                }
            }
            Deleted::Attachment { name, hash } => {
                let stored = attachment(self.transaction(), id, name)?.map(|row| row.hash());
                if stored.is_some_and(|stored| hash.is_none_or(|hash| hash == stored)) {
                    let (id, name) = (id.clone(), name.clone());
                    let expected = ExpectedVersion::Any;
                    self.delete_attachment(&DeleteAttachment { id, name, expected })?;
                }
            }
            Deleted::Counter { name } => {
                if self.is_counter_deleted(id, name, change_vector.as_ref())? {
                    self.delete_counter(id, name)?;
                }
            }
        }
        Ok(Imported::Stored)
    }

    /// Whether the deletion knows all that was counted.
    fn is_counter_deleted(
        &self,
        id: &DocumentId,
        name: &CounterName,
        deletion: Option<&ChangeVector>,
    ) -> Result<bool, DocumentError> {
        let Some(stored) = counter(self.transaction(), id, name)? else { return Ok(false) };
        let Some(deletion) = deletion else { return Ok(true) };
        for value in stored.values() {
            let value = value?;
            if deletion.etag_of(value.database_id) < value.etag {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
