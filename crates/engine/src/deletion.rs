//! Deletes databases: first a durable mark, then their entries in the shared state and their files,
//! then the mark. An interrupted deletion is completed when it is repeated, or when the data
//! directory is next opened.
//!
//! A record may name any directory, so its content is not assumed to be the database's: the
//! identity of the environment there must be the one that the catalog knows. Invariant: wherever a
//! deletion is interrupted, either the database still exists with all of its documents, or it is
//! gone and its files are removed eventually, before a database of the same name can be created.

use std::path::PathBuf;

use cluster_state::{Command, DeletedDatabase, Outcome, PendingDeletion};
use database::{DeletedFiles, INDEXES_DIRECTORY};
use model::{DatabaseId, DatabaseLockMode, DatabaseRecord, lower_case};
use storage::{
    EnvironmentOptions, Removal, environment_id_in, remove_environment, remove_unfinished,
};
use wire::RecordBody;

use crate::{engine::Engine, error::EngineError};

/// Files of a deleted database, or files in their place, that are not removed.
#[derive(Debug)]
pub struct FilesLeft {
    /// The name of the database.
    pub database: String,
    /// The files and directories that remain.
    pub paths: Vec<PathBuf>,
    /// Why they remain, as a phrase for the log and the response.
    pub reason: &'static str,
}

const UNKNOWN_FILES: &str = "they are not files of the database";
const NEVER_OPENED: &str = "the database was never opened there, so their owner is unknown";

/// The outcome of a deletion.
#[derive(Debug)]
pub struct FinishedDeletion {
    /// The log index of the deletion; of the newest one if there were several.
    pub index: u64,
    /// The files that remain.
    pub left: Vec<FilesLeft>,
}

fn log_unfinished(database: &str, error: &EngineError) {
    tracing::error!(
        database,
        %error,
        "a deleted database could not be removed completely; the next start tries again"
    );
}

impl Engine {
    /// Completes the deletions that were started before the server was.
    pub(crate) fn finish_deletions(&self) {
        let pending = match self.catalog.pending_deletions() {
            Ok(pending) => pending,
            Err(error) => {
                return tracing::error!(%error, "deletions that were begun could not be read");
            }
        };
        for deletion in pending {
            let deletion = match deletion {
                Ok(deletion) => deletion,
                Err(error) => {
                    tracing::error!(%error, "a deletion cannot be completed; some of its files may remain");
                    continue;
                }
            };
            let database = deletion.record.name.as_str();
            match finish(self, &deletion) {
                Ok(None) => {
                    tracing::info!(database, "what was left of a deleted database is removed")
                }
                // It has been logged.
                Ok(Some(_)) => {}
                Err(error) => log_unfinished(database, &error),
            }
        }
        match deleted_databases(self) {
            Ok(deleted) => {
                for deleted in deleted {
                    if let Err(error) = remove_entries(self, deleted.database) {
                        log_unfinished(&deleted.key, &error);
                    }
                }
            }
            Err(error) => tracing::error!(
                %error,
                "deleted databases whose entries are to be removed could not be read"
            ),
        }
    }

    /// Deletes databases, except those whose lock mode says that such a request has no effect, or completes
    /// deletions that were interrupted. Unless their files are removed, they remain, and new databases of these
    /// names adopt them. Blocks.
    ///
    /// # Errors
    /// The lock mode of one of them forbids it: none is deleted then, unless the mode was changed meanwhile.
    /// Errors of the catalog; something could not be removed. A repeated call continues with it.
    pub fn delete_databases(
        &self,
        names: &[String],
        removes_files: bool,
    ) -> Result<Vec<FinishedDeletion>, EngineError> {
        let mut unlocked = Vec::with_capacity(names.len());
        for name in names {
            let record = self.catalog.record(name);
            if record.map_or(Ok(true), |record| may_delete(name, &record))? {
                unlocked.push(name);
            }
        }
        let mut finished = Vec::with_capacity(unlocked.len());
        for name in unlocked {
            finished.extend(self.delete_database(name, removes_files)?);
        }
        Ok(finished)
    }

    /// Removes a database that is not restored completely, with its files, whatever its lock mode; nothing if it is
    /// complete or gone by now, also if there is another one of that name.
    ///
    /// # Errors
    /// The deletion cannot be recorded or completed.
    pub(crate) fn delete_unfinished_restore(
        &self,
        name: &str,
        database: DatabaseId,
    ) -> Result<(), EngineError> {
        let decide = |record: &DatabaseRecord| {
            let is_it = record.topology_id == database && is_restoring(record);
            is_it.then_some(DeletedFiles::Removed)
        };
        if self.catalog.record(name).is_some_and(|record| decide(&record).is_some()) {
            self.delete_decided(name, decide)?;
        }
        Ok(())
    }

    /// Deletes one database; `None` if there is nothing to delete, or the request is to have no effect.
    fn delete_database(
        &self,
        name: &str,
        removes_files: bool,
    ) -> Result<Option<FinishedDeletion>, EngineError> {
        // The lock mode may have changed since it was checked.
        let mut refusal = None;
        let deleted = self.delete_decided(name, |record| {
            let may_delete = may_delete(name, record).unwrap_or_else(|error| {
                refusal = Some(error);
                false
            });
            may_delete.then(|| files_after(record, removes_files))
        });
        refusal.map_or(deleted, Err)
    }

    /// Deletes a database if `decide` agrees on the record that is deleted.
    fn delete_decided(
        &self,
        name: &str,
        mut decide: impl FnMut(&DatabaseRecord) -> Option<DeletedFiles>,
    ) -> Result<Option<FinishedDeletion>, EngineError> {
        let key = lower_case(name);
        if self.catalog.record(name).is_none() && !is_unfinished(self, &key)? {
            return Ok(None);
        }
        self.registry.with_closed(name, || {
            let mut files = DeletedFiles::Kept;
            let deleted = self.catalog.delete(name, |record| {
                let decided = decide(record);
                files = decided.unwrap_or(files);
                decided
            })?;
            if deleted.is_none() && self.catalog.record(name).is_some() {
                return Ok(None);
            }
            if deleted.is_some() {
                match files {
                    DeletedFiles::Removed => {
                        tracing::info!(database = name, "a database was deleted with its files");
                    }
                    DeletedFiles::Kept => {
                        tracing::info!(database = name, "a database was deleted; its files remain");
                    }
                }
            }
            finish_of(self, &key)
        })
    }
}

/// What becomes of the files of a database that is deleted by a request.
fn files_after(record: &DatabaseRecord, removes_files: bool) -> DeletedFiles {
    // A part of a backup is nothing to keep: another database of the name would adopt it.
    match removes_files || is_restoring(record) {
        true => DeletedFiles::Removed,
        false => DeletedFiles::Kept,
    }
}

fn is_restoring(record: &DatabaseRecord) -> bool {
    RecordBody::of_record(record).is_restoring()
}

/// Whether the lock mode of a database allows its deletion; `false` if the request is to have no effect.
///
/// # Errors
/// It forbids the deletion.
fn may_delete(name: &str, record: &DatabaseRecord) -> Result<bool, EngineError> {
    match RecordBody::of_record(record).lock_mode() {
        DatabaseLockMode::Unlock => Ok(true),
        DatabaseLockMode::PreventDeletesIgnore => Ok(false),
        mode @ DatabaseLockMode::PreventDeletesError => Err(EngineError::Refused {
            message: format!(
                "Database '{name}' cannot be deleted because of the set lock mode ('{mode}'). Please \
                 consider changing the lock mode before deleting the database."
            ),
        }),
    }
}

/// Whether a deletion of a database of this name is incomplete.
fn is_unfinished(engine: &Engine, key: &str) -> Result<bool, EngineError> {
    Ok(!pending_of(engine, key)?.is_empty()
        || deleted_databases(engine)?.iter().any(|deleted| deleted.key == key))
}

/// Completes the deletions of databases of this name; `None` if there are none.
fn finish_of(engine: &Engine, key: &str) -> Result<Option<FinishedDeletion>, EngineError> {
    let (mut indexes, mut left) = (Vec::new(), Vec::new());
    for deletion in pending_of(engine, key)? {
        left.extend(finish(engine, &deletion)?);
        indexes.push(deletion.index);
    }
    for deleted in deleted_databases(engine)?.into_iter().filter(|deleted| deleted.key == key) {
        remove_entries(engine, deleted.database)?;
        indexes.push(deleted.index);
    }
    Ok(indexes.into_iter().max().map(|index| FinishedDeletion { index, left }))
}

/// Removes the files of databases of this name that another node has deleted, or taken from this one. The name must not be
/// open.
pub(crate) fn finish_files_of(engine: &Engine, key: &str) {
    let finished = pending_of(engine, key).and_then(|pending| {
        for deletion in &pending {
            finish(engine, deletion)?;
        }
        Ok(pending.len())
    });
    match finished {
        Ok(0) => {}
        Ok(_) => tracing::info!(database = key, "a database was removed from this node"),
        Err(error) => log_unfinished(key, &error),
    }
}

/// Whether files of a deleted database of this name are still to be removed from this node.
pub(crate) fn has_pending(engine: &Engine, key: &str) -> bool {
    pending_of(engine, key).is_ok_and(|pending| !pending.is_empty())
}

/// The deletions of this name whose files are to be removed.
fn pending_of(engine: &Engine, key: &str) -> Result<Vec<PendingDeletion>, EngineError> {
    // One that cannot be read was reported at the start.
    let readable = engine.catalog.pending_deletions()?.into_iter().flatten();
    Ok(readable.filter(|deletion| deletion.record.name.lower_cased() == key).collect())
}

fn deleted_databases(engine: &Engine) -> Result<Vec<DeletedDatabase>, EngineError> {
    Ok(engine.cluster.store().read().deleted_databases()?)
}

/// Completes a deletion and returns what remains.
///
/// # Errors
/// When something could not be removed. The mark of the deletion stays.
fn finish(engine: &Engine, deletion: &PendingDeletion) -> Result<Option<FilesLeft>, EngineError> {
    let record = &deletion.record;
    // Other nodes may still have it.
    let present = engine.catalog.record(record.name.as_str());
    if present.is_none_or(|present| present.topology_id != record.topology_id) {
        remove_entries(engine, record.topology_id)?;
    }
    let left = remove_files(engine, deletion)?;
    if let Some(left) = &left {
        let database = left.database.as_str();
        tracing::warn!(database, paths = ?left.paths, reason = left.reason, "files remain");
    }
    engine.catalog.end_deletion(deletion)?;
    Ok(left)
}

/// Removes the cluster's entries of a database that is gone. Until then they are invisible: a
/// database of the same name has another id.
fn remove_entries(engine: &Engine, database: DatabaseId) -> Result<(), EngineError> {
    engine.remove_etl_positions_of(database)?;
    loop {
        let command = Command::RemoveDatabase { database };
        let applied = engine.cluster.submit_and_wait(&command)?;
        if !matches!(applied.outcome, Outcome::DatabaseRemoved { is_done: false }) {
            return Ok(());
        }
    }
}

fn remove_files(
    engine: &Engine,
    deletion: &PendingDeletion,
) -> Result<Option<FilesLeft>, EngineError> {
    let record = &deletion.record;
    let options = engine.files.options_of(record);
    let (platform, environment) = (&options.platform, &options.environment);
    let database = record.name.as_str().to_owned();
    let failed = |source| EngineError::FilesNotRemoved { database: database.clone(), source };
    let found = environment_id_in(platform, &environment.directory).map_err(failed)?;
    // Only the server itself names these: what is there was created by it.
    let is_servers_own = options.is_in_memory || !engine.files.names_directories(record);
    let id = match (deletion.environment, found) {
        (None, Some(found)) if is_servers_own => {
            let owner = engine.catalog.owner_of(found, &record.name)?;
            owner.is_none().then_some(found)
        }
        (known, _) => known,
    };
    let left = |paths, reason| Ok(Some(FilesLeft { database: database.clone(), paths, reason }));
    let removed = match (id, found) {
        // It may have been stopped while it was opened for the first time.
        (None, None) if is_servers_own => {
            remove_unfinished(platform, environment).map_err(failed)?
        }
        (None, None) => Removal::default(),
        (None, Some(_)) => return left(vec![environment.directory.clone()], NEVER_OPENED),
        (Some(id), _) => match remove(platform, environment, id) {
            Ok(removed) => removed,
            Err(storage::StorageError::AnotherEnvironment { path }) => {
                return left(vec![path], "they belong to another database");
            }
            Err(error) => return Err(failed(error)),
        },
    };
    match removed.left_count {
        0 => {
            // Without its files, nothing needs the key any more.
            engine.encryption_keys.remove(record.name.as_str())?;
            Ok(None)
        }
        _ => left(removed.left, UNKNOWN_FILES),
    }
}

fn remove(
    platform: &platform::Platform,
    environment: &EnvironmentOptions,
    id: u128,
) -> Result<Removal, storage::StorageError> {
    remove_environment(platform, environment, id, &[INDEXES_DIRECTORY])
}

#[cfg(test)]
mod tests {
    use database::NewDatabase;
    use model::DatabaseName;
    use platform::Platform;
    use settings::{Inputs, Start};
    use storage::is_encrypted_in;

    use super::*;

    fn engine() -> Engine {
        let inputs = Inputs {
            arguments: vec!["--DataDir=/data".into()],
            environment: Vec::new(),
            read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let Start::Serve(loaded) = settings::load(inputs).unwrap() else { panic!("it serves") };
        Engine::open(loaded.settings, Platform::memory()).unwrap()
    }

    /// A database that is being restored, with files.
    fn restoring(engine: &Engine) -> DatabaseId {
        let mut body = RecordBody::read(br#"{"DatabaseName":"db"}"#);
        body.set_restoring(true);
        let name = DatabaseName::new("db").unwrap();
        let new = NewDatabase {
            name,
            disabled: false,
            topology: None,
            body: body.to_json(),
            request_id: None,
        };
        let created = engine.create_restored_database(new, None).unwrap();
        drop(engine.open_blocking("db").unwrap());
        created.record.topology_id
    }

    fn has_files(engine: &Engine) -> bool {
        let options =
            engine.files.options_with(&DatabaseName::new("db").unwrap(), &Default::default());
        is_encrypted_in(&options.platform, &options.environment.directory).unwrap().is_some()
    }

    #[test]
    fn a_restore_that_fails_removes_its_own_database_alone() {
        let engine = engine();
        let first = restoring(&engine);
        engine.delete_databases(&["db".to_owned()], false).unwrap();
        assert!(!has_files(&engine), "a part of a backup is nothing to keep");
        let second = restoring(&engine);
        engine.delete_unfinished_restore("db", first).unwrap();
        assert!(engine.catalog.record("db").is_some() && has_files(&engine));
        engine.delete_unfinished_restore("db", second).unwrap();
        assert!(engine.catalog.record("db").is_none() && !has_files(&engine));
    }

    #[test]
    fn whether_files_go_is_decided_on_the_record_that_is_deleted() {
        let engine = engine();
        let id = restoring(&engine);
        let mut record = (*engine.catalog.record("db").unwrap()).clone();
        assert_eq!(files_after(&record, false), DeletedFiles::Removed);
        engine.change_record_body("db", |body| body.set_restoring(false)).unwrap();
        record = (*engine.catalog.record("db").unwrap()).clone();
        assert_eq!(files_after(&record, false), DeletedFiles::Kept);
        assert_eq!(files_after(&record, true), DeletedFiles::Removed);
        engine.delete_unfinished_restore("db", id).unwrap();
        engine.delete_databases(&["db".to_owned()], false).unwrap();
        assert!(has_files(&engine), "it was complete, and its files were to be kept");
    }
}
