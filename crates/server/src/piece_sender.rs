//! Sending a long answer in pieces, as fast as its client takes them.
//!
//! Whoever reads documents for an answer holds a snapshot, and a snapshot keeps everything that is
//! written after it in memory. Invariant: no client, however slow, keeps writes from going on: when memory fills and a flush does not help, the answer is cut off, and its client sees a
//! body that does not end. A client that takes nothing at all loses its connection (see
//! connection_watch).

use std::{cell::Cell, time::Duration};

use bytes::Bytes;
use database::DatabaseLease;
use tokio::{
    runtime::Handle,
    sync::mpsc::{Sender, error::TrySendError},
    time::{Instant, timeout},
};

use crate::answer::Piece;

/// About how large the pieces of an answer are.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// How often a sender that waits for its client looks whether it should go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Younger snapshots are not worth cutting an answer off.
const SNAPSHOT_GRACE: Duration = Duration::from_millis(250);
/// What a database may hold, however short the memory is that all of them share.
const SHARED_PART_BYTES: u64 = 1 << 20;
/// Which part of the memory for unflushed versions the changes behind a snapshot may take.
const MEMORY_DIVISOR: u64 = 2;

/// What became of a piece.
pub(crate) enum Sent {
    /// It is on its way.
    Taken,
    /// The client has not taken it within the patience of the sender.
    Waiting(Bytes),
    /// The answer is not wanted any more, or must not go on.
    Cut,
}

/// Where a blocking thread puts the pieces of an answer. Dropping it without [`PieceSender::finish`]
/// breaks the answer off.
pub(crate) struct PieceSender {
    pieces: Sender<Piece>,
    database: DatabaseLease,
    snapshot_taken: Cell<Instant>,
}

impl PieceSender {
    /// For an answer from a snapshot that was taken just now.
    pub(crate) fn new(pieces: Sender<Piece>, database: DatabaseLease) -> PieceSender {
        PieceSender { pieces, database, snapshot_taken: Cell::new(Instant::now()) }
    }

    /// How long the snapshot has been held.
    pub(crate) fn snapshot_age(&self) -> Duration {
        self.snapshot_taken.get().elapsed()
    }

    /// The answer goes on from a new snapshot.
    pub(crate) fn snapshot_renewed(&self) {
        self.snapshot_taken.set(Instant::now());
    }

    /// Sends what has gathered, if that is enough for a piece; `false` when the answer must not go
    /// on.
    pub(crate) fn send_if_enough(&self, gathered: &mut Vec<u8>) -> bool {
        gathered.len() < PIECE_BYTES || self.send(Bytes::from(std::mem::take(gathered)))
    }

    /// Sends a piece while a snapshot is held, waiting as long as that does no harm. Blocks; must
    /// not be called on a thread of the runtime.
    pub(crate) fn send(&self, piece: Bytes) -> bool {
        matches!(self.send_within(piece, Duration::MAX, true), Sent::Taken)
    }

    /// Sends a piece while a snapshot is held, and gives it back when the client takes longer.
    pub(crate) fn send_patiently(&self, piece: Bytes, patience: Duration) -> Sent {
        self.send_within(piece, patience, true)
    }

    /// Sends a piece while no snapshot is held.
    pub(crate) fn send_without_snapshot(&self, piece: Bytes) -> bool {
        matches!(self.send_within(piece, Duration::MAX, false), Sent::Taken)
    }

    /// Sends the last piece, which ends the answer.
    pub(crate) fn finish(self, piece: Bytes) {
        // A client that has gone needs no end.
        drop(self.pieces.blocking_send(Piece::Last(piece)));
    }

    fn send_within(&self, piece: Bytes, patience: Duration, holds_snapshot: bool) -> Sent {
        let began = Instant::now();
        let mut piece = piece;
        while !self.database.is_closing() {
            if holds_snapshot && self.is_harmful() {
                // Who waits for patience only can give the snapshot back instead.
                let can_wait = patience != Duration::MAX;
                return if can_wait { Sent::Waiting(piece) } else { Sent::Cut };
            }
            piece = match self.pieces.try_send(Piece::Part(piece)) {
                Ok(()) => return Sent::Taken,
                Err(TrySendError::Full(Piece::Part(piece) | Piece::Last(piece))) => piece,
                Err(TrySendError::Closed(_)) => return Sent::Cut,
            };
            let waited = began.elapsed();
            if waited >= patience {
                return Sent::Waiting(piece);
            }
            let wait = LOOK_INTERVAL.min(patience.saturating_sub(waited));
            // Whether there is room then, or nobody listens any more, the next turn finds out.
            drop(Handle::current().block_on(timeout(wait, self.pieces.reserve())));
        }
        Sent::Cut
    }

    /// Whether the snapshot keeps more in memory than it may.
    fn is_harmful(&self) -> bool {
        if self.snapshot_age() < SNAPSHOT_GRACE || !self.is_memory_short() {
            return false;
        }
        // Only what is left after a flush is held by snapshots. A flush that fails is found out by
        // the next write.
        drop(self.database.environment().flush());
        let is_harmful = self.is_memory_short();
        if is_harmful {
            tracing::warn!("the snapshot of a long answer keeps too many changes in memory");
        }
        is_harmful
    }

    fn is_memory_short(&self) -> bool {
        let environment = self.database.environment();
        let own = environment.statistics().unflushed_bytes;
        let (limit, all) =
            (environment.options().unflushed_bytes_max, &environment.options().memory_budget);
        // A database that holds hardly anything is not what makes the shared memory short.
        let is_part =
            own > SHARED_PART_BYTES && all.held_bytes() > all.bytes_max() / MEMORY_DIVISOR;
        own > limit / MEMORY_DIVISOR || is_part
    }
}
