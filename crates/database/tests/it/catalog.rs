//! Records and values of the server.

use cluster_state::{Command, RecordChange, RecordCommand, RecordDraft};
use database::{CatalogError, Decision, DeletedFiles, NewDatabase, ServerCatalog};
use platform::Platform;
use storage::TreeName;

use crate::{record, replace, toggle};

fn open(platform: &Platform) -> ServerCatalog {
    ServerCatalog::open(platform, "/data/System".into()).unwrap()
}

#[test]
fn records_ids_and_the_index_survive_a_restart() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let first = catalog.create(record("One")).unwrap().record;
    let second = catalog.create(record("two")).unwrap().record;
    assert!(first.etag < second.etag);
    assert_ne!(first.topology_id, second.topology_id);
    catalog.put_value("x", b"value").unwrap();
    let ids = (catalog.server_id(), catalog.topology_id());
    drop(catalog);

    let catalog = open(&platform);
    assert_eq!((catalog.server_id(), catalog.topology_id()), ids);
    let names: Vec<String> =
        catalog.records().iter().map(|record| record.name.as_str().to_owned()).collect();
    assert_eq!(names, ["One", "two"]);
    assert_eq!(catalog.record("ONE").unwrap().topology_id, first.topology_id);
    assert_eq!(catalog.value("x").unwrap().unwrap().bytes, b"value");
    let third = catalog.create(record("three")).unwrap().record;
    assert!(third.etag > second.etag + 1);
}

#[test]
fn a_record_changes_only_in_the_expected_version() {
    let catalog = open(&Platform::memory());
    let first = catalog.create(record("a")).unwrap().record;
    assert!(matches!(catalog.create(record("A")), Err(CatalogError::AlreadyExists { .. })));
    assert!(matches!(
        replace(&catalog, record("a"), first.etag + 1),
        Err(CatalogError::VersionMismatch { .. })
    ));
    assert!(matches!(replace(&catalog, record("none"), 1), Err(CatalogError::Missing { .. })));
    let changed = replace(&catalog, record("A"), first.etag).unwrap().record;
    assert!(changed.etag > first.etag);
    assert_eq!(changed.topology_index, first.topology_index);
    assert_eq!(changed.name.as_str(), "a");
}

#[test]
fn what_was_removed_is_gone_and_can_be_made_again_as_something_new() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let first = catalog.create(record("a")).unwrap().record;
    let index = catalog.delete("A", |_| Some(DeletedFiles::Kept)).unwrap().unwrap();
    assert!(index > first.etag);
    assert_eq!(catalog.delete("a", |_| Some(DeletedFiles::Kept)).unwrap(), None);
    assert!(catalog.record("a").is_none());
    let again = catalog.create(record("a")).unwrap().record;
    assert_ne!(again.topology_id, first.topology_id);
    drop(catalog);
    assert_eq!(open(&platform).records().len(), 1);
}

#[test]
fn an_update_keeps_what_it_does_not_change() {
    let catalog = open(&Platform::memory());
    let before = catalog.create(record("a")).unwrap().record;
    let after = catalog.update("a", toggle(true)).unwrap().unwrap().record;
    assert!(after.disabled && after.etag > before.etag);
    assert_eq!(after.configuration, before.configuration);
    assert!(catalog.update("none", toggle(true)).unwrap().is_none());
}

#[test]
fn a_request_that_is_sent_again_is_answered_again_and_changes_nothing() {
    let platform = Platform::memory();
    let request =
        |name: &str, id: &str| NewDatabase { request_id: Some(id.to_owned()), ..record(name) };
    let first = {
        let catalog = ServerCatalog::open(&platform, "system".into()).unwrap();
        let first = catalog.create(request("a", "one")).unwrap();
        catalog.environment().close().unwrap();
        first
    };
    let catalog = ServerCatalog::open(&platform, "system".into()).unwrap();
    let again = catalog.create(request("A", "one")).unwrap();
    assert_eq!((again.index, again.record.etag), (first.index, first.record.etag));
    assert_eq!(again.record.topology_id, first.record.topology_id);
    let other = catalog.create(request("a", "two"));
    assert!(matches!(other, Err(CatalogError::AlreadyExists { .. })));

    let changed = replace(&catalog, request("a", "two"), first.index).unwrap();
    let again = replace(&catalog, request("a", "two"), first.index).unwrap();
    assert_eq!(again.index, changed.index, "the old version is not expected a second time");
    assert_eq!(catalog.create(request("a", "one")).unwrap().index, first.index);

    catalog.delete("a", |_| Some(DeletedFiles::Kept)).unwrap();
    assert!(first.index < catalog.create(request("a", "one")).unwrap().index);
}

#[test]
fn an_update_that_finds_the_record_as_wanted_writes_nothing() {
    let catalog = open(&Platform::memory());
    let before = catalog.create(record("a")).unwrap();
    let kept = catalog.update("a", toggle(false)).unwrap().unwrap();
    assert_eq!((kept.record.etag, kept.index), (before.record.etag, before.record.etag));
}

#[test]
fn a_deletion_is_decided_on_the_record_that_is_deleted() {
    let catalog = open(&Platform::memory());
    let etag = catalog.create(record("a")).unwrap().record.etag;
    let mut seen = Vec::new();
    let kept = catalog.delete("a", |record| {
        seen.push(record.etag);
        None
    });
    assert_eq!((kept.unwrap(), seen), (None, vec![etag]));
    assert!(catalog.record("a").is_some());
    // Another node is faster each time, until it has locked the database.
    let mut changes = 0;
    let refused = catalog.delete("a", |record| {
        if changes == 3 {
            return None;
        }
        changes += 1;
        let mut draft = RecordDraft::of(record);
        draft.body = format!("{{\"Change\":{changes}}}").into_bytes();
        let change = RecordChange::Replace { expected: record.etag, draft };
        let command = RecordCommand { name: record.name.clone(), request_id: None, change };
        catalog.cluster().submit_and_wait(&Command::Record(command)).unwrap();
        Some(DeletedFiles::Removed)
    });
    assert_eq!(refused.unwrap(), None);
    assert_eq!(catalog.record("a").unwrap().configuration.json(), b"{\"Change\":3}");
    assert!(catalog.pending_deletions().unwrap().is_empty());
}

#[test]
fn an_id_of_the_server_that_is_damaged_is_refused_by_name() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let mut tx = catalog.environment().write().unwrap();
    tx.tree_mut(&TreeName::from("Node")).unwrap().put(b"Server/Id", b"short").unwrap();
    tx.commit().unwrap();
    catalog.cluster().close();
    catalog.environment().close().unwrap();
    drop(catalog);
    let refused = ServerCatalog::open(&platform, "/data/System".into()).err().unwrap();
    assert!(refused.to_string().contains("'Server/Id'"), "{refused}");
}

#[test]
fn a_record_beyond_the_limit_is_refused_but_a_larger_one_may_shrink() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let of_bytes = |bytes: usize| NewDatabase { body: vec![b' '; bytes], ..record("a") };
    let body = |bytes| {
        move |_: &_, draft: &mut RecordDraft| {
            draft.body = vec![b' '; bytes];
            Decision::Replace
        }
    };
    let first = catalog.create(of_bytes(3_000)).unwrap().record;
    catalog.limit_records(1_000);
    let is_refused = |outcome| {
        matches!(outcome, Err(CatalogError::RecordTooLarge { bytes: 3_001, bytes_max: 1_000, .. }))
    };
    assert!(is_refused(catalog.update("a", body(3_001)).map(drop)));
    assert!(is_refused(replace(&catalog, of_bytes(3_001), first.etag).map(drop)));
    let other = NewDatabase { body: vec![b' '; 3_001], ..record("other") };
    assert!(is_refused(catalog.create(other).map(drop)));
    assert_eq!(catalog.record("a").unwrap().etag, first.etag, "nothing was changed");
    for bytes in [2_000, 1_000, 500, 1_000] {
        catalog.update("a", body(bytes)).unwrap().unwrap();
    }
    assert!(catalog.update("a", body(1_001)).is_err());
}
