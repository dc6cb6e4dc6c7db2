//! The document log and the other orders of reading.

use blittable::{ParseLimits, parse_document};
use documents::{
    ExpectedVersion, RequestedId,
    log::{self, EntryKinds, LogEntry, Selection},
};
use model::{CollectionName, DocumentId, Etag};

use crate::database::{Database, in_collection, user, version};

fn entries(database: &Database, after: u64, collection: Option<&str>) -> Vec<(u64, String)> {
    let tx = database.read();
    let collection = collection.map(|name| CollectionName::new(name).unwrap());
    let selected = [Selection::of_collection(EntryKinds::DOCUMENTS, collection.as_ref())];
    let counted = log::count_after(&tx, &selected, Etag(after), u64::MAX).unwrap();
    let show = |entry: LogEntry<'_>| match entry {
        LogEntry::Document(row) => (row.etag().0, row.id().to_owned()),
        LogEntry::DocumentTombstone(row) => (row.etag().0, format!("-{}", row.id())),
        other => panic!("{:?} was not selected", other.kind()),
    };
    let log = log::read(&tx, &selected, Etag(after)).unwrap();
    let entries: Vec<_> = log.map(|entry| show(entry.unwrap())).collect();
    assert_eq!(entries.len() as u64, counted);
    entries
}

fn named(entries: &[(u64, &str)]) -> Vec<(u64, String)> {
    entries.iter().map(|(etag, id)| (*etag, (*id).to_owned())).collect()
}

fn sample() -> Database {
    let database = Database::new();
    database.put("users/1", &user("a"));
    database.put("orders/1", &in_collection("Orders", "b"));
    database.put("users/2", &user("c"));
    database.put("users/1", &user("d"));
    database.delete("orders/1");
    database
}

#[test]
fn the_log_holds_each_document_once_at_its_last_change() {
    let database = sample();
    assert_eq!(
        entries(&database, 0, None),
        named(&[(3, "users/2"), (4, "users/1"), (5, "-orders/1")])
    );
    assert_eq!(entries(&database, 3, None), named(&[(4, "users/1"), (5, "-orders/1")]));
    assert_eq!(entries(&database, 5, None), []);
    assert_eq!(entries(&database, u64::MAX, None), []);
    assert_eq!(entries(&database, 0, Some("uSers")), named(&[(3, "users/2"), (4, "users/1")]));
    assert_eq!(entries(&database, 0, Some("Orders")), named(&[(5, "-orders/1")]));
    assert_eq!(entries(&database, 0, Some("Nothing")), []);
    let progress = documents::progress(&database.read()).unwrap();
    assert_eq!((progress.last_etag, progress.change_vector.as_str()), (Etag(5), &*version(5)));
    assert_eq!((progress.documents, progress.tombstones), (2, 1));
}

#[test]
fn what_lies_behind_an_etag_is_counted() {
    let database = sample();
    let check = |after, collection: Option<&str>, documents, tombstones| {
        let name = collection.map(|name| CollectionName::new(name).unwrap());
        let tx = database.read();
        let count = documents::pending_changes(&tx, name.as_ref(), Etag(after)).unwrap();
        assert_eq!(
            count,
            documents::ChangeCount { documents, tombstones },
            "{after} {collection:?}"
        );
    };
    check(0, None, 2, 1);
    check(3, None, 1, 1);
    check(4, None, 0, 1);
    check(5, None, 0, 0);
    check(u64::MAX, None, 0, 0);
    check(0, Some("users"), 2, 0);
    check(3, Some("Users"), 1, 0);
    check(4, Some("Orders"), 0, 1);
    check(0, Some("Nothing"), 0, 0);
    // Of many, the sum is exact and the parts are estimated.
    let written = database.write(|writer| {
        for number in 0..1_200 {
            let id = RequestedId::Exactly(DocumentId::new(format!("many/{number}")).unwrap());
            let body = in_collection("Many", "x");
            let body = parse_document(body.as_bytes(), &ParseLimits::default()).unwrap();
            writer.put(&id, &ExpectedVersion::Any, &body)?;
        }
        Ok(())
    });
    written.unwrap();
    database.delete("many/1199");
    check(0, Some("Many"), 1_199, 1);
    check(7, Some("Many"), 1_198, 0);
    check(7, None, 1_198, 0);
    check(1_205, Some("Many"), 0, 1);
}

#[test]
fn documents_are_listed_with_the_newest_first() {
    let database = sample();
    let tx = database.read();
    let ids: Vec<_> = documents::newest_first(&tx).unwrap().map(|row| row.unwrap().id()).collect();
    assert_eq!(ids, ["users/1", "users/2"]);
    let users = CollectionName::new("users").unwrap();
    let ids = documents::newest_first_of_collection(&tx, &users).unwrap();
    assert_eq!(ids.map(|row| row.unwrap().id()).collect::<Vec<_>>(), ["users/1", "users/2"]);
    let orders = CollectionName::new("Orders").unwrap();
    assert_eq!(documents::newest_first_of_collection(&tx, &orders).unwrap().count(), 0);
}

#[test]
fn a_prefix_is_read_in_the_order_of_lower_cased_ids() {
    let database = Database::new();
    for id in ["b/2", "B/10", "b/1", "a", "c", "b", "É/1", "tomb"] {
        database.put(id, "{}");
    }
    database.delete("tomb");
    let tx = database.read();
    let read = |prefix: &str, start_after: Option<&str>| {
        let rows = documents::by_prefix(&tx, prefix, start_after).unwrap();
        rows.map(|row| row.unwrap().id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(read("B/", None), ["b/1", "B/10", "b/2"]);
    assert_eq!(read("b/", Some("B/1")), ["B/10", "b/2"]);
    assert_eq!(read("b/", Some("a")), ["b/1", "B/10", "b/2"]);
    assert_eq!(read("b/", Some("z")), [""; 0]);
    assert_eq!(read("é", None), ["É/1"]);
    assert_eq!(read("", None), ["a", "b", "b/1", "B/10", "b/2", "c", "É/1"]);
    assert_eq!(read("x", None), [""; 0]);
}

#[test]
fn a_reader_keeps_what_it_saw() {
    let database = sample();
    let before = database.read();
    database.put("users/9", &user("later"));
    database.delete("users/1");
    let ids: Vec<_> =
        documents::newest_first(&before).unwrap().map(|row| row.unwrap().id()).collect();
    assert_eq!(ids, ["users/1", "users/2"]);
    assert_eq!(documents::progress(&before).unwrap().last_etag, Etag(5));
}
