//! Compaction: the same content in less space, and always one whole environment.

use std::{ops::ControlFlow, path::Path};

use platform::simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Survival};

use super::{Bench, ROWS, change, content, populate};
use crate::{CompactProgress, CompactStep, StorageError, Transaction, compact_in_place};

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());

fn compact(bench: &Bench) -> Result<crate::CompactOutcome, StorageError> {
    compact_in_place(&bench.simulation.platform, &bench.options, &[&ROWS], &mut |_| CONTINUE)
}

#[test]
fn a_compacted_environment_has_the_same_content_and_is_smaller() {
    let bench = Bench::new(1);
    let environment = bench.open();
    populate(&environment, 600);
    change(&environment, |tx| {
        for key in (0..600u64).filter(|key| key % 5 != 0) {
            tx.table_mut(&ROWS).delete(&key.to_be_bytes())?;
        }
        Ok(())
    });
    let before = content(&environment.read()).expect("reads");
    let rows = environment.read().table(&ROWS).len().expect("reads");
    drop(environment);

    let outcome = compact(&bench).expect("compacts");
    assert_eq!((outcome.report.tables, outcome.report.rows), (1, rows));
    assert_eq!((outcome.report.trees, outcome.report.entries), (2, 1200));
    assert!(outcome.after_bytes * 2 < outcome.before_bytes, "{outcome:?}");
    let bytes = bench.simulation.disk.file_bytes(Path::new("/db/corvus.data")).expect("file").len();
    assert_eq!(bytes as u64, outcome.after_bytes);
    let environment = bench.open();
    let read = environment.read();
    let checked = read.check().expect("sound");
    assert_eq!(content(&read).expect("reads"), before);
    assert_eq!(checked.free_pages, 0, "nothing but what is used: {checked:?}");
    populate(&environment, 700);
    environment.flush().expect("flushes");
    environment.read().check().expect("lives on");
}

#[test]
fn progress_counts_up_to_everything_and_is_reported_in_between() {
    let bench = Bench::new(5);
    populate(&bench.open(), 1500);
    let mut reported: Vec<CompactProgress> = Vec::new();
    let outcome =
        compact_in_place(&bench.simulation.platform, &bench.options, &[&ROWS], &mut |progress| {
            reported.push(progress.clone());
            CONTINUE
        })
        .expect("compacts");
    for pair in reported.windows(2) {
        assert!(pair[0].trees_done <= pair[1].trees_done, "{pair:?}");
        assert!(pair[0].bytes_done <= pair[1].bytes_done, "{pair:?}");
        assert!(pair[1].entries_done <= pair[1].entries, "{pair:?}");
        assert!(pair[0].name != pair[1].name || pair[0].entries_done <= pair[1].entries_done);
    }
    let last = reported.last().expect("reported");
    assert_eq!((last.step, last.trees_done, last.trees), (CompactStep::Verifying, 3, 3));
    assert!(last.bytes_done > outcome.report.row_bytes);
    let in_between = reported.iter().filter(|progress| {
        progress.step == CompactStep::Table
            && 0 < progress.entries_done
            && progress.entries_done < progress.entries
    });
    assert!(in_between.count() > 0, "1,500 rows are more than one step");
}

#[test]
fn a_compaction_that_is_stopped_leaves_the_original_and_nothing_else() {
    let bench = Bench::new(6);
    populate(&bench.open(), 100);
    let before = content(&bench.open().read()).expect("reads");
    let mut steps = 0;
    for stop_at in 1.. {
        steps = 0;
        let stopped =
            compact_in_place(&bench.simulation.platform, &bench.options, &[&ROWS], &mut |_| {
                steps += 1;
                if steps == stop_at { ControlFlow::Break(()) } else { CONTINUE }
            });
        if stopped.is_ok() {
            break;
        }
        assert!(matches!(stopped, Err(StorageError::Stopped)), "{stopped:?}");
        assert_eq!(content(&bench.open().read()).expect("reads"), before);
        let disk = &bench.simulation.platform.disk;
        assert!(!disk.exists(Path::new("/db/building")).expect("looks"), "step {stop_at}");
    }
    assert!(steps > 5, "{steps} steps only");
}

#[test]
fn what_is_written_after_a_compaction_is_found_again() {
    let bench = Bench::new(4);
    populate(&bench.open(), 30);
    compact(&bench).expect("compacts");
    let environment = bench.open();
    populate(&environment, 40);
    let written = content(&environment.read()).expect("reads");
    drop(environment);
    assert_eq!(content(&bench.open().read()).expect("replays"), written);
}

#[test]
fn an_empty_environment_is_compacted_and_a_directory_without_one_is_refused() {
    let bench = Bench::new(2);
    assert!(matches!(compact(&bench), Err(StorageError::NotAnEnvironment { .. })));
    drop(bench.open());
    compact(&bench).expect("compacts");
    bench.open().read().check().expect("sound");
}

#[test]
fn an_environment_in_use_or_with_an_unknown_table_is_left_alone() {
    let bench = Bench::new(3);
    let environment = bench.open();
    populate(&environment, 30);
    assert!(matches!(compact(&bench), Err(StorageError::Locked { .. })));
    let before = content(&environment.read()).expect("reads");
    drop(environment);
    let refused =
        compact_in_place(&bench.simulation.platform, &bench.options, &[], &mut |_| CONTINUE);
    assert!(matches!(refused, Err(StorageError::UnknownTable { .. })), "{refused:?}");
    assert_eq!(content(&bench.open().read()).expect("reads"), before);
}

#[test]
fn a_disk_too_full_for_the_copy_keeps_the_original_and_the_space() {
    let bench = Bench::new(4);
    let environment = bench.open();
    populate(&environment, 400);
    let before = content(&environment.read()).expect("reads");
    drop(environment);
    let statistics = bench.open().statistics();
    let used = statistics.data_file_bytes + statistics.journal_bytes;
    let disk = &bench.simulation.disk;
    disk.space_limit(Some(used + 600_000));
    let refused = compact(&bench);
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })), "{refused:?}");
    assert_eq!(content(&bench.open().read()).expect("opens in what is left"), before);
}

#[test]
fn a_power_cut_at_every_operation_leaves_one_whole_environment() {
    for survival in
        [Survival::Nothing, Survival::Everything, Survival::Prefix, Survival::RandomSubset]
    {
        let mut nth = 1;
        loop {
            let bench = Bench::new(nth);
            let environment = bench.open();
            populate(&environment, 60);
            if nth % 2 == 0 {
                environment.flush().expect("flushes");
            }
            let before = content(&environment.read()).expect("reads");
            drop(environment);
            let disk = &bench.simulation.disk;
            disk.cut_power_at_operation(nth, survival);
            let finished = compact(&bench).is_ok();
            disk.restart().expect("restarts");
            let environment = bench.open();
            environment.read().check().expect("sound");
            let after = content(&environment.read()).expect("reads");
            assert_eq!(after, before, "cut at operation {nth}, {survival:?}");
            // It may be plaintext.
            let leftover = bench.simulation.platform.disk.exists(Path::new("/db/building"));
            assert!(!leftover.expect("looks"), "{nth}");
            drop(environment);
            compact(&bench).expect("starts anew");
            assert_eq!(content(&bench.open().read()).expect("reads"), before);
            if finished {
                break;
            }
            nth += 1;
        }
        assert!(nth > 30, "the cut met the work {nth} times only");
    }
}

#[test]
fn every_single_failing_operation_leaves_one_whole_environment() {
    for kind in [FaultKind::InputOutput, FaultKind::StorageFull] {
        for nth in 1.. {
            let bench = Bench::new(nth);
            let environment = bench.open();
            populate(&environment, 40);
            let before = content(&environment.read()).expect("reads");
            drop(environment);
            let disk = &bench.simulation.disk;
            disk.fail_operation(nth, OperationFilter::Any, kind, FaultSpan::Once);
            let finished = compact(&bench).is_ok();
            disk.clear_faults();
            let environment = bench.open();
            environment.read().check().expect("sound");
            assert_eq!(content(&environment.read()).expect("reads"), before, "operation {nth}");
            if finished {
                break;
            }
        }
    }
}

#[test]
fn the_rename_comes_after_the_sync_of_what_is_renamed() {
    let bench = Bench::new(5);
    let environment = bench.open();
    populate(&environment, 40);
    drop(environment);
    let disk = &bench.simulation.disk;
    let renames = OperationFilter::Only(OperationKind::Rename);
    let before = disk.operation_count(renames);
    compact(&bench).expect("compacts");
    // One when the copy was created under its own name, one when it took its place.
    assert_eq!(disk.operation_count(renames) - before, 2);
    let path = Path::new("/db/corvus.data");
    let durable = disk.durable_bytes(path).expect("durable");
    assert_eq!(durable, disk.file_bytes(path).expect("file"));
}
