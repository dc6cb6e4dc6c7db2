//! The configuration of an open database follows its record, whatever changes concurrently.

use database::{AccessError, Decision};
use model::DatabaseRecord;
use serde_json::{Map, Value, json};

use crate::{registry::House, toggle};

const ROUNDS: u64 = 100;

fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(record.configuration.json()).unwrap()
}

fn change_body(house: &House, mut change: impl FnMut(&mut Map<String, Value>)) {
    let changed = house.registry.change_record("a", |record, draft| {
        let mut body = body_of(record);
        change(&mut body);
        draft.body = Value::Object(body).to_string().into_bytes();
        Decision::Replace
    });
    assert!(changed.unwrap().is_some());
}

/// Replaces the index of the last round.
fn put_index(house: &House, round: u64) {
    let name = format!("I{round}");
    let definition = json!({"Name": name, "Maps": ["from d in docs.Ds select new { d.N }"]});
    change_body(house, |body| {
        drop(body.insert("Indexes".to_owned(), json!({ name.as_str(): definition })))
    });
}

/// Sets a section that is applied quickly.
fn put_section(house: &House, section: &str, round: u64) {
    let seconds = json!({"Disabled": false, "DeleteFrequencyInSec": 60 + round});
    change_body(house, |body| drop(body.insert(section.to_owned(), seconds.clone())));
}

/// Compares the configuration of the open database with its record.
fn check(house: &House, round: u64) {
    let (database, stored) = (house.open("a").unwrap(), house.catalog.record("a").unwrap());
    let open = database.record();
    assert_eq!((open.etag, body_of(&open)), (stored.etag, body_of(&stored)), "round {round}");
    let names: Vec<_> =
        database.indexes().all().iter().map(|index| index.name().to_owned()).collect();
    assert_eq!(names, [format!("I{round}")]);
}

/// Changes several things at once, while `meanwhile` runs in parallel, and checks after each round.
fn change_at_once(house: &House, meanwhile: impl Fn() + Sync) {
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            scope.spawn(|| put_index(house, round));
            scope.spawn(|| put_section(house, "Expiration", round));
            scope.spawn(|| put_section(house, "Refresh", round));
            scope.spawn(&meanwhile);
        });
        check(house, round);
    }
}

#[test]
fn changes_at_once_are_all_in_force() {
    let house = House::simple(&["a"]);
    drop(house.open("a").unwrap());
    change_at_once(&house, || ());
}

#[test]
fn changes_while_the_database_opens_and_closes_are_in_force() {
    let house = House::simple(&["a"]);
    change_at_once(&house, || {
        house.registry.with_closed("a", || ());
        drop(house.open("a").unwrap());
    });
}

#[test]
fn a_database_that_is_disabled_while_it_opens_does_not_open() {
    let house = House::simple(&["a"]);
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| house.open("a").map(drop));
            house.registry.change_record("a", toggle(true)).unwrap();
            // Whether it was already open is left to chance.
            drop(opening.join().unwrap());
        });
        assert!(house.registry.if_open("a").is_none());
        assert!(matches!(house.open("a"), Err(AccessError::Disabled)));
        house.registry.change_record("a", toggle(false)).unwrap();
    }
}

#[test]
fn a_database_whose_disabling_was_interrupted_is_closed_when_it_is_repeated() {
    let house = House::simple(&["a"]);
    drop(house.open("a").unwrap());
    // The record is changed, and then the request ends before the database is closed.
    house.catalog.update("a", toggle(true)).unwrap();
    assert!(house.registry.if_open("a").is_some());
    house.registry.change_record("a", toggle(true)).unwrap();
    assert!(house.registry.if_open("a").is_none());
}
