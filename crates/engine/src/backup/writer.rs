//! Writes a file of a backup: decides what it follows, and gives it a name and a folder.

use std::path::{Path, PathBuf};

use database::{DatabaseLease, Operation};
use documents::{TombstoneKind, last_removed_tombstone};
use model::ticks::TICKS_PER_SECOND;
use platform::Disk;
use security::SecretKey;
use smuggler::{DumpCompression, DumpEncoder};
use storage::ReadTransaction;
use wire::{
    BackupType, SmugglerOptions, SmugglerType, backup_result::BackupResult,
    smuggler_result::MessageLevel,
};

use super::{
    backup_file::{BackupFile, SealedFile, SequentialFile},
    chain::{FileId, FileLink},
    claimed_names::ClaimedName,
    cloud_place::CloudPlace,
    error::BackupError,
    file_names::{BackupFileName, BackupFolderName, FileKind},
    place::create_folder,
    restore_points::contents_of,
    status::{ChainEnd, WrittenRun},
    verify::verify_backup,
};
use crate::{
    engine::Engine,
    error::EngineError,
    operation_thread::check_wanted,
    smuggler::{
        DumpExport, ExportSince, ExportSources, SmugglerProgress, VerifiedDump,
        hash_of_counters_and_positions,
    },
};

/// Text that is compressed at once.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// What a file of a backup is made of, and where.
pub(super) struct BackupWriter<'r> {
    pub(super) engine: &'r Engine,
    pub(super) database: &'r DatabaseLease,
    pub(super) operation: &'r Operation,
    /// The number of the task; `None` for a single backup.
    pub(super) task: Option<u64>,
    /// What a backup of everything is.
    pub(super) form: BackupType,
    /// Whether everything is to be backed up.
    pub(super) is_full: bool,
    /// Below which the folder of the backup is.
    pub(super) folder: &'r Path,
    /// Where the files are in a bucket.
    pub(super) place: Option<&'r CloudPlace<'r>>,
    /// Whether the files so far are there alone, and not in the folder.
    pub(super) is_alone: bool,
    pub(super) key: Option<&'r SecretKey>,
    /// The number of the build that the file says it is of.
    pub(super) build: u64,
}

/// What was written, or found unchanged.
pub(super) struct WrittenBackup {
    pub(super) result: BackupResult,
    pub(super) written: WrittenRun,
}

impl BackupWriter<'_> {
    /// Writes a file, unless nothing has changed. `ticks` is when the run began.
    pub(super) fn write(
        &self,
        ticks: i64,
        progress: &mut SmugglerProgress,
    ) -> Result<WrittenBackup, EngineError> {
        let record = self.database.record();
        // Read before the documents: what is changed in between is backed up twice and not never.
        let values = self.database.values();
        // Forgetting a deletion takes the last change back; what was backed up once stays so.
        let forgotten_index = values.last_forgotten_deletion()?;
        let values_index = values.last_change()?.max(forgotten_index);
        let agreed = self.engine.cluster_state();
        let agreed_hash = hash_of_counters_and_positions(&agreed, record.topology_id)?;
        let tx = self.database.read();
        let last_etag = documents::progress(&tx)?.last_etag;
        let before = self.before(&tx, forgotten_index, progress)?;
        let (kind, what) = match (&before, self.form) {
            (Some(_), _) => (FileKind::Incremental, "an incremental backup"),
            (None, BackupType::Backup) => (FileKind::Full, "a full backup"),
            (None, BackupType::Snapshot) => (FileKind::Snapshot, "a snapshot backup"),
        };
        progress.report(MessageLevel::Info, &format!("Started {what}"));
        if let Some(end) = &before
            && (end.last_etag, end.values_index, end.record_index)
                == (last_etag, values_index, record.etag)
            && end.agreed_hash.as_ref() == Some(&agreed_hash)
        {
            progress.report(MessageLevel::Info, "Nothing has changed since the last backup.");
            let result = BackupResult { contents: progress.end(), ..BackupResult::default() };
            return Ok(WrittenBackup { result, written: WrittenRun { kind, end: end.clone() } });
        }
        let (folder, _claimed) = match &before {
            Some(end) => {
                let folder = PathBuf::from(&end.directory);
                if self.is_alone {
                    create_folder(self.disk(), &folder)?;
                }
                (folder, None)
            }
            None => self.new_folder(ticks).map(|(folder, claimed)| (folder, Some(claimed)))?,
        };
        let name = self.new_name(&folder, kind, ticks)?.to_string();
        let files = before.as_ref().map_or(0, |end| end.files) + 1;
        let indexes = (values_index, record.etag, agreed_hash);
        let end = self.end_of((&folder, name), files, &tx, indexes)?;
        let sources = ExportSources {
            build_version: self.build,
            record,
            agreed,
            backup_file: Some(link_of(&end, before.as_ref()).to_json()),
            since: before.map(|end| ExportSince {
                etag: end.last_etag,
                values_index: end.values_index,
                values,
            }),
            now_ticks: self.engine.clock().now().ticks(),
        };
        let written = match kind {
            FileKind::Snapshot => {
                drop(tx);
                self.write_snapshot(&sources, &folder, &end.file, progress)
            }
            FileKind::Full | FileKind::Incremental => {
                self.write_and_verify(&tx, &sources, &folder, &end.file, progress).map(|()| tx)
            }
        };
        let end = match written.and_then(|tx| self.moved_to(end, &tx)) {
            Ok(end) => end,
            Err(error) => {
                // Only the folder of this run is empty.
                drop(self.disk().remove_empty_dir(&folder));
                return Err(error);
            }
        };
        let directory = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let (contents, file) = (progress.end(), Some(end.file.clone()));
        let is_snapshot = kind == FileKind::Snapshot;
        let result =
            BackupResult { contents, is_snapshot, directory, file, ..BackupResult::default() };
        Ok(WrittenBackup { result, written: WrittenRun { kind, end } })
    }

    /// Where the files end with a new one, the last of `files`.
    fn end_of(
        &self,
        (folder, name): (&Path, String),
        files: u64,
        tx: &ReadTransaction,
        (values_index, record_index, agreed_hash): (u64, u64, String),
    ) -> Result<ChainEnd, EngineError> {
        let last = documents::progress(tx)?;
        Ok(ChainEnd {
            directory: folder.display().to_string(),
            file: name,
            file_id: self.new_id(),
            files,
            last_etag: last.last_etag,
            values_index,
            record_index,
            agreed_hash: Some(agreed_hash),
            change_vector: last.change_vector.to_string(),
            point: self.database.environment().point_of(tx)?,
            key: self.fingerprint(),
        })
    }

    /// The same end, if the last file has this state.
    fn moved_to(&self, end: ChainEnd, tx: &ReadTransaction) -> Result<ChainEnd, EngineError> {
        let last = documents::progress(tx)?;
        Ok(ChainEnd {
            last_etag: last.last_etag,
            change_vector: last.change_vector.to_string(),
            point: self.database.environment().point_of(tx)?,
            ..end
        })
    }

    /// Where the files of the last run end, if this one need only back up what has changed since.
    fn before(
        &self,
        tx: &ReadTransaction,
        forgotten_index: u64,
        progress: &mut SmugglerProgress,
    ) -> Result<Option<ChainEnd>, EngineError> {
        let Some(task) = self.task.filter(|_| !self.is_full) else { return Ok(None) };
        let status = self.engine.backup_status((self.database.record().topology_id, task))?;
        let reason = match status.end() {
            Some(end) => match self.obstacle(tx, forgotten_index, end)? {
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
        forgotten_index: u64,
        end: &ChainEnd,
    ) -> Result<Option<&'static str>, EngineError> {
        let environment = self.database.environment();
        let is_vouched = match &end.point {
            Some(point) => environment.vouches_for(point)?.is_ok(),
            None => false,
        };
        let are_values_kept = forgotten_index <= end.values_index;
        let are_deletions_kept =
            TombstoneKind::ALL.into_iter().try_fold(are_values_kept, |all, kind| {
                Ok::<_, EngineError>(
                    all && last_removed_tombstone(tx, kind, None)? <= end.last_etag,
                )
            })?;
        let folder = Path::new(&end.directory);
        Ok(match () {
            () if !is_vouched => Some("the database has other files than then"),
            () if self.fingerprint() != end.key => Some("the key is another one"),
            () if !folder.starts_with(self.folder) => Some("the folder is another one"),
            () if !self.is_complete(end)? => {
                Some("the files of the last one are not those that were written")
            }
            () if !are_deletions_kept => Some("deletions since the last one are forgotten"),
            () => None,
        })
    }

    /// Whether all files of a backup are there, in each of its places, and nothing follows them, as far as their names
    /// tell.
    fn is_complete(&self, end: &ChainEnd) -> Result<bool, EngineError> {
        let folder = Path::new(&end.directory);
        let has_all = |names: &[String]| {
            contents_of(folder, names).backups.pop().is_some_and(|newest| {
                let last = newest.files.last().map(ToString::to_string);
                last.as_ref() == Some(&end.file) && newest.files.len() as u64 == end.files
            })
        };
        // A folder that is gone has nothing. A bucket that does not answer is another matter.
        let is_here = self.is_alone || self.disk().list(folder).is_ok_and(|names| has_all(&names));
        Ok(is_here && self.names_there(folder)?.is_none_or(|names| has_all(&names)))
    }

    /// What a folder of the backup has in the bucket; `None` if it is to be in none.
    fn names_there(&self, folder: &Path) -> Result<Option<Vec<String>>, EngineError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        self.place.map(|place| place.names_in(&name)).transpose()
    }

    /// What is in a folder of the backup, wherever its files are.
    fn names_in(&self, folder: &Path) -> Result<Vec<String>, EngineError> {
        let mut names = self.names_there(folder)?.unwrap_or_default();
        if !self.is_alone {
            let here = self.disk().list(folder);
            names.extend(here.map_err(|error| BackupError::io(folder, "list", error))?);
        }
        Ok(names)
    }

    /// Of the key. It is bound to the task: statuses do not tell that two of them have the same one.
    fn fingerprint(&self) -> Option<String> {
        let name = format!("{}/{}", self.database.record().topology_id, self.task.unwrap_or(0));
        self.key.map(|key| key.fingerprint(&name))
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
    fn new_folder(&self, ticks: i64) -> Result<(PathBuf, ClaimedName<'_>), EngineError> {
        let mut name = BackupFolderName {
            ticks,
            database: self.database.record().name.as_str().to_owned(),
            node_tag: self.engine.node_tag().to_string(),
            is_snapshot: self.form == BackupType::Snapshot,
        };
        loop {
            let text = name.to_string();
            let folder = self.folder.join(&text);
            // What another run of this process has claimed need not exist yet.
            if let Some(claimed) = self.engine.backups.names.claim(text) {
                let exists = self.disk().exists(&folder);
                let exists = exists.map_err(|error| BackupError::io(&folder, "read", error))?;
                let is_there = self.names_there(&folder)?.is_some_and(|names| !names.is_empty());
                if !exists && !is_there {
                    create_folder(self.disk(), &folder)?;
                    return Ok((folder, claimed));
                }
            }
            name.ticks += TICKS_PER_SECOND;
        }
    }

    /// Writes a file of the backup into its folder.
    fn write_and_verify(
        &self,
        tx: &ReadTransaction,
        sources: &ExportSources,
        folder: &Path,
        name: &str,
        progress: &mut SmugglerProgress,
    ) -> Result<(), EngineError> {
        let _claimed = self.claim_file(folder, name)?;
        let (file, elements) = self.encode(tx, sources, folder, name, progress)?;
        let bytes = file.bytes();
        let verified = file.complete(|file| self.verify(file, name, elements))?;
        let (elements, contents) = (verified.elements(), verified.contents);
        let text = format!(
            "Wrote and verified '{name}': {bytes} bytes with {elements} elements, {contents} of them contents of \
             attachments."
        );
        progress.report(MessageLevel::Info, &text);
        Ok(())
    }

    /// Claims the name of a file, and creates it when that is done.
    pub(super) fn claim_file(
        &self,
        folder: &Path,
        name: &str,
    ) -> Result<ClaimedName<'_>, EngineError> {
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
        let claimed = self.engine.backups.names.claim(format!("{folder_name}/{name}"));
        claimed.ok_or_else(|| {
            let message = format!("Another run is writing '{name}' in {}.", folder.display());
            BackupError::PlaceRefused { message }.into()
        })
    }

    /// Begins to write a file, under the key if there is one.
    pub(super) fn begin_file(
        &self,
        folder: &Path,
        name: &str,
    ) -> Result<SealedFile<'_>, EngineError> {
        let file = BackupFile::create(self.disk(), folder.join(name))?;
        Ok(SealedFile::begin(file, |ready| {
            self.key.map(|key| self.engine.begin_encryption(key, ready))
        }))
    }

    /// The name of a new file. Names give the order in which files are restored, so it is later than that of every
    /// file in the folder, also if the clock was set back.
    fn new_name(
        &self,
        folder: &Path,
        kind: FileKind,
        ticks: i64,
    ) -> Result<BackupFileName, EngineError> {
        let names = self.names_in(folder)?;
        let newest = names.iter().filter_map(|name| BackupFileName::parse(name)).max();
        let least = newest.map_or(ticks, |newest| newest.ticks + TICKS_PER_SECOND);
        let is_encrypted = self.key.is_some();
        Ok(BackupFileName { ticks: ticks.max(least), number: 0, kind, is_encrypted })
    }

    /// Writes all sections; returns the file, and how many elements they have.
    fn encode(
        &self,
        tx: &ReadTransaction,
        sources: &ExportSources,
        folder: &Path,
        name: &str,
        progress: &mut SmugglerProgress,
    ) -> Result<(BackupFile<'_>, u64), EngineError> {
        let mut file = self.begin_file(folder, name)?;
        let options = options_of_backup();
        let failed = |error| BackupError::io(self.folder, "compress the backup in", error);
        let mut encoder = Some(DumpEncoder::new(DumpCompression::Zstd).map_err(failed)?);
        let (mut text, mut coded) = (Vec::with_capacity(2 * PIECE_BYTES), Vec::new());
        let mut export =
            DumpExport::begin(self.engine, tx.clone(), sources, &options, &[], &mut text)?;
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
            file.write(&coded)?;
            coded.clear();
            if !has_more {
                let elements = export.elements();
                return Ok((file.end()?, elements));
            }
        }
    }

    pub(super) fn verify(
        &self,
        file: SequentialFile,
        name: &str,
        elements: u64,
    ) -> Result<VerifiedDump, EngineError> {
        let mut goes_on = |_| self.check_wanted().is_ok();
        let key = self.key.map(|key| &*key.0);
        let verified = verify_backup(file, name, key, &mut goes_on);
        self.check_wanted()?;
        let verified = verified?;
        if verified.elements() == elements {
            return Ok(verified);
        }
        let found = verified.elements();
        let detail = format!("{elements} elements were written, and {found} were read back");
        Err(BackupError::Inconsistent { file: name.to_owned(), detail }.into())
    }

    pub(super) fn check_wanted(&self) -> Result<(), EngineError> {
        check_wanted(self.operation, self.database)
    }
}

/// What the last file says of itself.
fn link_of(end: &ChainEnd, before: Option<&ChainEnd>) -> FileLink {
    FileLink {
        id: end.file_id,
        name: end.file.clone(),
        follows: before.map(|end| (end.file_id, end.file.clone())),
        last_etag: end.last_etag,
        last_index: end.values_index,
    }
}

/// Everything that a dump can have. Documents that indexes write are left out: the indexes write them again.
fn options_of_backup() -> SmugglerOptions {
    let mut options = SmugglerOptions::default();
    options.types.extend([SmugglerType::Tombstones, SmugglerType::CompareExchangeTombstones]);
    options
}
