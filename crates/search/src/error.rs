//! What can go wrong in an index, in the three kinds that are never mixed: the caller's, the
//! environment's (retryable, inside [`StorageError`]), and ours (corruption).

use std::fmt;

use storage::StorageError;

/// An error of the search engine.
#[derive(Clone, Debug)]
pub enum SearchError {
    /// The storage below.
    Storage(StorageError),
    /// Ours, or the disk's: bytes of the index that contradict each other.
    Corrupt {
        /// The contradiction.
        detail: &'static str,
    },
    /// The caller's: more than [`crate::FIELDS_MAX`] fields.
    TooManyFields,
    /// The caller's: a field's name is empty or longer than [`crate::FIELD_NAME_BYTES_MAX`].
    FieldName {
        /// Length of the refused name, in bytes.
        bytes: usize,
    },
    /// The caller's: an entry with more than [`crate::ENTRY_BYTES_MAX`] bytes of terms.
    EntryTooLong {
        /// Bytes of the entry's terms.
        bytes: usize,
    },
    /// The caller's: a document id longer than [`crate::TERM_BYTES_MAX`].
    DocumentIdTooLong {
        /// Length of the refused id, in bytes.
        bytes: usize,
    },
    /// The caller's: a batch that outgrew [`crate::BATCH_BYTES_MAX`].
    BatchTooLong {
        /// Bytes gathered.
        bytes: usize,
    },
    /// The caller's: a query nested deeper than [`crate::QUERY_DEPTH_MAX`].
    QueryTooDeep,
    /// The caller's: a pattern that is no regular expression, or too large a one.
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller's: a prefix that some texts may or may not begin with: the index has too little of them.
    PrefixTooLong {
        /// Length of the prefix, in bytes.
        bytes: usize,
    },
    /// The caller's: a facet with more than [`crate::FACET_TERMS_MAX`] terms.
    TooManyFacetTerms,
    /// The caller's: the flag of [`crate::IndexReader::interruptible`] was set.
    Interrupted,
    /// The caller's: no analyzer has that name.
    UnknownAnalyzer {
        /// The name.
        name: String,
    },
    /// The caller's: an analyzer of RavenDB that Corvus does not have, such as collations.
    UnsupportedAnalyzer {
        /// The name.
        name: String,
    },
}

impl SearchError {
    pub(crate) fn corrupt(detail: &'static str) -> Self {
        SearchError::Corrupt { detail }
    }

    /// Whether the same request may succeed later without any repair.
    pub fn is_retryable(&self) -> bool {
        matches!(self, SearchError::Storage(error) if error.is_retryable())
    }
}

impl From<StorageError> for SearchError {
    fn from(error: StorageError) -> Self {
        SearchError::Storage(error)
    }
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchError::Storage(error) => error.fmt(f),
            SearchError::Corrupt { detail } => write!(f, "the index is damaged: {detail}"),
            SearchError::TooManyFields => {
                write!(f, "an index has at most {} fields", crate::FIELDS_MAX)
            }
            SearchError::FieldName { bytes } => write!(
                f,
                "a field's name of {bytes} bytes is empty or longer than {} bytes",
                crate::FIELD_NAME_BYTES_MAX
            ),
            SearchError::EntryTooLong { bytes } => write!(
                f,
                "the terms of an index entry take {bytes} bytes, more than {}",
                crate::ENTRY_BYTES_MAX
            ),
            SearchError::DocumentIdTooLong { bytes } => write!(
                f,
                "a document id of {bytes} bytes is longer than {} bytes",
                crate::TERM_BYTES_MAX
            ),
            SearchError::BatchTooLong { bytes } => write!(
                f,
                "an index batch of {bytes} bytes is longer than {} bytes",
                crate::BATCH_BYTES_MAX
            ),
            SearchError::QueryTooDeep => {
                write!(f, "a query is nested deeper than {} levels", crate::QUERY_DEPTH_MAX)
            }
            SearchError::Pattern { pattern, reason } => {
                write!(f, "'{pattern}' is no pattern that can be searched for: {reason}")
            }
            SearchError::PrefixTooLong { bytes } => write!(
                f,
                "a prefix of {bytes} bytes cannot be searched for: of a longer text, the index has the first {} bytes",
                crate::TERM_BYTES_MAX
            ),
            SearchError::TooManyFacetTerms => {
                write!(f, "a facet has more than {} terms", crate::FACET_TERMS_MAX)
            }
            SearchError::Interrupted => f.write_str("the query was stopped"),
            SearchError::UnknownAnalyzer { name } => {
                write!(f, "Cannot find analyzer type '{name}'")
            }
            SearchError::UnsupportedAnalyzer { name } => {
                write!(f, "the analyzer '{name}' sorts by a culture, which is not supported")
            }
        }
    }
}

impl std::error::Error for SearchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SearchError::Storage(error) => Some(error),
            _ => None,
        }
    }
}
