//! Documents and their deletions.

use std::cmp::Ordering;

use blittable::BlittableBuf;
use model::{ChangeVector, CollectionName, Comparison, DocumentFlags, DocumentId, Etag};
use platform::Timestamp;

use super::{
    item::ReceivedVersion,
    rank::{Ranked, without_lists},
};
use crate::{
    cluster_documents::ClusterDocument,
    conflicts::conflicts_of,
    error::DocumentError,
    listed::{LISTING_FLAGS, listed},
    metadata, read,
    requests::DeletedDocument,
    revisions::keep::NewVersion,
    row::{self, RowFields},
    schema::DOCUMENTS,
    write::{DocumentWriter, delete::Gone, parsed},
};

/// Flags of a version that every database keeps.
const KEPT_FLAGS: DocumentFlags = DocumentFlags::ARTIFICIAL
    .with(DocumentFlags::FROM_INDEX)
    .with(DocumentFlags::RESOLVED)
    .with(DocumentFlags::FROM_CLUSTER_TRANSACTION)
    .with(DocumentFlags::REVERTED)
    .with(DocumentFlags::ARCHIVED);

/// What is stored under an id.
#[derive(Clone)]
pub(super) struct StoredVersion {
    id: DocumentId,
    change_vector: ChangeVector,
    last_modified_ticks: i64,
    flags: DocumentFlags,
    collection_number: u32,
    etag: Etag,
    /// Without its lists; `None` if it was deleted.
    body: Option<BlittableBuf>,
}

impl StoredVersion {
    fn as_received(&self, collection: CollectionName) -> ReceivedVersion {
        ReceivedVersion {
            id: self.id.clone(),
            change_vector: self.change_vector.clone(),
            last_modified_ticks: self.last_modified_ticks,
            flags: self.flags,
            collection,
            body: self.body.clone(),
        }
    }
}

impl DocumentWriter<'_> {
    pub(super) fn receive_version(
        &mut self,
        received: &ReceivedVersion,
    ) -> Result<(), DocumentError> {
        if self.has_conflicts && self.receive_into_conflict(received)? {
            return Ok(());
        }
        let Some(stored) = self.stored_version(&received.id)? else {
            return self.store_received(received, None);
        };
        match received.change_vector.compare(&stored.change_vector) {
            Comparison::AlreadyMerged => Ok(()),
            Comparison::Update => self.store_received(received, Some(&stored)),
            Comparison::Conflict => self.resolve(received, &stored),
        }
    }

    /// Executes a change of a cluster-wide transaction if the document was written at the same time, on a node that did not
    /// know of the transaction; returns whether it was. The transaction is above that, as where they meet by replication,
    /// and what it replaces becomes a revision.
    pub(crate) fn put_over_concurrent(
        &mut self,
        change: &ClusterDocument,
        ticks: i64,
    ) -> Result<bool, DocumentError> {
        let Some(replaces) = &change.replaces else { return Ok(false) };
        let Some(stored) = self.stored_version(&change.id)? else { return Ok(false) };
        if !stored.change_vector.has_writes_beyond(replaces) {
            return Ok(false);
        }
        // All versions in conflict are replaced by what is put. A deletion among them is also the tombstone of the document.
        if self.has_conflicts && !conflicts_of(self.transaction(), &change.id)?.is_empty() {
            return Ok(false);
        }
        let collection = match &change.body {
            Some(body) => metadata::accept(body, None, change.id.as_str(), ticks)?.collection,
            None => self.collections.numbered(self.tx, stored.collection_number)?.name.clone(),
        };
        let version = ReceivedVersion {
            id: change.id.clone(),
            change_vector: change.change_vector.clone(),
            last_modified_ticks: ticks,
            flags: DocumentFlags::FROM_CLUSTER_TRANSACTION,
            collection,
            body: change.body.clone(),
        };
        let keeps_conflicts = std::mem::replace(&mut self.keeps_conflicts, false);
        let resolved = self.resolve(&version, &stored);
        self.keeps_conflicts = keeps_conflicts;
        resolved.map(|()| true)
    }

    /// The document of an id, or its tombstone.
    fn stored_version(&self, id: &DocumentId) -> Result<Option<StoredVersion>, DocumentError> {
        if let Some(row) = read::get(self.transaction(), id)? {
            return Ok(Some(StoredVersion {
                id: DocumentId::new(row.id())?,
                change_vector: parsed(row.change_vector())?,
                last_modified_ticks: row.last_modified_ticks(),
                flags: row.flags(),
                collection_number: row.collection_number(),
                etag: row.etag(),
                body: Some(without_lists(&row.body()?)?),
            }));
        }
        let Some(row) = read::get_tombstone(self.transaction(), id)? else { return Ok(None) };
        Ok(Some(StoredVersion {
            id: DocumentId::new(row.id())?,
            change_vector: parsed(row.change_vector())?,
            last_modified_ticks: row.last_modified_ticks(),
            flags: row.flags(),
            collection_number: row.collection_number(),
            etag: row.etag(),
            body: None,
        }))
    }

    /// Keeps the higher one of two versions that do not know each other.
    fn resolve(
        &mut self,
        received: &ReceivedVersion,
        stored: &StoredVersion,
    ) -> Result<(), DocumentError> {
        let number = stored.collection_number;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        let received_body =
            received.body.as_ref().map(|body| without_lists(&body.as_view())).transpose()?;
        let (one, other) = (
            Ranked {
                change_vector: &received.change_vector,
                last_modified_ticks: received.last_modified_ticks,
                collection: received.collection.as_str(),
                body: received_body.as_ref(),
            },
            Ranked {
                change_vector: &stored.change_vector,
                last_modified_ticks: stored.last_modified_ticks,
                collection: collection.as_str(),
                body: stored.body.as_ref(),
            },
        );
        let is_same = one.has_same_content(&other)?;
        if self.keeps_conflicts && !one.is_numbering() {
            return self.keep_both(received, stored, collection);
        }
        let is_received_kept = one.compare(&other)? == Ordering::Greater;
        let is_resolved =
            !is_same || (received.flags | stored.flags).contains(DocumentFlags::RESOLVED);
        let mark = if is_resolved { DocumentFlags::RESOLVED } else { DocumentFlags::NONE };
        let change_vector = received.change_vector.join(&stored.change_vector);
        let kept = match is_received_kept {
            true => {
                ReceivedVersion { change_vector, flags: received.flags | mark, ..received.clone() }
            }
            false => ReceivedVersion {
                id: stored.id.clone(),
                change_vector,
                last_modified_ticks: stored.last_modified_ticks,
                flags: stored.flags | mark,
                collection: collection.clone(),
                body: stored.body.clone(),
            },
        };
        let kept_collection = collection;
        if is_same {
            return self.store_received(&kept, Some(stored));
        }
        // In the order in which their revisions are: the one that is kept is the latest.
        let (lost, lost_body) = match is_received_kept {
            true => (stored.as_received(kept_collection), stored.body.as_ref()),
            false => (received.clone(), received_body.as_ref()),
        };
        if let Some(body) = lost_body {
            self.keep_of_conflict(&lost, body.as_bytes(), DocumentFlags::CONFLICTED)?;
        }
        self.store_received(&kept, Some(stored))?;
        let kept_body = if is_received_kept { &received_body } else { &stored.body };
        match kept_body {
            Some(body) => self.keep_of_conflict(&kept, body.as_bytes(), DocumentFlags::RESOLVED),
            None => Ok(()),
        }
    }

    /// Keeps both versions until somebody resolves the conflict.
    fn keep_both(
        &mut self,
        received: &ReceivedVersion,
        stored: &StoredVersion,
        collection: CollectionName,
    ) -> Result<(), DocumentError> {
        let kept = stored.as_received(collection);
        if stored.body.is_some() {
            // Readers of the log are to see that there is no document any more; others have it as it was.
            let flags = stored.flags | DocumentFlags::CONFLICTED;
            let gone = StoredVersion { flags, ..stored.clone() };
            let etag = self.next_etag()?;
            let deleted = self.bury(&gone, stored.change_vector.clone(), etag)?;
            self.note_delete(&kept.id, &deleted.collection, None);
        }
        self.has_conflicts = true;
        self.begin_conflict(received, &kept)
    }

    /// Stores a version over a conflict whose versions are gone. `etag` was taken for it: what is written here has it in its
    /// change vector.
    pub(crate) fn store_over_conflict(
        &mut self,
        version: &ReceivedVersion,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let stored = self.stored_version(&version.id)?;
        self.store_at(version, stored.as_ref(), etag)
    }

    /// Stores a version in the place of another one.
    fn store_received(
        &mut self,
        version: &ReceivedVersion,
        stored: Option<&StoredVersion>,
    ) -> Result<(), DocumentError> {
        let etag = self.next_etag()?;
        self.store_at(version, stored, etag)
    }

    fn store_at(
        &mut self,
        version: &ReceivedVersion,
        stored: Option<&StoredVersion>,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let now = self.set_now(Timestamp::from_ticks(version.last_modified_ticks));
        match &version.body {
            Some(body) => self.store_received_document(version, body, (stored, etag))?,
            None => self.store_received_deletion(version, stored, etag)?,
        }
        self.set_now(now);
        Ok(())
    }

    fn store_received_document(
        &mut self,
        version: &ReceivedVersion,
        body: &BlittableBuf,
        (stored, etag): (Option<&StoredVersion>, Etag),
    ) -> Result<(), DocumentError> {
        let id = &version.id;
        let collection =
            self.collections.named(self.tx, &version.collection, &mut self.progress)?;
        let (number, collection) = (collection.number, collection.name.clone());
        let mut live = stored.filter(|stored| stored.body.is_some());
        if let Some(other) = live.filter(|live| live.collection_number != number) {
            let moved_at = self.next_etag()?;
            self.bury(other, other.change_vector.clone(), moved_at)?;
            live = None;
        }
        let kept = version.flags.without(version.flags.without(KEPT_FLAGS));
        let kinds = LISTING_FLAGS
            | match kept.contains(DocumentFlags::ARCHIVED) {
                true => DocumentFlags::ARCHIVED,
                false => DocumentFlags::NONE,
            };
        let listed = listed(self.tx, id.lower_cased(), kinds)?;
        let accepted =
            metadata::accept(body, listed.lists.as_ref(), id.as_str(), self.now_ticks())?;
        match live {
            Some(_) => self.collections.count(self.tx, number, 0, 0)?,
            None => drop(self.count_new(id, number)?),
        }
        let has_revisions = live.map_or(DocumentFlags::NONE, |live| live.flags);
        let has_revisions = match has_revisions.contains(DocumentFlags::HAS_REVISIONS) {
            true => DocumentFlags::HAS_REVISIONS,
            false => DocumentFlags::NONE,
        };
        let new = NewVersion {
            id,
            change_vector: version.change_vector.as_str(),
            collection: &collection,
            collection_number: number,
            flags: kept | listed.flags | has_revisions | DocumentFlags::FROM_REPLICATION,
            body: accepted.body.as_view(),
            is_new: live.is_none(),
        };
        // A sender that keeps revisions sends them, too.
        let flags = match version.flags.contains(DocumentFlags::HAS_REVISIONS) {
            true => self.flags_with_revisions(&new)?,
            false => self.revise_put(&new)?,
        };
        self.store_version(&new, flags, etag)?;
        self.touched.remove(id);
        if listed.flags.contains(DocumentFlags::HAS_COUNTERS) {
            self.move_counters(id, number)?;
        }
        if listed.flags.contains(DocumentFlags::HAS_TIME_SERIES) {
            self.move_time_series(id, number)?;
        }
        Ok(())
    }

    fn store_received_deletion(
        &mut self,
        version: &ReceivedVersion,
        stored: Option<&StoredVersion>,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let id = &version.id;
        if let Some(live) = stored.filter(|stored| stored.body.is_some()) {
            let deleted = self.bury(live, version.change_vector.clone(), etag)?;
            let change_vector = Some(version.change_vector.as_str());
            self.note_delete(id, &deleted.collection, change_vector);
            return Ok(());
        }
        let number =
            self.collections.named(self.tx, &version.collection, &mut self.progress)?.number;
        if let Some(other) = stored {
            self.remove_row(&row::tombstone_key(id.lower_cased()))?;
            self.collections.count(self.tx, other.collection_number, 0, -1)?;
            self.progress.tombstones -= 1;
        }
        let fields = RowFields {
            lower_id: id.lower_cased(),
            id: id.as_str(),
            change_vector: version.change_vector.as_str(),
            flags: version.flags.without(LISTING_FLAGS),
            collection_number: number,
            etag,
            last_modified_ticks: version.last_modified_ticks,
        };
        row::write_tombstone(&mut self.row, &fields, Etag::ZERO)?;
        self.tx.table_mut(&DOCUMENTS).insert_new(&self.row)?;
        self.collections.count(self.tx, number, 0, 1)?;
        self.progress.tombstones += 1;
        // It may have been in this collection before it was in another one.
        let earlier = row::moved_key(id.lower_cased(), number);
        if self.tx.table_mut(&DOCUMENTS).delete(&earlier)? {
            self.uncount_tombstone(number)?;
        }
        Ok(())
    }

    /// Replaces a document by a tombstone of this version. What belonged to the document is deleted by changes of its own.
    fn bury(
        &mut self,
        live: &StoredVersion,
        change_vector: ChangeVector,
        etag: Etag,
    ) -> Result<DeletedDocument, DocumentError> {
        let StoredVersion { collection_number: number, flags, etag: deleted, .. } = *live;
        let gone = Gone { number, flags, deleted, etag };
        self.replace_with_tombstone(live.id.clone(), &gone, change_vector)
    }
}
