//! The terms of the entries that a query selects: `debug=entries`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use blittable::Object;
use indexing::is_array_mark;
use rql::Query;
use search::{EntryId, FieldId, IndexReader, Scoring, SearchError, cell_names};
use storage::{Transaction, WorkingMemory};

use crate::error::QueryError;
use crate::index_execution::{IndexSnapshot, facts_of, unreadable};
use crate::index_fields::FieldsOfIndex;
use crate::paging::{PageWindow, Paging};
use crate::parameters::QueryContext;
use crate::result::ResultFacts;
use crate::searched_fields::{ID_FIELD, SearchedFields};
use crate::term_text::term_text;

/// Maximum number of entries per response.
pub const ENTRIES_MAX: u64 = 4096;
/// The name of a group's entry that clients expect.
const KEY_HASH_FIELD: &str = "hash(key())";

/// An entry as stored in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEntry {
    /// What identifies it: the lower-cased id of its document; for the entry of a group, the hash
    /// of its key.
    pub name: (&'static str, String),
    /// Fields by name, ascending, and their terms in the protocol's form.
    pub fields: Vec<(String, Vec<String>)>,
}

impl ShownEntry {
    /// Its approximate memory, in bytes.
    fn bytes(&self) -> u64 {
        let of_text = |text: &String| size_of::<String>() + text.capacity();
        let of_field = |(name, terms): &(String, Vec<String>)| {
            of_text(name) + size_of::<Vec<String>>() + terms.iter().map(of_text).sum::<usize>()
        };
        (size_of::<Self>() + self.fields.iter().map(of_field).sum::<usize>()) as u64
    }
}

/// The entries that a query selects.
pub struct ShownEntries {
    /// Facts about the result.
    pub facts: ResultFacts,
    /// At most [`ENTRIES_MAX`] of them.
    pub entries: Vec<ShownEntry>,
}

/// Returns the terms of the entries that `query` selects. Their memory is charged to `memory`.
///
/// # Errors
///
/// As [`crate::execute_on_index`]; [`QueryError::Memory`] when there is not enough memory for the
/// terms.
pub fn entries_of_index<D: Transaction, I: Transaction>(
    documents: &D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
    memory: &WorkingMemory,
) -> Result<ShownEntries, QueryError> {
    let context = QueryContext::new(query, parameters).reading(snapshot.values);
    context.refuse_unanswered_clauses()?;
    if query.filter.is_some() {
        let message = "A FILTER clause is not supported where entries are shown".to_owned();
        return Err(QueryError::Method { message });
    }
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record, documents);
    let condition = context.index_condition(&fields)?;
    let order = context.index_order(&fields, snapshot.seed)?;
    let window = PageWindow::of(&context, paging)?;
    let count = window.page_size.min(ENTRIES_MAX);
    let hits = reader.search(&condition, &order, window.start, count, Scoring::Off)?;
    let names = reader.fields()?.into_iter().filter(|field| !is_array_mark(&field.name));
    let names = names.map(|field| (field.id, field.name));
    let names: HashMap<_, _> = names.collect();
    let has_reduce = index.has_reduce();
    let shown = hits.rows.iter().map(|hit| {
        let entry = shown_entry(&reader, &fields, &names, has_reduce, hit.entry)?;
        memory.take(entry.bytes())?;
        Ok(entry)
    });
    Ok(ShownEntries {
        entries: shown.collect::<Result<_, QueryError>>()?,
        facts: facts_of(documents, snapshot, query, &record, hits.total, false)?,
    })
}

/// What a query costs on an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCounts {
    /// Entries and terms that were scanned.
    pub scanned: u64,
    /// Entries that match the query.
    pub matched: u64,
    /// Those on its page, at most [`ENTRIES_MAX`].
    pub returned: u64,
}

/// Finds the entries of the query's page and counts its cost.
///
/// # Errors
///
/// As [`crate::execute_on_index`].
pub fn count_scanned<D: Transaction, I: Transaction>(
    documents: &D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<ScanCounts, QueryError> {
    let context = QueryContext::new(query, parameters).reading(snapshot.values);
    context.refuse_unanswered_clauses()?;
    let scanned = Arc::new(AtomicU64::new(0));
    let reader = IndexReader::open(snapshot.tx)?
        .interruptible(Arc::clone(&snapshot.stop))
        .counting(Arc::clone(&scanned));
    let record = snapshot.index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(snapshot.index, &reader, &record, documents);
    let condition = context.index_condition(&fields)?;
    let order = context.index_order(&fields, snapshot.seed)?;
    let window = PageWindow::of(&context, paging)?;
    // Planning reads fields, not entries.
    scanned.store(0, Ordering::Relaxed);
    let count = window.page_size.min(ENTRIES_MAX);
    let hits = reader.search(&condition, &order, window.start, count, Scoring::Off)?;
    Ok(ScanCounts {
        scanned: scanned.load(Ordering::Relaxed),
        matched: hits.total,
        returned: hits.rows.len() as u64,
    })
}

fn shown_entry<D: Transaction, I: Transaction>(
    reader: &IndexReader<'_, I>,
    known: &FieldsOfIndex<'_, '_, D, I>,
    names: &HashMap<FieldId, String>,
    has_reduce: bool,
    entry: EntryId,
) -> Result<ShownEntry, QueryError> {
    let gone = SearchError::Corrupt { detail: "a listed entry is missing" };
    let view = reader.entry(entry)?.ok_or(gone)?;
    let mut fields = Vec::new();
    for field in view.fields()? {
        let Some(name) = names.get(&field.field) else { continue };
        let mut terms: Vec<_> = field.terms.into_iter().filter_map(term_text).collect();
        if !field.places.is_empty() {
            let layout = known.options(name).and_then(|options| options.spatial);
            terms.extend(cell_names(&layout.unwrap_or_default(), &field.places));
        }
        if !terms.is_empty() {
            fields.push((name.clone(), terms));
        }
    }
    fields.sort_unstable();
    Ok(ShownEntry { name: name_of(view.document_id()?, has_reduce), fields })
}

fn name_of(document_id: &str, has_reduce: bool) -> (&'static str, String) {
    match u128::from_str_radix(document_id, 16) {
        Ok(key) if has_reduce => (KEY_HASH_FIELD, (key as u64).to_string()),
        Ok(_) | Err(_) => (ID_FIELD, document_id.to_owned()),
    }
}
