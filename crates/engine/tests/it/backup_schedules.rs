//! When scheduled backups run, and what is shown of those that do not.

use std::{path::Path, sync::mpsc, time::Duration};

use platform::Access;
use serde_json::{Map, Value, json};

use crate::{
    backup_chains::{Bench, FILES, ROOT, object},
    backups::{ended, new_database, show_failure},
};

const SECOND: Duration = Duration::from_secs(1);
const EACH_MINUTE: &str = "* * * * *";

impl Bench {
    /// The status as clients are shown it; empty before the first run.
    pub(crate) fn status(&self) -> Map<String, Value> {
        let record = self.engine.record("db").unwrap();
        let tasks = self.engine.backup_tasks(&record);
        let task = tasks.iter().find(|task| task.definition.id == self.task).unwrap();
        loop {
            let state = self.engine.backup_task_state(&record, task).unwrap();
            if state.running.is_none() {
                return state.status.unwrap_or_default();
            }
            std::thread::yield_now();
        }
    }

    /// Lets time pass, looking each second for what is due; returns how many runs have ended.
    pub(crate) fn pass(&self, seconds: u32) -> u64 {
        let runs = || self.status().get("Version").and_then(Value::as_u64).unwrap_or(0);
        let before = runs();
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            self.engine.run_due_backups(54, show_failure);
            // Time does not pass for a run.
            runs();
        }
        runs() - before
    }
}

#[test]
fn a_run_that_cannot_begin_is_shown_and_tried_again_after_growing_pauses() {
    let bench = Bench::new(json!({ "FullBackupFrequency": EACH_MINUTE }));
    bench.put("a", "{}");
    bench.platform.disk.create(Path::new("/data/Backups"), Access::Buffered).unwrap();
    // At about 1, 2, 4 and 8 minutes.
    assert_eq!(bench.pass(900), 4);
    let status = bench.status();
    let error = status["Error"]["Exception"].as_str().unwrap();
    assert!(error.contains("Cannot create the folder /data/Backups/b"), "{error}");
    assert_eq!(status["LastFullBackup"], Value::Null);
    bench.platform.disk.remove_file(Path::new("/data/Backups")).unwrap();
    assert!(1 <= bench.pass(120));
    assert_eq!(bench.status()["Error"], Value::Null);
}

#[test]
fn a_database_that_cannot_be_opened_has_a_status_that_says_so() {
    let mut bench = Bench::new(json!({ "FullBackupFrequency": EACH_MINUTE }));
    bench.put("a", "{}");
    bench.while_stopped(|platform| {
        let (disk, files) = (&*platform.disk, Path::new(FILES));
        for name in disk.list(files).unwrap().iter().filter(|name| name.starts_with("corvus.")) {
            let file = disk.open(&files.join(name), Access::Buffered).unwrap();
            let bytes = usize::try_from(file.len().unwrap()).unwrap();
            file.write_all_at(&vec![0x55; bytes], 0).unwrap();
        }
    });
    assert_eq!(bench.pass(900), 4);
    assert!(bench.status()["Error"]["Exception"].is_string());
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_backups() {
    let bench = Bench::new(json!({}));
    bench.put("a", "{}");
    let years = Duration::from_secs(20 * 365 * 86_400);
    bench.clock.advance(years);
    bench.run(true);
    assert_eq!(bench.pass(10), 0);
    bench.clock.set_wall(Duration::from_secs(1_800_000_000));
    assert_eq!(bench.pass(10), 1);
    assert_eq!(bench.status()["LastFullBackup"].as_str().map(|text| &text[..4]), Some("2027"));
    assert_eq!(bench.platform.disk.list(Path::new(ROOT)).unwrap().len(), 2);
}

/// RavenDB's tasks arrive enabled with a restore, and not all of them can run here.
#[test]
fn a_task_that_cannot_be_followed_is_reported_listed_and_never_due() {
    let bench = Bench::new(json!({}));
    let task = |id: u64, name: &str, more: Value| {
        let mut task = json!({
            "TaskId": id, "Name": name, "Disabled": false, "FullBackupFrequency": EACH_MINUTE,
            "IncrementalBackupFrequency": EACH_MINUTE, "LocalSettings": {"FolderPath": "b"}
        });
        task.as_object_mut().unwrap().extend(object(more));
        task
    };
    let tasks = [
        task(1, "cloud", json!({"AzureSettings": {"StorageContainer": "b", "Disabled": false}})),
        task(2, "files", json!({"BackupType": "Mirror"})),
        task(3, "elsewhere", json!({"LocalSettings": {"FolderPath": "/mnt/other"}})),
        task(4, "times", json!({"FullBackupFrequency": "soon"})),
        task(5, "good", json!({"fullBackupFrequency": "0 2 * * 0"})),
    ];
    let record = json!({"DatabaseName": "x", "PeriodicBackups": tasks});
    let dump = json!({"BuildVersion": 54_000, "DatabaseRecord": record, "Docs": []});
    let name = "2026-11-20-14-38-37.ravendb-full-backup";
    let folder = "2026-11-20-14-38-37.ravendb-x-A-backup";
    let (path, disk) = (Path::new(ROOT).join(folder), &*bench.platform.disk);
    disk.create_dir_all(&path).unwrap();
    let file = disk.create(&path.join(name), Access::Buffered).unwrap();
    file.write_all_at(dump.to_string().as_bytes(), 0).unwrap();
    let messages = bench.restore("copy", folder, json!({})).unwrap();
    let record = bench.engine.record("copy").unwrap();
    let listed = bench.engine.backup_tasks(&record);
    assert_eq!(listed.len(), 5);
    let expected = ["'AzureSettings' cannot be used", "('Mirror')", "outside of", "soon"];
    for (listed, expected) in listed.iter().zip(expected) {
        let name = listed.definition.name.as_deref().unwrap();
        let reported = format!("The scheduled backup '{name}' cannot run here");
        assert!(messages.contains(&reported) && messages.contains(expected), "{messages}");
        assert!(listed.definition.is_disabled, "{name}");
        // The folder may be allowed later.
        let obstacle = listed.obstacle.as_deref().unwrap_or_default();
        assert_eq!(obstacle.contains(expected), name != "elsewhere", "{name}: {obstacle}");
    }
    let good = listed.last().unwrap();
    assert!(!good.definition.is_disabled && good.obstacle.is_none());
    assert!(!good.stored.contains_key("fullBackupFrequency"), "{:?}", good.stored);
    // In a record that did not come through a restore they are enabled.
    let body = json!({"DatabaseName": "plain", "PeriodicBackups": &tasks[..2]}).to_string();
    bench.engine.create_database(new_database("plain", &body)).unwrap();
    assert_eq!(bench.pass(200), 0);
    let record = bench.engine.record("plain").unwrap();
    for task in bench.engine.backup_tasks(&record) {
        assert!(!task.definition.is_disabled && task.obstacle.is_some());
        let state = bench.engine.backup_task_state(&record, &task).unwrap();
        assert!(state.status.is_none() && state.next.is_none(), "{state:?}");
        let (database, id) = (bench.database("plain"), task.definition.id);
        let run = bench.engine.begin_backup_run(&database, id, true, 54, None, show_failure);
        assert_eq!(Some(run.unwrap_err().to_string()), task.obstacle);
    }
}

#[test]
fn a_disk_for_backups_that_hangs_stops_nothing_else() {
    // In the folder that the client names, and in that of the backup.
    for path in ["/data/Backups", "-db-A-backup"] {
        let bench = Bench::new(json!({}));
        let (hangs, is_hanging) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        bench.disk.before_creating(path, move || {
            hangs.send(()).unwrap();
            may_go_on.recv().unwrap();
        });
        let (engine, database) = (&bench.engine, bench.database("db"));
        let begun = engine.begin_backup_run(&database, bench.task, true, 54, None, show_failure);
        is_hanging.recv().unwrap();
        engine.create_database(new_database("other", "{\"DatabaseName\":\"other\"}")).unwrap();
        engine.run_due_backups(54, show_failure);
        go_on.send(()).unwrap();
        ended(database.operations(), begun.unwrap());
        assert_eq!(bench.folders().len(), 1, "{path}");
    }
}
