//! Suggestion queries: terms of a field that are similar to given words.
//!
//! The condition of such a query selects nothing: terms belong to the whole index. It is planned
//! nevertheless, so that an invalid one is rejected.

use std::{collections::HashSet, sync::Arc};

use blittable::{Object, Value};
use rql::{Expression, Literal, MethodCall, Query};
use search::{IndexReader, SUGGESTIONS_MAX, StringDistance, SuggestOptions};
use storage::Transaction;

use crate::error::QueryError;
use crate::index_execution::{IndexSnapshot, facts_of, unreadable};
use crate::index_fields::FieldsOfIndex;
use crate::method_options::MethodOptions;
use crate::parameters::{QueryContext, QueryValue, shown};
use crate::result::ResultFacts;
use crate::result_kind::ResultKind;
use crate::searched_fields::{MatchMode, SearchedField, SearchedFields};
use crate::sought_value::in_the_case_of;

/// Maximum number of words of one call.
const WORDS_MAX: usize = 256;
const METHOD: &str = "suggest";
/// Names of distances; clients may send their ordinals instead.
const DISTANCES: [(&str, StringDistance); 5] = [
    ("None", StringDistance::Levenshtein),
    ("Default", StringDistance::Levenshtein),
    ("Levenshtein", StringDistance::Levenshtein),
    ("JaroWinkler", StringDistance::JaroWinkler),
    ("NGram", StringDistance::NGram),
];
/// Names of orders, and whether a word that is itself a term is among its suggestions.
const SORT_MODES: [(&str, bool); 2] = [("None", true), ("Popularity", false)];

/// The result of a suggestion query.
pub struct SuggestionResult {
    /// Facts about the result.
    pub facts: ResultFacts,
    /// In the order of the query.
    pub suggestions: Vec<SuggestedTerms>,
}

/// The suggestions of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedTerms {
    /// The field, or its alias in the query.
    pub name: String,
    /// The suggested terms, most similar first.
    pub terms: Vec<String>,
}

/// Finds the suggestions that `query` requests.
///
/// # Errors
///
/// [`QueryError::Invalid`] and its like for what no query may request; [`QueryError::Index`] and
/// [`QueryError::Documents`] when files cannot be read.
pub fn suggestions_of_index<D: Transaction, I: Transaction>(
    documents: &D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
) -> Result<SuggestionResult, QueryError> {
    let context = QueryContext::new(query, parameters).reading(snapshot.values);
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record, documents);
    context.index_condition(&fields)?;
    context.index_order(&fields, snapshot.seed)?;
    let mut planned: Vec<PlannedSuggestion> = Vec::new();
    for (call, alias) in context.calls_of(ResultKind::Suggestions)? {
        let suggestion = context.suggestion(&fields, call, alias)?;
        if planned.iter().any(|earlier| earlier.name == suggestion.name) {
            return Err(context.duplicate_alias(&suggestion.name));
        }
        planned.push(suggestion);
    }
    let suggestions = planned.into_iter().map(|suggestion| suggestion.find(&reader));
    let suggestions = suggestions.collect::<Result<Vec<_>, _>>()?;
    let facts = facts_of(documents, snapshot, query, &record, suggestions.len() as u64, false)?;
    Ok(SuggestionResult { facts, suggestions })
}

/// One call of `suggest()`.
struct PlannedSuggestion {
    name: String,
    field: SearchedField,
    /// In the form of the field's terms.
    words: Vec<String>,
    options: SuggestOptions,
    keeps_known_words: bool,
}

impl<'a> QueryContext<'a> {
    fn suggestion(
        &self,
        fields: &dyn SearchedFields,
        call: &'a MethodCall,
        alias: Option<&str>,
    ) -> Result<PlannedSuggestion, QueryError> {
        let (field, words, options) = match call.arguments.as_slice() {
            [field, words] => (field, words, None),
            [field, words, options] => (field, words, Some(options)),
            arguments => {
                let count = arguments.len();
                return Err(self.invalid(format!(
                    "Method suggest() must contain two or three arguments but '{count}' were \
                     specified"
                )));
            }
        };
        let field = self.suggested_field(fields, field)?;
        let options = options.map(|options| self.method_options(options, METHOD)).transpose()?;
        let (options, keeps_known_words) = match options {
            None => (SuggestOptions::default(), false),
            Some(options) => read_options(&options)?,
        };
        let words = self.words(words)?;
        Ok(PlannedSuggestion {
            name: alias.unwrap_or(&field.name).to_owned(),
            words: words
                .iter()
                .map(|word| in_the_case_of(&field, MatchMode::Default, word))
                .collect(),
            field,
            options,
            keeps_known_words,
        })
    }

    fn suggested_field(
        &self,
        fields: &dyn SearchedFields,
        argument: &Expression,
    ) -> Result<SearchedField, QueryError> {
        let name = match argument {
            Expression::Field(path) => self.field_text(path)?,
            Expression::Literal(Literal::String(name)) => name.clone(),
            other => {
                let message = format!("suggest() takes a field first, but got: {other}");
                return Err(self.invalid(message));
            }
        };
        let index = fields.index_name();
        let refused = |message: String| Err(QueryError::InvalidOperation { message });
        match fields.options(&name) {
            None => refused(format!("Index '{index}' does not have a field '{name}'.")),
            Some(options) if !options.suggestions => refused(format!(
                "Index '{index}' does not have suggestions configured for field '{name}'."
            )),
            Some(options) => Ok(SearchedField { name, options }),
        }
    }

    /// The words to find suggestions for.
    fn words(&self, argument: &'a Expression) -> Result<Vec<String>, QueryError> {
        let refused = |found: &str| {
            let message = format!("suggest() takes a text or an array of them, but got: {found}");
            QueryError::InvalidOperation { message }
        };
        let array = match argument {
            Expression::Literal(literal) => match self.resolve(literal)? {
                QueryValue::Literal(Literal::String(text)) => return Ok(vec![text.clone()]),
                QueryValue::Parameter(Value::String(text)) => {
                    return Ok(vec![text.as_cow()?.into_owned()]);
                }
                QueryValue::Parameter(Value::Array(array)) => array,
                QueryValue::Parameter(other) => return Err(refused(&shown(&other))),
                QueryValue::Literal(other) => return Err(refused(&other.to_string())),
            },
            other => return Err(refused(&other.to_string())),
        };
        let mut words = Vec::new();
        for value in array.iter() {
            match value? {
                Value::String(text) => words.push(text.as_cow()?.into_owned()),
                other => return Err(refused(&format!("an array with {}", shown(&other)))),
            }
            if WORDS_MAX < words.len() {
                return Err(refused(&format!("more than {WORDS_MAX} texts")));
            }
        }
        Ok(words)
    }
}

fn read_options(options: &MethodOptions<'_>) -> Result<(SuggestOptions, bool), QueryError> {
    let default = SuggestOptions::default();
    let count = match options.whole("PageSize")? {
        None => default.count,
        Some(count) => usize::try_from(count).unwrap_or(0).min(SUGGESTIONS_MAX),
    };
    if count == 0 {
        let message = "The option 'PageSize' of suggest() must be above 0".to_owned();
        return Err(QueryError::Argument { message });
    }
    let accuracy = options.number("Accuracy")?.map(|accuracy| accuracy as f32);
    let read = SuggestOptions {
        distance: options.choice("Distance", &DISTANCES)?.unwrap_or_default(),
        accuracy: accuracy.unwrap_or(default.accuracy).clamp(0.0, 2.0),
        count,
    };
    Ok((read, options.choice("SortMode", &SORT_MODES)?.unwrap_or(false)))
}

impl PlannedSuggestion {
    fn find<I: Transaction>(
        self,
        reader: &IndexReader<'_, I>,
    ) -> Result<SuggestedTerms, QueryError> {
        let mut terms: Vec<String> = Vec::new();
        for word in &self.words {
            let is_term = || reader.count(&search::Query::text(&self.field.name, word));
            if self.keeps_known_words && 0 < is_term()? {
                terms.push(word.clone());
                continue;
            }
            let found = reader.suggest(&self.field.name, word, &self.options)?;
            terms.extend(found.into_iter().map(|suggestion| suggestion.text));
        }
        let mut met = HashSet::new();
        terms.retain(|term| met.insert(term.clone()));
        terms.truncate(self.options.count);
        Ok(SuggestedTerms { name: self.name, terms })
    }
}
