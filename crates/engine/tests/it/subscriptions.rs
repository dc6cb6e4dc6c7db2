//! Changes of subscriptions: all that are acknowledged are in force, and end the workers that they concern.

use std::sync::Arc;

use cluster_state::{SubscriptionRecord, SubscriptionSettings};
use database::DatabaseLease;
use engine::{Engine, EngineError, NewSubscription, SubscriptionKey, SubscriptionUpdate};
use subscriptions::{
    ConnectionFacts, Ended, Standing, StoredSubscription, Strategy, Wake, Worker, WorkerRequest,
};
use wire::SubscriptionStart;

use crate::with_database;

const ROUNDS: u64 = 50;
const NOTHING: SubscriptionUpdate = SubscriptionUpdate {
    name: None,
    query: None,
    mentor_node: None,
    is_pinned: None,
    is_disabled: None,
    start: SubscriptionStart::Unspecified,
};

fn create(engine: &Engine, database: &DatabaseLease, name: &str) -> SubscriptionRecord {
    let new = NewSubscription {
        id: None,
        name: Some(name.to_owned()),
        settings: SubscriptionSettings { query: "from Users".to_owned(), ..Default::default() },
        start: SubscriptionStart::Unspecified,
    };
    engine.create_subscription(database, new, None).unwrap()
}

#[test]
fn updates_of_several_threads_do_not_undo_each_other() {
    let (engine, database) = with_database();
    let key = SubscriptionKey::Id(create(&engine, &database, "s").id);
    let update = |update: SubscriptionUpdate, round: u64| {
        let request = format!("{round} {update:?}");
        let updated = engine.update_subscription(&database, &key, &update, Some(&request)).unwrap();
        assert!(updated.is_some(), "{update:?}");
    };
    for round in 1..=ROUNDS {
        let text = format!("{round}");
        let query = format!("from Users where Age > {round}");
        let is_odd = round % 2 == 1;
        std::thread::scope(|scope| {
            for change in [
                SubscriptionUpdate { name: Some(text.clone()), ..NOTHING },
                SubscriptionUpdate { query: Some(query.clone()), ..NOTHING },
                SubscriptionUpdate { mentor_node: Some(text.clone()), ..NOTHING },
                SubscriptionUpdate { is_disabled: Some(is_odd), ..NOTHING },
            ] {
                let update = &update;
                scope.spawn(move || update(change, round));
            }
        });
        let record = engine.subscription(&database, &key).unwrap();
        let settings = SubscriptionSettings {
            query,
            mentor_node: Some(text.clone()),
            is_pinned: false,
            is_disabled: is_odd,
        };
        assert_eq!((record.name, record.settings), (text, settings), "round {round}");
    }
}

#[test]
fn what_cannot_be_changed_is_refused_and_what_is_already_so_is_no_change() {
    let (engine, database) = with_database();
    let record = create(&engine, &database, "s");
    create(&engine, &database, "other");
    let key = SubscriptionKey::Name("S".to_owned());
    let same = SubscriptionUpdate { query: Some("from Users".to_owned()), ..NOTHING };
    assert_eq!(engine.update_subscription(&database, &key, &same, None).unwrap(), None);
    let taken = SubscriptionUpdate { name: Some("Other".to_owned()), ..NOTHING };
    let refused = engine.update_subscription(&database, &key, &taken, None);
    assert!(matches!(refused, Err(EngineError::SubscriptionNameTaken { .. })), "{refused:?}");
    let invalid = SubscriptionUpdate { query: Some("where".to_owned()), ..NOTHING };
    let refused = engine.update_subscription(&database, &key, &invalid, None);
    assert!(matches!(refused, Err(EngineError::Query(_))), "{refused:?}");
    assert_eq!(engine.subscription(&database, &key).unwrap(), record);
    engine.delete_subscription(&database, "s", None).unwrap();
    let refused = engine.update_subscription(&database, &key, &taken, None);
    assert!(matches!(refused, Err(EngineError::SubscriptionMissing { .. })), "{refused:?}");
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A worker that begins with this record.
fn connect(engine: &Engine, database: &DatabaseLease, record: &SubscriptionRecord) -> Worker {
    let query = engine.check_subscription_query(&record.settings.query).unwrap();
    let stored = StoredSubscription {
        id: record.id,
        name: &record.name,
        query_text: &record.settings.query,
        query: Arc::new(query),
        version: record.version,
        position: &record.position,
        is_taken_over: false,
    };
    let facts = ConnectionFacts {
        connection: 1,
        client_address: String::new(),
        worker_id: String::new(),
        connected_ticks: 0,
    };
    let request = WorkerRequest { strategy: Strategy::TakeOver, facts, wake: Arc::new(Nobody) };
    database.subscriptions().connect(&stored, 10, request).map_err(drop).unwrap()
}

#[test]
fn a_worker_that_connects_while_its_subscription_changes_ends() {
    let (engine, database) = with_database();
    let id = database.record().topology_id;
    let query = SubscriptionUpdate { query: Some("from Dogs".to_owned()), ..NOTHING };
    let position = SubscriptionUpdate {
        start: SubscriptionStart::After("A:7-AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap()),
        ..NOTHING
    };
    let disabled = SubscriptionUpdate { is_disabled: Some(true), ..NOTHING };
    let pinned = SubscriptionUpdate { is_pinned: Some(true), ..NOTHING };
    for (name, change, ended) in [
        ("a", Some(query), Some(Ended::QueryChanged)),
        ("b", Some(position), Some(Ended::Moved)),
        ("c", Some(disabled), Some(Ended::Disabled)),
        ("d", Some(pinned), None),
        ("e", None, Some(Ended::Deleted)),
    ] {
        let known = create(&engine, &database, name);
        let key = SubscriptionKey::Id(known.id);
        match &change {
            Some(change) => {
                let updated = engine.update_subscription(&database, &key, change, None).unwrap();
                assert!(updated.is_some(), "{name}");
            }
            None => engine.delete_subscription(&database, name, None).unwrap(),
        }
        let worker = connect(&engine, &database, &known);
        let connected = engine.store_connected(id, &worker, 1).unwrap().wait().unwrap();
        assert_eq!(connected, ended, "{name}");
    }
    // A change after that finds the worker.
    let known = create(&engine, &database, "f");
    let worker = connect(&engine, &database, &known);
    assert_eq!(engine.store_connected(id, &worker, 1).unwrap().wait().unwrap(), None);
    engine.set_subscription_disabled(&database, known.id, true, None).unwrap();
    assert_eq!(worker.standing(), Standing::Ended(Ended::Disabled));
}
