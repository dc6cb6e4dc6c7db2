//! `moreLikeThis()`: entries that share the words that distinguish one entry from the others.
//!
//! A word's weight grows with its frequency in the base and with its rarity among all entries. The
//! best ones are searched for, each in the field in which most entries have it; the base itself is
//! excluded.

use std::{cmp::Ordering, collections::HashMap};

use blittable::{BlittableBuf, Object, ParseLimits, Value, parse_document};
use rql::{Expression, Literal, MethodCall};
use search::{LikeWord, Query, analysis::Analyzer};

use crate::error::QueryError;
use crate::index_condition::Conditions;
use crate::more_like_options::MoreLikeOptions;
use crate::parameters::{QueryContext, QueryValue, shown};
use crate::searched_fields::{ID_FIELD, MatchMode, SearchedField};
use crate::term_statistics::{BaseEntry, ComparedField, TermStatistics};

const METHOD: &str = "moreLikeThis";
/// Maximum size of a text that entries are compared with, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of lookups of how many entries have a word in a field; with more words in the
/// base, only the most frequent ones are weighed.
const LOOKUPS_MAX: usize = 50_000;
/// Maximum number of compared fields.
const FIELDS_MAX: usize = 512;

/// The number of occurrences of each word in the base.
type Frequencies = HashMap<String, u64>;

impl<'a> QueryContext<'a> {
    /// Whether the condition of the query contains `moreLikeThis()`.
    pub(crate) fn compares_documents(&self) -> bool {
        self.query.condition.as_ref().is_some_and(has_more_like_this)
    }
}

/// The parser's nesting limit bounds the recursion.
fn has_more_like_this(condition: &Expression) -> bool {
    match condition {
        Expression::And(parts) | Expression::Or(parts) => parts.iter().any(has_more_like_this),
        Expression::Method(call) if call.is(METHOD) => true,
        Expression::Method(call) => call.arguments.iter().any(has_more_like_this),
        Expression::Not(_)
        | Expression::Compare { .. }
        | Expression::Between { .. }
        | Expression::In { .. }
        | Expression::Field(_)
        | Expression::Literal(_)
        | Expression::TimeSeries(_) => false,
    }
}

impl<'a> Conditions<'_, 'a> {
    /// The query for entries similar to the base that the call describes.
    pub(crate) fn more_like_this(&self, call: &'a MethodCall) -> Result<Query, QueryError> {
        let (base, options) = match call.arguments.as_slice() {
            [base] => (base, None),
            [base, options] => (base, Some(options)),
            _ => {
                let message = "Method moreLikeThis() expects to have one or two arguments";
                return Err(self.context.invalid(message));
            }
        };
        let Some(statistics) = self.fields.statistics() else { return Ok(Query::None) };
        let options = match options {
            Some(options) if !self.is_null(options)? => {
                let options = self.context.method_options(options, METHOD)?;
                MoreLikeOptions::read(&options, statistics)?
            }
            Some(_) | None => MoreLikeOptions::default(),
        };
        let fields = fields_of(&options, statistics)?;
        Comparison { conditions: self, statistics, options, fields }.query(base)
    }

    fn is_null(&self, argument: &'a Expression) -> Result<bool, QueryError> {
        let Expression::Literal(literal) = argument else { return Ok(false) };
        Ok(matches!(
            self.context.resolve(literal)?,
            QueryValue::Literal(Literal::Null) | QueryValue::Parameter(Value::Null)
        ))
    }
}

/// The requested fields, else all.
fn fields_of(
    options: &MoreLikeOptions,
    statistics: &dyn TermStatistics,
) -> Result<Vec<ComparedField>, QueryError> {
    let mut fields = statistics.compared_fields()?;
    if let Some(wanted) = &options.fields {
        fields.retain(|field| wanted.contains(&field.name));
    }
    if FIELDS_MAX < fields.len() {
        let message = format!(
            "moreLikeThis() compares at most {FIELDS_MAX} fields; name some with the option 'Fields'"
        );
        return Err(QueryError::InvalidOperation { message });
    }
    Ok(fields)
}

/// One call while it is planned.
struct Comparison<'c, 's, 'a> {
    conditions: &'c Conditions<'s, 'a>,
    statistics: &'c dyn TermStatistics,
    options: MoreLikeOptions,
    fields: Vec<ComparedField>,
}

impl<'a> Comparison<'_, '_, 'a> {
    fn query(mut self, base: &'a Expression) -> Result<Query, QueryError> {
        match base {
            Expression::Compare { .. } | Expression::And(_) | Expression::Or(_) => {
                let query = self.conditions.query(base, MatchMode::Default)?;
                self.like_entry(&query)
            }
            Expression::Literal(Literal::Bool(true)) => self.like_entry(&Query::All),
            Expression::Literal(literal) => match self.conditions.context.resolve(literal)? {
                QueryValue::Parameter(Value::Object(object)) => self.like_document(object),
                QueryValue::Parameter(Value::String(text)) => self.like_text(&text.as_cow()?),
                QueryValue::Literal(Literal::String(text)) => self.like_text(text),
                QueryValue::Parameter(other) => Err(no_document(&shown(&other))),
                QueryValue::Literal(other) => Err(no_document(&other.to_string())),
            },
            _ => {
                let message = "Method moreLikeThis() expects that first argument will be a binary \
                               expression or value";
                Err(self.conditions.context.invalid(message))
            }
        }
    }

    /// Entries similar to the first entry that an index query selects. Unless fields are requested,
    /// those that the index stores are compared, if there are any.
    fn like_entry(&mut self, query: &Query) -> Result<Query, QueryError> {
        let Some(base) = self.statistics.base_entry(query)? else {
            let message = "Given filtering expression did not yield any documents that could be \
                           used as a base of comparison";
            return Err(QueryError::InvalidOperation { message: message.to_owned() });
        };
        let BaseEntry { document_id, words } = base;
        if self.options.fields.is_none() && self.fields.iter().any(|field| field.is_kept) {
            self.fields.retain(|field| field.is_kept);
        }
        let mut frequencies = Frequencies::new();
        let compared = words
            .into_iter()
            .filter(|(name, _)| self.fields.iter().any(|field| field.name == *name));
        for (word, frequency) in compared.flat_map(|(_, words)| words) {
            *frequencies.entry(word).or_default() += frequency;
        }
        // Excluding the base adds nothing to a score.
        let others = Query::Boost(Box::new(Query::text(ID_FIELD, &document_id).not()), 0.0);
        Ok(Query::And(vec![self.like_words(frequencies)?, others]))
    }

    fn like_text(&self, text: &str) -> Result<Query, QueryError> {
        let limits = ParseLimits { document_bytes_max: TEXT_BYTES_MAX, ..Default::default() };
        let document: BlittableBuf =
            parse_document(text.as_bytes(), &limits).map_err(|error| QueryError::Argument {
                message: format!("moreLikeThis() takes a JSON document, but: {error}"),
            })?;
        self.like_document(document.as_view().root())
    }

    /// Entries similar to a document that is not in the index: its strings count for every field,
    /// whatever their names in the document.
    fn like_document(&self, document: Object<'_>) -> Result<Query, QueryError> {
        let texts = texts_of(document)?;
        let mut frequencies = Frequencies::new();
        for analyzer in self.analyzers() {
            let (mut of_one, mut read) = (Frequencies::new(), 0);
            for text in &texts {
                analyzer.analyze(text, &mut |token| {
                    read += 1;
                    if read <= self.options.text_words_max {
                        *of_one.entry(token.text.to_owned()).or_default() += 1;
                    }
                });
            }
            for (word, frequency) in of_one {
                let known = frequencies.entry(word).or_default();
                *known = frequency.max(*known);
            }
        }
        self.like_words(frequencies)
    }

    /// The distinct analyzers of the fields.
    fn analyzers(&self) -> Vec<Analyzer> {
        let mut analyzers = Vec::new();
        for ComparedField { name, .. } in &self.fields {
            let Some(options) = self.conditions.fields.options(name) else { continue };
            let analyzer = SearchedField { name: name.clone(), options }.analyzer();
            if !analyzers.contains(&analyzer) {
                analyzers.push(analyzer);
            }
        }
        analyzers
    }

    /// The query for the best of some words.
    fn like_words(&self, frequencies: Frequencies) -> Result<Query, QueryError> {
        let mut words: Vec<(String, u64)> = frequencies.into_iter().collect();
        let weighed_max = LOOKUPS_MAX / self.fields.len().max(1);
        if weighed_max < words.len() {
            words.sort_unstable_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
            words.truncate(weighed_max);
        }
        let mut weighed = Vec::new();
        for (word, frequency) in words {
            weighed.extend(self.weigh(word, frequency)?);
        }
        weighed.sort_unstable_by(WeighedWord::compare);
        weighed.truncate(self.options.words_max);
        let best = weighed.first().map_or(1.0, |word| word.weight);
        let like_word = |word: WeighedWord| LikeWord {
            boost: self.options.boost.map_or(1.0, |factor| factor * word.weight / best),
            field: word.field,
            text: word.text,
        };
        match weighed.is_empty() {
            true => Ok(Query::None),
            false => Ok(Query::Likeness(weighed.into_iter().map(like_word).collect())),
        }
    }

    /// The word in the field in which most entries have it; `None` when it does not count.
    fn weigh(&self, text: String, frequency: u64) -> Result<Option<WeighedWord>, QueryError> {
        let mut most: Option<(&String, u64)> = None;
        for ComparedField { name, .. } in &self.fields {
            let matching = self.statistics.entries_with(name, &text)?;
            if most.is_none_or(|(_, count)| count < matching) {
                most = Some((name, matching));
            }
        }
        let entries = self.statistics.entry_count();
        let Some((field, matching)) = most.filter(|(_, matching)| {
            0 < *matching && self.options.accepts(&text, frequency, *matching, entries)
        }) else {
            return Ok(None);
        };
        let rarity = 1.0 + (entries as f32 / (matching as f32 + 1.0)).ln();
        Ok(Some(WeighedWord { field: field.clone(), text, weight: frequency as f32 * rarity }))
    }
}

struct WeighedWord {
    field: String,
    text: String,
    weight: f32,
}

impl WeighedWord {
    fn compare(&self, other: &Self) -> Ordering {
        other.weight.total_cmp(&self.weight).then_with(|| self.text.cmp(&other.text))
    }
}

/// All values of a document as strings, at any depth.
fn texts_of(document: Object<'_>) -> Result<Vec<String>, QueryError> {
    let mut texts = Vec::new();
    let mut pending = vec![Value::Object(document)];
    let mut bytes = 0;
    while let Some(value) = pending.pop() {
        let text = match value {
            Value::Null => continue,
            Value::Object(object) => {
                for at in 0..object.len() {
                    pending.extend(object.at(at)?.map(|(_, value)| value));
                }
                continue;
            }
            Value::Array(array) => {
                for value in array.iter() {
                    pending.push(value?);
                }
                continue;
            }
            Value::String(text) => text.as_cow()?.into_owned(),
            Value::Bool(_) | Value::Integer(_) | Value::Number(_) => shown(&value),
        };
        bytes += text.len();
        if TEXT_BYTES_MAX < bytes {
            let message =
                format!("moreLikeThis() takes a document of {TEXT_BYTES_MAX} bytes at most");
            return Err(QueryError::Argument { message });
        }
        texts.push(text);
    }
    Ok(texts)
}

fn no_document(found: &str) -> QueryError {
    let message = format!("moreLikeThis() takes a condition or a JSON document, but got: {found}");
    QueryError::Argument { message }
}
