//! Documents that expire or are refreshed at a time.

use std::{collections::BTreeMap, time::Duration};

use documents::{DueAction, ExpectedVersion, RequestedId};
use model::{
    DocumentFlags, DocumentId, RevisionsConfiguration, date,
    ticks::{TICKS_MAX, TICKS_PER_SECOND, UNIX_EPOCH_TICKS},
};
use platform::{Timestamp, simulated::Random};

use crate::{
    database::{Database, body},
    revisions::rule,
};

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

fn with(property: &str, ticks: i64) -> String {
    format!(r#"{{"@metadata":{{"@collection":"T","{property}":"{}"}}}}"#, date::format(ticks))
}

/// `platform` uses no other crate, so it has these numbers for itself.
#[test]
fn the_clock_and_dates_have_the_same_calendar() {
    assert_eq!(Timestamp::from_ticks(i64::MAX).ticks(), TICKS_MAX);
    let of_1970 = Timestamp::from_unix(Duration::ZERO);
    assert_eq!(of_1970.ticks(), UNIX_EPOCH_TICKS);
    assert_eq!(of_1970.plus(Duration::from_secs(1)).ticks(), UNIX_EPOCH_TICKS + TICKS_PER_SECOND);
}

impl Database {
    fn now(&self) -> i64 {
        self.simulation.platform.clock.now().ticks()
    }

    fn due(&self, action: DueAction) -> Vec<String> {
        let tx = self.read();
        let due = documents::due(&tx, action, self.now()).unwrap();
        due.map(|id| id.unwrap().as_str().to_owned()).collect()
    }

    fn apply_due_action(&self, of: &str, action: DueAction) -> bool {
        self.write(|writer| writer.apply_due_action(&id(of), action)).unwrap()
    }
}

#[test]
fn documents_are_due_at_their_time_the_earliest_first() {
    let database = Database::new();
    let now = database.now();
    for (name, seconds) in [("T/late", 20), ("T/soon", 5), ("T/past", -100_000), ("T/never", 900)] {
        database.put(name, &with("@expires", now + seconds * TICKS_PER_SECOND));
    }
    database.put("T/refresh", &with("@refresh", now));
    assert_eq!(database.due(DueAction::Expire), ["t/past"]);
    assert_eq!(database.due(DueAction::Refresh), ["t/refresh"]);
    database.pass(30);
    assert_eq!(database.due(DueAction::Expire), ["t/past", "t/soon", "t/late"]);
    assert!(database.apply_due_action("t/soon", DueAction::Expire));
    assert!(database.json("T/soon").is_none());
    assert!(!database.apply_due_action("t/soon", DueAction::Expire), "it is gone");
    assert!(!database.apply_due_action("t/never", DueAction::Expire), "it is not due");
    assert_eq!(database.due(DueAction::Expire), ["t/past", "t/late"]);
}

#[test]
fn a_document_that_was_changed_meanwhile_is_left_alone() {
    let database = Database::new();
    let now = database.now();
    database.put("t/1", &with("@expires", now));
    assert_eq!(database.due(DueAction::Expire), ["t/1"]);
    database.put("t/1", &with("@expires", now + 900 * TICKS_PER_SECOND));
    assert!(!database.apply_due_action("t/1", DueAction::Expire));
    assert!(database.due(DueAction::Expire).is_empty());
    database.put("t/1", r#"{"@metadata":{"@collection":"T"}}"#);
    database.pass(1000);
    assert!(database.due(DueAction::Expire).is_empty());
}

#[test]
fn refreshing_takes_the_time_away_and_is_a_new_version() {
    let database = Database::new();
    *database.revisions.borrow_mut() = RevisionsConfiguration::new(Some(rule(Some(5))));
    let stored = database.put("t/1", &with("@refresh", database.now()));
    assert!(database.apply_due_action("T/1", DueAction::Refresh));
    let json = database.json("t/1").unwrap();
    assert!(!json.contains("@refresh") && json.contains(r#""@collection":"T""#), "{json}");
    assert!(!json.contains(stored.change_vector.as_str()));
    assert_eq!(documents::revision_count(&database.read(), &id("t/1")).unwrap(), 2);
    assert!(!database.apply_due_action("t/1", DueAction::Refresh));
}

#[test]
fn an_archived_document_stays_archived_until_its_metadata_is_changed() {
    let database = Database::new();
    database.put("t/1", r#"{"@metadata":{"@archived":true,"@collection":"T"}}"#);
    let flags = |id_text: &str| {
        let tx = database.read();
        documents::get(&tx, &id(id_text)).unwrap().unwrap().flags()
    };
    assert_eq!(flags("t/1"), DocumentFlags::NONE, "a client does not archive by saying so");
    database.put("t/1", &with("@archive-at", database.now()));
    assert_eq!(database.due(DueAction::Archive), ["t/1"]);
    assert!(database.apply_due_action("t/1", DueAction::Archive));
    let json = database.json("t/1").unwrap();
    assert!(json.contains(r#"{"@archived":true,"@collection":"T""#), "{json}");
    assert!(json.contains(r#""@flags":"Archived""#) && !json.contains("@archive-at"), "{json}");
    database.put("t/1", r#"{"A":1,"@metadata":{"@collection":"T"}}"#);
    assert!(database.json("t/1").unwrap().contains(r#""@archived":true"#), "a put keeps it");
    let replace = |json: &str| database.write(|writer| writer.replace(&id("t/1"), &body(json)));
    replace(r#"{"A":2,"@metadata":{"@archived":true,"@collection":"T"}}"#).unwrap();
    assert_eq!(flags("t/1"), DocumentFlags::ARCHIVED);
    replace(r#"{"A":2,"@metadata":{"@collection":"T"}}"#).unwrap().unwrap();
    assert_eq!(flags("t/1"), DocumentFlags::NONE);
    assert!(!database.json("t/1").unwrap().contains("@archived"));
    documents::check(&database.read()).unwrap();
}

#[test]
fn what_is_no_date_is_no_time() {
    let database = Database::new();
    database.put("t/1", r#"{"@metadata":{"@expires":5,"@refresh":{"a":1}}}"#);
    database.put("t/2", r#"{"@metadata":{"@expires":"0001-01-01T00:00:00+14:00"}}"#);
    assert_eq!(database.due(DueAction::Expire), ["t/2"]);
    assert!(database.due(DueAction::Refresh).is_empty());
    assert!(!database.apply_due_action("t/1", DueAction::Expire));
}

/// The invariant itself is looked at by `documents::check` after each step.
#[test]
fn generated_histories_agree_with_a_naive_model() {
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let database = Database::new();
        let mut naive: BTreeMap<String, i64> = BTreeMap::new();
        for step in 0..80 {
            database.pass(random.below(20));
            let name = format!("t/{}", random.below(6));
            match random.below(5) {
                0 => {
                    naive.remove(&name);
                    database.delete(&name);
                }
                1 => {
                    naive.remove(&name);
                    database.put(&name, r#"{"@metadata":{"@collection":"T"}}"#);
                }
                2 => {
                    let is_done = database.apply_due_action(&name, DueAction::Expire);
                    let is_due =
                        naive.get(&name).is_some_and(|time| *time <= database.last_write());
                    assert_eq!(is_done, is_due, "seed {seed}, step {step}");
                    if is_due {
                        naive.remove(&name);
                    }
                }
                _ => {
                    let ahead = random.below(60).cast_signed() - 10;
                    // Between two seconds, because the clock goes on a little at each look.
                    let time = database.now() + ahead * TICKS_PER_SECOND + TICKS_PER_SECOND / 2;
                    naive.insert(name.clone(), time);
                    let of = RequestedId::Exactly(id(&name));
                    let json = body(&with("@expires", time));
                    let any = ExpectedVersion::Any;
                    database.write(|writer| writer.put(&of, &any, &json)).unwrap();
                }
            }
            let mut due = database.due(DueAction::Expire);
            due.sort();
            let now = database.now();
            let expected = naive.iter().filter(|(_, time)| **time <= now);
            let expected: Vec<String> = expected.map(|(name, _)| name.clone()).collect();
            assert_eq!(due, expected, "seed {seed}, step {step}");
        }
    }
}
