//! Clusters in virtual time: several nodes with their disks, a network, clients and faults, in one thread and from one
//! seed.
//!
//! The consensus and the state are those of the server; the disk, the clock, the network and the order in which tasks go
//! on are simulated. A run goes through four phases: clients work while faults happen; the faults end; all nodes must
//! become equal; every node must serve. All the time the logs of the nodes are compared, and in the end the history of the
//! clients is checked.
//!
//! Invariant: a run is a function of its plan.
//!
//! | file | what |
//! |---|---|
//! | `plan` | [`Plan`], [`Event`]: what is done, drawn from the seed |
//! | `run` | [`run`]: the phases of a simulation |
//! | `world` | the machines and what is known of them |
//! | `node`, `network` | one machine; messages between them |
//! | `operator` | faults, and changes of the nodes |
//! | `clients` | clients and their commands |
//! | `raft_checks` | what must be true of all logs and states together |
//! | `history` | whether one order explains the answers to clients |
//! | `shrink` | [`shrink`]: fewer events with the same result |
//!
//! Used by tests and by `cargo xtask`, never by the server.

#![forbid(unsafe_code)]

mod clients;
mod history;
mod network;
mod node;
mod operator;
mod plan;
mod raft_checks;
mod run;
mod shrink;
mod world;

pub use crate::{
    plan::{Action, Event, Plan},
    run::{Report, run},
    shrink::shrink,
};
