//! The change log of a database: every kind of change that is stored, in the one order of etags.
//!
//! Documents, revisions, attachments, counters and time series are in tables of their own, and each table
//! keeps a log: its rows by etag. Whatever follows a database reads these logs here as one. It says which
//! kinds it wants, and of which collections; it goes on from an etag, its cursor, in any later snapshot.
//! Not here: who follows, how far they are, and which tombstones they still need (see `tombstones`).
//!
//! Invariants: an etag belongs to one row; the log holds each thing once, at its last change; a reader
//! returns what it selected in strictly ascending order of etags, so a reader that starts behind any entry
//! returns exactly the rest. Rows are read in place: an entry borrows from its snapshot, and nothing is
//! allocated for it (but the frame of a compressed body, which is decompressed only when it is asked for).
//!
//! What is removed without a tombstone is not in the log: revisions, with their attachments.
//!
//! | file | what |
//! |---|---|
//! | `kinds` | the kinds of entries, and sets of them |
//! | `selection` | which part of the log is read |
//! | `tables` | where each kind is stored |
//! | `entry` | one change: position, version, what it is of |
//! | `reader` | the logs of several tables and collections as one |
//! | `extent` | how long a part of the log is and where it ends, without reading it |

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
