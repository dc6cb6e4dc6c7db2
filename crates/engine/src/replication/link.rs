//! One link: messages to one destination, one after the other.
//!
//! Nothing of the database is held while a message is on its way. When one is not answered the link pauses, each time
//! longer, and begins with a greeting again.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use database::{DatabaseLease, LogWatch};
use model::{Etag, ticks};
use platform::Clock;
use replication::{
    Advance, BatchLimits, Outgoing, ReadError, Refusal, RefusalKind, ReplyError, Sender,
};
use storage::MemoryShare;

use super::{
    links::LinkShared,
    pacing::Pacing,
    statistics::{LinkRun, LinkState},
};
use crate::{
    engine::Engine,
    error::EngineError,
    etl::{
        Outbound,
        destination::{Destination, DestinationOptions, Post, SendError},
    },
};

/// Changes of one batch.
const ITEMS_MAX: usize = 16_384;
/// Entries of the log that one batch reads: a snapshot is held meanwhile.
const ENTRIES_MAX: usize = 16 * ITEMS_MAX;
/// Bytes of one batch; with little memory it is less.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// After failures it is no less.
const BATCH_BYTES_MIN: usize = 16 << 10;
/// The fraction of the memory for work that one batch may take.
const BATCH_PART: u64 = 16;
/// Memory of a batch that is not drawn from the budget.
const ALLOWED_BYTES: u64 = 256 << 10;
/// Answers are short, but for the list of contents that a receiver lacks.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long a destination may take for one message.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// The first pause after a failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The longest before another member of the group: one that comes back is to be reached before it is set aside.
const MEMBER_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a link waits for a database that cannot be used now.
const CLOSED_PAUSE: Duration = Duration::from_secs(2);
/// How long an idle link sleeps: it is woken by changes.
const IDLE_TIME: Duration = Duration::MAX;
/// How long an idle link keeps its thread.
const PARKING_TIME: Duration = Duration::from_secs(2);
/// The path of messages behind that of the database.
const MESSAGES: &str = "/replication/messages";

/// A link, on its thread or parked.
pub(super) struct Link {
    engine: Weak<Engine>,
    shared: Arc<LinkShared>,
    sender: Sender,
    destination: Destination,
    pacing: Pacing,
    watch: Option<Watch>,
    /// If the destination had everything when the log was last read: how often the log had grown before that.
    end_seen: Option<u64>,
    /// Less than the maximum after a failure, which may come from the size of a batch.
    batch_bytes: usize,
    pause: Duration,
}

/// Wakes the link when the log grows, and knows whether it has.
struct Watch {
    watch: LogWatch,
    /// How often the database was opened until then.
    opening: u64,
}

/// A message that is ready to be sent.
struct Prepared {
    outgoing: Outgoing,
    /// Holds the memory of the message.
    share: MemoryShare,
    began: Duration,
    began_ticks: i64,
}

/// Why a link does not go on.
enum Failure {
    /// The link is to end.
    Canceled,
    /// There is no answer, or nothing can be done now.
    Unavailable(String),
    /// The destination has answered that it takes nothing.
    Refused(String),
    /// So it has, because it has changes of this database that are no longer here.
    Lost(String),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        match error {
            SendError::Canceled => Failure::Canceled,
            error => Failure::Unavailable(error.to_string()),
        }
    }
}

impl From<ReplyError> for Failure {
    fn from(error: ReplyError) -> Failure {
        let message = error.to_string();
        match error {
            ReplyError::Refused(Refusal { kind: RefusalKind::NotNow, .. }) => {
                Failure::Unavailable(message)
            }
            ReplyError::Refused(Refusal { kind: RefusalKind::Lost, .. }) => Failure::Lost(message),
            ReplyError::Refused(_) | ReplyError::Invalid(_) | ReplyError::Unexpected => {
                Failure::Refused(message)
            }
        }
    }
}

/// The outcome of a step.
enum Step {
    /// There may be more to do.
    Again,
    /// There is nothing to do for so long, unless the log grows.
    Idle(Duration),
    /// The link is to end.
    End,
}

enum Ready {
    Message(Box<Prepared>),
    Nothing(Duration),
    Closed,
}

/// The database of a link.
enum Found {
    Open(DatabaseLease),
    /// It is closed, and has nothing that was not sent.
    AtEnd,
    /// It cannot be used now.
    Closed,
}

/// Runs a link until it has had nothing to do for a while, or is stopped; returns whether it may be run again when it is
/// woken.
pub(super) fn run(link: &mut Link) -> bool {
    while !link.shared.cancel.is_canceled() {
        link.shared.signal.clear();
        link.shared.done_at_opening.store(0, Ordering::SeqCst);
        match link.step() {
            Step::Again => {}
            Step::Idle(IDLE_TIME) => {
                link.shared.signal.wait(PARKING_TIME);
                if !link.shared.signal.is_woken() {
                    return true;
                }
            }
            Step::Idle(time) => link.shared.signal.wait(time),
            Step::End => return false,
        }
    }
    false
}

impl Failure {
    fn message(&self) -> Option<&str> {
        match self {
            Failure::Canceled => None,
            Failure::Unavailable(message) | Failure::Refused(message) | Failure::Lost(message) => {
                Some(message)
            }
        }
    }
}

impl Link {
    pub(super) fn new(
        engine: Weak<Engine>,
        shared: Arc<LinkShared>,
        outbound: Arc<dyn Outbound>,
    ) -> Link {
        let to = &shared.destination;
        let options = DestinationOptions {
            connection: to.connection.clone(),
            requires_encryption: to.requires_encryption,
            time_max: ANSWER_TIME_MAX,
        };
        let destination = match to.kind() {
            replication::LinkKind::External => Destination::new(outbound, options),
            replication::LinkKind::Internal => Destination::of_nodes(outbound, options),
        };
        let url = engine
            .upgrade()
            .map_or_else(String::new, |engine| engine.replication.own_url().to_owned());
        let name = shared.database_name.as_str().to_owned();
        let sender = Sender::new(to.kind(), shared.database, name, url);
        let pacing = Pacing::new(to.delay);
        Link {
            engine,
            shared,
            sender,
            destination,
            pacing,
            watch: None,
            end_seen: None,
            batch_bytes: BATCH_BYTES_MAX,
            pause: PAUSE_MIN,
        }
    }

    /// Reads, sends and takes the answer.
    fn step(&mut self) -> Step {
        let Some(engine) = self.engine.upgrade() else { return Step::End };
        let clock = Arc::clone(engine.clock());
        let prepared = match self.prepare(&engine) {
            Ok(Ready::Message(prepared)) => *prepared,
            Ok(Ready::Nothing(time)) => return Step::Idle(time),
            Ok(Ready::Closed) => return Step::Idle(CLOSED_PAUSE),
            Err(message) => return self.fail(LinkState::Unreadable, &message, &*clock),
        };
        // A destination that does not answer must not keep the engine alive.
        drop(engine);
        let Prepared { outgoing, share, began, began_ticks } = prepared;
        let read_at = clock.monotonic();
        let (items, skipped) = (outgoing.items, outgoing.skipped);
        let bytes = outgoing.bytes.len() as u64;
        let advance = self.send(outgoing.bytes);
        drop(share);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let run = LinkRun {
            number: 0,
            began_ticks,
            read_ms: millis(read_at.saturating_sub(began)),
            network_ms: millis(clock.monotonic().saturating_sub(read_at)),
            items,
            skipped,
            bytes,
            last_etag: self.sender.accepted().unwrap_or(Etag::ZERO),
            error: advance.as_ref().err().and_then(Failure::message).map(str::to_owned),
        };
        self.shared.statistics().note_run(run);
        match advance {
            Ok(advance) => self.advance(advance, &*clock),
            Err(Failure::Canceled) => Step::End,
            Err(Failure::Unavailable(message)) => {
                self.sender.lost();
                self.fail(LinkState::Failing, &message, &*clock)
            }
            Err(Failure::Refused(message)) => self.fail(LinkState::Refused, &message, &*clock),
            Err(Failure::Lost(message)) => {
                self.note_lost(&message);
                self.fail(LinkState::Refused, &message, &*clock)
            }
        }
    }

    /// The files are an older copy. What is written to them from now on could never reach the other members, who have other
    /// changes under the same etags.
    fn note_lost(&mut self, message: &str) {
        self.shared.statistics().has_lost = true;
        let Some(engine) = self.engine.upgrade() else { return };
        let is_member = self.shared.destination.kind() == replication::LinkKind::Internal;
        let database = engine.if_open(self.shared.database_name.as_str());
        let database =
            database.filter(|open| open.record().topology_id == self.shared.database && is_member);
        if let Some(database) = database {
            database.refuse_writes(message);
        }
    }

    fn send(&mut self, bytes: Vec<u8>) -> Result<Advance, Failure> {
        let post = Post {
            path: MESSAGES,
            content_type: "application/octet-stream",
            body: Arc::new(bytes),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let answer = self.destination.post(post, &self.shared.cancel)?;
        Ok(self.sender.take_reply(&answer)?)
    }

    fn advance(&mut self, advance: Advance, clock: &dyn Clock) -> Step {
        self.pause = PAUSE_MIN;
        if matches!(advance, Advance::Accepted(_)) {
            self.batch_bytes = self.batch_bytes.saturating_mul(2).min(BATCH_BYTES_MAX);
        }
        let has_failed = {
            let mut statistics = self.shared.statistics();
            statistics.destination_url = self.destination.url();
            statistics.accepted = self.sender.accepted();
            statistics.complete_until = self.sender.complete_until();
            statistics.destination =
                self.sender.receiver().map(|receiver| (receiver.database_id, receiver.node_tag));
            statistics.note_success(clock.now().ticks())
        };
        if has_failed {
            tracing::info!(
                database = self.shared.database_name.as_str(),
                destination = self.shared.destination.name.as_str(),
                "replication works again"
            );
        }
        if let (Advance::Accepted(_), Some(engine)) = (advance, self.engine.upgrade()) {
            engine.replication.advanced();
        }
        Step::Again
    }

    /// Reads a part of the log.
    fn prepare(&mut self, engine: &Arc<Engine>) -> Result<Ready, String> {
        let database = match self.open(engine).map_err(|error| error.to_string())? {
            Found::Open(database) => database,
            Found::AtEnd => return Ok(Ready::Nothing(IDLE_TIME)),
            Found::Closed => return Ok(Ready::Closed),
        };
        let growth = self.watch(engine, &database);
        let clock = engine.clock();
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let tx = database.read();
        let last = documents::progress(&tx).map_err(|error| error.to_string())?.last_etag;
        let (up_to, look_again) = self.pacing.observe(began, last);
        let work = &engine.memory().work;
        let part = usize::try_from(work.bytes_max() / BATCH_PART).unwrap_or(usize::MAX);
        let limits = BatchLimits {
            items_max: ITEMS_MAX,
            bytes_max: self.batch_bytes.min(part),
            entries_max: ENTRIES_MAX,
            up_to,
        };
        let mut share = work.share(ALLOWED_BYTES);
        self.sender.note_record(database.record().etag);
        let history = database.environment();
        let point = history.point_of(&tx).map_err(|error| error.to_string())?;
        if let Some(known) = self.sender.take_point()
            && history.vouches_for(&known).map_err(|error| error.to_string())?.is_err()
        {
            self.sender.note_lost();
        }
        let asks = self.shared.asks.swap(false, Ordering::SeqCst);
        let failed = |error: ReadError| error.to_string();
        let outgoing = self.sender.next_message(&tx, point, limits, &mut share);
        let mut outgoing = outgoing.map_err(failed)?;
        if outgoing.is_none() && asks {
            // A greeting asks, too.
            self.sender.lost();
            outgoing = self.sender.next_message(&tx, point, limits, &mut share).map_err(failed)?;
        }
        let Some(outgoing) = outgoing else {
            self.end_seen = look_again.is_none().then_some(growth);
            return Ok(Ready::Nothing(look_again.unwrap_or(IDLE_TIME)));
        };
        self.end_seen = None;
        Ok(Ready::Message(Box::new(Prepared { outgoing, share, began, began_ticks })))
    }

    /// The database, if it can be used. It is opened only if its log may have grown.
    fn open(&self, engine: &Arc<Engine>) -> Result<Found, EngineError> {
        let name = self.shared.database_name.as_str();
        // Another database may have its name by now.
        let is_it =
            |database: &DatabaseLease| database.record().topology_id == self.shared.database;
        if let Some(database) = engine.if_open(name).filter(is_it) {
            return Ok(Found::Open(database));
        }
        let opening = engine.registry.openings(name);
        let seen = self.watch.as_ref().filter(|watch| watch.opening == opening);
        if seen.is_some_and(|watch| self.end_seen == Some(watch.watch.growth())) {
            self.shared.done_at_opening.store(opening, Ordering::SeqCst);
            return Ok(Found::AtEnd);
        }
        let opened = engine.open_if_usable(name, self.shared.database)?;
        Ok(opened.map_or(Found::Closed, Found::Open))
    }

    /// Watches the log of an open database; returns how often it has grown.
    fn watch(&mut self, engine: &Engine, database: &DatabaseLease) -> u64 {
        if let Some(watch) = self.watch.as_ref().filter(|watch| watch.watch.is_of(database)) {
            return watch.watch.growth();
        }
        // Read first: if it is opened again meanwhile, it is looked at again.
        let opening = engine.registry.openings(self.shared.database_name.as_str());
        let shared = Arc::clone(&self.shared);
        let watch = database.followers().watch(Box::new(move || shared.wake()));
        self.end_seen = None;
        let growth = watch.growth();
        self.watch = Some(Watch { watch, opening });
        growth
    }

    /// Notes a failure, after which the link pauses.
    fn fail(&mut self, state: LinkState, message: &str, clock: &dyn Clock) -> Step {
        let pause = self.pause;
        let pause_max = match self.shared.destination.kind() {
            replication::LinkKind::External => PAUSE_MAX,
            replication::LinkKind::Internal => MEMBER_PAUSE_MAX,
        };
        self.pause = pause.saturating_mul(2).min(pause_max);
        self.batch_bytes = (self.batch_bytes / 4).max(BATCH_BYTES_MIN);
        let now = clock.now().ticks();
        let retry = now.saturating_add(ticks::of_duration(pause));
        let is_new = {
            let mut statistics = self.shared.statistics();
            if statistics.state == LinkState::Connecting {
                statistics.destination_url = self.destination.url();
            }
            statistics.note_failure(state, message, now, retry)
        };
        if is_new {
            tracing::warn!(
                database = self.shared.database_name.as_str(),
                destination = self.shared.destination.name.as_str(),
                error = message,
                "replication fails, and is tried again"
            );
        }
        let began = clock.monotonic();
        // Changes wake the link, and do not shorten the pause.
        loop {
            let left = pause.saturating_sub(clock.monotonic().saturating_sub(began));
            if left.is_zero() || self.shared.cancel.is_canceled() {
                return Step::Again;
            }
            self.shared.signal.clear();
            if self.shared.cancel.is_canceled() {
                return Step::End;
            }
            self.shared.signal.wait(left);
        }
    }
}
