//! Revisions: older versions of documents, kept in the transaction that replaced them.
//!
//! Invariants: a document's revisions are one range of the table, in creation order;
//! each document's chain counts them; the bin holds exactly the deleted documents whose newest
//! revision records the deletion; a revision is never changed, only created and removed.
//!
//! | file | what |
//! |---|---|
//! | `schema`, `row`, `chain` | the table and its trees, what is on disk |
//! | `read` | the revisions of a document, by version, at a time; the log; the bin |
//! | `keep` | the revisions that a put and a delete create, and the limits that remove them |
//! | `force` | revisions that a client asks for |
//! | `import` | the revisions of a dump |
//! | `receive` | the revisions that another database has sent |
//! | `remove` | removing in steps: by an administrator, or to enforce the configuration |
//! | `difference` | the difference between two versions |
//! | `revert` | setting a document back to what it was at a time |
//! | `check`, `salvage` | consistency checks; rebuilding from what is left |

mod chain;
pub(crate) mod check;
mod difference;
mod force;
mod import;
pub(crate) mod keep;
mod read;
mod receive;
mod remove;
mod revert;
pub(crate) mod row;
pub(crate) mod salvage;
pub(crate) mod schema;

pub use difference::write_difference;
pub use force::RevisedVersion;
pub use read::{
    deleted_documents, previous_revision, revised_ids, revision_at, revision_by_change_vector,
    revision_count, revision_log_newest_first, revision_log_of_collection_newest_first,
    revisions_newest_first, revisions_of_collection_count, revisions_total,
};
pub use remove::{RemovedRevisions, RevisionsToRemove};
pub use revert::Reversion;
pub use row::RevisionRow;
