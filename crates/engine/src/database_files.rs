//! Where the files of each database are, and how it is opened.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use cluster::Cluster;
use commands::{CommitQueueOptions, CommitThreads, PatchLimits};
use database::{
    Activity, DatabaseOptions, DeletionsNeeded, DiskSpaceLimits, HugeDocumentLimits,
    IndexingOptions,
};
use indexing::{AutoIndexLimits, IndexingPool};
use model::{DatabaseName, DatabaseRecord};
use platform::Platform;
use script::ScriptPool;
use settings::{DatabaseSettings, Problem, Settings};
use storage::{EnvironmentOptions, environment_id_in, has_journal_of};
use wire::RecordBody;

use crate::{
    encryption_keys::{EncryptionKeys, KeyError},
    error::EngineError,
    index_builds::IndexBuilds,
    index_log,
    memory_plan::MemoryPlan,
};

/// The directory of the server's own environment, below the data directory.
pub const SYSTEM_DIRECTORY: &str = "System";
/// The directory of all databases, below the data directory.
pub const DATABASES_DIRECTORY: &str = "Databases";

/// Turns a record into the options of its database.
pub struct DatabaseFiles {
    settings: Settings,
    platform: Platform,
    cluster: Arc<Cluster>,
    /// The disk of the databases whose records say that they live in memory.
    memory: Platform,
    /// Runs the scripts of all databases.
    scripts: ScriptPool,
    /// Indexes the documents of all databases.
    indexing: IndexingPool,
    plan: Arc<MemoryPlan>,
    keys: Arc<EncryptionKeys>,
    index_builds: Arc<IndexBuilds>,
    activity: Arc<Activity>,
    /// Commits the changes of all databases.
    commit_threads: Arc<CommitThreads>,
    /// What backups need of them.
    deletions_needed: DeletionsNeeded,
}

impl DatabaseFiles {
    pub(crate) fn new(
        settings: Settings,
        platform: Platform,
        cluster: Arc<Cluster>,
        plan: Arc<MemoryPlan>,
        keys: Arc<EncryptionKeys>,
        deletions_needed: DeletionsNeeded,
    ) -> io::Result<Arc<DatabaseFiles>> {
        let mut memory = Platform::memory();
        memory.clock = Arc::clone(&platform.clock);
        memory.entropy = Arc::clone(&platform.entropy);
        let scripts = ScriptPool::with_memory(Arc::clone(&platform.clock), plan.script_bytes_max);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = settings.databases.running_indexes_max.unwrap_or(cores.max(2));
        let activity = Arc::new(Activity::new(Arc::clone(&platform.clock)));
        let indexing = IndexingPool::within(Arc::clone(&plan.indexing), &platform, threads);
        let commit_threads = CommitThreads::start(plan.commit_threads, &platform)?;
        let heap_bytes = plan.script_bytes_max as u64;
        commit_threads.draw_scripts_from(Arc::clone(&plan.script_heaps), heap_bytes);
        Ok(Arc::new(DatabaseFiles {
            settings,
            platform,
            cluster,
            memory,
            plan,
            keys,
            scripts,
            indexing,
            index_builds: Arc::default(),
            activity,
            commit_threads,
            deletions_needed,
        }))
    }

    /// Runs the scripts of all databases.
    pub fn scripts(&self) -> &ScriptPool {
        &self.scripts
    }

    /// Indexes that are being built.
    pub(crate) fn index_builds(&self) -> &IndexBuilds {
        &self.index_builds
    }

    /// The load on all databases: requests, writes and indexing.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// How the database of this record is opened, with its key if it is encrypted.
    ///
    /// # Errors
    /// It is encrypted, and its key cannot be read.
    pub fn opening_options_of(&self, record: &DatabaseRecord) -> Result<DatabaseOptions, KeyError> {
        let mut options = self.options_of(record);
        options.environment.is_key_certain = true;
        if RecordBody::of_record(record).is_encrypted() {
            let key = self.keys.key_of(record.name.as_str())?;
            options.environment.encryption_key = Some(key);
        }
        Ok(options)
    }

    /// How the database of this record is opened, without its key.
    pub fn options_of(&self, record: &DatabaseRecord) -> DatabaseOptions {
        let settings = &wire::sections_of(&record.configuration).settings;
        let mut options = self.options_with(&record.name, settings);
        self.use_former_journals(record, &mut options);
        options
    }

    /// How a database of this name with these settings in its record is opened.
    pub(crate) fn options_with(
        &self,
        name: &DatabaseName,
        settings: &BTreeMap<String, String>,
    ) -> DatabaseOptions {
        let (settings, warnings) = DatabaseSettings::from_stored(&self.settings, settings);
        for warning in warnings {
            tracing::warn!(database = name.as_str(), "{warning}");
        }
        let mut environment = EnvironmentOptions::new(self.directory(name, &settings));
        environment.journals_directory = self.journals_directory(name, &settings);
        environment.journal_bytes_max = settings.journal_bytes_max;
        let unflushed_bytes_max = settings.unflushed_bytes_max;
        environment.unflushed_bytes_max =
            unflushed_bytes_max.unwrap_or(self.plan.unflushed_bytes_max);
        environment.memory_budget = Arc::clone(&self.plan.unflushed);
        environment.transaction_budget = Arc::clone(&self.plan.transactions);
        environment.plaintext_budget = Arc::clone(&self.plan.plaintext);
        environment.plaintext_bytes_max = self.plan.plaintext_bytes_max;
        environment.slow_io_min = settings.slow_io_min;
        let in_memory = settings.run_in_memory && !self.settings.database.run_in_memory;
        let platform = if in_memory { &self.memory } else { &self.platform };
        let disk_space = DiskSpaceLimits {
            alert_bytes: settings.free_space_alert_bytes,
            alert_percent: settings.free_space_alert_percent,
            write_bytes: settings.free_space_write_bytes,
        };
        let document_bytes_max = self.settings.documents.document_bytes_max;
        let patches = PatchLimits {
            steps_max: settings.script_steps_max,
            memory_bytes_max: self.plan.script_bytes_max,
            result_bytes_max: document_bytes_max,
        };
        let queue = CommitQueueOptions { patches, document_bytes_max, ..self.plan.queue };
        let (platform, scripts) = (platform.clone(), self.scripts.clone());
        let indexing = IndexingOptions {
            pool: self.indexing.clone(),
            auto_limits: AutoIndexLimits {
                superseded_kept: settings.superseded_index_kept,
                idle_after: settings.index_idle_after,
                idle_kept: settings.idle_index_kept,
            },
            is_disabled: settings.indexing_disabled,
            on_event: {
                let (builds, clock) =
                    (Arc::clone(&self.index_builds), Arc::clone(&self.platform.clock));
                Arc::new(move |database, event| {
                    index_log::log(&builds, clock.monotonic(), database, event);
                })
            },
        };
        let huge_documents = HugeDocumentLimits {
            bytes: settings.huge_document_bytes,
            kept: settings.huge_documents_kept,
        };
        DatabaseOptions {
            is_in_memory: in_memory,
            node_tag: self.cluster.node_tag(),
            platform,
            environment,
            queue,
            commit_threads: Arc::clone(&self.commit_threads),
            disk_space,
            scripts,
            huge_documents,
            indexing,
            activity: Arc::clone(&self.activity),
            tombstones_interval: settings.tombstones_interval,
            deletions_needed: Arc::clone(&self.deletions_needed),
            on_refused: |database, reason| tracing::error!(database, "{reason}"),
        }
    }

    /// The directories that the settings in a record name.
    pub(crate) fn named_directories(&self, settings: &BTreeMap<String, String>) -> Vec<PathBuf> {
        let (settings, _) = DatabaseSettings::from_stored(&self.settings, settings);
        [settings.data_dir, settings.journals_path].into_iter().flatten().collect()
    }

    /// Whether a record names directories.
    pub(crate) fn names_directories(&self, record: &DatabaseRecord) -> bool {
        let json = record.configuration.json();
        let names = |key: &str| {
            let key = key.as_bytes();
            json.windows(key.len()).any(|part| part.eq_ignore_ascii_case(key))
        };
        let named = || self.named_directories(&wire::sections_of(&record.configuration).settings);
        // Most records name none, which is detected without parsing them.
        (names("DataDir") || names("JournalsPath")) && !named().is_empty()
    }

    fn directory(&self, name: &DatabaseName, settings: &DatabaseSettings) -> PathBuf {
        let of_all = || self.settings.data_dir.join(DATABASES_DIRECTORY);
        settings.data_dir.clone().unwrap_or_else(|| of_all().join(name.lower_cased()))
    }

    /// Below the directory that a record or the server's settings name, each database has its own.
    fn journals_directory(
        &self,
        name: &DatabaseName,
        settings: &DatabaseSettings,
    ) -> Option<PathBuf> {
        let named = settings.journals_path.as_ref().or(self.settings.journals_path.as_ref());
        named.map(|path| path.join(name.lower_cased()))
    }

    /// Earlier versions put the journals into the very directory that a record names. Where those of
    /// this database still are, they are used there until they are moved.
    fn use_former_journals(&self, record: &DatabaseRecord, options: &mut DatabaseOptions) {
        let Some(own) = &options.environment.journals_directory else { return };
        let Some(named) = own.parent() else { return };
        if !self.names_directories(record) {
            return;
        }
        let (platform, directory) = (&options.platform, &options.environment.directory);
        let is_made = platform.disk.exists(own).unwrap_or(true);
        // Anything that cannot be read cannot be opened either.
        let id = || environment_id_in(platform, directory).ok().flatten();
        if !is_made && id().is_some_and(|id| has_journal_of(platform, named, id)) {
            options.environment.journals_directory = Some(named.to_owned());
        }
    }
}

/// Rejects invalid settings of a record before they are stored. Unknown names are stored and have
/// no effect: clients send back records in which names are mangled.
///
/// # Errors
/// [`EngineError::Setting`].
pub(crate) fn check_settings(
    server: &Settings,
    database: &str,
    stored: &BTreeMap<String, String>,
) -> Result<(), EngineError> {
    let Err(error) = DatabaseSettings::from_overrides(server, stored) else {
        return Ok(());
    };
    for problem in error.problems {
        match problem {
            Problem::UnknownKey { name, nearest, .. } => {
                let nearest = nearest.unwrap_or("none");
                tracing::warn!(database, name, nearest, "a setting is unknown and has no effect");
            }
            problem => return Err(EngineError::Setting(problem)),
        }
    }
    Ok(())
}
