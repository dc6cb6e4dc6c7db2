//! The trees of the consensus, in the server's own environment, next to those of the state.
//!
//! ```text
//! tree            key                             value
//! Cluster/Log     index of the entry, 8 BE        see log_store.rs
//! Cluster/Raft    Version, Vote, Purged,          see log_store.rs, state_machine.rs
//!                 LastApplied, Membership
//! ```

use storage::TreeName;

pub(crate) const VERSION: &[u8] = b"Version";
pub(crate) const VOTE: &[u8] = b"Vote";
pub(crate) const PURGED: &[u8] = b"Purged";
pub(crate) const LAST_APPLIED: &[u8] = b"LastApplied";
pub(crate) const MEMBERSHIP: &[u8] = b"Membership";

pub(crate) fn raft() -> TreeName {
    TreeName::from("Cluster/Raft")
}

pub(crate) fn log() -> TreeName {
    TreeName::from("Cluster/Log")
}
