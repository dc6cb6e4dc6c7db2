//! Queries: plan a syntax tree, run it over a transaction, stream the rows.
//!
//! Today it answers collection queries, which need no index: all documents, those of a collection,
//! and those chosen by their ids. Everything else is refused by [`QueryError::NeedsIndex`] or
//! [`QueryError::NotSupportedYet`], with the place in the query that asks for it.
//!
//! Invariant: planning is pure and complete; whatever is refused is refused before the first row.
//!
//! | file | what |
//! |---|---|
//! | `plan` | a tree and its parameters to a [`Plan`] that needs no more decisions |
//! | `condition`, `id_selection` | a condition over ids to the set of ids it chooses |
//! | `paging` | which rows of the result are wanted, and the totals that are told |
//! | `distinct` | rows that show the same as earlier ones are left out |
//! | `projection`, `include_path` | `select` of plain fields and `include` of documents |
//! | `execution` | the rows |
#![forbid(unsafe_code)]

mod condition;
mod distinct;
mod error;
mod execution;
mod id_selection;
mod include_path;
mod paging;
mod parameters;
mod plan;
mod projection;

pub use error::{Family, QueryError};
pub use execution::{QueryResult, execute};
pub use id_selection::{IdList, IdSelection, IdSelector};
pub use include_path::IncludePath;
pub use paging::{PageWindow, Paging};
pub use plan::{Plan, PlannedInclude, RowOrder, SourceDocuments, parse, plan};
pub use projection::{ProjectedField, Projection};
