//! Storing documents.

use blittable::{BlittableBuf, Value};
use model::{
    ChangeVector, ChangeVectorEntry, CollectionName, DocumentFlags, DocumentId, Etag,
    TRANSACTION_TAG,
};

use platform::Timestamp;

use crate::{
    change::{Change, DocumentChange, DocumentChangeKind},
    compression::body::StoredBody,
    conflicts::KeepsLosers,
    error::DocumentError,
    listed::{LISTING_FLAGS, listed},
    metadata, read,
    replicated::{ReceivedVersion, without_lists},
    requests::{ExpectedVersion, RequestedId, StoredDocument},
    revisions::keep::NewVersion,
    row::{self, RowFields},
    schema::DOCUMENTS,
};

use super::{DocumentWriter, Marks, VIOLATION};

/// Flags that describe other data stored for a document; a put keeps them.
const LASTING_FLAGS: [DocumentFlags; 4] = [
    DocumentFlags::HAS_REVISIONS,
    DocumentFlags::HAS_ATTACHMENTS,
    DocumentFlags::HAS_COUNTERS,
    DocumentFlags::HAS_TIME_SERIES,
];

/// What a put needs of the document that it replaces.
struct Replaced {
    collection_number: u32,
    flags: DocumentFlags,
    /// The cluster-wide transaction that wrote it, for its atomic guard.
    transaction: Option<ChangeVectorEntry>,
    /// Its version, if that may not be in the database's change vector.
    version: Option<String>,
    /// When it was written, and its place in the log.
    at: (i64, Etag),
}

/// What a put comes after.
struct Before {
    /// Its version, if that may not be in the database's change vector.
    version: Option<String>,
    /// The time of the put.
    time: Timestamp,
}

impl DocumentWriter<'_> {
    /// Stores a document.
    ///
    /// # Errors
    /// The caller's errors in [`DocumentError`]; storage errors. The transaction has to be rolled
    /// back then.
    pub fn put(
        &mut self,
        id: &RequestedId,
        expected: &ExpectedVersion,
        body: &BlittableBuf,
    ) -> Result<StoredDocument, DocumentError> {
        self.put_marked(id, expected, body, Marks::default())
    }

    /// As [`DocumentWriter::put`], with other flags.
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
        let conflict = match self.has_conflicts {
            true => self.take_conflict(&id, KeepsLosers::Yes)?,
            false => None,
        };
        let mut marks = marks;
        if conflict.is_some() {
            marks.added |= DocumentFlags::RESOLVED;
        }
        let before = match &conflict {
            Some(taken) => Before {
                version: Some(taken.change_vector.as_str().to_owned()),
                time: self.time_over(taken.last.0, taken.last.1),
            },
            None => self.before_put(&id, replaced.as_ref(), &marks)?,
        };
        let known = match &replaced {
            Some(replaced) => replaced.flags,
            // What belongs to a document may have arrived without it.
            None if self.has_sources => LISTING_FLAGS,
            None => DocumentFlags::NONE,
        };
        let known = (known | marks.added).without(marks.removed);
        let listed = listed(self.tx, id.lower_cased(), self.kinds_to_list(&id, known))?;
        let lists = listed.lists.as_ref();
        self.check_size(body)?;
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
                self.merge_change_vector(&given);
                match &conflict {
                    // Other nodes are to see that it replaces the versions in conflict.
                    Some(taken) => given.join(&taken.change_vector),
                    None => given,
                }
            }
            (None, None) => self.next_version_over(etag, before.version.as_deref())?,
            (None, Some(transaction)) => {
                self.next_version_over(etag, before.version.as_deref())?.with(transaction)
            }
        };
        let now = self.set_now(before.time);
        let new = NewVersion {
            id: &id,
            change_vector: change_vector.as_str(),
            collection: &collection,
            collection_number: number,
            flags,
            body: accepted.body.as_view(),
            is_new,
        };
        let flags = match marks.is_unrevised {
            true => self.flags_with_revisions(&new)?,
            false => self.revise_put(&new)?,
        };
        self.store_version(&new, flags, etag)?;
        if conflict.is_some() {
            let resolved = ReceivedVersion {
                id: id.clone(),
                change_vector: change_vector.clone(),
                last_modified_ticks: self.now_ticks(),
                flags,
                collection: collection.clone(),
                body: None,
            };
            let body = without_lists(&accepted.body.as_view())?;
            self.keep_of_conflict(&resolved, body.as_bytes(), DocumentFlags::RESOLVED)?;
        }
        self.touched.remove(&id);
        let last_modified_ticks = self.set_now(now).ticks();
        Ok(StoredDocument { id, etag, change_vector, collection, last_modified_ticks, flags })
    }

    /// Replaces the document of this id; `None` when both are equal or there is none. The body was
    /// derived from the stored one: without its `@archived` the document is no longer archived.
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
        // A document whose lists have changed is not equal.
        if is_same && !self.touched.contains(id) {
            return Ok(None);
        }
        let id = RequestedId::Exactly(id.clone());
        self.put_marked(&id, &ExpectedVersion::Any, &accepted, marks).map(Some)
    }

    /// Rejects a document that exceeds the size limit, wherever it comes from.
    pub(crate) fn check_size(&self, body: &BlittableBuf) -> Result<(), DocumentError> {
        let bytes_max = self.context.document_bytes_max;
        match blittable::prints_within(&Value::Object(body.as_view().root()), bytes_max)? {
            true => Ok(()),
            false => Err(DocumentError::TooLong { bytes_max }),
        }
    }

    /// Lifts the size limit for a document that was accepted before.
    pub(crate) fn with_any_size<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let bytes_max = std::mem::replace(&mut self.context.document_bytes_max, u64::MAX);
        let done = work(self);
        self.context.document_bytes_max = bytes_max;
        done
    }

    /// Stores a version of a document; its revision, if any, already exists.
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
        self.tally.documents.add(1, new.body.as_bytes().len() as u64);
        self.note_put(new.id, new.collection, new.change_vector);
        Ok(())
    }

    /// Writes the row of a document, compressed where the rules say so.
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

    /// Records a new version of a document for change listeners.
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
        let version = self.has_sources.then(|| document.change_vector().to_owned());
        let at = (document.last_modified_ticks(), document.etag());
        Ok(Some(Replaced { collection_number, flags, transaction, version, at }))
    }

    /// What a put comes after: the document that it replaces, or the deletion of an earlier one.
    fn before_put(
        &self,
        id: &DocumentId,
        replaced: Option<&Replaced>,
        marks: &Marks,
    ) -> Result<Before, DocumentError> {
        let (version, at) = match replaced {
            Some(replaced) => (replaced.version.clone(), Some(replaced.at)),
            None if self.progress.tombstones == 0 => (None, None),
            None => match read::get_tombstone(self.tx, id)? {
                Some(row) => (
                    self.has_sources.then(|| row.change_vector().to_owned()),
                    Some((row.last_modified_ticks(), row.etag())),
                ),
                None => (None, None),
            },
        };
        let time = match at {
            Some((ticks, etag)) if marks.change_vector.is_none() => self.time_over(ticks, etag),
            Some(_) | None => self.context.now,
        };
        Ok(Before { version, time })
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

    /// Counts a new document and removes the tombstone of an earlier one of the same id. In another
    /// collection the tombstone stays: readers of that one have yet to see the deletion.
    pub(crate) fn count_new(
        &mut self,
        id: &DocumentId,
        number: u32,
    ) -> Result<DocumentFlags, DocumentError> {
        self.collections.count(self.tx, number, 1, 0)?;
        self.progress.documents += 1;
        // Most databases have few tombstones, and a bulk load none: skip looking for one.
        if self.progress.tombstones == 0 {
            return Ok(DocumentFlags::NONE);
        }
        if let Some(tombstone) = read::get_tombstone(self.tx, id)? {
            let of = tombstone.collection_number();
            if of != number {
                row::write_moved(&mut self.row, &tombstone)?;
            }
            self.remove_row(&row::tombstone_key(id.lower_cased()))?;
            match of == number {
                true => self.uncount_tombstone(number)?,
                false => drop(self.tx.table_mut(&DOCUMENTS).insert_new(&self.row)?),
            }
        }
        // It may have been in this collection before it was in another; the other tombstone may be
        // gone, and this one not.
        let earlier = row::moved_key(id.lower_cased(), number);
        if self.tx.table_mut(&DOCUMENTS).delete(&earlier)? {
            self.uncount_tombstone(number)?;
        }
        Ok(DocumentFlags::NONE)
    }

    pub(crate) fn uncount_tombstone(&mut self, number: u32) -> Result<(), DocumentError> {
        self.collections.count(self.tx, number, 0, -1)?;
        self.progress.tombstones -= 1;
        Ok(())
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
