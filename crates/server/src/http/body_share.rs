//! The memory of request bodies, from their arrival until their requests are answered.
//!
//! The first [`UNCOUNTED_BYTES`] of each count as the connection's. Anything longer draws from a
//! budget: small bodies from their own, so that large ones cannot starve them. A body that finds no
//! memory waits for it, or is rejected. Invariants: what was charged is released when the request
//! has been answered; while bodies wait for memory, as many clients that send almost nothing lose
//! theirs ([`BodyShare::try_give_up`], checked where bodies are read); and of bodies that hold some
//! memory and wait for more, one after the other releases its own until the rest make progress.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use storage::{MemoryBudget, MemoryExhausted, MemoryShare};
use tokio::time::{Instant, sleep};

use crate::{
    api_error::{ApiError, no_room},
    server_state::ServerState,
};

/// Larger bodies are large.
pub(crate) const SMALL_BODY_BYTES: u64 = 256 << 10;
/// Smaller ones are not charged: their number is bounded by that of the connections.
pub(crate) const UNCOUNTED_BYTES: u64 = 16 << 10;
/// How long a body waits for memory.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it checks in the meantime.
pub(crate) const ASK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a body for which another one has released its memory waits until it requests more.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long a body that holds some memory waits for more before it may release its own.
const HOLDING_WAIT_MIN: Duration = Duration::from_millis(500);
/// Minimum interval between two such releases.
const YIELD_INTERVAL: Duration = Duration::from_millis(250);

/// The budgets of bodies.
pub(crate) struct BodyRoom {
    small: Side,
    large: Side,
}

/// The budget of small bodies, or that of large ones.
struct Side {
    budget: Arc<MemoryBudget>,
    /// How many bodies wait for memory here.
    waiting: AtomicUsize,
    requests: Mutex<ReleaseRequests>,
}

/// Requests of waiting bodies that another body releases its memory.
#[derive(Default)]
struct ReleaseRequests {
    /// The number of the last body that waited.
    last_number: u64,
    /// For each waiting body, by its number: when another one released its memory for it.
    released: BTreeMap<u64, Option<Instant>>,
    /// When a waiting body last released its own memory.
    last_yield: Option<Instant>,
}

/// A body that waits to be charged for this many bytes, until this is dropped.
pub(crate) struct BodyWait {
    room: Arc<BodyRoom>,
    bytes: u64,
    number: u64,
    began: Instant,
}

fn is_recent(moment: Option<Instant>, time: Duration) -> bool {
    moment.is_some_and(|moment| moment.elapsed() < time)
}

impl ReleaseRequests {
    /// Whether a waiting body other than `own` has a pending request. Taking it counts as the
    /// response; the body may request again if that did not help.
    fn take(&mut self, own: Option<u64>) -> bool {
        let mut others = self.released.iter_mut().filter(|(number, _)| own != Some(**number));
        let open = others.find(|(_, released)| !is_recent(**released, ASK_AGAIN_AFTER));
        open.map(|(_, released)| *released = Some(Instant::now())).is_some()
    }
}

impl Side {
    fn of(budget: Arc<MemoryBudget>) -> Side {
        Side { budget, waiting: AtomicUsize::new(0), requests: Mutex::default() }
    }

    fn requests(&self) -> MutexGuard<'_, ReleaseRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of another body that waits here.
    fn begin_to_wait(&self) -> u64 {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut requests = self.requests();
        requests.last_number += 1;
        let number = requests.last_number;
        requests.released.insert(number, None);
        number
    }

    /// Whether a body that waits here has a pending request. Each is taken once, even if many check
    /// concurrently.
    fn take_request(&self) -> bool {
        0 < self.waiting.load(Ordering::Relaxed) && self.requests().take(None)
    }
}

impl BodyWait {
    fn side(&self) -> &Side {
        self.room.side(self.bytes)
    }

    /// Whether this body, which holds some memory itself, releases it so that another one makes
    /// progress. They do so one after the other, and none for which another has just released its
    /// own.
    fn yields(&self) -> bool {
        let mut requests = self.side().requests();
        let own = requests.released.get(&self.number).copied().flatten();
        let may = !is_recent(own, ASK_AGAIN_AFTER)
            && !is_recent(requests.last_yield, YIELD_INTERVAL)
            && requests.take(Some(self.number));
        if may {
            requests.last_yield = Some(Instant::now());
        }
        may
    }
}

impl Drop for BodyWait {
    fn drop(&mut self) {
        self.side().requests().released.remove(&self.number);
        self.side().waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BodyRoom {
    pub(crate) fn new(small: Arc<MemoryBudget>, large: Arc<MemoryBudget>) -> Arc<BodyRoom> {
        Arc::new(BodyRoom { small: Side::of(small), large: Side::of(large) })
    }

    /// The budget of a body of this size.
    fn side(&self, bytes: u64) -> &Side {
        if bytes <= SMALL_BODY_BYTES { &self.small } else { &self.large }
    }
}

/// The memory of one body, released on drop.
pub(crate) struct BodyShare {
    room: Arc<BodyRoom>,
    small: MemoryShare,
    large: MemoryShare,
}

impl BodyShare {
    pub(crate) fn none_of(state: &ServerState) -> BodyShare {
        BodyShare::none_in(Arc::clone(&state.rooms.bodies))
    }

    pub(crate) fn none_in(room: Arc<BodyRoom>) -> BodyShare {
        let (small, large) = (room.small.budget.share(0), room.large.budget.share(0));
        BodyShare { room, small, large }
    }

    /// What a large body may hold at most.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.room.large.budget.bytes_max()
    }

    /// Charges the body for this many bytes. A small one has waited for its memory before it
    /// arrived.
    ///
    /// # Errors
    ///
    /// 503 when large bodies use all of their budget.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), ApiError> {
        match self.try_grow_to(bytes) {
            Err(exhausted) if SMALL_BODY_BYTES < bytes => Err(no_room("Large requests", exhausted)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The same, as soon as there is enough memory.
    ///
    /// # Errors
    /// As [`Self::has_grown`].
    pub(crate) async fn grow_when_there_is_room(&mut self, bytes: u64) -> Result<(), ApiError> {
        if self.try_grow_to(bytes).is_ok() {
            return Ok(());
        }
        let wait = self.begin_to_wait(bytes);
        while !self.has_grown(&wait)? {
            sleep(ASK_INTERVAL).await;
        }
        Ok(())
    }

    /// Starts waiting to be charged for this many bytes.
    pub(crate) fn begin_to_wait(&self, bytes: u64) -> BodyWait {
        let room = Arc::clone(&self.room);
        let number = room.side(bytes).begin_to_wait();
        BodyWait { room, bytes, number, began: Instant::now() }
    }

    /// Whether the memory that it waits for is available. To be called every [`ASK_INTERVAL`].
    ///
    /// # Errors
    ///
    /// 503 when there is not enough memory within some seconds, or this body releases its own so
    /// that others make progress.
    pub(crate) fn has_grown(&mut self, wait: &BodyWait) -> Result<bool, ApiError> {
        let Err(exhausted) = self.try_grow_to(wait.bytes) else { return Ok(true) };
        let own = if wait.bytes <= SMALL_BODY_BYTES { &self.small } else { &self.large };
        let waited = wait.began.elapsed();
        let holds = 0 < own.bytes() && HOLDING_WAIT_MIN < waited;
        if WAIT_MAX < waited || (holds && wait.yields()) {
            return Err(no_room("Bodies of requests", exhausted));
        }
        Ok(false)
    }

    /// Charges it for this many bytes, if there is enough memory.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is not; the charge is unchanged then.
    pub(crate) fn try_grow_to(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        if bytes <= UNCOUNTED_BYTES || bytes <= self.large.bytes() {
            return Ok(());
        }
        if bytes <= SMALL_BODY_BYTES {
            return self.small.try_grow_to(bytes);
        }
        self.large.try_grow_to(bytes)?;
        self.small.shrink_to(0);
        Ok(())
    }

    /// Releases the charge beyond this many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let of_large = if SMALL_BODY_BYTES < bytes { bytes } else { 0 };
        self.large.shrink_to(of_large);
        let of_small = if UNCOUNTED_BYTES < bytes { bytes } else { 0 };
        self.small.shrink_to(of_small);
    }

    /// Agrees to give up what this body holds, if a waiting one needs it: a body that gets `true` releases
    /// its own.
    pub(crate) fn try_give_up(&self) -> bool {
        let of = |share: &MemoryShare, side: &Side| 0 < share.bytes() && side.take_request();
        of(&self.small, &self.room.small) || of(&self.large, &self.room.large)
    }
}

/// The charge for this many bytes of a body that grows: the first of these ascending steps that holds them. With few
/// steps, bodies in progress do not wait for each other.
pub(crate) fn charge_in_steps(bytes: usize, steps: &[u64]) -> u64 {
    let bytes = bytes as u64;
    match steps.iter().find(|step| bytes <= **step) {
        Some(step) if UNCOUNTED_BYTES < bytes => *step,
        Some(_) | None => bytes,
    }
}

/// Rejects a large body before it arrives, if it would be rejected anyway.
pub(crate) fn refuse_announced(bytes: u64, state: &ServerState) -> Result<(), ApiError> {
    if bytes <= SMALL_BODY_BYTES {
        return Ok(());
    }
    state.engine.memory().refuse_when_critical()?;
    BodyShare::none_of(state).grow_to(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const KB: u64 = 1 << 10;

    /// Budgets for one small body and for one large one.
    fn room() -> Arc<BodyRoom> {
        BodyRoom::new(MemoryBudget::new(256 * KB), MemoryBudget::new(512 * KB))
    }

    fn held(room: &BodyRoom) -> (u64, u64) {
        (room.small.budget.held_bytes(), room.large.budget.held_bytes())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn small_and_large_bodies_keep_nothing_from_each_other() {
        let room = room();
        let [mut small, mut large, mut little, mut other] =
            [(), (), (), ()].map(|()| BodyShare::none_in(Arc::clone(&room)));
        small.try_grow_to(200 * KB).unwrap();
        large.grow_to(512 * KB).unwrap();
        little.try_grow_to(UNCOUNTED_BYTES).unwrap();
        assert!(other.try_grow_to(100 * KB).is_err());
        assert!(other.grow_to(300 * KB).unwrap_err().message.starts_with("Large requests"));
        assert!(other.grow_to(100 * KB).is_ok(), "it is there already");
        drop(large);
        // A body that becomes large leaves the budget of small ones.
        small.try_grow_to(400 * KB).unwrap();
        assert_eq!(held(&room), (0, 400 * KB));
        small.shrink_to(20 * KB);
        assert_eq!(held(&room), (0, 0));
    }

    #[test]
    fn a_body_that_grows_is_charged_in_few_steps() {
        let charged = |bytes: u64| charge_in_steps(bytes as usize, &[256 * KB, 1024 * KB]);
        let expected = [(0, 0), (16, 16), (17, 256), (256, 256), (257, 1024), (1025, 1025)];
        for (bytes, charge) in expected {
            assert_eq!(charged(bytes * KB), charge * KB, "{bytes} KB");
        }
    }

    #[test]
    fn a_waiting_body_requests_memory_and_gets_what_is_released() {
        block_on(async {
            let room = room();
            let mut taken = BodyShare::none_in(Arc::clone(&room));
            taken.grow_when_there_is_room(256 * KB).await.unwrap();
            assert!(!taken.try_give_up());
            let mut waits = BodyShare::none_in(Arc::clone(&room));
            {
                let mut waiting = std::pin::pin!(waits.grow_when_there_is_room(100 * KB));
                assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
                let idle = BodyShare::none_in(Arc::clone(&room));
                assert!(!idle.try_give_up(), "it has nothing to give");
                assert!(taken.try_give_up() && !taken.try_give_up(), "one is asked");
                drop(taken);
                waiting.await.unwrap();
            }
            assert_eq!(held(&room), (100 * KB, 0));
        });
    }

    #[test]
    fn as_many_release_theirs_as_wait_and_only_what_helps() {
        block_on(async {
            let room = BodyRoom::new(MemoryBudget::new(1024 * KB), MemoryBudget::new(512 * KB));
            let mut silent: Vec<_> =
                (0..4).map(|_| BodyShare::none_in(Arc::clone(&room))).collect();
            for share in &mut silent {
                share.grow_when_there_is_room(256 * KB).await.unwrap();
            }
            let mut large = BodyShare::none_in(Arc::clone(&room));
            large.grow_when_there_is_room(512 * KB).await.unwrap();
            let mut waits: Vec<_> = (0..3).map(|_| BodyShare::none_in(Arc::clone(&room))).collect();
            let mut waiting: Vec<_> = waits
                .iter_mut()
                .map(|share| Box::pin(share.grow_when_there_is_room(200 * KB)))
                .collect();
            for waiting in &mut waiting {
                assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
            }
            assert!(!large.try_give_up(), "a small body is not helped by it");
            // Their clients are checked concurrently, between two requests of those that wait.
            silent.retain(|share| !share.try_give_up());
            assert_eq!(silent.len(), 1);
            for waiting in waiting {
                waiting.await.unwrap();
            }
            assert!(!silent[0].try_give_up());
        });
    }

    #[test]
    fn no_more_release_theirs_than_wait_however_often_those_request() {
        block_on(async {
            let room = room();
            let mut silent = BodyShare::none_in(Arc::clone(&room));
            silent.try_grow_to(256 * KB).unwrap();
            let mut waits: Vec<_> = (0..2).map(|_| BodyShare::none_in(Arc::clone(&room))).collect();
            let mut waiting: Vec<_> = waits
                .iter_mut()
                .map(|share| Box::pin(share.grow_when_there_is_room(100 * KB)))
                .collect();
            let mut asked = 0;
            for _ in 0..4 {
                for waiting in &mut waiting {
                    assert!(timeout(ASK_INTERVAL, waiting.as_mut()).await.is_err());
                }
                asked += (0..4).filter(|_| silent.try_give_up()).count();
            }
            assert_eq!(asked, 2);
        });
    }

    #[test]
    fn of_bodies_that_hold_memory_and_wait_for_more_one_yields() {
        block_on(async {
            let room = BodyRoom::new(MemoryBudget::new(KB), MemoryBudget::new(1024 * KB));
            let mut shares: Vec<_> =
                (0..3).map(|_| BodyShare::none_in(Arc::clone(&room))).collect();
            for share in &mut shares {
                share.try_grow_to(300 * KB).unwrap();
            }
            let growing = shares.into_iter().map(|mut share| async move {
                let grown = share.grow_when_there_is_room(500 * KB).await;
                // One that released its memory is gone; the others remain until the end.
                grown.map(|()| share)
            });
            let [one, two, three] = growing.collect::<Vec<_>>().try_into().ok().unwrap();
            let (one, two, three) = tokio::join!(one, two, three);
            let grown = [one, two, three].into_iter().filter_map(Result::ok).count();
            assert_eq!(grown, 2);
        });
    }
}
