//! Which files are removed with a database, and which files a database may be created or opened on.

use std::path::Path;

use database::ServerCatalog;
use engine::OpenError;
use model::DatabaseId;
use platform::{
    Access, Disk, Platform,
    simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Simulation, Survival},
};
use serde_json::{Value, json};
use server::StartError;

use crate::{http_client::Reply, test_server::TestServer};

fn create(server: &TestServer, name: &str, settings: Value) -> Reply {
    let record = json!({"DatabaseName": name, "Settings": settings}).to_string();
    server.send("PUT", "/admin/databases", record.as_bytes())
}

fn delete(server: &TestServer, name: &str) -> Reply {
    delete_with(server, name, Files::Removed)
}

/// The files of deleted databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Removed,
    Kept,
}

fn delete_with(server: &TestServer, name: &str, files: Files) -> Reply {
    let hard = files == Files::Removed;
    let body = json!({"DatabaseNames": [name], "HardDelete": hard}).to_string();
    server.send("DELETE", "/admin/databases", body.as_bytes())
}

fn put(server: &TestServer, name: &str, id: &str) -> Reply {
    let body = br#"{"Name":"x","@metadata":{"@collection":"Users"}}"#;
    server.send("PUT", &format!("/databases/{name}/docs?id={id}"), body)
}

fn has(server: &TestServer, name: &str, id: &str) -> bool {
    let reply = server.get(&format!("/databases/{name}/docs?id={id}"));
    assert!(matches!(reply.status, 200 | 404), "{name}/{id}: {}", reply.text());
    reply.status == 200
}

fn message(reply: &Reply) -> String {
    reply.json()["Message"].as_str().unwrap().to_owned()
}

/// Restarts the server on the same disk.
fn restart(server: TestServer, platform: &Platform, arguments: &[&str]) -> TestServer {
    server.stop();
    TestServer::start(platform.clone(), arguments)
}

fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    let path = Path::new(path);
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.create(path, Access::Buffered).unwrap().write_all_at(bytes, 0).unwrap();
}

/// Copies a directory recursively.
pub(crate) fn copy(disk: &dyn Disk, from: &Path, to: &Path) {
    disk.create_dir_all(to).unwrap();
    for name in disk.list(from).unwrap() {
        let (from, to) = (from.join(&name), to.join(&name));
        match disk.list(&from) {
            Ok(_) => copy(disk, &from, &to),
            Err(_) => write(disk, to.to_str().unwrap(), &disk.read_file(&from).unwrap()),
        }
    }
}

fn is_there(platform: &Platform, path: &str) -> bool {
    platform.disk.exists(Path::new(path)).unwrap()
}

#[test]
fn a_deleted_database_leaves_no_files() {
    let platform = Platform::memory();
    let settings = ["--Storage.JournalsPath=/journals"];
    let server = TestServer::start(platform.clone(), &settings);
    for (name, own) in [("db", json!({})), ("own", json!({"DataDir": "/data/apart/x"}))] {
        assert_eq!(create(&server, name, own).status, 201);
        put(&server, name, "users/1");
        let query = json!({"Query": "from Users where Name = 'x'", "WaitForNonStaleResults": true});
        let target = format!("/databases/{name}/queries");
        let found = server.send("POST", &target, query.to_string().as_bytes());
        assert_eq!(found.json()["TotalResults"], 1, "{}", found.text());
        let deleted = delete(&server, name);
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        assert_eq!(deleted.json().get("FilesLeft"), None, "{}", deleted.text());
    }
    assert_eq!(platform.disk.list(Path::new("/data/Databases")).unwrap(), [""; 0]);
    assert!(!is_there(&platform, "/data/apart/x"));
    assert_eq!(platform.disk.list(Path::new("/journals")).unwrap(), [""; 0]);
    assert_eq!(create(&server, "db", json!({})).status, 201);
    assert!(!has(&server, "db", "users/1"));
}

#[test]
fn unknown_files_are_kept_and_reported() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    put(&server, "db", "a");
    let notes = ["/data/Databases/db/notes.txt", "/data/Databases/db/journals/keep.me"];
    for path in notes {
        write(&*platform.disk, path, b"mine");
    }
    let deleted = delete(&server, "db");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let left = deleted.json()["FilesLeft"][0]["Paths"].to_string();
    for path in notes {
        assert!(left.contains(path), "{left}");
        assert!(is_there(&platform, path));
    }
    assert!(!is_there(&platform, "/data/Databases/db/corvus.data"));
    let again = create(&server, "db", json!({}));
    assert_eq!(again.status, 400, "{}", again.text());
    assert!(message(&again).contains("/data/Databases/db is not empty"), "{}", message(&again));
}

#[test]
fn a_record_names_directories_only_where_the_operator_allows() {
    let platform = Platform::memory();
    let allowed = ["--Databases.AllowedDirectories=/fast;/slow"];
    for (arguments, is_allowed) in [(&[][..], false), (&allowed[..], true)] {
        let server = TestServer::start(platform.clone(), arguments);
        let table = [
            (json!({"DataDir": "/fast/a"}), is_allowed),
            (json!({"Storage.JournalsPath": "/slow/b"}), is_allowed),
            (json!({"DataDir": "/faster/a"}), false),
            (json!({"DataDir": "/etc"}), false),
            (json!({"DataDir": "/data/fine", "Storage.JournalsPath": "/etc"}), false),
            (json!({"DataDir": "/data/../etc"}), false),
            (json!({"DataDir": "/"}), false),
            (json!({"DataDir": "/data"}), false),
            (json!({"DataDir": "/data/System"}), false),
            (json!({"DataDir": "/data/System/deeper"}), false),
            (json!({"DataDir": "/data/Databases"}), false),
            (json!({"DataDir": "relative"}), false),
            (json!({"DataDir": "/data/inside"}), true),
        ];
        for (settings, expected) in table {
            let reply = create(&server, "db", settings.clone());
            assert_eq!(
                reply.status,
                if expected { 201 } else { 400 },
                "{settings} {}",
                reply.text()
            );
            if expected {
                assert_eq!(delete(&server, "db").status, 200);
            }
        }
        server.create("db");
        put(&server, "db", "a");
        let change = json!({"DataDir": "/etc"}).to_string();
        let target = "/databases/db/admin/configuration/settings";
        assert_eq!(server.send("PUT", target, change.as_bytes()).status, 400);
        assert_eq!(delete(&server, "db").status, 200);
        server.stop();
    }
}

/// A link in an allowed directory to a directory that is not allowed.
#[test]
fn a_symbolic_link_counts_as_its_target_directory() {
    let root = std::env::temp_dir().join(format!("corvus-links-{}", std::process::id()));
    let [data, allowed, other] = ["data", "allowed", "other"].map(|name| root.join(name));
    let platform = Platform::real();
    for directory in [&data, &allowed, &other] {
        platform.disk.create_dir_all(directory).unwrap();
    }
    for (from, to) in [("data/out", &other), ("data/in", &allowed), ("linked", &allowed)] {
        std::os::unix::fs::symlink(to, root.join(from)).unwrap();
    }
    let settings = [
        format!("--DataDir={}", data.display()),
        format!("--Databases.AllowedDirectories={}", root.join("linked").display()),
    ];
    let server = TestServer::start(platform.clone(), &settings.each_ref().map(String::as_str));
    let place = |path: &str| json!({"DataDir": root.join(path)});
    for (name, path, status) in [
        ("a", "data/out", 400),
        ("a", "data/out/deeper", 400),
        ("a", "other", 400),
        ("a", "data/in/a", 201),
        ("b", "allowed/a", 400),
        ("b", "allowed/b", 201),
    ] {
        let reply = create(&server, name, place(path));
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
    }
    assert_eq!(put(&server, "a", "x").status, 201);
    assert!(platform.disk.exists(&allowed.join("a/corvus.data")).unwrap());
    server.stop();
    platform.disk.remove_dir_all(&root).unwrap();
}

#[test]
fn no_two_databases_share_a_directory() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("one");
    put(&server, "one", "a");
    assert_eq!(create(&server, "two", json!({"DataDir": "/data/two"})).status, 201);
    let table = [
        "/data/Databases/one",
        "/data/Databases/one/Indexes",
        "/data/two",
        "/data/two/inside",
        "/data/Databases/./one",
    ];
    for directory in table {
        for key in ["DataDir", "Storage.JournalsPath"] {
            let reply = create(&server, "three", json!({key: directory}));
            assert_eq!(reply.status, 400, "{key} {directory}: {}", reply.text());
        }
    }
    assert!(has(&server, "one", "a"));
}

#[test]
fn databases_can_share_one_journals_path() {
    let platform = Platform::memory();
    let mut server = TestServer::start(platform.clone(), &[]);
    for name in ["one", "two"] {
        let settings = json!({"Storage.JournalsPath": "/data/journals"});
        assert_eq!(create(&server, name, settings).status, 201);
    }
    for round in 0..3 {
        for number in 0..20 {
            put(&server, "one", &format!("{round}-{number}"));
            put(&server, "two", &format!("{round}-{number}"));
        }
        server = restart(server, &platform, &[]);
    }
    for (round, number) in (0..3).flat_map(|round| (0..20).map(move |number| (round, number))) {
        for name in ["one", "two"] {
            assert!(has(&server, name, &format!("{round}-{number}")), "{name} {round} {number}");
        }
    }
    assert_eq!(delete(&server, "one").status, 200);
    assert!(has(&server, "two", "2-19"));
    assert_eq!(platform.disk.list(Path::new("/data/journals")).unwrap(), ["two"]);
}

#[test]
fn files_of_another_database_are_neither_opened_nor_removed() {
    let platform = Platform::memory();
    let disk = &*platform.disk;
    let server = TestServer::start(platform.clone(), &[]);
    for name in ["one", "two"] {
        server.create(name);
        put(&server, name, name);
    }
    assert_eq!(create(&server, "never", json!({"DataDir": "/data/never"})).status, 201);
    server.stop();
    // Exchanged while the server is running.
    let path = |name: &str| Path::new("/data/Databases").join(name);
    disk.rename(&path("one"), &path("three")).unwrap();
    copy(disk, &path("two"), &path("one"));
    copy(disk, &path("two"), Path::new("/data/never"));
    let server = TestServer::start(platform.clone(), &[]);
    for name in ["one", "never"] {
        let refused = server.get(&format!("/databases/{name}/docs?id=two"));
        assert_eq!(refused.status, 503, "{name}: {}", refused.text());
        let is_named = ["not the newest ones of this database", "database 'two'"]
            .iter()
            .any(|reason| refused.text().contains(reason));
        assert!(is_named, "{}", refused.text());
        let deleted = delete(&server, name);
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        assert_eq!(deleted.json()["FilesLeft"][0]["DatabaseName"], name, "{}", deleted.text());
    }
    assert!(is_there(&platform, "/data/Databases/one/corvus.data"));
    assert!(is_there(&platform, "/data/never/corvus.data"));
    assert!(has(&server, "two", "two"));
    assert_eq!(create(&server, "one", json!({})).status, 400);
}

#[test]
fn a_database_whose_files_are_missing_is_not_recreated() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    put(&server, "db", "a");
    server.stop();
    let (place, away) = (Path::new("/data/Databases/db"), Path::new("/away"));
    platform.disk.rename(place, away).unwrap();
    let server = TestServer::start(platform.clone(), &[]);
    let refused = put(&server, "db", "b");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("not in /data/Databases/db"), "{}", refused.text());
    server.stop();
    platform.disk.rename(away, place).unwrap();
    let server = TestServer::start(platform.clone(), &[]);
    assert!(has(&server, "db", "a"));
}

#[test]
fn the_data_of_another_product_is_rejected_by_name() {
    let platform = Platform::memory();
    write(&*platform.disk, "/data/Databases/db/Raven.voron", b"x");
    let server = TestServer::start(platform.clone(), &[]);
    let refused = create(&server, "db", json!({}));
    assert_eq!(refused.status, 400);
    assert!(message(&refused).contains("RavenDB"), "{}", message(&refused));
    let platform = Platform::memory();
    write(&*platform.disk, "/data/System/Raven.voron", b"x");
    let refused = TestServer::try_start(platform.clone(), &[]).err().unwrap().to_string();
    assert!(refused.contains("RavenDB"), "{refused}");
    assert_eq!(platform.disk.list(Path::new("/data/System")).unwrap(), ["Raven.voron"]);
}

/// A server on a simulated disk that loses power.
fn simulated(seed: u64) -> (Simulation, Platform) {
    let simulation = Platform::simulated(seed);
    let platform = Platform { disk: simulation.platform.disk.clone(), ..Platform::memory() };
    (simulation, platform)
}

const DOCUMENTS: usize = 5;

/// Creates a database with documents, an index and compare exchange values; returns its id in the
/// shared state.
fn fill(server: &TestServer) -> DatabaseId {
    server.create("db");
    for number in 0..DOCUMENTS {
        assert_eq!(put(server, "db", &format!("users/{number}")).status, 201);
        let target = format!("/databases/db/cmpxchg?key=k{number}&index=0");
        assert_eq!(server.send("PUT", &target, br#"{"Object":1}"#).status, 200);
    }
    let query = br#"{"Query":"from Users where Name = 'x'","WaitForNonStaleResults":true}"#;
    assert_eq!(server.send("POST", "/databases/db/queries", query).status, 200);
    let record = server.get("/admin/databases?name=db").json();
    DatabaseId::parse(record["Topology"]["DatabaseTopologyIdBase64"].as_str().unwrap()).unwrap()
}

/// The number of its documents.
fn count(server: &TestServer) -> usize {
    (0..DOCUMENTS).filter(|number| has(server, "db", &format!("users/{number}"))).count()
}

/// Checks that no removal is pending in the system directory.
fn check_nothing_is_left(platform: &Platform, database: DatabaseId, context: &str) {
    let catalog = ServerCatalog::open(platform, "/data/System".into()).unwrap();
    let state = catalog.cluster().store().read();
    assert_eq!(state.deleted_databases().unwrap(), [], "{context}");
    assert_eq!(state.compare_exchange_count(database).unwrap(), 0, "{context}");
    assert!(catalog.pending_deletions().unwrap().is_empty(), "{context}");
    catalog.cluster().close();
    catalog.environment().close().unwrap();
}

/// Cuts the power at the n-th operation of a deletion. Returns whether the deletion had completed
/// before.
fn cut_while_deleting(nth: u64, files: Files) -> bool {
    let context = format!("cut {nth}, {files:?}");
    let (simulation, platform) = simulated(nth);
    let server = TestServer::start(platform.clone(), &[]);
    let database = fill(&server);
    simulation.disk.cut_power_at_operation(nth, Survival::Random);
    let answered = delete_with(&server, "db", files);
    let is_over = !simulation.disk.is_power_lost();
    assert!(!is_over || answered.status == 200, "{}", answered.text());
    server.stop();
    simulation.disk.restart().unwrap();

    let server = TestServer::start(platform.clone(), &[]);
    let names = server.get("/databases?namesOnly=true").json()["Databases"].clone();
    if names == json!(["db"]) {
        assert_ne!(answered.status, 200, "{context}: the deletion was acknowledged");
        assert_eq!(count(&server), DOCUMENTS, "{context}");
        assert_eq!(delete_with(&server, "db", files).status, 200, "{context}");
    }
    server.stop();
    check_nothing_is_left(&platform, database, &context);
    let server = TestServer::start(platform.clone(), &[]);
    let again = create(&server, "db", json!({}));
    assert_eq!(again.status, 201, "{context}: {}", again.text());
    let expected = if files == Files::Removed { 0 } else { DOCUMENTS };
    assert_eq!(count(&server), expected, "{context}: documents");
    put(&server, "db", "new");
    let server = restart(server, &platform, &[]);
    assert!(has(&server, "db", "new"), "{context}");
    is_over
}

#[test]
fn an_interrupted_deletion_is_completed_at_the_next_start() {
    for (files, steps_min) in [(Files::Removed, 20), (Files::Kept, 4)] {
        let mut nth = 1;
        while !cut_while_deleting(nth, files) {
            nth += 1;
        }
        assert!(nth > steps_min, "a deletion has more steps than {nth}");
    }
}

/// Fails the n-th operation of a kind during a deletion, and retries the deletion. Returns whether
/// the first attempt failed.
fn fail_while_deleting(nth: u64, operation: OperationKind, kind: FaultKind, files: Files) -> bool {
    let context = format!("{operation:?} {nth}, {files:?}");
    let (simulation, platform) = simulated(nth);
    let server = TestServer::start(platform.clone(), &[]);
    let database = fill(&server);
    let filter = OperationFilter::Only(operation);
    simulation.disk.fail_operation(nth, filter, kind, FaultSpan::Once);
    let first = delete_with(&server, "db", files);
    simulation.disk.clear_faults();
    let again = delete_with(&server, "db", files);
    assert_eq!(again.status, 200, "{context}: {}, then {}", first.text(), again.text());
    assert_eq!(server.get("/databases?namesOnly=true").json()["Databases"], json!([]));
    server.stop();
    check_nothing_is_left(&platform, database, &context);
    first.status != 200
}

#[test]
fn a_failed_deletion_is_completed_when_retried() {
    let mut failures = 0;
    for files in [Files::Removed, Files::Kept] {
        for nth in 1..8 {
            for (operation, kind) in [
                (OperationKind::Write, FaultKind::StorageFull),
                (OperationKind::Remove, FaultKind::InputOutput),
            ] {
                failures += usize::from(fail_while_deleting(nth, operation, kind, files));
            }
        }
    }
    assert!(failures >= 3, "the faults hit only {failures} deletions");
}

/// Creates a database and writes to it, which opens it for the first time, while from the n-th operation on the disk is
/// full, or cuts the power there; then deletes it, if it exists, and creates it again. Returns whether all had been
/// done before.
fn fail_while_creating(nth: u64, cuts_power: bool) -> bool {
    let context = format!("operation {nth}, power cut: {cuts_power}");
    let (simulation, platform) = simulated(nth);
    let server = TestServer::start(platform.clone(), &[]);
    match cuts_power {
        true => simulation.disk.cut_power_at_operation(nth, Survival::Random),
        false => {
            let (filter, kind) = (OperationFilter::Mutating, FaultKind::StorageFull);
            simulation.disk.fail_operation(nth, filter, kind, FaultSpan::UntilCleared);
        }
    }
    create(&server, "db", json!({}));
    let is_over = put(&server, "db", "a").status == 201;
    // The disk may have been full for the server's own environment, too.
    server.stop();
    match cuts_power {
        true => simulation.disk.restart().unwrap(),
        false => simulation.disk.clear_faults(),
    }
    let server = TestServer::start(platform.clone(), &[]);
    if server.get("/databases?namesOnly=true").json()["Databases"] == json!(["db"]) {
        let deleted = delete(&server, "db");
        assert_eq!(deleted.status, 200, "{context}: {}", deleted.text());
        assert!(!deleted.text().contains("FilesLeft"), "{context}: {}", deleted.text());
        assert_eq!(database_directories(&platform), Vec::<String>::new(), "{context}");
    }
    let again = create(&server, "db", json!({}));
    assert_eq!(again.status, 201, "{context}: {}", again.text());
    assert_eq!(put(&server, "db", "b").status, 201, "{context}");
    is_over
}

fn database_directories(platform: &Platform) -> Vec<String> {
    platform.disk.list(Path::new("/data/Databases")).unwrap_or_default()
}

#[test]
fn a_name_can_be_used_again_wherever_its_database_failed_to_open() {
    for cuts_power in [false, true] {
        let mut nth = 1;
        while !fail_while_creating(nth, cuts_power) {
            nth += 1;
        }
        assert!(nth > 10, "a creation has more steps than {nth}");
    }
}

#[test]
fn databases_are_not_recreated_when_the_system_directory_is_missing() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    assert_eq!(create(&server, "one", json!({})).status, 201);
    assert_eq!(put(&server, "one", "a").status, 201);
    server.stop();
    let (system, away) = (Path::new("/data/System"), Path::new("/data/away"));
    platform.disk.rename(system, away).unwrap();
    let refused = TestServer::try_start(platform.clone(), &[]).err();
    assert!(
        matches!(refused, Some(StartError::Engine(OpenError::SystemMissing { .. }))),
        "{refused:?}"
    );
    assert!(!platform.disk.exists(system).unwrap(), "nothing was created");
    platform.disk.rename(away, system).unwrap();
    let server = TestServer::start(platform, &[]);
    assert!(has(&server, "one", "a"));
}

#[test]
fn a_data_directory_is_used_by_one_server_only() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    let refused = TestServer::try_start(platform.clone(), &[]).err();
    assert!(matches!(refused, Some(StartError::Engine(OpenError::InUse { .. }))), "{refused:?}");
    server.stop();
    drop(TestServer::start(platform, &[]));
}
