//! Changes of subscriptions: all that are acknowledged are in force.

use cluster_state::{SubscriptionRecord, SubscriptionSettings};
use database::DatabaseLease;
use engine::{Engine, EngineError, NewSubscription, SubscriptionKey, SubscriptionUpdate};
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
