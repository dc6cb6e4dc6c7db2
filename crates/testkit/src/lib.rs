//! The fault house: drivers that break a database in every way we can think of and compare what is
//! left with a model of what was acknowledged.
//!
//! Used by tests and by `cargo xtask`, never by the server. Everything here runs on the simulated disk
//! and is repeatable from its seed, except where the threads of the commit queue take part.
//!
//! | file | what |
//! |---|---|
//! | `database` | a database for a test, its whole content, short ways to write batches |
//! | `naive`, `naive_attachments`, `naive_counters`, `naive_time_series` | the model: a database as simple as can be |
//! | `histories` | batches made by dice |
//! | `patches` | patches of histories, and what the model makes of them |
//! | `bench` | a database and its model side by side |
//! | `crash` | power cuts in the middle of histories |
//! | `queue_crash` | power cuts under the commit queue |
//! | `io_sweep` | the failure of every single operation of a scenario |
//! | `rot` | flipped bits |
//! | `journal_bytes` | journal files that hold anything |
//! | `golden` | data directories of every format version, kept as text |
//! | `recorded` | answers of a real server, kept as text, and how to ask for them again |
#![forbid(unsafe_code)]

mod bench;
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
