//! How the runs of a scheduled backup went, as clients are shown it.
//!
//! It is a value that all nodes agree on, under the ids of the database and of the task, and is replaced after each
//! run. What a run needs of the one before is read from it: so it is the protocol's JSON, with two properties more.

use std::collections::BTreeMap;

use cluster::Cluster;
use cluster_state::{ClusterError, Command, ServerValueCommand};
use model::{DatabaseId, Etag, date};
use serde_json::{Map, Value, json};
use wire::{BackupType, backup_result::skipped_upload};

use super::file_names::FileKind;

/// The names of the values begin with it.
const PREFIX: &str = "backup-status/";
/// Destinations that this server does not write to, by their names in a status.
const OTHER_DESTINATIONS: [&str; 5] =
    ["UploadToS3", "UploadToGlacier", "UploadToAzure", "UploadToGoogleCloud", "UploadToFtp"];

/// A run that ended.
pub(super) struct EndedRun {
    /// The form of the backup.
    pub(super) form: BackupType,
    /// What it made.
    pub(super) kind: FileKind,
    /// The node.
    pub(super) node_tag: String,
    /// When it began, in ticks of UTC.
    pub(super) began_ticks: i64,
    /// How long it took.
    pub(super) took_ms: i64,
    /// The operation.
    pub(super) operation: i64,
    /// Whether its file is encrypted.
    pub(super) is_encrypted: bool,
    /// What it wrote, or why it failed.
    pub(super) outcome: Result<WrittenRun, String>,
}

/// What a run has written.
pub(super) struct WrittenRun {
    /// The path of the folder.
    pub(super) directory: String,
    /// The change log is backed up to here.
    pub(super) last_etag: Etag,
    /// Compare exchange is backed up to here.
    pub(super) values_index: u64,
    /// The version of the record.
    pub(super) record_index: u64,
    /// The version of the database.
    pub(super) change_vector: String,
    /// The identity of the database's files: after they were exchanged, everything is backed up.
    pub(super) database_id: DatabaseId,
}

/// A status as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BackupStatus(Map<String, Value>);

impl BackupStatus {
    #[cfg(test)]
    pub(super) fn of(json: Value) -> BackupStatus {
        BackupStatus(json.as_object().cloned().unwrap_or_default())
    }

    /// The JSON that clients are shown.
    pub(crate) fn json(&self) -> &Map<String, Value> {
        &self.0
    }

    fn ticks(&self, name: &str) -> Option<i64> {
        let text = self.0.get(name).and_then(Value::as_str);
        text.and_then(date::parse).map(|date| date.utc_ticks())
    }

    /// When everything was last backed up, in ticks of UTC.
    pub(crate) fn last_full_ticks(&self) -> Option<i64> {
        self.ticks("LastFullBackup")
    }

    /// When what had changed was last backed up, in ticks of UTC.
    pub(crate) fn last_incremental_ticks(&self) -> Option<i64> {
        self.ticks("LastIncrementalBackup")
    }

    /// When the last run that failed began, if it was the last run, in ticks of UTC.
    pub(crate) fn failed_ticks(&self) -> Option<i64> {
        let error = self.0.get("Error").and_then(Value::as_object)?;
        let text = error.get("At").and_then(Value::as_str);
        text.and_then(date::parse).map(|date| date.utc_ticks())
    }

    /// The change log is backed up to here.
    pub(crate) fn last_etag(&self) -> Option<Etag> {
        self.0.get("LastEtag").and_then(Value::as_u64).map(Etag)
    }

    /// Compare exchange is backed up to here.
    pub(crate) fn values_index(&self) -> Option<u64> {
        self.0.get("LastRaftIndex")?.get("LastEtag")?.as_u64()
    }

    /// The identity of the files that were backed up.
    pub(super) fn database_id(&self) -> Option<DatabaseId> {
        self.0.get("DatabaseId").and_then(Value::as_str).and_then(DatabaseId::parse)
    }

    /// The record is backed up in this version.
    pub(super) fn record_index(&self) -> Option<u64> {
        self.0.get("RecordIndex").and_then(Value::as_u64)
    }

    /// The folder with the last file.
    pub(super) fn directory(&self) -> Option<&str> {
        self.0.get("LocalBackup")?.get("BackupDirectory")?.as_str()
    }

    /// The status after a run.
    pub(super) fn after(&self, task: u64, run: &EndedRun) -> BackupStatus {
        let began = json!(date::format(run.began_ticks));
        let is_full = run.kind != FileKind::Incremental;
        let mut next = self.0.clone();
        let previous = |name: &str| self.0.get(name).cloned().unwrap_or(Value::Null);
        let mut put = |name: &str, value: Value| drop(next.insert(name.to_owned(), value));
        put("TaskId", json!(task));
        put("BackupType", json!(run.form.word()));
        put("NodeTag", json!(run.node_tag));
        put("DelayUntil", Value::Null);
        put("OriginalBackupTime", Value::Null);
        put("LastOperationId", json!(run.operation));
        put("Version", json!(previous("Version").as_u64().unwrap_or(0) + 1));
        put("IsEncrypted", json!(run.is_encrypted));
        put("LocalRetentionDurationInMs", json!(0));
        for name in OTHER_DESTINATIONS {
            put(name, Value::Object(skipped_upload()));
        }
        let mut local = match previous("LocalBackup") {
            Value::Object(local) => local,
            _ => Map::new(),
        };
        local.insert("TempFolderUsed".to_owned(), json!(false));
        local.insert("FileName".to_owned(), Value::Null);
        match &run.outcome {
            Ok(written) => {
                let (last, duration) = match is_full {
                    true => ("LastFullBackup", "FullBackupDurationInMs"),
                    false => ("LastIncrementalBackup", "IncrementalBackupDurationInMs"),
                };
                for name in ["LastFullBackup", "LastIncrementalBackup"] {
                    local.entry(name).or_insert(Value::Null);
                    put(name, if name == last { began.clone() } else { previous(name) });
                    put(
                        &format!("{name}Internal"),
                        if name == last { began.clone() } else { previous(name) },
                    );
                }
                local.insert(last.to_owned(), began);
                local.insert(duration.to_owned(), json!(run.took_ms));
                local.insert("Exception".to_owned(), Value::Null);
                local.insert("BackupDirectory".to_owned(), json!(written.directory));
                let folder = written.directory.rsplit('/').next().unwrap_or_default();
                put("IsFull", json!(is_full));
                put("LastEtag", json!(written.last_etag.0));
                put("LastRaftIndex", json!({"LastEtag": written.values_index}));
                put("RecordIndex", json!(written.record_index));
                put("FolderName", json!(folder));
                put("DurationInMs", json!(run.took_ms));
                put("LastDatabaseChangeVector", json!(written.change_vector));
                put("DatabaseId", json!(written.database_id.to_string()));
                put("Error", Value::Null);
            }
            Err(reason) => {
                local.insert("Exception".to_owned(), json!(reason));
                put("Error", json!({"Exception": reason, "At": began}));
                for name in ["LastFullBackup", "LastIncrementalBackup"] {
                    put(name, previous(name));
                }
            }
        }
        put("LocalBackup", Value::Object(local));
        BackupStatus(next)
    }
}

fn name_of(database: DatabaseId, task: u64) -> String {
    format!("{PREFIX}{database}/{task}")
}

/// The status of a task; `None` before its first run.
pub(super) fn read(
    cluster: &Cluster,
    database: DatabaseId,
    task: u64,
) -> Result<Option<BackupStatus>, ClusterError> {
    let value = cluster.store().read().server_value(&name_of(database, task))?;
    Ok(value.and_then(|value| parse(&value.bytes)))
}

/// Those of all tasks of a database, by their ids.
pub(super) fn of_database(
    cluster: &Cluster,
    database: DatabaseId,
) -> Result<BTreeMap<u64, BackupStatus>, ClusterError> {
    let values = cluster.store().read().server_values(&format!("{PREFIX}{database}/"))?;
    let statuses = values
        .into_iter()
        .filter_map(|(task, value)| Some((task.parse().ok()?, parse(&value.bytes)?)));
    Ok(statuses.collect())
}

/// The databases that have statuses, as often as they have.
pub(super) fn databases(cluster: &Cluster) -> Result<Vec<(DatabaseId, u64)>, ClusterError> {
    let values = cluster.store().read().server_values(PREFIX)?;
    let ids = values.into_iter().filter_map(|(name, _)| {
        let (database, task) = name.rsplit_once('/')?;
        Some((DatabaseId::parse(database)?, task.parse().ok()?))
    });
    Ok(ids.collect())
}

/// Stores the status of a task. Blocks.
pub(super) fn write(
    cluster: &Cluster,
    database: DatabaseId,
    task: u64,
    status: &BackupStatus,
) -> Result<(), ClusterError> {
    store(cluster, database, task, Value::Object(status.0.clone()).to_string().into_bytes())
}

/// Removes the status of a task. Blocks.
pub(super) fn remove(
    cluster: &Cluster,
    database: DatabaseId,
    task: u64,
) -> Result<(), ClusterError> {
    store(cluster, database, task, Vec::new())
}

fn store(
    cluster: &Cluster,
    database: DatabaseId,
    task: u64,
    bytes: Vec<u8>,
) -> Result<(), ClusterError> {
    let name = name_of(database, task);
    cluster.submit_and_wait(&Command::ServerValue(ServerValueCommand { name, bytes }))?;
    Ok(())
}

fn parse(bytes: &[u8]) -> Option<BackupStatus> {
    serde_json::from_slice(bytes).ok().map(BackupStatus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId([7; 16]);

    fn run(kind: FileKind, began: &str, outcome: Result<WrittenRun, String>) -> EndedRun {
        EndedRun {
            form: BackupType::Backup,
            kind,
            node_tag: "A".to_owned(),
            began_ticks: date::parse(began).unwrap().utc_ticks(),
            took_ms: 18,
            operation: 6,
            is_encrypted: false,
            outcome,
        }
    }

    fn written(etag: u64) -> Result<WrittenRun, String> {
        Ok(WrittenRun {
            directory: "/b/2026-11-20-14-38-37.ravendb-smg-A-backup".to_owned(),
            last_etag: Etag(etag),
            values_index: 321,
            record_index: 9,
            change_vector: "A:40-x".to_owned(),
            database_id: DATABASE,
        })
    }

    #[test]
    fn a_status_tells_of_the_last_run_of_each_kind_and_a_failure_keeps_them() {
        let first = run(FileKind::Full, "2026-11-20T14:38:37Z", written(40));
        let status = BackupStatus::default().after(7, &first);
        let json = status.json();
        assert_eq!(
            (&json["TaskId"], &json["IsFull"], &json["LastEtag"]),
            (&json!(7), &json!(true), &json!(40))
        );
        assert_eq!(json["LastFullBackup"], "2026-11-20T14:38:37.0000000Z");
        assert_eq!(json["LastIncrementalBackup"], Value::Null);
        assert_eq!(json["LocalBackup"]["FullBackupDurationInMs"], 18);
        assert_eq!(json["FolderName"], "2026-11-20-14-38-37.ravendb-smg-A-backup");
        let second = run(FileKind::Incremental, "2026-11-20T15:00:00Z", written(44));
        let status = status.after(7, &second);
        assert_eq!(status.last_full_ticks(), Some(first.began_ticks));
        assert_eq!(status.last_incremental_ticks(), Some(second.began_ticks));
        assert_eq!((status.last_etag(), status.values_index()), (Some(Etag(44)), Some(321)));
        let third = run(FileKind::Full, "2026-11-21T15:00:00Z", Err("no space".to_owned()));
        let failed = status.after(7, &third);
        assert_eq!(failed.failed_ticks(), Some(third.began_ticks));
        assert_eq!(failed.last_full_ticks(), Some(first.began_ticks));
        assert_eq!(
            (failed.last_etag(), failed.directory()),
            (status.last_etag(), status.directory())
        );
        assert_eq!(failed.json()["Version"], 3);
        assert_eq!(failed.database_id(), Some(DATABASE));
    }
}
