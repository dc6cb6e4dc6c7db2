//! Copies under another key: at every moment the environment is what it was, or the copy.

use std::{ops::ControlFlow, path::Path};

use platform::simulated::{FaultKind, FaultSpan, OperationFilter, Survival};

use super::{
    super::{is_encrypted, key},
    Bench, Content, ROWS, change, content, populate,
};
use crate::{
    CompactProgress, EncryptionKey, Environment, EnvironmentOptions, StorageError, is_encrypted_in,
    prepare_copy, settle_prepared,
};

const DATA: &str = "/db/corvus.data";
const COPY: &str = "/db/corvus.data.prepared";

/// What an environment of [`Bench`] can be given instead of its key, or of none.
fn next_keys() -> Vec<Option<EncryptionKey>> {
    match is_encrypted() {
        false => vec![Some(key(9))],
        true => vec![None, Some(key(9))],
    }
}

fn prepare(bench: &Bench, next: &Option<EncryptionKey>) -> Result<(), StorageError> {
    let observer = &mut |_: &CompactProgress| ControlFlow::Continue(());
    let platform = &bench.simulation.platform;
    prepare_copy(platform, &bench.options, next.clone(), &[&ROWS], observer).map(drop)
}

fn options_with(bench: &Bench, next: &Option<EncryptionKey>) -> EnvironmentOptions {
    let encryption_key = next.clone();
    EnvironmentOptions { encryption_key, is_key_certain: true, ..bench.options.clone() }
}

fn read_with(bench: &Bench, options: &EnvironmentOptions) -> Result<Content, StorageError> {
    let environment = Environment::open(&bench.simulation.platform, options.clone())?;
    let read = environment.read();
    read.check()?;
    content(&read)
}

fn has_copy(bench: &Bench) -> bool {
    bench.simulation.platform.disk.exists(Path::new(COPY)).expect("looks")
}

#[test]
fn the_key_with_which_it_is_opened_decides_which_it_is() {
    for next in next_keys() {
        let bench = Bench::new(1);
        populate(&bench.open(), 200);
        let before = content(&bench.open().read()).expect("reads");
        prepare(&bench, &next).expect("copies");
        // Who names a key that is not certain changes nothing by that.
        assert_eq!(content(&bench.open().read()).expect("reads"), before);
        let moved = options_with(&bench, &next);
        let tried = EnvironmentOptions { is_key_certain: false, ..moved.clone() };
        assert!(read_with(&bench, &tried).is_err());
        assert!(has_copy(&bench));
        assert_eq!(read_with(&bench, &moved).expect("opens"), before);
        assert!(!has_copy(&bench));
        let platform = &bench.simulation.platform;
        let is_encrypted_now = is_encrypted_in(platform, Path::new("/db")).expect("reads");
        assert_eq!(is_encrypted_now, Some(next.is_some()));
        assert!(bench.try_open().is_err(), "the former key is none any more");
        // It lives on under the next one.
        let environment = Environment::open(platform, moved.clone()).expect("opens");
        populate(&environment, 250);
        let written = content(&environment.read()).expect("reads");
        drop(environment);
        assert_eq!(read_with(&bench, &moved).expect("replays"), written);
    }
}

#[test]
fn a_copy_that_is_out_of_date_is_removed_and_never_used() {
    for next in next_keys() {
        let bench = Bench::new(2);
        populate(&bench.open(), 60);
        prepare(&bench, &next).expect("copies");
        let own = EnvironmentOptions { is_key_certain: true, ..bench.options.clone() };
        let before = read_with(&bench, &own).expect("opens");
        assert!(!has_copy(&bench), "its moment has not come");
        prepare(&bench, &next).expect("copies");
        settle_prepared(&bench.simulation.platform, &bench.options).expect("settles");
        assert!(!has_copy(&bench));
        assert_eq!(content(&bench.open().read()).expect("reads"), before);
    }
}

/// An older copy that somebody puts there does not take the place of what can be opened.
#[test]
fn what_can_be_opened_is_never_replaced() {
    let bench = Bench::new(3);
    populate(&bench.open(), 60);
    bench.open().close().expect("closes");
    let disk = &bench.simulation.platform.disk;
    let older = disk.read_file(Path::new(DATA)).expect("reads");
    change(&bench.open(), |tx| tx.table_mut(&ROWS).delete(&1u64.to_be_bytes()).map(drop));
    let before = content(&bench.open().read()).expect("reads");
    disk.write_file_atomically(Path::new(COPY), &older).expect("writes");
    assert_eq!(content(&bench.open().read()).expect("reads"), before);
    let own = EnvironmentOptions { is_key_certain: true, ..bench.options.clone() };
    assert_eq!(read_with(&bench, &own).expect("opens"), before);
    assert!(!has_copy(&bench));
}

/// The key counts already, and what is prepared has not taken its place when the next change begins.
#[test]
fn a_change_that_was_not_completed_is_completed_before_the_next_one() {
    for next in next_keys() {
        let bench = Bench::new(5);
        populate(&bench.open(), 60);
        let before = content(&bench.open().read()).expect("reads");
        prepare(&bench, &next).expect("copies");
        let moved = options_with(&bench, &next);
        let observer = &mut |_: &CompactProgress| ControlFlow::Continue(());
        let platform = &bench.simulation.platform;
        let last = Some(key(11));
        prepare_copy(platform, &moved, last.clone(), &[&ROWS], observer).expect("copies again");
        assert_eq!(read_with(&bench, &options_with(&bench, &last)).expect("opens"), before);
    }
}

/// The whole change, as a server or an offline command makes it: the copy, then the key, then opening.
#[test]
fn a_power_cut_at_every_operation_leaves_the_environment_under_the_key_that_counts() {
    for next in next_keys() {
        for survival in [Survival::Nothing, Survival::Everything, Survival::RandomSubset] {
            let mut cuts = [0; 2];
            for nth in 1.. {
                let bench = Bench::new(nth);
                populate(&bench.open(), 40);
                let before = content(&bench.open().read()).expect("reads");
                let disk = &bench.simulation.disk;
                disk.cut_power_at_operation(nth, survival);
                let is_copied = prepare(&bench, &next).is_ok();
                // From here on the next key counts, if there is still power to say so.
                let is_changed = is_copied && !disk.is_power_lost();
                let moved = options_with(&bench, &next);
                let is_done = is_changed && read_with(&bench, &moved).is_ok();
                let is_cut = disk.is_power_lost();
                disk.restart().expect("restarts");
                let own = EnvironmentOptions { is_key_certain: true, ..bench.options.clone() };
                let counting = if is_changed { &moved } else { &own };
                let after = read_with(&bench, counting).expect("opens");
                assert_eq!(after, before, "operation {nth}, {survival:?}");
                assert!(!has_copy(&bench), "operation {nth}, {survival:?}");
                if is_done && !is_cut {
                    break;
                }
                cuts[usize::from(is_changed)] += 1;
            }
            assert!(30 < cuts[0] && 1 < cuts[1], "{cuts:?}");
        }
    }
}

#[test]
fn a_failing_operation_or_a_full_disk_leaves_the_environment_as_it_was() {
    for next in next_keys() {
        for kind in [FaultKind::InputOutput, FaultKind::StorageFull] {
            for nth in 1.. {
                let bench = Bench::new(nth);
                populate(&bench.open(), 40);
                let before = content(&bench.open().read()).expect("reads");
                let disk = &bench.simulation.disk;
                disk.fail_operation(nth, OperationFilter::Any, kind, FaultSpan::Once);
                let is_copied = prepare(&bench, &next).is_ok();
                disk.clear_faults();
                assert_eq!(
                    content(&bench.open().read()).expect("opens"),
                    before,
                    "operation {nth}"
                );
                if is_copied {
                    break;
                }
            }
        }
        let bench = Bench::new(4);
        populate(&bench.open(), 400);
        let statistics = bench.open().statistics();
        let used = statistics.data_file_bytes + statistics.journal_bytes;
        bench.simulation.disk.space_limit(Some(used + 600_000));
        let refused = prepare(&bench, &next);
        assert!(matches!(refused, Err(StorageError::DiskFull { .. })), "{refused:?}");
        assert!(!has_copy(&bench));
    }
}
