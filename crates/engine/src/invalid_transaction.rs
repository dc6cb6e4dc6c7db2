//! Why a cluster-wide transaction is refused: its commands, or the versions that it expects.

use std::{error::Error, fmt};

use cluster_state::Violation;
use model::IdSeparator;

/// Why the commands of a cluster-wide transaction cannot be executed. They were not submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidTransaction {
    /// A command names no document or value.
    NameMissing {
        /// The type of the command.
        kind: &'static str,
        /// The index that it expects, 0 for a document.
        index: i64,
    },
    /// An id or a key ends as if another part followed.
    Unfinished {
        /// The id or key.
        id: String,
        /// The separator of ids of the database.
        separator: IdSeparator,
    },
    /// Documents are deleted by a prefix of their ids.
    DeletesByPrefix,
    /// A command of this type is not possible in a cluster-wide transaction.
    Unsupported {
        /// The type of the command.
        kind: &'static str,
    },
    /// A value is changed that is the atomic guard of a document.
    AtomicGuard {
        /// Its key.
        key: String,
    },
    /// The expected index of a value is negative.
    NegativeIndex,
    /// A value is to be put, and the command has none.
    ValueMissing,
    /// The expiration of a value is not a timestamp.
    Expiry {
        /// The key of the value.
        key: String,
        /// The name of the database.
        database: String,
        /// What is wrong.
        detail: String,
    },
}

impl fmt::Display for InvalidTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidTransaction::NameMissing { kind, index } => write!(
                f,
                "In ClusterTransactionDataCommand document id cannot be null, empty or white spaces as \
                 part of cluster transaction. Type:({kind}), Index:({index})"
            ),
            InvalidTransaction::Unfinished { id, separator } => write!(
                f,
                "Document id {id} cannot end with '|' or '{separator}' as part of cluster transaction"
            ),
            InvalidTransaction::DeletesByPrefix => {
                f.write_str("Deleting by prefix is not supported on cluster transaction")
            }
            InvalidTransaction::Unsupported { kind } => write!(
                f,
                "Specified argument was out of the range of valid values. (Parameter 'The command type \
                 {kind} is not supported in cluster transaction.')"
            ),
            InvalidTransaction::AtomicGuard { key } => write!(
                f,
                "You cannot manipulate the atomic guard '{key}' via the cluster-wide session"
            ),
            InvalidTransaction::NegativeIndex => f.write_str("Index must be a non-negative number"),
            InvalidTransaction::ValueMissing => {
                f.write_str("CompareExchangePUT command must have a 'Document' property")
            }
            InvalidTransaction::Expiry { key, database, detail } => write!(
                f,
                "Could not apply command AddOrUpdateCompareExchangeCommand - failed to get `Expires` \
                 for compare exchange key:{key} database:{database}. {detail}"
            ),
        }
    }
}

impl Error for InvalidTransaction {}

/// Every value that has another version than a cluster-wide transaction expects. Nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Failed to execute cluster transaction due to the following issues: ")?;
        for (position, violation) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            let Violation { key, document, is_delete, expected, actual } = violation;
            if let Some(document) = document {
                writeln!(
                    f,
                    "Guard compare exchange value '{key}' index does not match the transaction index's \
                     {expected} change vector on {document}"
                )?;
            }
            let what = if *is_delete { "deleting" } else { "putting" };
            write!(
                f,
                "Concurrency check failed for {what} the key '{key}'. Requested index: {expected}, \
                 actual index: {actual}"
            )?;
        }
        Ok(())
    }
}

impl Error for Violations {}
