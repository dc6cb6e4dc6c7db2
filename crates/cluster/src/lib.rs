//! The consensus that feeds the server-wide state (`cluster_state`), on openraft.
//!
//! A change of the state is submitted as a command. Queued commands become one log entry; the entry is made
//! durable, then applied, and every caller receives the outcome of its own command. Today there is one voter,
//! so an entry is committed as soon as it is appended, and is applied in the same transaction. There is no
//! second write path to maintain when more nodes are added.
//!
//! Invariants: an outcome is reported only after its effect is on stable storage; a command is applied
//! exactly once, because the last applied entry is stored in the transaction of its effect.
//!
//! | file | what |
//! |---|---|
//! | `cluster`, `driver` | [`Cluster`]: the entry point, and the thread that runs the machine |
//! | `log_store`, `state_machine`, `network`, `raft_types` | the interfaces that openraft requires |
//! | `schema` | the trees of the log |
//! | `failure` | the error that stopped openraft |

#![forbid(unsafe_code)]

mod cluster;
mod driver;
mod failure;
mod log_store;
mod network;
mod raft_types;
mod schema;
mod state_machine;

pub use crate::cluster::{Cluster, Submission};
