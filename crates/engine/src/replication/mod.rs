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
//! | `links` | which links run: one thread each |
//! | `link` | the run of one link |
//! | `pacing` | how old changes must be to be sent |
//! | `receiving` | what is received |
//! | `staging` | contents of attachments on their way |
//! | `statistics` | what links have done, and what went wrong |

mod destinations;
mod link;
mod links;
mod pacing;
mod receiving;
mod staging;
mod statistics;
mod tasks;

pub use destinations::{DestinationKey, InternalDestination};
pub(crate) use links::{ReplicationLinks, tombstone_needs};
pub use receiving::IncomingLink;
pub use statistics::{LinkRun, LinkState, LinkStatistics};
pub use tasks::{ChangedReplicationTask, ReplicationTask};
