//! The threads that index, shared by all databases of a process.
//!
//! Workers with work are queued. A thread takes the first one, runs one turn, and enqueues it at
//! the end when it has more work. So a few threads serve any number of indexes, none waits forever,
//! and an idle index occupies no thread. The queue is ordered by priority: a low one lets a limited
//! number of others pass.
//!
//! Invariant: a worker is queued at most once, and never during its turn, provided that it enqueues
//! itself only when it is neither queued nor running ([`Worker::take_turn`] returns what it wants
//! next).

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use model::IndexPriority;
use platform::{Clock, Platform, ProcessMemory, secret_memory, thread_priority};
use storage::MemoryBudget;

use crate::batch_memory::IndexingMemory;

/// Something that is done in turns.
pub(crate) trait Worker: Send + Sync {
    /// Its priority in the queue.
    fn priority(&self) -> IndexPriority;

    /// Runs one turn. Never called by two threads at once. `spare_threads` is the number of further
    /// threads that the pool could run and has no work for; the worker may start them during its
    /// turn.
    fn take_turn(self: Arc<Self>, spare_threads: usize) -> NextTurn;
}

/// What a worker wants after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTurn {
    /// To be enqueued again.
    InLine,
    /// To be enqueued again after that time.
    After(Duration),
    /// Nothing, until it enqueues itself.
    None,
}

/// The pool. Its threads end when the last handle is dropped, each after its current turn.
#[derive(Clone)]
pub struct IndexingPool {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
    memory: IndexingMemory,
}

struct Shared {
    clock: Arc<dyn Clock>,
    /// Releases unused memory, if the pool belongs to a platform.
    memory: Option<Arc<dyn ProcessMemory>>,
    threads_max: usize,
    line: Mutex<Line>,
    changed: Condvar,
}

/// A position in the queue, and a number that makes it unique.
type Place = (u64, u64);

#[derive(Default)]
struct Line {
    waiting: BTreeMap<Place, Arc<dyn Worker>>,
    /// Workers that will be enqueued at a time of the clock.
    resting: BTreeMap<(Duration, u64), Arc<dyn Worker>>,
    /// The number of workers enqueued so far.
    number: u64,
    threads: usize,
    /// Threads that wait for work.
    free: usize,
    is_closed: bool,
}

/// An idle thread releases memory after each of this many pauses: the allocator would keep what the
/// thread allocated and others freed for as long as the thread sleeps. Page versions of its last
/// transactions are freed by later flushes.
const REST_PAUSE: Duration = Duration::from_secs(2);
const REST_PAUSES: u32 = 6;
/// The first pause is shorter: until then the memory that the thread keeps is in no budget.
const REST_PAUSE_FIRST: Duration = Duration::from_millis(100);

/// How many later workers may pass one of this priority.
fn places_passed(priority: IndexPriority) -> u64 {
    match priority {
        IndexPriority::High => 0,
        IndexPriority::Normal => 8,
        IndexPriority::Low => 64,
    }
}

impl IndexingPool {
    /// A pool of at most `threads_max` threads, which are started on demand. The memory of its
    /// batches is unbounded.
    pub fn new(clock: Arc<dyn Clock>, threads_max: usize) -> Self {
        Self::with(MemoryBudget::unlimited(), clock, None, threads_max)
    }

    /// As [`IndexingPool::new`], with batches that draw from that budget, and threads that release
    /// memory when they are idle.
    pub fn within(budget: Arc<MemoryBudget>, platform: &Platform, threads_max: usize) -> Self {
        let (clock, process) = (Arc::clone(&platform.clock), Arc::clone(&platform.memory));
        Self::with(budget, clock, Some(process), threads_max)
    }

    fn with(
        budget: Arc<MemoryBudget>,
        clock: Arc<dyn Clock>,
        process: Option<Arc<dyn ProcessMemory>>,
        threads_max: usize,
    ) -> Self {
        let threads_max = threads_max.max(1);
        let memory = IndexingMemory { budget, threads: threads_max as u64 };
        let shared = Shared {
            clock,
            memory: process,
            threads_max,
            line: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { owner: Arc::new(Owner { shared: Arc::new(shared), memory }) }
    }

    /// The budget of batches; their transactions should draw from it, too.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.owner.memory.budget
    }

    pub(crate) fn memory(&self) -> &IndexingMemory {
        &self.owner.memory
    }

    /// Enqueues a worker.
    pub(crate) fn enqueue(&self, worker: Arc<dyn Worker>) {
        let shared = &self.owner.shared;
        let mut line = shared.lock();
        line.enqueue(worker);
        shared.ensure_thread(&mut line);
    }

    /// Enqueues a worker after some time.
    pub(crate) fn enqueue_after(&self, rest: Duration, worker: Arc<dyn Worker>) {
        let shared = &self.owner.shared;
        let mut line = shared.lock();
        line.rest(shared.clock.monotonic() + rest, worker);
        shared.ensure_thread(&mut line);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let line = {
            let mut line = self.shared.lock();
            line.is_closed = true;
            (std::mem::take(&mut line.waiting), std::mem::take(&mut line.resting))
        };
        self.shared.changed.notify_all();
        // A worker may own something that locks the queue when it is dropped.
        drop(line);
    }
}

impl Line {
    fn enqueue(&mut self, worker: Arc<dyn Worker>) {
        self.number += 1;
        let place = self.number + places_passed(worker.priority());
        self.waiting.insert((place, self.number), worker);
    }

    fn rest(&mut self, until: Duration, worker: Arc<dyn Worker>) {
        self.number += 1;
        self.resting.insert((until, self.number), worker);
    }

    /// Enqueues the workers whose time has come.
    fn wake(&mut self, now: Duration) {
        while let Some(entry) = self.resting.first_entry()
            && entry.key().0 <= now
        {
            let worker = entry.remove();
            self.enqueue(worker);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread, or starts one when the free ones are already needed: a thread counts as free
    /// until it has woken up.
    fn ensure_thread(self: &Arc<Self>, line: &mut Line) {
        let wanted = line.waiting.len().max(1);
        if line.free < wanted && line.threads < self.threads_max {
            let shared = Arc::clone(self);
            let number = line.threads + 1;
            let builder = thread::Builder::new().name(format!("indexing {number}"));
            if builder.spawn(move || shared.run()).is_ok() {
                line.threads += 1;
            }
            // If no thread can be started, the existing ones get to the worker; if there are none,
            // the next one that is enqueued tries again.
        }
        self.changed.notify_one();
    }

    fn run(&self) {
        thread_priority::step_back();
        let mut pauses = 0;
        while let Some((worker, spare_threads)) = self.next(&mut pauses) {
            pauses = REST_PAUSES;
            let next = Arc::clone(&worker).take_turn(spare_threads);
            secret_memory::wipe_stack_after_work();
            let mut line = self.lock();
            match next {
                NextTurn::InLine => line.enqueue(worker),
                NextTurn::After(rest) => line.rest(self.clock.monotonic() + rest, worker),
                NextTurn::None => {
                    drop(line);
                    // It may be the last owner of a whole database.
                    drop(worker);
                }
            }
        }
    }

    /// Waits for the first worker in the queue; also returns the number of spare threads. `None`
    /// when the pool is closed. A waiting thread releases unused memory after each of its `pauses`.
    fn next(&self, pauses: &mut u32) -> Option<(Arc<dyn Worker>, usize)> {
        let mut line = self.lock();
        loop {
            if line.is_closed {
                return None;
            }
            let now = self.clock.monotonic();
            line.wake(now);
            if let Some((_, worker)) = line.waiting.pop_first() {
                let busy = line.threads - line.free;
                let spare = if line.waiting.is_empty() { self.threads_max - busy } else { 0 };
                return Some((worker, spare));
            }
            let rest = line.resting.first_key_value().map(|((until, _), _)| *until - now);
            let pause = self.memory.as_ref().filter(|_| 0 < *pauses);
            line.free += 1;
            let is_over;
            let length = if *pauses == REST_PAUSES { REST_PAUSE_FIRST } else { REST_PAUSE };
            (line, is_over) = self.wait(line, rest, pause.map(|_| length));
            line.free -= 1;
            if let Some(memory) = pause.filter(|_| is_over) {
                *pauses -= 1;
                drop(line);
                memory.release_unused();
                line = self.lock();
            }
        }
    }
}

impl Shared {
    /// Waits for a change, at most the shorter of these times. Returns whether a pause is over.
    fn wait<'l>(
        &'l self,
        line: MutexGuard<'l, Line>,
        rest: Option<Duration>,
        pause: Option<Duration>,
    ) -> (MutexGuard<'l, Line>, bool) {
        let Some(time) = rest.into_iter().chain(pause).min() else {
            return (self.changed.wait(line).unwrap_or_else(PoisonError::into_inner), false);
        };
        let waited = self.changed.wait_timeout(line, time);
        let (line, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (line, waited.timed_out() && pause == Some(time))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use platform::Platform;

    use super::*;

    struct Turns {
        name: &'static str,
        priority: IndexPriority,
        left: Mutex<usize>,
        sender: Sender<&'static str>,
    }

    impl Worker for Turns {
        fn priority(&self) -> IndexPriority {
            self.priority
        }

        fn take_turn(self: Arc<Self>, _spare_threads: usize) -> NextTurn {
            self.sender.send(self.name).unwrap();
            let mut left = self.left.lock().unwrap();
            *left -= 1;
            if *left == 0 { NextTurn::None } else { NextTurn::InLine }
        }
    }

    /// Blocks the only thread until it is released.
    struct Gate(Mutex<Receiver<()>>);

    impl Worker for Gate {
        fn priority(&self) -> IndexPriority {
            IndexPriority::High
        }

        fn take_turn(self: Arc<Self>, _spare_threads: usize) -> NextTurn {
            self.0.lock().unwrap().recv().unwrap();
            NextTurn::None
        }
    }

    /// The order in which workers of one turn each or more have their turns on one thread.
    fn order_of(workers: &[(&'static str, IndexPriority, usize)]) -> Vec<&'static str> {
        let pool = IndexingPool::new(Platform::memory().clock, 1);
        let (open, closed) = channel();
        pool.enqueue(Arc::new(Gate(Mutex::new(closed))));
        let (sender, names) = channel();
        for &(name, priority, turns) in workers {
            let (left, sender) = (Mutex::new(turns), sender.clone());
            pool.enqueue(Arc::new(Turns { name, priority, left, sender }));
        }
        drop(sender);
        open.send(()).unwrap();
        names.iter().collect()
    }

    #[test]
    fn turns_go_round() {
        let normal = IndexPriority::Normal;
        let order = order_of(&[("a", normal, 3), ("b", normal, 1), ("c", normal, 2)]);
        assert_eq!(order, ["a", "b", "c", "a", "c", "a"]);
    }

    #[test]
    fn a_high_priority_goes_first_and_a_low_one_still_has_its_turn() {
        let order = order_of(&[
            ("low", IndexPriority::Low, 1),
            ("normal", IndexPriority::Normal, 1),
            ("high", IndexPriority::High, 200),
        ]);
        let place = |name: &str| order.iter().position(|known| *known == name).unwrap();
        assert_eq!(order[0], "high");
        assert!(place("normal") < 12, "{}", place("normal"));
        assert!(12 < place("low") && place("low") < 70, "{}", place("low"));
    }

    #[test]
    fn threads_are_as_many_as_allowed_and_no_more() {
        let pool = IndexingPool::new(Platform::memory().clock, 3);
        let (sender, names) = channel();
        for _ in 0..100 {
            let (left, sender) = (Mutex::new(5), sender.clone());
            pool.enqueue(Arc::new(Turns {
                name: "x",
                priority: IndexPriority::Normal,
                left,
                sender,
            }));
        }
        drop(sender);
        assert_eq!(names.iter().count(), 500);
        assert!(pool.owner.shared.lock().threads <= 3);
    }

    /// Ends its turn when another one has begun.
    struct Meeting(Arc<std::sync::Barrier>);

    impl Worker for Meeting {
        fn priority(&self) -> IndexPriority {
            IndexPriority::Normal
        }

        fn take_turn(self: Arc<Self>, _spare_threads: usize) -> NextTurn {
            self.0.wait();
            NextTurn::None
        }
    }

    #[test]
    fn those_who_come_while_a_free_thread_wakes_up_have_threads_of_their_own() {
        let pool = IndexingPool::new(Platform::memory().clock, 2);
        let shared = &pool.owner.shared;
        let (sender, names) = channel();
        let (name, priority, left) = ("first", IndexPriority::Normal, Mutex::new(1));
        pool.enqueue(Arc::new(Turns { name, priority, left, sender }));
        assert_eq!(names.iter().count(), 1);
        let mut line = shared.lock();
        while line.free == 0 {
            drop(line);
            thread::yield_now();
            line = shared.lock();
        }
        let barrier = Arc::new(std::sync::Barrier::new(3));
        // The only thread cannot wake up in between.
        for _ in 0..2 {
            line.enqueue(Arc::new(Meeting(Arc::clone(&barrier))));
            shared.ensure_thread(&mut line);
        }
        assert_eq!(line.threads, 2);
        drop(line);
        barrier.wait();
    }

    #[test]
    fn who_rests_comes_into_line_later() {
        let pool = IndexingPool::new(Platform::memory().clock, 1);
        let (sender, names) = channel();
        let worker = |name| {
            let (left, sender) = (Mutex::new(1), sender.clone());
            Arc::new(Turns { name, priority: IndexPriority::Normal, left, sender })
        };
        pool.enqueue_after(Duration::from_millis(50), worker("rested"));
        pool.enqueue(worker("at once"));
        drop(sender);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["at once", "rested"]);
    }
}
