//! Histories of openings, writes, kills, power cuts, copies, restored copies and compactions: an environment
//! vouches for the points of its own past and for no others.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use platform::simulated::{Random, Survival};

use super::{Bench, entries, identity};
use crate::{CompactProgress, Environment, HistoryPoint, StorageError, compact_in_place};

const HISTORIES: u64 = 200;
const STEPS: u64 = 60;
/// The power is cut after at most this many operations of the disk.
const OPERATIONS_MAX: u64 = 12;

/// Files as they were at a moment, and the points before it.
struct Copy {
    files: Vec<(PathBuf, Vec<u8>)>,
    past: Vec<HistoryPoint>,
}

struct Story {
    bench: Bench,
    environment: Option<Arc<Environment>>,
    /// The points of the past that the present files went through.
    past: Vec<HistoryPoint>,
    /// The points of all files there ever were.
    seen: Vec<HistoryPoint>,
    copies: Vec<Copy>,
    keys: u32,
}

impl Story {
    fn new(seed: u64) -> Self {
        let bench = identity::kept(seed);
        let (past, seen, copies) = Default::default();
        Self { bench, environment: None, past, seen, copies, keys: 0 }
    }

    fn open(&mut self) -> Arc<Environment> {
        let bench = &self.bench;
        Arc::clone(self.environment.get_or_insert_with(|| bench.open()))
    }

    fn write(&mut self) {
        let environment = self.open();
        self.keys += 1;
        identity::write(&environment, self.keys, 500);
        self.note(&environment);
    }

    fn note(&mut self, environment: &Environment) {
        let point = identity::point(environment);
        self.past.push(point);
        self.seen.push(point);
    }

    /// Writes until the power is cut; acknowledged writes are there afterwards.
    fn write_without_power(&mut self, random: &mut Random) {
        let environment = self.open();
        let survival = Survival::ALL[(random.next_u64() % 5) as usize];
        let operations = 1 + random.next_u64() % OPERATIONS_MAX;
        self.bench.simulation.disk.cut_power_at_operation(operations, survival);
        while self.try_write(&environment).is_ok() {
            self.note(&environment);
        }
        drop(environment);
        self.environment = None;
        self.bench.simulation.disk.restart().expect("restarts");
    }

    fn try_write(&mut self, environment: &Arc<Environment>) -> Result<(), StorageError> {
        let mut tx = environment.write()?;
        self.keys += 1;
        super::put(&mut tx, &self.keys.to_be_bytes(), &[7; 500]);
        tx.commit()
    }

    fn copy(&mut self) {
        let disk = &*self.bench.simulation.platform.disk;
        let mut paths = identity::journals(disk);
        paths.push(identity::DATA.into());
        let files = identity::contents(disk, &paths);
        self.copies.push(Copy { files, past: self.past.clone() });
    }

    fn restore(&mut self, random: &mut Random) {
        if self.copies.is_empty() {
            return;
        }
        self.environment = None;
        let copy = &self.copies[(random.next_u64() % self.copies.len() as u64) as usize];
        let disk = &*self.bench.simulation.platform.disk;
        for path in identity::journals(disk) {
            disk.remove_file(&path).expect("removes");
        }
        // Also for those that were removed before and could come back.
        disk.sync_dir(identity::JOURNALS.as_ref()).expect("syncs");
        identity::restore(disk, &copy.files);
        self.past.clone_from(&copy.past);
    }

    fn compact(&mut self) {
        self.environment = None;
        let observer = &mut |_: &CompactProgress| ControlFlow::Continue(());
        let platform = &self.bench.simulation.platform;
        compact_in_place(platform, &self.bench.options, &[], observer).expect("compacts");
    }

    fn step(&mut self, random: &mut Random) {
        match random.next_u64() % 12 {
            0..=4 => self.write(),
            5 => self.open().flush().expect("flushes"),
            6 => {
                self.open().close().expect("closes");
                self.environment = None;
            }
            7 => self.environment = None,
            8 => self.copy(),
            9 => self.restore(random),
            10 => self.compact(),
            _ => self.write_without_power(random),
        }
    }

    fn check(&mut self, step: u64) {
        let environment = self.open();
        for point in &self.seen {
            let vouched = environment.vouches_for(point).expect("reads");
            let is_past = self.past.contains(point);
            assert_eq!(vouched.is_ok(), is_past, "step {step}: {point:?} {vouched:?}");
        }
        assert!(self.past.len() <= entries(&environment.read()).len());
    }
}

#[test]
fn an_environment_vouches_for_its_own_past_and_nothing_else() {
    for seed in 1..=HISTORIES {
        let mut random = Random::new(seed);
        let mut story = Story::new(seed);
        story.write();
        for step in 0..STEPS {
            story.step(&mut random);
            if random.next_u64().is_multiple_of(4) {
                story.check(seed * 1000 + step);
            }
        }
        story.check(seed * 1000 + STEPS);
    }
}
