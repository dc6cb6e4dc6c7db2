//! One simulated machine with the part of a server that belongs to a cluster.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use cluster::{Cluster, ClusterOptions, Limits};
use platform::{
    Clock, Platform, Timestamp,
    simulated::{Random, Scheduler, Simulation, Survival, TaskGroup},
};
use storage::{Environment, EnvironmentOptions};
use tokio::sync::oneshot;

use crate::network::{Network, Wire, url_of};

/// Virtual time on the calendar.
const CALENDAR: Duration = Duration::from_secs(1_767_225_600);
/// Bytes of a journal file: small, so that there are several.
const JOURNAL_BYTES_MAX: u64 = 256 << 10;
/// How often what was written is copied to the data file.
const FLUSH_INTERVAL: Duration = Duration::from_secs(2);

/// The clock of a node: virtual time, and how far this clock is off.
#[derive(Default)]
pub(crate) struct NodeClock {
    skew_milliseconds: AtomicI64,
}

impl NodeClock {
    pub(crate) fn set_skew(&self, milliseconds: i64) {
        self.skew_milliseconds.store(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let skew = self.skew_milliseconds.load(Ordering::Relaxed);
        let by = Duration::from_millis(skew.unsigned_abs());
        let time = CALENDAR + self.monotonic();
        Timestamp::from_unix(if skew < 0 { time.saturating_sub(by) } else { time + by })
    }

    fn monotonic(&self) -> Duration {
        Scheduler::current().map(|scheduler| scheduler.now()).unwrap_or_default()
    }
}

/// See the module.
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) machine: Simulation,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) group: TaskGroup,
    /// The running process.
    pub(crate) process: Option<Process>,
    /// The id of the cluster that a process with an empty disk begins.
    own_cluster: [u8; 16],
}

/// A running process of a node.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) environment: Arc<Environment>,
}

/// What a process is started with.
struct Start {
    platform: Platform,
    clock: Arc<NodeClock>,
    network: Network,
    number: usize,
    own_cluster: [u8; 16],
    limits: Limits,
}

impl Node {
    pub(crate) fn new(number: usize, seed: u64, scheduler: &Scheduler) -> Self {
        let (machine, clock) = (Platform::simulated(seed), Arc::default());
        let group = scheduler.new_group();
        let own_cluster = [u8::try_from(number + 1).expect("there are few nodes"); 16];
        Self { number, machine, clock, group, process: None, own_cluster }
    }

    /// Starts the process; the future that it returns does not borrow the node.
    pub(crate) fn start(
        &mut self,
        network: &Network,
        limits: Limits,
    ) -> oneshot::Receiver<Result<Process, String>> {
        let platform = self.machine.platform.clone();
        let (clock, network, number) = (Arc::clone(&self.clock), network.clone(), self.number);
        let own_cluster = self.own_cluster;
        let start = Start { platform, clock, network, number, own_cluster, limits };
        let (sender, receiver) = oneshot::channel();
        let scheduler = Scheduler::current().expect("nodes are started by a task");
        let group = self.group;
        scheduler.spawn_in(group, async move {
            // Nobody waits any longer if the node was ended meanwhile.
            drop(sender.send(start.run(group).await));
        });
        receiver
    }

    /// Ends the process wherever it is, and cuts the power of its disk.
    pub(crate) fn crash(&mut self, network: &Network, survival: Survival) {
        network.disconnect(self.number);
        // What the process does while it is dropped no longer reaches the disk.
        let restarted = match self.machine.disk.is_power_lost() {
            true => self.machine.disk.restart(),
            false => self.machine.disk.power_cut(survival),
        };
        restarted.expect("there is memory for the simulated disk");
        let scheduler = Scheduler::current().expect("nodes are ended by a task");
        scheduler.end(self.group);
        self.process = None;
    }

    /// Takes the disk away and puts in an empty one.
    pub(crate) fn wipe(&mut self, random: &mut Random) {
        self.machine = Platform::simulated(random.next_u64());
        self.own_cluster[..8].copy_from_slice(&random.next_u64().to_be_bytes());
        self.own_cluster[8] = u8::MAX;
    }

    /// Whether the process cannot go on and must be started again.
    pub(crate) fn is_broken(&self) -> bool {
        let has_failed = |process: &Process| process.environment.has_failed();
        self.machine.disk.is_power_lost() || self.process.as_ref().is_some_and(has_failed)
    }
}

impl Start {
    async fn run(self, group: TaskGroup) -> Result<Process, String> {
        let directory = PathBuf::from("/data/System");
        let options = EnvironmentOptions::new(directory);
        let options = EnvironmentOptions { journal_bytes_max: JOURNAL_BYTES_MAX, ..options };
        let environment = Environment::open(&self.platform, options);
        let environment = environment.map_err(|error| format!("the environment: {error}"))?;
        let peers = Wire { network: self.network.clone(), node: self.number };
        let alone = ClusterOptions::alone(Arc::clone(&environment), &self.platform);
        let options = ClusterOptions {
            clock: self.clock,
            peers: Arc::new(peers),
            cluster: self.own_cluster,
            limits: self.limits,
            ..alone
        };
        let cluster = Cluster::start_as_task(options).await;
        let cluster = Arc::new(cluster.map_err(|error| format!("the cluster: {error}"))?);
        cluster.set_url(url_of(self.number));
        self.network.connect(self.number, &cluster, group);
        let scheduler = Scheduler::current().expect("nodes are started by a task");
        scheduler.spawn(flush(Arc::clone(&environment)));
        Ok(Process { cluster, environment })
    }
}

/// What the server's thread for that does.
async fn flush(environment: Arc<Environment>) {
    loop {
        let sleep = Scheduler::current().map(|scheduler| scheduler.sleep(FLUSH_INTERVAL));
        let Some(sleep) = sleep else { return };
        sleep.await;
        if let Err(error) = environment.flush()
            && environment.has_failed()
        {
            drop(error);
            return;
        }
    }
}
