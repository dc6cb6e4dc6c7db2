//! Starting, stopping, restarting; full and failing disks; the same directory twice.

use std::sync::Arc;

use platform::Platform;
use serde_json::json;

use crate::test_server::TestServer;

#[test]
fn everything_is_there_after_a_restart() {
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
fn acknowledged_writes_survive_a_server_that_just_vanishes() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    server.put("a", "{\"n\":1}");
    // The process of a real crash would give its locks back.
    let copy = Platform { disk: Arc::clone(&platform.disk), ..platform };
    server.stop();
    let server = TestServer::start(copy, &[]);
    assert_eq!(server.document("a")["n"], 1);
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
    let refused = refused.expect("the disk has an end");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["Type"], "Voron.Exceptions.DiskFullException");
    assert_eq!(server.document("a")["n"], 1);
    simulation.disk.space_limit(None);
    server.put("after", "{}");
    assert!(!server.document("after").is_null());
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
