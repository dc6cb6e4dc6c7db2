//! Files of databases and of the server that are missing, swapped, or older than what depends on them.

use std::path::{Path, PathBuf};

use cluster_state::{ClusterError, Command, IdentityCommand, Outcome, RecordChange, RecordCommand};
use database::{AccessError, CatalogError, DeletedFiles, LoadError};
use model::DatabaseId;
use platform::{Access, Disk, Platform};
use storage::{EnvironmentOptions, HistoryMismatch, TreeName};

use crate::registry::{House, count, put};

const SYSTEM: &str = "/data/System";

fn start(platform: &Platform, names: &[&str]) -> House {
    House::on(platform.clone(), names, 1, Box::new(|_| Ok(())))
}

fn stop(house: House) {
    house.registry.close_all();
    house.catalog.cluster().close();
    house.catalog.environment().close().unwrap();
}

fn directory(name: &str) -> PathBuf {
    Path::new("/data/Databases").join(name)
}

/// The files of a directory, including its subdirectories.
fn copy_of(disk: &dyn Disk, directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for name in disk.list(directory).unwrap() {
        let path = directory.join(name);
        match disk.list(&path) {
            Ok(_) => files.append(&mut copy_of(disk, &path)),
            Err(_) => files.push((path.clone(), disk.read_file(&path).unwrap())),
        }
    }
    files
}

/// Puts files copied from `from` into the directory `to`, replacing what is there.
fn restore(disk: &dyn Disk, files: &[(PathBuf, Vec<u8>)], from: &Path, to: &Path) {
    disk.remove_dir_all(to).unwrap();
    for (path, bytes) in files {
        let path = to.join(path.strip_prefix(from).unwrap());
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create(&path, Access::Buffered).unwrap().write_all_at(bytes, 0).unwrap();
    }
}

fn load_error(house: &House, name: &str) -> String {
    match house.open(name) {
        Err(AccessError::Load(error)) => match &*error {
            LoadError::FilesMissing { .. } => "missing".to_owned(),
            LoadError::OtherFiles { mismatch, .. } => format!("{mismatch:?}"),
            other => panic!("{other}"),
        },
        Err(other) => panic!("{other}"),
        Ok(_) => "opened".to_owned(),
    }
}

fn next_identity(house: &House, name: &str) -> Result<i64, ClusterError> {
    let database = house.catalog.record(name).unwrap().topology_id;
    let names = vec!["users|".to_owned()];
    let command = Command::Identity(IdentityCommand::Next { database, names });
    match house.catalog.cluster().submit_and_wait(&command)?.outcome {
        Outcome::Identities(values) => Ok(values[0]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_files_are_not_created_again() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    stop(house);
    let files = copy_of(&*platform.disk, &directory("a"));
    platform.disk.remove_dir_all(&directory("a")).unwrap();
    let house = start(&platform, &[]);
    assert_eq!(load_error(&house, "a"), "missing");
    assert!(!platform.disk.exists(&directory("a")).unwrap(), "nothing was created");
    restore(&*platform.disk, &files, &directory("a"), &directory("a"));
    assert_eq!(count(&house.open("a").unwrap()), 1);
}

#[test]
fn exchanged_directories_are_refused() {
    let platform = Platform::memory();
    let house = start(&platform, &["a", "b"]);
    put(&house.open("a").unwrap(), "x");
    put(&house.open("b").unwrap(), "y");
    stop(house);
    let disk = &*platform.disk;
    let [a, b] = ["a", "b"].map(|name| copy_of(disk, &directory(name)));
    restore(disk, &a, &directory("a"), &directory("b"));
    restore(disk, &b, &directory("b"), &directory("a"));
    let house = start(&platform, &[]);
    for name in ["a", "b"] {
        let other = format!("{:?}", HistoryMismatch::OtherEnvironment);
        assert_eq!(load_error(&house, name), other);
    }
}

/// Recovery of the wrong files would remove their journals.
#[test]
fn files_of_another_database_that_was_killed_stay_as_they_are() {
    let platform = Platform::memory();
    let house = start(&platform, &["a", "b"]);
    put(&house.open("a").unwrap(), "x");
    put(&house.open("b").unwrap(), "y");
    let disk = &*platform.disk;
    let killed = copy_of(disk, &directory("a"));
    assert!(killed.iter().any(|(path, _)| path.extension().is_some_and(|end| end == "journal")));
    stop(house);
    restore(disk, &killed, &directory("a"), &directory("b"));
    let before = copy_of(disk, &directory("b"));
    let house = start(&platform, &[]);
    assert_eq!(load_error(&house, "b"), format!("{:?}", HistoryMismatch::OtherEnvironment));
    assert!(copy_of(disk, &directory("b")) == before, "files were changed");
}

#[test]
fn an_older_copy_of_a_database_is_refused() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    stop(house);
    let disk = &*platform.disk;
    let older = copy_of(disk, &directory("a"));
    let house = start(&platform, &[]);
    put(&house.open("a").unwrap(), "y");
    stop(house);
    let newer = copy_of(disk, &directory("a"));
    restore(disk, &older, &directory("a"), &directory("a"));
    let house = start(&platform, &[]);
    assert_eq!(load_error(&house, "a"), format!("{:?}", HistoryMismatch::OtherIncarnation));
    restore(disk, &newer, &directory("a"), &directory("a"));
    assert_eq!(count(&house.open("a").unwrap()), 2);
}

#[test]
fn a_deleted_database_leaves_nothing_that_refuses_the_next_of_its_name() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    house.registry.with_closed("a", || {
        house.catalog.delete("a", |_| Some(DeletedFiles::Kept)).unwrap();
        platform.disk.remove_dir_all(&directory("a")).unwrap();
    });
    house.catalog.create(crate::record("a")).unwrap();
    assert_eq!(count(&house.open("a").unwrap()), 0);
}

#[test]
fn the_next_database_of_a_name_takes_over_its_newest_files_and_no_older_copy() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    stop(house);
    let disk = &*platform.disk;
    let older = copy_of(disk, &directory("a"));
    let house = start(&platform, &[]);
    put(&house.open("a").unwrap(), "y");
    let name = house.catalog.record("a").unwrap().name.clone();
    let own = house.catalog.environment_of(&name).unwrap();
    assert!(own.is_some());
    house
        .registry
        .with_closed("a", || house.catalog.delete("a", |_| Some(DeletedFiles::Kept)).unwrap());
    stop(house);
    let newest = copy_of(disk, &directory("a"));

    let house = start(&platform, &[]);
    assert_eq!(house.catalog.environment_of(&name).unwrap(), own, "it outlives the record");
    let adopts = || Ok::<bool, CatalogError>(true);
    house.catalog.create_checked(crate::record("a"), adopts).unwrap();
    restore(disk, &older, &directory("a"), &directory("a"));
    assert_eq!(load_error(&house, "a"), format!("{:?}", HistoryMismatch::OtherIncarnation));
    restore(disk, &newest, &directory("a"), &directory("a"));
    assert_eq!(count(&house.open("a").unwrap()), 2);
}

#[test]
fn a_deletion_knows_whose_files_it_removes_until_it_has_ended() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    let name = house.catalog.record("a").unwrap().name.clone();
    let own = house.catalog.environment_of(&name).unwrap();
    let delete = || house.catalog.delete("a", |_| Some(DeletedFiles::Removed)).unwrap();
    assert!(house.registry.with_closed("a", delete).is_some());
    assert_eq!(house.catalog.environment_of(&name).unwrap(), None, "the next starts without it");
    let refused = house.catalog.create(crate::record("A"));
    assert!(matches!(refused, Err(CatalogError::BeingDeleted { .. })), "{refused:?}");
    stop(house);

    let house = start(&platform, &[]);
    let mut pending = house.catalog.pending_deletions().unwrap();
    let deletion = pending.pop().unwrap().unwrap();
    assert_eq!((deletion.environment, pending.len()), (own, 0));
    // Another node may have created the next database of the name in the meantime.
    let change = RecordChange::Create(cluster_state::NewDatabase {
        topology: None,
        disabled: false,
        adopts_files: false,
        created_ticks: 1,
        topology_id: DatabaseId([1; 16]),
        cluster_transaction_id: DatabaseId([2; 16]),
        body: b"{}".to_vec(),
    });
    let command = Command::Record(RecordCommand { name, request_id: None, change });
    house.catalog.cluster().submit_and_wait(&command).unwrap();
    let Err(AccessError::Load(error)) = house.open("a").map(drop) else { panic!("it opened") };
    assert!(matches!(*error, LoadError::Catalog(CatalogError::BeingDeleted { .. })), "{error}");
    platform.disk.remove_dir_all(&directory("a")).unwrap();
    house.catalog.end_deletion(&deletion).unwrap();
    assert_eq!(count(&house.open("a").unwrap()), 0);
}

#[test]
fn what_is_known_of_files_and_cannot_be_read_is_an_error() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    house.registry.with_closed("a", || {
        let mut tx = house.catalog.environment().write().unwrap();
        tx.tree_mut(&TreeName::from("Environments")).unwrap().put(b"a", b"short").unwrap();
        tx.commit().unwrap();
    });
    assert!(matches!(house.open("a"), Err(AccessError::Load(error))
        if matches!(&*error, LoadError::Catalog(CatalogError::CorruptRecord { key }) if key == "a")));
}

#[test]
fn an_older_server_directory_does_no_cluster_wide_work_for_a_database_that_knows_more() {
    let platform = Platform::memory();
    let house = start(&platform, &["a"]);
    put(&house.open("a").unwrap(), "x");
    assert_eq!(next_identity(&house, "a").unwrap(), 1);
    stop(house);
    let disk = &*platform.disk;
    let older = copy_of(disk, Path::new(SYSTEM));
    let house = start(&platform, &[]);
    put(&house.open("a").unwrap(), "y");
    assert_eq!(next_identity(&house, "a").unwrap(), 2);
    stop(house);
    let newer = copy_of(disk, Path::new(SYSTEM));
    let files = copy_of(disk, &directory("a"));

    restore(disk, &older, Path::new(SYSTEM), Path::new(SYSTEM));
    let house = start(&platform, &[]);
    let lease = house.open("a").unwrap();
    assert_eq!(count(&lease), 2, "documents can be read");
    let refused = next_identity(&house, "a");
    assert!(matches!(refused, Err(ClusterError::Refused { .. })), "{refused:?}");
    let database = house.catalog.record("a").unwrap().topology_id;
    let state = house.catalog.cluster().store().read();
    assert!(matches!(state.identities(database), Err(ClusterError::Refused { .. })));
    assert!(matches!(lease.values().get("key"), Err(ClusterError::Refused { .. })));
    put(&lease, "z");
    drop(lease);
    stop(house);

    // Still refused, although the database has been written to under the older one.
    let house = start(&platform, &[]);
    let lease = house.open("a").unwrap();
    assert!(next_identity(&house, "a").is_err());
    drop(lease);
    stop(house);

    restore(disk, &newer, Path::new(SYSTEM), Path::new(SYSTEM));
    let house = start(&platform, &[]);
    let lease = house.open("a").unwrap();
    assert_eq!(count(&lease), 3);
    assert_eq!(next_identity(&house, "a").unwrap(), 3);
    drop(lease);
    stop(house);

    // Alternatively, an operator accepts the older one.
    restore(disk, &older, Path::new(SYSTEM), Path::new(SYSTEM));
    restore(disk, &files, &directory("a"), &directory("a"));
    let house = start(&platform, &[]);
    assert!(next_identity_after_opening(&house).is_err());
    let record = house.catalog.record("a").unwrap();
    let options = EnvironmentOptions::new(directory("a"));
    house.registry.with_closed("a", || {
        house.catalog.adopt(&record.name, options).unwrap();
    });
    assert_eq!(next_identity_after_opening(&house).unwrap(), 2);
    stop(house);
    let house = start(&platform, &[]);
    assert_eq!(next_identity_after_opening(&house).unwrap(), 3);
}

fn next_identity_after_opening(house: &House) -> Result<i64, ClusterError> {
    drop(house.open("a").unwrap());
    next_identity(house, "a")
}
