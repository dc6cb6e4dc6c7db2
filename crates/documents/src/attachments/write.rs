//! Putting, deleting, copying and moving attachments.
//!
//! Every change of an attachment touches its document; see `listed`.

use model::{AttachmentName, ContentHash, DocumentId, Etag};

use super::{
    read::{attachment, of_owner, tombstone},
    requests::{
        AttachmentTransfer, CopiedAttachment, DeleteAttachment, DeletedAttachment, MovedAttachment,
        NewContent, PutAttachment, StoredAttachment,
    },
    row::{self, AttachmentFields, AttachmentRow, Owner},
    tables::{ATTACHMENT_TOMBSTONES, ATTACHMENTS},
};
use crate::{
    DocumentWriter,
    error::{DocumentError, corrupt},
    import::ImportedAttachment,
    read,
    requests::ExpectedVersion,
    write::VIOLATION,
};

/// The longest content type, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 4096;

/// The fields of a new attachment's row, except its owner.
pub(super) struct NewAttachment<'a> {
    pub(super) content_type: &'a str,
    pub(super) hash: ContentHash,
    pub(super) content_bytes: u64,
}

impl DocumentWriter<'_> {
    /// Stores an attachment of an existing document, replacing one of the same name.
    ///
    /// # Errors
    /// The caller's errors in [`DocumentError`]; storage errors. The transaction has to be rolled
    /// back then.
    pub fn put_attachment(
        &mut self,
        put: &PutAttachment,
    ) -> Result<StoredAttachment, DocumentError> {
        if put.content_type.len() > CONTENT_TYPE_BYTES_MAX {
            return Err(DocumentError::InvalidAttachment {
                message: format!(
                    "The content type of an attachment may have {CONTENT_TYPE_BYTES_MAX} bytes, and \
                     this one has {}",
                    put.content_type.len()
                ),
            });
        }
        let new = NewAttachment {
            content_type: &put.content_type,
            hash: *put.content.hash(),
            content_bytes: put.content.content_bytes(),
        };
        self.store_attachment(&put.id, &put.name, &put.expected, &new, Some(&put.content))
    }

    /// Deletes an attachment; a missing one is no error unless a version is expected.
    ///
    /// # Errors
    /// [`DocumentError::Concurrency`]; storage errors. The transaction has to be rolled back
    /// then.
    pub fn delete_attachment(
        &mut self,
        delete: &DeleteAttachment,
    ) -> Result<DeletedAttachment, DocumentError> {
        let DeleteAttachment { id, name, .. } = delete;
        let found = attachment(self.transaction(), id, name)?;
        check_delete(delete, found.as_ref())?;
        let found = found.map(|row| (row.etag(), row.hash()));
        let deleted = found.is_some();
        if let Some((etag, hash)) = found {
            self.keep_before_change(id)?;
            self.remove_attachment(id.lower_cased(), name.lower_cased(), etag, &hash)?;
            self.touched.add(id);
        }
        let (id, name) = (id.clone(), name.clone());
        Ok(DeletedAttachment { id, name, deleted, document_change_vector: None })
    }

    /// Copies the attachment to another document or another name.
    ///
    /// # Errors
    /// As for a put, and [`DocumentError::AttachmentMissing`].
    pub fn copy_attachment(
        &mut self,
        transfer: &AttachmentTransfer,
    ) -> Result<CopiedAttachment, DocumentError> {
        let AttachmentTransfer { id, name, destination_id, destination_name, .. } = transfer;
        let source = attachment(self.transaction(), id, name)?;
        let source = source.ok_or_else(|| missing(id, name))?;
        let content_type = source.content_type().to_owned();
        let new = NewAttachment {
            content_type: &content_type,
            hash: source.hash(),
            content_bytes: source.content_bytes(),
        };
        let expected = ExpectedVersion::New;
        let stored =
            self.store_attachment(destination_id, destination_name, &expected, &new, None)?;
        Ok(CopiedAttachment { stored })
    }

    /// Moves the attachment to another document or another name.
    ///
    /// # Errors
    /// As for a copy and a deletion.
    pub fn move_attachment(
        &mut self,
        transfer: &AttachmentTransfer,
    ) -> Result<MovedAttachment, DocumentError> {
        // The protocol stores the source document again before the destination.
        let AttachmentTransfer { id, name, expected, .. } = transfer;
        if attachment(self.transaction(), id, name)?.is_some() {
            self.touched.add(id);
        }
        let CopiedAttachment { stored } = self.copy_attachment(transfer)?;
        let delete =
            DeleteAttachment { id: id.clone(), name: name.clone(), expected: expected.clone() };
        let deleted = self.delete_attachment(&delete)?;
        Ok(MovedAttachment { stored, deleted })
    }

    /// Deletes all attachments of a document that is being deleted.
    pub(crate) fn delete_attachments_of(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        let rows = of_owner(self.transaction(), Owner::Document(id.lower_cased()))?;
        let rows =
            rows.map(|row| row.map(|row| (row.lower_name().to_owned(), row.etag(), row.hash())));
        for (lower_name, etag, hash) in rows.collect::<Result<Vec<_>, DocumentError>>()? {
            self.remove_attachment(id.lower_cased(), &lower_name, etag, &hash)?;
        }
        Ok(())
    }

    /// Stores an attachment of a document that is stored next, and whose content is stored.
    pub(crate) fn import_attachment(
        &mut self,
        id: &DocumentId,
        imported: &ImportedAttachment,
        content_bytes: u64,
    ) -> Result<(), DocumentError> {
        let ImportedAttachment { name, content_type, hash } = imported;
        let replaced = attachment(self.transaction(), id, name)?.map(|row| row.hash());
        let new = NewAttachment { content_type, hash: *hash, content_bytes };
        self.write_attachment(id, name, &new, replaced).map(drop)
    }

    fn store_attachment(
        &mut self,
        id: &DocumentId,
        name: &AttachmentName,
        expected: &ExpectedVersion,
        new: &NewAttachment<'_>,
        content: Option<&NewContent>,
    ) -> Result<StoredAttachment, DocumentError> {
        if read::get(self.transaction(), id)?.is_none() {
            return Err(DocumentError::DocumentMissing {
                message: format!(
                    "Document 'Cannot put attachment {name} on a non existent document '{id}'.' \
                     does not exist."
                ),
            });
        }
        let replaced = attachment(self.transaction(), id, name)?;
        check_put(id, name, expected, replaced.as_ref())?;
        let replaced = replaced.map(|row| row.hash());
        self.keep_before_change(id)?;
        if let Some(content) = content {
            self.link(content)?;
        }
        self.write_attachment(id, name, new, replaced)
    }

    /// Writes the row of an attachment whose content is stored, replacing one that had the content
    /// `replaced`.
    pub(super) fn write_attachment(
        &mut self,
        id: &DocumentId,
        name: &AttachmentName,
        new: &NewAttachment<'_>,
        replaced: Option<ContentHash>,
    ) -> Result<StoredAttachment, DocumentError> {
        let (version, generation) = self.before_attachment(id, name)?;
        let etag = self.next_etag()?;
        let change_vector = self.next_version_over(etag, version.as_deref())?;
        let row = row::write(&AttachmentFields {
            owner: Owner::Document(id.lower_cased()),
            lower_name: name.lower_cased(),
            name: name.as_str(),
            content_type: new.content_type,
            change_vector: change_vector.as_str(),
            etag,
            content_bytes: new.content_bytes,
            hash: new.hash,
            generation,
        })?;
        self.tx.table_mut(&ATTACHMENTS).insert(&row)?;
        self.tally.attachments.add(1, new.content_bytes);
        match replaced {
            Some(replaced) if replaced != new.hash => self.release(&replaced)?,
            Some(_) => {}
            None => {
                let key = Owner::Document(id.lower_cased()).key(name.lower_cased());
                self.tx.table_mut(&ATTACHMENT_TOMBSTONES).delete(&key)?;
            }
        }
        self.touched.add(id);
        Ok(StoredAttachment {
            id: id.clone(),
            name: name.clone(),
            content_type: new.content_type.to_owned(),
            hash: new.hash,
            content_bytes: new.content_bytes,
            etag,
            change_vector,
            document_change_vector: None,
        })
    }

    /// The version that a change of an attachment replaces, if it may not be in the database's change vector, and the
    /// generation of the change.
    fn before_attachment(
        &self,
        id: &DocumentId,
        name: &AttachmentName,
    ) -> Result<(Option<String>, u32), DocumentError> {
        let tx = self.transaction();
        let (version, generation) = match attachment(tx, id, name)? {
            Some(row) => (row.change_vector(), row.generation()),
            None => match tombstone(tx, id, name)? {
                Some(row) => (row.change_vector(), row.generation()),
                None => return Ok((None, 1)),
            },
        };
        let version = self.has_sources.then(|| version.to_owned());
        Ok((version, generation.saturating_add(1)))
    }

    /// Replaces an attachment by its tombstone.
    pub(super) fn remove_attachment(
        &mut self,
        lower_id: &str,
        lower_name: &str,
        deleted: Etag,
        hash: &ContentHash,
    ) -> Result<(), DocumentError> {
        let name = AttachmentName::new(lower_name);
        let name = name.map_err(|_| corrupt("an attachment has an impossible name"))?;
        let (version, generation) = self.before_attachment(&DocumentId::new(lower_id)?, &name)?;
        let etag = self.next_etag()?;
        let change_vector = self.next_version_over(etag, version.as_deref())?;
        let tombstone = row::write_tombstone(&row::TombstoneFields {
            lower_id,
            lower_name,
            change_vector: change_vector.as_str(),
            deleted,
            etag,
            deleted_at_ticks: self.now_ticks(),
            generation,
        })?;
        self.tx.table_mut(&ATTACHMENT_TOMBSTONES).insert(&tombstone)?;
        let key = Owner::Document(lower_id).key(lower_name);
        if !self.tx.table_mut(&ATTACHMENTS).delete(&key)? {
            return Err(corrupt("an attachment that was read cannot be removed"));
        }
        self.release(hash)
    }
}

fn check_put(
    id: &DocumentId,
    name: &AttachmentName,
    expected: &ExpectedVersion,
    found: Option<&AttachmentRow<'_>>,
) -> Result<(), DocumentError> {
    let Some(wanted) = expected.as_text() else { return Ok(()) };
    let actual = found.map(|row| row.change_vector());
    if actual.unwrap_or_default() == wanted {
        return Ok(());
    }
    let message = match (actual, wanted) {
        (None, wanted) => format!(
            "Attachment {name} of '{id}' does not exist, but Put was called with change vector \
             '{wanted}'. {VIOLATION}"
        ),
        (Some(actual), "") => format!(
            "Attachment {name} of '{id}' has change vector {actual}, but Put was called with \
             expecting new document. {VIOLATION}"
        ),
        (Some(actual), wanted) => format!(
            "Attachment {name} of '{id}' has change vector {actual}, but Put was called with change \
             vector {wanted}. {VIOLATION}"
        ),
    };
    Err(DocumentError::Concurrency {
        id: Some(id.to_string()),
        expected: Some(wanted.to_owned()),
        actual: actual.map(str::to_owned),
        message,
    })
}

fn check_delete(
    delete: &DeleteAttachment,
    found: Option<&AttachmentRow<'_>>,
) -> Result<(), DocumentError> {
    let DeleteAttachment { id, name, expected } = delete;
    let Some(wanted) = expected.as_text() else { return Ok(()) };
    let actual = found.map(|row| row.change_vector());
    let message = match actual {
        Some(actual) if actual == wanted => return Ok(()),
        Some(actual) => format!(
            "Attachment {name} of '{id}' has change vector '{actual}', but Delete was called with \
             change vector '{wanted}'. {VIOLATION}"
        ),
        None => format!(
            "Attachment {name} of '{id}' does not exist, but delete was called with change vector \
             '{wanted}'. {VIOLATION}"
        ),
    };
    Err(DocumentError::Concurrency {
        id: None,
        expected: Some(wanted.to_owned()),
        actual: actual.map(str::to_owned),
        message,
    })
}

fn missing(id: &DocumentId, name: &AttachmentName) -> DocumentError {
    DocumentError::AttachmentMissing {
        message: format!("There is no attachment with '{name}' name for document '{id}'."),
    }
}
