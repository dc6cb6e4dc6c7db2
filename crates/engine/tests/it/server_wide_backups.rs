//! Backups of all databases: which tasks each database has of them, and that they run.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    backup_chains::{Bench, object},
    backups::new_database,
};

/// The name, the number and the folder of each task of a database, and whether it is disabled.
fn tasks(bench: &Bench, database: &str) -> Vec<(String, u64, String, bool)> {
    let record = bench.engine.record(database).unwrap();
    let tasks = bench.engine.backup_tasks(&record).into_iter();
    let shown = tasks.map(|task| {
        let definition = task.definition;
        let folder = definition.configuration.folder.unwrap_or_default();
        (definition.name.unwrap_or_default(), definition.id, folder, definition.is_disabled)
    });
    shown.collect()
}

fn put(bench: &Bench, more: Value) -> Result<String, String> {
    let mut sent = object(json!({
        "FullBackupFrequency": "* * * * *", "LocalSettings": {"FolderPath": "all"}
    }));
    sent.extend(object(more));
    let changed = bench.engine.put_server_wide_backup(&sent);
    changed.map(|changed| changed.name).map_err(|error| error.to_string())
}

fn create(bench: &Bench, name: &str) {
    let record = format!("{{\"DatabaseName\":\"{name}\"}}");
    bench.engine.create_database(new_database(name, &record)).unwrap();
}

#[test]
fn every_database_has_a_task_of_its_own_also_one_that_is_created_later() {
    let mut bench = Bench::new(json!({}));
    create(&bench, "other");
    assert_eq!(put(&bench, json!({"ExcludedDatabases": ["OTHER"]})).unwrap(), "Backup to Local");
    create(&bench, "later");
    let [of_all] = &bench.engine.server_wide_backups()[..] else { panic!() };
    let task = |database: &str| {
        let name = "Server Wide Backup, Backup to Local".to_owned();
        (name, of_all.id, format!("all/{database}"), false)
    };
    assert_eq!(tasks(&bench, "db")[1..], [task("db")]);
    assert_eq!(tasks(&bench, "other"), []);
    assert_eq!(tasks(&bench, "later"), [task("later")]);
    bench.while_stopped(|_| {});
    assert_eq!(tasks(&bench, "later"), [task("later")]);
    // A change applies to all of them.
    let id = of_all.id;
    let changed = json!({"TaskId": id, "Name": "n", "LocalSettings": {"FolderPath": "x/"}});
    assert_eq!(put(&bench, changed).unwrap(), "n");
    for database in ["db", "other", "later"] {
        let expected = ("Server Wide Backup, n".to_owned(), id, format!("x/{database}"), false);
        assert_eq!(tasks(&bench, database).pop(), Some(expected));
    }
    bench.engine.set_server_wide_backup_state("N", true).unwrap();
    assert!(tasks(&bench, "later")[0].3);
    bench.engine.delete_server_wide_backup("n").unwrap();
    assert_eq!(tasks(&bench, "later"), []);
    assert_eq!(tasks(&bench, "db").len(), 1);
}

#[test]
fn the_tasks_run_and_have_statuses_of_their_own() {
    let mut bench = Bench::new(json!({"Disabled": true}));
    bench.put("a", "{}");
    create(&bench, "other");
    put(&bench, json!({})).unwrap();
    bench.task = bench.engine.server_wide_backups()[0].id;
    assert_eq!(bench.pass(61), 1);
    let other = bench.engine.record("other").unwrap();
    let [task] = &bench.engine.backup_tasks(&other)[..] else { panic!() };
    // Each run has a thread of its own.
    while bench.engine.backup_task_state(&other, task).unwrap().status.is_none() {
        std::thread::yield_now();
    }
    let folders = |database: &str| {
        bench.platform.disk.list(&Path::new("/data/Backups/all").join(database)).unwrap()
    };
    assert_eq!(folders("db").len(), 1);
    assert!(folders("db")[0].ends_with(".ravendb-db-A-backup"));
    assert!(folders("other")[0].ends_with(".ravendb-other-A-backup"));
    // What was changed is due as it says now.
    put(&bench, json!({"TaskId": bench.task, "FullBackupFrequency": "0 0 1 1 *"})).unwrap();
    assert_eq!(bench.pass(121), 0);
    bench.engine.delete_server_wide_backup("Backup to Local").unwrap();
    let record = bench.engine.record("db").unwrap();
    assert_eq!(bench.engine.last_backup_ticks(&record).unwrap(), None);
}

#[test]
fn names_and_numbers_differ_and_what_cannot_be_followed_is_refused() {
    let bench = Bench::new(json!({}));
    let own = tasks(&bench, "db")[0].1;
    for expected in ["Backup to Local", "Backup to Local #2", "Backup to Local #3"] {
        assert_eq!(put(&bench, json!({"Name": ""})).unwrap(), expected);
    }
    let cases = [
        (json!({"Name": "backup to local"}), "there is already a Server-Wide Backup task"),
        (json!({"Name": "n", "TaskId": 999_999}), "Can't find ServerWideBackupConfiguration"),
        (json!({"FullBackupFrequency": "bad"}), "has too few parameters"),
        (json!({"FullBackupFrequency": ""}), "Couldn't parse the cron expressions"),
        (json!({"LocalSettings": null}), "without target any destinations"),
        (json!({"LocalSettings": {"FolderPath": "/mnt/other"}}), "is outside of the directory"),
        (json!({"ExcludedDatabases": [""]}), "cannot contain null or empty"),
    ];
    for (sent, expected) in cases {
        let error = put(&bench, sent.clone()).unwrap_err();
        assert!(error.contains(expected), "{sent}: {error}");
    }
    let mut numbers: Vec<u64> = tasks(&bench, "db").iter().map(|task| task.1).collect();
    numbers.dedup();
    assert_eq!((numbers.len(), numbers[0]), (4, own));
    let second = bench.define(json!({"Name": "second"}));
    assert!(!numbers.contains(&second));
    for result in [
        bench.engine.set_server_wide_backup_state("none", true),
        bench.engine.delete_server_wide_backup("none"),
    ] {
        assert!(result.unwrap_err().to_string().ends_with("'none'"));
    }
}

/// A record that was moved here from another server may use the number of a server-wide task.
#[test]
fn a_number_that_a_database_uses_already_stays_its_own() {
    let bench = Bench::new(json!({}));
    put(&bench, json!({})).unwrap();
    let id = bench.engine.server_wide_backups()[0].id;
    let record = json!({"DatabaseName": "moved", "PeriodicBackups": [
        {"TaskId": id, "Name": "own", "FullBackupFrequency": "0 0 1 1 *", "LocalSettings": {"FolderPath": "b"}},
        {"TaskId": id + 1, "Name": "Server Wide Backup, old", "FullBackupFrequency": "0 0 1 1 *"}
    ]});
    bench.engine.create_database(new_database("moved", &record.to_string())).unwrap();
    let found = tasks(&bench, "moved");
    let names: Vec<_> = found.iter().map(|task| (task.0.as_str(), task.1)).collect();
    assert_eq!(names, [("own", id), ("Server Wide Backup, Backup to Local", id + 1)]);
}

#[test]
fn a_database_cannot_change_a_task_that_all_have() {
    let bench = Bench::new(json!({}));
    put(&bench, json!({})).unwrap();
    let id = bench.engine.server_wide_backups()[0].id;
    let engine = &bench.engine;
    let sent = object(json!({
        "TaskId": id, "Name": "x", "FullBackupFrequency": "* * * * *", "LocalSettings": {"FolderPath": "b"}
    }));
    for result in [
        engine.put_backup_task("db", &sent),
        engine.set_backup_task_state("db", id, true),
        engine.delete_backup_task("db", id),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("because it is a server-wide backup task"), "{error}");
    }
    let mut sent = sent;
    sent.insert("TaskId".to_owned(), json!(0));
    sent.insert("Name".to_owned(), json!("server wide backup, x"));
    let error = engine.put_backup_task("db", &sent).unwrap_err().to_string();
    assert!(error.contains("can't start with prefix 'Server Wide Backup'"), "{error}");
}
