//! Limits how many long responses are produced, and queries counted, at a time; one database gets
//! at most half.
//!
//! A long response takes memory for the pieces that wait for its client, a counting query for what
//! it collects. Invariant: the clients of one database, however many and however slow, leave half
//! of the places to the others; and a response whose client does not read yields its place to a
//! waiting request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use engine::SharedByName;
use storage::{MemoryBudget, MemoryShare};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use wire::ErrorKind;

use crate::api_error::ApiError;

/// How long a request waits for a place before it is rejected.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a waiting request asks a stalled response to yield.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
/// More places would be of no use.
const PLACES_MAX: usize = 4096;
/// Maximum memory of a long response while its client does not read: pieces in flight, buffers of
/// the connection and the system, the compressor's state.
const PLACE_BYTES: u64 = 512 << 10;
/// Estimated memory of a query that counts its results; running more of them at a time than there
/// are processors is no faster.
const COUNTING_BYTES: u64 = 8 << 20;
/// Bounds of the number of such queries.
const COUNTING_MIN: usize = 4;
const COUNTING_MAX: usize = 64;

/// Places of one kind.
struct Room {
    free: Arc<Semaphore>,
    /// How many requests wait for one.
    waiting: AtomicUsize,
    /// Set by waiting requests; the response that resets it ends.
    is_requested: AtomicBool,
}

/// A waiting request, until it is dropped: with a place, or without one after a timeout.
struct Waiting<'r>(&'r AtomicUsize);

impl<'r> Waiting<'r> {
    fn begin(waiting: &'r AtomicUsize) -> Waiting<'r> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    fn new(places: usize) -> Arc<Room> {
        Arc::new(Room {
            free: Arc::new(Semaphore::new(places)),
            waiting: AtomicUsize::new(0),
            is_requested: AtomicBool::new(false),
        })
    }

    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = Waiting::begin(&self.waiting);
        let mut free = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            self.is_requested.store(true, Ordering::Relaxed);
            if let Ok(permit) = timeout(ASK_INTERVAL, free.as_mut()).await {
                return permit.ok();
            }
        }
    }

    /// Whether a waiting request asks a response to yield; each request to yield is taken once.
    /// Those of requests that no longer wait do not count.
    fn take_request(&self) -> bool {
        let was_asked = self.is_requested.swap(false, Ordering::Relaxed);
        was_asked && 0 < self.waiting.load(Ordering::Relaxed)
    }
}

/// The places of a server.
pub(crate) struct AnswerPlaces {
    all: Arc<Room>,
    of_databases: SharedByName<Room>,
    of_one_database: usize,
    budget: Arc<MemoryBudget>,
    /// The memory that a place stands for.
    place_bytes: u64,
    /// What the holders of places do, for error messages.
    what: &'static str,
}

/// A place, until it is dropped.
pub(crate) struct Place {
    rooms: [Arc<Room>; 2],
    /// Released before the permits: whoever gets those finds this memory free.
    share: MemoryShare,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Place {
    /// Agrees to give the place up, if another response waits for it: a response that gets `true` has to
    /// end.
    pub(crate) fn try_give_up(&self) -> bool {
        self.rooms.iter().any(|room| room.take_request())
    }

    /// The memory that responses hold together.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        self.share.budget()
    }
}

impl AnswerPlaces {
    /// As many as fit into this much memory, which they share with others.
    pub(crate) fn within(budget: &Arc<MemoryBudget>) -> AnswerPlaces {
        let places = usize::try_from(budget.bytes_max() / PLACE_BYTES).unwrap_or(PLACES_MAX);
        let places = places.clamp(2, PLACES_MAX);
        let what = "long answers are being read";
        AnswerPlaces::new(places, Arc::clone(budget), PLACE_BYTES, what)
    }

    /// For queries that hold what they count until their responses are produced, and for scans of
    /// all documents, besides other work in `work`.
    pub(crate) fn for_counting(work: &MemoryBudget) -> AnswerPlaces {
        let what = "requests are counting, suggesting, filtering, planning or trying out";
        AnswerPlaces::for_work(work, what)
    }

    /// For reading the batches of subscriptions, besides other work in `work`.
    pub(crate) fn for_batches(work: &MemoryBudget) -> AnswerPlaces {
        AnswerPlaces::for_work(work, "batches of subscriptions are being read")
    }

    fn for_work(work: &MemoryBudget, what: &'static str) -> AnswerPlaces {
        let places = usize::try_from(work.bytes_max() / COUNTING_BYTES).unwrap_or(COUNTING_MAX);
        let places = places.clamp(COUNTING_MIN, COUNTING_MAX);
        AnswerPlaces::new(places, MemoryBudget::unlimited(), 0, what)
    }

    fn new(
        places: usize,
        budget: Arc<MemoryBudget>,
        place_bytes: u64,
        what: &'static str,
    ) -> AnswerPlaces {
        let (all, of_databases) = (Room::new(places), SharedByName::default());
        AnswerPlaces { all, of_databases, of_one_database: places / 2, budget, place_bytes, what }
    }

    fn room_of(&self, database: &str) -> Arc<Room> {
        self.of_databases.get(database, || Room::new(self.of_one_database))
    }

    /// A place for a response of that database, as soon as one is free.
    ///
    /// # Errors
    ///
    /// 503 when none becomes free within some seconds.
    pub(crate) async fn take(&self, database: &str) -> Result<Place, ApiError> {
        let of_database = self.room_of(database);
        let waiting = async {
            // First that of the database: a request that waits for it keeps nothing from others.
            let first = of_database.enter().await?;
            let second = self.all.enter().await?;
            let mut share = self.budget.share(0);
            while share.try_grow_to(self.place_bytes).is_err() {
                sleep(ASK_INTERVAL).await;
            }
            Some(([first, second], share))
        };
        match timeout(WAIT_MAX, waiting).await {
            Ok(Some((permits, share))) => {
                let rooms = [Arc::clone(&of_database), Arc::clone(&self.all)];
                Ok(Place { rooms, share, _permits: permits })
            }
            Ok(None) | Err(_) => Err(ApiError::new(
                ErrorKind::Overloaded,
                format!(
                    "As many {} as the server has memory for: {} of one database, and twice as many of \
                     all. Try again later, or request less at once.",
                    self.what, self.of_one_database
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: u64) -> AnswerPlaces {
        AnswerPlaces::within(&MemoryBudget::new(count * PLACE_BYTES))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn one_database_takes_half_of_the_places_and_no_more() {
        block_on(async {
            let places = places(8);
            let mut taken = Vec::new();
            for name in ["a", "a", "a", "a", "b", "b", "b", "b"] {
                taken.push(places.take(name).await.ok().unwrap());
            }
            assert_eq!(places.room_of("a").free.available_permits(), 0);
            assert_eq!(places.budget.held_bytes(), places.budget.bytes_max());
            let place = taken.remove(0);
            {
                // The last one stays free, since it is the database that has too many.
                let waits = std::pin::pin!(places.take("b"));
                drop(place);
                assert!(timeout(Duration::ZERO, waits).await.is_err());
            }
            assert!(places.take("c").await.is_ok());
            drop(taken);
            assert_eq!(places.budget.held_bytes(), 0);
        });
    }

    #[test]
    fn queries_that_count_have_a_few_places_whatever_the_memory() {
        block_on(async {
            for (megabytes, of_one) in [(1, 2), (64, 4), (1 << 20, 32)] {
                let places = AnswerPlaces::for_counting(&MemoryBudget::new(megabytes << 20));
                let mut taken = Vec::new();
                for _ in 0..of_one {
                    taken.push(places.take("a").await.ok().unwrap());
                }
                let waits = std::pin::pin!(places.take("a"));
                assert!(timeout(Duration::ZERO, waits).await.is_err());
                assert!(places.take("b").await.is_ok());
            }
        });
    }

    #[test]
    fn one_that_waits_asks_another_to_end() {
        block_on(async {
            let places = places(2);
            let place = places.take("a").await.ok().unwrap();
            assert!(!place.try_give_up());
            assert!(timeout(Duration::ZERO, places.take("a")).await.is_err());
            assert!(!place.try_give_up(), "it does not wait any more");
            let mut waits = std::pin::pin!(places.take("a"));
            assert!(timeout(Duration::ZERO, waits.as_mut()).await.is_err());
            assert!(place.try_give_up());
            assert!(!place.try_give_up());
            drop(place);
            assert!(waits.await.is_ok());
        });
    }
}
