//! The workloads of documents: lists that grow and registers, in batches and in sessions.

use std::collections::BTreeMap;

use consistency::{NEVER, Outcome, Step, Transaction};
use serde_json::{Value, json};

use crate::{
    consistency::{
        Round, Workload,
        client::{Client, Played, Trouble},
    },
    random::Random,
};

const SNAPSHOT: &str = "Corvus-Snapshot";
/// Maximum number of keys in a transaction.
const KEYS_MAX: u64 = 4;
/// Number of keys read in one request at the end.
const FINAL_KEYS: usize = 8;
const APPEND: &str = "this.L.push(args.V)";
const BEGIN_LIST: &str = "this.L = [args.V]; this.Next = args.Next";

/// Whether the keys hold lists.
pub(crate) fn are_lists(workload: Workload) -> bool {
    !matches!(
        workload,
        Workload::Optimistic { lists: false }
            | Workload::Tokens { lists: false }
            | Workload::ClusterWide { lists: false }
            | Workload::ClusterValues
    )
}

/// The server creates atomic guards for clients of this version in cluster-wide transactions.
const WITH_GUARDS: [(&str, &str); 1] = [("Raven-Client-Version", "5.4.0")];

/// A document or a value as it was read: its content and its version; empty when it does not exist.
struct Read {
    list: Vec<u64>,
    version: String,
}

/// The outcome of a transaction.
enum Done {
    Committed(Vec<Step>),
    Refused(Vec<Step>),
    Unknown(Vec<Step>),
    /// Nothing was written, and the reads are not part of the history.
    Nothing,
    Broken(String),
}

/// Runs one process, until there are enough operations or the server is gone.
pub(crate) fn play(url: &str, round: &Round, process: u32, random: Random) -> Played<Transaction> {
    let mut played = Played::default();
    let Some(client) = Client::connect(url, round.answer_time_max) else { return played };
    let lists = are_lists(round.workload);
    let mut session = Session { client, round, random, lists, steps: Vec::new() };
    while let Some(count) = round.begin() {
        let began = round.now();
        let (outcome, steps) = match session.transaction(count) {
            Done::Committed(steps) => (Outcome::Committed, steps),
            Done::Refused(steps) => (Outcome::Failed, steps),
            Done::Unknown(steps) => (Outcome::Unknown, steps),
            Done::Nothing => (Outcome::Failed, Vec::new()),
            Done::Broken(answer) => {
                played.broken = Some(answer);
                return played;
            }
        };
        let is_unknown = outcome == Outcome::Unknown;
        let ended = if is_unknown { NEVER } else { round.now() };
        played.committed += u64::from(outcome == Outcome::Committed);
        played.history.push(Transaction { process, began, ended, outcome, steps });
        if is_unknown {
            return played;
        }
    }
    played
}

/// Reads everything once, as a separate process of the history.
pub(crate) fn read_all(url: &str, round: &Round, process: u32) -> Played<Transaction> {
    let mut played = Played::default();
    let Some(client) = Client::connect(url, round.answer_time_max) else { return played };
    let (random, lists) = (Random::new(0), are_lists(round.workload));
    let mut session = Session { client, round, random, lists, steps: Vec::new() };
    let keys: Vec<u64> = round.keys().collect();
    for keys in keys.chunks(FINAL_KEYS) {
        let began = round.now();
        let read = match round.workload {
            Workload::ClusterValues => session.load_values(keys),
            _ => session.load(keys, None),
        };
        if read.is_err() {
            played.broken = Some("what is there could not be read at the end".to_owned());
            return played;
        }
        let (ended, outcome) = (round.now(), Outcome::Committed);
        let steps = std::mem::take(&mut session.steps);
        played.history.push(Transaction { process, began, ended, outcome, steps });
    }
    played
}

struct Session<'r> {
    client: Client,
    round: &'r Round,
    random: Random,
    lists: bool,
    /// The operations of the transaction so far.
    steps: Vec<Step>,
}

impl Session<'_> {
    fn transaction(&mut self, count: u64) -> Done {
        self.steps.clear();
        let mut keys: Vec<u64> =
            (0..=self.random.below(KEYS_MAX)).map(|_| self.key(count)).collect();
        keys.sort_unstable();
        keys.dedup();
        let done = match self.round.workload {
            Workload::Requests if self.random.below(2) == 0 => self.append(&keys),
            Workload::Requests => match self.random.below(3) {
                0 => self.read_counted(&keys),
                1 => self.read_everything_of(keys[0]),
                _ => self.read_at_once(&keys).map(drop),
            },
            Workload::Optimistic { .. } => self.session(&keys, Reading::AtOnce, Writing::Checked),
            Workload::Tokens { .. } => self.session(&keys, Reading::UnderToken, Writing::Checked),
            Workload::Unheld => self.session(&keys, Reading::OneByOne, Writing::Checked),
            Workload::ClusterWide { .. } => {
                self.session(&keys, Reading::AtOnce, Writing::ClusterWide)
            }
            Workload::ClusterValues => self.exchange(&keys),
            Workload::LastWriteWins | Workload::Exchanges => {
                self.session(&keys, Reading::OneByOne, Writing::Unchecked)
            }
        };
        let steps = std::mem::take(&mut self.steps);
        let has_written =
            steps.iter().any(|step| matches!(step, Step::Append { .. } | Step::Write { .. }));
        match done {
            Ok(()) => Done::Committed(steps),
            Err(Trouble::Conflict) => Done::Refused(steps),
            Err(Trouble::SnapshotEnded) => Done::Nothing,
            Err(Trouble::Unknown) if has_written => Done::Unknown(steps),
            Err(Trouble::Unknown) => Done::Unknown(Vec::new()),
            Err(Trouble::Broken(answer)) => Done::Broken(answer),
        }
    }

    fn key(&mut self, count: u64) -> u64 {
        self.round.key(count, &mut self.random)
    }

    /// Appends values to lists in one batch of patches. Each value is counted and measured in the
    /// same batch, so that list, counter and time series always have the same length.
    fn append(&mut self, keys: &[u64]) -> Result<(), Trouble> {
        let mut commands = Vec::new();
        for key in keys {
            for _ in 0..=self.random.below(2) {
                let value = self.round.value();
                let values = json!({"V": value, "Next": id(key + 1)});
                commands.push(json!({
                    "Id": id(*key), "ChangeVector": null, "Type": "PATCH",
                    "Patch": {"Script": APPEND, "Values": values},
                    "PatchIfMissing": {"Script": BEGIN_LIST, "Values": values},
                }));
                let counted = json!({"Type": "Increment", "CounterName": "c", "Delta": 1});
                commands.push(json!({
                    "Id": id(*key), "ChangeVector": null, "Type": "Counters",
                    "Counters": {"DocumentId": id(*key), "Operations": [counted]},
                }));
                // A different millisecond for each value.
                let (seconds, millis) = (value / 1000, value % 1000);
                let time = format!(
                    "2026-01-01T{:02}:{:02}:{:02}.{millis:03}0000Z",
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60
                );
                let measured = json!({"Timestamp": time, "Values": [value]});
                commands.push(json!({
                    "Id": id(*key), "ChangeVector": null, "Type": "TimeSeries",
                    "TimeSeries": {"Name": "s", "Appends": [measured]},
                }));
                self.steps.push(Step::Append { key: *key, value });
            }
        }
        self.batch(&commands)
    }

    /// Documents and their counters in one request.
    fn read_counted(&mut self, keys: &[u64]) -> Result<(), Trouble> {
        let ids: Vec<String> = keys.iter().map(|key| format!("id={}", id(*key))).collect();
        let target = format!("/docs?{}&counter=c", ids.join("&"));
        let answer = self.client.send("GET", &target, &[], b"")?;
        let mut read = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            self.note(*key, &answer["Results"][place], &mut read);
            let counted = answer["CounterIncludes"][id(*key)][0]["TotalValue"].as_u64();
            same_length(*key, &read[key].list, "included counter", counted)?;
        }
        Ok(())
    }

    /// A document, its counters and its time series, in three requests under one token.
    fn read_everything_of(&mut self, key: u64) -> Result<(), Trouble> {
        let token = self.open_snapshot()?;
        let list = self.load(&[key], Some(&token))?.remove(&key).map(|read| read.list);
        let list = list.unwrap_or_default();
        let headers = [(SNAPSHOT, token.as_str())];
        let target = format!("/counters?docId={}&counter=c", id(key));
        let counters = self.client.send("GET", &target, &headers, b"")?;
        let counted = counters["Counters"][0]["TotalValue"].as_u64();
        same_length(key, &list, "counter", counted)?;
        let target = format!("/timeseries/stats?docId={}", id(key));
        let series = self.client.send("GET", &target, &headers, b"")?;
        let measured = series["TimeSeries"][0]["NumberOfEntries"].as_u64();
        same_length(key, &list, "time series", measured)?;
        self.release_snapshot(&token)
    }

    fn open_snapshot(&mut self) -> Result<String, Trouble> {
        let opened = self.client.send("POST", "/snapshots", &[], b"")?;
        let token = opened["Snapshot"].as_str().map(str::to_owned);
        token.ok_or_else(|| Trouble::Broken("a snapshot without a token".to_owned()))
    }

    fn release_snapshot(&mut self, token: &str) -> Result<(), Trouble> {
        self.client.send("DELETE", &format!("/snapshots?id={token}"), &[], b"").map(drop)
    }

    fn batch(&mut self, commands: &[Value]) -> Result<(), Trouble> {
        let body = json!({"Commands": commands}).to_string();
        self.client.send("POST", "/bulk_docs", &[], body.as_bytes()).map(drop)
    }

    /// Reads in one request: by ids, with includes, or by a query.
    fn read_at_once(&mut self, keys: &[u64]) -> Result<BTreeMap<u64, Read>, Trouble> {
        match self.random.below(4) {
            0 => {
                let answer = self.client.send(
                    "GET",
                    &format!("/docs?id={}&include=Next", id(keys[0])),
                    &[],
                    b"",
                )?;
                let mut read = BTreeMap::new();
                self.note(keys[0], &answer["Results"][0], &mut read);
                if let Some(next) = answer["Results"][0]["Next"].as_str() {
                    // A missing document has no includes.
                    self.note(keys[0] + 1, &answer["Includes"][next], &mut read);
                }
                Ok(read)
            }
            1 => {
                let ids: Vec<String> = keys.iter().map(|key| format!("'{}'", id(*key))).collect();
                let query = format!("from @all_docs where id() in ({})", ids.join(","));
                let body = json!({"Query": query}).to_string();
                let answer = self.client.send("POST", "/queries", &[], body.as_bytes())?;
                let results = answer["Results"].as_array().cloned().unwrap_or_default();
                let mut read = BTreeMap::new();
                for key in keys {
                    let is_it = |one: &&Value| one["@metadata"]["@id"] == id(*key).as_str();
                    let found = results.iter().find(is_it).unwrap_or(&Value::Null);
                    self.note(*key, found, &mut read);
                }
                Ok(read)
            }
            _ => self.load(keys, None),
        }
    }

    fn load(&mut self, keys: &[u64], token: Option<&str>) -> Result<BTreeMap<u64, Read>, Trouble> {
        let ids: Vec<String> = keys.iter().map(|key| format!("id={}", id(*key))).collect();
        let headers: Vec<_> = token.map(|token| (SNAPSHOT, token)).into_iter().collect();
        let answer = self.client.send("GET", &format!("/docs?{}", ids.join("&")), &headers, b"")?;
        let mut read = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            self.note(*key, &answer["Results"][place], &mut read);
        }
        Ok(read)
    }

    fn note(&mut self, key: u64, document: &Value, read: &mut BTreeMap<u64, Read>) {
        let list = match self.lists {
            true => document["L"].as_array().cloned().unwrap_or_default(),
            false => vec![document["V"].clone()],
        };
        let list: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
        self.steps.push(match self.lists {
            true => Step::List { key, values: list.clone() },
            false => Step::Value { key, value: list.first().copied().unwrap_or(0) },
        });
        let version = document["@metadata"]["@change-vector"].as_str().unwrap_or("").to_owned();
        read.insert(key, Read { list, version });
    }

    /// A session: reads, then writes some of what it has read in one batch.
    fn session(&mut self, keys: &[u64], reading: Reading, writing: Writing) -> Result<(), Trouble> {
        let read = match reading {
            Reading::AtOnce => self.read_at_once(keys)?,
            Reading::OneByOne => self.read_one_by_one(keys, None)?,
            Reading::UnderToken => {
                let token = self.open_snapshot()?;
                let read = self.read_one_by_one(keys, Some(&token))?;
                // A second append to the same key, as a unit of work may contain.
                self.load(&keys[..1], Some(&token))?;
                self.release_snapshot(&token)?;
                read
            }
        };
        let mut commands = Vec::new();
        for (key, read) in read {
            if self.random.below(2) == 0 {
                continue;
            }
            let value = self.round.value();
            let mut document = match self.lists {
                true => {
                    let mut list = read.list;
                    list.push(value);
                    self.steps.push(Step::Append { key, value });
                    json!({"L": list})
                }
                false => {
                    self.steps.push(Step::Write { key, value });
                    json!({"V": value})
                }
            };
            document["Next"] = id(key + 1).into();
            let version = match writing {
                Writing::Checked | Writing::ClusterWide => Value::from(read.version),
                Writing::Unchecked => Value::Null,
            };
            commands.push(json!({
                "Id": id(key), "ChangeVector": version, "Type": "PUT", "Document": document
            }));
        }
        match writing {
            _ if commands.is_empty() => Ok(()),
            Writing::Checked | Writing::Unchecked => self.batch(&commands),
            Writing::ClusterWide => self.cluster_wide(&commands),
        }
    }

    /// Reads some values of compare exchange in one request, and changes some of them together.
    fn exchange(&mut self, keys: &[u64]) -> Result<(), Trouble> {
        let mut commands = Vec::new();
        for (key, read) in self.load_values(keys)? {
            if self.random.below(2) == 0 {
                continue;
            }
            let value = self.round.value();
            self.steps.push(Step::Write { key, value });
            let index: u64 = read.version.parse().unwrap_or(0);
            commands.push(json!({
                "Type": "CompareExchangePUT", "Id": id(key), "Index": index,
                "Document": {"Object": value},
            }));
        }
        if commands.is_empty() { Ok(()) } else { self.cluster_wide(&commands) }
    }

    fn load_values(&mut self, keys: &[u64]) -> Result<BTreeMap<u64, Read>, Trouble> {
        let wanted: Vec<String> = keys.iter().map(|key| format!("key={}", id(*key))).collect();
        let target = format!("/cmpxchg?{}", wanted.join("&"));
        let answer = self.client.send("GET", &target, &[], b"")?;
        let mut read = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            let entry = &answer["Results"][place];
            let value = entry["Value"]["Object"].as_u64().unwrap_or(0);
            self.steps.push(Step::Value { key: *key, value });
            let version = entry["Index"].as_u64().unwrap_or(0).to_string();
            read.insert(*key, Read { list: vec![value], version });
        }
        Ok(read)
    }

    fn cluster_wide(&mut self, commands: &[Value]) -> Result<(), Trouble> {
        let body = json!({"Commands": commands, "TransactionMode": "ClusterWide"}).to_string();
        self.client.send("POST", "/bulk_docs", &WITH_GUARDS, body.as_bytes()).map(drop)
    }

    fn read_one_by_one(
        &mut self,
        keys: &[u64],
        token: Option<&str>,
    ) -> Result<BTreeMap<u64, Read>, Trouble> {
        let mut read = BTreeMap::new();
        for key in keys {
            read.extend(self.load(&[*key], token)?);
        }
        Ok(read)
    }
}

/// Values that were written in one batch must be read together.
fn same_length(key: u64, list: &[u64], what: &str, counted: Option<u64>) -> Result<(), Trouble> {
    let (length, counted) = (list.len() as u64, counted.unwrap_or(0));
    if length == counted {
        return Ok(());
    }
    Err(Trouble::Broken(format!(
        "fractured: the list of key {key} has {length} values, its {what} says {counted}"
    )))
}

/// How a session reads.
#[derive(Clone, Copy)]
enum Reading {
    AtOnce,
    OneByOne,
    UnderToken,
}

/// How a session writes.
#[derive(Clone, Copy)]
enum Writing {
    /// Only if the document still has the version that was read.
    Checked,
    /// Unconditionally.
    Unchecked,
    /// Through the cluster, only if the document still has the version that was read.
    ClusterWide,
}

fn id(key: u64) -> String {
    format!("k/{key}")
}
