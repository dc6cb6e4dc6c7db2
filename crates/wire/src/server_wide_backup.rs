//! A scheduled backup of all databases of the server, as clients send it, and the task that each database has of it.

use serde_json::{Map, Value, json};

use crate::{
    backup_configuration::PeriodicBackup,
    error_body::ProtocolError,
    error_kind::ErrorKind,
    sent_properties::{object, property, with_names_as_written},
};

const EXCLUDED: &str = "ExcludedDatabases";
const NAME_PREFIX: &str = "NamePrefix";

/// Where a destination names its folder; the folder of a database is one below it.
const FOLDERS: [(&str, &str); 6] = [
    ("LocalSettings", "FolderPath"),
    ("S3Settings", "RemoteFolderName"),
    ("GlacierSettings", "RemoteFolderName"),
    ("AzureSettings", "RemoteFolderName"),
    ("GoogleCloudSettings", "RemoteFolderName"),
    ("FtpSettings", "Url"),
];

/// A scheduled backup of all databases.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerWideBackup {
    /// Its definition; its folders are those above the folders of the databases.
    pub definition: PeriodicBackup,
    /// The names of databases that it is not for.
    pub excluded: Vec<String>,
}

impl ServerWideBackup {
    /// What the names of the tasks that databases have of it begin with.
    pub const NAME_PREFIX: &'static str = "Server Wide Backup";

    /// Reads one as a client sends it, or as it is stored.
    ///
    /// # Errors
    /// As [`PeriodicBackup::read`]; an excluded database has no name.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        Ok(Self { definition: PeriodicBackup::read(sent)?, excluded: excluded(sent)? })
    }

    /// What is legible of one that cannot be [read](ServerWideBackup::read).
    pub fn legible(stored: &Map<String, Value>) -> Self {
        let excluded = excluded(stored).unwrap_or_default();
        Self { definition: PeriodicBackup::legible(stored), excluded }
    }

    /// Whether it is for the database of that name.
    pub fn is_for(&self, database: &str) -> bool {
        !self.excluded.iter().any(|name| name.eq_ignore_ascii_case(database))
    }

    /// One with the names of its properties as they are written: see [`PeriodicBackup::with_names_as_written`].
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        let mut named = with_names_as_written(
            &PeriodicBackup::with_names_as_written(sent),
            &[EXCLUDED, NAME_PREFIX],
        );
        named.remove(NAME_PREFIX);
        named.entry(EXCLUDED).or_insert(Value::Null);
        if named[EXCLUDED].is_null() {
            named.insert(EXCLUDED.to_owned(), json!([]));
        }
        named
    }

    /// A stored one, as clients are shown it.
    pub fn shown(stored: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = stored.clone();
        shown.insert(NAME_PREFIX.to_owned(), Self::NAME_PREFIX.into());
        shown
    }

    /// The name of the task that databases have of it.
    pub fn task_name(name: &str) -> String {
        format!("{}, {name}", Self::NAME_PREFIX)
    }

    /// The task that a database has of a stored one, with that number.
    pub fn task_of(stored: &Map<String, Value>, database: &str, id: u64) -> Map<String, Value> {
        let mut task = stored.clone();
        task.remove(EXCLUDED);
        let name = task.get("Name").and_then(Value::as_str).unwrap_or_default();
        let name = Self::task_name(name);
        task.insert("Name".to_owned(), name.into());
        task.insert("TaskId".to_owned(), id.into());
        for (destination, folder) in FOLDERS {
            let settings = task.get_mut(destination).and_then(Value::as_object_mut);
            if let Some(settings) = settings {
                add_folder(settings, folder, database);
            }
        }
        task
    }

    /// The name of a task that was given none: it says where the backups go to.
    pub fn name_of_destinations(stored: &Map<String, Value>) -> String {
        let words = FOLDERS.iter().filter_map(|(destination, _)| {
            let settings = object(stored, destination).ok().flatten()?;
            let is_disabled = property(settings, "Disabled").and_then(Value::as_bool);
            let word = destination.strip_suffix("Settings").unwrap_or(destination);
            (is_disabled != Some(true)).then_some(word)
        });
        format!("Backup to {}", words.collect::<Vec<_>>().join(", "))
    }
}

/// Whether a task of a database has a name that only those of server-wide tasks have.
pub fn is_name_of_server_wide_backup(name: &str) -> bool {
    let prefix = ServerWideBackup::NAME_PREFIX;
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Has the destination write into a folder of the database below its own.
fn add_folder(settings: &mut Map<String, Value>, folder: &str, database: &str) {
    let written = settings.keys().find(|name| name.eq_ignore_ascii_case(folder)).cloned();
    let written = written.unwrap_or_else(|| folder.to_owned());
    let above = settings.get(&written).and_then(Value::as_str).unwrap_or_default();
    let below = match above {
        "" => database.to_owned(),
        above => format!("{}/{database}", above.trim_end_matches('/')),
    };
    settings.insert(written, below.into());
}

fn excluded(sent: &Map<String, Value>) -> Result<Vec<String>, ProtocolError> {
    let list = match property(sent, EXCLUDED) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(ProtocolError::argument("'ExcludedDatabases' must be a list")),
    };
    let names = list.iter().map(|name| name.as_str().filter(|name| !name.trim().is_empty()));
    names.map(|name| name.map(str::to_owned)).collect::<Option<_>>().ok_or_else(|| {
        let message = "ExcludedDatabases cannot contain null or empty database names";
        ProtocolError::new(ErrorKind::RachisApply, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: Value) -> Map<String, Value> {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn a_database_has_a_task_with_a_name_and_a_folder_of_its_own() {
        let sent = map(json!({
            "name": "n", "FullBackupFrequency": "0 2 * * 0", "NamePrefix": "x", "excludedDatabases": null,
            "LocalSettings": {"folderPath": "/b/"}, "S3Settings": {"BucketName": "c"}, "Own": 1
        }));
        let stored = ServerWideBackup::with_names_as_written(&sent);
        assert_eq!(
            Value::Object(ServerWideBackup::task_of(&stored, "Orders", 7)),
            json!({
                "Name": "Server Wide Backup, n", "FullBackupFrequency": "0 2 * * 0", "TaskId": 7,
                "LocalSettings": {"folderPath": "/b/Orders"},
                "S3Settings": {"BucketName": "c", "RemoteFolderName": "Orders"}, "Own": 1
            })
        );
        let shown = ServerWideBackup::shown(&stored);
        assert_eq!(shown["NamePrefix"], "Server Wide Backup");
        assert_eq!(shown["ExcludedDatabases"], json!([]));
        let name = ServerWideBackup::name_of_destinations(&stored);
        assert_eq!(name, "Backup to Local, S3");
    }

    #[test]
    fn excluded_databases_have_names_in_any_case() {
        let read = |excluded: Value| {
            ServerWideBackup::read(&map(json!({
                "ExcludedDatabases": excluded, "LocalSettings": {"FolderPath": "b"}
            })))
        };
        let one = read(json!(["Orders"])).unwrap();
        assert!(!one.is_for("orders") && one.is_for("Orders2"));
        for bad in [json!(["a", " "]), json!([null]), json!(5)] {
            read(bad.clone()).expect_err(&bad.to_string());
        }
        assert!(is_name_of_server_wide_backup("server wide backup, x"));
        assert!(!is_name_of_server_wide_backup("Server Wide"));
    }
}
