//! Backups of all databases, as operators define them and clients are shown them.

use platform::Platform;
use serde_json::{Value, json};

use crate::test_server::TestServer;

const OF_ALL: &str = "/admin/configuration/server-wide";

fn put(server: &TestServer, more: Value) -> Value {
    let mut sent = json!({
        "FullBackupFrequency": "0 2 * * 0", "BackupType": "Backup",
        "LocalSettings": {"FolderPath": "all"}
    });
    sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("{OF_ALL}/backup");
    let reply = server.send("PUT", &path, sent.to_string().as_bytes());
    assert!([201, 500].contains(&reply.status), "{}", reply.text());
    reply.json()
}

fn record_tasks(server: &TestServer, database: &str) -> Vec<Value> {
    let record = server.get(&format!("/admin/databases?name={database}")).json();
    record["PeriodicBackups"].as_array().unwrap().clone()
}

/// The shapes are those of RavenDB 5.4.
#[test]
fn a_backup_of_all_databases_is_defined_listed_disabled_and_deleted() {
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("Alpha");
    server.create("beta");
    let made = put(&server, json!({"ExcludedDatabases": ["Beta"]}));
    assert_eq!(made["Name"], "Backup to Local");
    let listed = server.get(&format!("{OF_ALL}/backup")).json();
    let shown = &listed["Results"][0];
    assert_eq!(shown["TaskId"], made["RaftCommandIndex"]);
    assert_eq!(shown["NamePrefix"], "Server Wide Backup");
    assert_eq!(shown["ExcludedDatabases"], json!(["Beta"]));
    assert_eq!(shown["LocalSettings"]["FolderPath"], "all");
    let same = server.get(&format!("{OF_ALL}/tasks?type=backup&name=BACKUP%20to%20local")).json();
    assert_eq!(same, listed);
    let none = json!({"Results": []});
    assert_eq!(server.get(&format!("{OF_ALL}/tasks?type=Backup&name=x")).json(), none);
    assert_eq!(server.get(&format!("{OF_ALL}/tasks?type=Replication")).json(), none);
    let tasks = server.get("/admin/server-wide/tasks").json();
    let task = &tasks["Tasks"][0];
    assert_eq!(
        (&task["TaskName"], &task["TaskState"]),
        (&json!("Backup to Local"), &json!("Enabled"))
    );
    assert_eq!(task["BackupDestinations"], json!(["Local"]));
    // What a database has of it.
    let [of_alpha] = &record_tasks(&server, "Alpha")[..] else { panic!() };
    assert_eq!(of_alpha["Name"], "Server Wide Backup, Backup to Local");
    assert_eq!(of_alpha["LocalSettings"]["FolderPath"], "all/Alpha");
    assert_eq!(of_alpha["TaskId"], shown["TaskId"]);
    assert!(record_tasks(&server, "beta").is_empty());
    let ongoing = server.get("/databases/Alpha/tasks").json();
    let ongoing = &ongoing["OngoingTasksList"][0];
    assert_eq!(ongoing["TaskName"], "Server Wide Backup, Backup to Local");
    assert!(ongoing["NextBackup"]["DateTime"].is_string());
    // A client that sends the record back does not make the task the database's own.
    let record = server.get("/admin/databases?name=Alpha").json();
    let etag = record["Etag"].to_string();
    let reply = server.send_with(
        "PUT",
        "/admin/databases?name=Alpha",
        &[("ETag", &etag)],
        record.to_string().as_bytes(),
    );
    assert!(reply.status < 300, "{}", reply.text());
    assert_eq!(record_tasks(&server, "Alpha").len(), 1);
    let path = format!("{OF_ALL}/state?type=Backup&name=Backup%20to%20Local&disable=true");
    assert_eq!(server.send("POST", &path, b"").status, 200);
    assert_eq!(record_tasks(&server, "Alpha")[0]["Disabled"], true);
    let path = format!("{OF_ALL}/task?type=Backup&name=Backup%20to%20Local");
    let gone = server.send("DELETE", &path, b"");
    assert_eq!((gone.status, &gone.json()["Name"]), (200, &json!("Backup to Local")));
    assert!(record_tasks(&server, "Alpha").is_empty());
    assert_eq!(server.get(&format!("{OF_ALL}/backup")).json(), none);
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let server = TestServer::start(Platform::memory(), &[]);
    put(&server, json!({"Name": "n"}));
    let again = put(&server, json!({"Name": "N"}));
    let message = again["Message"].as_str().unwrap();
    assert!(message.contains("Can't use task name 'N'"), "{message}");
    for (method, path, expected) in [
        ("GET", "tasks", "'type' must have a non empty value"),
        ("GET", "tasks?type=Bogus", "Bogus is unknown task type."),
        ("POST", "state?type=Backup&name=n", "disable is mandatory"),
        (
            "POST",
            "state?type=Backup&name=x&disable=true",
            "Cannot find server wide task of type 'Backup'",
        ),
        (
            "POST",
            "state?type=Replication&name=x&disable=true",
            "Cannot find server wide task of type 'Replication'",
        ),
        ("DELETE", "task?type=Backup&name=x", "no server-wide backup to delete"),
        ("DELETE", "backup?name=x", "no server-wide backup to delete"),
        (
            "DELETE",
            "task?type=Replication&name=x",
            "Cannot find server wide task of type 'Replication'",
        ),
    ] {
        let reply = server.send(method, &format!("{OF_ALL}/{path}"), b"");
        let message = reply.json()["Message"].as_str().unwrap_or_default().to_owned();
        assert!(400 <= reply.status && message.contains(expected), "{method} {path}: {message}");
    }
}
