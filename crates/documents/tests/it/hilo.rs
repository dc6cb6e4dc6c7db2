//! Ranges of numbers and identities.

use documents::{DocumentError, HILO_CAPACITY_MAX, HILO_END_MAX, HiLoRange, HiLoRequest};
use model::NodeTag;

use crate::database::{Database, version};

fn request(tag: &str, last_batch_size: i64, last_max: i64) -> HiLoRequest {
    let (tag, separator) = (tag.to_owned(), "/".to_owned());
    HiLoRequest { tag, last_batch_size, last_range_at_ticks: None, last_max, separator }
}

fn next(database: &Database, request: &HiLoRequest) -> Result<HiLoRange, DocumentError> {
    database.write(|writer| writer.next_hilo_range(request))
}

fn give_back(database: &Database, tag: &str, end: i64, last: i64) {
    database.write(|writer| writer.return_hilo_range(tag, end, last)).unwrap();
}

#[test]
fn ranges_follow_each_other() {
    let database = Database::new();
    let range = next(&database, &request("users", 0, 0)).unwrap();
    assert_eq!((range.low, range.high, range.last_size), (1, 32, 32));
    assert_eq!((range.prefix.as_str(), range.server_tag), ("users/", NodeTag::A));
    let range = next(&database, &request("users", 100, 1000)).unwrap();
    assert_eq!((range.low, range.high, range.last_size), (1001, 1100, 100));
    let mut busy = request("USERS", 32, 0);
    busy.last_range_at_ticks = Some(range.last_range_at_ticks);
    busy.separator = "-".to_owned();
    database.pass(29);
    let range = next(&database, &busy).unwrap();
    assert_eq!((range.low, range.high, range.prefix.as_str()), (1101, 1164, "USERS-"));
    let json = database.json("Raven/Hilo/users").unwrap();
    let start = format!(
        r#"{{"Max":1164,"@metadata":{{"@collection":"@hilo","@change-vector":"{}","@id":"Raven/Hilo/USERS""#,
        version(3)
    );
    assert!(json.starts_with(&start), "{json}");
}

#[test]
fn the_unused_end_of_the_last_range_can_be_given_back() {
    let database = Database::new();
    next(&database, &request("a", 0, 0)).unwrap();
    let end = |database: &Database| database.json("Raven/Hilo/a").unwrap()[..10].to_owned();
    give_back(&database, "a", 32, 10);
    assert!(end(&database).starts_with(r#"{"Max":10,"#));
    for (last_end, last) in [(32, 5), (10, 11), (10, 10)] {
        give_back(&database, "a", last_end, last);
        assert!(end(&database).starts_with(r#"{"Max":10,"#), "{last_end} {last}");
    }
    give_back(&database, "nothing", 10, 1);
    assert_eq!(database.json("Raven/Hilo/nothing"), None);
    let range = next(&database, &request("a", 0, 0)).unwrap();
    assert_eq!((range.low, range.high), (11, 42));
}

#[test]
fn documents_that_users_wrote_are_respected() {
    let database = Database::new();
    let cases = [
        (r#"{"Maxx":5}"#, r#"{"Maxx":5,"Max":32,"#),
        (r#"{"Max":3.5}"#, r#"{"Max":35,"#),
        (r#"{"Max":5,"B":1}"#, r#"{"Max":37,"B":1,"#),
    ];
    for (number, (json, expected)) in cases.into_iter().enumerate() {
        database.put(&format!("Raven/Hilo/t{number}"), json);
        next(&database, &request(&format!("t{number}"), 0, 0)).unwrap();
        let stored = database.json(&format!("Raven/Hilo/t{number}")).unwrap();
        assert!(stored.starts_with(expected), "{stored}");
    }
    database.put("Raven/Hilo/text", r#"{"Max":"a"}"#);
    let error = next(&database, &request("text", 0, 0)).unwrap_err();
    let expected = "Could not convert Sparrow.Json.LazyStringValue ('a') to System.Int64";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn no_request_uses_up_the_numbers_of_a_tag() {
    let database = Database::new();
    let near_the_end = HILO_END_MAX - 20;
    let refused = [(10, i64::MAX), (10, i64::MAX - 9), (10, HILO_END_MAX + 1), (i64::MAX, 0)];
    for (size, last_max) in refused.into_iter().chain([(2 * HILO_CAPACITY_MAX, near_the_end)]) {
        let error = next(&database, &request("u", size, last_max)).unwrap_err();
        assert!(matches!(error, DocumentError::HiLoExhausted { .. }), "{error}");
        let expected = "No range of numbers after";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(database.json("Raven/Hilo/u"), None, "{size} {last_max}");
    }
    // Beyond the limit for requests, the numbers are used up by counting only: clients send the end of
    // their last range.
    let mut last = near_the_end;
    for _ in 0..3 {
        let range = next(&database, &request("u", 32, last)).unwrap();
        assert_eq!((range.low, range.high), (last + 1, last + 32));
        last = range.high;
    }
}

#[test]
fn a_range_beyond_the_last_number_is_refused_and_none_is_assigned_twice() {
    let database = Database::new();
    let stored = [i64::MAX, i64::MAX - 31];
    for (number, end) in stored.into_iter().enumerate() {
        let (tag, id) = (format!("t{number}"), format!("Raven/Hilo/t{number}"));
        database.put(&id, &format!(r#"{{"Max":{end}}}"#));
        for _ in 0..2 {
            let error = next(&database, &request(&tag, 0, 0)).unwrap_err();
            let expected = format!("No range of numbers after {end} can be assigned to '{tag}'");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        let json = database.json(&id).unwrap();
        assert!(json.starts_with(&format!(r#"{{"Max":{end},"#)), "{json}");
    }
    database.put("Raven/Hilo/last", &format!(r#"{{"Max":{}}}"#, i64::MAX - 32));
    let range = next(&database, &request("last", 0, 0)).unwrap();
    assert_eq!((range.low, range.high), (i64::MAX - 31, i64::MAX));
    next(&database, &request("last", 0, 0)).unwrap_err();
}

#[test]
fn identities_rise_by_one_and_compare_without_case() {
    let database = Database::new();
    let next = |name: &str| database.write(|writer| writer.next_identity(name)).unwrap();
    let seed = |name: &str, value, force| {
        database.write(|writer| writer.seed_identity(name, value, force)).unwrap()
    };
    assert_eq!((next("New"), next("new|"), next("NEW")), (1, 2, 3));
    assert_eq!(seed("new", 42, false), 42);
    assert_eq!(seed("new|", 7, false), 42);
    assert_eq!(seed("New", 7, true), 7);
    assert_eq!(next("new"), 8);
    assert_eq!(seed("other", 50, false), 50);
    let identities = documents::identities(&database.read()).unwrap();
    assert_eq!(identities, [("new|".to_owned(), 8), ("other|".to_owned(), 50)]);
    let error = database.write(|writer| writer.next_identity(&"x".repeat(513))).unwrap_err();
    assert!(matches!(error, DocumentError::IdTooLong(_)));
}
