//! Why an entry has its score: the parts of the query that it matches and what each adds.

use std::{
    fmt::{self, Display},
    ops::Bound,
};

use storage::Transaction;

use crate::{
    boosts,
    error::SearchError,
    ids::EntryId,
    plan::Planner,
    query::{QUERY_DEPTH_MAX, Query, TermRange},
    reader::IndexReader,
    scoring::inverse_frequency,
    term::TermValue,
};

/// A score and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The score that this part contributes.
    pub score: f32,
    /// What has it.
    pub description: String,
    /// The parts it is computed from.
    pub parts: Vec<Explanation>,
}

impl Explanation {
    fn leaf(score: f32, description: String) -> Self {
        Self { score, description, parts: Vec::new() }
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        writeln!(out, "{:indent$}{} = {}", "", self.score, self.description, indent = 2 * depth)?;
        self.parts.iter().try_for_each(|part| part.write(out, depth + 1))
    }
}

/// One line for each part, indented below what it is a part of.
impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, 0)
    }
}

impl<T: Transaction> IndexReader<'_, T> {
    /// Why `entry` matches `query`, and how well; `None` when it does not.
    ///
    /// # Errors
    ///
    /// As of a search.
    pub fn explain(
        &self,
        query: &Query,
        entry: EntryId,
    ) -> Result<Option<Explanation>, SearchError> {
        self.explain_part(query, entry, 1.0, 0)
    }

    fn explain_part(
        &self,
        query: &Query,
        entry: EntryId,
        boost: f32,
        depth: usize,
    ) -> Result<Option<Explanation>, SearchError> {
        if depth > QUERY_DEPTH_MAX {
            return Err(SearchError::QueryTooDeep);
        }
        if let Query::Boost(inner, factor) = query {
            return self.explain_part(inner, entry, boost * factor, depth + 1);
        }
        let Some(score) = self.score_of(query, entry, boost)? else { return Ok(None) };
        let parts = match query {
            Query::And(parts) => self.explain_parts(parts, entry, boost, depth)?,
            Query::Or(parts) => self.explain_parts(parts, entry, boost, depth)?,
            Query::Preferring(required, preferred) => {
                let mut parts =
                    self.explain_parts(std::slice::from_ref(required), entry, boost, depth)?;
                parts.extend(self.explain_parts(preferred, entry, boost, depth)?);
                parts
            }
            Query::Term { field, value } => {
                let term = format!("{field}:{}", shown(value));
                let parts = self.explain_term(entry, (field, value), score, boost)?;
                let description = format!("(MATCH) weight({term} in {}), product of:", entry.0);
                return Ok(Some(Explanation { score, description, parts }));
            }
            Query::Likeness(words) => {
                let description = format!("(MATCH) likeness by TF-IDF to {} words", words.len());
                return Ok(Some(Explanation::leaf(score, description)));
            }
            leaf => {
                let text = leaf_text(leaf);
                let description = format!("(MATCH) ConstantScoreQuery({text}), product of:");
                let parts = vec![Explanation::leaf(boost, "boost".to_owned())];
                return Ok(Some(Explanation { score, description, parts }));
            }
        };
        Ok(Some(Explanation { score, description: "(MATCH) sum of:".to_owned(), parts }))
    }

    fn explain_parts(
        &self,
        parts: &[Query],
        entry: EntryId,
        boost: f32,
        depth: usize,
    ) -> Result<Vec<Explanation>, SearchError> {
        let explained = parts.iter().map(|part| self.explain_part(part, entry, boost, depth + 1));
        explained.filter_map(Result::transpose).collect()
    }

    fn score_of(
        &self,
        query: &Query,
        entry: EntryId,
        boost: f32,
    ) -> Result<Option<f32>, SearchError> {
        let mut cursor = Planner::new(self, true).plan_boosted(query, boost)?;
        match cursor.seek(entry.0)? == entry.0 {
            true => Ok(Some(cursor.score()?)),
            false => Ok(None),
        }
    }

    fn explain_term(
        &self,
        entry: EntryId,
        (field, value): (&str, &TermValue),
        score: f32,
        boost: f32,
    ) -> Result<Vec<Explanation>, SearchError> {
        let matching = match self.field(field)? {
            Some(field) => self.count_of(field, value)?,
            None => 0,
        };
        let indexed_boost = self.indexed_boost(entry, field, value)?;
        let rarity = inverse_frequency(self.state.live, matching);
        let mut parts = Vec::new();
        if boost != 1.0 {
            parts.push(Explanation::leaf(boost, "boost".to_owned()));
        }
        let idf = format!("idf(docFreq={matching}, maxDocs={})", self.state.live);
        parts.push(Explanation::leaf(rarity, idf));
        if indexed_boost != 1.0 {
            parts.push(Explanation::leaf(indexed_boost, "boost of the indexed value".to_owned()));
        }
        let share = score / (rarity * boost * indexed_boost);
        if share.is_finite() {
            let description = format!("tf(termFreq({field}:{}), fieldLength)", shown(value));
            parts.push(Explanation::leaf(share, description));
        }
        Ok(parts)
    }

    /// The boost that the entry was indexed with, where it applies to a term.
    fn indexed_boost(
        &self,
        entry: EntryId,
        field: &str,
        value: &TermValue,
    ) -> Result<f32, SearchError> {
        match self.field(field)? {
            Some(field) if self.has_boosts && boosts::counts_for(field, value.kind()) => {
                boosts::boost_of(self.tx, entry.0, field)
            }
            Some(_) | None => Ok(1.0),
        }
    }
}

fn shown(value: &TermValue) -> String {
    match value {
        TermValue::Null => "NULL_VALUE".to_owned(),
        TermValue::Text(text) => text.clone(),
        TermValue::Long(value) => value.to_string(),
        TermValue::Double(value) => value.to_string(),
    }
}

/// A leaf of a query, as Lucene would write it.
fn leaf_text(query: &Query) -> String {
    let list = |values: &[TermValue]| values.iter().map(shown).collect::<Vec<_>>().join(", ");
    match query {
        Query::All => "*:*".to_owned(),
        Query::None => String::new(),
        Query::Exists { field } => format!("{field}:*"),
        Query::Term { field, value } => format!("{field}:{}", shown(value)),
        Query::AnyOf { field, values } => format!("@in<{field}>({})", list(values)),
        Query::AllOf { field, values } => format!("@all_in<{field}>({})", list(values)),
        Query::Range { field, range } => match range {
            TermRange::Text(low, high) => range_text(field, low, high),
            TermRange::Long(low, high) => range_text(field, low, high),
            TermRange::Double(low, high) => range_text(field, low, high),
        },
        Query::Prefix { field, text } => format!("{field}:{text}*"),
        Query::Suffix { field, text } => format!("{field}:*{text}"),
        Query::Contains { field, text } => format!("{field}:*{text}*"),
        Query::Wildcard { field, pattern } => format!("{field}:{pattern}"),
        Query::Regex { field, pattern } => format!("{field}:/{pattern}/"),
        Query::Fuzzy { field, text, similarity } => format!("{field}:{text}~{similarity}"),
        Query::Phrase { field, words, slop } => {
            let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            match slop {
                0 => format!("{field}:\"{}\"", words.join(" ")),
                slop => format!("{field}:\"{}\"~{slop}", words.join(" ")),
            }
        }
        Query::Not(inner) => format!("-({})", leaf_text(inner)),
        Query::Boost(inner, factor) => format!("({})^{factor}", leaf_text(inner)),
        Query::Spatial { field, .. } => format!("spatial({field})"),
        Query::Entries(_) => "entries".to_owned(),
        Query::And(_) | Query::Or(_) | Query::Likeness(_) | Query::Preferring(..) => "…".to_owned(),
    }
}

/// `[low TO high]`, with braces where an end is exclusive and `*` where there is none.
fn range_text<V: Display>(field: &str, low: &Bound<V>, high: &Bound<V>) -> String {
    let end = |bound: &Bound<V>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => value.to_string(),
        Bound::Unbounded => "*".to_owned(),
    };
    let open = if matches!(low, Bound::Excluded(_)) { '{' } else { '[' };
    let close = if matches!(high, Bound::Excluded(_)) { '}' } else { ']' };
    format!("{field}:{open}{} TO {}{close}", end(low), end(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_below_what_they_are_parts_of() {
        let leaf = |score| Explanation::leaf(score, "boost".to_owned());
        let sum = Explanation {
            score: 3.0,
            description: "(MATCH) sum of:".to_owned(),
            parts: vec![leaf(1.0), leaf(2.0)],
        };
        assert_eq!(sum.to_string(), "3 = (MATCH) sum of:\n  1 = boost\n  2 = boost\n");
        let not = Query::Not(Box::new(Query::text("A", "x")));
        assert_eq!(leaf_text(&not), "-(A:x)");
        let range = TermRange::Long(Bound::Excluded(1), Bound::Unbounded);
        assert_eq!(leaf_text(&Query::range("A", range)), "A:{1 TO *]");
    }
}
