//! Storing the revisions of a dump.
//!
//! A dump has the revisions of a document from the oldest to the newest, and each becomes the newest
//! here. One that is already there, because the document was imported before it or the dump was
//! imported before, takes its new place.

use blittable::Document;
use model::{DocumentFlags, DocumentId, Etag};

use super::{
    chain::{self, Chain},
    read::{revision_by_change_vector, revisions_newest_first},
    remove::RevisionsToRemove,
    row::RevisionFields,
};
use crate::{
    error::DocumentError,
    import::{ImportKind, Imported, ImportedVersion, flags_in},
    metadata, read,
    revisions::keep::NewVersion,
    write::DocumentWriter,
};

/// Flags of a revision in a dump that stay.
const KEPT_FLAGS: DocumentFlags = DocumentFlags::HAS_REVISIONS
    .with(DocumentFlags::REVISION)
    .with(DocumentFlags::DELETE_REVISION)
    .with(DocumentFlags::FROM_OLD_DOCUMENT_REVISION)
    .with(DocumentFlags::RESOLVED)
    .with(DocumentFlags::CONFLICTED)
    .with(DocumentFlags::FROM_CLUSTER_TRANSACTION)
    .with(DocumentFlags::REVERTED)
    .with(DocumentFlags::FORCE_CREATED)
    .with(DocumentFlags::ARCHIVED);

impl DocumentWriter<'_> {
    pub(crate) fn import_revision(
        &mut self,
        revision: &ImportedVersion,
    ) -> Result<Imported, DocumentError> {
        let ImportedVersion { id, body, .. } = revision;
        let lists = metadata::listed_in(&body.as_view())?;
        let accepted = metadata::accept(body, lists.as_ref(), id.as_str(), self.now_ticks())?;
        let collection =
            self.collections.named(self.tx, &accepted.collection, &mut self.progress)?;
        let collection_number = collection.number;
        let attachments = self.import_contents(revision)?;
        let known = match &revision.change_vector {
            Some(version) => revision_by_change_vector(self.transaction(), version.as_str())?,
            None => None,
        };
        if let Some(etag) = known.map(|known| known.etag()) {
            self.remove_revisions(id, RevisionsToRemove::One(etag))?;
        }
        let etag = self.next_etag()?;
        let change_vector = match &revision.change_vector {
            Some(given) => {
                self.merge_change_vector(given);
                given.clone()
            }
            None => self.next_change_vector(etag),
        };
        let is_deletion = revision.flags.contains(DocumentFlags::DELETE_REVISION);
        let mut flags = flags_in(KEPT_FLAGS, revision.flags) | DocumentFlags::HAS_REVISIONS;
        if !is_deletion {
            flags |= DocumentFlags::REVISION | flags_of_lists(&accepted.body.as_view())?;
        }
        let fields = RevisionFields {
            lower_id: id.lower_cased(),
            id: id.as_str(),
            change_vector: change_vector.as_str(),
            flags,
            collection_number,
            last_modified_ticks: revision.last_modified_ticks.unwrap_or(self.now_ticks()),
        };
        self.put_revision_row(&fields, accepted.body.as_bytes(), etag)?;
        // Readers of the log also follow collections.
        self.collections.count(self.tx, collection_number, 0, 0)?;
        let version = change_vector.as_str();
        self.import_attachments_of_revision(&attachments.stored, version, etag)?;
        self.add_to_chain(revision, etag)?;
        Ok(attachments.outcome(ImportKind::Revision, id))
    }

    /// Whether the revision of a deletion was imported before the deletion itself, which puts the document into the bin.
    pub(super) fn has_imported_deletion(&mut self, id: &DocumentId) -> Result<bool, DocumentError> {
        let newest = revisions_newest_first(self.transaction(), id)?.next().transpose()?;
        let deletion = newest.filter(|row| row.flags().contains(DocumentFlags::DELETE_REVISION));
        let Some(etag) = deletion.map(|row| row.etag()) else { return Ok(false) };
        let chain = chain::get(self.tx, id.lower_cased())?;
        chain::replace(self.tx, id.lower_cased(), chain, Chain { deletion: etag, ..chain })?;
        Ok(true)
    }

    fn add_to_chain(
        &mut self,
        revision: &ImportedVersion,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let id = &revision.id;
        let is_alive = read::get(self.transaction(), id)?.is_some();
        let is_deletion = revision.flags.contains(DocumentFlags::DELETE_REVISION) && !is_alive;
        let chain = chain::get(self.tx, id.lower_cased())?;
        let deletion = if is_deletion { etag } else { Etag::ZERO };
        let longer = Chain { count: chain.count + 1, deletion };
        chain::replace(self.tx, id.lower_cased(), chain, longer)?;
        if is_alive { self.mark_revised(id) } else { Ok(()) }
    }

    /// Sets the flag of a document that has revisions, unless it is set.
    pub(super) fn mark_revised(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        let Some(document) = read::get(self.transaction(), id)? else { return Ok(()) };
        let flags = document.flags();
        if flags.contains(DocumentFlags::HAS_REVISIONS) {
            return Ok(());
        }
        let id = model::DocumentId::new(document.id())?;
        let number = document.collection_number();
        let (body, version) = (document.body()?.to_buf(), document.change_vector().to_owned());
        let then = platform::Timestamp::from_ticks(document.last_modified_ticks());
        self.collections.count(self.tx, number, 0, 0)?;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        let etag = self.next_etag()?;
        let new = NewVersion {
            id: &id,
            change_vector: &version,
            collection: &collection,
            collection_number: number,
            flags,
            body: body.as_view(),
            is_new: false,
        };
        let now = self.set_now(then);
        let stored = self.store_version(&new, flags | DocumentFlags::HAS_REVISIONS, etag);
        self.set_now(now);
        stored
    }
}

/// The flags that go with what the metadata of a revision lists.
fn flags_of_lists(body: &Document<'_>) -> Result<DocumentFlags, DocumentError> {
    const FLAGS: [(&str, DocumentFlags); 5] = [
        (metadata::ATTACHMENTS, DocumentFlags::HAS_ATTACHMENTS),
        (metadata::COUNTERS, DocumentFlags::HAS_COUNTERS),
        ("@counters-snapshot", DocumentFlags::HAS_COUNTERS),
        (metadata::TIME_SERIES, DocumentFlags::HAS_TIME_SERIES),
        ("@timeseries-snapshot", DocumentFlags::HAS_TIME_SERIES),
    ];
    let mut flags = DocumentFlags::NONE;
    let Some(metadata) = body.root().get_object(metadata::METADATA)? else { return Ok(flags) };
    for (name, flag) in FLAGS {
        if metadata.contains(name)? {
            flags |= flag;
        }
    }
    Ok(flags)
}
