//! What is backed up and where to, and what is restored, as clients send it.
//!
//! Names of properties are read in any case, since clients differ in that; unknown ones are ignored.

use model::TimeSpan;
use serde_json::{Map, Value};

use crate::{
    cloud_settings::{S3, S3Settings},
    error_body::ProtocolError,
    error_kind::ErrorKind,
    sent_properties::{flag, object, property, text, with_names_as_written},
};

/// The form of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackupType {
    /// What the database contains, as a dump.
    #[default]
    Backup,
    /// The files of the database.
    Snapshot,
}

impl BackupType {
    /// Its word in the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Self::Backup => "Backup",
            Self::Snapshot => "Snapshot",
        }
    }

    /// The form with this word, in any case.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Backup, Self::Snapshot]
            .into_iter()
            .find(|kind| kind.word().eq_ignore_ascii_case(word))
    }
}

/// How a backup is encrypted.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum BackupEncryption {
    /// It is not.
    #[default]
    None,
    /// With the key of the database.
    DatabaseKey,
    /// With this key, in base64.
    Key(String),
}

impl std::fmt::Debug for BackupEncryption {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::DatabaseKey => "DatabaseKey",
            Self::Key(_) => "Key(…)",
        })
    }
}

/// What is backed up, and where to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BackupConfiguration {
    /// The form.
    pub kind: BackupType,
    /// The folder of the server below which backups are written; `None` without this destination.
    pub folder: Option<String>,
    /// The bucket that they are copied to; `None` without this destination.
    pub bucket: Option<S3Settings>,
    /// How it is encrypted.
    pub encryption: BackupEncryption,
}

/// A backup that is repeated, in the record of its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicBackup {
    /// Its number within the database; 0 if it is new.
    pub id: u64,
    /// Its name.
    pub name: Option<String>,
    /// Whether it does not run.
    pub is_disabled: bool,
    /// The node that should do it.
    pub mentor_node: Option<String>,
    /// Whether no other node may do it.
    pub is_pinned: bool,
    /// When everything is backed up, in cron's form.
    pub full_frequency: Option<String>,
    /// When what has changed is backed up, in cron's form.
    pub incremental_frequency: Option<String>,
    /// How old a backup gets before it is removed; `None` if it never is.
    pub kept_for: Option<TimeSpan>,
    /// What is backed up, and where to.
    pub configuration: BackupConfiguration,
}

/// Where a backup is restored from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreSource {
    /// A folder of the server.
    Local,
    /// A folder in a bucket.
    S3(Box<S3Settings>),
}

/// What is restored, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreConfiguration {
    /// Where from.
    pub source: RestoreSource,
    /// The name of the new database.
    pub database: String,
    /// The folder with the files of the backup: of the server, or in the bucket, where the settings name it.
    pub location: String,
    /// The last file that is restored; the newest when `None`.
    pub last_file: Option<String>,
    /// The directory of the new database.
    pub data_directory: Option<String>,
    /// The key that the new database is encrypted with, in base64.
    pub database_key: Option<String>,
    /// How the backup is encrypted.
    pub encryption: BackupEncryption,
    /// Whether the tasks of the database are disabled.
    pub disables_tasks: bool,
    /// Whether definitions of indexes are left out.
    pub skips_indexes: bool,
}

/// Destinations of the protocol that this server does not write to.
const OTHER_DESTINATIONS: [&str; 4] =
    ["GlacierSettings", "AzureSettings", "GoogleCloudSettings", "FtpSettings"];

/// The other properties of a task that this server knows, as they are written.
const TASK_PROPERTIES: [&str; 13] = [
    "TaskId",
    "Name",
    "Disabled",
    "MentorNode",
    "PinToMentorNode",
    "FullBackupFrequency",
    "IncrementalBackupFrequency",
    "RetentionPolicy",
    "CreatedAt",
    "BackupType",
    "LocalSettings",
    S3,
    "BackupEncryptionSettings",
];

impl BackupConfiguration {
    /// Reads a configuration. One without a destination is read, too: see [`BackupConfiguration::check_destination`].
    ///
    /// # Errors
    /// A property of another type than it should have; an unknown form; a destination that this server does not
    /// write to.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let kind = match property(sent, "BackupType") {
            None => BackupType::default(),
            Some(value) => backup_type(value)?,
        };
        for name in OTHER_DESTINATIONS {
            if let Some(settings) = object(sent, name)?
                && !flag(settings, "Disabled")?
            {
                let message = format!(
                    "'{name}' cannot be used: this server writes backups to folders \
                     ('LocalSettings') and to buckets ('{S3}') alone so far. Copy them from there \
                     with another tool."
                );
                return Err(ProtocolError::new(ErrorKind::NotSupported, message));
            }
        }
        let mut folder = None;
        if let Some(local) = object(sent, "LocalSettings")?
            && !flag(local, "Disabled")?
        {
            if object(local, "GetBackupConfigurationScript")?.is_some() {
                let message = "'GetBackupConfigurationScript' is not supported: name the folder \
                               in 'FolderPath'.";
                return Err(ProtocolError::new(ErrorKind::NotSupported, message));
            }
            let path = text(local, "FolderPath")?;
            folder = Some(path.ok_or_else(|| {
                let message =
                    "FolderPath and GetBackupConfigurationScript cannot be both null or empty";
                ProtocolError::argument(message)
            })?);
        }
        let bucket = object(sent, S3)?.map(S3Settings::read).transpose()?.flatten();
        let encryption = encryption(sent)?;
        Ok(Self { kind, folder, bucket, encryption })
    }

    /// Checks that it has a destination.
    ///
    /// # Errors
    /// It has none.
    pub fn check_destination(&self) -> Result<(), ProtocolError> {
        match self.folder.is_some() || self.bucket.is_some() {
            true => Ok(()),
            false => {
                let message = "The backup configuration target no destinations";
                Err(ProtocolError::invalid_operation(message))
            }
        }
    }
}

impl PeriodicBackup {
    /// Reads a task as a client sends it, or as it is stored.
    ///
    /// # Errors
    /// As [`BackupConfiguration::read`].
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let mut kept_for = None;
        if let Some(policy) = object(sent, "RetentionPolicy")?
            && !flag(policy, "Disabled")?
            && let Some(age) = text(policy, "MinimumBackupAgeToKeep")?
        {
            let age: Result<TimeSpan, _> = age.parse();
            kept_for = Some(age.map_err(|_| {
                let message = "'MinimumBackupAgeToKeep' is not a duration such as 1.00:00:00";
                ProtocolError::new(ErrorKind::Format, message)
            })?);
        }
        Ok(Self {
            id: Self::id_of(sent),
            name: text(sent, "Name")?,
            is_disabled: flag(sent, "Disabled")?,
            mentor_node: text(sent, "MentorNode")?,
            is_pinned: flag(sent, "PinToMentorNode")?,
            full_frequency: text(sent, "FullBackupFrequency")?,
            incremental_frequency: text(sent, "IncrementalBackupFrequency")?,
            kept_for,
            configuration: BackupConfiguration::read(sent)?,
        })
    }
}

impl PeriodicBackup {
    /// What is legible of a task that cannot be [read](PeriodicBackup::read): to be shown, and not to be followed.
    pub fn legible(stored: &Map<String, Value>) -> Self {
        let text = |name: &str| text(stored, name).ok().flatten();
        let flag = |name: &str| flag(stored, name).unwrap_or(false);
        let kind = property(stored, "BackupType").and_then(|kind| backup_type(kind).ok());
        let configuration = BackupConfiguration {
            kind: kind.unwrap_or_default(),
            folder: None,
            bucket: None,
            encryption: encryption(stored).unwrap_or_default(),
        };
        Self {
            id: Self::id_of(stored),
            name: text("Name"),
            is_disabled: flag("Disabled"),
            mentor_node: text("MentorNode"),
            is_pinned: flag("PinToMentorNode"),
            full_frequency: text("FullBackupFrequency"),
            incremental_frequency: text("IncrementalBackupFrequency"),
            kept_for: None,
            configuration,
        }
    }

    /// The number of a task; 0 if it has none.
    pub fn id_of(stored: &Map<String, Value>) -> u64 {
        property(stored, "TaskId").and_then(Value::as_u64).unwrap_or(0)
    }

    /// A task with the names of its properties as they are written: clients may send them in any case, and a property
    /// must not be stored under two names. Of two, the one that is written so counts.
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        let known: Vec<_> = TASK_PROPERTIES.iter().chain(&OTHER_DESTINATIONS).copied().collect();
        with_names_as_written(sent, &known)
    }
}

impl RestoreConfiguration {
    /// Reads a request to restore.
    ///
    /// # Errors
    /// A property is missing, or of another type than it should have; another source than a folder.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let settings = object(sent, "Settings")?;
        let source = RestoreSource::read(property(sent, "Type"), settings)?;
        let database = text(sent, "DatabaseName")?
            .ok_or_else(|| ProtocolError::invalid_operation("Name cannot be null or empty."))?;
        let location = match &source {
            RestoreSource::Local => text(sent, "BackupLocation")?,
            RestoreSource::S3(bucket) => Some(bucket.folder.clone()),
        };
        let location = location
            .ok_or_else(|| ProtocolError::argument("Backup location can't be null or empty"))?;
        Ok(Self {
            source,
            database,
            location,
            last_file: text(sent, "LastFileNameToRestore")?,
            data_directory: text(sent, "DataDirectory")?,
            database_key: text(sent, "EncryptionKey")?,
            encryption: encryption(sent)?,
            disables_tasks: flag(sent, "DisableOngoingTasks")?,
            skips_indexes: flag(sent, "SkipIndexes")?,
        })
    }
}

impl RestoreSource {
    /// Reads a source: its kind, and the settings of a bucket.
    ///
    /// # Errors
    /// The kind is one that this server does not read from; the settings are incomplete.
    pub fn read(
        kind: Option<&Value>,
        settings: Option<&Map<String, Value>>,
    ) -> Result<Self, ProtocolError> {
        match kind {
            None | Some(Value::Null) => Ok(Self::Local),
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("Local") => Ok(Self::Local),
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("S3") => {
                let bucket = settings.map(S3Settings::read).transpose()?.flatten();
                let missing = || ProtocolError::argument("'Settings' of the bucket are required.");
                Ok(Self::S3(Box::new(bucket.ok_or_else(missing)?)))
            }
            Some(kind) => {
                let message = format!(
                    "Backups of the type {kind} cannot be restored: this server reads them from \
                     folders ('Local') and buckets ('S3') alone so far. Copy them to one first."
                );
                Err(ProtocolError::new(ErrorKind::NotSupported, message))
            }
        }
    }
}

fn backup_type(value: &Value) -> Result<BackupType, ProtocolError> {
    let named = value.as_str().and_then(BackupType::named);
    named.ok_or_else(|| {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let message = format!(
            "Could not convert Sparrow.Json.LazyStringValue ('{shown}') to \
             Raven.Client.Documents.Operations.Backups.BackupType"
        );
        ProtocolError::new(ErrorKind::Format, message)
    })
}

fn encryption(sent: &Map<String, Value>) -> Result<BackupEncryption, ProtocolError> {
    let Some(settings) = object(sent, "BackupEncryptionSettings")? else {
        return Ok(BackupEncryption::None);
    };
    let key = text(settings, "Key")?;
    let mode = text(settings, "EncryptionMode")?;
    match (mode.as_deref(), key) {
        (None | Some("None"), None) => Ok(BackupEncryption::None),
        (Some("UseDatabaseKey"), _) => Ok(BackupEncryption::DatabaseKey),
        (None | Some("UseProvidedKey"), Some(key)) => Ok(BackupEncryption::Key(key)),
        (Some("UseProvidedKey"), None) => {
            let message = "'EncryptionMode' is UseProvidedKey, but 'Key' is missing";
            Err(ProtocolError::invalid_operation(message))
        }
        (Some("None"), Some(_)) => {
            let message = "'EncryptionMode' is None, but a 'Key' is given";
            Err(ProtocolError::invalid_operation(message))
        }
        (Some(mode), _) => {
            let message = format!(
                "Could not convert Sparrow.Json.LazyStringValue ('{mode}') to \
                 Raven.Client.Documents.Operations.Backups.EncryptionMode"
            );
            Err(ProtocolError::new(ErrorKind::Format, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<BackupConfiguration, ProtocolError> {
        BackupConfiguration::read(sent.as_object().unwrap())
    }

    #[test]
    fn a_backup_goes_to_a_folder_and_other_destinations_may_be_there_if_they_are_disabled() {
        let sent = json!({
            "backupType": "snapshot", "LocalSettings": {"FolderPath": "/b", "Disabled": false},
            "S3Settings": {"Disabled": true}, "AzureSettings": {"Disabled": true}, "FtpSettings": null, "Unknown": [1],
            "BackupEncryptionSettings": {"Key": "a2V5", "EncryptionMode": "UseProvidedKey"}
        });
        let configuration = read(sent).unwrap();
        assert_eq!(configuration.kind, BackupType::Snapshot);
        configuration.check_destination().unwrap();
        assert_eq!(configuration.folder.as_deref(), Some("/b"));
        assert_eq!(configuration.encryption, BackupEncryption::Key("a2V5".to_owned()));
        assert!(!format!("{configuration:?}").contains("a2V5"), "a key must not get into a log");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_reason() {
        for (sent, expected) in [
            (json!({"AzureSettings": {"StorageContainer": "b"}}), "'AzureSettings' cannot be used"),
            (json!({"S3Settings": {"BucketName": "b"}}), "AwsRegionName cannot be null or empty"),
            (json!({"BackupType": "Foo"}), "('Foo') to Raven.Client"),
            (json!({"LocalSettings": {"FolderPath": ""}}), "cannot be both null or empty"),
            (
                json!({"LocalSettings": {"FolderPath": 5}}),
                "'FolderPath' must be a text, not a number",
            ),
            (json!({"LocalSettings": 5}), "'LocalSettings' must be an object"),
            (
                json!({"LocalSettings": {"GetBackupConfigurationScript": {"Exec": "sh"}}}),
                "is not supported",
            ),
            (json!({"BackupEncryptionSettings": {"EncryptionMode": "UseProvidedKey"}}), "missing"),
            (json!({"BackupEncryptionSettings": {"EncryptionMode": "Rot13"}}), "('Rot13')"),
            (
                json!({"BackupEncryptionSettings": {"EncryptionMode": "None", "Key": "k"}}),
                "a 'Key' is given",
            ),
        ] {
            let error = read(sent.clone()).unwrap_err();
            assert!(error.message.contains(expected), "{sent}: {}", error.message);
        }
        for sent in [json!({}), json!({"LocalSettings": {"Disabled": true, "FolderPath": "/b"}})] {
            let error = read(sent).unwrap().check_destination().unwrap_err();
            assert_eq!(error.message, "The backup configuration target no destinations");
        }
    }

    #[test]
    fn a_periodic_backup_has_its_times_and_how_long_backups_are_kept() {
        let sent = json!({
            "Name": "n", "TaskId": 7, "FullBackupFrequency": "0 2 * * 0",
            "IncrementalBackupFrequency": "", "LocalSettings": {"FolderPath": "/b"},
            "RetentionPolicy": {"Disabled": false, "MinimumBackupAgeToKeep": "1.01:00:00"}
        });
        let task = PeriodicBackup::read(sent.as_object().unwrap()).unwrap();
        assert_eq!((task.id, task.full_frequency.as_deref()), (7, Some("0 2 * * 0")));
        assert_eq!(task.incremental_frequency, None);
        assert_eq!(task.kept_for.unwrap().to_string(), "1.01:00:00");
        let sent = json!({"RetentionPolicy": {"MinimumBackupAgeToKeep": "soon"}});
        assert!(PeriodicBackup::read(sent.as_object().unwrap()).is_err());
    }

    #[test]
    fn a_property_of_a_task_is_stored_under_one_name() {
        let sent = json!({
            "taskId": 7, "disabled": true, "Disabled": false, "s3settings": {"a": 1}, "own": 1,
            "Own": 2
        });
        let named = PeriodicBackup::with_names_as_written(sent.as_object().unwrap());
        let expected = json!({
            "TaskId": 7, "Disabled": false, "S3Settings": {"a": 1}, "own": 1, "Own": 2
        });
        assert_eq!(Value::Object(named), expected);
    }

    #[test]
    fn what_is_legible_of_a_task_is_shown() {
        let stored = json!({
            "TaskId": 7, "Name": "n", "Disabled": 5, "S3Settings": {}, "BackupType": "Snapshot",
            "FullBackupFrequency": "0 2 * * 0"
        });
        assert!(PeriodicBackup::read(stored.as_object().unwrap()).is_err());
        let task = PeriodicBackup::legible(stored.as_object().unwrap());
        assert_eq!((task.id, task.name.as_deref(), task.is_disabled), (7, Some("n"), false));
        assert_eq!(task.configuration.kind, BackupType::Snapshot);
    }

    #[test]
    fn a_restore_needs_a_name_and_a_folder() {
        for (sent, expected) in [
            (json!({}), "Name cannot be null or empty."),
            (json!({"DatabaseName": "d"}), "Backup location can't be null or empty"),
            (json!({"Type": "S3", "DatabaseName": "d"}), "'Settings' of the bucket are required"),
            (json!({"Type": "Azure", "DatabaseName": "d"}), "Backups of the type \"Azure\""),
        ] {
            let error = RestoreConfiguration::read(sent.as_object().unwrap()).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
        let sent = json!({
            "Type": "Local", "DatabaseName": "d", "BackupLocation": "/b", "SkipIndexes": true
        });
        let read = RestoreConfiguration::read(sent.as_object().unwrap()).unwrap();
        assert!(read.skips_indexes && !read.disables_tasks && read.last_file.is_none());
    }
}
