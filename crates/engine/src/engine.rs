//! The engine: every database of one data directory, and what they share.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster::{Cluster, NoPeers, Peers};
use database::{
    DatabaseMemory, DatabaseRegistry, DeletionsNeeded, Flusher, NoticeBoard, Operations,
    RegistryOptions, ResourceWatch, Retention, ServerCatalog,
};
use indexing::Turns;
use model::DatabaseRecord;
use platform::{Clock, DirectoryLock, Disk, Exposure, Platform};
use script::ScriptPool;
use settings::Settings;
use storage::{EnvironmentOptions, StorageError, environment_id_in};

use crate::{
    auto_indexes::AutoIndexes,
    backup::{self, BackupSchedule, backup_disk},
    compilation::COMPILED_AT_ONCE_MAX,
    database_files::{DatabaseFiles, SYSTEM_DIRECTORY},
    database_log,
    encryption_keys::EncryptionKeys,
    error::OpenError,
    etl::{self, EtlProcesses},
    known_api_keys::KnownKeys,
    known_certificates::KnownCertificates,
    last_looks::{
        ConflictLooks, ExecutedNotes, LastLooks, PostponedTransactions, RunningDepartures,
    },
    memory_plan::MemoryPlan,
    noted_changes::NotedChanges,
    observer_log::ObserverLog,
    operation_thread::OperationThreads,
    replication::{self, ReplicationLinks},
    resource_log, retention_log,
    running_queries::RunningQueries,
    unknown_directories::has_databases,
};

/// Threads that copy journals to data files, for all databases together.
const FLUSHER_THREADS: usize = 2;
/// Threads that process due documents, for all databases together.
const RETENTION_THREADS: usize = 2;
/// How long closing a database waits for its users.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// An open data directory. Dropping it without [`Engine::close`] has the effect of a crash: nothing that was
/// acknowledged is lost, and the next open recovers.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) platform: Platform,
    /// Where backups are.
    pub(crate) backup_disk: Arc<dyn Disk>,
    pub(crate) backups: Arc<BackupSchedule>,
    pub(crate) etl: EtlProcesses,
    pub(crate) replication: Arc<ReplicationLinks>,
    /// The records of all databases.
    pub(crate) catalog: Arc<ServerCatalog>,
    /// The catalog's: the state that all nodes agree on.
    pub(crate) cluster: Arc<Cluster>,
    /// The open databases, opened on demand and closed when idle.
    pub(crate) registry: DatabaseRegistry,
    /// Where the files of each database are, and how it is opened.
    pub(crate) files: Arc<DatabaseFiles>,
    pub(crate) memory: Arc<MemoryPlan>,
    pub(crate) encryption_keys: Arc<EncryptionKeys>,
    pub(crate) operations: Operations,
    notices: NoticeBoard,
    pub(crate) certificates: KnownCertificates,
    pub(crate) api_keys: KnownKeys,
    running_queries: RunningQueries,
    pub(crate) auto_indexes: AutoIndexes,
    /// Places to compile definitions of indexes.
    pub(crate) compiling: Turns,
    flusher: Arc<Flusher>,
    watch: ResourceWatch,
    retention: Retention,
    pub(crate) operation_threads: OperationThreads,
    /// No client configuration was written by a change with a higher index: a client that has this
    /// one needs no further check.
    pub(crate) newest_client_configuration: AtomicU64,
    /// Held while a database is created.
    pub(crate) creating: Mutex<()>,
    pub(crate) followed: Arc<NotedChanges>,
    pub(crate) observer: LastLooks,
    pub(crate) observer_log: ObserverLog,
    pub(crate) departures: RunningDepartures,
    pub(crate) executed_notes: ExecutedNotes,
    pub(crate) postponed_transactions: PostponedTransactions,
    pub(crate) conflict_looks: ConflictLooks,
    /// Of the data directory, until it is closed.
    lock: Mutex<Option<Box<dyn DirectoryLock>>>,
}

impl Engine {
    /// Opens the data directory, and completes interrupted deletions of databases. Databases are
    /// opened on demand. Blocks.
    ///
    /// # Errors
    /// When the data directory cannot be used. Nothing is left running then.
    pub fn open(settings: Settings, platform: Platform) -> Result<Engine, OpenError> {
        Self::open_with_peers(settings, platform, Arc::new(NoPeers))
    }

    /// As [`Engine::open`], with a way to other nodes.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub fn open_with_peers(
        settings: Settings,
        platform: Platform,
        peers: Arc<dyn Peers>,
    ) -> Result<Engine, OpenError> {
        let roots = [Some(&settings.data_dir), settings.journals_path.as_ref()];
        for root in roots.into_iter().flatten() {
            check_exposure(&*platform.disk, root)?;
        }
        let lock = lock_data_directory(&*platform.disk, &settings.data_dir)?;
        let memory = Arc::new(MemoryPlan::new(&settings, &platform));
        let catalog = open_catalog(&settings, &platform, &memory, peers)?;
        let report = |error: &StorageError| {
            tracing::error!(%error, "changes could not be copied to a data file");
        };
        let flusher = Flusher::start(FLUSHER_THREADS, Arc::clone(&platform.clock), report)
            .map_err(|source| OpenError::Thread { source })?;
        let flusher = Arc::new(flusher);
        flusher.add(catalog.environment());
        catalog.limit_records(memory.record_bytes_max);
        let encryption_keys = Arc::new(EncryptionKeys::new(
            &platform,
            &settings.data_dir,
            settings.security.master_key.clone(),
        ));
        let backups = Arc::new(BackupSchedule::default());
        let links = Arc::new(ReplicationLinks::default());
        let files = {
            let (settings, platform, memory) =
                (settings.clone(), platform.clone(), Arc::clone(&memory));
            let keys = Arc::clone(&encryption_keys);
            let needed = tombstone_needs(catalog.cluster(), &backups, &links, &platform.clock);
            DatabaseFiles::new(
                settings,
                platform,
                Arc::clone(catalog.cluster()),
                memory,
                keys,
                needed,
            )
            .map_err(|source| OpenError::Thread { source })?
        };
        let followed = NotedChanges::of(catalog.cluster().store());
        let registry = registry_of(&settings, &memory.databases, &catalog, &flusher, &files);
        let watch = ResourceWatch::new(
            registry.clone(),
            Arc::clone(&flusher),
            platform.clone(),
            Arc::clone(&memory.pressure),
            platform::descriptors::open_files,
            resource_log::log,
        );
        watch.start().map_err(|source| OpenError::Thread { source })?;
        let retention = Retention::new(registry.clone(), platform.clone(), retention_log::log);
        retention.start(RETENTION_THREADS).map_err(|source| OpenError::Thread { source })?;
        let engine = Engine {
            backup_disk: backup_disk(&settings, &platform),
            backups,
            etl: EtlProcesses::default(),
            replication: links,
            settings,
            platform,
            cluster: Arc::clone(catalog.cluster()),
            catalog,
            registry,
            files,
            memory,
            encryption_keys,
            operations: Operations::default(),
            notices: NoticeBoard::default(),
            certificates: KnownCertificates::default(),
            api_keys: KnownKeys::default(),
            running_queries: RunningQueries::default(),
            auto_indexes: AutoIndexes::default(),
            compiling: Turns::new(COMPILED_AT_ONCE_MAX),
            flusher,
            watch,
            retention,
            operation_threads: OperationThreads::default(),
            newest_client_configuration: AtomicU64::new(0),
            creating: Mutex::default(),
            followed,
            observer: LastLooks::default(),
            observer_log: ObserverLog::default(),
            departures: RunningDepartures::default(),
            executed_notes: ExecutedNotes::default(),
            postponed_transactions: PostponedTransactions::default(),
            conflict_looks: ConflictLooks::default(),
            lock: Mutex::new(Some(lock)),
        };
        let newest = engine.newest_written_client_configuration().unwrap_or(0);
        engine.newest_client_configuration.store(newest, Ordering::Release);
        engine.finish_deletions();
        engine.remove_unfinished_restores();
        engine.remove_temporary_backups();
        engine.remove_orphaned_backup_statuses();
        engine.remove_orphaned_etl_positions();
        engine.log_unknown_directories();
        Ok(engine)
    }

    /// The settings that it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Disk, clock and randomness.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The clock that all parts of the engine use.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.platform.clock
    }

    /// How much memory each part may take.
    pub fn memory(&self) -> &Arc<MemoryPlan> {
        &self.memory
    }

    /// Long operations that belong to no open database.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Which notices about the server operators have dismissed.
    pub fn notices(&self) -> &NoticeBoard {
        &self.notices
    }

    /// Queries that are running.
    pub fn running_queries(&self) -> &RunningQueries {
        &self.running_queries
    }

    /// Runs the scripts of queries.
    pub fn scripts(&self) -> &ScriptPool {
        self.files.scripts()
    }

    /// 64 random bits from the platform's entropy, unpredictable for clients.
    pub fn random_number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.platform.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Whether [`Engine::check_indexes`] has anything to do. Does not block.
    pub fn has_indexes_to_check(&self) -> bool {
        self.auto_indexes.has_superseded() || !self.files.index_builds().is_empty()
    }

    /// Deletes automatic indexes whose successors have caught up, and logs the progress of index
    /// builds. To be called about once a second. Blocks.
    pub fn check_indexes(&self) {
        self.delete_superseded();
        if !self.files.index_builds().is_empty() {
            self.log_index_builds();
        }
    }

    /// Deletes unused automatic indexes, forgets deletions of compare exchange values that every
    /// index has seen, and closes databases that were not used during the last `checks_max` calls.
    /// To be called at the interval of idle checks. Blocks.
    pub fn maintain(&self, checks_max: u64) {
        self.delete_unused_auto_indexes();
        self.forget_deleted_values();
        self.registry.close_idle(checks_max);
    }

    /// Requests that all long operations end soon. Does not wait for them.
    pub fn stop_operations(&self) {
        self.operation_threads.stop();
    }

    /// Stops long operations, closes all databases concurrently, then the server's own environment,
    /// and releases the data directory. Blocks.
    pub fn close(&self) {
        self.operation_threads.close();
        self.etl.close();
        self.replication.close();
        self.watch.close();
        self.retention.close();
        self.registry.close_all();
        self.cluster.close();
        self.flusher.close();
        if let Err(error) = self.catalog.environment().close() {
            tracing::error!(%error, "the last flush of the server's own data failed");
        }
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// What scheduled backups, ETL tasks and replication need of the deletions of a database.
fn tombstone_needs(
    cluster: &Arc<Cluster>,
    backups: &Arc<BackupSchedule>,
    links: &Arc<ReplicationLinks>,
    clock: &Arc<dyn Clock>,
) -> DeletionsNeeded {
    let of_backups = backup::tombstone_needs(Arc::clone(cluster), Arc::clone(backups));
    let of_etl = etl::tombstone_needs(Arc::clone(cluster));
    let of_links = replication::tombstone_needs(Arc::clone(links), Arc::clone(clock));
    Arc::new(move |record, environment| {
        let of_tasks = [of_backups(record, environment), of_etl(record, environment)].concat();
        [of_tasks, of_links(record, environment)].concat()
    })
}

fn registry_of(
    settings: &Settings,
    memory: &DatabaseMemory,
    catalog: &Arc<ServerCatalog>,
    flusher: &Arc<Flusher>,
    files: &Arc<DatabaseFiles>,
) -> DatabaseRegistry {
    let options = RegistryOptions {
        memory: memory.clone(),
        concurrent_loads_max: settings.databases.concurrent_loads_max,
        close_timeout: CLOSE_TIMEOUT,
        on_event: database_log::log,
    };
    let files = Arc::clone(files);
    let options_of = move |record: &DatabaseRecord| {
        files.opening_options_of(record).map_err(|error| error.to_string())
    };
    DatabaseRegistry::new(Arc::clone(catalog), Arc::clone(flusher), options, options_of)
}

fn open_catalog(
    settings: &Settings,
    platform: &Platform,
    memory: &MemoryPlan,
    peers: Arc<dyn Peers>,
) -> Result<Arc<ServerCatalog>, OpenError> {
    let directory = settings.data_dir.join(SYSTEM_DIRECTORY);
    let data_directory = || settings.data_dir.display().to_string();
    let system = environment_id_in(platform, &directory);
    if matches!(system, Ok(None)) && has_databases(platform, &settings.data_dir) {
        return Err(OpenError::SystemMissing { directory: data_directory() });
    }
    let mut options = EnvironmentOptions::new(directory);
    options.unflushed_bytes_max = memory.system_unflushed.bytes_max();
    options.memory_budget = Arc::clone(&memory.system_unflushed);
    let catalog = ServerCatalog::open_with(platform, options, peers);
    let failed = |source| OpenError::Catalog { directory: data_directory(), source };
    catalog.map(Arc::new).map_err(failed)
}

/// Locks out other servers and offline commands, also from databases that are not open.
fn lock_data_directory(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Box<dyn DirectoryLock>, OpenError> {
    let named = || directory.display().to_string();
    let locked = disk.create_dir_all(directory).and_then(|()| disk.lock_dir(directory));
    locked.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => OpenError::InUse { directory: named() },
        _ => {
            let (path, source) = (directory.to_path_buf(), Arc::new(error));
            let source = StorageError::Io { path, operation: "lock", source };
            OpenError::Catalog { directory: named(), source: source.into() }
        }
    })
}

/// Rejects a directory in which other users could replace files; one in which they could read them
/// causes a warning. Directories that the server creates are accessible to its user alone.
fn check_exposure(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    // A missing one will be created, and one that cannot be inspected cannot be opened either.
    let Ok(exposure) = disk.exposure(directory) else { return Ok(()) };
    let directory = directory.display().to_string();
    match exposure {
        Exposure::Private => Ok(()),
        Exposure::OpenToOthers => {
            let advice = "remove that permission: chmod go=";
            tracing::warn!(directory, advice, "other users of this machine may read the data");
            Ok(())
        }
        Exposure::WritableByAll | Exposure::OwnedByAnother { .. } => {
            Err(OpenError::Exposed { directory, exposure })
        }
    }
}
