//! Changes of subscriptions that are decided on a record.

use cluster_state::{
    Command, Handover, Outcome, SubscriptionCommand, SubscriptionOutcome, SubscriptionPosition,
    SubscriptionRecord, SubscriptionSettings,
};
use model::{ChangeVector, DatabaseId, Etag};
use platform::Platform;

use crate::{DATABASE, Home};

fn submit(home: &Home, command: SubscriptionCommand, request: Option<&str>) -> SubscriptionOutcome {
    let command = Command::Subscription(command);
    match home.cluster.submit(&command, request).unwrap().wait().unwrap().outcome {
        Outcome::Subscription(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn done(outcome: SubscriptionOutcome) -> SubscriptionRecord {
    match outcome {
        SubscriptionOutcome::Done(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn create(home: &Home) -> SubscriptionRecord {
    let command = SubscriptionCommand::Create {
        database: DATABASE,
        id: None,
        name: Some("s".to_owned()),
        settings: SubscriptionSettings { query: "from Users".to_owned(), ..Default::default() },
        position: SubscriptionPosition::default(),
    };
    done(submit(home, command, None))
}

/// An update that was decided on `record`.
fn update(
    record: &SubscriptionRecord,
    change: impl FnOnce(&mut SubscriptionSettings),
) -> SubscriptionCommand {
    let mut settings = record.settings.clone();
    change(&mut settings);
    SubscriptionCommand::Update {
        database: DATABASE,
        id: record.id,
        expected: Some(record.index),
        name: record.name.clone(),
        settings,
        position: None,
    }
}

fn stored(home: &Home, id: u64) -> SubscriptionRecord {
    home.cluster.store().read().subscription_by_id(DATABASE, id).unwrap().unwrap()
}

#[test]
fn an_update_of_an_older_record_has_no_effect_and_is_decided_again() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    let record = create(&home);
    let disable =
        SubscriptionCommand::Disable { database: DATABASE, id: record.id, is_disabled: true };
    assert!(done(submit(&home, disable, None)).settings.is_disabled);
    let rename = |record: &SubscriptionRecord| {
        update(record, |settings| settings.mentor_node = Some("B".to_owned()))
    };
    let request = Some("one request");
    let refused = submit(&home, rename(&record), request);
    assert_eq!(refused, SubscriptionOutcome::OtherVersion);
    assert_eq!(stored(&home, record.id).settings.mentor_node, None);
    // The second attempt belongs to the same request, and is applied nevertheless; a third one is not.
    let present = stored(&home, record.id);
    let changed = done(submit(&home, rename(&present), request));
    assert!(changed.settings.is_disabled && changed.settings.mentor_node.as_deref() == Some("B"));
    assert_eq!(done(submit(&home, rename(&present), request)), changed);
    home.close();
    let home = Home::open(&platform);
    assert_eq!(stored(&home, record.id), changed);
}

#[test]
fn progress_is_no_other_version_and_a_subscription_of_the_same_number_is_one() {
    let home = Home::open(&Platform::memory());
    let record = create(&home);
    let (database, id) = (DATABASE, record.id);
    let connect = SubscriptionCommand::Connect { database, id, node_tag: "A".into(), ticks: 1 };
    done(submit(&home, connect, None));
    let pin = update(&record, |settings| settings.is_pinned = true);
    assert!(done(submit(&home, pin.clone(), None)).settings.is_pinned);
    let delete = SubscriptionCommand::Delete { database, name: "S".to_owned() };
    assert_eq!(submit(&home, delete, None), SubscriptionOutcome::Deleted(Some(id)));
    assert_eq!(submit(&home, pin.clone(), None), SubscriptionOutcome::Missing);
    let again = SubscriptionCommand::Create {
        database,
        id: Some(id),
        name: None,
        settings: SubscriptionSettings::default(),
        position: SubscriptionPosition::default(),
    };
    done(submit(&home, again, None));
    assert_eq!(submit(&home, pin, None), SubscriptionOutcome::OtherVersion);
}

#[test]
fn what_a_worker_acknowledges_after_another_one_connected_elsewhere_is_ignored() {
    let home = Home::open(&Platform::memory());
    let record = create(&home);
    let (database, id, version) = (DATABASE, record.id, record.version);
    let connect = |tag: &str| SubscriptionCommand::Connect {
        database,
        id,
        node_tag: tag.to_owned(),
        ticks: 1,
    };
    let advance = |tag: &str, reader: u8, cursor: u64| {
        let handover = Handover {
            reader: DatabaseId([reader; 16]),
            passed: ChangeVector::empty(),
            passed_elsewhere: ChangeVector::empty(),
        };
        let (cursor, handover) = (Etag(cursor), Some(handover));
        SubscriptionCommand::Advance {
            database,
            id,
            version,
            node_tag: Some(tag.to_owned()),
            position: SubscriptionPosition { cursor, handover, ..Default::default() },
            acknowledged_ticks: Some(2),
        }
    };
    done(submit(&home, connect("A"), None));
    done(submit(&home, advance("A", 1, 9), None));
    assert_eq!(submit(&home, advance("A", 1, 8), None), SubscriptionOutcome::Outdated);
    done(submit(&home, connect("B"), None));
    assert_eq!(submit(&home, advance("A", 1, 10), None), SubscriptionOutcome::OtherNode);
    // The etags of another node are others.
    done(submit(&home, advance("B", 2, 3), None));
    assert_eq!(stored(&home, id).position.cursor, Etag(3));
}
