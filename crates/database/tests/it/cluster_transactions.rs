//! The documents of cluster-wide transactions: each request gets the outcome of its own transaction,
//! whichever request caused the execution.

use std::sync::mpsc;

use cluster_state::{ClusterTransaction, Command, DocumentChange, Guard, Outcome};
use commands::BatchOutcome;
use database::DatabaseLease;
use model::{CollectionName, Etag};

use crate::registry::{House, put};

/// Stores a transaction for the database; returns its index.
fn commit(house: &House, database: &DatabaseLease, id: &str, json: Option<&str>) -> u64 {
    let body = json.map(|json| {
        blittable::parse_document(json.as_bytes(), &blittable::ParseLimits::default()).unwrap()
    });
    let transaction = ClusterTransaction {
        database: database.record().topology_id,
        values: Vec::new(),
        documents: vec![DocumentChange { id: id.to_owned(), body, guard: Guard::Off }],
        ticks: 1,
        executed: database.executed_transaction(),
    };
    let applied = house.catalog.cluster().submit_and_wait(&Command::Transaction(transaction));
    let applied = applied.unwrap();
    assert!(matches!(applied.outcome, Outcome::Transaction(_)));
    applied.index
}

fn execute(house: &House, database: &DatabaseLease, index: u64) -> Option<BatchOutcome> {
    let (sender, receiver) = mpsc::channel();
    let done = move |outcome| drop(sender.send(outcome));
    database.execute_transaction(house.catalog.cluster().store(), index, done);
    receiver.recv().unwrap().unwrap()
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
