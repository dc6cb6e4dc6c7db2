//! Statistics of an index's words: how many entries contain one, and which ones an entry contains.

use std::collections::HashMap;

use indexing::{IndexKind, is_array_mark, is_stored, time_field_name};
use model::{DocumentId, TermVector};
use search::{EntryId, Scoring, SearchError, TermValue};
use storage::Transaction;

use crate::error::QueryError;
use crate::index_fields::FieldsOfIndex;
use crate::method_options::MethodOptions;
use crate::searched_fields::ID_FIELD;

/// The lookups of `moreLikeThis()` in an index.
pub trait TermStatistics {
    /// The number of all entries.
    fn entry_count(&self) -> u64;

    /// The number of entries with a word in a field.
    ///
    /// # Errors
    ///
    /// [`QueryError::Index`].
    fn entries_with(&self, field: &str, word: &str) -> Result<u64, QueryError>;

    /// The first entry that an index query selects.
    ///
    /// # Errors
    ///
    /// [`QueryError::Index`].
    fn base_entry(&self, query: &search::Query) -> Result<Option<BaseEntry>, QueryError>;

    /// The fields that have terms.
    ///
    /// # Errors
    ///
    /// [`QueryError::Index`].
    fn compared_fields(&self) -> Result<Vec<ComparedField>, QueryError>;

    /// The strings in an array of a document; `None` without the document.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`].
    fn document_texts(&self, id: &str, property: &str) -> Result<Option<Vec<String>>, QueryError>;
}

/// An entry that others are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseEntry {
    /// The lower-cased id of its document.
    pub document_id: String,
    /// Its words by field, with the number of occurrences of each.
    pub words: Vec<(String, Vec<(String, u64)>)>,
}

/// A field that has terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedField {
    /// The name of the field.
    pub name: String,
    /// Whether the definition stores its values or its term vectors.
    pub is_kept: bool,
}

impl<D: Transaction, I: Transaction> TermStatistics for FieldsOfIndex<'_, '_, D, I> {
    fn entry_count(&self) -> u64 {
        self.reader.entry_count()
    }

    fn entries_with(&self, field: &str, word: &str) -> Result<u64, QueryError> {
        Ok(self.reader.count(&search::Query::text(field, word))?)
    }

    fn base_entry(&self, query: &search::Query) -> Result<Option<BaseEntry>, QueryError> {
        let first = self.reader.search(query, &Vec::new(), 0, 1, Scoring::Off)?;
        let Some(hit) = first.rows.first() else { return Ok(None) };
        self.words_of(hit.entry).map(Some)
    }

    fn compared_fields(&self) -> Result<Vec<ComparedField>, QueryError> {
        let names: Vec<String> =
            self.reader.fields()?.into_iter().map(|field| field.name).collect();
        let is_of_moments = |name: &str| names.iter().any(|other| time_field_name(other) == name);
        let is_kept = |name: &str| match self.kind.as_ref() {
            IndexKind::Auto(_) => true,
            IndexKind::Static(definition) => {
                let vector = definition.field(name).term_vector;
                is_stored(definition, name) || !matches!(vector, None | Some(TermVector::No))
            }
        };
        let is_derived = |name: &str| is_of_moments(name) || is_array_mark(name);
        let compared = names.iter().filter(|name| *name != ID_FIELD && !is_derived(name));
        Ok(compared
            .map(|name| ComparedField { name: name.clone(), is_kept: is_kept(name) })
            .collect())
    }

    fn document_texts(&self, id: &str, property: &str) -> Result<Option<Vec<String>>, QueryError> {
        let Ok(id) = DocumentId::new(id) else { return Ok(None) };
        let Some(row) = documents::get(self.documents, &id)? else { return Ok(None) };
        MethodOptions::of_object(row.body()?.root(), "moreLikeThis")
            .texts(property)
            .map(|texts| Some(texts.unwrap_or_default()))
    }
}

impl<D, I: Transaction> FieldsOfIndex<'_, '_, D, I> {
    fn words_of(&self, entry: EntryId) -> Result<BaseEntry, QueryError> {
        let gone = SearchError::Corrupt { detail: "a listed entry is missing" };
        let view = self.reader.entry(entry)?.ok_or(gone)?;
        let names = self.reader.fields()?.into_iter().map(|field| (field.id, field.name));
        let names: HashMap<_, _> = names.collect();
        let mut words = Vec::new();
        for field in view.fields()? {
            let has_texts = field.terms.iter().any(|term| matches!(term, TermValue::Text(_)));
            let Some(name) = names.get(&field.field).filter(|_| has_texts) else { continue };
            let frequencies = view.frequencies(field.field)?.into_iter();
            let owned = frequencies.map(|(word, frequency)| (word.to_owned(), frequency));
            words.push((name.clone(), owned.collect()));
        }
        Ok(BaseEntry { document_id: view.document_id()?.to_owned(), words })
    }
}
