//! Conflicts that are kept, as clients see them.

use serde_json::{Value, json};

use crate::{replication::replicate, resources::wait_until, test_server::TestServer};

fn configure(server: &TestServer, solver: &Value) -> Value {
    let target = "/admin/replication/conflicts/solver?name=db";
    let reply = server.send("POST", target, solver.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

fn load(server: &TestServer, id: &str) -> (u16, Value) {
    let reply = server.get(&format!("/databases/db/docs?id={id}"));
    let body = if reply.text().is_empty() { Value::Null } else { reply.json() };
    (reply.status, body)
}

/// Two servers that replicate to each other, keep conflicts, and have some about `users/1` to `users/3`.
fn in_conflict() -> (TestServer, TestServer) {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    for (number, server) in [(1, &one), (2, &other)] {
        let configured = configure(server, &json!({"ResolveToLatest": false}));
        assert_eq!(
            configured["ConflictSolverConfig"],
            json!({"ResolveToLatest": false, "ResolveByCollection": {}})
        );
        for id in 1..=3 {
            let document = json!({"N": number, "@metadata": {"@collection": "Users"}});
            server.put(&format!("users/{id}"), &document.to_string());
        }
    }
    replicate(&one, &other);
    replicate(&other, &one);
    for server in [&one, &other] {
        wait_until(|| {
            server.get("/databases/db/replication/conflicts").json()["TotalResults"] == 3
        });
    }
    (one, other)
}

#[test]
fn a_document_in_conflict_is_told_by_409_and_listed_with_its_versions() {
    let (one, _other) = in_conflict();
    let (status, body) = load(&one, "users/1");
    assert_eq!(status, 409);
    assert_eq!(body["Type"], "Raven.Client.Exceptions.Documents.DocumentConflictException");
    assert_eq!(
        body["Message"],
        "Conflict detected on 'users/1', conflict must be resolved before the document will be accessible."
    );
    assert!(body["DocId"] == "users/1" && body["LargestEtag"].as_u64() > Some(0), "{body}");
    assert_eq!(one.send("HEAD", "/databases/db/docs?id=users/1", b"").status, 409);
    let patch = br#"{"Patch":{"Script":"this.X = 1","Values":{}}}"#;
    assert_eq!(one.send("PATCH", "/databases/db/docs?id=users/1", patch).status, 409);
    let listed = one.get("/databases/db/replication/conflicts").json();
    assert_eq!(listed["Results"][0]["Id"], "users/1");
    assert_eq!(listed["Results"][0]["ConflictsPerDocument"], 2);
    let versions = one.get("/databases/db/replication/conflicts?docId=users/1").json();
    let mut numbers: Vec<_> = versions["Results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["Doc"]["N"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!((numbers, &versions["LargestEtag"]), (vec![1, 2], &body["LargestEtag"]));
    let stats = one.get("/databases/db/stats").json();
    assert_eq!(
        (&stats["CountOfDocumentsConflicts"], &stats["CountOfConflicts"]),
        (&json!(3), &json!(6))
    );
    assert_eq!(stats["CountOfDocuments"], 0);
    let found = one.get("/databases/db/queries?query=from%20Users").json();
    assert_eq!(found["Results"], json!([]));
    one.put("refs/1", r#"{"Ref":"users/1","@metadata":{"@collection":"Refs"}}"#);
    let included = one.get("/databases/db/docs?id=refs/1&include=Ref").json();
    assert_eq!(
        included["Includes"]["users/1"],
        json!({"@metadata": {"@id": "users/1", "@change-vector": "", "@conflict": true}})
    );
    let suggested =
        one.get("/databases/db/studio-tasks/suggest-conflict-resolution?docId=users/1").json();
    assert_eq!(suggested["Document"]["N"][0], ">>>> conflict start");
}

#[test]
fn clients_resolve_a_conflict_by_a_write_or_a_deletion() {
    let (one, other) = in_conflict();
    let put = json!({"Commands": [{
        "Type": "PUT", "Id": "users/1", "ChangeVector": "A:1-AAAAAAAAAAAAAAAAAAAAAA",
        "Document": {"N": 3, "@metadata": {"@collection": "Users"}}
    }]});
    let refused = one.send("POST", "/databases/db/bulk_docs", put.to_string().as_bytes());
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("does not exist, but Put was called"), "{}", refused.text());
    one.put("users/1", r#"{"N":3,"@metadata":{"@collection":"Users"}}"#);
    assert_eq!(other.send("DELETE", "/databases/db/docs?id=users/2", b"").status, 204);
    for server in [&one, &other] {
        wait_until(|| {
            server.get("/databases/db/replication/conflicts").json()["TotalResults"] == 1
        });
        let (status, body) = load(server, "users/1");
        assert_eq!((status, &body["Results"][0]["N"]), (200, &json!(3)));
        assert_eq!(load(server, "users/2").0, 404);
    }
    let resolved = one.get("/databases/db/revisions/resolved").json();
    assert_eq!(resolved["Results"][0]["N"], 3);
    let revisions = one.get("/databases/db/revisions?id=users/1").json();
    let lost = revisions["Results"].as_array().unwrap().iter().filter(|revision| {
        revision["@metadata"]["@flags"].as_str().unwrap_or_default().contains("Conflicted")
    });
    assert_eq!(lost.count(), 2, "{revisions}");
}

#[test]
fn a_script_or_the_latest_version_resolves_conflicts() {
    let (one, other) = in_conflict();
    let script = "docs.sort((a, b) => a.N - b.N); return docs[0];";
    configure(
        &one,
        &json!({"ResolveToLatest": false, "ResolveByCollection": {"Users": {"Script": script}}}),
    );
    for server in [&one, &other] {
        wait_until(|| load(server, "users/3").0 == 200);
        for id in 1..=3 {
            let (status, body) = load(server, &format!("users/{id}"));
            assert_eq!((status, &body["Results"][0]["N"]), (200, &json!(1)), "{body}");
        }
    }
    let shown = one.get("/databases/db/replication/conflicts/solver").json();
    assert_eq!(shown["ResolveByCollection"]["Users"]["Script"], script);
    let refused = one.send(
        "POST",
        "/admin/replication/conflicts/solver?name=db",
        br#"{"ResolveByCollection":{"Users":{"Script":""}}}"#,
    );
    assert_eq!(refused.status, 500, "{}", refused.text());

    let (one, other) = in_conflict();
    configure(&other, &json!({"ResolveToLatest": true}));
    for server in [&one, &other] {
        wait_until(|| load(server, "users/3").0 == 200);
        // The second server has written later.
        assert_eq!(load(server, "users/1").1["Results"][0]["N"], 2);
    }
}
