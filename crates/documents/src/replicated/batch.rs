//! One batch, as one transaction.

use model::{ChangeVector, Etag};
use storage::HistoryPoint;

use super::{
    item::ReceivedItem,
    sources::{
        self, Source, SourceProgress, accepted_of, contained, replicated, set_replicated,
        source_progress,
    },
};
use crate::{attachments::NewContent, error::DocumentError, write::DocumentWriter};

/// A part of the log of another database: whole transactions.
#[derive(Clone, Debug)]
pub struct ReceivedBatch {
    /// The sender.
    pub source: Source,
    /// Where the batch begins: the sender has the answer that everything up to here was received.
    pub after: Etag,
    /// Where it ends.
    pub last_etag: Etag,
    /// Whether the sender is another member of the group of databases.
    pub is_member: bool,
    /// The moment in the history of the sender's files when it was read.
    pub point: Option<HistoryPoint>,
    /// The changes, without those that this database is known to have.
    pub items: Vec<ReceivedItem>,
    /// Contents of attachments in it, as far as this database does not have them.
    pub contents: Vec<NewContent>,
    /// Up to where the sender has everything, if it had nothing more when the batch was read.
    pub complete: Option<ChangeVector>,
    /// Whether nothing is deleted here because it is missing there: entries of a time series that the sender no longer has.
    pub refuses_deletions: bool,
    /// Whether versions that do not know each other are kept until somebody resolves the conflict.
    pub keeps_conflicts: bool,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Everything up to this etag of the sender was received, by this batch or by earlier ones.
    pub accepted: Etag,
    /// Up to where this database has everything now.
    pub change_vector: ChangeVector,
    /// Whether the batch was stored: it is dropped if it does not begin where the one before it has ended.
    pub is_stored: bool,
}

impl ReceivedBatch {
    /// Approximate bytes that it adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// Ids, row headers and index entries, approximately.
        const OVERHEAD_BYTES: usize = 256;
        self.items.iter().map(|item| OVERHEAD_BYTES + item.size_bytes()).sum()
    }
}

impl DocumentWriter<'_> {
    /// Stores a batch, unless it was stored before.
    ///
    /// # Errors
    /// Storage errors; a change that cannot be stored. The transaction has to be rolled back then.
    pub fn receive(&mut self, batch: &ReceivedBatch) -> Result<Received, DocumentError> {
        let source = batch.source;
        let accepted = accepted_of(self.transaction(), source.database_id)?;
        let is_next = batch.after == accepted && source.database_id != self.database_id();
        if is_next {
            (self.is_received, self.has_sources) = (true, true);
            self.keeps_conflicts = batch.keeps_conflicts;
            self.refuses_deletions = batch.refuses_deletions;
            self.contained = contained(self.transaction())?;
            self.received_contents.clone_from(&batch.contents);
            for item in &batch.items {
                self.receive_item(item)?;
            }
            self.discard_received_contents()?;
            let known = source_progress(self.transaction(), source.database_id)?;
            let is_new_member = batch.is_member && known.is_none_or(|known| !known.is_member);
            let mut replicated = replicated(self.transaction())?;
            if is_new_member {
                // What somebody else has claimed to have brought of it.
                replicated = replicated.only(|entry| entry.database_id != source.database_id);
            }
            if let Some(complete) = &batch.complete {
                self.merge_change_vector(complete);
                replicated = replicated.merge(complete);
            }
            if is_new_member || batch.complete.is_some() {
                set_replicated(self.tx, &replicated)?;
            }
            let progress = SourceProgress {
                source,
                accepted: batch.last_etag,
                point: batch.point,
                is_member: batch.is_member,
            };
            sources::set_progress(self.tx, &progress)?;
            self.note_quiet_change();
        }
        Ok(Received {
            accepted: if is_next { batch.last_etag } else { accepted },
            change_vector: contained(self.transaction())?,
            is_stored: is_next,
        })
    }

    fn receive_item(&mut self, item: &ReceivedItem) -> Result<(), DocumentError> {
        // It may have been deleted here, so long ago that nothing is left of it.
        if item.is_known_by_its_version() && self.contained.covers(item.change_vector()) {
            return Ok(());
        }
        match item {
            ReceivedItem::Version(version) => self.receive_version(version),
            ReceivedItem::Revision(revision) => self.receive_revision(revision),
            ReceivedItem::Attachment(attachment) => self.receive_attachment(attachment),
            ReceivedItem::AttachmentTombstone(tombstone) => {
                self.receive_attachment_tombstone(tombstone)
            }
            ReceivedItem::Counter(counter) => self.receive_counter(counter),
            ReceivedItem::CounterTombstone(tombstone) => self.receive_counter_tombstone(tombstone),
            ReceivedItem::Segment(segment) => self.receive_segment(segment),
            ReceivedItem::DeletedRange(range) => self.receive_deleted_range(range),
        }
    }
}
