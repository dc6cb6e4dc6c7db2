//! What happens to the nodes.

use std::{fmt, time::Duration};

use crate::{
    Failure,
    cluster_faults::{
        network::Network,
        node::{Node, has_clocks},
    },
    random::Random,
};

const HOLD_MS_MIN: u64 = 1_000;
const HOLD_MS_RANGE: u64 = 6_000;
/// Of the kinds that [`Fault::random`] knows.
const KINDS: u64 = 12;
const LOSS_PERCENT_MAX: u64 = 30;
const CLOCK_SECONDS: i64 = 5;

/// One fault, which lasts until all are healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The others neither hear a node nor reach it.
    Isolated(usize),
    /// A node hears nobody, and everybody hears it.
    Deaf(usize),
    /// Nobody hears a node, which hears everybody.
    Mute(usize),
    /// Two nodes do not reach each other; the third one reaches both.
    Parted(usize, usize),
    /// No node reaches another one.
    Scattered,
    /// So many percent of a node's packets are lost.
    Loss(usize, u64),
    /// A node sends so many kilobits a second.
    Slow(usize, u64),
    /// One in so many packets to a node resets its connection.
    Resets(usize, u64),
    /// SIGKILL.
    Killed(usize),
    /// All of them at the same time.
    AllKilled,
    /// SIGSTOP.
    Paused(usize),
    /// A node's disk is full.
    Full(usize),
    /// A node is killed, and starts with a clock that is so many seconds ahead.
    Clock(usize, i64),
}

impl Fault {
    pub(crate) fn random(random: &mut Random, nodes: usize) -> Fault {
        let node = random.below(nodes as u64) as usize;
        let other = (node + 1 + random.below(nodes as u64 - 1) as usize) % nodes;
        match random.below(KINDS) {
            0 => Fault::Isolated(node),
            1 => Fault::Deaf(node),
            2 => Fault::Mute(node),
            3 => Fault::Parted(node, other),
            4 => Fault::Scattered,
            5 => Fault::Loss(node, 1 + random.below(LOSS_PERCENT_MAX)),
            6 => Fault::Slow(node, 128 << random.below(5)),
            7 => Fault::Resets(node, 20 << random.below(5)),
            8 if random.below(3) == 0 => Fault::AllKilled,
            9 => Fault::Paused(node),
            10 => Fault::Full(node),
            11 if has_clocks() => {
                let ahead = if random.below(2) == 0 { CLOCK_SECONDS } else { -CLOCK_SECONDS };
                Fault::Clock(node, ahead)
            }
            _ => Fault::Killed(node),
        }
    }

    /// How long it lasts.
    pub(crate) fn hold(random: &mut Random) -> Duration {
        Duration::from_millis(HOLD_MS_MIN + random.below(HOLD_MS_RANGE))
    }

    pub(crate) fn begin(self, network: &Network, nodes: &mut [Node]) -> Result<(), Failure> {
        let others = |node: usize| (0..nodes.len()).filter(move |other| *other != node);
        match self {
            Fault::Isolated(node) => others(node).try_for_each(|other| {
                network.cut(node, other)?;
                network.cut(other, node)
            }),
            Fault::Deaf(node) => others(node).try_for_each(|other| network.cut(other, node)),
            Fault::Mute(node) => others(node).try_for_each(|other| network.cut(node, other)),
            Fault::Parted(node, other) => {
                network.cut(node, other)?;
                network.cut(other, node)
            }
            Fault::Scattered => (0..nodes.len())
                .try_for_each(|node| others(node).try_for_each(|other| network.cut(other, node))),
            Fault::Loss(node, percent) => network.lose(node, percent),
            Fault::Slow(node, kilobits) => network.slow_down(node, kilobits),
            Fault::Resets(node, one_in) => network.reset(node, one_in),
            Fault::Killed(node) => nodes[node].kill(),
            Fault::AllKilled => nodes.iter_mut().try_for_each(Node::kill),
            Fault::Paused(node) => nodes[node].signal("STOP"),
            Fault::Full(node) => nodes[node].fill_disk(),
            Fault::Clock(node, ahead) => {
                nodes[node].kill()?;
                nodes[node].set_clock(ahead);
                nodes[node].start(network)
            }
        }
    }
}

/// Ends all faults. Clocks stay wrong until the next start.
pub(crate) fn heal(network: &Network, nodes: &mut [Node]) -> Result<(), Failure> {
    network.heal()?;
    for node in nodes.iter_mut() {
        node.free_disk()?;
        node.signal("CONT")?;
    }
    nodes.iter_mut().try_for_each(|node| node.start(network))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
