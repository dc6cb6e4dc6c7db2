//! Scheduled backups: their definitions in the record of a database, and their runs.
//!
//! Which are due is looked up about once a second, for all databases together; each run is an operation with a thread
//! of its own. Invariant: at most one run of a task is in progress.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cluster::Cluster;
use database::{DatabaseLease, Decision, DeletionsNeeded, TombstoneNeed};
use documents::TombstoneKind;
use model::{DatabaseId, DatabaseRecord, Etag, date};
use serde_json::{Map, Value, json};
use wire::{
    BackupEncryption, BackupType, PeriodicBackup, RecordBody, ServerWideBackup,
    is_name_of_server_wide_backup, keep_cloud_secrets,
};

use super::{
    claimed_names::ClaimedNames,
    cloud::CloudStorage,
    keys::key_of_text,
    run::BackupRun,
    schedule::{self, Failures, NextBackup},
    server_wide::{ServerWideChanges, all_tasks, definitions, version_of},
    status::{self, BackupStatus, EndedRun},
};
use crate::{engine::Engine, error::EngineError, operation_thread::ShowFailure};

/// Folders in which leftovers were looked for are remembered up to this many.
const FOLDERS_MAX: usize = 1000;

/// A task of a database.
#[derive(Clone, Debug)]
pub struct BackupTask {
    /// Its definition; what is legible of it, if this server cannot follow it.
    pub definition: PeriodicBackup,
    /// Why this server cannot follow it; `None` if it can.
    pub obstacle: Option<String>,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
    /// When it was defined, in ticks of UTC.
    pub created_ticks: i64,
    /// Whether the database has it because all have it: it is not in its record.
    pub is_server_wide: bool,
}

/// How a task stands.
#[derive(Clone, Debug, Default)]
pub struct BackupTaskState {
    /// Its status as clients are shown it; `None` before the first run.
    pub status: Option<Map<String, Value>>,
    /// The next run; `None` if there is none.
    pub next: Option<NextBackup>,
    /// The run in progress.
    pub running: Option<RunningBackup>,
}

/// A run in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningBackup {
    /// The operation, one of the database's.
    pub operation: i64,
    /// When it began, in ticks of UTC.
    pub began_ticks: i64,
    /// Whether everything is backed up.
    pub is_full: bool,
}

/// A change of the tasks of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedBackupTask {
    /// The index of the change.
    pub index: u64,
    /// The task.
    pub id: u64,
}

pub(super) type TaskKey = (DatabaseId, u64);

/// The runs in progress, and which are due.
#[derive(Default)]
pub(crate) struct BackupSchedule {
    inner: Mutex<Inner>,
    pub(super) names: ClaimedNames,
    pub(super) server_wide: ServerWideChanges,
    pub(super) cloud: OnceLock<Arc<dyn CloudStorage>>,
}

#[derive(Default)]
struct Inner {
    running: HashMap<TaskKey, RunningBackup>,
    /// Runs that failed since the last that did not.
    failures: HashMap<TaskKey, Failures>,
    /// The tasks of each record, by the version of the record; they are those of this version of the server-wide ones.
    known: HashMap<DatabaseId, (u64, Arc<Vec<BackupTask>>)>,
    known_server_wide: Vec<(u64, u64)>,
    /// The folders in which leftovers were looked for, each for a database.
    folders: HashSet<(PathBuf, DatabaseId)>,
    /// The index of the shared state that `due` was made of.
    seen_index: u64,
    /// The last time at which what is due was looked up, in ticks of UTC.
    seen_ticks: i64,
    /// When each task is due, with the name of its database.
    due: Vec<(i64, TaskKey, String)>,
}

impl BackupSchedule {
    /// Has the next run look for leftovers in a folder again.
    pub(super) fn look_again_in(&self, folder: &Path, database: DatabaseId) {
        self.lock().folders.remove(&(folder.to_owned(), database));
    }

    /// Whether no run of this process has been asked before for this folder and database.
    pub(super) fn is_first_in(&self, folder: &Path, database: DatabaseId) -> bool {
        let folders = &mut self.lock().folders;
        if FOLDERS_MAX <= folders.len() {
            folders.clear();
        }
        folders.insert((folder.to_owned(), database))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks that a record defines.
pub(super) fn own_tasks(record: &DatabaseRecord) -> Vec<BackupTask> {
    let body = RecordBody::of_record(record);
    let stored = body.backup_tasks().iter().filter_map(Value::as_object);
    stored.map(|stored| task_of(stored, record.created_ticks)).collect()
}

pub(super) fn task_of(stored: &Map<String, Value>, since: i64) -> BackupTask {
    let stored = PeriodicBackup::with_names_as_written(stored);
    let followed = PeriodicBackup::read(&stored).and_then(|definition| {
        schedule::check(&definition)?;
        Ok(definition)
    });
    let (definition, obstacle) = match followed {
        Ok(definition) => (definition, None),
        Err(error) => (PeriodicBackup::legible(&stored), Some(error.message)),
    };
    let created = stored.get("CreatedAt").and_then(Value::as_str).and_then(date::parse);
    let created_ticks = created.map_or(since, |date| date.utc_ticks());
    BackupTask { definition, obstacle, stored, created_ticks, is_server_wide: false }
}

impl BackupTask {
    /// The next run; `None` if there is none.
    fn next(
        &self,
        status: Option<&BackupStatus>,
        now: i64,
        failures: Option<Failures>,
    ) -> Option<NextBackup> {
        match self.obstacle {
            Some(_) => None,
            None => schedule::next(&self.definition, status, (self.created_ticks, now), failures),
        }
    }
}

/// What incremental backups need of the deletions of a database, as a function of its record.
pub(crate) fn tombstone_needs(
    cluster: Arc<Cluster>,
    backups: Arc<BackupSchedule>,
) -> DeletionsNeeded {
    Arc::new(move |record, _| {
        let mut needs = Vec::new();
        for (task, position) in incremental_tasks(&cluster, &backups, record) {
            let holder = task.definition.name.unwrap_or_default();
            needs.extend(TombstoneKind::ALL.into_iter().map(|kind| TombstoneNeed {
                holder: holder.clone(),
                process: "PeriodicBackup",
                condition: "Running",
                kind,
                collection: None,
                known: position.last_etag,
            }));
        }
        needs
    })
}

/// How far a task has backed up.
#[derive(Clone, Copy, Default)]
struct Position {
    last_etag: Etag,
    values_index: u64,
}

/// The tasks of a database that back up what has changed, and how far they have come: nowhere during the first run,
/// after which the next is to follow it. Those that have not run need nothing yet.
fn incremental_tasks(
    cluster: &Cluster,
    backups: &BackupSchedule,
    record: &DatabaseRecord,
) -> Vec<(BackupTask, Position)> {
    let tasks = all_tasks(record, &definitions(cluster)).into_iter().filter(|task| {
        let definition = &task.definition;
        let is_followed = task.obstacle.is_none() && !definition.is_disabled;
        is_followed && definition.incremental_frequency.is_some()
    });
    let position = |task: &BackupTask| {
        let key = (record.topology_id, task.definition.id);
        // Asked first: when a run ends, its status is stored before.
        let is_running = backups.lock().running.contains_key(&key);
        let status = status::read(cluster, key.0, key.1).ok().flatten();
        let known = status
            .as_ref()
            .and_then(BackupStatus::end)
            .map(|end| Position { last_etag: end.last_etag, values_index: end.values_index });
        known.or_else(|| is_running.then(Position::default))
    };
    tasks.filter_map(|task| position(&task).map(|position| (task, position))).collect()
}

/// Definitions.
impl Engine {
    /// How a scheduled backup stands.
    ///
    /// # Errors
    /// The shared state cannot be read.
    pub fn backup_task_state(
        &self,
        record: &DatabaseRecord,
        task: &BackupTask,
    ) -> Result<BackupTaskState, EngineError> {
        let key = (record.topology_id, task.definition.id);
        let status = status::read(&self.cluster, key.0, key.1)?;
        let inner = self.backups.lock();
        let failures = inner.failures.get(&key).copied();
        let running = inner.running.get(&key).copied();
        drop(inner);
        let now = self.platform.clock.now().ticks();
        let next = task.next(status.as_ref(), now, failures);
        let configuration = &task.definition.configuration;
        let has = (configuration.folder.is_some(), configuration.bucket.is_some());
        let status = status.map(|status| status.shape(key.1, has).to_json());
        Ok(BackupTaskState { status, next, running })
    }

    /// When a scheduled backup of a database was last made, in ticks of UTC; `None` if none is known.
    ///
    /// # Errors
    /// The shared state cannot be read.
    pub fn last_backup_ticks(&self, record: &DatabaseRecord) -> Result<Option<i64>, EngineError> {
        let statuses = status::of_database(&self.cluster, record.topology_id)?;
        let last =
            |status: &BackupStatus| status.last_full_ticks().max(status.last_incremental_ticks());
        Ok(statuses.values().filter_map(last).max())
    }

    /// Defines a scheduled backup, or replaces the one with its number. Blocks.
    ///
    /// # Errors
    /// The definition cannot be followed; there is none with its number; the record cannot be written.
    pub fn put_backup_task(
        &self,
        database: &str,
        sent: &Map<String, Value>,
    ) -> Result<ChangedBackupTask, EngineError> {
        let sent = &self.with_kept_secrets(database, sent);
        let definition = PeriodicBackup::read(sent)?;
        if let Some(name) = &definition.name
            && is_name_of_server_wide_backup(name)
        {
            return Err(EngineError::Refused { message: reserved_name(name) });
        }
        schedule::check(&definition)?;
        if !definition.is_disabled {
            self.check_enabled(&definition)?;
        }
        let now = date::format(self.platform.clock.now().ticks());
        // Numbers of tasks are indexes of changes, as those of subscriptions are.
        let index = self.cluster_state().last_index()? + 1;
        let server_wide = self.server_wide_backups().iter().map(|task| task.id + 1).max();
        let mut id = definition.id;
        let written = self.decide_record_body(database, |record, body| {
            let tasks = body.backup_tasks_mut();
            let number = |task: &Value| task.as_object().map(PeriodicBackup::id_of);
            let mut stored = PeriodicBackup::with_names_as_written(sent);
            let place = tasks.iter().position(|task| number(task) == Some(definition.id));
            match (definition.id, place) {
                (0, _) => {
                    let last = tasks.iter().filter_map(number).max().unwrap_or(0);
                    id = index.max(last + 1).max(record.etag + 1).max(server_wide.unwrap_or(0));
                }
                (_, Some(_)) => {}
                (missing, None) => return Err(self.no_own_task(record, missing)),
            }
            stored.insert("TaskId".to_owned(), json!(id));
            stored.entry("Name").or_insert(Value::Null);
            if definition.name.is_none() {
                stored.insert("Name".to_owned(), json!(format!("Backup {id}")));
            }
            let created = place.map(|place| tasks[place]["CreatedAt"].clone());
            let created = created.filter(|created| !created.is_null());
            stored.insert("CreatedAt".to_owned(), created.unwrap_or_else(|| json!(now)));
            let stored = Value::Object(stored);
            match place.filter(|_| definition.id != 0) {
                Some(place) => tasks[place] = stored,
                None => tasks.push(stored),
            }
            Ok(Decision::Replace)
        })?;
        Ok(ChangedBackupTask { index: written.index, id })
    }

    /// What is sent of a task, with the secrets of the stored one in the places of those that are hidden.
    fn with_kept_secrets(&self, database: &str, sent: &Map<String, Value>) -> Map<String, Value> {
        let mut sent = sent.clone();
        let id = PeriodicBackup::id_of(&sent);
        let record = self.catalog.record(database).filter(|_| id != 0);
        let tasks = record.map(|record| own_tasks(&record)).unwrap_or_default();
        if let Some(task) = tasks.iter().find(|task| task.definition.id == id) {
            keep_cloud_secrets(&mut sent, &task.stored);
        }
        sent
    }

    /// Enables a scheduled backup, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none with this number; it cannot be enabled; the record cannot be written.
    pub fn set_backup_task_state(
        &self,
        database: &str,
        id: u64,
        is_disabled: bool,
    ) -> Result<ChangedBackupTask, EngineError> {
        let written = self.decide_record_body(database, |record, body| {
            let mut tasks = body.backup_tasks_mut().iter_mut().filter_map(Value::as_object_mut);
            let task = tasks.find(|task| PeriodicBackup::id_of(task) == id);
            let task = task.ok_or_else(|| self.no_own_task(record, id))?;
            *task = PeriodicBackup::with_names_as_written(task);
            if !is_disabled {
                self.check_enabled(&PeriodicBackup::read(task)?)?;
            }
            task.insert("Disabled".to_owned(), json!(is_disabled));
            Ok(Decision::Replace)
        })?;
        Ok(ChangedBackupTask { index: written.index, id })
    }

    /// Deletes a scheduled backup; its backups remain. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn delete_backup_task(
        &self,
        database: &str,
        id: u64,
    ) -> Result<ChangedBackupTask, EngineError> {
        let written = self.decide_record_body(database, |record, body| {
            let tasks = body.backup_tasks_mut();
            let before = tasks.len();
            let is_it = |task: &Map<String, Value>| PeriodicBackup::id_of(task) == id;
            tasks.retain(|task| !task.as_object().is_some_and(is_it));
            match tasks.len() < before {
                true => Ok(Decision::Replace),
                false => Err(self.no_own_task(record, id)),
            }
        })?;
        if let Some(record) = self.catalog.record(database) {
            status::remove(&self.cluster, record.topology_id, id)?;
        }
        Ok(ChangedBackupTask { index: written.index, id })
    }

    /// The scheduled backups of a record that is imported: those that could not run here arrive disabled. Adds to
    /// `refused` which, and why.
    pub(crate) fn imported_backup_tasks(
        &self,
        sent: &[Value],
        refused: &mut Vec<String>,
    ) -> Vec<Value> {
        let tasks = sent.iter().map(|sent| {
            let Some(stored) = sent.as_object() else { return sent.clone() };
            let BackupTask { definition, obstacle, mut stored, .. } = task_of(stored, 0);
            let enabled = match obstacle {
                Some(reason) => Err(reason),
                None => self.check_enabled(&definition).map_err(|error| error.to_string()),
            };
            if let Err(reason) = enabled
                && !definition.is_disabled
            {
                let name = definition.name.unwrap_or_else(|| definition.id.to_string());
                refused.push(format!(
                    "The scheduled backup '{name}' cannot run here, and was disabled: {reason}"
                ));
                stored.insert("Disabled".to_owned(), json!(true));
            }
            Value::Object(stored)
        });
        tasks.collect()
    }

    /// Why a task of a database cannot be changed that its record does not have.
    fn no_own_task(&self, record: &DatabaseRecord, id: u64) -> EngineError {
        let mut tasks = self.backup_tasks(record).into_iter();
        match tasks.find(|task| task.definition.id == id && task.is_server_wide) {
            Some(task) => EngineError::Refused { message: server_wide_task(id, task) },
            None => missing_task(id),
        }
    }

    pub(super) fn check_enabled(&self, definition: &PeriodicBackup) -> Result<(), EngineError> {
        let configuration = &definition.configuration;
        if let BackupEncryption::Key(text) = &configuration.encryption {
            key_of_text(text)?;
        }
        if configuration.check_destination().is_err() {
            let message = "The backup configuration is enabled without target any destinations";
            return Err(EngineError::Refused { message: message.to_owned() });
        }
        configuration.folder.iter().try_for_each(|folder| self.backup_folder(folder).map(drop))
    }

    /// Removes statuses of databases and tasks that no longer exist.
    pub(crate) fn remove_orphaned_backup_statuses(&self) {
        let server_wide = self.server_wide_backups();
        let present: HashMap<DatabaseId, Vec<u64>> = self
            .catalog
            .records()
            .iter()
            .map(|record| {
                let tasks = all_tasks(record, &server_wide);
                (record.topology_id, tasks.iter().map(|task| task.definition.id).collect())
            })
            .collect();
        let old = status::databases(&self.cluster).unwrap_or_default();
        let is_old = |(database, task): &TaskKey| {
            present.get(database).is_none_or(|tasks| !tasks.contains(task))
        };
        for (database, task) in old.into_iter().filter(is_old) {
            if let Err(error) = status::remove(&self.cluster, database, task) {
                tracing::warn!(%error, "the status of a backup that no longer exists remains");
            }
        }
    }

    /// Compare exchange is backed up to here by each task that backs up what has changed.
    pub(crate) fn values_backed_up(&self, record: &DatabaseRecord) -> Option<u64> {
        let tasks = incremental_tasks(&self.cluster, &self.backups, record);
        tasks.iter().map(|(_, position)| position.values_index).min()
    }
}

fn missing_task(id: u64) -> EngineError {
    EngineError::Refused { message: format!("Periodic backup task ID: {id} doesn't exist") }
}

fn server_wide_task(id: u64, task: BackupTask) -> String {
    let name = task.definition.name.unwrap_or_default();
    format!(
        "Can't change or delete task id: {id}, name: '{name}', because it is a server-wide backup task. Please use a \
         dedicated operation."
    )
}

fn reserved_name(name: &str) -> String {
    let prefix = ServerWideBackup::NAME_PREFIX;
    format!(
        "Can't create task: '{name}'. A regular (non server-wide) backup task name can't start with prefix '{prefix}'"
    )
}

/// Runs.
impl Engine {
    /// Begins a run of a scheduled backup; returns the id of the operation, one of the database's. If one is in
    /// progress, that is returned. `operation` is the id that the caller has chosen.
    ///
    /// # Errors
    /// There is no such task; its definition cannot be followed; there are too many operations; no thread can be
    /// started.
    pub fn begin_backup_run(
        self: &Arc<Self>,
        database: &DatabaseLease,
        id: u64,
        is_full: bool,
        build: u64,
        operation: Option<i64>,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let record = database.record();
        let task = self.backup_tasks(&record).into_iter().find(|task| task.definition.id == id);
        let task = task.ok_or_else(|| missing_task(id))?;
        if let Some(message) = task.obstacle {
            return Err(EngineError::Refused { message });
        }
        let key = (record.topology_id, id);
        let began_ticks = self.platform.clock.now().ticks();
        let operation_id = operation.unwrap_or_else(|| database.operations().next_id());
        {
            let mut inner = self.backups.lock();
            if let Some(running) = inner.running.get(&key) {
                return Ok(running.operation);
            }
            let running = RunningBackup { operation: operation_id, began_ticks, is_full };
            inner.running.insert(key, running);
        }
        let name = task.definition.name.clone();
        let run = BackupRun {
            engine: Arc::clone(self),
            database: database.clone(),
            operation_id,
            began_ticks,
            name: name.unwrap_or_else(|| format!("Backup {id}")),
            configuration: task.definition.configuration.clone(),
            task: Some(task),
            is_full,
            build,
        };
        run.begin(show_failure)?;
        Ok(operation_id)
    }

    /// Ends a run of a task, whether it could begin or not: stores its status, and notes when it may run again. Blocks.
    ///
    /// # Errors
    /// The status cannot be stored. The run counts as failed then.
    pub(super) fn end_backup_run(&self, key: TaskKey, run: EndedRun) -> Result<(), EngineError> {
        let has_failed = run.outcome.is_err();
        let stored = self
            .backup_status(key)
            .and_then(|before| Ok(status::write(&self.cluster, key.0, key.1, &before.after(run))?));
        let at_ticks = self.platform.clock.now().ticks();
        let mut inner = self.backups.lock();
        inner.running.remove(&key);
        match has_failed || stored.is_err() {
            true => {
                let count = inner.failures.get(&key).map_or(0, |before| before.count) + 1;
                inner.failures.insert(key, Failures { count, at_ticks });
            }
            false => drop(inner.failures.remove(&key)),
        }
        // When it is due again depends on its status.
        inner.seen_index = 0;
        stored
    }

    /// Begins the scheduled backups that are due. To be called about once a second. Blocks while a database is opened.
    pub fn run_due_backups(self: &Arc<Self>, build: u64, show_failure: ShowFailure) {
        let now = self.platform.clock.now().ticks();
        for (key, name) in self.due_backups(now) {
            if let Err(error) = self.run_due(key, &name, build, show_failure) {
                tracing::error!(database = name, %error, "a scheduled backup could not begin");
            }
        }
    }

    fn run_due(
        self: &Arc<Self>,
        (id, task): TaskKey,
        name: &str,
        build: u64,
        show_failure: ShowFailure,
    ) -> Result<(), EngineError> {
        let record = self.catalog.record(name);
        if record.is_some_and(|record| !self.is_responsible_for(&record)) {
            return Ok(());
        }
        let database = match self.open_if_usable(name, id) {
            Ok(Some(database)) => database,
            // It is due when it can be used again.
            Ok(None) => return Ok(()),
            Err(error) => {
                let run = EndedRun {
                    form: BackupType::default(),
                    node_tag: self.node_tag().to_string(),
                    began_ticks: self.platform.clock.now().ticks(),
                    took_ms: 0,
                    operation: 0,
                    outcome: Err(error.to_string()),
                };
                self.end_backup_run((id, task), run)?;
                return Err(error);
            }
        };
        let record = database.record();
        let mut tasks = self.backup_tasks(&record).into_iter();
        let found = tasks.find(|found| found.definition.id == task);
        let Some(found) = found else { return Ok(()) };
        let state = self.backup_task_state(&record, &found)?;
        let is_full = state.next.is_none_or(|next| next.is_full);
        self.begin_backup_run(&database, task, is_full, build, None, show_failure).map(drop)
    }

    /// The tasks that are due now and do not run, as many as may begin.
    fn due_backups(&self, now: i64) -> Vec<(TaskKey, String)> {
        let index = match self.cluster_state().last_index() {
            Ok(index) => index,
            Err(error) => {
                tracing::error!(%error, "scheduled backups could not be read");
                return Vec::new();
            }
        };
        let mut inner = self.backups.lock();
        // When the clock was set back, times that had come may lie ahead.
        if inner.seen_index != index || now < inner.seen_ticks {
            inner.due = self.all_due(&mut inner, now);
            inner.seen_index = index;
        }
        inner.seen_ticks = now;
        let room = self.settings.backups.concurrent_max.saturating_sub(inner.running.len());
        let is_due = |(ticks, key, _): &&(i64, TaskKey, String)| {
            *ticks <= now && !inner.running.contains_key(key)
        };
        let due = inner.due.iter().filter(is_due).take(room);
        due.map(|(_, key, name)| (*key, name.clone())).collect()
    }

    fn all_due(&self, inner: &mut Inner, now: i64) -> Vec<(i64, TaskKey, String)> {
        let (records, mut due) = (self.catalog.records(), Vec::new());
        let server_wide = self.server_wide_backups();
        let version = version_of(&server_wide);
        if inner.known_server_wide != version {
            inner.known.clear();
            inner.known_server_wide = version;
        }
        let mut known = HashMap::with_capacity(inner.known.len());
        for record in records {
            let id = record.topology_id;
            let tasks = match inner.known.remove(&id) {
                Some((etag, tasks)) if etag == record.etag => tasks,
                _ => Arc::new(all_tasks(&record, &server_wide)),
            };
            if !tasks.is_empty() {
                let statuses = status::of_database(&self.cluster, id).unwrap_or_default();
                self.add_due(&record, &tasks, &statuses, (inner, now), &mut due);
            }
            known.insert(id, (record.etag, tasks));
        }
        inner.known = known;
        due.sort_unstable();
        due
    }

    fn add_due(
        &self,
        record: &DatabaseRecord,
        tasks: &[BackupTask],
        statuses: &BTreeMap<u64, BackupStatus>,
        (inner, now): (&Inner, i64),
        due: &mut Vec<(i64, TaskKey, String)>,
    ) {
        if record.disabled {
            return;
        }
        for task in tasks {
            let key = (record.topology_id, task.definition.id);
            let failures = inner.failures.get(&key).copied();
            if let Some(next) = task.next(statuses.get(&key.1), now, failures) {
                due.push((next.ticks, key, record.name.as_str().to_owned()));
            }
        }
    }

    /// The status of a scheduled backup before a run.
    pub(super) fn backup_status(
        &self,
        (database, task): TaskKey,
    ) -> Result<BackupStatus, EngineError> {
        Ok(status::read(&self.cluster, database, task)?.unwrap_or_default())
    }
}
