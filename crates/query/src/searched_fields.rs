//! The fields of the index that a query runs on: how a path of the query is called there, and how its
//! texts become terms.

use std::collections::HashSet;

use indexing::{exact_field_name, search_field_name};
use rql::{FieldPath, nearest};
use search::{FieldOptions, Indexing, analysis::Analyzer};

use crate::error::QueryError;
use crate::parameters::Asked;
use crate::term_statistics::TermStatistics;

/// The field that holds the lower-cased ids of documents.
pub(crate) const ID_FIELD: &str = "id()";

/// The fields of an index, as the planning of a query sees them.
pub trait SearchedFields {
    /// Whether it is an automatic index: it has a field of its own for every way of indexing.
    fn is_automatic(&self) -> bool;

    /// How a field is indexed; `None` when the index has no such field.
    fn options(&self, name: &str) -> Option<FieldOptions>;

    /// The fields that are known without a document, for suggestions.
    fn known_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The name of the index.
    fn index_name(&self) -> &str;

    /// Whether entries are of documents, which have ids, and not of groups of them.
    fn has_ids(&self) -> bool {
        true
    }

    /// Whether a document may have several entries.
    fn has_several_entries(&self) -> bool {
        false
    }

    /// Whether entries were indexed with boosts.
    fn has_boosts(&self) -> bool {
        false
    }

    /// What more-like-this looks up; `None` where there is nothing to look at.
    fn statistics(&self) -> Option<&dyn TermStatistics> {
        None
    }

    /// The lower-cased ids of the documents whose entries a query of the index chooses.
    ///
    /// # Errors
    ///
    /// [`QueryError::Index`], and too many documents.
    fn documents_of(&self, _query: &search::Query) -> Result<HashSet<String>, QueryError> {
        Ok(HashSet::new())
    }
}

/// The way in which a condition wants to look at a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// By its values.
    Default,
    /// By its values, in their own case.
    Exact,
    /// By its words.
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

    /// What takes its texts apart; a field that is not searched has no terms, whatever is asked.
    pub(crate) fn analyzer(&self) -> Analyzer {
        self.options.effective_analyzer().unwrap_or(Analyzer::LowerCaseKeyword)
    }
}

impl Asked<'_> {
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

    /// The field of the index that `path` means.
    pub(crate) fn searched_field(
        &self,
        fields: &dyn SearchedFields,
        path: &FieldPath,
        look: Look,
    ) -> Result<SearchedField, QueryError> {
        self.searched_entry_field(fields, self.path_in_entries(path)?, look)
    }

    /// The field of the index that entries call `path`.
    pub(crate) fn searched_entry_field(
        &self,
        fields: &dyn SearchedFields,
        path: String,
        look: Look,
    ) -> Result<SearchedField, QueryError> {
        self.require_field_of_groups(&path)?;
        let name = match look {
            _ if !fields.is_automatic() => path,
            Look::Default => path,
            Look::Exact => exact_field_name(&path),
            Look::Words => search_field_name(&path),
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
