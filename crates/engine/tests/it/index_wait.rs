//! Waiting for indexes after a write.

use std::{
    pin::Pin,
    sync::{Arc, mpsc::Receiver},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use blittable::{ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, Command};
use database::DatabaseLease;
use documents::{ExpectedVersion, PutDocument, RequestedId};
use engine::{Engine, EngineError, IndexWait, IndexesBehind, ReplicaWait, complete_definition};
use model::{DocumentId, Etag, IndexDefinition};
use platform::{Clock, Platform, simulated::SimulatedClock};

use crate::with_database_on;

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
    with_indexes_on(Platform::memory())
}

fn with_indexes_on(platform: Platform) -> (Engine, DatabaseLease) {
    let (engine, database) = with_database_on(platform);
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

/// A waker, and what it wakes.
fn waker() -> (Waker, Receiver<()>) {
    let (sender, woken) = std::sync::mpsc::channel();
    (Waker::from(Arc::new(Woken(sender))), woken)
}

fn poll(pending: &mut (impl Future<Output = ()> + Unpin), waker: &Waker) -> Poll<()> {
    Pin::new(pending).poll(&mut Context::from_waker(waker))
}

#[test]
fn the_last_index_wakes_the_caller() {
    let (engine, database) = with_indexes();
    let user = put(&engine, &database, "users/1", "Users");
    let mut pending = engine.begin_index_wait(&database, &wait(LONG, &[]), &user).unwrap();
    let (waker, woken) = waker();
    assert_eq!(poll(&mut pending, &waker), Poll::Pending);
    let index = |name: &str| database.indexes().get(name).unwrap();
    index("A").resume();
    engine.wait_for_indexes(&database, &wait(LONG, &["A"]), &user).unwrap();
    assert!(woken.try_recv().is_err(), "one index is still behind");
    assert_eq!(poll(&mut pending, &waker), Poll::Pending);
    index("B").resume();
    woken.recv().unwrap();
    assert_eq!(poll(&mut pending, &waker), Poll::Ready(()));
    pending.end().unwrap();
}

/// The simulated clock goes on by a microsecond with each look at the time of day.
fn is_about(time: Duration, expected: Duration) -> bool {
    time.abs_diff(expected) < Duration::from_secs(1)
}

#[test]
fn the_time_counts_for_all_indexes_together() {
    let clock = Arc::new(SimulatedClock::new());
    let platform = Platform { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Platform::memory() };
    let (engine, database) = with_indexes_on(platform);
    let user = put(&engine, &database, "users/1", "Users");
    let pending = engine.begin_index_wait(&database, &wait(LONG, &[]), &user).unwrap();
    clock.advance(LONG / 3);
    database.indexes().get("A").unwrap().resume();
    engine.wait_for_indexes(&database, &wait(LONG, &["A"]), &user).unwrap();
    // The index that has arrived late leaves the other one only what is left.
    assert!(is_about(pending.time_left(), LONG - LONG / 3), "{:?}", pending.time_left());
    clock.advance(LONG);
    assert_eq!(pending.time_left(), Duration::ZERO);
    let found = behind(pending.end());
    assert!(is_about(found.elapsed, LONG + LONG / 3), "{found:?}");
    assert_eq!((found.relevant, found.stale), (2, vec!["B".to_owned()]));
}

#[test]
fn a_wait_ends_when_the_database_is_being_closed() {
    let (engine, database) = with_indexes();
    let user = put(&engine, &database, "users/1", "Users");
    let replicas = ReplicaWait { count: 1, timeout: LONG, is_required: true };
    let index = database.indexes().get("A").unwrap();
    let mut indexes = engine.begin_index_wait(&database, &wait(LONG, &[]), &user).unwrap();
    let mut replicas = engine.begin_replica_wait(&database, &replicas, &user);
    let mut catch_up = engine.begin_catch_up(&database, &index, LONG).unwrap();
    let (waker, woken) = waker();
    assert_eq!(poll(&mut indexes, &waker), Poll::Pending);
    assert_eq!(poll(&mut replicas, &waker), Poll::Pending);
    assert_eq!(poll(&mut catch_up, &waker), Poll::Pending);
    let indifferent = IndexWait { is_required: false, ..wait(LONG, &[]) };
    let indifferent = engine.begin_index_wait(&database, &indifferent, &user).unwrap();
    std::thread::scope(|scope| {
        let disabled = scope.spawn(|| engine.set_disabled("db", true).unwrap());
        (0..3).for_each(|_| woken.recv().unwrap());
        // A caller that blocks.
        let refused = engine.wait_for_indexes(&database, &wait(LONG, &[]), &user);
        let is_closing = |ended: Result<(), EngineError>, expected: bool| match ended {
            Err(EngineError::DatabaseClosing { is_written }) => is_written == expected,
            _ => false,
        };
        assert!(is_closing(refused, true));
        assert!(is_closing(indexes.end(), true));
        assert!(is_closing(replicas.end(), true));
        assert!(is_closing(catch_up.end().map(drop), false));
        indifferent.end().unwrap();
        // Otherwise, closing it would wait for this.
        drop(database);
        disabled.join().unwrap();
    });
}

#[test]
fn a_wait_for_other_nodes_ends_with_its_time() {
    let clock = Arc::new(SimulatedClock::new());
    let platform = Platform { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Platform::memory() };
    let (engine, database) = with_database_on(platform);
    let user = put(&engine, &database, "users/1", "Users");
    let wait = |count, is_required| {
        let wait = ReplicaWait { count, timeout: LONG, is_required };
        engine.begin_replica_wait(&database, &wait, &user)
    };
    let (waker, _) = waker();
    let mut pending = wait(2, true);
    assert_eq!(poll(&mut pending, &waker), Poll::Pending);
    clock.advance(LONG / 2);
    assert!(is_about(pending.time_left(), LONG / 2), "{:?}", pending.time_left());
    clock.advance(LONG);
    assert_eq!(pending.time_left(), Duration::ZERO);
    let Err(error @ EngineError::ReplicasBehind(_)) = pending.end() else { panic!("none has it") };
    let text = error.to_string();
    let change_vector = format!("'A:{}-", user.last_etag.0);
    assert!(text.contains(&change_vector), "{text}");
    assert!(text.ends_with("to 2 servers in 00:01:00. So far, it only replicated to 0"), "{text}");
    wait(2, false).end().unwrap();
    let mut none = wait(0, true);
    assert_eq!(poll(&mut none, &waker), Poll::Ready(()));
    none.end().unwrap();
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
