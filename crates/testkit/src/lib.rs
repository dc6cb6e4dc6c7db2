//! Fault injection: drivers that break a database in every way we can think of and compare what is
//! left with a model of what was acknowledged.
//!
//! Used by tests and by `cargo xtask`, never by the server. Everything here runs on the simulated
//! disk and is repeatable from its seed, except where the threads of the commit queue are involved.
//!
//! | file | what |
//! |---|---|
//! | `database` | a database for a test, its whole content, shorthands for batches |
//! | `naive`, `naive_attachments`, `naive_counters`, `naive_time_series` | the model: a database as simple as can be |
//! | `histories` | random batches |
//! | `patches` | patches of histories, and their effect on the model |
//! | `bench` | a database and its model side by side |
//! | `crash` | power cuts in the middle of histories |
//! | `queue_crash` | power cuts under the commit queue |
//! | `io_sweep` | the failure of every single operation of a scenario |
//! | `rot` | flipped bits |
//! | `journal_bytes` | journal files with arbitrary bytes |
//! | `golden` | data directories of every format version, kept as text |
//! | `content_hash` | a hash over the content of a dump |
//! | `recorded` | responses of a real server, kept as text, and how to record them again |
#![forbid(unsafe_code)]

mod bench;
pub mod content_hash;
pub mod crash;
pub mod database;
mod fault;
pub mod golden;
pub mod histories;
pub mod io_sweep;
pub mod journal_bytes;
mod naive;
mod naive_attachments;
mod naive_counters;
mod naive_time_series;
mod patches;
mod queue_crash;
pub mod recorded;
pub mod rot;

pub use bench::Bench;
pub use fault::{Fault, guarded};
pub use naive::{Naive, Refused};
