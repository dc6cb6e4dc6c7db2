//! Dependencies between transactions.

use std::collections::BTreeSet;

use crate::{
    history::{NEVER, Outcome, Transaction},
    versions::Versions,
};

/// Why a transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependency {
    /// The other one replaced what it wrote.
    WriteWrite,
    /// The other one saw what it wrote.
    WriteRead,
    /// The other one replaced what it saw.
    ReadWrite,
    /// The same process did it before.
    Process,
    /// It had ended when the other one began.
    Realtime,
}

/// The transactions of a history, by their places, and what orders them.
pub(crate) struct Graph {
    /// For each transaction, those that come after it.
    pub(crate) edges: Vec<Vec<(usize, Dependency)>>,
}

impl Graph {
    pub(crate) fn of(history: &[Transaction], versions: &Versions) -> Graph {
        let mut graph = Graph { edges: vec![Vec::new(); history.len()] };
        let mut takes_part: BTreeSet<usize> = BTreeSet::new();
        for of_key in versions.keys.values() {
            takes_part.extend(of_key.writers.values());
            for (version, readers) in &of_key.readers {
                takes_part.extend(readers);
                let writer = of_key.writers.get(version);
                for reader in readers {
                    if let Some(writer) = writer {
                        graph.add(*writer, *reader, Dependency::WriteRead);
                    }
                }
            }
            for (version, nexts) in &of_key.next {
                for next in nexts.iter().filter_map(|next| of_key.writers.get(next)) {
                    if let Some(writer) = of_key.writers.get(version) {
                        graph.add(*writer, *next, Dependency::WriteWrite);
                    }
                    for reader in of_key.readers.get(version).into_iter().flatten() {
                        graph.add(*reader, *next, Dependency::ReadWrite);
                    }
                }
            }
        }
        let takes_part: Vec<usize> = takes_part.into_iter().collect();
        graph.add_processes(history, &takes_part);
        graph.add_realtime(history, &takes_part);
        graph
    }

    fn add(&mut self, from: usize, to: usize, why: Dependency) {
        if from != to {
            self.edges[from].push((to, why));
        }
    }

    fn add_processes(&mut self, history: &[Transaction], takes_part: &[usize]) {
        let mut order = takes_part.to_vec();
        order.sort_by_key(|place| (history[*place].process, history[*place].began));
        for pair in order.windows(2) {
            let (before, after) = (&history[pair[0]], &history[pair[1]]);
            // What has no answer may happen at any later time.
            if before.process == after.process && before.outcome == Outcome::Committed {
                self.add(pair[0], pair[1], Dependency::Process);
            }
        }
    }

    /// Adds what is needed for every pair of which one ended before the other began to be
    /// connected, and not more: edges implied by others are left out.
    fn add_realtime(&mut self, history: &[Transaction], takes_part: &[usize]) {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for place in takes_part {
            let transaction = &history[*place];
            // At the same instant, what begins does so first: it is not after what ends.
            events.push((transaction.began, false, *place));
            if transaction.outcome == Outcome::Committed && transaction.ended != NEVER {
                events.push((transaction.ended, true, *place));
            }
        }
        events.sort_unstable();
        let mut ended: Vec<usize> = Vec::new();
        for (_, is_end, place) in events {
            if is_end {
                ended.retain(|before| history[place].began <= history[*before].ended);
                ended.push(place);
            } else {
                for before in &ended {
                    self.edges[*before].push((place, Dependency::Realtime));
                }
            }
        }
    }
}
