//! Map-reduce at scale: totals per day of many events, one change within large keys, and a
//! definition that is replaced while clients read and write.

use std::{
    io::Write as _,
    path::Path,
    pin::pin,
    thread,
    time::{Duration, Instant},
};

use report::Better;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Figures,
    database::{DATABASE, create_filled},
};
use crate::{
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::{CUSTOMERS, mixed, write_order},
    outcome::no_latencies,
    server::{Program, RunningServer},
    users::{Users, run_users},
    works::{asked, make_index_of, queries_path, wait_for_index, waiting},
};

pub(crate) const DAYS_FIGURES: &[(&str, Better)] = &[
    ("events/s", Better::More),
    ("server CPU µs for each event", Better::Less),
    ("MB of memory added", Better::Less),
    ("days with a wrong sum", Better::Less),
];
pub(crate) const CHANGE_FIGURES: &[(&str, Better)] = &[
    ("p50 ms, key of 1k", Better::Less),
    ("p50 ms, key of 10k", Better::Less),
    ("p50 ms, key of 100k", Better::Less),
    ("p50 ms, key of 1M", Better::Less),
    ("p99 ms, key of 1M", Better::Less),
    ("wrong totals", Better::Less),
];
pub(crate) const REPLACE_FIGURES: &[(&str, Better)] = &[
    ("failed", Better::Less),
    ("requests/s", Better::Neither),
    ("mean ms", Better::Less),
    ("p99 ms", Better::Less),
    ("s until replaced", Better::Less),
];

const INDEX: &str = "Totals";

const EVENTS: u64 = 1_600_000;
const DAYS: u64 = 1_000;
const MAP_OF_DAYS: &str =
    "from e in docs.Events select new { Day = e.At.Date, e.Amount, Count = 1 }";
const REDUCE_OF_DAYS: &str = "from result in results group result by result.Day into g \
                              select new { Day = g.Key, Amount = g.Sum(x => x.Amount), \
                              Count = g.Sum(x => x.Count) }";
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The number of rows of each key; the first key starts with document 1.
const KEYS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const CHANGES: u64 = 101;
const MAP_OF_KEYS: &str = "from row in docs.Rows select new { row.Key, row.Number }";
const REDUCE_OF_KEYS: &str = "from result in results group result by result.Key into g \
                              select new { Key = g.Key, Number = g.Sum(x => x.Number) }";

const ORDERS: u64 = 300_000;
const MAP_OF_ORDERS: &str = "from order in docs.Orders select new { order.Customer, order.Total }";
const REDUCE_OF_ORDERS: &str = "from result in results group result by result.Customer into g \
                                select new { Customer = g.Key, Total = g.Sum(x => x.Total) }";
const NEW_MAP_OF_ORDERS: &str =
    "from order in docs.Orders select new { order.Customer, order.Total, Largest = order.Total }";
const NEW_REDUCE_OF_ORDERS: &str = "from result in results group result by result.Customer into g select new { Customer = g.Key, \
     Total = g.Sum(x => x.Total), Largest = g.Max(x => x.Largest) }";
/// 500 writes and 500 queries in a second.
const CLIENTS: Users =
    Users { count: 200, duration: Duration::from_secs(20), thinking: Duration::from_millis(200) };
const BEFORE_REPLACEMENT: Duration = Duration::from_secs(3);
const REPLACEMENT_TIME_MAX: Duration = Duration::from_secs(300);

/// Totals of many events by a thousand days, compared with a plain sum.
pub(super) async fn days(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, EVENTS, write_event).await?;
    let mut connection = Connection::open(server.address).await?;
    let anonymous = || server.process.memory().map_or(0.0, |memory| memory.anonymous);
    let (memory_before, mut highest) = (anonymous(), 0.0_f64);
    let busy_before = server.process.processor_time().unwrap_or_default();
    let began = Instant::now();
    make_index_of(&mut connection, DATABASE, INDEX, (MAP_OF_DAYS, Some(REDUCE_OF_DAYS))).await?;
    {
        let mut indexed = pin!(wait_for_index(&mut connection, DATABASE, INDEX, DAYS));
        loop {
            highest = highest.max(anonymous());
            tokio::select! {
                done = &mut indexed => break done?,
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
    }
    let rate = EVENTS as f64 / began.elapsed().as_secs_f64();
    let busy = server.process.processor_time().unwrap_or_default().saturating_sub(busy_before);
    let each = busy.as_secs_f64() * 1e6 / EVENTS as f64;
    let wrong = wrong_days(&mut connection).await?;
    Ok(vec![rate, each, (highest - memory_before).max(0.0), wrong as f64])
}

/// The number of days for which the index differs from a loop over all events.
async fn wrong_days(connection: &mut Connection) -> Result<u64, DriverError> {
    let mut wanted = vec![(0, 0); DAYS as usize];
    for number in 1..=EVENTS {
        let (day, amount) = event(number);
        let (total, count) = &mut wanted[day as usize];
        (*total, *count) = (*total + amount, *count + 1);
    }
    let rows = ask(connection, asked(&format!("from index '{INDEX}' limit {DAYS}"), "")).await?;
    let mut right = 0;
    for (day, (total, count)) in wanted.into_iter().enumerate() {
        let name = day_name(day as u64);
        let row =
            rows.iter().find(|row| row["Day"].as_str().is_some_and(|text| text.starts_with(&name)));
        let is_right =
            row.is_some_and(|row| row["Amount"] == json!(total) && row["Count"] == json!(count));
        right += u64::from(is_right);
    }
    Ok(DAYS - right)
}

/// The day of an event, and its amount.
fn event(number: u64) -> (u64, i64) {
    let chance = mixed(number);
    (chance % DAYS, (chance >> 12) as i64 % 10_000 - 3_000)
}

/// Months have 28 days here.
fn day_name(day: u64) -> String {
    format!("{}-{:02}-{:02}", 2020 + day / 336, day / 28 % 12 + 1, day % 28 + 1)
}

fn write_event(out: &mut Vec<u8>, number: u64) {
    let (day, amount) = event(number);
    write!(
        out,
        "{{\"At\":\"{}T{:02}:{:02}:00.0000000Z\",\"Amount\":{amount},\
         \"@metadata\":{{\"@collection\":\"Events\"}}}}",
        day_name(day),
        number % 24,
        number % 60,
    )
    .expect("writing to a Vec cannot fail");
}

/// The time from the response to a change of one row until the index contains it, by the rows of
/// the key.
pub(super) async fn change(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, KEYS.iter().sum(), write_row).await?;
    let mut connection = Connection::open(server.address).await?;
    make_index_of(&mut connection, DATABASE, INDEX, (MAP_OF_KEYS, Some(REDUCE_OF_KEYS))).await?;
    wait_for_index(&mut connection, DATABASE, INDEX, KEYS.len() as u64).await?;
    let (mut medians, mut slowest, mut wrong, mut first) = (Vec::new(), 0.0, 0, 1);
    for (key, rows) in KEYS.into_iter().enumerate() {
        let mut total: u64 = (first..first + rows).map(number_in_row).sum();
        let (mut changed, mut latencies) = (Vec::new(), no_latencies());
        for change in 0..CHANGES {
            let number = first + mixed(first + change) % rows;
            if changed.contains(&number) {
                continue;
            }
            changed.push(number);
            total += 1;
            let body = row(key, number_in_row(number) + 1).to_string();
            let path = format!("/databases/{DATABASE}/docs?id=docs/{number}");
            connection.succeed(&request("PUT", &path, body.as_bytes())).await?;
            let written = Instant::now();
            let text = format!("from index '{INDEX}' where Key = $p0");
            let found = ask(&mut connection, asked(&text, &key_name(key))).await?;
            latencies += written.elapsed().as_nanos() as u64;
            wrong += u64::from(found.len() != 1 || found[0]["Number"] != json!(total));
        }
        medians.push(latencies.value_at_percentile(50.0) as f64 / 1e6);
        slowest = latencies.value_at_percentile(99.0) as f64 / 1e6;
        first += rows;
    }
    medians.extend([slowest, wrong as f64]);
    Ok(medians)
}

fn key_name(key: usize) -> String {
    format!("key {key}")
}

fn number_in_row(number: u64) -> u64 {
    mixed(number) % 1_000
}

fn row(key: usize, number: u64) -> Value {
    json!({"Key": key_name(key), "Number": number, "@metadata": {"@collection": "Rows"}})
}

fn write_row(out: &mut Vec<u8>, number: u64) {
    let mut end = 0;
    let is_within = |rows: &u64| {
        end += rows;
        number <= end
    };
    let key = KEYS.iter().position(is_within).unwrap_or(KEYS.len() - 1);
    out.extend_from_slice(row(key, number_in_row(number)).to_string().as_bytes());
}

/// What clients observe while a definition is replaced.
pub(super) async fn replace(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, ORDERS, write_order).await?;
    let mut connection = Connection::open(server.address).await?;
    make_index_of(&mut connection, DATABASE, INDEX, (MAP_OF_ORDERS, Some(REDUCE_OF_ORDERS)))
        .await?;
    wait_for_index(&mut connection, DATABASE, INDEX, CUSTOMERS).await?;
    let address = server.address;
    // The clients run on this thread.
    let operator = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            sleep(BEFORE_REPLACEMENT).await;
            replace_definition(&mut Connection::open(address).await?).await
        })
    });
    let mut number = 0;
    let mut next = |out: &mut Vec<u8>| {
        number += 1;
        write_client_request(out, number);
    };
    let visited = run_users(address, server.process, CLIENTS, &mut next);
    let replaced = operator.join().expect("the operator does not panic")?;
    let (outcome, failed) = visited?;
    let row = ask(&mut connection, asked(&format!("from index '{INDEX}' limit 1"), "")).await?;
    if row.first().is_none_or(|row| row["Largest"].is_null()) {
        let (request, body) = ("the replaced index".to_owned(), json!(row).to_string());
        return Err(DriverError::UnexpectedAnswer { request, body });
    }
    Ok(vec![
        failed as f64,
        outcome.operations as f64 / outcome.elapsed.as_secs_f64(),
        outcome.latencies.mean() / 1e6,
        outcome.latencies.value_at_percentile(99.0) as f64 / 1e6,
        replaced.as_secs_f64(),
    ])
}

/// Every other request writes an order, the others query a customer.
fn write_client_request(out: &mut Vec<u8>, number: u64) {
    if number.is_multiple_of(2) {
        let mut order = Vec::new();
        write_order(&mut order, ORDERS + number);
        let path = format_args!("/databases/{DATABASE}/docs?id=new/{number}");
        return write_request(out, "PUT", path, &order);
    }
    let customer = format!("customers/{}", mixed(number) % CUSTOMERS);
    let query = asked(&format!("from index '{INDEX}' where Customer = $p0"), &customer);
    write_request(out, "POST", queries_path(DATABASE), query.to_string().as_bytes());
}

/// Sends the other definition; returns how long it takes until that is the only one.
async fn replace_definition(connection: &mut Connection) -> Result<Duration, DriverError> {
    let began = Instant::now();
    let code = (NEW_MAP_OF_ORDERS, Some(NEW_REDUCE_OF_ORDERS));
    make_index_of(connection, DATABASE, INDEX, code).await?;
    let names = request("GET", &format!("/databases/{DATABASE}/indexes?namesOnly=true"), b"");
    loop {
        connection.succeed(&names).await?;
        if !String::from_utf8_lossy(connection.body()).contains("ReplacementOf/") {
            return Ok(began.elapsed());
        }
        if REPLACEMENT_TIME_MAX < began.elapsed() {
            return Err(connection.unexpected(&names));
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// The rows of a query that waits for the index.
async fn ask(connection: &mut Connection, query: Value) -> Result<Vec<Value>, DriverError> {
    let body = waiting(query).to_string();
    let request = request("POST", &queries_path(DATABASE), body.as_bytes());
    connection.succeed(&request).await?;
    let mut answer: Value = serde_json::from_slice(connection.body()).unwrap_or_default();
    match (answer["IsStale"] == json!(false), answer["Results"].take()) {
        (true, Value::Array(rows)) => Ok(rows),
        _ => Err(connection.unexpected(&request)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_keys_that_are_asked_for() {
        for (number, key) in
            [(1, 0), (1_000, 0), (1_001, 1), (11_000, 1), (11_001, 2), (1_111_000, 3)]
        {
            let mut json = Vec::new();
            write_row(&mut json, number);
            let row: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(row["Key"], json!(key_name(key)), "{number}");
        }
    }

    #[test]
    fn days_have_names_of_their_own_and_events_say_theirs() {
        let mut names: Vec<_> = (0..DAYS).map(day_name).collect();
        names.dedup();
        assert_eq!((names.len(), names[0].as_str()), (DAYS as usize, "2020-01-01"));
        let mut json = Vec::new();
        write_event(&mut json, 7);
        let row: Value = serde_json::from_slice(&json).unwrap();
        assert!(row["At"].as_str().unwrap().starts_with(&day_name(event(7).0)));
    }
}
