//! Isolation: what readers see while a writer works.

use std::sync::{Arc, Mutex};

use super::{Bench, entries, name, put};
use crate::{Environment, MemoryBudget, StorageError, Transaction, WriteTransaction};

#[test]
fn a_reader_keeps_its_snapshot_through_commits_flushes_and_reuse_of_pages() {
    let bench = Bench::new(1);
    let environment = bench.open();
    let mut kept = Vec::new();
    for round in 0..60u32 {
        let mut tx = environment.write().expect("writer");
        for key in 0..200u32 {
            if (key + round) % 3 == 0 {
                tx.tree_mut(&name("t")).expect("tree").delete(&key.to_be_bytes()).expect("delete");
            } else {
                put(
                    &mut tx,
                    &key.to_be_bytes(),
                    &vec![round as u8; (key * 17 + round) as usize % 3000],
                );
            }
        }
        let expected = entries(&tx);
        tx.commit().expect("commits");
        kept.push((environment.read(), expected));
        if round % 4 == 0 {
            environment.flush().expect("flushes");
        }
        if round % 7 == 0 {
            kept.remove(kept.len() / 2);
        }
        for (read, expected) in &kept {
            assert_eq!(&entries(read), expected, "the snapshot of transaction {}", read.id());
        }
    }
    assert!(environment.statistics().older_snapshots > 0);
    kept.clear();
    environment.flush().expect("flushes");
    environment.flush().expect("flushes");
    assert_eq!(environment.statistics().unflushed_bytes, 0);
}

#[test]
fn a_sealed_transaction_is_seen_by_the_next_writer_but_not_by_readers() {
    let bench = Bench::new(2);
    let environment = bench.open();
    let mut first = environment.write().expect("writer");
    put(&mut first, b"a", b"1");
    let first = first.seal().expect("seals");
    let mut second = environment.write().expect("writer");
    assert_eq!(second.tree(&name("t")).expect("tree").get(b"a").expect("get"), Some(&b"1"[..]));
    put(&mut second, b"b", b"2");
    assert!(entries(&environment.read()).is_empty());
    first.make_durable().expect("durable");
    assert_eq!(entries(&environment.read()).len(), 1);
    second.commit().expect("commits");
    assert_eq!(entries(&environment.read()).len(), 2);
}

#[test]
fn what_was_built_on_an_abandoned_transaction_is_abandoned_with_it() {
    let bench = Bench::new(3);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"kept", b"");
    tx.commit().expect("commits");
    let mut first = environment.write().expect("writer");
    put(&mut first, b"a", b"1");
    let first = first.seal().expect("seals");
    let mut second = environment.write().expect("writer");
    put(&mut second, b"b", b"2");
    let second = second.seal().expect("seals");
    let mut third = environment.write().expect("writer");
    put(&mut third, b"c", b"3");
    drop(first);
    assert!(matches!(second.make_durable(), Err(StorageError::BuiltOnFailed { .. })));
    assert!(matches!(third.seal(), Err(StorageError::BuiltOnFailed { .. })));
    let mut tx = environment.write().expect("the environment still accepts writes");
    assert_eq!(entries(&tx).len(), 1);
    put(&mut tx, b"d", b"4");
    tx.commit().expect("commits");
    drop(environment);
    assert_eq!(entries(&bench.open().read()).len(), 2);
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let bench = Bench::new(4);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    put(&mut tx, b"a", &[1; 50_000]);
    drop(tx);
    assert!(entries(&environment.read()).is_empty());
    let report = environment.read().check().expect("sound");
    assert_eq!((report.used_pages, report.free_pages), (4, 0));
}

#[test]
fn a_transaction_that_changed_nothing_takes_no_number() {
    let bench = Bench::new(5);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    tx.tree_mut(&name("t")).expect("tree").delete(b"nothing").expect("delete");
    tx.commit().expect("commits");
    assert_eq!(environment.read().id(), 0);
}

#[test]
fn concurrent_readers_see_whole_transactions_only() {
    let bench = Bench::new(6);
    let environment = bench.open();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while last < 300 {
                    let read = environment.read();
                    let found = entries(&read);
                    assert!(read.id() >= last, "snapshots go forward");
                    last = read.id();
                    let first = found.first().map(|(_, value)| value.clone());
                    assert!(found.iter().all(|(_, value)| Some(value) == first.as_ref()));
                }
            });
        }
        for round in 0..300u32 {
            let mut tx = environment.write().expect("writer");
            for key in 0..20u32 {
                put(&mut tx, &key.to_be_bytes(), &vec![round as u8; 700]);
            }
            tx.commit().expect("commits");
            if round % 10 == 0 {
                environment.flush().expect("flushes");
            }
        }
    });
}

#[test]
fn writers_are_refused_when_an_old_reader_keeps_too_much_in_memory() {
    let mut bench = Bench::new(7);
    bench.options.unflushed_bytes_max = 1024 * 1024;
    let environment = bench.open();
    let old = environment.read();
    let mut refused = None;
    for round in 0..200u32 {
        match environment.write() {
            Ok(mut tx) => {
                put(&mut tx, &round.to_be_bytes(), &[7; 20_000]);
                tx.commit().expect("commits");
            }
            Err(error) => refused = Some(error),
        }
    }
    assert!(matches!(refused, Some(StorageError::TooManyUnflushed { .. })));
    drop(old);
    environment.write().expect("the reader has ended").commit().expect("commits");
}

#[test]
fn environments_share_one_budget_and_each_may_always_hold_a_little() {
    let budget = MemoryBudget::new(2 * 1024 * 1024);
    let open = |seed| {
        let mut bench = Bench::new(seed);
        bench.options.memory_budget = budget.clone();
        let environment = bench.open();
        (bench, environment)
    };
    let (_full_bench, full) = open(1);
    let (_other_bench, other) = open(2);
    let write = |environment: &Arc<Environment>, round: u32| {
        let mut tx = environment.write()?;
        put(&mut tx, &round.to_be_bytes(), &[7; 20_000]);
        tx.commit()
    };
    let old = full.read();
    let refused = (0..200).find_map(|round| write(&full, round).err());
    let Some(StorageError::TooManyUnflushed { bytes, limit }) = refused else {
        panic!("{refused:?}")
    };
    assert!(bytes > limit && limit == budget.bytes_max(), "{bytes} and {limit}");
    // The other one contributes nothing to it: it flushes what it has and continues.
    for round in 0..200 {
        write(&other, round).expect("is not held up by the first");
    }
    assert!(other.statistics().unflushed_bytes < 2 * 1024 * 1024);
    drop(old);
    write(&full, 1000).expect("the reader has ended");
    full.flush().expect("flushes");
    other.flush().expect("flushes");
    drop((full, other));
    assert_eq!(budget.held_bytes(), 0, "everything is released");
}

#[test]
fn a_full_disk_is_remembered_until_it_is_reported() {
    let bench = Bench::new(9);
    let environment = bench.open();
    assert!(!environment.take_disk_full());
    environment.begin_writing().expect("begins");
    let statistics = environment.statistics();
    let used = statistics.data_file_bytes + statistics.journal_bytes;
    bench.simulation.disk.space_limit(Some(used));
    let refused = (0..100u32).find_map(|key| {
        let mut tx = environment.write().expect("begins");
        put(&mut tx, &key.to_be_bytes(), &[7; 20_000]);
        tx.commit().err()
    });
    assert!(matches!(refused, Some(StorageError::DiskFull { .. })), "{refused:?}");
    assert!(environment.take_disk_full());
    assert!(!environment.take_disk_full());
}

#[test]
fn before_a_writer_is_refused_holders_of_snapshots_are_asked_to_release_them() {
    let mut bench = Bench::new(5);
    bench.options.unflushed_bytes_max = 1024 * 1024;
    let environment = bench.open();
    let held = Arc::new(Mutex::new(Some(environment.read())));
    let released = Arc::clone(&held);
    environment.on_memory_short(move || drop(released.lock().expect("lock").take()));
    let write = |round: u32| {
        let mut tx = environment.write()?;
        put(&mut tx, &round.to_be_bytes(), &[7; 20_000]);
        tx.commit()
    };
    for round in 0..200 {
        write(round).expect("the snapshot is released");
    }
    assert!(held.lock().expect("lock").is_none(), "the callback did not run");
    let _kept = environment.read();
    let refused = (200..400).find_map(|round| write(round).err());
    assert!(matches!(refused, Some(StorageError::TooManyUnflushed { .. })), "{refused:?}");
}

#[test]
fn pages_that_are_freed_take_no_memory_although_they_may_come_back() {
    let mut bench = Bench::new(5);
    bench.options.transaction_budget = MemoryBudget::new(4 << 20);
    let environment = bench.open();
    for first in (0..20_000_u32).step_by(500) {
        let mut tx = environment.write().expect("writer");
        (first..first + 500).for_each(|number| put(&mut tx, &number.to_be_bytes(), &[7; 1000]));
        tx.commit().expect("commits");
    }
    let expected = entries(&environment.read());
    let mut tx = environment.write().expect("writer");
    put(&mut tx, &5_u32.to_be_bytes(), b"before");
    let delete_all = |tx: &mut WriteTransaction| {
        for (key, _) in &expected {
            tx.tree_mut(&name("t")).expect("tree").delete(key).expect("there is memory");
        }
        assert!(entries(tx).is_empty());
    };
    let savepoint = tx.savepoint();
    delete_all(&mut tx);
    (0..1000_u32).for_each(|number| put(&mut tx, &number.to_be_bytes(), &[8; 1000]));
    tx.roll_back_to(savepoint);
    put(&mut tx, &5_u32.to_be_bytes(), &[7; 1000]);
    assert_eq!(entries(&tx), expected);
    tx.savepoint();
    delete_all(&mut tx);
    tx.commit().expect("commits");
    assert!(entries(&environment.read()).is_empty());
    environment.flush().expect("flushes");
    drop(environment);
    assert!(entries(&bench.open().read()).is_empty());
}
