//! The files of one backup follow each other: what an incremental backup may be continued from, and what a restore
//! takes for whole.

use std::{path::Path, sync::Arc, time::Duration};

use blittable::{Builder, ParseLimits};
use commands::{Batch, Command};
use database::{DatabaseLease, ServerCatalog};
use documents::{ExpectedVersion, PutDocument, RequestedId};
use engine::Engine;
use model::{DatabaseName, DocumentId};
use platform::{Access, Disk, Platform, simulated::SimulatedClock};
use serde_json::{Map, Value, json};
use storage::EnvironmentOptions;
use wire::{BackupConfiguration, RestoreConfiguration, operation_state::OperationStatus};

use crate::{
    backups::{ended, new_database, opened, show_failure},
    hooked_disk::HookedDisk,
    settings,
};

pub(crate) const ROOT: &str = "/data/Backups/b";
pub(crate) const FILES: &str = "/data/Databases/db";
const MINUTE: Duration = Duration::from_secs(60);

/// A server with a database and a task that runs when it is asked to.
pub(crate) struct Bench {
    pub(crate) platform: Platform,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) task: u64,
    pub(crate) disk: Arc<HookedDisk>,
}

impl Bench {
    pub(crate) fn new(task: Value) -> Bench {
        let clock = Arc::new(SimulatedClock::default());
        let memory = Platform::memory();
        let disk = Arc::new(HookedDisk::new(Arc::clone(&memory.disk)));
        let (clock_of_all, disk_of_all) = (Arc::clone(&clock) as _, Arc::clone(&disk) as _);
        let platform = Platform { clock: clock_of_all, disk: disk_of_all, ..memory };
        let engine = Arc::new(Engine::open(settings(), platform.clone()).unwrap());
        engine.create_database(new_database("db", "{\"DatabaseName\":\"db\"}")).unwrap();
        let mut bench = Bench { platform, clock, engine, task: 0, disk };
        bench.task = bench.define(task);
        bench
    }

    pub(crate) fn define(&self, more: Value) -> u64 {
        let mut task = json!({
            "Name": "nightly", "FullBackupFrequency": "0 2 * * 0",
            "IncrementalBackupFrequency": "0 2 * * *", "LocalSettings": {"FolderPath": "b"}
        });
        task.as_object_mut().unwrap().extend(object(more));
        self.engine.put_backup_task("db", &object(task)).unwrap().id
    }

    pub(crate) fn database(&self, name: &str) -> DatabaseLease {
        opened(&self.engine, name).unwrap()
    }

    pub(crate) fn put(&self, id: &str, json: &str) {
        self.put_into("db", id, json);
    }

    /// Backs a database up once; returns the name of the file.
    pub(crate) fn back_up_once(&self, database: &DatabaseLease, sent: &Value) -> String {
        let configuration = BackupConfiguration::read(sent.as_object().unwrap()).unwrap();
        let begun = self.engine.begin_backup(database, &configuration, 54, show_failure);
        match ended(database.operations(), begun.unwrap()) {
            OperationStatus::BackedUp(result) => result.file.clone().unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn put_into(&self, database: &str, id: &str, json: &str) {
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        let body = Builder::new(ParseLimits::default()).parse_document(json.as_bytes()).unwrap();
        let put = PutDocument { id, expected: ExpectedVersion::Any, body };
        let batch = Batch::one(Command::Put(put));
        self.engine.execute(&self.database(database), batch).unwrap();
    }

    /// Runs the task, a minute after the last time; returns the name of the file, and the messages.
    pub(crate) fn run(&self, is_full: bool) -> (String, String) {
        self.clock.advance(MINUTE);
        self.run_now(is_full)
    }

    pub(crate) fn run_now(&self, is_full: bool) -> (String, String) {
        let database = self.database("db");
        let (engine, task) = (&self.engine, self.task);
        let begun = engine.begin_backup_run(&database, task, is_full, 54, None, show_failure);
        match ended(database.operations(), begun.unwrap()) {
            OperationStatus::BackedUp(result) => {
                (result.file.clone().unwrap_or_default(), result.to_json()["Messages"].to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    /// The folders of backups, the newest last.
    pub(crate) fn folders(&self) -> Vec<String> {
        self.platform.disk.list(Path::new(ROOT)).unwrap()
    }

    /// Restores a folder; the messages, or the reason if that fails.
    pub(crate) fn restore(&self, name: &str, folder: &str, more: Value) -> Result<String, String> {
        let mut sent = json!({"DatabaseName": name, "BackupLocation": format!("b/{folder}")});
        sent.as_object_mut().unwrap().extend(object(more));
        let configuration = RestoreConfiguration::read(&object(sent)).unwrap();
        let id = self.engine.begin_restore(configuration, show_failure).unwrap();
        match ended(self.engine.operations(), id) {
            OperationStatus::Restored(result) => Ok(result.to_json()["Messages"].to_string()),
            OperationStatus::Faulted(failure) => Err(failure.message),
            other => panic!("{other:?}"),
        }
    }

    /// A document as JSON.
    pub(crate) fn document(&self, database: &str, id: &str) -> Option<String> {
        let tx = self.database(database).read();
        let found = documents::get(&tx, &DocumentId::new(id).unwrap()).unwrap()?;
        let mut json = Vec::new();
        documents::write_document_json(&found, &mut json).unwrap();
        Some(String::from_utf8(json).unwrap())
    }

    /// Ends the server, does something to its files, and starts it again.
    pub(crate) fn while_stopped(&mut self, change: impl FnOnce(&Platform)) {
        self.engine.close();
        change(&self.platform);
        self.engine = Arc::new(Engine::open(settings(), self.platform.clone()).unwrap());
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(crate) fn copy(disk: &dyn Disk, from: &Path, to: &Path) {
    disk.create_dir_all(to).unwrap();
    for name in disk.list(from).unwrap() {
        let (from, to) = (from.join(&name), to.join(&name));
        match disk.list(&from) {
            Ok(_) => copy(disk, &from, &to),
            Err(_) => {
                let bytes = disk.read_file(&from).unwrap();
                disk.create(&to, Access::Buffered).unwrap().write_all_at(&bytes, 0).unwrap();
            }
        }
    }
}

/// As `corvus offline adopt` does.
pub(crate) fn adopt(platform: &Platform) {
    let catalog = ServerCatalog::open(platform, "/data/System".into()).unwrap();
    let name = DatabaseName::new("db").unwrap();
    catalog.adopt(&name, EnvironmentOptions::new(FILES)).unwrap();
    catalog.cluster().close();
    catalog.environment().close().unwrap();
}

#[test]
fn after_older_files_were_adopted_everything_is_backed_up() {
    let mut bench = Bench::new(json!({}));
    bench.put("old", "{}");
    bench.run(true);
    bench.while_stopped(|platform| {
        copy(&*platform.disk, Path::new(FILES), Path::new("/copy"));
    });
    bench.put("lost", "{}");
    bench.run(false);
    bench.while_stopped(|platform| {
        platform.disk.remove_dir_all(Path::new(FILES)).unwrap();
        copy(&*platform.disk, Path::new("/copy"), Path::new(FILES));
        adopt(platform);
    });
    // The database has come as far as the lost files had: numbers alone do not tell.
    bench.put("new", "{}");
    let (file, messages) = bench.run(false);
    assert!(file.ends_with(".ravendb-full-backup"), "{file} {messages}");
    assert!(messages.contains("the database has other files than then"), "{messages}");
    bench.restore("copy", bench.folders().last().unwrap(), json!({})).unwrap();
    let is_there = ["old", "lost", "new"].map(|id| bench.document("copy", id).is_some());
    assert_eq!(is_there, [true, false, true]);
}

#[test]
fn another_key_begins_a_new_backup() {
    let key = |first: &str| {
        let key = format!("{first}V2jJkHCPGwjbOiXuZDCNmyyj/GE4OH8OZlkg5jQPRI=");
        json!({"BackupEncryptionSettings": {"EncryptionMode": "UseProvidedKey", "Key": key}})
    };
    let mut bench = Bench::new(key("A"));
    bench.put("a", "{}");
    bench.run(true);
    bench.put("b", "{}");
    assert!(bench.run(false).0.ends_with(".ravendb-encrypted-incremental-backup"));
    let mut task = key("B");
    task.as_object_mut().unwrap().insert("TaskId".to_owned(), json!(bench.task));
    bench.task = bench.define(task);
    bench.put("c", "{}");
    let (file, messages) = bench.run(false);
    assert!(file.ends_with(".ravendb-encrypted-full-backup"), "{file}");
    assert!(messages.contains("the key is another one"), "{messages}");
    bench.put("d", "{}");
    assert!(bench.run(false).0.ends_with(".ravendb-encrypted-incremental-backup"));
    for (name, first, folder) in [("one", "A", 0), ("two", "B", 1)] {
        bench.restore(name, &bench.folders()[folder], key(first)).unwrap();
    }
    let is_there = ["a", "b", "c", "d"].map(|id| bench.document("two", id).is_some());
    assert_eq!(is_there, [true; 4]);
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_process() {
    let mut bench = Bench::new(json!({}));
    bench.put("a", "{}");
    let file = bench.run(true).0;
    let half = "2026-01-01-00-00-30.ravendb-db-A-backup";
    let place = Path::new(ROOT).join(half).join(format!("{file}.in-progress"));
    bench.while_stopped(|platform| {
        platform.disk.create_dir_all(place.parent().unwrap()).unwrap();
        platform.disk.create(&place, Access::Buffered).unwrap();
    });
    assert_eq!(bench.folders().len(), 2);
    bench.put("b", "{}");
    let (_, messages) = bench.run(false);
    assert!(messages.contains("Removed 1 unfinished files"), "{messages}");
    assert_eq!(bench.folders().len(), 1);
}

#[test]
fn a_clock_that_is_set_back_does_not_change_the_order_of_files() {
    let bench = Bench::new(json!({}));
    bench.put("a", r#"{"V":0}"#);
    let mut files = vec![bench.run(true).0];
    for version in 1..4 {
        bench.put("a", &json!({ "V": version }).to_string());
        files.push(bench.run(false).0);
        bench.clock.set_wall(Duration::from_secs(1_000_000 - 3600 * version));
    }
    assert!(files.is_sorted(), "{files:?}");
    bench.restore("copy", &bench.folders()[0], json!({})).unwrap();
    assert!(bench.document("copy", "a").unwrap().contains(r#""V":3"#));
}

#[test]
fn a_chain_with_a_missing_file_is_neither_restored_nor_continued() {
    for missing in 0..4 {
        let bench = Bench::new(json!({}));
        let mut files = Vec::new();
        for number in 0..4 {
            bench.put(&format!("d/{number}"), "{}");
            files.push(bench.run(number == 0).0);
        }
        let folder = bench.folders()[0].clone();
        let path = Path::new(ROOT).join(&folder);
        bench.platform.disk.remove_file(&path.join(&files[missing])).unwrap();
        let restored = bench.restore("copy", &folder, json!({}));
        match missing {
            // Without the newest, it is the backup that it was before.
            3 => drop(restored.unwrap()),
            _ => {
                let reason = restored.unwrap_err();
                let says_which = match missing {
                    0 => {
                        reason.contains(&format!("'{}' in", files[1]))
                            && reason.contains("no full backup")
                    }
                    _ => reason.contains(&files[missing]),
                };
                assert!(says_which, "{missing}: {reason}");
                assert!(bench.engine.record("copy").is_none());
                let before = json!({"LastFileNameToRestore": files[missing.saturating_sub(1)]});
                let restored = bench.restore("before", &folder, before);
                assert_eq!(restored.is_ok(), missing != 0, "{missing}: {restored:?}");
            }
        }
        bench.put("later", "{}");
        let (file, messages) = bench.run(false);
        assert!(file.ends_with(".ravendb-full-backup"), "{missing}: {file} {messages}");
        assert!(
            messages.contains("the files of the last one are not those that were written"),
            "{messages}"
        );
        bench.restore("new", bench.folders().last().unwrap(), json!({})).unwrap();
        let database = bench.database("new");
        assert_eq!(documents::progress(&database.read()).unwrap().documents, 5);
    }
}

#[test]
fn files_of_two_backups_are_not_taken_for_one() {
    let bench = Bench::new(json!({}));
    let mut files = Vec::new();
    for (number, is_full) in [true, false, true, false].into_iter().enumerate() {
        bench.put(&format!("d/{number}"), "{}");
        files.push(bench.run(is_full).0);
    }
    let folders = bench.folders();
    let [first, second] = [0, 1].map(|number| Path::new(ROOT).join(&folders[number]));
    bench.platform.disk.rename(&second.join(&files[3]), &first.join(&files[3])).unwrap();
    let reason = bench.restore("copy", &folders[0], json!({})).unwrap_err();
    assert!(reason.contains(&files[3]) && reason.contains(&files[2]), "{reason}");
}

#[test]
fn an_incremental_file_without_a_full_one_is_reported() {
    let bench = Bench::new(json!({}));
    bench.put("a", "{}");
    bench.run(true);
    bench.put("b", "{}");
    let incremental = bench.run(false).0;
    let (disk, folder) = (&*bench.platform.disk, bench.folders()[0].clone());
    // As if a clock had been wrong: it comes before the full one then.
    let early = "2001-01-01-00-00-00.ravendb-incremental-backup";
    let path = Path::new(ROOT).join(&folder);
    disk.rename(&path.join(&incremental), &path.join(early)).unwrap();
    let reason = bench.restore("copy", &folder, json!({})).unwrap_err();
    assert!(reason.contains(early) && reason.contains("full backup"), "{reason}");
    let named = json!({ "LastFileNameToRestore": early });
    let reason = bench.restore("copy", &folder, named).unwrap_err();
    assert!(reason.contains(early) && reason.contains("full backup"), "{reason}");
    let full = disk.list(&path).unwrap().into_iter().find(|name| name != early).unwrap();
    bench.restore("copy", &folder, json!({ "LastFileNameToRestore": full })).unwrap();
    assert!(bench.document("copy", "b").is_none());
}
