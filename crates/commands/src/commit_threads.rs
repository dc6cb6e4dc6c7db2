//! The threads that serve all commit queues of a server.
//!
//! A queue that has work is scheduled, at most once at a time, and one thread works for it until it
//! has none. There are as many threads as queues that work at the same moment, up to
//! [`ThreadLimits::unhurried`]. Where all of them take long, with scripts of patches or a disk that
//! hangs, a queue that has waited for [`HELP_AFTER`] gets a further thread, so that it is not held up
//! by others, up to [`ThreadLimits::max`].
//! Threads that are idle return their memory, and end after a while.
//!
//! Invariant: a thread that waits inside of [`Work::run`] waits only for what another *running*
//! thread does, never for one that has yet to start. So any number of threads makes progress.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use platform::{Clock, Platform, ProcessMemory, secret_memory};

use storage::MemoryBudget;

use crate::{patch::ThreadPatcher, script_places::ScriptPlaces};

/// How long an idle thread waits before it returns memory to the system, and between further
/// attempts: what it has allocated is freed by other threads, at the latest with the second flush
/// after its last work. After the last pause it ends.
const REST_PAUSE: Duration = Duration::from_secs(2);
const REST_PAUSES: u32 = 6;
/// The first pause is shorter: many databases may be written briefly one after another, and memory
/// retained by threads is in no budget.
const REST_PAUSE_FIRST: Duration = Duration::from_millis(100);

/// How long a queue waits for one of the threads before there is one more.
const HELP_AFTER: Duration = Duration::from_millis(50);

/// How many threads there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLimits {
    /// Up to this number, a queue without a free thread gets a new one at once.
    pub unhurried: usize,
    /// Up to this number, it gets one when it has waited for 50 ms. Each thread may hold a small
    /// transaction, whose memory is in no budget.
    pub max: usize,
    /// How many of them execute batches with scripts at the same time.
    pub scripts: usize,
}

/// A queue that can be scheduled.
pub(crate) trait Work: Send + Sync {
    /// Works until there is nothing to do, or until others should have their turn. Must not panic.
    fn run(self: Arc<Self>, patcher: &mut ThreadPatcher);
}

/// The threads. When it is dropped they end after their current work, without being waited for.
pub struct CommitThreads {
    pool: Arc<Pool>,
}

struct Pool {
    state: Mutex<PoolState>,
    clock: Arc<dyn Clock>,
    memory: Arc<dyn ProcessMemory>,
    limits: ThreadLimits,
    scripts: Arc<ScriptPlaces>,
}

#[derive(Default)]
struct PoolState {
    /// Queues that wait for a thread, each with the moment at which it was scheduled; the oldest first.
    pending: VecDeque<(Duration, Arc<dyn Work>)>,
    threads: usize,
    /// Counts the works that threads have begun.
    works: u64,
    /// Threads that wait for a queue, ordered by their last work. The last one's memory and engine
    /// are warm, so it is the first to work again; the others end.
    idle: Vec<IdleThread>,
    /// Whether an extra thread is watching whether queues wait too long.
    has_helper: bool,
    is_closed: bool,
}

/// A thread that waits. It has been notified once it is not in [`PoolState::idle`] any more.
struct IdleThread {
    /// The number of its last work.
    last_work: u64,
    wakes: Arc<Condvar>,
}

impl CommitThreads {
    /// Starts the first thread; the others are started when they are needed. One of them never ends.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(limits: ThreadLimits, platform: &Platform) -> io::Result<Arc<Self>> {
        let pool = Arc::new(Pool {
            state: Mutex::new(PoolState { threads: 1, ..PoolState::default() }),
            clock: Arc::clone(&platform.clock),
            memory: Arc::clone(&platform.memory),
            limits,
            scripts: ScriptPlaces::new(limits.scripts, Arc::clone(&platform.clock)),
        });
        pool.spawn()?;
        Ok(Arc::new(Self { pool }))
    }

    /// The number of threads that exist now.
    pub fn count(&self) -> usize {
        self.pool.lock().threads
    }

    /// From now on, all but one of the batches with scripts that are executed at the same time draw so many bytes for their
    /// heaps from this budget; a batch for which there is no memory for some seconds is refused. Only the first call counts.
    pub fn draw_scripts_from(&self, budget: Arc<MemoryBudget>, heap_bytes: u64) {
        self.pool.scripts.draw_from(budget, heap_bytes);
    }

    /// Those who execute batches with scripts share these.
    pub(crate) fn script_places(&self) -> &Arc<ScriptPlaces> {
        &self.pool.scripts
    }

    /// The moment at which a queue is scheduled. Read before the queue says that it is: a clock that panics then does
    /// so while nobody relies on it.
    pub(crate) fn now(&self) -> Duration {
        self.pool.clock.monotonic()
    }

    /// Has a thread work for this queue as soon as one is free.
    pub(crate) fn schedule(&self, work: Arc<dyn Work>, scheduled: Duration) {
        let mut state = self.pool.lock();
        state.pending.push_back((scheduled, work));
        if let Some(thread) = state.idle.pop() {
            drop(state);
            thread.wakes.notify_one();
        } else if state.threads < self.pool.limits.unhurried {
            state.threads += 1;
            drop(state);
            if self.pool.spawn().is_err() {
                // The threads that exist will come to it.
                let mut state = self.pool.lock();
                state.threads -= 1;
                self.pool.start_helper(&mut state);
            }
        } else {
            self.pool.start_helper(&mut state);
        }
    }

    /// Whether a queue that is scheduled now gets a thread at once.
    pub(crate) fn has_free_thread(&self) -> bool {
        let state = self.pool.lock();
        !state.idle.is_empty() || state.threads < self.pool.limits.unhurried
    }

    /// Whether queues wait for a thread.
    pub(crate) fn have_pending(&self) -> bool {
        !self.pool.lock().pending.is_empty()
    }
}

impl Pool {
    /// No code that may panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        let pool = Arc::clone(self);
        thread::Builder::new().name("commit".to_owned()).spawn(move || pool.run()).map(drop)
    }

    /// Has an extra thread watch how long queues wait, if any do. This is rare enough to start it under
    /// the lock.
    fn start_helper(self: &Arc<Self>, state: &mut PoolState) {
        if state.has_helper || state.pending.is_empty() || self.limits.max <= state.threads {
            return;
        }
        let pool = Arc::clone(self);
        let spawned = thread::Builder::new().name("commit".to_owned()).spawn(move || pool.help());
        state.has_helper = spawned.is_ok();
    }

    /// Becomes one more thread as soon as a queue has waited for too long; ends when none waits.
    fn help(self: &Arc<Self>) {
        // It is never notified; it only times the wait.
        let moment = Condvar::new();
        let mut state = self.lock();
        while let Some((scheduled, _)) = state.pending.front() {
            let waited = self.clock.monotonic().saturating_sub(*scheduled);
            if HELP_AFTER <= waited {
                state.has_helper = false;
                state.threads += 1;
                drop(state);
                return self.run();
            }
            let rest = moment.wait_timeout(state, HELP_AFTER.saturating_sub(waited));
            (state, _) = rest.unwrap_or_else(PoisonError::into_inner);
        }
        state.has_helper = false;
    }

    fn run(self: &Arc<Self>) {
        let counted = CountedThread(self);
        let mut patcher = ThreadPatcher::default();
        let mut thread = IdleThread { last_work: 0, wakes: Arc::default() };
        while let Some(work) = self.next(&mut thread, &mut patcher) {
            // In any case the thread goes on: others rely on it.
            if catch_unwind(AssertUnwindSafe(|| work.run(&mut patcher))).is_err() {
                patcher = ThreadPatcher::default();
            }
            secret_memory::wipe_stack_after_work();
        }
        // `next` has uncounted it.
        std::mem::forget(counted);
    }

    /// The next queue; `None` when the thread should end.
    fn next(
        self: &Arc<Self>,
        thread: &mut IdleThread,
        patcher: &mut ThreadPatcher,
    ) -> Option<Arc<dyn Work>> {
        let mut pauses = 0;
        let mut state = self.lock();
        loop {
            if let Some((_, work)) = state.pending.pop_front() {
                if self.limits.unhurried <= state.threads {
                    self.start_helper(&mut state);
                }
                state.works += 1;
                thread.last_work = state.works;
                return Some(work);
            }
            let has_rested = pauses > REST_PAUSES;
            if state.is_closed || (has_rested && state.threads > 1) {
                state.threads -= 1;
                return None;
            }
            let pause = match pauses {
                0 => REST_PAUSE_FIRST,
                _ if has_rested => Duration::MAX,
                _ => REST_PAUSE,
            };
            let is_notified;
            (state, is_notified) = Self::wait(thread, state, pause);
            if !is_notified && !has_rested {
                pauses += 1;
                drop(state);
                if pauses > 1 {
                    // Its engine keeps as much as its largest scripts have needed.
                    patcher.forget();
                }
                self.memory.release_unused();
                state = self.lock();
            }
        }
    }

    /// Waits to be notified of a queue; `false` if the pause ended first.
    fn wait<'s>(
        thread: &IdleThread,
        mut state: MutexGuard<'s, PoolState>,
        pause: Duration,
    ) -> (MutexGuard<'s, PoolState>, bool) {
        let place = state.idle.partition_point(|idle| idle.last_work < thread.last_work);
        let (last_work, wakes) = (thread.last_work, Arc::clone(&thread.wakes));
        state.idle.insert(place, IdleThread { last_work, wakes });
        let waited = thread.wakes.wait_timeout(state, pause);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_it = |idle: &IdleThread| Arc::ptr_eq(&idle.wakes, &thread.wakes);
        let place = state.idle.iter().position(is_it);
        if let Some(place) = place {
            state.idle.remove(place);
        }
        (state, place.is_none())
    }
}

/// A thread that is counted. If it ends by a panic, dropping this uncounts it.
struct CountedThread<'p>(&'p Pool);

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
    }
}

impl Drop for CommitThreads {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.is_closed = true;
        for thread in std::mem::take(&mut state.idle) {
            thread.wakes.notify_one();
        }
    }
}
