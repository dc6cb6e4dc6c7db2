//! The queries that are running: their text, client and duration, and stopping one of them.
//!
//! A query is listed from the moment its index is known until its response is written; waiting for
//! an index to catch up is included.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Facts about a query in the list.
#[derive(Clone, Debug)]
pub struct QueryFacts {
    /// The name of the database.
    pub database: String,
    /// The index, or `collection/` and the name of the collection.
    pub index_name: String,
    /// The text of the query.
    pub text: String,
    /// How many rows are skipped.
    pub start: i64,
    /// Maximum number of rows.
    pub page_size: Option<i64>,
    /// Whether a document may be returned more than once.
    pub skips_duplicate_checking: bool,
    /// How long it waits for its index to catch up.
    pub wait: Option<Duration>,
    /// Whether the rows are streamed.
    pub is_streaming: bool,
    /// When it began, on the monotonic clock.
    pub began: Duration,
    /// The same moment in ticks.
    pub began_ticks: i64,
}

/// All running queries of the server.
#[derive(Clone, Default)]
pub struct RunningQueries {
    listed: Arc<Mutex<Listed>>,
}

#[derive(Default)]
struct Listed {
    last_id: u64,
    queries: BTreeMap<u64, (Arc<QueryFacts>, Stop)>,
}

/// Wakes a query that waits for its index, so that it checks the flag. Must not block.
pub type WakeQuery = Arc<dyn Fn() + Send + Sync>;

/// Stops a query: the flag while it runs, the callback while it waits.
#[derive(Clone)]
struct Stop {
    flag: Arc<AtomicBool>,
    wake: WakeQuery,
}

/// A running query; dropping it removes it from the list.
pub struct RunningQuery {
    id: u64,
    stop: Stop,
    among: RunningQueries,
}

impl RunningQueries {
    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a query. `wake` is called when the query is stopped by an operator.
    pub fn begin(&self, facts: QueryFacts, wake: WakeQuery) -> RunningQuery {
        let stop = Stop { flag: Arc::default(), wake };
        let mut listed = self.lock();
        listed.last_id += 1;
        let id = listed.last_id;
        listed.queries.insert(id, (Arc::new(facts), stop.clone()));
        RunningQuery { id, stop, among: self.clone() }
    }

    /// Those of a database by their number, the oldest first.
    pub fn of(&self, database: &str) -> Vec<(u64, Arc<QueryFacts>)> {
        let listed = self.lock();
        let queries = listed.queries.iter().filter(|(_, (facts, _))| facts.database == database);
        queries.map(|(id, (facts, _))| (*id, Arc::clone(facts))).collect()
    }

    /// Stops a query soon; `false` if no query has this number on that index.
    pub fn stop(&self, database: &str, index_name: &str, id: u64) -> bool {
        let listed = self.lock();
        let Some((facts, stop)) = listed.queries.get(&id) else { return false };
        let is_meant =
            facts.database == database && facts.index_name.eq_ignore_ascii_case(index_name);
        if is_meant {
            stop.flag.store(true, Ordering::Relaxed);
            (stop.wake)();
        }
        is_meant
    }
}

impl RunningQuery {
    /// Set when the query is to be stopped.
    pub fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.stop.flag
    }

    /// Whether it is to be stopped.
    pub fn should_stop(&self) -> bool {
        self.stop.flag.load(Ordering::Relaxed)
    }
}

/// Stops a query when this is dropped before the work has ended, as happens to the future of a
/// request whose client disconnects.
pub struct StopWhenGone(Option<Arc<AtomicBool>>);

impl StopWhenGone {
    /// For work that checks the flag.
    pub fn begin(flag: Arc<AtomicBool>) -> StopWhenGone {
        StopWhenGone(Some(flag))
    }

    /// The work has ended.
    pub fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for StopWhenGone {
    fn drop(&mut self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Relaxed);
        }
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
        let woken = Arc::new(AtomicBool::new(false));
        let wake: WakeQuery = {
            let woken = Arc::clone(&woken);
            Arc::new(move || woken.store(true, Ordering::Relaxed))
        };
        let one = running.begin(facts("db", "I"), Arc::clone(&wake));
        let other = running.begin(facts("db2", "I"), Arc::new(|| ()));
        assert_eq!(running.of("db").len(), 1);
        assert!(!running.stop("db", "J", one.id) && !running.stop("db", "I", other.id));
        assert!(!woken.load(Ordering::Relaxed));
        assert!(running.stop("db", "i", one.id));
        assert!(woken.load(Ordering::Relaxed));
        assert!(one.should_stop() && !other.should_stop());
        StopWhenGone::begin(Arc::clone(other.stop_flag())).end();
        assert!(!other.should_stop(), "its work has ended");
        drop(StopWhenGone::begin(Arc::clone(other.stop_flag())));
        assert!(other.should_stop(), "its client has gone");
        let id = one.id;
        drop(one);
        assert!(running.of("db").is_empty() && !running.stop("db", "I", id));
    }
}
