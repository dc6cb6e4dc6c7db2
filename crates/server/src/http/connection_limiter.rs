//! The limit on open connections, and what happens at the limit: an unused connection is closed in favour
//! of a new one.
//!
//! A connection is in use while an answer is produced on it, and once a session has been agreed on. A
//! connection that sends nothing, or a few bytes at a time, is unused, so a flood of silent connections
//! cannot keep other clients from being served. Where no unused connection is left, request bodies of
//! which almost nothing arrives give up their connections.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, futures::Notified},
    time::{sleep, timeout},
};

/// A connection without a request for this long counts as unused.
pub(crate) const UNUSED_AFTER: Duration = Duration::from_millis(500);
/// How long an unused connection has to close before another one is asked to.
const EVICTION_INTERVAL: Duration = Duration::from_millis(50);
/// One in so many connections in use, and at least one, may give up its place when a call for one is not answered by an
/// unused one: behind the connection that waits, others may wait in the system's queue.
const DEPARTING_PART: usize = 64;
/// The limit no longer applies once one in this many places is free.
const FREE_PART: usize = 16;

/// Grants places to connections, and has unused ones closed when there is none left.
pub(crate) struct ConnectionLimiter {
    free_places: Arc<Semaphore>,
    places: usize,
    /// Connections that were accepted and have no place yet; one per listener at most.
    waiting: AtomicUsize,
    /// Connections in use that have begun to give up their places.
    departing: AtomicUsize,
    /// How many more may begin to.
    granted: AtomicUsize,
    /// Wakes one unused connection, which closes.
    eviction: Notify,
    /// Wakes all connections, which end at once.
    cut: Notify,
    /// Whether the log says that all places are taken.
    is_reported: AtomicBool,
}

/// Counts a connection that waits for a place.
struct WaitingGuard<'c>(&'c ConnectionLimiter);

/// A connection in use that gives up its place; dropped when it has ended.
pub(crate) struct Departure(Arc<ConnectionLimiter>);

impl Drop for Departure {
    fn drop(&mut self) {
        self.0.departing.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLimiter {
    /// Allows this many connections at a time.
    pub(crate) fn new(places: usize) -> ConnectionLimiter {
        ConnectionLimiter {
            free_places: Arc::new(Semaphore::new(places)),
            places,
            waiting: AtomicUsize::new(0),
            departing: AtomicUsize::new(0),
            granted: AtomicUsize::new(0),
            eviction: Notify::new(),
            cut: Notify::new(),
            is_reported: AtomicBool::new(false),
        }
    }

    /// How many places are taken.
    pub(crate) fn taken_places(&self) -> usize {
        self.places.saturating_sub(self.free_places.available_permits())
    }

    /// Waits for a place. It is free again when the permit is dropped.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.free_places).try_acquire_owned() {
            self.granted.store(0, Ordering::Relaxed);
            self.report_end();
            return Some(place);
        }
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let places = self.places;
            tracing::warn!(places, "all places for connections are taken: unused ones are closed");
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaitingGuard(self);
        loop {
            self.eviction.notify_one();
            let place = Arc::clone(&self.free_places).acquire_owned();
            if let Ok(place) = timeout(EVICTION_INTERVAL, place).await {
                return place.ok();
            }
        }
    }

    fn report_end(&self) {
        let is_over = self.places / FREE_PART < self.free_places.available_permits();
        if is_over && self.is_reported.swap(false, Ordering::Relaxed) {
            tracing::info!("there are free places for connections again");
        }
    }

    /// Ends all connections that await [`ConnectionLimiter::cut`], whatever is produced on them.
    pub(crate) fn cut_all(&self) {
        self.cut.notify_waiters();
    }

    /// Returns when connections are ended that existed when this was called.
    pub(crate) fn cut(&self) -> Notified<'_> {
        self.cut.notified()
    }

    /// Returns when the unused connection that awaits this should close.
    pub(crate) async fn evicted(&self) {
        loop {
            self.eviction.notified().await;
            // The connection that needed the place may have found another one meanwhile.
            if 0 < self.waiting.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The same for a new connection, which is spared until it counts as unused.
    pub(crate) async fn evicted_when_unused(&self) {
        sleep(UNUSED_AFTER).await;
        self.evicted().await;
    }

    /// Begins to give up the place of a connection in use, if a new one waits for a place and no
    /// unused connection gives up its own.
    pub(crate) fn begin_departure(self: &Arc<Self>) -> Option<Departure> {
        let per_call = (self.places / DEPARTING_PART).max(1);
        let departing_max = self.waiting.load(Ordering::Relaxed) * per_call;
        let add = |departing: usize| (departing < departing_max).then_some(departing + 1);
        self.departing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        let departure = Departure(Arc::clone(self));
        let take = |granted: usize| granted.checked_sub(1);
        let is_granted =
            self.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !is_granted {
            // Otherwise an unused connection has been called, or none at all.
            if !pin!(self.eviction.notified()).enable() {
                return None;
            }
            self.granted.store(per_call - 1, Ordering::Relaxed);
        }
        Some(departure)
    }

    /// Waits until every connection has ended.
    pub(crate) async fn all_closed(&self) {
        let all = u32::try_from(self.places).unwrap_or(u32::MAX);
        // The semaphore is never closed; permits return as connections end.
        drop(self.free_places.acquire_many(all).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_connection_takes_a_place_where_none_is_unused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limiter = Arc::new(ConnectionLimiter::new(2));
            let mut places = vec![limiter.place().await.unwrap(), limiter.place().await.unwrap()];
            assert!(limiter.begin_departure().is_none(), "no connection waits");
            let mut waiting = Box::pin(limiter.place());
            assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
            let departure = limiter.begin_departure().unwrap();
            // The connection that waits asks again and again.
            assert!(timeout(3 * EVICTION_INTERVAL, waiting.as_mut()).await.is_err());
            assert!(limiter.begin_departure().is_none(), "one place is needed");
            places.pop();
            drop(departure);
            let place = waiting.await.unwrap();
            let mut waiting = Box::pin(limiter.place());
            assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
            assert!(limiter.begin_departure().is_some());
            drop(place);
        });
    }

    #[test]
    fn of_many_connections_several_depart_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limiter = Arc::new(ConnectionLimiter::new(3 * DEPARTING_PART));
            let mut places = Vec::new();
            for _ in 0..3 * DEPARTING_PART {
                places.push(limiter.place().await.unwrap());
            }
            let mut waiting = Box::pin(limiter.place());
            assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
            let departures: Vec<_> = (0..4).map_while(|_| limiter.begin_departure()).collect();
            assert_eq!(departures.len(), 3, "others may wait behind the one that does");
        });
    }

    #[test]
    fn a_waiting_connection_evicts_one_unused_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limiter = Arc::new(ConnectionLimiter::new(3));
            let mut idle = Vec::new();
            for _ in 0..3 {
                let (place, limiter) = (limiter.place().await.unwrap(), Arc::clone(&limiter));
                idle.push(tokio::spawn(async move {
                    limiter.evicted().await;
                    drop(place);
                }));
            }
            tokio::task::yield_now().await;
            let place = limiter.place().await;
            assert!(place.is_some());
            let gone = idle.iter().filter(|idle| idle.is_finished()).count();
            assert_eq!(gone, 1);
            drop(place);
            drop(limiter.place().await);
            // None is evicted while there is a free place.
            assert_eq!(idle.iter().filter(|idle| idle.is_finished()).count(), 1);
        });
    }
}
