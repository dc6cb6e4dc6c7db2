//! Makes one backup.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use database::{DatabaseLease, Operation};
use documents::{TombstoneKind, last_removed_tombstone};
use model::ticks::{TICKS_PER_MILLISECOND, TICKS_PER_SECOND};
use platform::{Disk, Timestamp};
use security::SecretKey;
use smuggler::{DumpCompression, DumpEncoder};
use storage::ReadTransaction;
use wire::{
    BackupConfiguration, BackupEncryption, BackupType, ErrorKind, ProtocolError, SmugglerOptions,
    SmugglerType, backup_result::BackupResult, operation_state::OperationStatus,
    smuggler_result::MessageLevel,
};

use super::{
    backup_file::{BackupFile, verify_backup},
    chain::{FileId, FileLink},
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName, FileKind},
    restore_points::files_in,
    retention::remove_old,
    status::{ChainEnd, EndedRun, WrittenRun},
    tasks::BackupTask,
};
use crate::{
    engine::Engine,
    error::EngineError,
    operation_thread::{ShowFailure, check_wanted},
    smuggler::{DumpExport, ExportSince, ExportSources, SmugglerProgress, VerifiedDump},
};

/// Text that is compressed at once.
const PIECE_BYTES: usize = 64 << 10;

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
        check_form(configuration)?;
        let id = database.operations().next_id();
        let folder = configuration.destination()?.to_owned();
        let run_of = RunOf::Once { folder, encryption: configuration.encryption.clone() };
        BackupRun::begin(self, database, run_of, id, build, show_failure)
    }
}

/// Rejects what this server does not do.
pub(super) fn check_form(configuration: &BackupConfiguration) -> Result<(), ProtocolError> {
    match configuration.kind {
        BackupType::Backup => Ok(()),
        BackupType::Snapshot => {
            let message = "Snapshots are not supported yet: use the 'BackupType' Backup.";
            Err(ProtocolError::new(ErrorKind::NotSupported, message))
        }
    }
}

fn create_folder(disk: &dyn Disk, folder: &Path) -> Result<(), BackupError> {
    let created = disk.create_dir_all(folder);
    created.map_err(|error| BackupError::io(folder, "create the folder", error))
}

/// What a run is of.
pub(super) enum RunOf {
    /// A single backup of everything.
    Once {
        /// The folder as the client named it.
        folder: String,
        /// How it is encrypted.
        encryption: BackupEncryption,
    },
    /// A scheduled backup.
    Task {
        /// The task.
        task: Box<BackupTask>,
        /// Whether everything is backed up.
        is_full: bool,
    },
}

/// A backup that is being made.
pub(super) struct BackupRun {
    engine: Arc<Engine>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    operation_id: i64,
    run_of: RunOf,
    /// For people.
    name: String,
    /// Below which the folder of the backup is.
    folder: PathBuf,
    key: Option<SecretKey>,
    build: u64,
}

/// What a run has written, or found unchanged.
struct Made {
    result: BackupResult,
    written: WrittenRun,
}

impl BackupRun {
    /// Begins a run on a thread of its own.
    pub(super) fn begin(
        engine: &Arc<Engine>,
        database: &DatabaseLease,
        run_of: RunOf,
        id: i64,
        build: u64,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let (named, name, description, encryption) = match &run_of {
            RunOf::Once { folder, encryption } => {
                let name = format!("One Time Backup #{id}");
                (folder.clone(), name, "Manual backup for database", encryption)
            }
            RunOf::Task { task, .. } => {
                let definition = &task.definition;
                let folder = definition.configuration.destination()?.to_owned();
                let name = definition.name.clone();
                let name = name.unwrap_or_else(|| format!("Backup {}", definition.id));
                let encryption = &definition.configuration.encryption;
                (folder, name, "Backup of database", encryption)
            }
        };
        let key = engine.backup_key(&database.record(), encryption)?;
        let folder = engine.backup_folder(&named)?;
        create_folder(&*engine.backup_disk, &folder)?;
        let description = format!("{description}: {}", database.record().name);
        let operation = database
            .operations()
            .begin(id, description, "DatabaseBackup", engine.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        let run = BackupRun {
            engine: Arc::clone(engine),
            database: database.clone(),
            operation: Arc::clone(&operation),
            operation_id: id,
            run_of,
            name,
            folder,
            key,
            build,
        };
        engine.run_operation(operation, show_failure, move || {
            // Whatever happens, the task may run again.
            let ran = catch_unwind(AssertUnwindSafe(|| run.run()));
            let ran = ran.unwrap_or(Err(EngineError::Panicked));
            if let RunOf::Task { task, .. } = &run.run_of {
                let database = run.database.record().topology_id;
                run.engine.note_backup_ended(database, task.definition.id, ran.is_err());
            }
            ran.map(|result| OperationStatus::BackedUp(Box::new(result)))
        })?;
        Ok(id)
    }

    fn run(&self) -> Result<BackupResult, EngineError> {
        let database = self.database.record().name.clone();
        let (database, name) = (database.as_str(), self.name.as_str());
        tracing::info!(database, name, "a backup was started");
        let clock = Arc::clone(self.engine.clock());
        let began = clock.now();
        let mut progress = SmugglerProgress::new(Some(Arc::clone(&self.operation)), clock);
        let made = self.make(began.ticks(), &mut progress);
        match &made {
            Ok(made) => {
                let directory = made.result.directory.as_deref().unwrap_or_default();
                tracing::info!(database, name, directory, "a backup was made and verified");
            }
            Err(EngineError::Stopped) => tracing::info!(database, name, "a backup was stopped"),
            Err(error) => tracing::error!(database, name, %error, "a backup failed"),
        }
        match &self.run_of {
            RunOf::Once { .. } => made.map(|made| made.result),
            RunOf::Task { task, .. } => self.end_task(task, began, made, &mut progress),
        }
    }

    /// Stores how a scheduled run went, and removes backups that are too old.
    fn end_task(
        &self,
        task: &BackupTask,
        began: Timestamp,
        made: Result<Made, EngineError>,
        progress: &mut SmugglerProgress,
    ) -> Result<BackupResult, EngineError> {
        let (engine, id) = (&self.engine, task.definition.id);
        let database = self.database.record();
        let took = engine.clock().now().ticks().saturating_sub(began.ticks());
        let (result, outcome) = match made {
            Ok(made) => (Ok((made.result, made.written.kind)), Ok(made.written)),
            Err(error) => {
                let reason = error.to_string();
                (Err(error), Err(reason))
            }
        };
        let ended = EndedRun {
            form: task.definition.configuration.kind,
            node_tag: engine.node_tag().to_string(),
            began_ticks: began.ticks(),
            took_ms: took / TICKS_PER_MILLISECOND,
            operation: self.operation_id,
            is_encrypted: self.key.is_some(),
            outcome,
        };
        let before = engine.backup_status(database.topology_id, id)?;
        let status = before.after(ended);
        engine.store_backup_status(database.topology_id, id, &status)?;
        let (mut result, kind) = result?;
        if let Some(kept_for) = task.definition.kept_for
            && kind != FileKind::Incremental
            && let Some(present) = &result.directory
        {
            let until = began.ticks().saturating_sub(kept_for.ticks);
            let (disk, name) = (self.disk(), database.name.as_str());
            let text = match remove_old(disk, &self.folder, name, present, until) {
                Ok(0) => None,
                Ok(count) => Some((MessageLevel::Info, format!("Removed {count} old backups."))),
                Err(error) => {
                    tracing::warn!(database = name, %error, "old backups could not be removed");
                    Some((MessageLevel::Warning, format!("Old backups remain: {error}")))
                }
            };
            if let Some((level, text)) = text {
                progress.report(level, &text);
                result.contents = progress.end();
            }
        }
        Ok(result)
    }

    fn make(&self, ticks: i64, progress: &mut SmugglerProgress) -> Result<Made, EngineError> {
        progress.report(MessageLevel::Info, &format!("Started task: '{}'", self.name));
        let record = self.database.record();
        // Read before the documents: a value that is changed in between is backed up twice and not never.
        let values = self.database.values();
        let values_index = values.last_change()?;
        let tx = self.database.read();
        let last = documents::progress(&tx)?;
        let before = self.before(&tx, progress)?;
        let kind = if before.is_some() { FileKind::Incremental } else { FileKind::Full };
        let what = if before.is_some() { "an incremental" } else { "a full" };
        progress.report(MessageLevel::Info, &format!("Started {what} backup"));
        if let Some(end) = &before
            && (end.last_etag, end.values_index, end.record_index)
                == (last.last_etag, values_index, record.etag)
        {
            progress.report(MessageLevel::Info, "Nothing has changed since the last backup.");
            let result = BackupResult { contents: progress.end(), ..BackupResult::default() };
            return Ok(Made { result, written: WrittenRun { kind, end: end.clone() } });
        }
        let folder = match &before {
            Some(end) => PathBuf::from(&end.directory),
            None => self.new_folder(ticks)?,
        };
        let end = ChainEnd {
            directory: folder.display().to_string(),
            file: self.new_name(&folder, kind, ticks)?.to_string(),
            file_id: self.new_id(),
            files: before.as_ref().map_or(0, |end| end.files) + 1,
            last_etag: last.last_etag,
            values_index,
            record_index: record.etag,
            change_vector: last.change_vector.to_string(),
            point: self.database.environment().point_of(&tx)?,
            key: self.fingerprint(),
        };
        let link = FileLink {
            id: end.file_id,
            name: end.file.clone(),
            follows: before.as_ref().map(|end| (end.file_id, end.file.clone())),
            last_etag: end.last_etag,
            last_index: end.values_index,
        };
        let since = before.map(|end| ExportSince {
            etag: end.last_etag,
            values_index: end.values_index,
            values,
        });
        let sources = ExportSources {
            build_version: self.build,
            record,
            agreed: self.engine.cluster_state(),
            backup_file: Some(link.to_json()),
            since,
            now_ticks: self.engine.clock().now().ticks(),
        };
        let written = self.write(&tx, &sources, &folder, &end.file, progress);
        drop(tx);
        if let Err(error) = written {
            // Only the folder of this run is empty.
            drop(self.disk().remove_empty_dir(&folder));
            return Err(error);
        }
        let directory = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let (contents, file) = (progress.end(), Some(end.file.clone()));
        let result = BackupResult { contents, is_snapshot: false, directory, file };
        Ok(Made { result, written: WrittenRun { kind, end } })
    }

    /// Where the files of the last run end, if this one need only back up what has changed since.
    fn before(
        &self,
        tx: &ReadTransaction,
        progress: &mut SmugglerProgress,
    ) -> Result<Option<ChainEnd>, EngineError> {
        let RunOf::Task { task, is_full: false } = &self.run_of else { return Ok(None) };
        let database = self.database.record().topology_id;
        let status = self.engine.backup_status(database, task.definition.id)?;
        let reason = match status.end() {
            Some(end) => match self.obstacle(tx, end)? {
                None => return Ok(Some(end.clone())),
                Some(reason) => reason,
            },
            None => "there is no full backup yet",
        };
        let text = format!("Everything is backed up, because {reason}.");
        progress.report(MessageLevel::Info, &text);
        Ok(None)
    }

    /// Why nothing may follow the files that end there; `None` if it may.
    fn obstacle(
        &self,
        tx: &ReadTransaction,
        end: &ChainEnd,
    ) -> Result<Option<&'static str>, EngineError> {
        let environment = self.database.environment();
        let is_vouched = match &end.point {
            Some(point) => environment.vouches_for(point)?.is_ok(),
            None => false,
        };
        let are_deletions_kept = TombstoneKind::ALL.into_iter().try_fold(true, |all, kind| {
            Ok::<_, EngineError>(all && last_removed_tombstone(tx, kind, None)? <= end.last_etag)
        })?;
        let folder = Path::new(&end.directory);
        Ok(match () {
            () if !is_vouched => Some("the database has other files than then"),
            () if self.fingerprint() != end.key => Some("its key is another one"),
            () if !folder.starts_with(&self.folder) => Some("its folder is another one"),
            () if !self.is_complete(end) => Some("files of the last one are missing"),
            () if !are_deletions_kept => Some("deletions since the last one are forgotten"),
            () => None,
        })
    }

    /// Whether all files of a backup are there, and nothing follows them, as far as their names tell.
    fn is_complete(&self, end: &ChainEnd) -> bool {
        let contents = files_in(self.disk(), Path::new(&end.directory));
        let newest = contents.ok().and_then(|mut contents| contents.backups.pop());
        newest.is_some_and(|newest| {
            let last = newest.files.last().map(ToString::to_string);
            last.as_ref() == Some(&end.file) && newest.files.len() as u64 == end.files
        })
    }

    /// Of the key. It is bound to the task: statuses do not tell that two of them have the same one.
    fn fingerprint(&self) -> Option<String> {
        let task = match &self.run_of {
            RunOf::Once { .. } => 0,
            RunOf::Task { task, .. } => task.definition.id,
        };
        let name = format!("{}/{task}", self.database.record().topology_id);
        self.key.as_ref().map(|key| key.fingerprint(&name))
    }

    fn new_id(&self) -> FileId {
        let mut bytes = [0; 16];
        self.engine.platform.entropy.fill(&mut bytes);
        FileId(u128::from_le_bytes(bytes))
    }

    fn disk(&self) -> &dyn Disk {
        &*self.engine.backup_disk
    }

    /// Creates the folder of the backup, durably. Its name is that of a later second if another backup of the database
    /// has begun in this one: they must not get into one folder.
    fn new_folder(&self, ticks: i64) -> Result<PathBuf, EngineError> {
        let mut name = BackupFolderName {
            ticks,
            database: self.database.record().name.as_str().to_owned(),
            node_tag: self.engine.node_tag().to_string(),
            is_snapshot: false,
        };
        let _creating = self.engine.creating.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let folder = self.folder.join(name.to_string());
            let exists = self.disk().exists(&folder);
            if !exists.map_err(|error| BackupError::io(&folder, "read", error))? {
                create_folder(self.disk(), &folder)?;
                return Ok(folder);
            }
            name.ticks += TICKS_PER_SECOND;
        }
    }

    /// Writes a file of the backup into its folder.
    fn write(
        &self,
        tx: &ReadTransaction,
        sources: &ExportSources,
        folder: &Path,
        name: &str,
        progress: &mut SmugglerProgress,
    ) -> Result<(), EngineError> {
        let mut file = BackupFile::create(self.disk(), folder.join(name))?;
        let elements = self.write_dump(tx, sources, &mut file, progress)?;
        let bytes = file.bytes();
        let verified: VerifiedDump = file.complete(|file| self.verify(file, name, elements))?;
        let (elements, contents) = (verified.elements(), verified.contents);
        let text = format!(
            "Wrote and verified '{name}': {bytes} bytes with {elements} elements, {contents} of them contents of \
             attachments."
        );
        progress.report(MessageLevel::Info, &text);
        Ok(())
    }

    /// The name of a new file. Names give the order in which files are restored, so it is later than that of every
    /// file in the folder, also if the clock was set back.
    fn new_name(
        &self,
        folder: &Path,
        kind: FileKind,
        ticks: i64,
    ) -> Result<BackupFileName, EngineError> {
        let names = self.disk().list(folder);
        let names = names.map_err(|error| BackupError::io(folder, "list", error))?;
        let newest = names.iter().filter_map(|name| BackupFileName::parse(name)).max();
        let least = newest.map_or(ticks, |newest| newest.ticks + TICKS_PER_SECOND);
        let is_encrypted = self.key.is_some();
        Ok(BackupFileName { ticks: ticks.max(least), number: 0, kind, is_encrypted })
    }

    /// Writes all sections; returns how many elements they have.
    fn write_dump(
        &self,
        tx: &ReadTransaction,
        sources: &ExportSources,
        file: &mut BackupFile<'_>,
        progress: &mut SmugglerProgress,
    ) -> Result<u64, EngineError> {
        let options = options_of_backup();
        let failed = |error| BackupError::io(&self.folder, "compress the backup in", error);
        let mut encoder = Some(DumpEncoder::new(DumpCompression::Zstd).map_err(failed)?);
        let (mut text, mut coded) = (Vec::with_capacity(2 * PIECE_BYTES), Vec::new());
        let mut ready = Vec::new();
        let mut encryptor =
            self.key.as_ref().map(|key| self.engine.begin_encryption(key, &mut ready));
        let mut export =
            DumpExport::begin(&self.engine, tx.clone(), sources, &options, &[], &mut text)?;
        loop {
            let has_more = export.step(progress, &mut text)?;
            if has_more && text.len() < PIECE_BYTES {
                continue;
            }
            self.check_wanted()?;
            if let Some(encoder) = &mut encoder {
                encoder.write(&text, &mut coded).map_err(failed)?;
            }
            text.clear();
            if !has_more && let Some(encoder) = encoder.take() {
                encoder.finish(&mut coded).map_err(failed)?;
            }
            match &mut encryptor {
                Some(encryptor) => encryptor.write(&coded, &mut ready),
                None => ready.append(&mut coded),
            }
            coded.clear();
            if !has_more && let Some(encryptor) = encryptor.take() {
                encryptor.finish(&mut ready);
            }
            file.write(&ready)?;
            ready.clear();
            if !has_more {
                return Ok(export.elements());
            }
        }
    }

    fn verify(
        &self,
        file: super::SequentialFile,
        name: &str,
        elements: u64,
    ) -> Result<VerifiedDump, EngineError> {
        let mut goes_on = |_| self.check_wanted().is_ok();
        let key = self.key.as_ref().map(|key| &*key.0);
        let verified = verify_backup(file, name, key, &mut goes_on);
        self.check_wanted()?;
        let verified = verified?;
        if verified.elements() == elements {
            return Ok(verified);
        }
        let found = verified.elements();
        let detail = format!("{elements} elements were written, and {found} were read back");
        Err(BackupError::Untrue { file: name.to_owned(), detail }.into())
    }

    fn check_wanted(&self) -> Result<(), EngineError> {
        check_wanted(&self.operation, &self.database)
    }
}

/// Everything that a dump can have. Documents that indexes write are left out: the indexes write them again.
fn options_of_backup() -> SmugglerOptions {
    let mut options = SmugglerOptions::default();
    options.types.extend([SmugglerType::Tombstones, SmugglerType::CompareExchangeTombstones]);
    options
}
