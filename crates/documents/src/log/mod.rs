//! The change log of a database: every kind of change that is stored, in the one order of etags.
//!
//! Documents, revisions, attachments, counters and time series are in tables of their own, and each table
//! keeps a log: its rows by etag. All readers that follow a database read these logs here as one. A reader
//! selects kinds and collections, and resumes after an etag, its cursor, in any later snapshot.
//! Not here: which readers there are, their positions, and the tombstones that they still need (see
//! `tombstones`).
//!
//! Invariants: an etag belongs to one row; the log holds each thing once, at its last change; a reader
//! returns the selected entries in strictly ascending order of etags, so a reader that resumes after any
//! entry returns exactly the rest. Rows are read in place: an entry borrows from its snapshot, and nothing
//! is allocated for it, except a small header for a compressed body. Bodies are decompressed on demand.
//!
//! Revisions, and the attachments of revisions, leave no tombstones when they are removed.
//!
//! | file | what |
//! |---|---|
//! | `kinds` | the kinds of entries, and sets of them |
//! | `selection` | the part of the log that is read |
//! | `tables` | where each kind is stored |
//! | `entry` | one change: its kind, position, version and document |
//! | `reader` | the logs of several tables and collections as one |
//! | `extent` | the number of entries in a part of the log, and its last etag |

mod entry;
mod extent;
mod kinds;
mod reader;
mod selection;
mod tables;

pub use entry::LogEntry;
pub use extent::{count_after, last_etag};
pub use kinds::{EntryKind, EntryKinds};
pub use reader::{LogReader, read};
pub use selection::Selection;

pub(crate) use reader::read_number;
