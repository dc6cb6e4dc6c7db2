//! What is done to a cluster, drawn from the seed before anything happens: so an event can be left out, and the rest stays.

use std::{collections::BTreeSet, fmt, time::Duration};

use cluster::Limits;
use platform::simulated::{FaultKind, OperationFilter, OperationKind, Random, Survival};

use crate::network::Weather;

/// Machines in a simulation.
const MACHINES: std::ops::RangeInclusive<u64> = 3..=7;
/// Events in a simulation.
const EVENTS_MAX: u64 = 16;

/// Something that is done at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, after the cluster was set up.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What is done to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The power of a node is cut: in the middle of its `nth` operation on the disk from then on, or at once.
    CutPower {
        /// The node.
        node: usize,
        /// The operation; `None` for at once.
        operation: Option<u64>,
        /// What is left of what was not synced.
        survival: Survival,
        /// How long the node is off.
        off: Duration,
    },
    /// A node stands still.
    Pause {
        /// The node.
        node: usize,
        /// For how long.
        time: Duration,
    },
    /// Messages from some nodes to others are lost.
    Partition {
        /// Pairs of a sender and a receiver.
        pairs: BTreeSet<(usize, usize)>,
        /// For how long.
        time: Duration,
    },
    /// An operation on the disk fails.
    FailDisk {
        /// The node.
        node: usize,
        /// Which operations count.
        filter: OperationFilter,
        /// Which of them fails, from then on.
        operation: u64,
        /// How.
        kind: FaultKind,
    },
    /// A disk is full.
    FillDisk {
        /// The node.
        node: usize,
        /// For how long.
        time: Duration,
    },
    /// The wall clock of a node jumps.
    SetClock {
        /// The node.
        node: usize,
        /// How far it is off from then on.
        skew_milliseconds: i64,
    },
    /// A node is added to the cluster.
    Add {
        /// The node.
        node: usize,
        /// Whether it is never to vote.
        is_watcher: bool,
    },
    /// A node is removed from the cluster, and comes back with an empty disk.
    Remove {
        /// The node.
        node: usize,
    },
    /// A watcher is to vote.
    Promote {
        /// The node.
        node: usize,
    },
    /// A voter becomes a watcher.
    Demote {
        /// The node.
        node: usize,
    },
}

/// Everything that is drawn before a simulation begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything else.
    pub seed: u64,
    /// Machines.
    pub machines: usize,
    /// How many of them are in the cluster at first.
    pub members: usize,
    /// Clients that work at the same time.
    pub clients: usize,
    /// Keys that they share.
    pub keys: u64,
    /// The mean pause of a client between two requests.
    pub think: Duration,
    /// How long clients work and faults happen.
    pub time: Duration,
    /// Limits of each node.
    pub limits: Limits,
    /// The network.
    pub(crate) weather: Weather,
    /// What is done.
    pub events: Vec<Event>,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7061_6c6e);
        let machines = between(&mut random, MACHINES) as usize;
        let members = match machines {
            3 | 4 => 3,
            _ if random.coin() => 5,
            _ => 3,
        };
        let weather = weather(&mut random);
        let time = Duration::from_secs(between(&mut random, 8..=30));
        let log_entries = [4, 8, 16, 64, 1024][random.below(5) as usize];
        let piece_bytes = [64, 512, 4096, 1 << 20][random.below(4) as usize];
        let mut plan = Self {
            seed,
            machines,
            members,
            clients: between(&mut random, 2..=5) as usize,
            keys: between(&mut random, 1..=5),
            think: Duration::from_millis(between(&mut random, 10..=400)),
            time,
            limits: Limits { log_entries, piece_bytes },
            weather,
            events: Vec::new(),
        };
        // Some seeds are calm, some are hell.
        for _ in 0..random.below(EVENTS_MAX + 1) {
            let at = Duration::from_millis(random.below(time.as_millis() as u64));
            let action = plan.action(&mut random);
            plan.events.push(Event { at, action });
        }
        plan.events.sort_by_key(|event| event.at);
        plan
    }

    fn action(&self, random: &mut Random) -> Action {
        let node = random.below(self.machines as u64) as usize;
        match random.below(16) {
            0..4 => cut_power(node, random),
            4..6 => Action::Pause { node, time: milliseconds(random, 100..=8000) },
            6..10 => self.partition(random),
            10 => fail_disk(node, random),
            11 => match random.coin() {
                true => Action::FillDisk { node, time: milliseconds(random, 500..=5000) },
                false => {
                    let skew_milliseconds = random.below(1_000_000) as i64 - 500_000;
                    Action::SetClock { node, skew_milliseconds }
                }
            },
            12 | 13 => Action::Add { node, is_watcher: random.below(3) == 0 },
            14 => Action::Remove { node },
            _ if random.coin() => Action::Promote { node },
            _ => Action::Demote { node },
        }
    }

    fn partition(&self, random: &mut Random) -> Action {
        let nodes = 0..self.machines;
        let sides: Vec<bool> = match random.below(3) {
            // One alone.
            0 => {
                let alone = random.below(self.machines as u64) as usize;
                nodes.map(|node| node == alone).collect()
            }
            _ => nodes.map(|_| random.coin()).collect(),
        };
        let is_symmetric = random.below(3) != 0;
        let all = (0..self.machines).flat_map(|from| (0..self.machines).map(move |to| (from, to)));
        let is_cut = |(from, to): &(usize, usize)| match is_symmetric {
            true => sides[*from] != sides[*to],
            false => sides[*from] && !sides[*to],
        };
        let pairs = all.filter(is_cut).collect();
        Action::Partition { pairs, time: milliseconds(random, 200..=10_000) }
    }
}

fn between(random: &mut Random, range: std::ops::RangeInclusive<u64>) -> u64 {
    range.start() + random.below(range.end() - range.start() + 1)
}

fn milliseconds(random: &mut Random, range: std::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_millis(between(random, range))
}

fn weather(random: &mut Random) -> Weather {
    let is_calm = random.coin();
    Weather {
        delay_mean: Duration::from_micros(match is_calm {
            true => between(random, 200..=5000),
            false => between(random, 1000..=50_000),
        }),
        lost_permille: if is_calm { 0 } else { random.below(200) },
        doubled_permille: if random.coin() { 0 } else { random.below(300) },
    }
}

fn cut_power(node: usize, random: &mut Random) -> Action {
    Action::CutPower {
        node,
        operation: random.coin().then(|| between(random, 1..=40)),
        survival: Survival::ALL[random.below(5) as usize],
        off: milliseconds(random, 50..=6000),
    }
}

fn fail_disk(node: usize, random: &mut Random) -> Action {
    let kinds = [OperationKind::Write, OperationKind::Sync, OperationKind::Allocate];
    let filter = match random.below(4) {
        3 => OperationFilter::Mutating,
        kind => OperationFilter::Only(kinds[kind as usize]),
    };
    let kind = if random.coin() { FaultKind::InputOutput } else { FaultKind::StorageFull };
    Action::FailDisk { node, filter, operation: between(random, 1..=30), kind }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:>7.3} s {:?}", self.at.as_secs_f64(), self.action)
    }
}
