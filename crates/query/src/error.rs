//! Why a query was refused or failed.
//!
//! The display form is the whole message that a client sees, with the query's text behind it in the
//! form in which clients know it. Which exception type a message travels under is decided by the
//! server from [`QueryError::family`].

use std::error::Error;
use std::fmt;

use cluster_state::ClusterError;
use documents::DocumentError;
use rql::{ParseError, Position, nearest};
use script::{Refusal, ScriptError};
use search::SearchError;
use storage::MemoryExhausted;

/// The families of failures, as clients tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The text stops following the grammar.
    Parse,
    /// The text follows the grammar but no query may say this.
    InvalidQuery,
    /// The request or a value has the wrong kind.
    InvalidOperation,
    /// The query names an index that does not exist.
    MissingIndex,
    /// The query names a document that does not exist.
    MissingDocument,
    /// The query is fine but this server cannot answer it (yet).
    NotSupported,
    /// An argument is not what a method or an index takes.
    Argument,
    /// A number is too small or too large.
    OutOfRange,
    /// The text of `lucene()` does not follow its syntax.
    Lucene,
    /// The query names a sorter that does not exist.
    MissingSorter,
    /// A text is no number.
    Format,
    /// A shape cannot be.
    Shape,
    /// The query is fine but the stored documents, or values, could not be read.
    Documents,
    /// The query is fine but the files of the index could not be read.
    Index,
    /// A regular expression is none.
    Pattern,
    /// Somebody stopped it.
    Interrupted,
    /// A script of the query failed on a document.
    Script,
    /// There is no memory for a row.
    Memory,
}

/// A query that gives no result.
#[derive(Debug)]
pub enum QueryError {
    /// The text is not a query.
    Parse {
        /// Where it stops being one.
        error: ParseError,
        /// The text.
        query: String,
    },
    /// The query says something that no query may say.
    Invalid {
        /// What.
        message: String,
        /// The text of the query.
        query: String,
        /// The parameters as JSON, when some were sent.
        parameters: Option<String>,
    },
    /// The request or a value has the wrong kind.
    InvalidOperation {
        /// What is wrong.
        message: String,
    },
    /// An argument that a method or an index does not take.
    Argument {
        /// What is wrong.
        message: String,
    },
    /// The text of `lucene()` does not follow its syntax.
    Lucene {
        /// Where and why.
        message: String,
    },
    /// A sorter that there is not.
    MissingSorter {
        /// Which.
        message: String,
    },
    /// A text that stands where a number has to.
    Format {
        /// What is wrong with it.
        message: String,
    },
    /// A query over a time series that its entries or documents do not allow.
    TimeSeries {
        /// Why.
        message: String,
    },
    /// A number that is too small or too large.
    OutOfRange {
        /// Which.
        message: String,
    },
    /// A shape that cannot be.
    Shape {
        /// What is wrong with it.
        message: String,
    },
    /// A method that there is not.
    Method {
        /// Which.
        message: String,
    },
    /// The query names a document that does not exist.
    MissingDocument {
        /// The id as the query has it.
        id: String,
    },
    /// The query names an index that does not exist.
    MissingIndex {
        /// The name as the query has it.
        name: String,
    },
    /// Answering takes an index, and there are none yet.
    NeedsIndex {
        /// The part of the query that takes one.
        part: String,
        /// Where it stands.
        position: Position,
        /// The text of the query.
        query: String,
    },
    /// This part of the language is understood but not answered yet.
    NotSupportedYet {
        /// The part of the query.
        part: String,
        /// Where it stands; absent for whole clauses.
        position: Option<Position>,
        /// The text of the query.
        query: String,
    },
    /// A query over a graph, `match`, which there will not be.
    Graph {
        /// Where it begins.
        position: Position,
        /// The text of the query.
        query: String,
    },
    /// The documents could not be read.
    Documents(DocumentError),
    /// Compare exchange could not be read.
    Values(ClusterError),
    /// The index could not be read.
    Index(SearchError),
    /// A script of the query failed.
    Script(ScriptError),
    /// There is no memory for what a row takes while it is made.
    Memory(MemoryExhausted),
}

impl QueryError {
    /// The family, from which the server chooses the exception type and status.
    pub fn family(&self) -> Family {
        match self {
            QueryError::Parse { .. } => Family::Parse,
            QueryError::Invalid { .. } | QueryError::TimeSeries { .. } => Family::InvalidQuery,
            QueryError::OutOfRange { .. } => Family::OutOfRange,
            QueryError::InvalidOperation { .. } => Family::InvalidOperation,
            QueryError::MissingIndex { .. } => Family::MissingIndex,
            QueryError::MissingDocument { .. } => Family::MissingDocument,
            QueryError::NeedsIndex { .. }
            | QueryError::NotSupportedYet { .. }
            | QueryError::Graph { .. } => Family::NotSupported,
            QueryError::Argument { .. } => Family::Argument,
            QueryError::Lucene { .. } => Family::Lucene,
            QueryError::MissingSorter { .. } => Family::MissingSorter,
            QueryError::Format { .. } => Family::Format,
            QueryError::Shape { .. } => Family::Shape,
            QueryError::Method { .. } => Family::NotSupported,
            QueryError::Documents(_) | QueryError::Values(_) => Family::Documents,
            QueryError::Index(SearchError::Interrupted) => Family::Interrupted,
            QueryError::Index(SearchError::Pattern { .. }) => Family::Pattern,
            QueryError::Index(SearchError::QueryTooDeep) => Family::InvalidQuery,
            QueryError::Index(_) => Family::Index,
            QueryError::Script(ScriptError::Refused { kind: Refusal::Value, .. }) => {
                Family::Argument
            }
            QueryError::Script(ScriptError::Refused { kind: Refusal::Call, .. }) => {
                Family::InvalidOperation
            }
            QueryError::Script(ScriptError::Refused { kind: Refusal::NotHere, .. }) => {
                Family::NotSupported
            }
            QueryError::Script(_) => Family::Script,
            QueryError::Memory(_) => Family::Memory,
        }
    }
}

/// A method that there is not, with the one of `known` that was probably meant.
pub(crate) fn unknown_method(name: &str, known: &[&str]) -> QueryError {
    let hint = nearest(name, known).map(|known| format!(" Did you mean '{known}'?"));
    let message = format!("Method '{name}' is not supported.{}", hint.unwrap_or_default());
    QueryError::Method { message }
}

impl fmt::Display for QueryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Parse { error, query } => write!(out, "{error}\nQuery: \n{query}"),
            QueryError::Invalid { message, query, parameters } => {
                write!(out, "{message}\nQuery: {query}")?;
                match parameters {
                    Some(parameters) => write!(out, "\nParameters: {parameters}"),
                    None => Ok(()),
                }
            }
            QueryError::InvalidOperation { message }
            | QueryError::Argument { message }
            | QueryError::Lucene { message }
            | QueryError::MissingSorter { message }
            | QueryError::Format { message }
            | QueryError::Shape { message }
            | QueryError::TimeSeries { message }
            | QueryError::OutOfRange { message }
            | QueryError::Method { message } => out.write_str(message),
            QueryError::MissingIndex { name } => {
                write!(out, "There is no index with '{name}' name.")
            }
            QueryError::MissingDocument { id } => write!(out, "Document '{id}' does not exist."),
            QueryError::NeedsIndex { part, position, query } => write!(
                out,
                "{position} Answering {part} takes an index, and indexes are not supported yet\
                 \nQuery: {query}"
            ),
            QueryError::NotSupportedYet { part, position, query } => {
                if let Some(position) = position {
                    write!(out, "{position} ")?;
                }
                write!(out, "Queries with {part} are not supported yet\nQuery: {query}")
            }
            QueryError::Graph { position, query } => write!(
                out,
                "{position} Graph queries ('match') are not supported: RavenDB removed them in version 6. \
                 Load what documents name with 'load' or 'include', or index it with LoadDocument\n\
                 Query: {query}"
            ),
            QueryError::Documents(error) => error.fmt(out),
            QueryError::Values(error) => error.fmt(out),
            QueryError::Index(error) => error.fmt(out),
            QueryError::Script(error) => error.fmt(out),
            QueryError::Memory(error) => error.fmt(out),
        }
    }
}

impl Error for QueryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            QueryError::Parse { error, .. } => Some(error),
            QueryError::Documents(error) => Some(error),
            QueryError::Values(error) => Some(error),
            QueryError::Index(error) => Some(error),
            QueryError::Script(error) => Some(error),
            QueryError::Memory(error) => Some(error),
            QueryError::Argument { .. }
            | QueryError::Lucene { .. }
            | QueryError::MissingSorter { .. }
            | QueryError::Format { .. }
            | QueryError::Shape { .. }
            | QueryError::TimeSeries { .. }
            | QueryError::OutOfRange { .. }
            | QueryError::Method { .. }
            | QueryError::Invalid { .. }
            | QueryError::InvalidOperation { .. }
            | QueryError::MissingIndex { .. }
            | QueryError::MissingDocument { .. }
            | QueryError::NeedsIndex { .. }
            | QueryError::NotSupportedYet { .. }
            | QueryError::Graph { .. } => None,
        }
    }
}

impl From<DocumentError> for QueryError {
    fn from(error: DocumentError) -> QueryError {
        QueryError::Documents(error)
    }
}

impl From<ClusterError> for QueryError {
    fn from(error: ClusterError) -> QueryError {
        QueryError::Values(error)
    }
}

impl From<ScriptError> for QueryError {
    fn from(error: ScriptError) -> QueryError {
        QueryError::Script(error)
    }
}

impl QueryError {
    /// Whether the same may be tried again when there is room.
    pub fn is_for_want_of_memory(&self) -> bool {
        matches!(self, QueryError::Memory(_))
    }
}

impl From<MemoryExhausted> for QueryError {
    fn from(error: MemoryExhausted) -> QueryError {
        QueryError::Memory(error)
    }
}

impl From<SearchError> for QueryError {
    fn from(error: SearchError) -> QueryError {
        QueryError::Index(error)
    }
}

impl From<blittable::Corrupt> for QueryError {
    fn from(error: blittable::Corrupt) -> QueryError {
        QueryError::Documents(DocumentError::from(error))
    }
}
