//! The semantics of documents through the public interface, on a disk in memory.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod attachments;
mod change_log;
mod compression;
mod counters;
mod database;
mod deleting;
mod due;
mod hilo;
mod import;
mod log;
mod outputs;
mod putting;
mod revision_histories;
mod revision_survival;
mod revisions;
mod salvage;
mod time_series;
mod time_series_survival;
mod tombstones;
