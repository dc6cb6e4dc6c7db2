//! Records and values of the server.

use database::{CatalogError, ServerCatalog};
use platform::Platform;

use crate::record;

fn open(platform: &Platform) -> ServerCatalog {
    ServerCatalog::open(platform, "/data/System".into()).unwrap()
}

#[test]
fn records_ids_and_the_index_survive_a_restart() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let first = catalog.put(record("One"), None).unwrap().record;
    let second = catalog.put(record("two"), None).unwrap().record;
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
    let third = catalog.put(record("three"), None).unwrap().record;
    assert!(third.etag > second.etag + 1);
}

#[test]
fn a_record_changes_only_in_the_expected_version() {
    let catalog = open(&Platform::memory());
    let first = catalog.put(record("a"), None).unwrap().record;
    assert!(matches!(catalog.put(record("A"), None), Err(CatalogError::AlreadyExists { .. })));
    assert!(matches!(
        catalog.put(record("a"), Some(first.etag + 1)),
        Err(CatalogError::VersionMismatch { .. })
    ));
    assert!(matches!(catalog.put(record("none"), Some(1)), Err(CatalogError::Missing { .. })));
    let changed = catalog.put(record("A"), Some(first.etag)).unwrap().record;
    assert!(changed.etag > first.etag);
    assert_eq!(changed.topology_index, first.topology_index);
    assert_eq!(changed.name.as_str(), "a");
}

#[test]
fn what_was_removed_is_gone_and_can_be_made_again_as_something_new() {
    let platform = Platform::memory();
    let catalog = open(&platform);
    let first = catalog.put(record("a"), None).unwrap().record;
    let index = catalog.remove("A").unwrap().unwrap();
    assert!(index > first.etag);
    assert_eq!(catalog.remove("a").unwrap(), None);
    assert!(catalog.record("a").is_none());
    let again = catalog.put(record("a"), None).unwrap().record;
    assert_ne!(again.topology_id, first.topology_id);
    drop(catalog);
    assert_eq!(open(&platform).records().len(), 1);
}

#[test]
fn an_update_keeps_what_it_does_not_change() {
    let catalog = open(&Platform::memory());
    let before = catalog.put(record("a"), None).unwrap().record;
    let after = catalog.update("a", |_, draft| draft.disabled = true).unwrap().unwrap().record;
    assert!(after.disabled && after.etag > before.etag);
    assert_eq!(after.body, before.body);
    assert!(catalog.update("none", |_, _| ()).unwrap().is_none());
}

#[test]
fn a_request_that_is_sent_again_is_answered_again_and_changes_nothing() {
    let platform = Platform::memory();
    let request = |name: &str, id: &str| database::NewRecord {
        request_id: Some(id.to_owned()),
        ..record(name)
    };
    let first = {
        let catalog = ServerCatalog::open(&platform, "system".into()).unwrap();
        let first = catalog.put(request("a", "one"), None).unwrap();
        catalog.environment().close().unwrap();
        first
    };
    let catalog = ServerCatalog::open(&platform, "system".into()).unwrap();
    let again = catalog.put(request("A", "one"), None).unwrap();
    assert_eq!((again.index, again.record.etag), (first.index, first.record.etag));
    assert_eq!(again.record.topology_id, first.record.topology_id);
    let other = catalog.put(request("a", "two"), None);
    assert!(matches!(other, Err(CatalogError::AlreadyExists { .. })));

    let changed = catalog.put(request("a", "two"), Some(first.index)).unwrap();
    let again = catalog.put(request("a", "two"), Some(first.index)).unwrap();
    assert_eq!(again.index, changed.index, "the old version is not expected a second time");
    assert_eq!(catalog.put(request("a", "one"), None).unwrap().index, first.index);

    catalog.remove("a").unwrap();
    assert!(first.index < catalog.put(request("a", "one"), None).unwrap().index);
}
