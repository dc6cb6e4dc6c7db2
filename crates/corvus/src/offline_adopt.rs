//! `corvus offline adopt`: registers a database in the server's own environment when it is missing
//! there.
//!
//! The record of a database (its settings, the definitions of its indexes, its configuration of
//! revisions and so on) is in the server's environment, `System`. When that is lost, or older than
//! a database, the directory of the database exists but the server does not know it. Here an
//! operator confirms that it is a database of this server, or that files that replaced those of a
//! database are intended.

use std::{io::Write, path::Path};

use database::{Decision, NewDatabase, ServerCatalog, foreign_product};
use engine::{DATABASES_DIRECTORY, EncryptionKeys, KeyError, SYSTEM_DIRECTORY, has_databases};
use model::{DatabaseName, DatabaseRecord};
use platform::Platform;
use security::SecretKey;
use storage::{
    Environment, EnvironmentOptions, environment_id_in, is_encrypted_in, settle_prepared,
};
use wire::RecordBody;

use crate::{
    offline_keys::{KeyPlaces, kept},
    offline_refusal::Refusal,
};

/// Adopts the database `name`, or lists what could be adopted. The key of an encrypted one is the given one, which is
/// stored then, or else the stored one. Returns whether it was done.
pub(crate) fn run(
    platform: &Platform,
    out: &mut dyn Write,
    places: &KeyPlaces,
    given: Option<SecretKey>,
    name: Option<&str>,
) -> bool {
    let data = &*places.data;
    let done = open_catalog(platform, data).and_then(|catalog| {
        let done = match name {
            Some(name) => adopt(platform, &catalog, places, given, name),
            None => list(platform, &catalog, data),
        };
        catalog.cluster().close();
        catalog.environment().close()?;
        done
    });
    let (text, is_done) = match done {
        Ok(text) => (text, true),
        Err(refusal) => (format!("Nothing was done: {}", refusal), false),
    };
    // When writing fails, the output is closed; the exit code still reports the result.
    drop(writeln!(out, "{}", text.trim_end()));
    is_done
}

fn open_catalog(platform: &Platform, data: &Path) -> Result<ServerCatalog, Refusal> {
    let system = data.join(SYSTEM_DIRECTORY);
    // Without a server's environment a new one is created, for databases that exist nevertheless.
    if environment_id_in(platform, &system)?.is_none() && !has_databases(platform, data) {
        let text = format!("{} is no data directory of a server.", data.display());
        return Err(Refusal::Because(text));
    }
    Ok(ServerCatalog::open(platform, system)?)
}

fn list(platform: &Platform, catalog: &ServerCatalog, data: &Path) -> Result<String, Refusal> {
    let root = data.join(DATABASES_DIRECTORY);
    let mut text = String::new();
    for name in platform.disk.list(&root).unwrap_or_default() {
        let directory = root.join(&name);
        let found = environment_id_in(platform, &directory);
        let line = match (foreign_product(&*platform.disk, &directory), catalog.record(&name)) {
            (Some(foreign), _) => foreign.to_string(),
            (None, Some(record)) => match (catalog.environment_of(&record.name)?, found) {
                (Some(own), Ok(Some(found))) if own != found => {
                    "known, but these are the files of another database".to_owned()
                }
                (Some(_), Ok(None)) => "known, but its files are missing".to_owned(),
                (_, Err(error)) => format!("known, and unreadable: {error}"),
                (Some(_) | None, Ok(_)) => "known".to_owned(),
            },
            (None, None) => match found {
                Ok(Some(_)) => "UNKNOWN: a database that can be adopted".to_owned(),
                Ok(None) => "no database".to_owned(),
                Err(error) => format!("UNKNOWN, and unreadable: {error}"),
            },
        };
        text.push_str(&format!("{}: {line}\n", directory.display()));
    }
    Ok(if text.is_empty() { format!("{} holds nothing.", root.display()) } else { text })
}

fn adopt(
    platform: &Platform,
    catalog: &ServerCatalog,
    places: &KeyPlaces,
    given: Option<SecretKey>,
    name: &str,
) -> Result<String, Refusal> {
    let refused = |text: String| Err(Refusal::Because(text));
    let name = match DatabaseName::new(name) {
        Ok(name) => name,
        Err(error) => return refused(error.to_string()),
    };
    let record = catalog.record(name.as_str());
    let mut options = places.environment_of(name.as_str(), record.as_deref());
    let directory = options.directory.clone();
    let named = directory.display();
    if let Some(foreign) = foreign_product(&*platform.disk, &directory) {
        return refused(format!("{named}: {foreign}."));
    }
    let Some(id) = environment_id_in(platform, &directory)? else {
        return refused(format!("there is no database in {named}."));
    };
    if let Some(other) = catalog.owner_of(id, &name)? {
        return refused(format!(
            "{named} holds a copy of the database '{other}', or its own files."
        ));
    }
    let keys = places.keys(platform);
    settle_key_change(platform, &keys, record.as_deref(), given.as_ref(), &options)?;
    let is_encrypted = is_encrypted_in(platform, &directory)?.unwrap_or(given.is_some());
    if is_encrypted {
        let secret = match &given {
            Some(given) => SecretKey(given.0.clone()),
            None => keys.secret(name.as_str())?,
        };
        options.encryption_key = Some(kept(&secret, &options)?);
    }
    check_database(platform, options.clone())?;
    if let Some(key) = given.filter(|_| is_encrypted) {
        keys.replace(name.as_str(), &key)?;
    }
    let Some(record) = record else {
        let encrypted = if is_encrypted { ",\"Encrypted\":true" } else { "" };
        let body = format!("{{\"DatabaseName\":\"{}\"{encrypted}}}", name.as_str()).into_bytes();
        let new = NewDatabase {
            name: name.clone(),
            disabled: false,
            topology: None,
            body,
            request_id: None,
        };
        catalog.create(new)?;
        catalog.adopt(&name, options)?;
        return Ok(format!(
            "{named}: adopted as '{}'. Its settings, the definitions of its indexes, and its \
             configurations of revisions, expiration and the like were in the lost record: make them again.",
            name.as_str()
        ));
    };
    let follows_files = RecordBody::of_record(&record).is_encrypted() != is_encrypted;
    if follows_files {
        catalog.update(name.as_str(), |record, draft| {
            let mut body = RecordBody::of_record(record);
            body.set_encrypted(is_encrypted);
            draft.body = body.to_json();
            Decision::Replace
        })?;
    }
    catalog.adopt(&record.name, options)?;
    let change = match (follows_files, is_encrypted) {
        (false, _) => "",
        (true, true) => " They are encrypted, so the database is from now on.",
        (true, false) => {
            " They are not encrypted, so the database is not any more; `offline encrypt` encrypts it."
        }
    };
    Ok(format!(
        "{named}: these are the files of '{}' from now on, and {SYSTEM_DIRECTORY} is as new as they are.{change} \
         Look at its identities and its compare exchange before clients write: the server may have \
         older ones than the documents. Subscriptions that had come further than these files are refused \
         until a client updates them with the position at which they continue.",
        name.as_str()
    ))
}

/// Completes or discards a change of the key that was interrupted, as the server does at its start: otherwise that would
/// replace the files after they were adopted. What counts is what the server knows, or what is given for a database that
/// it does not know.
fn settle_key_change(
    platform: &Platform,
    keys: &EncryptionKeys,
    record: Option<&DatabaseRecord>,
    given: Option<&SecretKey>,
    options: &EnvironmentOptions,
) -> Result<(), Refusal> {
    let mut options = options.clone();
    let is_encrypted =
        record.map_or(given.is_some(), |record| RecordBody::of_record(record).is_encrypted());
    if is_encrypted {
        let stored = record.map(|record| keys.secret(record.name.as_str()));
        let secret = match stored {
            Some(Ok(stored)) => Some(stored),
            Some(Err(KeyError::Missing { .. })) | None => {
                given.map(|given| SecretKey(given.0.clone()))
            }
            Some(Err(error)) => return Err(error.into()),
        };
        let Some(secret) = secret else { return Ok(()) };
        options.encryption_key = Some(kept(&secret, &options)?);
    }
    Ok(settle_prepared(platform, &options)?)
}

/// Opens the environment, through recovery, to see that it is whole and holds documents.
fn check_database(platform: &Platform, options: EnvironmentOptions) -> Result<(), Refusal> {
    let directory = options.directory.clone();
    let environment = Environment::open(platform, options)?;
    let is_database = documents::is_database(&environment.read()).unwrap_or(false);
    environment.close()?;
    if is_database {
        return Ok(());
    }
    Err(Refusal::Because(format!("{} holds no documents.", directory.display())))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use documents::DatabaseIdentity;
    use engine::KeyChange;
    use model::{DatabaseId, NodeTag};
    use platform::Access;
    use storage::{CompactProgress, EncryptionKey};

    use super::*;

    const DATA: &str = "/data";

    fn make_database(platform: &Platform, name: &str) -> u128 {
        make_database_with(platform, name, None)
    }

    fn make_database_with(platform: &Platform, name: &str, key: Option<EncryptionKey>) -> u128 {
        let directory = Path::new(DATA).join(DATABASES_DIRECTORY).join(name);
        let mut options = EnvironmentOptions::new(&directory);
        options.encryption_key = key;
        let environment = Environment::open(platform, options).expect("opens");
        let mut tx = environment.write().expect("writer");
        let identity = DatabaseIdentity { database_id: DatabaseId([1; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, identity).expect("initializes");
        tx.commit().expect("commits");
        environment.close().expect("closes");
        environment_id_in(platform, &directory).expect("is read").expect("is there")
    }

    /// A data directory with the server's own environment, and directories that it does not know.
    fn bench() -> Platform {
        let platform = Platform::memory();
        let catalog = ServerCatalog::open(&platform, Path::new(DATA).join(SYSTEM_DIRECTORY))
            .expect("is created");
        catalog.cluster().close();
        catalog.environment().close().expect("closes");
        platform
    }

    fn places() -> KeyPlaces {
        KeyPlaces { data: DATA.into(), master_key: None, journals: None }
    }

    fn done(platform: &Platform, name: Option<&str>) -> (bool, String) {
        let mut out = Vec::new();
        let is_done = run(platform, &mut out, &places(), None, name);
        (is_done, String::from_utf8(out).expect("is text"))
    }

    fn recorded(platform: &Platform, name: &str) -> Option<u128> {
        let catalog = open_catalog(platform, Path::new(DATA)).ok().expect("opens");
        let id = catalog
            .record(name)
            .and_then(|record| catalog.environment_of(&record.name).expect("is read"));
        catalog.cluster().close();
        catalog.environment().close().expect("closes");
        id
    }

    #[test]
    fn a_database_without_a_record_is_listed_and_taken_in() {
        let platform = bench();
        let id = make_database(&platform, "lost");
        let (is_done, text) = done(&platform, None);
        assert!(is_done && text.contains("/data/Databases/lost: UNKNOWN"), "{text}");
        let (is_done, text) = done(&platform, Some("Lost"));
        assert!(is_done && text.contains("adopted as 'Lost'"), "{text}");
        assert_eq!(recorded(&platform, "lost"), Some(id));
        let (is_done, text) = done(&platform, Some("lost"));
        assert!(is_done && text.contains("the files of 'lost' from now on"), "{text}");
        assert!(done(&platform, None).1.contains("lost: known"));
    }

    #[test]
    fn an_encrypted_database_is_adopted_with_its_key() {
        let platform = bench();
        let of_files = EncryptionKey::take(&mut key_of(7).0).expect("is kept");
        let id = make_database_with(&platform, "vault", Some(of_files));
        let (is_done, text) = done(&platform, Some("vault"));
        assert!(!is_done && text.contains("There is no key"), "{text}");
        adopted_with(&platform, "vault", Some(key_of(7)));
        assert_eq!(recorded(&platform, "vault"), Some(id));
        let catalog = open_catalog(&platform, Path::new(DATA)).ok().expect("opens");
        let record = catalog.record("vault").expect("is there");
        assert!(wire::RecordBody::of_record(&record).is_encrypted());
        catalog.cluster().close();
        catalog.environment().close().expect("closes");
        // The key is stored now.
        let (is_done, text) = done(&platform, Some("vault"));
        assert!(is_done, "{text}");
    }

    fn key_of(byte: u8) -> SecretKey {
        let mut key = SecretKey::zeroed();
        key.0.fill(byte);
        key
    }

    fn adopted_with(platform: &Platform, name: &str, given: Option<SecretKey>) -> String {
        let mut out = Vec::new();
        let is_done = run(platform, &mut out, &places(), given, Some(name));
        let text = String::from_utf8(out).expect("is text");
        assert!(is_done, "{text}");
        text
    }

    /// What the server would do with the database.
    fn opens(platform: &Platform, name: &str) -> Result<(), String> {
        let catalog = open_catalog(platform, Path::new(DATA)).ok().expect("opens");
        let record = catalog.record(name).expect("is there");
        catalog.cluster().close();
        catalog.environment().close().expect("closes");
        let mut options = places().environment_of(name, Some(&record));
        options.is_key_certain = true;
        if RecordBody::of_record(&record).is_encrypted() {
            let key = places().keys(platform).key_of(name).map_err(|error| error.to_string())?;
            options.encryption_key = Some(key);
        }
        let environment =
            Environment::open(platform, options).map_err(|error| error.to_string())?;
        environment.close().map_err(|error| error.to_string())
    }

    #[test]
    fn older_files_are_adopted_with_their_key_and_the_newer_key_stays() {
        let platform = bench();
        let own = |byte: u8| EncryptionKey::take(&mut key_of(byte).0).expect("is kept");
        make_database_with(&platform, "vault", Some(own(2)));
        adopted_with(&platform, "vault", Some(key_of(2)));
        let place = Path::new(DATA).join(DATABASES_DIRECTORY).join("vault");
        for (byte, given) in [(1, Some(1)), (3, Some(3)), (2, Some(2))] {
            platform.disk.remove_dir_all(&place).expect("removes");
            make_database_with(&platform, "vault", Some(own(byte)));
            adopted_with(&platform, "vault", given.map(key_of));
            opens(&platform, "vault").expect("it can be opened");
        }
        let keys = places().keys(&platform);
        let stored: Vec<u8> = keys
            .names()
            .expect("are read")
            .iter()
            .map(|name| keys.secret(name).expect("is read").0[0])
            .collect();
        assert_eq!(stored, [2, 2, 1, 3], "the present one, and those that it replaced");
    }

    #[test]
    fn a_record_follows_files_that_are_encrypted_or_not() {
        let platform = bench();
        make_database(&platform, "db");
        adopted_with(&platform, "db", None);
        let place = Path::new(DATA).join(DATABASES_DIRECTORY).join("db");
        for (key, said) in [(Some(1), "encrypted, so"), (None, "not encrypted, so")] {
            platform.disk.remove_dir_all(&place).expect("removes");
            let own = key.map(|byte| EncryptionKey::take(&mut key_of(byte).0).expect("is kept"));
            make_database_with(&platform, "db", own);
            let text = adopted_with(&platform, "db", key.map(key_of));
            assert!(text.contains(said), "{text}");
            opens(&platform, "db").expect("it can be opened");
        }
    }

    #[test]
    fn an_interrupted_change_of_the_key_is_completed_before_files_are_adopted() {
        let platform = bench();
        let own = |byte: u8| EncryptionKey::take(&mut key_of(byte).0).expect("is kept");
        make_database_with(&platform, "vault", Some(own(1)));
        adopted_with(&platform, "vault", Some(key_of(1)));
        let mut options = places().environment_of("vault", None);
        options.encryption_key = Some(own(1));
        let change = KeyChange::of(&platform, &options).expect("is read");
        let observer = &mut |_: &CompactProgress| ControlFlow::Continue(());
        change.prepare(Some(&own(2)), observer).expect("is copied");
        // As after a kill right after the moment that counts.
        let keys = places().keys(&platform);
        keys.store("vault", &key_of(2), true).expect("is stored");
        let mut out = Vec::new();
        let is_done = run(&platform, &mut out, &places(), Some(key_of(1)), Some("vault"));
        assert!(!is_done, "{}", String::from_utf8_lossy(&out));
        adopted_with(&platform, "vault", None);
        assert!(!platform.disk.exists(&options.directory.join("corvus.data.prepared")).unwrap());
        opens(&platform, "vault").expect("it can be opened");
    }

    #[test]
    fn other_files_take_the_place_of_known_ones_when_an_operator_says_so() {
        let platform = bench();
        make_database(&platform, "db");
        assert!(done(&platform, Some("db")).0);
        let place = Path::new(DATA).join(DATABASES_DIRECTORY).join("db");
        platform.disk.rename(&place, Path::new("/old")).expect("moves");
        assert!(done(&platform, None).1.contains("holds nothing"));
        let id = make_database(&platform, "db");
        assert!(done(&platform, None).1.contains("the files of another database"));
        assert!(done(&platform, Some("db")).0);
        assert_eq!(recorded(&platform, "db"), Some(id));
    }

    #[test]
    fn what_is_no_database_of_its_own_is_refused() {
        let platform = bench();
        let foreign = Path::new(DATA).join(DATABASES_DIRECTORY).join("raven");
        platform.disk.create_dir_all(&foreign).expect("is created");
        platform.disk.create(&foreign.join("Raven.voron"), Access::Buffered).expect("is created");
        make_database(&platform, "db");
        assert!(done(&platform, Some("db")).0);
        let table = [("raven", "RavenDB"), ("nothing", "no database"), ("a b", "")];
        for (name, reason) in table {
            let (is_done, text) = done(&platform, Some(name));
            assert!(!is_done && text.contains(reason), "{name}: {text}");
            assert_eq!(recorded(&platform, name), None);
        }
        // Without a server's environment one is created, but only where there is a database to
        // adopt.
        platform.disk.remove_dir_all(&Path::new(DATA).join(SYSTEM_DIRECTORY)).expect("removes");
        assert!(done(&platform, Some("db")).0);
        assert!(recorded(&platform, "db").is_some());
        let nowhere = KeyPlaces { data: "/nowhere".into(), ..places() };
        let nowhere = run(&platform, &mut Vec::new(), &nowhere, None, None);
        assert!(!nowhere);
    }
}
