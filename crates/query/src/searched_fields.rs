//! The fields of the index that a query runs on: the index field of a path in the query, and how
//! its values become terms.

use std::collections::HashSet;

use indexing::{exact_field_name, search_field_name};
use rql::{FieldPath, nearest};
use search::{FieldOptions, Indexing, analysis::Analyzer};

use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::term_statistics::TermStatistics;

/// The field that holds the lower-cased ids of documents.
pub(crate) const ID_FIELD: &str = "id()";

/// The fields of an index, for the query planner.
pub trait SearchedFields {
    /// Whether it is an automatic index, which has a separate field for every way of indexing.
    fn is_automatic(&self) -> bool;

    /// How a field is indexed; `None` when the index has no such field.
    fn options(&self, name: &str) -> Option<FieldOptions>;

    /// The fields known without reading a document, for suggestions.
    fn known_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The name of the index.
    fn index_name(&self) -> &str;

    /// Whether entries belong to documents, which have ids, and not to groups of them.
    fn has_ids(&self) -> bool {
        true
    }

    /// Whether a document may have several entries.
    fn has_several_entries(&self) -> bool {
        false
    }

    /// Whether any entry was indexed with a boost.
    fn has_boosts(&self) -> bool {
        false
    }

    /// The statistics that `moreLikeThis()` uses; `None` when there is no index to read.
    fn statistics(&self) -> Option<&dyn TermStatistics> {
        None
    }

    /// The lower-cased ids of the documents whose entries an index query selects.
    ///
    /// # Errors
    ///
    /// [`QueryError::Index`], or too many documents.
    fn documents_of(&self, _query: &search::Query) -> Result<HashSet<String>, QueryError> {
        Ok(HashSet::new())
    }
}

/// The way in which a condition uses a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchMode {
    /// By its values, case-insensitively.
    Default,
    /// By its values, case-sensitively.
    Exact,
    Words,
}

/// A field of the index.
#[derive(Clone, Debug)]
pub(crate) struct SearchedField {
    pub(crate) name: String,
    pub(crate) options: FieldOptions,
}

impl SearchedField {
    /// The field of document ids.
    pub(crate) fn id() -> Self {
        Self { name: ID_FIELD.to_owned(), options: FieldOptions::new(Indexing::Default) }
    }

    /// The analyzer of its strings; a field that is not searched has no terms in any case.
    pub(crate) fn analyzer(&self) -> Analyzer {
        self.options.effective_analyzer().unwrap_or(Analyzer::LowerCaseKeyword)
    }
}

impl QueryContext<'_> {
    /// The field of document ids.
    pub(crate) fn id_field(
        &self,
        fields: &dyn SearchedFields,
    ) -> Result<SearchedField, QueryError> {
        match fields.has_ids() {
            true => Ok(SearchedField::id()),
            false => Err(not_indexed(ID_FIELD, fields)),
        }
    }

    /// A path without the alias.
    pub(crate) fn field_text(&self, path: &FieldPath) -> Result<String, QueryError> {
        self.require_known_alias(path)?;
        Ok(path.without_alias(self.alias()).unwrap_or_else(|| path.clone()).text())
    }

    /// The field of the index that `path` refers to.
    pub(crate) fn searched_field(
        &self,
        fields: &dyn SearchedFields,
        path: &FieldPath,
        mode: MatchMode,
    ) -> Result<SearchedField, QueryError> {
        self.searched_entry_field(fields, self.path_in_entries(path)?, mode)
    }

    /// The field of the index that is named `path` in its entries.
    pub(crate) fn searched_entry_field(
        &self,
        fields: &dyn SearchedFields,
        path: String,
        mode: MatchMode,
    ) -> Result<SearchedField, QueryError> {
        self.require_field_of_groups(&path)?;
        let name = match mode {
            _ if !fields.is_automatic() => path,
            MatchMode::Default => path,
            MatchMode::Exact => exact_field_name(&path),
            MatchMode::Words => search_field_name(&path),
        };
        match fields.options(&name) {
            Some(options) => Ok(SearchedField { name, options }),
            None => Err(not_indexed(&name, fields)),
        }
    }
}

fn not_indexed(name: &str, fields: &dyn SearchedFields) -> QueryError {
    let index = fields.index_name();
    let hint = nearest(name, &fields.known_names());
    let hint = hint.map(|known| format!(". Did you mean '{known}'?")).unwrap_or_default();
    QueryError::Argument {
        message: format!(
            "The field '{name}' is not indexed for index '{index}', cannot query/sort on fields that \
             are not indexed{hint}"
        ),
    }
}
