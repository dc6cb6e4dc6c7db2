//! Many writers, one document per commit, made into groups by the application: what waits while a
//! group is being written becomes the next group.
//!
//! Two threads: one applies groups, the other makes them durable, so that an engine which can apply a
//! transaction while the one before is being written may do so. The writers of a group sleep on one
//! event and are woken by one system call: waking them one by one costs more than most engines do for
//! the whole group, and then all engines look alike.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    engine::{DurableStep, Engine, EngineError},
    entries::{Entry, Values},
    works::Round,
};

/// What becomes of a group: true when it is durable.
type Outcome = OnceLock<bool>;

/// The writers that are in one group, and the event on which they sleep.
#[derive(Default)]
struct Group {
    numbers: Vec<u64>,
    outcome: Arc<Outcome>,
}

/// However a group ends, its writers hear of it.
impl Drop for Group {
    fn drop(&mut self) {
        let _heard_already = self.outcome.set(false);
    }
}

struct Gathering {
    /// Accepts new writers.
    group: Group,
    /// Whether a group is on its way to the disk.
    is_writing: bool,
    /// No writer arrives any more, or none can be served any more.
    is_over: bool,
}

struct Gate {
    gathering: Mutex<Gathering>,
    applier_wakes: Condvar,
    /// While a group is on its way to the disk, the next one is applied when so many wait.
    early: usize,
}

impl Gate {
    fn new(writers: usize) -> Self {
        let gathering = Gathering { group: Group::default(), is_writing: false, is_over: false };
        Self {
            gathering: Mutex::new(gathering),
            applier_wakes: Condvar::new(),
            early: writers.div_ceil(2),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a document to the next group; returns the event to wait for.
    fn submit(&self, number: u64) -> Option<Arc<Outcome>> {
        let mut gathering = self.lock();
        if gathering.is_over {
            return None;
        }
        gathering.group.numbers.push(number);
        let outcome = gathering.group.outcome.clone();
        let is_awaited = gathering.group.numbers.len() == self.enough(&gathering);
        drop(gathering);
        if is_awaited {
            self.applier_wakes.notify_one();
        }
        Some(outcome)
    }

    fn enough(&self, gathering: &Gathering) -> usize {
        if gathering.is_writing { self.early } else { 1 }
    }

    fn next_group(&self) -> Option<Group> {
        let mut gathering = self.lock();
        loop {
            if gathering.is_over {
                return None;
            }
            if gathering.group.numbers.len() >= self.enough(&gathering) {
                return Some(std::mem::take(&mut gathering.group));
            }
            gathering = self.applier_wakes.wait(gathering).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set_writing(&self, is_writing: bool) {
        self.lock().is_writing = is_writing;
        self.applier_wakes.notify_one();
    }

    /// Notifies the waiting writers that the run has ended.
    fn end(&self) {
        let mut gathering = self.lock();
        gathering.is_over = true;
        let _notified = std::mem::take(&mut gathering.group);
        drop(gathering);
        self.applier_wakes.notify_one();
    }
}

/// Runs `writers` threads until the time is over.
pub(crate) fn run(
    engine: &dyn Engine,
    values: &Values,
    writers: usize,
    round: Duration,
) -> Result<Round, EngineError> {
    let gate = Gate::new(writers);
    let (hand_over, handed_over) = mpsc::sync_channel(0);
    let numbers = AtomicU64::new(0);
    let began = Instant::now();
    let deadline = began + round;
    thread::scope(|scope| {
        let applying = scope.spawn(|| {
            let applied = apply_groups(engine, values, &gate, hand_over);
            gate.end();
            applied
        });
        let finishing = scope.spawn(|| {
            let finished = finish_groups(&gate, handed_over);
            gate.end();
            finished
        });
        let writing: Vec<_> =
            (0..writers).map(|_| scope.spawn(|| write_until(deadline, &gate, &numbers))).collect();
        let mut latencies = Vec::new();
        for writer in writing {
            latencies.extend(writer.join().map_err(|_| "a writer panicked")?);
        }
        gate.end();
        applying.join().map_err(|_| "the applying thread panicked")??;
        finishing.join().map_err(|_| "the finishing thread panicked")??;
        Ok(Round::new(latencies.len() as u64, began.elapsed(), latencies))
    })
}

/// One writer. It ends early when the threads behind it have failed; they report why.
fn write_until(deadline: Instant, gate: &Gate, numbers: &AtomicU64) -> Vec<u32> {
    let mut latencies = Vec::new();
    let mut before = Instant::now();
    while before < deadline {
        let Some(outcome) = gate.submit(numbers.fetch_add(1, Ordering::Relaxed)) else { break };
        if !*outcome.wait() {
            break;
        }
        let after = Instant::now();
        latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    latencies
}

fn apply_groups<'e>(
    engine: &'e dyn Engine,
    values: &Values,
    gate: &Gate,
    hand_over: SyncSender<(DurableStep<'e>, Group)>,
) -> Result<(), EngineError> {
    while let Some(group) = gate.next_group() {
        let entries: Vec<Entry<'_>> =
            group.numbers.iter().map(|number| values.entry(*number)).collect();
        let step = engine.apply(&entries)?;
        if hand_over.send((step, group)).is_err() {
            break;
        }
    }
    Ok(())
}

fn finish_groups(
    gate: &Gate,
    handed_over: Receiver<(DurableStep<'_>, Group)>,
) -> Result<(), EngineError> {
    while let Ok((step, group)) = handed_over.recv() {
        gate.set_writing(true);
        step()?;
        gate.set_writing(false);
        let _first_and_only = group.outcome.set(true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::CONTESTANTS, entries::key};

    #[test]
    fn what_the_writers_counted_is_in_the_engine() {
        for contestant in CONTESTANTS {
            let directory = tempfile::tempdir().unwrap();
            let engine = (contestant.open)(directory.path()).unwrap();
            let values = Values::new(300);
            let round = run(&*engine, &values, 8, Duration::from_millis(50)).unwrap();
            let written = round.operations;
            assert!(written >= 8, "{}", contestant.name);
            let found = engine.find(&mut (0..written + 8).map(key)).unwrap();
            assert_eq!(found.entries, written, "{}", contestant.name);
        }
    }
}
