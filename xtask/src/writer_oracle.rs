//! The documents that one writer of the kill drill must find after a crash.
//!
//! Each writer has its own ids and sends one batch at a time, so after a crash its documents are
//! those of its last acknowledged batch or, if another one was in flight, those of that complete
//! batch.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::random::Random;

const KEYS: u64 = 40;
const COMMANDS_MAX: u64 = 6;
const TEXT_BYTES_MAX: u64 = 6000;

pub(crate) type Documents = BTreeMap<String, Value>;

pub(crate) struct WriterOracle {
    prefix: String,
    random: Random,
    batch: u64,
    acknowledged: Documents,
    in_flight: Option<Documents>,
}

/// One request, ready to be sent below the path of the database.
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// The state of a writer's documents after a crash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Acknowledged,
    InFlightToo,
}

impl WriterOracle {
    pub(crate) fn new(writer: u64, random: Random) -> Self {
        let prefix = format!("kill/{writer}/");
        Self { prefix, random, batch: 0, acknowledged: Documents::new(), in_flight: None }
    }

    /// The common prefix of the writer's ids.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The next request; it is in flight until [`WriterOracle::acknowledge`].
    pub(crate) fn next_request(&mut self) -> Request {
        self.batch += 1;
        let mut after = self.acknowledged.clone();
        let request = if self.random.below(4) == 0 {
            let (id, document) = self.document();
            let body = with_metadata(&document).to_string().into_bytes();
            let path = format!("/docs?id={id}");
            after.insert(id, document);
            Request { method: "PUT", path, body }
        } else {
            self.bulk_request(&mut after)
        };
        self.in_flight = Some(after);
        request
    }

    fn bulk_request(&mut self, after: &mut Documents) -> Request {
        let mut commands = Vec::new();
        for command in 0..=self.random.below(COMMANDS_MAX) {
            // The first command is never a deletion: two states are never equal by chance.
            if command > 0 && self.random.below(3) == 0 {
                let id = format!("{}{}", self.prefix, self.random.below(KEYS));
                after.remove(&id);
                commands.push(json!({"Id": id, "ChangeVector": null, "Type": "DELETE"}));
            } else {
                let (id, document) = self.document();
                let body = with_metadata(&document);
                commands
                    .push(json!({"Id": id, "ChangeVector": null, "Document": body, "Type": "PUT"}));
                after.insert(id, document);
            }
        }
        // The key of the mark is after the random ones, so no deletion of the batch removes it.
        let mark = json!({"Batch": self.batch});
        let id = format!("{}{KEYS}", self.prefix);
        commands.push(json!({"Id": id, "Document": with_metadata(&mark), "Type": "PUT"}));
        after.insert(id, mark);
        let body = json!({ "Commands": commands }).to_string().into_bytes();
        Request { method: "POST", path: "/bulk_docs".into(), body }
    }

    fn document(&mut self) -> (String, Value) {
        let id = format!("{}{}", self.prefix, self.random.below(KEYS));
        let length = self.random.below(TEXT_BYTES_MAX);
        let mut text = String::new();
        while (text.len() as u64) < length {
            text.push_str(&format!("{:x} ", self.random.next()));
        }
        (id, json!({"Batch": self.batch, "Text": text}))
    }

    /// Records that the request was acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(after) = self.in_flight.take() {
            self.acknowledged = after;
        }
    }

    /// Judges the documents after a crash, and continues from them.
    pub(crate) fn judge(&mut self, found: Documents) -> Result<Verdict, String> {
        let in_flight = self.in_flight.take();
        if found == self.acknowledged {
            return Ok(Verdict::Acknowledged);
        }
        if in_flight.as_ref() == Some(&found) {
            self.acknowledged = found;
            return Ok(Verdict::InFlightToo);
        }
        let explanation = match in_flight {
            Some(_) => "neither the last acknowledged batch nor the one in flight",
            None => "not the last acknowledged batch",
        };
        Err(format!("{}: {explanation}: {}", self.prefix, self.first_difference(&found)))
    }

    fn first_difference(&self, found: &Documents) -> String {
        let ids = self.acknowledged.keys().chain(found.keys());
        let different = ids.into_iter().find(|id| self.acknowledged.get(*id) != found.get(*id));
        let batch = |documents: &Documents, id: &str| match documents.get(id) {
            Some(document) => format!("batch {}", document["Batch"]),
            None => "missing".to_owned(),
        };
        different.map_or_else(String::new, |id| {
            let (found, acknowledged) = (batch(found, id), batch(&self.acknowledged, id));
            format!("{id} is {found}, acknowledged was {acknowledged}")
        })
    }
}

fn with_metadata(document: &Value) -> Value {
    let mut document = document.clone();
    document["@metadata"] = json!({"@collection": "Kills"});
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oracle_after(batches: u64) -> WriterOracle {
        let mut oracle = WriterOracle::new(3, Random::new(5));
        for _ in 0..batches {
            oracle.next_request();
            oracle.acknowledge();
        }
        oracle
    }

    #[test]
    fn the_acknowledged_state_and_the_one_in_flight_are_right() {
        for batches in 0..50 {
            let mut oracle = oracle_after(batches);
            let before = oracle.acknowledged.clone();
            oracle.next_request();
            let after = oracle.in_flight.clone().unwrap();
            assert_ne!(before, after, "no two states are equal");
            assert_eq!(oracle.judge(after.clone()), Ok(Verdict::InFlightToo));
            assert_eq!(oracle.judge(after), Ok(Verdict::Acknowledged));
        }
    }

    #[test]
    fn lost_and_torn_batches_are_found() {
        let mut oracle = oracle_after(30);
        let mut lost = oracle_after(29);
        oracle.next_request();
        let error = oracle.judge(std::mem::take(&mut lost.acknowledged)).unwrap_err();
        assert!(error.starts_with("kill/3/: neither"), "{error}");

        let mut oracle = oracle_after(30);
        while oracle.in_flight.as_ref().is_none_or(|after| after.len() < 3) {
            oracle.next_request();
        }
        let mut torn = oracle.in_flight.clone().unwrap();
        let removed = torn.pop_first();
        assert!(removed.is_some());
        assert!(oracle.judge(torn).is_err(), "a batch in part");
        assert!(oracle_after(3).judge(Documents::new()).is_err(), "everything lost");
    }
}
