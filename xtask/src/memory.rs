//! The task `memory`: the real server inside a control group that allows it little memory, while many
//! documents are stored at once.
//!
//! First into one database by several bulk inserts, then into many databases at once, so that what
//! they share is what bounds them. The kernel must kill nothing, every document must be there, and the
//! server must know the limit. A refusal for want of memory is an answer, too: the insert is sent
//! again.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure,
    checks::Checks,
    control_group::ControlGroup,
    drill_database::create_database,
    http_client::{Answer, HttpClient},
    server_process::{ServerProcess, executable},
};

const LIMIT_BYTES: u64 = 256 << 20;
/// Into one database.
const DOCUMENTS: u64 = 500_000;
const INSERTS: u64 = 4;
/// Into each of many databases.
const DATABASES: u64 = 60;
const DOCUMENTS_EACH: u64 = 2_000;
const THREADS: u64 = 4;
const TEXT_BYTES: usize = 300;
const PIECE_BYTES: usize = 64 << 10;
/// How often and with what pause an insert that is refused for want of memory is sent again.
const TRIES: u64 = 200;
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Runs the drill where a control group can be made.
pub(crate) fn run() -> Result<Checks, Failure> {
    let group = match ControlGroup::create(LIMIT_BYTES) {
        Ok(group) => group,
        Err(reason) => {
            println!("memory: SKIPPED, no control group can be made here: {reason}");
            return Ok(Checks::default());
        }
    };
    let executable = executable()?;
    let directory = std::env::temp_dir().join(format!("corvus-memory-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("data"))?;
    let mut checks = Checks::default();
    let result =
        Drill { group, executable, directory: directory.clone(), refused: AtomicU64::new(0) }
            .run(&mut checks);
    if result.is_ok() && checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    } else {
        println!("memory: what is left is in {}", directory.display());
    }
    result.map(|()| checks)
}

struct Drill {
    group: ControlGroup,
    executable: PathBuf,
    directory: PathBuf,
    refused: AtomicU64,
}

impl Drill {
    fn run(&self, checks: &mut Checks) -> Result<(), Failure> {
        let (data, log) = (self.directory.join("data"), self.directory.join("server.log"));
        let server =
            ServerProcess::start_in(&self.executable, &data, &log, &self.group.processes())?;
        let began = Instant::now();
        let outcome = self.store_everything(&server.url);
        let seconds = began.elapsed().as_secs();
        checks.that(outcome.is_ok(), || format!("storing: {}", failure_text(&outcome)));
        if outcome.is_ok() {
            self.judge(&server.url, checks)?;
        }
        let killed = self.group.killed()?;
        checks.that(killed == 0, || format!("the kernel killed {killed} processes"));
        println!(
            "memory: {DOCUMENTS} documents in one database and {DOCUMENTS_EACH} in each of {DATABASES} \
             in {seconds} s with {} MB; {} inserts refused and sent again; at most {} MB with the page \
             cache",
            LIMIT_BYTES >> 20,
            self.refused.load(Ordering::Relaxed),
            self.group.peak_bytes().unwrap_or(0) >> 20
        );
        let stopped = server.stop();
        checks.that(stopped.is_ok(), || format!("stopping: {}", failure_text(&stopped)));
        Ok(())
    }

    fn store_everything(&self, url: &str) -> Result<(), Failure> {
        create_database(url, "one")?;
        at_once(INSERTS, |insert| {
            let each = DOCUMENTS / INSERTS;
            self.insert(url, "one", insert * each..(insert + 1) * each)
        })?;
        at_once(THREADS, |thread| {
            for number in (thread..DATABASES).step_by(THREADS as usize) {
                let name = format!("many{number}");
                create_database(url, &name)?;
                self.insert(url, &name, 0..DOCUMENTS_EACH)?;
            }
            Ok(())
        })
    }

    /// Sends a bulk insert, and sends it again when it is refused for want of memory: the same
    /// documents under the same ids.
    fn insert(
        &self,
        url: &str,
        database: &str,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), Failure> {
        for attempt in 0..TRIES {
            let path =
                format!("/databases/{database}/bulk_insert?id={}", numbers.start + attempt + 1);
            let answer =
                HttpClient::connect(url)?.stream("POST", &path, pieces(numbers.clone()))?;
            match answer {
                Answer { status: 200..=299, .. } => return Ok(()),
                Answer { status: 503, body } if is_short_of_memory(&body) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(RETRY_PAUSE);
                }
                Answer { status, body } => {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    return Err(format!("{database}: {status} {text}").into());
                }
            }
        }
        Err(format!("{database}: refused {TRIES} times").into())
    }

    fn judge(&self, url: &str, checks: &mut Checks) -> Result<(), Failure> {
        let statistics = get(url, "/admin/debug/memory/stats")?;
        let limit = &statistics["Limit"];
        checks.that(limit["Bytes"] == LIMIT_BYTES, || {
            format!("the server takes its limit for {limit}")
        });
        checks.that(limit["LimitedBy"] == "the control group", || limit.to_string());
        println!("memory: {} {}", statistics["State"], statistics["Usage"]);
        let names = (0..DATABASES).map(|number| (format!("many{number}"), DOCUMENTS_EACH));
        for (name, expected) in std::iter::once(("one".to_owned(), DOCUMENTS)).chain(names) {
            let found = get(url, &format!("/databases/{name}/stats"))?["CountOfDocuments"].clone();
            checks.that(found == expected, || format!("{name}: {found} documents of {expected}"));
        }
        let last = format!("/databases/one/docs?id=users/{}", DOCUMENTS - 1);
        let document = get(url, &last)?["Results"][0]["Number"].clone();
        checks.that(document == DOCUMENTS - 1, || format!("the last document is {document}"));
        Ok(())
    }
}

fn failure_text(outcome: &Result<(), Failure>) -> String {
    outcome.as_ref().err().map(ToString::to_string).unwrap_or_default()
}

/// Runs `work` in that many threads; gives the first failure.
fn at_once(threads: u64, work: impl Fn(u64) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let mut ended = ended.map(|ended| ended.unwrap_or_else(|_| Err("it panicked".into())));
        ended.try_for_each(|ended| ended)
    })
}

/// A bulk insert's body.
fn pieces(numbers: std::ops::Range<u64>) -> impl Iterator<Item = Vec<u8>> {
    let (first, end) = (numbers.start, numbers.end);
    let mut numbers = numbers;
    let mut is_done = false;
    std::iter::from_fn(move || {
        let mut piece = Vec::with_capacity(PIECE_BYTES + 1024);
        while piece.len() < PIECE_BYTES && !is_done {
            let Some(number) = numbers.next() else {
                piece.push(b']');
                is_done = true;
                break;
            };
            piece.push(if number == first { b'[' } else { b',' });
            piece.extend_from_slice(element(number, end).to_string().as_bytes());
        }
        (!piece.is_empty()).then_some(piece)
    })
}

/// Documents of different content, so that compression does not make them small.
fn element(number: u64, salt: u64) -> Value {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    let text: String = (0..TEXT_BYTES).map(|_| letter()).collect();
    json!({
        "Id": format!("users/{number}"), "ChangeVector": null, "Type": "PUT",
        "Document": {"Number": number, "Text": text, "@metadata": {"@collection": "Users"}},
    })
}

fn is_short_of_memory(body: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let of_kind = |kind| error["Type"].as_str().is_some_and(|name| name.ends_with(kind));
    of_kind("LowMemoryException") || of_kind("ServerLoadFailureException")
}

fn get(url: &str, path: &str) -> Result<Value, Failure> {
    let answer = HttpClient::connect(url)?.send("GET", path, b"")?;
    match answer.status {
        200 => Ok(serde_json::from_slice(&answer.body)?),
        status => Err(format!("{path}: {status} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}
