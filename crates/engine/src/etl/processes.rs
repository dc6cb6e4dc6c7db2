//! Which ETL tasks run: one thread for each that is enabled.
//!
//! Invariant: a task of a database has at most one process, and a process that was stopped stores nothing more.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use model::{DatabaseId, DatabaseName, DatabaseRecord};

use super::{
    outbound::{Cancel, Outbound},
    position,
    process::{self, Process},
    statistics::ProcessStatistics,
    tasks::{EtlTask, tasks_of},
};
use crate::{engine::Engine, error::EngineError};

/// Processes of all databases: each has a thread.
const PROCESSES_MAX: usize = 256;
/// Processes that read and transform at the same time; more would only hold memory.
const READING_MAX: usize = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct EtlProcesses {
    outbound: OnceLock<Arc<dyn Outbound>>,
    /// Held while a task is changed with its positions: no process begins meanwhile.
    changing: Mutex<()>,
    inner: Mutex<Inner>,
    pub(super) turns: Turns,
}

#[derive(Default)]
struct Inner {
    running: Vec<Running>,
    /// The index of the shared state that the processes follow.
    seen_index: u64,
    /// The tasks of each record, by the version of the record.
    known: HashMap<DatabaseId, (u64, Arc<Vec<EtlTask>>)>,
    is_closing: bool,
}

struct Running {
    shared: Arc<ProcessShared>,
    thread: JoinHandle<()>,
}

/// What a process shares with others.
pub(super) struct ProcessShared {
    pub(super) database: DatabaseId,
    pub(super) database_name: DatabaseName,
    pub(super) task: EtlTask,
    pub(super) cancel: Cancel,
    pub(super) signal: Signal,
    /// If it is done with a database that was closed: how often that was opened until then; otherwise 0.
    pub(super) done_at_opening: AtomicU64,
    /// Held while a position is stored.
    storing: Mutex<()>,
    pub(super) statistics: Mutex<ProcessStatistics>,
}

impl ProcessShared {
    pub(super) fn statistics(&self) -> MutexGuard<'_, ProcessStatistics> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores something, unless the process is to end.
    pub(super) fn store<T>(&self, store: impl FnOnce() -> T) -> Option<T> {
        let _storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.cancel.is_canceled()).then(store)
    }

    /// Has it end soon. When this returns, it stores nothing more.
    fn stop(&self) {
        self.cancel.cancel();
        self.signal.wake();
        drop(self.storing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn is_of(&self, database: DatabaseId, task: &str) -> bool {
        self.database == database && self.task.definition.name.eq_ignore_ascii_case(task)
    }
}

/// Wakes a process.
#[derive(Default)]
pub(crate) struct Signal {
    is_woken: Mutex<bool>,
    wakes: Condvar,
}

impl Signal {
    pub(crate) fn wake(&self) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakes.notify_all();
    }

    /// Whether it was woken since that was last forgotten.
    pub(crate) fn is_woken(&self) -> bool {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets that it was woken: what happens from now on wakes it again.
    pub(crate) fn clear(&self) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Waits until it is woken, at most so long. Does not forget it.
    pub(crate) fn wait(&self, time_max: Duration) {
        let woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !*woken {
            drop(self.wakes.wait_timeout_while(woken, time_max, |is_woken| !*is_woken));
        }
    }
}

/// Limits the processes that read at the same time.
#[derive(Default)]
pub(super) struct Turns {
    taken: Mutex<usize>,
    freed: Condvar,
}

pub(super) struct Turn<'t>(&'t Turns);

impl Turns {
    /// Waits for a turn; `None` if the process is to end.
    pub(super) fn take(&self, cancel: &Cancel) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while READING_MAX <= *taken {
            if cancel.is_canceled() {
                return None;
            }
            let waited = self.freed.wait_timeout(taken, Duration::from_millis(200));
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

impl EtlProcesses {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While it is held, no process begins.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outbound(&self) -> Option<Arc<dyn Outbound>> {
        self.outbound.get().cloned()
    }

    /// Stops the process of a task. When this returns, it stores nothing more.
    pub(super) fn stop(&self, database: DatabaseId, task: &str) {
        let mut inner = self.lock();
        for running in inner.running.iter().filter(|running| running.shared.is_of(database, task)) {
            running.shared.stop();
        }
        inner.seen_index = 0;
    }

    /// Has a transformation begin with the first change again. Blocks.
    pub(super) fn reset(
        &self,
        engine: &Arc<Engine>,
        database: DatabaseId,
        task: &str,
        transform: &str,
    ) -> Result<(), EngineError> {
        let changing = self.hold();
        self.stop(database, task);
        let removed = position::remove(&engine.cluster, database, task, transform);
        drop(changing);
        engine.follow_etl();
        Ok(removed?)
    }

    /// Has all processes end, and waits for them.
    pub(crate) fn close(&self) {
        let running = {
            let mut inner = self.lock();
            inner.is_closing = true;
            std::mem::take(&mut inner.running)
        };
        running.iter().for_each(|running| running.shared.stop());
        for running in running {
            drop(running.thread.join());
        }
    }

    /// The process of a task, if it runs.
    pub(super) fn of_task(&self, database: DatabaseId, id: u64) -> Option<Arc<ProcessShared>> {
        let inner = self.lock();
        let is_it = |running: &&Running| {
            running.shared.database == database && running.shared.task.definition.id == id
        };
        inner.running.iter().find(is_it).map(|running| Arc::clone(&running.shared))
    }
}

impl Drop for EtlProcesses {
    fn drop(&mut self) {
        // The threads notice that the engine is gone.
        self.lock().running.iter().for_each(|running| running.shared.stop());
    }
}

/// Whether a task is to run.
fn is_wanted(record: &DatabaseRecord, task: &EtlTask) -> bool {
    !record.disabled && !task.definition.is_disabled && task.connection.is_ok()
}

impl Engine {
    /// Sets who makes the requests of ETL tasks, which do not run before. The first call counts.
    pub fn set_outbound(&self, outbound: Arc<dyn Outbound>) {
        drop(self.etl.outbound.set(outbound));
    }

    /// What the process of an ETL task has done; `None` if it does not run.
    pub fn etl_statistics(&self, record: &DatabaseRecord, id: u64) -> Option<ProcessStatistics> {
        let shared = self.etl.of_task(record.topology_id, id)?;
        let statistics = shared.statistics().clone();
        Some(statistics)
    }

    /// Begins and ends the processes of ETL tasks as the records say. To be called about once a second, and after a
    /// change of a task.
    pub fn follow_etl(self: &Arc<Self>) {
        let Some(outbound) = self.etl.outbound() else { return };
        let index = match self.cluster_state().last_index() {
            Ok(index) => index,
            Err(error) => {
                tracing::error!(%error, "ETL tasks could not be read");
                return;
            }
        };
        let _changing = self.etl.hold();
        let mut inner = self.etl.lock();
        if inner.is_closing {
            return;
        }
        let is_settled = !inner.running.iter().any(|running| running.thread.is_finished());
        if inner.seen_index != index || !is_settled {
            let do_all_run = self.follow_records(&mut inner, &outbound);
            // What could not begin is tried again.
            inner.seen_index = if do_all_run { index } else { 0 };
        }
        let shared: Vec<_> =
            inner.running.iter().map(|running| Arc::clone(&running.shared)).collect();
        drop(inner);
        // A process does not open a database that it is done with, but it follows one that was opened again.
        for process in shared {
            let done = process.done_at_opening.load(Ordering::SeqCst);
            if done != 0 && done != self.registry.openings(process.database_name.as_str()) {
                process.signal.wake();
            }
        }
    }

    /// Returns whether all tasks run that are to.
    fn follow_records(self: &Arc<Self>, inner: &mut Inner, outbound: &Arc<dyn Outbound>) -> bool {
        let records = self.catalog.records();
        let mut known = HashMap::with_capacity(inner.known.len());
        let mut wanted: Vec<(Arc<DatabaseRecord>, EtlTask)> = Vec::new();
        for record in records.into_iter().filter(|record| self.is_responsible_for(record)) {
            let tasks = match inner.known.remove(&record.topology_id) {
                Some((etag, tasks)) if etag == record.etag => tasks,
                _ => Arc::new(tasks_of(&record)),
            };
            let of_record = tasks.iter().filter(|task| is_wanted(&record, task));
            wanted.extend(of_record.map(|task| (Arc::clone(&record), task.clone())));
            known.insert(record.topology_id, (record.etag, tasks));
        }
        inner.known = known;
        for running in &inner.running {
            let shared = &running.shared;
            let is_same = |(record, task): &(Arc<DatabaseRecord>, EtlTask)| {
                record.topology_id == shared.database
                    && task.stored == shared.task.stored
                    && task.connection == shared.task.connection
                    && task.requires_encryption == shared.task.requires_encryption
            };
            if !wanted.iter().any(is_same) {
                shared.stop();
            }
        }
        inner.running.retain(|running| !running.thread.is_finished());
        let mut do_all_run = true;
        for (record, task) in wanted {
            let is_taken = inner
                .running
                .iter()
                .any(|running| running.shared.is_of(record.topology_id, &task.definition.name));
            if is_taken {
                continue;
            }
            if PROCESSES_MAX <= inner.running.len() {
                tracing::error!("there are too many ETL tasks; some do not run");
                return true;
            }
            match self.begin_process(&record, task, outbound) {
                Ok(running) => inner.running.push(running),
                Err(error) => {
                    tracing::error!(%error, "an ETL task could not begin");
                    do_all_run = false;
                }
            }
        }
        do_all_run
    }

    fn begin_process(
        self: &Arc<Self>,
        record: &DatabaseRecord,
        task: EtlTask,
        outbound: &Arc<dyn Outbound>,
    ) -> Result<Running, EngineError> {
        let shared = Arc::new(ProcessShared {
            database: record.topology_id,
            database_name: record.name.clone(),
            task,
            cancel: Cancel::default(),
            signal: Signal::default(),
            done_at_opening: AtomicU64::new(0),
            storing: Mutex::default(),
            statistics: Mutex::default(),
        });
        let (engine, outbound) = (Arc::downgrade(self), Arc::clone(outbound));
        let process = Process::new(engine, Arc::clone(&shared), outbound);
        let thread = std::thread::Builder::new().name("etl".into());
        let thread = thread.spawn(move || process::run(process));
        let thread = thread.map_err(|source| EngineError::NoThread { source })?;
        Ok(Running { shared, thread })
    }

    /// Ends the tasks of a database that is deleted, and forgets how far they have come. Blocks.
    ///
    /// # Errors
    /// The shared state cannot be changed.
    pub(crate) fn remove_etl_positions_of(&self, database: DatabaseId) -> Result<(), EngineError> {
        for running in &self.etl.lock().running {
            if running.shared.database == database {
                running.shared.stop();
            }
        }
        Ok(position::remove_all(&self.cluster, database)?)
    }

    /// Removes positions of databases and transformations that no longer exist.
    pub(crate) fn remove_orphaned_etl_positions(&self) {
        if let Err(error) = position::remove_old(&self.cluster, &self.catalog.records()) {
            tracing::warn!(%error, "positions of ETL tasks that no longer exist remain");
        }
    }
}
