//! A cluster of three servers on this machine.

use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use report::Better;
use tokio::{task::LocalSet, time::sleep};

use super::{
    Figures,
    changes::write_and_listen,
    database::{DATABASE, fill},
};
use crate::{
    connection::{Connection, request},
    error::DriverError,
    generated::write_small,
    load::{Load, run_load},
    server::{Program, RunningServer},
    works::{create_database_on, write_exchange},
};

pub(crate) const SETUP_FIGURES: &[(&str, Better)] =
    &[("s to a database on three nodes", Better::Less)];
pub(crate) const VISIBLE_FIGURES: &[(&str, Better)] =
    &[("p50 ms", Better::Less), ("p99 ms", Better::Less), ("missed", Better::Less)];
pub(crate) const EXCHANGE_FIGURES: &[(&str, Better)] =
    &[("requests/s", Better::More), ("p50 ms", Better::Less), ("p99 ms", Better::Less)];
pub(crate) const BULK_FIGURES: &[(&str, Better)] = &[
    ("documents/s, one node", Better::More),
    ("documents/s, until three are equal", Better::More),
    ("of the rate of one node", Better::More),
];
pub(crate) const CATCH_UP_FIGURES: &[(&str, Better)] = &[("documents/s", Better::More)];
pub(crate) const IDLE_FIGURES: &[(&str, Better)] =
    &[("% of a core, each node", Better::Less), ("MB resident, each node", Better::Less)];

const NODES: usize = 3;
const SETUPS: usize = 3;
const EXCHANGED_FOR: Duration = Duration::from_secs(10);
const EXCHANGES: Load =
    Load { connections: 64, duration: EXCHANGED_FOR, operations_per_request: 1 };
const DOCUMENTS: u64 = 1_000_000;
const EQUAL_TIME_MAX: Duration = Duration::from_secs(300);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const IDLE_DATABASES: usize = 100;
const IDLE_REST: Duration = Duration::from_secs(20);
const IDLE_TIME: Duration = Duration::from_secs(30);

/// See the module.
struct Cluster {
    nodes: Vec<RunningServer>,
}

impl Cluster {
    /// Starts three servers with empty data, which become one cluster.
    async fn start(program: &Program, parent: &Path) -> Result<Self, DriverError> {
        let (one, two, three) = tokio::try_join!(
            RunningServer::start(program, parent),
            RunningServer::start(program, parent),
            RunningServer::start(program, parent),
        )?;
        let cluster = Self { nodes: vec![one, two, three] };
        let mut connection = Connection::open(cluster.nodes[0].address).await?;
        for node in &cluster.nodes[1..] {
            let path = format!("/admin/cluster/node?url=http://{}", node.address);
            connection.succeed(&request("PUT", &path, b"")).await?;
        }
        Ok(cluster)
    }

    /// Creates a database on all nodes, and waits until they have it: that one node has created it does not say so.
    async fn create_database(&self, name: &str) -> Result<(), DriverError> {
        let mut connection = Connection::open(self.nodes[0].address).await?;
        create_database_on(&mut connection, name, NODES).await?;
        for node in &self.nodes {
            await_documents(node, name, 0).await?;
        }
        Ok(())
    }

    /// Waits until every node has so many documents.
    async fn await_documents(&self, documents: u64) -> Result<(), DriverError> {
        for node in &self.nodes {
            await_documents(node, DATABASE, documents).await?;
        }
        Ok(())
    }

    async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}

async fn await_documents(
    node: &RunningServer,
    database: &str,
    documents: u64,
) -> Result<(), DriverError> {
    let mut connection = Connection::open(node.address).await?;
    let stats = request("GET", &format!("/databases/{database}/stats"), b"");
    let deadline = Instant::now() + EQUAL_TIME_MAX;
    loop {
        // A database that is opened answers later.
        let status = connection.exchange(&stats).await?;
        let answer = serde_json::from_slice::<serde_json::Value>(connection.body());
        let counted = answer.ok().and_then(|stats| stats["CountOfDocuments"].as_u64());
        if status == 200 && counted == Some(documents) {
            return Ok(());
        }
        if deadline < Instant::now() {
            return Err(connection.unexpected(&stats));
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// From nothing to a database on three nodes, each of which has taken a write.
pub(super) async fn setup(program: &Program, parent: &Path) -> Result<Vec<Figures>, DriverError> {
    let mut rounds = Vec::new();
    for _ in 0..SETUPS {
        let began = Instant::now();
        let cluster = Cluster::start(program, parent).await?;
        cluster.create_database(DATABASE).await?;
        for node in &cluster.nodes {
            let put = request("PUT", &format!("/databases/{DATABASE}/docs?id=first"), b"{}");
            Connection::open(node.address).await?.succeed(&put).await?;
        }
        rounds.push(vec![began.elapsed().as_secs_f64()]);
        cluster.stop().await;
    }
    Ok(rounds)
}

/// The time from the acknowledgement of a write on one node to its notification on another one.
pub(super) async fn visible(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let cluster = Cluster::start(program, parent).await?;
    cluster.create_database(DATABASE).await?;
    let (writer, listener) = (cluster.nodes[0].address, cluster.nodes[1].address);
    let seen = LocalSet::new().run_until(write_and_listen(writer, listener)).await?;
    cluster.stop().await;
    let milliseconds = |quantile| seen.latencies.value_at_quantile(quantile) as f64 / 1e6;
    Ok(vec![milliseconds(0.5), milliseconds(0.99), seen.missed as f64])
}

/// New values of compare exchange, at the node that leads.
pub(super) async fn exchange(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let cluster = Cluster::start(program, parent).await?;
    cluster.create_database(DATABASE).await?;
    let mut number = 0;
    let mut next = |out: &mut Vec<u8>| {
        number += 1;
        write_exchange(out, number);
    };
    let leader = &cluster.nodes[0];
    let outcome = run_load(leader.address, leader.process, EXCHANGES, &mut next)?;
    cluster.stop().await;
    let milliseconds = |quantile| outcome.latencies.value_at_quantile(quantile) as f64 / 1e6;
    let rate = outcome.operations as f64 / outcome.elapsed.as_secs_f64();
    Ok(vec![rate, milliseconds(0.5), milliseconds(0.99)])
}

/// A bulk insert to a server that is alone; then one to a node, until all nodes have everything.
pub(super) async fn bulk(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let alone = RunningServer::start(program, parent).await?;
    create_database_on(&mut Connection::open(alone.address).await?, DATABASE, 1).await?;
    let began = Instant::now();
    fill(&alone, "docs/", DOCUMENTS, write_small).await?;
    let one = DOCUMENTS as f64 / began.elapsed().as_secs_f64();
    alone.stop().await;
    let cluster = Cluster::start(program, parent).await?;
    cluster.create_database(DATABASE).await?;
    let began = Instant::now();
    fill(&cluster.nodes[0], "docs/", DOCUMENTS, write_small).await?;
    cluster.await_documents(DOCUMENTS).await?;
    let three = DOCUMENTS as f64 / began.elapsed().as_secs_f64();
    cluster.stop().await;
    Ok(vec![one, three, three / one])
}

/// A node is away while documents are inserted, and starts again.
pub(super) async fn catch_up(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let mut cluster = Cluster::start(program, parent).await?;
    cluster.create_database(DATABASE).await?;
    fill(&cluster.nodes[0], "before/", 1, write_small).await?;
    cluster.await_documents(1).await?;
    let away = cluster.nodes.remove(NODES - 1);
    let address = format!("--ServerUrl=http://{}", away.address);
    let data = away.stop().await;
    fill(&cluster.nodes[0], "docs/", DOCUMENTS, write_small).await?;
    cluster.await_documents(DOCUMENTS + 1).await?;
    let back = RunningServer::start_with(program, data, &[&address]).await?;
    let began = Instant::now();
    await_documents(&back, DATABASE, DOCUMENTS + 1).await?;
    let rate = DOCUMENTS as f64 / began.elapsed().as_secs_f64();
    cluster.nodes.push(back);
    cluster.stop().await;
    Ok(vec![rate])
}

/// Many databases on three nodes that nobody uses.
pub(super) async fn idle(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let cluster = Cluster::start(program, parent).await?;
    let mut name = String::new();
    for number in 0..IDLE_DATABASES {
        name.clear();
        write!(name, "idle-{number}").expect("writing to a String cannot fail");
        cluster.create_database(&name).await?;
        let put = request("PUT", &format!("/databases/{name}/docs?id=first"), b"{}");
        Connection::open(cluster.nodes[number % NODES].address).await?.succeed(&put).await?;
    }
    sleep(IDLE_REST).await;
    let used = || -> Duration {
        cluster.nodes.iter().filter_map(|node| node.process.processor_time()).sum()
    };
    let before = used();
    sleep(IDLE_TIME).await;
    let used = used().saturating_sub(before);
    let share = used.as_secs_f64() / IDLE_TIME.as_secs_f64() / NODES as f64;
    let resident: f64 =
        cluster.nodes.iter().filter_map(|node| node.process.memory()).map(|one| one.resident).sum();
    cluster.stop().await;
    Ok(vec![share * 100.0, resident / NODES as f64])
}
