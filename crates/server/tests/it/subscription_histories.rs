//! Workers, connections and servers that end at any moment, over real sockets: every document is
//! sent in its last version, and nothing older than a confirmed version is sent again.
//!
//! `SUBSCRIPTION_SERVER_HISTORIES=500 cargo test -p server --release --test it
//! subscription_histories` runs more of them.

use std::{collections::BTreeMap, time::Duration};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{tcp_client::TcpClient, test_server::TestServer};

const HISTORIES: u64 = 8;
const STEPS: u64 = 60;
const DOCUMENTS: u64 = 6;
const WORKERS: usize = 3;
/// How long a worker waits for a message.
const SILENCE: Duration = Duration::from_millis(15);
/// Maximum number of attempts to receive the remaining documents at the end.
const LAST_LOOKS_MAX: usize = 1000;

/// One worker and the versions of documents that it has not acknowledged.
type Connected = (TcpClient, Vec<(String, u64)>);

struct Stage {
    seed: u64,
    platform: Platform,
    server: Option<TestServer>,
    workers: Vec<Connected>,
    written: BTreeMap<String, u64>,
    confirmed: BTreeMap<String, u64>,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let platform = Platform::memory();
        let server = TestServer::start(platform.clone(), &[]);
        server.create("db");
        let body = json!({"Name": "s", "Query": "from Things"}).to_string();
        let reply = server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        Stage {
            seed,
            platform,
            server: Some(server),
            workers: Vec::new(),
            written: BTreeMap::new(),
            confirmed: BTreeMap::new(),
        }
    }

    fn server(&self) -> &TestServer {
        self.server.as_ref().unwrap()
    }

    fn write(&mut self, number: u64) {
        let id = format!("things/{number}");
        let version = self.written.get(&id).map_or(1, |version| version + 1);
        let document = json!({"Version": version, "@metadata": {"@collection": "Things"}});
        self.server().put(&id, &document.to_string());
        self.written.insert(id, version);
    }

    fn connect(&mut self) {
        if self.workers.len() < WORKERS {
            let options =
                json!({"SubscriptionName": "s", "Strategy": "Concurrent", "MaxDocsPerBatch": 2});
            let worker = TcpClient::accepted(self.server(), &options);
            self.workers.push((worker, Vec::new()));
        }
    }

    /// Receives a batch if one arrives soon.
    fn receive(&mut self, place: usize) {
        let seed = self.seed;
        let (worker, batch) = &mut self.workers[place];
        if !batch.is_empty() || worker.is_silent(SILENCE) {
            return;
        }
        for item in worker.batch().items {
            let id = item["Data"]["@metadata"]["@id"].as_str().unwrap().to_owned();
            let version = item["Data"]["Version"].as_u64().unwrap();
            let confirmed = self.confirmed.get(&id).copied().unwrap_or_default();
            assert!(confirmed < version, "seed {seed}: {id} {version} after {confirmed}");
            batch.push((id, version));
        }
    }

    fn acknowledge(&mut self, place: usize) {
        let (worker, batch) = &mut self.workers[place];
        if batch.is_empty() {
            return;
        }
        worker.acknowledge();
        for (id, version) in batch.drain(..) {
            let confirmed = self.confirmed.entry(id).or_default();
            *confirmed = version.max(*confirmed);
        }
    }

    fn restart(&mut self, in_order: bool) {
        let server = self.server.take().unwrap();
        match in_order {
            true => server.stop(),
            // The workers disconnect first, as after a crash of the machine.
            false => {
                self.workers.clear();
                server.stop();
            }
        }
        self.workers.clear();
        self.server = Some(TestServer::start(self.platform.clone(), &[]));
    }

    fn run(&mut self, random: &mut Random) {
        for _ in 0..STEPS {
            let place = (!self.workers.is_empty())
                .then(|| random.below(self.workers.len() as u64) as usize);
            match (random.below(20), place) {
                (0..=5, _) => self.write(random.below(DOCUMENTS)),
                (6..=8, _) => self.connect(),
                (9..=13, Some(place)) => self.receive(place),
                (14..=17, Some(place)) => self.acknowledge(place),
                (18, Some(place)) => drop(self.workers.remove(place)),
                (19, _) if random.below(3) == 0 => self.restart(random.below(2) == 0),
                _ => {}
            }
        }
        self.workers.clear();
        self.connect();
        for _ in 0..LAST_LOOKS_MAX {
            self.receive(0);
            self.acknowledge(0);
            if self.confirmed == self.written {
                return;
            }
        }
        panic!("seed {}: {:?} of {:?}", self.seed, self.confirmed, self.written);
    }
}

#[test]
fn every_document_is_sent_in_its_last_version() {
    let requested = std::env::var("SUBSCRIPTION_SERVER_HISTORIES").ok();
    let histories = requested.and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    for seed in 1..=histories {
        Stage::new(seed).run(&mut Random::new(seed));
    }
}

#[test]
fn an_operator_sees_the_progress_of_a_subscription() {
    let server = TestServer::with_database();
    let body = json!({"Name": "s", "Query": "from @all_docs (Revisions = true)"}).to_string();
    server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    let configuration = br#"{"Collections":{"Kept":{"Disabled":false}}}"#;
    server.send("POST", "/databases/db/admin/revisions/config", configuration);
    server.put("others/1", r#"{"@metadata":{"@collection":"Others"}}"#);
    let mut worker = TcpClient::accepted(&server, &json!({"SubscriptionName": "s"}));
    assert!(worker.is_silent(Duration::from_millis(50)));
    let running = || server.get("/databases/db/debug/subscriptions/running").json();
    let shown: Value = running()["Results"][0].clone();
    assert_eq!(
        (&shown["ChangesBehind"], &shown["UnacknowledgedDocuments"]),
        (&json!(0), &json!(0))
    );
    server.put("kept/1", r#"{"@metadata":{"@collection":"Kept"}}"#);
    assert_eq!(worker.batch().ids(), ["kept/1"]);
    let shown = running()["Results"][0].clone();
    assert_eq!(shown["UnacknowledgedDocuments"], 1);
    assert_eq!(shown["Workers"][0]["Batches"][0]["Documents"], 1);
}

#[test]
fn counters_are_included() {
    let server = TestServer::with_database();
    let query = "from Things include counters('likes')";
    let body = json!({"Name": "s", "Query": query}).to_string();
    server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    server.put("things/1", r#"{"@metadata":{"@collection":"Things"}}"#);
    let counters = br#"{"Documents":[{"DocumentId":"things/1","Operations":[{"Type":"Increment","CounterName":"likes","Delta":2}]}]}"#;
    let reply = server.send("POST", "/databases/db/counters", counters);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut worker = TcpClient::accepted(&server, &json!({"SubscriptionName": "s"}));
    let others = worker.batch().others;
    assert_eq!(
        others,
        [json!({
            "Type": "CounterIncludes",
            "CounterIncludes": {"things/1": [
                {"DocumentId": "things/1", "CounterName": "likes", "TotalValue": 2}
            ]},
            "IncludedCounterNames": {"things/1": ["likes"]}
        })]
    );
}
