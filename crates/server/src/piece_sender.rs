//! Sending a long answer in pieces, as fast as its client takes them.
//!
//! The maker of an answer holds a snapshot, and a snapshot keeps everything that is written after it in
//! memory. Invariant: no client, however slow, keeps writes from going on: when memory fills and a flush does
//! not help, the answer is cut off, with the reason. So it is when its place is wanted and its client has
//! not taken anything for some time. A client that takes less than the minimum rate loses its connection
//! (see connection_watch). Waiting holds no thread, and ends when the database is closed or nobody listens any more.
//!
//! What the answer holds is counted in one place ([`PieceSender::memory`]): what a row takes while it is made, then
//! its text in the buffer that gathers a piece, and then the piece until the client or the connection has it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use database::DatabaseLease;
use storage::{Environment, Held, MemoryShare, WorkingMemory, WorkingScope};
use tokio::{
    sync::mpsc::{Sender, error::TrySendError},
    task::{spawn_blocking, yield_now},
    time::{Instant, timeout},
};
use wire::ErrorKind;

use crate::{answer::Piece, answer_places::Place, api_error::ApiError};

/// About how large the pieces of an answer are.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// A piece that is larger counts beside the place of its answer until it is with the client; two smaller ones that wait
/// for that are what a place is for.
const COUNTED_BYTES_MIN: usize = 4 * PIECE_BYTES;
/// What an answer may hold beside its place: a buffer that gathers a piece.
const ALLOWED_BYTES: u64 = 2 * PIECE_BYTES as u64;
/// How long a row waits for room.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How often whoever waits for its client or for room looks whether it should go on.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
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
    /// Whether that was long enough.
    pub(crate) fn is_over(&mut self) -> bool {
        ROOM_PATIENCE <= self.began.get_or_insert_with(Instant::now).elapsed()
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
}

impl Cut {
    fn error(self) -> Option<ApiError> {
        let (kind, message) = match self {
            Cut::Unwanted => return None,
            Cut::Closing => (ErrorKind::OperationCanceled, "The database is being closed."),
            Cut::Memory => (
                ErrorKind::LowMemory,
                "The answer took so long that the state it was read from kept too many later changes in \
                 memory or in the journal. Read faster, or in smaller parts.",
            ),
            Cut::Place => (
                ErrorKind::Overloaded,
                "Nothing of the answer was read for some seconds, and others waited for its place.",
            ),
        };
        Some(ApiError::new(kind, message))
    }
}

/// Where the maker of an answer puts its pieces. It stays on the thread of the maker. Dropping it without [`PieceSender::end`] breaks the
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
    place: Place,
    memory: Rc<WorkingMemory>,
    /// What the buffer takes in which the next piece gathers, as far as that is known.
    gathered: RefCell<Held>,
    /// A client that has taken nothing for so long leaves when its place is wanted.
    unread_max: Duration,
}

/// How a failed answer says why inside of its body, behind whole rows; the body is then broken off, so
/// that nobody takes it for a whole one.
pub(crate) type WriteReason = fn(&ApiError, &mut Vec<u8>);

impl PieceSender {
    /// For an answer from a snapshot that was taken just now, or before it waited for its place.
    pub(crate) fn new(
        pieces: Sender<Piece>,
        database: DatabaseLease,
        place: Place,
        unread_max: Duration,
    ) -> PieceSender {
        let held = RefCell::new(vec![with_journal(database.environment())]);
        let memory = Rc::new(WorkingMemory::beyond(ALLOWED_BYTES, place.budget()));
        PieceSender {
            pieces,
            database,
            held,
            snapshot_taken: Cell::new(Instant::now()),
            has_sent: Cell::new(false),
            cut: Cell::new(None),
            place,
            gathered: RefCell::new(memory.holding()),
            memory,
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

    /// Where everything is counted that the answer holds.
    pub(crate) fn memory(&self) -> &Rc<WorkingMemory> {
        &self.memory
    }

    /// Waits a little for room, for a row that has waited for so long. `false` when that is of no use any more: it
    /// was long enough, nobody listens, the database is being closed, or the snapshot does harm.
    pub(crate) async fn waits_for_room(&self, wait: &mut RoomWait) -> bool {
        let cut = match () {
            () if wait.is_over() => return false,
            () if self.database.is_closing() => Cut::Closing,
            () if self.is_harmful().await => Cut::Memory,
            () => match timeout(LOOK_INTERVAL, self.pieces.closed()).await {
                Ok(()) => Cut::Unwanted,
                Err(_) => return true,
            },
        };
        self.cut.set(Some(cut));
        false
    }

    /// A row is done, and what it took is counted no more, but for its text: all that has gathered is counted until
    /// it is sent.
    pub(crate) fn end_row(&self, scope: WorkingScope<'_>, gathered: &Vec<u8>) {
        self.gathered.borrow_mut().end(scope, gathered.capacity() as u64);
    }

    /// Sends what has gathered, if that is enough for a piece; `false` when the answer must not go
    /// on.
    pub(crate) async fn send_if_enough(&self, gathered: &mut Vec<u8>) -> bool {
        gathered.len() < PIECE_BYTES || self.send(self.counted(std::mem::take(gathered))).await
    }

    /// The piece that gathered, counted until it is with the client if it is large.
    fn counted(&self, gathered: Vec<u8>) -> Bytes {
        let mut held = self.gathered.borrow_mut();
        held.set(gathered.capacity() as u64);
        match held.leave().filter(|_| COUNTED_BYTES_MIN <= gathered.capacity()) {
            None => Bytes::from(gathered),
            Some(share) => Bytes::from_owner(CountedPiece { bytes: gathered, _share: share }),
        }
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
        written: Result<bool, ApiError>,
        mut rest: Vec<u8>,
        write_reason: WriteReason,
    ) {
        let error = match written {
            Ok(true) => {
                let last = Piece::Last(self.counted(std::mem::take(&mut rest)));
                let Sent::Cut = self.send_within(last, Duration::MAX, false).await else { return };
                self.cut.get().and_then(Cut::error)
            }
            Ok(false) => self.cut.get().and_then(Cut::error),
            // What was waited for is no reason when waiting was broken off.
            Err(error) => self.cut.get().map_or(Some(error), Cut::error),
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
            if waited >= self.unread_max && self.place.is_wanted() {
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
