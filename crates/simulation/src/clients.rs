//! Clients: they send commands to any node, repeat them there or elsewhere when they get no answer, and note the
//! answers.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use cluster::Cluster;
use cluster_state::{
    Applied, ClusterError, ClusterTransaction, Command, CompareExchangeCommand,
    CompareExchangeOutcome, DocumentChange, Guard, IdentityCommand, NewDatabase, Outcome,
    RecordChange, RecordCommand, RecordDraft, RecordOutcome, TransactionOutcome, ValueChange,
};
use model::{DatabaseId, DatabaseName, DatabaseRecord, DatabaseTopology, NodeTag};
use platform::simulated::Random;

use crate::{
    history::{Condition, Ended, Operation, Register, Request, Shown, Version},
    network::Sender,
    world::{CLUSTER, World},
};

/// The database whose values clients change.
pub(crate) const DATABASE: DatabaseId = DatabaseId([7; 16]);
/// The identity that clients count up.
pub(crate) const IDENTITY: &str = "numbers|";
/// Records that clients change.
const RECORDS: u64 = 2;
/// How long a client waits for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How often it sends a command.
const ATTEMPTS: u64 = 6;

/// What a client knows of the keys.
type Known = BTreeMap<String, Register>;

/// A command on its way through the attempts of its client.
struct Task {
    name: String,
    command: Command,
    /// The parts of the history that it is.
    parts: Vec<(String, Request)>,
}

/// One client.
pub(crate) struct Client {
    world: Rc<World>,
    number: usize,
    random: Random,
    known: Known,
    sent: u64,
    /// The node that it prefers.
    node: usize,
}

/// The answer to a client in the end.
enum Answer {
    Applied(Applied),
    Refused,
    Unknown,
}

pub(crate) fn value_of(number: u64) -> BlittableBuf {
    let json = format!(r#"{{"Object":{number}}}"#);
    parse_document(json.as_bytes(), &ParseLimits::default()).expect("it is JSON")
}

fn number_in(value: &BlittableBuf) -> u64 {
    let number = value.as_view().root().get_i64("Object").ok().flatten();
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

fn number_of_record(record: &DatabaseRecord) -> u64 {
    let text = String::from_utf8_lossy(record.configuration.json());
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn version(index: u64, value: u64) -> Register {
    Some(Version { index: Some(index), value })
}

impl Client {
    pub(crate) fn new(world: &Rc<World>, number: usize, seed: u64) -> Self {
        let (random, known) = (Random::new(seed), Known::new());
        Self { world: Rc::clone(world), number, random, known, sent: 0, node: 0 }
    }

    /// Works until the run is over.
    pub(crate) async fn run(mut self) {
        while !self.world.is_over.get() {
            let pause = self.world.plan.think.as_micros() as u64;
            let pause = self.world.sleep(Duration::from_micros(self.random.below(pause * 2)));
            pause.await;
            match self.random.below(10) {
                0 | 1 => self.read().await,
                _ => {
                    let task = self.next_task();
                    self.carry_out(task).await;
                }
            }
        }
    }

    fn next_task(&mut self) -> Task {
        self.sent += 1;
        let value = (self.number as u64 + 1) * 1_000_000 + self.sent;
        let name = format!("c{}-{}", self.number, self.sent);
        match self.random.below(10) {
            0..5 => self.put(name, value),
            5 => self.delete(name),
            6 => {
                let names = vec![IDENTITY.to_owned()];
                let command =
                    Command::Identity(IdentityCommand::Next { database: DATABASE, names });
                Task { name, command, parts: Vec::new() }
            }
            7 | 8 => self.transaction(name, value),
            _ => self.record(name, value),
        }
    }

    fn key(&mut self) -> String {
        format!("k{}", self.random.below(self.world.plan.keys))
    }

    /// The index that the client believes a key to have, now and then a wrong one; 0 for none.
    fn expected(&mut self, key: &str) -> u64 {
        let known = self.known.get(key).copied().flatten().and_then(|known| known.index);
        known.unwrap_or(0) + u64::from(self.random.below(12) == 0)
    }

    fn put(&mut self, name: String, number: u64) -> Task {
        let key = self.key();
        let expected = self.expected(&key);
        let request = Request::Put(Condition::AbsentOr(expected), number);
        let (database, value, parts) = (DATABASE, value_of(number), vec![(key.clone(), request)]);
        let put = CompareExchangeCommand::Put { database, key, expected, value };
        Task { name, command: Command::CompareExchange(put), parts }
    }

    fn delete(&mut self, name: String) -> Task {
        let key = self.key();
        let expected = self.expected(&key);
        let parts = vec![(key.clone(), Request::Delete(Condition::AbsentOr(expected)))];
        let delete = CompareExchangeCommand::Delete { database: DATABASE, key, expected };
        Task { name, command: Command::CompareExchange(delete), parts }
    }

    fn transaction(&mut self, name: String, number: u64) -> Task {
        let mut keys = vec![self.key(), self.key()];
        keys.sort_unstable();
        keys.dedup();
        let (mut values, mut parts) = (Vec::new(), Vec::new());
        for key in keys {
            let expected = self.expected(&key);
            let removes = self.random.below(5) == 0 && expected != 0;
            let condition = Condition::Exactly(expected);
            let (request, value) = match removes {
                true => (Request::Delete(condition), None),
                false => (Request::Put(condition, number), Some(value_of(number))),
            };
            parts.push((key.clone(), request));
            values.push(ValueChange { key, expected, value });
        }
        let body = Some(value_of(number));
        let document = DocumentChange {
            id: format!("docs/{number}"),
            body,
            guard: Guard::Off,
            replaces: None,
        };
        let documents = if self.random.below(3) == 0 { vec![document] } else { Vec::new() };
        let ticks = number as i64;
        let command =
            ClusterTransaction { database: DATABASE, values, documents, ticks, executed: 0 };
        Task { name, command: Command::Transaction(command), parts }
    }

    fn record(&mut self, name: String, number: u64) -> Task {
        let record = format!("db{}", self.random.below(RECORDS));
        let expected = self.expected(&record);
        let body = format!(r#"{{"Settings":{{"N":"{number}"}}}}"#).into_bytes();
        let (change, request) = match (expected, self.random.below(4)) {
            (0, _) => {
                let id = DatabaseId(u128::from(number).to_le_bytes());
                let topology = Some(DatabaseTopology::only(NodeTag::A));
                let new = NewDatabase {
                    disabled: false,
                    adopts_files: false,
                    created_ticks: number as i64,
                    topology_id: id,
                    cluster_transaction_id: id,
                    topology,
                    body,
                };
                (RecordChange::Create(new), Request::Put(Condition::Exactly(0), number))
            }
            (expected, 0) => {
                let change =
                    RecordChange::Delete { expected: Some(expected), removes_files: false };
                (change, Request::Delete(Condition::Present(expected)))
            }
            (expected, _) => {
                let draft = RecordDraft {
                    disabled: false,
                    body,
                    topology: None,
                    changes_topology: false,
                    changes_client: false,
                };
                let request = Request::Put(Condition::Present(expected), number);
                (RecordChange::Replace { expected, draft }, request)
            }
        };
        let parts = vec![(record.clone(), request)];
        let (record, request_id) =
            (DatabaseName::new(&record).expect("a valid name"), Some(name.clone()));
        let command = RecordCommand { name: record, request_id, change };
        Task { name, command: Command::Record(command), parts }
    }

    async fn carry_out(&mut self, task: Task) {
        let began = self.world.now();
        let answer = self.send(&task).await;
        let ended = self.world.now();
        let outcomes = match &answer {
            Answer::Applied(applied) => self.understand(&task, applied),
            Answer::Refused => vec![Ended::Refused; task.parts.len()],
            Answer::Unknown => vec![Ended::Unknown; task.parts.len()],
        };
        let counted = match &answer {
            Answer::Applied(applied) => Some(Some(applied)),
            Answer::Refused => None,
            Answer::Unknown => Some(None),
        };
        self.world.note_identity(&task.command, counted);
        let described = match &answer {
            Answer::Applied(applied) => format!("{applied:?}"),
            Answer::Refused => "refused".to_owned(),
            Answer::Unknown => "unknown".to_owned(),
        };
        self.world.log(format!("{} {:?} -> {described}", task.name, task.parts));
        for ((key, request), outcome) in task.parts.into_iter().zip(outcomes) {
            self.learn(&key, request, outcome);
            let name = task.name.clone();
            self.world.record(Operation { name, key, request, began, ended, outcome });
        }
    }

    /// Sends a command until it is answered.
    async fn send(&mut self, task: &Task) -> Answer {
        let mut is_possible = false;
        for attempt in 0..ATTEMPTS {
            if attempt != 0 {
                let pause = Duration::from_millis(self.random.below(500) + 1);
                let pause = self.world.sleep(pause);
                pause.await;
            }
            if attempt != 0 || self.random.below(5) == 0 {
                self.node = self.random.below(self.world.plan.machines as u64) as usize;
            }
            if !self.world.is_member(self.node) {
                continue;
            }
            let (command, id) = (task.command.clone(), task.name.clone());
            let submit = move |cluster: Arc<Cluster>| {
                // Records remember requests themselves.
                let id = (!matches!(command, Command::Record(_))).then_some(id.as_str());
                let submitted = match cluster.id() == CLUSTER {
                    true => cluster.submit(&command, id),
                    false => Err(ClusterError::Closed),
                };
                async move { submitted?.await }
            };
            let answer = self.world.network.ask(Sender::Client, self.node, submit);
            match self.world.within(ANSWER_TIME_MAX, answer).await {
                Some(Ok(Ok(applied))) => return Answer::Applied(applied),
                Some(Ok(Err(
                    ClusterError::NoLeader { .. } | ClusterError::Busy | ClusterError::Closed,
                ))) => {}
                Some(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Some(Ok(Err(_)) | Err(_)) | None => is_possible = true,
            }
            // A record that was deleted does not remember the request.
            if is_possible && matches!(task.command, Command::Record(_)) {
                break;
            }
        }
        if is_possible { Answer::Unknown } else { Answer::Refused }
    }

    /// Reads everything from one state.
    async fn read(&mut self) {
        self.sent += 1;
        let name = format!("c{}-{}", self.number, self.sent);
        let node = self.random.below(self.world.plan.machines as u64) as usize;
        if !self.world.is_member(node) {
            return;
        }
        let began = self.world.now();
        let read = |cluster: Arc<Cluster>| async move {
            cluster.catch_up().await?;
            if cluster.id() != CLUSTER {
                return Err(ClusterError::Closed);
            }
            registers(&cluster)
        };
        let answer = self.world.network.ask(Sender::Client, node, read);
        let Some(Ok(Ok((position, found)))) = self.world.within(ANSWER_TIME_MAX, answer).await
        else {
            return;
        };
        let ended = self.world.now();
        self.world.log(format!("{name} reads at {position} from node {node}: {found:?}"));
        self.world.record_read(&name, position, &found, (began, ended));
        self.known = found;
    }

    fn learn(&mut self, key: &str, request: Request, outcome: Ended) {
        let Ended::Answered { position, is_done, shown } = outcome else { return };
        let learned = match (is_done, request, shown) {
            (true, Request::Put(_, value), _) => version(position, value),
            (true, Request::Delete(_), _) => None,
            (_, _, Shown::State(state)) => state,
            (_, _, Shown::Index(index)) => index.and_then(|index| version(index, 0)),
            _ => return,
        };
        self.known.insert(key.to_owned(), learned);
    }

    /// What an answer says about each part.
    fn understand(&self, task: &Task, applied: &Applied) -> Vec<Ended> {
        let position = applied.index;
        let answered = |is_done, shown| Ended::Answered { position, is_done, shown };
        match (&applied.outcome, &task.command) {
            (Outcome::CompareExchange(outcome), Command::CompareExchange(command)) => {
                vec![answered(outcome.is_successful, shown_by(outcome, command))]
            }
            (Outcome::Identities(_), _) => Vec::new(),
            (Outcome::Transaction(TransactionOutcome::Committed { .. }), _) => {
                vec![answered(true, Shown::Nothing); task.parts.len()]
            }
            (Outcome::Transaction(TransactionOutcome::Violated(violations)), _) => {
                let part = |(key, _): &(String, Request)| {
                    match violations.iter().find(|violation| violation.key == *key) {
                        Some(violation) => {
                            let actual = u64::try_from(violation.actual).ok();
                            answered(false, Shown::Index(actual))
                        }
                        // The others could have been changed, but were not.
                        None => Ended::Refused,
                    }
                };
                task.parts.iter().map(part).collect()
            }
            (Outcome::Record(outcome), _) => vec![match outcome {
                RecordOutcome::Stored { index } => {
                    Ended::Answered { position: *index, is_done: true, shown: Shown::Nothing }
                }
                RecordOutcome::Deleted => answered(true, Shown::Nothing),
                RecordOutcome::Missing => answered(false, Shown::State(None)),
                RecordOutcome::AlreadyExists => answered(false, Shown::Nothing),
                RecordOutcome::OtherVersion { actual } => {
                    answered(false, Shown::Index(Some(*actual)))
                }
            }],
            (outcome, command) => panic!("{command:?} was answered with {outcome:?}"),
        }
    }
}

fn shown_by(outcome: &CompareExchangeOutcome, command: &CompareExchangeCommand) -> Shown {
    let number = outcome.value.as_ref().map(number_in);
    match (outcome.is_successful, command, number) {
        (false, _, Some(value)) => Shown::State(version(outcome.index, value)),
        (true, CompareExchangeCommand::Delete { expected, .. }, Some(value)) => {
            Shown::State(version(*expected, value))
        }
        (true, CompareExchangeCommand::Delete { .. }, None) => Shown::State(None),
        _ => Shown::Nothing,
    }
}

/// The number of the newest change that a node has applied, and the state of every key.
pub(crate) fn registers(cluster: &Cluster) -> Result<(u64, Known), ClusterError> {
    let state = cluster.store().read();
    let mut found = Known::new();
    for entry in state.compare_exchange_with_prefix(DATABASE, "", None)? {
        let entry = entry?;
        let number = entry.value.root().get_i64("Object").ok().flatten();
        let value = number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        found.insert(entry.key, version(entry.index, value));
    }
    for record in cluster.store().records() {
        let value = number_of_record(&record);
        found.insert(record.name.to_string(), version(record.etag, value));
    }
    Ok((state.last_index()?, found))
}
