//! The network between simulated nodes: delays, loss, duplicates, and pairs that cannot reach each other.
//!
//! A message is *delivered* to whatever process is at its address at that time, in that process's group of tasks; its
//! answer goes the way back and can be lost there. What is lost is never reported: what waits for it gives up by
//! itself. Two messages on the same way may overtake each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, pending},
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use cluster::{Cluster, PeerAnswer, Peers};
use platform::simulated::{Random, Scheduler, TaskGroup};
use tokio::sync::oneshot;

/// Kinds of requests that no node sends twice, because they are not idempotent: commands, and changes of the nodes.
const IS_SENT_ONCE: [u8; 2] = [5, 7];

/// How a network treats messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weather {
    /// The mean delay of a message; delays are distributed exponentially.
    pub(crate) delay_mean: Duration,
    /// Of a thousand messages, how many are lost.
    pub(crate) lost_permille: u64,
    /// Of a thousand messages, how many arrive twice.
    pub(crate) doubled_permille: u64,
}

impl Weather {
    /// A network without faults.
    pub(crate) const CALM: Self =
        Self { delay_mean: Duration::from_millis(1), lost_permille: 0, doubled_permille: 0 };
}

/// A process that can be reached.
struct Process {
    cluster: Weak<Cluster>,
    group: TaskGroup,
}

struct State {
    weather: Weather,
    random: Random,
    processes: BTreeMap<usize, Process>,
    /// How many partitions lie between two nodes, in one direction.
    cut: BTreeMap<(usize, usize), u32>,
    delivered: u64,
}

/// See the module. Clones share one network.
#[derive(Clone)]
pub(crate) struct Network {
    state: Arc<Mutex<State>>,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Node(usize),
    /// Clients reach every node that is up.
    Client,
}

/// What happens to a message on its way.
enum Fate {
    Lost,
    /// Nobody listens at the address.
    Refused(Duration),
    Arrives {
        after: Duration,
        again: Option<Duration>,
    },
}

/// The address of a node.
pub(crate) fn url_of(node: usize) -> String {
    format!("http://node{node}")
}

/// The node at an address.
pub(crate) fn node_at(url: &str) -> Option<usize> {
    url.strip_prefix("http://node")?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scheduler() -> Scheduler {
    Scheduler::current().expect("messages are sent by tasks")
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            weather: Weather::CALM,
            random: Random::new(seed),
            processes: BTreeMap::new(),
            cut: BTreeMap::new(),
            delivered: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        lock(&self.state).weather = weather;
    }

    /// Makes a process reachable at the address of a node.
    pub(crate) fn connect(&self, node: usize, cluster: &Arc<Cluster>, group: TaskGroup) {
        let process = Process { cluster: Arc::downgrade(cluster), group };
        lock(&self.state).processes.insert(node, process);
    }

    pub(crate) fn disconnect(&self, node: usize) {
        lock(&self.state).processes.remove(&node);
    }

    /// Cuts the ways of these pairs, from the first to the second node.
    pub(crate) fn cut(&self, pairs: &BTreeSet<(usize, usize)>) {
        let mut state = lock(&self.state);
        for pair in pairs {
            *state.cut.entry(*pair).or_default() += 1;
        }
    }

    /// Undoes one [`Network::cut`].
    pub(crate) fn mend(&self, pairs: &BTreeSet<(usize, usize)>) {
        let mut state = lock(&self.state);
        for pair in pairs {
            if let Some(count) = state.cut.get_mut(pair) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Undoes every [`Network::cut`].
    pub(crate) fn mend_all(&self) {
        lock(&self.state).cut.clear();
    }

    /// Messages that reached a process.
    pub(crate) fn delivered(&self) -> u64 {
        lock(&self.state).delivered
    }

    /// Sends a message to a node, which `answer` carries out there.
    ///
    /// # Errors
    /// `ConnectionRefused`: no process is there. `ConnectionReset`: it ended before it answered. A lost message or answer
    /// is waited for forever.
    pub(crate) async fn ask<T, F, A>(&self, from: Sender, to: usize, answer: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(Arc<Cluster>) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        self.send(from, to, true, answer).await
    }

    async fn send<T, F, A>(
        &self,
        from: Sender,
        to: usize,
        may_double: bool,
        answer: F,
    ) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(Arc<Cluster>) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        let fate = lock(&self.state).fate(from, to);
        let (after, again) = match fate {
            Fate::Lost => return pending().await,
            Fate::Refused(after) => {
                let refused = scheduler().sleep(after);
                refused.await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Fate::Arrives { after, again } => (after, again.filter(|_| may_double)),
        };
        let answer = Arc::new(answer);
        let (sender, receiver) = oneshot::channel();
        let back = Back { network: self.clone(), from, to };
        let first = Arc::clone(&answer);
        let carried = deliver(Arc::clone(&self.state), (from, to), after, move |cluster| {
            Box::pin(async move {
                let outcome = first(cluster).await;
                back.carry(sender, outcome);
            })
        });
        if let Some(after) = again {
            let doubled = deliver(Arc::clone(&self.state), (from, to), after, move |cluster| {
                Box::pin(async move { drop(answer(cluster).await) })
            });
            scheduler().spawn_in(TaskGroup::default(), doubled);
        }
        scheduler().spawn_in(TaskGroup::default(), carried);
        match receiver.await {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => pending().await,
            Err(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

/// Starts `carry_out` in the process that is there when a message arrives.
async fn deliver(
    state: Arc<Mutex<State>>,
    (from, to): (Sender, usize),
    after: Duration,
    carry_out: impl FnOnce(Arc<Cluster>) -> Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    let arrival = scheduler().sleep(after);
    arrival.await;
    let process = {
        let mut state = lock(&state);
        if state.is_cut(from, to) {
            None
        } else {
            state.delivered += 1;
            let process = state.processes.get(&to);
            process.and_then(|process| Some((process.cluster.upgrade()?, process.group)))
        }
    };
    if let Some((cluster, group)) = process {
        let task = carry_out(cluster);
        scheduler().spawn_in(group, task);
    }
}

/// The way back of an answer.
struct Back {
    network: Network,
    from: Sender,
    to: usize,
}

impl Back {
    fn carry<T: 'static>(self, sender: oneshot::Sender<Option<T>>, outcome: T) {
        let fate = {
            let mut state = lock(&self.network.state);
            match self.from {
                Sender::Node(node) => state.fate(Sender::Node(self.to), node),
                Sender::Client => state.fate(Sender::Client, self.to),
            }
        };
        let (after, outcome) = match fate {
            Fate::Arrives { after, .. } => (after, Some(outcome)),
            Fate::Lost | Fate::Refused(_) => (Duration::ZERO, None),
        };
        let group = match self.from {
            Sender::Node(node) => self.network.group_of(node),
            Sender::Client => None,
        };
        scheduler().spawn_in(TaskGroup::default(), async move {
            let arrival = scheduler().sleep(after);
            arrival.await;
            // The process that asked may be paused.
            scheduler().spawn_in(group.unwrap_or_default(), async move {
                drop(sender.send(outcome));
            });
        });
    }
}

impl Network {
    fn group_of(&self, node: usize) -> Option<TaskGroup> {
        lock(&self.state).processes.get(&node).map(|process| process.group)
    }
}

impl State {
    fn is_cut(&self, from: Sender, to: usize) -> bool {
        match from {
            Sender::Node(node) => self.cut.get(&(node, to)).is_some_and(|count| 0 < *count),
            Sender::Client => false,
        }
    }

    fn fate(&mut self, from: Sender, to: usize) -> Fate {
        if self.is_cut(from, to) || self.random.below(1000) < self.weather.lost_permille {
            return Fate::Lost;
        }
        let after = self.delay();
        if !self.processes.contains_key(&to) {
            return match self.random.coin() {
                true => Fate::Refused(after),
                false => Fate::Lost,
            };
        }
        let is_doubled = self.random.below(1000) < self.weather.doubled_permille;
        let again = is_doubled.then(|| self.delay() * 4);
        Fate::Arrives { after, again: again.filter(|_| from != Sender::Client) }
    }

    /// Distributed exponentially, at most ten times the mean.
    fn delay(&mut self) -> Duration {
        let uniform = (self.random.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
        self.weather.delay_mean.mul_f64((-uniform.ln()).min(10.0))
    }
}

/// The network as one node uses it.
pub(crate) struct Wire {
    pub(crate) network: Network,
    pub(crate) node: usize,
}

impl Peers for Wire {
    fn call(&self, url: &str, request: Vec<u8>) -> PeerAnswer {
        let (network, from) = (self.network.clone(), Sender::Node(self.node));
        let Some(to) = node_at(url) else {
            return Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())));
        };
        let request: Arc<[u8]> = request.into();
        let may_double = !IS_SENT_ONCE.contains(&request[1]);
        Box::pin(async move {
            let answer = move |cluster: Arc<Cluster>| {
                let request = Arc::clone(&request);
                async move { cluster.answer(&request).await }
            };
            network.send(from, to, may_double, answer).await
        })
    }
}
