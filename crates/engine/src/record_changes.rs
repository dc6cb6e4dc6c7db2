//! Creates databases, and changes their records.

use std::{collections::BTreeMap, sync::PoisonError};

use cluster_state::RecordDraft;
use database::{CatalogError, Decision, NewDatabase, Replacement, WrittenRecord};
use model::{DatabaseName, DatabaseRecord, RecordConfiguration, RecordedIndexes};
use security::SecretKey;
use storage::is_encrypted_in;
use wire::RecordBody;

use crate::{
    database_files::check_settings,
    encryption_keys::KeyError,
    engine::Engine,
    error::EngineError,
    etl::EtlTask,
    stored_tasks::{keep_secrets, settle_tasks},
};

/// What becomes of the files that a deleted database has left, when another one of its name is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptFiles {
    /// They are those of the new database.
    Adopted,
    /// They stay as they are, and the new database is refused.
    Refused,
}

impl Engine {
    /// Creates a database. Its files begin in empty directories, or in those that a deleted
    /// database of its name has left. Blocks.
    ///
    /// # Errors
    /// A setting is invalid; the database exists, or a deletion of its name is unfinished; its directories are not
    /// empty, or are those of another database; the record cannot be written.
    pub fn create_database(&self, new: NewDatabase) -> Result<WrittenRecord, EngineError> {
        // Locks on names do not keep two databases from naming the same directory.
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        self.create(new, KeptFiles::Adopted)
    }

    /// Creates the database that a backup is restored into, with its key if it is to be encrypted. It begins in empty
    /// directories: if the restore fails, everything in them is removed. Blocks.
    ///
    /// # Errors
    /// Those of [`Engine::create_database`]; files of a deleted database of its name were kept; the key cannot be
    /// stored.
    pub(crate) fn create_restored_database(
        &self,
        new: NewDatabase,
        key: Option<&SecretKey>,
    ) -> Result<WrittenRecord, EngineError> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let name = new.name.clone();
        if self.catalog.record(name.as_str()).is_some() {
            return Err(CatalogError::AlreadyExists { name: name.as_str().to_owned() }.into());
        }
        let configuration = RecordConfiguration::new(&new.body);
        if self.check_new_directories(&name, &wire::sections_of(&configuration).settings)? {
            return Err(self.kept_files(&name));
        }
        let Some(key) = key else { return self.create(new, KeptFiles::Refused) };
        let keys = &self.encryption_keys;
        // Files that were moved away may need a key that is there.
        let replaced = keys.replace(name.as_str(), key)?;
        let created = self.create(new, KeptFiles::Refused);
        if created.is_err() {
            keys.put_back(name.as_str(), replaced)?;
        }
        created
    }

    /// `creating` is locked.
    fn create(
        &self,
        mut new: NewDatabase,
        kept_files: KeptFiles,
    ) -> Result<WrittenRecord, EngineError> {
        let _room = self.memory.room_for_record(new.body.len())?;
        let mut body = RecordBody::read(&new.body);
        let number = self.cluster_state().last_index()? + 1;
        let has_tasks = settle_tasks(&mut body, number);
        if body.number_indexes(&RecordedIndexes::default(), number) || has_tasks {
            new.body = body.to_json();
        }
        let (name, configuration) = (new.name.clone(), RecordConfiguration::new(&new.body));
        let settings = &wire::sections_of(&configuration).settings;
        check_settings(self.settings(), name.as_str(), settings)?;
        let is_encrypted = body.is_encrypted();
        if is_encrypted {
            self.check_encryption(&name)?;
        }
        self.check_named_directories(&name, settings)?;
        let adopts_files = || {
            let finds_kept = self.check_new_directories(&name, settings)?;
            match kept_files {
                KeptFiles::Refused if finds_kept => return Err(self.kept_files(&name)),
                KeptFiles::Adopted if finds_kept => {
                    self.check_kept_files(&name, settings, is_encrypted)?;
                }
                KeptFiles::Adopted | KeptFiles::Refused => {}
            }
            Ok::<bool, EngineError>(finds_kept)
        };
        let created = self.registry.create_checked(new, adopts_files)?;
        tracing::info!(database = name.as_str(), "a database was created");
        self.note_client_configuration(&created);
        Ok(created)
    }

    /// Replaces the record of an existing database, and has the open database follow it. Blocks.
    ///
    /// # Errors
    /// A setting is invalid; the record names a directory that it must not; the present record is not the
    /// expected one; the record cannot be written.
    pub fn replace_record(
        &self,
        mut replacement: Replacement,
    ) -> Result<WrittenRecord, EngineError> {
        let _room = self.memory.room_for_record(replacement.body.len())?;
        let configuration = RecordConfiguration::new(&replacement.body);
        self.check_record_settings(&replacement.name, &wire::sections_of(&configuration).settings)?;
        let mut body = RecordBody::read(&replacement.body);
        // Only a restore changes this: what is incomplete is removed by the next start.
        let present = self.catalog.record(replacement.name.as_str());
        let is_restoring =
            present.as_ref().is_some_and(|record| RecordBody::of_record(record).is_restoring());
        if body.is_restoring() != is_restoring {
            body.set_restoring(is_restoring);
            replacement.body = body.to_json();
        }
        let number = self.cluster_state().last_index()? + 1;
        let has_secrets = present
            .as_ref()
            .is_some_and(|record| keep_secrets(&mut body, &RecordBody::of_record(record)));
        let has_tasks = settle_tasks(&mut body, number) || has_secrets;
        // If an index is deleted or defined meanwhile, its number may be another than its files have, which
        // are then made again.
        let has_indexes = present.is_some_and(|record| number_indexes(&mut body, &record, number));
        if has_tasks || has_indexes {
            replacement.body = body.to_json();
        }
        self.check_same_encryption(&replacement.name, &body)?;
        let written = self.change_etl_tasks(|tasks| {
            tasks.after = EtlTask::stored_in(&body);
            // What a repeated request finds replaced changes nothing.
            tasks.before = tasks.after.clone();
            Ok(self.registry.replace_record(replacement, |replaced| {
                let replaced = RecordBody::of_record(replaced);
                tasks.before = EtlTask::stored_in(&replaced);
                !replaced.has_same_client_configuration(&body)
            })?)
        })?;
        self.note_client_configuration(&written);
        Ok(written)
    }

    /// Rejects a new database that is to be encrypted and cannot be.
    fn check_encryption(&self, name: &DatabaseName) -> Result<(), EngineError> {
        let security = &self.settings().security;
        if security.certificate.is_none() && !security.encrypts_over_http {
            let message = format!(
                "The database '{}' cannot be encrypted: the server has no certificate, so its documents would be \
                 sent in the clear. Give it one (Security.Certificate.Path, or Security.Certificate.Load.Exec), or set \
                 Security.AllowEncryptedDatabasesOverHttp",
                name.as_str()
            );
            return Err(EngineError::Refused { message });
        }
        Ok(self.encryption_keys.check(name.as_str())?)
    }

    fn kept_files(&self, name: &DatabaseName) -> EngineError {
        let directory = self.files.options_with(name, &BTreeMap::new()).environment.directory;
        let message = format!(
            "The files of the deleted database '{}' were kept in {}, and a restore begins in an empty directory. Restore \
             under another name, or move these files away first",
            name.as_str(),
            directory.display()
        );
        EngineError::Refused { message }
    }

    /// Rejects a new database whose kept files are encrypted and it is not, or the reverse.
    fn check_kept_files(
        &self,
        name: &DatabaseName,
        settings: &BTreeMap<String, String>,
        is_encrypted: bool,
    ) -> Result<(), EngineError> {
        let options = self.files.options_with(name, settings);
        let found = is_encrypted_in(&options.platform, &options.environment.directory)?;
        if found.is_none_or(|found| found == is_encrypted) {
            return Ok(());
        }
        let (are, what) = match is_encrypted {
            true => ("are not encrypted", "without"),
            false => ("are encrypted", "with"),
        };
        let message = format!(
            "The files that were kept of the database '{}' {are}: create it {what} \"Encrypted\": true in its record",
            name.as_str()
        );
        Err(EngineError::Refused { message })
    }

    /// Rejects a record that would make a database encrypted, or no longer so: its files are what they are.
    fn check_same_encryption(
        &self,
        name: &DatabaseName,
        body: &RecordBody,
    ) -> Result<(), EngineError> {
        let Some(present) = self.catalog.record(name.as_str()) else { return Ok(()) };
        if RecordBody::of_record(&present).is_encrypted() == body.is_encrypted() {
            return Ok(());
        }
        let message = format!(
            "Whether the database '{}' is encrypted was decided when it was created, and cannot be changed",
            name.as_str()
        );
        Err(EngineError::Refused { message })
    }

    /// Stores the key that a database will be encrypted with. Blocks.
    ///
    /// # Errors
    /// There is one and `overwrites` is false; a database is encrypted with the present one; the key cannot be stored.
    pub fn store_encryption_key(
        &self,
        name: &str,
        key: &SecretKey,
        overwrites: bool,
    ) -> Result<(), EngineError> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = || Err(KeyError::InUse { name: name.to_owned() }.into());
        let record = self.catalog.record(name);
        if record.is_some_and(|record| RecordBody::of_record(&record).is_encrypted()) {
            return in_use();
        }
        // The files of a deleted database may have been kept. One of this name takes them over, and needs its key.
        if overwrites && let Ok(known) = DatabaseName::new(name) {
            let options = self.files.options_with(&known, &BTreeMap::new());
            let found = is_encrypted_in(&options.platform, &options.environment.directory)?;
            if self.catalog.environment_of(&known)?.is_some() && found != Some(false) {
                return in_use();
            }
        }
        self.encryption_keys.store(name, key, overwrites)?;
        tracing::info!(database = name, "a key of a database was stored");
        Ok(())
    }

    /// A new key, which is not stored.
    pub fn generate_encryption_key(&self) -> SecretKey {
        self.encryption_keys.handle_secrets();
        let mut key = SecretKey::zeroed();
        self.platform.entropy.fill(&mut key.0[..]);
        key
    }

    /// The names that keys of databases are stored under. Blocks.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn encryption_key_names(&self) -> Result<Vec<String>, EngineError> {
        Ok(self.encryption_keys.names()?)
    }

    /// Rejects settings that a record of an existing database must not have.
    ///
    /// # Errors
    /// A setting is invalid, or names a directory that it must not.
    pub(crate) fn check_record_settings(
        &self,
        name: &DatabaseName,
        settings: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        check_settings(self.settings(), name.as_str(), settings)?;
        self.check_named_directories(name, settings)
    }

    /// Changes the body of a database's record, and has the open database follow it. `change` is
    /// called again with a newer body if another change came first. Blocks.
    ///
    /// # Errors
    /// The database does not exist ([`EngineError::DatabaseMissing`]); the record cannot be written.
    pub(crate) fn change_record_body(
        &self,
        name: &str,
        mut change: impl FnMut(&mut RecordBody),
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record_body(name, |_, body| {
            change(body);
            Ok(Decision::Replace)
        })
    }

    /// Like [`Engine::change_record_body`], for a change that inspects the record and may refuse,
    /// or leave it unchanged.
    ///
    /// # Errors
    /// Those of `change`; the record stays as it is then.
    pub(crate) fn decide_record_body(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordBody) -> Result<Decision, EngineError>,
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record(name, |record, draft| {
            let mut body = RecordBody::of_record(record);
            let decision = change(record, &mut body)?;
            // Every change of a record has a higher index than the one before.
            number_indexes(&mut body, record, record.etag + 1);
            draft.body = body.to_json();
            Ok(decision)
        })
    }

    /// The same for the whole record. Blocks.
    ///
    /// # Errors
    /// Those of `change`; the record stays as it is then. The database does not exist
    /// ([`EngineError::DatabaseMissing`]); the record cannot be written.
    pub(crate) fn decide_record(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Result<Decision, EngineError>,
    ) -> Result<WrittenRecord, EngineError> {
        let present = self.catalog.record(name);
        let _room = self
            .memory
            .room_for_record(present.map_or(0, |record| record.configuration.json().len()))?;
        let mut refusal = None;
        let written = self.registry.change_record(name, |record, draft| {
            change(record, draft).unwrap_or_else(|error| {
                refusal = Some(error);
                Decision::Keep
            })
        });
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        written?.ok_or_else(|| EngineError::DatabaseMissing { name: name.to_owned() })
    }
}

/// Numbers the indexes of a changed record, unless those of the present one cannot be read.
fn number_indexes(body: &mut RecordBody, present: &DatabaseRecord, number: u64) -> bool {
    let before = &wire::sections_of(&present.configuration).indexes;
    before.as_ref().is_ok_and(|before| body.number_indexes(before, number))
}
