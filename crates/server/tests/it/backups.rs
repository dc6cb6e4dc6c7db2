//! Backing up databases, and restoring them.

use std::{path::Path, sync::Arc, time::Duration};

use platform::{
    Access, Platform,
    simulated::{Random, SimulatedClock},
};
use serde_json::{Value, json};

use crate::{
    http_client::Reply,
    resources::wait_until,
    smuggler::{RECORDED, assert_same, assert_same_hash, content, fill, put_many_attachments},
    test_server::TestServer,
};

/// The state of an operation when it has ended. `of` is the beginning of a path: of a database, or empty for the server.
fn ended(server: &TestServer, of: &str, begun: &Reply) -> Value {
    assert_eq!(begun.status, 200, "{}", begun.text());
    let id = begun.json()["OperationId"].as_i64().unwrap();
    for _ in 0..2000 {
        let state = server.get(&format!("{of}/operations/state?id={id}")).json();
        if state["Status"] != "InProgress" {
            return state;
        }
        #[expect(clippy::disallowed_methods, reason = "polls as clients do")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the operation does not end");
}

fn back_up(server: &TestServer, database: &str) -> Value {
    back_up_as(server, database, "Backup")
}

fn back_up_as(server: &TestServer, database: &str, form: &str) -> Value {
    let body = json!({"BackupType": form, "LocalSettings": {"FolderPath": "b"}}).to_string();
    let of = format!("/databases/{database}");
    let begun = server.send("POST", &format!("{of}/admin/backup"), body.as_bytes());
    let state = ended(server, &of, &begun);
    assert_eq!(state["Status"], "Completed", "{state}");
    state["Result"].clone()
}

fn points(server: &TestServer, folder: &str) -> Vec<Value> {
    let body = json!({ "FolderPath": folder }).to_string();
    let reply = server.send("POST", "/admin/restore/points?type=Local", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["List"].as_array().unwrap().clone()
}

fn begin_restore(server: &TestServer, name: &str, location: &str, more: Value) -> Reply {
    let mut body = json!({"Type": "Local", "DatabaseName": name, "BackupLocation": location});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.send("POST", "/admin/restore/database", body.to_string().as_bytes())
}

fn restore(server: &TestServer, name: &str, location: &str, more: Value) -> Value {
    let begun = begin_restore(server, name, location, more);
    ended(server, "", &begun)
}

fn database_names(server: &TestServer) -> Vec<String> {
    let all = server.get("/databases?namesOnly=true").json();
    all["Databases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Puts a file into the directory for backups.
fn place(platform: &Platform, folder: &Path, name: &str, bytes: &[u8]) {
    platform.disk.create_dir_all(folder).unwrap();
    let path = folder.join(name);
    if platform.disk.exists(&path).unwrap() {
        platform.disk.remove_file(&path).unwrap();
    }
    let file = platform.disk.create(&path, Access::Buffered).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

#[test]
fn a_database_is_the_same_after_backup_and_restore() {
    for seed in 0..6 {
        let form = ["Backup", "Snapshot"][seed as usize % 2];
        let server = TestServer::start(Platform::memory(), &[]);
        server.create("db");
        fill(&server, &mut Random::new(700 + seed / 2));
        let backup = back_up_as(&server, "db", form);
        let (folder, file) =
            (&backup["LocalBackup"]["BackupDirectory"], &backup["LocalBackup"]["FileName"]);
        let (folder_ending, file_ending) = match form {
            "Snapshot" => (".ravendb-db-A-snapshot", ".ravendb-snapshot"),
            _ => (".ravendb-db-A-backup", ".ravendb-full-backup"),
        };
        assert!(folder.as_str().unwrap().ends_with(folder_ending), "{folder}");
        assert!(file.as_str().unwrap().ends_with(file_ending), "{file}");
        assert_eq!(backup["SnapshotBackup"]["Skipped"], form != "Snapshot");
        let listed = points(&server, "b");
        let [point] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((&point["DatabaseName"], &point["FilesToRestore"]), (&json!("db"), &json!(1)));
        let location = point["Location"].as_str().unwrap();
        let state = restore(&server, "copy", location, json!({}));
        assert_eq!(state["Status"], "Completed", "{state}");
        assert_same(&content(&server, "db"), &content(&server, "copy"));
        assert_same_hash(&server, "db", "copy");
        let stats = |name: &str| {
            server.get(&format!("/databases/{name}/stats")).json()["DatabaseId"].clone()
        };
        assert_ne!(stats("db"), stats("copy"), "a restored database is another one");
        let record = server.get("/databases/copy/admin/record").json();
        assert_eq!(record["DatabaseState"], "Normal");
    }
}

#[test]
fn a_restored_document_has_its_attachments_however_many_they_are() {
    let server = TestServer::with_database();
    put_many_attachments(&server);
    back_up(&server, "db");
    let listed = points(&server, "b");
    let state = restore(&server, "copy", listed[0]["Location"].as_str().unwrap(), json!({}));
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_same(&content(&server, "db"), &content(&server, "copy"));
}

#[test]
fn backups_of_ravendb_are_restored_under_its_names() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &["--Backup.LocalRootPath=/backups"]);
    let folder = Path::new("/backups/2026-11-20-14-38-37.ravendb-smg-A-backup");
    place(&platform, folder, "2026-11-20-14-38-37.ravendb-full-backup", RECORDED);
    let state = restore(&server, "copy", &folder.display().to_string(), json!({}));
    assert_eq!(state["Status"], "Completed", "{state}");
    let result = &state["Result"];
    assert_eq!(result["$type"], "Raven.Client.ServerWide.Operations.RestoreResult, Raven.Client");
    assert_eq!(result["Files"]["FileCount"], 1);
    let count = server.get("/databases/copy/stats").json()["CountOfDocuments"].as_u64().unwrap();
    assert_eq!(Some(count), result["Documents"]["ReadCount"].as_u64());
    assert!(1 < count);
}

#[test]
fn folders_outside_of_the_directory_for_backups_are_refused() {
    let server = TestServer::start(Platform::memory(), &["--Backup.LocalRootPath=/backups"]);
    server.create("db");
    for folder in ["/", "/other", "/backups/../other", "/backupsx", "../x"] {
        let body = json!({"LocalSettings": {"FolderPath": folder}}).to_string();
        let reply = server.send("POST", "/databases/db/admin/backup", body.as_bytes());
        assert!(reply.status >= 400, "{folder}: {}", reply.text());
        let restored = begin_restore(&server, "copy", folder, json!({}));
        assert!(restored.status >= 400, "{folder}: {}", restored.text());
        let body = json!({ "FolderPath": folder }).to_string();
        let listed = server.send("POST", "/admin/restore/points?type=Local", body.as_bytes());
        assert!(listed.status >= 400, "{folder}: {}", listed.text());
    }
    let body = json!({"LocalSettings": {"FolderPath": "/other"}}).to_string();
    let reply = server.send("POST", "/databases/db/admin/backup", body.as_bytes());
    assert!(reply.text().contains("set Backup.LocalRootPath"), "{}", reply.text());
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_refused_at_once() {
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    for (body, expected) in [
        (json!({}), "target no destinations"),
        (json!({"AzureSettings": {"StorageContainer": "b"}}), "'AzureSettings' cannot be used"),
        (json!({"BackupType": "Foo"}), "BackupType"),
    ] {
        let reply = server.send("POST", "/databases/db/admin/backup", body.to_string().as_bytes());
        assert!(reply.status == 500 && reply.text().contains(expected), "{}", reply.text());
    }
    for (name, location, expected) in [
        ("db", "b", "Cannot restore data to an existing database named db"),
        ("copy", "missing", "Backup location doesn't exist"),
        ("a/b", "b", "a/b"),
    ] {
        let reply = begin_restore(&server, name, location, json!({}));
        assert!(reply.status == 500 && reply.text().contains(expected), "{}", reply.text());
    }
    assert_eq!(database_names(&server), ["db"]);
}

#[test]
fn a_backup_that_is_damaged_leaves_no_database() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &["--Backup.LocalRootPath=/backups"]);
    server.create("db");
    fill(&server, &mut Random::new(5));
    back_up(&server, "db");
    let point = points(&server, "b").remove(0);
    let file = point["FileName"].as_str().unwrap();
    let good = platform.disk.read_file(Path::new(file)).unwrap();
    let folder = Path::new("/backups/2026-11-20-14-38-37.ravendb-db-A-backup");
    let name = "2026-11-20-14-38-37.ravendb-full-backup";
    let mut random = Random::new(77);
    for round in 0..40 {
        let mut damaged = good.clone();
        let at = random.below(damaged.len() as u64) as usize;
        match round % 4 {
            0 => damaged[at] ^= 1 << random.below(8),
            1 => damaged.truncate(at),
            2 => drop(damaged.drain(at..(at + 50).min(good.len()))),
            _ => damaged[at..].reverse(),
        }
        if damaged == good {
            continue;
        }
        place(&platform, folder, name, &damaged);
        let state = restore(&server, "copy", &folder.display().to_string(), json!({}));
        assert_eq!(state["Status"], "Faulted", "{round} at {at}: {state}");
        assert_eq!(database_names(&server), ["db"], "{round}");
    }
    place(&platform, folder, name, &good);
    let state = restore(&server, "copy", &folder.display().to_string(), json!({}));
    assert_eq!(state["Status"], "Completed", "the name is free again: {state}");
}

const EVERYTHING: &str = "0 2 * * 0";

/// Defines a task of `db` that runs when it is asked to.
fn define(server: &TestServer, more: Value) -> i64 {
    let mut task = json!({
        "Name": "nightly", "BackupType": "Backup", "FullBackupFrequency": EVERYTHING,
        "IncrementalBackupFrequency": "0 2 * * *", "LocalSettings": {"FolderPath": "b"}
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let target = "/databases/db/admin/periodic-backup";
    let reply = server.send("POST", target, task.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["TaskId"].as_i64().unwrap()
}

fn run(server: &TestServer, task: i64, is_full: bool) -> Value {
    let target =
        format!("/databases/db/admin/backup/database?taskId={task}&isFullBackup={is_full}");
    let state = ended(server, "/databases/db", &server.send("POST", &target, b""));
    assert_eq!(state["Status"], "Completed", "{state}");
    state["Result"].clone()
}

fn status(server: &TestServer, task: i64) -> Value {
    let target = format!("/periodic-backup/status?name=db&taskId={task}");
    server.get(&target).json()["Status"].clone()
}

#[test]
fn each_file_of_a_series_restores_the_database_as_it_was_then() {
    for seed in 0..2 {
        let server = TestServer::start(Platform::memory(), &[]);
        server.create("db");
        let (task, mut random) = (define(&server, json!({})), Random::new(40 + seed));
        let mut then = Vec::new();
        for round in 0..6 {
            fill(&server, &mut random);
            if round == 3 {
                // What was deleted and created again is there; what was deleted is not.
                server.put("again", r#"{"N":1}"#);
                server.send("DELETE", "/databases/db/docs?id=again", b"");
                server.put("again", r#"{"N":2,"@metadata":{"@collection":"Moved"}}"#);
                let delete = json!({"Documents": [{"DocumentId": "x/2", "Operations": [{"Type": "Delete", "CounterName": "C1"}]}]});
                server.send("POST", "/databases/db/counters", delete.to_string().as_bytes());
                let value = server.get("/databases/db/cmpxchg?key=K1").json();
                if let Some(index) = value["Results"][0]["Index"].as_i64() {
                    server.send(
                        "DELETE",
                        &format!("/databases/db/cmpxchg?key=K1&index={index}"),
                        b"",
                    );
                }
                server.send("DELETE", "/databases/db/attachments?id=us%2F0&name=n1", b"");
            }
            let result = run(&server, task, round == 0);
            let file = result["LocalBackup"]["FileName"].as_str().unwrap().to_owned();
            assert_eq!(file.ends_with(".ravendb-incremental-backup"), round != 0, "{file}");
            let bin = server.get("/databases/db/revisions/bin?pageSize=1000").ids();
            then.push((file, content(&server, "db"), bin));
        }
        let listed = points(&server, "b");
        assert_eq!(listed.len(), 6);
        assert_eq!(listed[0]["FilesToRestore"], 6);
        let location = listed[0]["Location"].as_str().unwrap();
        for (number, (file, content_then, bin_then)) in then.iter().enumerate().rev() {
            let name = format!("copy{number}");
            let more = json!({"LastFileNameToRestore": file, "DisableOngoingTasks": true});
            let state = restore(&server, &name, location, more);
            assert_eq!(state["Status"], "Completed", "{state}");
            let messages = state["Result"]["Messages"].to_string();
            assert!(!messages.contains("ERROR"), "seed {seed}, {file}: {messages}");
            assert_same(content_then, &content(&server, &name));
            let bin = server.get(&format!("/databases/{name}/revisions/bin?pageSize=1000")).ids();
            assert_eq!(bin, *bin_then, "seed {seed}, {file}");
            let record = server.get(&format!("/databases/{name}/admin/record")).json();
            assert_eq!(record["PeriodicBackups"][0]["Disabled"], true);
        }
        let state = restore(&server, "c", location, json!({"LastFileNameToRestore": "other"}));
        assert_eq!(state["Status"], "Faulted", "{state}");
        assert!(state.to_string().contains("There is no backup 'other'"), "{state}");
    }
}

#[test]
fn a_run_without_changes_writes_no_file_and_the_first_is_of_everything() {
    let server = TestServer::with_database();
    let task = define(&server, json!({}));
    assert_eq!(status(&server, task), Value::Null);
    server.put("a", "{}");
    let first = run(&server, task, false);
    assert!(first["LocalBackup"]["FileName"].as_str().unwrap().ends_with("full-backup"), "{first}");
    assert!(first["Messages"].to_string().contains("there is no full backup yet"), "{first}");
    let measured = server.get("/admin/monitoring/v1/databases").json();
    let since = &measured["Results"][0]["TimeSinceLastBackupInSec"];
    assert!(since.as_f64().is_some_and(|seconds| seconds < 600.0), "{measured}");
    let unchanged = run(&server, task, false);
    assert_eq!(unchanged["LocalBackup"]["FileName"], Value::Null);
    assert_eq!(points(&server, "b").len(), 1);
    let shown = status(&server, task);
    assert_eq!((&shown["IsFull"], &shown["Version"]), (&json!(false), &json!(2)));
    assert!(shown["LastFullBackup"].is_string() && shown["LastIncrementalBackup"].is_string());
    server.put("b", "{}");
    let second = run(&server, task, false);
    assert_eq!(second["Documents"]["ReadCount"], 1, "{second}");
}

#[test]
fn a_task_is_listed_changed_disabled_and_deleted_and_survives_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    let task =
        define(&server, json!({"RetentionPolicy": {"MinimumBackupAgeToKeep": "1.01:00:00"}}));
    run(&server, task, true);
    let before = status(&server, task);
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(status(&server, task), before);
    let listed = server.get("/databases/db/tasks").json();
    let shown = &listed["OngoingTasksList"][0];
    assert_eq!((&shown["TaskType"], &shown["TaskName"]), (&json!("Backup"), &json!("nightly")));
    assert_eq!(shown["BackupDestinations"], json!(["Local"]));
    assert_eq!(shown["NextBackup"]["IsFull"].as_bool().map(|_| ()), Some(()), "{shown}");
    let named = server.get("/databases/db/task?type=Backup&taskName=nightly").json();
    assert_eq!(named["RetentionPolicy"]["MinimumBackupAgeToKeep"], "1.01:00:00");
    assert_eq!(server.get("/databases/db/task?type=Backup&key=999").status, 404);
    let again = define(&server, json!({"TaskId": task, "Name": "other"}));
    assert_eq!(again, task);
    let target = format!("/databases/db/admin/tasks/state?key={task}&type=Backup&disable=true");
    assert_eq!(server.send("POST", &target, b"").json()["TaskId"], task);
    let shown = server.get(&format!("/databases/db/task?type=Backup&key={task}")).json();
    assert_eq!((&shown["TaskState"], &shown["NextBackup"]), (&json!("Disabled"), &Value::Null));
    assert_eq!(shown["TaskName"], "other");
    let target = format!("/databases/db/admin/tasks?id={task}&type=Backup");
    assert_eq!(server.send("DELETE", &target, b"").status, 200);
    assert_eq!(server.send("DELETE", &target, b"").status, 500);
    assert_eq!(server.get("/databases/db/tasks").json()["OngoingTasksList"], json!([]));
    let reply = server.get(&format!("/periodic-backup/status?name=db&taskId={task}"));
    assert!(reply.text().contains("doesn't exist"), "{}", reply.text());
}

#[test]
fn tasks_that_cannot_run_are_refused_unless_they_are_disabled() {
    let server = TestServer::with_database();
    let define = |more: Value| {
        let mut task =
            json!({"FullBackupFrequency": EVERYTHING, "LocalSettings": {"FolderPath": "b"}});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.send("POST", "/databases/db/admin/periodic-backup", task.to_string().as_bytes())
    };
    for (more, expected) in [
        (json!({"FullBackupFrequency": null}), "Couldn't parse the cron expressions for both"),
        (json!({"FullBackupFrequency": "bad"}), "<bad> has too few parameters"),
        (json!({"LocalSettings": null}), "enabled without target any destinations"),
        (json!({"LocalSettings": {"FolderPath": "/etc"}}), "outside of the directory for backups"),
        (json!({"TaskId": 77}), "Periodic backup task ID: 77 doesn't exist"),
        (json!({"BackupEncryptionSettings": {"Key": "c2hvcnQ="}}), "32 bytes"),
    ] {
        let reply = define(more.clone());
        assert!(reply.status == 500 && reply.text().contains(expected), "{more}: {}", reply.text());
    }
    let record = json!({"DatabaseName": "other", "PeriodicBackups": [
        {"TaskId": 3, "Name": "cloud", "FullBackupFrequency": EVERYTHING, "AzureSettings": {}}
    ]});
    let created = server.send("PUT", "/admin/databases?name=other", record.to_string().as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    let listed = server.get("/databases/other/tasks").json();
    let shown = &listed["OngoingTasksList"][0];
    assert_eq!((&shown["TaskName"], &shown["TaskState"]), (&json!("cloud"), &json!("Enabled")));
    assert!(shown["Error"].as_str().unwrap().contains("'AzureSettings' cannot be used"), "{shown}");
    assert_eq!(shown["NextBackup"], Value::Null);
    let key = json!({"Key": "QV2jJkHCPGwjbOiXuZDCNmyyj/GE4OH8OZlkg5jQPRI=", "EncryptionMode": "UseProvidedKey"});
    let disabled = json!({"Disabled": true, "LocalSettings": null, "BackupEncryptionSettings": key, "Name": "later"});
    let id = define(disabled).json()["TaskId"].as_i64().unwrap();
    let shown = server.get("/databases/db/task?type=Backup&taskName=later").json();
    assert_eq!(shown["IsEncrypted"], true);
    let target = format!("/databases/db/admin/tasks/state?key={id}&type=Backup&disable=false");
    assert!(server.send("POST", &target, b"").text().contains("without target any destinations"));
}

const KEY: &str = "QV2jJkHCPGwjbOiXuZDCNmyyj/GE4OH8OZlkg5jQPRI=";

#[test]
fn an_encrypted_backup_is_restored_with_its_key_alone() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &["--Backup.LocalRootPath=/backups"]);
    server.create("db");
    fill(&server, &mut Random::new(8));
    server.put("secret", r#"{"Text":"nobody may read this"}"#);
    let encryption = json!({"Key": KEY, "EncryptionMode": "UseProvidedKey"});
    let task = define(&server, json!({ "BackupEncryptionSettings": encryption }));
    let file = run(&server, task, true)["LocalBackup"]["FileName"].clone();
    assert!(file.as_str().unwrap().ends_with(".ravendb-encrypted-full-backup"), "{file}");
    server.put("later", "{}");
    run(&server, task, false);
    assert_eq!(status(&server, task)["IsEncrypted"], true);
    let listed = points(&server, "b");
    assert_eq!((listed.len(), &listed[0]["IsEncrypted"]), (2, &json!(true)));
    let location = listed[0]["Location"].as_str().unwrap();
    let with_key = |key: &str| json!({"BackupEncryptionSettings": {"Key": key, "EncryptionMode": "UseProvidedKey"}});
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for (more, expected) in [
        (json!({}), "is encrypted, and its key is missing"),
        (with_key(other), "the key is not that of the file"),
    ] {
        let state = restore(&server, "copy", location, more);
        assert!(state["Status"] == "Faulted" && state.to_string().contains(expected), "{state}");
    }
    let refused = begin_restore(&server, "copy", location, with_key("short"));
    assert!(refused.text().contains("32 bytes"), "{}", refused.text());
    assert_eq!(database_names(&server), ["db"]);
    let state = restore(&server, "copy", location, with_key(KEY));
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_same(&content(&server, "db"), &content(&server, "copy"));
}

#[test]
fn backups_of_encrypted_databases_are_encrypted_and_restored_into_encrypted_ones() {
    let platform = Platform::memory();
    let arguments =
        ["--Backup.LocalRootPath=/backups", "--Security.AllowEncryptedDatabasesOverHttp=true"];
    let server = TestServer::start(platform.clone(), &arguments);
    let target = "/admin/secrets?name=db&overwrite=true";
    assert!(server.send("POST", target, KEY.as_bytes()).status < 300);
    let record = br#"{"DatabaseName":"db","Encrypted":true}"#;
    assert_eq!(server.send("PUT", "/admin/databases?name=db", record).status, 201);
    fill(&server, &mut Random::new(9));
    let file = back_up(&server, "db")["LocalBackup"]["FileName"].clone();
    assert!(file.as_str().unwrap().ends_with(".ravendb-encrypted-full-backup"), "{file}");
    let location = points(&server, "b")[0]["Location"].as_str().unwrap().to_owned();
    let more = json!({"EncryptionKey": KEY, "BackupEncryptionSettings": {"EncryptionMode": "UseDatabaseKey"}});
    let state = restore(&server, "copy", &location, more);
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_same(&content(&server, "db"), &content(&server, "copy"));
    assert_eq!(server.get("/databases/copy/admin/record").json()["Encrypted"], true);
    server.create("plain");
    let body = json!({"LocalSettings": {"FolderPath": "b"}, "BackupEncryptionSettings": {"EncryptionMode": "UseDatabaseKey"}});
    let reply = server.send("POST", "/databases/plain/admin/backup", body.to_string().as_bytes());
    assert!(reply.text().contains("the database is not encrypted"), "{}", reply.text());
}

/// Documents of an encrypted database that take several times the memory for what is decrypted.
#[test]
fn a_large_encrypted_database_is_backed_up_exported_and_streamed() {
    const DOCUMENTS: usize = 4000;
    let arguments = [
        "--Backup.LocalRootPath=/backups",
        "--Security.AllowEncryptedDatabasesOverHttp=true",
        "--Memory.LimitInMb=64",
    ];
    // What this process really takes does not count.
    let memory = Platform::simulated(1).platform.memory;
    let server = TestServer::start(Platform { memory, ..Platform::memory() }, &arguments);
    let target = "/admin/secrets?name=db&overwrite=true";
    assert!(server.send("POST", target, KEY.as_bytes()).status < 300);
    let record = br#"{"DatabaseName":"db","Encrypted":true}"#;
    assert_eq!(server.send("PUT", "/admin/databases?name=db", record).status, 201);
    let mut random = Random::new(3);
    for first in (0..DOCUMENTS).step_by(100) {
        let put = |number: usize| {
            let text: String =
                (0..400).map(|_| format!("{:016x}", random.below(u64::MAX))).collect();
            json!({"Id": format!("docs/{number}"), "Type": "PUT", "ChangeVector": null,
                   "Document": {"Text": text, "@metadata": {"@collection": "Docs"}}})
        };
        let commands: Vec<_> = (first..first + 100).map(put).collect();
        let body = json!({"Commands": commands}).to_string();
        let reply = server.send("POST", "/databases/db/bulk_docs", body.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    back_up(&server, "db");
    let exported = server.send("POST", "/databases/db/smuggler/export", b"{}");
    assert_eq!(exported.status, 200);
    let dump = zstd::decode_all(&exported.body[..])
        .or_else(|_| {
            let mut text = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&exported.body[..]);
            std::io::Read::read_to_end(&mut decoder, &mut text).map(|_| text)
        })
        .unwrap();
    let dump: Value = serde_json::from_slice(&dump).unwrap();
    assert_eq!(dump["Docs"].as_array().unwrap().len(), DOCUMENTS);
    let listed = server.get("/databases/db/streams/docs?startsWith=docs/").json();
    assert_eq!(listed["Results"].as_array().unwrap().len(), DOCUMENTS);
}

/// Waits until a status of a task is as it should be.
fn wait_for_status(server: &TestServer, task: i64, is_there: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1000 {
        let shown = status(server, task);
        if is_there(&shown) {
            return shown;
        }
        #[expect(clippy::disallowed_methods, reason = "polls as clients do")]
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the backup does not run: {}", status(server, task));
}

#[test]
fn a_task_runs_when_it_is_due_and_removes_what_is_too_old() {
    let clock = Arc::new(SimulatedClock::default());
    let platform = Platform { clock: Arc::clone(&clock) as _, ..Platform::memory() };
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    server.put("a", "{}");
    let task = define(
        &server,
        json!({
            "FullBackupFrequency": "0 * * * *", "IncrementalBackupFrequency": "*/10 * * * *",
            "RetentionPolicy": {"MinimumBackupAgeToKeep": "01:30:00"}
        }),
    );
    assert_eq!(status(&server, task), Value::Null);
    clock.advance(Duration::from_secs(600));
    let first = wait_for_status(&server, task, |shown| shown["LastFullBackup"].is_string());
    assert_eq!(first["LastIncrementalBackup"], Value::Null);
    server.put("b", "{}");
    clock.advance(Duration::from_secs(600));
    wait_for_status(&server, task, |shown| shown["LastIncrementalBackup"].is_string());
    assert_eq!(points(&server, "b").len(), 2);
    for hour in 0..3 {
        let last = status(&server, task)["LastFullBackup"].clone();
        server.put("c", &json!({ "N": hour }).to_string());
        clock.advance(Duration::from_secs(3600));
        wait_for_status(&server, task, |shown| shown["LastFullBackup"] != last);
    }
    // Old backups are removed after the new one is noted.
    let removed = &first["LocalBackup"]["BackupDirectory"];
    wait_until(|| points(&server, "b").iter().all(|point| point["Location"] != *removed));
    assert!(2 <= points(&server, "b").len());
    // While the server is stopped, nothing runs; what was missed is made up for at the next start.
    let last = status(&server, task)["Version"].clone();
    server.stop();
    clock.advance(Duration::from_secs(7200));
    let server = TestServer::start(platform, &[]);
    wait_for_status(&server, task, |shown| shown["Version"] != last);
}

#[test]
fn deletions_are_kept_for_the_next_incremental_backup() {
    let server = TestServer::with_database();
    for id in ["a", "b"] {
        server.put(id, "{}");
    }
    let task = define(&server, json!({}));
    run(&server, task, true);
    server.send("DELETE", "/databases/db/docs?id=a", b"");
    server.send("POST", "/databases/db/admin/tombstones/cleanup", b"");
    let needs = server.get("/databases/db/admin/tombstones/state").text();
    assert!(needs.contains("nightly"), "{needs}");
    let second = run(&server, task, false);
    assert_eq!(second["Tombstones"]["ReadCount"], 1, "{second}");
    // Once it has them, they can go; and a task that is deleted needs nothing.
    let cleaned = server.send("POST", "/databases/db/admin/tombstones/cleanup", b"").json();
    assert_eq!(cleaned["Value"], 1, "{cleaned}");
    server.send("DELETE", "/databases/db/docs?id=b", b"");
    let target = format!("/databases/db/admin/tasks?id={task}&type=Backup");
    assert_eq!(server.send("DELETE", &target, b"").status, 200);
    let cleaned = server.send("POST", "/databases/db/admin/tombstones/cleanup", b"").json();
    assert_eq!(cleaned["Value"], 1, "{cleaned}");
}

#[test]
fn a_restore_that_is_stopped_leaves_nothing() {
    let server = TestServer::with_database();
    let mut random = Random::new(3);
    for _ in 0..4 {
        fill(&server, &mut random);
    }
    back_up(&server, "db");
    let location = points(&server, "b")[0]["Location"].as_str().unwrap().to_owned();
    let mut stopped = 0;
    for round in 0..8 {
        let name = format!("copy{round}");
        let begun = begin_restore(&server, &name, &location, json!({}));
        let id = begun.json()["OperationId"].clone();
        server.send("POST", &format!("/admin/operations/kill?id={id}"), b"");
        let state = ended(&server, "", &begun);
        let is_there = database_names(&server).contains(&name);
        assert_eq!(is_there, state["Status"] == "Completed", "{state}");
        stopped += u32::from(state["Status"] == "Canceled");
    }
    assert!(0 < stopped, "no restore was stopped in time");
}
