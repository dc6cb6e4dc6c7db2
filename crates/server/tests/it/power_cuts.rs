//! Power cuts under a whole server: acknowledged writes survive, and transactions survive as a
//! whole.
//!
//! `SERVER_POWER_CUTS=500 SERVER_POWER_CUTS_SEED=7 cargo test -p server --release --test it power_cuts`
//! runs more of them; `cargo xtask server-cuts` does that.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use platform::{
    Platform,
    simulated::{Random, Simulation, Survival},
};
use serde_json::{Value, json};

use crate::{tcp_client::TcpClient, test_server::TestServer};

/// Histories in a normal run; each has several cuts.
const HISTORIES: u64 = 20;
const CUTS: usize = 4;
const STEPS: u64 = 40;
/// A cut happens within this many operations of the disk.
const OPERATIONS_MAX: u64 = 120;
const DOCUMENTS: u64 = 5;
/// How long a worker waits for a message.
const SILENCE: Duration = Duration::from_millis(10);
/// Maximum number of attempts to receive the remaining documents at the end.
const LAST_ATTEMPTS_MAX: usize = 3000;
/// Pairs of documents that change together.
const PAIRS: usize = 2;
const WITH_GUARDS: &str = "Raven-Client-Version: 5.4.0\r\n";

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn seeds() -> std::ops::Range<u64> {
    let first = setting("SERVER_POWER_CUTS_SEED", 1);
    first..first + setting("SERVER_POWER_CUTS", HISTORIES)
}

/// A server on a simulated disk that loses power; time is real.
pub(crate) struct Machine {
    simulation: Simulation,
    server: Option<TestServer>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        let mut machine = Machine { simulation: Platform::simulated(seed), server: None };
        machine.start();
        machine.server().create("db");
        machine
    }

    pub(crate) fn server(&self) -> &TestServer {
        self.server.as_ref().unwrap()
    }

    fn start(&mut self) {
        let disk = self.simulation.platform.disk.clone();
        self.server = Some(TestServer::start(Platform { disk, ..Platform::memory() }, &[]));
    }

    pub(crate) fn cut_soon(&self, random: &mut Random) {
        let nth = 1 + random.below(OPERATIONS_MAX);
        self.simulation.disk.cut_power_at_operation(nth, Survival::Random);
    }

    pub(crate) fn is_dark(&self) -> bool {
        self.simulation.disk.is_power_lost()
    }

    /// Cuts the power unless it is already cut, and restarts.
    pub(crate) fn restart(&mut self) {
        self.server.take().unwrap().stop();
        self.simulation.disk.restart().unwrap();
        self.start();
    }

    /// Stops the server.
    pub(crate) fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }

    /// The response, if there is one: a server without power may send anything, or nothing.
    pub(crate) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(self.server().address).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let text = String::from_utf8(answer).ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = text.split_once("\r\n\r\n")?;
        let (begin, end) = (body.find('{').unwrap_or(0), body.rfind('}').map_or(0, |end| end + 1));
        Some((status, serde_json::from_str(body.get(begin..end)?).unwrap_or(Value::Null)))
    }
}

/// A worker, and the versions of documents that it has not acknowledged.
type Connected = (TcpClient, Vec<(String, u64)>);

struct Following {
    seed: u64,
    machine: Machine,
    workers: Vec<Connected>,
    /// The newest version for which a write was attempted, and the newest acknowledged one, by id.
    tried: BTreeMap<String, u64>,
    written: BTreeMap<String, u64>,
    confirmed: BTreeMap<String, u64>,
    /// Versions that a worker acknowledged without receiving a confirmation.
    doubtful: BTreeMap<String, u64>,
    /// The highest position observed so far.
    position: u64,
}

impl Following {
    fn new(seed: u64) -> Following {
        let machine = Machine::new(seed);
        let body = json!({"Name": "s", "Query": "from Things"}).to_string();
        let reply = machine.server().send("PUT", "/databases/db/subscriptions", body.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        Following {
            seed,
            machine,
            workers: Vec::new(),
            tried: BTreeMap::new(),
            written: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            position: 0,
        }
    }

    fn write(&mut self, number: u64) {
        let id = format!("things/{number}");
        let version = self.tried.get(&id).map_or(1, |version| version + 1);
        self.tried.insert(id.clone(), version);
        let document = json!({"Version": version, "@metadata": {"@collection": "Things"}});
        let target = format!("/databases/db/docs?id={id}");
        if let Some((201, _)) = self.machine.ask("PUT", &target, "", &document) {
            self.written.insert(id, version);
        }
    }

    fn connect(&mut self) {
        let options =
            json!({"SubscriptionName": "s", "Strategy": "Concurrent", "MaxDocsPerBatch": 2});
        let address = self.machine.server().address;
        let Some(mut worker) = TcpClient::try_agreed(address, "db") else { return };
        worker.send(&options);
        if worker.receive().is_some_and(|message| message["Status"] == "Accepted") {
            self.workers.push((worker, Vec::new()));
        }
    }

    /// Receives a batch if one arrives soon. Removes a worker whose connection has ended.
    fn receive(&mut self, place: usize) {
        let (worker, batch) = &mut self.workers[place];
        if !batch.is_empty() || worker.is_silent(SILENCE) {
            return;
        }
        let Some(received) = worker.try_batch() else {
            drop(self.workers.remove(place));
            return;
        };
        for item in received.items {
            let id = item["Data"]["@metadata"]["@id"].as_str().unwrap().to_owned();
            let version = item["Data"]["Version"].as_u64().unwrap();
            let (seed, confirmed) = (self.seed, self.confirmed.get(&id).copied());
            assert!(confirmed < Some(version), "seed {seed}: {id} {version} after {confirmed:?}");
            batch.push((id, version));
        }
    }

    fn acknowledge(&mut self, place: usize) {
        let (worker, batch) = &mut self.workers[place];
        if batch.is_empty() {
            return;
        }
        worker.send(&json!({"Type": "Acknowledge", "ChangeVector": "whatever"}));
        if worker.receive() != Some(json!({"Type": "Confirm"})) {
            let (_, batch) = self.workers.remove(place);
            self.doubtful.extend(batch);
            return;
        }
        for (id, version) in batch.drain(..) {
            let confirmed = self.confirmed.entry(id).or_default();
            *confirmed = version.max(*confirmed);
        }
    }

    /// Reads the position of the subscription, which must never decrease.
    fn check_position(&mut self) {
        let target = "/databases/db/subscriptions/state?name=s";
        let Some((200, state)) = self.machine.ask("GET", target, "", &Value::Null) else { return };
        let vector = state["ChangeVectorForNextBatchStartingPoint"].as_str().unwrap_or("A:0-");
        let position = vector.split([':', '-']).nth(1).unwrap().parse().unwrap();
        let (seed, before) = (self.seed, self.position);
        assert!(before <= position, "seed {seed}: the position went from {before} to {position}");
        self.position = position;
    }

    fn step(&mut self, random: &mut Random) {
        let place =
            (!self.workers.is_empty()).then(|| random.below(self.workers.len() as u64) as usize);
        match (random.below(20), place) {
            (0..=5, _) => self.write(random.below(DOCUMENTS)),
            (6..=8, _) if self.workers.len() < 3 => self.connect(),
            (9..=13, Some(place)) => self.receive(place),
            (14..=17, Some(place)) => self.acknowledge(place),
            (18, _) => self.check_position(),
            (19, Some(place)) => drop(self.workers.remove(place)),
            _ => {}
        }
    }

    /// Runs steps until the power is cut; returns whether it was cut during a step.
    fn live_until_the_cut(&mut self, random: &mut Random) -> bool {
        self.machine.cut_soon(random);
        for _ in 0..STEPS {
            self.step(random);
            if self.machine.is_dark() {
                break;
            }
        }
        let was_dark = self.machine.is_dark();
        self.workers.clear();
        self.machine.restart();
        self.check_position();
        self.check_written();
        was_dark
    }

    /// Acknowledged versions are present; unacknowledged ones may or may not be.
    fn check_written(&mut self) {
        for (id, tried) in &self.tried {
            let stored = self.machine.server().document(id);
            let stored = stored["Version"].as_u64().unwrap_or_default();
            let (seed, written) = (self.seed, self.written.get(id).copied().unwrap_or_default());
            assert!(written <= stored && stored <= *tried, "seed {seed}: {id} {stored}");
            self.written.insert(id.clone(), stored);
        }
        self.written.retain(|_, version| 0 < *version);
    }

    fn is_done(&self) -> bool {
        self.written.iter().all(|(id, version)| {
            let seen = [self.confirmed.get(id), self.doubtful.get(id)];
            seen.contains(&Some(version))
        })
    }

    /// Every document is received in its last version.
    fn finish(&mut self) {
        for _ in 0..LAST_ATTEMPTS_MAX {
            if self.workers.is_empty() {
                self.connect();
            }
            if !self.workers.is_empty() {
                self.receive(0);
            }
            if !self.workers.is_empty() {
                self.acknowledge(0);
            }
            if self.is_done() {
                return self.check_position();
            }
        }
        panic!("seed {}: {:?} of {:?}", self.seed, self.confirmed, self.written);
    }
}

#[test]
fn an_acknowledged_position_survives_and_never_decreases() {
    let mut cuts_in_the_middle = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut following = Following::new(seed);
        for _ in 0..CUTS {
            cuts_in_the_middle += usize::from(following.live_until_the_cut(&mut random));
        }
        following.finish();
        following.workers.clear();
        following.machine.server.take().unwrap().stop();
    }
    assert!(0 < cuts_in_the_middle, "no cut happened during a step");
}

/// Two documents and a value that change in one transaction, as their writer knows them.
#[derive(Clone, Default)]
struct Pair {
    /// The last number that the server acknowledged, and the last one attempted.
    acknowledged: u64,
    tried: u64,
    /// The versions of the documents, empty while they do not exist.
    versions: [String; 2],
    /// The version of the value.
    index: u64,
}

fn document_id(pair: usize, which: usize) -> String {
    format!("pairs/{pair}-{which}")
}

fn value_key(pair: usize) -> String {
    format!("pairs/{pair}")
}

/// Writes the next number to both documents and the value in one transaction.
fn transact(machine: &Machine, number: usize, pair: &mut Pair) {
    pair.tried += 1;
    let put = |which: usize| {
        json!({
            "Type": "PUT", "Id": document_id(number, which), "ChangeVector": pair.versions[which],
            "Document": {"N": pair.tried, "@metadata": {"@collection": "Pairs"}}
        })
    };
    let value = json!({
        "Type": "CompareExchangePUT", "Id": value_key(number), "Index": pair.index,
        "Document": {"Object": pair.tried}
    });
    let body = json!({"Commands": [put(0), value, put(1)], "TransactionMode": "ClusterWide"});
    let answer = machine.ask("POST", "/databases/db/bulk_docs", WITH_GUARDS, &body);
    let Some((201, answer)) = answer else { return };
    pair.acknowledged = pair.tried;
    for which in [0, 1] {
        let version = answer["Results"][which]["@change-vector"].as_str().unwrap();
        pair.versions[which] = version.to_owned();
    }
    pair.index = answer["TransactionIndex"].as_u64().unwrap();
}

/// After a cut, all three have the same number, and the guards belong to the same transaction.
fn check_pair(machine: &Machine, number: usize, pair: &mut Pair, seed: u64) {
    let server = machine.server();
    let documents = [0, 1].map(|which| server.document(&document_id(number, which)));
    let target = format!("/databases/db/cmpxchg?key={}", value_key(number));
    // The value is missing: the response has no body.
    let value = server.get(&target);
    let value = if value.status == 200 { value.json()["Results"][0].clone() } else { Value::Null };
    let stored = documents.each_ref().map(|document| document["N"].as_u64().unwrap_or_default());
    let shown = format!("seed {seed}, pair {number}: {documents:?} {value}");
    assert_eq!(stored[0], stored[1], "{shown}");
    assert_eq!(value["Value"]["Object"].as_u64().unwrap_or_default(), stored[0], "{shown}");
    assert!((pair.acknowledged..=pair.tried).contains(&stored[0]), "{shown}");
    (pair.acknowledged, pair.tried) = (stored[0], stored[0]);
    if stored[0] == 0 {
        return;
    }
    pair.index = value["Index"].as_u64().unwrap();
    for (which, document) in documents.iter().enumerate() {
        let version = document["@metadata"]["@change-vector"].as_str().unwrap();
        pair.versions[which] = version.to_owned();
        let target = format!("/databases/db/cmpxchg?key=rvn-atomic/{}", document_id(number, which));
        let guard = server.get(&target);
        assert_eq!(guard.status, 200, "{shown}");
        let guard = guard.json()["Results"][0]["Index"].as_u64();
        assert_eq!(guard, Some(pair.index), "{shown}");
        assert!(version.contains(&format!("TRXN:{}-", pair.index)), "{shown}");
    }
}

#[test]
fn a_cluster_wide_transaction_survives_entirely_or_not_at_all() {
    let mut cuts_in_the_middle = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut machine = Machine::new(seed);
        let mut pairs = vec![Pair::default(); PAIRS];
        for _ in 0..CUTS {
            machine.cut_soon(&mut random);
            std::thread::scope(|scope| {
                for (number, pair) in pairs.iter_mut().enumerate() {
                    let machine = &machine;
                    scope.spawn(move || {
                        for _ in 0..STEPS {
                            transact(machine, number, pair);
                            // The next transaction would not know which version it is based on.
                            if pair.acknowledged != pair.tried || machine.is_dark() {
                                break;
                            }
                        }
                    });
                }
            });
            cuts_in_the_middle +=
                usize::from(pairs.iter().any(|pair| pair.acknowledged != pair.tried));
            machine.restart();
            for (number, pair) in pairs.iter_mut().enumerate() {
                check_pair(&machine, number, pair, seed);
            }
        }
        // Afterwards the server works as if nothing had happened.
        for (number, pair) in pairs.iter_mut().enumerate() {
            transact(&machine, number, pair);
            assert_eq!(pair.acknowledged, pair.tried, "seed {seed}");
            check_pair(&machine, number, pair, seed);
        }
        machine.server.take().unwrap().stop();
    }
    assert!(0 < cuts_in_the_middle, "no cut happened during a transaction");
}
