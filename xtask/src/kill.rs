//! The tasks `kill` and `powercut`: the real server is killed while twelve threads write.
//!
//! Eight send documents and batches, four send bulk inserts. All rounds use one data directory:
//! write, kill at a random moment, restart, compare every thread's documents with its oracle. `kill
//! -9` loses the memory of the process: the operating system keeps what was written but not synced.
//! A power cut of the file system loses that, too.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Failure,
    checks::Checks,
    drill_database::{create_database, get_while_loading},
    http_client::{Answer, HttpClient},
    insert_oracle::{InsertOracle, Kept},
    loop_disk::LoopDisk,
    random::Random,
    server_process::{ServerProcess, executable},
    writer_oracle::{Documents, Verdict, WriterOracle},
};

const WRITERS: u64 = 8;
const INSERTERS: u64 = 4;
const WRITING_MS_MIN: u64 = 30;
const WRITING_MS_MAX: u64 = 900;
/// How long the first batch of a round may take to be acknowledged.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_ANSWER_PAUSE: Duration = Duration::from_millis(1);
const DATABASE: &str = "/databases/kill";
/// Number of documents read in one request.
const PAGE_DOCUMENTS: usize = 1024;

/// How the server is killed.
enum Blow {
    /// `kill -9`.
    Kill,
    /// Its file system loses the power, then it is killed.
    PowerCut(LoopDisk),
}

impl Blow {
    fn strike(&mut self, server: ServerProcess) -> Result<(), Failure> {
        match self {
            Self::Kill => server.kill(),
            Self::PowerCut(disk) => {
                disk.cut_power()?;
                server.kill()?;
                disk.restore_power()
            }
        }
    }
}

/// Kills the server `times` times.
pub(crate) fn run(times: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    drill("kill", times, seed, |_| Ok(Blow::Kill))
}

/// Cuts the power of the server's file system `times` times, if the machine supports it.
pub(crate) fn run_power_cuts(times: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    // Tried first, to distinguish a machine without the means from a drill that failed.
    let trial = std::env::temp_dir().join(format!("corvus-powercut-trial-{}", std::process::id()));
    std::fs::create_dir_all(&trial)?;
    let means = LoopDisk::create(&trial).and_then(|disk| disk.cut_power());
    std::fs::remove_dir_all(&trial)?;
    if let Err(reason) = means {
        println!(
            "powercut: SKIPPED, this machine does not support power cuts of a file system: {reason}"
        );
        return Ok(Checks::default());
    }
    drill("powercut", times, seed, |data| LoopDisk::create(data).map(Blow::PowerCut))
}

fn drill(
    task: &str,
    times: u64,
    seed: Option<u64>,
    blow: impl FnOnce(&Path) -> Result<Blow, Failure>,
) -> Result<Checks, Failure> {
    let executable = executable()?;
    let seed = seed.unwrap_or_else(Random::fresh_seed);
    let directory = std::env::temp_dir().join(format!("corvus-{task}-{}", std::process::id()));
    let data = directory.join("data");
    std::fs::create_dir_all(&data)?;
    println!("{task}: {times} times, seed {seed}");
    let mut checks = Checks::default();
    let blow = blow(&data)?;
    let result = Drill::new(executable, &directory, seed, blow).rounds(task, times, &mut checks);
    if result.is_ok() && checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    } else {
        println!("{task}: the files are kept in {}", directory.display());
    }
    result.map(|()| checks)
}

struct Drill {
    executable: PathBuf,
    data: PathBuf,
    log: PathBuf,
    random: Random,
    writers: Vec<WriterOracle>,
    inserters: Vec<InsertOracle>,
    blow: Blow,
    totals: Totals,
}

/// Over all rounds.
#[derive(Default)]
struct Totals {
    batches: u64,
    inserts: u64,
    in_flight: u64,
    cut_off: Kept,
}

/// The results of the threads of one round.
#[derive(Default)]
struct Written {
    /// Acknowledged batches and single documents.
    batches: AtomicU64,
    /// Acknowledged bulk inserts.
    inserts: AtomicU64,
    killed: AtomicBool,
}

impl Written {
    /// Waits, so that the kill is timed from the first write, not from the connection.
    fn wait_for_first_answer(&self) {
        let began = Instant::now();
        while self.batches.load(Ordering::SeqCst) == 0 && began.elapsed() < FIRST_ANSWER_TIMEOUT {
            std::thread::sleep(FIRST_ANSWER_PAUSE);
        }
    }

    /// A failure counts only before the kill.
    fn unless_killed(&self, failure: String) -> Option<String> {
        (!self.killed.load(Ordering::SeqCst)).then_some(failure)
    }
}

impl Drill {
    fn new(executable: PathBuf, directory: &Path, seed: u64, blow: Blow) -> Self {
        let mut random = Random::new(seed);
        let writers = (0..WRITERS)
            .map(|writer| WriterOracle::new(writer, Random::new(random.next())))
            .collect();
        let inserters = (0..INSERTERS)
            .map(|inserter| InsertOracle::new(inserter, Random::new(random.next())))
            .collect();
        let (data, log) = (directory.join("data"), directory.join("server.log"));
        let totals = Totals::default();
        Self { executable, data, log, random, writers, inserters, blow, totals }
    }

    fn start(&self) -> Result<ServerProcess, Failure> {
        ServerProcess::start(&self.executable, &self.data, &self.log)
    }

    fn rounds(mut self, task: &str, times: u64, checks: &mut Checks) -> Result<(), Failure> {
        let mut server = self.start()?;
        create_database(&server.url, "kill")?;
        for round in 1..=times {
            let writing = Duration::from_millis(
                WRITING_MS_MIN + self.random.below(WRITING_MS_MAX - WRITING_MS_MIN),
            );
            let (written, refused) = self.write_until_killed(server, writing)?;
            let (batches, inserts) = (written.batches.into_inner(), written.inserts.into_inner());
            let began = Instant::now();
            server = self.start()?;
            let judgement = self.judge(&server.url)?;
            println!(
                "{task} {round}: after {} ms, {batches} batches and {inserts} inserts acknowledged; \
                 back in {} ms, {}",
                writing.as_millis(),
                began.elapsed().as_millis(),
                judgement.summary()
            );
            self.totals.add(batches, inserts, &judgement);
            let mut wrong = refused;
            wrong.extend(judgement.wrong);
            checks.that(wrong.is_empty() && batches > 0, || {
                format!("round {round}: {batches} acknowledged; {}", wrong.join("; "))
            });
        }
        println!("{task}: {}", self.totals.summary());
        server.kill()
    }

    /// Returns what was acknowledged, and what was rejected before the kill.
    fn write_until_killed(
        &mut self,
        server: ServerProcess,
        writing: Duration,
    ) -> Result<(Written, Vec<String>), Failure> {
        let written = Written::default();
        let (url, blow) = (server.url.clone(), &mut self.blow);
        let refused = std::thread::scope(|scope| {
            let (url, written) = (url.as_str(), &written);
            let writers = self.writers.iter_mut();
            let mut threads: Vec<_> =
                writers.map(|oracle| scope.spawn(move || write(url, oracle, written))).collect();
            let inserters = self.inserters.iter_mut();
            threads
                .extend(inserters.map(|oracle| scope.spawn(move || insert(url, oracle, written))));
            written.wait_for_first_answer();
            std::thread::sleep(writing);
            written.killed.store(true, Ordering::SeqCst);
            blow.strike(server)?;
            let ended = threads.into_iter().map(|thread| thread.join());
            let ended = ended.collect::<Result<Vec<_>, _>>().map_err(|_| "a writer panicked")?;
            Ok::<_, Failure>(ended.into_iter().flatten().collect())
        })?;
        Ok((written, refused))
    }

    fn judge(&mut self, url: &str) -> Result<Judgement, Failure> {
        let mut judgement = Judgement::default();
        let mut client = HttpClient::connect(url)?;
        for oracle in &mut self.writers {
            match oracle.judge(documents_of(&mut client, oracle.prefix())?) {
                Ok(Verdict::Acknowledged) => {}
                Ok(Verdict::InFlightToo) => judgement.in_flight_kept += 1,
                Err(failure) => judgement.wrong.push(failure),
            }
        }
        for oracle in &mut self.inserters {
            match oracle.judge(documents_of(&mut client, oracle.prefix())?) {
                Ok(kept) => judgement.cut_off.add(kept),
                Err(failure) => judgement.wrong.push(failure),
            }
        }
        Ok(judgement)
    }
}

#[derive(Default)]
struct Judgement {
    in_flight_kept: u64,
    cut_off: Kept,
    wrong: Vec<String>,
}

impl Judgement {
    fn summary(&self) -> String {
        if self.wrong.is_empty() {
            format!(
                "all there, and {} batches in flight and {} of {} documents of inserts cut off",
                self.in_flight_kept, self.cut_off.documents, self.cut_off.of
            )
        } else {
            self.wrong.join("; ")
        }
    }
}

impl Totals {
    fn add(&mut self, batches: u64, inserts: u64, judgement: &Judgement) {
        self.batches += batches;
        self.inserts += inserts;
        self.in_flight += judgement.in_flight_kept;
        self.cut_off.add(judgement.cut_off);
    }

    fn summary(&self) -> String {
        format!(
            "{} batches and {} bulk inserts acknowledged; beyond them {} batches in flight and {} of \
             {} documents of inserts that were cut off are there",
            self.batches, self.inserts, self.in_flight, self.cut_off.documents, self.cut_off.of
        )
    }
}

/// Sends batches until the connection breaks. A rejection before the kill is an error.
fn write(url: &str, oracle: &mut WriterOracle, written: &Written) -> Option<String> {
    let mut client = match HttpClient::connect(url) {
        Ok(client) => client,
        Err(error) => return written.unless_killed(format!("cannot connect: {error}")),
    };
    loop {
        let request = oracle.next_request();
        let path = format!("{DATABASE}{}", request.path);
        match client.send(request.method, &path, &request.body) {
            Ok(Answer { status: 200..=299, .. }) => {
                oracle.acknowledge();
                written.batches.fetch_add(1, Ordering::SeqCst);
            }
            Ok(answer) => return written.unless_killed(answer.described()),
            Err(error) => return written.unless_killed(format!("the connection broke: {error}")),
        }
    }
}

/// The same with bulk inserts.
fn insert(url: &str, oracle: &mut InsertOracle, written: &Written) -> Option<String> {
    let mut client = match HttpClient::connect(url) {
        Ok(client) => client,
        Err(error) => return written.unless_killed(format!("cannot connect: {error}")),
    };
    loop {
        let insert = oracle.next_insert();
        match client.stream("POST", &format!("{DATABASE}{}", insert.path), insert.pieces) {
            Ok(Answer { status: 200..=299, .. }) => {
                oracle.acknowledge();
                written.inserts.fetch_add(1, Ordering::SeqCst);
            }
            Ok(answer) => return written.unless_killed(answer.described()),
            Err(error) => {
                return written
                    .unless_killed(format!("the connection of an insert broke: {error}"));
            }
        }
    }
}

/// All documents of a writer, without their metadata.
fn documents_of(client: &mut HttpClient, prefix: &str) -> Result<Documents, Failure> {
    let mut documents = Documents::new();
    loop {
        let start = documents.len();
        let path =
            format!("{DATABASE}/docs?startsWith={prefix}&start={start}&pageSize={PAGE_DOCUMENTS}");
        let answer = get_while_loading(client, &path)?;
        let mut answer: Value = serde_json::from_slice(&answer.body)?;
        let Value::Array(results) = answer["Results"].take() else {
            return Err(format!("no Results in the answer to {path}").into());
        };
        let is_last = results.len() < PAGE_DOCUMENTS;
        for mut document in results {
            let metadata = document.as_object_mut().and_then(|fields| fields.remove("@metadata"));
            let id = metadata.as_ref().and_then(|metadata| metadata["@id"].as_str());
            let id = id.ok_or("a document without an id")?.to_owned();
            documents.insert(id, document);
        }
        if is_last {
            return Ok(documents);
        }
        if documents.len() == start {
            return Err(format!("the page at {start} of {prefix} repeats the previous one").into());
        }
    }
}
