//! The places of connections, and what happens when all of them are taken: a connection that nobody
//! uses makes room for one that comes.
//!
//! A connection is in use while an answer is made on it, and from when a session was agreed on. One that
//! sends nothing, or a little at a time, is not. So a flood of connections that say nothing keeps nobody
//! else from being served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

/// A connection on which nothing was asked for so long counts as unused.
pub(crate) const UNUSED_AFTER: Duration = Duration::from_millis(500);
/// How long somebody who was asked to make room has before the next one is asked.
const ASK_INTERVAL: Duration = Duration::from_millis(50);
/// The crowd is over when one of so many places is free.
const FREE_PART: usize = 16;

/// See the module.
pub(crate) struct Crowd {
    room: Arc<Semaphore>,
    places: usize,
    /// Connections that were accepted and have no place yet; one for each listener at most.
    waiting: AtomicUsize,
    leave: Notify,
    is_told: AtomicBool,
}

/// Counts somebody who waits for a place.
struct Waits<'c>(&'c Crowd);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Crowd {
    pub(crate) fn new(places: usize) -> Crowd {
        Crowd {
            room: Arc::new(Semaphore::new(places)),
            places,
            waiting: AtomicUsize::new(0),
            leave: Notify::new(),
            is_told: AtomicBool::new(false),
        }
    }

    /// Places that are taken.
    pub(crate) fn taken_places(&self) -> usize {
        self.places.saturating_sub(self.room.available_permits())
    }

    /// A place for a connection, as soon as there is one.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            self.tell_the_end();
            return Some(place);
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let places = self.places;
            tracing::warn!(places, "all places for connections are taken: unused ones are closed");
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(self);
        loop {
            self.leave.notify_one();
            let place = Arc::clone(&self.room).acquire_owned();
            if let Ok(place) = timeout(ASK_INTERVAL, place).await {
                return place.ok();
            }
        }
    }

    fn tell_the_end(&self) {
        let is_over = self.places / FREE_PART < self.room.available_permits();
        if is_over && self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!("there are free places for connections again");
        }
    }

    /// Returns when the connection that nobody uses and that waits for this should make room.
    pub(crate) async fn needs_room(&self) {
        loop {
            self.leave.notified().await;
            // Whoever waited may have found a place meanwhile.
            if 0 < self.waiting.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The same for a connection that has just come.
    pub(crate) async fn needs_room_of_newcomer(&self) {
        sleep(UNUSED_AFTER).await;
        self.needs_room().await;
    }

    /// Waits until every place is free.
    pub(crate) async fn all_left(&self) {
        let all = u32::try_from(self.places).unwrap_or(u32::MAX);
        // It is never closed; places come back as their connections end.
        drop(self.room.acquire_many(all).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_waits_makes_one_that_is_idle_leave() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let crowd = Arc::new(Crowd::new(3));
            let mut idle = Vec::new();
            for _ in 0..3 {
                let (place, crowd) = (crowd.place().await.unwrap(), Arc::clone(&crowd));
                idle.push(tokio::spawn(async move {
                    crowd.needs_room().await;
                    drop(place);
                }));
            }
            tokio::task::yield_now().await;
            let place = crowd.place().await;
            assert!(place.is_some());
            let gone = idle.iter().filter(|idle| idle.is_finished()).count();
            assert_eq!(gone, 1);
            drop(place);
            drop(crowd.place().await);
            // Nobody is asked when there is room.
            assert_eq!(idle.iter().filter(|idle| idle.is_finished()).count(), 1);
        });
    }
}
