//! Cycles of dependencies between transactions, and their names.

use std::collections::{HashMap, VecDeque};

use crate::{
    anomaly::{Anomaly, Finding},
    graph::{Dependency, Graph},
};

/// How many anti-dependencies of one strongly connected part are examined, so that a fully
/// connected history is checked in bounded time.
const TRIED_MAX: usize = 4096;

const WRITES: &[Dependency] = &[Dependency::WriteWrite];
const INFORMATION: &[Dependency] = &[Dependency::WriteWrite, Dependency::WriteRead];
const TIME: &[Dependency] = &[Dependency::Process, Dependency::Realtime];

/// Which cycles to search for: those of data dependencies only, or also of real time.
struct Search {
    with_time: bool,
}

pub(crate) fn check(graph: &Graph, findings: &mut Vec<Finding>) {
    let before = findings.len();
    Search { with_time: false }.run(graph, findings);
    let found: Vec<Anomaly> = findings[before..].iter().map(|finding| finding.anomaly).collect();
    let mut timed = Vec::new();
    Search { with_time: true }.run(graph, &mut timed);
    // A cycle without time is one with time, too.
    findings.extend(timed.into_iter().filter_map(|finding| {
        let name = match finding.anomaly {
            known if found.contains(&known) => return None,
            Anomaly::G0 => "G0",
            Anomaly::G1c => "G1c",
            Anomaly::GSingle => "G-single",
            Anomaly::G2 => "G2",
            _ => return None,
        };
        Some(Finding { anomaly: Anomaly::Realtime(name), ..finding })
    }));
}

impl Search {
    fn allows(&self, kinds: &[Dependency], edge: Dependency) -> bool {
        kinds.contains(&edge) || (self.with_time && TIME.contains(&edge))
    }

    fn run(&self, graph: &Graph, findings: &mut Vec<Finding>) {
        self.closed_by(graph, WRITES, Dependency::WriteWrite, Anomaly::G0, findings);
        self.closed_by(graph, INFORMATION, Dependency::WriteRead, Anomaly::G1c, findings);
        self.skews(graph, findings);
    }

    /// Cycles of these kinds with at least one dependency of that kind.
    fn closed_by(
        &self,
        graph: &Graph,
        kinds: &[Dependency],
        needed: Dependency,
        anomaly: Anomaly,
        findings: &mut Vec<Finding>,
    ) {
        let parts = parts_of(graph, &|edge| self.allows(kinds, edge));
        for (from, to) in edges_within(graph, &parts, needed) {
            let path = path(graph, &parts, to, from, &|edge| self.allows(kinds, edge));
            if let Some(path) = path {
                findings.push(cycle(anomaly, path));
                return;
            }
        }
    }

    /// Cycles with anti-dependencies: one, or several.
    fn skews(&self, graph: &Graph, findings: &mut Vec<Finding>) {
        let parts = parts_of(graph, &|edge| {
            self.allows(INFORMATION, edge) || edge == Dependency::ReadWrite
        });
        let mut tried: HashMap<usize, usize> = HashMap::new();
        let (mut single, mut several) = (None, None);
        for (from, to) in edges_within(graph, &parts, Dependency::ReadWrite) {
            let tried = tried.entry(parts[from]).or_default();
            *tried += 1;
            if TRIED_MAX < *tried || (single.is_some() && several.is_some()) {
                continue;
            }
            match path(graph, &parts, to, from, &|edge| self.allows(INFORMATION, edge)) {
                Some(path) => single = single.or(Some(path)),
                None if several.is_none() => {
                    several = path_of_any(self, graph, &parts, to, from);
                }
                None => {}
            }
        }
        findings.extend(single.map(|path| cycle(Anomaly::GSingle, path)));
        findings.extend(several.map(|path| cycle(Anomaly::G2, path)));
    }
}

fn path_of_any(
    search: &Search,
    graph: &Graph,
    parts: &[usize],
    from: usize,
    to: usize,
) -> Option<Vec<(usize, Dependency)>> {
    path(graph, parts, from, to, &|edge| {
        search.allows(INFORMATION, edge) || edge == Dependency::ReadWrite
    })
}

fn cycle(anomaly: Anomaly, path: Vec<(usize, Dependency)>) -> Finding {
    let why: Vec<String> = path.iter().map(|(_, why)| format!("{why:?}")).collect();
    let transactions = path.into_iter().map(|(place, _)| place).collect();
    Finding::new(anomaly, transactions, format!("a cycle of {}", why.join(", ")))
}

fn edges_within(
    graph: &Graph,
    parts: &[usize],
    kind: Dependency,
) -> impl Iterator<Item = (usize, usize)> {
    graph.edges.iter().enumerate().flat_map(move |(from, edges)| {
        edges
            .iter()
            .filter(move |(to, why)| *why == kind && parts[from] == parts[*to])
            .map(move |(to, _)| (from, *to))
    })
}

/// A shortest path inside a strongly connected component, as the nodes it leaves and why; the last
/// step, which closes the cycle, is not included.
fn path(
    graph: &Graph,
    parts: &[usize],
    from: usize,
    to: usize,
    allows: &dyn Fn(Dependency) -> bool,
) -> Option<Vec<(usize, Dependency)>> {
    let mut came: HashMap<usize, (usize, Dependency)> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(place) = queue.pop_front() {
        for (next, why) in &graph.edges[place] {
            if !allows(*why) || parts[*next] != parts[from] || *next == from {
                continue;
            }
            if came.contains_key(next) {
                continue;
            }
            came.insert(*next, (place, *why));
            if *next == to {
                let mut steps = Vec::new();
                let mut at = to;
                while at != from {
                    let (before, why) = came[&at];
                    steps.push((before, why));
                    at = before;
                }
                steps.reverse();
                steps.push((to, Dependency::ReadWrite));
                return Some(steps);
            }
            queue.push_back(*next);
        }
    }
    None
}

/// The strongly connected component of each node (Tarjan, without recursion).
fn parts_of(graph: &Graph, allows: &dyn Fn(Dependency) -> bool) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = graph.edges.len();
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let mut parts = vec![UNSEEN; count];
    let (mut stack, mut next_index, mut next_part) = (Vec::new(), 0, 0);
    for root in 0..count {
        // Each call with its next edge.
        let mut calls = if index[root] == UNSEEN { vec![(root, 0)] } else { Vec::new() };
        while let Some((place, edge)) = calls.last_mut() {
            let place = *place;
            if index[place] == UNSEEN {
                index[place] = next_index;
                low[place] = next_index;
                next_index += 1;
                stack.push(place);
            }
            if let Some((next, why)) = graph.edges[place].get(*edge) {
                if !allows(*why) || parts[*next] != UNSEEN {
                    *edge += 1;
                } else if index[*next] == UNSEEN {
                    // This edge is visited again when the call returns, for its low link.
                    calls.push((*next, 0));
                } else {
                    *edge += 1;
                    low[place] = low[place].min(low[*next]);
                }
                continue;
            }
            calls.pop();
            if low[place] == index[place] {
                while let Some(member) = stack.pop() {
                    parts[member] = next_part;
                    if member == place {
                        break;
                    }
                }
                next_part += 1;
            }
        }
    }
    parts
}
