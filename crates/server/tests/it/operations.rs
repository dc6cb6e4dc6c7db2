//! Operations that continue after the response: deleting by query, compacting.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Requests the state of an operation until it has ended.
pub(crate) fn wait(server: &TestServer, target: &str, started: &Value) -> Value {
    let id = started["OperationId"].as_i64().unwrap();
    loop {
        let reply = server.get(&format!("{target}/operations/state?id={id}"));
        assert_eq!(reply.status, 200, "{target} {id}");
        let state = reply.json();
        if state["Status"] != "InProgress" {
            return state;
        }
    }
}

fn users(count: usize) -> TestServer {
    let server = TestServer::with_database();
    let put = |n: usize| {
        format!(
            r#"{{"Type":"PUT","Id":"users/{n}","Document":{{"N":{n},"@metadata":{{"@collection":"Users"}}}}}}"#
        )
    };
    let commands: Vec<String> = (0..count).map(put).collect();
    assert_eq!(server.batch(&commands.join(",")).status, 201);
    server.put("ports/1", "{}");
    server
}

fn delete(server: &TestServer, query: &str) -> Value {
    let body = json!({"Query": query}).to_string();
    let reply = server.send("DELETE", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait(server, "/databases/db", &reply.json())
}

fn count(server: &TestServer) -> Value {
    server.get("/databases/db/stats").json()["CountOfDocuments"].clone()
}

#[test]
fn documents_that_match_a_query_are_deleted() {
    // More documents than fit in one batch.
    let server = users(2500);
    for (query, deleted, left) in [
        ("from Users where startsWith(id(), 'users/24')", 111, 2390),
        ("from @all_docs where id() in ('users/1', 'users/1', 'nope')", 1, 2389),
        ("from Users limit 10", 10, 2379),
        ("from Users where id() = null", 0, 2379),
        ("from Nope", 0, 2379),
        ("from Users select N", 2378, 1),
    ] {
        let state = delete(&server, query);
        assert_eq!(state["Status"], "Completed", "{state}");
        let result = &state["Result"];
        assert_eq!((&result["Total"], &result["DocumentsProcessed"]), (&json!(deleted), &json!(0)));
        assert_eq!(count(&server), json!(left), "{query}");
    }
    let operations = server.get("/databases/db/operations").json();
    let first = &operations["Results"][0]["Description"];
    assert_eq!(
        (&first["Description"], &first["TaskType"]),
        (&json!("collection/Users"), &json!("DeleteByQuery"))
    );
    assert_eq!(
        first["DetailedDescription"]["Query"],
        "from Users where startsWith(id(), 'users/24')"
    );
}

#[test]
fn deleting_by_an_invalid_query_fails_with_its_reason() {
    let server = users(3);
    let state = delete(&server, "from index 'no/such'");
    assert_eq!(state["Status"], "Faulted");
    assert_eq!(state["Result"]["Message"], "There is no index with 'no/such' name.");
    assert_eq!(state["Result"]["StatusCode"], 500);
    let send = |target: &str, body: &str| {
        server.send("DELETE", &format!("/databases/db/queries{target}"), body.as_bytes()).json()
    };
    assert_eq!(
        send("", r#"{"Query":"from Users where id() = $p"}"#)["Type"],
        "Raven.Client.Exceptions.InvalidQueryException"
    );
    assert_eq!(send("", "{}")["Type"], "System.InvalidOperationException");
    let slow = send("?maxOpsPerSec=0", r#"{"Query":"from Users"}"#);
    assert_eq!(slow["Message"], "MaxOpsPerSecond must be greater than 0");
    assert_eq!(count(&server), json!(4));
}

#[test]
fn documents_that_match_an_index_query_are_deleted() {
    let server = users(3000);
    for (query, deleted, left) in [
        ("from Users where N < 10", 10, 2991),
        ("from Users where N >= 2000 limit 5", 5, 2986),
        ("from Users where N > 100 and N < 200 select distinct N", 99, 2887),
        ("from Users where N = 5", 0, 2887),
        ("from Users where N >= 0", 2886, 1),
    ] {
        let body = json!({"Query": query}).to_string();
        let target = "/databases/db/queries?staleTimeout=00:01:00&details=true";
        let started = server.send("DELETE", target, body.as_bytes()).json();
        let state = wait(&server, "/databases/db", &started);
        assert_eq!(
            (&state["Status"], &state["Result"]["Total"]),
            (&json!("Completed"), &json!(deleted)),
            "{query}: {state}"
        );
        let details = state["Result"]["Details"].as_array().unwrap();
        assert_eq!(details.len(), deleted, "{query}");
        assert!(details.iter().all(|detail| detail["Id"].as_str().unwrap().starts_with("users/")));
        assert_eq!(count(&server), json!(left), "{query}");
    }
    let operations = server.get("/databases/db/operations").json();
    assert_eq!(operations["Results"][0]["Description"]["Description"], "dynamic/Users");
}

#[test]
fn nothing_is_deleted_by_a_stale_index_unless_allowed() {
    let server = users(3);
    let found = json!({"Query": "from Users where N = 1"}).to_string();
    server.send("POST", "/databases/db/queries", found.as_bytes());
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    server.put("users/9", r#"{"N":1,"@metadata":{"@collection":"Users"}}"#);
    let delete = |options: &str| {
        let target = format!("/databases/db/queries{options}");
        wait(&server, "/databases/db", &server.send("DELETE", &target, found.as_bytes()).json())
    };
    for options in ["", "?allowStale=false&staleTimeout=00:00:00.01"] {
        let state = delete(options);
        assert_eq!(state["Status"], "Faulted", "{options}");
        let message = "Cannot perform bulk operation. Index is stale.";
        assert_eq!(state["Result"]["Message"], message, "{options}");
    }
    assert_eq!(count(&server), json!(5));
    assert_eq!(delete("?allowStale=true")["Result"]["Total"], 1);
    assert_eq!(count(&server), json!(4), "documents not yet indexed are not deleted");
}

#[test]
fn a_slow_delete_reports_progress_and_can_be_killed() {
    let server = users(500);
    let body = br#"{"Query":"from Users"}"#;
    let started = server.send("DELETE", "/databases/db/queries?maxOpsPerSec=1", body).json();
    let id = started["OperationId"].as_i64().unwrap();
    loop {
        let state = server.get(&format!("/databases/db/operations/state?id={id}")).json();
        assert_eq!(state["Status"], "InProgress");
        if state["Progress"]["Total"] == 500 {
            break;
        }
    }
    let kill = format!("/databases/db/operations/kill?id={id}");
    assert_eq!(server.send("POST", &kill, b"").status, 204);
    assert_eq!(wait(&server, "/databases/db", &started)["Status"], "Canceled");
    assert!(400 < count(&server).as_u64().unwrap());
}

#[test]
fn compaction_reports_progress_and_can_be_killed() {
    let server = users(20_000);
    let documents = count(&server);
    let body = br#"{"DatabaseName":"db","Documents":true}"#;
    let (mut reported, mut stopped) = (false, false);
    // Whether a request arrives while trees are copied depends on timing, so it is repeated.
    while !(reported && stopped) {
        let started = server.send("POST", "/admin/compact", body).json();
        let id = &started["OperationId"];
        let state = loop {
            let state = server.get(&format!("/operations/state?id={id}")).json();
            if state["Status"] != "InProgress" {
                break state;
            }
            let progress = &state["Progress"];
            let kind = progress["$type"].as_str().unwrap();
            assert!(kind.contains("CompactionProgress"), "{progress}");
            if progress["TreeTotal"].as_u64() > Some(1024) && progress["TreeProgress"] != 0 {
                reported = true;
                assert!(progress["GlobalProgress"].as_u64() < progress["GlobalTotal"].as_u64());
                assert!(progress["TreeName"].is_string(), "{progress}");
                let kill = format!("/admin/operations/kill?id={id}");
                server.send("POST", &kill, b"");
            }
        };
        stopped |= state["Status"] == "Canceled";
        if state["Status"] == "Completed" {
            assert_eq!(state["Result"]["GlobalProgress"], state["Result"]["GlobalTotal"]);
        }
        assert_eq!(count(&server), documents, "{state}");
    }
    server.put("after", "{}");
    let unknown = server.send("POST", "/admin/operations/kill?id=999", b"");
    assert_eq!(unknown.json()["Message"], "Operation 999 was not registered");
}

#[test]
fn a_compacted_database_keeps_its_documents() {
    let server = users(1000);
    delete(&server, "from Users where startsWith(id(), 'users/9')");
    let body = br#"{"DatabaseName":"db","Documents":true,"Indexes":["nope"]}"#;
    let started = server.send("POST", "/admin/compact", body).json();
    assert_eq!(started["OperationNodeTag"], "A");
    let state = wait(&server, "", &started);
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_eq!(state["Result"]["Name"], "db");
    assert_eq!(state["Result"]["IndexesResults"]["nope"]["Skipped"], true);
    assert_eq!(count(&server), json!(1000 - 111 + 1));
    assert_eq!(server.document("users/1")["N"], 1);
    server.put("users/new", "{}");

    let refused = |body: &str| {
        server.send("POST", "/admin/compact", body.as_bytes()).json()["Message"].clone()
    };
    for (body, message) in [
        (r#"{"Documents":true}"#, "DatabaseName is a required field when compacting a database."),
        (
            r#"{"DatabaseName":"no","Documents":true}"#,
            "Cannot compact database no, it doesn't exist.",
        ),
        (
            r#"{"DatabaseName":"db"}"#,
            "Documents is false in compact settings and no indexes were supplied. Nothing to compact.",
        ),
    ] {
        assert_eq!(refused(body), message, "{body}");
    }
    assert_eq!(server.get("/operations/state?id=99").status, 404);
}

#[test]
fn an_operation_of_an_unimplemented_route_ends_with_the_error() {
    let server = TestServer::with_database();
    let id = server.get("/databases/db/operations/next-operation-id").json()["Id"].clone();
    let export = format!("/databases/db/admin/smuggler/migrate?operationId={id}");
    let refused = server.send("POST", &export, b"{}").json();
    assert_eq!(refused["Type"], "System.NotSupportedException");
    let state = wait(&server, "/databases/db", &json!({"OperationId": id}));
    assert_eq!(state["Status"], "Faulted");
    assert_eq!(state["Result"]["Type"], refused["Type"]);
    assert_eq!(state["Result"]["Message"], refused["Message"]);

    // An existing operation is not affected, and a missing database is reported as missing.
    let started =
        server.send("DELETE", "/databases/db/queries", br#"{"Query":"from Nope"}"#).json();
    assert_eq!(wait(&server, "/databases/db", &started)["Status"], "Completed");
    let export =
        format!("/databases/db/admin/smuggler/migrate?operationId={}", started["OperationId"]);
    assert_eq!(server.send("POST", &export, b"{}").status, 500);
    assert_eq!(wait(&server, "/databases/db", &started)["Status"], "Completed");
    let missing =
        server.send("POST", "/databases/no/admin/smuggler/migrate?operationId=1", b"{}").json();
    assert!(missing["Type"].as_str().unwrap().ends_with("DatabaseDoesNotExistException"));
}
