//! Sends a long response in pieces, at the pace of its client.
//!
//! The producer of a response holds a snapshot, and a snapshot keeps everything that is written
//! after it in memory. Invariant: no client, however slow, blocks writes: when memory fills and a
//! flush does not help, the response is cut off, with the reason. The same happens when its place
//! is wanted and its client has not read anything for some time. A client that reads at less than
//! the minimum rate loses its connection (see connection_watch). Waiting blocks no thread, and ends
//! when the database is closed or the client disconnects.
//!
//! The memory of the response is charged in one place ([`PieceSender::memory`]): that of a row
//! while it is produced, then its text in the buffer of the next piece, and then the piece until
//! the client or the connection has it.

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
    task::yield_now,
    time::{Instant, timeout},
};
use wire::ErrorKind;

use crate::{
    answers::{answer::Piece, answer_places::Place},
    api_error::ApiError,
    blocking::begin_blocking,
};

/// Approximate size of the pieces of a response.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// A larger piece is charged, in addition to the place of its response, until the client has it; a
/// place covers two smaller ones that wait for that.
const COUNTED_BYTES_MIN: usize = 4 * PIECE_BYTES;
/// The memory besides its place that is not charged: a buffer for the next piece.
const ALLOWED_BYTES: u64 = 2 * PIECE_BYTES as u64;
/// How long a row waits for memory.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How often a sender that waits for its client or for memory checks whether to continue.
pub(crate) const WAIT_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Younger snapshots are not worth cutting off a response.
const SNAPSHOT_GRACE: Duration = Duration::from_millis(250);
/// The same for the snapshot of an index, which meanwhile waits with its changes: see
/// `IndexCore::rest_for_readers`.
const INDEX_SNAPSHOT_GRACE: Duration = Duration::from_secs(10);
/// What a database may hold even if the shared memory is short.
const SHARED_PART_BYTES: u64 = 1 << 20;
/// How much the journal may grow after a snapshot: files that the snapshot needs are retained.
const JOURNAL_GROWTH_MAX: u64 = 1 << 30;
/// The changes after a snapshot may take this fraction of the memory for unflushed versions.
const MEMORY_DIVISOR: u64 = 2;
/// How long the reason for a failure waits for its client.
const REASON_PATIENCE: Duration = Duration::from_secs(5);

/// How long one row has waited for memory.
#[derive(Default)]
pub(crate) struct RoomWait {
    began: Option<Instant>,
    progress: u64,
}

impl RoomWait {
    /// Whether that was long enough.
    pub(crate) fn is_over(&mut self) -> bool {
        ROOM_PATIENCE <= self.began.get_or_insert_with(Instant::now).elapsed()
    }

    /// The progress of the work that waits. After any the wait for the next refusal begins anew.
    pub(crate) fn note_progress(&mut self, progress: u64) {
        if self.progress != progress {
            *self = Self { began: None, progress };
        }
    }
}

/// A piece that is charged until the client has it, or its connection is gone.
struct CountedPiece {
    bytes: Vec<u8>,
    _share: MemoryShare,
}

impl AsRef<[u8]> for CountedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are charged for as long as there is a reference to them.
pub(crate) fn counted_bytes(bytes: Vec<u8>, share: MemoryShare) -> Bytes {
    Bytes::from_owner(CountedPiece { bytes, _share: share })
}

/// The outcome of sending a piece.
pub(crate) enum Sent {
    /// It was passed on.
    Taken,
    /// The client has not read it within the sender's patience.
    Waiting(Bytes),
    /// The response is not wanted any more, or must be aborted.
    Cut,
}

/// Why a response must be aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The client disconnected: no further piece is wanted.
    Unwanted,
    /// The database is being closed.
    Closing,
    /// Its snapshot retains too much in memory or in a journal.
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
                 memory or in the journal. Repeat the request, and read the answer faster or in smaller parts.",
            ),
            Cut::Place => (
                ErrorKind::Overloaded,
                "Nothing of the answer was read for some seconds, and others waited for its place.",
            ),
        };
        Some(ApiError::new(kind, message))
    }
}

/// Receives the pieces of a response from its producer, and stays on its thread. Dropping it
/// without [`PieceSender::end`] aborts the response.
pub(crate) struct PieceSender {
    pieces: Sender<Piece>,
    database: DatabaseLease,
    /// The environments whose snapshots are held: that of the documents and that of an index.
    held: RefCell<Vec<HeldEnvironment>>,
    snapshot_taken: Cell<Instant>,
    has_sent: Cell<bool>,
    cut: Cell<Option<Cut>>,
    place: Place,
    memory: Rc<WorkingMemory>,
    /// The charge for the buffer of the next piece, as far as known.
    gathered: RefCell<Held>,
    /// A client that has read nothing for this long loses its place when others want it.
    unread_max: Duration,
}

/// How a failed response reports the reason within its body, after whole rows; the body is then
/// aborted, so that it is not mistaken for a complete one.
pub(crate) type WriteReason = fn(&ApiError, &mut Vec<u8>);

impl PieceSender {
    /// For a response from a snapshot that was taken just now, or before it waited for its place.
    pub(crate) fn new(
        pieces: Sender<Piece>,
        database: DatabaseLease,
        place: Place,
        unread_max: Duration,
    ) -> PieceSender {
        let documents = HeldEnvironment::of(database.environment(), SNAPSHOT_GRACE);
        let held = RefCell::new(vec![documents]);
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

    /// Registers another snapshot, of this environment, that is held while the response is
    /// produced.
    pub(crate) fn also_holds(&self, environment: &Arc<Environment>) {
        self.held.borrow_mut().push(HeldEnvironment::of(environment, SNAPSHOT_GRACE));
    }

    /// The same for the environment of an index.
    pub(crate) fn also_holds_index(&self, environment: &Arc<Environment>) {
        self.held.borrow_mut().push(HeldEnvironment::of(environment, INDEX_SNAPSHOT_GRACE));
    }

    /// For how long the snapshot has been held.
    pub(crate) fn snapshot_age(&self) -> Duration {
        self.snapshot_taken.get().elapsed()
    }

    /// The response continues from a new snapshot.
    pub(crate) fn snapshot_renewed(&self) {
        self.snapshot_taken.set(Instant::now());
        for held in self.held.borrow_mut().iter_mut() {
            *held = HeldEnvironment::of(&held.environment, held.grace);
        }
    }

    /// Where all memory of the response is charged.
    pub(crate) fn memory(&self) -> &Rc<WorkingMemory> {
        &self.memory
    }

    /// Waits a little for memory, for a row that has waited for `waited`. `false` when there is no
    /// point any more: it was long enough, the client disconnected, the database is being closed,
    /// or the snapshot does harm.
    pub(crate) async fn waits_for_room(&self, wait: &mut RoomWait) -> bool {
        let cut = match () {
            () if wait.is_over() => return false,
            () if self.database.is_closing() => Cut::Closing,
            () if self.is_harmful().await => Cut::Memory,
            () => match timeout(WAIT_CHECK_INTERVAL, self.pieces.closed()).await {
                Ok(()) => Cut::Unwanted,
                Err(_) => return true,
            },
        };
        self.cut.set(Some(cut));
        false
    }

    /// A row is complete: its charge is released except for its text, which is charged with what
    /// has accumulated until it is sent.
    pub(crate) fn end_row(&self, scope: WorkingScope<'_>, gathered: &Vec<u8>) {
        self.gathered.borrow_mut().end(scope, gathered.capacity() as u64);
    }

    /// Sends what has accumulated, if it is enough for a piece; `false` when the response must be
    /// aborted.
    pub(crate) async fn send_if_enough(&self, gathered: &mut Vec<u8>) -> bool {
        gathered.len() < PIECE_BYTES || self.send(self.counted(std::mem::take(gathered))).await
    }

    /// The accumulated piece, charged until the client has it if it is large.
    pub(crate) fn counted(&self, gathered: Vec<u8>) -> Bytes {
        let mut held = self.gathered.borrow_mut();
        held.set(gathered.capacity() as u64);
        match held.take_share().filter(|_| COUNTED_BYTES_MIN <= gathered.capacity()) {
            None => Bytes::from(gathered),
            Some(share) => counted_bytes(gathered, share),
        }
    }

    /// Sends a piece while a snapshot is held, waiting as long as that does no harm.
    pub(crate) async fn send(&self, piece: Bytes) -> bool {
        let sent = self.send_within(Piece::Part(piece), Duration::MAX, true).await;
        matches!(sent, Sent::Taken)
    }

    /// Sends a piece while a snapshot is held, and returns it if the client takes longer.
    pub(crate) async fn send_patiently(&self, piece: Bytes, patience: Duration) -> Sent {
        self.send_within(Piece::Part(piece), patience, true).await
    }

    /// Sends a piece while no snapshot is held.
    pub(crate) async fn send_without_snapshot(&self, piece: Bytes) -> bool {
        let sent = self.send_within(Piece::Part(piece), Duration::MAX, false).await;
        matches!(sent, Sent::Taken)
    }

    /// Ends the response, whose snapshot is no longer held: `written` says whether all of it was written,
    /// and `rest` is what was not sent yet. An error before anything was sent becomes a status; a later one
    /// is appended to the body, which is then aborted.
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
            // An error of waiting is not the reason when the wait was aborted.
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
        // A client that does not read does not read this either, so the wait is short.
        let patience = if self.cut.get().is_some() { Duration::ZERO } else { REASON_PATIENCE };
        let sends = async {
            self.pieces.send(Piece::Part(Bytes::from(rest))).await?;
            self.pieces.send(Piece::Failed(Box::new(error))).await
        };
        drop(timeout(patience, sends).await);
    }

    async fn send_within(&self, piece: Piece, patience: Duration, holds_snapshot: bool) -> Sent {
        let began = Instant::now();
        let mut piece = piece;
        loop {
            if self.database.is_closing() {
                return self.cut_off(Cut::Closing);
            }
            if holds_snapshot && self.is_harmful().await {
                // A sender with patience releases the snapshot instead.
                return match piece {
                    Piece::Part(bytes) if patience != Duration::MAX => Sent::Waiting(bytes),
                    _ => self.cut_off(Cut::Memory),
                };
            }
            piece = match self.pieces.try_send(piece) {
                Ok(()) => {
                    self.has_sent.set(true);
                    // Yields to others on this thread.
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
            if waited >= self.unread_max && self.place.try_give_up() {
                return self.cut_off(Cut::Place);
            }
            let wait = WAIT_CHECK_INTERVAL.min(patience.saturating_sub(waited));
            // Whether there is memory then, or the client has disconnected, is checked by the next
            // turn.
            drop(timeout(wait, self.pieces.reserve()).await);
        }
    }

    fn cut_off(&self, why: Cut) -> Sent {
        self.cut.set(Some(why));
        Sent::Cut
    }

    /// Whether the snapshot retains more in memory than allowed.
    async fn is_harmful(&self) -> bool {
        let age = self.snapshot_age();
        if age < SNAPSHOT_GRACE {
            return false;
        }
        let held = self.held.borrow().clone();
        for HeldEnvironment { environment, journal_bytes, grace } in held {
            if age < grace {
                continue;
            }
            let journal_growth =
                environment.statistics().journal_bytes.saturating_sub(journal_bytes);
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
            // Only what remains after a flush is retained by snapshots. A flush that fails is
            // detected by the next write.
            let flushed = Arc::clone(&environment);
            drop(begin_blocking(move || drop(flushed.flush())).await);
            if is_memory_short(&environment) {
                tracing::warn!("the snapshot of a long answer keeps too many changes in memory");
                return true;
            }
        }
        false
    }
}

/// An environment of which a snapshot is held.
#[derive(Clone)]
struct HeldEnvironment {
    environment: Arc<Environment>,
    /// The size of its journal when the snapshot was taken.
    journal_bytes: u64,
    /// How long the snapshot is held whatever it retains.
    grace: Duration,
}

impl HeldEnvironment {
    fn of(environment: &Arc<Environment>, grace: Duration) -> Self {
        let journal_bytes = environment.statistics().journal_bytes;
        Self { environment: Arc::clone(environment), journal_bytes, grace }
    }
}

fn is_memory_short(environment: &Environment) -> bool {
    let own = environment.statistics().unflushed_bytes;
    let (limit, all) =
        (environment.options().unflushed_bytes_max, &environment.options().memory_budget);
    // One that holds hardly anything is not the cause of a shortage of the shared memory.
    let is_part = own > SHARED_PART_BYTES && all.held_bytes() > all.bytes_max() / MEMORY_DIVISOR;
    own > limit / MEMORY_DIVISOR || is_part
}
