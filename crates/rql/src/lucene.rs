//! The classic query syntax of Lucene, used for the text of `lucene(field, 'text')`: words,
//! `"phrases"~2`, `wild*c?rds`, `fuzzy~0.7`, `[a TO b]`, `{a TO b}`, `+must -not`, `AND`, `OR`,
//! `NOT`, `&&`, `||`, `!`, `(groups)`, `field:` as a prefix, `^2` as a suffix, and `\` to escape a
//! special character.
//!
//! Only syntax: how a word is analyzed is decided elsewhere, by the analyzer of its field. As in
//! Lucene, `AND` binds no tighter than `OR`: both modify the adjacent clauses.
//!
//! The parser is total: any text is a query or an error, in time and memory proportional to its
//! length.

mod error;
mod lexer;
mod parser;
mod printer;

pub use error::LuceneError;
pub use parser::{LUCENE_BYTES_MAX, LUCENE_DEPTH_MAX, parse};

/// A sequence of clauses. Without a clause that must match, at least one that should match has to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// In the order of the text.
    pub clauses: Vec<Clause>,
}

/// One clause of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// How it counts in the group.
    pub occur: Occur,
    /// The field that is named in front of it; without one it is that of the clause around.
    pub field: Option<String>,
    /// What has to be found.
    pub sought: Sought,
    /// What its score is multiplied with.
    pub boost: Option<f32>,
}

/// How a clause counts in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occur {
    /// It has to match.
    Must,
    /// It may match.
    Should,
    /// It must not match.
    MustNot,
}

/// What a clause searches for. Texts are unescaped.
#[derive(Clone, Debug, PartialEq)]
pub enum Sought {
    /// A text, to be analyzed.
    Text(String),
    /// A quoted text, to be analyzed.
    Phrase {
        /// The text.
        text: String,
        /// By how many positions its words may be moved.
        slop: u32,
    },
    /// A term that begins so.
    Prefix(String),
    /// A term like this pattern.
    Wildcard(Vec<PatternPart>),
    /// A term that is spelt nearly so.
    Fuzzy {
        /// The term.
        text: String,
        /// How near, from 0 to below 1.
        similarity: f32,
    },
    /// A term in a range.
    Range {
        /// The lowest; `None` for `*`.
        low: Option<String>,
        /// The highest; `None` for `*`.
        high: Option<String>,
        /// Whether both ends are in it.
        inclusive: bool,
    },
    /// Anything in the field: `*`.
    Anything,
    /// Every entry: `*:*`.
    Everything,
    /// Clauses in parentheses.
    Group(Group),
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternPart {
    /// These characters.
    Text(String),
    /// `?`: any one character.
    One,
    /// `*`: any characters.
    Many,
}

#[cfg(test)]
mod tests;
