//! Data subscriptions: workers that follow the document log and acknowledge what they have
//! processed.
//!
//! This crate reads the log, runs a subscription's query on it, and tracks which worker holds which
//! change. It knows neither sockets nor where positions are stored: the server sends bytes to
//! workers, and stores acknowledged positions in the cluster's state.
//!
//! | file | what |
//! |---|---|
//! | `progress` | which changes are settled, and which are held by which worker |
//! | `handover` | what another node may take as passed when it takes over |
//! | `holders` | which workers may hold a subscription: their strategies |
//! | `subscription` | one subscription with its workers and its position |
//! | `batch_reader` | reading a piece of a batch from a snapshot, as protocol messages |
//! | `waiting` | workers that wait for changes, by collection |
//! | `set` | [`SubscriptionSet`]: the subscriptions of a database that have workers |
//! | `worker` | [`Worker`]: one connected worker |
//! | `preview` | previewing a query |
//! | `activity` | the activity of workers, for monitoring |
//!
//! Delivery is at least once: a change is settled only when a worker has acknowledged it.
#![forbid(unsafe_code)]

mod activity;
mod batch_reader;
mod ended;
mod handover;
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
    FailedDocument, IncludesFacts, PastConnections,
};
pub use batch_reader::{BATCH_BYTES_MAX, ReadError, changes_behind};
pub use ended::Ended;
pub use handover::Replicated;
pub use holders::{Occupied, Strategy};
pub use preview::preview;
pub use progress::WorkerNumber;
pub use set::{StoredSubscription, SubscriptionSet};
pub use subscription::{Subscription, WORKERS_MAX};
pub use wake::Wake;
pub use worker::{BATCH_DOCUMENTS_MAX, Piece, Standing, Worker, WorkerRequest, WorkerShared};
