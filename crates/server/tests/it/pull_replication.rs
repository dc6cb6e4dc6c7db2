//! Hubs and sinks, on servers in this process that identify nobody.

use platform::Platform;
use serde_json::{Value, json};

use crate::{
    cluster::{create, eventually, send, three},
    resources::wait_until,
    test_server::TestServer,
};

/// Defines a hub in `db`; returns its number.
fn put_hub(server: &TestServer, hub: &Value) -> u64 {
    let path = "/databases/db/admin/tasks/pull-replication/hub";
    let reply = server.send("PUT", path, hub.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

/// Leads from `db` to a database of another server.
fn connect(sink: &TestServer, hub: &TestServer, database: &str) {
    let string = json!({
        "Type": "Raven", "Name": "to the hub", "Database": database,
        "TopologyDiscoveryUrls": [format!("http://{}", hub.address)]
    });
    let path = "/databases/db/admin/connection-strings";
    let reply = sink.send("PUT", path, string.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn put_sink(server: &TestServer, sink: &Value) -> u64 {
    let path = "/databases/db/admin/tasks/sink-pull-replication";
    let body = json!({ "PullReplicationAsSink": sink });
    let reply = server.send("POST", path, body.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

/// A sink of the hub `h` in `db` of another server.
fn join(sink: &TestServer, hub: &TestServer, mode: &str) -> u64 {
    connect(sink, hub, "db");
    let task =
        json!({"Name": "edge", "HubName": "h", "ConnectionStringName": "to the hub", "Mode": mode});
    put_sink(sink, &task)
}

fn sink_task(server: &TestServer, id: u64) -> Value {
    server.get(&format!("/databases/db/task?key={id}&type=PullReplicationAsSink")).json()
}

/// A hub `h` and a sink of it.
fn pair(hub_mode: &str, sink_mode: &str) -> (TestServer, TestServer, [u64; 2]) {
    let (hub, sink) = (TestServer::with_database(), TestServer::with_database());
    let of_hub = put_hub(&hub, &json!({"Name": "h", "Mode": hub_mode}));
    let of_sink = join(&sink, &hub, sink_mode);
    (hub, sink, [of_hub, of_sink])
}

const BOTH: &str = "HubToSink,SinkToHub";

#[test]
fn a_sink_has_what_is_written_at_its_hub() {
    let (hub, sink, [of_hub, of_sink]) = pair("HubToSink", "HubToSink");
    hub.put("users/1", r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#);
    wait_until(|| sink.document("users/1")["Name"] == "a");
    let (here, there) = (hub.document("users/1"), sink.document("users/1"));
    assert_eq!(there["@metadata"]["@change-vector"], here["@metadata"]["@change-vector"]);
    assert_eq!(there["@metadata"]["@flags"], "FromReplication");
    hub.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    wait_until(|| sink.document("users/1").is_null());
    sink.put("own/1", "{}");
    hub.put("users/2", "{}");
    wait_until(|| !sink.document("users/2").is_null());
    assert!(hub.document("own/1").is_null(), "only one direction");

    let task = sink_task(&sink, of_sink);
    assert_eq!(task["TaskConnectionStatus"], "Active");
    assert_eq!(task["HubName"], "h");
    assert_eq!(task["Mode"], "HubToSink");
    assert_eq!(task["DestinationUrl"], format!("http://{}", hub.address));
    assert_eq!(task["DestinationDatabase"], "db");
    assert_eq!(task["CertificatePublicKey"], Value::Null);
    let listed = sink.get("/databases/db/tasks").json();
    assert_eq!(listed["OngoingTasksList"], json!([task]));
    let listed = hub.get("/databases/db/tasks").json();
    assert_eq!(listed["PullReplications"][0]["Name"], "h");
    assert_eq!(listed["OngoingTasksList"][0]["TaskType"], "PullReplicationAsHub");
    let shown = hub.get(&format!("/databases/db/tasks/pull-replication/hub?key={of_hub}")).json();
    assert_eq!(shown["Definition"]["TaskId"], of_hub);
    assert_eq!(shown["OngoingTasks"][0]["DestinationDatabase"], "db");
    assert_eq!(hub.get("/databases/db/tasks/pull-replication/hub?key=999").status, 404);
    let connections = sink.get("/databases/db/replication/active-connections").json();
    assert_eq!(connections["IncomingConnections"][0]["Type"], "PullAsSink");
}

#[test]
fn a_hub_has_what_its_sinks_write() {
    let (hub, one, _) = pair("SinkToHub", "SinkToHub");
    let other = TestServer::with_database();
    join(&other, &hub, "SinkToHub");
    one.put("one/1", "{}");
    other.put("other/1", "{}");
    wait_until(|| !hub.document("one/1").is_null() && !hub.document("other/1").is_null());
    one.batch(r#"{"Type":"DELETE","Id":"one/1"}"#);
    wait_until(|| hub.document("one/1").is_null());
    hub.put("hub/1", "{}");
    other.put("other/2", "{}");
    wait_until(|| !hub.document("other/2").is_null());
    assert!(one.document("hub/1").is_null() && one.document("other/1").is_null());
}

/// What belongs to documents goes with them, in both directions.
#[test]
fn everything_of_a_document_is_replicated() {
    let (hub, sink, _) = pair(BOTH, BOTH);
    let revisions = r#"{"Default":{"Disabled":false}}"#;
    let path = "/databases/db/admin/revisions/config";
    assert_eq!(hub.send("POST", path, revisions.as_bytes()).status, 200);
    let series = "/databases/db/timeseries?docId=users/1";
    let append = r#"{"Name":"beat","Appends":[{"Timestamp":"2024-01-01T00:00:00.0000000Z","Values":[7]}],"Deletes":[]}"#;
    let content = vec![7; 300_000];
    hub.put("users/1", r#"{"@metadata":{"@collection":"Users"}}"#);
    hub.put("users/1", r#"{"N":2,"@metadata":{"@collection":"Users"}}"#);
    let attachment = "/databases/db/attachments?id=users/1&name=photo";
    assert_eq!(hub.send("PUT", attachment, &content).status, 201);
    let counters = r#"{"Documents":[{"DocumentId":"users/1","Operations":[{"Type":"Increment","CounterName":"likes","Delta":3}]}]}"#;
    assert_eq!(hub.send("POST", "/databases/db/counters", counters.as_bytes()).status, 200);
    assert_eq!(hub.send("POST", series, append.as_bytes()).status, 204);

    let counter = |server: &TestServer| {
        let path = "/databases/db/counters?docId=users/1&counter=likes";
        server.get(path).json()["Counters"][0]["TotalValue"].clone()
    };
    let entries = |server: &TestServer| {
        let path = "/databases/db/timeseries?docId=users/1&name=beat";
        server.get(path).json()["Entries"].as_array().map_or(0, Vec::len)
    };
    let all = |server: &TestServer| {
        server.document("users/1")["N"] == 2
            && server.get(attachment).body == content
            && counter(server) == 3
            && entries(server) == 1
            && server.get("/databases/db/revisions?id=users/1").json()["Results"]
                .as_array()
                .is_some_and(|revisions| 2 <= revisions.len())
    };
    assert!(all(&hub));
    wait_until(|| all(&sink));
    assert_eq!(sink.send("POST", "/databases/db/counters", counters.as_bytes()).status, 200);
    wait_until(|| counter(&hub) == 6);
    assert_eq!(sink.send("DELETE", attachment, b"").status, 204);
    wait_until(|| hub.get(attachment).status == 404);
    // What has come from the hub does not go back to it.
    wait_until(|| counter(&sink) == 6 && sink.get(attachment).status == 404);
    hub.put("users/2", "{}");
    wait_until(|| !sink.document("users/2").is_null());
    sink.put("users/3", "{}");
    wait_until(|| !hub.document("users/3").is_null());
    let flags = hub.document("users/2")["@metadata"]["@flags"].to_string();
    assert!(!flags.contains("FromReplication"), "{flags}");
}

#[test]
fn a_hub_that_is_away_is_waited_for_and_goes_on_where_it_was() {
    let platform = Platform::memory();
    let hub = TestServer::start(platform.clone(), &[]);
    hub.create("db");
    put_hub(&hub, &json!({"Name": "h", "Mode": BOTH}));
    let address = hub.address;
    let sink = TestServer::with_database();
    let id = join(&sink, &hub, BOTH);
    hub.put("a", "{}");
    wait_until(|| !sink.document("a").is_null());
    hub.stop();
    sink.put("b", "{}");
    wait_until(|| sink_task(&sink, id)["TaskConnectionStatus"] == "Reconnect");
    assert_ne!(sink_task(&sink, id)["Error"], Value::Null);
    let url = format!("--ServerUrl=http://{address}");
    let hub = TestServer::start(platform, &[&url]);
    hub.put("c", "{}");
    wait_until(|| !sink.document("c").is_null() && !hub.document("b").is_null());
    wait_until(|| sink_task(&sink, id)["TaskConnectionStatus"] == "Active");
}

#[test]
fn what_is_switched_off_or_deleted_replicates_nothing() {
    let (hub, sink, [of_hub, of_sink]) = pair("HubToSink", "HubToSink");
    hub.put("a", "{}");
    wait_until(|| !sink.document("a").is_null());
    let switch = |server: &TestServer, kind: &str, id: u64, disable: bool| {
        let path =
            format!("/databases/db/admin/tasks/state?key={id}&type={kind}&disable={disable}");
        let reply = server.send("POST", &path, b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.json()["TaskId"], id);
    };
    switch(&hub, "PullReplicationAsHub", of_hub, true);
    hub.put("b", "{}");
    wait_until(|| {
        let error = sink_task(&sink, of_sink)["Error"].clone();
        error.as_str().is_some_and(|error| error.contains("The hub 'h' is disabled"))
    });
    assert!(sink.document("b").is_null());
    switch(&hub, "PullReplicationAsHub", of_hub, false);
    wait_until(|| !sink.document("b").is_null());
    switch(&sink, "PullReplicationAsSink", of_sink, true);
    assert_eq!(sink_task(&sink, of_sink)["TaskState"], "Disabled");
    wait_until(|| sink_task(&sink, of_sink)["TaskConnectionStatus"] == "NotActive");
    hub.put("c", "{}");
    switch(&sink, "PullReplicationAsSink", of_sink, false);
    wait_until(|| !sink.document("c").is_null());
    let delete = format!("/databases/db/admin/tasks?id={of_hub}&type=PullReplicationAsHub");
    assert_eq!(hub.send("DELETE", &delete, b"").status, 200);
    wait_until(|| {
        let error = sink_task(&sink, of_sink)["Error"].clone();
        error.as_str().is_some_and(|error| error.contains("There is no replication hub"))
    });
    let delete = format!("/databases/db/admin/tasks?id={of_sink}&type=PullReplicationAsSink");
    assert_eq!(sink.send("DELETE", &delete, b"").status, 200);
    assert_eq!(sink.get("/databases/db/tasks").json()["OngoingTasksList"], json!([]));
    assert_eq!(hub.get("/databases/db/tasks").json()["PullReplications"], json!([]));
}

#[test]
fn a_direction_that_the_hub_does_not_have_is_an_error() {
    let (hub, sink, [_, of_sink]) = pair("SinkToHub", BOTH);
    hub.put("a", "{}");
    sink.put("b", "{}");
    wait_until(|| !hub.document("b").is_null());
    wait_until(|| {
        let error = sink_task(&sink, of_sink)["Error"].clone();
        error.as_str().is_some_and(|error| error.contains("does not replicate HubToSink"))
    });
    assert!(sink.document("a").is_null());
}

#[test]
fn a_delay_of_the_hub_delays_its_changes() {
    let (hub, sink) = (TestServer::with_database(), TestServer::with_database());
    hub.put("old", "{}");
    let id = put_hub(&hub, &json!({"Name": "h", "DelayReplicationFor": "01:00:00"}));
    join(&sink, &hub, "HubToSink");
    let shown = || hub.get(&format!("/databases/db/tasks/pull-replication/hub?key={id}")).json();
    wait_until(|| shown()["OngoingTasks"][0]["DelayReplicationFor"] == "01:00:00");
    wait_until(|| {
        let active = sink.get("/databases/db/replication/active-connections").json();
        !active["IncomingConnections"].as_array().unwrap().is_empty()
    });
    assert!(sink.document("old").is_null());
    put_hub(&hub, &json!({"Name": "h", "DelayReplicationFor": "00:00:01"}));
    hub.put("new", "{}");
    wait_until(|| !sink.document("old").is_null() && !sink.document("new").is_null());
    assert_eq!(shown()["Definition"]["DelayReplicationFor"], "00:00:01", "the same hub");
}

#[test]
fn a_loop_is_refused_or_harmless() {
    let (one, other, _) = pair(BOTH, BOTH);
    // The other way round, too.
    put_hub(&other, &json!({"Name": "h", "Mode": BOTH}));
    join(&one, &other, BOTH);
    one.put("a", "{}");
    other.put("b", "{}");
    wait_until(|| !one.document("b").is_null() && !other.document("a").is_null());
    one.put("a", r#"{"N":1}"#);
    wait_until(|| other.document("a")["N"] == 1);
    assert_eq!(one.document("a")["@metadata"].get("@flags"), None);

    // A database is no sink of itself.
    let own = TestServer::with_database();
    put_hub(&own, &json!({"Name": "h", "Mode": BOTH}));
    let id = join(&own, &own, BOTH);
    wait_until(|| {
        let error = sink_task(&own, id)["Error"].clone();
        error.as_str().is_some_and(|error| error.contains("cannot replicate to itself"))
    });
}

/// The sink asks one node, and then goes to the one that is responsible.
#[test]
fn a_hub_on_several_nodes_is_reached_by_way_of_any_of_them() {
    let nodes = three();
    let record = json!({"DatabaseName": "db", "Topology": {"Members": ["A", "B"]}});
    assert_eq!(create(&nodes[0], "", record).status, 201);
    let hub = json!({"Name": "h", "Mode": BOTH, "MentorNode": "B"});
    let path = "/databases/db/admin/tasks/pull-replication/hub";
    let reply = send(&nodes[0], "PUT", path, hub.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let sink = TestServer::with_database();
    let id = join(&sink, &nodes[0], BOTH);
    nodes[0].put("of/hub", "{}");
    sink.put("of/sink", "{}");
    eventually("the sink has what the hub has", || {
        (!sink.document("of/hub").is_null()).then_some(())
    });
    eventually("the hub has what the sink has", || {
        (!nodes[0].document("of/sink").is_null()).then_some(())
    });
    let url = format!("http://{}", nodes[1].address);
    eventually("the sink is connected to the mentor", || {
        let task = sink_task(&sink, id);
        (task["DestinationUrl"] == url && task["TaskConnectionStatus"] == "Active").then_some(())
    });
}

/// As a record that was restored from a server with a certificate: filters belong to certificates.
#[test]
fn a_hub_with_filters_serves_nobody_where_nobody_is_identified() {
    let hub = TestServer::start(Platform::memory(), &[]);
    let record = json!({
        "DatabaseName": "db", "HubPullReplications": [{"Name": "h", "Mode": BOTH, "WithFiltering": true}]
    });
    assert_eq!(create(&hub, "replicationFactor=1", record).status, 201);
    hub.put("secret", "{}");
    let sink = TestServer::with_database();
    let id = join(&sink, &hub, BOTH);
    wait_until(|| {
        let error = sink_task(&sink, id)["Error"].clone();
        error.as_str().is_some_and(|error| error.contains("The hub 'h' has filters"))
    });
    assert!(sink.document("secret").is_null());
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let server = TestServer::with_database();
    let hub = "/databases/db/admin/tasks/pull-replication/hub";
    for body in [
        json!({}),
        json!({"Name": "h", "Mode": "Sideways"}),
        json!({"Name": "h", "Mode": "None"}),
        json!({"Name": "h", "TaskId": 77}),
        json!({"Name": "h", "WithFiltering": true}),
        json!({"Name": "h", "DelayReplicationFor": "soon"}),
    ] {
        let reply = server.send("PUT", hub, body.to_string().as_bytes());
        assert!((400..=500).contains(&reply.status), "{body}: {}", reply.text());
    }
    let sink = "/databases/db/admin/tasks/sink-pull-replication";
    connect(&server, &server, "db");
    for task in [
        json!(null),
        json!({"Name": "s", "ConnectionStringName": "to the hub"}),
        json!({"Name": "s", "HubName": "h"}),
        json!({"Name": "s", "HubName": "h", "ConnectionStringName": "missing"}),
        json!({"HubName": "h", "ConnectionStringName": "to the hub", "AllowedHubToSinkPaths": ["a*b"]}),
        json!({"HubName": "h", "ConnectionStringName": "to the hub", "CertificateWithPrivateKey": "AAAA"}),
    ] {
        let body = json!({ "PullReplicationAsSink": task }).to_string();
        let reply = server.send("POST", sink, body.as_bytes());
        assert!((400..=500).contains(&reply.status), "{body}: {}", reply.text());
    }
    let tasks = server.get("/databases/db/tasks").json();
    assert_eq!((&tasks["OngoingTasksList"], &tasks["PullReplications"]), (&json!([]), &json!([])));
    let access = format!("{hub}/access?name=h");
    let reply = server.send("PUT", &access, br#"{"Name":"a","CertificateBase64":"abc"}"#);
    assert!((400..=500).contains(&reply.status));
    assert_eq!(server.get(&access).json(), json!({"Results": []}));
    let path = "/databases/db/replication/hub";
    let sink = "sink=AAAAAAAAAAAAAAAAAAAAAA";
    for query in [
        String::new(),
        "?hub=h".to_owned(),
        "?hub=h&sink=x&direction=HubToSink".to_owned(),
        format!("?hub=h&{sink}"),
        format!("?hub=h&{sink}&direction=HubToSink"),
    ] {
        let reply = server.send("POST", &format!("{path}{query}"), b"CRVR");
        assert!((400..=500).contains(&reply.status), "{query}: {}", reply.text());
    }
    let reply =
        server.send("POST", "/databases/db/admin/pull-replication/generate-certificate", b"");
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert_eq!(server.get("/databases/db/task?key=1&type=PullReplicationAsHub").status, 400);
    assert_eq!(server.get("/databases/db/task?key=1&type=PullReplicationAsSink").status, 404);
}

#[test]
fn the_filter_of_a_sink_counts_in_both_directions() {
    let (hub, sink) = (TestServer::with_database(), TestServer::with_database());
    put_hub(&hub, &json!({"Name": "h", "Mode": BOTH}));
    connect(&sink, &hub, "db");
    let mut task = json!({
        "Name": "edge", "HubName": "h", "ConnectionStringName": "to the hub", "Mode": BOTH,
        "AllowedHubToSinkPaths": ["users/*"], "AllowedSinkToHubPaths": ["orders/1"]
    });
    for id in ["users/1", "orders/1", "orders/2"] {
        hub.put(&format!("{id}-hub"), "{}");
        sink.put(id, "{}");
    }
    task["TaskId"] = put_sink(&sink, &task).into();
    wait_until(|| !sink.document("users/1-hub").is_null() && !hub.document("orders/1").is_null());
    assert!(sink.document("orders/1-hub").is_null() && hub.document("orders/2").is_null());
    // What is let through later arrives from the beginning.
    task["AllowedHubToSinkPaths"] = json!(["users/*", "orders/*"]);
    task["AllowedSinkToHubPaths"] = json!(["orders/*"]);
    assert_eq!(put_sink(&sink, &task), task["TaskId"]);
    wait_until(|| !sink.document("orders/2-hub").is_null() && !hub.document("orders/2").is_null());
    assert!(hub.document("users/1").is_null());
    hub.batch(r#"{"Type":"DELETE","Id":"orders/2-hub"}"#);
    wait_until(|| sink.document("orders/2-hub").is_null());
}
