//! A subscription of a database on several nodes, which replicate to each other. Its node dies at any moment, with what only
//! it had, and another one goes on: whatever is in the database in the end was delivered.
//!
//! `SUBSCRIPTION_HISTORIES=5000 cargo test -p subscriptions --release` runs more of them.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use blittable::{ParseLimits, Value as Blittable, parse_document};
use cluster_state::SubscriptionPosition;
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext,
    log::{self, EntryKind, LogEntry, Selection},
};
use model::{DatabaseId, DocumentId, Etag, IdSeparator};
use platform::{Platform, Timestamp, simulated::Random};
use query::LogQuery;
use replication::{
    Answered, BatchLimits, Group, LinkKind, Message, Reply, Sender, accepted, answer,
};
use script::ScriptPool;
use serde_json::Value;
use storage::{CountedOutput, Environment, EnvironmentOptions, MemoryBudget, WorkingMemory};
use subscriptions::{
    ConnectionFacts, Replicated, StoredSubscription, Strategy, SubscriptionSet, Wake, Worker,
    WorkerRequest,
};

const HISTORIES: u64 = 150;
const GROUP: DatabaseId = DatabaseId([0xee; 16]);
const STEPS: u64 = 150;
const NODES: usize = 3;
const DOCUMENTS: u64 = 8;
const QUERY: &str = "from Users";
/// So few that batches end between the changes of one node.
const LIMITS: BatchLimits =
    BatchLimits { items_max: 3, bytes_max: 1000, entries_max: 20, up_to: Etag(u64::MAX) };

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

struct Node {
    platform: Platform,
    environment: Arc<Environment>,
    senders: BTreeMap<usize, Sender>,
    set: Arc<SubscriptionSet>,
}

struct Stage {
    seed: u64,
    random: Random,
    now: i64,
    nodes: BTreeMap<usize, Node>,
    scripts: ScriptPool,
    query: Arc<LogQuery>,
    /// What is stored, and the node that stored it last.
    position: SubscriptionPosition,
    owner: usize,
    worker: Option<Worker>,
    /// What the worker has and has not acknowledged.
    batch: Vec<(String, i64)>,
    /// Ids, and the number in each version that was acknowledged.
    delivered: BTreeSet<(String, i64)>,
    deliveries: usize,
    written: i64,
}

fn id_of(node: usize) -> DatabaseId {
    DatabaseId([node as u8 + 1; 16])
}

fn node(number: usize) -> Node {
    let platform = Platform::memory();
    let environment = Environment::open(&platform, EnvironmentOptions::new("/database")).unwrap();
    let mut tx = environment.write().unwrap();
    let tag = char::from(b'A' + number as u8).to_string();
    let wanted = DatabaseIdentity { database_id: id_of(number), node_tag: tag.parse().unwrap() };
    documents::initialize(&mut tx, wanted).unwrap();
    tx.commit().unwrap();
    let others = (0..NODES).filter(|other| *other != number);
    let senders = others.map(|other| {
        (other, Sender::new(LinkKind::Internal, GROUP, "db".to_owned(), String::new()))
    });
    Node { platform, environment, senders: senders.collect(), set: Arc::default() }
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let nodes: BTreeMap<usize, Node> =
            (0..NODES).map(|number| (number, node(number))).collect();
        let scripts = ScriptPool::new(Arc::clone(&nodes[&0].platform.clock));
        Stage {
            seed,
            random: Random::new(seed),
            now: 1_000_000_000,
            nodes,
            scripts,
            query: Arc::new(LogQuery::parse(QUERY).unwrap()),
            position: SubscriptionPosition::default(),
            owner: 0,
            worker: None,
            batch: Vec::new(),
            delivered: BTreeSet::new(),
            deliveries: 0,
            written: 0,
        }
    }

    fn any_node(&mut self) -> usize {
        let place = self.random.below(self.nodes.len() as u64) as usize;
        *self.nodes.keys().nth(place).unwrap()
    }

    fn change<R>(&mut self, node: usize, change: impl FnOnce(&mut DocumentWriter<'_>) -> R) -> R {
        self.now += 10;
        let Node { platform, environment, .. } = &self.nodes[&node];
        let mut tx = environment.write().unwrap();
        let context = WriteContext::new(Timestamp::from_ticks(self.now), &*platform.entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        let changed = change(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
        changed
    }

    fn write(&mut self, node: usize) {
        let id = format!("Users/{}", self.random.below(DOCUMENTS));
        if self.random.below(8) == 0 {
            let id = DocumentId::new(id).unwrap();
            self.change(node, |writer| drop(writer.delete(&id, &ExpectedVersion::Any).unwrap()));
            return;
        }
        self.written += 1;
        let json =
            format!(r#"{{"Number":{},"@metadata":{{"@collection":"Users"}}}}"#, self.written);
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let id = RequestedId::parse(Some(&id), IdSeparator::default()).unwrap();
        self.change(node, |writer| drop(writer.put(&id, &ExpectedVersion::Any, &body).unwrap()));
    }

    /// One message from a node to another one; whether there was something to send.
    fn replicate(&mut self, from: usize, to: usize) -> bool {
        let outgoing = {
            let node = self.nodes.get_mut(&from).unwrap();
            let tx = node.environment.read();
            let mut share = MemoryBudget::unlimited().share(0);
            node.senders.get_mut(&to).unwrap().next_message(&tx, None, LIMITS, &mut share).unwrap()
        };
        let Some(outgoing) = outgoing else { return false };
        let message = Message::read(&outgoing.bytes).unwrap();
        let answered = answer(
            &self.nodes[&to].environment.read(),
            Group { id: GROUP, record: 1 },
            message,
            |_| false,
        )
        .unwrap();
        let reply: Reply = match answered {
            Answered::Reply(reply) => reply,
            Answered::Store(batch, _) => {
                accepted(&self.change(to, |writer| writer.receive(&batch).unwrap()))
            }
            Answered::Stage(_) => panic!("there are no attachments"),
        };
        let sender = self.nodes.get_mut(&from).unwrap().senders.get_mut(&to).unwrap();
        sender.take_reply(&reply.to_bytes()).unwrap();
        true
    }

    fn settle(&mut self) {
        let alive: Vec<usize> = self.nodes.keys().copied().collect();
        loop {
            let mut has_sent = false;
            for from in &alive {
                for to in alive.iter().filter(|to| *to != from) {
                    while self.replicate(*from, *to) {
                        has_sent = true;
                    }
                }
            }
            if !has_sent {
                return;
            }
        }
    }

    /// A worker on the node that serves the subscription; one on another node has been there before if `is_taken_over`.
    fn connect(&mut self, is_taken_over: bool) {
        let owner = &self.nodes[&self.owner];
        let position = self.position.on(id_of(self.owner));
        let stored = StoredSubscription {
            id: 1,
            name: "s",
            query_text: QUERY,
            query: Arc::clone(&self.query),
            version: 1,
            position: &position,
            is_taken_over,
        };
        let facts = ConnectionFacts::default();
        let request = WorkerRequest { strategy: Strategy::TakeOver, facts, wake: Arc::new(NoWake) };
        let documents_max = 1 + self.random.below(4) as usize;
        self.worker = Some(owner.set.connect(&stored, documents_max, request).ok().unwrap());
        self.batch.clear();
    }

    /// The worker reads a batch, unless it has one.
    fn read(&mut self) {
        if self.worker.is_none() {
            self.connect(false);
        }
        let Some(worker) = self.worker.as_mut().filter(|_| self.batch.is_empty()) else { return };
        let environment = &self.nodes[&self.owner].environment;
        if !worker.has_work(|| environment.read()).unwrap() {
            return;
        }
        worker.begin_batch(0);
        let mut out = CountedOutput::new(&Rc::new(WorkingMemory::default()));
        loop {
            let tx = environment.read();
            if worker.read((&tx, None), None, &self.scripts, &mut out).unwrap().is_last {
                break;
            }
        }
        let values = serde_json::Deserializer::from_slice(&out.bytes).into_iter::<Value>();
        self.batch = values
            .map(|value| {
                let data = &value.unwrap()["Data"];
                let id = data["@metadata"]["@id"].as_str().unwrap().to_owned();
                (id, data["Number"].as_i64().unwrap())
            })
            .collect();
    }

    /// What the other nodes have of what the one that serves the subscription has.
    fn replicated(&self) -> Replicated {
        let owner = &self.nodes[&self.owner];
        let others = self.nodes.keys().filter(|other| **other != self.owner);
        let complete = others.map(|other| owner.senders[other].complete_until());
        let complete = complete.map(|etag| etag.unwrap_or(Etag::ZERO)).min();
        complete.map_or(Replicated::ALONE, |complete_until| Replicated { complete_until })
    }

    fn acknowledge(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let replicated = self.replicated();
        let Some(worker) = self.worker.as_mut() else { return };
        self.position = worker.acknowledge(replicated, |position| position);
        let batch = std::mem::take(&mut self.batch);
        self.deliveries += batch.len();
        self.delivered.extend(batch);
    }

    /// What is stored when there is nothing to send.
    fn pass(&mut self) {
        let replicated = self.replicated();
        let Some(worker) = self.worker.as_ref().filter(|_| self.batch.is_empty()) else { return };
        if let Some(position) = worker.subscription().position_to_store(replicated) {
            self.position = position;
        }
    }

    /// The subscription moves to another node, because its own has died or for another reason.
    fn move_on(&mut self, is_dead: bool) {
        self.worker = None;
        let former = self.owner;
        if is_dead {
            self.nodes.remove(&former);
        }
        while self.owner == former {
            self.owner = self.any_node();
        }
        self.connect(true);
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..=9 => {
                let node = self.any_node();
                self.write(node);
            }
            10..=21 => {
                let (from, to) = (self.any_node(), self.any_node());
                if from != to {
                    self.replicate(from, to);
                }
            }
            22..=28 => self.read(),
            29..=34 => self.acknowledge(),
            35..=36 => self.pass(),
            37 => self.worker = None,
            38 if 1 < self.nodes.len() => self.move_on(false),
            39 if 1 < self.nodes.len() && self.random.below(3) == 0 => self.move_on(true),
            _ => {}
        }
        if self.worker.is_none() {
            self.batch.clear();
        }
    }

    /// Everything arrives everywhere, and the worker takes what is left.
    fn finish(&mut self) {
        self.settle();
        // A batch may turn out to be empty: what was let go of may have been replaced.
        let mut has_more = true;
        while has_more {
            self.read();
            self.acknowledge();
            let environment = &self.nodes[&self.owner].environment;
            has_more = self
                .worker
                .as_ref()
                .is_some_and(|worker| worker.has_work(|| environment.read()).unwrap());
        }
        let tx = self.nodes[&self.owner].environment.read();
        let log = log::read(&tx, &[Selection::all(EntryKind::Document)], Etag::ZERO).unwrap();
        for row in log.filter_map(|entry| entry.map(LogEntry::document).unwrap()) {
            let number = match row.body().unwrap().root().get("Number").unwrap() {
                Some(Blittable::Integer(number)) => number,
                other => panic!("{other:?}"),
            };
            let version = (row.id().to_owned(), number);
            assert!(
                self.delivered.contains(&version),
                "seed {}: {version:?} with {} was never delivered",
                self.seed,
                row.change_vector()
            );
        }
    }
}

#[test]
fn nothing_is_left_out_when_another_node_goes_on() {
    let asked = std::env::var("SUBSCRIPTION_HISTORIES").ok();
    let histories = asked.and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let (mut deliveries, mut delivered) = (0, 0);
    for seed in 1..=histories {
        let mut stage = Stage::new(seed);
        for _ in 0..STEPS {
            stage.step();
        }
        stage.finish();
        deliveries += stage.deliveries;
        delivered += stage.delivered.len();
    }
    // Some documents come again, but not everything each time.
    assert!(deliveries < 3 * delivered, "{deliveries} deliveries of {delivered} versions");
}
