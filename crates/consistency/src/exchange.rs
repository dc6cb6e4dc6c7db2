//! Linearizability of compare exchange, key by key.
//!
//! The server assigns an index to each successful write of a key, and every response carries the
//! index it saw. So the state of a key goes through *epochs*, one for each successful write in the
//! order of the indexes, and each call belongs to one. Its calls can be put in one order that
//! explains every response and agrees with real time exactly if (1) each write replaced the epoch
//! before it, (2) no call belongs to an earlier epoch than a call that had ended before it began,
//! and (3) no call that saw an epoch ended before the write that began that epoch. That the indexes
//! of a key grow is a separate guarantee.

use std::collections::BTreeMap;

use crate::{
    anomaly::{Anomaly, Finding},
    history::{NEVER, Outcome},
};

/// The state of a key that an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its index; 0 for a key without a value.
    pub index: u64,
    /// Its value; 0 for none. Values are written once.
    pub value: u64,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The state.
    Get,
    /// To put a value in the place of the one with this index; 0 where there is none.
    Put {
        /// The index that was expected.
        expected: u64,
        /// The value.
        value: u64,
    },
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// The key.
    pub key: u64,
    /// The operation.
    pub kind: ExchangeKind,
    /// When the call began.
    pub began: u64,
    /// When the answer was there; [`NEVER`] without one.
    pub ended: u64,
    /// Committed: it succeeded. Failed: another index was there.
    pub outcome: Outcome,
    /// The state in the answer: after a successful put, its result; otherwise the existing one.
    pub seen: Seen,
}

/// What is wrong with a history of compare exchange, in which nothing is deleted.
pub fn check_exchanges(history: &[Exchange]) -> Vec<Finding> {
    let mut keys: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, exchange) in history.iter().enumerate() {
        keys.entry(exchange.key).or_default().push(place);
    }
    let mut findings = Vec::new();
    for places in keys.values() {
        Key { history, places }.check(&mut findings);
    }
    findings
}

struct Key<'h> {
    history: &'h [Exchange],
    places: &'h [usize],
}

/// What a successful write began.
struct Epoch {
    index: u64,
    value: u64,
    by: Option<usize>,
}

impl Key<'_> {
    fn check(&self, findings: &mut Vec<Finding>) {
        let epochs = self.epochs(findings);
        let mut placed: Vec<(usize, usize)> = Vec::new();
        for place in self.places {
            let exchange = &self.history[*place];
            if exchange.outcome == Outcome::Unknown {
                continue;
            }
            let epoch = epochs.binary_search_by_key(&exchange.seen.index, |epoch| epoch.index);
            match epoch {
                Ok(epoch) if epochs[epoch].value == exchange.seen.value => {
                    placed.push((*place, epoch));
                }
                Ok(_) | Err(_) => {
                    self.report(*place, None, "it saw a value that was never written", findings)
                }
            }
        }
        for (epoch, begun) in epochs.iter().enumerate() {
            if let Some(by) = begun.by
                && self.history[by].outcome == Outcome::Unknown
            {
                placed.push((by, epoch));
            }
        }
        self.check_epochs(&epochs, findings);
        self.check_time(&epochs, placed, findings);
    }

    /// The states of the key in the order of their indexes. A write whose response never arrived
    /// belongs to them when its value was read.
    fn epochs(&self, findings: &mut Vec<Finding>) -> Vec<Epoch> {
        let mut epochs = vec![Epoch { index: 0, value: 0, by: None }];
        let mut unknown: BTreeMap<u64, usize> = BTreeMap::new();
        for place in self.places {
            let exchange = &self.history[*place];
            match (exchange.kind, exchange.outcome) {
                (ExchangeKind::Put { .. }, Outcome::Committed) => {
                    let Seen { index, value } = exchange.seen;
                    epochs.push(Epoch { index, value, by: Some(*place) });
                }
                (ExchangeKind::Put { value, .. }, Outcome::Unknown) => {
                    unknown.insert(value, *place);
                }
                _ => {}
            }
        }
        for place in self.places {
            let exchange = &self.history[*place];
            let Seen { index, value } = exchange.seen;
            if exchange.outcome != Outcome::Unknown
                && let Some(by) = unknown.remove(&value)
            {
                epochs.push(Epoch { index, value, by: Some(by) });
            }
        }
        epochs.sort_by_key(|epoch| epoch.index);
        for pair in epochs.windows(2) {
            if pair[0].index == pair[1].index {
                self.report(pair[1].by.unwrap_or(0), pair[0].by, "both got one index", findings);
            }
        }
        epochs
    }

    fn check_epochs(&self, epochs: &[Epoch], findings: &mut Vec<Finding>) {
        for pair in epochs.windows(2) {
            let Some(by) = pair[1].by else { continue };
            let ExchangeKind::Put { expected, value } = self.history[by].kind else { continue };
            // Where there is nothing, any index will do.
            if pair[0].index != 0 && expected != pair[0].index {
                self.report(by, pair[0].by, "it replaced another index than expected", findings);
            }
            if value != pair[1].value {
                self.report(by, None, "it was answered with another value", findings);
            }
        }
    }

    fn check_time(
        &self,
        epochs: &[Epoch],
        mut placed: Vec<(usize, usize)>,
        findings: &mut Vec<Finding>,
    ) {
        placed.sort_by_key(|(place, _)| self.history[*place].began);
        let mut ends: Vec<(u64, usize, usize)> = placed
            .iter()
            .filter(|(place, _)| self.history[*place].outcome != Outcome::Unknown)
            .map(|(place, epoch)| (self.history[*place].ended, *epoch, *place))
            .filter(|(ended, ..)| *ended != NEVER)
            .collect();
        ends.sort_unstable();
        let mut ended = ends.iter().peekable();
        let mut newest: Option<(usize, usize)> = None;
        for (place, epoch) in &placed {
            let exchange = &self.history[*place];
            while let Some((_, epoch, by)) = ended.next_if(|(end, ..)| *end < exchange.began) {
                if newest.is_none_or(|(newest, _)| newest < *epoch) {
                    newest = Some((*epoch, *by));
                }
            }
            if let Some((newest, by)) = newest.filter(|(newest, _)| epoch < newest) {
                let detail = format!("it saw index {}", epochs[*epoch].index);
                let detail = format!("{detail} when {} had been seen", epochs[newest].index);
                self.report(*place, Some(by), &detail, findings);
            }
            if let Some(by) = epochs[*epoch].by
                && exchange.ended < self.history[by].began
            {
                self.report(*place, Some(by), "it saw a write that had not begun", findings);
            }
        }
    }

    fn report(&self, place: usize, other: Option<usize>, what: &str, findings: &mut Vec<Finding>) {
        let key = self.history[place].key;
        let detail = format!("key {key}: {what}: {:?}", self.history[place]);
        let transactions = std::iter::once(place).chain(other).collect();
        findings.push(Finding::new(Anomaly::NotLinearizable, transactions, detail));
    }
}
