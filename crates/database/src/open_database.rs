//! One open database: its environment, commit queue, indexes and operations.

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster::Cluster;
use cluster_state::{
    ClusterStore, ClusterTransaction, Command as ClusterCommand, DatabaseValues, IdentityCommand,
    ValueSource,
};
use commands::{
    Batch, BatchOutcome, ChangeListener, Command, CommitQueue, CommitQueueOptions, CommitThreads,
};
use documents::DatabaseIdentity;
use indexing::{
    AutoIndexLimits, DefinitionFormat, IndexSet, IndexSetContext, IndexSetEvent, IndexingPool,
    OnIndexEvent,
};
use model::{
    DatabaseId, DatabaseRecord, NodeTag, RetentionConfiguration, RetentionKind,
    TimeSeriesConfiguration,
};
use platform::{Platform, Timestamp};
use script::ScriptPool;
use storage::{
    Environment, EnvironmentOptions, History, HistoryPoint, IoOperation, IoPosition, MemoryBudget,
    MemoryShare, ReadTransaction, StorageError,
};
use subscriptions::SubscriptionSet;
use wire::changes::Watch;

use crate::{
    activity::Activity,
    changes::{ChangesHub, Event, Family, Listener, TooManyWatches, WatchBegins},
    cluster_transactions::{self, ClusterTransactions, ExecutionError},
    disk_space::{DiskSpaceGauge, DiskSpaceLimits, DiskSpaceReading},
    error::LoadError,
    flusher::Flusher,
    held_snapshots::HeldSnapshots,
    huge_documents::{HugeDocumentLimits, HugeDocuments},
    index_outputs::IndexOutputs,
    log_follower::LogFollowers,
    notice_board::NoticeBoard,
    open_memory,
    operations::Operations,
    recorded_settings::{self, recorded_indexes},
    standing,
    tombstones::{TombstoneHolders, TombstoneNeed},
    usage_gate::UsageGate,
    write_gate::{PausedWrites, WriteGate, WritesRefused},
};

/// The directory of the indexes, inside the directory of the database.
pub const INDEXES_DIRECTORY: &str = "Indexes";
/// The size limit of an index's journal files.
const INDEX_JOURNAL_BYTES_MAX: u64 = 16 << 20;

/// How to open a database.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// Whether its files exist only in memory, unlike those of the catalog.
    pub is_in_memory: bool,
    /// The tag of this node, which a new database puts into its change vectors.
    pub node_tag: NodeTag,
    /// The disk it is stored on, and its source of time and randomness.
    pub platform: Platform,
    /// The location of its files, and the limits of its storage.
    pub environment: EnvironmentOptions,
    /// The limits of its commit queue.
    pub queue: CommitQueueOptions,
    /// The threads that commit, shared by all databases.
    pub commit_threads: Arc<CommitThreads>,
    /// The engines that run its scripts.
    pub scripts: ScriptPool,
    /// How much space must be free on its disks.
    pub disk_space: DiskSpaceLimits,
    /// Which documents are recorded as huge.
    pub huge_documents: HugeDocumentLimits,
    /// How its documents are indexed.
    pub indexing: IndexingOptions,
    /// The server-wide meters.
    pub activity: Arc<Activity>,
    /// How often unneeded tombstones are removed.
    pub tombstones_interval: Duration,
    /// Which deletions are needed outside of the database.
    pub deletions_needed: DeletionsNeeded,
    /// Notified of the database's name and why cluster-wide work is refused for it.
    pub on_refused: fn(&str, &str),
}

/// How the documents of a database are indexed.
#[derive(Clone)]
pub struct IndexingOptions {
    /// The threads that index, shared by all databases.
    pub pool: IndexingPool,
    /// How long unused automatic indexes are kept.
    pub auto_limits: AutoIndexLimits,
    /// Whether indexing is disabled.
    pub is_disabled: bool,
    /// Notified of the database's name and what happens to an index of it.
    pub on_event: OnDatabaseIndexEvent,
}

/// Which deletions of a database with this record and these files are needed outside of it, by backups and ETL tasks.
pub type DeletionsNeeded =
    Arc<dyn Fn(&DatabaseRecord, &Environment) -> Vec<TombstoneNeed> + Send + Sync>;

/// Notified of the database's name and of an event of one of its indexes.
pub type OnDatabaseIndexEvent = Arc<dyn Fn(&str, &IndexSetEvent<'_>) + Send + Sync>;

/// An open database. Requests hold it through a [`DatabaseLease`].
pub struct Database {
    environment: Arc<Environment>,
    values: ValueSource,
    indexes: Arc<IndexSet>,
    queue: Arc<CommitQueue>,
    transactions: Arc<ClusterTransactions>,
    queue_options: CommitQueueOptions,
    identity: DatabaseIdentity,
    operations: Operations,
    notices: NoticeBoard,
    held_snapshots: Arc<HeldSnapshots>,
    changes: Arc<ChangesHub>,
    followers: Arc<LogFollowers>,
    subscriptions: Arc<SubscriptionSet>,
    tombstone_holders: TombstoneHolders,
    tombstones_interval: Duration,
    deletions_needed: DeletionsNeeded,
    record: RwLock<Arc<DatabaseRecord>>,
    /// Held while a changed record is applied.
    following: Mutex<()>,
    opened: Timestamp,
    opened_after: Duration,
    /// What is reserved for it.
    memory: Mutex<MemoryShare>,
    activity: Arc<Activity>,
    /// The registry's count of idle checks when the database was last asked for.
    last_use: AtomicU64,
    failed: AtomicBool,
    disk: DiskSpaceGauge,
    auto_index_limits: AutoIndexLimits,
    huge_documents: HugeDocuments,
    writes: Arc<WriteGate>,
    /// The position up to which slow I/O has been reported.
    slow_io_reported: Mutex<IoPosition>,
    pub(crate) gate: UsageGate,
}

impl Database {
    /// Opens the files of a database, running recovery if needed. `known` is the newest incarnation that the
    /// server knows.
    pub(crate) fn open(
        record: Arc<DatabaseRecord>,
        options: DatabaseOptions,
        known: Option<&HistoryPoint>,
        cluster: &ClusterStore,
        flusher: &Arc<Flusher>,
    ) -> Result<Database, LoadError> {
        let platform = &options.platform;
        let disk = disk_gauge_of(&options);
        let environment = Environment::open(platform, options.environment.clone())?;
        standing::check_history(&environment, known)?;
        let opened = (&*environment, options.is_in_memory);
        if let Some(reason) = standing::check_cluster(cluster, opened, &record)? {
            (options.on_refused)(record.name.as_str(), &reason);
        }
        let identity = identity_of(platform, &environment, options.node_tag)?;
        store_missing_counts(&environment)?;
        let values = cluster.values_of(record.topology_id);
        let changes = Arc::new(ChangesHub::default());
        let activity = Arc::new(Activity::part_of(&options.activity));
        let queue = queue_of(&options, &environment, &values);
        recorded_settings::set_queue(&queue, &record)?;
        announce_writes(&queue, &activity, &changes);
        let held_snapshots = Arc::<HeldSnapshots>::default();
        look_after(&environment, flusher, &held_snapshots);
        let (followers, subscriptions) = (Arc::<LogFollowers>::default(), Arc::default());
        notify_readers(&environment, &followers, &subscriptions);
        let context = index_context(&options, &environment, &values, &queue);
        let indexes = IndexSet::new(IndexSetContext {
            on_event: on_index_event(&record, &options, &changes, &activity),
            on_open: {
                let (flusher, held) = (Arc::clone(flusher), Arc::clone(&held_snapshots));
                Arc::new(move |environment| look_after(environment, &flusher, &held))
            },
            ..context
        });
        if options.indexing.is_disabled {
            indexes.disable();
        }
        indexes.follow_record(recorded_indexes(&record)?);
        let executed = documents::executed_transactions(&environment.read(), record.topology_id)
            .map_err(LoadError::Documents)?
            .index;
        let database = Database {
            environment,
            values,
            indexes,
            queue,
            queue_options: options.queue,
            transactions: ClusterTransactions::executed_up_to(executed),
            identity,
            operations: Operations::announced_in(&changes),
            notices: NoticeBoard::default(),
            held_snapshots,
            changes,
            followers,
            subscriptions,
            tombstone_holders: TombstoneHolders::default(),
            tombstones_interval: options.tombstones_interval,
            deletions_needed: Arc::clone(&options.deletions_needed),
            record: RwLock::new(record),
            following: Mutex::default(),
            opened: platform.clock.now(),
            opened_after: platform.clock.monotonic(),
            memory: Mutex::new(MemoryBudget::unlimited().share(0)),
            activity,
            last_use: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            disk,
            auto_index_limits: options.indexing.auto_limits,
            huge_documents: HugeDocuments::new(options.huge_documents),
            writes: Arc::default(),
            slow_io_reported: Mutex::default(),
            gate: UsageGate::default(),
        };
        database.look_at_disk(database.opened_after);
        Ok(database)
    }

    /// Checks its disks, and refuses writes or accepts them again.
    pub(crate) fn look_at_disk(&self, now: Duration) {
        let reading = self.disk.look(self.environment.take_disk_full(), now);
        self.queue.refuse(reading.refusal());
    }

    pub(crate) fn held_snapshots(&self) -> &HeldSnapshots {
        &self.held_snapshots
    }

    pub(crate) fn disk_gauge(&self) -> &DiskSpaceGauge {
        &self.disk
    }

    /// The slow I/O since the last call.
    pub(crate) fn take_slow_io(&self) -> Vec<IoOperation> {
        let mut reported = self.slow_io_reported.lock().unwrap_or_else(PoisonError::into_inner);
        let (operations, position) = self.environment.slow_io(*reported);
        *reported = position;
        operations
    }

    /// The last reading of the room on its disks.
    pub fn disk_space(&self) -> DiskSpaceReading {
        self.disk.reading()
    }

    /// The newest durable state.
    pub fn read(&self) -> ReadTransaction {
        self.environment.read()
    }

    /// A snapshot of its compare exchange values.
    pub fn values(&self) -> DatabaseValues {
        self.values.read()
    }

    /// The queue of all its changes.
    pub fn queue(&self) -> &CommitQueue {
        &self.queue
    }

    /// Whether the commit queue is less than half full. Background tasks wait for that and leave the other
    /// half to requests.
    pub fn has_room(&self) -> bool {
        let statistics = self.queue.statistics();
        statistics.length < self.queue_options.length_max / 2
            && statistics.bytes < self.queue_options.bytes_max / 2
    }

    /// The storage environment of its documents.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// The ids under which it makes changes.
    pub fn identity(&self) -> &DatabaseIdentity {
        &self.identity
    }

    /// Its long operations: running ones, and the most recent finished ones.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Its meters of requests, writes and indexing.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Notices that operators have dismissed or postponed.
    pub fn notices(&self) -> &NoticeBoard {
        &self.notices
    }

    /// The hub that notifies clients of its changes.
    pub fn changes(&self) -> &Arc<ChangesHub> {
        &self.changes
    }

    /// Readers of its log that are woken when it grows.
    pub fn followers(&self) -> &Arc<LogFollowers> {
        &self.followers
    }

    /// Adds a watch to a listener. `begun` is called once the listener will be notified of everything that
    /// becomes durable from then on: immediately, or later on a commit thread.
    ///
    /// # Errors
    /// The listener has reached its limit of watches.
    pub fn watch(
        &self,
        listener: &Listener,
        watch: Watch,
        begun: impl FnOnce() + Send + 'static,
    ) -> Result<(), TooManyWatches> {
        match self.changes.watch(listener, watch)? {
            WatchBegins::Now => begun(),
            WatchBegins::WhenSettled(beginning) => {
                let changes = Arc::clone(&self.changes);
                self.queue.after_all_before(Box::new(move || {
                    changes.settled(beginning);
                    begun();
                }));
            }
        }
        Ok(())
    }

    /// The subscriptions that have workers.
    pub fn subscriptions(&self) -> &Arc<SubscriptionSet> {
        &self.subscriptions
    }

    /// Holders of tombstones other than indexes and readers of the tail.
    pub fn tombstone_holders(&self) -> &TombstoneHolders {
        &self.tombstone_holders
    }

    /// Which deletions are needed outside of it.
    pub(crate) fn deletions_needed(&self) -> Vec<TombstoneNeed> {
        (self.deletions_needed)(&self.record(), &self.environment)
    }

    /// How often unneeded tombstones are removed.
    pub(crate) fn tombstones_interval(&self) -> Duration {
        self.tombstones_interval
    }

    /// Moves the identities that older versions stored with the documents to the cluster's state. A larger
    /// value there is kept. Blocks.
    pub(crate) fn take_identities_to(&self, cluster: &Cluster) -> Result<(), LoadError> {
        let values = documents::identities(&self.read()).map_err(LoadError::Documents)?;
        if values.is_empty() {
            return Ok(());
        }
        let database = self.record().topology_id;
        let seed = IdentityCommand::Seed { database, values, force: false };
        cluster
            .submit_and_wait(&ClusterCommand::Identity(seed))
            .map_err(|error| LoadError::Identities { message: error.to_string() })?;
        // If they stay, they are moved again when the database is next opened.
        drop(self.queue.submit_and_wait(Batch::one(Command::ForgetIdentities)));
        Ok(())
    }

    /// Executes the cluster-wide transactions that a crash has left unexecuted. Blocks.
    pub(crate) fn catch_up_with(&self, cluster: &ClusterStore) -> Result<(), ExecutionError> {
        self.transactions.catch_up(cluster, &self.record(), &self.queue)
    }

    /// Executes everything up to the cluster-wide transaction with this index. `done` is called when that is
    /// durable, or has failed, with the outcome of the batch that executed this one; `None` if that is no longer
    /// known.
    pub fn execute_transaction(
        &self,
        cluster: &ClusterStore,
        index: u64,
        done: impl FnOnce(Result<Option<BatchOutcome>, ExecutionError>) + Send + 'static,
    ) {
        self.transactions.execute(cluster, &self.record(), &self.queue, index, Box::new(done));
    }

    /// Has everything executed that is stored for this database and not yet executed. Never blocks; requests that wait
    /// for it get its outcome.
    ///
    /// # Errors
    /// It is executed later: it cannot be read, or the queue does not take it now.
    pub fn follow_transactions(&self, cluster: &ClusterStore) -> Result<(), ExecutionError> {
        self.transactions.follow(cluster, &self.record(), &self.queue)
    }

    /// A batch that tests whether a cluster-wide transaction can be executed, and is undone. It is submitted
    /// to the queue before a large transaction is submitted to the cluster. `None` for small ones, for which
    /// there is always room.
    ///
    /// # Errors
    /// An id that is too long.
    pub fn dry_run_of(
        &self,
        transaction: &ClusterTransaction,
    ) -> Result<Option<Batch>, ExecutionError> {
        let bytes_max = self.environment.options().transaction_budget.bytes_max();
        cluster_transactions::dry_run_of(transaction, &self.record(), bytes_max)
    }

    /// The last durably executed cluster-wide transaction.
    pub fn executed_transaction(&self) -> u64 {
        self.transactions.executed()
    }

    /// The record that it currently follows.
    pub fn record(&self) -> Arc<DatabaseRecord> {
        Arc::clone(&self.record.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The retention configuration of this kind; `None` if it is not configured.
    pub(crate) fn retention(&self, kind: RetentionKind) -> Option<RetentionConfiguration> {
        wire::sections_of(&self.record().configuration).retention.of_kind(kind)
    }

    /// The configuration of its time series; `None` if there is none.
    pub fn time_series(&self) -> Option<Arc<TimeSeriesConfiguration>> {
        wire::sections_of(&self.record().configuration).time_series.clone()
    }

    /// When it was opened.
    pub fn opened(&self) -> Timestamp {
        self.opened
    }

    /// When it was opened, on the monotonic clock.
    pub fn opened_after(&self) -> Duration {
        self.opened_after
    }

    /// Whether it is being closed; long work should stop.
    pub fn is_closing(&self) -> bool {
        self.gate.is_closed()
    }

    /// Its indexes, including those being built as replacements.
    pub fn indexes(&self) -> &Arc<IndexSet> {
        &self.indexes
    }

    /// Its largest recently used documents.
    pub fn huge_documents(&self) -> &HugeDocuments {
        &self.huge_documents
    }

    /// Refuses writes of clients until it is opened again, because its files are an older copy than what other nodes
    /// have. The first reason counts.
    pub fn refuse_writes(&self, reason: &str) {
        self.writes.refuse(reason);
    }

    /// Refuses writes of clients as long as the result exists. Every write that was accepted before has been queued.
    ///
    /// # Errors
    /// They are refused already.
    pub fn pause_writes(&self) -> Result<PausedWrites, WritesRefused> {
        self.writes.pause()
    }

    /// Submits a write of a client by `submit`, which must not block.
    ///
    /// # Errors
    /// The database takes none: `submit` is not called.
    pub fn submit_of_client<T>(&self, submit: impl FnOnce() -> T) -> Result<T, WritesRefused> {
        self.writes.enter(submit)
    }

    /// How long its unused automatic indexes are kept.
    pub fn auto_index_limits(&self) -> AutoIndexLimits {
        self.auto_index_limits
    }

    /// Applies a changed record, unless a newer one has been applied, or it is that of another database of the
    /// name: deletes indexes that are no longer listed, creates new ones. [`Self::record`] returns it once all
    /// of it is in force.
    pub(crate) fn follow_record(&self, record: Arc<DatabaseRecord>) {
        let _following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.record();
        if record.etag <= present.etag || record.topology_id != present.topology_id {
            return;
        }
        if let Ok(recorded) = recorded_indexes(&record) {
            self.indexes.follow_record(recorded);
        }
        open_memory::follow(&mut self.memory(), &record.configuration);
        recorded_settings::change_queue(&self.queue, &record);
        *self.record.write().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// Holds what was reserved for it until it is dropped.
    pub(crate) fn hold(&self, reserved: MemoryShare) {
        *self.memory() = reserved;
    }

    fn memory(&self) -> MutexGuard<'_, MemoryShare> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn touch(&self, idle_checks: u64) {
        self.last_use.store(idle_checks, Ordering::Relaxed);
    }

    pub(crate) fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// Marks it as failed; `true` on the first call.
    pub(crate) fn mark_failed(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// Lets no new users in, waits up to `timeout` for the current ones, then closes the queue and the files.
    /// Users that remain can still read their snapshots but can no longer write.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        self.gate.close();
        self.held_snapshots.close();
        self.changes.close();
        self.followers.end();
        self.subscriptions.close();
        let emptied = self.gate.wait_until_empty(timeout);
        self.indexes.close();
        self.queue.close();
        // Changes that could not be flushed are still in the journal, from which they are recovered.
        drop(self.environment.close());
        emptied
    }
}

fn disk_gauge_of(options: &DatabaseOptions) -> DiskSpaceGauge {
    let directories = vec![options.environment.directory.clone(), options.environment.journals()];
    DiskSpaceGauge::new(Arc::clone(&options.platform.disk), directories, options.disk_space)
}

/// The commit queue, whose scripts read these values.
fn queue_of(
    options: &DatabaseOptions,
    environment: &Arc<Environment>,
    values: &ValueSource,
) -> Arc<CommitQueue> {
    let DatabaseOptions { platform, commit_threads, .. } = options;
    let environment = Arc::clone(environment);
    let queue = CommitQueue::open(environment, platform, options.queue, commit_threads);
    let values = values.clone();
    queue.read_values_by(Arc::new(move |key| {
        let values = values.read();
        let found = values.get(key).map_err(|error| error.to_string())?;
        Ok(found.map(|entry| entry.value.to_buf()))
    }));
    Arc::new(queue)
}

/// Counts what the queue stores, and notifies the watchers of documents.
fn announce_writes(queue: &CommitQueue, activity: &Arc<Activity>, changes: &Arc<ChangesHub>) {
    let activity = Arc::clone(activity);
    queue.count_stored_by(move |tally| activity.note_written(tally));
    queue.set_change_listener(Arc::clone(changes) as Arc<dyn ChangeListener>);
}

/// What the indexes need. Nobody is notified of their events, nor of the environments that they open.
fn index_context(
    options: &DatabaseOptions,
    environment: &Arc<Environment>,
    values: &ValueSource,
    queue: &Arc<CommitQueue>,
) -> IndexSetContext {
    let index_options = index_options(&options.environment, &options.indexing.pool);
    IndexSetContext {
        platform: options.platform.clone(),
        documents: Arc::clone(environment),
        values: Some(values.clone()),
        directory: index_options.directory.join(INDEXES_DIRECTORY),
        environment: index_options,
        scripts: options.scripts.clone(),
        pool: options.indexing.pool.clone(),
        outputs: Arc::new(IndexOutputs { queue: Arc::clone(queue) }),
        on_event: Arc::new(|_| {}),
        definition_format: DefinitionFormat {
            write: wire::index_definition_text,
            read: wire::index_definition_of_text,
        },
        on_open: Arc::new(|_| {}),
    }
}

/// Counts what is indexed, and passes other events on, to the watchers of indexes as well.
fn on_index_event(
    record: &DatabaseRecord,
    options: &DatabaseOptions,
    changes: &Arc<ChangesHub>,
    activity: &Arc<Activity>,
) -> OnIndexEvent {
    let (name, notified) = (record.name.clone(), Arc::clone(&options.indexing.on_event));
    let (changes, activity) = (Arc::clone(changes), Arc::clone(activity));
    Arc::new(move |event| {
        if let IndexSetEvent::Indexed { batch, .. } = event {
            return activity.note_indexed(*batch);
        }
        notified(name.as_str(), event);
        announce_index(&changes, event);
    })
}

/// Lets the flusher serve the environment, and ends held snapshots that keep too much of it.
fn look_after(environment: &Arc<Environment>, flusher: &Flusher, held: &Arc<HeldSnapshots>) {
    let held = Arc::clone(held);
    environment.on_memory_short(move || held.make_room());
    flusher.add(environment);
}

/// Wakes the readers of the log after every transaction that becomes visible.
fn notify_readers(
    environment: &Environment,
    followers: &Arc<LogFollowers>,
    subscriptions: &Arc<SubscriptionSet>,
) {
    let (followers, subscriptions) = (Arc::clone(followers), Arc::clone(subscriptions));
    environment.on_published(move || {
        followers.grow();
        subscriptions.published();
    });
}

/// Notifies the watchers of indexes.
fn announce_index(hub: &ChangesHub, event: &IndexSetEvent<'_>) {
    if let IndexSetEvent::Changed { index, change } = event {
        hub.announce(Family::Index, || Event::Index { name: (*index).to_owned(), change: *change });
    }
}

/// How the environment of an index differs from that of the documents: its journal is small, because an index
/// that lost its last changes computes them again.
fn index_options(documents: &EnvironmentOptions, pool: &IndexingPool) -> EnvironmentOptions {
    EnvironmentOptions {
        transaction_budget: Arc::clone(pool.budget()),
        journals_directory: None,
        history: History::NotKept,
        journal_bytes_max: documents.journal_bytes_max.min(INDEX_JOURNAL_BYTES_MAX),
        ..documents.clone()
    }
}

/// The identity of the database, generated if it is new. Starts a new incarnation if there is room, so that
/// the server's environment and the database record each other even when nothing else is written.
fn identity_of(
    platform: &Platform,
    environment: &Arc<Environment>,
    node_tag: NodeTag,
) -> Result<DatabaseIdentity, LoadError> {
    if let Some(identity) = documents::read_identity(&environment.read())? {
        return match environment.begin_writing() {
            // The incarnation starts with the first write; until there is room, the database is readable.
            Ok(()) | Err(StorageError::DiskFull { .. } | StorageError::Unwitnessed { .. }) => {
                Ok(identity)
            }
            Err(error) => Err(error.into()),
        };
    }
    let mut id = [0; 16];
    platform.entropy.fill(&mut id);
    let wanted = DatabaseIdentity { database_id: DatabaseId(id), node_tag };
    let mut tx = environment.write()?;
    let identity = documents::initialize(&mut tx, wanted)?;
    if identity == wanted {
        tx.commit()?;
    }
    Ok(identity)
}

/// Stores what databases of earlier versions do not have, so that statistics need not count it each time.
fn store_missing_counts(environment: &Arc<Environment>) -> Result<(), LoadError> {
    if !documents::lacks_counted_documents(&environment.read())? {
        return Ok(());
    }
    let stored = environment.write().map_err(LoadError::from).and_then(|mut tx| {
        documents::store_counted_documents(&mut tx)?;
        Ok(tx.commit()?)
    });
    match stored {
        // Until there is room, it is counted on demand.
        Err(LoadError::Storage(StorageError::DiskFull { .. })) => Ok(()),
        stored => stored,
    }
}

/// The right to use an open database; while it lives, the database is not closed.
pub struct DatabaseLease(Arc<Database>);

impl DatabaseLease {
    pub(crate) fn take(database: &Arc<Database>) -> Option<DatabaseLease> {
        database.gate.enter().then(|| DatabaseLease(Arc::clone(database)))
    }
}

impl Clone for DatabaseLease {
    fn clone(&self) -> DatabaseLease {
        // Entering is counted even if the gate is closed, because the holder of a lease has already entered.
        self.0.gate.enter_again();
        DatabaseLease(Arc::clone(&self.0))
    }
}

impl Deref for DatabaseLease {
    type Target = Database;
    fn deref(&self) -> &Database {
        &self.0
    }
}

impl Drop for DatabaseLease {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}
