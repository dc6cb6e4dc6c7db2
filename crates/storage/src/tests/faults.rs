//! A disk that fails: full, unreadable, lying.

use std::path::{Path, PathBuf};

use platform::{
    Disk,
    simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Random},
};

use super::{Bench, entries, name, put};
use crate::{Corruption, StorageError, Transaction};

fn journal(number: u64) -> PathBuf {
    Path::new("/db/journals").join(format!("{number:019}.journal"))
}

#[test]
fn a_full_disk_refuses_writes_and_resumes_by_itself() {
    let bench = Bench::new(1);
    let environment = bench.open();
    let mut kept = 0;
    bench.simulation.disk.space_limit(Some(3 * 1024 * 1024));
    let refused = loop {
        let mut tx = environment.write().expect("reads and the writer lock still work");
        put(&mut tx, &u32::to_be_bytes(kept), &[3; 30_000]);
        match tx.commit() {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk never filled");
    };
    assert!(matches!(refused, StorageError::DiskFull { .. }), "{refused}");
    assert_eq!(entries(&environment.read()).len(), kept as usize);
    bench.simulation.disk.space_limit(None);
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"after", b"");
    tx.commit().expect("space is back");
    environment.flush().expect("flushes");
    drop(environment);
    assert_eq!(entries(&bench.open().read()).len(), kept as usize + 1);
}

#[test]
fn half_a_journal_that_could_not_be_removed_does_no_harm() {
    let bench = Bench::new(11);
    let environment = bench.open();
    let disk = &bench.simulation.disk;
    let allocations = OperationFilter::Only(OperationKind::Allocate);
    let removals = OperationFilter::Only(OperationKind::Remove);
    disk.fail_operation(1, allocations, FaultKind::StorageFull, FaultSpan::Once);
    disk.fail_operation(1, removals, FaultKind::StorageFull, FaultSpan::Once);
    let error = environment.write().err().expect("there is no space for the first journal");
    assert!(matches!(error, StorageError::DiskFull { .. }), "{error}");
    assert!(bench.simulation.platform.disk.exists(&journal(1)).expect("exists"));
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"b", b"2");
    tx.commit().expect("space is back");
    drop(environment);
    assert_eq!(entries(&bench.open().read()).len(), 1);
}

#[test]
fn a_spare_that_could_not_be_used_is_not_reported() {
    let bench = Bench::new(12);
    let environment = bench.open();
    let has_spare = || {
        let journals = environment.report().expect("reports").journals;
        journals.iter().any(|journal| journal.number == 0)
    };
    let mut random = Random::new(12);
    let mut commit = || {
        let mut tx = environment.write().expect("writer");
        let bytes: Vec<u8> = (0..30_000).map(|_| random.below(256) as u8).collect();
        put(&mut tx, b"a", &bytes);
        tx.commit()
    };
    while !has_spare() {
        commit().expect("commits");
        environment.flush().expect("flushes");
    }
    let renames = OperationFilter::Only(OperationKind::Rename);
    bench.simulation.disk.fail_operation(1, renames, FaultKind::StorageFull, FaultSpan::Once);
    let error = loop {
        match commit() {
            Ok(()) => assert!(has_spare()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::DiskFull { .. }), "{error}");
    assert!(!has_spare());
    commit().expect("it goes on in a new file");
}

#[test]
fn a_failed_journal_write_closes_the_write_path_until_recovery() {
    let bench = Bench::new(2);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"a", b"1");
    tx.commit().expect("commits");
    let disk = &bench.simulation.disk;
    let writes = OperationFilter::Only(OperationKind::Write);
    disk.fail_operation(1, writes, FaultKind::InputOutput, FaultSpan::Once);
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"b", b"2");
    let error = tx.commit().expect_err("the write failed");
    assert!(matches!(error, StorageError::Failed { .. }), "{error}");
    assert!(matches!(environment.write(), Err(StorageError::Failed { .. })));
    assert!(matches!(environment.flush(), Err(StorageError::Failed { .. })));
    assert_eq!(entries(&environment.read()).len(), 1, "reads continue");
    drop(environment);
    let environment = bench.open();
    let found = entries(&environment.read()).len();
    assert!((1..=2).contains(&found), "the acknowledged one is there, the other may be");
    environment.write().expect("writes continue").commit().expect("commits");
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_of_its_request_alone() {
    let bench = Bench::new(9);
    let environment = bench.open();
    for key in 0..200u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &key.to_be_bytes(), &[1; 3000]);
        tx.commit().expect("commits");
    }
    environment.flush().expect("flushes");
    drop(environment);
    let environment = bench.open();
    let disk = &bench.simulation.disk;
    let loads = OperationFilter::Only(OperationKind::Load);
    disk.fail_operation(3, loads, FaultKind::InputOutput, FaultSpan::Once);
    let read = environment.read();
    let errors: Vec<_> = (0..200u32)
        .filter_map(|key| {
            let tree = read.tree(&name("t"));
            tree.and_then(|tree| tree.get(&key.to_be_bytes()).map(drop)).err()
        })
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(matches!(&errors[0], StorageError::Io { operation: "read", .. }), "{errors:?}");
    assert_eq!(entries(&read).len(), 200, "the next request reads it");
    environment.write().expect("writes continue").commit().expect("commits");
}

#[test]
fn a_failed_sync_of_the_data_file_is_never_retried() {
    let bench = Bench::new(3);
    let environment = bench.open();
    for key in 0..50u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &key.to_be_bytes(), &[1; 3000]);
        tx.commit().expect("commits");
    }
    let syncs = OperationFilter::Only(OperationKind::Sync);
    bench.simulation.disk.fail_operation(1, syncs, FaultKind::InputOutput, FaultSpan::Once);
    assert!(matches!(environment.flush(), Err(StorageError::Failed { .. })));
    assert!(matches!(environment.flush(), Err(StorageError::Failed { .. })));
    drop(environment);
    let environment = bench.open();
    environment.read().check().expect("sound");
    assert_eq!(entries(&environment.read()).len(), 50);
}

#[test]
fn every_single_failing_operation_leaves_what_was_acknowledged() {
    for kind in [FaultKind::InputOutput, FaultKind::StorageFull] {
        for nth in 1.. {
            let bench = Bench::new(nth);
            bench.simulation.disk.fail_operation(nth, OperationFilter::Any, kind, FaultSpan::Once);
            let mut acknowledged = 0u32;
            if let Ok(environment) = bench.try_open() {
                for key in 0..12u32 {
                    let Ok(mut tx) = environment.write() else { break };
                    put(&mut tx, &acknowledged.to_be_bytes(), &vec![1; key as usize * 2500]);
                    match tx.commit() {
                        Ok(()) => acknowledged += 1,
                        Err(_) => continue,
                    }
                    if key % 5 == 4 {
                        drop(environment.flush());
                    }
                }
            }
            let reached = bench.simulation.disk.operation_count(OperationFilter::Any) >= nth;
            bench.simulation.disk.clear_faults();
            let environment = bench.open();
            environment.read().check().expect("sound");
            let found = entries(&environment.read()).len() as u32;
            assert!(
                (acknowledged..=acknowledged + 1).contains(&found),
                "{found} of {acknowledged}"
            );
            if !reached {
                assert_eq!(acknowledged, 12);
                break;
            }
        }
    }
}

/// Each of them fills one sector of the first journal file.
fn five_small_transactions(seed: u64) -> Bench {
    let bench = Bench::new(seed);
    let environment = bench.open();
    for key in 0..5u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &key.to_be_bytes(), b"value");
        tx.commit().expect("commits");
    }
    bench
}

#[test]
fn a_damaged_record_before_the_tail_refuses_to_open() {
    let bench = five_small_transactions(4);
    bench.simulation.disk.flip_bit(&journal(1), 2 * 4096 + 100, 3).expect("flips");
    let error = bench.try_open().err().expect("acknowledged transactions would be lost");
    assert!(
        matches!(
            error,
            StorageError::Corrupt(Corruption::Journal { transaction: 2, later: 3, .. })
        ),
        "{error}"
    );
}

#[test]
fn a_damaged_last_record_is_a_torn_tail() {
    let bench = five_small_transactions(5);
    bench.simulation.disk.flip_bit(&journal(1), 5 * 4096 + 100, 3).expect("flips");
    assert_eq!(entries(&bench.open().read()).len(), 4);
}

#[test]
fn a_flipped_bit_in_the_data_file_is_reported_and_never_served() {
    let bench = Bench::new(6);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    for key in 0..2000u32 {
        put(&mut tx, &key.to_be_bytes(), &[5; 100]);
    }
    tx.commit().expect("commits");
    environment.flush().expect("flushes");
    let pages = environment.statistics().allocated_pages;
    drop(environment);
    for page in 2..pages {
        bench
            .simulation
            .disk
            .flip_bit(Path::new("/db/corvus.data"), page * 8192 + 1000 + page, 2)
            .expect("flips");
        let outcome = bench.try_open().and_then(|environment| environment.read().check());
        assert!(
            matches!(
                outcome,
                Err(StorageError::Corrupt(
                    Corruption::PageChecksum { page: found }
                    | Corruption::PageAuthentication { page: found },
                )) if found.get() == page
            ),
            "page {page}: {outcome:?}"
        );
        bench
            .simulation
            .disk
            .flip_bit(Path::new("/db/corvus.data"), page * 8192 + 1000 + page, 2)
            .expect("flips");
    }
}

#[test]
fn one_damaged_header_copy_is_survived_and_two_are_refused() {
    let bench = Bench::new(7);
    drop(bench.open());
    let data = Path::new("/db/corvus.data");
    bench.simulation.disk.flip_bit(data, 20, 1).expect("flips");
    drop(bench.open());
    bench.simulation.disk.flip_bit(data, 8192 + 20, 1).expect("flips");
    assert!(matches!(
        bench.try_open().err(),
        Some(StorageError::Corrupt(Corruption::Header { .. }))
    ));
}

#[test]
fn the_directory_is_locked_while_it_is_open() {
    let bench = Bench::new(8);
    let environment = bench.open();
    assert!(matches!(bench.try_open().err(), Some(StorageError::Locked { .. })));
    drop(environment);
    bench.open();
}

#[test]
fn a_closed_environment_releases_its_directory_and_refuses_writes() {
    let bench = Bench::new(10);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"a", b"1");
    tx.commit().expect("commits");
    let mut late = environment.write().expect("writer");
    put(&mut late, b"b", b"2");
    environment.close().expect("flushes");
    assert!(late.commit().is_err());
    assert!(environment.write().is_err());
    assert_eq!(entries(&environment.read()).len(), 1, "snapshots stay readable");
    assert_eq!(entries(&bench.open().read()).len(), 1);
}

#[test]
fn journals_are_bounded_and_reused() {
    let mut bench = Bench::new(9);
    bench.options.unflushed_bytes_max = 2 * 1024 * 1024;
    let environment = bench.open();
    let mut most = 0;
    for round in 0..400u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &(round % 7).to_be_bytes(), &[round as u8; 20_000]);
        tx.commit().expect("commits");
        if environment.flush_wanted() {
            environment.keep_up().expect("flushes");
        }
        most = most.max(environment.statistics().journal_bytes);
    }
    assert!(most <= 4 * 1024 * 1024, "{most} bytes of journals");
    assert!(bench.simulation.disk.list(Path::new("/db/journals")).expect("list").len() <= 4);
}

#[test]
fn a_clean_close_leaves_no_journals_and_an_unclean_one_leaves_what_is_needed() {
    let bench = five_small_transactions(12);
    let journals = || bench.simulation.disk.list(Path::new("/db/journals")).expect("list");
    assert!(!journals().is_empty());
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"sixth", &[6; 300_000]);
    tx.commit().expect("commits");
    // A flush that an old reader holds back leaves the sixth in the journal alone.
    let reader = environment.read();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"seventh", b"value");
    tx.commit().expect("commits");
    environment.close().expect("closes");
    assert!(!journals().is_empty());
    drop((reader, environment));
    let environment = bench.open();
    assert_eq!(entries(&environment.read()).len(), 7);
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"eighth", b"value");
    tx.commit().expect("commits");
    environment.close().expect("closes");
    assert_eq!(journals(), Vec::<String>::new());
    drop(environment);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"ninth", b"value");
    tx.commit().expect("commits");
    drop(environment);
    assert_eq!(entries(&bench.open().read()).len(), 9);
}

#[test]
fn the_next_journal_file_is_created_without_a_flush_until_enough_was_written() {
    let mut bench = Bench::new(11);
    bench.options.journal_bytes_max = 256 * 1024;
    bench.options.unflushed_bytes_max = 1536 * 1024;
    let environment = bench.open();
    let mut files_before_a_flush = 0;
    for round in 0..400u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &(round % 7).to_be_bytes(), &[round as u8; 20_000]);
        tx.commit().expect("commits");
        if environment.flush_wanted() {
            environment.keep_up().expect("keeps up");
            assert!(!environment.flush_wanted());
            if environment.statistics().unflushed_bytes == 0 {
                assert!(files_before_a_flush >= 4, "flushed after {files_before_a_flush} files");
                return;
            }
            files_before_a_flush = environment.statistics().journal_files;
        }
    }
    panic!("never flushed");
}
