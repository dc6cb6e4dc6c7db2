//! ETL: tasks that follow a database and send what they read of it to another one.
//!
//! Each task has a thread, which reads its transformations in turn: a batch from a snapshot, which is released before
//! the batch is sent; how far it has come is stored after the destination has answered. So everything is sent at least
//! once, and a destination that does not answer holds no snapshot. What is sent, and how, is in the crate `etl`.
//!
//! | file | what |
//! |---|---|
//! | `outbound` | requests to other servers, which the caller of the engine makes |
//! | `connection_strings` | where the destinations are |
//! | `tasks` | the definitions in the record of a database |
//! | `processes` | which tasks run: one thread each |
//! | `process` | the run of one task |
//! | `destination` | sending a batch to a database |
//! | `position` | how far a transformation has come, as it is stored |
//! | `script_run` | what scripts run with |
//! | `statistics` | what a process has done, and what went wrong |
//! | `trials` | trying a transformation, or a connection |

pub(crate) mod connection_strings;
pub(crate) mod destination;
mod outbound;
mod position;
mod process;
mod processes;
mod script_run;
mod statistics;
mod tasks;
mod trials;

pub(crate) use destination::message_of;
pub use outbound::{
    Cancel, ClientIdentity, Outbound, OutboundAnswer, OutboundError, OutboundRequest,
    OutboundStream, StillWanted,
};
pub(crate) use position::tombstone_needs;
pub(crate) use processes::{EtlProcesses, Signal};
pub use statistics::{EtlProblem, EtlRun, EtlStatistics, ProcessStatistics};
pub use tasks::{ChangedEtlTask, EtlTask};
pub use trials::{EtlProgress, EtlTrial};
