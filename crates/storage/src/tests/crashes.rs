//! Power cuts: every acknowledged transaction survives completely, and no other in part.

use platform::{
    Access, Disk as _,
    simulated::{
        FaultKind, FaultSpan, OperationFilter, OperationKind, Random, SimulatedDisk, Survival,
    },
};

use super::{Bench, entries, name, put};
use crate::{Environment, StorageError};

/// Power cuts per run of the test.
const CUTS: u64 = 500;

/// Transaction `number` changes some keys; the state after it is a function of `number` alone.
fn state_after(number: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut state = std::collections::BTreeMap::new();
    for number in 1..=number {
        for change in 0..(number * 7 % 11 + 1) {
            let key = ((number * 13 + change * 29) % 97).to_be_bytes().to_vec();
            if (number + change) % 5 == 4 {
                state.remove(&key);
            } else {
                let bytes =
                    ((number * 977 + change * 3571) % 6000) as usize / (1 + change as usize % 4);
                state.insert(key, vec![(number + change) as u8; bytes]);
            }
        }
        if let Some((key, value)) = large_value(number) {
            state.insert(key, value);
        }
        state.insert(b"number".to_vec(), number.to_be_bytes().to_vec());
    }
    state.into_iter().collect()
}

/// What every second transaction puts besides: a value in a run of pages, in place of an earlier one.
fn large_value(number: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let bytes = (number * 7919 % 50_000) as usize;
    let key = [b"large", &(number % 5).to_be_bytes()[..]].concat();
    number.is_multiple_of(2).then(|| (key, vec![number as u8; bytes]))
}

fn write(environment: &std::sync::Arc<Environment>, number: u32) -> Result<(), StorageError> {
    let mut tx = environment.write()?;
    for change in 0..(number * 7 % 11 + 1) {
        let key = ((number * 13 + change * 29) % 97).to_be_bytes().to_vec();
        if (number + change) % 5 == 4 {
            tx.tree_mut(&name("t"))?.delete(&key)?;
        } else {
            let bytes =
                ((number * 977 + change * 3571) % 6000) as usize / (1 + change as usize % 4);
            tx.tree_mut(&name("t"))?.put(&key, &vec![(number + change) as u8; bytes])?;
        }
    }
    if let Some((key, value)) = large_value(number) {
        put(&mut tx, &key, &value);
    }
    put(&mut tx, b"number", &number.to_be_bytes());
    tx.commit()
}

/// The disk's last operations, for the message of a failed test.
fn log_text(disk: &SimulatedDisk) -> String {
    disk.log().iter().map(|operation| format!("{operation}\n")).collect()
}

#[test]
fn acknowledged_transactions_survive_power_cuts_whole() {
    let mut random = Random::new(4711);
    for seed in 0..CUTS / 10 {
        let mut bench = Bench::new(seed);
        bench.options.journal_bytes_max = (256 * 1024) << (seed % 3);
        // Small enough for flushes in several portions, and for some that a commit requests.
        bench.options.unflushed_bytes_max = (128 * 1024) << (seed % 5);
        let mut acknowledged = 0;
        for _cut in 0..10 {
            let operations = 1 + random.next_u64() % 120;
            let survival = Survival::ALL[(random.next_u64() % 5) as usize];
            let disk = &bench.simulation.disk;
            disk.cut_power_at_operation(operations, survival);
            if let Ok(environment) = bench.try_open() {
                let mut number = acknowledged;
                // A reader with an old snapshot holds back the flush, and with it the header.
                let mut old = None;
                while number < 400 {
                    number += 1;
                    if write(&environment, number).is_err() {
                        break;
                    }
                    acknowledged = number;
                    match random.next_u64() % 12 {
                        0 => old = Some(environment.read()),
                        1 => drop(old.take()),
                        _ => {}
                    }
                    if random.next_u64().is_multiple_of(6) && environment.flush().is_err() {
                        break;
                    }
                    if environment.flush_wanted()
                        && random.next_u64().is_multiple_of(2)
                        && environment.keep_up().is_err()
                    {
                        break;
                    }
                }
            }
            disk.restart().expect("restarts");
            let environment = bench.try_open().unwrap_or_else(|error| {
                panic!("seed {seed}, {acknowledged} acknowledged: {error}\n{}", log_text(disk))
            });
            let read = environment.read();
            if let Err(error) = read.check() {
                panic!("seed {seed}, {acknowledged} acknowledged: {error}\n{}", log_text(disk));
            }
            let found = entries(&read);
            let survived = [acknowledged, acknowledged + 1]
                .into_iter()
                .find(|number| found == state_after(*number));
            let Some(survived) = survived else {
                panic!(
                    "seed {seed}: not the state after {acknowledged} or the next\n{}",
                    log_text(disk)
                );
            };
            acknowledged = survived;
        }
    }
}

/// The state of the environment, which must be the one after `acknowledged` or, after a power cut, after
/// the transaction that was in flight.
fn survived(environment: &Environment, acknowledged: u32, seed: u64) -> u32 {
    let read = environment.read();
    if let Err(error) = read.check() {
        panic!("seed {seed}, {acknowledged} acknowledged: {error}");
    }
    let found = entries(&read);
    let number = [acknowledged, acknowledged + 1].into_iter().find(|n| found == state_after(*n));
    number.unwrap_or_else(|| panic!("seed {seed}: not the state after {acknowledged} or the next"))
}

/// The journal is longer than the data file has room for when the disk is full: everything can be read, and
/// writing continues when there is space, whether or not the power is cut while recovery is finished.
#[test]
fn recovery_on_a_full_disk_can_be_read_and_is_finished_later() {
    let mut random = Random::new(815);
    let mut from_memory = 0;
    for seed in 0..60 {
        let bench = Bench::new(seed);
        let disk = &bench.simulation.disk;
        let mut acknowledged = 0;
        for _round in 0..4 {
            let environment = bench.open();
            let flush_at = random.below(40);
            for step in 0..1 + random.below(40) {
                write(&environment, acknowledged + 1).expect("there is space");
                acknowledged += 1;
                if step == flush_at {
                    environment.flush().expect("flushes");
                }
            }
            drop(environment);
            disk.power_cut(Survival::ALL[random.below(5) as usize]).expect("cuts");
            disk.space_limit(Some(0));
            let environment = bench.open();
            acknowledged = survived(&environment, acknowledged, seed);
            from_memory += u32::from(environment.recovery().disk_full);
            for _try in 0..2 {
                let refused = write(&environment, acknowledged + 1);
                assert!(matches!(refused, Err(StorageError::DiskFull { .. })), "{refused:?}");
                assert!(matches!(environment.flush(), Ok(()) | Err(StorageError::DiskFull { .. })));
            }
            assert_eq!(survived(&environment, acknowledged, seed), acknowledged);
            disk.space_limit(None);
            if random.below(2) == 0 {
                let nth = 1 + random.below(30);
                disk.cut_power_at_operation(nth, Survival::ALL[random.below(5) as usize]);
                if write(&environment, acknowledged + 1).is_ok() {
                    acknowledged += 1;
                }
                drop(environment);
                disk.restart().expect("restarts");
                acknowledged = survived(&bench.open(), acknowledged, seed);
                continue;
            }
            write(&environment, acknowledged + 1).expect("there is space again");
            acknowledged += 1;
            assert_eq!(survived(&environment, acknowledged, seed), acknowledged);
            if random.below(2) == 0 {
                environment.close().expect("closes");
            }
        }
    }
    assert!(from_memory > 50, "the data file was rarely too short: {from_memory}");
}

#[test]
fn recovery_on_a_full_disk_uses_the_room_of_journals_that_nothing_needs() {
    let bench = Bench::new(5);
    let disk = &bench.simulation.disk;
    let environment = bench.open();
    for number in 1..=60 {
        write(&environment, number).expect("commits");
    }
    drop(environment);
    let total = 1 << 30;
    disk.space_limit(Some(total));
    let used = total - disk.space(&bench.options.directory).expect("is known").free_bytes;
    // What the process had prepared when it was killed.
    let spare = disk.create(&bench.options.journals().join("spare"), Access::Buffered);
    spare.and_then(|spare| spare.allocate(4 << 20)).expect("there is space");
    disk.space_limit(Some(used + (4 << 20)));
    let environment = bench.open();
    assert!(!environment.recovery().disk_full, "the spare made room");
    assert_eq!(survived(&environment, 60, 5), 60);
}

/// Some file systems need room even to sync a file.
#[test]
fn recovery_on_a_full_disk_that_refuses_to_sync_can_be_read() {
    let bench = Bench::new(4);
    let disk = &bench.simulation.disk;
    let environment = bench.open();
    for number in 1..=60 {
        write(&environment, number).expect("commits");
    }
    drop(environment);
    disk.space_limit(Some(0));
    let sync = OperationFilter::Only(OperationKind::Sync);
    disk.fail_operation(1, sync, FaultKind::StorageFull, FaultSpan::UntilCleared);
    let environment = bench.open();
    assert!(environment.recovery().disk_full);
    assert_eq!(entries(&environment.read()), state_after(60));
    drop(environment);
    disk.clear_faults();
    disk.space_limit(None);
    assert_eq!(survived(&bench.open(), 60, 4), 60);
}

/// Without memory for what is in the journal, it is refused as before, and nothing is lost.
#[test]
fn recovery_on_a_full_disk_is_bounded_by_memory() {
    let mut bench = Bench::new(3);
    let environment = bench.open();
    for number in 1..=60 {
        write(&environment, number).expect("commits");
    }
    drop(environment);
    bench.options.unflushed_bytes_max = 64 * 1024;
    bench.simulation.disk.space_limit(Some(0));
    assert!(matches!(bench.try_open(), Err(StorageError::DiskFull { .. })));
    bench.simulation.disk.space_limit(None);
    assert_eq!(survived(&bench.open(), 60, 3), 60);
}

#[test]
fn a_power_cut_at_every_operation_of_opening_and_flushing_is_survived() {
    for survival in [Survival::Nothing, Survival::Garbled, Survival::Everything] {
        for nth in 1.. {
            let bench = Bench::new(nth);
            let disk = &bench.simulation.disk;
            let environment = bench.open();
            for number in 1..=10 {
                write(&environment, number).expect("commits");
            }
            let before = disk.operation_count(OperationFilter::Mutating);
            disk.cut_power_at_operation(nth, survival);
            let done = (|| {
                environment.flush()?;
                write(&environment, 11)?;
                environment.flush()?;
                drop(environment);
                bench.try_open()?;
                Ok::<(), StorageError>(())
            })();
            let finished = done.is_ok();
            let steps = disk.operation_count(OperationFilter::Mutating) - before;
            disk.restart().expect("restarts");
            let environment = bench.open();
            environment.read().check().expect("sound");
            let found = entries(&environment.read());
            assert!(
                found == state_after(10) || found == state_after(11),
                "cut at operation {nth} of {steps}"
            );
            if finished {
                break;
            }
        }
    }
}

#[test]
fn the_journal_continues_in_the_next_file_when_the_floors_file_is_released() {
    // A journal file holds ten of these transactions: in one of the rounds the floor is the last
    // record of its file, and the file is released.
    for before in 0..14u32 {
        let bench = Bench::new(u64::from(before));
        let environment = bench.open();
        let mut random = Random::new(7);
        let mut write = |key: u32| {
            let noise: Vec<u8> = (0..20_000).map(|_| random.next_u64() as u8).collect();
            let mut tx = environment.write().expect("writer");
            put(&mut tx, &key.to_be_bytes(), &noise);
            tx.commit().expect("commits");
        };
        (0..before).for_each(&mut write);
        let older = environment.read();
        write(before);
        let reader = environment.read();
        environment.flush().expect("starts a floor, to which the older reader lets no header move");
        (before + 1..before + 4).for_each(&mut write);
        drop(older);
        environment.flush().expect("moves the header to that floor");
        drop((reader, environment));
        let found = entries(&bench.open().read());
        assert_eq!(found.len(), before as usize + 4, "after {before} transactions");
    }
}

#[test]
fn a_spare_journal_that_a_power_cut_brought_back_does_no_harm() {
    let bench = Bench::new(1);
    drop(bench.open());
    let spare = std::path::Path::new("/db/journals/spare");
    let disk = &bench.simulation.platform.disk;
    drop(disk.create(spare, platform::Access::DirectSync).expect("no journal is there"));
    let environment = bench.open();
    let mut random = Random::new(7);
    for key in 0..8u32 {
        let noise: Vec<u8> = (0..20_000).map(|_| random.next_u64() as u8).collect();
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &key.to_be_bytes(), &noise);
        tx.commit().expect("commits");
    }
    environment.flush().expect("makes a spare");
    assert!(disk.exists(spare).expect("exists"), "the journal is half full");
}
