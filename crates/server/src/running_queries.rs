//! The queries that run now: who asks what for how long, and stopping one from outside.
//!
//! A query is listed from the moment its index is known until its answer is written; waiting for an
//! index to catch up is part of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// What is told of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryFacts {
    pub(crate) database: String,
    pub(crate) index_name: String,
    pub(crate) text: String,
    pub(crate) start: i64,
    pub(crate) page_size: Option<i64>,
    pub(crate) skips_duplicate_checking: bool,
    pub(crate) wait: Option<Duration>,
    pub(crate) is_streaming: bool,
    /// On the clock that never goes back.
    pub(crate) began: Duration,
    /// The same moment in ticks.
    pub(crate) began_ticks: i64,
}

/// All queries of the server that run.
#[derive(Clone, Default)]
pub(crate) struct RunningQueries {
    listed: Arc<Mutex<Listed>>,
}

#[derive(Default)]
struct Listed {
    last_id: u64,
    queries: BTreeMap<u64, (Arc<QueryFacts>, Stop)>,
}

/// Tells a query to end: the flag while it runs, the other while it waits.
#[derive(Clone, Default)]
struct Stop {
    flag: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

/// One that runs; dropping it takes it off the list.
pub(crate) struct RunningQuery {
    id: u64,
    stop: Stop,
    among: RunningQueries,
}

impl RunningQueries {
    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a query.
    pub(crate) fn begin(&self, facts: QueryFacts) -> RunningQuery {
        let stop = Stop::default();
        let mut listed = self.lock();
        listed.last_id += 1;
        let id = listed.last_id;
        listed.queries.insert(id, (Arc::new(facts), stop.clone()));
        RunningQuery { id, stop, among: self.clone() }
    }

    /// Those of a database by their number, the oldest first.
    pub(crate) fn of(&self, database: &str) -> Vec<(u64, Arc<QueryFacts>)> {
        let listed = self.lock();
        let queries = listed.queries.iter().filter(|(_, (facts, _))| facts.database == database);
        queries.map(|(id, (facts, _))| (*id, Arc::clone(facts))).collect()
    }

    /// Stops a query soon; `false` when there is none of that number on that index.
    pub(crate) fn stop(&self, database: &str, index_name: &str, id: u64) -> bool {
        let listed = self.lock();
        let Some((facts, stop)) = listed.queries.get(&id) else { return false };
        let is_meant =
            facts.database == database && facts.index_name.eq_ignore_ascii_case(index_name);
        if is_meant {
            stop.flag.store(true, Ordering::Relaxed);
            // Kept for the query when it does not wait yet.
            stop.wake.notify_one();
        }
        is_meant
    }
}

impl RunningQuery {
    /// Set when the query is to end.
    pub(crate) fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.stop.flag
    }

    /// Ends when the query is to end.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let stop = self.stop.clone();
        async move { stop.wake.notified().await }
    }

    /// Whether it is to end.
    pub(crate) fn should_stop(&self) -> bool {
        self.stop.flag.load(Ordering::Relaxed)
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.among.lock().queries.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(database: &str, index_name: &str) -> QueryFacts {
        QueryFacts {
            database: database.to_owned(),
            index_name: index_name.to_owned(),
            text: "from X".to_owned(),
            start: 0,
            page_size: None,
            skips_duplicate_checking: false,
            wait: None,
            is_streaming: false,
            began: Duration::ZERO,
            began_ticks: 0,
        }
    }

    #[test]
    fn a_query_is_listed_while_it_runs_and_stopped_by_its_number() {
        let running = RunningQueries::default();
        let (one, other) = (running.begin(facts("db", "I")), running.begin(facts("db2", "I")));
        assert_eq!(running.of("db").len(), 1);
        assert!(!running.stop("db", "J", one.id) && !running.stop("db", "I", other.id));
        assert!(running.stop("db", "i", one.id));
        assert!(one.should_stop() && !other.should_stop());
        let id = one.id;
        drop(one);
        assert!(running.of("db").is_empty() && !running.stop("db", "I", id));
    }
}
