//! Many writers, one document per commit, made into groups by the application: what waits while a
//! group is being written becomes the next group.
//!
//! Two threads: one applies groups, the other makes them durable and wakes the writers, so that an
//! engine which can apply a transaction while the one before is being written may do so.

use std::{
    sync::{
        Arc,
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

/// No more entries in one group than there can be writers.
const GROUP_ENTRIES_MAX: usize = 1_024;

struct Waiting {
    number: u64,
    done: SyncSender<()>,
}

/// Runs `writers` threads until the time is over.
pub(crate) fn run(
    engine: &dyn Engine,
    values: &Values,
    writers: usize,
    round: Duration,
) -> Result<Round, EngineError> {
    let (submit, submitted) = mpsc::sync_channel(writers);
    let (hand_over, handed_over) = mpsc::sync_channel(0);
    let numbers = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let deadline = began + round;
    thread::scope(|scope| {
        let applying = scope.spawn(move || apply_groups(engine, values, &submitted, &hand_over));
        let finishing = scope.spawn(move || finish_groups(&handed_over));
        let writing: Vec<_> = (0..writers)
            .map(|_| {
                let (submit, numbers) = (submit.clone(), numbers.clone());
                scope.spawn(move || write_until(deadline, &submit, &numbers))
            })
            .collect();
        drop(submit);
        let mut latencies = Vec::new();
        for writer in writing {
            latencies.extend(writer.join().map_err(|_| "a writer panicked")?);
        }
        applying.join().map_err(|_| "the applying thread panicked")??;
        finishing.join().map_err(|_| "the finishing thread panicked")??;
        Ok(Round::new(latencies.len() as u64, began.elapsed(), latencies))
    })
}

/// One writer. It ends early when the threads behind it have failed; they report why.
fn write_until(deadline: Instant, submit: &SyncSender<Waiting>, numbers: &AtomicU64) -> Vec<u32> {
    let mut latencies = Vec::new();
    let (done, when_done) = mpsc::sync_channel(1);
    let mut before = Instant::now();
    while before < deadline {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if submit.send(Waiting { number, done: done.clone() }).is_err() {
            break;
        }
        // The sender kept here never disconnects, so a lost group shows as a time-out.
        if when_done.recv_timeout(Duration::from_secs(60)).is_err() {
            break;
        }
        let after = Instant::now();
        latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    latencies
}

type Group<'e> = (DurableStep<'e>, Vec<Waiting>);

fn apply_groups<'e>(
    engine: &'e dyn Engine,
    values: &Values,
    submitted: &Receiver<Waiting>,
    hand_over: &SyncSender<Group<'e>>,
) -> Result<(), EngineError> {
    while let Ok(first) = submitted.recv() {
        let mut group = vec![first];
        group.extend(submitted.try_iter().take(GROUP_ENTRIES_MAX - 1));
        let entries: Vec<Entry<'_>> =
            group.iter().map(|waiting| values.entry(waiting.number)).collect();
        let step = engine.apply(&entries)?;
        if hand_over.send((step, group)).is_err() {
            break;
        }
    }
    Ok(())
}

fn finish_groups(handed_over: &Receiver<Group<'_>>) -> Result<(), EngineError> {
    while let Ok((step, group)) = handed_over.recv() {
        step()?;
        for waiting in group {
            // A writer that is gone has given up waiting.
            let _gone = waiting.done.send(());
        }
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
