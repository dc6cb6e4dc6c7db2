//! Watchers that are notified when compare exchange values of a database change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::DatabaseId;
use storage::{Environment, Transaction};

use crate::value_log;

type Notice = Arc<dyn Fn() + Send + Sync>;

/// All watches of a server.
#[derive(Clone, Default)]
pub(crate) struct ValueWatches(Arc<Mutex<Watches>>);

#[derive(Default)]
struct Watches {
    last_number: u64,
    watched: Vec<Watched>,
}

struct Watched {
    number: u64,
    database: DatabaseId,
    /// The last change it was notified of; `None` before the first.
    last_notified: Option<u64>,
    notice: Notice,
}

/// A registered watch. Dropping it ends the watch.
pub struct ValueWatch {
    watches: ValueWatches,
    number: u64,
}

impl ValueWatches {
    fn lock(&self) -> MutexGuard<'_, Watches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks for changes whenever the environment publishes a transaction.
    pub(crate) fn follow(&self, environment: &Arc<Environment>) {
        let (watches, published) = (self.clone(), Arc::downgrade(environment));
        environment.on_published(move || {
            if watches.lock().watched.is_empty() {
                return;
            }
            if let Some(environment) = published.upgrade() {
                watches.notify(&environment.read());
            }
        });
    }

    /// Registers a watch. `notice` is called after a change is visible, and occasionally without one. It must
    /// be quick.
    pub(crate) fn watch(
        &self,
        database: DatabaseId,
        notice: impl Fn() + Send + Sync + 'static,
    ) -> ValueWatch {
        let mut watches = self.lock();
        watches.last_number += 1;
        let number = watches.last_number;
        watches.watched.push(Watched {
            number,
            database,
            last_notified: None,
            notice: Arc::new(notice),
        });
        ValueWatch { watches: self.clone(), number }
    }

    /// Notifies the watches of databases that changed. If values cannot be read, the watcher is notified as
    /// well and meets the error when it reads them.
    fn notify(&self, state: &impl Transaction) {
        let mut notices = Vec::new();
        for watched in &mut self.lock().watched {
            let last = value_log::last(state, watched.database).ok();
            if last.is_none() || watched.last_notified != last {
                watched.last_notified = last;
                notices.push(Arc::clone(&watched.notice));
            }
        }
        // Called outside of the lock, because a notice may end its watch.
        notices.iter().for_each(|notice| notice());
    }
}

impl Drop for ValueWatch {
    fn drop(&mut self) {
        self.watches.lock().watched.retain(|watched| watched.number != self.number);
    }
}
