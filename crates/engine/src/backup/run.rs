//! Runs a backup, on a thread of its own.
//!
//! All that may have to wait for something else, for the disk of the backups or for a program that gives a key, is done
//! on that thread. A run that cannot begin ends like one that fails later: its task has a status that says why.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use database::{DatabaseLease, Operation};
use model::ticks::TICKS_PER_MILLISECOND;
use platform::Disk;
use wire::{
    BackupConfiguration, backup_result::BackupResult, operation_state::OperationStatus,
    smuggler_result::MessageLevel,
};

use super::{
    cloud_place::{CloudPlace, TemporaryFolder},
    file_names::{BackupFileName, FileKind},
    keys::check_key,
    leftovers::remove_leftovers,
    place::create_folder,
    retention::remove_expired_backups,
    status::{EndedRun, WrittenRun},
    tasks::BackupTask,
    writer::{BackupWriter, WrittenBackup},
};
use crate::{
    engine::Engine,
    error::EngineError,
    operation_thread::{ShowFailure, check_wanted},
    smuggler::SmugglerProgress,
};

impl Engine {
    /// Begins to back up a database once; returns the id of the operation, which is one of the database's. `build` is
    /// the number of the build that the backup is to say it is of.
    ///
    /// # Errors
    /// The configuration has no destination, or cannot be followed; the folder is outside of the directory for backups;
    /// there are too many operations; no thread can be started.
    pub fn begin_backup(
        self: &Arc<Self>,
        database: &DatabaseLease,
        configuration: &BackupConfiguration,
        build: u64,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        check_key(&database.record(), &configuration.encryption)?;
        configuration.check_destination()?;
        configuration.folder.iter().try_for_each(|named| self.backup_folder(named).map(drop))?;
        let id = database.operations().next_id();
        let run = BackupRun {
            engine: Arc::clone(self),
            database: database.clone(),
            operation_id: id,
            began_ticks: self.platform.clock.now().ticks(),
            name: format!("One Time Backup #{id}"),
            configuration: configuration.clone(),
            task: None,
            is_full: true,
            build,
        };
        run.begin(show_failure)?;
        Ok(id)
    }
}

/// Copies what was written to a bucket.
fn upload(
    place: &CloudPlace<'_>,
    (disk, folder): (&dyn Disk, &Path),
    made: &mut WrittenBackup,
    progress: &mut SmugglerProgress,
) -> Result<(), EngineError> {
    let (Some(directory), Some(file)) = (&made.result.directory, &made.result.file) else {
        return Ok(());
    };
    let (path, shown) = (folder.join(directory).join(file), place.shown());
    progress.report(MessageLevel::Info, &format!("Uploading '{file}' to {shown}"));
    let bytes = place.upload(disk, &path, &format!("{directory}/{file}"))?;
    progress.report(MessageLevel::Info, &format!("Uploaded {bytes} bytes to {shown}"));
    made.result.uploaded_bytes = Some(bytes);
    made.result.contents = progress.end();
    Ok(())
}

/// A backup that is being made.
pub(super) struct BackupRun {
    pub(super) engine: Arc<Engine>,
    pub(super) database: DatabaseLease,
    pub(super) operation_id: i64,
    /// When it began, in ticks of UTC.
    pub(super) began_ticks: i64,
    /// For people.
    pub(super) name: String,
    pub(super) configuration: BackupConfiguration,
    /// `None` for a single backup.
    pub(super) task: Option<BackupTask>,
    /// Whether everything is to be backed up.
    pub(super) is_full: bool,
    pub(super) build: u64,
}

impl BackupRun {
    /// Begins the run on a thread of its own. If that fails, it has ended.
    pub(super) fn begin(self, show_failure: ShowFailure) -> Result<(), EngineError> {
        let what = if self.task.is_some() { "Backup of" } else { "Manual backup for" };
        let description = format!("{what} database: {}", self.database.record().name);
        let (engine, now) = (Arc::clone(&self.engine), self.engine.clock().now());
        let (id, database, run) = (self.operation_id, self.database.clone(), Arc::new(self));
        let begun = match database.operations().begin(id, description, "DatabaseBackup", now) {
            Err(_) => Err(EngineError::TooManyOperations),
            Ok(operation) => {
                let (run, running) = (Arc::clone(&run), Arc::clone(&operation));
                engine.run_operation(operation, show_failure, move || {
                    run.run(&running).map(|result| OperationStatus::BackedUp(Box::new(result)))
                })
            }
        };
        if let Err(error) = &begun {
            run.end(Err(error.to_string()))?;
        }
        begun
    }

    fn run(&self, operation: &Arc<Operation>) -> Result<BackupResult, EngineError> {
        let database = self.database.record().name.clone();
        let (database, name) = (database.as_str(), self.name.as_str());
        tracing::info!(database, name, "a backup was started");
        let clock = Arc::clone(self.engine.clock());
        let mut progress = SmugglerProgress::new(Some(Arc::clone(operation)), clock);
        // Whatever happens, the task may run again.
        let made = catch_unwind(AssertUnwindSafe(|| self.make(operation, &mut progress)));
        let made = made.unwrap_or(Err(EngineError::Panicked));
        match &made {
            Ok(made) => {
                let directory = made.result.directory.as_deref().unwrap_or_default();
                tracing::info!(database, name, directory, "a backup was made and verified");
            }
            Err(EngineError::Stopped) => tracing::info!(database, name, "a backup was stopped"),
            Err(error) => tracing::error!(database, name, %error, "a backup failed"),
        }
        let ended = match &made {
            Ok(made) => self.end(Ok(made.written.clone())),
            Err(error) => self.end(Err(error.to_string())),
        };
        let mut result = made?.result;
        ended?;
        if let Some((level, text)) = self.remove_expired(&result) {
            progress.report(level, &text);
            result.contents = progress.end();
        }
        Ok(result)
    }

    fn make(
        &self,
        operation: &Operation,
        progress: &mut SmugglerProgress,
    ) -> Result<WrittenBackup, EngineError> {
        progress.report(MessageLevel::Info, &format!("Started task: '{}'", self.name));
        let (engine, configuration) = (&*self.engine, &self.configuration);
        configuration.check_destination()?;
        let key = engine.backup_key(&self.database.record(), &configuration.encryption)?;
        let goes_on = || check_wanted(operation, &self.database);
        let bucket = configuration.bucket.as_ref();
        let place = bucket.map(|bucket| engine.cloud_place(bucket, &goes_on)).transpose()?;
        let disk = &*engine.backup_disk;
        let (folder, temporary) = match &configuration.folder {
            Some(named) => (engine.backup_folder(named)?, None),
            None => {
                let path = engine.temporary_folder(&self.temporary_name());
                (path.clone(), Some(TemporaryFolder { disk, path }))
            }
        };
        create_folder(disk, &folder)?;
        if temporary.is_none() {
            self.remove_leftovers(&folder, progress);
        }
        let writer = BackupWriter {
            engine,
            database: &self.database,
            operation,
            task: self.task.as_ref().map(|task| task.definition.id),
            form: configuration.kind,
            is_full: self.is_full,
            folder: &folder,
            place: place.as_ref(),
            is_alone: temporary.is_some(),
            key: key.as_ref(),
            build: self.build,
        };
        let mut made = writer.write(self.began_ticks, progress)?;
        made.result.is_temporary = temporary.is_some();
        if let Some(place) = &place {
            upload(place, (disk, &folder), &mut made, progress)?;
        }
        Ok(made)
    }

    /// The name of the folder for a file that is to be in a bucket alone. It is the same for all runs of a task, so that
    /// what they have written follows each other.
    fn temporary_name(&self) -> String {
        // As it is printed, an id may have a slash.
        let database = u128::from_be_bytes(self.database.record().topology_id.0);
        match &self.task {
            Some(task) => format!("{database:032x}-{}", task.definition.id),
            None => format!("{database:032x}-once-{}", self.operation_id),
        }
    }

    /// Removes what earlier processes left, once for each folder and database.
    fn remove_leftovers(&self, folder: &Path, progress: &mut SmugglerProgress) {
        let (engine, record) = (&self.engine, self.database.record());
        let (database, node_tag) = (record.name.as_str(), engine.node_tag().to_string());
        if !engine.backups.is_first_in(folder, record.topology_id) {
            return;
        }
        let (disk, claimed) = (&*engine.backup_disk, &engine.backups.names);
        let (level, text) = match remove_leftovers(disk, claimed, folder, (database, &node_tag)) {
            Ok(0) => return,
            Ok(count) => {
                tracing::info!(database, count, "unfinished files of backups were removed");
                (MessageLevel::Info, format!("Removed {count} unfinished files of earlier runs."))
            }
            Err(error) => {
                tracing::warn!(database, %error, "unfinished files of backups remain");
                engine.backups.look_again_in(folder, record.topology_id);
                (MessageLevel::Warning, format!("Unfinished files of earlier runs remain: {error}"))
            }
        };
        progress.report(level, &text);
    }

    /// Notes how the run of a task ended.
    fn end(&self, outcome: Result<WrittenRun, String>) -> Result<(), EngineError> {
        let Some(task) = &self.task else { return Ok(()) };
        let took = self.engine.clock().now().ticks().saturating_sub(self.began_ticks);
        let ended = EndedRun {
            form: self.configuration.kind,
            node_tag: self.engine.node_tag().to_string(),
            began_ticks: self.began_ticks,
            took_ms: took / TICKS_PER_MILLISECOND,
            operation: self.operation_id,
            outcome,
        };
        self.engine.end_backup_run((self.database.record().topology_id, task.definition.id), ended)
    }

    /// Removes backups that are to be kept no longer, after one of everything; returns what is to be reported of it.
    fn remove_expired(&self, result: &BackupResult) -> Option<(MessageLevel, String)> {
        let kept_for = self.task.as_ref()?.definition.kept_for?;
        let present = result.directory.as_deref()?;
        let is_full =
            result.file.as_deref().and_then(BackupFileName::parse)?.kind != FileKind::Incremental;
        if !is_full {
            return None;
        }
        let until = self.began_ticks.saturating_sub(kept_for.ticks);
        let (disk, record) = (&*self.engine.backup_disk, self.database.record());
        let name = record.name.as_str();
        let local = self.configuration.folder.as_deref().map_or(Ok(0), |folder| {
            let folder = self.engine.backup_folder(folder)?;
            Ok(remove_expired_backups(disk, &folder, name, present, until)?)
        });
        let removed = local.and_then(|local| {
            let there = self.configuration.bucket.as_ref().map_or(Ok(0), |bucket| {
                self.engine.cloud_place(bucket, &|| Ok(()))?.remove_expired(name, present, until)
            });
            there.map(|there| local + there)
        });
        match removed {
            Ok(0) => None,
            Ok(count) => Some((MessageLevel::Info, format!("Removed {count} old backups."))),
            Err(error) => {
                tracing::warn!(database = %record.name, %error, "old backups could not be removed");
                Some((MessageLevel::Warning, format!("Old backups remain: {error}")))
            }
        }
    }
}
