//! The threads that serve all commit queues of a server.
//!
//! A queue that has work is scheduled, at most once at a time, and one thread works for it until it
//! has none; there are as many threads as queues that work at the same moment, up to a maximum.
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

use platform::ProcessMemory;

use crate::patch::ThreadPatcher;

/// How long an idle thread waits before it returns memory to the system, and between further
/// attempts: what it has allocated is freed by other threads, at the latest with the second flush
/// after its last work. After the last one it ends.
const REST_PAUSE: Duration = Duration::from_secs(2);
const REST_PAUSES: u32 = 6;
/// The first pause is shorter: many databases may be written briefly one after another, and memory
/// retained by threads is in no budget.
const REST_PAUSE_FIRST: Duration = Duration::from_millis(100);

/// A queue that can be scheduled.
pub(crate) trait Work: Send + Sync {
    /// Works until there is nothing to do, or until others should have their turn. Must not panic.
    fn run(self: Arc<Self>, patcher: &mut ThreadPatcher);
}

/// The threads. When it is dropped they end after their current work, without being waited for.
pub struct CommitThreads {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    memory: Arc<dyn ProcessMemory>,
    threads_max: usize,
}

#[derive(Default)]
struct State {
    /// Queues that wait for a thread.
    pending: VecDeque<Arc<dyn Work>>,
    threads: usize,
    /// Threads that wait for a queue. The last one worked last, so its memory and its engine are warm:
    /// it is the first to work again.
    idle: Vec<Arc<IdleThread>>,
    is_closed: bool,
}

/// A thread that waits. It has been notified once it is not in [`State::idle`] any more.
#[derive(Default)]
struct IdleThread {
    wakes: Condvar,
}

impl CommitThreads {
    /// At most this many threads. The first is started at once, and stays; the others are started when
    /// they are needed.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(threads_max: usize, memory: Arc<dyn ProcessMemory>) -> io::Result<Arc<Self>> {
        let state = State { threads: 1, ..State::default() };
        let shared = Shared { state: Mutex::new(state), memory, threads_max };
        let shared = Arc::new(shared);
        shared.spawn()?;
        Ok(Arc::new(Self { shared }))
    }

    /// The number of threads that exist now.
    pub fn count(&self) -> usize {
        self.shared.lock().threads
    }

    /// Has a thread work for this queue as soon as one is free.
    pub(crate) fn schedule(&self, work: Arc<dyn Work>) {
        let mut state = self.shared.lock();
        state.pending.push_back(work);
        if let Some(thread) = state.idle.pop() {
            drop(state);
            thread.wakes.notify_one();
        } else if state.threads < self.shared.threads_max {
            state.threads += 1;
            drop(state);
            if self.shared.spawn().is_err() {
                // The threads that exist will come to it.
                self.shared.lock().threads -= 1;
            }
        }
    }

    /// Whether a queue that is scheduled now gets a thread at once.
    pub(crate) fn has_free_thread(&self) -> bool {
        let state = self.shared.lock();
        !state.idle.is_empty() || state.threads < self.shared.threads_max
    }

    /// Whether queues wait for a thread.
    pub(crate) fn have_pending(&self) -> bool {
        !self.shared.lock().pending.is_empty()
    }
}

impl Shared {
    /// No code that may panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        let shared = Arc::clone(self);
        thread::Builder::new().name("commit".to_owned()).spawn(move || shared.run()).map(drop)
    }

    fn run(&self) {
        let mut patcher = ThreadPatcher::default();
        let thread = Arc::new(IdleThread::default());
        while let Some(work) = self.next(&thread, &mut patcher) {
            // In any case the thread goes on: others rely on it.
            if catch_unwind(AssertUnwindSafe(|| work.run(&mut patcher))).is_err() {
                patcher = ThreadPatcher::default();
            }
        }
    }

    /// The next queue; `None` when the thread should end.
    fn next(&self, thread: &Arc<IdleThread>, patcher: &mut ThreadPatcher) -> Option<Arc<dyn Work>> {
        let mut pauses = 0;
        let mut state = self.lock();
        loop {
            if let Some(work) = state.pending.pop_front() {
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
            (state, is_notified) = self.wait(thread, state, pause);
            if !is_notified && !has_rested {
                pauses += 1;
                drop(state);
                // Its engine keeps as much as its largest scripts have needed.
                patcher.forget();
                self.memory.release_unused();
                state = self.lock();
            }
        }
    }

    /// Waits to be notified of a queue. The flag is unset if that long nobody was.
    fn wait<'s>(
        &self,
        thread: &Arc<IdleThread>,
        mut state: MutexGuard<'s, State>,
        pause: Duration,
    ) -> (MutexGuard<'s, State>, bool) {
        state.idle.push(Arc::clone(thread));
        let waited = thread.wakes.wait_timeout(state, pause);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let place = state.idle.iter().position(|idle| Arc::ptr_eq(idle, thread));
        if let Some(place) = place {
            state.idle.remove(place);
        }
        (state, place.is_none())
    }
}

impl Drop for CommitThreads {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        for thread in std::mem::take(&mut state.idle) {
            thread.wakes.notify_one();
        }
    }
}
