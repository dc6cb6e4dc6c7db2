//! Memory budgets: each limits how many bytes its users may hold together.
//!
//! A budget may have parts. What is drawn from a part is drawn from the whole too, so that no part
//! takes more than its own bound and all parts together no more than the whole's. The budget of a
//! whole process also knows what the process has taken beyond what is counted ([`Uncounted`]), and
//! has room only for what fits in addition to that.
//!
//! There are two ways to draw. Environments count the page versions and buffers that they hold, and
//! check afterwards whether that was too much ([`MemoryBudget::held_bytes`]). All others own a
//! [`MemoryShare`], which grows only when there is room.
//!
//! Invariants: every byte counted in is counted out, at the latest when its owner is dropped. What
//! shares hold beyond their always allowed parts never exceeds the budget. A share within its
//! always allowed part is never refused, so no owner starves; the sum of those parts must be
//! bounded by limiting the number of owners of shares (threads, connections, databases).

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// An environment that holds no more than this may be written to whatever the others hold. So the
/// sum may exceed the limit by this much per environment, plus the open transactions.
pub(crate) const ALWAYS_ALLOWED_BYTES: u64 = 256 * 1024;

/// A transaction that changes no more than this is never refused for lack of memory.
pub(crate) const TRANSACTION_ALLOWED_BYTES: u64 = 1024 * 1024;

/// Memory of a process that a budget does not count: code, threads, what the allocator retains.
pub trait Uncounted: fmt::Debug + Send + Sync {
    /// That memory in bytes, when `held` bytes are counted and `wanted` more are requested. Called
    /// whenever a share grows, so it must be cheap.
    fn bytes(&self, held: u64, wanted: u64) -> u64;
}

/// A number of bytes that several owners may hold together.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    held: AtomicU64,
    bytes_max: u64,
    /// Memory in use besides what is held.
    uncounted: Option<Arc<dyn Uncounted>>,
    /// The budget that this one is a part of.
    whole: Option<Arc<MemoryBudget>>,
    /// Bytes that this part leaves free in each budget that contains it.
    left_to_others: u64,
    /// Bytes that it may take beyond the bound of each budget that contains it.
    excess: u64,
    /// Those of the held bytes that are only reserved: whether they are in use, nobody counts.
    reserved: AtomicU64,
    /// Everything that is held of this part is only reserved.
    is_reservation: bool,
    /// It has its bytes whatever the others hold.
    is_assured: bool,
    /// Shared by all parts of a whole.
    waiting: Arc<Waiting>,
}

/// The threads waiting for room.
#[derive(Debug, Default)]
struct Waiting {
    threads: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

/// There is no room in a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExhausted {
    /// Bytes that the owner of the request would hold by itself.
    pub own: u64,
    /// Bytes held by all, including the request.
    pub taken: u64,
    /// Bytes that may be held.
    pub bytes_max: u64,
}

impl MemoryExhausted {
    /// Whether the request would be refused even if nobody else held anything: waiting is useless.
    pub fn is_too_large(&self) -> bool {
        self.bytes_max < self.own
    }
}

impl fmt::Display for MemoryExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes would be taken of {} that may be", self.taken, self.bytes_max)
    }
}

impl std::error::Error for MemoryExhausted {}

impl MemoryBudget {
    /// A budget of that many bytes, all of them free.
    pub fn new(bytes_max: u64) -> Arc<MemoryBudget> {
        MemoryBudget::whole(bytes_max, None)
    }

    /// A budget of that many bytes, some of which are used by memory that is not counted.
    pub fn of_process(bytes_max: u64, uncounted: Arc<dyn Uncounted>) -> Arc<MemoryBudget> {
        MemoryBudget::whole(bytes_max, Some(uncounted))
    }

    fn whole(bytes_max: u64, uncounted: Option<Arc<dyn Uncounted>>) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { bytes_max, uncounted, ..MemoryBudget::default() })
    }

    /// A budget that is never exhausted.
    pub fn unlimited() -> Arc<MemoryBudget> {
        MemoryBudget::new(u64::MAX)
    }

    /// A part of this budget, of at most that many bytes.
    pub fn part(self: &Arc<Self>, bytes_max: u64) -> Arc<MemoryBudget> {
        self.part_that_leaves(0, bytes_max)
    }

    /// The same, but it refuses to grow where that would leave less than `left_to_others` bytes
    /// free, here and in the budgets that contain this one. Parts that leave nothing free can still
    /// grow there.
    pub fn part_that_leaves(
        self: &Arc<Self>,
        left_to_others: u64,
        bytes_max: u64,
    ) -> Arc<MemoryBudget> {
        Arc::new(self.inner(left_to_others, bytes_max))
    }

    /// The same as [`Self::part`], but it may exceed the budgets that contain it by so many bytes: for what is small and must
    /// go on when others have taken all.
    pub fn part_that_exceeds(self: &Arc<Self>, excess: u64, bytes_max: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { excess, ..self.inner(0, bytes_max) })
    }

    /// The same, for memory that may stay unused for as long as it is held. What is in use of it
    /// counts twice in the budget of a process, as [`Uncounted`], too: it is never subtracted from
    /// what the process was measured to take.
    pub fn part_reserved(
        self: &Arc<Self>,
        left_to_others: u64,
        bytes_max: u64,
    ) -> Arc<MemoryBudget> {
        let is_reservation = true;
        Arc::new(MemoryBudget { is_reservation, ..self.inner(left_to_others, bytes_max) })
    }

    /// The same, for an environment that must be writable whatever the others hold: what it holds counts in the whole,
    /// and only its own bound counts for it. Shares of it are no exception from what others may hold.
    pub fn part_assured(self: &Arc<Self>, bytes_max: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { is_assured: true, ..self.inner(0, bytes_max) })
    }

    fn inner(self: &Arc<Self>, left_to_others: u64, bytes_max: u64) -> MemoryBudget {
        let (whole, waiting) = (Some(Arc::clone(self)), Arc::clone(&self.waiting));
        MemoryBudget { bytes_max, whole, left_to_others, waiting, ..MemoryBudget::default() }
    }

    /// Bytes that are held now.
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Those of them that are not only reserved.
    pub fn used_bytes(&self) -> u64 {
        self.held_bytes().saturating_sub(self.reserved.load(Ordering::SeqCst))
    }

    /// Bytes that may be held.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// An empty share, which may always grow to `always_allowed` bytes.
    pub fn share(self: &Arc<Self>, always_allowed: u64) -> MemoryShare {
        MemoryShare { budget: Arc::clone(self), bytes: 0, always_allowed }
    }

    /// Whether more than half is held: a request refused now may succeed after others finish.
    pub fn is_half_taken(&self) -> bool {
        self.bytes_max / 2 < self.held_bytes()
    }

    /// Waits until half of it is free, for at most that time.
    pub fn wait_for_half(&self, time_max: Duration) {
        self.waiting.wait_for(time_max, || !self.is_half_taken());
    }

    /// The use and the limit, when more than `percent` (up to 100) of the limit is in use: of this
    /// budget, or else of the whole.
    pub(crate) fn taken_beyond(&self, percent: u64) -> Option<MemoryExhausted> {
        let held = self.held_bytes();
        let taken = held.saturating_add(self.uncounted_bytes(0));
        let bytes_max = self.bytes_max - self.bytes_max / 100 * (100 - percent.min(100));
        if bytes_max < taken {
            return Some(MemoryExhausted { own: 0, taken, bytes_max });
        }
        let whole = self.whole.as_ref().filter(|_| !self.is_assured);
        whole.and_then(|whole| whole.taken_beyond(percent))
    }

    fn uncounted_bytes(&self, wanted: u64) -> u64 {
        let reserved = self.reserved.load(Ordering::SeqCst);
        let wanted = wanted.saturating_add(reserved);
        self.uncounted.as_ref().map_or(0, |uncounted| uncounted.bytes(self.used_bytes(), wanted))
    }

    /// The budgets that contain this one.
    fn wholes(&self) -> impl Iterator<Item = &MemoryBudget> {
        std::iter::successors(self.whole.as_deref(), |budget| budget.whole.as_deref())
    }

    /// Counts bytes in, even when there is no room.
    pub(crate) fn take(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        for whole in self.wholes() {
            whole.held.fetch_add(bytes, Ordering::Relaxed);
            if self.is_reservation {
                whole.reserved.fetch_add(bytes, Ordering::SeqCst);
            }
        }
    }

    /// Counts bytes in if there is room for them here and in the whole.
    fn try_take(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        self.try_take_within(0, 0, bytes)
    }

    /// The same, where the bound is less by `left` bytes, and more by `excess`.
    fn try_take_within(&self, left: u64, excess: u64, bytes: u64) -> Result<(), MemoryExhausted> {
        let bytes_max = self.bytes_max.saturating_sub(left).saturating_add(excess);
        let uncounted = self.uncounted_bytes(bytes);
        let taken = |held: u64| held.saturating_add(bytes).saturating_add(uncounted);
        // Without a limit there is room for more than can be counted.
        let room = |held: u64| held.checked_add(bytes).filter(|_| taken(held) <= bytes_max);
        self.held
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, room)
            .map_err(|held| MemoryExhausted { own: bytes, taken: taken(held), bytes_max })?;
        let (left, excess) = (left.max(self.left_to_others), excess.max(self.excess));
        let of_whole =
            self.whole.as_ref().map_or(Ok(()), |whole| whole.try_take_within(left, excess, bytes));
        if of_whole.is_err() {
            self.held.fetch_sub(bytes, Ordering::SeqCst);
        } else if self.is_reservation {
            self.wholes().for_each(|whole| {
                whole.reserved.fetch_add(bytes, Ordering::SeqCst);
            });
        }
        of_whole
    }

    /// Counts bytes out.
    pub(crate) fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        for whole in self.wholes() {
            if self.is_reservation {
                whole.reserved.fetch_sub(bytes, Ordering::SeqCst);
            }
            whole.held.fetch_sub(bytes, Ordering::SeqCst);
        }
        self.waiting.wake();
    }
}

impl Waiting {
    fn wake(&self) {
        // A waiting thread counts itself before it checks for room, and released bytes are counted
        // out before this checks for threads: one of the two sees the other.
        if 0 < self.threads.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// Tries again whenever bytes are released, for at most that time.
    fn wait_for(&self, time_max: Duration, mut has_room: impl FnMut() -> bool) {
        self.threads.fetch_add(1, Ordering::SeqCst);
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(lock, time_max, |()| !has_room()));
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What one owner holds of a budget. Dropping it releases that.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    bytes: u64,
    always_allowed: u64,
}

impl MemoryShare {
    /// The number of bytes that it holds of its budget.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget it draws from.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Grows to hold that many bytes; a share that already holds more stays as it is.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is no room; the share is then unchanged.
    pub fn try_grow_to(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if bytes <= self.always_allowed {
            self.grow_to(bytes);
            return Ok(());
        }
        self.budget.try_take(more).map_err(|refused| MemoryExhausted { own: bytes, ..refused })?;
        self.bytes += more;
        Ok(())
    }

    /// Grows to hold that many bytes, even when there is no room.
    pub(crate) fn grow_to(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        self.budget.take(more);
        self.bytes += more;
    }

    /// As [`Self::try_grow_to`], but waits for room for at most that time. For background work
    /// only: anything that others wait for must not wait here.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is still none.
    pub fn grow_to_within(
        &mut self,
        bytes: u64,
        time_max: Duration,
    ) -> Result<(), MemoryExhausted> {
        let mut grown = self.try_grow_to(bytes);
        if grown.is_err() {
            let waiting = Arc::clone(&self.budget.waiting);
            waiting.wait_for(time_max, || {
                grown = self.try_grow_to(bytes);
                grown.is_ok()
            });
        }
        grown
    }

    /// Another owner for so many of its bytes, or for all of them.
    pub fn split(&mut self, bytes: u64) -> MemoryShare {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        MemoryShare { budget: Arc::clone(&self.budget), bytes, always_allowed: 0 }
    }

    /// Shrinks to hold at most that many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if 0 < less {
            self.bytes -= less;
            self.budget.release(less);
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A buffer that is kept for later use, counted as part of a budget for as long as it is kept.
pub(crate) struct Kept<T> {
    value: Option<T>,
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl<T> Kept<T> {
    pub(crate) fn nothing(budget: Arc<MemoryBudget>) -> Self {
        Self { value: None, bytes: 0, budget }
    }

    /// Where it is counted.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Hands out the buffer, if one is kept.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.budget.release(std::mem::take(&mut self.bytes));
        self.value.take()
    }

    /// Keeps a buffer of that many bytes, unless the budget is half used up.
    pub(crate) fn keep(&mut self, value: T, bytes: u64) {
        drop(self.take());
        if self.budget.held_bytes().saturating_add(bytes) <= self.budget.bytes_max() / 2 {
            self.budget.take(bytes);
            (self.value, self.bytes) = (Some(value), bytes);
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_buffer_counts_until_it_is_taken_and_is_not_kept_when_memory_is_short() {
        let budget = MemoryBudget::new(100);
        let mut kept = Kept::nothing(Arc::clone(&budget));
        kept.keep("buffer", 40);
        assert_eq!(budget.held_bytes(), 40);
        assert_eq!((kept.take(), budget.held_bytes()), (Some("buffer"), 0));
        budget.take(20);
        kept.keep("buffer", 40);
        assert_eq!((kept.take(), budget.held_bytes()), (None, 20));
        kept.keep("buffer", 10);
        kept.keep("other", 20);
        assert_eq!(budget.held_bytes(), 40);
        drop(kept);
        assert_eq!(budget.held_bytes(), 20);
    }

    #[test]
    fn an_assured_part_counts_in_the_whole_and_has_its_bytes_whatever_the_others_hold() {
        let whole = MemoryBudget::new(100);
        let (assured, other) = (whole.part_assured(30), whole.part(100));
        other.take(90);
        assured.take(30);
        assert_eq!(whole.held_bytes(), 120);
        assert!(other.taken_beyond(100).is_some());
        assert!(assured.taken_beyond(100).is_none());
        assured.take(1);
        assert!(assured.taken_beyond(100).is_some());
        assured.release(31);
        assert_eq!(whole.held_bytes(), 90);
    }

    #[test]
    fn a_share_grows_while_there_is_room_and_releases_everything() {
        let budget = MemoryBudget::new(100);
        let (mut one, mut other) = (budget.share(0), budget.share(0));
        one.try_grow_to(60).unwrap();
        one.try_grow_to(10).unwrap();
        assert_eq!((one.bytes(), budget.held_bytes()), (60, 60), "it does not shrink by growing");
        let refused = other.try_grow_to(50);
        assert_eq!(refused, Err(MemoryExhausted { own: 50, taken: 110, bytes_max: 100 }));
        assert_eq!(budget.held_bytes(), 60, "a refusal takes nothing");
        other.try_grow_to(40).unwrap();
        one.shrink_to(20);
        assert_eq!(budget.held_bytes(), 60);
        drop((one, other));
        assert_eq!(budget.held_bytes(), 0);
        let unlimited = MemoryBudget::unlimited();
        let mut most = unlimited.share(0);
        most.try_grow_to(u64::MAX).unwrap();
        assert!(unlimited.share(0).try_grow_to(1).is_err(), "more than can be counted");
    }

    #[test]
    fn what_is_always_allowed_is_counted_and_never_refused() {
        let budget = MemoryBudget::new(100);
        let (mut large, mut small) = (budget.share(0), budget.share(30));
        large.try_grow_to(100).unwrap();
        small.try_grow_to(30).unwrap();
        assert_eq!(budget.held_bytes(), 130);
        assert!(small.try_grow_to(31).is_err());
        drop(large);
        small.try_grow_to(31).unwrap();
        drop(small);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn a_part_is_bounded_by_itself_and_by_the_whole() {
        let whole = MemoryBudget::new(100);
        let (left, right) = (whole.part(60), whole.part(60));
        let (mut one, mut other) = (left.share(0), right.share(0));
        assert_eq!(one.try_grow_to(61), Err(MemoryExhausted { own: 61, taken: 61, bytes_max: 60 }));
        one.try_grow_to(60).unwrap();
        assert_eq!(
            other.try_grow_to(50),
            Err(MemoryExhausted { own: 50, taken: 110, bytes_max: 100 })
        );
        assert_eq!((right.held_bytes(), whole.held_bytes()), (0, 60));
        other.try_grow_to(40).unwrap();
        drop(one);
        assert_eq!((left.held_bytes(), right.held_bytes(), whole.held_bytes()), (0, 40, 40));
    }

    #[test]
    fn a_part_that_exceeds_the_whole_finds_a_little_room_where_others_find_none() {
        let whole = MemoryBudget::new(100);
        let (small, other) = (whole.part_that_exceeds(10, 50), whole.part(100));
        let (mut one, mut two) = (small.share(0), small.share(0));
        other.take(95);
        one.try_grow_to(15).unwrap();
        assert_eq!(two.try_grow_to(1).unwrap_err().bytes_max, 110);
        assert!(other.share(0).try_grow_to(1).is_err());
        drop(one);
        two.try_grow_to(5).unwrap();
        other.release(95);
        assert_eq!(two.try_grow_to(51).unwrap_err().bytes_max, 50);
    }

    #[test]
    fn a_part_that_leaves_room_finds_none_where_others_do() {
        let process = MemoryBudget::new(100);
        let work = process.part(80);
        let (modest, other) = (work.part_that_leaves(20, 80), work.part(80));
        let (mut one, mut two) = (modest.share(0), other.share(0));
        assert_eq!(one.try_grow_to(61), Err(MemoryExhausted { own: 61, taken: 61, bytes_max: 60 }));
        one.try_grow_to(60).unwrap();
        two.try_grow_to(20).unwrap();
        one.shrink_to(0);
        process.take(30);
        assert_eq!(one.try_grow_to(31), Err(MemoryExhausted { own: 31, taken: 81, bytes_max: 80 }));
        two.try_grow_to(70).unwrap();
        assert_eq!((modest.held_bytes(), process.held_bytes()), (0, 100));
    }

    #[test]
    fn the_budget_of_a_process_leaves_room_for_what_is_not_counted() {
        #[derive(Debug)]
        struct NotCounted(AtomicU64);
        impl Uncounted for NotCounted {
            fn bytes(&self, _held: u64, _wanted: u64) -> u64 {
                self.0.load(Ordering::SeqCst)
            }
        }
        let not_counted = Arc::new(NotCounted(AtomicU64::new(30)));
        let process = MemoryBudget::of_process(100, Arc::clone(&not_counted) as Arc<dyn Uncounted>);
        let part = process.part(80);
        let mut share = part.share(5);
        assert_eq!(
            share.try_grow_to(71),
            Err(MemoryExhausted { own: 71, taken: 101, bytes_max: 100 })
        );
        assert_eq!((part.held_bytes(), process.held_bytes()), (0, 0), "a refusal takes nothing");
        share.try_grow_to(50).unwrap();
        assert_eq!(part.taken_beyond(80), None);
        not_counted.0.store(60, Ordering::SeqCst);
        let beyond = MemoryExhausted { own: 0, taken: 110, bytes_max: 100 };
        assert_eq!(part.taken_beyond(100), Some(beyond), "of the process, whose limit it is");
        assert!(share.try_grow_to(51).is_err());
        share.shrink_to(0);
        share.try_grow_to(40).unwrap();
        not_counted.0.store(u64::MAX, Ordering::SeqCst);
        assert!(part.share(5).try_grow_to(5).is_ok(), "no owner starves");
    }

    #[test]
    fn what_is_only_reserved_is_not_subtracted_from_what_the_process_takes() {
        /// Takes so many bytes in all, counted or not.
        #[derive(Debug)]
        struct Taken(u64);
        impl Uncounted for Taken {
            fn bytes(&self, held: u64, _wanted: u64) -> u64 {
                self.0.saturating_sub(held)
            }
        }
        let process = MemoryBudget::of_process(100, Arc::new(Taken(40)));
        let (reserved, part) = (process.part_reserved(10, 60), process.part(100));
        let (mut one, mut two) = (reserved.share(0), part.share(0));
        one.try_grow_to(30).unwrap();
        assert_eq!((process.held_bytes(), process.used_bytes()), (30, 0));
        assert!(two.try_grow_to(31).is_err(), "40 are taken, and 30 may be at any time");
        two.try_grow_to(30).unwrap();
        assert_eq!((process.held_bytes(), process.used_bytes()), (60, 30));
        assert!(one.try_grow_to(60).is_err(), "a refusal reserves nothing");
        assert_eq!(process.used_bytes(), 30);
        one.shrink_to(10);
        assert_eq!((process.held_bytes(), process.used_bytes()), (40, 30));
        drop(one);
        assert_eq!((process.held_bytes(), process.used_bytes()), (30, 30));
    }

    #[test]
    fn a_waiting_share_gets_what_another_part_releases() {
        let whole = MemoryBudget::new(100);
        let (left, right) = (whole.part(100), whole.part(100));
        let mut taken = left.share(0);
        taken.try_grow_to(80).unwrap();
        assert!(right.share(0).grow_to_within(50, Duration::ZERO).is_err());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut share = right.share(0);
                share.grow_to_within(50, Duration::MAX).map(|()| share)
            });
            while whole.waiting.threads.load(Ordering::SeqCst) == 0 && !waits.is_finished() {
                std::thread::yield_now();
            }
            taken.shrink_to(30);
            let share = waits.join().unwrap().unwrap();
            assert_eq!((share.bytes(), whole.held_bytes()), (50, 80));
        });
    }
}
