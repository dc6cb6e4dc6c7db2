//! What `docs/guarantees.md` does and does not promise to concurrent clients, one interleaving per
//! test. `cargo xtask consistency` checks the same with many clients.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// A document as a session has loaded it.
struct Loaded {
    id: String,
    version: String,
}

fn load(server: &TestServer, id: &str) -> Loaded {
    let version = server.document(id)["@metadata"]["@change-vector"].as_str().unwrap().to_owned();
    Loaded { id: id.to_owned(), version }
}

fn put(loaded: &Loaded, n: u32, is_optimistic: bool) -> Value {
    let version = if is_optimistic { Value::from(loaded.version.as_str()) } else { Value::Null };
    json!({"Id": loaded.id, "ChangeVector": version, "Type": "PUT", "Document": {"N": n}})
}

fn save(server: &TestServer, commands: &[Value]) -> u16 {
    let commands: Vec<String> = commands.iter().map(ToString::to_string).collect();
    server.batch(&commands.join(",")).status
}

fn values(server: &TestServer, ids: &[&str], headers: &[(&str, &str)]) -> Vec<Value> {
    let ids: Vec<String> = ids.iter().map(|id| format!("id={id}")).collect();
    let target = format!("/databases/db/docs?{}", ids.join("&"));
    let loaded = server.send_with("GET", &target, headers, b"").json();
    loaded["Results"].as_array().unwrap().iter().map(|one| one["N"].clone()).collect()
}

#[test]
fn without_optimistic_concurrency_the_last_write_wins_and_an_update_is_lost() {
    let server = TestServer::with_database();
    server.put("a", r#"{"N":0}"#);
    let (first, second) = (load(&server, "a"), load(&server, "a"));
    assert_eq!(save(&server, &[put(&first, 1, false)]), 201);
    assert_eq!(save(&server, &[put(&second, 2, false)]), 201);
    assert_eq!(server.document("a")["N"], 2);
}

#[test]
fn with_optimistic_concurrency_the_batch_of_the_second_writer_is_refused_as_a_whole() {
    let server = TestServer::with_database();
    server.put("a", r#"{"N":0}"#);
    server.put("b", r#"{"N":0}"#);
    let sessions = [(); 2].map(|()| [load(&server, "a"), load(&server, "b")]);
    assert_eq!(save(&server, &[put(&sessions[0][0], 1, true)]), 201);
    let both = [put(&sessions[1][1], 2, true), put(&sessions[1][0], 2, true)];
    assert_eq!(save(&server, &both), 409);
    assert_eq!(values(&server, &["a", "b"], &[]), [json!(1), json!(0)]);
}

#[test]
fn a_session_that_reads_in_two_requests_may_see_half_of_a_batch_unless_it_has_a_token() {
    let server = TestServer::with_database();
    server.put("a", r#"{"N":0}"#);
    server.put("b", r#"{"N":0}"#);
    let opened = server.send("POST", "/databases/db/snapshots", b"").json();
    let token = [("Corvus-Snapshot", opened["Snapshot"].as_str().unwrap())];
    let before = values(&server, &["a"], &[]);
    let held = values(&server, &["a"], &token);
    assert_eq!(before, held);
    let both = [put(&load(&server, "a"), 1, true), put(&load(&server, "b"), 1, true)];
    assert_eq!(save(&server, &both), 201);
    assert_eq!(values(&server, &["b"], &[]), [json!(1)], "fractured: a was 0");
    assert_eq!(values(&server, &["b"], &token), [json!(0)]);
    assert_eq!(values(&server, &["a", "b"], &[]), [json!(1), json!(1)]);
}

#[test]
fn documents_that_a_session_only_read_are_not_checked_so_write_skew_is_possible() {
    let server = TestServer::with_database();
    for id in ["alice", "bob"] {
        server.put(id, r#"{"N":1}"#);
    }
    // Both see that two doctors are on call, and each releases a different one.
    let sessions = [(); 2].map(|()| {
        assert_eq!(values(&server, &["alice", "bob"], &[]), [json!(1), json!(1)]);
        [load(&server, "alice"), load(&server, "bob")]
    });
    assert_eq!(save(&server, &[put(&sessions[0][0], 0, true)]), 201);
    assert_eq!(save(&server, &[put(&sessions[1][1], 0, true)]), 201);
    assert_eq!(values(&server, &["alice", "bob"], &[]), [json!(0), json!(0)]);
}

#[test]
fn a_session_that_writes_every_document_that_it_read_has_no_write_skew() {
    let server = TestServer::with_database();
    for id in ["alice", "bob"] {
        server.put(id, r#"{"N":1}"#);
    }
    let sessions = [(); 2].map(|()| [load(&server, "alice"), load(&server, "bob")]);
    let one = |of: usize, alice, bob| {
        [put(&sessions[of][0], alice, true), put(&sessions[of][1], bob, true)]
    };
    assert_eq!(save(&server, &one(0, 0, 1)), 201);
    assert_eq!(save(&server, &one(1, 1, 0)), 409);
    assert_eq!(values(&server, &["alice", "bob"], &[]), [json!(0), json!(1)]);
}

#[test]
fn the_requests_of_a_multi_get_are_independent_unless_a_token_gives_them_one_snapshot() {
    let server = TestServer::with_database();
    server.put("a", r#"{"N":0}"#);
    let opened = server.send("POST", "/databases/db/snapshots", b"").json();
    let token = opened["Snapshot"].as_str().unwrap();
    server.put("a", r#"{"N":1}"#);
    let part =
        |headers: Value| json!({"Url": "/databases/db/docs", "Query": "?id=a", "Headers": headers});
    let body = json!({"Requests": [part(json!({})), part(json!({"Corvus-Snapshot": token}))]});
    let seen = |headers: &[(&str, &str)]| -> Vec<Value> {
        let body = body.to_string();
        let answer =
            server.send_with("POST", "/databases/db/multi_get", headers, body.as_bytes()).json();
        let parts = answer["Results"].as_array().unwrap().iter();
        parts.map(|part| part["Result"]["Results"][0]["N"].clone()).collect()
    };
    assert_eq!(seen(&[]), [json!(1), json!(0)]);
    assert_eq!(seen(&[("Corvus-Snapshot", token)]), [json!(0), json!(0)]);
}

#[test]
fn of_two_exchanges_of_the_same_version_exactly_one_succeeds() {
    let server = TestServer::with_database();
    let exchange = |index: u64, value: u64| {
        let target = format!("/databases/db/cmpxchg?key=k&index={index}");
        server.send("PUT", &target, json!({"Object": value}).to_string().as_bytes()).json()
    };
    let index = exchange(0, 1)["Index"].as_u64().unwrap();
    let (first, second) = (exchange(index, 2), exchange(index, 3));
    assert_eq!((&first["Successful"], &second["Successful"]), (&json!(true), &json!(false)));
    assert_eq!((&second["Value"]["Object"], &second["Index"]), (&json!(2), &first["Index"]));
}
