//! What an operator can see about subscriptions and their workers, and do with them.

use serde_json::{Value, json};

use crate::{
    tcp_client::TcpClient,
    test_server::TestServer,
    web_sockets::{connect, read_json},
};

const LIVE: &str = "/databases/db/subscriptions/performance/live";

fn with_subscription(query: &str) -> TestServer {
    let server = TestServer::with_database();
    let body = json!({"Name": "s", "Query": query}).to_string();
    let reply = server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    server
}

fn user(server: &TestServer, number: usize) {
    let document = json!({"Number": number, "@metadata": {"@collection": "Users"}});
    server.put(&format!("users/{number}"), &document.to_string());
}

fn worker(server: &TestServer, id: &str) -> TcpClient {
    TcpClient::accepted(server, &json!({"SubscriptionName": "s", "WorkerId": id}))
}

fn drop_worker(server: &TestServer, id: &str) {
    let target = format!("/databases/db/subscriptions/drop?name=s&workerId={id}");
    assert_eq!(server.send("POST", &target, b"").status, 204);
}

/// The initial report of the subscription.
fn report(server: &TestServer) -> Value {
    read_json(&mut connect(server, LIVE))["Results"][0].clone()
}

/// The report, as soon as it meets a condition.
fn report_when(server: &TestServer, condition: impl Fn(&Value) -> bool) -> Value {
    let mut reports = (0..1000).map(|_| report(server));
    reports.find(|report| condition(report)).expect("the condition is met")
}

fn running(server: &TestServer) -> Value {
    server.get("/databases/db/debug/subscriptions/running").json()["Results"][0].clone()
}

#[test]
fn a_function_can_use_this_for_the_document() {
    let server = TestServer::with_database();
    (1..=3).for_each(|number| user(&server, number));
    let query = "declare function predicate(least) { return this.Number>=least&&id(this)!='users/3' }\n\
                 from 'Users' as doc\nwhere predicate.call(doc, 2)";
    let body = json!({ "Query": query }).to_string();
    let reply = server.send("POST", "/databases/db/subscriptions/try", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["Results"].clone();
    assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    assert_eq!(results[0]["@metadata"]["@id"], "users/2");
    server.stop();
}

#[test]
fn connections_and_batches_are_reported_live() {
    let server = with_subscription("from Users");
    let mut feed = connect(&server, LIVE);
    let first = read_json(&mut feed)["Results"].clone();
    assert_eq!(first.as_array().unwrap().len(), 1);
    assert_eq!(first[0]["TaskName"], "s");
    assert!(first[0]["TaskId"].is_u64());
    assert!(first[0].get("ConnectionPerformance").is_none());
    assert!(first[0].get("BatchPerformance").is_none());

    (1..=3).for_each(|number| user(&server, number));
    let mut first_worker = worker(&server, "one");
    assert_eq!(first_worker.batch().items.len(), 3);
    // The worker may have received the whole batch before the server records that it was sent.
    let is_sent =
        |report: &Value| report["BatchPerformance"][0]["Details"]["Operations"][1].is_object();
    let under_way = report_when(&server, is_sent);
    let connection = &under_way["ConnectionPerformance"][0];
    assert_eq!(connection["WorkerId"], "one");
    assert_eq!(connection["Strategy"], "OpenIfFree");
    assert_eq!(connection["BatchCount"], 0);
    assert_eq!((&connection["Completed"], &connection["ErrorType"]), (&Value::Null, &Value::Null));
    let steps: Vec<_> = connection["Details"]["Operations"].as_array().unwrap().iter().collect();
    let names: Vec<_> = steps.iter().map(|step| step["Name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ConnectionPending", "ConnectionActive"]);
    let batch = &under_way["BatchPerformance"][0];
    assert_eq!(batch["ConnectionId"], connection["ConnectionId"]);
    assert_eq!((&batch["NumberOfDocuments"], &batch["Completed"]), (&json!(3), &Value::Null));
    assert_eq!(batch["Details"]["Operations"][1]["Name"], "BatchWaitForAcknowledge");

    first_worker.acknowledge();
    let mut all_news = (0..10).map(|_| read_json(&mut feed)["Results"][0].clone());
    let is_over = |news: &Value| news["BatchPerformance"][0]["Completed"].is_string();
    let news = all_news.find(is_over).expect("the batch ends");
    let batch = &news["BatchPerformance"][0];
    assert_eq!(news["ConnectionPerformance"][0]["BatchCount"], 1);
    assert_eq!(
        news["ConnectionPerformance"][0]["TotalBatchSizeInBytes"],
        batch["SizeOfDocumentsInBytes"]
    );

    let mut refused = TcpClient::worker(&server, &json!({"SubscriptionName": "s"}));
    assert_eq!(refused.receive().unwrap()["Status"], "InUse");
    drop_worker(&server, "one");
    assert_eq!(first_worker.receive().unwrap()["Message"], "Dropped by API request");
    let news = read_json(&mut feed)["Results"][0].clone();
    let report = news["ConnectionPerformance"].as_array().unwrap();
    let of_type = |wanted: &str| {
        let found = report.iter().find(|connection| connection["ErrorType"] == wanted);
        found.unwrap_or_else(|| panic!("{wanted}: {news}")).clone()
    };
    assert_eq!(of_type("Error")["Exception"], "Dropped by API request");
    assert!(of_type("Error")["Completed"].is_string());
    let occupied = "Subscription s is occupied, connection cannot be opened";
    assert_eq!(of_type("ConnectionRejected")["Exception"], occupied);
    assert!(
        news.get("BatchPerformance").is_none(),
        "a batch is reported once when it has ended: {news}"
    );
    let news = read_json(&mut feed)["Results"][0].clone();
    assert!(news.get("ConnectionPerformance").is_none(), "so is a connection: {news}");
}

#[test]
fn an_abandoned_batch_is_reported_with_the_reason() {
    let server = with_subscription("from Users");
    user(&server, 1);
    let mut only = worker(&server, "one");
    only.batch();
    drop_worker(&server, "one");
    only.receive();
    let ended = |report: &Value| report["BatchPerformance"][0]["Completed"].is_string();
    let report = report_when(&server, ended);
    assert_eq!(report["BatchPerformance"][0]["Exception"], "Dropped by API request");
    // Another worker gets it, with another batch id.
    let mut second = worker(&server, "two");
    assert_eq!(second.batch().ids(), ["users/1"]);
    second.acknowledge();
    let done = |report: &Value| report["BatchPerformance"][1]["Exception"].is_null();
    let report =
        report_when(&server, |report| report["BatchPerformance"][1].is_object() && done(report));
    let numbers =
        [0, 1].map(|place| report["BatchPerformance"][place]["BatchId"].as_u64().unwrap());
    assert!(numbers[0] < numbers[1], "{numbers:?}");
}

#[test]
fn errors_of_documents_and_connections_are_kept() {
    let query = "from Users as u where u.Number > 0 select { Ratio: check(u) }";
    let declared = format!(
        "declare function check(u) {{ if (u.Number === 2) throw 'no twos'; return 1; }} {query}"
    );
    let server = with_subscription(&declared);
    (1..=3).for_each(|number| user(&server, number));
    assert_eq!(running(&server), Value::Null, "no worker has been connected");
    let mut only = worker(&server, "one");
    let batch = only.batch();
    assert_eq!(batch.items.len(), 3);
    let shown = running(&server);
    let of_worker = &shown["Workers"][0];
    assert_eq!(of_worker["Batches"][0]["FailedDocuments"], 1);
    assert_eq!(of_worker["LastFailedDocument"]["Id"], "users/2");
    let error = of_worker["LastFailedDocument"]["Error"].as_str().unwrap();
    assert!(error.contains("no twos"), "{error}");
    assert_eq!(shown["UnacknowledgedDocuments"], 3);
    only.acknowledge();

    // An invalid message ends the connection, and an operator sees the reason.
    only.send_bytes(b"x");
    let reply = only.receive().unwrap();
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("'x'"), "{reply}");
    let recent =
        report_when(&server, |report| report["ConnectionPerformance"][0]["Completed"].is_string());
    assert_eq!(recent["ConnectionPerformance"][0]["Exception"], message);
    assert_eq!(running(&server)["RecentConnections"][0]["ConnectionException"], message);
    user(&server, 4);
    assert_eq!(running(&server)["ChangesBehind"], 1);
}

#[test]
fn an_unnamed_worker_can_be_dropped_by_itself() {
    let server = with_subscription("from Users");
    let options = json!({"SubscriptionName": "s", "Strategy": "Concurrent"});
    let mut workers = [0; 2].map(|_| TcpClient::accepted(&server, &options));
    let details = server.get("/databases/db/subscriptions/connection-details?name=s").json();
    let ids =
        [0, 1].map(|place| details["Results"][place]["WorkerId"].as_str().unwrap().to_owned());
    assert_ne!(ids[0], ids[1]);
    drop_worker(&server, &ids[0]);
    assert_eq!(workers[0].receive().unwrap()["Message"], "Dropped by API request");
    user(&server, 1);
    assert_eq!(workers[1].batch().ids(), ["users/1"]);
}
