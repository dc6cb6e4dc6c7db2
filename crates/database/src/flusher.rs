//! The background threads that copy committed changes from journals to data files.
//!
//! A few threads serve all environments of the server. An environment is flushed when it asks for it, and at
//! the latest a few seconds after it has changed. They also have encrypted environments forget what was decrypted
//! when these are not used. Invariant: an environment is never flushed by two threads
//! at once.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

use platform::Clock;
use storage::Environment;

/// How often the threads check for environments that need flushing.
const FLUSH_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long no transaction has to be open before what was decrypted is wiped, at least; at most twice as long.
const QUIET_INTERVAL: Duration = Duration::from_millis(100);
/// How long changes may stay in the journal only, if nothing else triggers a flush.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

struct Entry {
    environment: Weak<Environment>,
    busy: bool,
    /// Whether to flush as soon as a thread is free.
    hurried: bool,
    last_flush: Duration,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    closing: bool,
    /// When environments were last asked to forget what was decrypted.
    last_look: Duration,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    on_error: Box<dyn Fn(&storage::StorageError) + Send + Sync>,
}

/// The threads. Dropping it stops them.
pub struct Flusher {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Flusher {
    /// Starts `thread_count` threads. `on_error` is notified of failed flushes; if needed, the environment
    /// itself refuses further writes.
    pub fn start(
        thread_count: usize,
        clock: Arc<dyn Clock>,
        on_error: impl Fn(&storage::StorageError) + Send + Sync + 'static,
    ) -> std::io::Result<Flusher> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            clock,
            on_error: Box::new(on_error),
        });
        let mut threads = Vec::with_capacity(thread_count);
        for _ in 0..thread_count {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("flusher".into());
            threads.push(builder.spawn(move || shared.run())?);
        }
        Ok(Flusher { shared, threads: Mutex::new(threads) })
    }

    /// Flushes this environment from now on, until its other owners have dropped it.
    pub fn add(&self, environment: &Arc<Environment>) {
        let shared = Arc::clone(&self.shared);
        environment.on_flush_wanted(move || shared.changed.notify_one());
        let now = self.shared.clock.monotonic();
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.entries.retain(|entry| entry.environment.strong_count() > 0);
        state.entries.push(Entry {
            environment: Arc::downgrade(environment),
            busy: false,
            hurried: false,
            last_flush: now,
        });
    }

    /// Flushes all environments as soon as threads are free.
    pub fn flush_all_soon(&self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in &mut state.entries {
            entry.hurried = true;
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Stops the threads after their current flushes.
    pub fn close(&self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        self.shared.changed.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A flusher thread that panicked has nothing left to stop.
            drop(thread.join());
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn run(&self) {
        while let Some((environment, has_waited)) = self.next() {
            self.flush(&environment, has_waited);
            let now = self.clock.monotonic();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in &mut state.entries {
                if std::ptr::eq(entry.environment.as_ptr(), Arc::as_ptr(&environment)) {
                    entry.busy = false;
                    if has_waited {
                        entry.last_flush = now;
                    }
                }
            }
        }
    }

    fn flush(&self, environment: &Environment, has_waited: bool) {
        let done = if has_waited { environment.flush() } else { environment.keep_up() };
        // Closing flushes by itself, and reports its own errors.
        if let Err(error) = done
            && !environment.is_closed()
        {
            (self.on_error)(&error);
        }
    }

    /// Waits for an environment that is due and marks it busy. The flag is set if it must be flushed, because
    /// time has passed or a flush was requested, and not if it merely wants to be. `None` when the threads
    /// should stop.
    fn next(&self) -> Option<(Arc<Environment>, bool)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.closing {
                return None;
            }
            let now = self.clock.monotonic();
            if QUIET_INTERVAL <= now.saturating_sub(state.last_look) {
                state.last_look = now;
                let environments =
                    state.entries.iter().filter_map(|entry| entry.environment.upgrade());
                let environments: Vec<_> = environments.collect();
                drop(state);
                environments.iter().for_each(|environment| drop_plaintext(environment));
                drop(environments);
                state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let due = state.entries.iter_mut().filter(|entry| !entry.busy).find_map(|entry| {
                let environment = entry.environment.upgrade()?;
                let has_waited = now.saturating_sub(entry.last_flush) >= FLUSH_INTERVAL;
                let must_flush = has_waited || entry.hurried;
                if !environment.flush_wanted() && !must_flush {
                    return None;
                }
                entry.busy = true;
                entry.hurried = false;
                Some((environment, must_flush))
            });
            if due.is_some() {
                return due;
            }
            (state, _) = self
                .changed
                .wait_timeout(state, FLUSH_CHECK_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn drop_plaintext(environment: &Environment) {
    // Where there is still something left, the next look comes soon.
    let _is_quiet = environment.release_plaintext_when_quiet();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use platform::Platform;
    use storage::EnvironmentOptions;

    use super::*;

    #[test]
    fn only_what_others_have_not_closed_is_reported() {
        let platform = Platform::simulated(1).platform;
        let errors = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&errors);
        let shared = Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            clock: Arc::clone(&platform.clock),
            on_error: Box::new(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        };
        let opened =
            |directory| Environment::open(&platform, EnvironmentOptions::new(directory)).unwrap();
        let closed = opened("/closed");
        closed.close().unwrap();
        shared.flush(&closed, true);
        assert_eq!(errors.load(Ordering::SeqCst), 0);
    }
}
