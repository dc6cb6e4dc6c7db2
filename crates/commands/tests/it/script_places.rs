//! Batches with scripts, of which only some are executed at the same time.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use commands::{
    Batch, Command, CommitQueue, CommitQueueOptions, CommitThreads, PatchCommand, PatchRequest,
    ThreadLimits,
};
use model::DocumentId;
use platform::Platform;
use storage::Environment;
use testkit::database::open;

use crate::queue::{one, submit};

/// How long something that does not happen is waited for.
const MOMENT: Duration = Duration::from_millis(50);

/// Much longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

fn patch(of: &str, text: &str) -> Batch {
    let request = PatchRequest::new(text.to_owned(), None);
    let id = DocumentId::new(of).unwrap();
    Batch::one(Command::Patch(Box::new(PatchCommand::new(id, request))))
}

fn queue(seed: u64, threads: &Arc<CommitThreads>) -> (Arc<Environment>, CommitQueue) {
    let platform = Platform::simulated(seed).platform;
    let environment = open(&platform).unwrap();
    let options = CommitQueueOptions::default();
    let queue = CommitQueue::open(Arc::clone(&environment), &platform, options, threads);
    (environment, queue)
}

#[test]
fn what_is_executed_does_not_wait_for_the_scripts_of_others() {
    let limits = ThreadLimits { unhurried: 4, max: 4, scripts: 1 };
    let threads = CommitThreads::start(limits, &Platform::simulated(1).platform).unwrap();
    let (_slow_environment, slow) = queue(1, &threads);
    let (entered, enters) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    slow.read_values_by(Arc::new(move |_| {
        entered.send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        Ok(None)
    }));
    slow.submit_and_wait(one("a")).unwrap().unwrap();
    let slow_patch = submit(&slow, patch("a", "this.V = cmpxchg('k')"));
    enters.recv().unwrap();

    let (environment, other) = queue(2, &threads);
    other.submit_and_wait(one("b")).unwrap().unwrap();
    let blocking = environment.write().unwrap();
    let put = submit(&other, one("c"));
    let quick_patch = submit(&other, patch("b", "this.V = 1"));
    let behind = submit(&other, one("d"));
    drop(blocking);
    put.recv_timeout(LONG).unwrap().unwrap();
    for waiting in [&slow_patch, &quick_patch, &behind] {
        assert!(waiting.recv_timeout(MOMENT).is_err(), "the place is taken, and order is kept");
    }
    release.send(()).unwrap();
    for waiting in [slow_patch, quick_patch, behind] {
        waiting.recv().unwrap().unwrap();
    }
}
