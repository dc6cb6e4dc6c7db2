//! The trees of the consensus, in the server's own environment, next to those of the state.
//!
//! ```text
//! tree            key                             value
//! Cluster/Log     index of the entry, 8 BE        see log_store.rs
//! Cluster/Raft    Version, Vote, Purged,          see log_store.rs, state_machine.rs
//!                 LastApplied, Members, Membership
//!                 Identity                        see identity.rs
//! Cluster/Staged  number of the piece, 4 BE       see snapshot.rs
//! ```

use cluster_state::FORMAT_VERSION;
use storage::{StorageError, TreeName, WriteTransaction};

pub(crate) const VERSION: &[u8] = b"Version";
pub(crate) const VOTE: &[u8] = b"Vote";
pub(crate) const PURGED: &[u8] = b"Purged";
pub(crate) const LAST_APPLIED: &[u8] = b"LastApplied";
pub(crate) const MEMBERSHIP: &[u8] = b"Membership";
pub(crate) const MEMBERS: &[u8] = b"Members";
pub(crate) const IDENTITY: &[u8] = b"Identity";

pub(crate) fn raft() -> TreeName {
    TreeName::from("Cluster/Raft")
}

pub(crate) fn log() -> TreeName {
    TreeName::from("Cluster/Log")
}

/// The pieces of a state that another node is sending.
pub(crate) fn staged() -> TreeName {
    TreeName::from("Cluster/Staged")
}

/// Stores the version of the format, from which older builds know that they must not open it.
pub(crate) fn put_version(tx: &mut WriteTransaction) -> Result<(), StorageError> {
    tx.tree_mut(&raft())?.put(VERSION, &FORMAT_VERSION.to_le_bytes())?;
    Ok(())
}
