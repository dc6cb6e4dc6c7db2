//! `corvus offline adopt`: registers a database in the server's own environment when it is missing
//! there.
//!
//! The record of a database (its settings, the definitions of its indexes, its configuration of
//! revisions and so on) is in the server's environment, `System`. When that is lost, or older than
//! a database, the directory of the database exists but the server does not know it. Here an
//! operator confirms that it is a database of this server, or that files that replaced those of a
//! database are intended.

use std::{io::Write, path::Path};

use database::{NewDatabase, ServerCatalog, foreign_product};
use engine::{DATABASES_DIRECTORY, KeyError, SYSTEM_DIRECTORY, has_databases};
use model::DatabaseName;
use platform::Platform;
use security::SecretKey;
use storage::{EncryptionKey, Environment, EnvironmentOptions, environment_id_in, is_encrypted_in};

use crate::{offline_keys::KeyPlaces, offline_refusal::Refusal};

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
    let directory = places.data.join(DATABASES_DIRECTORY).join(name.lower_cased());
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
    let mut options = EnvironmentOptions::new(&directory);
    options.journals_directory = places.journals.as_ref().map(|path| path.join(name.lower_cased()));
    let is_encrypted = is_encrypted_in(platform, &directory)?.unwrap_or(given.is_some());
    let keys = places.keys(platform);
    if is_encrypted {
        let mut key = SecretKey::zeroed();
        match &given {
            Some(given) => key.0.copy_from_slice(&given.0[..]),
            None => key = keys.secret(name.as_str())?,
        }
        let key = EncryptionKey::take(&mut key.0)
            .map_err(|error| Refusal::Because(format!("the key cannot be kept: {error}.")))?;
        options.encryption_key = Some(key);
    }
    check_database(platform, options.clone())?;
    if let Some(key) = given.filter(|_| is_encrypted)
        && matches!(keys.check(name.as_str()), Err(KeyError::Missing { .. }))
    {
        keys.store(name.as_str(), &key, false)?;
    }
    if let Some(record) = catalog.record(name.as_str()) {
        catalog.adopt(&record.name, options)?;
        return Ok(format!(
            "{named}: these are the files of '{}' from now on, and {SYSTEM_DIRECTORY} is as new as they are. \
             Look at its identities and its compare exchange before clients write: the server may have \
             older ones than the documents. Subscriptions that had come further than these files are refused \
             until a client updates them with the position at which they continue.",
            name.as_str()
        ));
    }
    let encrypted = if is_encrypted { ",\"Encrypted\":true" } else { "" };
    let body = format!("{{\"DatabaseName\":\"{}\"{encrypted}}}", name.as_str()).into_bytes();
    let text = format!(
        "{named}: adopted as '{}'. Its settings, the definitions of its indexes, and its \
         configurations of revisions, expiration and the like were in the lost record: make them again.",
        name.as_str()
    );
    let new = NewDatabase {
        name: name.clone(),
        disabled: false,
        body,
        request_id: None,
        adopts_files: false,
    };
    catalog.create(new)?;
    catalog.adopt(&name, options)?;
    Ok(text)
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
    use documents::DatabaseIdentity;
    use model::{DatabaseId, NodeTag};
    use platform::Access;

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
        let key = || {
            let mut key = SecretKey::zeroed();
            key.0.fill(7);
            key
        };
        let platform = bench();
        let of_files = EncryptionKey::take(&mut key().0).expect("is kept");
        let id = make_database_with(&platform, "vault", Some(of_files));
        let (is_done, text) = done(&platform, Some("vault"));
        assert!(!is_done && text.contains("There is no key"), "{text}");
        let adopt = |name, given| {
            let mut out = Vec::new();
            let is_done = run(&platform, &mut out, &places(), given, Some(name));
            (is_done, String::from_utf8(out).expect("is text"))
        };
        let (is_done, text) = adopt("vault", Some(key()));
        assert!(is_done, "{text}");
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
