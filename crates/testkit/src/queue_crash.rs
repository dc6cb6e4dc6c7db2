//! Power cuts under the commit queue: its threads write while one caller submits batch after batch.
//!
//! One caller's batches are executed in the order of their submission, so the database must be the
//! model after some number of them, and no fewer than were acknowledged. How the queue groups them
//! is up to its threads: a seed repeats the batches, not the exact moment of the cut.

use std::sync::mpsc;

use commands::{CommandError, CommitQueue, CommitQueueOptions, CommitThreads, ThreadLimits};
use platform::simulated::Survival;

use crate::{
    Bench, Fault, Naive,
    crash::{CUTS_PER_DATABASE, Survived},
    database::content_of,
    histories::{large_batch, random_batch},
};

const BATCHES: u64 = 60;
/// One in this many submissions is followed by a flush, while the threads of the queue write.
const FLUSH_EVERY: u64 = 6;
const OPERATIONS_MAX: u64 = 60;

/// The result that a caller received for its batch.
#[derive(Debug)]
enum Answer {
    Durable,
    Refused(CommandError),
    Lost,
}

pub(crate) fn survive(bench: &mut Bench, survived: &mut Survived) -> Result<(), Fault> {
    while survived.cuts < CUTS_PER_DATABASE {
        let states = submit_until_the_cut(bench, survived)?;
        bench.simulation.disk.restart().map_err(|error| Fault::wrong(error.to_string()))?;
        let environment = bench.open()?;
        let found = content_of(&environment.read())?;
        // The first is what was acknowledged.
        let Some(reached) = states.iter().position(|state| state.content() == found) else {
            let difference = found.difference(&states[0].content());
            return Err(Fault::wrong(format!("no state that was submitted: {difference}")));
        };
        survived.kept_in_flight += u64::from(reached > 0);
        bench.acknowledged = states.into_iter().nth(reached).expect("it was found there");
    }
    Ok(())
}

/// The states that the database may be in: the last acknowledged one, and those after it.
fn submit_until_the_cut(bench: &mut Bench, survived: &mut Survived) -> Result<Vec<Naive>, Fault> {
    let environment = bench.open()?;
    let options = CommitQueueOptions {
        transaction_batches_max: 1 + bench.random.below(4) as usize,
        ..CommitQueueOptions::default()
    };
    let platform = &bench.simulation.platform;
    let threads = CommitThreads::start(ThreadLimits { unhurried: 2, max: 2, scripts: 2 }, platform)
        .map_err(|error| Fault::wrong(error.to_string()))?;
    let queue = CommitQueue::open(environment.clone(), platform, options, &threads);
    let nth = 1 + bench.random.below(OPERATIONS_MAX);
    bench.simulation.disk.cut_power_at_operation(nth, Survival::Random);
    survived.cuts += 1;
    let (sender, receiver) = mpsc::channel();
    let mut naive = bench.acknowledged.clone();
    let mut states = vec![naive.clone()];
    let mut expected = Vec::new();
    for number in 1..=BATCHES {
        let is_large = bench.large_every > 0 && bench.random.below(bench.large_every) == 0;
        let batch = if is_large {
            large_batch(&mut bench.random)
        } else {
            random_batch(&mut bench.random, &naive)
        };
        let sender = sender.clone();
        // The receiver is read below, so sending cannot fail.
        let reply = move |result| sender.send((number, answer(&result))).unwrap_or_default();
        expected.push(naive.apply(&batch).is_ok());
        states.push(naive.clone());
        if queue.submit(batch, Box::new(reply)).is_err() {
            break;
        }
        if bench.random.below(FLUSH_EVERY) == 0
            && let Err(error) = environment.flush()
            && !bench.simulation.disk.is_power_lost()
        {
            return Err(Fault::from(error).during("a flush concurrent with the queue"));
        }
    }
    drop(sender);
    queue.close();
    let mut answers: Vec<(u64, Answer)> = receiver.into_iter().collect();
    answers.sort_by_key(|(number, _)| *number);
    let (mut acknowledged, mut is_lost) = (0, false);
    for (number, answer) in answers {
        let succeeds = expected[number as usize - 1];
        match answer {
            // A failed batch may have taken values of identities; these need not be durable.
            Answer::Refused(_) if !succeeds => {}
            // It may need what was lost before it.
            Answer::Refused(_) if is_lost => {}
            Answer::Refused(error) => {
                return Err(Fault::wrong(format!("batch {number} was refused: {error}")));
            }
            Answer::Durable if !succeeds => {
                return Err(Fault::wrong(format!("batch {number} should have been refused")));
            }
            Answer::Durable if is_lost => {
                return Err(Fault::wrong(format!(
                    "batch {number} is durable without those before it"
                )));
            }
            Answer::Durable => acknowledged = acknowledged.max(number as usize),
            Answer::Lost => is_lost = true,
        }
    }
    Ok(states.split_off(acknowledged))
}

fn answer<T>(result: &Result<T, CommandError>) -> Answer {
    match result {
        Ok(_) => Answer::Durable,
        Err(error @ (CommandError::Document(_) | CommandError::Patch(_))) => {
            Answer::Refused(error.clone())
        }
        Err(_) => Answer::Lost,
    }
}
