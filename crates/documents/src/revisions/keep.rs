//! The revisions that a put and a delete create, and the limits that remove them.
//!
//! A new version and its revision are created together, so the newest revision equals the current
//! document. A document that was written before revisions were enabled gets an additional one for
//! its old version.

use blittable::{BlittableBuf, Document, ObjectBuilder, Value, equal};
use model::{CollectionName, DocumentFlags, DocumentId, Etag, RevisionsRule};
use storage::Transaction;

use super::{
    chain::{self, Chain},
    read::revision_by_change_vector,
    remove::Verdict,
    row::{self, RevisionFields},
    schema::REVISIONS,
};
use crate::{
    compression::body::StoredBody, counters::with_snapshot, error::DocumentError,
    metadata::METADATA, read, requests::DeletedDocument, time_series, write::DocumentWriter,
};

/// The number of revisions of a document that one write removes; later writes continue.
const REMOVED_BY_WRITE_MAX: u64 = 4096;

/// A version that is about to be stored.
pub(crate) struct NewVersion<'a> {
    pub(crate) id: &'a DocumentId,
    pub(crate) change_vector: &'a str,
    pub(crate) collection: &'a CollectionName,
    pub(crate) collection_number: u32,
    /// Its flags without those of revisions.
    pub(crate) flags: DocumentFlags,
    pub(crate) body: Document<'a>,
    /// Whether the document is new.
    pub(crate) is_new: bool,
}

/// A document that is about to be deleted.
pub(crate) struct OldVersion {
    rule: Option<RevisionsRule>,
    collection_number: u32,
    flags: DocumentFlags,
    /// Its row, if it was written before revisions were enabled.
    unversioned: Option<Vec<u8>>,
}

impl DocumentWriter<'_> {
    /// Creates the revision that the rules require of a version about to be stored; returns its
    /// flags.
    pub(crate) fn revise_put(
        &mut self,
        new: &NewVersion<'_>,
    ) -> Result<DocumentFlags, DocumentError> {
        let mut flags = self.flags_with_revisions(new)?;
        let rule = self.context.revisions.rule_of(new.collection);
        // An index's output can be recomputed, so it has no history.
        let is_artificial = flags.contains(DocumentFlags::ARTIFICIAL);
        let rule = rule.filter(|rule| !rule.is_disabled && !is_artificial);
        let Some(rule) = rule else { return Ok(flags) };
        if !new.is_new && !self.keep_replaced(new)? {
            return Ok(flags);
        }
        flags |= DocumentFlags::HAS_REVISIONS;
        let fields = RevisionFields {
            lower_id: new.id.lower_cased(),
            id: new.id.as_str(),
            change_vector: new.change_vector,
            flags: flags | DocumentFlags::REVISION,
            collection_number: new.collection_number,
            last_modified_ticks: self.now_ticks(),
        };
        self.add_revision(&fields, new.body.as_bytes())?;
        let left = self.apply_limits(new.id.lower_cased(), rule)?;
        let lost = if left == 0 { DocumentFlags::HAS_REVISIONS } else { DocumentFlags::NONE };
        Ok(flags.without(lost))
    }

    /// The flags of a version about to be stored, with that of revisions that its document has.
    pub(crate) fn flags_with_revisions(
        &mut self,
        new: &NewVersion<'_>,
    ) -> Result<DocumentFlags, DocumentError> {
        match self.has_revisions && !new.flags.contains(DocumentFlags::HAS_REVISIONS) {
            true => Ok(new.flags | self.mark_of_chain(new.id, new.is_new)?),
            false => Ok(new.flags),
        }
    }

    /// The flag of a document that has revisions unknown to its row. A new document leaves the bin.
    fn mark_of_chain(
        &mut self,
        id: &DocumentId,
        is_new: bool,
    ) -> Result<DocumentFlags, DocumentError> {
        let chain = chain::get(self.tx, id.lower_cased())?;
        if is_new && chain.deletion != Etag::ZERO {
            let alive = Chain { deletion: Etag::ZERO, ..chain };
            chain::replace(self.tx, id.lower_cased(), chain, alive)?;
        }
        let has = chain.count != 0;
        Ok(if has { DocumentFlags::HAS_REVISIONS } else { DocumentFlags::NONE })
    }

    /// Keeps the version that is replaced, if it was written before revisions were enabled. `false`
    /// when the new version has the same content, so that neither is worth keeping.
    fn keep_replaced(&mut self, new: &NewVersion<'_>) -> Result<bool, DocumentError> {
        let Some(old) = read::get(self.tx, new.id)? else { return Ok(true) };
        if has_same_content(&old.body()?, &new.body)? {
            return Ok(false);
        }
        if !old.flags().contains(DocumentFlags::HAS_REVISIONS)
            && revision_by_change_vector(self.tx, old.change_vector())?.is_none()
        {
            let row = old.to_plain()?;
            self.keep_unversioned(&row, DocumentFlags::HAS_REVISIONS)?;
        }
        Ok(true)
    }

    /// Keeps the version whose attachments are about to change, if it was written before revisions
    /// were enabled: they could not be reconstructed later.
    pub(crate) fn keep_before_change(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        if self.is_import || self.is_received || self.touched.contains(id) {
            return Ok(());
        }
        let Some(old) = read::get(self.tx, id)? else { return Ok(()) };
        let name = &self.collections.numbered(self.tx, old.collection_number())?.name;
        let rule = self.context.revisions.rule_of(name);
        let old = read::get(self.tx, id)?;
        let is_kept = rule.is_some_and(|rule| !rule.is_disabled);
        let Some(old) = old.filter(|_| is_kept) else { return Ok(()) };
        if !old.flags().contains(DocumentFlags::HAS_REVISIONS)
            && revision_by_change_vector(self.tx, old.change_vector())?.is_none()
        {
            let row = old.to_plain()?;
            self.keep_unversioned(&row, DocumentFlags::HAS_REVISIONS)?;
        }
        Ok(())
    }

    /// Creates a revision of a row that was written before revisions were enabled.
    fn keep_unversioned(
        &mut self,
        row: &[u8],
        added_flags: DocumentFlags,
    ) -> Result<(), DocumentError> {
        let old = crate::row::read_document(row, &|_| None)?;
        let fields = RevisionFields {
            lower_id: old.lower_id(),
            id: old.id(),
            change_vector: old.change_vector(),
            flags: old.flags()
                | added_flags
                | DocumentFlags::FROM_OLD_DOCUMENT_REVISION
                | DocumentFlags::REVISION,
            collection_number: old.collection_number(),
            last_modified_ticks: old.last_modified_ticks(),
        };
        self.add_revision(&fields, old.body()?.as_bytes()).map(|_| ())
    }

    /// Reads what [`DocumentWriter::revise_delete`] needs of a document that is about to be
    /// deleted.
    pub(crate) fn before_delete(&mut self, id: &DocumentId) -> Result<OldVersion, DocumentError> {
        let Some(document) = read::get(self.tx, id)? else {
            return Err(DocumentError::Corrupt { detail: "a deleted document is not there" });
        };
        let (collection_number, flags) = (document.collection_number(), document.flags());
        let name = &self.collections.numbered(self.tx, collection_number)?.name;
        let rule = self.context.revisions.rule_of(name).copied();
        let rule = rule.filter(|_| !flags.contains(DocumentFlags::ARTIFICIAL));
        let is_kept = rule.is_some_and(|rule| !rule.is_disabled && !rule.purge_on_delete);
        let unversioned = if is_kept && !flags.contains(DocumentFlags::HAS_REVISIONS) {
            Some(document.to_plain()?)
        } else {
            None
        };
        Ok(OldVersion { rule, collection_number, flags, unversioned })
    }

    /// Creates the revision that the rules require of a document that was just deleted.
    pub(crate) fn revise_delete(
        &mut self,
        deleted: &DeletedDocument,
        old: &OldVersion,
        marks: DocumentFlags,
    ) -> Result<(), DocumentError> {
        let lower_id = deleted.id.lower_cased();
        if self.is_import && self.has_imported_deletion(&deleted.id)? {
            return Ok(());
        }
        if old.rule.is_some_and(|rule| rule.purge_on_delete) {
            return self.purge(lower_id);
        }
        let is_kept = old.rule.is_some_and(|rule| !rule.is_disabled);
        if !is_kept && !old.flags.contains(DocumentFlags::HAS_REVISIONS) {
            return Ok(());
        }
        if let Some(row) = &old.unversioned {
            self.keep_unversioned(row, DocumentFlags::NONE)?;
        }
        let fields = RevisionFields {
            lower_id,
            id: deleted.id.as_str(),
            change_vector: deleted.change_vector.as_str(),
            flags: DocumentFlags::HAS_REVISIONS | DocumentFlags::DELETE_REVISION | marks,
            collection_number: old.collection_number,
            last_modified_ticks: self.now_ticks(),
        };
        self.add_revision(&fields, body_of_deletion(&deleted.collection)?.as_bytes())?;
        match &old.rule {
            Some(rule) => self.apply_limits(lower_id, rule).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Stores a revision as the newest of its document.
    pub(super) fn add_revision(
        &mut self,
        fields: &RevisionFields<'_>,
        body: &[u8],
    ) -> Result<Etag, DocumentError> {
        let etag = self.next_etag()?;
        let snapshot;
        let body = match fields.flags.contains(DocumentFlags::HAS_COUNTERS) {
            true => {
                snapshot = with_snapshot(self.tx, fields.lower_id, &Document::new(body)?)?;
                snapshot.as_bytes()
            }
            false => body,
        };
        let series;
        let body = match fields.flags.contains(DocumentFlags::HAS_TIME_SERIES) {
            true => {
                let document = Document::new(body)?;
                series = time_series::with_snapshot(self.tx, fields.lower_id, &document)?;
                series.as_bytes()
            }
            false => body,
        };
        self.put_revision_row(fields, body, etag)?;
        if fields.flags.contains(DocumentFlags::HAS_ATTACHMENTS) {
            self.copy_attachments_to_revision(fields.lower_id, fields.change_vector, etag)?;
        }
        let chain = chain::get(self.tx, fields.lower_id)?;
        let is_deletion = fields.flags.contains(DocumentFlags::DELETE_REVISION);
        let deletion = if is_deletion { etag } else { Etag::ZERO };
        let longer = Chain { count: chain.count + 1, deletion };
        chain::replace(self.tx, fields.lower_id, chain, longer)?;
        Ok(etag)
    }

    /// Stores the row of a revision, compressed if revisions are.
    pub(super) fn put_revision_row(
        &mut self,
        fields: &RevisionFields<'_>,
        body: &[u8],
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let body = match self.context.compression.rules().revisions {
            true => self.packer.pack(
                self.tx,
                self.context.compression,
                &self.collections.numbered(self.tx, fields.collection_number)?.into(),
                body,
            )?,
            false => StoredBody::Plain(body),
        };
        row::write(&mut self.row, fields, etag, body)?;
        self.tx.table_mut(&REVISIONS).insert_new(&self.row)?;
        self.has_revisions = true;
        Ok(())
    }

    /// Removes the revisions that a rule does not keep; returns how many are left.
    pub(super) fn apply_limits(
        &mut self,
        lower_id: &str,
        rule: &RevisionsRule,
    ) -> Result<u64, DocumentError> {
        let count = chain::get(self.tx, lower_id)?.count;
        let excess = match (rule.count_to_keep, rule.age_to_keep) {
            (Some(keep), _) => count.saturating_sub(keep.max(0).cast_unsigned()),
            (None, Some(_)) => count,
            (None, None) => 0,
        };
        let allowed = rule.removed_by_write_max.map_or(u64::MAX, |max| max.max(0).cast_unsigned());
        let remove_max = excess.min(allowed).min(REMOVED_BY_WRITE_MAX);
        if remove_max == 0 {
            return Ok(count);
        }
        let oldest_to_keep = rule.age_to_keep.map(|age| self.now_ticks().saturating_sub(age.ticks));
        let removed = self.remove_where(lower_id, remove_max, &mut |revision| {
            let is_old = oldest_to_keep.is_none_or(|ticks| revision.last_modified_ticks() <= ticks);
            if is_old { Verdict::Remove } else { Verdict::KeepRest }
        })?;
        Ok(count - removed)
    }
}

/// Whether there are any revisions. If not, a put need not look for them.
pub(crate) fn has_revisions(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(!tx.table(&REVISIONS).is_empty()?)
}

/// Whether two versions of a document are equal, including their own metadata. The order of
/// properties is ignored.
fn has_same_content(old: &Document<'_>, new: &Document<'_>) -> Result<bool, DocumentError> {
    if old.as_bytes() == new.as_bytes() {
        return Ok(true);
    }
    Ok(equal(&Value::Object(old.root()), &Value::Object(new.root()))?)
}

fn body_of_deletion(collection: &CollectionName) -> Result<BlittableBuf, DocumentError> {
    let mut builder = ObjectBuilder::new();
    builder.begin_object(METADATA).put("@collection", collection.as_str()).end();
    Ok(builder.finish()?)
}
