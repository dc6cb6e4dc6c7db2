//! Sending a long answer in pieces, as fast as its client takes them.
//!
//! The maker of an answer holds a snapshot, and a snapshot keeps everything that is written after it in
//! memory. Invariant: no client, however slow, keeps writes from going on: when memory fills and a flush does
//! not help, the answer is cut off, with the reason. So it is when its place is wanted and its client has
//! not taken anything for some time. A client that takes less than the minimum rate loses its connection
//! (see connection_watch). Waiting holds no thread.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use database::DatabaseLease;
use storage::{Environment, MemoryShare, WorkingMemory};
use tokio::{
    sync::mpsc::{Sender, error::TrySendError},
    task::{spawn_blocking, yield_now},
    time::{Instant, sleep, timeout},
};
use wire::{ErrorKind, ProtocolError};

use crate::{answer::Piece, answer_places::Place};

/// About how large the pieces of an answer are.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// What gathered in one go, such as a row of a large document, counts beside the place of its answer from
/// this size on.
const COUNTED_BYTES_MIN: usize = 4 * PIECE_BYTES;
/// How long a large row waits for room.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How often a sender that waits for its client looks whether it should go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Younger snapshots are not worth cutting an answer off.
const SNAPSHOT_GRACE: Duration = Duration::from_millis(250);
/// What a database may hold, however short the memory is that all of them share.
const SHARED_PART_BYTES: u64 = 1 << 20;
/// What the journal may grow by behind a snapshot: files of it that the snapshot needs are kept.
const JOURNAL_GROWTH_MAX: u64 = 1 << 30;
/// Which part of the memory for unflushed versions the changes behind a snapshot may take.
const MEMORY_DIVISOR: u64 = 2;
/// How long the reason of a failure waits for its client.
const REASON_PATIENCE: Duration = Duration::from_secs(5);

/// How long one row has waited for room.
#[derive(Default)]
pub(crate) struct RoomWait {
    began: Option<Instant>,
}

impl RoomWait {
    /// Waits a little longer; `false` when that was long enough.
    pub(crate) async fn again(&mut self) -> bool {
        if ROOM_PATIENCE <= self.began.get_or_insert_with(Instant::now).elapsed() {
            return false;
        }
        sleep(LOOK_INTERVAL).await;
        true
    }
}

/// A piece that counts until it is with the client, or its connection is gone.
struct CountedPiece {
    bytes: Vec<u8>,
    _share: MemoryShare,
}

impl AsRef<[u8]> for CountedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What became of a piece.
pub(crate) enum Sent {
    /// It is on its way.
    Taken,
    /// The client has not taken it within the patience of the sender.
    Waiting(Bytes),
    /// The answer is not wanted any more, or must not go on.
    Cut,
}

/// Why an answer must not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// Nobody listens any more.
    Unwanted,
    /// The database is being closed.
    Closing,
    /// Its snapshot keeps too much in memory or in a journal.
    Memory,
    /// Others wait for its place, and its client does not read.
    Place,
    /// There is no memory for a row of it.
    LargeRow,
}

impl Cut {
    fn error(self) -> Option<ProtocolError> {
        let (kind, message) = match self {
            Cut::Unwanted => return None,
            Cut::Closing => (ErrorKind::OperationCanceled, "The database is being closed."),
            Cut::Memory => (
                ErrorKind::LowMemory,
                "The answer took so long that the state it was read from kept too many later changes in \
                 memory or in the journal. Read faster, or in smaller parts.",
            ),
            Cut::LargeRow => (
                ErrorKind::LowMemory,
                "A row of the answer is so large that there is no memory for it now. Try again later, or \
                 select less of each document.",
            ),
            Cut::Place => (
                ErrorKind::Overloaded,
                "Nothing of the answer was read for some seconds, and others waited for its place.",
            ),
        };
        Some(ProtocolError::new(kind, message))
    }
}

/// Where the maker of an answer puts its pieces. Dropping it without [`PieceSender::end`] breaks the
/// answer off.
pub(crate) struct PieceSender {
    pieces: Sender<Piece>,
    database: DatabaseLease,
    /// What snapshots are held of: the documents and the entries of an index, each with the bytes that its
    /// journal had then.
    held: RefCell<Vec<(Arc<Environment>, u64)>>,
    snapshot_taken: Cell<Instant>,
    has_sent: Cell<bool>,
    cut: Cell<Option<Cut>>,
    place: RefCell<Place>,
    /// A client that has taken nothing for so long leaves when its place is wanted.
    unread_max: Duration,
}

/// How a failed answer says why inside of its body, behind whole rows; the body is then broken off, so
/// that nobody takes it for a whole one.
pub(crate) type WriteReason = fn(&ProtocolError, &mut Vec<u8>);

impl PieceSender {
    /// For an answer from a snapshot that was taken just now, or before it waited for its place.
    pub(crate) fn new(
        pieces: Sender<Piece>,
        database: DatabaseLease,
        place: Place,
        unread_max: Duration,
    ) -> PieceSender {
        let held = RefCell::new(vec![with_journal(database.environment())]);
        PieceSender {
            pieces,
            database,
            held,
            snapshot_taken: Cell::new(Instant::now()),
            has_sent: Cell::new(false),
            cut: Cell::new(None),
            place: RefCell::new(place),
            unread_max,
        }
    }

    /// A snapshot of this environment is held, too, as long as the answer is made.
    pub(crate) fn also_holds(&self, environment: &Arc<Environment>) {
        self.held.borrow_mut().push(with_journal(environment));
    }

    /// How long the snapshot has been held.
    pub(crate) fn snapshot_age(&self) -> Duration {
        self.snapshot_taken.get().elapsed()
    }

    /// The answer goes on from a new snapshot.
    pub(crate) fn snapshot_renewed(&self) {
        self.snapshot_taken.set(Instant::now());
        for held in self.held.borrow_mut().iter_mut() {
            *held = with_journal(&held.0);
        }
    }

    /// Counts a copy of so many bytes, instead of the one before; `false` when there is no room for it.
    pub(crate) fn hold_copy(&self, bytes: usize) -> bool {
        self.place.borrow_mut().hold(bytes as u64)
    }

    /// Sends what has gathered, if that is enough for a piece; `false` when the answer must not go
    /// on.
    pub(crate) async fn send_if_enough(&self, gathered: &mut Vec<u8>) -> bool {
        if gathered.len() < PIECE_BYTES {
            return true;
        }
        match self.counted(std::mem::take(gathered)).await {
            Some(piece) => self.send(piece).await,
            None => false,
        }
    }

    /// The piece that gathered, counted until it is on its way if it is large; `None` when there is no room
    /// for that.
    async fn counted(&self, gathered: Vec<u8>) -> Option<Bytes> {
        let bytes = gathered.capacity();
        if bytes < COUNTED_BYTES_MIN {
            return Some(Bytes::from(gathered));
        }
        let mut wait = RoomWait::default();
        loop {
            let share = self.place.borrow().share(bytes as u64);
            if let Some(share) = share {
                return Some(Bytes::from_owner(CountedPiece { bytes: gathered, _share: share }));
            }
            if !wait.again().await {
                self.cut.set(Some(Cut::LargeRow));
                return None;
            }
        }
    }

    /// Where what is held while a row is made is counted.
    pub(crate) fn working_memory(&self) -> WorkingMemory {
        WorkingMemory::beyond(PIECE_BYTES as u64, self.place.borrow().budget(), LOOK_INTERVAL)
    }

    /// Sends a piece while a snapshot is held, waiting as long as that does no harm.
    pub(crate) async fn send(&self, piece: Bytes) -> bool {
        let sent = self.send_within(Piece::Part(piece), Duration::MAX, true).await;
        matches!(sent, Sent::Taken)
    }

    /// Sends a piece while a snapshot is held, and returns it when the client takes longer.
    pub(crate) async fn send_patiently(&self, piece: Bytes, patience: Duration) -> Sent {
        self.send_within(Piece::Part(piece), patience, true).await
    }

    /// Sends a piece while no snapshot is held.
    pub(crate) async fn send_without_snapshot(&self, piece: Bytes) -> bool {
        let sent = self.send_within(Piece::Part(piece), Duration::MAX, false).await;
        matches!(sent, Sent::Taken)
    }

    /// Ends the answer, whose snapshot is held no more: `written` says whether all of it was written, and
    /// `rest` is what was not sent yet. What failed before anything was sent becomes a status; later, the
    /// body says why and breaks off.
    pub(crate) async fn end(
        self,
        what: &'static str,
        written: Result<bool, ProtocolError>,
        mut rest: Vec<u8>,
        write_reason: WriteReason,
    ) {
        let error = match written {
            Ok(true) => {
                if let Some(last) = self.counted(std::mem::take(&mut rest)).await {
                    let last = Piece::Last(last);
                    let Sent::Cut = self.send_within(last, Duration::MAX, false).await else {
                        return;
                    };
                }
                self.cut.get().and_then(Cut::error)
            }
            Ok(false) => self.cut.get().and_then(Cut::error),
            Err(error) => Some(error),
        };
        let Some(error) = error else { return };
        let record = self.database.record();
        let database = record.name.as_str();
        tracing::error!(database, %error, "{what} could not be sent to its end");
        if !self.has_sent.get() {
            drop(self.pieces.try_send(Piece::Failed(Box::new(error))));
            return;
        }
        write_reason(&error, &mut rest);
        // A client that does not read does not read this either; nobody waits for it for long.
        let patience = if self.cut.get().is_some() { Duration::ZERO } else { REASON_PATIENCE };
        drop(timeout(patience, self.pieces.send(Piece::Part(Bytes::from(rest)))).await);
    }

    async fn send_within(&self, piece: Piece, patience: Duration, holds_snapshot: bool) -> Sent {
        let began = Instant::now();
        let mut piece = piece;
        loop {
            if self.database.is_closing() {
                return self.cut_off(Cut::Closing);
            }
            if holds_snapshot && self.is_harmful().await {
                // A sender with patience lets go of the snapshot instead.
                return match piece {
                    Piece::Part(bytes) if patience != Duration::MAX => Sent::Waiting(bytes),
                    _ => self.cut_off(Cut::Memory),
                };
            }
            piece = match self.pieces.try_send(piece) {
                Ok(()) => {
                    self.has_sent.set(true);
                    // Others on this thread have their turn.
                    yield_now().await;
                    return Sent::Taken;
                }
                Err(TrySendError::Full(piece)) => piece,
                Err(TrySendError::Closed(_)) => return self.cut_off(Cut::Unwanted),
            };
            let waited = began.elapsed();
            if let (true, Piece::Part(bytes)) = (waited >= patience, &mut piece) {
                return Sent::Waiting(std::mem::take(bytes));
            }
            if waited >= self.unread_max && self.place.borrow().is_wanted() {
                return self.cut_off(Cut::Place);
            }
            let wait = LOOK_INTERVAL.min(patience.saturating_sub(waited));
            // Whether there is room then, or nobody listens any more, the next turn finds out.
            drop(timeout(wait, self.pieces.reserve()).await);
        }
    }

    fn cut_off(&self, why: Cut) -> Sent {
        self.cut.set(Some(why));
        Sent::Cut
    }

    /// Whether the snapshot keeps more in memory than it may.
    async fn is_harmful(&self) -> bool {
        if self.snapshot_age() < SNAPSHOT_GRACE {
            return false;
        }
        let held = self.held.borrow().clone();
        for (environment, journal_bytes) in held {
            let journal_growth = with_journal(&environment).1.saturating_sub(journal_bytes);
            if journal_growth > JOURNAL_GROWTH_MAX {
                tracing::warn!(
                    journal_growth,
                    "the snapshot of a long answer keeps too much of a journal"
                );
                return true;
            }
            if !is_memory_short(&environment) {
                continue;
            }
            // Only what is left after a flush is held by snapshots. A flush that fails is found out by
            // the next write.
            let flushed = Arc::clone(&environment);
            drop(spawn_blocking(move || drop(flushed.flush())).await);
            if is_memory_short(&environment) {
                tracing::warn!("the snapshot of a long answer keeps too many changes in memory");
                return true;
            }
        }
        false
    }
}

fn with_journal(environment: &Arc<Environment>) -> (Arc<Environment>, u64) {
    (Arc::clone(environment), environment.statistics().journal_bytes)
}

fn is_memory_short(environment: &Environment) -> bool {
    let own = environment.statistics().unflushed_bytes;
    let (limit, all) =
        (environment.options().unflushed_bytes_max, &environment.options().memory_budget);
    // One that holds hardly anything is not what makes the shared memory short.
    let is_part = own > SHARED_PART_BYTES && all.held_bytes() > all.bytes_max() / MEMORY_DIVISOR;
    own > limit / MEMORY_DIVISOR || is_part
}
