//! Attachments that revisions hold: references to the same contents.

use model::{AttachmentName, ContentHash, DocumentId, Etag};
use storage::Transaction;

use super::{
    read::of_owner,
    row::{self, AttachmentFields, Owner},
    tables::ATTACHMENTS,
    write::NewAttachment,
};
use crate::{
    DocumentWriter,
    error::{DocumentError, corrupt},
    import::ImportedAttachment,
};

/// A copy of an attachment's row, kept while others are changed.
struct Noted {
    lower_name: String,
    name: String,
    content_type: String,
    hash: ContentHash,
    content_bytes: u64,
    etag: Etag,
}

impl DocumentWriter<'_> {
    /// Copies the document's current attachments to the revision of that etag and version.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn copy_attachments_to_revision(
        &mut self,
        lower_id: &str,
        change_vector: &str,
        revision: Etag,
    ) -> Result<(), DocumentError> {
        let rows = of_owner(self.transaction(), Owner::Document(lower_id))?;
        let rows = rows.map(|row| {
            let row = row?;
            row::write(&AttachmentFields {
                owner: Owner::Revision(revision),
                lower_name: row.lower_name(),
                name: row.name(),
                content_type: row.content_type(),
                change_vector,
                etag: row.etag(),
                content_bytes: row.content_bytes(),
                hash: row.hash(),
                generation: 0,
            })
        });
        let rows: Vec<Vec<u8>> = rows.collect::<Result<_, DocumentError>>()?;
        for mut row in rows {
            let etag = self.next_etag()?;
            row::set_etag(&mut row, etag);
            self.tx.table_mut(&ATTACHMENTS).insert_new(&row)?;
        }
        Ok(())
    }

    /// Stores the attachments of an imported revision of that etag and version; their contents are stored.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn import_attachments_of_revision(
        &mut self,
        attachments: &[(&ImportedAttachment, u64)],
        change_vector: &str,
        revision: Etag,
    ) -> Result<(), DocumentError> {
        for (ImportedAttachment { name, content_type, hash }, content_bytes) in attachments {
            let row = row::write(&AttachmentFields {
                owner: Owner::Revision(revision),
                lower_name: name.lower_cased(),
                name: name.as_str(),
                content_type,
                change_vector,
                etag: self.next_etag()?,
                content_bytes: *content_bytes,
                hash: *hash,
                generation: 0,
            })?;
            self.tx.table_mut(&ATTACHMENTS).insert(&row)?;
        }
        Ok(())
    }

    /// Removes the attachments of the revision of that etag.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn remove_attachments_of_revision(
        &mut self,
        revision: Etag,
    ) -> Result<(), DocumentError> {
        if self.transaction().table(&ATTACHMENTS).is_empty()? {
            return Ok(());
        }
        let rows = of_owner(self.transaction(), Owner::Revision(revision))?;
        let rows = rows.map(|row| row.map(|row| (row.primary_key().to_vec(), row.hash())));
        for (key, hash) in rows.collect::<Result<Vec<_>, DocumentError>>()? {
            self.tx.table_mut(&ATTACHMENTS).delete(&key)?;
            self.release(&hash)?;
        }
        Ok(())
    }

    /// Restores exactly the attachments that one of the document's revisions has.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn restore_attachments_of_revision(
        &mut self,
        id: &DocumentId,
        revision: Etag,
    ) -> Result<(), DocumentError> {
        if self.transaction().table(&ATTACHMENTS).is_empty()? {
            return Ok(());
        }
        let wanted = self.noted(Owner::Revision(revision))?;
        let present = self.noted(Owner::Document(id.lower_cased()))?;
        if wanted.is_empty() && present.is_empty() {
            return Ok(());
        }
        self.touched.add(id);
        for present in &present {
            if !wanted.iter().any(|wanted| wanted.lower_name == present.lower_name) {
                let (lower_name, etag) = (&present.lower_name, present.etag);
                self.remove_attachment(id.lower_cased(), lower_name, etag, &present.hash)?;
            }
        }
        for wanted in &wanted {
            let replaced = present.iter().find(|present| present.lower_name == wanted.lower_name);
            if replaced.is_some_and(|replaced| replaced.is_same_as(wanted)) {
                continue;
            }
            let name = AttachmentName::new(wanted.name.as_str());
            let name = name.map_err(|_| corrupt("a revision's attachment has no name"))?;
            let new = NewAttachment {
                content_type: &wanted.content_type,
                hash: wanted.hash,
                content_bytes: wanted.content_bytes,
            };
            self.write_attachment(id, &name, &new, replaced.map(|replaced| replaced.hash))?;
        }
        Ok(())
    }

    fn noted(&self, owner: Owner<'_>) -> Result<Vec<Noted>, DocumentError> {
        let rows = of_owner(self.transaction(), owner)?.map(|row| {
            let row = row?;
            Ok(Noted {
                lower_name: row.lower_name().to_owned(),
                name: row.name().to_owned(),
                content_type: row.content_type().to_owned(),
                hash: row.hash(),
                content_bytes: row.content_bytes(),
                etag: row.etag(),
            })
        });
        rows.collect()
    }
}

impl Noted {
    fn is_same_as(&self, other: &Noted) -> bool {
        self.hash == other.hash
            && self.content_type == other.content_type
            && self.name == other.name
    }
}
