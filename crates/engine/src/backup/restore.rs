//! Makes a new database of a backup.
//!
//! The database exists from the beginning, with a record that says that it is being restored: only this part may use
//! it then. Invariant: it is either restored completely or removed, also if the server ends in between: the next start
//! removes what was not completed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use database::{DatabaseLease, NewDatabase, Operation};
use model::{DatabaseId, DatabaseLockMode, DatabaseName};
use security::SecretKey;
use serde_json::{Map, Value, json};
use smuggler::DUMP_KEY_BYTES;
use wire::{
    BackupEncryption, RecordBody, RestoreConfiguration, RestoreSource, S3Settings, SmugglerOptions,
    SmugglerType, backup_result::RestoreResult, operation_state::OperationStatus,
    smuggler_result::MessageLevel,
};

use super::{
    backup_file::{SequentialFile, open_plain, open_text},
    chain::check_chain,
    cloud_place::TemporaryFolder,
    error::BackupError,
    file_names::{BackupFileName, FileKind},
    keys::key_of_text,
    place::create_folder,
    restore_points::{BackupFiles, files_in},
    snapshot::{dump_of, open_snapshot},
};
use crate::{
    engine::Engine,
    error::EngineError,
    operation_thread::{ShowFailure, check_wanted},
    smuggler::{DumpLoad, LoadSource, RecordUse, SmugglerProgress},
};

/// The reason given to requests for the database in the meantime.
pub(crate) const LOCKED_REASON: &str = "it is being restored";
/// The property of a record that is applied first: documents are stored compressed from the beginning.
const COMPRESSION: &str = "DocumentsCompression";

impl Engine {
    /// Begins to restore a backup into a new database; returns the id of the operation, which is one of the server's.
    ///
    /// # Errors
    /// There is a database of that name, or it cannot have that name; the backup is outside of the directory for backups,
    /// or does not exist; there are too many operations; no thread can be started.
    pub fn begin_restore(
        self: &Arc<Self>,
        configuration: RestoreConfiguration,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let name = DatabaseName::new(&configuration.database);
        let name = name.map_err(|error| EngineError::Refused { message: error.to_string() })?;
        if self.catalog.record(name.as_str()).is_some() {
            let message =
                format!("Cannot restore data to an existing database named {}", name.as_str());
            return Err(BackupError::NothingToRestore { message }.into());
        }
        let key_text = match (&configuration.encryption, &configuration.database_key) {
            (BackupEncryption::Key(text), _) => Some(text),
            (BackupEncryption::DatabaseKey, Some(text)) => Some(text),
            (BackupEncryption::DatabaseKey, None) => {
                let message = "The key of the database cannot be used: name it in 'EncryptionKey'.";
                return Err(EngineError::Refused { message: message.to_owned() });
            }
            (BackupEncryption::None, _) => None,
        };
        let key = key_text.map(|text| key_of_text(text)).transpose()?;
        if let Some(text) = &configuration.database_key {
            key_of_text(text)?;
        }
        let id = self.operations.next_id();
        let folder = match &configuration.source {
            RestoreSource::Local => self.present_folder(&configuration.location)?,
            RestoreSource::S3(_) => self.temporary_folder(&format!("restore-{id}")),
        };
        let description = format!("Database restore: {}", name.as_str());
        let operation = self
            .operations
            .begin(id, description, "DatabaseRestore", self.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        let restore = Restore {
            engine: Arc::clone(self),
            operation: Arc::clone(&operation),
            name,
            folder,
            key,
            configuration,
        };
        self.run_operation(operation, show_failure, move || {
            restore.run().map(|result| OperationStatus::Restored(Box::new(result)))
        })?;
        Ok(id)
    }

    fn present_folder(&self, named: &str) -> Result<PathBuf, EngineError> {
        let folder = self.backup_folder(named)?;
        let exists = self.backup_disk.exists(&folder);
        match exists.map_err(|error| BackupError::io(&folder, "read", error))? {
            true => Ok(folder),
            false => {
                let message = format!("Backup location doesn't exist, path: {}", folder.display());
                Err(BackupError::NothingToRestore { message }.into())
            }
        }
    }

    /// Removes databases that an earlier process began to restore and did not complete.
    pub(crate) fn remove_unfinished_restores(&self) {
        for record in self.catalog.records() {
            if wire::sections_of(&record.configuration).is_restoring {
                let database = record.name.as_str();
                tracing::warn!(
                    database,
                    "a restore was interrupted; what there is of it is removed"
                );
                remove(self, database, record.topology_id);
            }
        }
    }
}

/// Removes what was not completed, and nothing else that has its name by now.
fn remove(engine: &Engine, database: &str, id: DatabaseId) {
    if let Err(error) = engine.delete_unfinished_restore(database, id) {
        tracing::error!(database, %error, "what a restore has begun could not be removed");
    }
}

fn check_operation(operation: &Operation) -> Result<(), EngineError> {
    match operation.should_stop() {
        true => Err(EngineError::Stopped),
        false => Ok(()),
    }
}

/// A restore that is running.
struct Restore {
    engine: Arc<Engine>,
    operation: Arc<Operation>,
    name: DatabaseName,
    folder: PathBuf,
    /// Of the backup.
    key: Option<SecretKey>,
    configuration: RestoreConfiguration,
}

impl Restore {
    fn run(&self) -> Result<RestoreResult, EngineError> {
        let database = self.name.as_str();
        let folder = self.folder.display().to_string();
        tracing::info!(database, folder, "a restore was started");
        let clock = Arc::clone(self.engine.clock());
        let mut progress = SmugglerProgress::new(Some(Arc::clone(&self.operation)), clock);
        let restored = self.restore(&mut progress);
        match &restored {
            Ok(result) => {
                tracing::info!(database, files = result.files, "a database was restored");
            }
            Err(EngineError::Stopped) => tracing::info!(database, "a restore was stopped"),
            Err(error) => tracing::error!(database, %error, "a restore failed"),
        }
        restored
    }

    fn restore(&self, progress: &mut SmugglerProgress) -> Result<RestoreResult, EngineError> {
        let _temporary = match &self.configuration.source {
            RestoreSource::Local => None,
            RestoreSource::S3(bucket) => Some(self.download(bucket, progress)?),
        };
        let backup = self.chosen()?;
        let id = self.create()?;
        let restored = self.fill(&backup, progress);
        if restored.is_err() {
            remove(&self.engine, self.name.as_str(), id);
        }
        let data_directory = restored?.environment().options().directory.display().to_string();
        let files = backup.files.len() as u64;
        let contents = progress.end();
        let is_snapshot = backup.begins_with_snapshot();
        Ok(RestoreResult { contents, is_snapshot, data_directory, files })
    }

    /// Copies the files that are needed from a bucket into the folder.
    fn download(
        &self,
        bucket: &S3Settings,
        progress: &mut SmugglerProgress,
    ) -> Result<TemporaryFolder<'_>, EngineError> {
        let disk = &*self.engine.backup_disk;
        create_folder(disk, &self.folder)?;
        let temporary = TemporaryFolder { disk, path: self.folder.clone() };
        let operation = &*self.operation;
        let goes_on = || check_operation(operation);
        let place = self.engine.cloud_place(bucket, &goes_on)?;
        let last = self.configuration.last_file.as_deref();
        let last = last.and_then(|last| BackupFileName::parse(last.rsplit('/').next()?));
        for name in place.names_in("")? {
            let parsed = BackupFileName::parse(&name);
            if parsed.is_none_or(|parsed| last.is_some_and(|last| last < parsed)) {
                continue;
            }
            let text = format!("Downloading '{name}' from {}", place.shown());
            progress.report(MessageLevel::Info, &text);
            place.download(disk, &name, &self.folder.join(&name))?;
        }
        Ok(temporary)
    }

    /// The files that are restored.
    fn chosen(&self) -> Result<BackupFiles, EngineError> {
        let disk = &*self.engine.backup_disk;
        let mut contents = files_in(disk, &self.folder)?;
        let folder = self.folder.display();
        let nothing = |message: String| BackupError::NothingToRestore { message };
        let without_full = contents.without_full_text(&self.folder);
        let chosen = match (&self.configuration.last_file, without_full) {
            (None, Some(reason)) => {
                let hint = "Name the file to restore in 'LastFileNameToRestore' to leave it out.";
                return Err(nothing(format!("{reason} {hint}")).into());
            }
            (None, None) => contents.backups.pop(),
            (Some(last), without_full) => {
                let name = Path::new(last).file_name().unwrap_or_default().to_string_lossy();
                let is_last = |file: &BackupFileName| file.to_string() == name;
                if let Some(reason) = without_full
                    && contents.without_full.iter().any(is_last)
                {
                    return Err(nothing(reason).into());
                }
                let found =
                    contents.backups.into_iter().find(|backup| backup.files.iter().any(is_last));
                let mut found = found
                    .ok_or_else(|| nothing(format!("There is no backup '{name}' in {folder}")))?;
                let position = found.files.iter().position(is_last).unwrap_or_default();
                found.files.truncate(position + 1);
                Some(found)
            }
        };
        let chosen = chosen.ok_or_else(|| {
            nothing(format!("No files to restore from the backup location, path: {folder}"))
        })?;
        let lacks_key = |file: &&BackupFileName| file.is_encrypted && self.key.is_none();
        if let Some(file) = chosen.files.iter().find(lacks_key) {
            return Err(nothing(format!("'{file}' is encrypted, and its key is missing")).into());
        }
        check_chain(disk, &chosen, self.key.as_ref())?;
        Ok(chosen)
    }

    /// Creates the database, with its key if it is to be encrypted.
    fn create(&self) -> Result<DatabaseId, EngineError> {
        let key = self.configuration.database_key.as_ref().map(|text| key_of_text(text));
        let created =
            self.engine.create_restored_database(self.new_database(), key.transpose()?.as_ref());
        created.map(|created| created.record.topology_id)
    }

    fn new_database(&self) -> NewDatabase {
        let name = self.name.clone();
        let mut body =
            RecordBody::read(json!({"DatabaseName": name.as_str()}).to_string().as_bytes());
        if let Some(directory) = &self.configuration.data_directory {
            body.put("Settings", json!({"DataDir": directory}));
        }
        if self.configuration.database_key.is_some() {
            body.put("Encrypted", json!(true));
        }
        body.set_restoring(true);
        let body = body.to_json();
        NewDatabase { name, disabled: false, topology: None, body, request_id: None }
    }

    fn fill(
        &self,
        backup: &BackupFiles,
        progress: &mut SmugglerProgress,
    ) -> Result<DatabaseLease, EngineError> {
        if let Some(first) = backup.files.first().filter(|_| backup.begins_with_snapshot()) {
            progress.report(MessageLevel::Info, &format!("Unpacking '{first}'"));
            self.unpack(backup, first)?;
        }
        let database = self.engine.open_blocking(self.name.as_str())?;
        if backup.begins_with_snapshot() {
            let goes_on = || check_wanted(&self.operation, &database);
            self.engine.delete_outputs(&database, &goes_on)?;
        }
        let mut record = None;
        for (position, file) in backup.files.iter().enumerate() {
            let (number, count) = (position + 1, backup.files.len());
            progress.report(MessageLevel::Info, &format!("Restoring file {number}/{count}"));
            let found = self.load(&database, backup, file, number == count, progress)?;
            record = found.or(record);
            if let Some(record) = &record
                && position == 0
                && let Some(compression) = record.get(COMPRESSION)
            {
                let only = Map::from_iter([(COMPRESSION.to_owned(), compression.clone())]);
                self.apply(&only, progress)?;
            }
        }
        let lock_mode = record.map(|record| self.apply(&record, progress)).transpose()?.flatten();
        // In one step: what is locked cannot be removed if the restore ends before it is complete.
        self.engine.change_record_body(self.name.as_str(), |body| {
            if let Some(mode) = lock_mode {
                body.set_lock_mode(mode);
            }
            body.set_restoring(false);
        })?;
        Ok(database)
    }

    /// Makes the files of the database of a snapshot, while nobody can open it.
    fn unpack(&self, backup: &BackupFiles, file: &BackupFileName) -> Result<(), EngineError> {
        let (name, path) = (file.to_string(), backup.folder.join(file.to_string()));
        let failed = |error| BackupError::io(&path, "read", error);
        let opened = SequentialFile::open(&*self.engine.backup_disk, &path).map_err(failed)?;
        let plain = open_plain(opened, self.key_of(file)).map_err(failed)?;
        let goes_on = || check_operation(&self.operation);
        let (engine, database) = (&self.engine, self.name.as_str());
        engine.while_closed(database, LOCKED_REASON, || {
            engine.unpack_snapshot(database, plain, &name, &goes_on)
        })
    }

    fn key_of(&self, file: &BackupFileName) -> Option<&[u8; DUMP_KEY_BYTES]> {
        self.key.as_ref().filter(|_| file.is_encrypted).map(|key| &*key.0)
    }

    fn load(
        &self,
        database: &DatabaseLease,
        backup: &BackupFiles,
        file: &BackupFileName,
        is_last: bool,
        progress: &mut SmugglerProgress,
    ) -> Result<Option<Map<String, Value>>, EngineError> {
        let name = file.to_string();
        let path = backup.folder.join(&name);
        let failed = |error| BackupError::io(&path, "read", error);
        let opened = SequentialFile::open(&*self.engine.backup_disk, &path).map_err(failed)?;
        let key = self.key_of(file);
        let options = self.options(is_last);
        let source =
            LoadSource { name: &name, options, keeps_record: true, replaces_counters: true };
        let (engine, operation) = (&self.engine, &*self.operation);
        if file.kind == FileKind::Snapshot {
            let mut snapshot = open_snapshot(opened, key).map_err(failed)?;
            let mut dump = dump_of(&mut snapshot).map_err(failed)?;
            return DumpLoad::load(engine, database, operation, source, progress, &mut dump);
        }
        let mut text = open_text(opened, key).map_err(failed)?;
        DumpLoad::load(engine, database, operation, source, progress, &mut *text)
    }

    /// What is restored of a file. The newest has all definitions, and what they were before does not matter.
    fn options(&self, is_last: bool) -> SmugglerOptions {
        let mut options = SmugglerOptions {
            include_artificial: true,
            skip_revision_creation: true,
            ..SmugglerOptions::default()
        };
        options.types.extend([SmugglerType::Tombstones, SmugglerType::CompareExchangeTombstones]);
        options.types.retain(|kind| match kind {
            SmugglerType::Indexes => is_last && !self.configuration.skips_indexes,
            SmugglerType::Subscriptions => is_last,
            _ => true,
        });
        options
    }

    /// Applies the record of a backup, but for the lock mode, which it returns; reports what was left out, and why.
    fn apply(
        &self,
        record: &Map<String, Value>,
        progress: &mut SmugglerProgress,
    ) -> Result<Option<DatabaseLockMode>, EngineError> {
        let use_of = RecordUse::Restore { disables_tasks: self.configuration.disables_tasks };
        let options = SmugglerOptions::default();
        let applied = self.engine.import_record(self.name.as_str(), record, &options, use_of)?;
        for refused in &applied.refused {
            progress.report(MessageLevel::Warning, refused);
        }
        Ok(applied.lock_mode)
    }
}
