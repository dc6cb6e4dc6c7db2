//! The documents of cluster-wide transactions: each request gets the outcome of its own transaction,
//! whichever request caused the execution.

use std::sync::mpsc;

use cluster_state::{ClusterTransaction, Command, DocumentChange, Guard, Outcome};
use commands::BatchOutcome;
use database::{DatabaseLease, ExecutionError};
use model::{CollectionName, Etag};
use platform::{Platform, simulated::Random};

use crate::registry::{House, put};

/// Stores a transaction for the database; returns its index.
fn commit(house: &House, database: &DatabaseLease, id: &str, json: Option<&str>) -> u64 {
    let body = json.map(|json| {
        blittable::parse_document(json.as_bytes(), &blittable::ParseLimits::default()).unwrap()
    });
    let transaction = ClusterTransaction {
        database: database.record().topology_id,
        values: Vec::new(),
        documents: vec![DocumentChange {
            id: id.to_owned(),
            body,
            guard: Guard::Off,
            replaces: None,
        }],
        ticks: 1,
        executed: database.executed_transaction(),
    };
    let applied = house.catalog.cluster().submit_and_wait(&Command::Transaction(transaction));
    let applied = applied.unwrap();
    assert!(matches!(applied.outcome, Outcome::Transaction(_)));
    applied.index
}

fn execute(house: &House, database: &DatabaseLease, index: u64) -> Option<BatchOutcome> {
    try_to_execute(house, database, index).unwrap()
}

fn try_to_execute(
    house: &House,
    database: &DatabaseLease,
    index: u64,
) -> Result<Option<BatchOutcome>, ExecutionError> {
    let (sender, receiver) = mpsc::channel();
    let done = move |outcome| drop(sender.send(outcome));
    database.execute_transaction(house.catalog.cluster().store(), index, done);
    receiver.recv().unwrap()
}

fn follow(house: &House, database: &DatabaseLease) {
    database.follow_transactions(house.catalog.cluster().store()).unwrap();
}

fn etag_and_collections(outcome: Option<BatchOutcome>) -> (u64, Vec<String>) {
    let outcome = outcome.unwrap();
    let names = outcome.collections.iter().map(CollectionName::as_str).map(str::to_owned);
    (outcome.last_etag.0, names.collect())
}

#[test]
fn a_transaction_that_another_request_had_executed_has_its_own_outcome() {
    let house = House::simple(&["a"]);
    let database = house.open("a").unwrap();
    let of = |collection: &str| format!(r#"{{"@metadata":{{"@collection":"{collection}"}}}}"#);
    let first = commit(&house, &database, "users/1", Some(&of("Users")));
    let second = commit(&house, &database, "dogs/1", Some(&of("Dogs")));
    let third = commit(&house, &database, "users/1", None);
    let third = etag_and_collections(execute(&house, &database, third));
    // A stranger's write, which nobody waits for.
    put(&database, "x");
    let second = etag_and_collections(execute(&house, &database, second));
    let first_outcome = etag_and_collections(execute(&house, &database, first));
    assert_eq!(first_outcome.1, ["Users"]);
    assert_eq!(second.1, ["Dogs"]);
    assert_eq!(third.1, ["Users"], "a deletion changes its collection");
    assert!(first_outcome.0 < second.0 && second.0 < third.0);
    let last = documents::progress(&database.read()).unwrap().last_etag;
    assert!(Etag(third.0) < last, "{last:?}");
    assert!(execute(&house, &database, first).is_none(), "a repeated request is the second to ask");
}

#[test]
fn what_nobody_asked_to_execute_has_its_outcome_for_the_request_that_does() {
    let house = House::simple(&["a"]);
    let database = house.open("a").unwrap();
    let first = commit(&house, &database, "x", Some("{}"));
    follow(&house, &database);
    let last = commit(&house, &database, "y", Some("{}"));
    assert!(execute(&house, &database, last).is_some());
    assert_eq!(database.executed_transaction(), last);
    follow(&house, &database);
    assert!(execute(&house, &database, first).is_some());
}

#[test]
fn what_a_full_disk_prevented_is_executed_without_another_transaction() {
    let simulation = Platform::simulated(1);
    let house = House::on(simulation.platform.clone(), &["a"], 4, Box::new(|_| Ok(())));
    let database = house.open("a").unwrap();
    let mut random = Random::new(1);
    let text: String = (0..4 << 20).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
    let index = commit(&house, &database, "x", Some(&format!(r#"{{"Text":"{text}"}}"#)));
    simulation.disk.space_limit(Some(0));
    assert!(try_to_execute(&house, &database, index).is_err());
    follow(&house, &database);
    simulation.disk.space_limit(None);
    follow(&house, &database);
    // Behind it in the queue.
    put(&database, "y");
    assert_eq!(database.executed_transaction(), index);
}
