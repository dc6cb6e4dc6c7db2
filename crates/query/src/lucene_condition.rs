//! `lucene(field, 'text')`: Lucene query syntax as an index query.
//!
//! A word passes the analyzer of its field; if that produces several words they are a phrase, if
//! none (a stop word) the clause is dropped. Wildcards, fuzzy words and the bounds of ranges are
//! compared with whole terms, in the case of the field. A field that the index does not have
//! matches nothing.

use rql::MethodCall;
use rql::lucene::{self, Clause, Group, Occur, PatternPart, Sought};
use search::{PhraseWord, Query, TermRange};
use std::ops::Bound;

use crate::error::QueryError;
use crate::index_condition::Conditions;
use crate::search_words::phrase_of;
use crate::searched_fields::{MatchMode, SearchedField};
use crate::sought_value::in_the_case_of;

impl<'a> Conditions<'_, 'a> {
    /// The index query of `lucene(field, 'text')`.
    pub(crate) fn lucene(&self, call: &'a MethodCall) -> Result<Query, QueryError> {
        let field = self.field_argument(call, MatchMode::Words)?;
        let text = self.text_argument(call)?;
        let group = lucene::parse(&text)
            .map_err(|error| QueryError::Lucene { message: error.to_string() })?;
        Ok(self.lucene_group(&field, &group).unwrap_or(Query::None))
    }

    /// `None` when no clause remains. The parser bounds the recursion.
    fn lucene_group(&self, field: &SearchedField, group: &Group) -> Option<Query> {
        let (mut wanted, mut preferred, mut unwanted) = (Vec::new(), Vec::new(), Vec::new());
        for clause in &group.clauses {
            let Some(query) = self.lucene_clause(field, clause) else { continue };
            match clause.occur {
                Occur::Must => wanted.push(query),
                Occur::Should => preferred.push(query),
                Occur::MustNot => unwanted.push(query.not()),
            }
        }
        let found = match (wanted.is_empty(), preferred.is_empty()) {
            (true, true) if unwanted.is_empty() => return None,
            // Prohibited clauses alone match nothing.
            (true, true) => return Some(Query::None),
            (true, false) => any_of(preferred),
            (false, true) => all_of(wanted),
            (false, false) => Query::Preferring(Box::new(all_of(wanted)), preferred),
        };
        if unwanted.is_empty() {
            return Some(found);
        }
        unwanted.insert(0, found);
        Some(Query::And(unwanted))
    }

    fn lucene_clause(&self, field: &SearchedField, clause: &Clause) -> Option<Query> {
        let named = match &clause.field {
            None => None,
            Some(name) => match self.fields.options(name) {
                Some(options) => Some(SearchedField { name: name.clone(), options }),
                None => return Some(Query::None),
            },
        };
        let query = self.lucene_sought(named.as_ref().unwrap_or(field), &clause.sought)?;
        Some(match clause.boost {
            None => query,
            Some(factor) => Query::Boost(Box::new(query), factor),
        })
    }

    fn lucene_sought(&self, field: &SearchedField, sought: &Sought) -> Option<Query> {
        let name = field.name.clone();
        let term = |text: &str| in_the_case_of(field, MatchMode::Default, text);
        Some(match sought {
            Sought::Everything => Query::All,
            Sought::Anything => Query::exists(&name),
            Sought::Group(group) => return self.lucene_group(field, group),
            Sought::Text(text) => return words(field, text, 0),
            Sought::Phrase { text, slop } => return words(field, text, *slop),
            Sought::Prefix(text) => Query::Prefix { field: name, text: term(text) },
            Sought::Wildcard(parts) => wildcard(name, parts, &term),
            Sought::Fuzzy { text, similarity } => {
                Query::Fuzzy { field: name, text: term(text), similarity: *similarity }
            }
            Sought::Range { low, high, inclusive } => {
                let bound = |end: &Option<String>| match end {
                    None => Bound::Unbounded,
                    Some(text) if *inclusive => Bound::Included(term(text)),
                    Some(text) => Bound::Excluded(term(text)),
                };
                if low.is_none() && high.is_none() {
                    return Some(Query::exists(&name));
                }
                Query::range(&name, TermRange::Text(bound(low), bound(high)))
            }
        })
    }
}

fn any_of(mut queries: Vec<Query>) -> Query {
    if queries.len() == 1 { queries.remove(0) } else { Query::Or(queries) }
}

fn all_of(mut queries: Vec<Query>) -> Query {
    if queries.len() == 1 { queries.remove(0) } else { Query::And(queries) }
}

/// The words of a text as a phrase; `None` when the analyzer leaves none.
fn words(field: &SearchedField, text: &str, slop: u32) -> Option<Query> {
    let words: Vec<PhraseWord> = phrase_of(field, text);
    match words.as_slice() {
        [] => None,
        [word] => Some(Query::text(&field.name, &word.text)),
        _ => Some(Query::Phrase { field: field.name.clone(), words, slop }),
    }
}

/// A wildcard; a regular expression if a character in it is escaped.
fn wildcard(field: String, parts: &[PatternPart], term: &dyn Fn(&str) -> String) -> Query {
    let has_plain_signs = parts
        .iter()
        .any(|part| matches!(part, PatternPart::Text(text) if text.contains(['*', '?'])));
    let mut pattern = String::new();
    for part in parts {
        match (part, has_plain_signs) {
            (PatternPart::Text(text), false) => pattern.push_str(&term(text)),
            (PatternPart::One, false) => pattern.push('?'),
            (PatternPart::Many, false) => pattern.push('*'),
            (PatternPart::Text(text), true) => {
                for character in term(text).chars() {
                    if character.is_ascii_punctuation() {
                        pattern.push('\\');
                    }
                    pattern.push(character);
                }
            }
            (PatternPart::One, true) => pattern.push_str("(?s:.)"),
            (PatternPart::Many, true) => pattern.push_str("(?s:.*)"),
        }
    }
    match has_plain_signs {
        false => Query::Wildcard { field, pattern },
        true => Query::Regex { field, pattern: format!("^(?:{pattern})$") },
    }
}
