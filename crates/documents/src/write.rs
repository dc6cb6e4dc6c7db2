//! Putting and deleting documents inside a write transaction.
//!
//! Invariant: when [`DocumentWriter::finish`] has returned, the records of the database and of its
//! collections agree with the rows. A writer that is dropped before, because something failed, leaves
//! them disagreeing: its caller rolls the transaction back.

use blittable::{BlittableBuf, Value};
use model::{
    ChangeVector, ChangeVectorEntry, CollectionName, DatabaseId, DocumentFlags, DocumentId, Etag,
    NodeTag, RevisionsConfiguration,
};
use platform::{Entropy, Timestamp};
use storage::WriteTransaction;

use crate::{
    attachments::Leftovers,
    change::{Change, DocumentChange, DocumentChangeKind, NotedChanges},
    collections::OpenCollections,
    compression::{Compression, Packer, body::StoredBody},
    database_record::{
        DatabaseIdentity, DatabaseProgress, database_identity, progress, write_progress,
    },
    due,
    error::{DocumentError, corrupt},
    identities,
    listed::{LISTING_FLAGS, TouchedDocuments, listed},
    metadata, read,
    requests::{DeletedDocument, ExpectedVersion, RequestedId, StoredDocument},
    revisions::keep::{NewVersion, has_revisions},
    row::{self, DocumentRow, RowFields},
    schema::{self, DOCUMENTS},
};

/// The tag of a cluster-wide transaction in the version of a document.
const TRANSACTION_TAG: &str = "TRXN";

/// How many documents a deletion by prefix looks up before it deletes them.
const PREFIX_CHUNK: usize = 1024;

/// Marks that say something about what else is stored for a document; a put does not take them away.
const LASTING_FLAGS: [DocumentFlags; 4] = [
    DocumentFlags::HAS_REVISIONS,
    DocumentFlags::HAS_ATTACHMENTS,
    DocumentFlags::HAS_COUNTERS,
    DocumentFlags::HAS_TIME_SERIES,
];

/// How a put changes the marks of a document, and its version where that is agreed on elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Marks {
    pub(crate) added: DocumentFlags,
    pub(crate) removed: DocumentFlags,
    pub(crate) change_vector: Option<ChangeVector>,
}

impl Marks {
    /// The stored marks and these.
    pub(crate) fn with(added: DocumentFlags) -> Self {
        Self { added, ..Self::default() }
    }
}

/// What a writer needs from outside.
#[derive(Clone, Copy)]
pub struct WriteContext<'c> {
    /// What time it is, for all writes of the batch.
    pub now: Timestamp,
    /// For random ids.
    pub entropy: &'c dyn Entropy,
    /// Which older versions are kept.
    pub revisions: &'c RevisionsConfiguration,
    /// What is compressed.
    pub compression: &'c Compression,
    /// Whether somebody wants to be told of every change.
    pub notes_changes: bool,
}

impl<'c> WriteContext<'c> {
    /// The context of a database that keeps no older versions and compresses nothing.
    pub fn new(now: Timestamp, entropy: &'c dyn Entropy) -> Self {
        Self {
            now,
            entropy,
            revisions: RevisionsConfiguration::nothing(),
            compression: Compression::nothing(),
            notes_changes: false,
        }
    }
}

/// The one who writes documents, for one batch.
pub struct DocumentWriter<'w> {
    pub(crate) tx: &'w mut WriteTransaction,
    pub(crate) context: WriteContext<'w>,
    identity: DatabaseIdentity,
    progress: DatabaseProgress,
    /// The last etag before this writer.
    opened_at: Etag,
    pub(crate) collections: OpenCollections,
    /// Whether there are revisions.
    pub(crate) has_revisions: bool,
    /// Whether documents have times at which something is due.
    pub(crate) has_due: bool,
    /// Documents whose lists were changed and whose metadata does not tell yet.
    pub(crate) touched: TouchedDocuments,
    pub(crate) leftovers: Leftovers,
    pub(crate) packer: Packer,
    /// What was changed, for those who watch.
    pub(crate) changes: NotedChanges,
    /// The row under construction; kept to keep its memory.
    pub(crate) row: Vec<u8>,
}

/// What a put has to know about the document it replaces.
struct Replaced {
    collection_number: u32,
    flags: DocumentFlags,
    /// The cluster-wide transaction that wrote it, for its atomic guard.
    transaction: Option<ChangeVectorEntry>,
}

impl<'w> DocumentWriter<'w> {
    /// A writer over a transaction of an initialized database.
    ///
    /// # Errors
    /// Those of the storage; damaged records.
    pub fn open(
        tx: &'w mut WriteTransaction,
        context: WriteContext<'w>,
    ) -> Result<Self, DocumentError> {
        let identity = database_identity(tx)?;
        let progress = progress(tx)?;
        let (opened_at, has_revisions) = (progress.last_etag, has_revisions(tx)?);
        let has_due = due::times_count(tx)? != 0;
        Ok(Self {
            tx,
            context,
            identity,
            progress,
            opened_at,
            collections: OpenCollections::default(),
            has_revisions,
            has_due,
            touched: TouchedDocuments::default(),
            leftovers: Leftovers::default(),
            packer: Packer::default(),
            changes: NotedChanges::new(context.notes_changes),
            row: Vec::new(),
        })
    }

    /// Does what was left to the end of the batch: the lists in the metadata of touched documents, and
    /// contents of attachments that nobody needs any more.
    ///
    /// # Errors
    /// A document that becomes too large; those of the storage.
    pub fn settle(&mut self) -> Result<(), DocumentError> {
        self.list_in_touched_documents()?;
        self.remove_dropped()
    }

    /// Writes what the writer kept in memory: etag, change vector and counts.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn finish(mut self) -> Result<Etag, DocumentError> {
        self.settle()?;
        // Every change takes an etag: without one there is nothing to write, and nothing to sync.
        if self.opened_at != self.progress.last_etag {
            self.collections.write(self.tx)?;
            write_progress(self.tx, &self.progress)?;
        }
        Ok(self.progress.last_etag)
    }

    /// The collections in which documents were stored or deleted so far.
    pub fn changed_collections(&self) -> Vec<CollectionName> {
        self.collections.touched()
    }

    /// Stores a document.
    ///
    /// # Errors
    /// The caller's ones of [`DocumentError`]; those of the storage. The transaction has to be rolled
    /// back then.
    pub fn put(
        &mut self,
        id: &RequestedId,
        expected: &ExpectedVersion,
        body: &BlittableBuf,
    ) -> Result<StoredDocument, DocumentError> {
        self.put_marked(id, expected, body, Marks::default())
    }

    /// As [`DocumentWriter::put`], with other marks.
    pub(crate) fn put_marked(
        &mut self,
        id: &RequestedId,
        expected: &ExpectedVersion,
        body: &BlittableBuf,
        marks: Marks,
    ) -> Result<StoredDocument, DocumentError> {
        let etag = self.next_etag()?;
        let id = self.resolve_id(id, etag)?;
        let replaced = self.check_put(&id, expected)?;
        let known = replaced.as_ref().map_or(DocumentFlags::NONE, |replaced| replaced.flags);
        let known = (known | marks.added).without(marks.removed);
        let listed = listed(self.tx, id.lower_cased(), self.kinds_to_list(&id, known))?;
        let lists = listed.lists.as_ref();
        let accepted = metadata::accept(body, lists, id.as_str(), self.now_ticks())?;
        let collection =
            self.collections.named(self.tx, &accepted.collection, &mut self.progress)?;
        let (number, collection) = (collection.number, collection.name.clone());
        let is_new = replaced.is_none();
        let transaction = replaced.as_ref().and_then(|replaced| replaced.transaction);
        let flags = match replaced {
            Some(replaced) if replaced.collection_number != number => {
                return Err(self.mismatch(&id, replaced.collection_number, &accepted.collection));
            }
            Some(replaced) => self.count_replaced(number, &replaced)?,
            None => self.count_new(&id, number)?,
        };
        let flags = flags.without(LISTING_FLAGS) | listed.flags | marks.added;
        let change_vector = match (marks.change_vector, transaction) {
            (Some(given), _) => {
                self.contain(&given);
                given
            }
            (None, None) => self.next_change_vector(etag),
            (None, Some(transaction)) => self.next_change_vector(etag).with(transaction),
        };
        let new = NewVersion {
            id: &id,
            change_vector: change_vector.as_str(),
            collection: &collection,
            collection_number: number,
            flags,
            body: accepted.body.as_view(),
            is_new,
        };
        let flags = self.revise_put(&new)?;
        self.store_version(&new, flags, etag)?;
        self.touched.remove(&id);
        let last_modified_ticks = self.now_ticks();
        Ok(StoredDocument { id, etag, change_vector, collection, last_modified_ticks, flags })
    }

    /// Stores a document in place of the one of this id, unless both are equal or there is none: `None`
    /// then. The body was made from the stored one: without its `@archived` it is archived no more.
    ///
    /// # Errors
    /// Those of [`DocumentWriter::put`].
    pub fn replace(
        &mut self,
        id: &DocumentId,
        body: &BlittableBuf,
    ) -> Result<Option<StoredDocument>, DocumentError> {
        let Some(stored) = read::get(self.tx, id)? else { return Ok(None) };
        let mut marks = Marks::default();
        let lists = if stored.flags().contains(DocumentFlags::ARCHIVED)
            && !metadata::says_archived(&body.as_view())?
        {
            marks.removed = DocumentFlags::ARCHIVED;
            let kinds = self.kinds_to_list(id, stored.flags()).without(DocumentFlags::ARCHIVED);
            listed(self.tx, id.lower_cased(), kinds)?.lists
        } else {
            metadata::listed_in(&stored.body()?)?
        };
        let accepted = metadata::accept(body, lists.as_ref(), stored.id(), self.now_ticks())?.body;
        let stored = Value::Object(stored.body()?.root());
        let is_same = blittable::equal(&stored, &Value::Object(accepted.as_view().root()))?;
        // A document whose lists have changed is another one.
        if is_same && !self.touched.contains(id) {
            return Ok(None);
        }
        let id = RequestedId::Exactly(id.clone());
        self.put_marked(&id, &ExpectedVersion::Any, &accepted, marks).map(Some)
    }

    /// A document as it is now, with the changes of this writer.
    ///
    /// # Errors
    /// Those of the storage; a damaged row.
    pub fn get(&self, id: &DocumentId) -> Result<Option<DocumentRow<'_>>, DocumentError> {
        read::get(self.tx, id)
    }

    /// Deletes a document and leaves a tombstone; `None` when there is no such document and none was
    /// expected.
    ///
    /// # Errors
    /// [`DocumentError::Concurrency`]; those of the storage. The transaction has to be rolled back
    /// then.
    pub fn delete(
        &mut self,
        id: &DocumentId,
        expected: &ExpectedVersion,
    ) -> Result<Option<DeletedDocument>, DocumentError> {
        self.delete_marked(id, expected, DocumentFlags::NONE)
    }

    /// As [`DocumentWriter::delete`], with further marks for the revision of the deletion.
    pub(crate) fn delete_marked(
        &mut self,
        id: &DocumentId,
        expected: &ExpectedVersion,
        marks: DocumentFlags,
    ) -> Result<Option<DeletedDocument>, DocumentError> {
        let Some(document) = read::get(self.tx, id)? else {
            return match expected.as_text() {
                None => self.note_deleted_before(id).map(|()| None),
                Some(expected) => Err(missing_to_delete(id, expected)),
            };
        };
        if let Some(expected) = expected.as_text()
            && document.change_vector() != expected
        {
            return Err(changed_before_delete(id, expected, document.change_vector()));
        }
        let deleted = document.etag();
        let (number, flags) = (document.collection_number(), document.flags());
        let (stored_id, requested_id) = (DocumentId::new(document.id())?, id);
        let old = self.before_delete(&stored_id)?;
        let deleted = self.bury(stored_id, number, flags, deleted)?;
        let change_vector = Some(deleted.change_vector.as_str());
        self.note_delete(requested_id, &deleted.collection, change_vector);
        self.revise_delete(&deleted, &old, marks)?;
        let kinds = self.kinds_to_list(&deleted.id, flags);
        if kinds.contains(DocumentFlags::HAS_ATTACHMENTS) {
            self.delete_attachments_of(&deleted.id)?;
        }
        if kinds.contains(DocumentFlags::HAS_COUNTERS) {
            self.delete_counters_of(&deleted.id, number)?;
        }
        if kinds.contains(DocumentFlags::HAS_TIME_SERIES) {
            self.delete_time_series_of(&deleted.id, number)?;
        }
        Ok(Some(deleted))
    }

    /// Deletes every document whose id starts with the prefix; gives their number.
    ///
    /// # Errors
    /// A prefix that is too long; those of [`DocumentWriter::delete`].
    pub fn delete_prefix(&mut self, prefix: &str) -> Result<u64, DocumentError> {
        let prefix = DocumentId::new(prefix)?;
        let mut deleted = 0;
        loop {
            let found = read::by_prefix(self.tx, prefix.lower_cased(), None)?;
            let ids = found.take(PREFIX_CHUNK).map(|row| Ok(DocumentId::new(row?.id())?));
            let ids = ids.collect::<Result<Vec<_>, DocumentError>>()?;
            for id in &ids {
                let gone = self.delete(id, &ExpectedVersion::Any)?;
                gone.ok_or(corrupt("a document is not found by its own id"))?;
            }
            deleted += ids.len() as u64;
            if ids.len() < PREFIX_CHUNK {
                return Ok(deleted);
            }
        }
    }

    /// Takes the next value of an identity; the first is 1.
    ///
    /// # Errors
    /// A name that is too long; those of the storage.
    pub fn next_identity(&mut self, name: &str) -> Result<i64, DocumentError> {
        identities::next(self.tx, name)
    }

    /// Sets an identity, to a smaller value only when forced; gives its value then.
    ///
    /// # Errors
    /// A name that is too long; those of the storage.
    pub fn seed_identity(
        &mut self,
        name: &str,
        value: i64,
        force: bool,
    ) -> Result<i64, DocumentError> {
        identities::seed(self.tx, name, value, force)
    }

    /// Forgets all identities: they are kept elsewhere.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn forget_identities(&mut self) -> Result<(), DocumentError> {
        Ok(self.tx.drop_tree(&schema::identities())?)
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

    /// The etag of the last change, and what the database contains with it.
    pub(crate) fn last_change(&self) -> (Etag, &ChangeVector) {
        (self.progress.last_etag, &self.progress.change_vector)
    }

    /// Stores a version of a document, whose revision, if there is to be one, is made.
    pub(crate) fn store_version(
        &mut self,
        new: &NewVersion<'_>,
        flags: DocumentFlags,
        etag: Etag,
    ) -> Result<(), DocumentError> {
        let fields = RowFields {
            lower_id: new.id.lower_cased(),
            id: new.id.as_str(),
            change_vector: new.change_vector,
            flags,
            collection_number: new.collection_number,
            etag,
            last_modified_ticks: self.context.now.ticks(),
        };
        self.reschedule(new.id, Some(&new.body), new.is_new)?;
        self.write_row(&fields, new.body.as_bytes())?;
        let mut documents = self.tx.table_mut(&DOCUMENTS);
        match new.is_new {
            true => documents.insert_new(&self.row)?,
            false => documents.insert(&self.row)?,
        };
        self.note_put(new.id, new.collection, new.change_vector);
        Ok(())
    }

    /// Makes the row of a document, compressed where the rules say so.
    pub(crate) fn write_row(
        &mut self,
        fields: &RowFields<'_>,
        body: &[u8],
    ) -> Result<(), DocumentError> {
        let compression = self.context.compression;
        let mut stored = StoredBody::Plain(body);
        if compression.rules().compresses_anything() {
            let collection = self.collections.numbered(self.tx, fields.collection_number)?;
            if compression.rules().compresses(&collection.name) {
                stored = self.packer.pack(self.tx, compression, &collection.into(), body)?;
            }
        }
        row::write_document(&mut self.row, fields, stored)
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

    /// The version of a local write: all that the database contains, and this write.
    pub(crate) fn next_change_vector(&mut self, etag: Etag) -> ChangeVector {
        let DatabaseIdentity { database_id, node_tag } = self.identity;
        let own = ChangeVectorEntry { tag: node_tag, etag, database_id };
        self.progress.change_vector = self.progress.change_vector.with(own);
        self.progress.change_vector.clone()
    }

    /// Notes that the database contains this version; transactions of the cluster are counted by
    /// `RAFT` alone.
    pub(crate) fn contain(&mut self, version: &ChangeVector) {
        for entry in version.entries().filter(|entry| entry.tag.as_str() != TRANSACTION_TAG) {
            self.progress.change_vector = self.progress.change_vector.with(entry);
        }
    }

    /// Makes the writes that follow happen at that time; gives what was the time before.
    pub(crate) fn set_now(&mut self, now: Timestamp) -> Timestamp {
        std::mem::replace(&mut self.context.now, now)
    }

    fn resolve_id(&self, id: &RequestedId, etag: Etag) -> Result<DocumentId, DocumentError> {
        match id {
            RequestedId::Exactly(id) => Ok(id.clone()),
            RequestedId::Random => Ok(DocumentId::new(self.random_uuid())?),
            RequestedId::Numbered(prefix) => self.numbered_id(prefix, etag),
            RequestedId::Identity(name) => {
                Err(DocumentError::UnresolvedIdentity { id: format!("{name}|") })
            }
        }
    }

    fn numbered_id(&self, prefix: &str, etag: Etag) -> Result<DocumentId, DocumentError> {
        let numbered = format!("{prefix}{:019}-", etag.0);
        let id = DocumentId::new(format!("{numbered}{}", self.identity.node_tag))?;
        if read::get(self.tx, &id)?.is_none() {
            return Ok(id);
        }
        // Somebody gave a document this very id; a random end makes another one.
        Ok(DocumentId::new(format!("{numbered}{}", self.random_uuid()))?)
    }

    /// A random (version 4) universally unique identifier, lower-case with dashes.
    fn random_uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.context.entropy.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let number = u128::from_be_bytes(bytes);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            number >> 96,
            number >> 80 & 0xffff,
            number >> 64 & 0xffff,
            number >> 48 & 0xffff,
            number & 0xffff_ffff_ffff
        )
    }

    /// Compares what is expected with what is there.
    fn check_put(
        &self,
        id: &DocumentId,
        expected: &ExpectedVersion,
    ) -> Result<Option<Replaced>, DocumentError> {
        let Some(document) = read::get(self.tx, id)? else {
            return match expected {
                ExpectedVersion::Any | ExpectedVersion::New => Ok(None),
                ExpectedVersion::Exactly(expected) => Err(missing_to_put(id, expected)),
            };
        };
        if let Some(expected) = expected.as_text()
            && document.change_vector() != expected
        {
            return Err(changed_before_put(id, expected, document.change_vector()));
        }
        let (collection_number, flags) = (document.collection_number(), document.flags());
        let transaction = transaction_in(document.change_vector());
        Ok(Some(Replaced { collection_number, flags, transaction }))
    }

    fn count_replaced(
        &mut self,
        number: u32,
        replaced: &Replaced,
    ) -> Result<DocumentFlags, DocumentError> {
        self.collections.count(self.tx, number, 0, 0)?;
        let lasting = LASTING_FLAGS.into_iter().filter(|flag| replaced.flags.contains(*flag));
        Ok(lasting.fold(DocumentFlags::NONE, |flags, flag| flags | flag))
    }

    /// Counts a new document and takes away the tombstone of an earlier one of the same id.
    fn count_new(&mut self, id: &DocumentId, number: u32) -> Result<DocumentFlags, DocumentError> {
        self.collections.count(self.tx, number, 1, 0)?;
        self.progress.documents += 1;
        // Most databases have few tombstones, and a bulk load none: no need to look for one then.
        if self.progress.tombstones != 0
            && let Some(tombstone) = read::get_tombstone(self.tx, id)?
        {
            let number = tombstone.collection_number();
            self.collections.count(self.tx, number, 0, -1)?;
            self.remove_row(&row::tombstone_key(id.lower_cased()))?;
            self.progress.tombstones -= 1;
        }
        Ok(DocumentFlags::NONE)
    }

    /// Whoever watches is told of the deletion of a document that was deleted before, too.
    fn note_deleted_before(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        if !self.changes.are_wanted() {
            return Ok(());
        }
        let Some(tombstone) = read::get_tombstone(self.tx, id)? else { return Ok(()) };
        let number = tombstone.collection_number();
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        self.note_delete(id, &collection, None);
        Ok(())
    }

    fn note_delete(
        &mut self,
        id: &DocumentId,
        collection: &CollectionName,
        change_vector: Option<&str>,
    ) {
        self.changes.note(|| {
            Change::Document(DocumentChange {
                kind: DocumentChangeKind::Delete,
                id: id.clone(),
                collection: collection.clone(),
                change_vector: change_vector.map(str::to_owned),
            })
        });
    }

    /// Tells whoever watches that a document has a new version.
    pub(crate) fn note_put(
        &mut self,
        id: &DocumentId,
        collection: &CollectionName,
        change_vector: &str,
    ) {
        self.changes.note(|| {
            Change::Document(DocumentChange {
                kind: DocumentChangeKind::Put,
                id: id.clone(),
                collection: collection.clone(),
                change_vector: Some(change_vector.to_owned()),
            })
        });
    }

    /// What was changed so far, in order, if the context says that somebody wants to know; nothing
    /// of it is told twice.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.take()
    }

    /// Replaces a live document by its tombstone.
    fn bury(
        &mut self,
        id: DocumentId,
        number: u32,
        flags: DocumentFlags,
        deleted: Etag,
    ) -> Result<DeletedDocument, DocumentError> {
        let etag = self.next_etag()?;
        let change_vector = self.next_change_vector(etag);
        let fields = RowFields {
            lower_id: id.lower_cased(),
            id: id.as_str(),
            change_vector: change_vector.as_str(),
            flags,
            collection_number: number,
            etag,
            last_modified_ticks: self.context.now.ticks(),
        };
        self.reschedule(&id, None, false)?;
        row::write_tombstone(&mut self.row, &fields, deleted)?;
        self.remove_row(&row::document_key(id.lower_cased()))?;
        self.tx.table_mut(&DOCUMENTS).insert(&self.row)?;
        self.collections.count(self.tx, number, -1, 1)?;
        self.progress.documents -= 1;
        self.progress.tombstones += 1;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        Ok(DeletedDocument { id, etag, change_vector, collection })
    }

    /// Removes a row that was just read.
    fn remove_row(&mut self, primary_key: &[u8]) -> Result<(), DocumentError> {
        match self.tx.table_mut(&DOCUMENTS).delete(primary_key)? {
            true => Ok(()),
            false => Err(corrupt("a row that was read cannot be removed")),
        }
    }

    fn mismatch(
        &mut self,
        id: &DocumentId,
        stored_number: u32,
        requested: &CollectionName,
    ) -> DocumentError {
        match self.collections.numbered(self.tx, stored_number) {
            Ok(stored) => DocumentError::CollectionMismatch {
                id: id.to_string(),
                stored: stored.name.to_string(),
                requested: requested.to_string(),
            },
            Err(error) => error,
        }
    }
}

/// The part of a version that names a cluster-wide transaction. Few have one.
fn transaction_in(change_vector: &str) -> Option<ChangeVectorEntry> {
    if !change_vector.contains(TRANSACTION_TAG) {
        return None;
    }
    let change_vector = change_vector.parse::<ChangeVector>().ok()?;
    change_vector.entries().find(|entry| entry.tag.as_str() == TRANSACTION_TAG)
}

pub(crate) const VIOLATION: &str = "Optimistic concurrency violation, transaction will be aborted.";

fn missing_to_put(id: &DocumentId, expected: &str) -> DocumentError {
    DocumentError::Concurrency {
        id: Some(id.to_string()),
        expected: Some(expected.to_owned()),
        actual: None,
        message: format!(
            "Document {id} does not exist, but Put was called with change vector: {expected}. \
             {VIOLATION}"
        ),
    }
}

fn changed_before_put(id: &DocumentId, expected: &str, actual: &str) -> DocumentError {
    let wanted = match expected {
        "" => "expecting new document".to_owned(),
        expected => format!("change vector {expected}"),
    };
    DocumentError::Concurrency {
        id: Some(id.to_string()),
        expected: Some(expected.to_owned()),
        actual: Some(actual.to_owned()),
        message: format!(
            "Document {id} has change vector {actual}, but Put was called with {wanted}. {VIOLATION}"
        ),
    }
}

fn missing_to_delete(id: &DocumentId, expected: &str) -> DocumentError {
    DocumentError::Concurrency {
        id: None,
        expected: None,
        actual: None,
        message: format!(
            "Document {id} does not exist, but delete was called with change vector '{expected}'. \
             {VIOLATION}"
        ),
    }
}

fn changed_before_delete(id: &DocumentId, expected: &str, actual: &str) -> DocumentError {
    DocumentError::Concurrency {
        id: None,
        expected: Some(expected.to_owned()),
        actual: Some(actual.to_owned()),
        message: format!(
            "Document {id} has change vector {actual}, but Delete was called with change vector \
             '{expected}'. {VIOLATION}"
        ),
    }
}
