//! Tests of each guarantee of the simulated disk, and of the whole against a naive model of what
//! may survive.

use std::{collections::BTreeSet, io::ErrorKind, path::Path, sync::Arc};

use crate::{
    Platform, conformance,
    disk::{Access, AlignedBuffer, Disk, File, SECTOR_BYTES},
    simulated::{
        FaultKind, FaultSpan, OperationFilter, OperationKind, Random, SimulatedDisk, Survival,
        is_power_lost,
    },
};

const POLICIES: [Survival; 5] = [
    Survival::Nothing,
    Survival::Everything,
    Survival::Prefix,
    Survival::RandomSubset,
    Survival::Random,
];

/// A disk with a directory `d` and, in it, the durable, empty file `d/a`.
fn disk_with_file(seed: u64, access: Access) -> (SimulatedDisk, Arc<dyn File>) {
    let disk = SimulatedDisk::new(seed);
    disk.create_dir_all(Path::new("d")).unwrap();
    let file = disk.create(path("d/a"), access).unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    (disk, file)
}

fn path(path: &str) -> &Path {
    Path::new(path)
}

fn sectors(fill: u8, count: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(count * SECTOR_BYTES);
    buffer.fill(fill);
    buffer
}

#[test]
fn the_simulated_disk_behaves_like_a_disk() {
    conformance::check(&SimulatedDisk::new(1), path("/base"));
    let limited = SimulatedDisk::new(1);
    limited.space_limit(Some(1 << 30));
    conformance::check(&limited, path("base"));
}

#[test]
fn buffered_writes_are_safe_after_a_sync_and_not_before() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(b"synced", 0).unwrap();
    assert_eq!(disk.durable_bytes(path("d/a")).unwrap(), b"");
    file.sync_data().unwrap();
    file.write_all_at(b"UNSYNCED", 3).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"synUNSYNCED");
    assert_eq!(disk.durable_bytes(path("d/a")).unwrap(), b"synced");
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"synced");
}

#[test]
fn everything_survives_when_only_the_process_dies() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(&[1; 2000], 0).unwrap();
    file.set_len(1000).unwrap();
    file.write_all_at(&[2; 10], 1500).unwrap();
    disk.rename(path("d/a"), path("d/b")).unwrap();
    let before = disk.file_bytes(path("d/b")).unwrap();
    disk.power_cut(Survival::Everything).unwrap();
    assert_eq!(disk.file_bytes(path("d/b")).unwrap(), before);
    assert_eq!(disk.list(path("d")).unwrap(), ["b"]);
}

#[test]
fn direct_writes_are_safe_when_they_return() {
    for policy in POLICIES {
        for seed in 0..20 {
            let (disk, file) = disk_with_file(seed, Access::DirectSync);
            let buffered = disk.open(path("d/a"), Access::Buffered).unwrap();
            buffered.write_all_at(&[7; 3 * SECTOR_BYTES], 0).unwrap();
            buffered.set_len(100).unwrap();
            file.write_all_at(&sectors(1, 1), SECTOR_BYTES as u64).unwrap();
            buffered.set_len(2 * SECTOR_BYTES as u64 + 10).unwrap();
            disk.power_cut(policy).unwrap();
            let bytes = disk.file_bytes(path("d/a")).unwrap();
            let written = &bytes[SECTOR_BYTES..2 * SECTOR_BYTES];
            assert!(written.iter().all(|byte| *byte == 1), "{policy:?} {seed}");
            assert!(bytes[100..SECTOR_BYTES].iter().all(|byte| *byte == 0), "{policy:?} {seed}");
        }
    }
}

#[test]
fn a_power_cut_in_the_middle_of_a_direct_write_tears_it_at_sectors() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let (disk, file) = disk_with_file(seed, Access::DirectSync);
        file.write_all_at(&sectors(1, 2), 0).unwrap();
        disk.cut_power_at_operation(1, Survival::Random);
        let error = file.write_all_at(&sectors(2, 1), SECTOR_BYTES as u64).unwrap_err();
        assert!(is_power_lost(&error) && disk.is_power_lost());
        disk.restart().unwrap();
        let bytes = disk.file_bytes(path("d/a")).unwrap();
        assert!(bytes[..SECTOR_BYTES].iter().all(|byte| *byte == 1), "outside of the write");
        let torn: Vec<&[u8]> = bytes[SECTOR_BYTES..].chunks(512).collect();
        assert!(torn.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        outcomes.insert(torn.iter().filter(|sector| sector[0] == 2).count());
    }
    assert!(outcomes.contains(&0) && outcomes.contains(&8) && outcomes.len() > 5, "{outcomes:?}");
}

#[test]
fn a_torn_write_tears_where_the_sectors_of_the_file_are() {
    let mut torn = 0;
    for seed in 0..50 {
        let (disk, file) = disk_with_file(seed, Access::Buffered);
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(&[2; 3000], 200).unwrap();
        disk.power_cut(Survival::RandomSubset).unwrap();
        let bytes = disk.file_bytes(path("d/a")).unwrap();
        let changes: Vec<usize> = (1..4096).filter(|at| bytes[at - 1] != bytes[*at]).collect();
        torn += u32::from(changes.len() > 2);
        let borders = |at: &usize| at.is_multiple_of(512) || *at == 200 || *at == 3200;
        assert!(changes.iter().all(borders), "seed {seed}: {changes:?}");
    }
    assert!(torn > 5, "{torn}");
}

#[test]
fn a_prefix_is_in_the_order_of_issue_over_all_files() {
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let (disk, first) = disk_with_file(seed, Access::Buffered);
        let second = disk.create(path("d/b"), Access::Buffered).unwrap();
        disk.sync_dir(path("d")).unwrap();
        for position in 0..10 {
            let file = if position % 2 == 0 { &first } else { &second };
            file.write_all_at(b"x", position / 2).unwrap();
        }
        disk.power_cut(Survival::Prefix).unwrap();
        let len = |name| disk.file_bytes(path(name)).unwrap().len();
        let (first, second) = (len("d/a"), len("d/b"));
        assert!(first == second || first == second + 1, "seed {seed}: {first} {second}");
        lengths.insert(first + second);
    }
    assert!(lengths.len() > 8, "{lengths:?}");
}

#[test]
fn names_survive_in_the_order_in_which_their_directory_got_them() {
    let mut counts = BTreeSet::new();
    for seed in 0..50 {
        let (disk, _) = disk_with_file(seed, Access::Buffered);
        for name in ["d/b", "d/c", "d/d"] {
            disk.create(path(name), Access::Buffered).unwrap();
        }
        disk.power_cut(Survival::RandomSubset).unwrap();
        let names = disk.list(path("d")).unwrap();
        assert_eq!(names, ["a", "b", "c", "d"][..names.len()], "seed {seed}");
        counts.insert(names.len());
    }
    assert!(counts.len() > 2, "{counts:?}");
}

#[test]
fn names_are_safe_after_the_directory_is_synced_and_not_before() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(b"old", 0).unwrap();
    file.sync_data().unwrap();
    let new = disk.create(path("d/new"), Access::Buffered).unwrap();
    new.write_all_at(b"new", 0).unwrap();
    new.sync_data().unwrap();
    disk.rename(path("d/new"), path("d/a")).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"new");
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"old");
    assert_eq!(disk.list(path("d")).unwrap(), ["a"]);

    disk.remove_file(path("d/a")).unwrap();
    assert!(!disk.exists(path("d/a")).unwrap());
    disk.power_cut(Survival::Nothing).unwrap();
    assert!(disk.exists(path("d/a")).unwrap());
    disk.remove_file(path("d/a")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert!(!disk.exists(path("d/a")).unwrap());
}

#[test]
fn a_renamed_file_without_its_sync_may_be_empty() {
    let (disk, _) = disk_with_file(1, Access::Buffered);
    let new = disk.create(path("d/new"), Access::Buffered).unwrap();
    new.write_all_at(b"never synced", 0).unwrap();
    disk.rename(path("d/new"), path("d/a")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"");
}

#[test]
fn a_rename_across_directories_needs_both_synced() {
    for (synced, survives) in
        [(&["d"][..], false), (&["e"], false), (&["d", "e"], true), (&["e", "d"], true)]
    {
        let (disk, _) = disk_with_file(1, Access::Buffered);
        disk.create_dir_all(path("e")).unwrap();
        disk.rename(path("d/a"), path("e/a")).unwrap();
        for directory in synced {
            disk.sync_dir(path(directory)).unwrap();
        }
        disk.power_cut(Survival::Nothing).unwrap();
        assert_eq!(disk.exists(path("e/a")).unwrap(), survives, "{synced:?}");
        assert_eq!(disk.exists(path("d/a")).unwrap(), !survives, "{synced:?}");
    }
}

#[test]
fn a_reused_name_takes_the_rename_before_it_along() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    disk.create_dir_all(path("e")).unwrap();
    file.write_all_at(b"moved", 0).unwrap();
    file.sync_data().unwrap();
    disk.rename(path("d/a"), path("e/a")).unwrap();
    disk.create(path("d/a"), Access::Buffered).unwrap();
    disk.sync_dir(path("d")).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.read_file(path("d/a")).unwrap(), b"");
    assert_eq!(disk.read_file(path("e/a")).unwrap(), b"moved", "and is not lost");
}

#[test]
fn an_unsynced_rename_is_done_or_not_done() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..50 {
        let (disk, _) = disk_with_file(seed, Access::Buffered);
        disk.create_dir_all(path("e")).unwrap();
        disk.rename(path("d/a"), path("e/a")).unwrap();
        disk.power_cut(Survival::Random).unwrap();
        let places = (disk.exists(path("d/a")).unwrap(), disk.exists(path("e/a")).unwrap());
        assert!(places.0 != places.1, "seed {seed}: {places:?}");
        outcomes.insert(places);
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn a_renamed_directory_takes_along_what_is_in_it() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    disk.rename(path("d"), path("e")).unwrap();
    file.write_all_at(b"safe", 0).unwrap();
    file.sync_data().unwrap();
    disk.create(path("e/b"), Access::Buffered).unwrap();
    disk.sync_dir(path("e")).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.list(path("/")).unwrap(), ["d"]);
    assert_eq!(disk.list(path("d")).unwrap(), ["a", "b"]);
    assert_eq!(disk.read_file(path("d/a")).unwrap(), b"safe");
}

#[test]
fn a_removed_tree_may_survive_in_part_until_its_parent_is_synced() {
    let mut left = BTreeSet::new();
    for seed in 0..100 {
        let (disk, _) = disk_with_file(seed, Access::Buffered);
        disk.create_dir_all(path("d/inner")).unwrap();
        disk.create(path("d/inner/unsynced"), Access::Buffered).unwrap();
        disk.remove_dir_all(path("d")).unwrap();
        assert!(!disk.exists(path("d")).unwrap());
        disk.power_cut(Survival::Random).unwrap();
        left.insert(disk.list(path("d")).ok());
        disk.remove_dir_all(path("d")).unwrap();
        disk.sync_dir(path("")).unwrap();
        disk.create_dir_all(path("d")).unwrap();
        disk.power_cut(Survival::Random).unwrap();
        assert_eq!(disk.list(path("d")).unwrap(), Vec::<String>::new());
    }
    assert!(left.contains(&None) && left.len() >= 3, "{left:?}");
}

#[test]
fn created_directories_are_safe_at_once() {
    let disk = SimulatedDisk::new(1);
    disk.create_dir_all(path("a/b/c")).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert!(disk.exists(path("a/b/c")).unwrap());
    disk.cut_power_at_operation(2, Survival::Nothing);
    assert!(disk.create_dir_all(path("a/d/e")).is_err());
    disk.restart().unwrap();
    assert_eq!(disk.list(path("a")).unwrap(), ["b", "d"]);
    assert!(disk.list(path("a/d")).unwrap().is_empty());
}

#[test]
fn after_a_power_cut_old_handles_are_dead_and_locks_are_free() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(b"seen", 0).unwrap();
    let mapping = file.map(4096).unwrap();
    let held = disk.lock_dir(path("d")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    disk.cut_power_at_operation(2, Survival::Nothing);
    file.sync_data().unwrap();
    assert!(is_power_lost(&file.write_all_at(b"SEEN", 0).unwrap_err()));
    let errors = [
        file.len().err(),
        file.sync_data().err(),
        file.read_exact_at(&mut [0], 0).err(),
        file.map(1).err(),
        disk.open(path("d/a"), Access::Buffered).err(),
        disk.exists(path("d/a")).err(),
        disk.create_dir_all(path("d")).err(),
        disk.lock_dir(path("d")).err(),
    ];
    assert!(errors.iter().flatten().filter(|error| is_power_lost(*error)).count() == errors.len());

    disk.restart().unwrap();
    assert!(is_power_lost(&file.len().unwrap_err()), "handles stay dead after the restart");
    let again = disk.lock_dir(path("d")).unwrap();
    drop(held);
    assert_eq!(disk.lock_dir(path("d")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(again);
    let file = disk.open(path("d/a"), Access::Buffered).unwrap();
    file.write_all_at(b"next", 0).unwrap();
    assert_eq!(disk.read_file(path("d/a")).unwrap(), b"next");
    // SAFETY: inside the file as it was, and nothing writes to that content any more.
    let seen = unsafe { mapping.slice(0, 4) };
    assert_eq!(seen, b"SEEN", "an earlier mapping still shows the old content");
}

#[test]
fn a_mapping_of_a_synced_file_does_not_show_what_is_written_after_the_power_cut() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(b"before", 0).unwrap();
    file.sync_data().unwrap();
    let mapping = file.map(4096).unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    disk.open(path("d/a"), Access::Buffered).unwrap().write_all_at(b"after!", 0).unwrap();
    // SAFETY: inside the file as it was, and nothing writes to that content any more.
    assert_eq!(unsafe { mapping.slice(0, 6) }, b"before");
}

#[test]
fn a_power_cut_that_was_not_reached_happens_at_the_restart() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    disk.cut_power_at_operation(100, Survival::Nothing);
    file.write_all_at(b"lost", 0).unwrap();
    disk.restart().unwrap();
    assert!(disk.file_bytes(path("d/a")).unwrap().is_empty());
    disk.cut_power_at_operation(100, Survival::Nothing);
    disk.power_cut(Survival::Nothing).unwrap();
    for _ in 0..200 {
        disk.write_file_atomically(path("d/b"), b"no cut is left over").unwrap();
    }
}

#[test]
fn an_atomically_written_file_is_old_or_new_after_any_power_cut() {
    let steps = 5;
    let mut outcomes = BTreeSet::new();
    for step in 1..=steps {
        for seed in 0..40 {
            let disk = SimulatedDisk::new(seed);
            disk.write_file_atomically(path("a"), b"old").unwrap();
            disk.cut_power_at_operation(step, Survival::Random);
            assert!(disk.write_file_atomically(path("a"), b"newer").is_err());
            disk.restart().unwrap();
            let content = disk.read_file(path("a")).unwrap();
            assert!(content == b"old" || content == b"newer", "step {step} seed {seed}");
            outcomes.insert((step, content));
            disk.write_file_atomically(path("a"), b"last").unwrap();
            disk.power_cut(Survival::Nothing).unwrap();
            assert_eq!(disk.read_file(path("a")).unwrap(), b"last");
        }
    }
    assert!(outcomes.contains(&(4, b"newer".to_vec())) && outcomes.contains(&(5, b"old".to_vec())));
}

#[test]
fn a_failed_sync_forgets_and_later_syncs_do_not_help() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(b"forgotten", 0).unwrap();
    disk.fail_operation(
        1,
        OperationFilter::Only(OperationKind::Sync),
        FaultKind::InputOutput,
        FaultSpan::Once,
    );
    assert_ne!(file.sync_data().unwrap_err().kind(), ErrorKind::StorageFull);
    file.sync_data().unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"forgotten");
    disk.power_cut(Survival::Everything).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), b"");
}

#[test]
fn a_failed_write_leaves_nothing_a_part_or_all() {
    let mut lengths = BTreeSet::new();
    for seed in 0..60 {
        let (disk, file) = disk_with_file(seed, Access::Buffered);
        let writes = OperationFilter::Only(OperationKind::Write);
        disk.fail_operation(2, writes, FaultKind::StorageFull, FaultSpan::Once);
        file.write_all_at(b"first", 0).unwrap();
        let error = file.write_all_at(&[1; 100], 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        lengths.insert(file.len().unwrap() - 5);
        file.write_all_at(b"third", 0).unwrap();
    }
    assert!(lengths.contains(&0) && lengths.contains(&100) && lengths.len() > 5, "{lengths:?}");
}

#[test]
fn faults_strike_the_chosen_kind_until_they_are_cleared() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    let mapping = file.map(4096).unwrap();
    file.allocate(4096).unwrap();
    let cases: [(OperationKind, &dyn Fn() -> std::io::Result<()>); 9] = [
        (OperationKind::Open, &|| disk.open(path("d/a"), Access::Buffered).map(|_| ())),
        (OperationKind::Read, &|| file.read_exact_at(&mut [], 0)),
        (OperationKind::Load, &|| mapping.load(0, 1)),
        (OperationKind::Write, &|| file.write_all_at(b"x", 0)),
        (OperationKind::Sync, &|| disk.sync_dir(path("d"))),
        (OperationKind::Allocate, &|| file.allocate(10)),
        (OperationKind::Create, &|| disk.create(path("d/n"), Access::Buffered).map(|_| ())),
        (OperationKind::Rename, &|| disk.rename(path("d/n"), path("d/m"))),
        (OperationKind::Remove, &|| disk.remove_file(path("d/m"))),
    ];
    for (struck, _) in &cases {
        let filter = OperationFilter::Only(*struck);
        disk.fail_operation(1, filter, FaultKind::InputOutput, FaultSpan::UntilCleared);
        for (kind, run) in &cases {
            assert_eq!(run().is_ok(), kind != struck, "{struck:?} {kind:?}");
            if kind == struck {
                assert!(run().is_err(), "{struck:?} fails again");
                disk.clear_faults();
                run().unwrap();
                disk.fail_operation(1, filter, FaultKind::InputOutput, FaultSpan::UntilCleared);
            }
        }
        disk.clear_faults();
    }
}

#[test]
fn space_is_limited_and_freed_again() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    let left = || disk.space(path("d")).unwrap().free_bytes;
    disk.space_limit(Some(10 * 4096));
    file.set_len(1 << 30).unwrap();
    assert_eq!(left(), 10 * 4096, "holes take no space");
    file.write_all_at(&[1; 4097], 4096).unwrap();
    assert_eq!(left(), 8 * 4096);
    let other = disk.create(path("d/b"), Access::Buffered).unwrap();
    assert_eq!(other.allocate(9 * 4096).unwrap_err().kind(), ErrorKind::StorageFull);
    other.allocate(8 * 4096).unwrap();
    other.write_all_at(&[1; 8 * 4096], 0).unwrap();
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(b"x", 4096).unwrap();
    disk.remove_file(path("d/b")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    assert_eq!(left(), 0, "the removed file is open");
    drop(other);
    assert_eq!(left(), 8 * 4096);
    file.set_len(4096).unwrap();
    assert_eq!(left(), 10 * 4096);
    file.sync_data().unwrap();
    file.write_all_at(&[1; 4096], 4096).unwrap();
    assert_eq!(left(), 9 * 4096);
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(left(), 10 * 4096, "what the cut took away takes no space");
}

#[test]
fn a_flipped_bit_is_there_before_and_after_a_power_cut() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    file.write_all_at(&[0; 10], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[0; 2], 4).unwrap();
    disk.flip_bit(path("d/a"), 5, 3).unwrap();
    let expected = [0, 0, 0, 0, 0, 8, 0, 0, 0, 0];
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), expected);
    file.sync_data().unwrap();
    disk.power_cut(Survival::Nothing).unwrap();
    assert_eq!(disk.file_bytes(path("d/a")).unwrap(), expected);
    assert_eq!(disk.flip_bit(path("d/a"), 10, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn the_log_says_what_was_done_and_how_it_ended() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    disk.cut_power_at_operation(2, Survival::Random);
    file.write_all_at(b"12345", 10).unwrap();
    assert!(file.sync_data().is_err());
    let lines: Vec<String> = disk.log().iter().map(ToString::to_string).collect();
    let tail = ["     4 write_all_at d/a at 10 of 5 bytes", "     5 sync_data d/a POWER LOST"];
    assert_eq!(lines[3..], tail);
}

#[test]
fn an_unnamed_open_file_stays_usable_through_other_removals() {
    let (disk, file) = disk_with_file(1, Access::Buffered);
    disk.space_limit(Some(1 << 20));
    file.write_all_at(&[1; 4096], 0).unwrap();
    disk.remove_file(path("d/a")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    disk.sync_dir(path("d")).unwrap();
    assert_eq!(disk.space(path("d")).unwrap().free_bytes, (1 << 20) - 4096);
    file.sync_data().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 4095).unwrap();
    assert_eq!(byte, [1]);
}

#[test]
fn the_same_seed_leaves_the_same_bytes() {
    let run = |seed| {
        let simulation = Platform::simulated(seed);
        let disk = &simulation.disk;
        for number in 0..5 {
            let name = number.to_string();
            let file = disk.create(path(&name), Access::Buffered).unwrap();
            let mut bytes = vec![0; 5000];
            simulation.platform.entropy.fill(&mut bytes);
            file.write_all_at(&bytes, 0).unwrap();
        }
        disk.power_cut(Survival::RandomSubset).unwrap();
        let names = disk.list(path("")).unwrap();
        names.into_iter().map(|name| disk.read_file(path(&name)).unwrap()).collect::<Vec<_>>()
    };
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed));
    }
    assert!((0..10).any(|seed| run(seed) != run(seed + 10)));
}

/// What one 512-byte sector may hold after a power cut: a byte value stands for the whole sector.
struct Model {
    /// Per sector, the durable value followed by every unsynced value since.
    possible: Vec<Vec<u8>>,
    /// What processes see.
    seen: Vec<u8>,
}

const MODEL_SECTORS: u64 = 64;

impl Model {
    fn new() -> Self {
        let count = MODEL_SECTORS as usize;
        Self { possible: vec![vec![0]; count], seen: vec![0; count] }
    }

    fn write(&mut self, start: u64, count: u64, value: u8, durably: bool) {
        for sector in start as usize..(start + count) as usize {
            if durably {
                self.possible[sector].clear();
            }
            self.possible[sector].push(value);
            self.seen[sector] = value;
        }
    }

    fn sync(&mut self) {
        self.possible = self.seen.iter().map(|value| vec![*value]).collect();
    }

    /// Checks what survived, and continues from there.
    fn check_survivors(&mut self, bytes: &[u8], context: &str) {
        for (sector, chunk) in bytes.chunks(512).enumerate() {
            let value = chunk[0];
            assert!(chunk.iter().all(|byte| *byte == value), "{context}: sector {sector} is mixed");
            let possible = &self.possible[sector];
            assert!(possible.contains(&value), "{context}: sector {sector}: {value} {possible:?}");
            self.seen[sector] = value;
        }
        self.sync();
    }
}

/// One round of random operations and a power cut.
fn round(disk: &SimulatedDisk, model: &mut Model, random: &mut Random, policy: Survival) {
    let buffered = disk.open(path("d/a"), Access::Buffered).unwrap();
    let direct = disk.open(path("d/a"), Access::DirectSync).unwrap();
    let operations = random.below(30) + 1;
    let cut_inside = random.coin();
    if cut_inside {
        disk.cut_power_at_operation(random.below(operations) + 1, policy);
    }
    for _ in 0..operations {
        let value = random.below(250) as u8 + 1;
        let outcome = match random.below(8) {
            0 => buffered.sync_data().map(|()| model.sync()),
            1..=2 => {
                let start = random.below(MODEL_SECTORS / 8) * 8;
                let outcome = direct.write_all_at(&sectors(value, 1), start * 512);
                model.write(start, 8, value, outcome.is_ok());
                outcome
            }
            _ => {
                let start = random.below(MODEL_SECTORS);
                let count = random.below(MODEL_SECTORS - start) + 1;
                model.write(start, count, value, false);
                buffered.write_all_at(&vec![value; 512 * count as usize], start * 512)
            }
        };
        if let Err(error) = outcome {
            assert!(is_power_lost(&error));
            return disk.restart().unwrap();
        }
    }
    let seen: Vec<u8> = model.seen.iter().flat_map(|value| [*value; 512]).collect();
    assert!(disk.read_file(path("d/a")).unwrap() == seen);
    disk.power_cut(policy).unwrap();
}

#[test]
fn what_survives_is_what_the_model_allows() {
    let mut lost = 0;
    for seed in 0..150 {
        let (disk, file) = disk_with_file(seed, Access::Buffered);
        file.allocate(MODEL_SECTORS * 512).unwrap();
        file.sync_data().unwrap();
        let mut model = Model::new();
        let mut random = Random::new(seed);
        for number in 0..8 {
            let policy = POLICIES[random.below(POLICIES.len() as u64) as usize];
            round(&disk, &mut model, &mut random, policy);
            let bytes = disk.file_bytes(path("d/a")).unwrap();
            lost += u32::from(bytes.chunks(512).zip(&model.seen).any(|(a, b)| a[0] != *b));
            model.check_survivors(&bytes, &format!("seed {seed} round {number} {policy:?}"));
            assert_eq!(bytes, disk.durable_bytes(path("d/a")).unwrap());
        }
    }
    assert!(lost > 300, "power cuts that lost nothing would prove nothing: {lost}");
}

/// Lengths and unaligned writes: every byte is one that was durable or written there since, and the
/// length one that the file had since the last sync.
#[test]
fn lengths_and_bytes_after_a_power_cut_come_from_the_time_since_the_last_sync() {
    for seed in 0..300 {
        let (disk, file) = disk_with_file(seed, Access::Buffered);
        let mut random = Random::new(seed);
        let mut lengths = BTreeSet::from([0]);
        let mut possible = vec![BTreeSet::from([0]); 4000];
        for _ in 0..random.below(20) {
            match random.below(5) {
                0 => file.set_len(random.below(4000)).unwrap(),
                1 => {
                    file.sync_data().unwrap();
                    let bytes = disk.durable_bytes(path("d/a")).unwrap();
                    assert!(bytes == disk.file_bytes(path("d/a")).unwrap());
                    lengths.clear();
                    possible = (0..4000)
                        .map(|at| BTreeSet::from([0, bytes.get(at).copied().unwrap_or(0)]))
                        .collect();
                }
                _ => {
                    let start = random.below(3000);
                    let value = random.below(255) as u8 + 1;
                    let bytes = vec![value; random.below(1000) as usize];
                    file.write_all_at(&bytes, start).unwrap();
                    for values in possible.iter_mut().skip(start as usize).take(bytes.len()) {
                        values.insert(value);
                    }
                    // A write, torn or not, leaves the file with a length at one of its sectors.
                    let end = start + bytes.len() as u64;
                    lengths.extend((start..end).map(|at| at.next_multiple_of(512).min(end)));
                }
            }
            lengths.insert(file.len().unwrap());
        }
        disk.power_cut(Survival::Random).unwrap();
        let bytes = disk.file_bytes(path("d/a")).unwrap();
        assert!(lengths.contains(&(bytes.len() as u64)), "seed {seed}: length {}", bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            assert!(possible[at].contains(byte), "seed {seed}: byte {at}");
        }
    }
}
