//! The run of one ETL task: its transformations in turn, each from its stored position.
//!
//! Nothing of the database is held while a batch is sent. A transformation whose batch is not taken pauses, each time
//! longer, and the others go on. A batch that the destination refuses is tried again in smaller parts, until the
//! change that it refuses is known.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use database::{DatabaseLease, LogWatch};
use etl::{BatchLimits, EtlBatch, Pace, Plan, read_batch};
use model::{Etag, ticks};
use platform::Clock;
use storage::{HistoryPoint, MemoryShare};
use wire::EtlTransformation;

use super::{
    destination::{Destination, DestinationOptions, SendError},
    outbound::Outbound,
    position::{self, Position, definition_of},
    processes::ProcessShared,
    script_run::{document_bytes_max, script_run},
    statistics::{EtlRun, EtlStatistics},
};
use crate::{engine::Engine, error::EngineError};

/// Changes of one batch.
const CHANGES_MAX: usize = 8192;
/// Bytes of one batch; with little memory it is less.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The fraction of the memory for work that one batch may take.
const BATCH_PART: u64 = 16;
/// Memory of a batch that is not drawn from the budget.
const ALLOWED_BYTES: u64 = 256 << 10;
/// How long a batch is read: a snapshot is held meanwhile.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// The first pause after a failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// How long a process waits for a database that cannot be used now.
const CLOSED_PAUSE: Duration = Duration::from_secs(2);
/// How long an idle process sleeps: it is woken by changes.
const IDLE_TIME: Duration = Duration::from_secs(60 * 60);

/// A process, on its thread.
pub(super) struct Process {
    engine: Weak<Engine>,
    shared: Arc<ProcessShared>,
    destination: Destination,
    transforms: Vec<Transform>,
    watch: Option<Watch>,
}

/// Wakes the process when the log grows, and knows whether it has.
struct Watch {
    watch: LogWatch,
    /// How often the database was opened until then.
    opening: u64,
}

/// A transformation, and where it is.
struct Transform {
    definition: EtlTransformation,
    /// Compiled when it is first needed.
    plan: Option<Plan>,
    /// `None` until it was read.
    position: Option<Position>,
    /// The log has nothing for it up to here.
    read_to: Etag,
    /// Whether it has read the log to its end, and not been woken since.
    is_idle: bool,
    /// If it had sent everything when it last read: how often the log had grown before that.
    end_seen: Option<u64>,
    changes_max: usize,
    pause: Duration,
    /// Not before this moment of the monotonic clock.
    retry_at: Option<Duration>,
}

/// A batch that is ready to be sent.
struct Prepared {
    batch: EtlBatch,
    boundary: String,
    /// The moment at which it was read.
    point: Option<HistoryPoint>,
    /// How often the log had grown before that.
    growth: u64,
    /// Holds the memory of the batch.
    share: MemoryShare,
    began: Duration,
    began_ticks: i64,
}

/// The outcome of a step.
enum Step {
    /// There may be more to do.
    Again,
    /// There is nothing to do until the log grows, or until a database that is closed is opened.
    Idle,
    /// It is tried again later.
    Later,
    /// The database cannot be used now.
    Closed,
    /// The process is to end.
    End,
}

/// Runs a process until it is stopped.
pub(super) fn run(mut process: Process) {
    while !process.shared.cancel.is_canceled() {
        let Some(time) = process.pass() else { return };
        process.shared.signal.wait(time);
    }
}

impl Process {
    pub(super) fn new(
        engine: Weak<Engine>,
        shared: Arc<ProcessShared>,
        outbound: Arc<dyn Outbound>,
    ) -> Process {
        let definition = &shared.task.definition;
        let enabled = definition.transforms.iter().filter(|transform| !transform.is_disabled);
        let transforms: Vec<Transform> = enabled.map(Transform::new).collect();
        let named = transforms
            .iter()
            .map(|transform| (transform.definition.name.clone(), EtlStatistics::default()));
        shared.statistics().transforms = named.collect();
        let options = DestinationOptions {
            connection: shared.task.connection.clone().unwrap_or_default(),
            requires_encryption: shared.task.requires_encryption,
            time_max: Duration::from_secs(definition.load_timeout_seconds),
            identity: None,
        };
        let destination = Destination::new(outbound, options);
        Process { engine, shared, destination, transforms, watch: None }
    }

    /// Reads and sends until there is nothing more to do now; returns how long to wait, or `None` to end.
    fn pass(&mut self) -> Option<Duration> {
        self.shared.signal.clear();
        self.shared.done_at_opening.store(0, Ordering::SeqCst);
        self.transforms.iter_mut().for_each(|transform| transform.is_idle = false);
        loop {
            let mut has_more = false;
            for at in 0..self.transforms.len() {
                if self.shared.cancel.is_canceled() {
                    return None;
                }
                if self.is_waiting(at)? {
                    continue;
                }
                match self.step(at) {
                    Step::Again => has_more = true,
                    Step::Idle => self.transforms[at].is_idle = true,
                    Step::Later => {}
                    Step::Closed => return Some(CLOSED_PAUSE),
                    Step::End => return None,
                }
            }
            if !has_more {
                break;
            }
        }
        let engine = self.engine.upgrade()?;
        engine.scripts().engine().shrink_to(0);
        Some(time_to_retry(&self.transforms, engine.clock().monotonic()))
    }

    /// Whether a transformation has nothing to do now; `None` if the process is to end.
    fn is_waiting(&self, at: usize) -> Option<bool> {
        let transform = &self.transforms[at];
        if transform.is_idle {
            return Some(true);
        }
        let Some(retry_at) = transform.retry_at else { return Some(false) };
        Some(self.engine.upgrade()?.clock().monotonic() < retry_at)
    }

    /// Reads a batch, sends it, and stores how far it came.
    fn step(&mut self, at: usize) -> Step {
        let Some(engine) = self.engine.upgrade() else { return Step::End };
        let clock = Arc::clone(engine.clock());
        let prepared = match self.prepare(&engine, at) {
            Ok(Ready::Batch(prepared)) => prepared,
            Ok(Ready::Nothing) => {
                self.note_success(at);
                return Step::Idle;
            }
            Ok(Ready::AtEnd) => return Step::Idle,
            Ok(Ready::Closed) => return Step::Closed,
            Ok(Ready::End) => return Step::End,
            Err(error) => {
                self.fail(at, &error.to_string(), &*clock);
                return Step::Later;
            }
        };
        // A destination that does not answer must not keep the engine alive.
        drop(engine);
        let Prepared { mut batch, boundary, point, growth, share, began, began_ticks } = *prepared;
        let read_at = clock.monotonic();
        let commands = std::mem::take(&mut batch.commands);
        let (count, is_empty) = (commands.len(), commands.is_empty());
        let body = commands.into_request(&boundary);
        let bytes = body.bytes.len() as u64;
        let sent = match is_empty {
            true => Ok(()),
            false => self.destination.send(body, &self.shared.cancel),
        };
        drop(share);
        let now = clock.now().ticks();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let run = EtlRun {
            number: 0,
            began_ticks,
            transform_ms: millis(read_at.saturating_sub(began)),
            load_ms: millis(clock.monotonic().saturating_sub(read_at)),
            changes: batch.changes,
            problems: batch.problems_count,
            commands: count,
            bytes: if is_empty { 0 } else { bytes },
            last_etag: batch.last_etag,
            has_succeeded: sent.is_ok(),
        };
        {
            let mut statistics = self.shared.statistics();
            statistics.destination_url = self.destination.url();
            statistics.transforms[at].1.note_run(run);
        }
        match sent {
            Ok(()) => self.succeed(at, &batch, (point, growth), now),
            Err(SendError::Canceled) => Step::End,
            Err(SendError::Refused { .. }) if 1 < batch.changes => {
                let transform = &mut self.transforms[at];
                transform.changes_max = usize::try_from(batch.changes / 2).unwrap_or(1);
                transform.read_again();
                Step::Again
            }
            Err(error) => {
                let message = match (&error, batch.changes) {
                    (SendError::Refused { .. }, 1) => {
                        format!("{error}. It is the change with the etag {}", batch.last_etag.0)
                    }
                    _ => error.to_string(),
                };
                self.fail(at, &message, &*clock);
                Step::Later
            }
        }
    }

    /// Reads a batch.
    fn prepare(&mut self, engine: &Arc<Engine>, at: usize) -> Result<Ready, EngineError> {
        let database = match self.open(engine, at)? {
            Found::Open(database) => database,
            Found::AtEnd => return Ok(Ready::AtEnd),
            Found::Closed => return Ok(Ready::Closed),
        };
        let growth = self.watch(engine, &database);
        let transform = &mut self.transforms[at];
        if transform.plan.is_none() {
            let plan = Plan::compile(&engine.scripts().engine(), &transform.definition);
            let refused =
                |error: etl::PlanError| EngineError::Refused { message: error.to_string() };
            transform.plan = Some(plan.map_err(refused)?);
        }
        let tx = database.read();
        if transform.position.is_none() {
            let position = first_position(engine, &self.shared, &transform.definition, &database)?;
            let Some(position) = position else { return Ok(Ready::End) };
            self.shared.statistics().transforms[at].1.last_etag = position.etag;
            transform.read_to = position.etag;
            transform.position = Some(position);
        }
        let Some(_turn) = engine.etl.turns.take(&self.shared.cancel) else { return Ok(Ready::End) };
        let clock = engine.clock();
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let work = &engine.memory().work;
        let part = usize::try_from(work.bytes_max() / BATCH_PART).unwrap_or(usize::MAX);
        let limits = BatchLimits {
            changes_max: transform.changes_max,
            bytes_max: BATCH_BYTES_MAX.min(part),
            document_bytes_max: document_bytes_max(work),
        };
        let mut share = work.share(ALLOWED_BYTES);
        let node_tag = engine.node_tag().to_string();
        let run = script_run(engine, &node_tag);
        let pace = || match () {
            () if self.shared.cancel.is_canceled() || database.is_closing() => Pace::Stop,
            () if READ_TIME_MAX <= clock.monotonic().saturating_sub(began) => Pace::Enough,
            () => Pace::GoOn,
        };
        let Some(plan) = &transform.plan else { return Ok(Ready::Nothing) };
        let batch = read_batch(&tx, plan, &run, transform.read_to, limits, &mut share, &pace)?;
        transform.read_to = batch.read_to;
        // Until what was read is sent.
        transform.end_seen = (batch.is_last && batch.changes == 0).then_some(growth);
        match (batch.changes, batch.is_last) {
            (0, true) => return Ok(Ready::Nothing),
            (0, false) => return Ok(Ready::Closed),
            _ => {}
        }
        let boundary = format!("{:016x}{:016x}", engine.random_number(), engine.random_number());
        let point = database.environment().point_of(&tx)?;
        let prepared = Prepared { batch, boundary, point, growth, share, began, began_ticks };
        Ok(Ready::Batch(Box::new(prepared)))
    }

    /// The database, if it can be used. It is opened only for a transformation that may not be at its end.
    fn open(&self, engine: &Arc<Engine>, at: usize) -> Result<Found, EngineError> {
        let name = self.shared.database_name.as_str();
        // Another database may have its name by now.
        let is_it =
            |database: &DatabaseLease| database.record().topology_id == self.shared.database;
        if let Some(database) = engine.if_open(name).filter(is_it) {
            return Ok(Found::Open(database));
        }
        let opening = engine.registry.openings(name);
        let seen = self.watch.as_ref().filter(|watch| watch.opening == opening);
        if seen.is_some_and(|watch| self.transforms[at].is_at_end(watch.watch.growth())) {
            self.shared.done_at_opening.store(opening, Ordering::SeqCst);
            return Ok(Found::AtEnd);
        }
        let opened = engine.open_if_usable(name, self.shared.database)?;
        Ok(opened.map_or(Found::Closed, Found::Open))
    }

    /// Watches the log of an open database; returns how often it has grown. What was seen of it before it was opened
    /// counts no more.
    fn watch(&mut self, engine: &Engine, database: &DatabaseLease) -> u64 {
        if let Some(watch) = self.watch.as_ref().filter(|watch| watch.watch.is_of(database)) {
            return watch.watch.growth();
        }
        // Read first: if it is opened again meanwhile, it is looked at again.
        let opening = engine.registry.openings(self.shared.database_name.as_str());
        let shared = Arc::clone(&self.shared);
        let watch = database.followers().watch(Box::new(move || shared.signal.wake()));
        for transform in &mut self.transforms {
            (transform.end_seen, transform.is_idle) = (None, false);
        }
        let growth = watch.growth();
        self.watch = Some(Watch { watch, opening });
        // Those before this one in turn look at it, too.
        self.shared.signal.wake();
        growth
    }

    /// Stores how far a transformation has come.
    fn succeed(
        &mut self,
        at: usize,
        batch: &EtlBatch,
        (point, growth): (Option<HistoryPoint>, u64),
        now: i64,
    ) -> Step {
        let Some(engine) = self.engine.upgrade() else { return Step::End };
        let transform = &mut self.transforms[at];
        let Some(position) = &mut transform.position else { return Step::Again };
        position.point = point;
        position.etag = batch.last_etag;
        position.change_vector.clone_from(&batch.change_vector);
        let shared = &self.shared;
        let names = (shared.task.definition.name.as_str(), transform.definition.name.as_str());
        let stored =
            shared.store(|| position::write(&engine.cluster, shared.database, names, position));
        let clock = Arc::clone(engine.clock());
        match stored {
            None => return Step::End,
            Some(Err(error)) => {
                // It is sent again.
                transform.position = None;
                self.fail(at, &error.to_string(), &*clock);
                return Step::Later;
            }
            Some(Ok(())) => {}
        }
        transform.changes_max = transform.changes_max.saturating_mul(2).min(CHANGES_MAX);
        transform.end_seen = batch.is_last.then_some(growth);
        self.note_success(at);
        let mut statistics = self.shared.statistics();
        let statistics = &mut statistics.transforms[at].1;
        statistics.last_etag = batch.last_etag;
        statistics.transformed += batch.changes - batch.problems_count;
        statistics.transform_errors += batch.problems_count;
        statistics.loaded += batch.changes - batch.problems_count;
        for problem in &batch.problems {
            statistics.note_document(&problem.id, &problem.message, now);
        }
        Step::Again
    }

    /// Notes that there is nothing to try again.
    fn note_success(&mut self, at: usize) {
        let transform = &mut self.transforms[at];
        (transform.pause, transform.retry_at) = (PAUSE_MIN, None);
        let mut statistics = self.shared.statistics();
        let statistics = &mut statistics.transforms[at].1;
        if statistics.is_failing {
            tracing::info!(
                database = self.shared.database_name.as_str(),
                task = self.shared.task.definition.name.as_str(),
                transformation = transform.definition.name.as_str(),
                "an ETL task works again"
            );
        }
        statistics.note_success();
    }

    /// Notes a failure, after which a transformation pauses.
    fn fail(&mut self, at: usize, message: &str, clock: &dyn Clock) {
        let transform = &mut self.transforms[at];
        let pause = transform.pause;
        transform.pause = pause.saturating_mul(2).min(PAUSE_MAX);
        transform.retry_at = Some(clock.monotonic().saturating_add(pause));
        transform.read_again();
        let now = clock.now().ticks();
        let retry = now.saturating_add(ticks::of_duration(pause));
        let mut statistics = self.shared.statistics();
        let statistics = &mut statistics.transforms[at].1;
        if !statistics.is_failing {
            tracing::warn!(
                database = self.shared.database_name.as_str(),
                task = self.shared.task.definition.name.as_str(),
                transformation = transform.definition.name.as_str(),
                error = message,
                "an ETL task fails, and is tried again"
            );
        }
        statistics.note_failure(message, now, retry);
    }
}

/// Where a transformation continues: at its stored position, or with the first change if that is not of this definition
/// and these files. That it begins is stored before anything is read: the older position must not let deletions be
/// forgotten. `None` if the process is to end.
fn first_position(
    engine: &Engine,
    shared: &ProcessShared,
    transform: &EtlTransformation,
    database: &DatabaseLease,
) -> Result<Option<Position>, EngineError> {
    let (environment, task) = (database.environment(), shared.task.definition.name.as_str());
    let known = (task, transform);
    if let Some(stored) = position::valid(&engine.cluster, environment, shared.database, known)? {
        return Ok(Some(stored));
    }
    let point = environment.point_of(&database.read())?;
    let position = Position { point, definition: definition_of(transform), ..Position::default() };
    let names = (task, transform.name.as_str());
    let stored =
        shared.store(|| position::write(&engine.cluster, shared.database, names, &position));
    Ok(stored.transpose()?.map(|()| position))
}

/// How long a process may sleep.
fn time_to_retry(transforms: &[Transform], now: Duration) -> Duration {
    let waiting = transforms.iter().filter(|transform| !transform.is_idle);
    let retries = waiting.filter_map(|transform| transform.retry_at);
    retries.min().map_or(IDLE_TIME, |retry| retry.saturating_sub(now))
}

/// The database of a process.
enum Found {
    Open(DatabaseLease),
    /// It is closed, and has nothing that was not sent.
    AtEnd,
    /// It cannot be used now.
    Closed,
}

/// What was read.
enum Ready {
    Batch(Box<Prepared>),
    Nothing,
    /// The database is closed, and everything was sent.
    AtEnd,
    Closed,
    End,
}

impl Transform {
    fn new(definition: &EtlTransformation) -> Transform {
        Transform {
            definition: definition.clone(),
            plan: None,
            position: None,
            read_to: Etag::ZERO,
            is_idle: false,
            end_seen: None,
            changes_max: CHANGES_MAX,
            pause: PAUSE_MIN,
            retry_at: None,
        }
    }

    /// Whether it has sent everything, if the log has grown so often.
    fn is_at_end(&self, growth: u64) -> bool {
        self.position.is_some() && self.retry_at.is_none() && self.end_seen == Some(growth)
    }

    /// What was read and not sent is read again.
    fn read_again(&mut self) {
        if let Some(position) = &self.position {
            self.read_to = position.etag;
        }
    }
}
