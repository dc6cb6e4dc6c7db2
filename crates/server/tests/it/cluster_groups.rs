//! The nodes of databases when one does not answer, and what operators see of the cluster.

use std::collections::BTreeSet;

use platform::Platform;
use serde_json::{Value, json};

use crate::{
    cluster::{add, create, eventually, send, topology, url},
    test_server::TestServer,
};

/// Has a node soon notice that another one does not answer.
const IMPATIENT: [&str; 2] =
    ["--Cluster.TimeBeforeMovingToRehabInSec=2", "--Cluster.TimeBeforeAddingReplicaInSec=3"];

/// Nodes A, B and C.
fn three_impatient() -> Vec<TestServer> {
    let nodes: Vec<_> = (0..3).map(|_| TestServer::start(Platform::memory(), &IMPATIENT)).collect();
    add(&nodes[0], &nodes[1]);
    add(&nodes[0], &nodes[2]);
    nodes
}

fn roles(node: &TestServer) -> Vec<(String, String)> {
    topology(node, "db").into_iter().map(|(tag, role, _)| (tag, role)).collect()
}

fn role(tag: &str, role: &str) -> (String, String) {
    (tag.to_owned(), role.to_owned())
}

/// Asks the leader, whichever node that is.
fn ask_leader(nodes: &[TestServer], target: &str) -> Value {
    eventually("a leader answers", || {
        nodes.iter().map(|node| node.get(target)).find(|reply| reply.status == 200)
    })
    .json()
}

#[test]
fn a_member_that_does_not_answer_is_set_aside_although_nothing_is_written() {
    let mut nodes = three_impatient();
    assert_eq!(create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"})).status, 201);
    nodes.remove(2).stop();
    eventually("the node is set aside", || {
        (roles(&nodes[0]).last() == Some(&role("C", "Rehab"))).then_some(())
    });
    let looks = || ask_leader(&nodes, "/admin/cluster/observer/decisions")["Iteration"].as_u64();
    // A link that has had nothing to send since says nothing of it.
    let enough = looks().map(|looks| looks + 6);
    eventually("the nodes were looked at a few times", || {
        assert_eq!(roles(&nodes[0]).last(), Some(&role("C", "Rehab")));
        (enough <= looks()).then_some(())
    });
    let decisions = ask_leader(&nodes, "/admin/cluster/observer/decisions");
    assert!(decisions["LeaderNode"].is_string() && decisions["Suspended"] == false, "{decisions}");
    // Its follower may have seen it by its link first.
    let maintenance = ask_leader(&nodes, "/admin/cluster/maintenance-stats");
    assert_eq!(maintenance["C"]["Status"], "Timeout", "{maintenance}");
    assert!(maintenance["A"]["Status"] == "Ok" && maintenance["B"]["Status"] == "Ok");
}

#[test]
fn a_node_that_stays_away_is_replaced_where_that_is_wanted() {
    let mut nodes = three_impatient();
    let platform = Platform::memory();
    let (fourth, port) = on_fixed_port(&platform);
    add(&nodes[0], &fourth);
    nodes.push(fourth);
    let record = json!({
        "DatabaseName": "db",
        "Topology": {"Members": ["A", "D"], "DynamicNodesDistribution": true}
    });
    assert_eq!(create(&nodes[0], "", record).status, 201);
    nodes[0].put("users/1", "{}");
    let other = json!({"DatabaseName": "fixed", "Topology": {"Members": ["A", "D"]}});
    assert_eq!(create(&nodes[0], "", other).status, 201);
    nodes.remove(3).stop();
    let by = eventually("another node takes its place", || {
        let roles = roles(&nodes[0]);
        let members = roles.iter().filter(|(_, role)| role == "Member");
        let members: Vec<_> = members.map(|(tag, _)| tag.clone()).collect();
        (members.len() == 2 && members[1] != "D").then(|| members[1].clone())
    });
    assert_eq!(roles(&nodes[0]).last(), Some(&role("D", "Rehab")), "until it is there again");
    let by = &nodes[usize::from(by.as_bytes()[0] - b'A')];
    eventually("the document is there, too", || {
        (by.get("/databases/db/docs?id=users/1").status == 200).then_some(())
    });
    let fixed = topology(&nodes[0], "fixed");
    assert!(fixed.iter().all(|(tag, _, _)| tag == "A" || tag == "D"), "{fixed:?}");
    let set = send(
        &nodes[0],
        "POST",
        "/admin/databases/dynamic-node-distribution?name=fixed&enabled=true",
        b"",
    );
    assert_eq!(set.status, 200, "{}", set.text());
    eventually("the other one follows", || {
        let fixed = topology(&nodes[0], "fixed");
        fixed.iter().any(|(tag, role, _)| tag != "A" && role == "Member").then_some(())
    });

    // What the node takes when it is there again is not lost when it leaves.
    let back = TestServer::start(platform, &[&IMPATIENT[..], &[port.as_str()]].concat());
    let first = eventually("it takes writes again", || write_batch(&back, "first", 0));
    let written = [first, write_until_refused(&back, "again")].concat();
    eventually("it leaves", || {
        (roles(&nodes[0]).iter().all(|(tag, _)| tag != "D")
            && back.get("/databases/db/stats").status == 410)
            .then_some(())
    });
    are_on(&written, &[&nodes[0], by]);
}

#[test]
fn a_node_that_a_database_is_taken_from_takes_no_write_along() {
    let nodes = three_impatient();
    assert_eq!(create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"})).status, 201);
    let delete = json!({"DatabaseNames": ["db"], "HardDelete": true, "FromNodes": ["C"]});
    let delete = delete.to_string();
    // By another node, and by itself.
    let count = || {
        let stats = nodes[2].get("/databases/db/stats");
        (stats.status == 200).then(|| stats.json()["CountOfDocuments"].as_u64())?
    };
    for asked in [1, 2] {
        let before = eventually("the node has the database", count);
        let written = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (node, writer) = (&nodes[2], format!("{asked}-{writer}"));
                    scope.spawn(move || write_until_refused(node, &writer))
                })
                .collect();
            eventually("some documents are written", || (before < count()?).then_some(()));
            let taken = send(&nodes[asked], "DELETE", "/admin/databases", delete.as_bytes());
            assert_eq!(taken.status, 200, "{}", taken.text());
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(roles(&nodes[0]), [role("A", "Member"), role("B", "Member")]);
        are_on(&written, &[&nodes[0], &nodes[1]]);
        eventually("it has the database no longer", || {
            (nodes[2].get("/databases/db/stats").status == 410).then_some(())
        });
        let added = send(&nodes[0], "PUT", "/admin/databases/node?name=db&node=C", b"");
        assert_eq!(added.status, 200, "{}", added.text());
        eventually("it is a member again", || {
            (roles(&nodes[0]).last() == Some(&role("C", "Member"))).then_some(())
        });
        are_on(&written, &[&nodes[2]]);
    }
}

/// Writes batches of documents to a node until it takes no more; returns the ids of those that it has acknowledged. They are
/// written faster than they are replicated.
fn write_until_refused(node: &TestServer, writer: &str) -> Vec<String> {
    let batches = (0..).map_while(|number| write_batch(node, writer, number));
    batches.flatten().collect()
}

fn write_batch(node: &TestServer, writer: &str, number: usize) -> Option<Vec<String>> {
    let ids: Vec<String> = (0..2000).map(|at| format!("written/{writer}/{number}/{at}")).collect();
    let commands = ids.iter().map(|id| {
        json!({"Type": "PUT", "Id": id, "Document": {"text": "a ".repeat(300)}, "ChangeVector": null})
    });
    let batch = json!({"Commands": commands.collect::<Vec<_>>()}).to_string();
    let stored = node.send("POST", "/databases/db/bulk_docs", batch.as_bytes());
    (stored.status == 201).then_some(ids)
}

/// Asserts that nodes get documents.
fn are_on(ids: &[String], nodes: &[&TestServer]) {
    for node in nodes {
        eventually(&format!("all documents are on {}", url(node)), || {
            let path = "/databases/db/docs?startsWith=written/&metadataOnly=true&pageSize=1000000";
            let found = node.get(path).json();
            let found: BTreeSet<&str> = found["Results"]
                .as_array()?
                .iter()
                .filter_map(|found| found["@metadata"]["@id"].as_str())
                .collect();
            ids.iter().all(|id| found.contains(id.as_str())).then_some(())
        });
    }
}

/// An impatient server that can be started again under its address; and the setting of that.
fn on_fixed_port(platform: &Platform) -> (TestServer, String) {
    // Below the ports that the system chooses for others.
    let first = 20_000 + std::process::id() % 10_000;
    let mut ports = (first..32_000).map(|port| format!("--ServerUrl=http://127.0.0.1:{port}"));
    let started = ports.find_map(|port| {
        let arguments = [&IMPATIENT[..], &[port.as_str()]].concat();
        TestServer::try_start(platform.clone(), &arguments).ok().map(|server| (server, port))
    });
    started.expect("a port is free")
}

#[test]
fn a_node_that_leaves_the_cluster_leaves_its_databases() {
    let nodes = three_impatient();
    assert_eq!(create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"})).status, 201);
    let removed = eventually("the node is removed", || {
        let removed = nodes[0].send("DELETE", "/admin/cluster/node?nodeTag=C", b"");
        (removed.status == 204).then_some(removed)
    });
    assert_eq!(removed.status, 204, "{}", removed.text());
    eventually("it has the database no longer", || {
        (roles(&nodes[0]) == [role("A", "Member"), role("B", "Member")]).then_some(())
    });
}

#[test]
fn operators_see_the_log_who_leads_and_who_answers() {
    let nodes = three_impatient();
    assert_eq!(create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"})).status, 201);
    for node in &nodes {
        let log = node.get("/admin/cluster/log?pageSize=2").json();
        assert_eq!(log["Log"]["Logs"].as_array().map(Vec::len), Some(2), "{log}");
        let index = log["Log"]["Logs"][0]["Index"].as_u64().unwrap();
        let entry = node.get(&format!("/admin/cluster/log/entry?index={index}")).json();
        assert_eq!(entry["Index"], index);
        let ping = node.get("/admin/debug/node/ping").json();
        let alive = ping["Result"].as_array().unwrap();
        assert_eq!(alive.len(), 3, "{ping}");
        assert!(alive.iter().all(|one| one["SetupAlive"]["Error"].is_null()), "{ping}");
        for path in ["engine-logs", "remote-connections", "state-change-history"] {
            assert_eq!(node.get(&format!("/admin/debug/node/{path}")).status, 200, "{path}");
        }
        let pending = node.get("/databases/db/admin/debug/cluster/txinfo").json();
        assert_eq!(pending["Results"], json!([]));
    }
    let leader_of = |node: &TestServer| {
        node.get("/cluster/topology").json()["Leader"].as_str().map(str::to_owned)
    };
    let before = eventually("there is a leader", || leader_of(&nodes[0]));
    let place = usize::from(before.as_bytes()[0] - b'A');
    let shown = nodes[place].get("/cluster/topology").json();
    assert_eq!(shown["Status"].as_object().map(serde_json::Map::len), Some(2), "{shown}");
    let other = &nodes[(place + 1) % 3];
    let elsewhere = other.get("/admin/cluster/observer/decisions");
    assert_eq!(elsewhere.status, 307);
    let location = format!("{}/admin/cluster/observer/decisions", url(&nodes[place]));
    assert_eq!(elsewhere.header("location"), Some(location.as_str()));
    assert_eq!(other.send("POST", "/admin/cluster/timeout", b"").status, 204);
    assert_eq!(nodes[place].send("POST", "/admin/cluster/reelect", b"").status, 204);
    eventually("another node leads", || leader_of(other).filter(|leader| *leader != before));
}
