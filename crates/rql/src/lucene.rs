//! The classic query syntax of Lucene, in which `lucene(field, 'text')` writes its text: words,
//! `"phrases"~2`, `wild*c?rds`, `fuzzy~0.7`, `[a TO b]`, `{a TO b}`, `+must -not`, `AND`, `OR`, `NOT`,
//! `&&`, `||`, `!`, `(groups)`, `field:` in front, `^2` behind, and `\` before a sign that means itself.
//!
//! Only syntax: what a word becomes is decided by the analyzer of its field, elsewhere. As in Lucene,
//! `AND` binds no tighter than `OR`: both say something of the clauses beside them.
//!
//! The parser is total: any text is a query or an error, in time and memory that follow its length.

mod error;
mod lexer;
mod parser;
mod printer;

pub use error::LuceneError;
pub use parser::{LUCENE_BYTES_MAX, LUCENE_DEPTH_MAX, parse};

/// Clauses beside each other. Without a clause that must match, one that should match has to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// In the order of the text.
    pub clauses: Vec<Clause>,
}

/// One clause of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// What it means for the group.
    pub occur: Occur,
    /// The field that is named in front of it; without one it is that of the clause around.
    pub field: Option<String>,
    /// What has to be found.
    pub sought: Sought,
    /// What its score is multiplied with.
    pub boost: Option<f32>,
}

/// What a clause means for the group in which it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occur {
    /// It has to match.
    Must,
    /// It may match.
    Should,
    /// It must not match.
    MustNot,
}

/// What a clause looks for. Texts are without the backslashes of the query.
#[derive(Clone, Debug, PartialEq)]
pub enum Sought {
    /// A text, which the analyzer takes apart.
    Text(String),
    /// A text in quotes, which the analyzer takes apart.
    Phrase {
        /// The text.
        text: String,
        /// By how many places its words may be moved.
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
