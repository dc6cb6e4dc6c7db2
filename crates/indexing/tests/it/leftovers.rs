//! Files of a deleted index whose deletion did not come to its end: no later index of the name answers with them, and
//! they do not stay.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{path::Path, sync::Arc, sync::mpsc};

use indexing::{IndexKind, IndexSet};
use platform::{
    Access, Platform,
    simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Simulation, Survival},
};

use crate::replacement::{DOCUMENTS, Stage, definition, entries_of, version_of, wait_for};

const INDEXES: &str = "/indexes";
/// More operations of the disk than a deletion takes.
const OPERATIONS_MAX: u64 = 60;

fn is_complete(set: &IndexSet, version: u64) -> bool {
    set.get("ReplacementOf/I").is_none()
        && set.get("I").is_some_and(|index| {
            version_of(&index) == Some(version) && entries_of(&index) == DOCUMENTS as u64
        })
}

fn directories(platform: &Platform) -> Vec<String> {
    platform.disk.list(INDEXES.as_ref()).unwrap()
}

fn cut_power_now(simulation: &Simulation) {
    simulation.disk.cut_power_at_operation(1, Survival::ALL[0]);
    assert!(simulation.platform.disk.remove_dir_all("/none".as_ref()).is_err());
}

/// An index that is complete, and perhaps the replacement that is being built.
fn stage_with_index(
    simulation: &Simulation,
    is_changed: bool,
) -> (Stage, Arc<IndexSet>, mpsc::Receiver<()>) {
    let mut stage = Stage::new();
    let (set, swaps) = stage.open(&simulation.platform);
    wait_for(&swaps, || is_complete(&set, 1));
    if is_changed {
        set.pause();
        stage.version = 2;
        stage.follow(&set);
        assert!(set.get("ReplacementOf/I").is_some());
    }
    (stage, set, swaps)
}

/// The index answers nothing that was deleted, and becomes complete.
fn expect_only(stage: &Stage, platform: &Platform, case: &str) {
    let (set, swaps) = stage.open(platform);
    let index = set.get("I").unwrap_or_else(|| panic!("{case}: {:?}", set.faulty()));
    let seen = version_of(&index);
    assert!(seen.is_none_or(|seen| seen == stage.version), "{case}: {seen:?} came back");
    assert!(set.get("ReplacementOf/I").is_none(), "{case}: nothing is replaced");
    wait_for(&swaps, || is_complete(&set, stage.version));
    set.close();
}

#[test]
fn an_index_whose_deletion_was_interrupted_does_not_come_back_when_it_is_defined_again() {
    for (operations, is_changed) in
        (0..OPERATIONS_MAX).flat_map(|operations| [(operations, false), (operations, true)])
    {
        let case = format!("{operations} operations, changed: {is_changed}");
        let simulation = Platform::simulated(operations + 1);
        let (mut stage, set, _swaps) = stage_with_index(&simulation, is_changed);
        stage.version = 0;
        match operations {
            // Only the record changed.
            0 => cut_power_now(&simulation),
            _ => {
                let survival = Survival::ALL[operations as usize % Survival::ALL.len()];
                simulation.disk.cut_power_at_operation(operations, survival);
                stage.follow(&set);
            }
        }
        set.close();
        drop(set);
        simulation.disk.restart().unwrap();

        let (set, _) = stage.open(&simulation.platform);
        assert!(set.all().is_empty() && set.faulty().is_empty());
        assert_eq!(directories(&simulation.platform), [""; 0], "{case}");
        // It is defined again, with another definition, and the power goes before it has indexed anything.
        set.pause();
        stage.version = 3;
        stage.follow(&set);
        cut_power_now(&simulation);
        set.close();
        drop(set);
        simulation.disk.restart().unwrap();
        expect_only(&stage, &simulation.platform, &case);
    }
}

#[test]
fn files_that_could_not_be_deleted_do_not_answer_for_a_new_index_of_the_name() {
    for is_changed in [false, true] {
        let simulation = Platform::simulated(1);
        let (mut stage, set, swaps) = stage_with_index(&simulation, is_changed);
        let renames = OperationFilter::Only(OperationKind::Rename);
        let span = FaultSpan::UntilCleared;
        simulation.disk.fail_operation(1, renames, FaultKind::InputOutput, span);
        stage.version = 0;
        stage.follow(&set);
        assert!(directories(&simulation.platform).contains(&"i".to_owned()), "it failed");
        // It cannot be defined while they cannot be removed.
        stage.version = 3;
        let kind = IndexKind::Static(Box::new(definition(stage.version)));
        assert!(set.check(&kind).is_err());
        // A record that was changed nevertheless.
        stage.follow(&set);
        assert!(set.get("I").is_none() && set.faulty_named("I").is_some());
        simulation.disk.clear_faults();
        set.resume();
        assert!(set.reopen_faulty("I").unwrap().is_some());
        assert!(set.get("ReplacementOf/I").is_none());
        wait_for(&swaps, || is_complete(&set, stage.version));
        // A definition that is recorded keeps its files.
        set.check(&kind).unwrap();
        set.check(&IndexKind::Static(Box::new(definition(4)))).unwrap();
        set.close();
        expect_only(&stage, &simulation.platform, "afterwards");
    }
}

#[test]
fn what_is_not_an_index_of_the_database_stays() {
    let simulation = Platform::simulated(1);
    let (mut stage, set, _swaps) = stage_with_index(&simulation, false);
    set.close();
    let disk = &simulation.platform.disk;
    let write = |path: &str| {
        let path = Path::new(path);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create(path, Access::Buffered).unwrap().write_all_at(b"own", 0).unwrap();
    };
    // A file, files of somebody else, an index that was moved away, and a database.
    write("/indexes/notes");
    write("/indexes/kept/readme");
    disk.rename("/indexes/i".as_ref(), "/indexes/moved".as_ref()).unwrap();
    let options = storage::EnvironmentOptions::new("/indexes/another");
    let another = storage::Environment::open(&simulation.platform, options).unwrap();
    let mut tx = another.write().unwrap();
    tx.tree_mut(&storage::TreeName::of(&[b"Theirs"])).unwrap().put(b"k", b"v").unwrap();
    tx.commit().unwrap();
    another.close().unwrap();
    // What interrupted creations and deletions leave.
    write("/indexes/begun/corvus.data.new");
    write("/indexes/x~2~gone/corvus.data");
    stage.version = 0;
    let (set, _) = stage.open(&simulation.platform);
    set.close();
    assert_eq!(directories(&simulation.platform), ["another", "kept", "moved", "notes"]);
    assert_eq!(disk.list("/indexes/kept".as_ref()).unwrap(), ["readme"]);
}

#[test]
fn an_index_that_was_deleted_and_defined_again_unseen_does_not_answer_for_the_new_one() {
    for (is_changed, is_open) in [(false, false), (true, false), (false, true), (true, true)] {
        let case = format!("changed: {is_changed}, open: {is_open}");
        let simulation = Platform::simulated(1);
        let (mut stage, set, swaps) = stage_with_index(&simulation, is_changed);
        (stage.version, stage.number) = (3, 2);
        if is_open {
            set.pause();
            stage.follow(&set);
            assert!(set.get("ReplacementOf/I").is_none(), "{case}");
            set.resume();
            wait_for(&swaps, || is_complete(&set, 3));
        }
        set.close();
        expect_only(&stage, &simulation.platform, &case);
        // A definition that only changed is replaced side by side.
        let (set, swaps) = stage.open(&simulation.platform);
        set.pause();
        stage.version = 4;
        stage.follow(&set);
        assert_eq!(set.get("I").and_then(|index| version_of(&index)), Some(3), "{case}");
        set.resume();
        wait_for(&swaps, || is_complete(&set, 4));
        set.close();
    }
}
