//! Replication: what one database sends of its changes, and what another one makes of it.
//!
//! The sender follows its own change log. It begins with a greeting, to which the receiver answers up to where it has
//! received that log, and what its change vector is; then it sends batches, one at a time, each with whole transactions,
//! and each is answered. Both directions of a pair of databases are independent of each other.
//!
//! Functions over snapshots and bytes, without network, threads or clock: the caller carries messages, and begins again
//! with a greeting when one is lost. Invariant: a message that arrives twice, or late, changes nothing, because the
//! receiver stores its position with what it receives.
//!
//! | file | what |
//! |---|---|
//! | `format` | the bytes of messages |
//! | `message` | what is sent, and the answers to it |
//! | `item_writer`, `item_reader` | one change as bytes |
//! | `outgoing_batch` | reads a part of the log as a batch |
//! | `sender` | what is to be sent next |
//! | `receiver` | how a message is answered |
//! | `link_filter` | what is sent, if that is not everything |
//! | `hub_messages` | what a sink asks its hub |
//! | `puller` | what a sink is to ask next |
#![forbid(unsafe_code)]

mod format;
mod hub_messages;
mod item_reader;
mod item_writer;
mod link_filter;
mod message;
mod outgoing_batch;
mod puller;
mod receiver;
mod sender;

pub use format::{InvalidMessage, MESSAGE_BYTES_MAX, memory_of};
pub use hub_messages::{Asking, Pull, Terms};
pub use link_filter::LinkFilter;
pub use message::{
    Batch, ContentPiece, Greeting, LinkKind, Message, Refusal, RefusalKind, Reply, Welcome,
};
pub use outgoing_batch::{BatchLimits, ReadError};
pub use puller::{Arrived, PullError, Puller};
pub use receiver::{Answered, Group, accepted, accepted_by, answer, not_now};
pub use sender::{Advance, Outgoing, ReplyError, Sender};
