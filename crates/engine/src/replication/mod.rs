//! Replication: links over which databases send their changes to others, and what they receive.
//!
//! Each link has a thread, which reads a part of the log from a snapshot, releases that, sends what it has read, and waits
//! for the answer. What is sent, and what becomes of it, is in the crate `replication`; a link stores nothing, because
//! the receiver knows where to go on. A destination that does not answer holds no snapshot.
//!
//! | file | what |
//! |---|---|
//! | `destinations` | where links lead: tasks of external replication, and other members of a database group |
//! | `tasks` | the definitions of tasks in the record of a database |
//! | `hubs`, `sinks` | the same of hubs and sinks |
//! | `task_list` | what changing a list of tasks means |
//! | `server_wide` | tasks that every database has |
//! | `links` | which links run: one thread each |
//! | `link` | the run of one link |
//! | `sending` | a link that sends |
//! | `pulling` | a link that asks a hub |
//! | `hub_service` | what a hub does for its sinks |
//! | `hub_sessions` | what it remembers of them |
//! | `pacing` | how old changes must be to be sent |
//! | `receiving` | what is received |
//! | `staging` | contents of attachments on their way |
//! | `statistics` | what links have done, and what went wrong |

mod destinations;
mod hub_service;
mod hub_sessions;
mod hubs;
mod link;
mod links;
mod pacing;
mod pulling;
mod receiving;
mod sending;
mod server_wide;
mod sinks;
mod staging;
mod statistics;
mod task_list;
mod tasks;

pub use destinations::{DestinationKey, Direction, InternalDestination};
pub use hub_service::{HubAnswer, SinkCall};
pub use hub_sessions::ConnectedSink;
pub use hubs::{HubTask, RegisteredAccess};
pub(crate) use links::{ReplicationLinks, tombstone_needs};
pub use receiving::IncomingLink;
pub use server_wide::ChangedServerWideTask;
pub use sinks::SinkTask;
pub use statistics::{LinkRun, LinkState, LinkStatistics};
pub use tasks::{ChangedReplicationTask, ReplicationTask};
