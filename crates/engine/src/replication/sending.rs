//! A link over which this database sends its changes: to another member of its group, to the destination of a task of
//! external replication, or to a hub.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use database::{DatabaseLease, LogWatch};
use model::Etag;
use platform::Clock;
use replication::{Advance, BatchLimits, LinkFilter, LinkKind, Outgoing, ReadError, Sender};
use storage::{MemoryBudget, MemoryShare};

use super::{
    link::{Failure, IDLE_TIME, LinkCore, Step},
    links::LinkShared,
    pacing::Pacing,
    statistics::{LinkRun, LinkState},
};
use crate::{engine::Engine, error::EngineError};

/// Changes of one batch.
const ITEMS_MAX: usize = 16_384;
/// Entries of the log that one batch reads: a snapshot is held meanwhile.
const ENTRIES_MAX: usize = 16 * ITEMS_MAX;
/// Bytes of one batch; with little memory it is less.
pub(super) const BATCH_BYTES_MAX: usize = 8 << 20;
/// After failures it is no less.
const BATCH_BYTES_MIN: usize = 16 << 10;
/// The fraction of the memory for work that one batch may take.
const BATCH_PART: u64 = 16;
/// Memory of a batch that is not drawn from the budget.
pub(super) const ALLOWED_BYTES: u64 = 256 << 10;
/// Answers are short, but for the list of contents that a receiver lacks.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long a link waits for a database that cannot be used now.
pub(super) const CLOSED_PAUSE: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Sending {
    sender: Sender,
    url: String,
    /// Whether this is a sink whose hub has not said what it allows since the last failure.
    is_to_agree: bool,
    pacing: Pacing,
    watch: Option<Watch>,
    /// If the destination had everything when the log was last read: how often the log had grown before that.
    end_seen: Option<u64>,
    /// Less than the maximum after a failure, which may come from the size of a batch.
    batch_bytes: usize,
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

/// Where a batch ends: of at most these bytes, and up to this etag.
pub(super) fn limits_of(work: &MemoryBudget, bytes_max: usize, up_to: Etag) -> BatchLimits {
    let part = usize::try_from(work.bytes_max() / BATCH_PART).unwrap_or(usize::MAX);
    BatchLimits {
        items_max: ITEMS_MAX,
        bytes_max: bytes_max.min(part),
        entries_max: ENTRIES_MAX,
        up_to,
    }
}

fn sender_of(shared: &LinkShared, url: &str) -> Sender {
    let kind = shared.destination.kind();
    let name = shared.database_name.as_str().to_owned();
    Sender::new(kind, shared.database, name, url.to_owned())
}

impl Sending {
    /// `url` is the address of this server, for operators of others.
    pub(super) fn new(shared: &LinkShared, url: String) -> Sending {
        Sending {
            sender: sender_of(shared, &url),
            url,
            is_to_agree: shared.destination.sink.is_some(),
            pacing: Pacing::new(shared.destination.delay),
            watch: None,
            end_seen: None,
            batch_bytes: BATCH_BYTES_MAX,
        }
    }

    /// Reads, sends and takes the answer.
    pub(super) fn step(&mut self, core: &mut LinkCore) -> Step {
        let Some(engine) = core.engine.upgrade() else { return Step::End };
        let clock = Arc::clone(engine.clock());
        let prepared = match self.prepare(core, &engine) {
            Ok(Ready::Message(prepared)) => *prepared,
            Ok(Ready::Nothing(time)) => return Step::Idle(time),
            Ok(Ready::Closed) => return Step::Idle(CLOSED_PAUSE),
            Err(message) => {
                self.lose(core);
                return core.fail(LinkState::Unreadable, &message, &*clock);
            }
        };
        // A destination that does not answer must not keep the engine alive.
        drop(engine);
        if self.is_to_agree {
            return self.agree(core, &*clock);
        }
        let Prepared { outgoing, share, began, began_ticks } = prepared;
        let read_at = clock.monotonic();
        let (items, skipped) = (outgoing.items, outgoing.skipped);
        let bytes = outgoing.bytes.len() as u64;
        let advance = self.send(core, outgoing.bytes);
        drop(share);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        core.note_run(LinkRun {
            number: 0,
            began_ticks,
            read_ms: millis(read_at.saturating_sub(began)),
            network_ms: millis(clock.monotonic().saturating_sub(read_at)),
            items,
            skipped,
            bytes,
            last_etag: self.sender.accepted().unwrap_or(Etag::ZERO),
            error: advance.as_ref().err().and_then(Failure::message).map(str::to_owned),
        });
        match advance {
            Ok(advance) => self.advance(core, &advance, &*clock),
            Err(failure) => self.fail(core, &failure, &*clock),
        }
    }

    /// Asks the hub what it takes. What was prepared meanwhile is read again.
    fn agree(&mut self, core: &mut LinkCore, clock: &dyn Clock) -> Step {
        let terms = match core.agree(&self.url) {
            Ok(terms) => terms,
            Err(failure) => return self.fail(core, &failure, clock),
        };
        let own = core.shared.destination.sink.as_ref().and_then(|sink| sink.paths.clone());
        let filter = LinkFilter::new([own, terms.paths_to_hub], terms.refuses_deletions);
        self.sender = sender_of(&core.shared, &self.url).filtered(filter);
        (self.is_to_agree, self.end_seen) = (false, None);
        Step::Again
    }

    fn send(&mut self, core: &mut LinkCore, bytes: Vec<u8>) -> Result<Advance, Failure> {
        let answer = core.post(bytes, ANSWER_BYTES_MAX)?;
        Ok(self.sender.take_reply(&answer)?)
    }

    fn advance(&mut self, core: &mut LinkCore, advance: &Advance, clock: &dyn Clock) -> Step {
        if matches!(advance, Advance::Accepted(_)) {
            self.batch_bytes = self.batch_bytes.saturating_mul(2).min(BATCH_BYTES_MAX);
        }
        {
            let mut statistics = core.shared.statistics();
            statistics.complete_until = self.sender.complete_until();
            statistics.destination =
                self.sender.receiver().map(|receiver| (receiver.database_id, receiver.node_tag));
        }
        core.succeed(self.sender.accepted(), clock);
        if let (Advance::Accepted(_), Some(engine)) = (advance, core.engine.upgrade()) {
            engine.replication.advanced();
        }
        Step::Again
    }

    fn fail(&mut self, core: &mut LinkCore, failure: &Failure, clock: &dyn Clock) -> Step {
        self.lose(core);
        if let Failure::Lost(message) = failure {
            note_lost(core, message);
        }
        core.fail_with(failure, clock)
    }

    /// The link is to begin from the start.
    fn lose(&mut self, core: &LinkCore) {
        self.sender.lost();
        self.is_to_agree = core.shared.destination.sink.is_some();
        self.batch_bytes = (self.batch_bytes / 4).max(BATCH_BYTES_MIN);
    }

    /// Reads a part of the log.
    fn prepare(&mut self, core: &LinkCore, engine: &Arc<Engine>) -> Result<Ready, String> {
        let database = match self.open(core, engine).map_err(|error| error.to_string())? {
            Found::Open(database) => database,
            Found::AtEnd => return Ok(Ready::Nothing(IDLE_TIME)),
            Found::Closed => return Ok(Ready::Closed),
        };
        let growth = self.watch(core, engine, &database);
        let clock = engine.clock();
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let tx = database.read();
        let last = documents::progress(&tx).map_err(|error| error.to_string())?.last_etag;
        let (up_to, look_again) = self.pacing.observe(began, last);
        let work = &engine.memory().work;
        let mut share = work.share(ALLOWED_BYTES);
        let limits = limits_of(work, self.batch_bytes, up_to);
        self.sender.note_record(database.record().etag);
        let history = database.environment();
        let point = history.point_of(&tx).map_err(|error| error.to_string())?;
        if let Some(known) = self.sender.take_point()
            && history.vouches_for(&known).map_err(|error| error.to_string())?.is_err()
        {
            self.sender.note_lost();
        }
        let asks = core.shared.asks.swap(false, Ordering::SeqCst);
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
    fn open(&self, core: &LinkCore, engine: &Arc<Engine>) -> Result<Found, EngineError> {
        let shared = &core.shared;
        let name = shared.database_name.as_str();
        if let Some(database) = engine.if_open(name).filter(|open| core.is_database(open)) {
            return Ok(Found::Open(database));
        }
        let opening = engine.registry.openings(name);
        let seen = self.watch.as_ref().filter(|watch| watch.opening == opening);
        if seen.is_some_and(|watch| self.end_seen == Some(watch.watch.growth())) {
            shared.done_at_opening.store(opening, Ordering::SeqCst);
            return Ok(Found::AtEnd);
        }
        let opened = engine.open_if_usable(name, shared.database)?;
        Ok(opened.map_or(Found::Closed, Found::Open))
    }

    /// Watches the log of an open database; returns how often it has grown.
    fn watch(&mut self, core: &LinkCore, engine: &Engine, database: &DatabaseLease) -> u64 {
        if let Some(watch) = self.watch.as_ref().filter(|watch| watch.watch.is_of(database)) {
            return watch.watch.growth();
        }
        // Read first: if it is opened again meanwhile, it is looked at again.
        let opening = engine.registry.openings(core.shared.database_name.as_str());
        let shared = Arc::clone(&core.shared);
        let watch = database.followers().watch(Box::new(move || shared.wake()));
        self.end_seen = None;
        let growth = watch.growth();
        self.watch = Some(Watch { watch, opening });
        growth
    }
}

/// The files are an older copy. What is written to them from now on could never reach the other members, who have other
/// changes under the same etags.
fn note_lost(core: &LinkCore, message: &str) {
    core.shared.statistics().has_lost = true;
    let Some(engine) = core.engine.upgrade() else { return };
    let is_member = core.shared.destination.kind() == LinkKind::Internal;
    let database = engine.if_open(core.shared.database_name.as_str());
    let database = database.filter(|open| core.is_database(open) && is_member);
    if let Some(database) = database {
        database.refuse_writes(message);
    }
}
