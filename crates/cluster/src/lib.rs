//! The consensus that feeds the server-wide state (`cluster_state`), on openraft.
//!
//! A change of the state is submitted as a command, on any node. Queued commands become one log entry of the leader; the
//! entry is made durable on a majority, then applied on every node, and every caller receives the outcome of its own
//! command. A server that is the only voter commits an entry by appending it, and applies it in the same transaction.
//!
//! Invariants: an outcome is reported only after its effect is on stable storage, on a majority of the voters and on this
//! node; a command is applied exactly once, because the last applied entry is stored in the transaction of its effect.
//!
//! | file | what |
//! |---|---|
//! | `cluster`, `driver` | [`Cluster`]: the entry point, and the thread that runs the machine |
//! | `shared` | what both share; who leads |
//! | `membership`, `membership_change` | the nodes: [`Topology`], [`MembershipChange`] |
//! | `supervision`, `elections` | what a node with company does: signs of life, pre-votes, promotions |
//! | `contacts` | when this node last reached each other one |
//! | `peers`, `message`, `refusal` | [`Peers`]: the way to other nodes, and what is sent on it |
//! | `network`, `incoming` | sending openraft's requests, and answering those of others |
//! | `snapshot`, `state_image` | sending the whole state to a node that lags |
//! | `identity`, `node_id` | which node of which cluster this is |
//! | `log_store`, `log_format`, `state_machine`, `raft_types` | the interfaces that openraft requires |
//! | `runtime` | tokio, or a simulated scheduler in virtual time |
//! | `limits` | [`Limits`]: sizes that tests make smaller |
//! | `inspection` | [`Inspection`]: what checkers of several nodes compare |
//! | `schema` | the trees of the log |
//! | `log_view` | what is in the log, for operators |
//! | `failure` | the error that stopped openraft |

#![forbid(unsafe_code)]

mod cluster;
mod contacts;
mod driver;
mod elections;
mod failure;
mod identity;
mod incoming;
mod inspection;
mod limits;
mod log_format;
mod log_store;
mod log_view;
mod membership;
mod membership_change;
mod message;
mod network;
mod node_id;
mod peers;
mod raft_types;
mod refusal;
mod runtime;
mod schema;
mod shared;
mod snapshot;
mod state_image;
mod state_machine;
mod supervision;

pub use crate::{
    cluster::{Cluster, ClusterOptions, Submission},
    contacts::{Contact, LeaderChange},
    inspection::{Ballot, InspectedEntry, Inspection},
    limits::Limits,
    log_view::{LogExtent, LoggedEntry},
    membership::{ClusterNode, NODES_MAX, Role, Topology},
    membership_change::MembershipChange,
    peers::{NoPeers, PeerAnswer, Peers},
};
