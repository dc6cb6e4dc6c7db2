//! Parts that are missing, cut short, exchanged or older than what depends on them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use platform::{Access, Disk};

use super::{Bench, entries, put};
use crate::{
    Corruption, Environment, EnvironmentOptions, History, HistoryMismatch, HistoryPoint,
    IncarnationWitness, Salvage, StorageError, environment_id_in,
};

pub(super) const DATA: &str = "/db/corvus.data";
pub(super) const JOURNALS: &str = "/db/journals";

pub(super) fn write(environment: &Arc<Environment>, key: u32, bytes: usize) {
    let mut tx = environment.write().expect("writer");
    put(&mut tx, &key.to_be_bytes(), &incompressible(key, bytes));
    tx.commit().expect("commits");
}

fn incompressible(key: u32, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).flat_map(|word| {
        xxhash_rust::xxh3::xxh3_64_with_seed(&key.to_le_bytes(), word).to_le_bytes()
    });
    words.take(bytes).collect()
}

/// An environment that was killed after these writes.
fn killed_after(bench: &Bench, writes: u32, bytes: usize) {
    let environment = bench.open();
    for key in 0..writes {
        write(&environment, key, bytes);
    }
}

pub(super) fn journals(disk: &dyn Disk) -> Vec<PathBuf> {
    let names = disk.list(Path::new(JOURNALS)).expect("lists");
    let journals = names.iter().filter(|name| name.ends_with(".journal"));
    journals.map(|name| Path::new(JOURNALS).join(name)).collect()
}

pub(super) fn contents(disk: &dyn Disk, paths: &[PathBuf]) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: &PathBuf| (path.clone(), disk.read_file(path).expect("reads"));
    paths.iter().map(read).collect()
}

pub(super) fn restore(disk: &dyn Disk, files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        if disk.exists(path).expect("asks") {
            disk.remove_file(path).expect("removes");
        }
        let file = disk.create(path, Access::Buffered).expect("creates");
        file.write_all_at(bytes, 0).expect("writes");
        file.sync_data().expect("syncs");
        disk.sync_dir(path.parent().expect("a directory")).expect("syncs");
    }
}

#[test]
fn without_a_journal_that_recovery_needs_nothing_is_opened_and_nothing_is_changed() {
    let bench = Bench::new(1);
    killed_after(&bench, 60, 9000);
    let disk = &*bench.simulation.platform.disk;
    let paths = journals(disk);
    assert!(paths.len() > 1, "several journals");
    let saved = contents(disk, &paths);
    let data = disk.read_file(Path::new(DATA)).expect("reads");
    for missing in &paths {
        disk.remove_file(missing).expect("removes");
        match bench.try_open().err() {
            Some(StorageError::JournalMissing { path }) => assert_eq!(path, *missing),
            other => panic!("{other:?}"),
        }
        assert_eq!(disk.read_file(Path::new(DATA)).expect("reads"), data, "unchanged");
        restore(disk, &saved);
    }
    disk.remove_dir_all(Path::new(JOURNALS)).expect("removes");
    assert!(matches!(bench.try_open().err(), Some(StorageError::JournalMissing { .. })));
    restore(disk, &saved);
    assert_eq!(entries(&bench.open().read()).len(), 60);
}

#[test]
fn an_environment_that_was_closed_well_needs_no_journal() {
    let bench = Bench::new(2);
    let environment = bench.open();
    write(&environment, 1, 100);
    environment.close().expect("closes");
    drop(environment);
    let disk = &*bench.simulation.platform.disk;
    assert!(journals(disk).is_empty());
    disk.remove_dir_all(Path::new(JOURNALS)).expect("removes");
    assert_eq!(entries(&bench.open().read()).len(), 1);
}

#[test]
fn a_journal_that_was_cut_shorter_is_refused_whichever_it_is() {
    let bench = Bench::new(3);
    killed_after(&bench, 60, 9000);
    let disk = &*bench.simulation.platform.disk;
    let paths = journals(disk);
    let saved = contents(disk, &paths);
    for (path, bytes) in &saved {
        let whole = bytes.len() as u64;
        for kept in [0, 1, 4096, whole / 2, whole - 4096, whole - 1] {
            let file = disk.open(path, Access::Buffered).expect("opens");
            file.set_len(kept).expect("cuts");
            let refused = bench.try_open().err();
            let is_named = matches!(
                &refused,
                Some(StorageError::Corrupt(
                    Corruption::JournalTooShort { path: named, .. }
                        | Corruption::JournalHeader { path: named }
                )) if named == path
            );
            assert!(is_named, "{kept} of {whole}: {refused:?}");
            restore(disk, &saved);
        }
    }
    assert_eq!(entries(&bench.open().read()).len(), 60);
}

#[test]
fn a_zeroed_tail_is_noticed_in_every_journal_but_the_last() {
    let bench = Bench::new(4);
    killed_after(&bench, 60, 9000);
    let disk = &*bench.simulation.platform.disk;
    let paths = journals(disk);
    let saved = contents(disk, &paths);
    let (_, earlier) = paths.split_last().expect("journals");
    for path in earlier {
        let file = disk.open(path, Access::Buffered).expect("opens");
        let bytes = file.len().expect("length");
        let (from, to) = (bytes / 2, bytes - 4096);
        file.write_all_at(&vec![0; (to - from) as usize], from).expect("writes");
        let refused = bench.try_open().err();
        let is_journal = matches!(refused, Some(StorageError::Corrupt(Corruption::Journal { .. })));
        assert!(is_journal, "{refused:?}");
        restore(disk, &saved);
    }
}

#[test]
fn a_journal_without_its_data_file_is_refused_and_stays() {
    let bench = Bench::new(5);
    killed_after(&bench, 5, 100);
    let disk = &*bench.simulation.platform.disk;
    let data = contents(disk, &[DATA.into()]);
    disk.remove_file(Path::new(DATA)).expect("removes");
    assert!(matches!(bench.try_open().err(), Some(StorageError::DataFileMissing { .. })));
    assert!(!disk.exists(Path::new(DATA)).expect("asks"));
    restore(disk, &data);
    assert_eq!(entries(&bench.open().read()).len(), 5);
}

#[test]
fn two_environments_cannot_share_a_journal_directory() {
    let mut bench = Bench::new(6);
    bench.options.journals_directory = Some("/journals".into());
    let options = EnvironmentOptions { directory: "/other".into(), ..bench.options.clone() };
    let platform = &bench.simulation.platform;
    let first = bench.open();
    write(&first, 1, 100);
    let locked = Environment::open(platform, options.clone()).err();
    assert!(matches!(locked, Some(StorageError::Locked { .. })), "{locked:?}");
    drop(first);
    let refused = Environment::open(platform, options.clone()).err();
    assert!(matches!(refused, Some(StorageError::DataFileMissing { .. })), "{refused:?}");
    let own = EnvironmentOptions { journals_directory: None, ..options.clone() };
    drop(Environment::open(platform, own).expect("opens with a separate journal"));
    let refused = Environment::open(platform, options).err();
    assert!(matches!(refused, Some(StorageError::JournalOfAnother { .. })), "{refused:?}");
    assert_eq!(entries(&bench.open().read()).len(), 1);
}

#[test]
fn an_older_data_file_under_newer_journals_is_refused() {
    let bench = Bench::new(7);
    let environment = bench.open();
    write(&environment, 1, 100);
    environment.close().expect("closes");
    drop(environment);
    let disk = &*bench.simulation.platform.disk;
    let older = contents(disk, &[DATA.into()]);
    let environment = bench.open();
    for key in 0..60 {
        write(&environment, key, 9000);
    }
    environment.flush().expect("flushes");
    environment.flush().expect("flushes");
    write(&environment, 61, 100);
    drop(environment);
    restore(disk, &older);
    let refused = bench.try_open().err();
    assert!(
        matches!(refused, Some(StorageError::Corrupt(Corruption::Journal { .. }))),
        "{refused:?}"
    );
}

pub(super) fn kept(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    bench.options.history = History::Kept;
    bench
}

pub(super) fn point(environment: &Environment) -> HistoryPoint {
    environment.point_of(&environment.read()).expect("reads").expect("has a history")
}

#[test]
fn an_environment_vouches_for_its_past_and_an_older_copy_of_it_for_less() {
    let bench = kept(8);
    let disk = &*bench.simulation.platform.disk;
    let environment = bench.open();
    write(&environment, 1, 100);
    let first = point(&environment);
    environment.close().expect("closes");
    drop(environment);
    let copy = contents(disk, &[DATA.into()]);
    let environment = bench.open();
    write(&environment, 2, 100);
    let second = point(&environment);
    assert_ne!(first.incarnation, second.incarnation);
    for point in [first, second] {
        assert_eq!(environment.vouches_for(&point).expect("reads"), Ok(()));
    }
    let ahead = HistoryPoint { transaction: second.transaction + 1, ..second };
    assert_eq!(environment.vouches_for(&ahead).expect("reads"), Err(HistoryMismatch::Ahead));
    environment.close().expect("closes");
    drop(environment);

    restore(disk, &copy);
    let environment = bench.open();
    assert_eq!(environment.vouches_for(&first).expect("reads"), Ok(()));
    // Even when it has been written to for longer than the lost one.
    for key in 0..9 {
        let unknown = Err(HistoryMismatch::OtherIncarnation);
        assert_eq!(environment.vouches_for(&second).expect("reads"), unknown);
        write(&environment, key, 100);
    }
    let past = HistoryPoint { transaction: first.transaction + 5, ..first };
    assert_eq!(environment.vouches_for(&past).expect("reads"), Err(HistoryMismatch::Ahead));
    let stranger = HistoryPoint { environment: 7, ..first };
    let other = Err(HistoryMismatch::OtherEnvironment);
    assert_eq!(environment.vouches_for(&stranger).expect("reads"), other);
}

#[test]
fn points_read_back_as_written() {
    let point = HistoryPoint { environment: 1 << 100, incarnation: 2, transaction: 3 };
    assert_eq!(HistoryPoint::from_bytes(&point.to_bytes()), Some(point));
    assert_eq!(HistoryPoint::from_bytes(&point.to_bytes()[1..]), None);
}

#[test]
fn a_compacted_environment_keeps_its_identity_and_its_history() {
    let bench = kept(9);
    let platform = &bench.simulation.platform;
    let environment = bench.open();
    for key in 0..40 {
        write(&environment, key, 3000);
    }
    let before = point(&environment);
    // As after a kill: the old journals are there when the copy takes its place.
    drop(environment);
    let observer = &mut |_: &crate::CompactProgress| std::ops::ControlFlow::Continue(());
    crate::compact_in_place(platform, &bench.options, &[], observer).expect("compacts");
    let id = environment_id_in(platform, Path::new("/db")).expect("reads");
    assert_eq!(id, Some(before.environment));
    let environment = bench.open();
    assert_eq!(environment.vouches_for(&before).expect("reads"), Ok(()));
    write(&environment, 99, 10);
    assert_eq!(environment.vouches_for(&before).expect("reads"), Ok(()));
    assert_eq!(entries(&environment.read()).len(), 41);
    drop(environment);
    assert_eq!(entries(&bench.open().read()).len(), 41);
}

#[test]
fn a_salvaged_environment_begins_a_new_history() {
    let bench = kept(10);
    let platform = &bench.simulation.platform;
    let environment = bench.open();
    for key in 0..40 {
        write(&environment, key, 100);
    }
    let before = point(&environment);
    drop(environment);
    let salvage = Salvage::open(platform, &bench.options, Path::new("/new")).expect("opens");
    salvage.copy_trees(&[]).expect("copies");
    salvage.publish().expect("appears");
    let options = EnvironmentOptions { directory: "/new".into(), ..bench.options.clone() };
    let environment = Environment::open(platform, options).expect("opens");
    assert_eq!(entries(&environment.read()).len(), 40);
    assert_eq!(environment.point_of(&environment.read()).expect("reads"), None);
    // Its transactions are numbered from the beginning, unlike those of the old one.
    write(&environment, 99, 10);
    let after = point(&environment);
    assert!(after.transaction < before.transaction, "{after:?} {before:?}");
    assert_eq!(environment.vouches_for(&after).expect("reads"), Ok(()));
    let other = Err(HistoryMismatch::OtherEnvironment);
    assert_eq!(environment.vouches_for(&before).expect("reads"), other);
}

#[derive(Default)]
struct Witness {
    refuses: AtomicBool,
    seen: Mutex<Vec<HistoryPoint>>,
}

const ABOVE: HistoryPoint = HistoryPoint { environment: 5, incarnation: 6, transaction: 7 };

impl IncarnationWitness for Witness {
    fn above(&self, _before: Option<HistoryPoint>) -> Result<Option<HistoryPoint>, StorageError> {
        Ok(Some(ABOVE))
    }

    fn began(&self, point: HistoryPoint) -> Result<(), StorageError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(StorageError::Stopped);
        }
        self.seen.lock().expect("lock").push(point);
        Ok(())
    }
}

#[test]
fn nothing_is_written_before_the_environment_above_knows_the_incarnation() {
    let mut bench = Bench::new(10);
    let witness = Arc::new(Witness::default());
    let above: Arc<dyn IncarnationWitness> = witness.clone();
    bench.options.history = History::Witnessed(above);
    witness.refuses.store(true, Ordering::Relaxed);
    let environment = bench.open();
    assert!(matches!(environment.write().err(), Some(StorageError::Unwitnessed { .. })));
    assert!(matches!(environment.write().err(), Some(StorageError::Unwitnessed { .. })));
    witness.refuses.store(false, Ordering::Relaxed);
    write(&environment, 1, 10);
    write(&environment, 2, 10);
    let seen = witness.seen.lock().expect("lock").clone();
    let [began] = seen[..] else { panic!("{seen:?}") };
    assert_eq!(began.transaction, 1, "one transaction, although it was tried three times");
    assert_eq!(environment.vouches_for(&began).expect("reads"), Ok(()));
    assert_eq!(environment.point_above().expect("reads"), Some(ABOVE));
}
