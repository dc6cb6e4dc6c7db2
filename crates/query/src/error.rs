//! Why a query was rejected or failed.
//!
//! The display form is the whole message that a client sees, followed by the query's text in the
//! form in which clients know it. The server chooses the exception type from
//! [`QueryError::family`].

use std::error::Error;
use std::fmt;

use cluster_state::ClusterError;
use documents::DocumentError;
use rql::{ParseError, Position, nearest};
use script::{Refusal, ScriptError};
use search::SearchError;
use storage::{MemoryExhausted, StorageError};

/// The kinds of failure that clients distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The text does not conform to the grammar.
    Parse,
    /// The text conforms to the grammar, but no query may say this.
    InvalidQuery,
    /// The request or a value is of the wrong kind.
    InvalidOperation,
    /// The query names an index that does not exist.
    MissingIndex,
    /// The query names a document that does not exist.
    MissingDocument,
    /// The query is valid but this server does not support it (yet).
    NotSupported,
    /// An argument that a method or an index does not accept.
    Argument,
    /// A number is out of range.
    OutOfRange,
    /// The text of `lucene()` is not valid Lucene syntax.
    Lucene,
    /// The query names a sorter that does not exist.
    MissingSorter,
    /// A string is not a number.
    Format,
    /// A shape is not valid.
    Shape,
    /// The query is valid but the stored documents, or values, could not be read.
    Documents,
    /// The query is valid but the files of the index could not be read.
    Index,
    /// A regular expression is not valid.
    Pattern,
    /// The query was canceled.
    Interrupted,
    /// A script of the query failed on a document.
    Script,
    /// There is not enough memory for a row.
    Memory,
}

/// A query that returns no result.
#[derive(Debug)]
pub enum QueryError {
    /// The text is not a query.
    Parse {
        /// Where and how parsing failed.
        error: ParseError,
        /// The text of the query.
        query: String,
    },
    /// The query says something that no query may say.
    Invalid {
        /// What is wrong in the query.
        message: String,
        /// The text of the query.
        query: String,
        /// The parameters as JSON, when some were sent.
        parameters: Option<String>,
    },
    /// The request or a value is of the wrong kind.
    InvalidOperation {
        /// What is wrong with the request or the value.
        message: String,
    },
    /// An argument that a method or an index does not accept.
    Argument {
        /// Which argument is wrong, and why.
        message: String,
    },
    /// The text of `lucene()` is not valid Lucene syntax.
    Lucene {
        /// Where in the text, and why.
        message: String,
    },
    /// The query names a sorter that does not exist.
    MissingSorter {
        /// The message for the caller, with the name of the sorter.
        message: String,
    },
    /// A string in place of a number.
    Format {
        /// What is wrong with it.
        message: String,
    },
    /// A time series query that the entries or the documents do not allow.
    TimeSeries {
        /// Why the entries or documents do not allow it.
        message: String,
    },
    /// A number that is out of range.
    OutOfRange {
        /// The message for the caller, with the number.
        message: String,
    },
    /// A shape that is not valid.
    Shape {
        /// What is wrong with it.
        message: String,
    },
    /// A method that does not exist.
    Method {
        /// The message for the caller, with the name of the method.
        message: String,
    },
    /// The query names a document that does not exist.
    MissingDocument {
        /// The id, as written in the query.
        id: String,
    },
    /// The query names an index that does not exist.
    MissingIndex {
        /// The name, as written in the query.
        name: String,
    },
    /// The query requires an index, and none is available.
    NeedsIndex {
        /// The part of the query that requires one.
        part: String,
        /// Its position in the text.
        position: Position,
        /// The text of the query.
        query: String,
    },
    /// This part of the language is parsed but not supported yet.
    NotSupportedYet {
        /// The part of the query.
        part: String,
        /// Its position; absent for whole clauses.
        position: Option<Position>,
        /// The text of the query.
        query: String,
    },
    /// A graph query, `match`; these will not be supported.
    Graph {
        /// Its position in the text.
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
    /// There is not enough memory to produce a row.
    Memory(MemoryExhausted),
}

impl QueryError {
    /// The family, from which the server chooses the exception type and the status.
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
            QueryError::Index(SearchError::Pattern { .. } | SearchError::PrefixTooLong { .. }) => {
                Family::Pattern
            }
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

/// An unknown method, with the member of `known` that was probably meant.
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
    /// Whether memory ran out: the same may be tried again once there is some, or the caller has released
    /// some.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, QueryError::Memory(_))
    }

    /// Whether the same may succeed later, without the caller releasing anything.
    pub fn may_find_memory_later(&self) -> bool {
        matches!(self, QueryError::Memory(exhausted) if !exhausted.is_too_large())
    }
}

impl From<MemoryExhausted> for QueryError {
    fn from(error: MemoryExhausted) -> QueryError {
        QueryError::Memory(error)
    }
}

impl From<SearchError> for QueryError {
    fn from(error: SearchError) -> QueryError {
        match error {
            SearchError::Storage(
                StorageError::NoMemory(exhausted) | StorageError::NoMemoryToDecrypt(exhausted),
            ) => QueryError::Memory(exhausted),
            other => QueryError::Index(other),
        }
    }
}

impl From<blittable::Corrupt> for QueryError {
    fn from(error: blittable::Corrupt) -> QueryError {
        QueryError::Documents(DocumentError::from(error))
    }
}
