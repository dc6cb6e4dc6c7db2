//! Putting and deleting documents inside a write transaction.
//!
//! Invariant: when [`DocumentWriter::finish`] has returned, the records of the database and of its
//! collections agree with the rows. A writer that is dropped earlier, because something failed,
//! leaves them inconsistent: its caller rolls the transaction back.

pub(crate) mod delete;
mod new_id;
mod put;

use model::{
    ChangeVector, ChangeVectorEntry, CollectionName, ContentHash, DatabaseId, DocumentFlags,
    DocumentId, Etag, IdSeparator, NodeTag, RevisionsConfiguration, TRANSACTION_TAG,
};
use platform::{Entropy, Timestamp};
use storage::{WriteTransaction, invariant};

use crate::{
    attachments::{Leftovers, NewContent},
    change::{Change, NotedChanges},
    collections::OpenCollections,
    compression::{Compression, Packer},
    conflicts,
    database_record::{
        DatabaseIdentity, DatabaseProgress, database_identity, progress, write_progress,
    },
    due,
    error::{DocumentError, corrupt},
    identities,
    listed::TouchedDocuments,
    read, replicated,
    revisions::keep::has_revisions,
    row::DocumentRow,
    schema::{self, DOCUMENTS},
    transactions,
    write_tally::WriteTally,
};

/// The end of the message about an unexpected version.
pub(crate) const VIOLATION: &str = "Optimistic concurrency violation, transaction will be aborted.";

/// How a put changes the flags of a document, and its version if that was agreed on elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Marks {
    pub(crate) added: DocumentFlags,
    pub(crate) removed: DocumentFlags,
    pub(crate) change_vector: Option<ChangeVector>,
    /// Whether no revision is made of it, whatever the configuration says.
    pub(crate) is_unrevised: bool,
}

impl Marks {
    /// The stored flags and these.
    pub(crate) fn with(added: DocumentFlags) -> Self {
        Self { added, ..Self::default() }
    }
}

/// What a writer needs from outside.
#[derive(Clone, Copy)]
pub struct WriteContext<'c> {
    /// The current time, for all writes of the batch.
    pub now: Timestamp,
    /// The source of random ids.
    pub entropy: &'c dyn Entropy,
    /// Which revisions are kept.
    pub revisions: &'c RevisionsConfiguration,
    /// Which documents and revisions are compressed.
    pub compression: &'c Compression,
    /// The separator in ids that are numbered.
    pub id_separator: IdSeparator,
    /// Whether there is a change listener.
    pub notes_changes: bool,
    /// The maximum length of a document's JSON text.
    pub document_bytes_max: u64,
}

impl<'c> WriteContext<'c> {
    /// The context of a database that keeps no revisions and compresses nothing.
    pub fn new(now: Timestamp, entropy: &'c dyn Entropy) -> Self {
        Self {
            now,
            entropy,
            revisions: RevisionsConfiguration::nothing(),
            compression: Compression::nothing(),
            id_separator: IdSeparator::default(),
            notes_changes: false,
            document_bytes_max: u64::MAX,
        }
    }
}

/// Writes documents, for one batch.
pub struct DocumentWriter<'w> {
    pub(crate) tx: &'w mut WriteTransaction,
    pub(crate) context: WriteContext<'w>,
    identity: DatabaseIdentity,
    pub(crate) progress: DatabaseProgress,
    /// The last etag before this writer.
    opened_at: Etag,
    pub(crate) collections: OpenCollections,
    /// Whether there are revisions.
    pub(crate) has_revisions: bool,
    /// Whether any documents have due times.
    pub(crate) has_due: bool,
    /// Whether anything was received from other databases.
    pub(crate) has_sources: bool,
    /// Whether any document is in conflict.
    pub(crate) has_conflicts: bool,
    /// Whether versions that do not know each other are kept.
    pub(crate) keeps_conflicts: bool,
    /// Whether entries of time series stay that a received segment does not have.
    pub(crate) refuses_deletions: bool,
    /// Whether this is an import: what is added to a document makes no history of it.
    pub(crate) is_import: bool,
    /// Whether this stores what another database has sent.
    pub(crate) is_received: bool,
    /// Up to where the database had everything before.
    pub(crate) contained: ChangeVector,
    /// Contents of attachments that came with it.
    pub(crate) received_contents: Vec<NewContent>,
    /// Contents that it may have left without an attachment.
    pub(crate) released_contents: Vec<ContentHash>,
    /// Documents whose lists were changed and whose metadata is not updated yet.
    pub(crate) touched: TouchedDocuments,
    pub(crate) leftovers: Leftovers,
    pub(crate) packer: Packer,
    /// Whether something changed without taking an etag.
    has_quietly_changed: bool,
    /// The changes, for listeners.
    pub(crate) changes: NotedChanges,
    /// What was stored.
    pub(crate) tally: WriteTally,
    /// The row under construction; kept to reuse its memory.
    pub(crate) row: Vec<u8>,
}

impl<'w> DocumentWriter<'w> {
    /// A writer over a transaction of an initialized database.
    ///
    /// # Errors
    /// Storage errors; damaged records.
    pub fn open(
        tx: &'w mut WriteTransaction,
        context: WriteContext<'w>,
    ) -> Result<Self, DocumentError> {
        let identity = database_identity(tx)?;
        let progress = progress(tx)?;
        let (opened_at, has_revisions) = (progress.last_etag, has_revisions(tx)?);
        let has_due = due::times_count(tx)? != 0;
        let has_sources = replicated::has_sources(tx)?;
        let has_conflicts = has_sources && conflicts::has_conflicts(tx)?;
        Ok(Self {
            tx,
            context,
            identity,
            progress,
            opened_at,
            collections: OpenCollections::default(),
            has_revisions,
            has_due,
            has_sources,
            has_conflicts,
            keeps_conflicts: false,
            refuses_deletions: false,
            is_import: false,
            is_received: false,
            contained: ChangeVector::empty(),
            received_contents: Vec::new(),
            released_contents: Vec::new(),
            touched: TouchedDocuments::default(),
            leftovers: Leftovers::default(),
            packer: Packer::default(),
            has_quietly_changed: false,
            changes: NotedChanges::new(context.notes_changes),
            tally: WriteTally::default(),
            row: Vec::new(),
        })
    }

    /// Completes the batch: updates the lists in the metadata of touched documents, and removes
    /// unreferenced contents of attachments.
    ///
    /// # Errors
    /// A document that becomes too large; storage errors.
    pub fn settle(&mut self) -> Result<(), DocumentError> {
        self.list_in_touched_documents()?;
        self.remove_dropped()
    }

    /// Writes what the writer keeps in memory: etag, change vector and counts.
    ///
    /// # Errors
    /// Storage errors.
    pub fn finish(mut self) -> Result<Etag, DocumentError> {
        self.settle()?;
        // Every change but one takes an etag: without one there is nothing to write and nothing to
        // sync.
        invariant!(
            self.opened_at <= self.progress.last_etag,
            "etags only grow: indexes and replicas continue from the last one that they have seen"
        );
        if self.opened_at != self.progress.last_etag || self.has_quietly_changed {
            transactions::note(self.tx, self.opened_at, self.progress.last_etag)?;
            self.collections.write(self.tx)?;
            write_progress(self.tx, &self.progress)?;
        }
        Ok(self.progress.last_etag)
    }

    /// The collections in which documents were stored or deleted so far.
    pub fn changed_collections(&self) -> Vec<CollectionName> {
        self.collections.touched()
    }

    /// The separator in ids that it numbers.
    pub fn id_separator(&self) -> IdSeparator {
        self.context.id_separator
    }

    /// A document with the changes of this writer.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn get(&self, id: &DocumentId) -> Result<Option<DocumentRow<'_>>, DocumentError> {
        read::get(self.tx, id)
    }

    /// Fails if a document is in conflict, so that there is none to read.
    ///
    /// # Errors
    /// [`DocumentError::Conflict`]; storage errors; a damaged row.
    pub fn require_no_conflict(&self, id: &DocumentId) -> Result<(), DocumentError> {
        match self.has_conflicts {
            true => conflicts::require_no_conflict(self.transaction(), id),
            false => Ok(()),
        }
    }

    /// Takes the next value of an identity; the first is 1.
    ///
    /// # Errors
    /// A name that is too long; storage errors.
    pub fn next_identity(&mut self, name: &str) -> Result<i64, DocumentError> {
        identities::next(self.tx, name)
    }

    /// Sets an identity, to a smaller value only when forced; returns the resulting value.
    ///
    /// # Errors
    /// A name that is too long; storage errors.
    pub fn seed_identity(
        &mut self,
        name: &str,
        value: i64,
        force: bool,
    ) -> Result<i64, DocumentError> {
        identities::seed(self.tx, name, value, force)
    }

    /// Removes all identities: they are stored elsewhere.
    ///
    /// # Errors
    /// Storage errors.
    pub fn forget_identities(&mut self) -> Result<(), DocumentError> {
        Ok(self.tx.drop_tree(&schema::identities())?)
    }

    /// Subtracts removed tombstones of a collection; nothing else changed.
    pub(crate) fn forget_tombstones(
        &mut self,
        number: u32,
        count: u64,
    ) -> Result<(), DocumentError> {
        self.collections.forget_tombstones(self.tx, number, count)?;
        let left = self.progress.tombstones.checked_sub(count);
        self.progress.tombstones =
            left.ok_or(corrupt("there are fewer tombstones than are removed"))?;
        self.has_quietly_changed = true;
        Ok(())
    }

    pub(crate) fn transaction(&self) -> &WriteTransaction {
        self.tx
    }

    pub(crate) fn now_ticks(&self) -> i64 {
        self.context.now.ticks()
    }

    pub(crate) fn node_tag(&self) -> NodeTag {
        self.identity.node_tag
    }

    pub(crate) fn database_id(&self) -> DatabaseId {
        self.identity.database_id
    }

    /// The etag of the last change, and the database's change vector after it.
    pub(crate) fn last_change(&self) -> (Etag, &ChangeVector) {
        (self.progress.last_etag, &self.progress.change_vector)
    }

    /// The numbers of the collections that need a dictionary.
    pub fn wanted_dictionaries(&self) -> Vec<u32> {
        self.packer.wanted().to_vec()
    }

    pub(crate) fn next_etag(&mut self) -> Result<Etag, DocumentError> {
        let etag = self.progress.last_etag.next();
        let etag = etag.ok_or(corrupt("no etag is left"))?;
        self.progress.last_etag = etag;
        Ok(etag)
    }

    /// The version of a local write: everything that the database contains, and this write.
    pub(crate) fn next_change_vector(&mut self, etag: Etag) -> ChangeVector {
        let DatabaseIdentity { database_id, node_tag } = self.identity;
        let own = ChangeVectorEntry { tag: node_tag, etag, database_id };
        self.progress.change_vector = self.progress.change_vector.with(own);
        self.progress.change_vector.clone()
    }

    /// The version of a local write that replaces this one. What was received may have versions that the database's change
    /// vector does not contain yet.
    pub(crate) fn next_version_over(
        &mut self,
        etag: Etag,
        replaced: Option<&str>,
    ) -> Result<ChangeVector, DocumentError> {
        let version = self.next_change_vector(etag);
        match replaced.filter(|_| self.has_sources) {
            Some(replaced) => Ok(version.merge(&parsed(replaced)?)),
            None => Ok(version),
        }
    }

    /// The time of a write that replaces a version of that time: a version is never older than the one that it replaces,
    /// whatever the clocks of the nodes show, because the later one of two versions in conflict wins.
    pub(crate) fn time_over(&self, replaced_ticks: i64, replaced_at: Etag) -> Timestamp {
        let now = self.now_ticks();
        let is_of_this_batch = self.opened_at < replaced_at;
        let is_later =
            now < replaced_ticks || now == replaced_ticks && self.has_sources && !is_of_this_batch;
        match is_later && !self.is_import {
            true => Timestamp::from_ticks(replaced_ticks.saturating_add(1)),
            false => self.context.now,
        }
    }

    /// Something changed that takes no etag.
    pub(crate) fn note_quiet_change(&mut self) {
        self.has_quietly_changed = true;
    }

    /// Merges a version into the database's change vector; of cluster-wide transactions only the
    /// `RAFT` entry is merged.
    pub(crate) fn merge_change_vector(&mut self, version: &ChangeVector) {
        for entry in version.entries().filter(|entry| entry.tag.as_str() != TRANSACTION_TAG) {
            self.progress.change_vector = self.progress.change_vector.with(entry);
        }
    }

    /// Sets the time for the following writes; returns the previous one.
    pub(crate) fn set_now(&mut self, now: Timestamp) -> Timestamp {
        std::mem::replace(&mut self.context.now, now)
    }

    /// Takes the changes since the last call, in order; empty when there is no listener.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.take()
    }

    /// What was stored so far.
    pub fn tally(&self) -> WriteTally {
        self.tally
    }

    /// Removes a row that was just read.
    pub(crate) fn remove_row(&mut self, primary_key: &[u8]) -> Result<(), DocumentError> {
        match self.tx.table_mut(&DOCUMENTS).delete(primary_key)? {
            true => Ok(()),
            false => Err(corrupt("a row that was read cannot be removed")),
        }
    }
}

/// The change vector of a stored row.
pub(crate) fn parsed(change_vector: &str) -> Result<ChangeVector, DocumentError> {
    change_vector.parse().map_err(|_| corrupt("a row has an impossible change vector"))
}
