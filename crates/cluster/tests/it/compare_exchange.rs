//! The effects of compare exchange commands.

use cluster_state::{Command, CompareExchangeCommand, Outcome};
use model::DatabaseId;
use platform::Platform;

use crate::{DATABASE, Home, delete, put, value};

fn text(value: Option<blittable::BlittableBuf>) -> Option<String> {
    value.map(|value| String::from_utf8(value.as_view().to_json().unwrap()).unwrap())
}

#[test]
fn a_value_changes_only_for_a_writer_that_names_its_newest_version() {
    let home = Home::open(&Platform::memory());
    let first = home.put("Key", 777, r#"{"Object":1}"#);
    assert!(first.is_successful, "any version will do where there is no value");
    let refused = home.put("kEY", 0, r#"{"Object":2}"#);
    assert!(!refused.is_successful);
    assert_eq!(refused.index, first.index);
    assert_eq!(text(refused.value).unwrap(), r#"{"Object":1}"#);
    let second = home.put("KEY", first.index, r#"{"Object":2}"#);
    assert!(second.is_successful && first.index + 1 < second.index, "a refusal takes an index");
    assert_eq!(home.listed(""), [("key".into(), second.index, r#"{"Object":2}"#.into())]);

    assert!(!home.delete("key", first.index).is_successful);
    let deleted = home.delete("key", second.index);
    assert!(deleted.is_successful && second.index < deleted.index);
    assert_eq!(text(deleted.value).unwrap(), r#"{"Object":2}"#);
    let missing = home.delete("key", 5);
    assert!(missing.is_successful && missing.value.is_none());
    assert!(home.listed("").is_empty());
    assert!(home.put("key", 0, "{}").is_successful);
}

#[test]
fn keys_are_listed_in_the_order_of_their_bytes_and_by_database() {
    let home = Home::open(&Platform::memory());
    for key in ["b", "A2", "a1", " c", "ÜNÏ/1", "a"] {
        home.put(key, 0, "{}");
    }
    let other = DatabaseId([8; 16]);
    let key = "a3".to_owned();
    home.change(CompareExchangeCommand::Put {
        database: other,
        key,
        expected: 0,
        value: value("{}"),
    });
    let keys = |prefix| home.listed(prefix).into_iter().map(|(key, ..)| key).collect::<Vec<_>>();
    assert_eq!(keys(""), [" c", "a", "a1", "a2", "b", "ünï/1"]);
    assert_eq!(keys("A"), ["a", "a1", "a2"]);
    let state = home.cluster.store().read();
    assert_eq!(state.compare_exchange_count(DATABASE).unwrap(), 6);
    assert_eq!(state.compare_exchange_count(other).unwrap(), 1);
    assert_eq!(state.compare_exchange(other, "A3").unwrap().unwrap().key, "a3");
}

#[test]
fn what_was_deleted_is_counted_until_it_is_put_again() {
    let home = Home::open(&Platform::memory());
    for key in ["a", "b"] {
        let put = home.put(key, 0, "{}");
        home.delete(key, put.index);
    }
    let counts = || {
        let state = home.cluster.store().read();
        let deleted = state.deleted_compare_exchange_count(DATABASE).unwrap();
        (state.compare_exchange_count(DATABASE).unwrap(), deleted)
    };
    assert_eq!(counts(), (0, 2));
    home.put("B", 0, "{}");
    assert_eq!(counts(), (1, 1));
}

#[test]
fn what_has_expired_is_removed_and_nothing_else() {
    let home = Home::open(&Platform::memory());
    let at = |year: u32| format!(r#"{{"@metadata":{{"@expires":"{year}-01-01T00:00:00Z"}}}}"#);
    home.put("old", 0, &at(2020));
    let prolonged = home.put("prolonged", 0, &at(2020));
    home.put("prolonged", prolonged.index, &at(2040));
    let emptied = home.put("emptied", 0, &at(2020));
    home.put("emptied", emptied.index, "{}");
    let gone = home.put("gone", 0, &at(2020));
    home.delete("gone", gone.index);
    home.put("new", 0, &at(2040));
    let until_ticks = model::date::parse("2030-01-01T00:00:00Z").unwrap().utc_ticks();
    let removed = home.change(CompareExchangeCommand::RemoveExpired { until_ticks });
    assert_eq!(removed.removed, 1);
    let left: Vec<_> = home.listed("").into_iter().map(|(key, ..)| key).collect();
    assert_eq!(left, ["emptied", "new", "prolonged"]);
}

#[test]
fn a_deleted_database_leaves_nothing() {
    let home = Home::open(&Platform::memory());
    for number in 0..12_000 {
        let command = Command::CompareExchange(put(&format!("k{number}"), 0, "{}"));
        drop(submit_when_there_is_room(&home, &command));
    }
    let removed = Command::RemoveDatabase { database: DATABASE };
    let mut steps = 1;
    loop {
        let applied = home.cluster.submit_and_wait(&removed).unwrap();
        let Outcome::DatabaseRemoved { is_done } = applied.outcome else { panic!() };
        if is_done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 1, "many entries take many commands");
    assert!(home.listed("").is_empty());
    assert_eq!(home.cluster.store().read().compare_exchange_count(DATABASE).unwrap(), 0);
    home.put("k1", 0, "{}");
    let again = home.delete("k1", 0);
    assert!(!again.is_successful);
}

fn submit_when_there_is_room(home: &Home, command: &Command) -> cluster::Submission {
    loop {
        match home.cluster.submit(command, None) {
            Ok(submission) => return submission,
            Err(cluster_state::ClusterError::Busy) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_request_that_is_sent_again_is_answered_again() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    let send = |home: &Home, command, id: &str| {
        let command = Command::CompareExchange(command);
        let submission = home.cluster.submit(&command, Some(id)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let applied = runtime.block_on(submission).unwrap();
        match applied.outcome {
            Outcome::CompareExchange(outcome) => (applied.index, outcome.is_successful),
            other => panic!("{other:?}"),
        }
    };
    let first = send(&home, put("a", 0, r#"{"Object":1}"#), "one");
    assert!(first.1);
    assert_eq!(send(&home, put("a", 0, r#"{"Object":1}"#), "one"), first);
    assert!(!send(&home, put("a", 0, r#"{"Object":1}"#), "two").1);
    assert!(!send(&home, put("a", 0, r#"{"Object":1}"#), &"x".repeat(200)).1);
    home.close();
    let home = Home::open(&platform);
    assert_eq!(send(&home, put("a", 0, r#"{"Object":1}"#), "one"), first);
    assert!(send(&home, delete("a", first.0), "three").1);
    assert_eq!(home.listed("").len(), 0);
    assert_eq!(send(&home, put("a", 0, r#"{"Object":1}"#), "one"), first);
    assert_eq!(home.listed("").len(), 0, "it is not applied a second time");
}
