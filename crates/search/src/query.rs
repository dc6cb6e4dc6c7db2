//! Queries, as data.

use std::{ops::Bound, sync::Arc};

use spatial::{Relation, Shape};

use crate::{ids::EntryId, place::SpatialLayout, term::TermValue};

/// The deepest nesting of a query.
pub const QUERY_DEPTH_MAX: usize = 512;

/// What to search for. Fields are named; one that the index does not have has no terms. Texts are
/// already terms, as produced by the field's analyzer: lower-cased where the field is.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// Every entry; score 1.
    All,
    /// No entry.
    None,
    /// Entries that have the value. Scored by BM25.
    Term {
        /// The field.
        field: String,
        /// The value.
        value: TermValue,
    },
    /// Entries that have any of the values; the score is how many.
    AnyOf {
        /// The field.
        field: String,
        /// The values.
        values: Vec<TermValue>,
    },
    /// Entries that have all of the values; none when there are no values. The score is the number
    /// of values.
    AllOf {
        /// The field.
        field: String,
        /// The values.
        values: Vec<TermValue>,
    },
    /// Entries with a value in the range; score 1.
    Range {
        /// The field.
        field: String,
        /// The range.
        range: TermRange,
    },
    /// Entries with a text that begins so. Like the four that follow: score 1, and with an empty text
    /// every entry that has anything in the field, null too.
    Prefix {
        /// The field.
        field: String,
        /// The beginning.
        text: String,
    },
    /// Entries with a text that ends so.
    Suffix {
        /// The field.
        field: String,
        /// The end.
        text: String,
    },
    /// Entries with a text that has this inside.
    Contains {
        /// The field.
        field: String,
        /// The part.
        text: String,
    },
    /// Entries with a text like the pattern: `*` matches any characters, `?` exactly one.
    Wildcard {
        /// The field.
        field: String,
        /// The pattern.
        pattern: String,
    },
    /// Entries with a text in which the regular expression is found, ignoring case.
    Regex {
        /// The field.
        field: String,
        /// The expression, in the syntax of the crate `regex`.
        pattern: String,
    },
    /// Entries with a text near to this one; score 1.
    Fuzzy {
        /// The field.
        field: String,
        /// The text.
        text: String,
        /// From 0 to 1: one less the edits per character of the shorter text has to be above this.
        similarity: f32,
    },
    /// Entries whose field has the words in this order, at most `slop` moves away from it. Scored
    /// by BM25. Only for analyzed fields; for others it is like [`Query::AllOf`].
    Phrase {
        /// The field.
        field: String,
        /// The words.
        words: Vec<PhraseWord>,
        /// By how many positions the words may be moved.
        slop: u32,
    },
    /// Entries with any value in the field, null too; score 1.
    Exists {
        /// The field.
        field: String,
    },
    /// Entries that all match; all entries when there are none. The scores are added.
    And(Vec<Query>),
    /// Entries that any matches. The scores of those that match are added.
    Or(Vec<Query>),
    /// Entries that have any of the words. Scored by TF-IDF without the length of texts, and by the share
    /// of the words that an entry has.
    Likeness(Vec<LikeWord>),
    /// Entries that do not match; score 1.
    Not(Box<Query>),
    /// Entries that match the first. Those that also match any of the others have those scores
    /// added.
    Preferring(Box<Query>, Vec<Query>),
    /// The same with all scores multiplied.
    Boost(Box<Query>, f32),
    /// Entries that have a place or a shape in the given relation to a shape; score 1. One of
    /// several values is enough, except for [`Relation::Disjoint`](spatial::Relation), which all
    /// must satisfy.
    Spatial {
        /// The field.
        field: String,
        /// How the field stores shapes.
        layout: SpatialLayout,
        /// Their relation to `shape`.
        relation: Relation,
        /// The shape.
        shape: Arc<Shape>,
    },
    /// These entries, in any order; score 1.
    Entries(Vec<EntryId>),
}

/// A word that entries like another one may have.
#[derive(Clone, Debug, PartialEq)]
pub struct LikeWord {
    /// The name of the field that contains the word.
    pub field: String,
    /// The word, as the analyzer leaves it.
    pub text: String,
    /// What its part of a score is multiplied by.
    pub boost: f32,
}

/// A word of a phrase and its position in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhraseWord {
    /// The word, as the analyzer leaves it.
    pub text: String,
    /// Its position; stop words leave gaps.
    pub position: u32,
}

/// A range of values of one kind. Null is in no range; the empty text is the lowest text.
#[derive(Clone, Debug, PartialEq)]
pub enum TermRange {
    /// Of texts, by their bytes.
    Text(Bound<String>, Bound<String>),
    /// Of numbers, cut to integers.
    Long(Bound<i64>, Bound<i64>),
    /// Of numbers.
    Double(Bound<f64>, Bound<f64>),
}

impl Query {
    /// Entries in which the field is `value`.
    pub fn term(field: &str, value: TermValue) -> Self {
        Query::Term { field: field.to_owned(), value }
    }

    /// Entries in which the field has this text.
    pub fn text(field: &str, text: &str) -> Self {
        Self::term(field, TermValue::Text(text.to_owned()))
    }

    /// Entries in which the field is in the range.
    pub fn range(field: &str, range: TermRange) -> Self {
        Query::Range { field: field.to_owned(), range }
    }

    /// Entries that have the field.
    pub fn exists(field: &str) -> Self {
        Query::Exists { field: field.to_owned() }
    }

    /// The opposite.
    #[expect(clippy::should_implement_trait, reason = "`!query` would hide an allocation")]
    pub fn not(self) -> Self {
        Query::Not(Box::new(self))
    }
}
