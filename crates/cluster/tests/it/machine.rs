//! The machine as a whole: restarts, its log, its limits, a full disk, damage.

use std::sync::Arc;

use cluster::{Cluster, ClusterOptions};
use cluster_state::{
    COMMAND_BYTES_MAX, COMPARE_EXCHANGE_KEY_BYTES_MAX, ClusterError, Command,
    CompareExchangeCommand, FORMAT_VERSION, READABLE_VERSIONS,
};
use platform::{Platform, simulated::Survival};
use storage::{Environment, StorageError, Transaction, TreeName};

use crate::{Home, environment, put};

#[test]
fn reported_outcomes_survive_a_restart_and_indexes_go_on() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    let first = home.put("a", 0, r#"{"Object":1}"#);
    home.close();
    let home = Home::open(&platform);
    assert_eq!(home.listed(""), [("a".into(), first.index, r#"{"Object":1}"#.into())]);
    let second = home.put("a", first.index, r#"{"Object":2}"#);
    assert_eq!(second.index, first.index + 1);
    assert_eq!(home.cluster.store().read().last_index().unwrap(), second.index);
}

#[test]
fn commands_of_many_threads_are_each_done_once() {
    let home = Home::open(&Platform::memory());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let home = &home;
            scope.spawn(move || {
                for number in 0..50 {
                    assert!(home.put(&format!("{thread}/{number}"), 0, "{}").is_successful);
                }
            });
        }
    });
    let mut indexes: Vec<u64> = home.listed("").into_iter().map(|(_, index, _)| index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (1..=400).collect::<Vec<u64>>());
}

#[test]
fn a_command_that_is_alone_is_one_transaction() {
    let home = Home::open(&Platform::memory());
    for number in 0..10 {
        let before = home.environment.statistics().transaction;
        home.put(&number.to_string(), 0, "{}");
        assert_eq!(home.environment.statistics().transaction, before + 1);
    }
}

#[test]
fn the_log_does_not_grow_without_end() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    let mut index = 0;
    for _ in 0..3000 {
        index = home.put("a", index, "{}").index;
    }
    let entries = home.environment.read().tree(&TreeName::from("Cluster/Log")).unwrap().len();
    assert!(entries < 2100, "{entries} entries");
    home.close();
    let home = Home::open(&platform);
    assert!(home.put("a", index, "{}").is_successful, "it goes on after a truncated log");
}

#[test]
fn a_command_that_is_too_large_is_refused() {
    let home = Home::open(&Platform::memory());
    let (database, key) = (crate::DATABASE, "k".repeat(COMMAND_BYTES_MAX));
    let large = CompareExchangeCommand::Delete { database, key, expected: 0 };
    let refused = home.cluster.submit(&Command::CompareExchange(large), None);
    assert!(matches!(refused, Err(ClusterError::CommandTooLarge { .. })));
    for length in [COMPARE_EXCHANGE_KEY_BYTES_MAX, COMPARE_EXCHANGE_KEY_BYTES_MAX + 1, 5000] {
        let key = "k".repeat(length);
        let submitted = home.cluster.submit(&Command::CompareExchange(put(&key, 0, "{}")), None);
        assert_eq!(submitted.is_ok(), length == COMPARE_EXCHANGE_KEY_BYTES_MAX);
        assert!(home.cluster.store().read().compare_exchange(crate::DATABASE, &key).is_ok());
        assert_eq!(home.delete(&key, 0).is_successful, submitted.is_err(), "{length}");
    }
    assert!(home.put("c", 0, "{}").is_successful);
}

#[test]
fn a_full_disk_is_reported_and_recovers_once_there_is_space() {
    let simulation = Platform::simulated(1);
    let home = Home::open(&simulation.platform);
    home.put("a", 0, "{}");
    simulation.disk.space_limit(Some(0));
    let mut text = 0u64;
    let refused = loop {
        // Values of different bytes, so that the journal's compression does not help for long.
        text += 1;
        let json: String = (0..2000).map(|at| format!("{:x}", hash(text * 2000 + at))).collect();
        let command = Command::CompareExchange(put("b", 0, &format!(r#"{{"Object":"{json}"}}"#)));
        match home.cluster.submit_and_wait(&command) {
            Ok(_) => assert!(text < 10_000, "a disk without space takes everything"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ClusterError::Storage(_) | ClusterError::Unfinished { .. }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(home.cluster.catch_up()).expect("a node that is alone can be read");
    simulation.disk.space_limit(None);
    assert!(home.put("c", 0, "{}").is_successful);
    assert_eq!(home.listed("a").len(), 1);
}

#[test]
fn on_a_full_disk_the_state_is_read_and_commands_are_refused_until_there_is_space() {
    let simulation = Platform::simulated(2);
    let home = Home::open(&simulation.platform);
    home.put("a", 0, "{}");
    drop(home);
    simulation.disk.power_cut(Survival::Everything).expect("cuts");
    simulation.disk.space_limit(Some(0));
    let home = Home::open(&simulation.platform);
    assert_eq!(home.listed("a").len(), 1);
    let command = Command::CompareExchange(put("b", 0, "{}"));
    for _ in 0..2 {
        let refused = home.cluster.submit_and_wait(&command);
        let full = ClusterError::Storage(StorageError::DiskFull { path: "".into() });
        let refused = refused.expect_err("there is no space");
        assert_eq!(std::mem::discriminant(&refused), std::mem::discriminant(&full), "{refused}");
    }
    simulation.disk.space_limit(None);
    assert!(home.put("b", 0, "{}").is_successful);
    assert_eq!((home.listed("a").len(), home.listed("b").len()), (1, 1));
}

pub(crate) fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[test]
fn a_newer_format_is_refused() {
    let platform = Platform::memory();
    let environment = environment(&platform).unwrap();
    set_version(&environment, 9);
    let refused = Cluster::start(ClusterOptions::alone(environment, &platform));
    assert!(matches!(refused, Err(ClusterError::UnknownVersion { found: 9 })));
}

#[test]
fn an_older_format_is_read_and_raised() {
    for older in READABLE_VERSIONS {
        let platform = Platform::memory();
        let home = Home::open(&platform);
        home.put("a", 0, "{}");
        home.cluster.close();
        set_version(&home.environment, older);
        home.environment.close().unwrap();
        let home = Home::open(&platform);
        assert_eq!(home.listed("a").len(), 1);
        let tx = home.environment.read();
        let version = tx.tree(&TreeName::from("Cluster/Raft")).unwrap().get(b"Version").unwrap();
        assert_eq!(version, Some(&FORMAT_VERSION.to_le_bytes()[..]));
    }
}

fn set_version(environment: &Arc<Environment>, version: u32) {
    let mut tx = environment.write().unwrap();
    let mut tree = tx.tree_mut(&TreeName::from("Cluster/Raft")).unwrap();
    tree.put(b"Version", &version.to_le_bytes()).unwrap();
    tx.commit().unwrap();
}

#[test]
fn a_damaged_log_is_reported_at_the_start() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    home.put("a", 0, "{}");
    home.close();
    let environment = environment(&platform).unwrap();
    for (tree, key) in [("Cluster/Raft", &b"Vote"[..]), ("Cluster/Raft", b"LastApplied")] {
        let mut tx = environment.write().unwrap();
        tx.tree_mut(&TreeName::from(tree)).unwrap().put(key, b"xx").unwrap();
        tx.commit().unwrap();
    }
    let refused = Cluster::start(ClusterOptions::alone(environment, &platform));
    assert!(matches!(refused, Err(ClusterError::Corrupt { .. })), "{:?}", refused.err());
}

#[test]
fn a_closed_machine_takes_nothing() {
    let home = Home::open(&Platform::memory());
    home.cluster.close();
    let refused = home.cluster.submit(&Command::CompareExchange(put("a", 0, "{}")), None);
    assert!(matches!(refused, Err(ClusterError::Closed)));
}
