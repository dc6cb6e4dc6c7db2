//! The lifecycle of an index: side-by-side replacement, locks, idle automatic indexes.

use std::{sync::Mutex, time::Duration};

use platform::{Clock, Platform, Timestamp};
use serde_json::{Value, json};

use crate::{
    indexes::{define, found, names_of, put},
    resources::wait_until,
    test_server::TestServer,
};

const BY_NAME: &str = "from u in docs.Users select new { u.Name }";
const BY_AGE: &str = "from u in docs.Users select new { u.Age }";
const BY_BOTH: &str = "from u in docs.Users select new { u.Name, u.Age }";

fn index(map: &str) -> Value {
    json!({"Name": "I", "Maps": [map]})
}

fn post(server: &TestServer, path: &str, body: &str) -> u16 {
    server.send("POST", &format!("/databases/db/{path}"), body.as_bytes()).status
}

/// A server with an index by name; all indexing is paused.
fn paused_server() -> TestServer {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Age":30}"#);
    assert_eq!(define(&server, &index(BY_NAME)).status, 201);
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    assert_eq!(post(&server, "admin/indexes/stop", ""), 204);
    server
}

fn maps_of(server: &TestServer, name: &str) -> Value {
    server.get(&format!("/databases/db/indexes?name={name}")).json()["Results"][0]["Maps"].clone()
}

fn stats_of(server: &TestServer, name: &str) -> Value {
    server.get(&format!("/databases/db/indexes/stats?name={name}")).json()["Results"][0].clone()
}

#[test]
fn the_old_index_answers_until_the_replacement_has_caught_up() {
    let server = paused_server();
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
    assert_eq!((maps_of(&server, "I"), maps_of(&server, "ReplacementOf/I")), {
        (json!([BY_NAME]), json!([BY_BOTH]))
    });
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    let body = json!({"Query": "from index 'ReplacementOf/I' where Age = 30"}).to_string();
    let building = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!((&building["IsStale"], &building["TotalResults"]), (&json!(true), &json!(0)));
    assert_eq!(building["IndexName"], "ReplacementOf/I");
    assert_eq!(server.get("/databases/db/stats").json()["CountOfIndexes"], 2);
    assert_eq!(post(&server, "admin/indexes/start", ""), 204);
    wait_until(|| names_of(&server) == ["I"]);
    assert_eq!(maps_of(&server, "I"), json!([BY_BOTH]));
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1"]);
    put(&server, "users/2", r#"{"Name":"Bob","Age":30}"#);
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1", "users/2"]);
}

#[test]
fn a_newer_definition_replaces_a_replacement_and_the_original_one_cancels_it() {
    let server = paused_server();
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert_eq!(define(&server, &index(BY_AGE)).status, 201);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
    assert_eq!(maps_of(&server, "ReplacementOf/I"), json!([BY_AGE]));
    assert_eq!(define(&server, &index(BY_NAME)).status, 201);
    assert_eq!(names_of(&server), ["I"]);
    assert_eq!(maps_of(&server, "I"), json!([BY_NAME]));
    assert_eq!(stats_of(&server, "I")["EntriesCount"], 1, "it was never emptied");
}

#[test]
fn deleting_a_replacement_cancels_the_change() {
    let server = paused_server();
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    let delete = |name: &str| {
        server.send("DELETE", &format!("/databases/db/indexes?name={name}"), b"").status
    };
    assert_eq!(delete("ReplacementOf/I"), 204);
    assert_eq!(names_of(&server), ["I"]);
    let record = server.get("/admin/databases?name=db").json();
    assert_eq!(record["Indexes"]["I"]["Maps"], json!([BY_NAME]));
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert_eq!(delete("I"), 204);
    assert_eq!(names_of(&server), Vec::<String>::new());
}

#[test]
fn a_replacement_can_be_swapped_in_at_once() {
    let server = paused_server();
    let replace = |name: &str| {
        server.send("POST", &format!("/databases/db/indexes/replace?name={name}"), b"")
    };
    let refused = |name: &str| replace(name).json()["Message"].as_str().unwrap().to_owned();
    assert_eq!(refused("I"), "Could not find side-by-side index for 'I'.");
    assert_eq!(refused("no"), "Could not find 'no' and 'ReplacementOf/no' indexes.");
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert_eq!(replace("i").status, 204);
    assert_eq!(names_of(&server), ["I"]);
    let stats = stats_of(&server, "I");
    assert_eq!((&stats["EntriesCount"], &stats["IsStale"]), (&json!(0), &json!(true)));
    assert_eq!(post(&server, "admin/indexes/start", ""), 204);
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1"]);
}

#[test]
fn a_failed_replacement_does_not_affect_the_old_index() {
    let server = paused_server();
    assert_eq!(post(&server, "admin/indexes/start", ""), 204);
    let failing = "from u in docs.Users select new { X = 5 / (u.Age - u.Age) }";
    assert_eq!(define(&server, &index(failing)).status, 201);
    wait_until(|| stats_of(&server, "ReplacementOf/I")["State"] == "Error");
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    assert_eq!(define(&server, &index("from u in docs.Users select u.(")).status, 500);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
    assert_eq!(define(&server, &index(BY_AGE)).status, 201);
    wait_until(|| names_of(&server) == ["I"]);
    assert_eq!(maps_of(&server, "I"), json!([BY_AGE]));
}

#[test]
fn both_indexes_exist_after_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    put(&server, "users/1", r#"{"Name":"Ann","Age":30}"#);
    assert_eq!(define(&server, &index(BY_NAME)).status, 201);
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    // A disabled replacement catches up neither before nor after the restart.
    let disabled = json!({"Name": "I", "Maps": [BY_BOTH], "State": "Disabled"});
    assert_eq!(define(&server, &disabled).status, 201);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
    assert_eq!(stats_of(&server, "I")["EntriesCount"], 1);
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    assert_eq!(post(&server, "admin/indexes/enable?name=I", ""), 204);
    wait_until(|| names_of(&server) == ["I"]);
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1"]);
}

#[test]
fn settings_of_a_definition_apply_to_both_indexes() {
    let server = paused_server();
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    let changed = json!({"Name": "I", "Maps": [BY_BOTH], "Priority": "High"});
    assert_eq!(define(&server, &changed).status, 201);
    let lock = r#"{"IndexNames":["ReplacementOf/I"],"Mode":"LockedError"}"#;
    assert_eq!(post(&server, "indexes/set-lock", lock), 204);
    for name in ["I", "ReplacementOf/I"] {
        let stats = stats_of(&server, name);
        let shown = (&stats["Priority"], &stats["LockMode"]);
        assert_eq!(shown, (&json!("High"), &json!("LockedError")), "{name}");
    }
    // The lock keeps the newest definition, so the old one cannot be restored.
    assert_eq!(define(&server, &index(BY_NAME)).status, 500);
    let path = "/databases/db/indexes?name=ReplacementOf/I";
    assert_eq!(server.send("DELETE", path, b"").status, 500);
    assert_eq!(names_of(&server), ["I", "ReplacementOf/I"]);
}

#[test]
fn a_name_has_one_spelling() {
    let server = paused_server();
    let reply = define(&server, &json!({"Name": "i", "Maps": [BY_BOTH]}));
    assert_eq!(reply.status, 500);
    let error = reply.json();
    let kind = "Raven.Client.Exceptions.Documents.Indexes.IndexCreationException";
    assert_eq!(error["Type"], kind);
    assert!(error["Message"].as_str().unwrap().contains("different casing"), "{error}");
    assert_eq!(names_of(&server), ["I"]);
}

#[test]
fn differences_of_definitions_are_reported_and_their_history_is_kept() {
    let server = paused_server();
    let changed = |definition: &Value| {
        let path = "/databases/db/indexes/has-changed";
        server.send("POST", path, definition.to_string().as_bytes()).json()["Changed"] == true
    };
    assert!(!changed(&index(BY_NAME)) && !changed(&json!({"Name": "i", "Maps": [BY_NAME]})));
    assert!(changed(&index(BY_AGE)) && changed(&json!({"Name": "J", "Maps": [BY_NAME]})));
    assert!(changed(&json!({"Name": "I", "Maps": [BY_NAME], "Priority": "High"})));
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    assert!(changed(&index(BY_NAME)) && !changed(&index(BY_BOTH)));
    let history = server.get("/databases/db/indexes/history?name=i").json();
    let maps = |number: usize| history["History"][number]["Definition"]["Maps"].clone();
    assert_eq!((maps(0), maps(1), maps(2)), (json!([BY_BOTH]), json!([BY_NAME]), Value::Null));
    assert_eq!(server.get("/databases/db/indexes/history?name=no").status, 404);
}

#[test]
fn a_query_that_waits_during_a_swap_is_answered_by_the_new_index() {
    let server = paused_server();
    put(&server, "users/2", r#"{"Name":"Ann"}"#);
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    std::thread::scope(|scope| {
        let queried = scope.spawn(|| found(&server, "from index I where Name = 'ann'").0);
        let running = || server.get("/databases/db/debug/queries/running").json();
        wait_until(|| running()["I"].as_array().is_some_and(|queries| !queries.is_empty()));
        assert_eq!(post(&server, "indexes/replace?name=I", ""), 204);
        assert_eq!(post(&server, "admin/indexes/start", ""), 204);
        assert_eq!(queried.join().unwrap(), ["users/1", "users/2"]);
    });
}

/// A clock that the test advances.
struct MovedClock {
    clock: std::sync::Arc<dyn Clock>,
    ahead: Mutex<Duration>,
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        self.clock.now().plus(*self.ahead.lock().unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

#[test]
fn an_unused_automatic_index_becomes_idle_and_is_then_deleted() {
    let memory = Platform::memory();
    let clock = std::sync::Arc::new(MovedClock {
        clock: std::sync::Arc::clone(&memory.clock),
        ahead: Mutex::default(),
    });
    let platform = Platform { clock: clock.clone(), ..memory };
    let server = TestServer::start(platform, &["--Databases.FrequencyToCheckForIdleInSec=1"]);
    server.create("db");
    put(&server, "users/1", r#"{"Name":"Ann","Age":1}"#);
    let query = "from Users where Name = 'ann'";
    found(&server, query);
    let other = || found(&server, "from Dogs where Name = 'rex'");
    let later = |minutes: u64| *clock.ahead.lock().unwrap() += Duration::from_secs(60 * minutes);
    later(31);
    other();
    let state = || stats_of(&server, "Auto/Users/ByName")["State"].clone();
    wait_until(|| state() == "Idle");
    put(&server, "users/2", r#"{"Name":"Ann"}"#);
    wait_until(|| stats_of(&server, "Auto/Users/ByName")["EntriesCount"] == 2);
    assert_eq!(state(), "Idle", "an idle index still indexes");
    assert_eq!(found(&server, query).0, ["users/1", "users/2"]);
    assert_eq!(state(), "Normal", "a query makes it active");
    later(72 * 60);
    assert_eq!(names_of(&server).len(), 2, "a period without any query does not count");
    other();
    wait_until(|| names_of(&server) == ["Auto/Dogs/ByName"]);
    let record = server.get("/admin/databases?name=db").json();
    assert_eq!(record["AutoIndexes"].as_object().unwrap().len(), 1);
}

#[test]
fn an_automatic_index_covered_by_a_wider_one_is_deleted_even_after_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    put(&server, "users/1", r#"{"Name":"Ann","Age":1}"#);
    found(&server, "from Users where Name = 'ann'");
    found(&server, "from Users where Age = 1");
    assert_eq!(names_of(&server), ["Auto/Users/ByAgeAndName", "Auto/Users/ByName"]);
    server.stop();
    let soon = [
        "--Databases.FrequencyToCheckForIdleInSec=1",
        "--Indexing.TimeBeforeDeletionOfSupersededAutoIndexInSec=0",
    ];
    let server = TestServer::start(platform, &soon);
    wait_until(|| names_of(&server) == ["Auto/Users/ByAgeAndName"]);
    assert_eq!(found(&server, "from Users where Name = 'ann'").0, ["users/1"]);
}

#[test]
fn indexing_batches_are_reported() {
    let server = paused_server();
    let path = "/databases/db/indexes/performance?name=I&name=no";
    let results = server.get(path).json()["Results"].clone();
    assert_eq!(results.as_array().unwrap().len(), 1, "a missing index is left out");
    let batch = results[0]["Performance"][0].clone();
    let counts = ["Id", "InputCount", "SuccessCount", "FailedCount", "OutputCount"];
    assert_eq!(counts.map(|count| batch[count].clone()), [1, 1, 1, 0, 1].map(Value::from));
    assert_eq!(batch["Details"]["Operations"][0]["Name"], "Map");
    assert_eq!(stats_of(&server, "I")["LastBatchStats"]["InputCount"], 1);
}

#[test]
fn a_batch_waits_only_for_enabled_indexes() {
    let server = paused_server();
    assert_eq!(define(&server, &index(BY_BOTH)).status, 201);
    let batch = || {
        let command = br#"{"Commands":[{"Type":"PUT","Id":"users/2","Document":
            {"Age":30,"@metadata":{"@collection":"Users"}}}]}"#;
        let path = "/databases/db/bulk_docs?waitForIndexesTimeout=00:00:00.01";
        server.send("POST", path, command)
    };
    let message = batch().json()["Message"].as_str().unwrap().to_owned();
    let end = "Total relevant indexes: 2, total stale indexes: 2 (I, ReplacementOf/I), total paused \
               indexes: 2 (I, ReplacementOf/I)";
    assert!(message.ends_with(end), "{message}");
    assert_eq!(post(&server, "admin/indexes/disable?name=I", ""), 204);
    assert_eq!(batch().status, 201, "both are off");
    let reasons = server.get("/databases/db/indexes/staleness?name=I").json();
    let reason = reasons["StalenessReasons"][0].as_str().unwrap();
    assert!(reason.contains("is '3' (@id: 'users/2', @last-modified: '"), "{reason}");
    assert!(
        reason.ends_with("last committed document etag for that collection is '1'"),
        "{reason}"
    );
}
