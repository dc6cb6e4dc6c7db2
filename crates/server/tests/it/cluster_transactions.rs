//! Cluster-wide transactions, with the recorded responses of RavenDB.

use platform::Platform;
use serde_json::{Value, json};

use crate::{
    http_client::Reply,
    resources::{pseudo_random, server_with},
    test_server::TestServer,
};

const WITH_GUARDS: [(&str, &str); 1] = [("Raven-Client-Version", "5.4.0")];

fn send(server: &TestServer, headers: &[(&str, &str)], commands: &Value) -> Reply {
    let commands = commands.to_string();
    let body = format!(r#"{{"Commands":{commands},"TransactionMode":"ClusterWide"}}"#);
    server.send_with("POST", "/databases/db/bulk_docs", headers, body.as_bytes())
}

fn done(server: &TestServer, headers: &[(&str, &str)], commands: &Value) -> Value {
    let reply = send(server, headers, commands);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

fn refused(server: &TestServer, commands: &Value) -> Value {
    let reply = send(server, &WITH_GUARDS, commands);
    assert_eq!(reply.status, 409, "{}", reply.text());
    reply.json()
}

fn put(id: &str, change_vector: Option<&str>) -> Value {
    let document = json!({"N": 1, "@metadata": {"@collection": "Users"}});
    json!({"Type": "PUT", "Id": id, "ChangeVector": change_vector, "Document": document})
}

fn delete(id: &str, change_vector: Option<&str>) -> Value {
    json!({"Type": "DELETE", "Id": id, "ChangeVector": change_vector})
}

fn put_value(key: &str, index: u64, value: &Value) -> Value {
    json!({"Type": "CompareExchangePUT", "Id": key, "Index": index, "Document": {"Object": value}})
}

fn values(server: &TestServer, query: &str) -> Value {
    server.get(&format!("/databases/db/cmpxchg{query}")).json()["Results"].clone()
}

#[test]
fn documents_and_values_change_atomically() {
    let server = TestServer::with_database();
    let commands = json!([
        put_value("Mine", 0, &json!("x")),
        put("c/1", None),
        delete("nope", None),
        put("c/2", None)
    ]);
    let answer = done(&server, &[], &commands);
    let index = answer["TransactionIndex"].as_u64().unwrap();
    let results = answer["Results"].as_array().unwrap();
    let kinds: Vec<_> = results.iter().map(|result| result["Type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["PUT", "DELETE", "PUT", "CompareExchangePUT"]);
    assert_eq!(results[1]["Id"], "nope");
    assert_eq!(results[3], json!({"Type": "CompareExchangePUT", "Key": "Mine", "Index": index}));
    let version = results[2]["@change-vector"].as_str().unwrap();
    assert!(version.starts_with("RAFT:3-") && version.len() == "RAFT:3-".len() + 22, "{version}");
    let document = server.document("c/2");
    assert_eq!(document["@metadata"]["@change-vector"], version);
    assert_eq!(document["@metadata"]["@flags"], "FromClusterTransaction");
    assert_eq!(document["@metadata"]["@last-modified"], results[2]["@last-modified"]);
    assert_eq!(
        values(&server, ""),
        json!([
            {"Key": "mine", "Value": {"Object": "x"}, "Index": index}
        ])
    );
    let empty = done(&server, &[], &json!([]));
    assert_eq!(empty, json!({"Results": [], "TransactionIndex": index + 1}));
}

#[test]
fn nothing_is_written_when_a_value_has_another_version() {
    let server = TestServer::with_database();
    let first = done(&server, &[], &json!([put_value("k", 0, &json!(1))]));
    let index = first["TransactionIndex"].as_u64().unwrap();
    let commands = json!([
        put_value("k", 55, &json!(2)),
        put_value("new", 7, &json!(2)),
        {"Type": "CompareExchangeDELETE", "Id": "gone", "Index": 3},
        {"Type": "CompareExchangeDELETE", "Id": "never", "Index": 0},
        put("c/1", None)
    ]);
    let error = refused(&server, &commands);
    assert_eq!(error["Type"], "Raven.Client.Exceptions.ClusterTransactionConcurrencyException");
    let message = format!(
        "Failed to execute cluster transaction due to the following issues: Concurrency check failed \
         for putting the key 'k'. Requested index: 55, actual index: {index}\nConcurrency check \
         failed for putting the key 'new'. Requested index: 7, actual index: -1\nConcurrency check \
         failed for deleting the key 'gone'. Requested index: 3, actual index: -1"
    );
    assert_eq!(error["Message"], message.as_str());
    let expected = json!([
        {"Type": "CompareExchange", "Id": "k", "Expected": 55, "Actual": index},
        {"Type": "CompareExchange", "Id": "new", "Expected": 7, "Actual": -1},
        {"Type": "CompareExchange", "Id": "gone", "Expected": 3, "Actual": -1}
    ]);
    assert_eq!(error["ConcurrencyViolations"], expected);
    assert_eq!((&error["Id"], &error["ExpectedChangeVector"]), (&Value::Null, &Value::Null));
    assert!(server.document("c/1").is_null());
    assert_eq!(values(&server, "").as_array().unwrap().len(), 1);
}

#[test]
fn atomic_guards_refuse_a_write_based_on_an_older_version() {
    let server = TestServer::with_database();
    let first = done(&server, &WITH_GUARDS, &json!([put("c/1", Some("A:1-abc"))]));
    let index = first["TransactionIndex"].as_u64().unwrap();
    let version = first["Results"][0]["@change-vector"].as_str().unwrap().to_owned();
    assert!(version.contains(&format!(",TRXN:{index}-")), "{version}");
    assert_eq!(server.document("c/1")["@metadata"]["@change-vector"], version.as_str());
    let guard = json!([
        {"Key": "rvn-atomic/c/1", "Value": {"Object": {"Id": "c/1"}}, "Index": index}
    ]);
    assert_eq!(values(&server, ""), guard);

    for stale in [None, Some(""), Some("RAFT:1-AAAAAAAAAAAAAAAAAAAAAA")] {
        let error = refused(&server, &json!([put("c/1", stale)]));
        let message = error["Message"].as_str().unwrap();
        assert!(message.contains("Guard compare exchange value 'rvn-atomic/c/1'"), "{message}");
        let violation = json!([
            {"Type": "Document", "Id": "rvn-atomic/c/1", "Expected": 0, "Actual": index}
        ]);
        assert_eq!(error["ConcurrencyViolations"], violation);
    }
    // Guards are not checked for clients that do not support or disable them.
    done(&server, &[("Raven-Client-Version", "5.1.0")], &json!([put("c/1", None)]));
    let off = "/databases/db/bulk_docs?disableAtomicDocumentWrites=true";
    let body = json!({"Commands": [put("c/1", None)], "TransactionMode": "ClusterWide"});
    let reply = server.send_with("POST", off, &WITH_GUARDS, body.to_string().as_bytes());
    assert_eq!(reply.status, 201);
    assert_eq!(values(&server, ""), guard);

    let second = done(&server, &WITH_GUARDS, &json!([put("c/1", Some(&version))]));
    let version = second["Results"][0]["@change-vector"].as_str().unwrap();
    refused(&server, &json!([delete("c/1", Some("RAFT:1-AAAAAAAAAAAAAAAAAAAAAA"))]));
    // A write outside of a transaction preserves the data that the guard needs.
    let alone = server.put("c/1", r#"{"N":2,"@metadata":{"@collection":"Users"}}"#);
    let number = version.split_once("TRXN:").unwrap().1;
    assert!(alone.contains(number), "{alone} {version}");
    assert!(server.document("c/1")["@metadata"].get("@flags").is_none());
    let other = server.put("other", "{}");
    assert!(other.contains("RAFT:4-") && !other.contains("TRXN"), "{other}");
    // Clients also send the version that they loaded, which takes precedence over the expected one.
    let mut loaded = put("c/1", Some("A:1-abc"));
    loaded["OriginalChangeVector"] = alone.as_str().into();
    done(&server, &WITH_GUARDS, &json!([loaded]));
    refused(&server, &json!([loaded]));
    done(&server, &WITH_GUARDS, &json!([delete("c/1", None)]));
    assert_eq!(values(&server, ""), json!([]));
    assert!(server.document("c/1").is_null());
}

#[test]
fn invalid_transactions_are_rejected_with_the_errors_of_the_protocol() {
    let server = TestServer::with_database();
    let long = "k".repeat(600);
    let apply = "Raven.Server.Rachis.RachisApplyException";
    let expires = json!({"Object": 1, "@metadata": {"@expires": "x"}});
    for (command, kind, message) in [
        (
            json!({"Type": "PATCH", "Id": "a", "Patch": {"Script": ""}}),
            "System.ArgumentOutOfRangeException",
            "(Parameter 'The command type PATCH is not supported in cluster transaction.')",
        ),
        (
            json!({"Type": "ForceRevisionCreation", "Id": "a"}),
            "System.ArgumentOutOfRangeException",
            "ForceRevisionCreation is not supported",
        ),
        (put("cs/", None), apply, "Document id cs/ cannot end with '|' or '/'"),
        (put(" ", None), apply, "cannot be null, empty or white spaces"),
        (json!({"Type": "PUT", "Document": {}}), apply, "Type:(PUT), Index:(0)"),
        (delete("cs|", None), apply, "Document id cs| cannot end"),
        (put_value("", 4, &json!(1)), apply, "Type:(CompareExchangePUT), Index:(4)"),
        (
            json!({"Type": "DELETE", "Id": "c", "IdPrefixed": true}),
            apply,
            "Deleting by prefix is not supported on cluster transaction",
        ),
        (
            put_value("rvn-atomic/q", 0, &json!(1)),
            "Raven.Client.Exceptions.CompareExchangeInvalidKeyException",
            "You cannot manipulate the atomic guard 'rvn-atomic/q' via the cluster-wide session",
        ),
        (
            put_value(&long, 0, &json!(1)),
            "Raven.Client.Exceptions.CompareExchangeKeyTooBigException",
            "the key was 600 bytes",
        ),
        (
            json!({"Type": "CompareExchangePUT", "Id": "k", "Index": -5, "Document": {}}),
            "System.IO.InvalidDataException",
            "Index must be a non-negative number",
        ),
        (
            json!({"Type": "CompareExchangePUT", "Id": "k", "Index": 0}),
            "System.InvalidOperationException",
            "must have a 'Document' property",
        ),
        (
            json!({"Type": "CompareExchangePUT", "Id": "k", "Index": 0, "Document": expires}),
            apply,
            "`Expires` for compare exchange key:k database:db.",
        ),
        (put(&"d".repeat(600), None), "System.ArgumentException", "512"),
    ] {
        let reply = send(&server, &WITH_GUARDS, &json!([put("good", None), command]));
        assert_eq!(reply.status, 500, "{command}: {}", reply.text());
        let error = reply.json();
        assert_eq!(error["Type"], kind, "{command}: {error}");
        assert!(error["Message"].as_str().unwrap().contains(message), "{command}: {error}");
        assert!(server.document("good").is_null());
    }
    assert_eq!(values(&server, ""), json!([]));
    let alone = server.batch(r#"{"Type":"CompareExchangePUT","Id":"k","Document":{"Object":1}}"#);
    assert_eq!((alone.status, alone.json()), (201, json!({"Results": []})));
}

#[test]
fn a_document_changes_its_collection_and_an_identity_completes_an_id() {
    let server = TestServer::with_database();
    server.put("c/1", r#"{"@metadata":{"@collection":"Old"}}"#);
    done(&server, &[], &json!([put("c/1", None)]));
    assert_eq!(server.document("c/1")["@metadata"]["@collection"], "Users");
    let ids: Vec<Value> = (0..2)
        .map(|_| done(&server, &[], &json!([put("cs|", None)]))["Results"][0]["@id"].clone())
        .collect();
    assert_eq!(ids, ["cs/1", "cs/2"]);
    let next = server.send("POST", "/databases/db/identity/next?name=CS", b"");
    assert_eq!(next.json(), json!({"NewIdentityValue": 3}));
}

#[test]
fn a_retried_transaction_gets_the_same_answer() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    let target = "/databases/db/bulk_docs?raft-request-id=one";
    let body = json!({"Commands": [put("c/1", None)], "TransactionMode": "ClusterWide"});
    let send = |server: &TestServer| {
        let reply = server.send_with("POST", target, &WITH_GUARDS, body.to_string().as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        let answer = reply.json();
        (answer["TransactionIndex"].clone(), answer["Results"][0]["@change-vector"].clone())
    };
    let first = send(&server);
    assert_eq!(send(&server), first);
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(send(&server), first);
    assert_eq!(server.document("c/1")["@metadata"]["@change-vector"], first.1);
    // The next transaction continues where the previous one stopped.
    let second = done(&server, &WITH_GUARDS, &json!([put("c/2", None)]));
    assert!(second["Results"][0]["@change-vector"].as_str().unwrap().starts_with("RAFT:2-"));
    assert!(server.document("c/2")["N"] == 1);
}

#[test]
fn each_transaction_of_concurrent_clients_is_executed_once() {
    let server = TestServer::with_database();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..20 {
                    done(
                        server,
                        &WITH_GUARDS,
                        &json!([put(&format!("c/{client}-{number}"), None)]),
                    );
                }
            });
        }
    });
    let reply = server.get("/databases/db/docs?start=0&pageSize=1000");
    let documents = reply.json()["Results"].as_array().unwrap().clone();
    assert_eq!(documents.len(), 160);
    let number = |document: &Value| {
        let version = document["@metadata"]["@change-vector"].as_str().unwrap();
        version["RAFT:".len()..version.find('-').unwrap()].parse::<u64>().unwrap()
    };
    let mut numbers: Vec<u64> = documents.iter().map(number).collect();
    // Newest first: they were executed in the order in which they were committed.
    assert!(numbers.is_sorted_by(|left, right| left > right), "{numbers:?}");
    numbers.reverse();
    assert_eq!(numbers, (1..=160).collect::<Vec<u64>>());
}

#[test]
fn a_transaction_without_memory_is_refused_before_it_is_replicated() {
    let (server, simulation) = server_with(&["--Memory.LimitInMb=64"]);
    simulation.memory.set_taken(0);
    let text = pseudo_random(2500);
    for first in (0..6000).step_by(500) {
        let puts: Vec<Value> = (first..first + 500)
            .map(|number| {
                let document = json!({"Text": format!("{number}{text}")});
                json!({"Type": "PUT", "Id": format!("c/{number}"), "Document": document})
            })
            .collect();
        let stored = json!({"Commands": puts}).to_string();
        let reply = server.send("POST", "/databases/db/bulk_docs", stored.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    // One document per page, so that all pages change.
    let puts: Vec<Value> =
        (0..6000).step_by(2).map(|number| put(&format!("c/{number}"), None)).collect();
    let reply = send(&server, &[], &json!(puts));
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert!(reply.text().contains("the changes of one transaction"), "{}", reply.text());
    done(&server, &[], &json!([put("small/1", None), put_value("mine", 0, &json!(1))]));
    assert_eq!(server.document("small/1")["N"], 1);
    assert_eq!(server.document("c/0")["Text"], format!("0{text}"));
    for some in puts.chunks(100) {
        done(&server, &[], &json!(some));
    }
    assert_eq!(server.document("c/0")["N"], 1);
}
