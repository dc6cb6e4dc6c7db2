//! Low disk space, low memory and slow I/O, as seen by clients and operators.

use std::{io::Write, net::TcpStream};

use flate2::{Compression, write::GzEncoder};
use platform::{Platform, simulated::Simulation};
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

const MB: u64 = 1 << 20;

/// A server with simulated disk space and memory; time is real.
pub(crate) fn server_with(arguments: &[&str]) -> (TestServer, Simulation) {
    let simulation = Platform::simulated(1);
    simulation.memory.set_limit(1024 * MB);
    let platform = Platform {
        disk: simulation.platform.disk.clone(),
        memory: simulation.platform.memory.clone(),
        ..Platform::memory()
    };
    let server = TestServer::start(platform, arguments);
    server.create("db");
    (server, simulation)
}

pub(crate) fn notifications(server: &TestServer) -> Vec<Value> {
    let list = server.get("/databases/db/notifications").json();
    let results = list["Results"].as_array().unwrap().clone();
    assert_eq!(list["TotalResults"], results.len());
    results
}

/// Maximum number of polls, which takes more than a minute.
const QUESTIONS_MAX: usize = 1_000_000;

/// The server checks once a second; polls until the result is as expected.
#[track_caller]
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    for _ in 0..QUESTIONS_MAX {
        if condition() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the expected state was not reached");
}

#[test]
fn writes_are_refused_with_the_reason_while_disk_space_is_low() {
    let (server, simulation) = server_with(&["--Storage.FreeSpaceAlertThresholdInPercentages=0"]);
    server.put("users/1", r#"{"N":1}"#);
    server.put("users/0", "{}");
    server.send("DELETE", "/databases/db/docs?id=users/0", b"");
    assert!(notifications(&server).is_empty());

    simulation.disk.space_limit(Some(100 * MB));
    wait_until(|| !notifications(&server).is_empty());
    let refused = server.send("PUT", "/databases/db/docs?id=users/2", b"{}");
    assert_eq!(refused.status, 503);
    let error = refused.json();
    assert_eq!(error["Type"], "Voron.Exceptions.DiskFullException");
    let message = error["Message"].as_str().unwrap();
    assert!(message.contains("bytes are free") && message.contains("/data"), "{message}");
    for (method, target, body) in [
        ("DELETE", "/databases/db/docs?id=users/1", &b""[..]),
        (
            "POST",
            "/databases/db/bulk_docs",
            br#"{"Commands":[{"Type":"PUT","Id":"x","Document":{}}]}"#,
        ),
        ("POST", "/databases/db/identity/next?name=x", b""),
        ("GET", "/databases/db/hilo/next?tag=x", b""),
        ("POST", "/databases/db/admin/tombstones/cleanup", b""),
    ] {
        let refused = server.send(method, target, body);
        assert_eq!(refused.status, 503, "{method} {target}");
        assert_eq!(refused.json()["Type"], error["Type"], "{method} {target}");
    }
    assert_eq!(server.document("users/1")["N"], 1, "reading goes on");
    let alert = &notifications(&server)[0];
    assert_eq!(alert["Type"], "AlertRaised");
    assert_eq!(alert["AlertType"], "LowDiskSpace");
    assert_eq!(alert["Database"], "db");
    assert_eq!(alert["Details"]["WritesRefused"], true);
    assert!(alert["Details"]["FreeBytes"].as_u64().unwrap() < 100 * MB);
    let listed = || server.get("/databases?name=db").json()["Alerts"].clone();
    assert_eq!(listed(), 1);
    let id = alert["Id"].as_str().unwrap();
    let dismiss = format!("/databases/db/notification-center/dismiss?id={id}");
    assert_eq!(server.send("POST", &dismiss, b"").status, 204);
    assert_eq!((notifications(&server).len(), listed()), (0, json!(0)), "it was dismissed");

    simulation.disk.space_limit(None);
    wait_until(|| server.send("PUT", "/databases/db/docs?id=users/2", b"{}").status == 201);
    assert_eq!(server.document("users/1")["N"], 1);
    assert!(notifications(&server).is_empty());
}

#[test]
fn low_memory_is_reported_and_critical_memory_refuses_only_large_bodies() {
    let (server, simulation) = server_with(&[]);
    let stats = || server.get("/admin/debug/memory/stats").json();
    let before = stats();
    assert_eq!(before["Limit"]["Bytes"], 1024 * MB);
    assert_eq!(before["Limit"]["LimitedBy"], "the control group");
    assert_eq!(before["State"], "Normal");
    assert_eq!(before["Usage"]["UnflushedBytesMaxPerDatabase"], 128 * MB);
    let large = format!("{{\"Text\":\"{}\"}}", "x".repeat(1 << 20));
    server.put("large", &large);

    simulation.memory.set_taken(850 * MB);
    wait_until(|| stats()["State"] == "LowMemory");
    assert_eq!(notifications(&server)[0]["AlertType"], "LowMemory");
    server.put("large", &large);

    simulation.memory.set_taken(1000 * MB);
    wait_until(|| stats()["State"] == "CriticalMemory");
    for (target, method) in
        [("/databases/db/docs?id=large", "PUT"), ("/databases/db/bulk_insert?id=1", "POST")]
    {
        let refused = server.send(method, target, large.as_bytes());
        assert_eq!(refused.status, 503, "{target}");
        assert_eq!(refused.json()["Type"], "Raven.Client.Exceptions.LowMemoryException");
        let message = refused.json()["Message"].as_str().unwrap().to_owned();
        assert!(message.contains("the control group"), "{message}");
    }
    server.put("small", "{}");
    assert_eq!(server.document("small")["@metadata"]["@id"], "small");

    simulation.memory.set_taken(100 * MB);
    wait_until(|| stats()["State"] == "Normal");
    // The space that was just released can be reserved again.
    wait_until(|| stats()["Usage"]["UncountedBytes"].as_u64() < Some(200 * MB));
    server.put("large", &large);
    let log = server.get("/admin/debug/memory/low-mem-log").json();
    let events: Vec<&Value> =
        log["Low Memory Events"].as_array().unwrap().iter().map(|one| &one["Event"]).collect();
    assert_eq!(events, [&json!("Normal"), &json!("CriticalMemory"), &json!("LowMemory")]);
}

#[test]
fn large_bodies_share_a_budget_and_release_it() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=64"]);
    simulation.memory.set_taken(0);
    let text = |megabytes: usize| format!("{{\"Text\":\"{}\"}}", "x".repeat(megabytes << 20));
    for _ in 0..3 {
        let refused = server.send("PUT", "/databases/db/docs?id=a", text(9).as_bytes());
        assert_eq!(refused.status, 413, "it would never fit");
        assert!(refused.text().contains("Large requests may hold"), "{}", refused.text());
        server.put("a", &text(5));
    }
    let stats = server.get("/admin/debug/memory/stats").json();
    assert_eq!(stats["Usage"]["LargeBodiesBytes"], 0);
    assert_eq!(stats["Usage"]["LargeBodiesBytesMax"], 8 * MB);
    assert_eq!(stats["Limit"]["LimitedBy"], "Memory.LimitInMb");
}

/// A batch of so many deletions of missing documents.
fn deletions(count: usize) -> String {
    let one = r#"{"Id":"users/1","Type":"DELETE","ChangeVector":null}"#;
    format!(r#"{{"Commands":[{}]}}"#, vec![one; count].join(","))
}

#[test]
fn a_batch_with_too_many_commands_is_told_how_many_fit() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=64"]);
    simulation.memory.set_taken(0);
    let send = |count| server.send("POST", "/databases/db/bulk_docs", deletions(count).as_bytes());
    for count in [20_000, 100_000] {
        let refused = send(count);
        assert_eq!(refused.status, 413, "{}", refused.text());
        let message = refused.json()["Message"].as_str().unwrap().to_owned();
        assert!(message.contains("this one needs at least "), "{message}");
        let fitting = message.split_once("Up to ").unwrap().1;
        let fitting: usize = fitting.split_once(' ').unwrap().0.parse().unwrap();
        assert!((500..count).contains(&fitting), "{message}");
        assert!(refused.text().contains("also deletions"), "{}", refused.text());
        let sent = send(fitting);
        assert_eq!(sent.status, 201, "{}", sent.text());
    }
}

#[test]
fn definitions_are_compiled_in_memory_that_is_reserved() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=64"]);
    simulation.memory.set_taken(0);
    let map = "from d in docs.Users select new { d.Name }";
    let definition = |maps| json!({"Name": "I", "Maps": vec![map; maps]});
    // Each counts as 1,000 bytes, and 8 MB may be used for them.
    let maps = (8 << 20) / 1_000 + 1;
    let many = definition(maps);
    for (method, target, body) in [
        ("PUT", "admin/indexes", json!({"Indexes": [many]})),
        ("POST", "indexes/test", json!({"IndexDefinition": many})),
        ("POST", "indexes/try", json!({"Definition": many})),
    ] {
        let target = format!("/databases/db/{target}");
        let refused = server.send(method, &target, body.to_string().as_bytes());
        assert_eq!(refused.status, 413, "{target}: {}", refused.text());
        let expected = "Definitions of indexes may hold 8388608 bytes of memory";
        assert!(refused.text().contains(expected), "{target}: {}", refused.text());
    }
    let fits = json!({"Indexes": [definition(maps / 2)]});
    let defined = server.send("PUT", "/databases/db/admin/indexes", fits.to_string().as_bytes());
    assert_eq!(defined.status, 201, "{}", defined.text());
}

/// The start of requests whose clients send nothing more: less than a large body, all of which has
/// to be buffered.
#[test]
fn incomplete_bodies_release_their_budget_to_new_requests() {
    let settings = ["--Memory.LimitInMb=64", "--Http.MinDataRateGracePeriodInSec=1"];
    let beginnings = [
        "PUT /databases/db/docs?id=a HTTP/1.1\r\nContent-Length: 250000\r\n",
        "PUT /databases/db/attachments?id=a&name=n HTTP/1.1\r\nContent-Length: 900000\r\n",
        "POST /databases/db/bulk_insert?id=1 HTTP/1.1\r\nContent-Length: 900000\r\n",
    ];
    for beginning in beginnings {
        let (server, simulation) = server_with(&settings);
        simulation.memory.set_taken(0);
        let body = format!(r#"[{{"Id":"a","Type":"PUT","Document":{{"a":"{}"#, "x".repeat(200_000));
        let mut clients = Vec::new();
        for client in 1..=40 {
            let begun = beginning.replace("id=1 ", &format!("id={client} "));
            let mut stream = TcpStream::connect(server.address).unwrap();
            let request = format!("{begun}Host: localhost\r\n\r\n{body}");
            // A body for which there is no room is not read.
            drop(stream.write_all(request.as_bytes()));
            clients.push(stream);
        }
        let usage = || server.get("/admin/debug/memory/stats").json()["Usage"].clone();
        let small = || usage()["SmallBodiesBytes"].as_u64().unwrap();
        wait_until(|| small() > 3 * MB);
        assert!(small() <= 4 * MB && usage()["SmallBodiesBytesMax"] == 4 * MB, "{}", usage());
        server.put("small", &format!("{{\"Text\":\"{}\"}}", "x".repeat(100_000)));
        assert!(small() <= 4 * MB, "{beginning}: {}", usage());
        drop(clients);
        wait_until(|| small() == 0);
    }
}

#[test]
fn slow_io_is_listed() {
    // On a disk in memory only compressing and writing a megabyte takes a millisecond.
    let (server, _simulation) = server_with(&["--Storage.SlowIoThresholdInMs=1"]);
    wait_until(|| {
        !notifications(&server).is_empty() || {
            server.put("large", &format!("{{\"Text\":\"{}\"}}", pseudo_random(4 << 20)));
            false
        }
    });
    let hint = notifications(&server).remove(0);
    assert_eq!(hint["Type"], "PerformanceHint");
    assert_eq!(hint["HintType"], "SlowIO");
    let slow = &hint["Details"]["Operations"][0];
    assert!(slow["DurationInMs"].as_u64() >= Some(1), "{hint}");
    assert!(slow["File"].is_string() && slow["Bytes"].as_u64().is_some(), "{hint}");
}

/// Letters that are hardly compressible.
pub(crate) fn pseudo_random(length: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn older_io_becomes_history() {
    let server = TestServer::with_database();
    for number in 0..700 {
        server.put(&format!("users/{number}"), "{}");
    }
    let io = server.get("/databases/db/debug/io-metrics").json();
    assert_eq!(io["Performances"], json!([]));
    let files = io["Environments"][0]["Files"].as_array().unwrap();
    let journal = files.iter().rev().find(|file| !file["History"].as_array().unwrap().is_empty());
    let journal = journal.expect("a journal file took more than fits into a ring");
    assert!(journal["File"].as_str().unwrap().ends_with(".journal"));
    assert_eq!(journal["Status"], "InUse");
    let history = journal["History"].as_array().unwrap();
    let writes = history.iter().find(|sum| sum["Type"] == "JournalWrite").unwrap();
    assert!(writes["Start"].as_str() < writes["End"].as_str());
    assert!(writes["Size"].as_u64() > Some(4096));
    assert!(writes["MaxDuration"].as_f64() >= writes["MinDuration"].as_f64());
    assert!(writes["ActiveDuration"].as_f64() <= writes["Duration"].as_f64());
}

/// Listings and subscription tests with megabytes of values are accounted for from their creation
/// until their clients have received them; when the memory is used up, further requests wait or are
/// refused.
#[test]
fn the_memory_of_value_lists_and_subscription_tests_is_limited() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=128"]);
    simulation.memory.set_taken(0);
    for number in 0..6 {
        let value = format!(r#"{{"Object":"{}"}}"#, "z".repeat(1 << 20));
        let path = format!("/databases/db/cmpxchg?key=k{number}&index=0");
        assert_eq!(server.send("PUT", &path, value.as_bytes()).status, 200);
        let document =
            json!({"W": "lorem ipsum ".repeat(80_000), "@metadata": {"@collection": "Bigs"}});
        server.put(&format!("bigs/{number}"), &document.to_string());
    }
    let list = || server.get("/databases/db/cmpxchg?start=0&pageSize=100");
    let query = json!({"Query": "from Bigs as b select { a: b.W, c: b.W }"}).to_string();
    let try_out = || server.send("POST", "/databases/db/subscriptions/try", query.as_bytes());
    let budget = server.get("/admin/debug/memory/stats").json()["Usage"]["AnswersBytesMax"].clone();
    let budget = budget.as_u64().unwrap();
    for request in [&list as &(dyn Fn() -> Reply + Sync), &try_out] {
        assert_eq!(request().status, 200, "{}", request().text());
        let statuses: Vec<u16> = std::thread::scope(|threads| {
            let clients: Vec<_> = (0..12).map(|_| threads.spawn(|| request().status)).collect();
            let mut most = 0;
            while clients.iter().any(|client| !client.is_finished()) {
                let usage = server.get("/admin/debug/memory/stats").json()["Usage"].clone();
                most = most.max(usage["AnswersBytes"].as_u64().unwrap());
            }
            assert!((1 << 20) < most && most <= budget + 2 * MB, "{most} of {budget}");
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
        wait_until(|| server.get("/admin/debug/memory/stats").json()["Usage"]["AnswersBytes"] == 0);
    }
}

#[test]
fn a_compressed_body_is_charged_while_it_is_decoded() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=64"]);
    simulation.memory.set_taken(0);
    let text = format!("{{\"Text\":\"{}\"}}", "x".repeat(300 << 20));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let coded = gzip.finish().unwrap();
    drop(text);
    for (method, target) in [
        ("PUT", "/databases/db/docs?id=a"),
        ("POST", "/databases/db/bulk_docs"),
        ("POST", "/databases/db/queries"),
    ] {
        let reply = server.send_with(method, target, &[("Content-Encoding", "gzip")], &coded);
        assert_eq!(reply.status, 413, "{target}: {}", reply.text());
        assert!(reply.text().contains("Large requests may hold 8388608 bytes"), "{}", reply.text());
    }
    let stats = server.get("/admin/debug/memory/stats").json();
    assert_eq!(stats["Usage"]["LargeBodiesBytes"], 0);
    server.put("a", "{}");
}

#[test]
fn a_query_is_charged_for_each_mention_of_a_parameter() {
    let (server, _simulation) = server_with(&["--Memory.LimitInMb=128"]);
    let values: Vec<String> = (0..3000).map(|number| format!("value-{number}")).collect();
    let query = |mentions: usize| {
        let condition = vec!["a in ($p)"; mentions].join(" or ");
        let body = json!({
            "Query": format!("from X where {condition}"), "QueryParameters": { "p": values }
        });
        server.send("POST", "/databases/db/queries", body.to_string().as_bytes())
    };
    assert_eq!(query(2).status, 200);
    let refused = query(500);
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert!(refused.text().contains("Queries may hold"), "{}", refused.text());
    assert_eq!(query(2).status, 200);
}
