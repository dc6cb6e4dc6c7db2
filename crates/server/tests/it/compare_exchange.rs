//! `/cmpxchg`, with the recorded responses of RavenDB.

use platform::Platform;
use serde_json::{Value, json};

use crate::test_server::TestServer;

fn put(server: &TestServer, query: &str, body: &str) -> Value {
    let target = format!("/databases/db/cmpxchg?{query}");
    let reply = server.send("PUT", &target, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn get(server: &TestServer, query: &str) -> Value {
    let reply = server.get(&format!("/databases/db/cmpxchg?{query}"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["Results"].clone()
}

fn delete(server: &TestServer, query: &str) -> Value {
    let reply = server.send("DELETE", &format!("/databases/db/cmpxchg?{query}"), b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[test]
fn a_value_is_put_read_changed_and_deleted() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    let first = put(&server, "key=K1&index=0", r#"{"Object":{"A":1},"Extra":1}"#);
    let index = first["Index"].as_u64().unwrap();
    let value = json!({"Object": {"A": 1}, "Extra": 1});
    assert_eq!(first, json!({"Index": index, "Value": value, "Successful": true}));
    let refused = put(&server, "key=k1&index=0", r#"{"Object":2}"#);
    assert_eq!(refused, json!({"Index": index, "Value": value, "Successful": false}));
    assert_eq!(get(&server, "key=K1"), json!([{"Key": "K1", "Value": value, "Index": index}]));
    server.stop();

    let server = TestServer::start(platform, &[]);
    assert_eq!(get(&server, ""), json!([{"Key": "k1", "Value": value, "Index": index}]));
    let second = put(&server, &format!("key=K1&index={index}"), r#"{"Object":null}"#);
    assert_eq!(second["Successful"], true);
    assert!(index < second["Index"].as_u64().unwrap());
    assert_eq!(delete(&server, &format!("key=K1&index={index}"))["Successful"], false);
    let deleted = delete(&server, &format!("key=K1&index={}", second["Index"]));
    assert_eq!(deleted["Value"], json!({"Object": null}));
    assert_eq!(delete(&server, "key=K1&index=3")["Value"], Value::Null);
    assert_eq!(server.get("/databases/db/cmpxchg?key=k1").status, 404);
}

#[test]
fn pages_and_missing_keys_are_returned() {
    let server = TestServer::with_database();
    for key in ["b", "A2", "a1"] {
        put(&server, &format!("key={key}&index=0"), r#"{"Object":1}"#);
    }
    let keys = |query: &str| -> Vec<Value> {
        let listed = get(&server, query);
        listed.as_array().unwrap().iter().map(|entry| entry["Key"].clone()).collect()
    };
    for (query, expected) in [
        ("", vec!["a1", "a2", "b"]),
        ("pageSize=0", vec!["a1", "a2", "b"]),
        ("pageSize=-1", vec!["a1", "a2", "b"]),
        ("start=1&pageSize=1", vec!["a2"]),
        ("start=-1", vec![]),
        ("startsWith=A", vec!["a1", "a2"]),
        ("startsWith=A&start=1", vec!["a2"]),
        ("key=B&key=zz&key=b", vec!["B", "zz", "b"]),
    ] {
        assert_eq!(keys(query), expected, "{query}");
    }
    let missing = json!({"Key": "zz", "Value": null, "Index": -1});
    assert_eq!(get(&server, "key=zz&key=b")[0], missing);
    let reply = server.get("/databases/db/cmpxchg?key=");
    assert_eq!((reply.status, reply.text().as_str()), (404, ""));
}

#[test]
fn invalid_requests_are_rejected_with_the_errors_of_the_protocol() {
    let server = TestServer::with_database();
    let long = "k".repeat(600);
    let long_target = format!("key={long}&index=0");
    let expires = |at: &str| format!(r#"{{"@metadata":{{"@expires":{at}}}}}"#);
    let text = expires("\"soon\"");
    for (query, body, kind, message) in [
        ("index=0", "{}", "System.ArgumentException", "Query string key is mandatory"),
        ("key=&index=0", "{}", "System.ArgumentException", "Query string key is mandatory"),
        ("key=a", "{}", "System.ArgumentException", "Query string index is mandatory"),
        ("key=a&index=x", "{}", "System.ArgumentException", "as long, value was: x"),
        ("key=a&index=-1", "{}", "System.IO.InvalidDataException", "a non-negative number"),
        ("key=a&index=0", "", "System.IO.EndOfStreamException", "Stream ended"),
        ("key=a&index=0", "[1]", "Sparrow.Exceptions.InvalidStartOfObjectException", "StartArray"),
        ("key=a&index=0", &text, "Raven.Server.Rachis.RachisApplyException", "key:a database:db."),
        ("key=a&index=0", &expires("5"), "Raven.Server.Rachis.RachisApplyException", "`Expires`"),
        ("key=a&index=0", &expires("null"), "Raven.Server.Rachis.RachisApplyException", ""),
        (
            &long_target,
            "{}",
            "Raven.Client.Exceptions.CompareExchangeKeyTooBigException",
            "cannot exceed 512 bytes, but the key was 600 bytes",
        ),
    ] {
        let target = format!("/databases/db/cmpxchg?{query}");
        let reply = server.send("PUT", &target, body.as_bytes());
        assert_eq!(reply.status, 500, "{query}: {}", reply.text());
        let error = reply.json();
        assert_eq!(error["Type"], kind, "{query} {body}: {error}");
        assert!(error["Message"].as_str().unwrap().contains(message), "{error}");
    }
    assert_eq!(get(&server, ""), json!([]));
    assert_eq!(server.get(&format!("/databases/db/cmpxchg?key={long}")).status, 404);
    assert_eq!(delete(&server, &long_target)["Successful"], true);
}

#[test]
fn a_retried_request_gets_the_same_answer() {
    let server = TestServer::with_database();
    let first = put(&server, "key=a&index=0&raft-request-id=one", r#"{"Object":1}"#);
    assert_eq!(put(&server, "key=a&index=0&raft-request-id=one", r#"{"Object":1}"#), first);
    let other = put(&server, "key=a&index=0&raft-request-id=two", r#"{"Object":1}"#);
    assert_eq!(other["Successful"], false);
}

#[test]
fn values_are_counted_and_deleted_with_their_database() {
    let server = TestServer::with_database();
    let counts = || {
        let stats = server.get("/databases/db/stats/detailed").json();
        let count = |name: &str| stats[name].as_u64().unwrap();
        (count("CountOfCompareExchange"), count("CountOfCompareExchangeTombstones"))
    };
    for key in ["a", "b", "c"] {
        put(&server, &format!("key={key}&index=0"), "{}");
    }
    let index = get(&server, "key=a")[0]["Index"].clone();
    delete(&server, &format!("key=a&index={index}"));
    assert_eq!(counts(), (2, 1));
    let body = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
    assert_eq!(server.send("DELETE", "/admin/databases", body).status, 200);
    server.create("db");
    assert_eq!(counts(), (0, 0));
    assert_eq!(get(&server, ""), json!([]));
}

#[test]
fn values_are_included_with_documents_and_read_by_patches() {
    let server = TestServer::with_database();
    let index = put(&server, "key=Ck1&index=0", r#"{"Object":{"A":1}}"#)["Index"].clone();
    server.put("h/1", r#"{"K":"Ck1","L":["ck1","nope"],"N":{"K":"ck1"}}"#);
    let value = json!({"Object": {"A": 1}});
    let found = |key: &str| json!({"Key": key, "Index": index, "Value": value});
    let missing = json!({"Key": "nope", "Index": -1, "Value": null});
    for (query, expected) in [
        ("cmpxchg=K", json!({"Ck1": found("Ck1")})),
        ("cmpxchg=L", json!({"ck1": found("ck1"), "nope": missing})),
        ("cmpxchg=L[]", json!({"ck1": found("ck1"), "nope": missing})),
        ("cmpxchg=N.K", json!({"ck1": found("ck1")})),
        ("cmpxchg=K&cmpxchg=L[]", json!({"Ck1": found("Ck1"), "nope": missing})),
        ("cmpxchg=Zip", Value::Null),
        ("cmpxchg=", Value::Null),
    ] {
        let answer = server.get(&format!("/databases/db/docs?id=h/1&{query}")).json();
        assert_eq!(answer["CompareExchangeValueIncludes"], expected, "{query}");
    }
    let tag = |query: &str| {
        let reply = server.get(&format!("/databases/db/docs?id=h/1&{query}"));
        reply.header("etag").unwrap().to_owned()
    };
    let before = tag("cmpxchg=K");
    put(&server, &format!("key=ck1&index={index}"), r#"{"Object":{"A":2}}"#);
    assert_ne!(tag("cmpxchg=K"), before, "the cached result is outdated");

    let patch = |script: &str| {
        let body = json!({"Patch": {"Script": script}}).to_string();
        let reply = server.send("PATCH", "/databases/db/docs?id=h/1", body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    patch("this.Found = cmpxchg('CK1').A; this.Missing = cmpxchg('nope');");
    let document = server.document("h/1");
    assert_eq!((&document["Found"], &document["Missing"]), (&json!(2), &Value::Null));
}

#[test]
fn a_list_of_any_length_is_streamed() {
    let server = TestServer::with_database();
    let large = |letter: &str| format!(r#"{{"Object":"{}","Last":1}}"#, letter.repeat(40 << 20));
    put(&server, "key=a&index=0", &large("x"));
    put(&server, "key=b&index=0", &large("y"));
    for number in 0..600 {
        let value = format!(r#"{{"Object":"{}"}}"#, "z".repeat(number));
        put(&server, &format!("key=many/{number:03}&index=0"), &value);
    }
    let keys = |listed: &Value| -> Vec<String> {
        let listed = listed.as_array().unwrap();
        listed.iter().map(|one| one["Key"].as_str().unwrap().to_owned()).collect()
    };
    let many: Vec<_> = (0..600).map(|number| format!("many/{number:03}")).collect();
    let all = get(&server, "");
    assert_eq!(keys(&all)[..2], ["a", "b"]);
    assert_eq!(keys(&all)[2..], many);
    assert_eq!(all[1]["Value"], serde_json::from_str::<Value>(&large("y")).unwrap());
    assert_eq!(all[1], get(&server, "key=b")[0]);
    assert_eq!(all[599 + 2]["Value"]["Object"].as_str().unwrap().len(), 599);
    assert_eq!(keys(&get(&server, "startsWith=MANY/")), many);
    assert_eq!(keys(&get(&server, "startsWith=many/&start=7&pageSize=400")), many[7..407]);
    assert_eq!(keys(&get(&server, "start=1&pageSize=2")), ["b", "many/000"]);
    assert_eq!(get(&server, "start=602&pageSize=1"), json!([]));
}
