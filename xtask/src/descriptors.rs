//! The task `descriptors`: the built server with few file descriptors.
//!
//! A low soft limit is raised, so nothing runs out. A low hard limit is respected: connections
//! leave files to databases, a flood of connections does not block other clients, and requests that
//! are rejected for lack of a descriptor are rejected without spinning and succeed later. Unused
//! databases are closed, so that more of them can be used in turn than can be open at once.

use std::{
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    Failure,
    checks::Checks,
    drill_database::create_database,
    http_client::HttpClient,
    server_process::{ServerProcess, executable},
};

const FEW: u64 = 64;
const MANY: u64 = 4096;
/// The number of connections that send nothing, more than `FEW` allows.
const FLOOD: usize = 200;
/// More databases than `FEW` descriptors allow to be open.
const DATABASES: usize = 24;
/// The maximum share of a core that the server may use while it cannot accept connections.
const BUSY_MAX: f64 = 0.5;
const WATCHED: Duration = Duration::from_secs(3);
const RECOVERY_MAX: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(100);
/// The kernel's clock ticks in a second, as `/proc` counts.
const TICKS: f64 = 100.0;

/// Runs both cases.
pub(crate) fn run() -> Result<Checks, Failure> {
    let directory = std::env::temp_dir().join(format!("corvus-descriptors-{}", std::process::id()));
    let mut checks = Checks::default();
    for (name, soft, hard) in [("soft", FEW, MANY), ("hard", FEW, FEW)] {
        let place = directory.join(name);
        std::fs::create_dir_all(place.join("data"))?;
        let log = place.join("server.log");
        let server =
            ServerProcess::start_limited(&executable()?, &place.join("data"), &log, (soft, hard))?;
        let outcome = drill(&server, soft < hard, &mut checks);
        checks.that(outcome.is_ok(), || format!("{name}: {:?}", outcome.err()));
        let stopped = server.stop();
        checks.that(stopped.is_ok(), || format!("{name}: {:?}", stopped.err()));
        let text = std::fs::read_to_string(&log)?;
        let expected =
            if soft < hard { "more files may be open" } else { "too few file descriptors" };
        checks.that(text.contains(expected), || {
            format!("{name}: the log does not contain '{expected}'")
        });
    }
    if checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(checks)
}

fn drill(server: &ServerProcess, is_raised: bool, checks: &mut Checks) -> Result<(), Failure> {
    create_database(&server.url, "first")?;
    put(&server.url, "first", 1)?;
    let address = server.url.trim_start_matches("http://").to_owned();
    // Once the system's queue is full, the rest waits there.
    let flood: Vec<TcpStream> =
        (0..FLOOD).map_while(|_| TcpStream::connect(&address).ok()).collect();
    put(&server.url, "first", 2)?;
    let names: Vec<String> = (0..DATABASES).map(|number| format!("more{number}")).collect();
    let is_refused = |name: &&String| create_database(&server.url, name).is_err();
    let refused: Vec<&String> = names.iter().filter(is_refused).collect();
    checks.that(!is_raised || refused.is_empty(), || format!("not created: {refused:?}"));
    let before = busy(server)?;
    std::thread::sleep(WATCHED);
    let part = (busy(server)? - before) / WATCHED.as_secs_f64();
    checks.that(part <= BUSY_MAX, || format!("an idle server uses {part:.2} of a core"));
    drop(flood);
    let began = Instant::now();
    store_in_time(&server.url, "first", 3)?;
    let served_again = began.elapsed().as_millis();
    for name in &refused {
        create_database(&server.url, name)?;
    }
    for name in &names {
        let stored = store_in_time(&server.url, name, 1);
        checks.that(stored.is_ok(), || format!("{name} is not served: {:?}", stored.err()));
    }
    println!(
        "descriptors: {} of {DATABASES} databases were refused; {part:.2} of a core was busy; served again \
         after {served_again} ms, and all databases one after the other within {} s",
        refused.len(),
        began.elapsed().as_secs()
    );
    Ok(())
}

/// Stores a document as soon as descriptors are available; retries for a limited time.
fn store_in_time(url: &str, database: &str, number: u64) -> Result<(), Failure> {
    let began = Instant::now();
    let mut stored = put(url, database, number);
    while stored.is_err() && began.elapsed() < RECOVERY_MAX {
        std::thread::sleep(PAUSE);
        stored = put(url, database, number);
    }
    stored
}

fn put(url: &str, database: &str, number: u64) -> Result<(), Failure> {
    let path = format!("/databases/{database}/docs?id=users/{number}");
    let answer = HttpClient::connect(url)?.send("PUT", &path, b"{}")?;
    match answer.status {
        201 => Ok(()),
        _ => Err(answer.described().into()),
    }
}

/// Seconds of processor time that the server has used.
fn busy(server: &ServerProcess) -> Result<f64, Failure> {
    let path = Path::new("/proc").join(server.id().to_string()).join("stat");
    let text = std::fs::read_to_string(path)?;
    // After the name, which may contain anything: the state is the first field, user time the 12th.
    let behind = text.rsplit_once(')').ok_or("no name in stat")?.1;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64, Failure> {
        Ok(fields.get(index).ok_or("stat is short")?.parse()?)
    };
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}
