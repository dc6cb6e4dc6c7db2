//! How a scheduled backup went, as clients are shown it.

use model::date;
use serde_json::{Map, Value, json};

use crate::{
    BackupType,
    backup_result::{completed_upload, skipped_upload},
};

/// Destinations that this server does not write to, by their names in a status.
const OTHER_DESTINATIONS: [&str; 5] =
    ["UploadToS3", "UploadToGlacier", "UploadToAzure", "UploadToGoogleCloud", "UploadToFtp"];

/// How a scheduled backup went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupStatusShape<'s> {
    /// The task.
    pub task: u64,
    /// Whether its files are in a bucket alone.
    pub is_temporary: bool,
    /// Whether its files are in a bucket.
    pub is_uploaded: bool,
    /// The runs so far.
    pub runs: u64,
    /// The form of the backup.
    pub form: BackupType,
    /// The node that ran it last.
    pub node_tag: &'s str,
    /// The operation of the last run.
    pub operation: i64,
    /// Whether its file is encrypted.
    pub is_encrypted: bool,
    /// Whether the last run that did not fail backed up everything.
    pub is_full: Option<bool>,
    /// When everything was last backed up, in ticks of UTC, and how long that took, in milliseconds.
    pub last_full: Option<(i64, i64)>,
    /// When what had changed was last backed up, in ticks of UTC, and how long that took, in milliseconds.
    pub last_incremental: Option<(i64, i64)>,
    /// The path of the folder with the last file.
    pub directory: Option<&'s str>,
    /// The change log is backed up to this etag.
    pub last_etag: Option<u64>,
    /// Compare exchange is backed up to this index.
    pub last_index: Option<u64>,
    /// The version of the database in the last file.
    pub change_vector: Option<&'s str>,
    /// Why the last run failed, and when it began, in ticks of UTC; `None` if it did not.
    pub error: Option<(&'s str, i64)>,
}

impl BackupStatusShape<'_> {
    /// The status as a part of an answer.
    pub fn to_json(&self) -> Map<String, Value> {
        let at = |run: Option<(i64, i64)>| run.map(|(ticks, _)| date::format(ticks));
        let took = |run: Option<(i64, i64)>| run.map(|(_, milliseconds)| milliseconds);
        let (full, incremental) = (at(self.last_full), at(self.last_incremental));
        let last_took = match self.is_full {
            Some(false) => took(self.last_incremental),
            _ => took(self.last_full),
        };
        let folder = self.directory.and_then(|directory| directory.rsplit('/').next());
        let error = self.error.map(|(text, _)| text);
        let local = json!({
            "LastFullBackup": full, "LastIncrementalBackup": incremental,
            "FullBackupDurationInMs": took(self.last_full),
            "IncrementalBackupDurationInMs": took(self.last_incremental), "Exception": error,
            "BackupDirectory": self.directory, "FileName": null, "TempFolderUsed": self.is_temporary
        });
        let mut shape = Map::new();
        let mut put = |name: &str, value: Value| drop(shape.insert(name.to_owned(), value));
        put("TaskId", json!(self.task));
        put("BackupType", json!(self.form.word()));
        put("IsFull", json!(self.is_full));
        put("NodeTag", json!(self.node_tag));
        put("DelayUntil", Value::Null);
        put("OriginalBackupTime", Value::Null);
        put("LastFullBackup", json!(full));
        put("LastIncrementalBackup", json!(incremental));
        put("LastFullBackupInternal", json!(full));
        put("LastIncrementalBackupInternal", json!(incremental));
        put("LocalBackup", local);
        for name in OTHER_DESTINATIONS {
            put(name, Value::Object(skipped_upload()));
        }
        if self.is_uploaded {
            put("UploadToS3", Value::Object(completed_upload(None)));
        }
        put("LastEtag", json!(self.last_etag));
        put("LastRaftIndex", json!({"LastEtag": self.last_index}));
        put("LastDatabaseChangeVector", json!(self.change_vector));
        put("FolderName", json!(folder));
        put("DurationInMs", json!(last_took));
        put("LocalRetentionDurationInMs", json!(0));
        put("Version", json!(self.runs));
        put(
            "Error",
            self.error.map_or(
                Value::Null,
                |(text, ticks)| json!({"Exception": text, "At": date::format(ticks)}),
            ),
        );
        put("LastOperationId", json!(self.operation));
        put("IsEncrypted", json!(self.is_encrypted));
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_last_run_of_each_kind_and_the_error_of_the_last() {
        let ticks = |text: &str| date::parse(text).unwrap().utc_ticks();
        let shape = BackupStatusShape {
            task: 7,
            is_full: Some(false),
            last_full: Some((ticks("2026-11-20T14:38:37Z"), 18)),
            last_incremental: Some((ticks("2026-11-20T15:00:00Z"), 4)),
            directory: Some("/b/2026-11-20-14-38-37.ravendb-smg-A-backup"),
            last_etag: Some(40),
            error: Some(("no space", ticks("2026-11-21T15:00:00Z"))),
            ..BackupStatusShape::default()
        };
        let json = shape.to_json();
        assert_eq!(json["LastFullBackup"], "2026-11-20T14:38:37.0000000Z");
        assert_eq!(json["FolderName"], "2026-11-20-14-38-37.ravendb-smg-A-backup");
        assert_eq!((&json["DurationInMs"], &json["LastEtag"]), (&json!(4), &json!(40)));
        assert_eq!(json["LocalBackup"]["FullBackupDurationInMs"], 18);
        assert_eq!(json["LocalBackup"]["Exception"], "no space");
        let error = json!({"Exception": "no space", "At": "2026-11-21T15:00:00.0000000Z"});
        assert_eq!(json["Error"], error);
        let before = BackupStatusShape::default().to_json();
        assert_eq!((&before["Error"], &before["LastFullBackup"]), (&Value::Null, &Value::Null));
    }
}
