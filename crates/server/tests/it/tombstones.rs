//! Tombstones over HTTP: who retains them, when they are removed, and that no reader misses a
//! deletion.

use std::collections::BTreeMap;

use platform::simulated::Random;
use serde_json::{Value, json};

use crate::{power_cuts::Machine, test_server::TestServer};

const CLEANUP: &str = "/databases/db/admin/tombstones/cleanup";
const HISTORIES: u64 = 12;
const CUTS: usize = 3;
const STEPS: u64 = 60;
const DOCUMENTS: u64 = 8;
const VALUES: u64 = 4;
/// Maximum number of queries until an index that is reopened after a cut answers.
const TRIES_MAX: usize = 2000;

fn put_index(server: &TestServer, name: &str, map: &str, reduce: Option<&str>) {
    let definition = json!({"Name": name, "Maps": [map], "Reduce": reduce});
    let body = json!({"Indexes": [definition]}).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn post(server: &TestServer, target: &str) {
    let reply = server.send("POST", target, b"");
    assert!(reply.status < 300, "{target}: {}", reply.text());
}

fn put(server: &TestServer, id: &str, collection: &str) {
    server.put(id, &json!({"N": 1, "@metadata": {"@collection": collection}}).to_string());
}

fn delete(server: &TestServer, id: &str) {
    let target = format!("/databases/db/docs?id={id}");
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
}

fn clean(server: &TestServer) -> u64 {
    let reply = server.send("POST", CLEANUP, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["Value"].as_u64().unwrap()
}

fn state(server: &TestServer) -> Value {
    server.get("/databases/db/admin/tombstones/state").json()
}

fn tombstones(server: &TestServer) -> u64 {
    server.get("/databases/db/stats").json()["CountOfTombstones"].as_u64().unwrap()
}

fn wait_for(server: &TestServer, index: &str) {
    let query = json!({"Query": format!("from index '{index}'"), "WaitForNonStaleResults": true});
    let reply = server.send("POST", "/databases/db/queries", query.to_string().as_bytes());
    assert_eq!(reply.json()["IsStale"], false, "{}", reply.text());
}

/// The row of a collection, whose name is in lower case as in RavenDB.
fn row(state: &Value, collection: &str) -> Value {
    let rows = state["Results"].as_array().unwrap();
    rows.iter().find(|row| row["Collection"] == collection).unwrap().clone()
}

#[test]
fn a_paused_index_retains_the_tombstones_of_its_collections_and_is_reported() {
    let server = TestServer::with_database();
    put_index(&server, "Users/ByN", "from u in docs.Users select new { u.N }", None);
    put_index(&server, "All", "from d in docs select new { d.N }", None);
    for number in 1..=3 {
        put(&server, &format!("users/{number}"), "Users");
        put(&server, &format!("dogs/{number}"), "Dogs");
    }
    ["Users/ByN", "All"].iter().for_each(|index| wait_for(&server, index));
    post(&server, "/databases/db/admin/indexes/stop?name=Users/ByN");
    ["users/1", "dogs/1", "dogs/2"].iter().for_each(|id| delete(&server, id));
    wait_for(&server, "All");
    assert_eq!(clean(&server), 2);
    assert_eq!(tombstones(&server), 1);
    let shown = state(&server);
    let users = row(&shown, "users");
    assert_eq!(users["Documents"], json!({"Component": "Index 'Users/ByN'", "Etag": 5}));
    let none = json!({"Component": null, "Etag": i64::MAX});
    assert_eq!(row(&shown, "dogs")["Documents"], none);
    assert_eq!(row(&shown, "Attachments.Tombstones")["Documents"], none);
    assert_eq!(shown["MinAllDocsEtag"], 9);
    assert_eq!(shown["MinAllCountersEtag"], i64::MAX);
    let holders = shown["PerSubscriptionInfoExtended"].as_array().unwrap();
    let holder = holders.iter().find(|one| one["Identifier"] == "Users/ByN").unwrap();
    assert_eq!(
        *holder,
        json!({
            "Identifier": "Users/ByN", "Type": "Documents", "Collection": "Users", "Etag": 5,
            "NumberOfTombstoneLeft": 1,
            "Types": {"Documents": 1, "TimeSeries": 0, "Counters": 0},
            "CleanupStatus": "Blocking", "Process": "Index", "Condition": "Paused"
        })
    );
    post(&server, "/databases/db/admin/indexes/start?name=Users/ByN");
    wait_for(&server, "Users/ByN");
    assert_eq!((clean(&server), tombstones(&server)), (1, 0));
    server.stop();
}

#[test]
fn disabled_and_unfinished_indexes_retain_tombstones_and_deleted_and_newer_ones_do_not() {
    let server = TestServer::with_database();
    let map = "from u in docs.Users select new { u.N }";
    put(&server, "users/1", "Users");
    delete(&server, "users/1");
    put_index(&server, "Users/ByN", map, None);
    wait_for(&server, "Users/ByN");
    assert_eq!(clean(&server), 1, "an index that begins behind it");
    post(&server, "/databases/db/admin/indexes/disable?name=Users/ByN");
    put(&server, "users/2", "Users");
    delete(&server, "users/2");
    assert_eq!(clean(&server), 0, "a disabled index");
    assert_eq!(row(&state(&server), "users")["Documents"]["Component"], "Index 'Users/ByN'");
    // Its replacement.
    let map = "from u in docs.Users select new { M = u.N }";
    put_index(&server, "Users/ByN", map, None);
    let reply = server.send("DELETE", "/databases/db/indexes?name=Users/ByN", b"");
    assert_eq!(reply.status, 204, "{}", reply.text());
    assert_eq!((clean(&server), tombstones(&server)), (1, 0), "no reader retains it");
    // A reset index starts from the current documents.
    put_index(&server, "Users/ByN", map, None);
    wait_for(&server, "Users/ByN");
    post(&server, "/databases/db/admin/indexes/stop?name=Users/ByN");
    put(&server, "users/3", "Users");
    delete(&server, "users/3");
    assert_eq!(clean(&server), 0);
    let reply = server.send("RESET", "/databases/db/indexes?name=Users/ByN", b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(clean(&server), 1);
    server.stop();
}

#[test]
fn a_tail_that_resumes_before_removed_tombstones_is_rejected() {
    let server = TestServer::with_database();
    put(&server, "users/1", "Users");
    put(&server, "dogs/1", "Dogs");
    delete(&server, "users/1");
    let ask = |query: &str| server.get(&format!("/databases/db/tail?follow=false&{query}"));
    assert!(ask("etag=2").text().contains("event: delete"), "{}", ask("etag=2").text());
    assert_eq!(clean(&server), 1);
    let reply = ask("etag=2");
    assert_eq!(reply.status, 410, "{}", reply.text());
    assert!(reply.text().contains("Read the log from its beginning"), "{}", reply.text());
    assert_eq!(ask("etag=1&collection=Users").status, 410);
    assert_eq!(ask("etag=2&collection=Dogs").status, 200, "its tombstones have not been removed");
    assert_eq!(ask("etag=3").status, 200);
    // From the beginning, all current documents are sent; the position states where that read
    // began.
    let reply = ask("etag=0");
    assert_eq!(reply.status, 200);
    let text = reply.text();
    assert!(!text.contains("event: delete") && text.contains("dogs/1"), "{text}");
    let id = |line: &str| line.strip_prefix("id: ").map(str::to_owned);
    let ids: Vec<_> = text.lines().filter_map(id).collect();
    let parts: Vec<_> = ids.iter().map(|id| id.split('-').count()).collect();
    assert_eq!(parts, [3, 3], "{ids:?}");
    assert!(ids[1].starts_with("2-") && ids[1].ends_with("-3"), "{ids:?}");
    let again = [("Last-Event-ID", ids[1].as_str())];
    let reply = server.send_with("GET", "/databases/db/tail?follow=false", &again, b"");
    assert_eq!(reply.status, 200, "it starts after the removed tombstones: {}", reply.text());
    assert_eq!(ask("etag=2-x-3-4").status, 400);
    server.stop();
}

#[test]
fn the_number_of_tombstones_stays_constant_while_documents_are_created_and_deleted() {
    let server = TestServer::with_database();
    let reduce = "from r in results group r by r.N into g \
                  select new { N = g.Key, Count = g.Sum(x => x.Count) }";
    put_index(&server, "Sum", "from u in docs.Users select new { u.N, Count = 1 }", Some(reduce));
    for round in 0..5 {
        for number in 0..20 {
            put(&server, &format!("users/{round}-{number}"), "Users");
            delete(&server, &format!("users/{round}-{number}"));
        }
        wait_for(&server, "Sum");
        assert_eq!((clean(&server), tombstones(&server)), (20, 0), "round {round}");
    }
    server.stop();
}

/// The indexes of a history, each with name, map and reduce.
const INDEXES: [(&str, &str, Option<&str>); 4] = [
    ("ByN", "from u in docs.Users select new { u.N }", None),
    (
        "Sum",
        "from u in docs.Users select new { u.N, Count = 1 }",
        Some(
            "from r in results group r by r.N into g \
             select new { N = g.Key, Count = g.Sum(x => x.Count) }",
        ),
    ),
    ("All", "from d in docs select new { d.N }", None),
    (
        "Looks",
        "from u in docs.Users let d = LoadDocument(u.Dog, \"Dogs\") \
         select new { N = d == null ? -1 : d.N }",
        None,
    ),
];

/// One history: documents and indexes are created, changed and deleted.
struct History {
    seed: u64,
    machine: Machine,
}

impl History {
    fn ask(&self, method: &str, target: &str, body: &Value) {
        // Any response is accepted: the power may be cut, or the index may not exist.
        drop(self.machine.ask(method, target, "", body));
    }

    fn put_index(&self, (name, map, reduce): (&str, &str, Option<&str>), is_other: bool) {
        // Another definition, which adds a field to the same entries.
        let map = if is_other { map.replacen("new {", "new { X = 1,", 1) } else { map.to_owned() };
        let is_other = is_other && reduce.is_none();
        let maps = if is_other || reduce.is_none() { vec![map] } else { vec![INDEXES[1].1.into()] };
        let definition = json!({"Name": name, "Maps": maps, "Reduce": reduce});
        self.ask("PUT", "/databases/db/admin/indexes", &json!({"Indexes": [definition]}));
    }

    fn step(&self, random: &mut Random) {
        let number = random.below(DOCUMENTS);
        let is_dog = random.below(3) == 0;
        // Some ids change their collection.
        let (collection, kind) = if is_dog { ("Dogs", "dogs") } else { ("Users", "users") };
        let id = if number < 3 { format!("both/{number}") } else { format!("{kind}/{number}") };
        let index = INDEXES[random.below(INDEXES.len() as u64) as usize];
        let of_index = |path: &str| format!("/databases/db/{path}?name={}", index.0);
        match random.below(24) {
            0..=7 => {
                let dog = random.below(DOCUMENTS);
                let dog = if dog < 3 { format!("both/{dog}") } else { format!("dogs/{dog}") };
                let document = json!({
                    "N": random.below(VALUES), "Dog": dog,
                    "@metadata": {"@collection": collection}
                });
                self.ask("PUT", &format!("/databases/db/docs?id={id}"), &document);
            }
            8..=13 => self.ask("DELETE", &format!("/databases/db/docs?id={id}"), &Value::Null),
            14..=16 => self.ask("POST", CLEANUP, &Value::Null),
            17 => self.ask("POST", &of_index("admin/indexes/stop"), &Value::Null),
            18 => self.ask("POST", &of_index("admin/indexes/start"), &Value::Null),
            19 => self.ask("RESET", &of_index("indexes"), &Value::Null),
            20 => self.ask("DELETE", &of_index("indexes"), &Value::Null),
            21 => self.ask("POST", &of_index("admin/indexes/disable"), &Value::Null),
            22 => self.ask("POST", &of_index("admin/indexes/enable"), &Value::Null),
            _ => self.put_index(index, random.below(2) == 0),
        }
    }

    fn live_until_the_cut(&mut self, random: &mut Random) {
        self.machine.cut_soon(random);
        for _ in 0..STEPS {
            self.step(random);
            if self.machine.is_dark() {
                break;
            }
        }
        self.machine.restart();
    }

    /// The current documents: collection, number, and the id of another document.
    fn documents(&self) -> BTreeMap<String, Value> {
        let answer = self.machine.server().get("/databases/db/docs?start=0&pageSize=1000");
        let found = answer.json()["Results"].as_array().unwrap().clone();
        let id = |document: &Value| document["@metadata"]["@id"].as_str().unwrap().to_lowercase();
        found.into_iter().map(|document| (id(&document), document)).collect()
    }

    fn query(&self, text: &str) -> Value {
        let query = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
        let server = self.machine.server();
        for _ in 0..TRIES_MAX {
            let reply = server.send("POST", "/databases/db/queries", query.as_bytes());
            let answer = reply.json();
            // A result is stale if the index was replaced in the meantime.
            if reply.status == 200 && answer["IsStale"] == false {
                return answer;
            }
            assert_eq!(reply.status, 200, "seed {}: {text}: {}", self.seed, reply.text());
        }
        panic!("seed {}: {text} stays stale", self.seed);
    }

    /// The results of every index match the documents.
    fn check(&self) {
        for index in INDEXES {
            self.put_index(index, false);
            let target = format!("/databases/db/admin/indexes/enable?name={}", index.0);
            self.ask("POST", &target, &Value::Null);
        }
        self.ask("POST", "/databases/db/admin/indexes/start", &Value::Null);
        let documents = self.documents();
        let of = |collection: &str| {
            let of = documents.values();
            of.filter(|one| one["@metadata"]["@collection"] == collection).collect::<Vec<_>>()
        };
        let users = of("Users");
        let total = |text: &str| self.query(text)["TotalResults"].as_u64().unwrap();
        let seed = self.seed;
        assert_eq!(total("from index 'ByN'"), users.len() as u64, "seed {seed}: ByN");
        assert_eq!(total("from index 'All'"), documents.len() as u64, "seed {seed}: All");
        for n in 0..VALUES {
            let with = |found: &[&Value]| found.iter().filter(|one| one["N"] == n).count() as u64;
            let text = format!("from index 'ByN' where N = {n}");
            assert_eq!(total(&text), with(&users), "seed {seed}: {text}");
            let looks = users.iter().filter(|user| {
                let dog = documents.get(user["Dog"].as_str().unwrap());
                let dog = dog.filter(|dog| dog["@metadata"]["@collection"] == "Dogs");
                dog.is_some_and(|dog| dog["N"] == n)
            });
            let looks = looks.count() as u64;
            let text = format!("from index 'Looks' where N = {n}");
            assert_eq!(total(&text), looks, "seed {seed}: {text}");
            let rows = self.query(&format!("from index 'Sum' where N = {n}"));
            let sum = rows["Results"][0]["Count"].as_u64().unwrap_or_default();
            assert_eq!(sum, with(&users), "seed {seed}: Sum of {n}");
        }
    }
}

#[test]
fn indexes_are_correct_after_tombstone_removal_and_power_cuts() {
    for seed in 1..=HISTORIES {
        let mut random = Random::new(seed);
        let mut history = History { seed, machine: Machine::new(seed) };
        for _ in 0..CUTS {
            history.live_until_the_cut(&mut random);
        }
        history.check();
        clean(history.machine.server());
        assert_eq!(
            tombstones(history.machine.server()),
            0,
            "seed {seed}: a reader still retains tombstones"
        );
        history.machine.stop();
    }
}
