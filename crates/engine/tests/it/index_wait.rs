//! Waiting for indexes after a write.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use blittable::{ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command};
use database::DatabaseLease;
use documents::{ExpectedVersion, PutDocument, RequestedId};
use engine::{Engine, EngineError, IndexWait, IndexesBehind, complete_definition};
use model::{DocumentId, Etag, IndexDefinition};

use crate::with_database;

const LONG: Duration = Duration::from_secs(60);

fn put(engine: &Engine, database: &DatabaseLease, id: &str, collection: &str) -> BatchOutcome {
    let json = format!(r#"{{"N":1,"@metadata":{{"@collection":"{collection}"}}}}"#);
    let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
    let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
    let put = Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body });
    engine.execute(database, Batch::one(put)).unwrap()
}

fn define(engine: &Engine, database: &DatabaseLease, name: &str, collection: &str) {
    let definition = complete_definition(IndexDefinition {
        name: name.to_owned(),
        maps: vec![format!("from d in docs.{collection} select new {{ d.N }}")],
        ..IndexDefinition::default()
    });
    engine.define_index(database, &definition).unwrap();
}

fn wait(timeout: Duration, names: &[&str]) -> IndexWait {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    IndexWait { timeout, is_required: true, names }
}

/// The indexes that are behind when the wait is over.
fn behind(result: Result<(), EngineError>) -> IndexesBehind {
    match result {
        Err(EngineError::IndexesBehind(behind)) => *behind,
        other => panic!("{other:?}"),
    }
}

/// Two indexes of users, which are paused, and one of dogs.
fn with_indexes() -> (Engine, DatabaseLease) {
    let (engine, database) = with_database();
    for (name, collection) in [("A", "Users"), ("B", "Users"), ("Dogs", "Dogs")] {
        define(&engine, &database, name, collection);
    }
    for name in ["A", "B"] {
        database.indexes().get(name).unwrap().pause();
    }
    (engine, database)
}

#[test]
fn a_write_waits_for_the_indexes_of_its_collections() {
    let (engine, database) = with_indexes();
    let dog = put(&engine, &database, "dogs/1", "Dogs");
    engine.wait_for_indexes(&database, &wait(LONG, &[]), &dog).unwrap();
    assert!(database.indexes().get("Dogs").unwrap().has_reached(dog.last_etag));
    let user = put(&engine, &database, "users/1", "Users");
    for name in ["A", "B"] {
        database.indexes().get(name).unwrap().resume();
    }
    engine.wait_for_indexes(&database, &wait(LONG, &[]), &user).unwrap();
    assert!(database.indexes().get("B").unwrap().has_reached(user.last_etag));
}

#[test]
fn the_indexes_that_are_behind_have_names() {
    let (engine, database) = with_indexes();
    let user = put(&engine, &database, "users/1", "Users");
    let short = Duration::from_millis(1);
    let found = behind(engine.wait_for_indexes(&database, &wait(short, &[]), &user));
    assert_eq!((found.relevant, found.etag), (2, user.last_etag));
    assert_eq!(found.stale, ["A", "B"]);
    assert_eq!(found.paused, ["A", "B"]);
    assert!(found.errored.is_empty());
    let found = behind(engine.wait_for_indexes(&database, &wait(short, &["b", "Dogs"]), &user));
    assert_eq!(found.relevant, 1);
    assert_eq!(found.stale, ["B"]);
    let indifferent = IndexWait { is_required: false, ..wait(short, &[]) };
    engine.wait_for_indexes(&database, &indifferent, &user).unwrap();
}

#[test]
fn a_write_that_changed_nothing_waits_for_nothing() {
    let (engine, database) = with_indexes();
    put(&engine, &database, "users/1", "Users");
    let nothing = BatchOutcome { last_etag: Etag(1), ..BatchOutcome::default() };
    engine.wait_for_indexes(&database, &wait(LONG, &[]), &nothing).unwrap();
}

struct Woken(std::sync::mpsc::Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn the_time_counts_for_all_indexes_together_and_the_last_one_wakes_the_caller() {
    let (engine, database) = with_indexes();
    let user = put(&engine, &database, "users/1", "Users");
    let mut pending = engine.begin_index_wait(&database, &wait(LONG, &[]), &user).unwrap();
    let (sender, woken) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Woken(sender)));
    let mut poll = || {
        let pinned = std::pin::Pin::new(&mut pending);
        pinned.poll(&mut Context::from_waker(&waker))
    };
    assert_eq!(poll(), Poll::Pending);
    let index = |name: &str| database.indexes().get(name).unwrap();
    index("A").resume();
    engine.wait_for_indexes(&database, &wait(LONG, &["A"]), &user).unwrap();
    assert!(woken.try_recv().is_err(), "one index is still behind");
    assert_eq!(poll(), Poll::Pending);
    index("B").resume();
    woken.recv().unwrap();
    assert_eq!(poll(), Poll::Ready(()));
    assert!(pending.time_left() < LONG);
    pending.end().unwrap();
}

#[test]
fn the_message_lists_what_is_wrong_with_the_indexes() {
    let behind = IndexesBehind {
        elapsed: Duration::from_secs(1),
        etag: Etag(7),
        relevant: 3,
        stale: vec!["A".to_owned(), "B".to_owned()],
        paused: vec!["A".to_owned()],
        errored: Vec::new(),
    };
    let expected = "After waiting for 00:00:01, could not verify that all indexes has caught up with the \
                    changes as of etag: 7. Total relevant indexes: 3, total stale indexes: 2 (A, B), total \
                    paused indexes: 1 (A)";
    assert_eq!(behind.to_string(), expected);
}
