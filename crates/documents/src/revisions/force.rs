//! Revisions that a client requests, regardless of the configuration.

use model::{DocumentFlags, DocumentId};

use super::{read::revision_by_change_vector, row::RevisionFields};
use crate::{
    error::DocumentError,
    read,
    requests::StoredDocument,
    row::{self, RowFields},
    schema::DOCUMENTS,
    write::DocumentWriter,
};

/// The version of a document that a client wants to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisedVersion {
    /// The stored one, which remains.
    Current,
    /// The stored one, which the next write replaces.
    BeforeReplacing,
}

impl DocumentWriter<'_> {
    /// Creates a revision of a stored document; returns the resulting document. `None` when that
    /// version already has a revision.
    ///
    /// # Errors
    /// [`DocumentError::NothingToRevise`]; storage errors.
    pub fn force_revision(
        &mut self,
        id: &DocumentId,
        version: RevisedVersion,
    ) -> Result<Option<StoredDocument>, DocumentError> {
        // The version with the lists that the batch has changed so far.
        self.list_in_touched_documents()?;
        let Some(document) = read::get(self.tx, id)? else {
            return Err(nothing_to_revise(id, version));
        };
        if revision_by_change_vector(self.tx, document.change_vector())?.is_some() {
            return Ok(None);
        }
        let mut row = document.to_plain()?;
        let flags = document.flags() | DocumentFlags::HAS_REVISIONS;
        if version == RevisedVersion::Current && flags != document.flags() {
            self.rewrite(&row, flags)?;
            row = read::get(self.tx, id)?
                .ok_or_else(|| nothing_to_revise(id, version))?
                .to_plain()?;
        }
        let document = row::read_document(&row, &|_| None)?;
        let number = document.collection_number();
        let fields = RevisionFields {
            lower_id: document.lower_id(),
            id: document.id(),
            change_vector: document.change_vector(),
            flags: flags | DocumentFlags::REVISION | DocumentFlags::FORCE_CREATED,
            collection_number: number,
            last_modified_ticks: document.last_modified_ticks(),
        };
        self.add_revision(&fields, document.body()?.as_bytes())?;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        let rule = self.context.revisions.rule_of(&collection);
        if let Some(rule) = rule.filter(|rule| !rule.is_disabled) {
            self.apply_limits(document.lower_id(), rule)?;
        }
        Ok(Some(StoredDocument {
            id: DocumentId::new(document.id())?,
            etag: document.etag(),
            change_vector: parsed(document.change_vector())?,
            collection,
            last_modified_ticks: document.last_modified_ticks(),
            flags: document.flags(),
        }))
    }

    /// Stores a document again as it is, as a new version with other flags. `row` is its row, read
    /// in this transaction; [`DocumentWriter::row`] then holds the new one.
    pub(super) fn rewrite(
        &mut self,
        row: &[u8],
        flags: DocumentFlags,
    ) -> Result<(), DocumentError> {
        let document = row::read_document(row, &|_| None)?;
        let etag = self.next_etag()?;
        let change_vector = self.next_change_vector(etag);
        let fields = RowFields {
            lower_id: document.lower_id(),
            id: document.id(),
            change_vector: change_vector.as_str(),
            flags,
            collection_number: document.collection_number(),
            etag,
            last_modified_ticks: self.now_ticks(),
        };
        self.collections.count(self.tx, document.collection_number(), 0, 0)?;
        self.write_row(&fields, document.body()?.as_bytes())?;
        self.tx.table_mut(&DOCUMENTS).insert(&self.row)?;
        if self.changes.are_wanted() {
            let number = document.collection_number();
            let collection = self.collections.numbered(self.tx, number)?.name.clone();
            let id = DocumentId::new(document.id())?;
            self.note_put(&id, &collection, change_vector.as_str());
        }
        Ok(())
    }
}

fn parsed(change_vector: &str) -> Result<model::ChangeVector, DocumentError> {
    let parsed = change_vector.parse();
    parsed.map_err(|_| DocumentError::Corrupt { detail: "a document's change vector is damaged" })
}

fn nothing_to_revise(id: &DocumentId, version: RevisedVersion) -> DocumentError {
    let message = match version {
        RevisedVersion::Current => {
            format!("Failed to create revision for document {id} because document doesn't exits.")
        }
        RevisedVersion::BeforeReplacing => format!(
            "Can't force revision creation - the document was not saved on the server yet. \
             document: {id}."
        ),
    };
    DocumentError::NothingToRevise { message }
}
