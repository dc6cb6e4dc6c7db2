//! What was decided about the nodes of databases, for operators, and whether anything is to be decided.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Decisions that are remembered.
const DECISIONS_MAX: usize = 128;

/// A decision about the nodes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObserverDecision {
    /// When it was made, in ticks of UTC.
    pub ticks: i64,
    /// In which look at all databases.
    pub iteration: u64,
    /// The database.
    pub database: String,
    /// What was decided, and why.
    pub message: String,
}

/// See the module.
#[derive(Default)]
pub(crate) struct ObserverLog {
    decisions: Mutex<VecDeque<ObserverDecision>>,
    iteration: AtomicU64,
    is_suspended: AtomicBool,
}

impl ObserverLog {
    /// Begins another look at all databases; whether anything is to be decided.
    pub(crate) fn begin(&self) -> bool {
        self.iteration.fetch_add(1, Ordering::Relaxed);
        !self.is_suspended()
    }

    /// How often all databases were looked at.
    pub(crate) fn iteration(&self) -> u64 {
        self.iteration.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, ticks: i64, database: &str, message: String) {
        let mut decisions = self.lock();
        if DECISIONS_MAX <= decisions.len() {
            decisions.pop_front();
        }
        let (iteration, database) = (self.iteration(), database.to_owned());
        decisions.push_back(ObserverDecision { ticks, iteration, database, message });
    }

    /// The decisions, the latest at the end.
    pub(crate) fn decisions(&self) -> Vec<ObserverDecision> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Relaxed)
    }

    pub(crate) fn suspend(&self, is_suspended: bool) {
        self.is_suspended.store(is_suspended, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ObserverDecision>> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
