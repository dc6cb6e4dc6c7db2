//! Databases, and messages between them.

use std::{collections::BTreeMap, sync::Arc};

use blittable::{ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command, CommandError, PatchLimits, Patcher, execute_batch};
use documents::{
    ChangeCounters, CounterStep, DatabaseIdentity, DeleteAttachment, DocumentError,
    ExpectedVersion, NewContent, PutAttachment, PutDocument, RequestedId, WriteContext,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
    time_series::{MomentRange, TimeSeriesChange},
};
use model::{
    AttachmentName, ChangeVector, ContentHash, CounterName, DatabaseId, DocumentFlags, DocumentId,
    Etag, RevisionsConfiguration, TimeSeriesName,
};
use platform::{
    Platform, Timestamp,
    simulated::{Simulation, Survival},
};
use replication::{
    Advance, Answered, BatchLimits, Group, LinkKind, Message, Outgoing, Reply, Sender, accepted,
    answer,
};
use storage::{Environment, EnvironmentOptions, MemoryBudget, ReadTransaction};
use timeseries::{Entries, Entry};

pub(crate) const LIMITS: BatchLimits =
    BatchLimits { items_max: 5, bytes_max: 2000, entries_max: 50, up_to: Etag(u64::MAX) };

/// One database, with a link to each other one.
pub(crate) struct Node {
    pub(crate) simulation: Simulation,
    pub(crate) environment: Arc<Environment>,
    pub(crate) senders: BTreeMap<usize, Sender>,
    /// Contents that have arrived before their batch.
    pub(crate) staged: BTreeMap<ContentHash, NewContent>,
    /// Added to the time of all, in ticks.
    pub(crate) skew: i64,
    pub(crate) revisions: RevisionsConfiguration,
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// In ticks.
    pub(crate) now: i64,
    /// Whether conflicts are kept.
    pub(crate) keeps_conflicts: bool,
    pub(crate) refuses_deletions: bool,
}

/// The group of all databases.
pub(crate) const GROUP: DatabaseId = DatabaseId([0xee; 16]);

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
        let staged = BTreeMap::new();
        Node { simulation, environment, senders, staged, skew: 0, revisions }
    }

    /// Loses power: what was committed is there afterwards.
    pub(crate) fn restart(&mut self) {
        self.simulation.disk.power_cut(Survival::Random).unwrap();
        self.simulation.disk.restart().unwrap();
        self.environment = Environment::open(&self.simulation.platform, options()).unwrap();
        self.senders.values_mut().for_each(Sender::lost);
        self.staged.clear();
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
                let sender = Sender::new(LinkKind::Internal, GROUP, "db".to_owned(), String::new());
                node.senders.insert(to, sender);
            }
        }
        World { nodes, now: 1_000_000_000, keeps_conflicts: false, refuses_deletions: false }
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
        sender.next_message(&tx, None, LIMITS, &mut share).unwrap()
    }

    /// What the receiver answers to a message.
    pub(crate) fn deliver(&mut self, to: usize, bytes: &[u8]) -> Reply {
        self.deliver_message(to, Message::read(bytes).unwrap())
    }

    pub(crate) fn deliver_message(&mut self, to: usize, message: Message) -> Reply {
        let node = &self.nodes[to];
        let staged = |hash: &ContentHash| node.staged.contains_key(hash);
        let answered =
            answer(&node.read(), Group { id: GROUP, record: 1 }, message, staged).unwrap();
        match answered {
            Answered::Reply(reply) => reply,
            Answered::Store(mut batch, contents) => {
                let staged = &mut self.nodes[to].staged;
                batch.contents = contents.iter().filter_map(|hash| staged.remove(hash)).collect();
                batch.refuses_deletions = self.refuses_deletions;
                batch.keeps_conflicts = self.keeps_conflicts;
                let outcome = self.execute(to, vec![Command::Receive(batch)]);
                match &outcome.results[0] {
                    commands::CommandResult::Received(received) => accepted(received),
                    other => panic!("{other:?}"),
                }
            }
            // Contents are short here: one piece is all.
            Answered::Stage(piece) => {
                let (hash, bytes) = (piece.hash, piece.bytes);
                assert_eq!((piece.position, piece.content_bytes), (0, bytes.len() as u64));
                let position = bytes.len() as u64;
                self.nodes[to].staged.insert(hash, NewContent::Bytes { bytes, hash });
                Reply::Taken(position)
            }
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
            if let Some(difference) = other.difference(&first) {
                panic!("node {} and node 0: {difference}", number + 1);
            }
        }
        first
    }
}

/// A change vector.
pub(crate) type Vector = Vec<(DatabaseId, Etag)>;
/// A document, and the name of something that belongs to it.
type Key = (String, String);
/// Moment, values as bits, and tag.
type SeriesEntry = (i64, Vec<u64>, Option<String>);

/// What is equal on all nodes once they have everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// Lower-cased id, and the version: change vector, time, flags, JSON if it is a document.
    pub(crate) documents: BTreeMap<String, Version>,
    /// Id and change vector, with flags, JSON and the names of attachments with their contents.
    pub(crate) revisions: BTreeMap<(String, Vector), (DocumentFlags, String, String)>,
    /// Document and name, with change vector and content.
    pub(crate) attachments: BTreeMap<Key, (Vector, Option<ContentHash>)>,
    /// Document and name, with what each database has counted.
    pub(crate) counters: BTreeMap<Key, Vec<(DatabaseId, i64, Etag)>>,
    /// Documents in conflict, with the versions and whether they are documents.
    pub(crate) conflicts: BTreeMap<String, BTreeMap<Vector, Option<String>>>,
    /// Document and name, with entries.
    pub(crate) series: BTreeMap<Key, Vec<SeriesEntry>>,
}

fn first_difference<K: Ord + Clone + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> Option<String> {
    let mut keys = one.keys().chain(other.keys());
    let key = keys.find(|key| one.get(*key) != other.get(*key))?;
    Some(format!("{key:?}:\n{:?}\n{:?}", one.get(key), other.get(key)))
}

impl Content {
    /// The first difference to another content.
    pub(crate) fn difference(&self, other: &Content) -> Option<String> {
        // Whether a version says that it was a conflict depends on who has met whom first.
        let unmarked = |content: &Content| {
            let mut documents = content.documents.clone();
            for version in documents.values_mut() {
                version.flags = version.flags.without(DocumentFlags::RESOLVED);
            }
            documents
        };
        first_difference(&unmarked(self), &unmarked(other))
            .or_else(|| first_difference(&self.conflicts, &other.conflicts))
            .or_else(|| first_difference(&self.revisions, &other.revisions))
            .or_else(|| first_difference(&self.attachments, &other.attachments))
            .or_else(|| first_difference(&self.counters, &other.counters))
            .or_else(|| first_difference(&self.series, &other.series))
    }

    /// The sum of a counter.
    pub(crate) fn counted(&self, document: &str, name: &str) -> i64 {
        let values = self.counters.get(&(document.to_owned(), name.to_owned()));
        values.into_iter().flatten().map(|(_, value, _)| value).sum()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub(crate) change_vector: Vector,
    pub(crate) last_modified_ticks: i64,
    pub(crate) flags: DocumentFlags,
    pub(crate) json: Option<String>,
}

/// The version of a document or of its deletion, and its time.
pub(crate) fn version_of(tx: &ReadTransaction, document: &str) -> Option<(ChangeVector, i64)> {
    if let Some(row) = documents::get(tx, &id(document)).unwrap() {
        return Some((row.change_vector().parse().unwrap(), row.last_modified_ticks()));
    }
    let row = documents::get_tombstone(tx, &id(document)).unwrap()?;
    Some((row.change_vector().parse().unwrap(), row.last_modified_ticks()))
}

fn entries_of(change_vector: &str) -> Vector {
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
    for entry in log::read(tx, &[Selection::all(EntryKinds::of(&EntryKind::ALL))], Etag::ZERO)? {
        content.add(tx, entry?)?;
    }
    Ok(content)
}

impl Content {
    fn add(&mut self, tx: &ReadTransaction, entry: LogEntry<'_>) -> Result<(), DocumentError> {
        let shown = |flags: DocumentFlags| flags.without(DocumentFlags::FROM_REPLICATION);
        match entry {
            LogEntry::Document(row) => {
                let version = Version {
                    change_vector: entries_of(row.change_vector()),
                    last_modified_ticks: row.last_modified_ticks(),
                    flags: shown(row.flags()),
                    json: Some(String::from_utf8(row.body()?.to_json()?).unwrap()),
                };
                self.documents.insert(row.lower_id().to_owned(), version);
            }
            LogEntry::DocumentTombstone(row) => {
                // One that is kept for readers of another collection is not part of what is agreed on.
                let id = DocumentId::new(row.id())?;
                let is_replaced = documents::get(tx, &id)?.is_some()
                    || !documents::conflicts_of(tx, &id)?.is_empty();
                assert!(
                    !row.is_of_conflict() || is_replaced,
                    "{id}: a conflict has left a deletion"
                );
                if !is_replaced {
                    let version = Version {
                        change_vector: entries_of(row.change_vector()),
                        last_modified_ticks: row.last_modified_ticks(),
                        flags: DocumentFlags::NONE,
                        json: None,
                    };
                    self.documents.insert(row.lower_id().to_owned(), version);
                }
            }
            LogEntry::Revision(row) => {
                let mut attachments = String::new();
                for attachment in documents::attachments_of_revision(tx, row.etag())? {
                    let attachment = attachment?;
                    attachments += &format!("{} {};", attachment.name(), attachment.hash());
                }
                let json = String::from_utf8(row.body()?.to_json()?).unwrap();
                let key = (row.lower_id().to_owned(), entries_of(row.change_vector()));
                self.revisions.insert(key, (shown(row.flags()), json, attachments));
            }
            LogEntry::Attachment(row) => {
                if let Some(id) = row.lower_document_id() {
                    let key = (id.to_owned(), row.lower_name().to_owned());
                    let found = (entries_of(row.change_vector()), Some(row.hash()));
                    self.attachments.insert(key, found);
                }
            }
            LogEntry::AttachmentTombstone(row) => {
                let key = (row.lower_document_id().to_owned(), row.lower_name().to_owned());
                self.attachments.insert(key, (entries_of(row.change_vector()), None));
            }
            LogEntry::Counter(row) => {
                let values = row
                    .values()
                    .map(|value| value.map(|value| (value.database_id, value.value, value.etag)));
                let mut values = values.collect::<Result<Vec<_>, _>>()?;
                values.sort();
                let key = (row.lower_document_id().to_owned(), row.lower_name().to_owned());
                self.counters.insert(key, values);
            }
            LogEntry::Segment(row) => {
                let mut entries = Entries::default();
                row.decode(&mut entries)?;
                let key = (row.lower_document_id().to_owned(), row.lower_name().to_owned());
                let series = self.series.entry(key).or_default();
                series.extend(entries.iter().map(|entry| {
                    let values = entry.values.iter().map(|value| value.to_bits()).collect();
                    (entry.timestamp_ms, values, entry.tag.map(str::to_owned))
                }));
                series.sort();
            }
            LogEntry::Conflict(row) => {
                let json =
                    row.body().map(|body| String::from_utf8(body.to_json().unwrap()).unwrap());
                let versions = self.conflicts.entry(row.lower_id().to_owned()).or_default();
                versions.insert(entries_of(row.change_vector()), json);
            }
            LogEntry::CounterTombstone(_) | LogEntry::DeletedRange(_) => {}
        }
        Ok(())
    }
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

pub(crate) fn increment(document: &str, name: &str, by: i64) -> Command {
    let name = CounterName::new(name).unwrap();
    let steps = vec![CounterStep::Increment { name, by }];
    Command::ChangeCounters(ChangeCounters { id: id(document), steps, ignores_missing: true })
}

pub(crate) fn delete_counter(document: &str, name: &str) -> Command {
    let steps = vec![CounterStep::Delete { name: CounterName::new(name).unwrap() }];
    Command::ChangeCounters(ChangeCounters { id: id(document), steps, ignores_missing: true })
}

pub(crate) fn put_attachment(document: &str, name: &str, content: &str) -> Command {
    let bytes = content.as_bytes().to_vec();
    let hash = documents::hash_of(&bytes);
    Command::PutAttachment(PutAttachment {
        id: id(document),
        name: AttachmentName::new(name).unwrap(),
        content_type: "text/plain".to_owned(),
        expected: ExpectedVersion::Any,
        content: NewContent::Bytes { bytes, hash },
    })
}

pub(crate) fn delete_attachment(document: &str, name: &str) -> Command {
    let name = AttachmentName::new(name).unwrap();
    let expected = ExpectedVersion::Any;
    Command::DeleteAttachment(DeleteAttachment { id: id(document), name, expected })
}

pub(crate) fn append(document: &str, series: &str, entries: &[(i64, f64)]) -> Command {
    let name = TimeSeriesName::new(series).unwrap();
    let mut change = TimeSeriesChange::new(id(document), name);
    change.ignores_missing = true;
    for (timestamp_ms, value) in entries {
        change.appends.push(Entry { timestamp_ms: *timestamp_ms, values: &[*value], tag: None });
    }
    Command::ChangeTimeSeries(Box::new(change))
}

pub(crate) fn delete_range(document: &str, series: &str, from: i64, to: i64) -> Command {
    let name = TimeSeriesName::new(series).unwrap();
    let mut change = TimeSeriesChange::new(id(document), name);
    change.ignores_missing = true;
    change.deletes.push(MomentRange { from, to });
    Command::ChangeTimeSeries(Box::new(change))
}
