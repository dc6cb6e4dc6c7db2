//! The threads that produce long responses: few, with many responses on each.
//!
//! The producer of a response is a future that stays on its thread, since it keeps cursors and
//! scripts between two pieces. While its client does not read, it waits like any future, and the
//! thread serves others. Invariant: however many clients do not read, as many threads of the
//! blocking pool as there is memory for produce responses, and those of one database are on half of
//! them. A thread lasts as long as it has responses.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinSet, LocalSet},
};

use crate::blocking::begin_blocking;

/// The producer of a response; it never leaves its thread.
pub(crate) type Making = Pin<Box<dyn Future<Output = ()>>>;
/// Starts a producer, on its thread.
pub(crate) type Begin = Box<dyn FnOnce() -> Making + Send>;

/// One thread, as seen by others.
struct Thread {
    number: u64,
    begins: UnboundedSender<(String, Begin)>,
    /// The databases of its responses.
    databases: Vec<String>,
    /// Whether it is producing a response at this moment, rather than waiting for a client.
    is_busy: Arc<AtomicBool>,
}

#[derive(Default)]
struct Threads {
    threads: Vec<Thread>,
    started: u64,
}

/// The threads of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AnswerThreads {
    threads: Arc<Mutex<Threads>>,
    threads_max: usize,
}

impl AnswerThreads {
    /// With at most `threads_max` threads.
    pub(crate) fn new(threads_max: usize) -> AnswerThreads {
        AnswerThreads { threads: Arc::default(), threads_max }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Produces a response of that database. Must be called on the runtime.
    pub(crate) fn make(&self, database: &str, begin: Begin) {
        let mut threads = self.lock();
        let index = threads.for_database(database, self.threads_max);
        let index = index.unwrap_or_else(|| self.start(&mut threads));
        let thread = &mut threads.threads[index];
        thread.databases.push(database.to_owned());
        // Until it has started this one.
        thread.is_busy.store(true, Ordering::Relaxed);
        // A thread on the list receives: it leaves the list, under the lock, before it ends.
        drop(thread.begins.send((database.to_owned(), begin)));
    }

    /// Starts a thread. Returns its index in the list.
    fn start(&self, threads: &mut Threads) -> usize {
        let (begins, received) = unbounded_channel();
        let is_busy = Arc::new(AtomicBool::new(false));
        let number = threads.started;
        threads.started += 1;
        let work = {
            let (all, is_busy) = (self.clone(), Arc::clone(&is_busy));
            move || {
                let local = LocalSet::new();
                Handle::current().block_on(local.run_until(all.run(number, received, is_busy)));
            }
        };
        drop(begin_blocking(work));
        threads.threads.push(Thread { number, begins, databases: Vec::new(), is_busy });
        threads.threads.len() - 1
    }

    /// Runs producers until none is left.
    async fn run(
        self,
        number: u64,
        mut begins: UnboundedReceiver<(String, Begin)>,
        is_busy: Arc<AtomicBool>,
    ) {
        let mut making = JoinSet::new();
        // A panic ends its response and was reported; its database is unknown then.
        let mut of_tasks = std::collections::HashMap::new();
        loop {
            let ended = tokio::select! {
                begun = begins.recv() => {
                    let Some((database, begin)) = begun else { return };
                    let task = making.spawn_local(noting(Arc::clone(&is_busy), begin));
                    of_tasks.insert(task.id(), database);
                    continue;
                }
                Some(ended) = making.join_next_with_id() => ended,
            };
            let id = ended.map_or_else(|panic| panic.id(), |(id, ())| id);
            let database = of_tasks.remove(&id).unwrap_or_default();
            if self.lock().ended(number, &database) {
                return;
            }
        }
    }
}

impl Threads {
    /// The thread for a further response; `None` when a new one is to be started. One that only
    /// waits for clients is as good as a new one.
    fn for_database(&self, database: &str, threads_max: usize) -> Option<usize> {
        let has = |thread: &Thread| thread.databases.iter().any(|other| other == database);
        let own = self.threads.iter().filter(|thread| has(thread)).count();
        let of_one_database = (threads_max / 2).max(1);
        let may_have_more = own < of_one_database;
        let candidates =
            self.threads.iter().enumerate().filter(|(_, thread)| may_have_more || has(thread));
        let best = candidates.min_by_key(|(_, thread)| {
            (thread.is_busy.load(Ordering::Relaxed), thread.databases.len())
        });
        let can_start = may_have_more && self.threads.len() < threads_max;
        match best {
            Some((_, thread)) if can_start && thread.is_busy.load(Ordering::Relaxed) => None,
            Some((index, _)) => Some(index),
            None if can_start => None,
            // All threads are taken and none serves this database: it shares the one with the
            // fewest.
            None => (0..self.threads.len()).min_by_key(|i| self.threads[*i].databases.len()),
        }
    }

    /// Removes a finished response of that database; returns whether the thread ends, too.
    fn ended(&mut self, number: u64, database: &str) -> bool {
        let Some(index) = self.threads.iter().position(|thread| thread.number == number) else {
            return true;
        };
        let databases = &mut self.threads[index].databases;
        if let Some(found) = databases.iter().position(|other| other == database) {
            databases.swap_remove(found);
        }
        let is_last = databases.is_empty();
        if is_last {
            self.threads.swap_remove(index);
        }
        is_last
    }
}

/// Runs a producer, and records when it is busy.
async fn noting(is_busy: Arc<AtomicBool>, begin: Begin) {
    let mut begin = Some(begin);
    let mut making: Option<Making> = None;
    poll_fn(|context| {
        is_busy.store(true, Ordering::Relaxed);
        if let Some(begin) = begin.take() {
            making = Some(begin());
        }
        let polled = making.as_mut().map(|making| making.as_mut().poll(context));
        is_busy.store(false, Ordering::Relaxed);
        polled.unwrap_or(std::task::Poll::Ready(()))
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    fn two_threads() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .enable_time()
            .build()
            .unwrap()
    }

    #[test]
    fn many_answers_that_wait_leave_threads_to_others() {
        let runtime = two_threads();
        runtime.block_on(async {
            let threads = AnswerThreads::new(2);
            let gate = Arc::new(Semaphore::new(0));
            for _ in 0..100 {
                let gate = Arc::clone(&gate);
                threads.make(
                    "slow",
                    Box::new(move || Box::pin(async move { drop(gate.acquire().await) })),
                );
            }
            // Other work of the pool continues, and so do responses of others.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let (sender, made) = oneshot::channel();
            let begin =
                Box::new(move || -> Making { Box::pin(async move { sender.send(()).unwrap() }) });
            threads.make("other", begin);
            tokio::time::timeout(Duration::from_secs(60), made).await.unwrap().unwrap();
            gate.add_permits(100);
        });
    }

    #[test]
    fn one_that_works_long_leaves_half_of_the_threads_to_other_databases() {
        let threads = AnswerThreads::new(4);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (go, gate) = std::sync::mpsc::channel::<()>();
            let gate = Arc::new(Mutex::new(gate));
            for _ in 0..8 {
                let gate = Arc::clone(&gate);
                let begin = Box::new(move || -> Making {
                    gate.lock().unwrap().recv().unwrap_err();
                    Box::pin(async {})
                });
                threads.make("hog", begin);
            }
            let (sender, made) = oneshot::channel();
            let begin =
                Box::new(move || -> Making { Box::pin(async move { sender.send(()).unwrap() }) });
            threads.make("other", begin);
            tokio::time::timeout(Duration::from_secs(60), made).await.unwrap().unwrap();
            drop(go);
        });
    }

    #[test]
    fn a_panic_ends_its_answer_only_and_threads_end_with_their_last_answer() {
        let runtime = two_threads();
        let threads = AnswerThreads::new(1);
        runtime.block_on(async {
            threads.make("db", Box::new(|| panic!("planned")));
            let (sender, made) = oneshot::channel();
            let begin =
                Box::new(move || -> Making { Box::pin(async move { sender.send(()).unwrap() }) });
            threads.make("db", begin);
            made.await.unwrap();
        });
        // Waits for the threads of the pool.
        drop(runtime);
        assert!(threads.lock().threads.is_empty());
    }
}
