//! Removing selected revisions, and reverting documents to selected revisions.

use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

const REMOVE: &str = "/databases/db/admin/revisions";
const REVERT: &str = "/databases/db/revisions/revert/docs";

fn server() -> TestServer {
    let server = TestServer::with_database();
    let configuration = br#"{"Default":{"Disabled":false}}"#;
    let target = "/databases/db/admin/revisions/config";
    assert_eq!(server.send("POST", target, configuration).status, 200);
    server
}

/// Stores this many versions of a document; returns their change vectors, oldest first.
fn versions(server: &TestServer, id: &str, count: usize) -> Vec<String> {
    let put = |n| server.put(id, &json!({"N": n, "@metadata": {"@collection": "As"}}).to_string());
    (0..count).map(put).collect()
}

fn send(server: &TestServer, method: &str, target: &str, body: &Value) -> Reply {
    server.send(method, target, body.to_string().as_bytes())
}

fn removed(server: &TestServer, body: &Value) -> Value {
    let reply = send(server, "DELETE", REMOVE, body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["TotalDeletes"].clone()
}

fn count(server: &TestServer, id: &str) -> Value {
    let target = format!("/databases/db/revisions/count?id={id}");
    server.get(&target).json()["RevisionsCount"].clone()
}

fn refused(reply: &Reply) -> String {
    assert_eq!(reply.status, 500, "{}", reply.text());
    reply.json()["Message"].as_str().unwrap().to_owned()
}

#[test]
fn revisions_are_removed_by_change_vector_by_time_or_all_at_once() {
    let server = server();
    let of_first = versions(&server, "a/1", 5);
    versions(&server, "a/2", 5);
    let named =
        |id: &str, version: &str| json!({"DocumentIds": [id], "RevisionsChangeVectors": [version]});
    assert_eq!(removed(&server, &named("A/1", &of_first[1])), 1);
    assert_eq!(removed(&server, &named("a/1", &of_first[1])), 0);
    assert_eq!(count(&server, "a/1"), 4);
    let foreign = send(&server, "DELETE", REMOVE, &named("a/2", &of_first[0]));
    assert!(refused(&foreign).contains("doesn't belong to the doc \"a/2\" but to the doc \"a/1\""));

    let target = "/databases/db/revisions?id=a/1&metadataOnly=true";
    let revisions = server.get(target).json()["Results"].clone();
    let made = |index: usize| revisions[index]["@metadata"]["@last-modified"].clone();
    // Between the newest and the oldest, both included.
    let span =
        json!({"DocumentIds": ["a/1"], "From": made(3), "To": "2999-01-01T00:00:00.0000000Z"});
    assert_eq!(removed(&server, &span), 4);
    for (body, total) in [
        (json!({"DocumentIds": ["a/2"], "Before": "2020-01-01T00:00:00.0000000Z"}), 0),
        (json!({"DocumentIds": ["a/2"], "After": "2999-01-01T00:00:00.0000000Z"}), 0),
        (json!({"DocumentIds": ["a/1", "a/2", "nope"]}), 5),
    ] {
        assert_eq!(removed(&server, &body), total, "{body}");
    }
    for (body, message) in [
        (json!({}), "cannot be null or empty"),
        (json!({"DocumentIds": []}), "cannot be null or empty"),
        (json!({"DocumentIds": ["a/1"], "From": made(0), "To": made(0)}), "greater than 'From'"),
        (json!({"DocumentIds": ["a/1"], "From": "yesterday"}), "System.DateTime"),
        (
            json!({"DocumentIds": ["a/1"], "To": made(0), "RevisionsChangeVectors": ["x"]}),
            "cannot have a time range",
        ),
        (json!({"DocumentIds": "a/1"}), "'DocumentIds' to an array"),
        // None of these may be interpreted as all revisions.
        (json!({"DocumentIds": ["a/1"], "RevisionsChangeVectors": "x"}), "to an array"),
        (json!({"DocumentIds": ["a/1"], "RevisionsChangeVectors": [5]}), "'5'"),
    ] {
        let message_there = refused(&send(&server, "DELETE", REMOVE, &body));
        assert!(message_there.contains(message), "{body}: {message_there}");
    }
    versions(&server, "a/1", 1);
    let left = count(&server, "a/1");
    send(&server, "DELETE", REMOVE, &json!({"DocumentIds": ["a/1"], "RevisionsChangeVectors": {}}));
    assert_eq!(count(&server, "a/1"), left);
}

#[test]
fn manually_created_revisions_are_removed_only_on_request() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    assert_eq!(server.batch(r#"{"Type":"ForceRevisionCreation","Id":"a/1"}"#).status, 201);
    assert_eq!(removed(&server, &json!({"DocumentIds": ["a/1"]})), 0);
    let all = json!({"DocumentIds": ["a/1"], "RemoveForceCreatedRevisions": true});
    assert_eq!(removed(&server, &all), 1);
}

#[test]
fn documents_are_reverted_to_revisions_atomically() {
    let server = server();
    let (first, second) = (versions(&server, "a/1", 3), versions(&server, "a/2", 3));
    let revert =
        |chosen: Value| send(&server, "POST", REVERT, &json!({"IdToChangeVector": chosen}));
    assert_eq!(revert(json!({"a/1": first[0], "A/2": second[1]})).status, 200);
    let document = server.document("a/1");
    assert_eq!((&document["N"], &server.document("a/2")["N"]), (&json!(0), &json!(1)));
    assert_eq!(document["@metadata"]["@flags"], "HasRevisions, Reverted");
    assert_eq!(count(&server, "a/1"), 4);

    for (chosen, message) in [
        (json!({"a/1": first[2], "a/2": "A:9999-x"}), "doesn't exist (id: 'a/2')"),
        (json!({"a/1": first[2], "a/2": first[1]}), "doesn't belong to the doc \"a/2\""),
        (json!({"a/1": first[2], "a/2": ""}), "Change Vector is null or empty"),
        (json!({"a/1": null}), "Change Vector is null or empty"),
    ] {
        let said = refused(&revert(chosen.clone()));
        assert!(said.contains(message), "{chosen}: {said}");
        assert_eq!(server.document("a/1")["N"], 0, "{chosen}");
    }
    for nothing in [json!({}), Value::Null] {
        assert_eq!(revert(nothing).status, 200);
    }
    assert!(refused(&revert(json!(5))).contains("'5' in 'IdToChangeVector' to an object"));

    server.send("DELETE", "/databases/db/docs?id=a/1", b"");
    assert_eq!(revert(json!({"a/1": first[2]})).status, 200);
    assert_eq!(server.document("a/1")["N"], 2, "a deleted document is restored");
}
