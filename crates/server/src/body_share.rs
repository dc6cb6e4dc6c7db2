//! What bodies of requests take of memory, from their arrival until their requests are answered.
//!
//! The first [`UNCOUNTED_BYTES`] of each are counted as the connection's. What is longer draws from a budget:
//! small bodies from one of their own, so that large ones keep nothing from them. What finds no room waits
//! for it, or is refused. Invariants: what was counted is given back when the request has been answered;
//! while bodies wait for room, as many clients that send next to nothing lose what they have there
//! ([`BodyShare::is_wanted`], asked where bodies are read).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use storage::{MemoryBudget, MemoryExhausted, MemoryShare};
use tokio::time::{Instant, sleep};
use wire::ProtocolError;

use crate::{
    error_mapping::{engine_error, no_room},
    server_state::ServerState,
};

/// Larger bodies are large.
pub(crate) const SMALL_BODY_BYTES: u64 = 256 << 10;
/// Smaller ones are not counted: their number is bounded by that of the connections.
pub(crate) const UNCOUNTED_BYTES: u64 = 16 << 10;
/// How long a body waits for room.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it looks meanwhile.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// Where bodies have their memory.
pub(crate) struct BodyRoom {
    small: Side,
    large: Side,
}

/// The room of small bodies, or that of large ones.
struct Side {
    budget: Arc<MemoryBudget>,
    /// How many bodies wait for room here.
    waiting: AtomicUsize,
    /// How many of them have asked for what others hold, and were not answered yet.
    asking: AtomicUsize,
}

/// A body that waits, until it is dropped.
struct Waiting<'s>(&'s Side);

impl Side {
    fn of(budget: Arc<MemoryBudget>) -> Side {
        Side { budget, waiting: AtomicUsize::new(0), asking: AtomicUsize::new(0) }
    }

    fn begin_to_wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether a body that waits here has asked. Each is answered once, however many are asked at the same
    /// time, and may ask again; what was asked by those that do not wait any more is nothing.
    fn take_question(&self) -> bool {
        let answered = |asking: usize| {
            let asking = asking.min(self.waiting.load(Ordering::Relaxed));
            asking.checked_sub(1)
        };
        self.asking.fetch_update(Ordering::Relaxed, Ordering::Relaxed, answered).is_ok()
    }
}

impl Waiting<'_> {
    /// Asks for room, as all others that wait here do.
    fn ask(&self) {
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        self.0.asking.store(waiting, Ordering::Relaxed);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BodyRoom {
    pub(crate) fn new(small: Arc<MemoryBudget>, large: Arc<MemoryBudget>) -> Arc<BodyRoom> {
        Arc::new(BodyRoom { small: Side::of(small), large: Side::of(large) })
    }
}

/// What one body takes. Dropping it gives that back.
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

    /// Counts the body as one of that many bytes. A small one has waited for its room before it came.
    ///
    /// # Errors
    /// 503 when large bodies take all that they may.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        match self.try_grow_to(bytes) {
            Err(exhausted) if SMALL_BODY_BYTES < bytes => Err(no_room("Large requests", exhausted)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The same, as soon as there is room.
    ///
    /// # Errors
    /// 503 when there is none within some seconds.
    pub(crate) async fn grow_when_there_is_room(
        &mut self,
        bytes: u64,
    ) -> Result<(), ProtocolError> {
        if self.try_grow_to(bytes).is_ok() {
            return Ok(());
        }
        let ends = Instant::now() + WAIT_MAX;
        let room = Arc::clone(&self.room);
        let side = if bytes <= SMALL_BODY_BYTES { &room.small } else { &room.large };
        let waiting = side.begin_to_wait();
        loop {
            match self.try_grow_to(bytes) {
                Ok(()) => return Ok(()),
                Err(exhausted) if ends < Instant::now() => {
                    return Err(no_room("Bodies of requests", exhausted));
                }
                Err(_) => {
                    waiting.ask();
                    sleep(ASK_INTERVAL).await;
                }
            }
        }
    }

    /// Counts it as one of that many bytes, if there is room.
    ///
    /// # Errors
    /// [`MemoryExhausted`] when there is none; then it is counted as before.
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

    /// Gives back what it was counted for beyond that many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let of_large = if SMALL_BODY_BYTES < bytes { bytes } else { 0 };
        self.large.shrink_to(of_large);
        let of_small = if UNCOUNTED_BYTES < bytes { bytes } else { 0 };
        self.small.shrink_to(of_small);
    }

    /// Whether it holds what a body waits for. The one that learns so gives up its own.
    pub(crate) fn is_wanted(&self) -> bool {
        let of = |share: &MemoryShare, side: &Side| 0 < share.bytes() && side.take_question();
        of(&self.small, &self.room.small) || of(&self.large, &self.room.large)
    }
}

/// Refuses a large body before it has arrived, if it would be refused anyway.
pub(crate) fn refuse_announced(bytes: u64, state: &ServerState) -> Result<(), ProtocolError> {
    if bytes <= SMALL_BODY_BYTES {
        return Ok(());
    }
    state.memory.refuse_when_critical().map_err(engine_error)?;
    BodyShare::none_of(state).grow_to(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const KB: u64 = 1 << 10;

    /// Room for one small body and for one large one.
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
        // What becomes large leaves the small ones.
        small.try_grow_to(400 * KB).unwrap();
        assert_eq!(held(&room), (0, 400 * KB));
        small.shrink_to(20 * KB);
        assert_eq!(held(&room), (0, 0));
    }

    #[test]
    fn what_waits_asks_for_room_and_gets_what_is_given_back() {
        block_on(async {
            let room = room();
            let mut taken = BodyShare::none_in(Arc::clone(&room));
            taken.grow_when_there_is_room(256 * KB).await.unwrap();
            assert!(!taken.is_wanted());
            let mut waits = BodyShare::none_in(Arc::clone(&room));
            {
                let mut waiting = std::pin::pin!(waits.grow_when_there_is_room(100 * KB));
                assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
                let idle = BodyShare::none_in(Arc::clone(&room));
                assert!(!idle.is_wanted(), "it has nothing to give");
                assert!(taken.is_wanted() && !taken.is_wanted(), "one is asked");
                drop(taken);
                waiting.await.unwrap();
            }
            assert_eq!(held(&room), (100 * KB, 0));
        });
    }

    #[test]
    fn as_many_give_up_theirs_as_wait_and_only_what_is_of_use() {
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
            assert!(!large.is_wanted(), "a small body is not helped by it");
            // Their clients are looked after at the same time, between two questions of those that wait.
            silent.retain(|share| !share.is_wanted());
            assert_eq!(silent.len(), 1);
            for waiting in waiting {
                waiting.await.unwrap();
            }
            assert!(!silent[0].is_wanted());
        });
    }
}
