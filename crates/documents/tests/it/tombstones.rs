//! Removing tombstones: of each kind, in each collection, and what is remembered of them.

use documents::{
    ChangeCounters, CounterStep, NewContent, PutAttachment, RemoveTombstones,
    TOMBSTONES_PER_COMMAND_MAX, TombstoneKind, last_removed_tombstone, removable_tombstones,
    time_series::{Entries, Entry, MomentRange, TimeSeriesChange},
};
use model::{AttachmentName, CollectionName, CounterName, DocumentId, Etag, TimeSeriesName};
use platform::simulated::Random;

use crate::database::{Database, in_collection};

const EVERYTHING: Etag = Etag(u64::MAX);

impl Database {
    fn find(&self, kind: TombstoneKind, limit_of: impl Fn(u32) -> Etag) -> RemoveTombstones {
        let found = removable_tombstones(&self.read(), kind, None, limit_of).unwrap();
        assert_eq!(found.next, None);
        RemoveTombstones { kind, rows: found.rows }
    }

    fn remove(&self, request: &RemoveTombstones) -> u64 {
        self.write(|writer| writer.remove_tombstones(request)).unwrap()
    }

    fn remove_all(&self, kind: TombstoneKind) -> u64 {
        self.remove(&self.find(kind, |_| EVERYTHING))
    }

    fn last_removed(&self, kind: TombstoneKind, collection: Option<&str>) -> u64 {
        let name = collection.map(|name| CollectionName::new(name).unwrap());
        last_removed_tombstone(&self.read(), kind, name.as_ref()).unwrap().0
    }

    fn tombstones(&self) -> u64 {
        documents::progress(&self.read()).unwrap().tombstones
    }

    fn newest_etag(&self) -> u64 {
        documents::progress(&self.read()).unwrap().last_etag.0
    }
}

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

#[test]
fn tombstones_go_up_to_the_limit_of_their_collection_and_this_is_remembered() {
    let database = Database::new();
    for of in ["u/1", "u/2", "d/1"] {
        database.put(of, &in_collection(if of == "d/1" { "Dogs" } else { "Users" }, "x"));
    }
    ["u/1", "d/1", "u/2"].iter().for_each(|of| assert!(database.delete(of)));
    assert_eq!((database.tombstones(), database.newest_etag()), (3, 6));
    let kind = TombstoneKind::Documents;
    let of_users = |number| Etag(if number == 1 { 5 } else { 0 });
    assert_eq!(database.remove(&database.find(kind, of_users)), 1);
    assert_eq!(database.collections(), [("Users".to_owned(), 0, 1), ("Dogs".to_owned(), 0, 1)]);
    assert_eq!(database.last_removed(kind, Some("Users")), 4);
    assert_eq!(database.last_removed(kind, Some("Dogs")), 0);
    assert_eq!(database.last_removed(kind, Some("Nobody")), 0);
    assert_eq!(database.last_removed(kind, None), 4);
    assert_eq!(database.remove_all(kind), 2);
    assert_eq!((database.tombstones(), database.newest_etag()), (0, 6), "no etag is taken");
    assert_eq!(database.last_removed(kind, Some("Dogs")), 5);
    assert_eq!(database.last_removed(kind, None), 6);
}

#[test]
fn a_tombstone_that_made_room_for_a_newer_one_is_not_taken_for_it() {
    let database = Database::new();
    database.put("u/1", &in_collection("Users", "x"));
    database.delete("u/1");
    let seen = database.find(TombstoneKind::Documents, |_| EVERYTHING);
    database.put("u/1", &in_collection("Users", "x"));
    assert_eq!(database.remove(&seen), 0, "the document lives");
    database.delete("u/1");
    assert_eq!(database.remove(&seen), 0, "another deletion");
    assert_eq!(database.tombstones(), 1);
    assert_eq!(database.last_removed(TombstoneKind::Documents, None), 0);
}

#[test]
fn tombstones_in_collections_that_a_document_left_go_one_by_one() {
    let database = Database::new();
    database.put("x/1", &in_collection("Users", "x"));
    database.delete("x/1");
    database.put("x/1", &in_collection("Dogs", "x"));
    database.delete("x/1");
    // One is left in each collection. That of the newest goes first, and the document comes back to the
    // other one.
    let kind = TombstoneKind::Documents;
    let dogs = |number| Etag(if number == 2 { u64::MAX } else { 0 });
    assert_eq!(database.remove(&database.find(kind, dogs)), 1);
    assert_eq!(database.collections(), [("Users".to_owned(), 0, 1), ("Dogs".to_owned(), 0, 0)]);
    database.put("x/1", &in_collection("Users", "x"));
    assert_eq!(database.collections(), [("Users".to_owned(), 1, 0), ("Dogs".to_owned(), 0, 0)]);
    database.delete("x/1");
    database.put("x/1", &in_collection("Dogs", "x"));
    assert_eq!(database.collections(), [("Users".to_owned(), 0, 1), ("Dogs".to_owned(), 1, 0)]);
    assert_eq!(database.remove_all(kind), 1);
    assert_eq!(database.tombstones(), 0);
}

#[test]
fn tombstones_of_what_belongs_to_documents_go_too_and_nothing_else_with_them() {
    let database = Database::new();
    let bytes = b"content";
    let count = |of: &str| {
        let name = CounterName::new("likes").unwrap();
        let steps = vec![CounterStep::Increment { name, by: 1 }];
        let request = ChangeCounters { id: id(of), steps, ignores_missing: false };
        database.write(|writer| writer.change_counters(&request)).unwrap();
    };
    for of in ["u/1", "u/2"] {
        database.put(of, &in_collection("Users", "x"));
        let hash = documents::hash_of(bytes);
        let content = NewContent::Bytes { hash, bytes: bytes.to_vec() };
        let put = PutAttachment {
            id: id(of),
            name: AttachmentName::new("a").unwrap(),
            content_type: String::new(),
            expected: documents::ExpectedVersion::Any,
            content,
        };
        database.write(|writer| writer.put_attachment(&put)).unwrap();
        count(of);
        let change = TimeSeriesChange::new(id(of), TimeSeriesName::new("heat").unwrap());
        let mut appends = Entries::default();
        for timestamp_ms in 0..10 {
            appends.push(Entry { timestamp_ms, values: &[1.0], tag: None });
        }
        let append = TimeSeriesChange { appends, ..change.clone() };
        database.write(|writer| writer.change_time_series(&append)).unwrap();
        let deletes = vec![MomentRange { from: 2, to: 3 }];
        let delete = TimeSeriesChange { deletes, ..change };
        database.write(|writer| writer.change_time_series(&delete)).unwrap();
    }
    database.delete("u/1");
    let removed = TombstoneKind::ALL.map(|kind| database.remove_all(kind));
    assert_eq!(removed, [1, 1, 1, 2]);
    let marks = TombstoneKind::ALL.map(|kind| database.last_removed(kind, None));
    assert!(marks.iter().all(|mark| 0 < *mark && *mark <= database.newest_etag()), "{marks:?}");
    let counted = documents::check(&database.read()).unwrap();
    assert_eq!((counted.documents, counted.attachments, counted.counters), (1, 1, 1));
    assert_eq!((counted.contents, counted.time_series_segments), (1, 1));
    assert_eq!(TombstoneKind::ALL.map(|kind| database.remove_all(kind)), [0; 4]);
}

#[test]
fn one_look_finds_no_more_than_one_command_removes_and_the_next_goes_on_behind() {
    let database = Database::new();
    let count = TOMBSTONES_PER_COMMAND_MAX + 10;
    database
        .write(|writer| {
            for number in 0..count {
                let of = documents::RequestedId::Exactly(id(&format!("u/{number}")));
                let body = in_collection("Users", "x");
                let body =
                    blittable::parse_document(body.as_bytes(), &blittable::ParseLimits::default());
                writer.put(&of, &documents::ExpectedVersion::Any, &body.unwrap())?;
            }
            writer.delete_prefix("u/")
        })
        .unwrap();
    let (kind, mut from, mut removed) = (TombstoneKind::Documents, None, Vec::new());
    loop {
        let tx = database.read();
        let found = removable_tombstones(&tx, kind, from.as_deref(), |_| EVERYTHING).unwrap();
        removed.push(database.remove(&RemoveTombstones { kind, rows: found.rows }));
        from = found.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(removed, [TOMBSTONES_PER_COMMAND_MAX as u64, 10]);
}

#[test]
fn tombstones_and_pages_stay_flat_while_documents_come_and_go() {
    let database = Database::new();
    let mut random = Random::new(1);
    let mut sizes = Vec::new();
    for round in 0..30 {
        for _ in 0..40 {
            let of = format!("u/{}", random.below(1 << 40));
            database.put(&of, &in_collection("Users", "x"));
            assert!(database.delete(&of));
        }
        assert_eq!(database.tombstones(), 40, "round {round}");
        assert_eq!(database.remove_all(TombstoneKind::Documents), 40);
        database.environment.flush().unwrap();
        sizes.push(database.environment.statistics().data_file_bytes);
    }
    assert_eq!(sizes[10..].iter().max(), sizes[..10].iter().max(), "{sizes:?}");
}
