//! A machine whose clock is wrong by thousands of years: everything works, and every date is valid.

use std::{sync::Arc, time::Duration};

use model::ticks::TICKS_MAX;
use platform::{Clock, Platform, Timestamp};
use serde_json::Value;

use crate::test_server::TestServer;

/// Always shows the same wall-clock time.
struct StoppedClock {
    wall: Timestamp,
    true_one: Arc<dyn Clock>,
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.wall
    }

    fn monotonic(&self) -> Duration {
        self.true_one.monotonic()
    }
}

/// Every text that looks like a date must be a valid date.
fn check_dates(value: &Value, context: &str) {
    match value {
        Value::String(text) => {
            let looks_like_one = text.contains("-01T") || text.contains("-31T");
            if looks_like_one && text.len() < 40 {
                let date = text.trim_end_matches('Z');
                let year = date.split('-').next().unwrap();
                assert!(year.len() == 4 && year.parse::<u16>().is_ok(), "{context}: {text}");
                assert!(year != "0000", "{context}: {text}");
            }
        }
        Value::Array(values) => values.iter().for_each(|value| check_dates(value, context)),
        Value::Object(values) => values.values().for_each(|value| check_dates(value, context)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fill(server: &TestServer) {
    let posts: [(&str, &str, &str); 9] = [
        (
            "POST",
            "/databases/db/admin/revisions/config",
            r#"{"Default":{"MinimumRevisionAgeToKeep":"100.00:00:00"}}"#,
        ),
        (
            "POST",
            "/databases/db/admin/expiration/config",
            r#"{"Disabled":false,"DeleteFrequencyInSec":1}"#,
        ),
        (
            "POST",
            "/databases/db/admin/refresh/config",
            r#"{"Disabled":false,"RefreshFrequencyInSec":1}"#,
        ),
        (
            "PUT",
            "/databases/db/docs?id=a",
            r#"{"Name":"x","@metadata":{"@collection":"Users","@expires":"9999-12-31T23:59:59.9999999Z"}}"#,
        ),
        (
            "PUT",
            "/databases/db/docs?id=a",
            r#"{"Name":"y","@metadata":{"@collection":"Users","@refresh":"0001-01-01T00:00:00.0000000Z"}}"#,
        ),
        (
            "PUT",
            "/databases/db/docs?id=b",
            r#"{"@metadata":{"@collection":"Users","@expires":"0001-01-01T00:00:00.0000000Z"}}"#,
        ),
        (
            "POST",
            "/databases/db/timeseries?docId=a",
            r#"{"Name":"h","Appends":[{"Timestamp":"9999-12-31T23:59:59.999Z","Values":[1]},{"Timestamp":"0001-01-01T00:00:00.000Z","Values":[2]}]}"#,
        ),
        (
            "POST",
            "/databases/db/counters",
            r#"{"Documents":[{"DocumentId":"a","Operations":[{"Type":"Increment","CounterName":"c","Delta":1}]}]}"#,
        ),
        (
            "PUT",
            "/databases/db/cmpxchg?key=k&index=0",
            r#"{"Object":1,"@metadata":{"@expires":"9999-12-31T23:59:59.9999999Z"}}"#,
        ),
    ];
    for (method, target, body) in posts {
        let reply = server.send(method, target, body.as_bytes());
        assert!(reply.status < 300, "{method} {target}: {}", reply.text());
    }
    let queries = [
        "from Users where Name = 'y'",
        "from Users where startsWith(Name, 'y') order by Name include timeseries('h', last(3, 'days'))",
        "from Users as u select timeseries(from u.h last 4 months group by '1 year' select max())",
        "from Users as u select { now: new Date(), old: lastModified(u) }",
    ];
    for query in queries {
        let body = serde_json::json!({"Query": query, "WaitForNonStaleResults": true}).to_string();
        let reply =
            server.send("POST", "/databases/db/queries?metadataOnly=false", body.as_bytes());
        assert!(reply.status == 200, "{query}: {}", reply.text());
        check_dates(&reply.json(), query);
    }
}

fn is_judged_here(path: &str) -> bool {
    // An endless response.
    !path.ends_with("/tail")
}

fn check(ticks: i64) {
    let mut platform = Platform::memory();
    let true_one = Arc::clone(&platform.clock);
    platform.clock = Arc::new(StoppedClock { wall: Timestamp::from_ticks(ticks), true_one });
    let server = TestServer::start(platform, &[]);
    server.create("db");
    fill(&server);
    let reads = server::route_requirements().filter(|(method, ..)| *method == "GET");
    for (_, path, _) in reads.filter(|(_, path, _)| is_judged_here(path)) {
        let target = format!("{}?id=a&docId=a&name=h&key=k", path.replace('*', "db"));
        let reply = server.get(&target);
        assert!(!reply.text().contains("handler failed"), "{ticks} {target}: {}", reply.text());
        if let Ok(json) = serde_json::from_slice(&reply.body) {
            check_dates(&json, &target);
        }
    }
    assert_eq!(server.document("a")["Name"], "y");
    server.stop();
}

#[test]
fn a_clock_at_the_end_of_the_calendar_breaks_nothing() {
    check(TICKS_MAX);
    check(i64::MAX);
    check(TICKS_MAX - 30_000_000);
}

#[test]
fn a_clock_at_the_beginning_of_the_calendar_breaks_nothing() {
    check(0);
    check(i64::MIN);
    check(30_000_000);
}
