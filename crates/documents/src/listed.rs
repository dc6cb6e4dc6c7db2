//! What a document's metadata lists of other stored data, `@attachments` and the like, and the
//! flags that go with it. `@archived` is treated the same way: a client neither sets nor removes
//! it.
//!
//! Every change of such a list touches the document: at the end of the batch, each touched document
//! is stored again, once, with its current lists.

use std::collections::HashSet;

use blittable::{BlittableBuf, Item, ObjectBuilder, Value};
use model::{ChangeVector, DocumentFlags, DocumentId};
use platform::Timestamp;
use storage::{BulkWriter, Transaction};

use crate::{
    DocumentWriter, attachments,
    compression::body::StoredBody,
    counters,
    ensure::ensure,
    error::{DocumentError, corrupt},
    metadata, read,
    revisions::keep::NewVersion,
    row::{self, AnyRow, DocumentRow, RowFields},
    time_series,
    write::parsed,
};

/// The flags that go with the lists.
pub(crate) const LISTING_FLAGS: DocumentFlags = DocumentFlags::HAS_ATTACHMENTS
    .with(DocumentFlags::HAS_COUNTERS)
    .with(DocumentFlags::HAS_TIME_SERIES);

/// The lists of a document, and the flags that go with them.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) flags: DocumentFlags,
    /// An object with only the lists, under their names in metadata, in ascending order; `None`
    /// when there is nothing to list.
    pub(crate) lists: Option<BlittableBuf>,
}

/// Collects the lists of a document. `kinds` are the flags of what it may have.
pub(crate) fn listed(
    tx: &impl Transaction,
    lower_id: &str,
    kinds: DocumentFlags,
) -> Result<Listed, DocumentError> {
    if kinds.is_empty() {
        return Ok(Listed::default());
    }
    let mut builder = ObjectBuilder::new();
    let mut flags = DocumentFlags::NONE;
    if kinds.contains(DocumentFlags::ARCHIVED) {
        builder.put(metadata::ARCHIVED, Item::Bool(true));
        flags |= DocumentFlags::ARCHIVED;
    }
    if kinds.contains(DocumentFlags::HAS_ATTACHMENTS)
        && attachments::add_listing(tx, lower_id, &mut builder)?
    {
        flags |= DocumentFlags::HAS_ATTACHMENTS;
    }
    if kinds.contains(DocumentFlags::HAS_COUNTERS)
        && counters::add_listing(tx, lower_id, &mut builder)?
    {
        flags |= DocumentFlags::HAS_COUNTERS;
    }
    if kinds.contains(DocumentFlags::HAS_TIME_SERIES)
        && time_series::add_listing(tx, lower_id, &mut builder)?
    {
        flags |= DocumentFlags::HAS_TIME_SERIES;
    }
    let lists = if flags.is_empty() { None } else { Some(builder.finish()?) };
    Ok(Listed { flags, lists })
}

/// Everything that may be listed for a document with these flags.
fn all_kinds(flags: DocumentFlags) -> DocumentFlags {
    match flags.contains(DocumentFlags::ARCHIVED) {
        true => LISTING_FLAGS | DocumentFlags::ARCHIVED,
        false => LISTING_FLAGS,
    }
}

/// The documents whose lists a batch has changed so far, in order of their first change.
#[derive(Default)]
pub(crate) struct TouchedDocuments {
    in_order: Vec<DocumentId>,
    known: HashSet<DocumentId>,
}

impl TouchedDocuments {
    pub(crate) fn add(&mut self, id: &DocumentId) {
        if self.known.insert(id.clone()) {
            self.in_order.push(id.clone());
        }
    }

    pub(crate) fn contains(&self, id: &DocumentId) -> bool {
        !self.known.is_empty() && self.known.contains(id)
    }

    /// Marks the document's lists as up to date.
    pub(crate) fn remove(&mut self, id: &DocumentId) {
        if self.known.remove(id) {
            self.in_order.retain(|touched| touched != id);
        }
    }
}

impl DocumentWriter<'_> {
    /// The flags of what a document with these flags may have: all of them if the batch has changed
    /// some.
    pub(crate) fn kinds_to_list(&self, id: &DocumentId, flags: DocumentFlags) -> DocumentFlags {
        let all = all_kinds(flags);
        if self.touched.contains(id) {
            return all;
        }
        flags.without(flags.without(all))
    }

    /// Stores every touched document again, with its current lists.
    pub(crate) fn list_in_touched_documents(&mut self) -> Result<(), DocumentError> {
        for id in std::mem::take(&mut self.touched).in_order {
            self.list_in(&id)?;
        }
        Ok(())
    }

    fn list_in(&mut self, id: &DocumentId) -> Result<(), DocumentError> {
        let Some(document) = read::get(self.transaction(), id)? else { return Ok(()) };
        let listed = listed(self.transaction(), id.lower_cased(), all_kinds(document.flags()))?;
        let body = metadata::with_listed(&document.body()?, listed.lists.as_ref())?;
        // A version that is written here is no longer the outcome of a conflict.
        let lost = match self.is_import || self.is_received {
            true => LISTING_FLAGS,
            false => LISTING_FLAGS.with(DocumentFlags::RESOLVED),
        };
        let flags = document.flags().without(lost) | listed.flags;
        let then = Timestamp::from_ticks(document.last_modified_ticks());
        let time = self.time_over(document.last_modified_ticks(), document.etag());
        let is_same = flags == document.flags() && body.as_bytes() == document.body()?.as_bytes();
        if self.is_received && is_same {
            return Ok(());
        }
        let version = document.change_vector().to_owned();
        let (id, number) = (DocumentId::new(document.id())?, document.collection_number());
        self.collections.count(self.tx, number, 0, 0)?;
        let collection = self.collections.numbered(self.tx, number)?.name.clone();
        let etag = self.next_etag()?;
        // What is received is listed in the version that it belongs to: the sender has listed it already.
        let change_vector = match self.is_received {
            true => parsed(&version)?,
            false => self.next_version_over(etag, Some(&version))?,
        };
        let new = NewVersion {
            id: &id,
            change_vector: change_vector.as_str(),
            collection: &collection,
            collection_number: number,
            flags,
            body: body.as_view(),
            is_new: false,
        };
        if self.is_import || self.is_received {
            let now = self.set_now(then);
            let stored = self.store_version(&new, flags, etag);
            self.set_now(now);
            return stored;
        }
        let now = self.set_now(time);
        let flags = self.revise_put(&new)?;
        self.store_version(&new, flags, etag)?;
        self.set_now(now);
        Ok(())
    }

    /// The current version of a document.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn version_of(&self, id: &DocumentId) -> Result<Option<ChangeVector>, DocumentError> {
        let Some(document) = read::get(self.transaction(), id)? else { return Ok(None) };
        let version = document.change_vector().parse();
        version.map(Some).map_err(|_| corrupt("a document has an impossible change vector"))
    }
}

/// Checks that a document's metadata and flags list what is stored for it.
pub(crate) fn check_lists(
    tx: &impl Transaction,
    document: &DocumentRow<'_>,
) -> Result<(), DocumentError> {
    let Listed { flags, lists } = listed(tx, document.lower_id(), all_kinds(document.flags()))?;
    let others = document.flags().without(LISTING_FLAGS);
    ensure(document.flags() == others | flags, "a document's flags are wrong about what it has")?;
    let found = metadata::listed_in(&document.body()?)?;
    let agrees = match (&found, &lists) {
        (None, None) => true,
        (Some(found), Some(lists)) => {
            let (found, lists) = (found.as_view().root(), lists.as_view().root());
            blittable::equal(&Value::Object(found), &Value::Object(lists))?
        }
        (Some(_), None) | (None, Some(_)) => false,
    };
    ensure(agrees, "a document's metadata is wrong about what it has")
}

/// The row of a document whose metadata and flags list what was rebuilt for it; `None` when they
/// already do.
pub(crate) fn corrected(
    writer: &mut BulkWriter<'_>,
    row: &AnyRow<'_>,
) -> Result<Option<Vec<u8>>, DocumentError> {
    let AnyRow::Document(document) = row else { return Ok(None) };
    let kinds = all_kinds(document.flags());
    let listed = listed(writer.transaction()?, document.lower_id(), kinds)?;
    let others = document.flags().without(LISTING_FLAGS);
    if listed.flags.is_empty() && others == document.flags() {
        return Ok(None);
    }
    let body = metadata::with_listed(&document.body()?, listed.lists.as_ref())?;
    let fields = RowFields {
        lower_id: document.lower_id(),
        id: document.id(),
        change_vector: document.change_vector(),
        flags: others | listed.flags,
        collection_number: document.collection_number(),
        etag: document.etag(),
        last_modified_ticks: document.last_modified_ticks(),
    };
    let mut row = Vec::new();
    row::write_document(&mut row, &fields, StoredBody::Plain(body.as_bytes()))?;
    Ok(Some(row))
}
