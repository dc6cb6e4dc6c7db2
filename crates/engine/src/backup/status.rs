//! How the runs of a scheduled backup went, and what the next one may follow.
//!
//! It is a value that all nodes agree on, under the ids of the database and of the task, and is replaced after each
//! run. Clients are shown it in another form ([`BackupStatusShape`]).
//!
//! ```text
//! {"Format":1,"Runs","Form","Node","Operation","IsEncrypted","IsFull","Full":[ticks,ms]|null,
//!  "Incremental":[ticks,ms]|null,"Error":[text,ticks]|null,"End":null|
//!   {"Directory","File","FileId","Files","Etag","ValuesIndex","RecordIndex","AgreedHash","ChangeVector",
//!    "Point":[environment,incarnation,transaction]|null,"Key":text|null}}
//! ```
//!
//! Ids are texts of hexadecimal digits.

use std::collections::BTreeMap;

use cluster::Cluster;
use cluster_state::{ClusterError, Command, ServerValueCommand};
use model::{DatabaseId, Etag};
use serde_json::{Value, json};
use storage::HistoryPoint;
use wire::{BackupStatusShape, BackupType};

use super::{chain::FileId, file_names::FileKind};

/// The names of the values begin with it.
const PREFIX: &str = "backup-status/";
const FORMAT: u64 = 1;

/// A run that ended.
pub(super) struct EndedRun {
    /// The form of the backup.
    pub(super) form: BackupType,
    /// The node.
    pub(super) node_tag: String,
    /// When it began, in ticks of UTC.
    pub(super) began_ticks: i64,
    /// How long it took.
    pub(super) took_ms: i64,
    /// The operation.
    pub(super) operation: i64,
    /// What it wrote, or why it failed.
    pub(super) outcome: Result<WrittenRun, String>,
}

/// What a run has written, or found unchanged.
#[derive(Clone)]
pub(super) struct WrittenRun {
    /// What it made.
    pub(super) kind: FileKind,
    /// Where the files end now.
    pub(super) end: ChainEnd,
}

/// Where the files of a backup end: what the next one has to follow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChainEnd {
    /// The path of their folder.
    pub(super) directory: String,
    /// The name of the last file.
    pub(super) file: String,
    /// Its id.
    pub(super) file_id: FileId,
    /// How many files there are, with the one of everything.
    pub(super) files: u64,
    /// They have the change log up to here.
    pub(super) last_etag: Etag,
    /// They have the changes of compare exchange up to here.
    pub(super) values_index: u64,
    /// They have the record in this version.
    pub(super) record_index: u64,
    /// They have the identities and subscriptions with this hash; `None` in statuses of older builds.
    pub(super) agreed_hash: Option<String>,
    /// The version of the database.
    pub(super) change_vector: String,
    /// The moment in the history of the database's files; `None` if that is not kept.
    pub(super) point: Option<HistoryPoint>,
    /// The fingerprint of their key; `None` if they are not encrypted.
    pub(super) key: Option<String>,
}

/// A run that did not fail.
#[derive(Clone, Copy, Debug, PartialEq)]
struct GoodRun {
    began_ticks: i64,
    took_ms: i64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq)]
struct FailedRun {
    reason: String,
    began_ticks: i64,
}

/// How the runs of a task went.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BackupStatus {
    runs: u64,
    form: BackupType,
    node_tag: String,
    operation: i64,
    /// Of the last run that did not fail, like the next.
    is_encrypted: bool,
    is_full: Option<bool>,
    full: Option<GoodRun>,
    incremental: Option<GoodRun>,
    /// The last run, if it failed.
    failed: Option<FailedRun>,
    end: Option<ChainEnd>,
}

impl BackupStatus {
    #[cfg(test)]
    pub(super) fn of_times(full: i64, incremental: Option<i64>, failed: Option<i64>) -> Self {
        let good = |began_ticks| GoodRun { began_ticks, took_ms: 1 };
        let failed =
            failed.map(|began_ticks| FailedRun { reason: "no space".to_owned(), began_ticks });
        let (full, incremental) = (Some(good(full)), incremental.map(good));
        BackupStatus { full, incremental, failed, ..BackupStatus::default() }
    }

    /// When everything was last backed up, in ticks of UTC.
    pub(crate) fn last_full_ticks(&self) -> Option<i64> {
        self.full.map(|run| run.began_ticks)
    }

    /// When what had changed was last backed up, in ticks of UTC.
    pub(crate) fn last_incremental_ticks(&self) -> Option<i64> {
        self.incremental.map(|run| run.began_ticks)
    }

    /// When the last run began, if it failed, in ticks of UTC.
    pub(crate) fn failed_ticks(&self) -> Option<i64> {
        self.failed.as_ref().map(|run| run.began_ticks)
    }

    /// Where the files end; `None` before the first.
    pub(super) fn end(&self) -> Option<&ChainEnd> {
        self.end.as_ref()
    }

    /// The status as clients are shown it, of a task with these destinations.
    pub(super) fn shape(
        &self,
        task: u64,
        (has_folder, has_bucket): (bool, bool),
    ) -> BackupStatusShape<'_> {
        let end = self.end();
        let good = |run: &GoodRun| (run.began_ticks, run.took_ms);
        BackupStatusShape {
            task,
            is_temporary: !has_folder,
            is_uploaded: has_bucket && self.end.is_some(),
            runs: self.runs,
            form: self.form,
            node_tag: &self.node_tag,
            operation: self.operation,
            is_encrypted: self.is_encrypted,
            is_full: self.is_full,
            last_full: self.full.as_ref().map(good),
            last_incremental: self.incremental.as_ref().map(good),
            directory: end.map(|end| &*end.directory),
            last_etag: end.map(|end| end.last_etag.0),
            last_index: end.map(|end| end.values_index),
            change_vector: end.map(|end| &*end.change_vector),
            error: self.failed.as_ref().map(|run| (&*run.reason, run.began_ticks)),
        }
    }

    /// The status after a run.
    pub(super) fn after(self, run: EndedRun) -> BackupStatus {
        let mut next = BackupStatus {
            runs: self.runs + 1,
            form: run.form,
            node_tag: run.node_tag,
            operation: run.operation,
            failed: None,
            ..self
        };
        match run.outcome {
            Ok(written) => {
                let is_full = written.kind != FileKind::Incremental;
                let good = GoodRun { began_ticks: run.began_ticks, took_ms: run.took_ms };
                // The clock was ahead when the others began: from now on their times count from this run.
                for other in [&mut next.full, &mut next.incremental].into_iter().flatten() {
                    other.began_ticks = other.began_ticks.min(run.began_ticks);
                }
                *if is_full { &mut next.full } else { &mut next.incremental } = Some(good);
                next.is_full = Some(is_full);
                next.is_encrypted = written.end.key.is_some();
                next.end = Some(written.end);
            }
            Err(reason) => {
                next.failed = Some(FailedRun { reason, began_ticks: run.began_ticks });
            }
        }
        next
    }

    fn to_stored(&self) -> Value {
        let good = |run: &GoodRun| json!([run.began_ticks, run.took_ms]);
        json!({
            "Format": FORMAT, "Runs": self.runs, "Form": self.form.word(), "Node": self.node_tag,
            "Operation": self.operation, "IsEncrypted": self.is_encrypted, "IsFull": self.is_full,
            "Full": self.full.as_ref().map(good),
            "Incremental": self.incremental.as_ref().map(good),
            "Error": self.failed.as_ref().map(|run| json!([run.reason, run.began_ticks])),
            "End": self.end().map(ChainEnd::to_stored)
        })
    }

    fn of_stored(stored: &Value) -> Option<BackupStatus> {
        if stored["Format"].as_u64()? != FORMAT {
            return None;
        }
        let good = |name: &str| {
            let run = &stored[name];
            Some(GoodRun { began_ticks: run[0].as_i64()?, took_ms: run[1].as_i64()? })
        };
        let error = &stored["Error"];
        let failed = error[0].as_str().zip(error[1].as_i64());
        let end = &stored["End"];
        Some(BackupStatus {
            runs: stored["Runs"].as_u64()?,
            form: BackupType::named(stored["Form"].as_str()?)?,
            node_tag: stored["Node"].as_str()?.to_owned(),
            operation: stored["Operation"].as_i64()?,
            is_encrypted: stored["IsEncrypted"].as_bool()?,
            is_full: stored["IsFull"].as_bool(),
            full: good("Full"),
            incremental: good("Incremental"),
            failed: failed
                .map(|(reason, began_ticks)| FailedRun { reason: reason.to_owned(), began_ticks }),
            end: if end.is_null() { None } else { Some(ChainEnd::of_stored(end)?) },
        })
    }
}

impl ChainEnd {
    fn to_stored(&self) -> Value {
        let point = self.point.map(|point| {
            let environment = format!("{:032x}", point.environment);
            json!([environment, point.incarnation, point.transaction])
        });
        json!({
            "Directory": self.directory, "File": self.file, "FileId": self.file_id.to_string(),
            "Files": self.files, "Etag": self.last_etag.0, "ValuesIndex": self.values_index,
            "RecordIndex": self.record_index, "AgreedHash": self.agreed_hash, "ChangeVector": self.change_vector, "Point": point,
            "Key": self.key
        })
    }

    fn of_stored(stored: &Value) -> Option<ChainEnd> {
        let text = |name: &str| stored[name].as_str().map(str::to_owned);
        let point = &stored["Point"];
        let environment = point[0].as_str().and_then(|id| u128::from_str_radix(id, 16).ok());
        let moment = point[1].as_u64().zip(point[2].as_u64());
        let point = environment.zip(moment).map(|(environment, (incarnation, transaction))| {
            HistoryPoint { environment, incarnation, transaction }
        });
        Some(ChainEnd {
            directory: text("Directory")?,
            file: text("File")?,
            file_id: FileId::parse(stored["FileId"].as_str()?)?,
            files: stored["Files"].as_u64()?,
            last_etag: Etag(stored["Etag"].as_u64()?),
            values_index: stored["ValuesIndex"].as_u64()?,
            record_index: stored["RecordIndex"].as_u64()?,
            agreed_hash: text("AgreedHash"),
            change_vector: text("ChangeVector")?,
            point,
            key: text("Key"),
        })
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
    store(cluster, database, task, status.to_stored().to_string().into_bytes())
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

/// A status of an unknown form is none: the next run backs up everything.
fn parse(bytes: &[u8]) -> Option<BackupStatus> {
    BackupStatus::of_stored(&serde_json::from_slice(bytes).ok()?)
}

#[cfg(test)]
pub(super) mod tests {
    use model::date;

    use super::*;

    pub(in super::super) fn run(began: &str, outcome: Result<WrittenRun, String>) -> EndedRun {
        EndedRun {
            form: BackupType::Backup,
            node_tag: "A".to_owned(),
            began_ticks: date::parse(began).unwrap().utc_ticks(),
            took_ms: 18,
            operation: 6,
            outcome,
        }
    }

    pub(in super::super) fn written(kind: FileKind, etag: u64) -> Result<WrittenRun, String> {
        let point = HistoryPoint { environment: 1 << 100, incarnation: u64::MAX, transaction: 3 };
        let end = ChainEnd {
            directory: "/b/2026-11-20-14-38-37.ravendb-smg-A-backup".to_owned(),
            file: "2026-11-20-14-38-37.ravendb-full-backup".to_owned(),
            file_id: FileId(u128::MAX - 5),
            files: 1,
            last_etag: Etag(etag),
            values_index: 321,
            record_index: 9,
            agreed_hash: Some("h".to_owned()),
            change_vector: "A:40-x".to_owned(),
            point: Some(point),
            key: Some("abc".to_owned()),
        };
        Ok(WrittenRun { kind, end })
    }

    #[test]
    fn a_status_tells_of_the_last_run_of_each_kind_and_a_failure_keeps_them() {
        let first = run("2026-11-20T14:38:37Z", written(FileKind::Full, 40));
        let (first_ticks, status) = (first.began_ticks, BackupStatus::default().after(first));
        let shown = status.shape(7);
        assert_eq!((shown.task, shown.is_full, shown.last_etag), (7, Some(true), Some(40)));
        assert_eq!(shown.last_full, Some((first_ticks, 18)));
        assert_eq!(shown.last_incremental, None);
        let second = run("2026-11-20T15:00:00Z", written(FileKind::Incremental, 44));
        let (second_ticks, status) = (second.began_ticks, status.after(second));
        assert_eq!(status.last_full_ticks(), Some(first_ticks));
        assert_eq!(status.last_incremental_ticks(), Some(second_ticks));
        assert_eq!(status.end().map(|end| end.last_etag), Some(Etag(44)));
        let third = run("2026-11-21T15:00:00Z", Err("no space".to_owned()));
        let (third_ticks, failed) = (third.began_ticks, status.clone().after(third));
        assert_eq!(failed.failed_ticks(), Some(third_ticks));
        assert_eq!(failed.last_full_ticks(), Some(first_ticks));
        assert_eq!((failed.end(), failed.runs), (status.end(), 3));
        for status in [BackupStatus::default(), status, failed] {
            assert_eq!(parse(status.to_stored().to_string().as_bytes()), Some(status));
        }
        assert_eq!(parse(br#"{"TaskId":7,"LastEtag":40}"#), None);
    }
}
