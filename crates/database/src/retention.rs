//! Expires, refreshes and archives documents that are due. Also runs the periodic tasks: the policies of time
//! series, and the removal of tombstones.
//!
//! A few threads serve all open databases. Each run over a database reads some due ids from a snapshot,
//! releases it and submits ordinary commands. The commands check again, so a document that has changed
//! meanwhile is left alone. A closed database is handled after it is next opened. Invariant: a database is
//! handled by at most one thread at once.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use commands::{Batch, Command, CommandResult};
use documents::{DocumentError, DueAction};
use model::{DocumentId, RetentionConfiguration, RetentionKind, TIME_SERIES_PROPERTY};
use platform::Platform;

use crate::{
    open_database::{Database, DatabaseLease},
    policy_position::PolicyPosition,
    registry::DatabaseRegistry,
    time_series_policies::{self, Applied},
};

/// How often the threads look for databases that are due.
const DUE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Documents of one batch.
const BATCH_DOCUMENTS_MAX: usize = 512;

/// The name under which the time of the last tombstone removal is kept.
const TOMBSTONES_PROPERTY: &str = "Tombstones";

/// The result of handling a database.
#[derive(Clone, Debug)]
pub enum RetentionEvent {
    /// Documents were expired, refreshed or archived.
    Done {
        /// The name of the database.
        database: String,
        /// What was done to them.
        kind: RetentionKind,
        /// The number of documents.
        documents: u64,
    },
    /// The policies of time series were applied to series that had changed or were due.
    PoliciesApplied {
        /// The name of the database.
        database: String,
        /// The number of series.
        series: u64,
        /// The number of rollup entries written.
        entries: u64,
    },
    /// Unneeded tombstones were removed.
    TombstonesRemoved {
        /// The name of the database.
        database: String,
        /// The number of tombstones.
        tombstones: u64,
    },
    /// A run failed; the next one retries.
    Failed {
        /// The name of the database.
        database: String,
        /// The text of the error.
        message: String,
    },
}

type OnEvent = dyn Fn(&RetentionEvent) + Send + Sync;

/// When a database was last handled for each kind, by lower-case name.
type LastRuns = HashMap<(String, &'static str), Duration>;

#[derive(Default)]
struct State {
    /// When the last run was, or when the configuration was first seen.
    last_runs: LastRuns,
    /// The progress of the time series policies, by the database's lower-case name.
    positions: HashMap<String, PolicyPosition>,
    /// The databases that a thread is handling.
    busy: Vec<String>,
    closing: bool,
}

struct Shared {
    registry: DatabaseRegistry,
    platform: Platform,
    on_event: Box<OnEvent>,
    state: Mutex<State>,
    wakes: Condvar,
}

/// The threads. Dropping it ends them.
pub struct Retention {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Retention {
    /// Without threads: it runs on [`Retention::check`] until [`Retention::start`].
    pub fn new(
        registry: DatabaseRegistry,
        platform: Platform,
        on_event: impl Fn(&RetentionEvent) + Send + Sync + 'static,
    ) -> Retention {
        let shared = Shared {
            registry,
            platform,
            on_event: Box::new(on_event),
            state: Mutex::default(),
            wakes: Condvar::new(),
        };
        Retention { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Starts the threads that look for due databases.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(&self, threads: usize) -> io::Result<()> {
        for _ in 0..threads {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("retention".into());
            let thread = builder.spawn(move || shared.run())?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(())
    }

    /// Handles every database that is due, once. Blocks until all is done.
    pub fn check(&self) {
        self.shared.check();
    }

    /// Ends the threads, and waits for them.
    pub fn close(&self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        self.shared.wakes.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has nothing left to stop.
            drop(thread.join());
        }
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            self.check();
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.closing {
                return;
            }
            let waited = self.wakes.wait_timeout(state, DUE_CHECK_INTERVAL);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closing {
                return;
            }
        }
    }

    fn check(&self) {
        let databases = self.registry.open_databases();
        self.forget_closed(&databases);
        for database in databases {
            // One node changes the documents of all.
            let responsible = database.record().topology.responsible();
            let is_responsible = responsible == Some(database.identity().node_tag);
            for kind in RetentionKind::ALL.into_iter().filter(|_| is_responsible) {
                if self.is_closing() {
                    return;
                }
                let Some(configuration) = database.retention(kind) else { continue };
                if !self.begin(&database, kind.property(), configuration.interval_seconds) {
                    continue;
                }
                // The lease is held only while the database is handled, so that closing the others does not
                // wait.
                if let Some(lease) = DatabaseLease::take(&database) {
                    self.deal_with(&lease, kind, configuration);
                }
                self.end(&database, kind.property());
            }
            if is_responsible {
                self.apply_time_series_policies(&database);
            }
            self.remove_tombstones(&database);
        }
    }

    fn remove_tombstones(&self, database: &Arc<Database>) {
        let interval = database.tombstones_interval().as_secs();
        if self.is_closing() || !self.begin(database, TOMBSTONES_PROPERTY, interval) {
            return;
        }
        if let Some(lease) = DatabaseLease::take(database) {
            let name = lease.record().name.as_str().to_owned();
            // Leaves room in the queue for requests.
            let may_go_on = || !self.is_closing() && lease.has_room();
            match lease.remove_tombstones(&may_go_on) {
                Ok(0) => {}
                Ok(tombstones) => {
                    let event = RetentionEvent::TombstonesRemoved { database: name, tombstones };
                    (self.on_event)(&event);
                }
                Err(error) => {
                    let message = error.to_string();
                    (self.on_event)(&RetentionEvent::Failed { database: name, message });
                }
            }
        }
        self.end(database, TOMBSTONES_PROPERTY);
    }

    fn apply_time_series_policies(&self, database: &Arc<Database>) {
        let Some(policies) = database.time_series() else { return };
        if self.is_closing()
            || policies.collections.is_empty()
            || !self.begin(database, TIME_SERIES_PROPERTY, policies.check_seconds)
        {
            return;
        }
        if let Some(lease) = DatabaseLease::take(database) {
            let name = lease.record().name.as_str().to_owned();
            let now = self.platform.clock.now().ticks();
            let mut position = self.take_position(database);
            let applied = time_series_policies::apply(&lease, &policies, &mut position, now);
            self.keep_position(database, position);
            match applied {
                Ok(Applied { series: 0, .. }) => {}
                Ok(Applied { series, entries }) => {
                    let event = RetentionEvent::PoliciesApplied { database: name, series, entries };
                    (self.on_event)(&event);
                }
                Err(message) => {
                    (self.on_event)(&RetentionEvent::Failed { database: name, message });
                }
            }
        }
        self.end(database, TIME_SERIES_PROPERTY);
    }

    fn take_position(&self, database: &Database) -> PolicyPosition {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.positions.remove(&key_of(database)).unwrap_or_default()
    }

    fn keep_position(&self, database: &Database, position: PolicyPosition) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.positions.insert(key_of(database), position);
    }

    fn is_closing(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closing
    }

    fn forget_closed(&self, open: &[Arc<Database>]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |name: &String| open.iter().any(|database| key_of(database) == *name);
        state.last_runs.retain(|(name, _), _| is_open(name));
        state.positions.retain(|name, _| is_open(name));
    }

    /// Whether the database is due and no other thread is handling it; if so, it is now this thread's.
    fn begin(&self, database: &Database, property: &'static str, interval_seconds: u64) -> bool {
        let now = self.platform.clock.monotonic();
        let name = key_of(database);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.busy.contains(&name) {
            return false;
        }
        let last = *state.last_runs.entry((name.clone(), property)).or_insert(now);
        let interval = Duration::from_secs(interval_seconds);
        if now.saturating_sub(last) < interval {
            return false;
        }
        state.busy.push(name);
        true
    }

    fn end(&self, database: &Database, property: &'static str) {
        let now = self.platform.clock.monotonic();
        let name = key_of(database);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy.retain(|busy| *busy != name);
        state.last_runs.insert((name, property), now);
    }

    fn deal_with(
        &self,
        database: &Database,
        kind: RetentionKind,
        configuration: RetentionConfiguration,
    ) {
        let action = match kind {
            RetentionKind::Expiration => DueAction::Expire,
            RetentionKind::Refresh => DueAction::Refresh,
            RetentionKind::Archival => DueAction::Archive,
        };
        let name = database.record().name.as_str().to_owned();
        match self.do_due(database, action, configuration.items_max.unwrap_or(u64::MAX)) {
            Ok(0) => {}
            Ok(documents) => {
                (self.on_event)(&RetentionEvent::Done { database: name, kind, documents });
            }
            Err(message) => (self.on_event)(&RetentionEvent::Failed { database: name, message }),
        }
    }

    fn do_due(
        &self,
        database: &Database,
        action: DueAction,
        items_max: u64,
    ) -> Result<u64, String> {
        let until = self.platform.clock.now().ticks();
        let (mut done, mut checked) = (0, 0);
        // Leaves room in the queue for requests.
        while checked < items_max && !self.is_closing() && !database.is_closing() {
            let wanted = (items_max - checked).min(BATCH_DOCUMENTS_MAX as u64);
            let ids = due_ids(database, action, until, wanted as usize);
            let ids = ids.map_err(|error| error.to_string())?;
            if ids.is_empty() {
                break;
            }
            checked += ids.len() as u64;
            let commands = ids.into_iter().map(|id| Command::DoWhenDue { id, action }).collect();
            let outcome = database
                .queue()
                .submit_and_wait(Batch { commands })
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())?;
            let of_batch = outcome.results.iter();
            let of_batch = of_batch
                .filter(|result| matches!(result, CommandResult::DoneWhenDue(true)))
                .count();
            done += of_batch as u64;
            if of_batch == 0 {
                // The due documents have been changed by others; the next run sees what is left.
                break;
            }
        }
        Ok(done)
    }
}

fn key_of(database: &Database) -> String {
    database.record().name.lower_cased().to_owned()
}

fn due_ids(
    database: &Database,
    action: DueAction,
    until_ticks: i64,
    max: usize,
) -> Result<Vec<DocumentId>, DocumentError> {
    let tx = database.read();
    documents::due(&tx, action, until_ticks)?.take(max).collect()
}
