//! Three servers in one process that form a cluster.

use std::time::Duration;

use platform::Platform;
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

/// How often something is looked for before it is missing.
const ATTEMPTS: u32 = 3000;
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn url(server: &TestServer) -> String {
    format!("http://{}", server.address)
}

pub(crate) fn add(first: &TestServer, other: &TestServer) {
    let added = first.send("PUT", &format!("/admin/cluster/node?url={}", url(other)), b"");
    assert_eq!(added.status, 204, "{}", added.text());
    // A node votes once it has caught up.
    eventually("the node votes", || {
        let members = first.get("/cluster/topology").json()["Topology"]["Members"].clone();
        members.as_object()?.values().any(|known| *known == url(other)).then_some(())
    });
}

/// Nodes A, B and C.
pub(crate) fn three() -> Vec<TestServer> {
    let nodes: Vec<_> = (0..3).map(|_| TestServer::start(Platform::memory(), &[])).collect();
    add(&nodes[0], &nodes[1]);
    add(&nodes[0], &nodes[2]);
    nodes
}

/// Sends a request again while there is no leader: on a busy machine one is deposed now and then.
pub(crate) fn send(node: &TestServer, method: &str, target: &str, body: &[u8]) -> Reply {
    eventually("a leader takes the request", || {
        Some(node.send(method, target, body)).filter(|reply| reply.status != 503)
    })
}

pub(crate) fn create(node: &TestServer, query: &str, record: Value) -> Reply {
    let name = record["DatabaseName"].as_str().unwrap_or_default();
    // A request that is sent again creates nothing twice.
    let target = format!("/admin/databases?{query}&raft-request-id={name}-{query}");
    send(node, "PUT", &target, record.to_string().as_bytes())
}

#[expect(clippy::disallowed_methods, reason = "a node is looked at from outside")]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..ATTEMPTS {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("{what}");
}

/// The tags and roles of the nodes of a database, as a node sees them.
pub(crate) fn topology(node: &TestServer, database: &str) -> Vec<(String, String, String)> {
    let reply = node.get(&format!("/topology?name={database}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = reply.json()["Nodes"].as_array().cloned().unwrap_or_default();
    let nodes = nodes
        .iter()
        .map(|node| (text(&node["ClusterTag"]), text(&node["ServerRole"]), text(&node["Url"])));
    nodes.collect()
}

#[test]
fn servers_become_nodes_and_share_what_all_agree_on() {
    let nodes = three();
    let members: Value = ["A", "B", "C"]
        .iter()
        .zip(&nodes)
        .map(|(tag, node)| ((*tag).to_owned(), url(node).into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (node, tag) in nodes.iter().zip(["A", "B", "C"]) {
        eventually("the node knows the others and who leads", || {
            let shown = node.get("/cluster/topology").json();
            assert_eq!(shown["NodeTag"], tag);
            let leader = shown["Leader"].as_str()?;
            let state = if leader == tag { "Leader" } else { "Follower" };
            (shown["Topology"]["Members"] == members && shown["CurrentState"] == state)
                .then_some(())
        });
    }
    let created = create(&nodes[1], "replicationFactor=3", json!({"DatabaseName": "db"}));
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["Topology"]["Members"], json!(["B", "A", "C"]));
    // All of its nodes know it, at once or, on a busy machine, a moment after the answer no longer waits for them.
    eventually("another node knows the database", || {
        (nodes[2].get("/databases/db/stats").status == 200).then_some(())
    });
    let put = send(&nodes[2], "PUT", "/databases/db/cmpxchg?key=k&index=0", br#"{"Object":1}"#);
    assert_eq!(put.status, 200, "{}", put.text());
    for node in &nodes {
        let value = send(node, "GET", "/databases/db/cmpxchg?key=k", b"").json();
        assert_eq!(value["Results"][0]["Value"]["Object"], 1);
    }
    // An index that one node defines is on all of them.
    let index =
        json!({"Indexes": [{"Name": "ByName", "Maps": ["from d in docs select new { d.Name }"]}]});
    let put = send(&nodes[0], "PUT", "/databases/db/admin/indexes", index.to_string().as_bytes());
    assert_eq!(put.status, 201, "{}", put.text());
    for node in &nodes {
        eventually("the index is there", || {
            let names = node.get("/databases/db/indexes?namesOnly=true").json();
            (names["Results"] == json!(["ByName"])).then_some(())
        });
    }
}

#[test]
fn a_database_is_where_its_topology_says() {
    let nodes = three();
    let record = json!({"DatabaseName": "db", "Topology": {"Members": ["C"]}});
    assert_eq!(create(&nodes[0], "", record).status, 201);
    let on_c = vec![("C".to_owned(), "Member".to_owned(), url(&nodes[2]))];
    for node in &nodes {
        assert_eq!(
            eventually("the database is known", || {
                Some(topology(node, "db")).filter(|nodes| !nodes.is_empty())
            }),
            on_c
        );
    }
    let elsewhere = nodes[0].get("/databases/db/stats");
    assert_eq!(elsewhere.status, 410, "{}", elsewhere.text());
    assert!(elsewhere.text().contains("DatabaseNotRelevantException"));
    assert_eq!(nodes[2].get("/databases/db/stats").status, 200);

    let refused = create(&nodes[0], "replicationFactor=4", json!({"DatabaseName": "four"}));
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("the cluster has 3"), "{}", refused.text());
    let unknown = json!({"DatabaseName": "z", "Topology": {"Members": ["Z"]}});
    assert_eq!(create(&nodes[0], "", unknown).status, 500);

    let added = send(&nodes[1], "PUT", "/admin/databases/node?name=db&node=A", b"");
    assert_eq!(added.json()["Topology"]["Promotables"], json!(["A"]), "{}", added.text());
    eventually("the node has the database", || {
        (nodes[0].get("/databases/db/stats").status == 200).then_some(())
    });
    let promoted = send(&nodes[1], "POST", "/admin/databases/promote?name=db&node=A", b"");
    assert_eq!(promoted.status, 200, "{}", promoted.text());
    let delete = json!({"DatabaseNames": ["db"], "HardDelete": true, "FromNodes": ["C"]});
    let deleted = send(&nodes[1], "DELETE", "/admin/databases", delete.to_string().as_bytes());
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    eventually("the node no longer has the database", || {
        (nodes[2].get("/databases/db/stats").status == 410).then_some(())
    });
    let delete = json!({"DatabaseNames": ["db"], "HardDelete": true});
    let deleted = send(&nodes[2], "DELETE", "/admin/databases", delete.to_string().as_bytes());
    assert_eq!(deleted.json()["PendingDeletes"], json!([]), "{}", deleted.text());
    for node in &nodes {
        assert_eq!(node.get("/databases/db/stats").status, 500);
    }
    // Its name is free again, on every node.
    let created = create(&nodes[1], "replicationFactor=3", json!({"DatabaseName": "db"}));
    assert_eq!(created.status, 201, "{}", created.text());
}

#[test]
fn two_of_three_nodes_go_on_and_one_refuses_what_needs_a_majority() {
    let mut nodes = three();
    let created = create(&nodes[1], "replicationFactor=3", json!({"DatabaseName": "db"}));
    assert_eq!(created.status, 201, "{}", created.text());
    nodes.remove(0).stop();
    eventually("the others elect a leader", || {
        let created = create(
            &nodes[0],
            "replicationFactor=2",
            json!({
                "DatabaseName": "later", "Topology": {"Members": ["B", "C"]}
            }),
        );
        // It may be unknown whether the first attempt created it.
        matches!(created.status, 201 | 409).then_some(())
    });
    assert_eq!(nodes[1].get("/databases/later/stats").status, 200);
    // What is deleted is named where it is still to be removed.
    let created = create(&nodes[1], "replicationFactor=3", json!({"DatabaseName": "short"}));
    assert_eq!(created.status, 201, "{}", created.text());
    let delete = json!({"DatabaseNames": ["short"], "TimeToWaitForConfirmation": "00:00:02"});
    let deleted = send(&nodes[1], "DELETE", "/admin/databases", delete.to_string().as_bytes());
    assert_eq!(deleted.json()["PendingDeletes"], json!(["A"]), "{}", deleted.text());
    nodes.remove(0).stop();
    let alone = &nodes[0];
    let put = alone.send("PUT", "/databases/db/docs?id=a", b"{}");
    assert_eq!(put.status, 201, "documents need no majority: {}", put.text());
    let refused = eventually("values need a majority", || {
        let put = alone.send("PUT", "/databases/db/cmpxchg?key=k&index=0", br#"{"Object":1}"#);
        // Of the first one it is unknown what became of it, if this node still led.
        (put.status == 503 && put.text().contains("NoLeaderException")).then_some(put)
    });
    assert!(refused.text().contains("takes no changes"), "{}", refused.text());
}

pub(crate) fn document(node: &TestServer, id: &str) -> Option<Value> {
    let reply = node.get(&format!("/databases/db/docs?id={id}"));
    (reply.status == 200).then(|| reply.json()["Results"][0].clone())
}

#[test]
fn every_member_takes_writes_and_all_become_equal() {
    let nodes = three();
    let created = create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"}));
    assert_eq!(created.status, 201, "{}", created.text());
    for (number, node) in nodes.iter().enumerate() {
        let put = node.send("PUT", &format!("/databases/db/docs?id=of/{number}"), b"{\"N\":1}");
        assert_eq!(put.status, 201, "{}", put.text());
    }
    for node in &nodes {
        for number in 0..3 {
            eventually("the document arrives", || document(node, &format!("of/{number}")));
        }
    }
    let version = |node: &TestServer| {
        document(node, "of/1").map(|document| document["@metadata"]["@change-vector"].clone())
    };
    let versions: Vec<_> = nodes.iter().map(version).collect();
    assert!(versions.iter().all(|one| one.is_some() && *one == versions[0]), "{versions:?}");
    let deleted = nodes[2].send("DELETE", "/databases/db/docs?id=of/0", b"");
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    for node in &nodes {
        eventually("the deletion arrives", || document(node, "of/0").is_none().then_some(()));
    }
    // A session that waits for the others.
    let commands = br#"{"Commands":[{"Type":"PUT","Id":"waited","Document":{"N":2}}]}"#;
    let target = "/databases/db/bulk_docs?waitForReplicasTimeout=00:00:15&numberOfReplicasToWaitFor=2&throwOnTimeoutInWaitForReplicas=true";
    let saved = nodes[1].send("POST", target, commands);
    assert_eq!(saved.status, 201, "{}", saved.text());
    assert!(nodes.iter().all(|node| document(node, "waited").is_some()));
}

#[test]
fn a_node_that_is_added_to_a_database_catches_up_and_is_a_member() {
    let nodes = three();
    let record = json!({"DatabaseName": "db", "Topology": {"Members": ["A"]}});
    assert_eq!(create(&nodes[0], "", record).status, 201);
    for number in 0..50 {
        let target = format!("/databases/db/docs?id=before/{number}");
        assert_eq!(nodes[0].send("PUT", &target, b"{}").status, 201);
    }
    let added = send(&nodes[1], "PUT", "/admin/databases/node?name=db&node=C", b"");
    assert_eq!(added.json()["Topology"]["Promotables"], json!(["C"]), "{}", added.text());
    eventually("the new node is a member", || {
        let members = topology(&nodes[0], "db");
        (members.len() == 2 && members.iter().all(|(_, role, _)| role == "Member")).then_some(())
    });
    for number in 0..50 {
        assert!(document(&nodes[2], &format!("before/{number}")).is_some(), "{number}");
    }
}
