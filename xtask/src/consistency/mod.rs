//! The task `consistency`: many clients read and write the built server, and the history that they
//! observed is checked.
//!
//! A run goes through rounds, each of one workload on keys of its own. In every third round the
//! server is killed with `kill -9`. At the end of a round everything is read once more, to detect
//! lost acknowledged writes. The checker is the crate `consistency`; this module has only the
//! workloads and the anomalies that each may show.

pub(crate) mod client;
pub(crate) mod documents;
pub(crate) mod exchanges;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use consistency::{Anomaly, Finding};

use crate::{
    Failure,
    checks::Checks,
    drill_database::{create_database, get_while_loading},
    http_client::HttpClient,
    random::Random,
    server_process::{ServerProcess, executable},
};

const PROCESSES: u32 = 10;
const ROUND_OPERATIONS: u64 = 2_000;
const KILL_EVERY: u64 = 3;
/// Maximum number of printed findings per round.
const SHOWN_MAX: usize = 5;
/// How long a request may take: the server is killed, but never cut off.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// Number of keys from which one is chosen ...
const KEYS_AT_ONCE: u64 = 8;
/// ... until this many operations have started; then other keys are used.
const OPERATIONS_PER_KEYS: u64 = 160;
pub(crate) const DATABASE: &str = "/databases/consistency";

/// The workload of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Each request is a transaction: batches of patches, and reads of several documents.
    Requests,
    /// Sessions that read in one request and write with the change vectors that they read.
    Optimistic { lists: bool },
    /// The same, reading in several requests under one snapshot token.
    Tokens { lists: bool },
    /// The same, reading in several requests without a token.
    Unheld,
    /// Sessions that read in several requests and write without a check.
    LastWriteWins,
    /// Compare exchange.
    Exchanges,
    /// Sessions that read in one request and write documents cluster-wide, with atomic guards.
    ClusterWide { lists: bool },
    /// Sessions that read several values of compare exchange and change some cluster-wide.
    ClusterValues,
}

const WORKLOADS: &[Workload] = &[
    Workload::Requests,
    Workload::Optimistic { lists: true },
    Workload::Tokens { lists: true },
    Workload::Exchanges,
    Workload::ClusterWide { lists: true },
    Workload::Optimistic { lists: false },
    Workload::ClusterValues,
    Workload::Unheld,
    Workload::Tokens { lists: false },
    Workload::ClusterWide { lists: false },
    Workload::LastWriteWins,
];

impl Workload {
    /// Whether an anomaly is allowed, because `docs/guarantees.md` does not exclude it.
    pub(crate) fn may_show(self, anomaly: Anomaly) -> bool {
        let skew = matches!(anomaly, Anomaly::G2 | Anomaly::Realtime("G2"));
        match self {
            Workload::Requests | Workload::Exchanges => false,
            // Snapshot isolation: documents that were only read are not checked again.
            Workload::Optimistic { .. }
            | Workload::Tokens { .. }
            | Workload::ClusterWide { .. }
            | Workload::ClusterValues => skew,
            Workload::Unheld => {
                skew || matches!(
                    anomaly,
                    Anomaly::GSingle | Anomaly::Realtime("G-single") | Anomaly::FracturedRead
                )
            }
            Workload::LastWriteWins => {
                !matches!(anomaly, Anomaly::G1a | Anomaly::G1b | Anomaly::Garbage)
            }
        }
    }
}

/// What the processes of a round share.
pub(crate) struct Round {
    workload: Workload,
    /// The first key of the round.
    first_key: u64,
    operations_max: u64,
    /// A request without an answer for so long has none.
    pub(crate) answer_time_max: Duration,
    begun: AtomicU64,
    values: AtomicU64,
    struck: AtomicBool,
    clock: Instant,
}

impl Round {
    /// A round that lasts until it is [ended](Round::end).
    pub(crate) fn without_end(workload: Workload, answer_time_max: Duration) -> Round {
        Round {
            workload,
            first_key: 1,
            operations_max: u64::MAX,
            answer_time_max,
            begun: AtomicU64::new(0),
            values: AtomicU64::new(0),
            struck: AtomicBool::new(false),
            clock: Instant::now(),
        }
    }

    /// No operation begins after this.
    pub(crate) fn end(&self) {
        self.struck.store(true, Ordering::SeqCst);
    }

    /// Whether it has been [ended](Round::end).
    pub(crate) fn has_ended(&self) -> bool {
        self.struck.load(Ordering::SeqCst)
    }

    /// The time that all processes share.
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// A value that is unique in the run.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts an operation; `None` when there were enough, or the server was killed.
    fn begin(&self) -> Option<u64> {
        let count = self.begun.fetch_add(1, Ordering::SeqCst);
        (count < self.operations_max && !self.struck.load(Ordering::SeqCst)).then_some(count)
    }

    /// One of the current keys.
    fn key(&self, count: u64, random: &mut Random) -> u64 {
        let group = count / OPERATIONS_PER_KEYS;
        self.first_key + group * KEYS_AT_ONCE + random.below(KEYS_AT_ONCE)
    }

    /// Every key that was used.
    fn keys(&self) -> std::ops::Range<u64> {
        let begun = self.begun.load(Ordering::SeqCst).min(self.operations_max);
        let groups = begun / OPERATIONS_PER_KEYS + 1;
        self.first_key..self.first_key + groups * KEYS_AT_ONCE
    }
}

/// The result of a round.
struct Judged {
    operations: u64,
    committed: u64,
    findings: Vec<Finding>,
    /// Problems of the run itself.
    broken: Option<String>,
}

/// Runs about `operations` operations.
pub(crate) fn run(operations: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    let executable = executable()?;
    let seed = seed.unwrap_or_else(Random::fresh_seed);
    let directory = std::env::temp_dir().join(format!("corvus-consistency-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("data"))?;
    println!("consistency: {operations} operations, seed {seed}");
    let mut checks = Checks::default();
    let result = Drill::new(executable, &directory, seed).rounds(operations, &mut checks);
    if result.is_ok() && checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    } else {
        println!("consistency: the files are kept in {}", directory.display());
    }
    result.map(|()| checks)
}

struct Drill {
    executable: PathBuf,
    data: PathBuf,
    log: PathBuf,
    random: Random,
    clock: Instant,
    next_key: u64,
}

impl Drill {
    fn new(executable: PathBuf, directory: &Path, seed: u64) -> Drill {
        Drill {
            executable,
            data: directory.join("data"),
            log: directory.join("server.log"),
            random: Random::new(seed),
            clock: Instant::now(),
            next_key: 1,
        }
    }

    fn rounds(mut self, operations: u64, checks: &mut Checks) -> Result<(), Failure> {
        let mut server = self.start()?;
        create_database(&server.url, "consistency")?;
        let (mut done, mut committed, mut kills, mut number) = (0, 0, 0, 0);
        let (mut lost_updates, mut is_default_run) = (false, false);
        while done < operations || number < WORKLOADS.len() as u64 {
            let workload = WORKLOADS[(number % WORKLOADS.len() as u64) as usize];
            let is_struck = number % KILL_EVERY == KILL_EVERY - 1;
            number += 1;
            let round = self.round(workload);
            let (judged, after) = self.play(server, &round, is_struck)?;
            server = after;
            done += judged.operations;
            committed += judged.committed;
            kills += u64::from(is_struck);
            let found = |anomaly| judged.findings.iter().any(|one| one.anomaly == anomaly);
            if workload == Workload::LastWriteWins {
                is_default_run = true;
                lost_updates |= found(Anomaly::LostUpdate);
            }
            let (allowed, wrong): (Vec<_>, Vec<_>) =
                judged.findings.iter().partition(|finding| workload.may_show(finding.anomaly));
            println!(
                "consistency {number}: {workload:?}{}: {} operations, {} committed; {} findings \
                 that are allowed, {} that are not",
                if is_struck { ", kill -9" } else { "" },
                judged.operations,
                judged.committed,
                allowed.len(),
                wrong.len()
            );
            let is_right = wrong.is_empty() && judged.broken.is_none() && 0 < judged.committed;
            checks.that(is_right, || {
                let shown = wrong.iter().take(SHOWN_MAX).map(ToString::to_string);
                let shown: Vec<String> = shown.chain(judged.broken).collect();
                format!("round {number}, {workload:?}: {} wrong: {}", wrong.len(), shown.join("; "))
            });
        }
        checks.that(lost_updates || !is_default_run, || {
            "no lost update without optimistic concurrency: the judge sees nothing".to_owned()
        });
        println!(
            "consistency: {done} operations in {number} rounds, {committed} committed, {kills} times \
             kill -9, {} s",
            self.clock.elapsed().as_secs()
        );
        server.kill()
    }

    fn start(&self) -> Result<ServerProcess, Failure> {
        ServerProcess::start(&self.executable, &self.data, &self.log)
    }

    fn round(&mut self, workload: Workload) -> Round {
        let first_key = self.next_key;
        self.next_key += (ROUND_OPERATIONS / OPERATIONS_PER_KEYS + 2) * KEYS_AT_ONCE;
        Round {
            workload,
            first_key,
            operations_max: ROUND_OPERATIONS,
            answer_time_max: ANSWER_TIME_MAX,
            begun: AtomicU64::new(0),
            values: AtomicU64::new(0),
            struck: AtomicBool::new(false),
            clock: self.clock,
        }
    }

    /// Runs a round and returns the server that continues.
    fn play(
        &mut self,
        server: ServerProcess,
        round: &Round,
        is_struck: bool,
    ) -> Result<(Judged, ServerProcess), Failure> {
        let dice: Vec<Random> = (0..PROCESSES).map(|_| Random::new(self.random.next())).collect();
        let strike_at = ROUND_OPERATIONS / 4 + self.random.below(ROUND_OPERATIONS / 2);
        let exchanges = round.workload == Workload::Exchanges;
        let url = server.url.clone();
        let (histories, server) = std::thread::scope(|scope| {
            let url = url.as_str();
            let threads: Vec<_> = (0..PROCESSES)
                .zip(dice)
                .map(|(process, random)| {
                    scope.spawn(move || match exchanges {
                        true => History::Exchanges(exchanges::play(url, round, random)),
                        false => History::Documents(documents::play(url, round, process, random)),
                    })
                })
                .collect();
            let server = match is_struck {
                false => Some(server),
                true => {
                    while round.begun.load(Ordering::SeqCst) < strike_at
                        && !threads.iter().all(std::thread::ScopedJoinHandle::is_finished)
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    server.kill()?;
                    round.struck.store(true, Ordering::SeqCst);
                    None
                }
            };
            let ended = threads.into_iter().map(|thread| thread.join());
            let ended: Result<Vec<_>, _> = ended.collect();
            Ok::<_, Failure>((ended.map_err(|_| "a client panicked")?, server))
        })?;
        let server = match server {
            Some(server) => server,
            None => self.start()?,
        };
        let mut client = HttpClient::connect(&server.url)?;
        get_while_loading(&mut client, &format!("{DATABASE}/stats/essential"))?;
        Ok((judge(&server.url, round, histories), server))
    }
}

/// The operations of a process, and why it stopped early, if it did.
enum History {
    Documents(client::Played<consistency::Transaction>),
    Exchanges(client::Played<consistency::Exchange>),
}

fn judge(url: &str, round: &Round, histories: Vec<History>) -> Judged {
    let (mut documents, mut exchanges) = (client::Played::default(), client::Played::default());
    for history in histories {
        match history {
            History::Documents(played) => documents.join(played),
            History::Exchanges(played) => exchanges.join(played),
        }
    }
    let mut judged = Judged { operations: 0, committed: 0, findings: Vec::new(), broken: None };
    if round.workload == Workload::Exchanges {
        exchanges.join(exchanges::read_all(url, round));
        judged.operations = exchanges.history.len() as u64;
        judged.committed = exchanges.committed;
        judged.findings = consistency::check_exchanges(&exchanges.history);
        judged.broken = exchanges.broken;
        return judged;
    }
    documents.join(documents::read_all(url, round, PROCESSES));
    judged.operations = documents.history.len() as u64;
    judged.committed = documents.committed;
    judged.findings = match documents::are_lists(round.workload) {
        true => consistency::check_lists(&documents.history),
        false => consistency::check_registers(&documents.history),
    };
    judged.broken = documents.broken;
    judged
}
