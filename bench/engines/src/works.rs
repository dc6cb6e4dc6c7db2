//! The works: what an engine does in one round, always beginning with an empty directory.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    engine::{Contestant, Engine, EngineError},
    entries::{Entry, Key, Values, key},
    group,
    options::Options,
};

const DOCUMENT_BYTES: usize = 300;
const SMALL_BYTES: usize = 100;
const WRITERS: usize = 64;
const COMMIT_ENTRIES: u64 = 10_000;
/// How many reads go by between two looks at the clock.
const READS_PER_LOOK: u64 = 256;

pub(crate) const ONE_WRITER: &str = "one writer, one 300-byte document per durable commit";
pub(crate) const MANY_WRITERS: &str = "64 writers, one 300-byte document each, grouped";
pub(crate) const LOAD_IN_ORDER: &str = "sequential insert, 100-byte values, commits of 10,000";
pub(crate) const LOAD: &str = "random insert, 100-byte values, commits of 10,000";
pub(crate) const READ: &str = "random read of what was loaded, one thread";

/// What one round gave.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds, sorted; empty where single operations are not timed.
    pub(crate) latencies: Vec<u32>,
}

impl Round {
    pub(crate) fn new(operations: u64, elapsed: Duration, mut latencies: Vec<u32>) -> Self {
        latencies.sort_unstable();
        Self { operations, elapsed, latencies }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// One writer commits one document after the other.
pub(crate) fn one_writer(
    contestant: &Contestant,
    directory: &Path,
    options: &Options,
) -> Result<Round, EngineError> {
    let engine = (contestant.open)(directory)?;
    let values = Values::new(DOCUMENT_BYTES);
    let mut latencies = Vec::new();
    let began = Instant::now();
    let mut before = began;
    for number in 0.. {
        engine.commit(&[values.entry(number)])?;
        let after = Instant::now();
        latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
        if began.elapsed() >= options.round {
            break;
        }
    }
    Ok(Round::new(latencies.len() as u64, began.elapsed(), latencies))
}

/// The disk without an engine, for comparison with [`one_writer`].
pub(crate) fn bare_disk(directory: &Path, options: &Options) -> Result<Round, EngineError> {
    let writes = disk::durable_writes(directory, options.round)?;
    Ok(Round::new(writes.latencies.len() as u64, writes.elapsed, writes.latencies))
}

/// Many writers, grouped by the application.
pub(crate) fn many_writers(
    contestant: &Contestant,
    directory: &Path,
    options: &Options,
) -> Result<Round, EngineError> {
    let engine = (contestant.open)(directory)?;
    group::run(&*engine, &Values::new(DOCUMENT_BYTES), WRITERS, options.round)
}

/// A bulk load in the order of the keys.
pub(crate) fn load_in_order(
    contestant: &Contestant,
    directory: &Path,
    options: &Options,
) -> Result<Round, EngineError> {
    let engine = (contestant.open)(directory)?;
    load(&*engine, options.entries, Values::ordered_entry)
}

/// A bulk load in random order, and then random reads of what it loaded.
pub(crate) fn load_and_read(
    contestant: &Contestant,
    directory: &Path,
    options: &Options,
) -> Result<[Round; 2], EngineError> {
    let engine = (contestant.open)(directory)?;
    let loaded = load(&*engine, options.entries, Values::entry)?;
    // The first pass brings pages into memory; the second is measured.
    read(&*engine, options.entries, options.round / 2)?;
    let read = read(&*engine, options.entries, options.round)?;
    Ok([loaded, read])
}

fn load(
    engine: &dyn Engine,
    count: u64,
    entry: fn(&Values, u64) -> Entry<'_>,
) -> Result<Round, EngineError> {
    let values = Values::new(SMALL_BYTES);
    let mut elapsed = Duration::ZERO;
    for first in (0..count).step_by(COMMIT_ENTRIES as usize) {
        let end = count.min(first + COMMIT_ENTRIES);
        let entries: Vec<Entry<'_>> = (first..end).map(|number| entry(&values, number)).collect();
        let began = Instant::now();
        engine.commit(&entries)?;
        elapsed += began.elapsed();
    }
    Ok(Round::new(count, elapsed, Vec::new()))
}

fn read(engine: &dyn Engine, count: u64, round: Duration) -> Result<Round, EngineError> {
    let mut asked = 0;
    let began = Instant::now();
    let mut keys = std::iter::from_fn(|| -> Option<Key> {
        if asked % READS_PER_LOOK == 0 && began.elapsed() >= round {
            return None;
        }
        asked += 1;
        // The order in which keys are read is independent of the order of their insertion.
        Some(key(asked.wrapping_mul(0x2545_F491_4F6C_DD1D) % count))
    });
    let found = engine.find(&mut keys)?;
    let elapsed = began.elapsed();
    if found.entries != asked || found.bytes != asked * SMALL_BYTES as u64 {
        return Err(format!("of {asked} entries {} were found", found.entries).into());
    }
    Ok(Round::new(asked, elapsed, Vec::new()))
}
