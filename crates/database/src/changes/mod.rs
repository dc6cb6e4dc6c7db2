//! Those who watch a database, and how they are told what happens.
//!
//! Events come in from the threads on which they happen, which only put them into an inbox; a
//! dispatcher, which runs while there are listeners, looks up who watches what and puts the
//! notification, made once, into the queue of each. Nobody who watches is waited for.
//!
//! Invariants: a change of documents is told of only when it is durable; of one document changes are
//! told in their order; whoever is told that its watch has begun hears of everything that is durable
//! afterwards, or ends.

mod event;
mod listener;
mod watch_index;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use commands::ChangeListener;
use documents::Change;
use wire::changes::Watch;

pub(crate) use self::event::Family;
use self::watch_index::{WatchIndex, Watches};
pub use self::{
    event::Event,
    listener::{Listener, ListenerEnd, ListenerOptions, QueueBudget, Wake},
    watch_index::TooManyWatches,
};

/// Events that may wait for the dispatcher. It waits for nobody, so that more of them mean that the
/// machine has no time for it: everybody who watches ends then, since nobody knows what it missed.
const WAITING_EVENTS_MAX: usize = 100_000;
/// Events that the dispatcher deals with before it lets others change what is watched.
const TURN_EVENTS_MAX: usize = 256;

/// The listeners of one database.
#[derive(Default)]
pub struct ChangesHub {
    inbox: Mutex<Inbox>,
    state: Mutex<State>,
    /// What somebody watches, in the order of [`Family::ALL`].
    wanted: [AtomicBool; Family::ALL.len()],
}

#[derive(Default)]
struct Inbox {
    events: Vec<Event>,
    /// Events were thrown away.
    is_torn: bool,
    /// Wakes the dispatcher; nobody dispatches without one.
    wake: Option<Wake>,
}

#[derive(Default)]
struct State {
    last_listener: u64,
    last_event: u64,
    listeners: BTreeMap<u64, Entry>,
    index: WatchIndex,
    has_dispatcher: bool,
    is_closed: bool,
    /// How often somebody began to watch data that nobody watched.
    beginnings: u64,
    /// Whether all changes that are executed since are noted.
    is_settled: bool,
}

struct Entry {
    listener: Arc<Listener>,
    watches: Watches,
}

/// What has to happen before a watch has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WatchBegins {
    /// Nothing.
    Now,
    /// Batches that are being executed do not note their changes: they must have ended. The hub is to
    /// be told of that then.
    WhenSettled(u64),
}

/// A listener, as an operator sees it.
pub struct ListenerView {
    /// The listener.
    pub listener: Arc<Listener>,
    /// What it watches.
    pub watches: Vec<Watch>,
}

/// The duty to dispatch the events of a hub. Whoever has it calls [`Dispatcher::dispatch`] whenever it
/// is woken, until that says [`Dispatched::Over`].
/// Giving it up before ends all listeners.
#[must_use]
pub struct Dispatcher {
    hub: Arc<ChangesHub>,
    is_over: bool,
}

/// What a dispatcher has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatched {
    /// It told so many listeners of something; one counts for each time.
    Told(usize),
    /// Nobody listens any more, and the duty is over.
    Over,
}

/// The database is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HubClosed;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChangesHub {
    /// One more listens; it watches nothing yet. If nobody dispatches, `start` gets the duty to do so,
    /// and gives what wakes whoever does.
    ///
    /// # Errors
    /// When the database is closed.
    pub fn listen(
        self: &Arc<Self>,
        options: ListenerOptions,
        wake: Wake,
        start: impl FnOnce(Dispatcher) -> Wake,
    ) -> Result<Arc<Listener>, HubClosed> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(HubClosed);
        }
        state.last_listener += 1;
        let id = state.last_listener;
        let listener = Arc::new(Listener::new(id, options, wake));
        let entry = Entry { listener: Arc::clone(&listener), watches: Watches::default() };
        state.listeners.insert(id, entry);
        if !std::mem::replace(&mut state.has_dispatcher, true) {
            let dispatcher = Dispatcher { hub: Arc::clone(self), is_over: false };
            lock(&self.inbox).wake = Some(start(dispatcher));
        }
        Ok(listener)
    }

    /// A listener has gone.
    pub fn leave(&self, listener: &Listener) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.listeners.remove(&listener.id()) {
            state.index.remove_all(&entry.listener, &entry.watches);
            self.note_wanted(&mut state);
        }
        let is_last = state.listeners.is_empty();
        drop(state);
        if is_last {
            self.wake_dispatcher();
        }
    }

    /// A listener begins to watch something.
    pub(crate) fn watch(
        &self,
        listener: &Listener,
        watch: Watch,
    ) -> Result<WatchBegins, TooManyWatches> {
        let mut state = lock(&self.state);
        let is_data = Family::Data.concerns(&watch);
        let State { listeners, index, .. } = &mut *state;
        let Some(Entry { listener, watches }) = listeners.get_mut(&listener.id()) else {
            return Ok(WatchBegins::Now);
        };
        index.add(listener, watches, watch)?;
        self.note_wanted(&mut state);
        Ok(match is_data && !state.is_settled {
            true => WatchBegins::WhenSettled(state.beginnings),
            false => WatchBegins::Now,
        })
    }

    /// A listener watches something no more.
    pub fn unwatch(&self, listener: &Listener, watch: &Watch) {
        let mut state = lock(&self.state);
        let State { listeners, index, .. } = &mut *state;
        if let Some(Entry { listener, watches }) = listeners.get_mut(&listener.id()) {
            index.remove(listener, watches, watch);
            self.note_wanted(&mut state);
        }
    }

    /// All batches that were being executed at that beginning have ended.
    pub(crate) fn settled(&self, beginning: u64) {
        let mut state = lock(&self.state);
        if state.beginnings == beginning && state.index.wants(Family::Data) {
            state.is_settled = true;
        }
    }

    fn note_wanted(&self, state: &mut State) {
        for (family, wanted) in Family::ALL.into_iter().zip(&self.wanted) {
            let wants = state.index.wants(family);
            let wanted_before = wanted.swap(wants, Ordering::SeqCst);
            if family == Family::Data && wanted_before != wants {
                state.is_settled = false;
                state.beginnings += u64::from(wants);
            }
        }
    }

    pub(crate) fn is_wanted(&self, family: Family) -> bool {
        let mut wanted = Family::ALL.into_iter().zip(&self.wanted);
        wanted.any(|(one, wanted)| one == family && wanted.load(Ordering::SeqCst))
    }

    /// Something happened. The event is made only when somebody may want to know.
    pub(crate) fn announce(&self, family: Family, event: impl FnOnce() -> Event) {
        if self.is_wanted(family) {
            self.put([event()]);
        }
    }

    fn put(&self, events: impl IntoIterator<Item = Event>) {
        let mut inbox = lock(&self.inbox);
        if inbox.wake.is_none() {
            return;
        }
        if !inbox.is_torn {
            inbox.events.extend(events);
        }
        if WAITING_EVENTS_MAX < inbox.events.len() {
            inbox.is_torn = true;
            inbox.events = Vec::new();
        }
        inbox.wake();
    }

    fn wake_dispatcher(&self) {
        lock(&self.inbox).wake();
    }

    fn end_dispatching(&self, state: &mut State) {
        state.has_dispatcher = false;
        *lock(&self.inbox) = Inbox::default();
    }

    /// Whether somebody listens.
    pub fn has_listeners(&self) -> bool {
        !lock(&self.state).listeners.is_empty()
    }

    /// Everybody who listens.
    pub fn listeners(&self) -> Vec<ListenerView> {
        let state = lock(&self.state);
        let views = state.listeners.values().map(|entry| ListenerView {
            listener: Arc::clone(&entry.listener),
            watches: entry.watches.iter().cloned().collect(),
        });
        views.collect()
    }

    /// Ends a listener, if there is one of that id.
    pub fn drop_listener(&self, id: u64) {
        if let Some(entry) = lock(&self.state).listeners.get(&id) {
            entry.listener.finish(ListenerEnd::Dropped);
        }
    }

    /// Ends everybody; nobody can listen any more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.end_all(ListenerEnd::DatabaseClosed);
    }
}

impl Inbox {
    fn wake(&self) {
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

impl State {
    fn end_all(&self, end: ListenerEnd) {
        self.listeners.values().for_each(|entry| entry.listener.finish(end));
    }
}

impl ChangeListener for ChangesHub {
    fn is_listening(&self) -> bool {
        self.is_wanted(Family::Data)
    }

    fn notify(&self, changes: Vec<Change>) {
        if self.is_wanted(Family::Data) {
            self.put(changes.into_iter().map(Event::Data));
        }
    }
}

impl Dispatcher {
    /// Tells everybody what happened since the last call.
    pub fn dispatch(&mut self) -> Dispatched {
        let hub = &self.hub;
        let (events, is_torn) = {
            let mut inbox = lock(&hub.inbox);
            (std::mem::take(&mut inbox.events), std::mem::take(&mut inbox.is_torn))
        };
        let mut told = 0;
        for turn in events.chunks(TURN_EVENTS_MAX) {
            let mut state = lock(&hub.state);
            told += state.index.tell(state.last_event + 1, turn);
            // One more than there are events: what was joined has a number of its own.
            state.last_event += turn.len() as u64 + 1;
        }
        let mut state = lock(&hub.state);
        if is_torn {
            state.end_all(ListenerEnd::TooSlow);
        }
        if state.listeners.is_empty() {
            hub.end_dispatching(&mut state);
            self.is_over = true;
            return Dispatched::Over;
        }
        Dispatched::Told(told)
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = lock(&self.hub.state);
            state.end_all(ListenerEnd::DatabaseClosed);
            self.hub.end_dispatching(&mut state);
        }
    }
}
