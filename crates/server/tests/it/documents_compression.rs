//! Compressed documents over HTTP: only their reported sizes differ.

use platform::Platform;
use serde_json::{Value, json};

use crate::test_server::TestServer;

const WRITE: &str = "/databases/db/admin/documents-compression/config";
const READ: &str = "/databases/db/documents-compression/config";
/// More than the first dictionary needs.
const USERS: usize = 200;

fn configure(server: &TestServer, configuration: &Value) {
    let reply = server.send("POST", WRITE, configuration.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.json()["RaftCommandIndex"].is_u64());
}

fn user(number: usize) -> Value {
    json!({
        "FirstName": format!("Name {number}"), "LastName": format!("Surname {}", number * 7919 % 997),
        "Address": {"Street": format!("Main street {}", number % 83), "Country": "United Kingdom"},
        "IsActive": true, "Tags": ["customer", "newsletter", "discount"],
        "@metadata": {"@collection": "Users", "Raven-Clr-Type": "Orders.User, Orders"}
    })
}

fn write_all(server: &TestServer, collection: &str, prefix: &str) {
    let commands: Vec<Value> = (0..USERS)
        .map(|number| {
            let mut document = user(number);
            document["@metadata"]["@collection"] = json!(collection);
            let id = format!("{prefix}/{number}");
            json!({"Id": id, "ChangeVector": null, "Type": "PUT", "Document": document})
        })
        .collect();
    let body = json!({"Commands": commands}).to_string();
    let reply = server.send("POST", "/databases/db/bulk_docs", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn wait_for_dictionary(server: &TestServer) {
    let target = "/databases/db/debug/storage/compression-dictionaries";
    while server.get(target).json()["InStorage"]["NumberOfEntries"] == 0 {
        std::thread::yield_now();
    }
}

/// The size of a document, its uncompressed size, and whether it is compressed.
fn sizes(server: &TestServer, id: &str) -> (u64, u64, bool) {
    let shown = server.get(&format!("/databases/db/docs/size?id={id}")).json();
    let number = |name: &str| shown[name].as_u64().unwrap();
    assert!(shown["HumaneActualSize"].is_string() && shown["DocId"] == id);
    (number("AllocatedSize"), number("ActualSize"), shown["IsCompressed"].as_bool().unwrap())
}

#[test]
fn only_the_configured_collection_is_compressed_and_responses_are_unchanged() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    configure(&server, &json!({"Collections": ["users"]}));
    let shown = json!({"Collections": ["users"], "CompressAllCollections": false, "CompressRevisions": false});
    assert_eq!(server.get(READ).json(), shown);
    write_all(&server, "Users", "u");
    write_all(&server, "People", "p");
    wait_for_dictionary(&server);
    write_all(&server, "Users", "u");
    let (stored, actual, is_compressed) = sizes(&server, "u/7");
    assert!(is_compressed && 2 * stored < actual, "{stored} of {actual}");
    let (plain, plain_actual, is_compressed) = sizes(&server, "p/7");
    assert!(!is_compressed && plain == plain_actual);
    let without_metadata = |mut document: Value| {
        document.as_object_mut().unwrap().remove("@metadata");
        document
    };
    for number in [0, 7, USERS - 1] {
        let read = server.document(&format!("u/{number}"));
        assert_eq!(without_metadata(read), without_metadata(user(number)));
    }
    let query = r#"{"Query":"from Users where LastName = 'Surname 0' and IsActive = true","WaitForNonStaleResults":true}"#;
    let found = server.send("POST", "/databases/db/queries", query.as_bytes()).json();
    assert_eq!(found["Results"][0]["FirstName"], "Name 0", "{found}");
    let patch = r#"{"Patch":{"Script":"this.FirstName = 'Changed'"}}"#;
    let patched = server.send("PATCH", "/databases/db/docs?id=u/3", patch.as_bytes());
    assert_eq!(patched.json()["Status"], "Patched", "{}", patched.text());
    assert_eq!(server.document("u/3")["FirstName"], "Changed");

    configure(&server, &json!({}));
    assert!(sizes(&server, "u/7").2, "documents already written are not changed");
    server.put("u/7", &user(7).to_string());
    assert!(!sizes(&server, "u/7").2);
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert!(sizes(&server, "u/8").2);
    assert_eq!(without_metadata(server.document("u/8")), without_metadata(user(8)));
}

#[test]
fn revisions_have_their_own_compression_setting() {
    let server = TestServer::with_database();
    configure(&server, &json!({"CompressRevisions": true}));
    let revisions = br#"{"Default":{"Disabled":false}}"#;
    server.send("POST", "/databases/db/admin/revisions/config", revisions);
    write_all(&server, "Users", "u");
    wait_for_dictionary(&server);
    let mut changed = user(7);
    changed["FirstName"] = json!("Changed");
    server.put("u/7", &changed.to_string());
    assert!(!sizes(&server, "u/7").2);
    let newest = server.get("/databases/db/revisions?id=u/7&pageSize=1").json();
    let newest = &newest["Results"][0];
    assert_eq!(newest["FirstName"], "Changed");
    let version = newest["@metadata"]["@change-vector"].as_str().unwrap();
    let target = format!("/databases/db/revisions/size?changeVector={version}");
    let shown = server.get(&target).json();
    assert_eq!(shown["IsCompressed"], true, "{shown}");
    assert!(2 * shown["AllocatedSize"].as_u64().unwrap() < shown["ActualSize"].as_u64().unwrap());
}

#[test]
fn invalid_configurations_are_rejected() {
    let server = TestServer::with_database();
    assert_eq!(server.get(READ).status, 404);
    for body in [r#"{"Collections":"x"}"#, r#"{"CompressRevisions":"yes"}"#, "[]", "null", ""] {
        assert_eq!(server.send("POST", WRITE, body.as_bytes()).status, 500, "{body}");
    }
    assert_eq!(server.get(READ).status, 404);
}
