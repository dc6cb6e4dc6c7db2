//! Who wants to hear that values of compare exchange of a database have changed.

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
    /// The last change that was told of; `None` before the first.
    told: Option<u64>,
    notice: Notice,
}

/// Dropping it ends the watch.
pub struct ValueWatch {
    watches: ValueWatches,
    number: u64,
}

impl ValueWatches {
    fn lock(&self) -> MutexGuard<'_, Watches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for changes whenever the environment has published some.
    pub(crate) fn follow(&self, environment: &Arc<Environment>) {
        let (watches, published) = (self.clone(), Arc::downgrade(environment));
        environment.on_published(move || {
            if watches.lock().watched.is_empty() {
                return;
            }
            if let Some(environment) = published.upgrade() {
                watches.tell(&environment.read());
            }
        });
    }

    /// Begins a watch. The notice comes after a change is visible, and now and then without one. It must
    /// be quick.
    pub(crate) fn watch(
        &self,
        database: DatabaseId,
        notice: impl Fn() + Send + Sync + 'static,
    ) -> ValueWatch {
        let mut watches = self.lock();
        watches.last_number += 1;
        let number = watches.last_number;
        watches.watched.push(Watched { number, database, told: None, notice: Arc::new(notice) });
        ValueWatch { watches: self.clone(), number }
    }

    /// Tells of what has changed. A value that cannot be read is told of, too: whoever looks finds out.
    fn tell(&self, state: &impl Transaction) {
        let mut notices = Vec::new();
        for watched in &mut self.lock().watched {
            let last = value_log::last(state, watched.database).ok();
            if last.is_none() || watched.told != last {
                watched.told = last;
                notices.push(Arc::clone(&watched.notice));
            }
        }
        // Outside of the lock: whoever is told may end a watch.
        notices.iter().for_each(|notice| notice());
    }
}

impl Drop for ValueWatch {
    fn drop(&mut self) {
        self.watches.lock().watched.retain(|watched| watched.number != self.number);
    }
}
