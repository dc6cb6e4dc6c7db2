//! Databases whose newest journal was replaced by an older copy: everything that has seen later
//! writes reports it.

use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use serde_json::json;

use crate::{
    database_files::copy,
    resources::{notifications, wait_until},
    test_server::TestServer,
};

const FILES: &str = "/data/Databases/db";
const OLDER: &str = "/older";
const NEWER: &str = "/newer";

fn put(server: &TestServer, number: u64) {
    let document = json!({"N": number, "@metadata": {"@collection": "Users"}}).to_string();
    let target = format!("/databases/db/docs?id=users/{number}");
    assert_eq!(server.send("PUT", &target, document.as_bytes()).status, 201);
}

fn put_cluster_wide(server: &TestServer, id: &str) -> u16 {
    let document = json!({"@metadata": {"@collection": "Orders"}});
    let command = json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document});
    let body = json!({"Commands": [command], "TransactionMode": "ClusterWide"}).to_string();
    server.send("POST", "/databases/db/bulk_docs", body.as_bytes()).status
}

fn add_index(server: &TestServer) {
    let index = json!({"Name": "I", "Maps": ["from u in docs.Users select new { u.N }"]});
    let body = json!({"Indexes": [index]}).to_string();
    assert_eq!(server.send("PUT", "/databases/db/admin/indexes", body.as_bytes()).status, 201);
}

fn wait_for_index(server: &TestServer, entries: u64) {
    let stats = || server.get("/databases/db/indexes/stats?name=I").json()["Results"][0].clone();
    wait_until(|| stats()["IsStale"] == false && stats()["EntriesCount"] == entries);
}

fn newest_journal(disk: &dyn Disk, directory: &str) -> PathBuf {
    let directory = Path::new(directory).join("journals");
    let mut names = disk.list(&directory).unwrap();
    names.retain(|name| name.ends_with(".journal") && name.as_bytes()[0].is_ascii_digit());
    names.sort();
    directory.join(names.pop().unwrap())
}

/// What the disk contains if the server is killed after `more`, and the newest journal is then
/// replaced by a copy made before it.
fn with_an_older_journal(
    platform: &Platform,
    before: impl Fn(&TestServer),
    more: impl Fn(&TestServer),
) {
    let disk = &*platform.disk;
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    before(&server);
    copy(disk, Path::new(FILES), Path::new(OLDER));
    more(&server);
    copy(disk, Path::new(FILES), Path::new(NEWER));
    server.stop();
    disk.remove_dir_all(Path::new(FILES)).unwrap();
    copy(disk, Path::new(NEWER), Path::new(FILES));
    let (older, current) = (newest_journal(disk, OLDER), newest_journal(disk, FILES));
    assert_eq!(older.file_name(), current.file_name());
    let bytes = disk.read_file(&older).unwrap();
    disk.open(&current, platform::Access::Buffered).unwrap().write_all_at(&bytes, 0).unwrap();
}

#[test]
fn an_index_that_has_seen_later_documents_raises_an_alert_and_is_rebuilt() {
    let platform = Platform::memory();
    let before = |server: &TestServer| {
        add_index(server);
        (0..3).for_each(|number| put(server, number));
        wait_for_index(server, 3);
    };
    let more = |server: &TestServer| {
        (3..10).for_each(|number| put(server, number));
        wait_for_index(server, 10);
    };
    with_an_older_journal(&platform, before, more);
    let server = TestServer::start(platform, &[]);
    wait_for_index(&server, 3);
    let alert = &notifications(&server)[0];
    assert_eq!(
        (&alert["AlertType"], &alert["Severity"]),
        (&json!("DocumentsAreOlder"), &json!("Error"))
    );
    put(&server, 20);
    wait_for_index(&server, 4);
}

#[test]
fn a_cluster_wide_transaction_is_not_executed_after_a_lost_one() {
    let platform = Platform::memory();
    let before = |server: &TestServer| assert_eq!(put_cluster_wide(server, "orders/1"), 201);
    let more = |server: &TestServer| {
        assert_eq!(put_cluster_wide(server, "orders/2"), 201);
        assert_eq!(put_cluster_wide(server, "orders/3"), 201);
    };
    with_an_older_journal(&platform, before, more);
    let server = TestServer::start(platform, &[]);
    let status = |id| server.get(&format!("/databases/db/docs?id={id}")).status;
    assert_eq!([status("orders/1"), status("orders/2"), status("orders/3")], [200, 404, 404]);
    assert_eq!(put_cluster_wide(&server, "orders/4"), 500);
    let value = server.get("/databases/db/cmpxchg?key=k");
    assert!(value.text().contains("offline adopt"), "{}", value.text());
    put(&server, 1);
}

/// A database in memory is empty each time it is opened.
#[test]
fn a_database_in_memory_executes_cluster_wide_transactions_after_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    let record = json!({"DatabaseName": "db", "Settings": {"RunInMemory": "true"}}).to_string();
    assert_eq!(server.send("PUT", "/admin/databases?name=db", record.as_bytes()).status, 201);
    ["orders/1", "orders/2"].iter().for_each(|id| assert_eq!(put_cluster_wide(&server, id), 201));
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(put_cluster_wide(&server, "orders/3"), 201);
}

#[test]
fn the_last_cluster_wide_transaction_is_executed_again_if_it_alone_is_lost() {
    let platform = Platform::memory();
    let before = |server: &TestServer| assert_eq!(put_cluster_wide(server, "orders/1"), 201);
    let more = |server: &TestServer| assert_eq!(put_cluster_wide(server, "orders/2"), 201);
    with_an_older_journal(&platform, before, more);
    let server = TestServer::start(platform, &[]);
    assert_eq!(server.get("/databases/db/docs?id=orders/2").status, 200);
    assert_eq!(put_cluster_wide(&server, "orders/3"), 201);
}
