//! The task `cluster-faults`: a cluster of three servers in network namespaces, to whose nodes and links something
//! happens all the time, while clients of every node work.
//!
//! A run goes through rounds of half a minute, each with a database of its own. At the end of a round everything is
//! healed, and judged: compare exchange and cluster-wide transactions of values are linearizable and serializable across
//! nodes, no acknowledged write is lost, all nodes are equal. It needs root, and `ip`, `tc` and `nft`.

mod faults;
mod judge;
mod network;
mod node;
mod writers;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    thread::{Scope, ScopedJoinHandle, sleep},
    time::{Duration, Instant},
};

use consistency::{Exchange, Finding, Transaction};
use serde_json::json;

use crate::{
    Failure,
    checks::Checks,
    cluster_faults::{faults::Fault, network::Network, node::Node, writers::Ledger},
    consistency::{Round, Workload, client::Played, documents, exchanges},
    random::Random,
    server_process::executable,
};

const NODES: usize = 3;
/// Clients of each kind at each node.
const CLIENTS: usize = 2;
const ROUND_TIME: Duration = Duration::from_secs(30);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(6);
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MS_MAX: u64 = 3_000;
/// How long a request at the end may wait for a member.
const WAIT_FOR_ALL: &str = "waitForReplicasTimeout=00:00:15&numberOfReplicasToWaitFor=2&throwOnTimeoutInWaitForReplicas=true";
/// Of the findings of a round.
const SHOWN_MAX: usize = 5;

/// `10m` or `90s`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, Failure> {
    let parsed = match (text.strip_suffix('m'), text.strip_suffix('s')) {
        (Some(minutes), _) => minutes.parse().map(|minutes: u64| minutes * 60),
        (None, Some(seconds)) => seconds.parse(),
        (None, None) => text.parse(),
    };
    let seconds = parsed.map_err(|_| format!("'{text}' is no time such as 10m or 90s"))?;
    Ok(Duration::from_secs(seconds))
}

pub(crate) fn run(time: Duration, seed: Option<u64>) -> Result<Checks, Failure> {
    let seed = seed.unwrap_or_else(Random::fresh_seed);
    println!("cluster-faults: {} s, seed {seed}", time.as_secs());
    if !node::has_clocks() {
        println!("cluster-faults: libfaketime is not installed: no wrong clocks");
    }
    let mut drill = Drill::create(seed)?;
    let mut checks = Checks::default();
    let result = drill.rounds(time, &mut checks);
    drill.remove();
    if result.is_ok() && checks.failures.is_empty() {
        std::fs::remove_dir_all(&drill.folder)?;
    } else {
        println!("cluster-faults: the logs are kept in {}", drill.folder.display());
    }
    result.map(|()| checks)
}

struct Drill {
    network: Network,
    nodes: Vec<Node>,
    folder: PathBuf,
    random: Random,
    faults: usize,
}

/// What the clients of a round did.
#[derive(Default)]
struct Histories {
    exchanges: Played<Exchange>,
    values: Played<Transaction>,
    ledger: Ledger,
}

impl Drill {
    fn create(seed: u64) -> Result<Drill, Failure> {
        let executable = executable()?;
        let folder =
            std::env::temp_dir().join(format!("corvus-cluster-faults-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let network = Network::create(NODES)?;
        let mut drill =
            Drill { network, nodes: Vec::new(), folder, random: Random::new(seed), faults: 0 };
        for machine in 0..NODES {
            let node = Node::create(&drill.network, machine, &executable, &drill.folder)?;
            drill.nodes.push(node);
            drill.nodes[machine].start(&drill.network)?;
        }
        for machine in 1..NODES {
            let url = drill.nodes[machine].url.clone();
            let added = format!("/admin/cluster/node?url={url}");
            drill.nodes[0].send("PUT", &added, &json!(null))?;
        }
        Ok(drill)
    }

    /// Ends the servers.
    fn remove(&mut self) {
        self.nodes.iter_mut().for_each(Node::remove);
    }

    fn rounds(&mut self, time: Duration, checks: &mut Checks) -> Result<(), Failure> {
        let began = Instant::now();
        let (mut operations, mut acknowledged) = (0, 0);
        for number in 1.. {
            let (histories, exchanges, values) = self.round()?;
            operations += histories.exchanges.history.len() + histories.values.history.len();
            acknowledged += histories.ledger.acknowledged;
            let wrong = self.judged(histories, &exchanges, &values);
            println!("cluster-faults {number}: {} wrong", wrong.len());
            let is_right = wrong.is_empty();
            checks.that(is_right, || format!("round {number}: {}", wrong.join("; ")));
            if !is_right || time <= began.elapsed() {
                break;
            }
        }
        println!(
            "cluster-faults: {} faults, {operations} operations on values, {acknowledged} acknowledged writes of \
             documents and counters, {} s",
            self.faults,
            began.elapsed().as_secs()
        );
        Ok(())
    }

    /// One round, at whose end everything is healed.
    fn round(&mut self) -> Result<(Histories, Round, Round), Failure> {
        self.create_database()?;
        let exchanges = Round::without_end(Workload::Exchanges, ANSWER_TIME_MAX);
        let values = Round::without_end(Workload::ClusterValues, ANSWER_TIME_MAX);
        let urls: Vec<String> = self.nodes.iter().map(|node| node.url.clone()).collect();
        let mut dice = Random::new(self.random.next());
        let processes = AtomicU32::new(0);
        let histories = std::thread::scope(|scope| {
            let clients = Clients { exchanges: &exchanges, values: &values, processes: &processes };
            let running: Vec<_> = urls
                .iter()
                .flat_map(|url| std::iter::repeat_n(url.as_str(), CLIENTS))
                .flat_map(|url| clients.start(scope, url, &mut dice))
                .collect();
            let faults = self.let_happen();
            exchanges.end();
            values.end();
            let mut histories = Histories::default();
            for client in running {
                let history = client.join().map_err(|_| "a client panicked")?;
                histories.exchanges.join(history.exchanges);
                histories.values.join(history.values);
                histories.ledger.join(history.ledger);
            }
            faults.map(|()| histories)
        })?;
        Ok((histories, exchanges, values))
    }

    fn create_database(&mut self) -> Result<(), Failure> {
        let node = &self.nodes[self.random.below(NODES as u64) as usize];
        judge::until("the database is created", || {
            let record = json!({"DatabaseName": "consistency"});
            let created = node.send("PUT", "/admin/databases?replicationFactor=3", &record);
            match created {
                Err(error) if !error.to_string().contains("409") => Err(error),
                _ => Ok(()),
            }
        })?;
        judge::await_members(&self.nodes)?;
        let revisions = json!({"Collections": {"Shared": {"Disabled": false}}});
        judge::until("revisions are configured", || {
            node.send("POST", &writers::path("/admin/revisions/config"), &revisions).map(drop)
        })?;
        judge::until("the first documents are written", || {
            let path = writers::path(&format!("/bulk_docs?{WAIT_FOR_ALL}"));
            node.send("POST", &path, &writers::prepared()).map(drop)
        })
    }

    /// Faults one after another, sometimes two at a time.
    fn let_happen(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < ROUND_TIME {
            for _ in 0..=self.random.below(2) {
                let fault = Fault::random(&mut self.random, NODES);
                println!("cluster-faults: {:>5} ms {fault}", began.elapsed().as_millis());
                fault.begin(&self.network, &mut self.nodes)?;
                self.faults += 1;
            }
            sleep(Fault::hold(&mut self.random));
            faults::heal(&self.network, &mut self.nodes)?;
            sleep(Duration::from_millis(self.random.below(PAUSE_MS_MAX)));
        }
        Ok(())
    }

    /// What is wrong with a round. The database is deleted when nothing is.
    fn judged(&self, histories: Histories, exchanges: &Round, values: &Round) -> Vec<String> {
        let Histories { exchanges: mut exchanged, values: mut played, ledger } = histories;
        let mut wrong = ledger.broken.clone();
        if let Err(error) = judge::await_members(&self.nodes) {
            wrong.push(error.to_string());
        }
        let url = &self.nodes[0].url;
        let began = Instant::now();
        exchanged.join(exchanges::read_all(url, exchanges));
        played.join(documents::read_all(url, values, u32::MAX));
        let count = (exchanged.committed, played.committed, ledger.acknowledged);
        println!(
            "cluster-faults: {} exchanges, {} transactions and {} writes succeeded",
            count.0, count.1, count.2
        );
        wrong.extend(exchanged.broken.into_iter().chain(played.broken));
        if count.0 == 0 || count.1 == 0 || count.2 == 0 {
            wrong.push("nothing succeeded".to_owned());
        }
        wrong.extend(shown(&consistency::check_exchanges(&exchanged.history)));
        let findings = consistency::check_registers(&played.history);
        let findings = findings
            .into_iter()
            .filter(|finding| !Workload::ClusterValues.may_show(finding.anomaly));
        wrong.extend(shown(&findings.collect::<Vec<_>>()));
        wrong.extend(judge::check(&self.nodes, &ledger));
        println!("cluster-faults: judged in {} ms", began.elapsed().as_millis());
        if wrong.is_empty() {
            let delete = json!({"DatabaseNames": ["consistency"], "HardDelete": true});
            if let Err(error) = self.nodes[0].send("DELETE", "/admin/databases", &delete) {
                wrong.push(format!("the database is not deleted: {error}"));
            }
        }
        wrong
    }
}

fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().take(SHOWN_MAX).map(ToString::to_string).collect()
}

struct Clients<'r> {
    exchanges: &'r Round,
    values: &'r Round,
    /// The next process of a history; one whose last outcome is unknown does nothing more.
    processes: &'r AtomicU32,
}

impl<'r> Clients<'r> {
    /// One client of each kind at a node.
    fn start<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        url: &'r str,
        dice: &mut Random,
    ) -> [ScopedJoinHandle<'scope, Histories>; 3]
    where
        'r: 'scope,
    {
        let (exchanges, values, processes) = (self.exchanges, self.values, self.processes);
        let [mut first, mut second, third] = [(); 3].map(|()| Random::new(dice.next()));
        let client = processes.fetch_add(1, Ordering::SeqCst);
        [
            scope.spawn(move || {
                let mut played = Played::default();
                while !exchanges.has_ended() && played.broken.is_none() {
                    played.join(exchanges::play(url, exchanges, Random::new(first.next())));
                    sleep(RECONNECT_PAUSE);
                }
                Histories { exchanges: played, ..Histories::default() }
            }),
            scope.spawn(move || {
                let mut played = Played::default();
                while !values.has_ended() && played.broken.is_none() {
                    let process = processes.fetch_add(1, Ordering::SeqCst);
                    let random = Random::new(second.next());
                    played.join(documents::play(url, values, process, random));
                    sleep(RECONNECT_PAUSE);
                }
                Histories { values: played, ..Histories::default() }
            }),
            scope.spawn(move || Histories {
                ledger: writers::write(url, exchanges, client, third),
                ..Histories::default()
            }),
        ]
    }
}
