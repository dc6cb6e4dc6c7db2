//! Sends the state to a node that lags too far behind for the log, and takes it over there.
//!
//! ```text
//! a piece    session 8, number of the piece 4, whether it is the last 1, vote,
//!            last log id (optional), log id of the members (optional), members, rows
//! ```
//!
//! The pieces are staged in the tree `Cluster/Staged`, each in a transaction of its own, and replace the state in one
//! transaction when the last one has arrived. A session that is begun anew discards what was staged.

use std::{
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

use cluster_state::{
    ClusterError, ClusterStore, Decoder, Encoder, ImageInstaller, ImageReader, Malformed,
};
use openraft::{Vote, storage::Snapshot};
use storage::{ReadTransaction, Transaction};

use crate::{
    log_format::{put_log_id, put_vote, read_membership, take_log_id, take_vote, write_membership},
    log_store::{remove_entries, store_purged},
    raft_types::{LogId, SnapshotMeta, StoredMembership, TypeConfig},
    schema,
    state_image::StateImage,
    state_machine::{last_applied, store_applied, store_membership, stored_membership},
};

/// A piece of a state on its way.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) session: u64,
    pub(crate) number: u32,
    pub(crate) is_last: bool,
    pub(crate) vote: Vote<u64>,
    pub(crate) meta: SnapshotMeta,
    pub(crate) rows: Vec<u8>,
}

impl Piece {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.session);
        encoder.u32(self.number);
        encoder.flag(self.is_last);
        put_vote(encoder, &self.vote);
        put_log_id(encoder, self.meta.last_log_id);
        put_log_id(encoder, *self.meta.last_membership.log_id());
        write_membership(self.meta.last_membership.membership(), encoder);
        encoder.raw(&self.rows);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (session, number, is_last) = (decoder.u64()?, decoder.u32()?, decoder.flag()?);
        let vote = take_vote(decoder)?;
        let last_log_id = take_log_id(decoder)?;
        let members_log_id = take_log_id(decoder)?;
        let members = read_membership(decoder, true)?;
        let meta = SnapshotMeta {
            last_log_id,
            last_membership: StoredMembership::new(members_log_id, members),
            snapshot_id: last_log_id.map_or_else(String::new, |last| last.to_string()),
        };
        Ok(Self { session, number, is_last, vote, meta, rows: decoder.rest().to_vec() })
    }
}

/// Cuts a state into pieces.
pub(crate) struct Pieces {
    tx: Arc<ReadTransaction>,
    reader: ImageReader,
    piece_bytes: usize,
    template: Piece,
    next: Option<Vec<u8>>,
    is_begun: bool,
}

impl Pieces {
    pub(crate) fn of(
        session: u64,
        piece_bytes: usize,
        tx: Arc<ReadTransaction>,
        vote: Vote<u64>,
        meta: SnapshotMeta,
    ) -> Result<Self, ClusterError> {
        // The state may be newer than openraft knows: an entry that is decided by being appended is applied at once. The
        // receiver must not apply it again.
        let (last_log_id, last_membership) = (last_applied(&*tx)?, stored_membership(&*tx)?);
        let meta = SnapshotMeta { last_log_id, last_membership, ..meta };
        let template = Piece { session, number: 0, is_last: false, vote, meta, rows: Vec::new() };
        let mut reader = ImageReader::default();
        let next = reader.next_piece(&tx, piece_bytes)?;
        Ok(Self { tx, reader, piece_bytes, template, next, is_begun: false })
    }

    /// The next piece; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, ClusterError> {
        let rows = match self.next.take() {
            Some(rows) => rows,
            // An empty state has one empty piece.
            None if !self.is_begun => Vec::new(),
            None => return Ok(None),
        };
        self.is_begun = true;
        self.next = self.reader.next_piece(&self.tx, self.piece_bytes)?;
        let is_last = self.next.is_none();
        let piece = Piece { is_last, rows, ..self.template.clone() };
        self.template.number += 1;
        Ok(Some(piece))
    }
}

/// The pieces that have arrived.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Staged>);

#[derive(Default)]
struct Staged {
    /// The sender, the session and the number of the next piece.
    expected: Option<(u64, u64, u32)>,
    /// What the staged state is, while it is being taken over. No other must take its place before that has ended.
    complete: Option<SnapshotMeta>,
}

impl Staging {
    /// Stages a piece that `sender` sent. Returns the state if it was the last one, `None` if more are to come. After the
    /// last one, no other is staged until [`Staging::end`].
    ///
    /// # Errors
    /// A piece before it is missing; another state is being taken over; storage errors.
    pub(crate) fn stage(
        &self,
        store: &ClusterStore,
        sender: u64,
        piece: &Piece,
    ) -> Result<Option<Snapshot<TypeConfig>>, ClusterError> {
        let mut staged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let this = (sender, piece.session, piece.number);
        let refused = |reason: &str| ClusterError::Membership { reason: reason.to_owned() };
        if staged.complete.is_some() {
            return Err(refused("another state is being taken over"));
        }
        if piece.number != 0 && staged.expected != Some(this) {
            return Err(refused("pieces of a state arrived out of order"));
        }
        staged.expected = None;
        let mut tx = store.environment().write()?;
        if piece.number == 0 {
            tx.drop_tree(&schema::staged())?;
        }
        tx.tree_mut(&schema::staged())?.put(&piece.number.to_be_bytes(), &piece.rows)?;
        tx.commit()?;
        if !piece.is_last {
            staged.expected = Some((sender, piece.session, piece.number + 1));
            return Ok(None);
        }
        staged.complete = Some(piece.meta.clone());
        let snapshot = Box::new(StateImage::Staged);
        Ok(Some(Snapshot { meta: piece.meta.clone(), snapshot }))
    }

    /// The staged state was taken over, or never will be.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).complete = None;
    }

    /// The staged state that is being taken over and ends with this entry.
    pub(crate) fn ending_with(&self, log_id: &LogId) -> Option<SnapshotMeta> {
        let staged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        staged.complete.clone().filter(|meta| meta.last_log_id.as_ref() == Some(log_id))
    }
}

/// Replaces the state of this node by the staged one, unless that has been done already, and removes the entries of the log
/// that it contains, in one transaction.
pub(crate) fn install_staged(
    store: &ClusterStore,
    meta: &SnapshotMeta,
) -> Result<(), ClusterError> {
    let staged = store.environment().read();
    let mut tx = store.environment().write()?;
    if meta.last_log_id <= last_applied(&tx)? {
        return Ok(());
    }
    let installer = ImageInstaller::begin(&mut tx)?;
    for piece in staged.tree(&schema::staged())?.range(Bound::Unbounded)? {
        installer.install(&mut tx, piece?.1)?;
    }
    let changes = installer.finish(&mut tx)?;
    if let Some(last) = &meta.last_log_id {
        store_applied(&mut tx, last)?;
        remove_entries(&mut tx, ..=last.index)?;
        store_purged(&mut tx, last)?;
    }
    let members = &meta.last_membership;
    store_membership(&mut tx, members.log_id().as_ref(), members.membership())?;
    tx.drop_tree(&schema::staged())?;
    Ok(store.commit(tx, &changes)?)
}
