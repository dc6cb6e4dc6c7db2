//! Tasks in virtual time, on one thread: the runtime of a simulation of several nodes.
//!
//! Time stands still while any task can go on, and jumps to the next timer when none can. Which of several tasks goes on
//! is drawn from the seed, so that different seeds try different orders, and the same seed always does the same.
//!
//! Timers fire one at a time, and only when every task waits. So a task that waits for a timer *or* for something else
//! never finds both at once, and nothing depends on which of the two it would look at first: libraries that draw that
//! from a generator of their own (`tokio::select!`) behave the same in each run.
//!
//! Tasks belong to *groups*, such as the processes of a node. A group can be paused (its timers do not fire) and ended,
//! which drops its tasks wherever they are, like `kill -9`.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::simulated::random::Random;

/// Virtual time begins here, so that moments before the beginning can be computed.
const BEGINNING: Duration = Duration::from_secs(86_400);
/// More steps without any time passing are a task that wakes itself forever.
const STEPS_AT_ONCE_MAX: u64 = 10_000_000;

thread_local! {
    static CURRENT: RefCell<Option<Scheduler>> = const { RefCell::new(None) };
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;
type ReadyTasks = Arc<Mutex<BTreeSet<TaskId>>>;

/// A task of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u64);

/// Tasks that are paused and ended together. The default is the group of the first task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskGroup(u64);

/// See the module. Clones are handles of the same scheduler.
#[derive(Clone)]
pub struct Scheduler {
    state: Rc<RefCell<State>>,
    ready: ReadyTasks,
}

struct State {
    now: Duration,
    /// The last number given to a task, a group or a timer.
    last_number: u64,
    tasks: BTreeMap<TaskId, Task>,
    timers: BTreeMap<TimerKey, Timer>,
    /// Timers of paused groups whose time has come.
    held: BTreeMap<TimerKey, Timer>,
    paused: BTreeSet<TaskGroup>,
    /// Tasks that were started in paused groups.
    waiting: Vec<(TaskGroup, TaskId)>,
    random: Random,
    /// The group of the running task.
    group: TaskGroup,
    steps: u64,
    trace: u64,
}

struct Task {
    group: TaskGroup,
    /// `None` while it runs.
    future: Option<BoxedTask>,
    waker: Waker,
}

/// When a timer fires, and its number.
type TimerKey = (Duration, u64);

struct Timer {
    group: TaskGroup,
    signal: Arc<Signal>,
}

/// What a timer and its sleep share.
#[derive(Default)]
struct Signal {
    has_fired: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

struct TaskWaker {
    task: TaskId,
    ready: ReadyTasks,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The scheduler of a thread before this one, which takes its place again at the end.
struct Entered(Option<Scheduler>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = self.0.take());
    }
}

impl Scheduler {
    /// A scheduler without tasks.
    pub fn new(seed: u64) -> Self {
        let state = State {
            now: BEGINNING,
            last_number: 0,
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            held: BTreeMap::new(),
            paused: BTreeSet::new(),
            waiting: Vec::new(),
            random: Random::new(seed),
            group: TaskGroup::default(),
            steps: 0,
            trace: seed,
        };
        Self { state: Rc::new(RefCell::new(state)), ready: Arc::default() }
    }

    /// The scheduler that runs on this thread, if any.
    pub fn current() -> Option<Self> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Whether a scheduler runs on this thread. Cheap.
    pub fn is_running() -> bool {
        CURRENT.with(|current| current.borrow().is_some())
    }

    /// Runs a task and whatever it spawns until it has ended. All other tasks are dropped then.
    ///
    /// # Panics
    /// Every task waits for something that cannot happen, or one runs without end.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let before = CURRENT.with(|current| current.borrow_mut().replace(self.clone()));
        let _entered = Entered(before);
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        self.spawn(async move {
            let ended = main.await;
            *place.borrow_mut() = Some(ended);
        });
        let mut steps_at_once = 0;
        loop {
            while let Some(task) = self.choose() {
                self.step(task);
                steps_at_once += 1;
                assert!(steps_at_once < STEPS_AT_ONCE_MAX, "the tasks go on without end");
            }
            let ended = result.borrow_mut().take();
            if let Some(ended) = ended {
                self.drop_tasks(|_| true);
                return ended;
            }
            assert!(self.fire_next(), "every task waits for something that cannot happen");
            steps_at_once = 0;
        }
    }

    /// One of the tasks that can go on.
    fn choose(&self) -> Option<TaskId> {
        let mut ready = lock(&self.ready);
        let count = ready.len() as u64;
        let place = if count < 2 { 0 } else { self.state.borrow_mut().random.below(count) };
        let task = *ready.iter().nth(place as usize)?;
        ready.remove(&task);
        Some(task)
    }

    fn step(&self, id: TaskId) {
        let (mut future, waker) = {
            let mut state = self.state.borrow_mut();
            let Some(task) = state.tasks.get_mut(&id) else { return };
            let Some(future) = task.future.take() else { return };
            let (waker, group) = (task.waker.clone(), task.group);
            state.group = group;
            state.steps += 1;
            let moment = state.now.as_nanos() as u64;
            state.note(moment);
            state.note(id.0);
            (future, waker)
        };
        let outcome = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state.borrow_mut();
        state.group = TaskGroup::default();
        let ended = match outcome {
            Poll::Ready(()) => state.tasks.remove(&id),
            Poll::Pending => match state.tasks.get_mut(&id) {
                Some(task) => {
                    task.future = Some(future);
                    return;
                }
                // It was aborted while it ran.
                None => None,
            },
        };
        drop(state);
        drop((future, ended));
    }

    /// Lets time pass until the next timer, and fires it. Returns whether there was one.
    fn fire_next(&self) -> bool {
        loop {
            let mut state = self.state.borrow_mut();
            let Some((key, timer)) = state.timers.pop_first() else { return false };
            state.now = state.now.max(key.0);
            if state.paused.contains(&timer.group) {
                state.held.insert(key, timer);
                continue;
            }
            drop(state);
            timer.signal.has_fired.store(true, Ordering::Relaxed);
            let waker = lock(&timer.signal.waker).take();
            if let Some(waker) = waker {
                waker.wake();
            }
            return true;
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Duration {
        self.state.borrow().now
    }

    /// The steps that tasks have taken so far.
    pub fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// A hash of everything that was noted, and of which task went on when: equal for two runs that did the same.
    pub fn trace(&self) -> u64 {
        self.state.borrow().trace
    }

    /// Makes a number part of the trace.
    pub fn note(&self, number: u64) {
        self.state.borrow_mut().note(number);
    }

    /// A new group without tasks.
    pub fn new_group(&self) -> TaskGroup {
        TaskGroup(self.state.borrow_mut().next_number())
    }

    /// Starts a task in the group of the running one.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) -> TaskId {
        let group = self.state.borrow().group;
        self.spawn_in(group, task)
    }

    /// Starts a task in a group.
    pub fn spawn_in(&self, group: TaskGroup, task: impl Future<Output = ()> + 'static) -> TaskId {
        let mut state = self.state.borrow_mut();
        let id = TaskId(state.next_number());
        let waker = Waker::from(Arc::new(TaskWaker { task: id, ready: Arc::clone(&self.ready) }));
        state.tasks.insert(id, Task { group, future: Some(Box::pin(task)), waker });
        match state.paused.contains(&group) {
            true => state.waiting.push((group, id)),
            false => drop(lock(&self.ready).insert(id)),
        }
        id
    }

    /// Drops a task.
    pub fn abort(&self, task: TaskId) {
        let aborted = self.state.borrow_mut().tasks.remove(&task);
        lock(&self.ready).remove(&task);
        drop(aborted);
    }

    /// Stops the clock of a group until it is resumed. Tasks that are started in it meanwhile begin then.
    pub fn pause(&self, group: TaskGroup) {
        self.state.borrow_mut().paused.insert(group);
    }

    /// Lets a group go on. Timers whose time has come in the meantime fire at once, in their order.
    pub fn resume(&self, group: TaskGroup) {
        let mut state = self.state.borrow_mut();
        state.paused.remove(&group);
        let held = std::mem::take(&mut state.held);
        let (fire, hold) = held.into_iter().partition(|(_, timer)| timer.group == group);
        state.held = hold;
        let waiting = std::mem::take(&mut state.waiting);
        let (begin, wait): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(of, _)| *of == group);
        state.waiting = wait;
        lock(&self.ready).extend(begin.into_iter().map(|(_, task)| task));
        let fire: BTreeMap<TimerKey, Timer> = fire;
        state.timers.extend(fire);
    }

    /// Drops all tasks of a group, and lets tasks that are started in it later run.
    pub fn end(&self, group: TaskGroup) {
        self.drop_tasks(|of| of == group);
        self.resume(group);
    }

    fn drop_tasks(&self, is_chosen: impl Fn(TaskGroup) -> bool) {
        let mut dropped = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let tasks = &state.tasks;
            let chosen = tasks.iter().filter(|(_, task)| is_chosen(task.group));
            let chosen: Vec<TaskId> = chosen.map(|(id, _)| *id).collect();
            for id in chosen {
                lock(&self.ready).remove(&id);
                dropped.extend(state.tasks.remove(&id));
            }
        }
        // What they hold may come back here when it is dropped.
        drop(dropped);
    }

    /// Waits until a moment of virtual time, in the group of the running task.
    pub fn sleep_until(&self, moment: Duration) -> Sleep {
        let mut state = self.state.borrow_mut();
        let key = (moment.max(state.now), state.next_number());
        let (group, signal) = (state.group, Arc::<Signal>::default());
        state.timers.insert(key, Timer { group, signal: Arc::clone(&signal) });
        Sleep { key, signal }
    }

    /// Waits for a time, in the group of the running task.
    pub fn sleep(&self, time: Duration) -> Sleep {
        let moment = self.now().saturating_add(time);
        self.sleep_until(moment)
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn note(&mut self, number: u64) {
        let mixed = (self.trace ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.trace = mixed ^ (mixed >> 29);
    }
}

/// Ends when its time has come.
pub struct Sleep {
    key: TimerKey,
    signal: Arc<Signal>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.signal.has_fired.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        *lock(&self.signal.waker) = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(scheduler) = Scheduler::current() else { return };
        let mut state = scheduler.state.borrow_mut();
        let timer = state.timers.remove(&self.key).or_else(|| state.held.remove(&self.key));
        drop(state);
        drop(timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn log() -> Rc<RefCell<Vec<(&'static str, u64)>>> {
        Rc::default()
    }

    #[test]
    fn time_passes_only_when_every_task_waits() {
        let scheduler = Scheduler::new(1);
        let log = log();
        let (inner, noted) = (scheduler.clone(), Rc::clone(&log));
        scheduler.run(async move {
            for (name, seconds) in [("late", 3), ("early", 1), ("between", 2)] {
                let (sleep, noted, clock) =
                    (inner.sleep(SECOND * seconds), Rc::clone(&noted), inner.clone());
                inner.spawn(async move {
                    sleep.await;
                    noted.borrow_mut().push((name, (clock.now() - BEGINNING).as_secs()));
                });
            }
            inner.sleep(SECOND * 10).await;
        });
        assert_eq!(*log.borrow(), [("early", 1), ("between", 2), ("late", 3)]);
        assert_eq!(scheduler.now(), BEGINNING + SECOND * 10);
    }

    #[test]
    fn the_same_seed_chooses_the_same_tasks_and_another_does_not() {
        let order = |seed| {
            let (scheduler, log) = (Scheduler::new(seed), log());
            let (inner, noted) = (scheduler.clone(), Rc::clone(&log));
            scheduler.run(async move {
                for number in 0..8 {
                    let noted = Rc::clone(&noted);
                    inner.spawn(async move { noted.borrow_mut().push(("task", number)) });
                }
                inner.sleep(SECOND).await;
            });
            let order = log.borrow().clone();
            (order, scheduler.trace())
        };
        assert_eq!(order(5), order(5));
        assert_ne!(order(5).0, order(6).0);
        assert_ne!(order(5).1, order(6).1);
    }

    #[test]
    fn a_paused_group_goes_on_later_and_an_ended_one_does_not() {
        let (scheduler, log) = (Scheduler::new(1), log());
        let (inner, noted) = (scheduler.clone(), Rc::clone(&log));
        scheduler.run(async move {
            let (paused, ended) = (inner.new_group(), inner.new_group());
            for (name, group) in [("paused", paused), ("ended", ended)] {
                let (clock, noted) = (inner.clone(), Rc::clone(&noted));
                inner.spawn_in(group, async move {
                    loop {
                        clock.sleep(SECOND).await;
                        noted.borrow_mut().push((name, (clock.now() - BEGINNING).as_secs()));
                    }
                });
            }
            inner.sleep(SECOND + SECOND / 2).await;
            inner.pause(paused);
            inner.end(ended);
            let noted = Rc::clone(&noted);
            let clock = inner.clone();
            inner.spawn_in(paused, async move {
                noted.borrow_mut().push(("begun", (clock.now() - BEGINNING).as_secs()));
            });
            inner.sleep(SECOND * 3).await;
            inner.resume(paused);
            inner.sleep(SECOND + SECOND / 2).await;
        });
        // Both a second in; then the late timer of the paused group when it is resumed, 4.5 seconds in.
        let mut seen = log.borrow().clone();
        seen.sort_unstable();
        let expected = [("begun", 4), ("ended", 1), ("paused", 1), ("paused", 4), ("paused", 5)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_timer_and_another_event_never_come_at_once() {
        let scheduler = Scheduler::new(3);
        let inner = scheduler.clone();
        scheduler.run(async move {
            let (mut first, mut second) = (inner.sleep(SECOND), inner.sleep(SECOND));
            let ready = std::future::poll_fn(|context| {
                let ready =
                    [Pin::new(&mut first).poll(context), Pin::new(&mut second).poll(context)];
                match ready.iter().filter(|ready| ready.is_ready()).count() {
                    0 => Poll::Pending,
                    count => Poll::Ready(count),
                }
            });
            assert_eq!(ready.await, 1);
        });
    }

    #[test]
    #[should_panic(expected = "cannot happen")]
    fn a_deadlock_is_noticed() {
        Scheduler::new(1).run(std::future::pending::<()>());
    }
}
