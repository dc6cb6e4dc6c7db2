//! Reads a part of the log as a batch.

use std::{borrow::Cow, collections::HashMap, fmt};

use documents::{
    AttachmentRow, DocumentError, TransactionEnds, collection_numbered, is_made_later,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
};
use model::{ChangeVector, ContentHash, Etag};
use storage::{MemoryExhausted, MemoryShare, Transaction};

use crate::{
    format::{MESSAGE_BYTES_MAX, Payload},
    item_writer::{
        put_attachment, put_conflict, put_counter, put_deleted_attachment, put_deleted_counter,
        put_deleted_range, put_document, put_revision, put_segment, put_tombstone,
    },
    link_filter::LinkFilter,
};

/// Where a batch ends; a transaction is never divided, however large it is.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// After the transaction with this many changes.
    pub items_max: usize,
    /// After the transaction with which it has this many bytes.
    pub bytes_max: usize,
    /// After the transaction with this many entries of the log, whether or not they are sent.
    pub entries_max: usize,
    /// Before the first transaction with a later change.
    pub up_to: Etag,
}

/// Why a batch cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The database cannot be read.
    Documents(DocumentError),
    /// There is no memory for it now.
    NoMemory(MemoryExhausted),
    /// One transaction is larger than a message may be.
    TooLarge {
        /// The etag of its last change.
        last: Etag,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Documents(error) => error.fmt(f),
            ReadError::NoMemory(error) => error.fmt(f),
            ReadError::TooLarge { last } => write!(
                f,
                "The transaction that ends with the etag {} has more than the {MESSAGE_BYTES_MAX} bytes that can be \
                 replicated at once",
                last.0
            ),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<DocumentError> for ReadError {
    fn from(error: DocumentError) -> Self {
        ReadError::Documents(error)
    }
}

/// A part of the log as it is sent.
pub(crate) struct OutgoingBatch {
    pub(crate) items: Payload,
    pub(crate) count: u32,
    /// Entries that the receiver has already, or that the filter leaves out.
    pub(crate) skipped: u64,
    pub(crate) last_etag: Etag,
    /// Up to where the database has everything, if the log ends here and nothing is left out.
    pub(crate) complete: Option<ChangeVector>,
    /// Whether the log ends here.
    pub(crate) is_last: bool,
    pub(crate) contents: Vec<ContentHash>,
}

/// Everything that is sent.
const KINDS: EntryKinds = EntryKinds::of(&EntryKind::ALL);

/// What is left out of a batch.
pub(crate) struct LeftOut<'l> {
    /// What the receiver has already.
    pub(crate) known: &'l ChangeVector,
    /// What it is not to have.
    pub(crate) filter: &'l LinkFilter,
}

/// Reads whole transactions after an etag: at least one, if there is any, without what is left out.
pub(crate) fn read_batch<T: Transaction>(
    tx: &T,
    after: Etag,
    left_out: &LeftOut<'_>,
    limits: BatchLimits,
    share: &mut MemoryShare,
) -> Result<OutgoingBatch, ReadError> {
    let mut batch = OutgoingBatch {
        items: Payload::default(),
        count: 0,
        skipped: 0,
        last_etag: after,
        complete: None,
        is_last: false,
        contents: Vec::new(),
    };
    let mut ends = TransactionEnds::after(tx, after)?;
    let mut writer = ItemWriter { tx, collections: HashMap::new() };
    let (mut end, mut entries) = (after, 0);
    for entry in log::read(tx, &[Selection::all(KINDS)], after)? {
        let entry = entry?;
        if end < entry.etag() {
            let is_full = limits.items_max <= batch.count as usize
                || limits.bytes_max <= batch.items.len()
                || limits.entries_max <= entries;
            let next = ends.end_of(entry.etag())?;
            if is_full || limits.up_to < next {
                batch.last_etag = end;
                batch.contents.sort_unstable();
                batch.contents.dedup();
                return Ok(batch);
            }
            end = next;
        }
        entries += 1;
        if !left_out.filter.passes(&entry) || is_known(&entry, left_out.known)? {
            batch.skipped += 1;
            continue;
        }
        writer.put(&mut batch, &entry)?;
        share.try_grow_to(batch.items.len() as u64).map_err(ReadError::NoMemory)?;
        if MESSAGE_BYTES_MAX < batch.items.len() {
            return Err(ReadError::TooLarge { last: end });
        }
    }
    batch.contents.sort_unstable();
    batch.contents.dedup();
    let progress = documents::progress(tx)?;
    (batch.last_etag, batch.is_last) = (progress.last_etag.max(after), true);
    if left_out.filter.is_everything() {
        batch.complete = Some(documents::contained(tx)?);
    }
    Ok(batch)
}

/// Where contents are named.
const WITH_CONTENTS: EntryKinds = EntryKinds::of(&[EntryKind::Attachment, EntryKind::Revision]);

/// Whether something in the next batch has this content: a receiver must not get one that is left out, although it knows
/// its hash.
pub(crate) fn is_content_sent<T: Transaction>(
    tx: &T,
    after: Etag,
    left_out: &LeftOut<'_>,
    limits: BatchLimits,
    hash: &ContentHash,
) -> Result<bool, DocumentError> {
    let mut ends = TransactionEnds::after(tx, after)?;
    let (mut end, mut entries) = (after, 0);
    for entry in log::read(tx, &[Selection::all(WITH_CONTENTS)], after)? {
        let entry = entry?;
        if end < entry.etag() {
            end = ends.end_of(entry.etag())?;
            if limits.entries_max <= entries || limits.up_to < end {
                return Ok(false);
            }
        }
        entries += 1;
        let has_content = match &entry {
            LogEntry::Attachment(row) => row.lower_document_id().is_some() && row.hash() == *hash,
            LogEntry::Revision(row) => {
                let attachments = documents::attachments_of_revision(tx, row.etag())?;
                let hashes = attachments.map(|attachment| attachment.map(|row| row.hash()));
                hashes.collect::<Result<Vec<_>, _>>()?.contains(hash)
            }
            // Nothing else is read.
            _ => false,
        };
        if has_content && left_out.filter.passes(&entry) && !is_known(&entry, left_out.known)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_known(entry: &LogEntry<'_>, known: &ChangeVector) -> Result<bool, DocumentError> {
    let damaged = || DocumentError::Corrupt { detail: "a row has an impossible change vector" };
    match entry {
        LogEntry::Revision(row) if is_made_later(row.flags()) => return Ok(false),
        // It only marks for readers here that the document is in conflict; its versions are sent.
        LogEntry::DocumentTombstone(row) if row.is_of_conflict() => return Ok(true),
        _ => {}
    }
    let version: ChangeVector = match entry.change_vector() {
        Cow::Borrowed(text) => text.parse().map_err(|_| damaged())?,
        Cow::Owned(text) => text.parse().map_err(|_| damaged())?,
    };
    Ok(known.covers(&version))
}

/// Writes entries into a batch.
struct ItemWriter<'t, T> {
    tx: &'t T,
    collections: HashMap<u32, String>,
}

impl<T: Transaction> ItemWriter<'_, T> {
    fn put(
        &mut self,
        batch: &mut OutgoingBatch,
        entry: &LogEntry<'_>,
    ) -> Result<(), DocumentError> {
        let items = &mut batch.items;
        match entry {
            LogEntry::Document(row) => {
                put_document(items, row, self.collection(row.collection_number())?)?;
            }
            LogEntry::DocumentTombstone(row) => {
                put_tombstone(items, row, self.collection(row.collection_number())?);
            }
            LogEntry::Revision(row) => {
                let attachments = documents::attachments_of_revision(self.tx, row.etag())?;
                let attachments = attachments.collect::<Result<Vec<_>, _>>()?;
                batch.contents.extend(attachments.iter().map(AttachmentRow::hash));
                let collection = self.collection(row.collection_number())?;
                put_revision(items, row, &attachments, collection)?;
            }
            LogEntry::Attachment(row) => match row.lower_document_id() {
                Some(lower_id) => {
                    batch.contents.push(row.hash());
                    put_attachment(items, row, lower_id);
                }
                // It is sent with its revision.
                None => return Ok(()),
            },
            LogEntry::AttachmentTombstone(row) => put_deleted_attachment(items, row),
            LogEntry::Counter(row) => {
                put_counter(items, row, self.collection(row.collection_number())?)?;
            }
            LogEntry::CounterTombstone(row) => {
                put_deleted_counter(items, row, self.collection(row.collection_number())?);
            }
            LogEntry::Segment(row) => {
                put_segment(items, row, self.collection(row.collection_number())?);
            }
            LogEntry::DeletedRange(row) => {
                put_deleted_range(items, row, self.collection(row.collection_number())?);
            }
            LogEntry::Conflict(row) => {
                put_conflict(items, row, self.collection(row.collection_number())?);
            }
        }
        batch.count += 1;
        Ok(())
    }

    fn collection(&mut self, number: u32) -> Result<&str, DocumentError> {
        if !self.collections.contains_key(&number) {
            let name = collection_numbered(self.tx, number)?.name.as_str().to_owned();
            self.collections.insert(number, name);
        }
        Ok(&self.collections[&number])
    }
}
