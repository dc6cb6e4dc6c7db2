//! Databases, and messages between them.

use std::{collections::BTreeMap, sync::Arc};

use blittable::{ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command, CommandError, PatchLimits, Patcher, execute_batch};
use documents::{
    DatabaseIdentity, DocumentError, ExpectedVersion, PutDocument, RequestedId, WriteContext,
    log::{self, EntryKinds, LogEntry, Selection},
};
use model::{ChangeVector, DatabaseId, DocumentFlags, DocumentId, Etag, RevisionsConfiguration};
use platform::{
    Platform, Timestamp,
    simulated::{Simulation, Survival},
};
use replication::{
    Advance, Answered, BatchLimits, LinkKind, Message, Outgoing, Reply, Sender, accepted, answer,
};
use storage::{Environment, EnvironmentOptions, MemoryBudget, ReadTransaction};

pub(crate) const LIMITS: BatchLimits =
    BatchLimits { items_max: 5, bytes_max: 2000, entries_max: 50 };

/// One database, with a link to each other one.
pub(crate) struct Node {
    pub(crate) simulation: Simulation,
    pub(crate) environment: Arc<Environment>,
    pub(crate) senders: BTreeMap<usize, Sender>,
    /// Added to the time of all, in ticks.
    pub(crate) skew: i64,
    pub(crate) revisions: RevisionsConfiguration,
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// In ticks.
    pub(crate) now: i64,
}

pub(crate) fn id_of(node: usize) -> DatabaseId {
    DatabaseId([node as u8 + 1; 16])
}

fn options() -> EnvironmentOptions {
    EnvironmentOptions::new("/database")
}

impl Node {
    fn new(number: usize, seed: u64) -> Node {
        let simulation = Platform::simulated(seed);
        let environment = Environment::open(&simulation.platform, options()).unwrap();
        let mut tx = environment.write().unwrap();
        let tag = char::from(b'A' + number as u8).to_string();
        let wanted =
            DatabaseIdentity { database_id: id_of(number), node_tag: tag.parse().unwrap() };
        documents::initialize(&mut tx, wanted).unwrap();
        tx.commit().unwrap();
        let (senders, revisions) = (BTreeMap::new(), RevisionsConfiguration::default());
        Node { simulation, environment, senders, skew: 0, revisions }
    }

    /// Loses power: what was committed is there afterwards.
    pub(crate) fn restart(&mut self) {
        self.simulation.disk.power_cut(Survival::Random).unwrap();
        self.simulation.disk.restart().unwrap();
        self.environment = Environment::open(&self.simulation.platform, options()).unwrap();
        self.senders.values_mut().for_each(Sender::lost);
    }

    pub(crate) fn read(&self) -> ReadTransaction {
        self.environment.read()
    }
}

impl World {
    pub(crate) fn new(count: usize, seed: u64) -> World {
        let mut nodes: Vec<Node> =
            (0..count).map(|number| Node::new(number, seed + number as u64)).collect();
        for (from, node) in nodes.iter_mut().enumerate() {
            for to in (0..count).filter(|to| *to != from) {
                let sender = Sender::new(LinkKind::Internal, "db".to_owned(), String::new());
                node.senders.insert(to, sender);
            }
        }
        World { nodes, now: 1_000_000_000 }
    }

    pub(crate) fn try_execute(
        &mut self,
        node: usize,
        commands: Vec<Command>,
    ) -> Result<BatchOutcome, CommandError> {
        self.now += 10;
        let Node { simulation, environment, skew, revisions, .. } = &self.nodes[node];
        let platform = &simulation.platform;
        let mut tx = environment.write().unwrap();
        let now = Timestamp::from_ticks(self.now + skew);
        let plain = WriteContext::new(now, &*platform.entropy);
        let context = WriteContext { revisions, ..plain };
        let mut patcher = Patcher::new(Arc::clone(&platform.clock), PatchLimits::default());
        let outcome = execute_batch(&mut tx, &Batch { commands }, context, &mut patcher)?;
        tx.commit().unwrap();
        Ok(outcome)
    }

    pub(crate) fn execute(&mut self, node: usize, commands: Vec<Command>) -> BatchOutcome {
        self.try_execute(node, commands).unwrap()
    }

    /// What the sender would send next.
    pub(crate) fn next_message(&mut self, from: usize, to: usize) -> Option<Outgoing> {
        let node = &mut self.nodes[from];
        let tx = node.environment.read();
        let mut share = MemoryBudget::unlimited().share(0);
        let sender = node.senders.get_mut(&to).unwrap();
        sender.next_message(&tx, LIMITS, &mut share).unwrap()
    }

    /// What the receiver answers to a message.
    pub(crate) fn deliver(&mut self, to: usize, bytes: &[u8]) -> Reply {
        let message = Message::read(bytes).unwrap();
        let answered = answer(&self.nodes[to].read(), message, |_| false).unwrap();
        match answered {
            Answered::Reply(reply) => reply,
            Answered::Store(batch) => {
                let outcome = self.execute(to, vec![Command::Receive(batch)]);
                match &outcome.results[0] {
                    commands::CommandResult::Received(received) => accepted(received),
                    other => panic!("{other:?}"),
                }
            }
            Answered::Stage(piece) => panic!("{:?} is staged", piece.hash),
        }
    }

    /// Sends the next message and takes the answer; `None` if there was nothing to send.
    pub(crate) fn step(&mut self, from: usize, to: usize) -> Option<Advance> {
        let outgoing = self.next_message(from, to)?;
        let reply = self.deliver(to, &outgoing.bytes).to_bytes();
        let sender = self.nodes[from].senders.get_mut(&to).unwrap();
        Some(sender.take_reply(&reply).unwrap())
    }

    /// Sends everything from one to another.
    pub(crate) fn send(&mut self, from: usize, to: usize) {
        for _ in 0..10_000 {
            if self.step(from, to).is_none() {
                return;
            }
        }
        panic!("{from} never ends to send to {to}");
    }

    /// Sends everything from everybody to everybody, until nobody has anything to send.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let mut has_sent = false;
            for from in 0..self.nodes.len() {
                for to in (0..self.nodes.len()).filter(|to| *to != from) {
                    while self.step(from, to).is_some() {
                        has_sent = true;
                    }
                }
            }
            if !has_sent {
                return;
            }
        }
        panic!("it never ends");
    }

    /// The only content of all nodes.
    pub(crate) fn agreed(&self) -> Content {
        let mut contents = self.nodes.iter().map(|node| content_of(&node.read()).unwrap());
        let first = contents.next().unwrap();
        for (number, other) in contents.enumerate() {
            assert_eq!(other, first, "node {} and node 0", number + 1);
        }
        first
    }
}

/// What is equal on all nodes once they have everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// Lower-cased id, and the version: change vector, time, flags, JSON if it is a document.
    pub(crate) documents: BTreeMap<String, Version>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub(crate) change_vector: Vec<(DatabaseId, Etag)>,
    pub(crate) last_modified_ticks: i64,
    pub(crate) flags: DocumentFlags,
    pub(crate) json: Option<String>,
}

fn entries_of(change_vector: &str) -> Vec<(DatabaseId, Etag)> {
    let parsed: ChangeVector = change_vector.parse().unwrap();
    let mut entries: Vec<_> =
        parsed.entries().map(|entry| (entry.database_id, entry.etag)).collect();
    entries.sort();
    entries
}

pub(crate) fn content_of(tx: &ReadTransaction) -> Result<Content, DocumentError> {
    tx.check().unwrap();
    documents::check(tx)?;
    let mut content = Content::default();
    for entry in log::read(tx, &[Selection::all(EntryKinds::DOCUMENTS)], Etag::ZERO)? {
        let (id, version) = match entry? {
            LogEntry::Document(row) => (
                row.lower_id().to_owned(),
                Version {
                    change_vector: entries_of(row.change_vector()),
                    last_modified_ticks: row.last_modified_ticks(),
                    flags: row.flags().without(DocumentFlags::FROM_REPLICATION),
                    json: Some(String::from_utf8(row.body()?.to_json()?).unwrap()),
                },
            ),
            LogEntry::DocumentTombstone(row) => {
                // One that is kept for readers of another collection is not part of what is agreed on.
                if documents::get(tx, &DocumentId::new(row.id())?)?.is_some() {
                    continue;
                }
                (
                    row.lower_id().to_owned(),
                    Version {
                        change_vector: entries_of(row.change_vector()),
                        last_modified_ticks: row.last_modified_ticks(),
                        flags: DocumentFlags::NONE,
                        json: None,
                    },
                )
            }
            _ => continue,
        };
        content.documents.insert(id, version);
    }
    Ok(content)
}

pub(crate) fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

pub(crate) fn put(document: &str, json: &str) -> Command {
    let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
    Command::Put(PutDocument {
        id: RequestedId::Exactly(id(document)),
        expected: ExpectedVersion::Any,
        body,
    })
}

pub(crate) fn delete(document: &str) -> Command {
    Command::Delete { id: id(document), expected: ExpectedVersion::Any }
}
