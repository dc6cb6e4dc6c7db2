//! Hubs of a server with a certificate: who may be a sink of one, and what passes then.

use security::KeyPair;
use serde_json::{Value, json};

use crate::{
    certificates::{Secured, secured},
    resources::wait_until,
    smuggler::plain,
    test_server::TestServer,
};

const HUB: &str = "/databases/db/admin/tasks/pull-replication/hub";
const ACCESS: &str = "/databases/db/admin/tasks/pull-replication/hub/access?name=h";
const SINK: &str = "/databases/db/admin/tasks/sink-pull-replication";
const BOTH: &str = "HubToSink, SinkToHub";

fn admin(hub: &Secured, method: &str, target: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = hub.send(Some(&hub.own), method, target, &body);
    let text = String::from_utf8_lossy(&reply.body);
    assert!((200..300).contains(&reply.status), "{method} {target}: {text}");
    if reply.body.is_empty() { Value::Null } else { reply.json() }
}

/// A server with a database `db` and a hub `h`.
fn hub_with(definition: &Value) -> Secured {
    let hub = secured();
    hub.create("db");
    admin(&hub, "PUT", HUB, definition);
    hub
}

fn filtered_hub() -> Secured {
    hub_with(&json!({"Name": "h", "Mode": BOTH, "WithFiltering": true}))
}

fn register(hub: &Secured, pair: &KeyPair, to_sink: &Value, to_hub: &Value) {
    let access = json!({
        "Name": "truck", "CertificateBase64": model::base64_text(pair.certificate().der()),
        "AllowedHubToSinkPaths": to_sink, "AllowedSinkToHubPaths": to_hub
    });
    assert!(admin(hub, "PUT", ACCESS, &access)["RaftCommandIndex"].is_u64());
}

fn put(hub: &Secured, id: &str) {
    admin(hub, "PUT", &format!("/databases/db/docs?id={id}"), &json!({}));
}

fn has(hub: &Secured, id: &str) -> bool {
    let target = format!("/databases/db/docs?id={id}");
    hub.send(Some(&hub.own), "GET", &target, "").status == 200
}

/// A sink with this certificate, on a server without one.
fn sink_of(hub: &Secured, pair: Option<&KeyPair>) -> (TestServer, u64) {
    let sink = TestServer::with_database();
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": "db",
        "TopologyDiscoveryUrls": [format!("https://{}", hub.server.address)]
    });
    let path = "/databases/db/admin/connection-strings";
    assert_eq!(sink.send("PUT", path, string.to_string().as_bytes()).status, 200);
    let file = pair.map(|pair| model::base64_text(&pair.to_pfx("sink", "hush").unwrap()));
    let task = json!({
        "Name": "edge", "HubName": "h", "ConnectionStringName": "to", "Mode": BOTH,
        "AccessName": "truck", "CertificateWithPrivateKey": file, "CertificatePassword": "hush"
    });
    let body = json!({ "PullReplicationAsSink": task }).to_string();
    let reply = sink.send("POST", SINK, body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let id = reply.json()["TaskId"].as_u64().unwrap();
    (sink, id)
}

fn task(sink: &TestServer, id: u64) -> Value {
    sink.get(&format!("/databases/db/task?key={id}&type=PullReplicationAsSink")).json()
}

fn waits_for_error(sink: &TestServer, id: u64, expected: &str) {
    wait_until(|| task(sink, id)["Error"].as_str().is_some_and(|error| error.contains(expected)));
}

#[test]
fn an_access_filters_what_passes_in_both_directions() {
    let hub = filtered_hub();
    let pair = hub.client("truck 7");
    register(&hub, &pair, &json!(["common/*", "trucks/7/*"]), &json!(["trucks/7/*"]));
    for id in ["common/1", "trucks/7/a", "trucks/8/a", "secret/1"] {
        put(&hub, id);
    }
    let (sink, id) = sink_of(&hub, Some(&pair));
    wait_until(|| !sink.document("common/1").is_null() && !sink.document("trucks/7/a").is_null());
    for own in ["trucks/7/b", "trucks/8/b", "common/2"] {
        sink.put(own, "{}");
    }
    wait_until(|| has(&hub, "trucks/7/b"));
    assert!(!has(&hub, "trucks/8/b") && !has(&hub, "common/2"));
    assert!(sink.document("trucks/8/a").is_null() && sink.document("secret/1").is_null());
    sink.batch(r#"{"Type":"DELETE","Id":"trucks/7/a"}"#);
    wait_until(|| !has(&hub, "trucks/7/a"));
    let shown = task(&sink, id);
    assert_eq!(shown["TaskConnectionStatus"], "Active");
    let public = model::base64_text(pair.certificate().der());
    assert_eq!(shown["CertificatePublicKey"], public);

    // More is let through: what was left out arrives.
    register(&hub, &pair, &json!(["common/*", "trucks/*"]), &json!(["trucks/*"]));
    wait_until(|| !sink.document("trucks/8/a").is_null());
    sink.put("trucks/8/c", "{}");
    wait_until(|| has(&hub, "trucks/8/c") && has(&hub, "trucks/8/b"));
    assert!(sink.document("secret/1").is_null());

    let ongoing = admin(&hub, "GET", "/databases/db/tasks", &Value::Null);
    let connected = &ongoing["OngoingTasksList"][0];
    assert_eq!(connected["TaskType"], "PullReplicationAsHub");
    assert_eq!(connected["AccessName"], "truck");
    let accesses = admin(&hub, "GET", ACCESS, &Value::Null);
    let access = &accesses["Results"][0];
    assert_eq!(access["Thumbprint"], pair.certificate().thumbprint());
    assert_eq!(access["Certificate"], public);
    assert_eq!(access["AllowedSinkToHubPaths"], json!(["trucks/*"]));
    assert!(access["Issuer"].is_string() && access["NotAfter"].is_string());
    let none = admin(&hub, "GET", &format!("{ACCESS}&start=1&pageSize=10"), &Value::Null);
    assert_eq!(none, json!({"Results": []}));

    // Who is no longer registered is cut off.
    let remove = format!("{ACCESS}&thumbprint={}", pair.certificate().thumbprint());
    admin(&hub, "DELETE", &remove, &Value::Null);
    put(&hub, "common/3");
    waits_for_error(&sink, id, "is unknown to the server");
    assert!(sink.document("common/3").is_null());
}

#[test]
fn only_registered_certificates_are_sinks() {
    let hub = filtered_hub();
    let (known, other) = (hub.client("known"), hub.client("other"));
    register(&hub, &known, &json!(["a/*"]), &json!(null));
    put(&hub, "a/1");
    let (stranger, id) = sink_of(&hub, Some(&other));
    waits_for_error(&stranger, id, "is unknown to the server");
    let (anonymous, id) = sink_of(&hub, None);
    // It trusts nobody who certifies the hub.
    waits_for_error(&anonymous, id, "UnknownIssuer");
    // A certificate of a client is none of a sink.
    hub.register(&hub.own, &other, "ValidUser", json!({"db": "Admin"}));
    let query =
        "/databases/db/replication/hub?hub=h&direction=HubToSink&sink=AAAAAAAAAAAAAAAAAAAAAA";
    for client in [Some(&other), Some(&hub.own), None] {
        assert_eq!(hub.send(client, "POST", query, "CRVR").status, 403);
    }
    assert_eq!(hub.send(Some(&known), "POST", query, "CRVR").status, 200);
    // And the reverse.
    for target in ["/databases/db/docs?id=a/1", "/databases/db/stats", "/databases"] {
        assert_eq!(hub.send(Some(&known), "GET", target, "").status, 403, "{target}");
    }
    let named = format!("{query}&access=car");
    assert_eq!(hub.send(Some(&known), "POST", &named, "CRVR").status, 403);
    assert!(stranger.document("a/1").is_null() && anonymous.document("a/1").is_null());
}

#[test]
fn filters_are_where_the_hub_says() {
    let hub = filtered_hub();
    let pair = hub.client("truck");
    let certificate = model::base64_text(pair.certificate().der());
    let refused = |target: &str, access: Value| {
        let reply = hub.send(Some(&hub.own), "PUT", target, &access.to_string());
        assert!((400..=500).contains(&reply.status), "{access}");
        reply.json()["Type"].as_str().unwrap().to_owned()
    };
    refused(ACCESS, json!({"Name": "a", "CertificateBase64": certificate}));
    let paths =
        json!({"Name": "a", "CertificateBase64": certificate, "AllowedHubToSinkPaths": ["a/*"]});
    let missing = ACCESS.replace("name=h", "name=missing");
    let kind = refused(&missing, paths.clone());
    assert_eq!(kind, "Raven.Client.Exceptions.ReplicationHubNotFoundException");
    let plain = json!({"Name": "plain", "Mode": BOTH});
    admin(&hub, "PUT", HUB, &plain);
    refused(&ACCESS.replace("name=h", "name=plain"), paths);
    for path in ["a*", "*a", ""] {
        let access =
            json!({"Name": "a", "CertificateBase64": certificate, "AllowedHubToSinkPaths": [path]});
        refused(ACCESS, access);
    }
    // A hub with accesses keeps its filters.
    register(&hub, &pair, &json!(["a/*"]), &json!(null));
    let reply = hub.send(Some(&hub.own), "PUT", HUB, &json!({"Name": "h"}).to_string());
    assert_eq!(reply.status, 500);
}

#[test]
fn a_hub_may_refuse_deletions_of_sinks() {
    let hub = hub_with(&json!({
        "Name": "h", "Mode": BOTH, "PreventDeletionsMode": "PreventSinkToHubDeletions"
    }));
    let pair = hub.client("truck");
    register(&hub, &pair, &json!(null), &json!(null));
    let (sink, _) = sink_of(&hub, Some(&pair));
    sink.put("a", "{}");
    wait_until(|| has(&hub, "a"));
    sink.batch(r#"{"Type":"DELETE","Id":"a"}"#);
    sink.put("b", "{}");
    wait_until(|| has(&hub, "b"));
    assert!(has(&hub, "a") && sink.document("a").is_null());
    // The hub deletes.
    admin(&hub, "DELETE", "/databases/db/docs?id=b", &Value::Null);
    wait_until(|| sink.document("b").is_null());
}

/// A client that sends a record may drop a hub, and no client sends who may connect to it.
#[test]
fn a_new_hub_has_no_accesses_of_a_former_one() {
    let hub = filtered_hub();
    let pair = hub.client("former");
    register(&hub, &pair, &json!(["a/*"]), &json!(null));
    let mut record = admin(&hub, "GET", "/admin/databases?name=db", &Value::Null);
    let etag = format!("ETag: {}\r\n", record["Etag"]);
    record["HubPullReplications"] = json!([]);
    let (target, body) = ("/admin/databases?name=db", record.to_string());
    let reply = hub.send_with(Some(&hub.own), "PUT", target, &etag, &body);
    assert_eq!(reply.status, 201);
    let define = |name: &str| {
        admin(&hub, "PUT", HUB, &json!({"Name": name, "Mode": BOTH, "WithFiltering": true}))
    };
    define("H");
    assert_eq!(admin(&hub, "GET", ACCESS, &Value::Null), json!({"Results": []}));
    // Names that differ in case alone are one name, in any alphabet.
    assert_eq!(define("\u{c9}")["TaskId"], define("\u{e9}")["TaskId"]);
}

#[test]
fn the_key_of_a_sink_is_never_shown_and_not_lost() {
    let hub = filtered_hub();
    let made = admin(
        &hub,
        "POST",
        "/databases/db/admin/pull-replication/generate-certificate?validYears=2",
        &Value::Null,
    );
    let file = model::base64_bytes(made["Certificate"].as_str().unwrap()).unwrap();
    let pair = KeyPair::from_pfx(&file, "").unwrap();
    assert_eq!(made["Thumbprint"], pair.certificate().thumbprint());
    assert_eq!(made["PublicKey"], model::base64_text(pair.certificate().der()));
    register(&hub, &pair, &json!(["a/*"]), &json!(null));
    put(&hub, "a/1");
    let (sink, id) = sink_of(&hub, Some(&pair));
    wait_until(|| !sink.document("a/1").is_null());

    let mut record = sink.get("/admin/databases?name=db").json();
    let stored = &record["SinkPullReplications"][0];
    assert_eq!(stored["HubName"], "h");
    for secret in ["CertificateWithPrivateKey", "CertificatePassword"] {
        assert_eq!(stored.get(secret), None);
    }
    let export = sink.send("POST", "/databases/db/smuggler/export", b"{}");
    assert_eq!(export.status, 200);
    let export = String::from_utf8(plain(&export.body)).unwrap();
    assert!(export.contains("SinkPullReplications"), "{export}");
    let hidden = sink.get("/databases/db/admin/record");
    for shown in [record.to_string(), hidden.text(), task(&sink, id).to_string(), export] {
        assert!(!shown.contains("hush") && !shown.contains("CertificateWithPrivateKey"), "{shown}");
    }
    let of_hub = admin(&hub, "GET", "/admin/databases?name=db", &Value::Null);
    assert_eq!(of_hub.get("ReplicationHubAccesses"), None);

    // Whoever changes the record or the task without it keeps it.
    let etag = record["Etag"].to_string();
    record["Settings"] = json!({});
    let body = record.to_string();
    let reply =
        sink.send_with("PUT", "/admin/databases?name=db", &[("ETag", &etag)], body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let changed = json!({"PullReplicationAsSink": {
        "TaskId": id, "Name": "edge", "HubName": "h", "ConnectionStringName": "to", "Mode": "HubToSink"
    }});
    assert_eq!(sink.send("POST", SINK, changed.to_string().as_bytes()).status, 201);
    put(&hub, "a/2");
    wait_until(|| !sink.document("a/2").is_null());
}
