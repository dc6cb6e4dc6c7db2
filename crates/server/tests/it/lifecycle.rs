//! Starting, stopping, restarting; full and failing disks; the same directory twice.

use std::{sync::Arc, time::Duration};

use platform::{Platform, simulated::Survival};
use serde_json::{Value, json};
use testkit::golden::{GOLDENS, Golden};

use crate::{resources::wait_until, tcp_client::TcpClient, test_server::TestServer};

#[test]
fn all_data_survives_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    let version = server.put("a", "{\"n\":1}");
    server.send("POST", "/databases/db/identity/next?name=i", b"");
    let topology = server.get("/cluster/topology").json()["Topology"]["TopologyId"].clone();
    server.stop();

    let server = TestServer::start(platform, &[]);
    let document = server.document("a");
    assert_eq!(
        (&document["n"], &document["@metadata"]["@change-vector"]),
        (&json!(1), &json!(version))
    );
    assert_eq!(server.get("/databases/db/debug/identities").json(), json!({"i|": 1}));
    assert_eq!(server.get("/cluster/topology").json()["Topology"]["TopologyId"], topology);
    server.stop();
}

#[test]
fn acknowledged_writes_survive_a_killed_server() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    server.put("a", "{\"n\":1}");
    // A real crash of the process would release its locks.
    let copy = Platform { disk: Arc::clone(&platform.disk), ..platform };
    server.stop();
    let server = TestServer::start(copy, &[]);
    assert_eq!(server.document("a")["n"], 1);
}

#[test]
fn data_directories_of_all_versions_are_readable_and_writable() {
    for (name, text) in GOLDENS {
        let golden = Golden::parse(text).unwrap();
        let platform = Platform::memory();
        golden.materialize(&*platform.disk, "/data".as_ref()).unwrap();
        let server = TestServer::start(platform.clone(), &[]);
        let log = golden.content.log.iter().rev();
        let expected: Vec<(u64, Value)> = log
            .filter_map(|(etag, _, body)| Some((*etag, body.as_deref()?)))
            .map(|(etag, body)| (etag, serde_json::from_str(body).unwrap()))
            .collect();
        assert_eq!(documents(&server), expected, "{name}");
        let identities = golden.content.identities.iter().chain(&golden.cluster_identities);
        let identities: serde_json::Map<String, Value> =
            identities.map(|(name, value)| (name.clone(), json!(value))).collect();
        let found = server.get("/databases/golden/debug/identities").json();
        assert_eq!(found, Value::Object(identities), "{name}");
        if "format-3" <= name {
            let mut worker = TcpClient::agreed(server.address, "golden");
            worker.send(&json!({"SubscriptionName": "followers"}));
            assert_eq!(worker.receive().unwrap()["Status"], "Accepted", "{name}");
        }
        let stored = server.send("PUT", "/databases/golden/docs?id=later", b"{\"later\":1}");
        assert_eq!(stored.status, 201, "{name}: {}", stored.text());
        server.create("another");
        server.stop();

        let server = TestServer::start(platform, &[]);
        let found = documents(&server);
        assert_eq!(found[1..], expected, "{name}");
        assert_eq!(found[0], (golden.content.last_etag + 1, json!({"later": 1})), "{name}");
        assert_eq!(server.get("/databases/another/docs").status, 200, "{name}");
    }
}

/// All documents of the database `golden` with their etags, newest first, as returned.
fn documents(server: &TestServer) -> Vec<(u64, Value)> {
    let mut answer = server.get("/databases/golden/docs?start=0&pageSize=1000").json();
    let Value::Array(results) = answer["Results"].take() else { panic!("no results") };
    let sent = |mut document: Value| {
        let metadata = document["@metadata"].as_object_mut().unwrap();
        let version = metadata.remove("@change-vector").unwrap();
        let etag = version.as_str().unwrap().strip_prefix("A:").unwrap().split('-').next();
        let etag = etag.unwrap().parse().unwrap();
        metadata.retain(|name, _| name == "@collection");
        if metadata.is_empty() || document["@metadata"]["@collection"] == "@empty" {
            document.as_object_mut().unwrap().remove("@metadata");
        }
        (etag, document)
    };
    results.into_iter().map(sent).collect()
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let platform = Platform::memory();
    let first = TestServer::start(platform.clone(), &[]);
    let Err(refused) = TestServer::try_start(platform, &[]) else { panic!("it started") };
    assert!(refused.is_configuration());
    let text = refused.to_string();
    assert!(text.contains("another server") && text.contains("DataDir"), "{text}");
    first.create("still-works");
}

#[test]
fn a_full_disk_refuses_writes_and_keeps_answering_reads() {
    let simulation = Platform::simulated(1);
    let server = TestServer::start(simulation.platform.clone(), &[]);
    server.create("db");
    server.put("a", "{\"n\":1}");
    simulation.disk.space_limit(Some(0));
    let filler = format!("{{\"f\":\"{}\"}}", "x".repeat(1 << 20));
    let mut refused = None;
    for n in 0..600 {
        let target = format!("/databases/db/docs?id=f/{n}");
        let reply = server.send("PUT", &target, filler.as_bytes());
        if reply.status != 201 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("the disk fills up");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["Type"], "Voron.Exceptions.DiskFullException");
    assert_eq!(server.document("a")["n"], 1);
    simulation.disk.space_limit(None);
    // Once the server has seen the full disk, it refuses writes for some seconds.
    wait_until(|| {
        let reply = server.send("PUT", "/databases/db/docs?id=after", b"{}");
        assert!(matches!(reply.status, 201 | 503), "{}", reply.text());
        reply.status == 201
    });
    assert!(!server.document("after").is_null());
}

#[test]
fn after_a_crash_a_server_on_a_full_disk_answers_reads_and_refuses_writes() {
    let simulation = Platform::simulated(2);
    let server = TestServer::start(simulation.platform.clone(), &[]);
    server.create("db");
    for n in 0..100 {
        let document =
            json!({"n": n, "text": "x".repeat(3000), "@metadata": {"@collection": "Us"}});
        server.put(&format!("u/{n}"), &document.to_string());
    }
    let query = "/databases/db/queries?query=from%20Us%20where%20n%3D7&waitForNonStaleResults=true";
    assert_eq!(server.get(query).json()["TotalResults"], 1);
    simulation.disk.power_cut(Survival::Everything).unwrap();
    drop(server);
    simulation.disk.restart().unwrap();
    simulation.disk.space_limit(Some(0));

    let server = TestServer::start(simulation.platform.clone(), &[]);
    assert_eq!(server.document("u/99")["n"], 99);
    assert_eq!(server.get(query).json()["Results"][0]["n"], 7);
    let refused = server.send("PUT", "/databases/db/docs?id=after", b"{}");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["Type"], "Voron.Exceptions.DiskFullException");
    let body = json!({"DatabaseName": "another"}).to_string();
    let refused = server.send("PUT", "/admin/databases?name=another", body.as_bytes());
    assert_eq!(refused.status, 503, "{}", refused.text());
    simulation.disk.space_limit(None);
    simulation.clock.advance(Duration::from_secs(6));
    wait_until(|| server.send("PUT", "/databases/db/docs?id=after", b"{}").status == 201);
    server.create("another");
    server.stop();
    let server = TestServer::start(simulation.platform.clone(), &[]);
    assert_eq!(server.get("/databases/db/stats").json()["CountOfDocuments"], 101);
}

#[test]
fn many_databases_are_opened_at_once_by_their_first_requests() {
    let server = TestServer::start(Platform::memory(), &["--Databases.MaxConcurrentLoads=2"]);
    let names: Vec<String> = (0..20).map(|n| format!("db{n}")).collect();
    names.iter().for_each(|name| server.create(name));
    std::thread::scope(|scope| {
        for name in names.iter().cycle().take(60) {
            let server = &server;
            scope.spawn(move || {
                let reply = server.get(&format!("/databases/{name}/stats"));
                assert_eq!(reply.status, 200, "{}", reply.text());
            });
        }
    });
    server.stop();
}
