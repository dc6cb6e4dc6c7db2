//! Storing the attachments that another database has sent.
//!
//! Of two attachments of the same name that do not know each other, the one of the higher generation is kept, then the one
//! with the higher hash; the other one gets another name, so that nothing is lost. Invariant: a generation is higher than
//! that of what was replaced, so it does not matter in what order they meet.

use model::{AttachmentName, ChangeVector, Comparison, ContentHash, DocumentId, Etag};

use super::{
    content::content,
    read::{attachment, tombstone},
    requests::NewContent,
    row::{self, AttachmentFields, Owner},
    tables::{ATTACHMENT_TOMBSTONES, ATTACHMENTS},
};
use crate::{
    DocumentWriter,
    error::DocumentError,
    replicated::{ReceivedAttachment, ReceivedAttachmentTombstone},
    write::parsed,
};

/// What is stored under a name.
struct Stored {
    change_vector: ChangeVector,
    generation: u32,
    etag: Etag,
    /// `None` if it was deleted.
    live: Option<ReceivedAttachment>,
}

impl Stored {
    /// Higher ones are kept.
    fn rank(&self) -> (u32, Option<(ContentHash, &str)>) {
        (self.generation, self.live.as_ref().map(rank_of))
    }
}

fn rank_of(attachment: &ReceivedAttachment) -> (ContentHash, &str) {
    (attachment.hash, attachment.content_type.as_str())
}

impl DocumentWriter<'_> {
    pub(crate) fn receive_attachment(
        &mut self,
        received: &ReceivedAttachment,
    ) -> Result<(), DocumentError> {
        let Some(stored) = self.stored_attachment(&received.id, &received.name)? else {
            return self.store_received_attachment(received, None);
        };
        match received.change_vector.compare(&stored.change_vector) {
            Comparison::AlreadyMerged => return Ok(()),
            Comparison::Update => return self.store_received_attachment(received, Some(&stored)),
            Comparison::Conflict => {}
        }
        let change_vector = received.change_vector.join(&stored.change_vector);
        let generation = received.generation.max(stored.generation);
        let is_received_kept = stored.rank() < (received.generation, Some(rank_of(received)));
        let (kept, lost) = match (&stored.live, is_received_kept) {
            (live, true) => (Some(received), live.as_ref()),
            (Some(live), false) => (Some(live), Some(received)),
            (None, false) => (None, Some(received)),
        };
        let Some(kept) = kept else {
            return self.store_received_attachment_tombstone(
                &ReceivedAttachmentTombstone {
                    id: received.id.clone(),
                    name: received.name.clone(),
                    generation,
                    deleted_at_ticks: self.now_ticks(),
                    change_vector,
                },
                Some(&stored),
            );
        };
        let lost = lost.filter(|lost| lost.hash != kept.hash).cloned();
        let kept = ReceivedAttachment { change_vector, generation, ..kept.clone() };
        self.store_received_attachment(&kept, Some(&stored))?;
        match lost {
            Some(lost) => self.keep_lost(&lost),
            None => Ok(()),
        }
    }

    pub(crate) fn receive_attachment_tombstone(
        &mut self,
        received: &ReceivedAttachmentTombstone,
    ) -> Result<(), DocumentError> {
        let Some(stored) = self.stored_attachment(&received.id, &received.name)? else {
            return self.store_received_attachment_tombstone(received, None);
        };
        match received.change_vector.compare(&stored.change_vector) {
            Comparison::AlreadyMerged => return Ok(()),
            Comparison::Update => {
                return self.store_received_attachment_tombstone(received, Some(&stored));
            }
            Comparison::Conflict => {}
        }
        let change_vector = received.change_vector.join(&stored.change_vector);
        let generation = received.generation.max(stored.generation);
        match &stored.live {
            Some(live) if (received.generation, None) < stored.rank() => {
                let kept = ReceivedAttachment { change_vector, generation, ..live.clone() };
                self.store_received_attachment(&kept, Some(&stored))
            }
            _ => {
                let kept =
                    ReceivedAttachmentTombstone { change_vector, generation, ..received.clone() };
                self.store_received_attachment_tombstone(&kept, Some(&stored))
            }
        }
    }

    /// The attachment of a name, or its tombstone.
    fn stored_attachment(
        &self,
        id: &DocumentId,
        name: &AttachmentName,
    ) -> Result<Option<Stored>, DocumentError> {
        if let Some(row) = attachment(self.transaction(), id, name)? {
            let change_vector = parsed(row.change_vector())?;
            let written = AttachmentName::new(row.name());
            let live = ReceivedAttachment {
                id: id.clone(),
                name: written.unwrap_or_else(|_| name.clone()),
                content_type: row.content_type().to_owned(),
                hash: row.hash(),
                generation: row.generation(),
                change_vector: change_vector.clone(),
            };
            let (generation, etag) = (row.generation(), row.etag());
            return Ok(Some(Stored { change_vector, generation, etag, live: Some(live) }));
        }
        let Some(row) = tombstone(self.transaction(), id, name)? else { return Ok(None) };
        Ok(Some(Stored {
            change_vector: parsed(row.change_vector())?,
            generation: row.generation(),
            etag: row.etag(),
            live: None,
        }))
    }

    /// An attachment that has lost its name gets another one: the same at every database.
    fn keep_lost(&mut self, lost: &ReceivedAttachment) -> Result<(), DocumentError> {
        let start = &lost.hash.0[..4];
        let hash = start.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let Ok(name) = AttachmentName::new(format!("RESOLVED_#{hash}_{}", lost.name)) else {
            // It was as long as a name may be; the content stays in the revisions of its document.
            return Ok(());
        };
        if self.stored_attachment(&lost.id, &name)?.is_some() {
            return Ok(());
        }
        let etag = self.next_etag()?;
        let change_vector = self.next_version_over(etag, Some(lost.change_vector.as_str()))?;
        let renamed = ReceivedAttachment { name, change_vector, generation: 1, ..lost.clone() };
        self.store_received_attachment(&renamed, None)
    }

    fn store_received_attachment(
        &mut self,
        received: &ReceivedAttachment,
        stored: Option<&Stored>,
    ) -> Result<(), DocumentError> {
        let ReceivedAttachment { id, name, hash, .. } = received;
        self.link_received(hash)?;
        let content_bytes = self.received_content_bytes(hash)?;
        let row = row::write(&AttachmentFields {
            owner: Owner::Document(id.lower_cased()),
            lower_name: name.lower_cased(),
            name: name.as_str(),
            content_type: &received.content_type,
            change_vector: received.change_vector.as_str(),
            etag: self.next_etag()?,
            content_bytes,
            hash: *hash,
            generation: received.generation,
        })?;
        self.tx.table_mut(&ATTACHMENTS).insert(&row)?;
        self.tally.attachments.add(1, content_bytes);
        match stored.map(|stored| stored.live.as_ref()) {
            Some(Some(replaced)) if replaced.hash != *hash => self.release(&replaced.hash)?,
            Some(Some(_)) | None => {}
            Some(None) => {
                let key = Owner::Document(id.lower_cased()).key(name.lower_cased());
                self.tx.table_mut(&ATTACHMENT_TOMBSTONES).delete(&key)?;
            }
        }
        self.touched.add(id);
        Ok(())
    }

    fn store_received_attachment_tombstone(
        &mut self,
        received: &ReceivedAttachmentTombstone,
        stored: Option<&Stored>,
    ) -> Result<(), DocumentError> {
        let ReceivedAttachmentTombstone { id, name, generation, .. } = received;
        let key = Owner::Document(id.lower_cased()).key(name.lower_cased());
        let etag = self.next_etag()?;
        let deleted = stored.map_or(Etag::ZERO, |stored| stored.etag);
        let row = row::write_tombstone(&row::TombstoneFields {
            lower_id: id.lower_cased(),
            lower_name: name.lower_cased(),
            change_vector: received.change_vector.as_str(),
            deleted,
            etag,
            deleted_at_ticks: received.deleted_at_ticks,
            generation: *generation,
        })?;
        self.tx.table_mut(&ATTACHMENT_TOMBSTONES).insert(&row)?;
        if let Some(live) = stored.and_then(|stored| stored.live.as_ref()) {
            self.tx.table_mut(&ATTACHMENTS).delete(&key)?;
            self.release(&live.hash)?;
            self.touched.add(id);
        }
        Ok(())
    }

    /// Stores a content that came with the batch, if it is not stored yet.
    pub(crate) fn link_received(&mut self, hash: &ContentHash) -> Result<(), DocumentError> {
        if content(self.transaction(), hash)?.is_some() {
            return Ok(());
        }
        let staged = self.received_contents.iter().find(|content| content.hash() == hash).cloned();
        match staged {
            Some(staged) => self.link(&staged),
            None => Err(DocumentError::ContentMissing { hash: *hash }),
        }
    }

    /// The length of a content that is stored.
    pub(crate) fn received_content_bytes(&self, hash: &ContentHash) -> Result<u64, DocumentError> {
        let found = content(self.transaction(), hash)?;
        found.map(|found| found.bytes()).ok_or(DocumentError::ContentMissing { hash: *hash })
    }

    /// Discards the contents of a batch that no attachment has, and those that no attachment has any more.
    pub(crate) fn discard_received_contents(&mut self) -> Result<(), DocumentError> {
        let mut released = std::mem::take(&mut self.released_contents);
        released.sort_unstable();
        released.dedup();
        for hash in &released {
            self.release_now(hash)?;
        }
        for content in std::mem::take(&mut self.received_contents) {
            if let NewContent::Staged { number, .. } = content {
                self.discard_staged_content(number)?;
            }
        }
        Ok(())
    }
}
