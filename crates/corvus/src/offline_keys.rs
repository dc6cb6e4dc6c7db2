//! `corvus offline get-key|put-key|encrypt|decrypt|rotate-key`: the keys of databases that no server uses.
//!
//! Invariant: `encrypt`, `decrypt` and `rotate-key` change what counts at one moment (the record of the database, or its
//! stored key), when everything is copied. What is interrupted before has changed nothing; what is interrupted after is
//! completed when the database is opened.

use std::{
    ffi::OsStr,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use database::{Decision, ServerCatalog};
use engine::{DATABASES_DIRECTORY, EncryptionKeys, KeyChange, KeyError, SYSTEM_DIRECTORY};
use model::{DatabaseRecord, lower_case};
use security::SecretKey;
use settings::MasterKeySource;
use storage::{
    CompactOutcome, CompactProgress, EncryptionKey, EnvironmentOptions, StorageError,
    environment_id_in,
};
use wire::RecordBody;

use crate::{
    offline::{KEY_OPTION, NOTHING_DONE, Offline, SOUND},
    offline_refusal::{Refusal, because},
};

/// A command about the key of one database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyCommand {
    Get,
    Put,
    Encrypt,
    Decrypt,
    Rotate,
}

impl KeyCommand {
    pub(crate) fn named(word: &OsStr) -> Option<KeyCommand> {
        Some(match word.to_str()? {
            "get-key" => KeyCommand::Get,
            "put-key" => KeyCommand::Put,
            "encrypt" => KeyCommand::Encrypt,
            "decrypt" => KeyCommand::Decrypt,
            "rotate-key" => KeyCommand::Rotate,
            _ => return None,
        })
    }
}

/// Where the things are that a key command works with.
pub(crate) struct KeyPlaces {
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The file of the master key, if it is not in the data directory.
    pub(crate) master_key: Option<PathBuf>,
    /// The directory of all journals, if they are not next to the data.
    pub(crate) journals: Option<PathBuf>,
}

impl KeyPlaces {
    /// The keys of the databases there.
    pub(crate) fn keys(&self, platform: &platform::Platform) -> EncryptionKeys {
        let made = MasterKeySource::Made;
        let master_key = self.master_key.clone().map_or(made, MasterKeySource::File);
        EncryptionKeys::new(platform, &self.data, master_key)
    }

    /// Where the files of a database are; it may have no record.
    pub(crate) fn environment_of(
        &self,
        name: &str,
        record: Option<&DatabaseRecord>,
    ) -> EnvironmentOptions {
        let settings =
            record.map(|record| wire::sections_of(&record.configuration).settings.clone());
        let settings = settings.unwrap_or_default();
        let named = |key: &str| {
            let found = settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
            found.map(|(_, value)| value).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let lower = lower_case(name).into_owned();
        let of_all = || self.data.join(DATABASES_DIRECTORY).join(&lower);
        let mut options = EnvironmentOptions::new(named("DataDir").unwrap_or_else(of_all));
        let root = named("Storage.JournalsPath").or_else(|| self.journals.clone());
        options.journals_directory = root.map(|root| root.join(&lower));
        options
    }
}

impl Offline<'_> {
    /// Returns the exit code.
    pub(crate) fn key_command(
        &mut self,
        command: KeyCommand,
        name: &str,
        places: &KeyPlaces,
    ) -> u8 {
        let done = match command {
            KeyCommand::Get => self.get_key(name, places),
            KeyCommand::Put => self.put_key(name, places),
            KeyCommand::Encrypt | KeyCommand::Decrypt | KeyCommand::Rotate => {
                self.change_key(command, name, places)
            }
        };
        match done {
            Ok(()) => SOUND,
            Err(refusal) => {
                self.say(format_args!("{}: {refusal}", places.data.display()));
                NOTHING_DONE
            }
        }
    }

    fn keys(&self, places: &KeyPlaces) -> EncryptionKeys {
        places.keys(&self.platform)
    }

    fn get_key(&mut self, name: &str, places: &KeyPlaces) -> Result<(), Refusal> {
        let key = self.keys(places).secret(name)?;
        self.say(format_args!("{}", model::base64_text(&key.0[..])));
        Ok(())
    }

    fn put_key(&mut self, name: &str, places: &KeyPlaces) -> Result<(), Refusal> {
        let Some(key) = self.read_key() else {
            return because("No key was stored.".to_owned());
        };
        Ok(self.keys(places).store(name, &key, false)?)
    }

    /// The key in the file that --key names; `None`, and a message, when there is none.
    pub(crate) fn read_key(&mut self) -> Option<SecretKey> {
        let Some(path) = self.key.clone() else {
            self.say(format_args!("Name the file with the key: {KEY_OPTION}<file>"));
            return None;
        };
        let key = match self.platform.disk.read_file(&path) {
            Ok(mut text) => SecretKey::read(&mut text),
            Err(error) => {
                self.say(format_args!("{}: {error}", path.display()));
                return None;
            }
        };
        if key.is_none() {
            self.say(format_args!("{} contains no key of 32 bytes in base64.", path.display()));
        }
        key
    }

    fn change_key(
        &mut self,
        command: KeyCommand,
        name: &str,
        places: &KeyPlaces,
    ) -> Result<(), Refusal> {
        let system = places.data.join(SYSTEM_DIRECTORY);
        if environment_id_in(&self.platform, &system)?.is_none() {
            return because("This is no data directory of a server.".to_owned());
        }
        let catalog = ServerCatalog::open(&self.platform, system)?;
        let done = self.change_key_in(&catalog, command, name, places);
        catalog.cluster().close();
        catalog.environment().close()?;
        let outcome = done?;
        let (before, after) = (outcome.before_bytes, outcome.after_bytes);
        let what = match command {
            KeyCommand::Decrypt => "is not encrypted any more",
            KeyCommand::Rotate => "is encrypted with another key now; keep it (get-key prints it)",
            _ => "is encrypted now; keep its key (get-key prints it)",
        };
        self.say(format_args!("'{name}' {what}. {before} bytes before, {after} after."));
        Ok(())
    }

    fn change_key_in(
        &mut self,
        catalog: &ServerCatalog,
        command: KeyCommand,
        name: &str,
        places: &KeyPlaces,
    ) -> Result<CompactOutcome, Refusal> {
        let Some(record) = catalog.record(name) else {
            return because(format!("There is no database '{name}'."));
        };
        let is_encrypted = RecordBody::of_record(&record).is_encrypted();
        match (command, is_encrypted) {
            (KeyCommand::Encrypt, true) => {
                return because(format!(
                    "'{name}' is encrypted already; rotate-key replaces its key."
                ));
            }
            (KeyCommand::Decrypt | KeyCommand::Rotate, false) => {
                return because(format!("'{name}' is not encrypted."));
            }
            _ => {}
        }
        let keys = self.keys(places);
        let mut options = self.options_of(&record, places)?;
        options.encryption_key = is_encrypted.then(|| keys.key_of(name)).transpose()?;
        let next = match command {
            KeyCommand::Decrypt => None,
            KeyCommand::Rotate => Some(self.next_key()?),
            _ => Some(self.first_key(&keys, name)?),
        };
        if command == KeyCommand::Rotate
            && let Some(next) = &next
            && *keys.secret(name)?.0 == *next.0
        {
            return Err(KeyError::Same { name: name.to_owned() }.into());
        }
        let next_key = next.as_ref().map(|next| kept(next, &options)).transpose()?;
        let change = KeyChange::of(&self.platform, &options)?;
        let observer = &mut |_: &CompactProgress| ControlFlow::Continue(());
        let outcome = change.prepare(next_key.as_ref(), observer)?;
        match &next {
            Some(next) if command == KeyCommand::Rotate => keys.store(name, next, true)?,
            next => {
                let is_encrypted = next.is_some();
                catalog.update(name, |record, draft| {
                    let mut body = RecordBody::of_record(record);
                    body.set_encrypted(is_encrypted);
                    draft.body = body.to_json();
                    Decision::Replace
                })?;
            }
        }
        change.complete(next_key.as_ref())?;
        if command == KeyCommand::Decrypt {
            keys.remove(name)?;
        }
        Ok(outcome)
    }

    /// The key for a database that is not encrypted: what is stored for it, or what --key names, or a new one, which are
    /// stored then.
    fn first_key(&mut self, keys: &EncryptionKeys, name: &str) -> Result<SecretKey, Refusal> {
        match keys.secret(name) {
            Ok(_) if self.key.is_some() => because(format!(
                "There is a key for '{name}' already. Leave {KEY_OPTION} out to encrypt with it."
            )),
            Ok(stored) => Ok(stored),
            Err(KeyError::Missing { .. }) => {
                let key = self.next_key()?;
                keys.store(name, &key, false)?;
                Ok(key)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The key that --key names, or a new one.
    fn next_key(&mut self) -> Result<SecretKey, Refusal> {
        if self.key.is_some() {
            let missing = || Refusal::Because("There is no key to encrypt with.".to_owned());
            return self.read_key().ok_or_else(missing);
        }
        let mut key = SecretKey::zeroed();
        self.platform.entropy.fill(&mut key.0[..]);
        Ok(key)
    }

    /// The environment of a database. Copying it without their journals would lose what is only there.
    fn options_of(
        &self,
        record: &DatabaseRecord,
        places: &KeyPlaces,
    ) -> Result<EnvironmentOptions, Refusal> {
        let mut options = places.environment_of(record.name.as_str(), Some(record));
        let journals = options.journals();
        if !self.exists(&journals) {
            return because(format!(
                "The journals of the database are not in {}. If the server has a Storage.JournalsPath, name it with \
                 --journals=<directory>.",
                journals.display()
            ));
        }
        options.is_key_certain = true;
        Ok(options)
    }

    fn exists(&self, path: &Path) -> bool {
        self.platform.disk.exists(path).unwrap_or(false)
    }
}

/// A key as the storage takes it; the secret itself stays with its owner.
pub(crate) fn kept(
    secret: &SecretKey,
    options: &EnvironmentOptions,
) -> Result<EncryptionKey, Refusal> {
    let mut copied = SecretKey(secret.0.clone());
    EncryptionKey::take(&mut copied.0).map_err(|source| {
        let (path, source) = (options.directory.clone(), Arc::new(source));
        Refusal::Storage(StorageError::Io { path, operation: "keep the key of", source })
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use database::NewDatabase;
    use documents::DatabaseIdentity;
    use model::{DatabaseId, DatabaseName, NodeTag};
    use platform::{
        Platform,
        simulated::{Simulation, Survival},
    };
    use storage::{Environment, Transaction, TreeName, is_encrypted_in};

    use super::*;

    const DATABASE: &str = "/data/Databases/shop";
    const INDEX: &str = "/data/Databases/shop/Indexes/by-name";
    const ENTRIES: u32 = 300;

    /// A data directory with a database and an index of it.
    fn data_directory(seed: u64) -> Simulation {
        let simulation = Platform::simulated(seed);
        let catalog = ServerCatalog::open(&simulation.platform, "/data/System".into()).unwrap();
        let new = NewDatabase {
            topology: None,
            name: DatabaseName::new("shop").unwrap(),
            disabled: false,
            body: br#"{"DatabaseName":"shop","Settings":{"Own":"kept"}}"#.to_vec(),
            request_id: None,
        };
        catalog.create(new).unwrap();
        close(&catalog);
        for directory in [DATABASE, INDEX] {
            let options = EnvironmentOptions::new(directory);
            let environment = Environment::open(&simulation.platform, options).unwrap();
            let mut tx = environment.write().unwrap();
            if directory == DATABASE {
                let (database_id, node_tag) = (DatabaseId([1; 16]), NodeTag::A);
                documents::initialize(&mut tx, DatabaseIdentity { database_id, node_tag }).unwrap();
            }
            let mut tree = tx.tree_mut(&TreeName::from("Other")).unwrap();
            for number in 0..ENTRIES {
                tree.put(&number.to_be_bytes(), b"marker in clear text").unwrap();
            }
            tx.commit().unwrap();
        }
        simulation
    }

    fn close(catalog: &ServerCatalog) {
        catalog.cluster().close();
        catalog.environment().close().unwrap();
    }

    fn run(platform: &Platform, words: &[&str]) -> (u8, String) {
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut out = Vec::new();
        let code = Offline { platform: platform.clone(), key: None, out: &mut out }.run(&arguments);
        (code, String::from_utf8(out).unwrap())
    }

    fn done(platform: &Platform, words: &[&str]) -> String {
        let (code, out) = run(platform, words);
        assert_eq!(code, SOUND, "{words:?}: {out}");
        out
    }

    fn refused(platform: &Platform, words: &[&str], text: &str) {
        let (code, out) = run(platform, words);
        assert!(code == NOTHING_DONE && out.contains(text), "{words:?}: {code}, {out}");
    }

    /// Opens everything as a server does, by what its own environment says; returns whether it is encrypted.
    fn opens(platform: &Platform) -> bool {
        let catalog = ServerCatalog::open(platform, "/data/System".into()).unwrap();
        let record = catalog.record("shop").unwrap();
        let body = RecordBody::of_record(&record);
        assert_eq!(body.properties()["Settings"]["Own"], "kept");
        let is_encrypted = body.is_encrypted();
        close(&catalog);
        let keys = EncryptionKeys::new(platform, "/data".as_ref(), MasterKeySource::Made);
        for directory in [DATABASE, INDEX] {
            let mut options = EnvironmentOptions::new(directory);
            options.encryption_key = is_encrypted.then(|| keys.key_of("shop").unwrap());
            options.is_key_certain = true;
            let environment = Environment::open(platform, options).unwrap();
            let read = environment.read();
            read.check().unwrap();
            assert_eq!(read.tree(&TreeName::from("Other")).unwrap().len(), u64::from(ENTRIES));
            let found = is_encrypted_in(platform, directory.as_ref()).unwrap();
            assert_eq!(found, Some(is_encrypted), "{directory}");
            let prepared = Path::new(directory).join("corvus.data.prepared");
            assert!(!platform.disk.exists(&prepared).unwrap(), "{directory}");
        }
        is_encrypted
    }

    /// Whether what was written is in any file.
    fn is_readable(simulation: &Simulation) -> bool {
        let mut pending = vec![PathBuf::from("/data")];
        while let Some(path) = pending.pop() {
            match simulation.platform.disk.list(&path) {
                Ok(names) => pending.extend(names.iter().map(|name| path.join(name))),
                Err(_) => {
                    let bytes = simulation.disk.file_bytes(&path).unwrap();
                    if memchr::memmem::find(&bytes, b"marker in clear text").is_some() {
                        return true;
                    }
                }
            }
        }
        false
    }

    #[test]
    fn a_database_is_encrypted_gets_another_key_and_is_decrypted_with_its_indexes() {
        let simulation = data_directory(1);
        let platform = &simulation.platform;
        refused(platform, &["decrypt", "/data", "shop"], "is not encrypted");
        refused(platform, &["rotate-key", "/data", "shop"], "is not encrypted");
        refused(platform, &["encrypt", "/data", "other"], "There is no database 'other'");
        refused(platform, &["encrypt", "/nowhere", "shop"], "no data directory");
        assert!(!opens(platform) && is_readable(&simulation));

        done(platform, &["encrypt", "/data", "Shop"]);
        assert!(opens(platform) && !is_readable(&simulation));
        refused(platform, &["encrypt", "/data", "shop"], "is encrypted already");
        let first = done(platform, &["get-key", "/data", "shop"]);

        done(platform, &["rotate-key", "/data", "shop"]);
        assert!(opens(platform) && !is_readable(&simulation));
        let second = done(platform, &["get-key", "/data", "shop"]);
        assert_ne!(first, second);
        let own = model::base64_text(&[8; EncryptionKey::BYTES]);
        platform.disk.write_file_atomically("/own.key".as_ref(), own.as_bytes()).unwrap();
        let with_own = ["rotate-key", "/data", "shop", "--key=/own.key"];
        done(platform, &with_own);
        refused(platform, &with_own, "is the same one");
        assert_eq!(done(platform, &["get-key", "/data", "shop"]).trim(), own);
        assert!(opens(platform));

        done(platform, &["decrypt", "/data", "shop"]);
        assert!(!opens(platform));
        refused(platform, &["get-key", "/data", "shop"], "There is no key");
        done(platform, &["encrypt", "/data", "shop", "--key=/own.key"]);
        assert!(opens(platform));
        assert_eq!(done(platform, &["get-key", "/data", "shop"]).trim(), own);
    }

    #[test]
    fn journals_that_are_not_there_and_a_full_disk_leave_everything_as_it_is() {
        let simulation = data_directory(2);
        let platform = &simulation.platform;
        platform.disk.create_dir_all("/fast".as_ref()).unwrap();
        let journals = Path::new(DATABASE).join("journals");
        platform.disk.rename(&journals, "/fast/shop".as_ref()).unwrap();
        refused(platform, &["encrypt", "/data", "shop"], "--journals=<directory>");
        done(platform, &["encrypt", "/data", "shop", "--journals=/fast"]);

        let simulation = data_directory(3);
        let platform = &simulation.platform;
        let used = platform.disk.space("/data".as_ref()).unwrap();
        let used = used.total_bytes.saturating_sub(used.free_bytes);
        simulation.disk.space_limit(Some(used + (40 << 10)));
        let (code, out) = run(platform, &["encrypt", "/data", "shop"]);
        assert_eq!(code, NOTHING_DONE, "{out}");
        simulation.disk.space_limit(None);
        assert!(!opens(platform));
    }

    /// Whatever the moment, a server finds the database as it was, or as it is to be.
    #[test]
    fn a_power_cut_at_any_moment_leaves_one_of_both() {
        for (command, survival) in [
            ("encrypt", Survival::Nothing),
            ("encrypt", Survival::RandomSubset),
            ("rotate-key", Survival::Nothing),
            ("rotate-key", Survival::Everything),
            ("decrypt", Survival::Nothing),
            ("decrypt", Survival::RandomSubset),
        ] {
            let mut seen = [0; 2];
            let mut nth = 1;
            loop {
                let simulation = data_directory(nth);
                let platform = &simulation.platform;
                if command != "encrypt" {
                    done(platform, &["encrypt", "/data", "shop"]);
                }
                let key = || run(platform, &["get-key", "/data", "shop"]).1;
                let before = (opens(platform), key());
                simulation.disk.cut_power_at_operation(nth, survival);
                let words = [command, "/data", "shop"];
                let finished = run(platform, &words).0 == SOUND && !simulation.disk.is_power_lost();
                simulation.disk.restart().unwrap();
                let is_encrypted = opens(platform);
                let is_changed = match command {
                    "rotate-key" => key() != before.1,
                    _ => is_encrypted != before.0,
                };
                seen[usize::from(is_changed)] += 1;
                assert!(is_changed || !finished, "{command}, operation {nth}");
                if finished {
                    break;
                }
                // Cuts at every operation take long; the steps in between are like those before them.
                nth += 1 + nth / 24;
            }
            assert!(seen[0] > 10 && seen[1] > 0, "{command}: {seen:?} at {nth}");
        }
    }
}
