//! The memory for opening databases, and of those that are open.
//!
//! What a database takes was measured, with little memory: eight times its record, which is there as text and parsed, with
//! the text of each definition and what describes it; the compiled forms of definitions; and what each index takes
//! besides. Caches, transactions and batches are counted where they are used.
//!
//! An estimate is only good enough to say whether there is room. So it is counted as memory of the process while
//! the database is being opened; afterwards what it really takes is measured, as all that is not counted. Those that
//! are not small also share a bound for as long as they are open. Small ones may be many; they are opened
//! until memory is nearly used up.

use std::{sync::Arc, time::Duration};

use model::RecordConfiguration;
use storage::{MemoryBudget, MemoryExhausted, MemoryShare};

/// A database that takes no more than this is small.
const SMALL_BYTES: u64 = 1 << 20;
/// How often an open database holds its record.
const RECORD_COPIES: u64 = 8;
/// Of an index, with its environment.
const INDEX_BYTES: u64 = 64 << 10;
/// Of a database without indexes.
const DATABASE_BYTES: u64 = 128 << 10;

/// The memory for databases.
#[derive(Clone, Debug)]
pub struct DatabaseMemory {
    /// What all open databases take that are not small.
    pub open: Arc<MemoryBudget>,
    /// What those take that are being opened.
    pub opening: Arc<MemoryBudget>,
    /// What small ones take that are being opened.
    pub opening_small: Arc<MemoryBudget>,
}

/// The memory of a database that is being opened.
pub(crate) struct OpeningMemory {
    /// Held for as long as it is open.
    pub(crate) open: MemoryShare,
    /// Held until it is.
    pub(crate) opening: MemoryShare,
}

impl DatabaseMemory {
    /// Without any limit.
    pub fn unlimited() -> DatabaseMemory {
        let budget = MemoryBudget::unlimited;
        DatabaseMemory { open: budget(), opening: budget(), opening_small: budget() }
    }

    /// Reserves what a database takes whose record configures this. One that would need more than all of the memory needs
    /// all of it. Waits for room for about that time.
    pub(crate) fn reserve(
        &self,
        configuration: &RecordConfiguration,
        time_max: Duration,
    ) -> Result<OpeningMemory, MemoryExhausted> {
        let bytes = open_bytes(configuration);
        let mut open = self.open.share(0);
        let of_open = bytes_that_count(bytes).min(self.open.bytes_max());
        open.grow_to_within(of_open, time_max)?;
        let is_small = bytes <= SMALL_BYTES;
        let budget = if is_small { &self.opening_small } else { &self.opening };
        let mut opening = budget.share(0);
        opening.grow_to_within(bytes.min(budget.bytes_max()), time_max)?;
        Ok(OpeningMemory { open, opening })
    }
}

impl OpeningMemory {
    /// Whether it was reserved for this configuration, or for one that takes as much.
    pub(crate) fn suffices_for(&self, configuration: &RecordConfiguration) -> bool {
        let bytes = open_bytes(configuration);
        bytes.min(self.opening.budget().bytes_max()) <= self.opening.bytes()
    }
}

/// Whether a database whose record configures this is small.
pub(crate) fn is_small(configuration: &RecordConfiguration) -> bool {
    open_bytes(configuration) <= SMALL_BYTES
}

/// Adapts what an open database holds to a changed configuration. One that has grown without room is counted as it was:
/// it is measured, too.
pub(crate) fn follow(open: &mut MemoryShare, configuration: &RecordConfiguration) {
    let bytes = bytes_that_count(open_bytes(configuration));
    open.shrink_to(bytes);
    let _grown = open.try_grow_to(bytes);
}

/// Of small databases, nothing counts once they are open.
fn bytes_that_count(bytes: u64) -> u64 {
    if bytes <= SMALL_BYTES { 0 } else { bytes }
}

/// What a database whose record configures this takes while it is open, in bytes.
fn open_bytes(configuration: &RecordConfiguration) -> u64 {
    let indexes = match &wire::sections_of(configuration).indexes {
        Ok(recorded) => {
            let number = recorded.indexes.len() + recorded.auto_indexes.len();
            let compiled = recorded.indexes.values().map(indexing::compiled_bytes).sum::<u64>();
            INDEX_BYTES * number as u64 + compiled
        }
        // They are not opened.
        Err(_) => 0,
    };
    DATABASE_BYTES + RECORD_COPIES * configuration.json().len() as u64 + indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(json: &str) -> RecordConfiguration {
        RecordConfiguration::new(json.as_bytes())
    }

    #[test]
    fn a_database_takes_more_with_a_larger_record_and_with_more_indexes() {
        assert_eq!(open_bytes(&with("{}")), (128 << 10) + 16);
        let one = r#"{"Indexes":{"I":{"Name":"I","Maps":["from d in docs select new { d.A }"]}}}"#;
        let (tokens, bytes) = (11, 8 * one.len() as u64);
        assert_eq!(open_bytes(&with(one)), (192 << 10) + 64 * tokens + bytes);
    }

    #[test]
    fn only_databases_that_are_not_small_count_once_they_are_open() {
        let memory =
            DatabaseMemory { open: MemoryBudget::new(3 << 20), ..DatabaseMemory::unlimited() };
        let small = memory.reserve(&with("{}"), Duration::ZERO).unwrap();
        assert_eq!((small.open.bytes(), small.opening.bytes()), (0, open_bytes(&with("{}"))));
        let large = with(&format!("{{\"Padding\":\"{}\"}}", "x".repeat(256 << 10)));
        let mut held = memory.reserve(&large, Duration::ZERO).unwrap();
        assert_eq!(held.open.bytes(), open_bytes(&large));
        assert!(held.suffices_for(&large) && !small.suffices_for(&large));
        assert!(memory.reserve(&large, Duration::ZERO).is_err());
        follow(&mut held.open, &with("{}"));
        assert_eq!(memory.open.held_bytes(), 0);
        follow(&mut held.open, &large);
        assert_eq!(memory.open.held_bytes(), open_bytes(&large));
    }
}
