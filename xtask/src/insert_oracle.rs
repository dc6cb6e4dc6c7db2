//! The documents that one bulk insert of the kill drill must have stored after a crash.
//!
//! An insert is stored in pieces, in the order in which it was sent, and is durable when it is
//! acknowledged. So after a crash the documents of an inserter are those of its acknowledged
//! inserts, followed by a prefix of the interrupted one: none, some, or all of its documents, each
//! complete.

use serde_json::{Value, json};

use crate::{random::Random, writer_oracle::Documents};

/// Few enough that a later insert overwrites documents of earlier ones.
const KEYS: u64 = 1500;
const DOCUMENTS_MIN: u64 = 20;
const DOCUMENTS_MAX: u64 = 4000;
const TEXT_BYTES_MAX: u64 = 400;
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Ids of operations are unique in a database.
const INSERTS_MAX: u64 = 1 << 32;

pub(crate) struct InsertOracle {
    prefix: String,
    number: u64,
    random: Random,
    insert: u64,
    acknowledged: Documents,
    in_flight: Vec<(String, Value)>,
}

/// A bulk insert, ready to be sent below the path of the database.
pub(crate) struct Insert {
    pub(crate) path: String,
    /// The body, split anywhere.
    pub(crate) pieces: Vec<Vec<u8>>,
}

/// How much of the interrupted insert is present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) documents: usize,
    pub(crate) of: usize,
}

impl Kept {
    pub(crate) fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.of += other.of;
    }
}

impl InsertOracle {
    pub(crate) fn new(number: u64, random: Random) -> Self {
        Self {
            prefix: format!("insert/{number}/"),
            number,
            random,
            insert: 0,
            acknowledged: Documents::new(),
            in_flight: Vec::new(),
        }
    }

    /// The common prefix of the inserter's ids.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The next insert; it is in flight until [`InsertOracle::acknowledge`].
    pub(crate) fn next_insert(&mut self) -> Insert {
        self.insert += 1;
        let count = DOCUMENTS_MIN + self.random.below(DOCUMENTS_MAX - DOCUMENTS_MIN);
        self.in_flight = (0..count).map(|number| self.document(number)).collect();
        let elements = self.in_flight.iter().map(|(id, document)| {
            let mut document = document.clone();
            document["@metadata"] = json!({"@collection": "Inserts"});
            json!({"Id": id, "Document": document, "Type": "PUT"}).to_string()
        });
        let body = format!("[{}]", elements.collect::<Vec<_>>().join(","));
        let operation = self.number * INSERTS_MAX + self.insert;
        let path = format!("/bulk_insert?id={operation}");
        Insert { path, pieces: self.cut(body.as_bytes()) }
    }

    fn document(&mut self, number: u64) -> (String, Value) {
        let id = format!("{}{}", self.prefix, self.random.below(KEYS));
        let length = self.random.below(TEXT_BYTES_MAX);
        let mut text = String::new();
        while (text.len() as u64) < length {
            text.push_str(&format!("{:x} ", self.random.next()));
        }
        (id, json!({"Insert": self.insert, "Number": number, "Text": text}))
    }

    fn cut(&mut self, mut body: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        while !body.is_empty() {
            let bytes = (1 + self.random.below(PIECE_BYTES_MAX) as usize).min(body.len());
            let (piece, rest) = body.split_at(bytes);
            pieces.push(piece.to_vec());
            body = rest;
        }
        pieces
    }

    /// Records that the insert was acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        self.acknowledged.extend(std::mem::take(&mut self.in_flight));
    }

    /// Judges the documents after a crash, and continues from them.
    pub(crate) fn judge(&mut self, found: Documents) -> Result<Kept, String> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let of = in_flight.len();
        // Each document contains its number, and the last stored one is never overwritten.
        let numbers = found.values().filter(|document| document["Insert"] == self.insert);
        let last = numbers.filter_map(|document| document["Number"].as_u64()).max();
        let documents = match last {
            Some(last) if of != 0 => last as usize + 1,
            _ => 0,
        };
        let mut expected = self.acknowledged.clone();
        expected.extend(in_flight.into_iter().take(documents));
        if found != expected {
            let difference = first_difference(&expected, &found);
            return Err(format!(
                "{}: {documents} of {of} documents of an insert: {difference}",
                self.prefix
            ));
        }
        self.acknowledged = found;
        Ok(Kept { documents, of })
    }
}

fn first_difference(expected: &Documents, found: &Documents) -> String {
    let mut ids = expected.keys().chain(found.keys());
    let different = ids.find(|id| expected.get(*id) != found.get(*id));
    let place = |documents: &Documents, id: &str| match documents.get(id) {
        Some(document) => format!("number {} of insert {}", document["Number"], document["Insert"]),
        None => "missing".to_owned(),
    };
    different.map_or_else(String::new, |id| {
        format!("{id} is {}, and should be {}", place(found, id), place(expected, id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(inserts: u64) -> InsertOracle {
        let mut oracle = InsertOracle::new(2, Random::new(9));
        for _ in 0..inserts {
            oracle.next_insert();
            oracle.acknowledge();
        }
        oracle
    }

    #[test]
    fn the_pieces_of_an_insert_are_its_documents() {
        let mut oracle = after(0);
        let insert = oracle.next_insert();
        assert_eq!(insert.path, "/bulk_insert?id=8589934593");
        let body: Value = serde_json::from_slice(&insert.pieces.concat()).unwrap();
        assert_eq!(body.as_array().unwrap().len(), oracle.in_flight.len());
        assert_eq!(body[3]["Document"]["Number"], 3);
    }

    #[test]
    fn any_beginning_of_the_insert_that_was_cut_off_is_right() {
        for documents in [0, 1, 17, usize::MAX] {
            let mut oracle = after(3);
            oracle.next_insert();
            let of = oracle.in_flight.len();
            let mut found = oracle.acknowledged.clone();
            found.extend(oracle.in_flight.iter().take(documents).cloned());
            let kept = oracle.judge(found.clone());
            assert_eq!(kept, Ok(Kept { documents: documents.min(of), of }));
            assert_eq!(oracle.judge(found), Ok(Kept { documents: 0, of: 0 }));
        }
    }

    #[test]
    fn gaps_losses_and_torn_documents_are_found() {
        let mut oracle = after(2);
        oracle.next_insert();
        let (first, last) = (oracle.in_flight[0].clone(), oracle.in_flight[9].clone());
        let mut gap = oracle.acknowledged.clone();
        gap.extend([first.clone(), last]);
        assert!(oracle.judge(gap).unwrap_err().contains(": 10 of "));

        let mut lost = after(2);
        let mut found = lost.acknowledged.clone();
        found.pop_first();
        assert!(lost.judge(found).is_err(), "a document of an acknowledged insert");

        let mut oracle = after(2);
        oracle.next_insert();
        let mut torn = oracle.acknowledged.clone();
        torn.extend([first]);
        torn.values_mut().for_each(|document| document["Text"] = Value::Null);
        assert!(oracle.judge(torn).is_err(), "half a document");
    }
}
