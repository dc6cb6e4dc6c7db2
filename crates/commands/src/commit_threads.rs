//! The threads that serve all commit queues of a server.
//!
//! A queue that has work is scheduled, at most once at a time, and one thread works for it until it
//! has none; there are as many threads as queues that work at the same moment, up to a maximum.
//! Where all of them take long, with scripts of patches or a disk that hangs, a queue that has waited
//! for [`HELP_AFTER`] gets a further thread, so that it is not held up by others.
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

/// How long the queue that waits longest waits for one of the threads before there is one more.
const HELP_AFTER: Duration = Duration::from_millis(50);
/// The number of threads, including those, that is never exceeded.
const THREADS_LIMIT: usize = 1024;

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
    /// Queues that wait for a thread, numbered in the order of their scheduling.
    pending: VecDeque<(u64, Arc<dyn Work>)>,
    last_number: u64,
    threads: usize,
    /// Threads that wait for a queue. The last one worked last, so its memory and its engine are warm:
    /// it is the first to work again.
    idle: Vec<Arc<IdleThread>>,
    /// Whether a further thread watches how long queues wait.
    has_helper: bool,
    is_closed: bool,
}

/// A thread that waits. It has been notified once it is not in [`State::idle`] any more.
#[derive(Default)]
struct IdleThread {
    wakes: Condvar,
}

impl CommitThreads {
    /// This many threads, and more where these take long. The first is started at once, and stays; the
    /// others are started when they are needed.
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
        state.last_number += 1;
        let number = state.last_number;
        state.pending.push_back((number, work));
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
        } else {
            self.shared.start_helper(&mut state);
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

    /// Has a further thread watch how long queues wait, if any do. This is rare enough to start it under
    /// the lock.
    fn start_helper(self: &Arc<Self>, state: &mut State) {
        if state.has_helper || state.pending.is_empty() || THREADS_LIMIT <= state.threads {
            return;
        }
        let shared = Arc::clone(self);
        let spawned = thread::Builder::new().name("commit".to_owned()).spawn(move || shared.help());
        state.has_helper = spawned.is_ok();
    }

    fn help(self: &Arc<Self>) {
        // Nobody notifies it.
        let moment = Condvar::new();
        let first = |state: &State| state.pending.front().map(|(number, _)| *number);
        let mut state = self.lock();
        while let Some(seen) = first(&state) {
            let waited = moment.wait_timeout(state, HELP_AFTER);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if first(&state) == Some(seen) {
                state.has_helper = false;
                state.threads += 1;
                drop(state);
                return self.run();
            }
        }
        state.has_helper = false;
    }

    fn run(self: &Arc<Self>) {
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
    fn next(
        self: &Arc<Self>,
        thread: &Arc<IdleThread>,
        patcher: &mut ThreadPatcher,
    ) -> Option<Arc<dyn Work>> {
        let mut pauses = 0;
        let mut state = self.lock();
        loop {
            if let Some((_, work)) = state.pending.pop_front() {
                if self.threads_max <= state.threads {
                    self.start_helper(&mut state);
                }
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
            (state, is_notified) = self.wait(thread, state, pause, pauses > 0);
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

    /// Waits to be notified of a queue. The flag is unset if the pause ended before.
    fn wait<'s>(
        &self,
        thread: &Arc<IdleThread>,
        mut state: MutexGuard<'s, State>,
        pause: Duration,
        is_resting: bool,
    ) -> (MutexGuard<'s, State>, bool) {
        // A thread that rests is the last to work again, so that it comes to its end.
        let place = if is_resting { 0 } else { state.idle.len() };
        state.idle.insert(place, Arc::clone(thread));
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
