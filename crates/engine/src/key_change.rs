//! Changing the key of a database that is closed, or whether it has one: all its environments are copied under the next
//! key, then that key counts, then the copies take their places.
//!
//! Invariant: what counts changes at one moment, outside of these files: with the record that says whether the database is
//! encrypted, or with the stored key. Whatever happens before or after, an environment that is opened with the key that
//! counts, by a caller that is certain of it, is found under that key (`storage::prepare_copy`).

use std::{
    io::ErrorKind,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use database::{INDEXES_DIRECTORY, Operation};
use model::DatabaseRecord;
use platform::Platform;
use security::SecretKey;
use storage::{
    CompactObserver, CompactOutcome, CompactProgress, CompactReport, EncryptionKey, Environment,
    EnvironmentOptions, StorageError, environment_id_in, prepare_copy, settle_prepared,
};
use wire::{
    RecordBody,
    operation_state::{CompactionResult, OperationStatus, group_digits},
};

use crate::{
    compaction::show_progress, encryption_keys::KeyError, engine::Engine, error::EngineError,
    operation_thread::ShowFailure,
};

/// The reason given to requests for the database in the meantime.
const LOCKED_REASON: &str = "its key is being replaced";
/// Directories of indexes are nested at most this deep, as for `storage::remove_environment`.
const DEPTH_MAX: usize = 3;

/// The environments of a database, whose key is to change.
pub struct KeyChange {
    platform: Platform,
    environments: Vec<EnvironmentOptions>,
}

impl KeyChange {
    /// That of the database which `main` opens, and those of its indexes.
    ///
    /// # Errors
    /// The directories cannot be read.
    pub fn of(platform: &Platform, main: &EnvironmentOptions) -> Result<KeyChange, StorageError> {
        let indexes = main.directory.join(INDEXES_DIRECTORY);
        let mut directories = Vec::new();
        find_environments(platform, &indexes, DEPTH_MAX, &mut directories)?;
        let of_index =
            |directory| EnvironmentOptions { directory, journals_directory: None, ..main.clone() };
        let of_indexes = directories.into_iter().map(of_index);
        let environments = std::iter::once(main.clone()).chain(of_indexes).collect();
        Ok(KeyChange { platform: platform.clone(), environments })
    }

    /// Copies everything under the next key, or without one. Nothing may be written from then on until the change is
    /// completed; if it is not, opening the database removes the copies.
    ///
    /// # Errors
    /// Those of [`prepare_copy`]; nothing has changed and no copy is left.
    pub fn prepare(
        &self,
        next: Option<&EncryptionKey>,
        observer: CompactObserver<'_>,
    ) -> Result<CompactOutcome, StorageError> {
        let mut all =
            CompactOutcome { before_bytes: 0, after_bytes: 0, report: CompactReport::default() };
        for options in &self.environments {
            let next = next.cloned();
            let tables = documents::TABLES;
            match prepare_copy(&self.platform, options, next, tables, observer) {
                Ok(one) => add(&mut all, &one),
                Err(error) => {
                    self.abandon();
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Removes the copies. What cannot be removed is, when the database is opened.
    fn abandon(&self) {
        for options in &self.environments {
            drop(settle_prepared(&self.platform, options));
        }
    }

    /// Puts the copies in their places, once the key that they are under counts.
    ///
    /// # Errors
    /// One cannot be opened; opening the database tries again.
    pub fn complete(&self, counting: Option<&EncryptionKey>) -> Result<(), StorageError> {
        for options in &self.environments {
            let encryption_key = counting.cloned();
            let options =
                EnvironmentOptions { encryption_key, is_key_certain: true, ..options.clone() };
            drop(Environment::open(&self.platform, options)?);
        }
        Ok(())
    }
}

fn add(all: &mut CompactOutcome, one: &CompactOutcome) {
    all.before_bytes += one.before_bytes;
    all.after_bytes += one.after_bytes;
    all.report.trees += one.report.trees;
    all.report.entries += one.report.entries;
    all.report.tables += one.report.tables;
    all.report.rows += one.report.rows;
    all.report.row_bytes += one.report.row_bytes;
}

/// The directories at or below this one that have a data file.
fn find_environments(
    platform: &Platform,
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), StorageError> {
    // First, because a file is no directory: an index whose creation was interrupted has `corvus.data.new`.
    let names = match platform.disk.list(directory) {
        Ok(names) => names,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        // An index that is left out would stay under the former key, or in plaintext.
        Err(source) => {
            let (path, source) = (directory.to_path_buf(), Arc::new(source));
            return Err(StorageError::Io { path, operation: "list", source });
        }
    };
    if environment_id_in(platform, directory)?.is_some() {
        found.push(directory.to_path_buf());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    names
        .iter()
        .try_for_each(|name| find_environments(platform, &directory.join(name), depth - 1, found))
}

impl Engine {
    /// Begins to replace the key of an encrypted database, by `next` or a new one; the id of the operation, which is one of
    /// the server's. The database is closed meanwhile, as for a compaction.
    ///
    /// # Errors
    /// The database does not exist, or is not encrypted; there are too many operations; no thread can be started.
    pub fn begin_key_rotation(
        self: &Arc<Self>,
        name: &str,
        next: Option<SecretKey>,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let record = self.encrypted_record(name)?;
        let next = next.unwrap_or_else(|| self.generate_encryption_key());
        let id = self.operations.next_id();
        let description = format!("Replacing the key of database: {}", record.name.as_str());
        let operation = self
            .operations
            .begin(id, description, "DatabaseCompact", self.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        tracing::info!(database = record.name.as_str(), "replacing the key of a database started");
        let rotation =
            Rotation { engine: Arc::clone(self), record, operation: Arc::clone(&operation) };
        self.run_operation(operation, show_failure, move || rotation.run(next))?;
        Ok(id)
    }

    fn encrypted_record(&self, name: &str) -> Result<Arc<DatabaseRecord>, EngineError> {
        let refused = |message: String| Err(EngineError::Refused { message });
        match self.catalog.record(name) {
            None => refused(format!("There is no database '{name}' whose key could be replaced")),
            Some(record) if RecordBody::of_record(&record).is_encrypted() => Ok(record),
            Some(_) => refused(format!("The database '{name}' is not encrypted, so it has no key")),
        }
    }
}

struct Rotation {
    engine: Arc<Engine>,
    record: Arc<DatabaseRecord>,
    operation: Arc<Operation>,
}

impl Rotation {
    fn run(self, next: SecretKey) -> Result<OperationStatus, EngineError> {
        let database = self.record.name.as_str();
        let rotated = self.engine.while_closed(database, LOCKED_REASON, || self.rotate(&next));
        match rotated {
            Ok(outcome) => {
                tracing::info!(database, "the key of a database was replaced");
                Ok(OperationStatus::Compacted(self.result(&outcome)))
            }
            Err(EngineError::Storage(StorageError::Stopped)) => {
                tracing::info!(database, "replacing a key was stopped; the database is unchanged");
                Err(EngineError::Stopped)
            }
            Err(error) => {
                tracing::error!(database, %error, "replacing the key of a database failed");
                Err(error)
            }
        }
    }

    fn rotate(&self, next: &SecretKey) -> Result<CompactOutcome, EngineError> {
        let engine = &self.engine;
        // It may have been deleted, or its settings changed, before its name was taken.
        let record = engine.encrypted_record(self.record.name.as_str())?;
        let options = engine.files.opening_options_of(&record)?;
        let name = record.name.as_str();
        let keys = &engine.encryption_keys;
        if *keys.secret(name)?.0 == *next.0 {
            return Err(KeyError::Same { name: name.to_owned() }.into());
        }
        let mut copied = SecretKey(next.0.clone());
        let failed = |source| KeyError::Io { path: options.environment.directory.clone(), source };
        let key = EncryptionKey::take(&mut copied.0).map_err(failed)?;
        let change = KeyChange::of(&options.platform, &options.environment)?;
        let observer = &mut |progress: &CompactProgress| -> ControlFlow<()> {
            show_progress(&self.operation, progress)
        };
        let outcome = change.prepare(Some(&key), observer)?;
        // If this fails it may have been stored nevertheless. Opening the database decides by what is stored.
        keys.store(name, next, true)?;
        change.complete(Some(&key))?;
        Ok(outcome)
    }

    fn result(&self, outcome: &CompactOutcome) -> CompactionResult {
        let name = self.record.name.as_str();
        let rows = group_digits(outcome.report.rows);
        let entries = group_digits(outcome.report.entries);
        let messages = vec![
            format!("Replaced the key of {name}"),
            format!("Copied {rows} rows and {entries} entries of trees."),
        ];
        CompactionResult {
            name: name.to_owned(),
            before_bytes: outcome.before_bytes,
            after_bytes: outcome.after_bytes,
            trees: outcome.report.trees + outcome.report.tables,
            messages,
            missing_indexes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_whose_creation_was_interrupted_is_no_obstacle() {
        // A real disk: it fails when a file is taken for a directory.
        let platform = Platform::real();
        let scratch = std::env::temp_dir().join(format!("corvus-key-{}", std::process::id()));
        platform.disk.remove_dir_all(&scratch).unwrap();
        let main = EnvironmentOptions::new(scratch.join("db"));
        let indexes = main.directory.join(INDEXES_DIRECTORY);
        let whole = EnvironmentOptions::new(indexes.join("whole"));
        for options in [&main, &whole] {
            Environment::open(&platform, options.clone()).unwrap().close().unwrap();
        }
        let begun = indexes.join("begun");
        platform.disk.create_dir_all(&begun).unwrap();
        let unfinished = begun.join("corvus.data.new");
        drop(platform.disk.create(&unfinished, platform::Access::Buffered).unwrap());
        let change = KeyChange::of(&platform, &main).unwrap();
        let found: Vec<_> = change.environments.iter().map(|options| &options.directory).collect();
        assert_eq!(found, [&main.directory, &whole.directory]);
        assert!(change.prepare(None, &mut |_| ControlFlow::Continue(())).is_ok());
        change.complete(None).unwrap();
        platform.disk.remove_dir_all(&scratch).unwrap();
    }
}
