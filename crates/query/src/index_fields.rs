//! The fields of an index, for the query planner.

use std::{collections::HashSet, sync::Arc};

use indexing::{
    AutoIndexDefinition, Index, IndexKind, IndexRecord, RESULT_FIELD, is_stored, search_field_name,
    static_field_options, time_field_name,
};
use model::{IndexDefinition, TermVector};
use search::{FieldId, FieldOptions, IndexReader, Indexing, Scoring, SpatialLayout};
use storage::Transaction;

use crate::error::QueryError;
use crate::row_notes::HighlightedField;
use crate::searched_fields::{ID_FIELD, SearchedFields};
use crate::term_statistics::TermStatistics;

/// Maximum number of documents that one part of `intersect()` may select in an index with several
/// entries per document.
const INTERSECTED_DOCUMENTS_MAX: usize = 1 << 20;

/// A field whose values the index may store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredField {
    pub(crate) number: FieldId,
    /// Whether values are stored for every entry, and not only where a map requests it.
    pub(crate) is_declared: bool,
}

/// The fields of the index that a query runs on.
pub(crate) struct FieldsOfIndex<'t, 'r, D, I> {
    index: &'t Index,
    pub(crate) kind: Arc<IndexKind>,
    /// Those known without reading a document.
    names: Vec<String>,
    pub(crate) reader: &'r IndexReader<'t, I>,
    pub(crate) documents: &'r D,
    /// Whether a document may have several entries.
    has_several_entries: bool,
}

impl<'t, 'r, D: Transaction, I: Transaction> FieldsOfIndex<'t, 'r, D, I> {
    pub(crate) fn of(
        index: &'t Index,
        reader: &'r IndexReader<'t, I>,
        record: &IndexRecord,
        documents: &'r D,
    ) -> Self {
        let (kind, names) = (index.kind(), index.fields());
        let has_several_entries = 1 < record.outputs_max && !index.shows_results();
        FieldsOfIndex { index, kind, names, reader, documents, has_several_entries }
    }

    /// The number of a field whose values the index may store.
    pub(crate) fn stored(&self, name: &str) -> Result<Option<StoredField>, QueryError> {
        let IndexKind::Static(definition) = self.kind.as_ref() else { return Ok(None) };
        let number = self.reader.field(name)?.filter(|_| name != ID_FIELD);
        // Even if the definition does not, a map may request storage for single values.
        let is_declared =
            is_stored(definition, name) || !self.names.iter().any(|known| known == name);
        Ok(number.map(|number| StoredField { number, is_declared }))
    }

    /// The fields whose values are stored according to the definition, by name.
    pub(crate) fn all_stored(&self) -> Result<Vec<(String, FieldId)>, QueryError> {
        let IndexKind::Static(definition) = self.kind.as_ref() else { return Ok(Vec::new()) };
        let known = self.reader.fields()?.into_iter();
        let stored =
            known.filter(|field| field.name != RESULT_FIELD && is_stored(definition, &field.name));
        Ok(stored.map(|field| (field.name, field.id)).collect())
    }

    /// The field whose values are highlighted under that name; `None` when the index does not store
    /// what highlighting needs.
    pub(crate) fn highlighted(&self, name: &str) -> Result<Option<HighlightedField>, QueryError> {
        let (field, is_json) = match self.kind.as_ref() {
            IndexKind::Auto(definition) => {
                let is_kept = definition
                    .fields()
                    .iter()
                    .any(|field| field.ways.highlight && field.name() == name);
                (is_kept.then(|| search_field_name(name)), false)
            }
            IndexKind::Static(definition) => {
                let vector = definition.field(name).term_vector;
                let is_kept = is_stored(definition, name)
                    && vector == Some(TermVector::WithPositionsAndOffsets);
                (is_kept.then(|| name.to_owned()), true)
            }
        };
        let Some(name) = field else { return Ok(None) };
        let analyzer = self.options(&name).and_then(|options| options.effective_analyzer());
        let number = self.reader.field(&name)?;
        Ok(analyzer.zip(number).map(|(analyzer, number)| HighlightedField {
            number,
            name,
            analyzer,
            is_json,
        }))
    }

    fn has_entries(&self, name: &str) -> bool {
        let entries = self.reader.count(&search::Query::exists(name));
        entries.is_ok_and(|entries| 0 < entries)
    }

    /// Whether the field is one that only documents name, now or in future.
    fn is_made_by_a_document(&self, definition: &IndexDefinition, name: &str) -> bool {
        let moments_of = name.strip_suffix(&time_field_name(""));
        let is_moments_of_another =
            moments_of.is_some_and(|field| self.names.iter().any(|known| known == field));
        let may_be_made = || self.index.has_created_fields() && moments_of.is_none();
        !is_moments_of_another
            && (definition.fields.contains_key(name) || self.has_entries(name) || may_be_made())
    }
}

fn automatic_options(definition: &AutoIndexDefinition, name: &str) -> Option<FieldOptions> {
    if let Some(grouping) = definition.grouping() {
        let is_aggregate = grouping.aggregates().iter().any(|aggregate| aggregate.name() == name);
        let of_keys = || {
            let is_of = |base: &str| grouping.keys().iter().any(|key| key.path == base);
            readings_of(name).into_iter().flatten().find(|(base, _)| is_of(base))
        };
        let indexing =
            if is_aggregate { Some(Indexing::Default) } else { of_keys().map(|of| of.1) };
        return indexing.map(FieldOptions::new);
    }
    let fields = definition.fields();
    readings_of(name).into_iter().flatten().find_map(|(base, indexing)| {
        let field = fields.iter().find(|field| field.is_named(base))?;
        let suggestions = field.ways.suggest && indexing == Indexing::Default;
        let spatial = field.is_spatial().then(SpatialLayout::default);
        Some(FieldOptions { suggestions, spatial, ..FieldOptions::new(indexing) })
    })
}

/// The fields of documents whose values a field `name` of an automatic index may have, and how it indexes
/// them: see `search_field_name` and `exact_field_name` of `indexing`.
fn readings_of(name: &str) -> [Option<(&str, Indexing)>; 3] {
    let inside = |method| name.strip_prefix(method)?.strip_suffix(')');
    [
        Some((name, Indexing::Default)),
        inside("search(").map(|base| (base, Indexing::Search)),
        inside("exact(").map(|base| (base, Indexing::Exact)),
    ]
}

impl<D: Transaction, I: Transaction> SearchedFields for FieldsOfIndex<'_, '_, D, I> {
    fn is_automatic(&self) -> bool {
        matches!(self.kind.as_ref(), IndexKind::Auto(_))
    }

    fn options(&self, name: &str) -> Option<FieldOptions> {
        let known = match self.kind.as_ref() {
            IndexKind::Auto(definition) => automatic_options(definition, name),
            IndexKind::Static(definition) => {
                let is_known = self.names.iter().any(|known| known == name);
                let options = || static_field_options(definition, name).ok();
                (is_known || self.is_made_by_a_document(definition, name)).then(options).flatten()
            }
        };
        // Date fields exist while any document has a date.
        known.or_else(|| self.has_entries(name).then(|| FieldOptions::new(Indexing::Exact)))
    }

    fn known_names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn index_name(&self) -> &str {
        self.index.name()
    }

    fn has_ids(&self) -> bool {
        !self.index.has_reduce()
    }

    fn has_several_entries(&self) -> bool {
        self.has_several_entries
    }

    fn has_boosts(&self) -> bool {
        self.reader.has_boosts()
    }

    fn statistics(&self) -> Option<&dyn TermStatistics> {
        Some(self)
    }

    fn documents_of(&self, query: &search::Query) -> Result<HashSet<String>, QueryError> {
        let mut documents = HashSet::new();
        for hit in self.reader.stream(query, Scoring::Off)? {
            if let Some(id) = self.reader.document_id(hit?.entry)? {
                documents.insert(id.to_owned());
            }
            if INTERSECTED_DOCUMENTS_MAX < documents.len() {
                let message = format!(
                    "A part of intersect() matches more than {INTERSECTED_DOCUMENTS_MAX} documents"
                );
                return Err(QueryError::InvalidOperation { message });
            }
        }
        Ok(documents)
    }
}
