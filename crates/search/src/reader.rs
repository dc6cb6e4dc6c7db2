//! Reading an index: its fields, terms and entries.

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use storage::{Transaction, TreeScan};

use crate::{
    entry_view::EntryView,
    error::SearchError,
    fields::{FieldRecord, field_name},
    ids::{EntryId, FieldId},
    interrupt::Interrupt,
    postings::PostingList,
    record::RecordReader,
    state::IndexState,
    stored::StoredValues,
    term::{self, KEY_PREFIX_BYTES, TermKind, TermValue},
    trees,
};

/// A field of an index, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The number of the field in this index.
    pub id: FieldId,
    /// The name of the field.
    pub name: String,
    /// Whether its terms are words of a text.
    pub has_words: bool,
    /// Entries that have it.
    pub entries: u64,
}

/// A term and how many entries have it.
#[derive(Clone, Debug, PartialEq)]
pub struct TermCount {
    /// Null or a text.
    pub value: TermValue,
    /// Entries that have it.
    pub entries: u64,
}

/// An index as a transaction sees it. Cheap to clone.
pub struct IndexReader<'t, T> {
    pub(crate) tx: &'t T,
    pub(crate) state: IndexState,
    pub(crate) has_boosts: bool,
    pub(crate) interrupt: Interrupt,
}

impl<T> Clone for IndexReader<'_, T> {
    fn clone(&self) -> Self {
        let Self { tx, state, has_boosts, interrupt } = self;
        Self { tx, state: *state, has_boosts: *has_boosts, interrupt: interrupt.clone() }
    }
}

impl<'t, T: Transaction> IndexReader<'t, T> {
    /// The index in that environment; an empty one when nothing was indexed yet.
    pub fn open(tx: &'t T) -> Result<Self, SearchError> {
        let has_boosts = !tx.tree(&trees::BOOSTS)?.is_empty();
        let state = IndexState::load(tx)?;
        Ok(Self { tx, state, has_boosts, interrupt: Interrupt::default() })
    }

    /// Makes everything that walks terms or matches end with [`SearchError::Interrupted`] soon
    /// after the flag is set, by the thread that kills a query or watches its time.
    pub fn interruptible(mut self, flag: Arc<AtomicBool>) -> Self {
        self.interrupt.stop = Some(flag);
        self
    }

    /// The same reader, but queries add the entries and terms that they examine one by one to
    /// `scanned`. Lists that are combined as a whole are not counted.
    pub fn counting(mut self, scanned: Arc<AtomicU64>) -> Self {
        self.interrupt.scanned = Some(scanned);
        self
    }

    /// The number of entries that are not deleted.
    pub fn entry_count(&self) -> u64 {
        self.state.live
    }

    /// Whether any entry was indexed with a boost.
    pub fn has_boosts(&self) -> bool {
        self.has_boosts
    }

    /// The number that the next entry will get: all numbers are below it.
    pub fn next_entry(&self) -> EntryId {
        EntryId(self.state.next_entry)
    }

    /// All fields by name, without `id()`.
    pub fn fields(&self) -> Result<Vec<FieldInfo>, SearchError> {
        let mut fields = Vec::new();
        for entry in self.tx.tree(&trees::FIELDS)?.range(Bound::Unbounded)? {
            let (name, value) = entry?;
            let record = FieldRecord::read(value)?;
            fields.push(FieldInfo {
                id: record.id,
                name: field_name(&name)?.to_owned(),
                has_words: record.has_words,
                entries: self.list_count(record.id, TermKind::Exists, &[])?,
            });
        }
        Ok(fields)
    }

    /// The number of a field; `id()` is one.
    pub fn field(&self, name: &str) -> Result<Option<FieldId>, SearchError> {
        Ok(self.field_record(name)?.map(|record| record.id))
    }

    /// Null, if an entry has it, and the texts of a field, ascending by their bytes: up to `limit` after
    /// the one named.
    pub fn terms(
        &self,
        field: FieldId,
        after: Option<&TermValue>,
        limit: usize,
    ) -> Result<Vec<TermCount>, SearchError> {
        let mut terms = Vec::new();
        if after.is_none() && limit > 0 {
            let entries = self.list_count(field, TermKind::Null, &[])?;
            if entries > 0 {
                terms.push(TermCount { value: TermValue::Null, entries });
            }
        }
        let from = match after {
            Some(TermValue::Text(text)) => Bound::Excluded(text.as_bytes()),
            _ => Bound::Unbounded,
        };
        let mut scan = self.scan_terms(field, TermKind::Text, from)?;
        while terms.len() < limit
            && let Some((bytes, list)) = scan.next()?
        {
            let value = TermValue::Text(term::text_of(bytes)?.to_owned());
            terms.push(TermCount { value, entries: list.count() });
        }
        Ok(terms)
    }

    /// How many different texts a field has. Walks them.
    pub fn term_count(&self, field: FieldId) -> Result<u64, SearchError> {
        let mut scan = self.scan_terms(field, TermKind::Text, Bound::Unbounded)?;
        let mut count = 0;
        while scan.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// How many entries have the value.
    pub fn count_of(&self, field: FieldId, value: &TermValue) -> Result<u64, SearchError> {
        self.list_count(field, value.kind(), &value.bytes())
    }

    /// The terms of an entry; `None` if it does not exist.
    pub fn entry(&self, entry: EntryId) -> Result<Option<EntryView<'t>>, SearchError> {
        Ok(self.record_if_any(entry.0)?.map(EntryView::new))
    }

    /// The lower-cased id of the document that an entry comes from.
    pub fn document_id(&self, entry: EntryId) -> Result<Option<&'t str>, SearchError> {
        match self.record_if_any(entry.0)? {
            Some(record) => EntryView::new(record).document_id().map(Some),
            None => Ok(None),
        }
    }

    /// The stored values of an entry.
    pub fn stored(&self, entry: EntryId) -> Result<Option<StoredValues<'t>>, SearchError> {
        let bytes = self.tx.tree(&trees::STORED)?.get(&entry.0.to_be_bytes())?;
        Ok(bytes.map(StoredValues::new))
    }

    /// The entries of a document, ascending.
    pub fn entries_of(&self, document_id: &str) -> Result<Vec<EntryId>, SearchError> {
        let mut entries = Vec::new();
        let list = self.list(FieldId::DOCUMENT_ID, TermKind::Text, document_id.as_bytes())?;
        if let Some(list) = list {
            list.for_each_chunk(self.tx, |chunk| {
                entries.extend(chunk.entries().iter().copied().map(EntryId));
            })?;
        }
        Ok(entries)
    }

    /// The documents with entries whose ids sort after `after`, up to and including `last`; at most
    /// `limit` of them, in order of id.
    pub fn documents_between(
        &self,
        after: &str,
        last: &str,
        limit: usize,
    ) -> Result<Vec<String>, SearchError> {
        let from = Bound::Excluded(after.as_bytes());
        let mut scan = self.scan_terms(FieldId::DOCUMENT_ID, TermKind::Text, from)?;
        let mut ids = Vec::new();
        while ids.len() < limit
            && let Some((bytes, _)) = scan.next()?
            && bytes <= last.as_bytes()
        {
            ids.push(term::text_of(bytes)?.to_owned());
        }
        Ok(ids)
    }

    pub(crate) fn field_record(&self, name: &str) -> Result<Option<FieldRecord>, SearchError> {
        if name == crate::DOCUMENT_ID_FIELD {
            return Ok(Some(FieldRecord { id: FieldId::DOCUMENT_ID, has_words: false, words: 0 }));
        }
        self.tx.tree(&trees::FIELDS)?.get(name.as_bytes())?.map(FieldRecord::read).transpose()
    }

    pub(crate) fn list(
        &self,
        field: FieldId,
        kind: TermKind,
        bytes: &[u8],
    ) -> Result<Option<PostingList<'t>>, SearchError> {
        let value = self.tx.tree(&trees::TERMS)?.get(&term::key(field, kind, bytes))?;
        value.map(PostingList::parse).transpose()
    }

    pub(crate) fn list_count(
        &self,
        field: FieldId,
        kind: TermKind,
        bytes: &[u8],
    ) -> Result<u64, SearchError> {
        Ok(self.list(field, kind, bytes)?.map_or(0, |list| list.count()))
    }

    fn record_if_any(&self, entry: u64) -> Result<Option<RecordReader<'t>>, SearchError> {
        let bytes = self.tx.tree(&trees::ENTRIES)?.get(&entry.to_be_bytes())?;
        bytes.map(RecordReader::new).transpose()
    }

    /// The record of an entry that a posting list names.
    pub(crate) fn record(&self, entry: u64) -> Result<RecordReader<'t>, SearchError> {
        self.record_if_any(entry)?
            .ok_or_else(|| SearchError::corrupt("a listed entry has no record"))
    }

    /// The terms of a field and kind from a bound upwards.
    pub(crate) fn scan_terms(
        &self,
        field: FieldId,
        kind: TermKind,
        from: Bound<&[u8]>,
    ) -> Result<TermScan<'t>, SearchError> {
        let prefix = term::key_prefix(field, kind);
        let from = match from {
            Bound::Included(bytes) => Bound::Included(term::key(field, kind, bytes)),
            Bound::Excluded(bytes) => Bound::Excluded(term::key(field, kind, bytes)),
            Bound::Unbounded => Bound::Included(prefix.to_vec()),
        };
        let scan = self.tx.tree(&trees::TERMS)?.scan(term::as_slices(&from))?;
        Ok(TermScan { scan, prefix, interrupt: self.interrupt.clone() })
    }

    /// The terms of a field and kind from a bound downwards.
    pub(crate) fn scan_terms_back(
        &self,
        field: FieldId,
        kind: TermKind,
        from: Bound<&[u8]>,
    ) -> Result<TermScan<'t>, SearchError> {
        let prefix = term::key_prefix(field, kind);
        let from = match from {
            Bound::Included(bytes) => Bound::Included(term::key(field, kind, bytes)),
            Bound::Excluded(bytes) => Bound::Excluded(term::key(field, kind, bytes)),
            Bound::Unbounded => {
                let [high, low, kind] = prefix;
                Bound::Excluded(vec![high, low, kind + 1])
            }
        };
        let scan = self.tx.tree(&trees::TERMS)?.scan_back(term::as_slices(&from))?;
        Ok(TermScan { scan, prefix, interrupt: self.interrupt.clone() })
    }
}

/// Walks terms of one field and kind.
pub(crate) struct TermScan<'t> {
    scan: TreeScan<'t>,
    /// Field and kind.
    prefix: [u8; KEY_PREFIX_BYTES],
    interrupt: Interrupt,
}

impl<'t> TermScan<'t> {
    /// The next term's bytes and postings. Must not be called again after `None`.
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], PostingList<'t>)>, SearchError> {
        self.interrupt.check()?;
        if let Some((key, value)) = self.scan.next()?
            && let Some((prefix, bytes)) = key.split_first_chunk()
            && *prefix == self.prefix
        {
            return Ok(Some((bytes, PostingList::parse(value)?)));
        }
        Ok(None)
    }
}
