//! Subscriptions as a worker sees them.

use std::time::Duration;

use platform::Platform;
use serde_json::{Value, json};

use crate::{tcp_client::TcpClient, test_server::TestServer};

fn create(server: &TestServer, body: &Value) -> String {
    let reply = server.send("PUT", "/databases/db/subscriptions", body.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["Name"].as_str().unwrap().to_owned()
}

fn named(query: &str) -> (TestServer, Value) {
    let server = TestServer::with_database();
    create(&server, &json!({"Name": "s", "Query": query}));
    (server, json!({"SubscriptionName": "s"}))
}

fn user(server: &TestServer, number: usize, age: usize) -> String {
    let document =
        json!({"Age": age, "Company": "companies/1", "@metadata": {"@collection": "Users"}});
    server.put(&format!("users/{number}"), &document.to_string())
}

fn state(server: &TestServer) -> Value {
    server.get("/databases/db/subscriptions/state?name=s").json()
}

#[test]
fn documents_are_sent_in_batches_and_acknowledged() {
    let (server, options) = named("from Users");
    let vectors: Vec<String> = (0..5).map(|number| user(&server, number, number)).collect();
    let mut options = options;
    options["MaxDocsPerBatch"] = json!(3);
    let mut worker = TcpClient::accepted(&server, &options);
    let first = worker.batch();
    assert_eq!(first.ids(), ["users/0", "users/1", "users/2"]);
    let data = &first.items[0]["Data"];
    assert_eq!(data["@metadata"]["@change-vector"], vectors[0].as_str());
    assert_eq!((&data["Age"], &data["@metadata"]["@collection"]), (&json!(0), &json!("Users")));
    assert_eq!(state(&server)["LastBatchAckTime"], Value::Null);
    worker.acknowledge();
    assert_eq!(worker.batch().ids(), ["users/3", "users/4"]);
    worker.acknowledge();
    let state = state(&server);
    assert_eq!(state["ChangeVectorForNextBatchStartingPoint"], vectors[4].as_str());
    assert!(state["LastBatchAckTime"].is_string() && state["NodeTag"] == "A", "{state}");
    user(&server, 9, 9);
    assert_eq!(worker.batch().ids(), ["users/9"]);
}

#[test]
fn unacknowledged_documents_are_sent_again_unless_changed_or_deleted() {
    let (server, options) = named("from Users");
    (0..4).for_each(|number| drop(user(&server, number, 0)));
    let mut worker = TcpClient::accepted(&server, &options);
    assert_eq!(worker.batch().items.len(), 4);
    drop(worker);
    user(&server, 1, 7);
    server.send("DELETE", "/databases/db/docs?id=users/2", b"");
    user(&server, 4, 0);
    let mut worker = TcpClient::accepted(
        &server,
        &json!({
            "SubscriptionName": "s", "Strategy": "TakeOver"
        }),
    );
    assert_eq!(worker.batch().ids(), ["users/0", "users/3"]);
    worker.acknowledge();
    let rest = worker.batch();
    assert_eq!(rest.ids(), ["users/1", "users/4"]);
    assert_eq!(rest.items[0]["Data"]["Age"], 7);
    drop(options);
}

#[test]
fn a_restarted_server_continues_after_the_last_acknowledged_batch() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    create(&server, &json!({"Name": "s", "Query": "from Users"}));
    (0..5).for_each(|number| drop(user(&server, number, 0)));
    let options = json!({"SubscriptionName": "s", "MaxDocsPerBatch": 2});
    let mut worker = TcpClient::accepted(&server, &options);
    assert_eq!(worker.batch().items.len(), 2);
    worker.acknowledge();
    assert_eq!(worker.batch().ids(), ["users/2", "users/3"]);
    server.stop();
    assert_eq!(worker.receive(), None);
    let server = TestServer::start(platform, &[]);
    let mut worker = TcpClient::accepted(&server, &options);
    assert_eq!(worker.batch().ids(), ["users/2", "users/3"]);
    worker.acknowledge();
    assert_eq!(worker.batch().ids(), ["users/4"]);
}

#[test]
fn a_query_filters_projects_and_includes_documents() {
    let (server, options) = named(
        "declare function f(u) { if (u.Age === 3) throw new Error('boom'); return {Old: u.Age}; } \
         from Users as u where u.Age > 1 select f(u) include u.Company",
    );
    server.put("companies/1", r#"{"Name":"c","@metadata":{"@collection":"Companies"}}"#);
    (0..5).for_each(|number| drop(user(&server, number, number)));
    let mut worker = TcpClient::accepted(&server, &options);
    let batch = worker.batch();
    assert_eq!(batch.ids(), ["users/2", "users/3", "users/4"]);
    let shown = &batch.items[0]["Data"];
    assert_eq!((&shown["Old"], &shown["@metadata"]["@projection"]), (&json!(2), &json!(true)));
    let failed = batch.items[1]["Exception"].as_str().unwrap();
    assert!(failed.contains("JavaScriptException") && failed.contains("boom"), "{failed}");
    assert_eq!(batch.others.len(), 1);
    assert_eq!(batch.others[0]["Includes"]["companies/1"]["Name"], "c");
}

#[test]
fn the_last_entries_of_time_series_are_included() {
    let (server, options) =
        named("from Users include timeseries('HR', last(2)), timeseries(last(1, 'hour'))");
    (0..2).for_each(|number| drop(user(&server, number, number)));
    let moment = |hour: u32| format!("2020-01-01T0{hour}:00:00.0000000Z");
    for name in ["HR", "SP"] {
        let appends: Vec<Value> =
            (0..4).map(|hour| json!({"Timestamp": moment(hour), "Values": [hour]})).collect();
        let body = json!({"Name": name, "Appends": appends}).to_string();
        let path = "/databases/db/timeseries?docId=users/1";
        assert_eq!(server.send("POST", path, body.as_bytes()).status, 204);
    }
    let mut worker = TcpClient::accepted(&server, &options);
    let batch = worker.batch();
    assert_eq!((batch.ids(), batch.others.len()), (vec!["users/0", "users/1"], 1));
    let entry = |hour: u32| json!({"Timestamp": moment(hour), "Tag": null, "Values": [hour], "IsRollup": false});
    let last = json!([{"From": moment(2), "To": null, "Entries": [entry(2), entry(3)]}]);
    let given = &batch.others[0]["TimeSeriesIncludes"];
    assert_eq!(given["users/0"], json!({}));
    assert_eq!(given["users/1"], json!({"HR": last, "SP": last}));
    for (include, message) in [
        ("timeseries('HR', null, null)", "Invalid number of arguments '3' in include TimeSeries"),
        ("timeseries('HR')", "Expected to get include 'TimeSeries' clause expression"),
        ("timeseries('HR', first(1))", "Method 'first' is not supported."),
        ("timeseries('HR', last(1, 'foo'))", "Could not parse last() method."),
    ] {
        let body = json!({"Query": format!("from Users include {include}")}).to_string();
        let reply = server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
        let given = reply.json()["Message"].as_str().unwrap_or_default().to_owned();
        assert!(given.starts_with(message), "{include}: {given}");
    }
}

#[test]
fn filtered_out_changes_are_skipped_permanently() {
    let (server, mut options) = named("from Users where Age > 100");
    let last = (0..3).map(|number| user(&server, number, number)).next_back().unwrap();
    options["CloseWhenNoDocsLeft"] = json!(true);
    let mut worker = TcpClient::accepted(&server, &options);
    let closed = worker.receive().unwrap();
    assert_eq!(
        (&closed["Status"], &closed["Data"]),
        (&json!("Closed"), &json!({"CanReconnect": false}))
    );
    assert_eq!(worker.receive(), None);
    assert_eq!(state(&server)["ChangeVectorForNextBatchStartingPoint"], last.as_str());
}

#[test]
fn opening_strategies_decide_which_worker_is_connected() {
    let (server, _) = named("from Users");
    let of = |strategy: &str| json!({"SubscriptionName": "s", "Strategy": strategy});
    let mut holder = TcpClient::accepted(&server, &of("OpenIfFree"));
    let refused = TcpClient::worker(&server, &of("OpenIfFree")).receive().unwrap();
    assert_eq!(refused["Status"], "InUse");
    assert_eq!(refused["Message"], "Subscription s is occupied, connection cannot be opened");
    let mut waiting = TcpClient::worker(&server, &of("WaitForFree"));
    let mut taking = TcpClient::accepted(&server, &of("TakeOver"));
    let lost = holder.receive().unwrap();
    assert_eq!(
        (&lost["Status"], &lost["Message"]),
        (&json!("InUse"), &json!("Closed by TakeOver"))
    );
    let refused = TcpClient::worker(&server, &of("TakeOver")).receive().unwrap();
    assert!(refused["Message"].as_str().unwrap().contains("by a TakeOver connection"));
    taking.send(&json!({"Type": "DisposedNotification"}));
    assert_eq!(taking.receive().unwrap()["Message"], "The operation was canceled.");
    assert_eq!(waiting.receive().unwrap()["Status"], "Accepted");
}

#[test]
fn concurrent_workers_share_documents_and_keep_the_order_of_each() {
    let (server, _) = named("from Users");
    let options = json!({"SubscriptionName": "s", "Strategy": "Concurrent", "MaxDocsPerBatch": 2});
    (0..4).for_each(|number| drop(user(&server, number, 0)));
    let mut first = TcpClient::accepted(&server, &options);
    assert_eq!(first.batch().ids(), ["users/0", "users/1"]);
    let mut second = TcpClient::accepted(&server, &options);
    assert_eq!(second.batch().ids(), ["users/2", "users/3"]);
    user(&server, 0, 5);
    second.acknowledge();
    // The newer version is held back until the worker with the older one has acknowledged it.
    assert!(second.is_silent(Duration::from_millis(300)));
    let details = server.get("/databases/db/subscriptions/connection-details?name=s").json();
    assert_eq!(details["SubscriptionMode"], "Concurrent");
    assert_eq!(details["Results"].as_array().unwrap().len(), 2);
    drop(first);
    let again = second.batch();
    assert_eq!(again.ids(), ["users/1", "users/0"]);
    assert_eq!(again.items[1]["Data"]["Age"], 5);
    second.acknowledge();
    assert!(second.is_silent(Duration::from_millis(100)));
}

#[test]
fn workers_are_notified_when_their_subscription_changes() {
    let table: [(&str, &str, Value, &str, Option<bool>); 5] = [
        ("DELETE", "/databases/db/subscriptions?taskName=s", json!(null), "NotFound", None),
        (
            "POST",
            "/databases/db/admin/tasks/state?taskName=s&key=0&type=Subscription&disable=true",
            json!(null),
            "Closed",
            Some(false),
        ),
        ("POST", "/databases/db/subscriptions/drop?name=s", json!(null), "Closed", Some(false)),
        (
            "POST",
            "/databases/db/subscriptions/update",
            json!({"Name": "s", "Query": "from Dogs"}),
            "Closed",
            Some(true),
        ),
        (
            "POST",
            "/databases/db/subscriptions/update",
            json!({"Name": "s", "ChangeVector": "A:7-AAAAAAAAAAAAAAAAAAAAAA"}),
            "Closed",
            Some(true),
        ),
    ];
    for (method, target, body, status, can_reconnect) in table {
        let (server, options) = named("from Users");
        let mut worker = TcpClient::accepted(&server, &options);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = server.send(method, target, body.as_bytes());
        assert!(reply.status < 300, "{target} {}", reply.text());
        let closing = worker.receive().unwrap();
        assert_eq!(closing["Status"], status, "{target}");
        assert_eq!(closing["Data"]["CanReconnect"].as_bool(), can_reconnect, "{target}");
        assert_eq!(worker.receive(), None, "{target}");
    }
}

#[test]
fn changes_that_are_made_at_the_same_time_are_all_in_force() {
    let (server, _) = named("from Users");
    let update = |change: Value| {
        let mut body = change;
        body["Id"] = state(&server)["SubscriptionId"].clone();
        let target = "/databases/db/subscriptions/update";
        let reply = server.send("POST", target, body.to_string().as_bytes());
        assert_eq!(reply.status, 201, "{body} {}", reply.text());
    };
    let disable = |is_disabled: bool| {
        let target = "/databases/db/admin/tasks/state?taskName=s&key=0&type=Subscription&disable=";
        let reply = server.send("POST", &format!("{target}{is_disabled}"), b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    for round in 1..=40 {
        let query = format!(
            "declare function f(u) {{ return u.Age > {round}; }} from Users as u where f(u)"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| update(json!({"Query": query})));
            scope.spawn(|| update(json!({"MentorNode": round.to_string()})));
            scope.spawn(|| update(json!({"PinToMentorNode": round % 2 == 1})));
            scope.spawn(|| disable(round % 2 == 1));
        });
        let state = state(&server);
        let found = (&state["Query"], &state["MentorNode"]);
        assert_eq!(found, (&json!(query), &json!(round.to_string())), "round {round}");
        let found = (&state["PinToMentorNode"], &state["Disabled"]);
        assert_eq!(found, (&json!(round % 2 == 1), &json!(round % 2 == 1)), "round {round}");
    }
}

#[test]
fn revisions_are_sent_with_the_previous_version() {
    let (server, options) = named("from Users (Revisions = true)");
    let refused = TcpClient::accepted(&server, &options).receive().unwrap();
    assert_eq!(refused["Status"], "Invalid");
    let configuration = br#"{"Default":{"Disabled":false}}"#;
    let reply = server.send("POST", "/databases/db/admin/revisions/config", configuration);
    assert_eq!(reply.status, 200, "{}", reply.text());
    user(&server, 1, 1);
    user(&server, 1, 2);
    server.send("DELETE", "/databases/db/docs?id=users/1", b"");
    let mut worker = TcpClient::accepted(&server, &options);
    let batch = worker.batch();
    assert_eq!(batch.ids(), ["users/1", "users/1", "users/1"]);
    let ages: Vec<(Value, Value)> = batch
        .items
        .iter()
        .map(|item| {
            (item["Data"]["Current"]["Age"].clone(), item["Data"]["Previous"]["Age"].clone())
        })
        .collect();
    assert_eq!(ages, [(json!(1), Value::Null), (json!(2), json!(1)), (Value::Null, json!(2)),]);
}

#[test]
fn connections_that_cannot_be_served_receive_the_reason() {
    let (server, _) = named("from Users");
    let mut client = TcpClient::connect(server.address);
    client.send(
        &json!({"DatabaseName": "db", "Operation": "Subscription", "OperationVersion": 52000}),
    );
    assert_eq!(client.receive().unwrap()["Version"], 51_000);
    client.send(
        &json!({"DatabaseName": "nope", "Operation": "Subscription", "OperationVersion": 51000}),
    );
    assert_eq!(client.receive().unwrap()["Status"], "Ok");
    let missing = client.receive().unwrap();
    assert_eq!(
        (&missing["Type"], &missing["Message"]),
        (&json!("Error"), &json!("Database 'nope' does not exist."))
    );
    assert_eq!(client.receive(), None);
    let mut client = TcpClient::worker(&server, &json!({"SubscriptionName": "zzz"}));
    assert_eq!(client.receive().unwrap()["Status"], "NotFound");
    let mut client =
        TcpClient::worker(&server, &json!({"SubscriptionName": "s", "Strategy": "Foo"}));
    assert_eq!(client.receive().unwrap()["Type"], "Error");
    let mut client = TcpClient::connect(server.address);
    client.send_bytes(b"{x");
    client.send_bytes(&[b'}'; 2]);
    assert_eq!(client.receive().unwrap()["Type"], "Error");
    assert_eq!(client.receive(), None);
}

#[test]
fn clients_receive_the_address_of_a_dedicated_tcp_listener() {
    let server = TestServer::start(Platform::memory(), &["--ServerUrl.Tcp=tcp://127.0.0.1:0"]);
    server.create("db");
    create(&server, &json!({"Name": "s", "Query": "from Users"}));
    let info = server.get("/info/tcp?tag=x").json();
    let url = info["Url"].as_str().unwrap();
    let address: std::net::SocketAddr = url.strip_prefix("tcp://").unwrap().parse().unwrap();
    assert_ne!(address, server.address);
    let mut worker = TcpClient::agreed(address, "db");
    worker.send(&json!({"SubscriptionName": "s"}));
    assert_eq!(worker.receive().unwrap()["Status"], "Accepted");
    let shared = TestServer::with_database();
    let info = shared.get("/databases/db/info/tcp?tag=Subscription").json();
    assert_eq!(info["Url"], format!("tcp://{}", shared.address));
}

#[test]
fn a_subscription_test_accepts_a_change_vector_that_does_not_change() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"A":1,"@metadata":{"@collection":"Users"}}"#);
    let body = br#"{"Query":"from Users","ChangeVector":"DoNotChange"}"#;
    let reply = server.send("POST", "/databases/db/subscriptions/try", body);
    assert_eq!(reply.json()["Results"][0]["A"], 1, "{}", reply.text());
}
