//! A batch: changes of an index, collected in memory and applied in one sweep.
//!
//! Entries are numbered as they arrive; their terms go into one table, their postings into one list
//! of (term, entry) pairs. Applying (apply.rs) groups that list by term and walks the terms in the
//! order of their keys, so the trees see ascending keys only.

use rustc_hash::FxHashMap;

use crate::{
    entry::{EntryBuilder, EntryTerm},
    error::SearchError,
    ids::FieldId,
    postings::{Weight, format::length_code},
    record::{RecordWriter, ShapeBuilder},
    stored,
    term::{TERM_BYTES_MAX, TermKind},
    term_table::{TermNumber, TermTable},
};

/// Bytes that a batch may gather; a caller applies far earlier, see [`IndexBatch::memory_bytes`].
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// A term of an entry of the batch.
#[derive(Clone, Copy)]
pub(crate) struct GatheredPosting {
    pub(crate) term: TermNumber,
    /// The entry's index in the batch.
    pub(crate) entry: u32,
    pub(crate) weight: Weight,
}

/// An entry of the batch.
#[derive(Clone)]
pub(crate) struct GatheredEntry {
    record_start: usize,
    record_end: usize,
    pub(crate) stored: Option<Box<[u8]>>,
    pub(crate) boosts: Option<Box<[u8]>>,
    /// Replaced or deleted by a later call on the same batch.
    pub(crate) dead: bool,
}

/// Pending changes of an index.
#[derive(Default)]
pub struct IndexBatch {
    pub(crate) terms: TermTable,
    pub(crate) postings: Vec<GatheredPosting>,
    pub(crate) entries: Vec<GatheredEntry>,
    /// By the term of the document's id: which entries of the batch are its newest.
    pub(crate) documents: FxHashMap<TermNumber, std::ops::Range<u32>>,
    records: Vec<u8>,
    /// Of stored values and boosts.
    stored_bytes: usize,
    /// Words that the batch's live entries have, by field.
    pub(crate) words: FxHashMap<FieldId, i64>,
    writer: RecordWriter,
    scratch: EntryScratch,
}

/// Buffers for one entry, kept to be used again.
#[derive(Default)]
struct EntryScratch {
    order: Vec<(EntryTerm, u32)>,
    positions: Vec<u32>,
}

impl IndexBatch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces all entries that the document has in the index by these, in their order. The id is
    /// lower-cased; for the results of a reduce it is the name of the result.
    pub fn put(&mut self, document_id: &str, entries: &[EntryBuilder]) -> Result<(), SearchError> {
        entries.iter().try_for_each(EntryBuilder::check_length)?;
        let document = self.begin_document(document_id)?;
        let first = self.entries.len() as u32;
        for entry in entries {
            self.add_entry((document, document_id), entry)?;
        }
        self.documents.insert(document, first..self.entries.len() as u32);
        Ok(())
    }

    /// Removes all entries of the document.
    pub fn delete(&mut self, document_id: &str) -> Result<(), SearchError> {
        let document = self.begin_document(document_id)?;
        self.documents.insert(document, 0..0);
        Ok(())
    }

    /// Whether nothing was put or deleted.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Approximate memory use of the pending changes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.terms.memory_bytes()
            + self.postings.len() * size_of::<GatheredPosting>()
            + self.records.len()
            + self.stored_bytes
            + self.entries.len() * size_of::<GatheredEntry>()
    }

    /// Discards everything but keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.terms.clear();
        self.postings.clear();
        self.entries.clear();
        self.documents.clear();
        self.records.clear();
        self.stored_bytes = 0;
        self.words.clear();
    }

    pub(crate) fn record(&self, entry: &GatheredEntry) -> &[u8] {
        &self.records[entry.record_start..entry.record_end]
    }

    fn begin_document(&mut self, id: &str) -> Result<TermNumber, SearchError> {
        if id.len() > TERM_BYTES_MAX {
            return Err(SearchError::DocumentIdTooLong { bytes: id.len() });
        }
        let bytes = self.memory_bytes();
        if bytes > BATCH_BYTES_MAX {
            return Err(SearchError::BatchTooLong { bytes });
        }
        let id = id.as_bytes();
        let document = self.terms.number(FieldId::DOCUMENT_ID, TermKind::Text, id, false);
        if let Some(earlier) = self.documents.get(&document) {
            for entry in &mut self.entries[earlier.start as usize..earlier.end as usize] {
                entry.dead = true;
            }
        }
        Ok(document)
    }

    fn add_entry(
        &mut self,
        document: (TermNumber, &str),
        entry: &EntryBuilder,
    ) -> Result<(), SearchError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.order.clear();
        let terms = entry.terms.iter().filter(|term| term.field != FieldId::DOCUMENT_ID);
        scratch.order.extend(terms.enumerate().map(|(at, term)| (*term, at as u32)));
        scratch.order.sort_unstable_by(|(left, left_at), (right, right_at)| {
            (left.field, left.kind)
                .cmp(&(right.field, right.kind))
                .then_with(|| entry.term_bytes(left).cmp(entry.term_bytes(right)))
                .then(left.position.cmp(&right.position))
                .then(left_at.cmp(right_at))
        });
        let record_start = self.records.len();
        let mut records = std::mem::take(&mut self.records);
        let added = self.add_fields(document, entry, &mut scratch, &mut records);
        self.records = records;
        self.scratch = scratch;
        added?;
        let stored = entry.stored_values();
        let stored = (!stored.is_empty()).then(|| stored::write(stored).into_boxed_slice());
        let boosts = entry.boosts();
        let bytes_of = |bytes: &Option<Box<[u8]>>| bytes.as_ref().map_or(0, |bytes| bytes.len());
        self.stored_bytes += bytes_of(&stored) + bytes_of(&boosts);
        let record_end = self.records.len();
        self.entries.push(GatheredEntry { record_start, record_end, stored, boosts, dead: false });
        Ok(())
    }

    fn add_fields(
        &mut self,
        (document, document_id): (TermNumber, &str),
        entry: &EntryBuilder,
        scratch: &mut EntryScratch,
        record: &mut Vec<u8>,
    ) -> Result<(), SearchError> {
        self.writer.begin(record);
        self.writer.begin_field(None);
        self.writer.term(TermKind::Text, document_id.as_bytes(), None)?;
        self.writer.end_field(record, FieldId::DOCUMENT_ID);
        self.post(FieldId::ALL_ENTRIES, TermKind::Exists, &[], false, Weight::ONE);
        self.post(FieldId::DOCUMENT_ID, TermKind::Exists, &[], false, Weight::ONE);
        self.post_term(document, Weight::ONE);
        let EntryScratch { order, positions } = scratch;
        for terms in order.chunk_by(|(left, _), (right, _)| left.field == right.field) {
            self.add_field(entry, terms, positions, record)?;
        }
        Ok(())
    }

    /// Adds the terms of one field, ascending by kind, bytes and position.
    fn add_field(
        &mut self,
        entry: &EntryBuilder,
        terms: &[(EntryTerm, u32)],
        positions: &mut Vec<u32>,
        record: &mut Vec<u8>,
    ) -> Result<(), SearchError> {
        let (first, _) = terms[0];
        let (field, has_words) = (first.field, first.has_words);
        let texts = terms.iter().filter(|(term, _)| term.kind == TermKind::Text).count() as u64;
        self.writer.begin_field(has_words.then_some(texts));
        self.post(field, TermKind::Exists, &[], false, Weight::ONE);
        let length = length_code(texts);
        let mut shape = ShapeBuilder::default();
        let same = |left: &(EntryTerm, u32), right: &(EntryTerm, u32)| {
            left.0.kind == right.0.kind && entry.term_bytes(&left.0) == entry.term_bytes(&right.0)
        };
        for group in terms.chunk_by(same) {
            let (term, _) = group[0];
            let is_word = has_words && term.kind == TermKind::Text;
            positions.clear();
            positions.extend(group.iter().map(|(term, _)| term.position));
            let bytes = entry.term_bytes(&term);
            self.writer.term(term.kind, bytes, is_word.then_some(&positions[..]))?;
            let frequency = group.len().min(255) as u8;
            let weight = if is_word { Weight { frequency, length } } else { Weight::ONE };
            if term.kind.is_listed() {
                self.post(field, term.kind, bytes, has_words, weight);
            }
            shape.add(term.kind);
        }
        shape.finish().for_each(|kind| self.post(field, kind, &[], false, Weight::ONE));
        self.writer.end_field(record, field);
        Ok(())
    }

    fn post(
        &mut self,
        field: FieldId,
        kind: TermKind,
        bytes: &[u8],
        has_words: bool,
        weight: Weight,
    ) {
        let term = self.terms.number(field, kind, bytes, has_words);
        self.post_term(term, weight);
    }

    fn post_term(&mut self, term: TermNumber, weight: Weight) {
        let entry = self.entries.len() as u32;
        self.postings.push(GatheredPosting { term, entry, weight });
    }
}
