//! Subscriptions of a database on several nodes: which node serves one, and how it goes on when that node dies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    cluster::{create, eventually, send, three},
    tcp_client::TcpClient,
    test_server::TestServer,
};

fn subscribe(node: &TestServer, body: &Value) {
    let put = send(node, "PUT", "/databases/db/subscriptions", body.to_string().as_bytes());
    assert_eq!(put.status, 201, "{}", put.text());
}

/// Nodes A, B and C, all of which have the database.
fn three_with_database() -> Vec<TestServer> {
    let nodes = three();
    let created = create(&nodes[0], "replicationFactor=3", json!({"DatabaseName": "db"}));
    assert_eq!(created.status, 201, "{}", created.text());
    nodes
}

fn write(node: &TestServer, numbers: std::ops::Range<usize>) {
    for number in numbers {
        node.put(&format!("users/{number}"), r#"{"@metadata":{"@collection":"Users"}}"#);
    }
}

/// Connects a worker to a node; returns it with the first message.
fn connected(node: &TestServer, options: &Value) -> Option<(TcpClient, Value)> {
    let mut worker = TcpClient::try_agreed(node.address, "db")?;
    worker.send(options);
    let first = worker.receive()?;
    Some((worker, first))
}

/// A worker that a node has accepted.
fn accepted(node: &TestServer, options: &Value) -> TcpClient {
    eventually("the node serves the subscription", || {
        let (worker, first) = connected(node, options)?;
        (first["Status"] == "Accepted").then_some(worker)
    })
}

/// Takes a batch and acknowledges it; returns how many documents it has.
fn take(worker: &mut TcpClient, seen: &mut BTreeSet<String>) -> usize {
    let batch = worker.batch();
    seen.extend(batch.ids().into_iter().map(str::to_owned));
    worker.acknowledge();
    batch.items.len()
}

#[test]
fn one_node_serves_a_subscription_and_the_others_say_which() {
    let nodes = three_with_database();
    subscribe(&nodes[0], &json!({"Name": "s", "Query": "from Users", "MentorNode": "B"}));
    write(&nodes[0], 0..1);
    let options = json!({"SubscriptionName": "s"});
    let mut worker = accepted(&nodes[1], &options);
    assert_eq!(worker.batch().ids(), ["users/0"]);
    worker.acknowledge();
    let refused = eventually("the other node knows of the subscription", || {
        connected(&nodes[2], &options)
            .map(|(_, first)| first)
            .filter(|first| first["Status"] == "Redirect")
    });
    assert_eq!(refused["Data"]["RedirectedTag"], "B");
    assert_eq!(refused["Data"]["CurrentTag"], "C");
    assert_eq!(
        refused["Data"]["Reasons"][2],
        json!({"B": "Is the mentor node and a valid member of the topology, it should be the mentor node"})
    );
    let exception = refused["Exception"].as_str().unwrap();
    assert!(exception.contains("SubscriptionDoesNotBelongToNodeException"), "{exception}");
    let task = nodes[2].get("/databases/db/task?taskName=s&type=Subscription").json();
    assert_eq!(task["ResponsibleNode"]["NodeTag"], "B");
    assert_eq!(task["ResponsibleNode"]["NodeUrl"], format!("http://{}", nodes[1].address));
    assert_eq!(task["TaskConnectionStatus"], "NotOnThisNode");
    // A worker of a node that no longer serves it is sent on, and does not get what it has acknowledged.
    let update = json!({"Name": "s", "MentorNode": "C"}).to_string();
    let updated = send(&nodes[0], "POST", "/databases/db/subscriptions/update", update.as_bytes());
    assert_eq!(updated.status, 201, "{}", updated.text());
    let end = worker.receive().unwrap();
    assert_eq!((&end["Status"], &end["Data"]["RedirectedTag"]), (&json!("Redirect"), &json!("C")));
    write(&nodes[0], 1..2);
    let mut worker = accepted(&nodes[2], &options);
    assert_eq!(worker.batch().ids(), ["users/1"]);
    worker.acknowledge();
}

#[test]
fn a_subscription_goes_on_at_another_node_when_its_node_dies() {
    let mut nodes = three_with_database();
    subscribe(&nodes[0], &json!({"Name": "s", "Query": "from Users", "MentorNode": "A"}));
    write(&nodes[0], 0..12);
    write(&nodes[1], 12..24);
    for node in &nodes {
        eventually("all documents are everywhere", || {
            let stats = node.get("/databases/db/stats").json();
            (stats["CountOfDocuments"] == 24).then_some(())
        });
    }
    let options = json!({"SubscriptionName": "s", "MaxDocsPerBatch": 8});
    let mut worker = accepted(&nodes[0], &options);
    let mut seen = BTreeSet::new();
    take(&mut worker, &mut seen);
    take(&mut worker, &mut seen);
    // One batch is on its way when the node dies.
    assert_eq!(worker.batch().items.len(), 8);
    nodes.remove(0).stop();
    drop(worker);
    write(&nodes[0], 24..30);
    let mut worker = eventually("another node serves the subscription", || {
        nodes.iter().find_map(|node| {
            let (worker, first) = connected(node, &options)?;
            (first["Status"] == "Accepted").then_some(worker)
        })
    });
    let mut after = 0;
    while seen.len() < 30 {
        after += take(&mut worker, &mut seen);
    }
    let all: BTreeSet<String> = (0..30).map(|number| format!("users/{number}")).collect();
    assert_eq!(seen, all);
    // Of what was acknowledged, little comes again: at most what one of the nodes could not know to be everywhere.
    assert!(after <= 30, "{after}");
    let state = nodes[0].get("/databases/db/subscriptions/state?name=s").json();
    assert!(matches!(state["NodeTag"].as_str(), Some("B" | "C")), "{state}");
}
