//! Counters: named numbers of documents, incremented without reading the document.
//!
//! A counter is a row of its own. In it, every database that has incremented it keeps its own
//! value, and the counter is their sum: so databases that replicate to each other never conflict.
//! An increment changes the row alone; only creating or deleting a counter touches its document,
//! whose metadata lists the names.
//!
//! Invariants: every counter has a document, and is in its collection; the metadata of a live document
//! names exactly the counters it has; a live counter has no tombstone; the log of counters holds each
//! counter once, at its last change.
//!
//! | file | what |
//! |---|---|
//! | `row` | what is on disk, byte by byte |
//! | `tables` | the table and its indexes, drawn |
//! | `read` | counters of a document, how many there are |
//! | `write`, `requests` | counting, deleting |
//! | `of_revision` | the snapshot that a revision has, and setting a document back to it |
//! | `import` | counters of a dump |
//! | `receive` | counters that another database has sent |
//! | `listing` | `@counters` in the metadata of documents |
//! | `check`, `salvage` | whether all of this agrees; rebuilding it |

mod check;
mod import;
mod listing;
mod of_revision;
mod read;
mod receive;
mod requests;
pub(crate) mod row;
mod salvage;
pub(crate) mod tables;
mod write;

pub use read::{
    counted_documents, counter, counters_count, counters_of, lacks_counted_documents,
    store_counted_documents,
};
pub use requests::{ChangeCounters, CounterDetail, CounterStep, CounterValue, CountersChanged};
pub use row::{CounterRow, CounterTombstoneRow};

pub(crate) use check::{check_counters, check_row, owner_of_key};
pub(crate) use import::version_of;
pub(crate) use listing::add_listing;
pub(crate) use of_revision::{with_snapshot, without_snapshot};
pub(crate) use row::{FIRST_TOMBSTONE_KEY, collection_number_of};
pub(crate) use salvage::GatheredCounters;
pub(crate) use tables::COUNTERS;
