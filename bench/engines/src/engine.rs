//! The contestants behind one trait. Each is opened with the settings under which a commit survives
//! a power cut, and otherwise with its defaults.

use std::{error::Error, path::Path};

use crate::entries::{Entry, Key};

mod corvus;
mod fjall;
mod lmdb;
mod redb;
mod sqlite;

/// Any error of an engine; a benchmark only prints it.
pub(crate) type EngineError = Box<dyn Error + Send + Sync>;
/// Makes durable what was applied before.
pub(crate) type DurableStep<'e> = Box<dyn FnOnce() -> Result<(), EngineError> + Send + 'e>;

/// What a read found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) entries: u64,
    /// Of the values, so that each value is really fetched.
    pub(crate) bytes: u64,
}

impl Found {
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.entries += 1;
            self.bytes += value.len() as u64;
        }
    }
}

/// An embedded key-value engine.
pub(crate) trait Engine: Send + Sync {
    /// Writes the entries in one transaction, durable when the step that it returns was run. Engines
    /// that cannot apply the next transaction meanwhile have done everything before they return.
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError>;

    /// Gets all the keys in one read transaction.
    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError>;

    /// Writes the entries in one transaction, durable when it returns.
    fn commit(&self, entries: &[Entry<'_>]) -> Result<(), EngineError> {
        self.apply(entries)?()
    }
}

/// How an engine is opened in an empty directory.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) open: fn(&Path) -> Result<Box<dyn Engine>, EngineError>,
}

/// In the order of the columns; the first is ours.
pub(crate) static CONTESTANTS: &[Contestant] = &[
    Contestant { name: "corvus", open: corvus::open },
    Contestant { name: "lmdb", open: lmdb::open },
    Contestant { name: "redb", open: redb::open },
    Contestant { name: "fjall", open: fjall::open },
    Contestant { name: "sqlite", open: sqlite::open },
];

/// The step of an engine that has done everything already.
fn nothing_left() -> DurableStep<'static> {
    Box::new(|| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::{Values, key};

    #[test]
    fn every_engine_finds_what_was_committed_and_nothing_else() {
        let values = Values::new(100);
        for contestant in CONTESTANTS {
            let directory = tempfile::tempdir().unwrap();
            let engine = (contestant.open)(directory.path()).unwrap();
            for commit in 0..3 {
                let entries: Vec<_> =
                    (commit * 100..(commit + 1) * 100).map(|n| values.entry(n)).collect();
                engine.commit(&entries).unwrap();
            }
            let found = engine.find(&mut (250..350).map(key)).unwrap();
            assert_eq!(found, Found { entries: 50, bytes: 5_000 }, "{}", contestant.name);
        }
    }

    #[test]
    fn a_second_transaction_can_be_applied_before_the_first_is_durable() {
        let values = Values::new(100);
        for contestant in CONTESTANTS {
            let directory = tempfile::tempdir().unwrap();
            let engine = (contestant.open)(directory.path()).unwrap();
            let first = engine.apply(&[values.entry(1)]).unwrap();
            let second = engine.apply(&[values.entry(2)]).unwrap();
            first().unwrap();
            second().unwrap();
            let found = engine.find(&mut (0..9).map(key)).unwrap();
            assert_eq!(found.entries, 2, "{}", contestant.name);
        }
    }
}
