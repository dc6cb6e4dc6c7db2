//! Whatever happens to workers, their connections and the server: every change that a subscription
//! chooses is delivered at least once, the changes of a document in their order and to one worker at a
//! time, and what was acknowledged for good never comes again.
//!
//! `SUBSCRIPTION_HISTORIES=5000 cargo test -p subscriptions --release` runs more of them.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use cluster_state::SubscriptionPosition;
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext,
    log::{self, EntryKind, LogEntry, Selection},
};
use model::{
    CollectionName, DatabaseId, DocumentId, Etag, IdSeparator, NodeTag, RevisionsConfiguration,
    RevisionsRule,
};
use platform::{Platform, simulated::Random};
use query::LogQuery;
use script::ScriptPool;
use serde_json::Value;
use storage::{CountedOutput, Environment, EnvironmentOptions, WorkingMemory};
use subscriptions::{
    ConnectionFacts, Replicated, Standing, StoredSubscription, Strategy, SubscriptionSet, Wake,
    Worker, WorkerRequest,
};

const HISTORIES: u64 = 250;
const STEPS: u64 = 120;
const DOCUMENTS: u64 = 10;
const WORKERS_MAX: usize = 4;
/// Changes of documents that may be unsettled at a time, however often they are changed.
const LISTED_MAX: usize = 2 * DOCUMENTS as usize;
/// Two of these make a piece of a batch.
const LARGE_BYTES: usize = 140 << 10;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// One document of a batch.
type Delivered = (String, Etag);

struct Connected {
    worker: Worker,
    is_concurrent: bool,
    /// The batch that it was sent and has not acknowledged.
    batch: Vec<Delivered>,
}

/// What is stored, and what is on its way there.
#[derive(Default)]
struct Storage {
    position: SubscriptionPosition,
    on_its_way: VecDeque<(SubscriptionPosition, Vec<Delivered>)>,
}

struct Stage {
    seed: u64,
    random: Random,
    platform: Platform,
    environment: Arc<Environment>,
    revisions: RevisionsConfiguration,
    scripts: ScriptPool,
    query: Arc<LogQuery>,
    text: &'static str,
    set: Arc<SubscriptionSet>,
    workers: Vec<Connected>,
    stored: Storage,
    /// The last change of each document that was delivered.
    last: BTreeMap<String, Etag>,
    delivered: BTreeSet<Etag>,
    /// What was acknowledged, and stored.
    settled: BTreeSet<Etag>,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let mut random = Random::new(seed);
        let text = match random.below(4) {
            0 => "from Users",
            1 => "from Users as u where u.Number > 3 select { Number: u.Number, Etag: u.Etag }",
            2 => "from @all_docs as d where d.Number > 3",
            _ => "from Users (Revisions = true)",
        };
        Stage::of_query(seed, random, text)
    }

    fn of_query(seed: u64, random: Random, text: &'static str) -> Stage {
        let platform = Platform::memory();
        let options = EnvironmentOptions::new("/database");
        let environment = Environment::open(&platform, options).unwrap();
        let mut tx = environment.write().unwrap();
        let wanted = DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, wanted).unwrap();
        tx.commit().unwrap();
        let mut revisions = RevisionsConfiguration::default();
        let users = CollectionName::new("Users").unwrap();
        revisions.insert(&users, RevisionsRule::default());
        Stage {
            seed,
            random,
            environment,
            revisions,
            scripts: ScriptPool::new(Arc::clone(&platform.clock)),
            platform,
            query: Arc::new(LogQuery::parse(text).unwrap()),
            text,
            set: Arc::default(),
            workers: Vec::new(),
            stored: Storage::default(),
            last: BTreeMap::new(),
            delivered: BTreeSet::new(),
            settled: BTreeSet::new(),
        }
    }

    fn write(&mut self) {
        let mut tx = self.environment.write().unwrap();
        let plain = WriteContext::new(self.platform.clock.now(), &*self.platform.entropy);
        let context = WriteContext { revisions: &self.revisions, ..plain };
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        for _ in 0..=self.random.below(4) {
            let number = self.random.below(DOCUMENTS);
            let collection = if number == 0 { "Dogs" } else { "Users" };
            let id = format!("{collection}/{number}");
            if self.random.below(5) == 0 {
                let id = DocumentId::new(id).unwrap();
                writer.delete(&id, &ExpectedVersion::Any).unwrap();
                continue;
            }
            let filling = match self.random.below(12) {
                0 => "x".repeat(LARGE_BYTES),
                _ => String::new(),
            };
            let value = self.random.below(10);
            let json = format!(
                r#"{{"Number":{value},"Filling":"{filling}","@metadata":{{"@collection":"{collection}"}}}}"#
            );
            let id = RequestedId::parse(Some(&id), IdSeparator::default()).unwrap();
            writer.put(&id, &ExpectedVersion::Any, &body(&json)).unwrap();
        }
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    fn connect(&mut self) {
        if WORKERS_MAX <= self.workers.len() {
            return;
        }
        let strategy = Strategy::ALL[self.random.below(4) as usize];
        // Histories with several workers at work should be common.
        let strategy = if self.random.below(3) == 0 { strategy } else { Strategy::Concurrent };
        self.connect_as(strategy);
    }

    fn connect_as(&mut self, strategy: Strategy) {
        let stored = StoredSubscription {
            id: 1,
            name: "s",
            query_text: self.text,
            query: Arc::clone(&self.query),
            version: 1,
            position: &self.stored.position,
            is_taken_over: false,
        };
        let request =
            WorkerRequest { strategy, facts: ConnectionFacts::default(), wake: Arc::new(NoWake) };
        let documents_max = 1 + self.random.below(5) as usize;
        if let Ok(worker) = self.set.connect(&stored, documents_max, request) {
            let is_concurrent = strategy == Strategy::Concurrent;
            self.workers.push(Connected { worker, is_concurrent, batch: Vec::new() });
        }
    }

    /// A worker reads its next batch, or begins to and goes.
    fn read(&mut self, place: usize) {
        let seed = self.seed;
        let connected = &mut self.workers[place];
        if !connected.batch.is_empty() || connected.worker.standing() != Standing::Works {
            return;
        }
        let environment = Arc::clone(&self.environment);
        if !connected.worker.has_work(|| environment.read()).unwrap() {
            return;
        }
        connected.worker.begin_batch(0);
        let mut out = CountedOutput::new(&Rc::new(WorkingMemory::default()));
        loop {
            let tx = environment.read();
            let piece = connected.worker.read((&tx, None), None, &self.scripts, &mut out).unwrap();
            drop(tx);
            if piece.is_last {
                break;
            }
            if self.random.below(4) == 0 {
                // Whatever was read was on its way to a connection that is gone.
                self.workers.remove(place);
                return;
            }
        }
        let batch = delivered(&out.bytes);
        assert_eq!(batch.len(), connected.worker.batch_documents(), "seed {seed}");
        let mut in_hands = BTreeSet::new();
        for other in self.workers.iter().filter(|other| other.worker.standing() == Standing::Works)
        {
            in_hands.extend(other.batch.iter().map(|(id, _)| id.clone()));
        }
        let is_of_revisions = self.query.is_of_revisions();
        let mut ids = BTreeSet::new();
        for (id, etag) in &batch {
            assert!(!in_hands.contains(id), "seed {seed}: {id} is in two workers' hands");
            assert!(!self.settled.contains(etag), "seed {seed}: {id} at {etag:?} comes again");
            assert!(ids.insert(id) || is_of_revisions, "seed {seed}: {id} twice in a batch");
            let last = self.last.entry(id.clone()).or_default();
            // A revision may come once more after one that followed it, if both were let go of.
            let is_again = is_of_revisions && self.delivered.contains(etag);
            assert!(*last <= *etag || is_again, "seed {seed}: {id} goes back to {etag:?}");
            *last = (*last).max(*etag);
            self.delivered.insert(*etag);
        }
        let mut previous: BTreeMap<&str, Etag> = BTreeMap::new();
        for (id, etag) in &batch {
            let before = previous.insert(id, *etag);
            assert!(before.is_none_or(|before| before < *etag), "seed {seed}: {id} out of order");
        }
        self.workers[place].batch = batch;
    }

    fn acknowledge(&mut self, place: usize) {
        let connected = &mut self.workers[place];
        let batch = std::mem::take(&mut connected.batch);
        if batch.is_empty() || connected.worker.standing() != Standing::Works {
            return;
        }
        let on_its_way = &mut self.stored.on_its_way;
        let (seed, is_of_revisions) = (self.seed, self.query.is_of_revisions());
        connected.worker.acknowledge(Replicated::ALONE, |position| {
            // At most one change of a document is in a worker's hands, and one waits behind it.
            let listed = position.unsettled.len();
            assert!(is_of_revisions || listed <= LISTED_MAX, "seed {seed}: {listed} are listed");
            on_its_way.push_back((position, batch));
        });
    }

    /// Some of what is on its way is stored.
    fn store(&mut self, count: usize) {
        for _ in 0..count {
            let Some((position, batch)) = self.stored.on_its_way.pop_front() else { return };
            let (seed, before) = (self.seed, self.stored.position.cursor);
            assert!(before <= position.cursor, "seed {seed}: the position goes back");
            self.stored.position = position;
            self.settled.extend(batch.iter().map(|(_, etag)| *etag));
        }
    }

    fn lose(&mut self, place: usize) {
        self.workers.remove(place);
    }

    /// The server is gone with everything that it only knew.
    fn restart(&mut self) {
        self.workers.clear();
        self.stored.on_its_way.clear();
        self.set = Arc::default();
        // What was sent and not stored may come again in its old order.
        let settled = &self.settled;
        self.delivered.retain(|etag| settled.contains(etag));
        if self.query.is_of_revisions() {
            self.last.clear();
        }
    }

    fn step(&mut self) {
        let place = match self.workers.len() {
            0 => None,
            count => Some(self.random.below(count as u64) as usize),
        };
        match (self.random.below(20), place) {
            (0..=4, _) => self.write(),
            (5..=6, _) => self.connect(),
            (7..=11, Some(place)) => self.read(place),
            (12..=15, Some(place)) => self.acknowledge(place),
            (16, Some(place)) => self.lose(place),
            (17..=18, _) => {
                let count = self.random.below(4) as usize;
                self.store(count);
            }
            (19, _) if self.random.below(6) == 0 => self.restart(),
            _ => {}
        }
        self.workers.retain(|connected| !matches!(connected.worker.standing(), Standing::Ended(_)));
        let working = self.workers.iter().filter(|one| one.worker.standing() == Standing::Works);
        let working: Vec<bool> = working.map(|one| one.is_concurrent).collect();
        let may_share = working.iter().all(|is_concurrent| *is_concurrent);
        assert!(working.len() <= 1 || may_share, "seed {}: they share", self.seed);
    }

    /// One worker takes everything that is left.
    fn finish(&mut self) {
        self.store(usize::MAX);
        if self.random.below(2) == 0 {
            self.restart();
        }
        self.workers.clear();
        while self.workers.is_empty() {
            self.connect();
        }
        loop {
            let delivered = self.delivered.len();
            while self.workers.is_empty() {
                self.connect();
            }
            self.read(0);
            if !self.workers.is_empty() {
                self.acknowledge(0);
            }
            self.store(usize::MAX);
            let is_done = match self.workers.first() {
                None => false,
                Some(one) => !one.worker.has_work(|| self.environment.read()).unwrap(),
            };
            if is_done && delivered == self.delivered.len() {
                break;
            }
        }
        for etag in self.chosen() {
            let seed = self.seed;
            assert!(self.settled.contains(&etag), "seed {seed}: {etag:?} never came");
        }
        // What was let go of and changed meanwhile is settled without an acknowledgement.
        let subscription = self.workers[0].worker.subscription();
        let position = subscription.position_to_store(Replicated::ALONE);
        let position = position.as_ref().unwrap_or(&self.stored.position);
        assert!(position.unsettled.is_empty(), "seed {}", self.seed);
    }

    /// The changes that the subscription should have delivered.
    fn chosen(&self) -> Vec<Etag> {
        let tx = self.environment.read();
        if self.query.is_of_revisions() {
            let users = CollectionName::new("Users").unwrap();
            let revisions = [Selection::of_collection(EntryKind::Revision, &users)];
            let log = log::read(&tx, &revisions, Etag::ZERO).unwrap();
            return log.map(|row| etag_of(&row.unwrap().change_vector())).collect();
        }
        let documents = [Selection::all(EntryKind::Document)];
        let log = log::read(&tx, &documents, Etag::ZERO).unwrap();
        let rows = log.filter_map(|entry| entry.map(LogEntry::document).unwrap());
        let chosen = rows.filter(|row| {
            let number = row.body().unwrap().root().get("Number").unwrap();
            let is_high = matches!(number, Some(blittable::Value::Integer(number)) if 3 < number);
            let is_user = row.collection().unwrap() == "Users";
            match self.text {
                "from Users" => is_user,
                text if text.starts_with("from Users") => is_user && is_high,
                _ => is_high,
            }
        });
        chosen.map(|row| etag_of(row.change_vector())).collect()
    }
}

/// The documents of a batch, from its messages.
fn delivered(messages: &[u8]) -> Vec<Delivered> {
    let values = serde_json::Deserializer::from_slice(messages).into_iter::<Value>();
    let metadata = values.map(|value| value.unwrap()["Data"]["@metadata"].clone());
    let parts = metadata.map(|metadata| {
        let etag = etag_of(metadata["@change-vector"].as_str().unwrap());
        (metadata["@id"].as_str().unwrap().to_owned(), etag)
    });
    parts.collect()
}

/// The etag in the vector of a version that was made here.
fn etag_of(vector: &str) -> Etag {
    Etag(vector.split([':', '-']).nth(1).unwrap().parse().unwrap())
}

fn body(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn histories() -> u64 {
    let asked = std::env::var("SUBSCRIPTION_HISTORIES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

#[test]
fn every_change_is_delivered_in_order_and_settled_for_good() {
    for seed in 1..=histories() {
        let mut stage = Stage::new(seed);
        for _ in 0..STEPS {
            stage.step();
        }
        stage.finish();
    }
}

#[test]
fn a_document_that_keeps_changing_in_a_workers_hands_is_listed_once() {
    let mut stage = Stage::of_query(1, Random::new(1), "from Users");
    stage.write();
    stage.connect_as(Strategy::Concurrent);
    stage.read(0);
    assert!(!stage.workers[0].batch.is_empty());
    stage.connect_as(Strategy::Concurrent);
    for _ in 0..100 {
        stage.write();
        stage.read(1);
        stage.acknowledge(1);
        stage.store(usize::MAX);
    }
    stage.finish();
}
