//! The nodes of databases when one does not answer, and what operators see of the cluster.

use platform::Platform;
use serde_json::{Value, json};

use crate::{
    cluster::{add, create, eventually, send, topology, url},
    test_server::TestServer,
};

/// Nodes A, B and C that soon notice that one does not answer.
fn three_impatient() -> Vec<TestServer> {
    let arguments =
        ["--Cluster.TimeBeforeMovingToRehabInSec=2", "--Cluster.TimeBeforeAddingReplicaInSec=3"];
    let nodes: Vec<_> = (0..3).map(|_| TestServer::start(Platform::memory(), &arguments)).collect();
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
    let record = json!({
        "DatabaseName": "db",
        "Topology": {"Members": ["A", "B"], "DynamicNodesDistribution": true}
    });
    assert_eq!(create(&nodes[0], "", record).status, 201);
    nodes[0].put("users/1", "{}");
    let other = json!({"DatabaseName": "fixed", "Topology": {"Members": ["A", "B"]}});
    assert_eq!(create(&nodes[0], "", other).status, 201);
    nodes.remove(1).stop();
    eventually("another node takes its place", || {
        (roles(&nodes[0]) == [role("A", "Member"), role("C", "Member")]).then_some(())
    });
    eventually("the document is there, too", || {
        (nodes[1].get("/databases/db/docs?id=users/1").status == 200).then_some(())
    });
    let fixed = topology(&nodes[0], "fixed");
    assert!(fixed.iter().all(|(tag, _, _)| tag != "C"), "{fixed:?}");
    let set = send(
        &nodes[0],
        "POST",
        "/admin/databases/dynamic-node-distribution?name=fixed&enabled=true",
        b"",
    );
    assert_eq!(set.status, 200, "{}", set.text());
    eventually("the other one follows", || {
        topology(&nodes[0], "fixed").iter().any(|(tag, _, _)| tag == "C").then_some(())
    });
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
