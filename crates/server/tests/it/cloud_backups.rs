//! Backups in buckets, with a server of S3's protocol on loopback: `CORVUS_TEST_S3` names one that runs, such as
//! http://127.0.0.1:9000; otherwise `moto_server` is started (PyPI: `moto[server]`), if it is in the path or in
//! `clients/.venv`. Without either, what needs one is skipped, and the output says so.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{
    http_client::Reply,
    smuggler::{assert_same, assert_same_hash, content, fill},
    test_server::TestServer,
};

const SECRET: &str = "the-secret-of-the-bucket";
/// Where the server under test keeps temporary files.
const TEMPORARY: &str = "/data/BackupTemp";
/// Nothing happens by itself in the time of a test.
const NEVER: &str = "0 0 1 1 *";
static BUCKETS: AtomicU32 = AtomicU32::new(0);

/// A server with buckets, ended on drop if it was started here.
struct Buckets {
    address: String,
    started: Option<Child>,
}

impl Drop for Buckets {
    fn drop(&mut self) {
        if let Some(child) = &mut self.started {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn moto_server() -> Option<PathBuf> {
    let of_clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/.venv/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([of_clients]);
    let mut files = folders.map(|folder| folder.join("moto_server"));
    files.find(|file| file.is_file())
}

impl Buckets {
    #[expect(clippy::print_stderr, reason = "what is not tested is said")]
    fn start() -> Option<Buckets> {
        if let Ok(url) = std::env::var("CORVUS_TEST_S3") {
            let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
            return Some(Buckets { address, started: None });
        }
        let Some(program) = moto_server() else {
            eprintln!(
                "skipped: there is no server of S3's protocol (CORVUS_TEST_S3, or moto_server)"
            );
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let buckets = Buckets { address: format!("127.0.0.1:{port}"), started: Some(started) };
        for _ in 0..600 {
            if TcpStream::connect(&buckets.address).is_ok() {
                return Some(buckets);
            }
            #[expect(clippy::disallowed_methods, reason = "waits for another program")]
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("moto_server does not listen");
    }

    /// A new bucket.
    fn bucket(&self) -> String {
        let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
        let name = format!("corvus-{}-{number}", std::process::id());
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let address = &self.address;
        write!(stream, "PUT /{name} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        name
    }

    fn settings(&self, bucket: &str, folder: &str) -> Value {
        settings(&self.address, bucket, folder)
    }
}

fn settings(address: &str, bucket: &str, folder: &str) -> Value {
    json!({
        "BucketName": bucket, "AwsRegionName": "us-east-1", "AwsAccessKey": "key",
        "AwsSecretKey": SECRET, "RemoteFolderName": folder,
        "CustomServerUrl": format!("http://{address}"), "ForcePathStyle": true
    })
}

/// The state of an operation when it has ended. `of` is the beginning of a path: of a database, or empty for the server.
fn ended(server: &TestServer, of: &str, begun: &Reply) -> Value {
    assert_eq!(begun.status, 200, "{}", begun.text());
    let id = begun.json()["OperationId"].as_i64().unwrap();
    for _ in 0..6000 {
        let state = server.get(&format!("{of}/operations/state?id={id}")).json();
        if state["Status"] != "InProgress" {
            return state;
        }
        #[expect(clippy::disallowed_methods, reason = "polls as clients do")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the operation does not end");
}

fn define(server: &TestServer, more: Value) -> u64 {
    let mut task =
        json!({"Name": "cloud", "FullBackupFrequency": NEVER, "IncrementalBackupFrequency": NEVER});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = "/databases/db/admin/periodic-backup";
    let reply = server.send("POST", path, task.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

fn run(server: &TestServer, task: u64, is_full: bool) -> Value {
    let path = format!("/databases/db/admin/backup/database?taskId={task}&isFullBackup={is_full}");
    ended(server, "/databases/db", &server.send("POST", &path, b""))
}

fn points(server: &TestServer, settings: &Value) -> Vec<Value> {
    let body = settings.to_string();
    let reply = server.send("POST", "/admin/restore/points?type=S3", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["List"].as_array().unwrap().clone()
}

fn restore(
    server: &TestServer,
    name: &str,
    settings: &Value,
    folder: &Value,
    last: &Value,
) -> Value {
    let mut settings = settings.clone();
    settings["RemoteFolderName"] = folder.clone();
    let body = json!({
        "Type": "S3", "DatabaseName": name, "Settings": settings, "LastFileNameToRestore": last
    });
    ended(server, "", &server.send("POST", "/admin/restore/database", body.to_string().as_bytes()))
}

/// What is left of temporary files.
fn temporary(platform: &Platform) -> Vec<String> {
    platform.disk.list(Path::new(TEMPORARY)).unwrap_or_default()
}

#[test]
fn backups_in_a_bucket_alone_are_continued_listed_and_restored() {
    let Some(buckets) = Buckets::start() else { return };
    for form in ["Backup", "Snapshot"] {
        let platform = Platform::memory();
        let server = TestServer::start(platform.clone(), &[]);
        server.create("db");
        fill(&server, &mut Random::new(31));
        // It cannot be compressed, and is stored in parts.
        let mut random = Random::new(32);
        let noise: Vec<u8> = (0..12_000_000).map(|_| random.below(256) as u8).collect();
        server.put("big", "{}");
        let path = "/databases/db/attachments?id=big&name=noise";
        assert_eq!(server.send("PUT", path, &noise).status, 201);
        let settings = buckets.settings(&buckets.bucket(), "here/and there");
        let task = define(&server, json!({ "BackupType": form, "S3Settings": settings }));
        let full = run(&server, task, true);
        assert_eq!(full["Status"], "Completed", "{full}");
        let shown = &full["Result"]["S3Backup"];
        assert_eq!(
            (&shown["Skipped"], &shown["UploadProgress"]["UploadState"]),
            (&json!(false), &json!("Done"))
        );
        assert!(12_000_000 < shown["UploadProgress"]["UploadedInBytes"].as_u64().unwrap());
        server.put("late", r#"{"A":1}"#);
        server.send("DELETE", "/databases/db/docs?id=big", b"");
        let incremental = run(&server, task, false);
        let file = incremental["Result"]["LocalBackup"]["FileName"].as_str().unwrap();
        assert!(file.ends_with(".ravendb-incremental-backup"), "{incremental}");
        let listed = points(&server, &settings);
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert_eq!(
            (&listed[0]["FilesToRestore"], &listed[0]["DatabaseName"]),
            (&json!(2), &json!("db"))
        );
        let folder = &listed[0]["Location"];
        let restored = restore(&server, "copy", &settings, folder, &Value::Null);
        assert_eq!(restored["Status"], "Completed", "{restored}");
        assert_same(&content(&server, "db"), &content(&server, "copy"));
        assert_same_hash(&server, "db", "copy");
        let first = &listed[1]["FileName"];
        let restored = restore(&server, "early", &settings, folder, first);
        assert_eq!(restored["Status"], "Completed", "{restored}");
        assert_eq!(server.get("/databases/early/docs?id=late").status, 404);
        assert_eq!(server.get("/databases/early/attachments?id=big&name=noise").body, noise);
        assert_eq!(temporary(&platform), Vec::<String>::new());
        let status = server.get(&format!("/periodic-backup/status?name=db&taskId={task}")).json();
        assert_eq!(status["Status"]["UploadToS3"]["Skipped"], false);
        assert_eq!(status["Status"]["LocalBackup"]["TempFolderUsed"], true);
        let shown = server.get(&format!("/databases/db/task?type=Backup&key={task}")).json();
        assert_eq!(shown["BackupDestinations"], json!(["AmazonS3"]));
    }
}

#[test]
fn a_backup_may_be_in_a_folder_and_in_a_bucket() {
    let Some(buckets) = Buckets::start() else { return };
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    server.put("a", "{}");
    let settings = buckets.settings(&buckets.bucket(), "");
    let local = json!({"FolderPath": "b"});
    let task = define(&server, json!({ "LocalSettings": local, "S3Settings": settings }));
    for is_full in [true, false] {
        server.put(&format!("d{is_full}"), "{}");
        let ended = run(&server, task, is_full);
        assert_eq!(ended["Status"], "Completed", "{ended}");
    }
    assert_eq!(points(&server, &settings).len(), 2);
    let body = json!({"FolderPath": "b"}).to_string();
    let local = server.send("POST", "/admin/restore/points?type=Local", body.as_bytes()).json();
    assert_eq!(local["List"].as_array().unwrap().len(), 2);
}

#[test]
fn old_backups_in_a_bucket_are_removed() {
    let Some(buckets) = Buckets::start() else { return };
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    server.put("a", "{}");
    let settings = buckets.settings(&buckets.bucket(), "old");
    let policy = json!({"MinimumBackupAgeToKeep": "00:00:00.0000001"});
    let task = define(&server, json!({ "S3Settings": settings, "RetentionPolicy": policy }));
    let mut folders = Vec::new();
    for _ in 0..3 {
        let ended = run(&server, task, true);
        assert_eq!(ended["Status"], "Completed", "{ended}");
        folders.push(ended["Result"]["LocalBackup"]["BackupDirectory"].clone());
        #[expect(clippy::disallowed_methods, reason = "names of files have seconds")]
        std::thread::sleep(Duration::from_millis(1100));
    }
    let listed = points(&server, &settings);
    let [point] = &listed[..] else { panic!("{listed:?}") };
    let newest = folders[2].as_str().unwrap();
    assert!(point["Location"].as_str().unwrap().ends_with(newest), "{point}");
}

#[test]
fn a_bucket_that_does_not_exist_is_named_and_nothing_remains() {
    let Some(buckets) = Buckets::start() else { return };
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    server.put("a", "{}");
    let settings = buckets.settings("no-such-bucket-here", "");
    let task = define(&server, json!({ "S3Settings": settings }));
    let state = run(&server, task, true);
    let message = state["Result"]["Message"].as_str().unwrap();
    assert!(
        message.contains("'no-such-bucket-here'") && message.contains("NoSuchBucket"),
        "{message}"
    );
    assert_eq!(temporary(&platform), Vec::<String>::new());
    let body = settings.to_string();
    let reply = server.send("POST", "/admin/restore/points?type=S3", body.as_bytes());
    assert!(reply.status == 500 || reply.status == 503, "{}", reply.text());
    assert!(reply.text().contains("NoSuchBucket"), "{}", reply.text());
}

/// Answers every request with that status and body; returns its address.
fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 16 << 10];
            drop(stream.read(&mut head));
            let bytes = body.len();
            drop(write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n{body}"
            ));
        }
    });
    address
}

#[test]
fn a_wrong_key_and_a_server_that_is_not_there_are_reported_as_what_they_are() {
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    server.put("a", "{}");
    let refusal = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we \
                   calculated does not match</Message></Error>";
    let wrong = answering("403 Forbidden", refusal);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (address, expected) in [(wrong, "SignatureDoesNotMatch"), (closed, "cannot connect")] {
        let task = define(&server, json!({ "S3Settings": settings(&address, "b", "") }));
        let state = run(&server, task, true);
        assert_eq!(state["Status"], "Faulted", "{state}");
        let text = state.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains(SECRET), "{text}");
        let status = server.get(&format!("/periodic-backup/status?name=db&taskId={task}")).text();
        assert!(status.contains(expected) && !status.contains(SECRET), "{status}");
    }
}

#[test]
fn the_secret_of_a_bucket_is_never_shown_and_kept_when_a_definition_is_sent_back() {
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    let settings = settings("127.0.0.1:1", "b", "f");
    let task = define(&server, json!({ "S3Settings": settings, "Disabled": true }));
    let mut of_all = json!({"Name": "all", "FullBackupFrequency": NEVER, "S3Settings": settings});
    let path = "/admin/configuration/server-wide/backup";
    assert_eq!(server.send("PUT", path, of_all.to_string().as_bytes()).status, 201);
    let definition = server.get(&format!("/periodic-backup?name=db&taskId={task}")).json();
    let hidden = &definition["S3Settings"]["AwsSecretKey"];
    assert_eq!(hidden, "(hidden)");
    let record = server.get("/admin/databases?name=db").json();
    let listed = server.get(path).json();
    let dump = crate::smuggler::plain(&crate::smuggler::export(&server, "db", &json!({})));
    for shown in [
        definition.to_string(),
        record.to_string(),
        listed.to_string(),
        server.get("/databases/db/tasks").text(),
        server.get("/databases/db/admin/record").text(),
        server.get("/admin/server-wide/tasks").text(),
        String::from_utf8_lossy(&dump).into_owned(),
    ] {
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("cloud") || shown.contains("all"), "{shown}");
    }
    // Sent back, it is still what it was: the folder in the bucket of a database shows it.
    let mut changed = definition.clone();
    changed["Name"] = json!("cloud, renamed");
    define(&server, changed);
    of_all["TaskId"] = listed["Results"][0]["TaskId"].clone();
    of_all["S3Settings"] = listed["Results"][0]["S3Settings"].clone();
    assert_eq!(server.send("PUT", path, of_all.to_string().as_bytes()).status, 201);
    let etag = server.get("/admin/databases?name=db").json()["Etag"].to_string();
    let record = server.get("/admin/databases?name=db").json().to_string();
    let path = "/admin/databases?name=db";
    let replaced = server.send_with("PUT", path, &[("ETag", &etag)], record.as_bytes());
    assert!(replaced.status < 300, "{}", replaced.text());
    // One that is hidden would be an error.
    let tasks = server.get("/databases/db/tasks").json();
    let tasks = tasks["OngoingTasksList"].as_array().unwrap().clone();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|task| task["Error"].is_null()), "{tasks:?}");
    // A new task cannot take it from nowhere.
    let body =
        json!({"FullBackupFrequency": NEVER, "S3Settings": definition["S3Settings"]}).to_string();
    let path = "/databases/db/admin/periodic-backup";
    let refused = server.send("POST", path, body.as_bytes());
    assert!(refused.text().contains("has to be sent again"), "{}", refused.text());
}
