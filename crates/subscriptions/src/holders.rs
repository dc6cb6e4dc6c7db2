//! Which workers may hold a subscription, according to their strategies.
//!
//! A state machine without sockets and clock. Invariant: a subscription is held either by one
//! worker, or by several that all share it.

use crate::progress::WorkerNumber;

/// How a worker treats others that hold the subscription already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// It is rejected.
    #[default]
    OpenIfFree,
    /// It replaces the other one.
    TakeOver,
    /// It waits for its turn.
    WaitForFree,
    /// It shares the work with others of its kind.
    Concurrent,
}

impl Strategy {
    /// Every strategy, once.
    pub const ALL: [Strategy; 4] =
        [Strategy::OpenIfFree, Strategy::TakeOver, Strategy::WaitForFree, Strategy::Concurrent];

    /// The protocol's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::OpenIfFree => "OpenIfFree",
            Strategy::TakeOver => "TakeOver",
            Strategy::WaitForFree => "WaitForFree",
            Strategy::Concurrent => "Concurrent",
        }
    }

    /// The strategy with that name in the protocol.
    pub fn of_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name().eq_ignore_ascii_case(name))
    }
}

/// Why a worker is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupied {
    /// Another one holds the subscription.
    ByAnother,
    /// It is held by a worker that took it over, and cannot be taken over again.
    ByTakeOver,
    /// It is shared by several, and this worker does not share.
    ByConcurrent,
    /// It has the maximum number of workers.
    Full,
}

/// Whether a new worker is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is admitted. The others lose the subscription to it.
    Begins { losing: Vec<WorkerNumber> },
    /// It waits for its turn.
    Waits,
    /// It is rejected.
    Refused(Occupied),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    holding: Vec<(WorkerNumber, Strategy)>,
    /// In order of arrival.
    waiting: Vec<WorkerNumber>,
}

impl Holders {
    /// Admits a new worker, or not.
    pub(crate) fn admit(
        &mut self,
        worker: WorkerNumber,
        strategy: Strategy,
        workers_max: usize,
    ) -> Admission {
        if self.holding.len() + self.waiting.len() >= workers_max {
            return Admission::Refused(Occupied::Full);
        }
        let Some((holder, held_by)) = self.holding.first().copied() else {
            self.holding.push((worker, strategy));
            return Admission::Begins { losing: Vec::new() };
        };
        match (strategy, held_by) {
            (Strategy::Concurrent, Strategy::Concurrent) => {
                self.holding.push((worker, strategy));
                Admission::Begins { losing: Vec::new() }
            }
            (Strategy::WaitForFree, _) => {
                self.waiting.push(worker);
                Admission::Waits
            }
            (_, Strategy::Concurrent) => Admission::Refused(Occupied::ByConcurrent),
            (Strategy::TakeOver, Strategy::TakeOver) => Admission::Refused(Occupied::ByTakeOver),
            (Strategy::TakeOver, _) => {
                self.holding = vec![(worker, strategy)];
                Admission::Begins { losing: vec![holder] }
            }
            (Strategy::OpenIfFree | Strategy::Concurrent, _) => {
                Admission::Refused(Occupied::ByAnother)
            }
        }
    }

    /// Removes a worker that left or lost the subscription. Returns the next one to be admitted.
    pub(crate) fn leave(&mut self, worker: WorkerNumber) -> Option<WorkerNumber> {
        self.holding.retain(|(holder, _)| *holder != worker);
        self.waiting.retain(|waiting| *waiting != worker);
        if !self.holding.is_empty() || self.waiting.is_empty() {
            return None;
        }
        let next = self.waiting.remove(0);
        self.holding.push((next, Strategy::WaitForFree));
        Some(next)
    }

    /// Whether several workers may currently share the subscription.
    pub(crate) fn is_shared(&self) -> bool {
        self.holding.first().is_some_and(|(_, strategy)| *strategy == Strategy::Concurrent)
    }
}

#[cfg(test)]
mod tests {
    use super::Strategy::{Concurrent, OpenIfFree, TakeOver, WaitForFree};
    use super::*;

    fn begins(losing: &[WorkerNumber]) -> Admission {
        Admission::Begins { losing: losing.to_vec() }
    }

    #[test]
    fn every_strategy_meets_every_other() {
        let refused = Admission::Refused;
        let table = [
            (OpenIfFree, OpenIfFree, refused(Occupied::ByAnother)),
            (OpenIfFree, TakeOver, begins(&[1])),
            (OpenIfFree, WaitForFree, Admission::Waits),
            (OpenIfFree, Concurrent, refused(Occupied::ByAnother)),
            (TakeOver, OpenIfFree, refused(Occupied::ByAnother)),
            (TakeOver, TakeOver, refused(Occupied::ByTakeOver)),
            (TakeOver, WaitForFree, Admission::Waits),
            (TakeOver, Concurrent, refused(Occupied::ByAnother)),
            (WaitForFree, OpenIfFree, refused(Occupied::ByAnother)),
            (WaitForFree, TakeOver, begins(&[1])),
            (WaitForFree, WaitForFree, Admission::Waits),
            (Concurrent, OpenIfFree, refused(Occupied::ByConcurrent)),
            (Concurrent, TakeOver, refused(Occupied::ByConcurrent)),
            (Concurrent, WaitForFree, Admission::Waits),
            (Concurrent, Concurrent, begins(&[])),
        ];
        for (holder, comer, expected) in table {
            let mut holders = Holders::default();
            assert_eq!(holders.admit(1, holder, 10), begins(&[]));
            assert_eq!(holders.admit(2, comer, 10), expected, "{holder:?} {comer:?}");
        }
    }

    #[test]
    fn who_waits_longest_is_next() {
        let mut holders = Holders::default();
        holders.admit(1, OpenIfFree, 10);
        holders.admit(2, WaitForFree, 10);
        holders.admit(3, WaitForFree, 10);
        assert_eq!(holders.leave(1), Some(2));
        assert_eq!(holders.admit(4, TakeOver, 10), begins(&[2]));
        assert_eq!(holders.leave(2), None);
        assert_eq!(holders.leave(4), Some(3));
        assert_eq!(holders.leave(3), None);
        assert_eq!(holders.admit(5, OpenIfFree, 10), begins(&[]));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut holders = Holders::default();
        assert_eq!(holders.admit(1, Concurrent, 2), begins(&[]));
        assert_eq!(holders.admit(2, Concurrent, 2), begins(&[]));
        assert_eq!(holders.admit(3, Concurrent, 2), Admission::Refused(Occupied::Full));
    }
}
