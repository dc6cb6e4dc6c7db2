//! The run of one ETL task: its transformations in turn, each from its stored position.
//!
//! Nothing of the database is held while a batch is sent. A transformation whose batch is not taken pauses, each time
//! longer, and the others go on. A batch that the destination refuses is tried again in smaller parts, until the
//! change that it refuses is known.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use database::{AccessError, DatabaseLease, LogWatch};
use etl::{BatchLimits, EtlBatch, Plan, ScriptRun, read_batch};
use model::{Etag, ticks};
use platform::Clock;
use script::Budget;
use storage::{HistoryPoint, MemoryShare};
use wire::EtlTransformation;

use super::{
    destination::{Destination, SendError},
    outbound::Outbound,
    position::{self, Position, definition_of},
    processes::ProcessShared,
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
/// How long a script may run for one document.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(2);
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
    /// Wakes it when the log grows.
    watch: Option<LogWatch>,
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
    /// Whether it had sent everything when it last read.
    is_at_end: bool,
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
    /// Holds the memory of the batch.
    share: MemoryShare,
    began: Duration,
    began_ticks: i64,
}

/// What came of a step.
enum Step {
    /// There may be more to do.
    Again,
    /// There is nothing to do until the log grows.
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
        let connection = shared.task.connection.clone().unwrap_or_default();
        let time_max = Duration::from_secs(definition.load_timeout_seconds);
        let destination = Destination::new(outbound, connection, time_max);
        Process { engine, shared, destination, transforms, watch: None }
    }

    /// Reads and sends until there is nothing more to do now; returns how long to wait, or `None` to end.
    fn pass(&mut self) -> Option<Duration> {
        self.shared.signal.clear();
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
                    Step::Closed => {
                        let is_lost = self.shared.is_lost.load(Ordering::SeqCst);
                        return Some(if is_lost { IDLE_TIME } else { CLOSED_PAUSE });
                    }
                    Step::End => return None,
                }
            }
            if !has_more {
                break;
            }
        }
        let engine = self.engine.upgrade()?;
        engine.scripts().engine().shrink_to(0);
        let now = engine.clock().monotonic();
        let retries = self.transforms.iter().filter_map(|transform| transform.retry_at);
        Some(retries.min().map_or(IDLE_TIME, |retry| retry.saturating_sub(now)))
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
            Ok(Ready::Nothing) => return Step::Idle,
            Ok(Ready::Closed) => return Step::Closed,
            Ok(Ready::End) => return Step::End,
            Err(error) => {
                self.fail(at, &error.to_string(), &*clock);
                return Step::Later;
            }
        };
        // A destination that does not answer must not keep the engine alive.
        drop(engine);
        let Prepared { mut batch, boundary, point, share, began, began_ticks } = *prepared;
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
            statistics.destination_url = self.destination.url().map(str::to_owned);
            statistics.transforms[at].1.note_run(run);
        }
        match sent {
            Ok(()) => self.succeed(at, &batch, point, now),
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
        let Some(database) = self.open(engine, at)? else { return Ok(Ready::Closed) };
        if self.watch.as_ref().is_none_or(|watch| !watch.is_of(&database)) {
            let shared = Arc::clone(&self.shared);
            let wake = Box::new(move || shared.signal.wake());
            self.watch = Some(database.followers().watch(wake));
        }
        let transform = &mut self.transforms[at];
        if transform.plan.is_none() {
            let plan = Plan::compile(&engine.scripts().engine(), &transform.definition);
            let refused =
                |error: etl::PlanError| EngineError::Refused { message: error.to_string() };
            transform.plan = Some(plan.map_err(refused)?);
        }
        let tx = database.read();
        if transform.position.is_none() {
            let position = stored_position(engine, &self.shared, &transform.definition, &database)?;
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
        };
        let mut share = work.share(ALLOWED_BYTES);
        let node_tag = engine.node_tag().to_string();
        let run = ScriptRun {
            engine: engine.scripts().engine(),
            budget: Budget {
                time_max: SCRIPT_TIME_MAX,
                result_bytes_max: engine.settings().documents.document_bytes_max,
                ..Budget::default()
            },
            node_tag: &node_tag,
        };
        let may_go_on = || {
            clock.monotonic().saturating_sub(began) < READ_TIME_MAX
                && !self.shared.cancel.is_canceled()
                && !database.is_closing()
        };
        let Some(plan) = &transform.plan else { return Ok(Ready::Nothing) };
        let batch = read_batch(&tx, plan, &run, transform.read_to, limits, &mut share, &may_go_on)?;
        transform.read_to = batch.read_to;
        // Until what was read is sent.
        transform.is_at_end = batch.is_last && batch.changes == 0;
        if batch.changes == 0 {
            return Ok(Ready::Nothing);
        }
        let boundary = format!("{:016x}{:016x}", engine.random_number(), engine.random_number());
        let point = database.environment().point_of(&tx)?;
        let prepared = Prepared { batch, boundary, point, share, began, began_ticks };
        Ok(Ready::Batch(Box::new(prepared)))
    }

    /// The database, if it can be used. It is opened only for a transformation that may not be at its end.
    fn open(
        &mut self,
        engine: &Arc<Engine>,
        at: usize,
    ) -> Result<Option<DatabaseLease>, EngineError> {
        let name = self.shared.database_name.as_str();
        // Another database may have its name by now.
        let is_it =
            |database: &DatabaseLease| database.record().topology_id == self.shared.database;
        if let Some(database) = engine.if_open(name).filter(is_it) {
            self.shared.is_lost.store(false, Ordering::SeqCst);
            return Ok(Some(database));
        }
        self.watch = None;
        let transform = &self.transforms[at];
        if transform.position.is_some() && transform.retry_at.is_none() && transform.is_at_end {
            // Nobody has used it: nothing has changed.
            self.shared.is_lost.store(true, Ordering::SeqCst);
            return Ok(None);
        }
        match engine.open_blocking(name) {
            Ok(database) => Ok(Some(database).filter(is_it)),
            Err(EngineError::NotOpened {
                error:
                    AccessError::Disabled
                    | AccessError::Locked { .. }
                    | AccessError::Missing
                    | AccessError::ShuttingDown,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores how far a transformation has come.
    fn succeed(
        &mut self,
        at: usize,
        batch: &EtlBatch,
        point: Option<HistoryPoint>,
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
        transform.pause = PAUSE_MIN;
        transform.retry_at = None;
        transform.is_at_end = batch.is_last;
        let mut statistics = shared.statistics();
        let statistics = &mut statistics.transforms[at].1;
        if statistics.is_failing {
            tracing::info!(
                database = shared.database_name.as_str(),
                task = names.0,
                transformation = names.1,
                "an ETL task goes on"
            );
        }
        statistics.note_success();
        statistics.last_etag = batch.last_etag;
        statistics.transformed += batch.changes - batch.problems_count;
        statistics.transform_errors += batch.problems_count;
        statistics.loaded += batch.changes - batch.problems_count;
        for problem in &batch.problems {
            statistics.note_document(&problem.id, &problem.message, now);
        }
        Step::Again
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
/// and these files.
fn stored_position(
    engine: &Engine,
    shared: &ProcessShared,
    transform: &EtlTransformation,
    database: &DatabaseLease,
) -> Result<Position, EngineError> {
    let (task, definition) = (&shared.task.definition.name, definition_of(transform));
    let stored = position::read(&engine.cluster, shared.database, task, &transform.name)?;
    if let Some(stored) = stored.filter(|stored| stored.definition == definition)
        && let Some(point) = &stored.point
        && database.environment().vouches_for(point)?.is_ok()
    {
        return Ok(stored);
    }
    Ok(Position { definition, ..Position::default() })
}

/// What was read.
enum Ready {
    Batch(Box<Prepared>),
    Nothing,
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
            is_at_end: false,
            changes_max: CHANGES_MAX,
            pause: PAUSE_MIN,
            retry_at: None,
        }
    }

    /// What was read and not sent is read again.
    fn read_again(&mut self) {
        if let Some(position) = &self.position {
            self.read_to = position.etag;
        }
    }
}
