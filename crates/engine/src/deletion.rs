//! Deleting databases with their files: first a durable mark, then the files, then the mark.
//!
//! A record may name any directory, so what is in it is not believed to be the database's: the identity
//! of the environment there must be the one that the catalog knows. Invariant: whatever is cut off, a
//! database is there with all of its documents, or it is gone and its files are removed in the end,
//! before a database of the same name can begin.

use std::path::PathBuf;

use cluster_state::{Command, Outcome};
use database::{Deletion, INDEXES_DIRECTORY};
use model::DatabaseId;
use storage::{EnvironmentOptions, Removal, environment_id_in, remove_environment};

use crate::{engine::Engine, error::EngineError};

/// Files of a deleted database, or what is taken for them, that stay.
#[derive(Debug)]
pub struct FilesLeft {
    /// The name of the database.
    pub database: String,
    /// The files and directories that stay.
    pub paths: Vec<PathBuf>,
    /// Why they stay.
    pub reason: &'static str,
}

const UNKNOWN_FILES: &str = "they are no files of the database";
const NEVER_OPENED: &str =
    "the database was never opened there, so nobody knows whose files these are";

impl Engine {
    /// Ends deletions that were begun before the server started.
    pub(crate) fn finish_deletions(&self) {
        let deletions = match self.catalog.deletions() {
            Ok(deletions) => deletions,
            Err(error) => {
                return tracing::error!(%error, "deletions that were begun could not be read");
            }
        };
        for deletion in deletions {
            let database = deletion.record.name.as_str();
            match self.finish_deletion(&deletion) {
                Ok(None) => {
                    tracing::info!(database, "what was left of a deleted database is removed")
                }
                // It was logged.
                Ok(Some(_)) => {}
                Err(error) => tracing::error!(
                    database,
                    %error,
                    "a deleted database could not be removed from the disk; the next start tries again"
                ),
            }
        }
    }
}

impl Engine {
    /// Ends a deletion. What stays is returned.
    ///
    /// # Errors
    /// When something could not be removed. The mark of the deletion stays.
    pub fn finish_deletion(&self, deletion: &Deletion) -> Result<Option<FilesLeft>, EngineError> {
        self.forget_in_cluster(deletion.record.topology_id)?;
        let left = remove_files(self, deletion)?;
        if let Some(left) = &left {
            let database = left.database.as_str();
            tracing::warn!(database, paths = ?left.paths, reason = left.reason, "files stay");
        }
        self.catalog.end_deletion(deletion.index)?;
        Ok(left)
    }
}

impl Engine {
    /// Removes what the cluster keeps for a database that is gone. What a crash leaves of it is never seen:
    /// a database of the same name has another id.
    pub fn forget_in_cluster(&self, database: DatabaseId) -> Result<(), EngineError> {
        loop {
            let command = Command::RemoveDatabase { database };
            let applied = self.cluster.submit_and_wait(&command)?;
            if !matches!(applied.outcome, Outcome::DatabaseRemoved { is_done: false }) {
                return Ok(());
            }
        }
    }
}

fn remove_files(engine: &Engine, deletion: &Deletion) -> Result<Option<FilesLeft>, EngineError> {
    let record = &deletion.record;
    let options = engine.files.options_of(record);
    let (platform, environment) = (&options.platform, &options.environment);
    let database = record.name.as_str().to_owned();
    let failed = |source| EngineError::FilesNotRemoved { database: database.clone(), source };
    let found = environment_id_in(platform, &environment.directory).map_err(failed)?;
    // Nobody but the server itself names these: what is there is what it made.
    let is_servers_own = options.is_in_memory || !engine.files.names_directories(&record.body);
    let id = match (deletion.environment_id, found) {
        (None, Some(found)) if is_servers_own => {
            let owner = engine.catalog.owner_of(found, &record.name);
            let owner = owner?;
            owner.is_none().then_some(found)
        }
        (known, _) => known,
    };
    let left = |paths, reason| Ok(Some(FilesLeft { database: database.clone(), paths, reason }));
    let removed = match (id, found) {
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
        0 => Ok(None),
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
