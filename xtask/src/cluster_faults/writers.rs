//! Clients that write documents and counters, and what must be there at the end.
//!
//! A client writes at one node: documents of its own, documents that all clients write, counters that all clients
//! increment, and documents in cluster-wide transactions. A document whose last write has an unknown outcome is not
//! written again, because a node that was paused may execute that write later.

use std::{collections::BTreeMap, thread::sleep, time::Duration};

use serde_json::{Value, json};

use crate::{
    consistency::{
        DATABASE, Round,
        client::{Client, Trouble},
    },
    random::Random,
};

/// Documents that all clients write.
pub(crate) const SHARED: u64 = 20;
/// Documents with a counter that all clients increment.
pub(crate) const COUNTED: u64 = 5;
const PAUSE: Duration = Duration::from_millis(4);
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// As long as a member may take after a partition.
const REPLICAS: &str = "?waitForReplicasTimeout=00:00:03&numberOfReplicasToWaitFor=1&throwOnTimeoutInWaitForReplicas=true";

/// What may be found of a document in the end: its number, or `None` if it was deleted.
pub(crate) type Possible = Vec<Option<u64>>;

/// What clients did.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Documents that one client wrote.
    pub(crate) own: BTreeMap<String, Possible>,
    /// For each shared document the numbers that were written, or may have been.
    pub(crate) shared: BTreeMap<String, Vec<u64>>,
    /// For each counter how often it was incremented, and how often it may have been.
    pub(crate) counted: BTreeMap<String, (u64, u64)>,
    pub(crate) acknowledged: u64,
    /// Responses that are never valid.
    pub(crate) broken: Vec<String>,
}

impl Ledger {
    pub(crate) fn join(&mut self, other: Ledger) {
        self.own.extend(other.own);
        for (id, numbers) in other.shared {
            self.shared.entry(id).or_default().extend(numbers);
        }
        for (id, (sure, possible)) in other.counted {
            let count = self.counted.entry(id).or_default();
            (count.0, count.1) = (count.0 + sure, count.1 + possible);
        }
        self.acknowledged += other.acknowledged;
        self.broken.extend(other.broken);
    }
}

/// The documents that exist before the clients begin.
pub(crate) fn prepared() -> Value {
    let shared = (0..SHARED).map(|number| put(&format!("shared/{number}"), "Shared", 0));
    let counted = (0..COUNTED).map(|number| put(&format!("counted/{number}"), "Counted", 0));
    json!({"Commands": shared.chain(counted).collect::<Vec<_>>()})
}

fn put(id: &str, collection: &str, number: u64) -> Value {
    let document = json!({"Number": number, "@metadata": {"@collection": collection}});
    json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document})
}

/// Runs one client at one node until the round ends.
pub(crate) fn write(url: &str, round: &Round, client: u32, random: Random) -> Ledger {
    let mut writer =
        Writer { round, client, random, next: 0, idle: Vec::new(), ledger: Ledger::default() };
    while !round.has_ended() {
        match Client::connect(url, round.answer_time_max) {
            Some(mut connection) => writer.work(&mut connection),
            None => sleep(RECONNECT_PAUSE),
        }
    }
    writer.ledger
}

struct Writer<'r> {
    round: &'r Round,
    client: u32,
    random: Random,
    next: u64,
    /// Documents of its own whose state is known.
    idle: Vec<String>,
    ledger: Ledger,
}

impl Writer<'_> {
    /// Works until the round ends, or the outcome of a request is unknown.
    fn work(&mut self, connection: &mut Client) {
        while !self.round.has_ended() {
            let done = match self.random.below(10) {
                0..=3 => self.create(connection),
                4 | 5 => self.change(connection),
                6 => self.share(connection),
                7 | 8 => self.count(connection),
                _ => self.create_cluster_wide(connection),
            };
            match done {
                Ok(()) => self.ledger.acknowledged += 1,
                // Of the rest it is unknown whether it was done.
                Err(Trouble::Broken(answer)) => {
                    self.ledger.broken.push(answer);
                    sleep(RECONNECT_PAUSE);
                    return;
                }
                Err(_) => {
                    sleep(RECONNECT_PAUSE);
                    return;
                }
            }
            sleep(PAUSE);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn batch(
        &mut self,
        connection: &mut Client,
        query: &str,
        commands: Value,
    ) -> Result<(), Trouble> {
        let body = json!({"Commands": [commands]}).to_string();
        connection.send("POST", &format!("/bulk_docs{query}"), &[], body.as_bytes()).map(drop)
    }

    /// A document of its own, which sometimes waits until another node has it.
    fn create(&mut self, connection: &mut Client) -> Result<(), Trouble> {
        let number = self.number();
        let id = format!("own/{}-{number}", self.client);
        self.ledger.own.insert(id.clone(), vec![None, Some(number)]);
        let query = if self.random.below(4) == 0 { REPLICAS } else { "" };
        self.batch(connection, query, put(&id, "Own", number))?;
        self.ledger.own.insert(id.clone(), vec![Some(number)]);
        self.idle.push(id);
        Ok(())
    }

    /// Changes or deletes a document of its own.
    fn change(&mut self, connection: &mut Client) -> Result<(), Trouble> {
        if self.idle.is_empty() {
            return self.create(connection);
        }
        let id = self.idle.swap_remove(self.random.below(self.idle.len() as u64) as usize);
        let is_deletion = self.random.below(4) == 0;
        let number = self.number();
        let wanted = if is_deletion { None } else { Some(number) };
        self.ledger.own.entry(id.clone()).or_default().push(wanted);
        let command = match is_deletion {
            true => json!({"Type": "DELETE", "Id": id, "ChangeVector": null}),
            false => put(&id, "Own", number),
        };
        self.batch(connection, "", command)?;
        self.ledger.own.insert(id.clone(), vec![wanted]);
        if !is_deletion {
            self.idle.push(id);
        }
        Ok(())
    }

    /// A document that others write, too: what is kept of two versions is the same on all nodes.
    fn share(&mut self, connection: &mut Client) -> Result<(), Trouble> {
        let number = self.number() * 1000 + u64::from(self.client);
        let id = format!("shared/{}", self.random.below(SHARED));
        self.ledger.shared.entry(id.clone()).or_default().push(number);
        self.batch(connection, "", put(&id, "Shared", number))
    }

    fn count(&mut self, connection: &mut Client) -> Result<(), Trouble> {
        let id = format!("counted/{}", self.random.below(COUNTED));
        let added = json!({"Type": "Increment", "CounterName": "c", "Delta": 1});
        let body = json!({"Documents": [{"DocumentId": id, "Operations": [added]}]}).to_string();
        let done = connection.send("POST", "/counters", &[], body.as_bytes());
        let count = self.ledger.counted.entry(id).or_default();
        match done {
            Ok(_) => count.0 += 1,
            Err(_) => count.1 += 1,
        }
        done.map(drop)
    }

    fn create_cluster_wide(&mut self, connection: &mut Client) -> Result<(), Trouble> {
        let number = self.number();
        let id = format!("wide/{}-{number}", self.client);
        self.ledger.own.insert(id.clone(), vec![None, Some(number)]);
        let commands = [put(&id, "Wide", number)];
        let body = json!({"Commands": commands, "TransactionMode": "ClusterWide"}).to_string();
        connection.send("POST", "/bulk_docs", &[], body.as_bytes())?;
        self.ledger.own.insert(id, vec![Some(number)]);
        Ok(())
    }
}

/// The path of a request to the database.
pub(crate) fn path(rest: &str) -> String {
    format!("{DATABASE}{rest}")
}
