//! A cluster in virtual time: its machines, its network, its clients, and what is done to them.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    rc::Rc,
    time::Duration,
};

use cluster_state::{Applied, Command, Outcome};
use platform::simulated::{Random, Scheduler, Sleep, Survival};

use crate::{
    history::{Ended, Operation, Register, Request, Shown},
    network::Network,
    node::{Node, Process},
    plan::Plan,
    raft_checks::RaftChecks,
};

/// The id of the cluster that node 0 begins.
pub(crate) const CLUSTER: [u8; 16] = [1; 16];
/// How often the nodes are compared.
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(25);
/// How often somebody looks for nodes that must be started again.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node may take to start.
const START_TIME_MAX: Duration = Duration::from_secs(70);
/// The pause before a node that did not start is started again.
const START_PAUSE: Duration = Duration::from_millis(500);

/// An identity that a client counted up: the position and the value of the answer, if there was one.
pub(crate) type Counted = Option<(u64, i64)>;

/// See the module.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) scheduler: Scheduler,
    pub(crate) network: Network,
    pub(crate) nodes: RefCell<Vec<Node>>,
    pub(crate) history: RefCell<Vec<Operation>>,
    pub(crate) counted: RefCell<Vec<Counted>>,
    pub(crate) checks: RefCell<RaftChecks>,
    pub(crate) findings: RefCell<Vec<String>>,
    pub(crate) random: RefCell<Random>,
    /// What happened, for a person.
    pub(crate) log: RefCell<Vec<String>>,
    /// Nodes that clients know.
    members: RefCell<BTreeSet<usize>>,
    /// Nodes that somebody is about to start again.
    down: RefCell<BTreeSet<usize>>,
    /// Whether clients are to stop.
    pub(crate) is_over: Cell<bool>,
}

impl World {
    pub(crate) fn new(plan: Plan, scheduler: &Scheduler) -> Rc<Self> {
        let mut random = Random::new(plan.seed);
        let machines = 0..plan.machines;
        let nodes = machines.map(|number| Node::new(number, random.next_u64(), scheduler));
        let nodes = RefCell::new(nodes.collect());
        let network = Network::new(random.next_u64());
        Rc::new(Self {
            plan,
            scheduler: scheduler.clone(),
            network,
            nodes,
            history: RefCell::default(),
            counted: RefCell::default(),
            checks: RefCell::default(),
            findings: RefCell::default(),
            random: RefCell::new(random),
            log: RefCell::default(),
            members: RefCell::default(),
            down: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.scheduler.now()
    }

    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.scheduler.sleep(time)
    }

    /// The outcome of something that may take a limited time; `None` when it took longer.
    pub(crate) async fn within<T>(
        &self,
        time: Duration,
        task: impl Future<Output = T>,
    ) -> Option<T> {
        let (task, over) = (pin!(task), self.sleep(time));
        tokio::select! {
            biased;
            outcome = task => Some(outcome),
            () = over => None,
        }
    }

    /// Notes what happened, for a person and for the trace.
    pub(crate) fn log(&self, line: String) {
        line.bytes().for_each(|byte| self.scheduler.note(u64::from(byte)));
        let seconds = self.now().as_secs_f64() - 86_400.0;
        self.log.borrow_mut().push(format!("{seconds:>9.4} {line}"));
    }

    pub(crate) fn find(&self, finding: String) {
        self.log(format!("FOUND: {finding}"));
        self.findings.borrow_mut().push(finding);
    }

    pub(crate) fn has_findings(&self) -> bool {
        !self.findings.borrow().is_empty()
    }

    pub(crate) fn random_below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    pub(crate) fn is_member(&self, node: usize) -> bool {
        self.members.borrow().contains(&node)
    }

    pub(crate) fn set_member(&self, node: usize, is_member: bool) {
        let mut members = self.members.borrow_mut();
        let _ = if is_member { members.insert(node) } else { members.remove(&node) };
    }

    /// The running process of a node.
    pub(crate) fn process(&self, node: usize) -> Option<Process> {
        self.nodes.borrow().get(node)?.process.clone()
    }

    /// The running processes that belong to the cluster.
    pub(crate) fn processes(&self) -> Vec<(usize, Process)> {
        let nodes = self.nodes.borrow();
        let running = nodes.iter().filter_map(|node| Some((node.number, node.process.clone()?)));
        running.filter(|(_, process)| process.cluster.id() == CLUSTER).collect()
    }

    /// Whether nobody is about to start the node again. Then the caller may take it down.
    pub(crate) fn take_down(&self, node: usize) -> bool {
        self.down.borrow_mut().insert(node)
    }

    /// Waits until the node is up, and takes it down.
    pub(crate) async fn wait_and_take_down(&self, node: usize) {
        while !self.take_down(node) {
            let pause = self.sleep(WATCH_INTERVAL);
            pause.await;
        }
    }

    pub(crate) fn is_down(&self, node: usize) -> bool {
        self.down.borrow().contains(&node)
    }

    pub(crate) fn crash(&self, node: usize, survival: Survival) {
        self.log(format!("node {node} loses its power: {survival:?}"));
        self.nodes.borrow_mut()[node].crash(&self.network, survival);
    }

    /// Starts a node that was taken down, as often as it takes.
    pub(crate) async fn start(&self, node: usize) {
        loop {
            let started = self.nodes.borrow_mut()[node].start(&self.network, self.plan.limits);
            match self.within(START_TIME_MAX, started).await {
                Some(Ok(Ok(process))) => {
                    self.log(format!("node {node} is up"));
                    self.nodes.borrow_mut()[node].process = Some(process);
                    self.down.borrow_mut().remove(&node);
                    return;
                }
                Some(Ok(Err(error))) => self.log(format!("node {node} does not start: {error}")),
                Some(Err(_)) => self.log(format!("node {node} ended while it started")),
                None => self.find(format!("node {node} is still starting")),
            }
            self.crash(node, Survival::Everything);
            let pause = self.sleep(START_PAUSE);
            pause.await;
        }
    }

    /// Starts nodes again whose disk has failed or lost power.
    pub(crate) async fn watch(self: Rc<Self>) {
        loop {
            let pause = self.sleep(WATCH_INTERVAL);
            pause.await;
            for node in 0..self.plan.machines {
                let is_broken = self.nodes.borrow()[node].is_broken();
                if is_broken && self.take_down(node) {
                    self.crash(node, Survival::Random);
                    let off = Duration::from_millis(50 + self.random_below(3000));
                    let world = Rc::clone(&self);
                    self.scheduler.spawn(async move {
                        let pause = world.sleep(off);
                        pause.await;
                        world.start(node).await;
                    });
                }
            }
        }
    }

    /// Compares all nodes again and again.
    pub(crate) async fn observe(self: Rc<Self>) {
        loop {
            let pause = self.sleep(OBSERVATION_INTERVAL);
            pause.await;
            self.observe_now();
        }
    }

    pub(crate) fn observe_now(&self) {
        for (node, process) in self.processes() {
            match process.cluster.inspect() {
                Ok(seen) => {
                    let checked = self.checks.borrow_mut().observe(node, &seen);
                    if let Err(finding) = checked {
                        self.find(finding);
                    }
                }
                Err(_) if self.nodes.borrow()[node].is_broken() => {}
                Err(error) => self.find(format!("node {node} cannot be read: {error}")),
            }
        }
    }

    pub(crate) fn record(&self, operation: Operation) {
        self.history.borrow_mut().push(operation);
    }

    /// Records a read of all keys.
    pub(crate) fn record_read(
        &self,
        name: &str,
        position: u64,
        found: &BTreeMap<String, Register>,
        (began, ended): (Duration, Duration),
    ) {
        let keys: BTreeSet<String> =
            self.history.borrow().iter().map(|operation| operation.key.clone()).collect();
        for key in keys.into_iter().chain(found.keys().cloned()).collect::<BTreeSet<_>>() {
            let state = found.get(&key).copied().flatten();
            let outcome = Ended::Answered { position, is_done: true, shown: Shown::State(state) };
            let (name, request) = (name.to_owned(), Request::Read);
            self.record(Operation { name, key, request, began, ended, outcome });
        }
    }

    /// Notes what became of an identity that was to be counted up: `None` if nothing was done, `Some(None)` if that is
    /// not known.
    pub(crate) fn note_identity(&self, command: &Command, applied: Option<Option<&Applied>>) {
        let (Command::Identity(_), Some(applied)) = (command, applied) else { return };
        let counted = applied.map(|applied| match &applied.outcome {
            Outcome::Identities(values) => (applied.index, values[0]),
            other => panic!("an identity was answered with {other:?}"),
        });
        self.counted.borrow_mut().push(counted);
    }
}
