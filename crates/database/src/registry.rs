//! Which databases are open, and the transitions into and out of that state.
//!
//! The first request for a database opens it on a thread of its own; the number of concurrent openings is
//! limited. No lock is held meanwhile, so other databases are not delayed. One for which there is not enough memory
//! waits for it aside, first come first served, while databases that are not in use are closed. Closing (disabling, deleting,
//! idleness, failure) keeps the name taken until it is done. Invariants: a database has at most one open
//! environment at any time; a database in use by requests follows the newest record whose change was
//! acknowledged.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster_state::RecordDraft;
use model::DatabaseRecord;
use storage::{History, Recovery, StorageError};

use crate::{
    catalog::{Decision, NewDatabase, Replacement, ServerCatalog, WrittenRecord},
    error::{AccessError, CatalogError, LoadError},
    files,
    flusher::Flusher,
    open_database::{Database, DatabaseLease, DatabaseOptions},
    open_memory::{self, DatabaseMemory, OpeningMemory},
    transition::{Ticket, Transition},
};

/// While databases wait for memory, the interval at which those are closed that were not used since the last time.
const MEMORY_ROUND: Duration = Duration::from_secs(1);
/// How many of these intervals a database waits for memory before it cannot be opened.
const MEMORY_ROUNDS_MAX: u64 = 10;

type OptionsOf = dyn Fn(&DatabaseRecord) -> Result<DatabaseOptions, String> + Send + Sync;

/// The limits of the registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The memory for databases.
    pub memory: DatabaseMemory,
    /// Databases opened at the same time.
    pub concurrent_loads_max: usize,
    /// How long closing a database waits for its users.
    pub close_timeout: Duration,
    /// Notified of events of databases.
    pub on_event: fn(&RegistryEvent<'_>),
}

/// An event of a database.
#[derive(Debug)]
pub enum RegistryEvent<'e> {
    /// It was opened, and recovered if that was necessary.
    Opened {
        /// The name of the database.
        database: &'e str,
        /// How long opening took.
        took: Duration,
        /// The number of its documents.
        documents: u64,
        /// What recovery found in the journal.
        recovery: Recovery,
    },
    /// It could not be opened.
    Failed {
        /// Its name, in lower case.
        database: &'e str,
        /// The error that opening it returned.
        error: &'e LoadError,
    },
    /// Its storage failed while it was open. It is being closed, and the next request recovers it.
    Broken {
        /// The name of the database.
        database: &'e str,
        /// The error, if it is known.
        error: Option<&'e StorageError>,
    },
    /// It was closed.
    Closed {
        /// The name of the database.
        database: &'e str,
    },
}

/// The answer to a request for a database.
pub enum Access {
    /// It is open, and stays open while the lease exists.
    Ready(DatabaseLease),
    /// It is being opened or closed: wait, then call again.
    Wait(Ticket),
}

#[derive(Clone)]
enum Slot {
    Moving(Arc<Transition>),
    Open(Arc<Database>),
}

#[derive(Default)]
struct Loads {
    pending: VecDeque<Load>,
    running: usize,
    /// Those for which there was not enough memory.
    short_of_memory: VecDeque<Load>,
    /// Whether a thread waits for memory for them.
    has_waiter: bool,
    /// How many intervals it has waited so far.
    rounds: u64,
}

/// A database that is to be opened.
struct Load {
    /// Its name, in lower case.
    key: String,
    transition: Arc<Transition>,
    /// What was reserved for it, if it had to wait for that.
    memory: Option<OpeningMemory>,
    /// The number of rounds after which it does not wait for memory any more.
    rounds_end: u64,
}

/// What came of opening a database.
enum Loaded {
    Open(Arc<Database>),
    /// It has been deleted or disabled since it was requested.
    Gone,
    /// There is not enough memory now.
    ShortOfMemory,
}

struct Shared {
    catalog: Arc<ServerCatalog>,
    options: RegistryOptions,
    options_of: Box<OptionsOf>,
    flusher: Arc<Flusher>,
    /// By lower-case name.
    slots: RwLock<HashMap<String, Slot>>,
    /// How often each database was opened, by lower-case name.
    openings: Mutex<HashMap<String, u64>>,
    loads: Mutex<Loads>,
    idle_checks: AtomicU64,
    closing: AtomicBool,
}

/// The open databases of the server.
#[derive(Clone)]
pub struct DatabaseRegistry {
    shared: Arc<Shared>,
}

impl DatabaseRegistry {
    /// A registry with no open databases. `options_of` returns how to open a database, depending on its
    /// record.
    pub fn new(
        catalog: Arc<ServerCatalog>,
        flusher: Arc<Flusher>,
        options: RegistryOptions,
        options_of: impl Fn(&DatabaseRecord) -> Result<DatabaseOptions, String> + Send + Sync + 'static,
    ) -> DatabaseRegistry {
        let shared = Shared {
            catalog,
            options,
            options_of: Box::new(options_of),
            flusher,
            slots: RwLock::new(HashMap::new()),
            openings: Mutex::default(),
            loads: Mutex::new(Loads::default()),
            idle_checks: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        };
        DatabaseRegistry { shared: Arc::new(shared) }
    }

    /// Requests a database by name, in any case. Never blocks; starts to open the database if needed.
    pub fn access(&self, name: &str) -> Result<Access, AccessError> {
        let key = model::lower_case(name);
        if let Some(access) = self.shared.existing(&key) {
            return access;
        }
        self.shared.begin_load(&key)
    }

    /// The database, if it is open already; does not count as a use.
    pub fn if_open(&self, name: &str) -> Option<DatabaseLease> {
        match self.shared.slot(&model::lower_case(name))? {
            Slot::Open(database) => DatabaseLease::take(&database),
            Slot::Moving(_) => None,
        }
    }

    /// How often a database of that name was opened so far: a reader that has seen all of it needs to look again only if
    /// this has changed.
    pub fn openings(&self, name: &str) -> u64 {
        self.shared.openings().get(&*model::lower_case(name)).copied().unwrap_or(0)
    }

    /// Closes the database if it is open, and runs `action` while it cannot be opened. Blocks.
    pub fn with_closed<T>(&self, name: &str, action: impl FnOnce() -> T) -> T {
        self.with_claimed(name, Transition::default(), action)
    }

    /// As [`with_closed`](DatabaseRegistry::with_closed), for a long action: requests do not wait for it but
    /// are refused with `reason`.
    pub fn with_locked<T>(
        &self,
        name: &str,
        reason: &'static str,
        action: impl FnOnce() -> T,
    ) -> T {
        self.with_claimed(name, Transition::refusing(reason), action)
    }

    fn with_claimed<T>(&self, name: &str, transition: Transition, action: impl FnOnce() -> T) -> T {
        let key = model::lower_case(name).into_owned();
        let transition = Arc::new(transition);
        let database = self.shared.claim(&key, &transition);
        transition.start();
        if let Some(database) = database {
            self.shared.close(&database);
        }
        let result = action();
        self.shared.release(&key);
        transition.finish(Ok(()));
        result
    }

    /// Creates a database, as [`ServerCatalog::create`], and enforces its record. Blocks.
    ///
    /// # Errors
    /// Catalog errors.
    pub fn create(&self, new: NewDatabase) -> Result<WrittenRecord, CatalogError> {
        self.create_checked(new, || Ok(false))
    }

    /// As [`Self::create`], by [`ServerCatalog::create_checked`].
    ///
    /// # Errors
    /// Catalog errors, and those of `adopts_files`.
    pub fn create_checked<E: From<CatalogError>>(
        &self,
        new: NewDatabase,
        adopts_files: impl FnOnce() -> Result<bool, E>,
    ) -> Result<WrittenRecord, E> {
        let name = new.name.as_str().to_owned();
        self.enforced(&name, self.shared.catalog.create_checked(new, adopts_files))
    }

    /// Replaces the record of a database, as [`ServerCatalog::replace`]. The record is in force when this returns,
    /// as with [`Self::change_record`]. Blocks.
    ///
    /// # Errors
    /// Catalog errors.
    pub fn replace_record(
        &self,
        replacement: Replacement,
        changes_client: impl FnOnce(&DatabaseRecord) -> bool,
    ) -> Result<WrittenRecord, CatalogError> {
        let name = replacement.name.as_str().to_owned();
        self.enforced(&name, self.shared.catalog.replace(replacement, changes_client))
    }

    /// Changes the record of a database, as [`ServerCatalog::update`]. When this returns, an open database
    /// follows the changed record or a newer one, and a disabled one is closed, even if the record already was as
    /// wanted: an earlier request may have been interrupted between the two. `None` if there is no such
    /// database. Blocks.
    ///
    /// # Errors
    /// Catalog errors.
    pub fn change_record(
        &self,
        name: &str,
        change: impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Decision,
    ) -> Result<Option<WrittenRecord>, CatalogError> {
        self.enforced(name, self.shared.catalog.update(name, change))
    }

    /// Enforces the current record, and returns the result of the change. After an error it may be unknown
    /// whether the record was changed.
    fn enforced<T, E>(&self, name: &str, changed: Result<T, E>) -> Result<T, E> {
        if let Some(record) = self.shared.catalog.record(name) {
            self.enforce(&record);
        }
        changed
    }

    /// Enforces the record of a database that another node may have changed. Blocks.
    pub fn follow(&self, name: &str) {
        if let Some(record) = self.shared.catalog.record(name) {
            self.enforce(&record);
        }
    }

    /// A database that is being opened reads its record again before any request can use it.
    fn enforce(&self, record: &Arc<DatabaseRecord>) {
        if let Some(Slot::Open(database)) = self.shared.slot(record.name.lower_cased()) {
            let is_here = record.topology.has(self.shared.catalog.node_tag());
            match record.disabled || !is_here {
                true => self.with_closed(record.name.as_str(), || ()),
                false => database.follow_record(Arc::clone(record)),
            }
        }
    }

    /// Closes a database whose storage failed, on a thread of its own; the next request opens it again,
    /// through recovery.
    pub fn reopen_after_failure(&self, database: &DatabaseLease) {
        if !database.mark_failed() {
            return;
        }
        let (registry, record) = (self.clone(), database.record());
        let failure = database.environment().failure();
        (self.shared.options.on_event)(&RegistryEvent::Broken {
            database: record.name.as_str(),
            error: failure.as_deref(),
        });
        let spawned = std::thread::Builder::new()
            .name("close-failed".into())
            .spawn(move || registry.with_closed(record.name.as_str(), || ()));
        // Without a thread, the database stays open and refuses writes, which is safe.
        drop(spawned);
    }

    /// Counts one idle check, and closes databases that have not been requested during the last `checks_max`
    /// of them. Blocks while closing.
    pub fn close_idle(&self, checks_max: u64) {
        let now = self.shared.idle_checks.fetch_add(1, Ordering::Relaxed) + 1;
        for (key, database) in self.shared.open_databases() {
            if now.saturating_sub(database.last_use()) > checks_max {
                self.shared.close_unused(&key, database);
            }
        }
    }

    /// The databases that are open and not being closed; does not count as a use.
    pub fn open_leases(&self) -> Vec<DatabaseLease> {
        self.open_databases().iter().filter_map(DatabaseLease::take).collect()
    }

    /// The databases that are open.
    pub(crate) fn open_databases(&self) -> Vec<Arc<Database>> {
        self.shared.open_databases().into_iter().map(|(_, database)| database).collect()
    }

    /// Opens no more databases and closes all, concurrently. Blocks.
    pub fn close_all(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let keys: Vec<String> = {
            let slots = self.shared.slots.read().unwrap_or_else(PoisonError::into_inner);
            slots.keys().cloned().collect()
        };
        std::thread::scope(|scope| {
            for keys in keys.chunks(keys.len().div_ceil(CLOSING_THREADS_MAX).max(1)) {
                scope.spawn(move || keys.iter().for_each(|key| self.with_closed(key, || ())));
            }
        });
    }
}

/// Threads that close databases when the server shuts down.
const CLOSING_THREADS_MAX: usize = 32;

fn wait_for(transition: &Arc<Transition>) -> Result<Access, AccessError> {
    match transition.refusal() {
        Some(reason) => Err(AccessError::Locked { reason }),
        None => Ok(Access::Wait(Ticket(Arc::clone(transition)))),
    }
}

impl Shared {
    fn slot(&self, key: &str) -> Option<Slot> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn existing(&self, key: &str) -> Option<Result<Access, AccessError>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        match slots.get(key)? {
            Slot::Moving(transition) => Some(wait_for(transition)),
            Slot::Open(database) => {
                database.touch(self.idle_checks.load(Ordering::Relaxed));
                DatabaseLease::take(database).map(Access::Ready).map(Ok)
            }
        }
    }

    fn open_databases(&self) -> Vec<(String, Arc<Database>)> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let open = slots.iter().filter_map(|(key, slot)| match slot {
            Slot::Open(database) => Some((key.clone(), Arc::clone(database))),
            Slot::Moving(_) => None,
        });
        open.collect()
    }

    fn openings(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_load(self: &Arc<Self>, key: &str) -> Result<Access, AccessError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(AccessError::ShuttingDown);
        }
        let record = self.catalog.record(key).ok_or(AccessError::Missing)?;
        if record.disabled {
            return Err(AccessError::Disabled);
        }
        if !record.topology.has(self.catalog.node_tag()) {
            return Err(AccessError::NotRelevant);
        }
        let transition = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            match slots.get(key) {
                Some(Slot::Moving(transition)) => return wait_for(transition),
                Some(Slot::Open(database)) => {
                    // Closing an open database takes its slot first.
                    let lease = DatabaseLease::take(database).ok_or(AccessError::ShuttingDown);
                    return lease.map(Access::Ready);
                }
                None => {}
            }
            let transition = Arc::new(Transition::default());
            slots.insert(key.to_owned(), Slot::Moving(Arc::clone(&transition)));
            transition
        };
        self.enqueue_load(Load {
            key: key.to_owned(),
            transition: Arc::clone(&transition),
            memory: None,
            rounds_end: 0,
        });
        Ok(Access::Wait(Ticket(transition)))
    }

    fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue_load(self: &Arc<Self>, load: Load) {
        let start_thread = {
            let mut loads = self.loads();
            loads.pending.push_back(load);
            let start_thread = loads.running < self.options.concurrent_loads_max;
            loads.running += usize::from(start_thread);
            start_thread
        };
        if !start_thread {
            return;
        }
        let shared = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("load-database".into())
            .spawn(move || shared.load_pending());
        if let Err(error) = spawned {
            self.fail_pending(&error.to_string());
        }
    }

    /// Loads pending databases one after another until there are none.
    fn load_pending(self: &Arc<Self>) {
        while let Some(mut load) = self.next_load() {
            load.transition.start();
            let memory = load.memory.take();
            let opened = catch_unwind(AssertUnwindSafe(|| {
                let loaded = self.load(&load.key, memory)?;
                match loaded {
                    Loaded::Open(database) => self.let_in(&load.key, database),
                    Loaded::Gone => self.release(&load.key),
                    Loaded::ShortOfMemory => return Ok(false),
                }
                Ok(true)
            }));
            match opened.unwrap_or(Err(LoadError::Panicked)) {
                Ok(true) => load.transition.finish(Ok(())),
                Ok(false) => self.wait_for_memory(load),
                Err(error) => self.fail(&load, error),
            }
        }
    }

    fn fail(&self, load: &Load, error: LoadError) {
        (self.options.on_event)(&RegistryEvent::Failed { database: &load.key, error: &error });
        self.release(&load.key);
        load.transition.finish(Err(Arc::new(error)));
    }

    /// Makes an opened database available to requests once it follows the current record: a change finds
    /// either the record that is read here, or the open database.
    fn let_in(&self, key: &str, database: Arc<Database>) {
        loop {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let is_its_own =
                |record: &Arc<DatabaseRecord>| record.topology_id == database.record().topology_id;
            let record = self.catalog.record(key).filter(|record| !record.disabled);
            let Some(record) = record.filter(is_its_own) else {
                drop(slots);
                self.close(&database);
                return self.release(key);
            };
            if record.etag <= database.record().etag {
                *self.openings().entry(key.to_owned()).or_default() += 1;
                slots.insert(key.to_owned(), Slot::Open(database));
                return;
            }
            drop(slots);
            database.follow_record(record);
        }
    }

    fn close(&self, database: &Database) {
        database.close(self.options.close_timeout);
        let record = database.record();
        (self.options.on_event)(&RegistryEvent::Closed { database: record.name.as_str() });
    }

    fn next_load(&self) -> Option<Load> {
        let mut loads = self.loads();
        let next = loads.pending.pop_front();
        loads.running -= usize::from(next.is_none());
        next
    }

    fn fail_pending(&self, message: &str) {
        let pending = {
            let mut loads = self.loads();
            loads.running -= 1;
            match loads.running {
                0 => std::mem::take(&mut loads.pending),
                // A running thread will load them.
                _ => VecDeque::new(),
            }
        };
        for load in pending {
            self.fail(&load, LoadError::Thread { message: message.to_owned() });
        }
    }

    /// Lets a database wait until there is memory for it. It is in nobody's way meanwhile: those for which there is
    /// enough are opened.
    fn wait_for_memory(self: &Arc<Self>, mut load: Load) {
        let start_thread = {
            let mut loads = self.loads();
            load.rounds_end = loads.rounds + MEMORY_ROUNDS_MAX;
            loads.short_of_memory.push_back(load);
            !std::mem::replace(&mut loads.has_waiter, true)
        };
        if !start_thread {
            return;
        }
        let shared = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("load-memory".into())
            .spawn(move || shared.serve_short_of_memory());
        if let Err(error) = spawned {
            let message = error.to_string();
            while let Some(load) = self.next_short_of_memory() {
                self.fail(&load, LoadError::Thread { message: message.clone() });
            }
        }
    }

    /// Waits for memory for one database after another until there are none.
    fn serve_short_of_memory(self: &Arc<Self>) {
        while let Some(load) = self.next_short_of_memory() {
            let memory = catch_unwind(AssertUnwindSafe(|| self.memory_for(&load)));
            match memory.unwrap_or(Err(LoadError::Panicked)) {
                Ok(memory) => self.enqueue_load(Load { memory, ..load }),
                Err(error) => self.fail(&load, error),
            }
        }
    }

    fn next_short_of_memory(&self) -> Option<Load> {
        let mut loads = self.loads();
        let next = loads.short_of_memory.pop_front();
        loads.has_waiter = next.is_some();
        next
    }

    /// Memory for a database, as soon as there is enough: meanwhile databases that are not in use are closed. `None` if
    /// it has been deleted.
    fn memory_for(self: &Arc<Self>, load: &Load) -> Result<Option<OpeningMemory>, LoadError> {
        let registry = DatabaseRegistry { shared: Arc::clone(self) };
        loop {
            let Some(record) = self.catalog.record(&load.key) else { return Ok(None) };
            let is_last =
                load.rounds_end <= self.loads().rounds || self.closing.load(Ordering::Acquire);
            let time_max = if is_last { Duration::ZERO } else { MEMORY_ROUND };
            match self.options.memory.reserve(&record.configuration, time_max) {
                Ok(memory) => return Ok(Some(memory)),
                Err(exhausted) if is_last => return Err(LoadError::NoMemory { exhausted }),
                Err(_) => self.loads().rounds += 1,
            }
            registry.close_idle(1);
        }
    }

    /// Memory for a database, if there is enough now, and no other that is not small waits for some.
    fn memory_at_once(&self, record: &DatabaseRecord) -> Option<OpeningMemory> {
        let is_small = open_memory::is_small(&record.configuration);
        if !is_small && self.loads().has_waiter {
            return None;
        }
        self.options.memory.reserve(&record.configuration, Duration::ZERO).ok()
    }

    fn load(&self, key: &str, reserved: Option<OpeningMemory>) -> Result<Loaded, LoadError> {
        let Some(record) = self.catalog.record(key).filter(|record| !record.disabled) else {
            return Ok(Loaded::Gone);
        };
        if self.catalog.is_being_deleted(&record.name)? {
            let name = record.name.as_str().to_owned();
            return Err(CatalogError::BeingDeleted { name }.into());
        }
        let reserved = reserved.filter(|memory| memory.suffices_for(&record.configuration));
        let Some(memory) = reserved.or_else(|| self.memory_at_once(&record)) else {
            return Ok(Loaded::ShortOfMemory);
        };
        // What is left of it is measured once the database is open.
        let OpeningMemory { open, opening: _opening } = memory;
        let mut options =
            (self.options_of)(&record).map_err(|message| LoadError::Settings { message })?;
        let clock = Arc::clone(&options.platform.clock);
        let began = clock.monotonic();
        let cluster = self.catalog.cluster();
        let mut known = None;
        // There are no files that could be checked when the data is only in memory.
        if !options.is_in_memory {
            known = self.catalog.known_point(key)?;
            files::check(&record, &options, known.as_ref(), &self.catalog)?;
            let witness = self.catalog.witness(&record);
            options.environment.history = History::Witnessed(Arc::new(witness));
        } else {
            options.environment.history = History::Kept;
        }
        let (id, flusher) = (record.topology_id, &self.flusher);
        let opened = Database::open(record, options, known.as_ref(), cluster.store(), flusher);
        let is_here = |present: &DatabaseRecord| {
            present.topology_id == id && present.topology.has(self.catalog.node_tag())
        };
        let is_gone = || self.catalog.record(key).is_none_or(|present| !is_here(&present));
        let database = match opened {
            Ok(database) => database,
            // It was deleted meanwhile.
            Err(_) if is_gone() => return Ok(Loaded::Gone),
            Err(error) => return Err(error),
        };
        database.hold(open);
        let database = Arc::new(database);
        database.take_identities_to(cluster)?;
        // No client is waiting for these. A failure now is retried with the next transaction, and a full disk
        // must not prevent reading.
        drop(database.catch_up_with(cluster.store()));
        database.touch(self.idle_checks.load(Ordering::Relaxed));
        (self.options.on_event)(&RegistryEvent::Opened {
            database: database.record().name.as_str(),
            took: clock.monotonic().saturating_sub(began),
            documents: documents::progress(&database.read())
                .map_err(LoadError::Documents)?
                .documents,
            recovery: database.environment().recovery(),
        });
        Ok(Loaded::Open(database))
    }

    /// Closes a database if it is open and nobody uses it. Waits for no other transition: the caller may be what that
    /// one waits for.
    fn close_unused(&self, key: &str, database: Arc<Database>) {
        let transition = Arc::new(Transition::default());
        if self.claim_unused(key, &database, &transition) {
            transition.start();
            self.close(&database);
            drop(database);
            self.release(key);
            transition.finish(Ok(()));
        }
    }

    /// Reserves the name of an open database that nobody uses.
    fn claim_unused(
        &self,
        key: &str,
        database: &Arc<Database>,
        transition: &Arc<Transition>,
    ) -> bool {
        // Requests enter under this lock.
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let is_open =
            matches!(slots.get(key), Some(Slot::Open(open)) if Arc::ptr_eq(open, database));
        let claims = is_open && database.gate.users() == 0 && !database.changes().has_listeners();
        if claims {
            slots.insert(key.to_owned(), Slot::Moving(Arc::clone(transition)));
        }
        claims
    }

    /// Reserves the name, waiting for any transition in progress; returns the database that was open.
    fn claim(&self, key: &str, transition: &Arc<Transition>) -> Option<Arc<Database>> {
        loop {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let database = match slots.get(key) {
                Some(Slot::Moving(other)) => {
                    let other = Arc::clone(other);
                    drop(slots);
                    other.wait();
                    continue;
                }
                Some(Slot::Open(database)) => Some(Arc::clone(database)),
                None => None,
            };
            slots.insert(key.to_owned(), Slot::Moving(Arc::clone(transition)));
            return database;
        }
    }

    fn release(&self, key: &str) {
        self.slots.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
