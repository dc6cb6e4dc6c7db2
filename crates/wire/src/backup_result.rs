//! What a backup or a restore has done, and what can be restored, as clients are shown it.

use model::date;
use serde_json::{Map, Value, json};

use crate::smuggler_result::SmugglerResult;

/// What a backup has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupResult {
    /// What was written.
    pub contents: SmugglerResult,
    /// Whether the files of the database were copied.
    pub is_snapshot: bool,
    /// The folder of the backup, below the one that was asked for; `None` if there was nothing new.
    pub directory: Option<String>,
    /// The name of the file in it.
    pub file: Option<String>,
    /// How many bytes were copied to a bucket; `None` if nothing was to be.
    pub uploaded_bytes: Option<u64>,
    /// Whether the file is in the bucket alone.
    pub is_temporary: bool,
}

/// What a restore has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreResult {
    /// What was read.
    pub contents: SmugglerResult,
    /// Whether files of a database were restored.
    pub is_snapshot: bool,
    /// The directory of the new database.
    pub data_directory: String,
    /// How many files were restored.
    pub files: u64,
}

/// Something that can be restored: a file, with those before it that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePoint {
    /// When it was made, in ticks of UTC.
    pub ticks: i64,
    /// Its folder.
    pub folder: String,
    /// The path of the file.
    pub file: String,
    /// Whether the first of the files has the files of a database.
    pub is_snapshot: bool,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// Whether it has only what changed since the file before it.
    pub is_incremental: bool,
    /// The number of files, with this one.
    pub files: usize,
    /// The database of which it is.
    pub database: String,
    /// The node that made it.
    pub node_tag: String,
}

/// Destinations that this server does not write to, by their names in results.
const OTHER_DESTINATIONS: [&str; 5] =
    ["S3Backup", "AzureBackup", "GoogleCloudBackup", "GlacierBackup", "FtpBackup"];

impl BackupResult {
    /// The result as an answer, with its type first.
    pub fn to_json(&self) -> Value {
        let type_name = "Raven.Client.Documents.Operations.Backups.BackupResult, Raven.Client";
        let mut shape = self.contents.to_json_of(type_name);
        let mut put = |name: &str, value: Value| drop(shape.insert(name.to_owned(), value));
        put("SnapshotBackup", snapshot(self.is_snapshot));
        for name in OTHER_DESTINATIONS {
            put(name, Value::Object(skipped_upload()));
        }
        if let Some(bytes) = self.uploaded_bytes {
            put("S3Backup", Value::Object(completed_upload(Some(bytes))));
        }
        put(
            "LocalBackup",
            json!({
                "LastFullBackup": null, "LastIncrementalBackup": null,
                "FullBackupDurationInMs": null, "IncrementalBackupDurationInMs": null,
                "Exception": null, "BackupDirectory": self.directory, "FileName": self.file,
                "TempFolderUsed": self.is_temporary
            }),
        );
        Value::Object(shape)
    }
}

impl RestoreResult {
    /// The result as an answer, with its type first.
    pub fn to_json(&self) -> Value {
        let type_name = "Raven.Client.ServerWide.Operations.RestoreResult, Raven.Client";
        let mut shape = self.contents.to_json_of(type_name);
        let mut put = |name: &str, value: Value| drop(shape.insert(name.to_owned(), value));
        put("DataDirectory", json!(self.data_directory));
        put("JournalStoragePath", Value::Null);
        put("SnapshotRestore", snapshot(self.is_snapshot));
        let files = json!({
            "CurrentFileName": null, "CurrentFile": self.files, "FileCount": self.files
        });
        put("Files", files);
        Value::Object(shape)
    }
}

impl RestorePoint {
    /// An element of the list of restore points.
    pub fn to_json(&self) -> Value {
        json!({
            "DateTime": date::format(self.ticks).trim_end_matches('Z'), "Location": self.folder,
            "FileName": self.file, "IsSnapshotRestore": self.is_snapshot,
            "IsEncrypted": self.is_encrypted, "IsIncremental": self.is_incremental,
            "FilesToRestore": self.files, "DatabaseName": self.database, "NodeTag": self.node_tag
        })
    }
}

fn snapshot(is_done: bool) -> Value {
    json!({
        "StartTime": null, "Processed": true, "ReadCount": 0, "Skipped": !is_done,
        "ErroredCount": 0
    })
}

/// A destination to which nothing was uploaded.
pub fn skipped_upload() -> Map<String, Value> {
    let shape = json!({
        "LastFullBackup": null, "LastIncrementalBackup": null, "FullBackupDurationInMs": null,
        "IncrementalBackupDurationInMs": null, "Exception": null, "Skipped": true,
        "UploadProgress": {
            "$type": "Raven.Client.Documents.Operations.Backups.UploadProgress, Raven.Client",
            "UploadType": "Regular", "UploadState": "PendingUpload", "UploadedInBytes": 0,
            "TotalInBytes": 0, "BytesPutsPerSec": 0.0, "UploadTimeInMs": 0
        }
    });
    match shape {
        Value::Object(shape) => shape,
        _ => Map::new(),
    }
}

/// A destination to which something was uploaded; so many bytes, if that is known.
pub fn completed_upload(bytes: Option<u64>) -> Map<String, Value> {
    let mut shape = skipped_upload();
    shape.insert("Skipped".to_owned(), false.into());
    if let Some(progress) = shape.get_mut("UploadProgress") {
        progress["UploadState"] = "Done".into();
        progress["UploadedInBytes"] = bytes.unwrap_or(0).into();
        progress["TotalInBytes"] = bytes.unwrap_or(0).into();
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_their_type_first_and_what_clients_read() {
        let backup = BackupResult {
            directory: Some("d".to_owned()),
            file: Some("f".to_owned()),
            ..BackupResult::default()
        };
        let json = backup.to_json();
        let text = json.to_string();
        assert!(text.starts_with(
            "{\"$type\":\"Raven.Client.Documents.Operations.Backups.BackupResult, Raven.Client\""
        ));
        assert_eq!(
            (&json["LocalBackup"]["FileName"], &json["S3Backup"]["Skipped"]),
            (&json!("f"), &json!(true))
        );
        let uploaded = BackupResult { uploaded_bytes: Some(5), ..backup }.to_json();
        let shown = &uploaded["S3Backup"];
        assert_eq!(
            (&shown["Skipped"], &shown["UploadProgress"]["UploadedInBytes"]),
            (&json!(false), &json!(5))
        );
        assert_eq!(json["SnapshotBackup"]["Skipped"], true);
        let restore = RestoreResult { files: 2, ..RestoreResult::default() };
        assert_eq!(restore.to_json()["Files"]["FileCount"], 2);
    }

    #[test]
    fn the_time_of_a_restore_point_has_no_zone() {
        let ticks = date::parse("2026-11-20T14:38:37.0010000Z").unwrap().utc_ticks();
        let point = RestorePoint {
            ticks,
            folder: "/b/x".to_owned(),
            file: "/b/x/y".to_owned(),
            is_snapshot: false,
            is_encrypted: false,
            is_incremental: true,
            files: 2,
            database: "smg".to_owned(),
            node_tag: "A".to_owned(),
        };
        assert_eq!(point.to_json()["DateTime"], "2026-11-20T14:38:37.0010000");
    }
}
