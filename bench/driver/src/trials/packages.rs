//! A site that searches packages: many names are indexed, and users browse and search them.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use report::Better;
use serde_json::json;

use super::{
    Figures,
    database::{DATABASE, create_filled},
};
use crate::{
    connection::{Connection, write_request},
    data_files::DataFiles,
    error::DriverError,
    generated::{mixed, package_name, word, write_note},
    outcome::Outcome,
    server::{Program, RunningServer},
    users::{Users, run_users},
    works::{make_index, wait_for_index},
};

pub(crate) const FIGURES: &[(&str, Better)] = &[
    ("names/s indexed", Better::More),
    ("server CPU µs for each name", Better::Less),
    ("MB of index", Better::Less),
    ("failed, 300 users", Better::Less),
    ("mean ms, 300 users", Better::Less),
    ("p99 ms, 300 users", Better::Less),
    ("failed, 3,000 users", Better::Less),
    ("mean ms, 3,000 users", Better::Less),
    ("p99 ms, 3,000 users", Better::Less),
    ("pages/s, 3,000 users", Better::Neither),
    ("server CPU µs for each page, 3,000 users", Better::Less),
];
pub(crate) const SIZE_FIGURES: &[(&str, Better)] = &[("MB of index", Better::Less)];

const NAMES: u64 = 1_000_000;
const NOTES: u64 = 100_000;
const INDEX: &str = "PackagesByName";
const MAP: &str = "from package in docs.Packages select new { package.Name, Words = package.Name }";
const NOTE_MAP: &str = "from note in docs.Notes select new { note.Name, note.Number, note.Text }";
const FEW_USERS: usize = 300;
const MANY_USERS: usize = 3_000;
const VISIT: Duration = Duration::from_secs(20);
/// The first users find cold caches; they are not counted.
const WARM_UP: Duration = Duration::from_secs(3);
const THINKING: Duration = Duration::from_secs(3);
const PAGE_ROWS: u64 = 30;
/// Users page through this many pages of all packages, most of them through the first few.
const PAGES: u64 = 1_000;

/// Once.
pub(super) async fn run(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, NAMES, write_package).await?;
    let mut figures = index(&server, MAP, NAMES).await?;
    visit(&server, FEW_USERS, WARM_UP)?;
    let (few, few_failed) = visit(&server, FEW_USERS, VISIT)?;
    let (many, many_failed) = visit(&server, MANY_USERS, VISIT)?;
    figures.push(index_megabytes(server).await?);
    for (outcome, failed) in [(&few, few_failed), (&many, many_failed)] {
        figures.push(failed as f64);
        figures.push(outcome.latencies.mean() / 1e6);
        figures.push(outcome.latencies.value_at_percentile(99.0) as f64 / 1e6);
    }
    figures.push(many.operations as f64 / many.elapsed.as_secs_f64());
    figures.push(many.server_time.as_secs_f64() * 1e6 / many.operations.max(1) as f64);
    Ok(figures)
}

/// The disk space of an index over 100,000 small documents, after a clean stop.
pub(super) async fn index_size(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, NOTES, write_note).await?;
    index(&server, NOTE_MAP, NOTES).await?;
    Ok(vec![index_megabytes(server).await?])
}

/// Entries per second, and processor time for each.
async fn index(server: &RunningServer, map: &str, entries: u64) -> Result<Figures, DriverError> {
    let mut connection = Connection::open(server.address).await?;
    let busy_before = server.process.processor_time().unwrap_or_default();
    let began = Instant::now();
    make_index(&mut connection, DATABASE, INDEX, map).await?;
    wait_for_index(&mut connection, DATABASE, INDEX, entries).await?;
    let rate = entries as f64 / began.elapsed().as_secs_f64();
    let busy = server.process.processor_time().unwrap_or_default().saturating_sub(busy_before);
    Ok(vec![rate, busy.as_secs_f64() * 1e6 / entries as f64])
}

/// Stops the server, after which all of the index is in its files and no journal is needed.
async fn index_megabytes(server: RunningServer) -> Result<f64, DriverError> {
    let data = server.stop().await;
    let files = DataFiles::below(data.path())?.within("Indexes");
    match files.bytes() {
        0 => Err(DriverError::NoFiles { folder: "Indexes" }),
        bytes => Ok(bytes as f64 / 1e6),
    }
}

fn visit(
    server: &RunningServer,
    count: usize,
    duration: Duration,
) -> Result<(Outcome, u64), DriverError> {
    let users = Users { count, duration, thinking: THINKING };
    let mut number = 0;
    let mut body = String::new();
    let mut next = |out: &mut Vec<u8>| {
        number += 1;
        body.clear();
        body.push_str(&page(mixed(number)).to_string());
        let path = format_args!("/databases/{DATABASE}/queries");
        write_request(out, "POST", path, body.as_bytes());
    };
    run_users(server.address, server.process, users, &mut next)
}

/// The request of a user: half of them page through all packages, the others search for a word or
/// for the start of a name.
fn page(chance: u64) -> serde_json::Value {
    let (kind, chance) = (chance % 4, chance >> 2);
    match kind {
        0 => {
            let text = format!("from index '{INDEX}' where search(Words, $p0) limit {PAGE_ROWS}");
            json!({"Query": text, "QueryParameters": {"p0": word(chance).to_string()}})
        }
        1 => {
            let text = format!(
                "from index '{INDEX}' where startsWith(Name, $p0) order by Name limit {PAGE_ROWS}"
            );
            let name = package_name(chance % NAMES);
            let begin: String = name.chars().take(5).collect();
            json!({"Query": text, "QueryParameters": {"p0": begin}})
        }
        _ => {
            let text = format!("from index '{INDEX}' order by Name limit $p0, {PAGE_ROWS}");
            let share = (chance % PAGES) as f64 / PAGES as f64;
            let page = (share * share * share * PAGES as f64) as u64;
            json!({"Query": text, "QueryParameters": {"p0": page * PAGE_ROWS}})
        }
    }
}

fn write_package(out: &mut Vec<u8>, number: u64) {
    let document = json!({
        "Name": package_name(number),
        "@metadata": {"@collection": "Packages"},
    });
    out.extend_from_slice(document.to_string().as_bytes());
}
