//! Data subscriptions: workers that follow the document log and acknowledge what they have dealt with.
//!
//! This crate reads the log, tries a subscription's query on it, and keeps account of what is in whose
//! hands. It knows neither sockets nor where positions are stored: the server brings bytes to workers,
//! and what was acknowledged to the cluster's state.
//!
//! | file | what |
//! |---|---|
//! | `progress` | which changes are settled, and which are in whose hands |
//! | `holders` | which workers may work on a subscription: their strategies |
//! | `subscription` | one subscription with its workers: who has which part of the log |
//! | `batch_reader` | from a snapshot to a piece of a batch, as the protocol shows it |
//! | `waiting` | workers that wait for changes, by collection |
//! | `set` | [`SubscriptionSet`]: the subscriptions of a database that have workers |
//! | `worker` | [`Worker`]: one connected worker |
//! | `preview` | what a query would show |
//! | `activity` | what workers did, for whoever operates the server |
//!
//! Delivery is at least once: a change is settled only when a worker has acknowledged it.
#![forbid(unsafe_code)]

mod activity;
mod batch_reader;
mod ended;
mod holders;
mod preview;
mod progress;
mod set;
mod subscription;
mod waiting;
mod wake;
mod worker;

pub use activity::{
    ActivityFacts, BatchFacts, ConnectionActivity, ConnectionFacts, EndedConnection,
    FailedDocument, GivenAlongFacts, PastConnections,
};
pub use batch_reader::{BATCH_BYTES_MAX, ReadError, changes_behind};
pub use ended::Ended;
pub use holders::{Occupied, Strategy};
pub use preview::preview;
pub use progress::{Position, WorkerNumber};
pub use set::{StoredSubscription, SubscriptionSet};
pub use subscription::{Subscription, WORKERS_MAX};
pub use wake::Wake;
pub use worker::{BATCH_DOCUMENTS_MAX, Piece, Standing, Worker, WorkerRequest, WorkerShared};
