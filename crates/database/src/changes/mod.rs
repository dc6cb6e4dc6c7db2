//! Notifies listeners of the changes of a database.
//!
//! Threads that cause events only put them into an inbox. A dispatcher, which runs while there are listeners,
//! looks up who watches what, formats each notification once, and puts it into the queue of each listener. No
//! listener is ever waited for.
//!
//! Invariants: listeners are notified of a change of documents only when it is durable; changes of one
//! document are reported in order; a watch covers nothing that was acknowledged before it was added; once it
//! has been confirmed, its listener is notified of everything that becomes durable afterwards, or is ended.

mod event;
mod listener;
mod watch_index;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
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
    listener::{Listener, ListenerBudget, ListenerEnd, ListenerOptions, Wake},
    watch_index::TooManyWatches,
};

/// Limit on undispatched events. The dispatcher never waits, so more events mean that the machine is
/// overloaded. All listeners are ended then, because it is unknown which events each has missed.
const WAITING_EVENTS_MAX: usize = 100_000;
/// Events dispatched before the lock is released for changes of watches.
const TURN_EVENTS_MAX: usize = 256;

/// The listeners of one database.
#[derive(Default)]
pub struct ChangesHub {
    inbox: Mutex<Inbox>,
    state: Mutex<State>,
    /// Whether any listener watches a family of events, in the order of [`Family::ALL`].
    wanted: [AtomicBool; Family::ALL.len()],
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    /// The number of events that have been taken out.
    taken: u64,
    /// Whether events were discarded.
    is_torn: bool,
    /// Wakes the dispatcher; `None` if there is none.
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
    /// How often data became watched after no listener had watched any.
    beginnings: u64,
    /// Whether all batches that run now record their changes.
    is_settled: bool,
}

struct Entry {
    listener: Arc<Listener>,
    watches: Watches,
}

/// When a watch takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WatchBegins {
    /// Immediately: there is nothing to wait for.
    Now,
    /// Running batches do not record their changes. When they have ended, [`ChangesHub::settled`] is to be
    /// called with this number.
    WhenSettled(u64),
}

/// A listener, as shown to an operator.
pub struct ListenerView {
    /// The listener, with its id and its options.
    pub listener: Arc<Listener>,
    /// The watches that it has at the moment.
    pub watches: Vec<Watch>,
}

/// The duty to dispatch the events of a hub. Its owner calls [`Dispatcher::dispatch`] each time it is woken,
/// until that returns [`Dispatched::Over`]. Dropping it earlier ends all listeners.
#[must_use]
pub struct Dispatcher {
    hub: Arc<ChangesHub>,
    is_over: bool,
}

/// The result of dispatching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatched {
    /// This many notifications were queued.
    Notified(usize),
    /// There are no listeners left, and dispatching is over.
    Over,
}

/// The database is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HubClosed;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChangesHub {
    /// Adds a listener, which watches nothing yet. If there is no dispatcher, `start` receives the duty to
    /// dispatch and returns a callback that wakes the dispatcher.
    ///
    /// # Errors
    /// The database is closed.
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
        let watches = Watches::of(&listener);
        let entry = Entry { listener: Arc::clone(&listener), watches };
        state.listeners.insert(id, entry);
        if !std::mem::replace(&mut state.has_dispatcher, true) {
            let dispatcher = Dispatcher { hub: Arc::clone(self), is_over: false };
            lock(&self.inbox).wake = Some(start(dispatcher));
        }
        Ok(listener)
    }

    /// Removes a listener with all of its watches.
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

    /// Adds a watch to a listener.
    pub(crate) fn watch(
        &self,
        listener: &Listener,
        watch: Watch,
    ) -> Result<WatchBegins, TooManyWatches> {
        let mut state = self.after_events_before();
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

    /// The state, once all events so far have been dispatched.
    fn after_events_before(&self) -> MutexGuard<'_, State> {
        let end = lock(&self.inbox).end();
        loop {
            let mut state = lock(&self.state);
            if end <= lock(&self.inbox).taken {
                return state;
            }
            self.dispatch_turn(&mut state);
        }
    }

    /// Dispatches the next events, and returns the number of notifications.
    fn dispatch_turn(&self, state: &mut State) -> usize {
        let turn = lock(&self.inbox).take_turn();
        let notified = state.index.notify(state.last_event + 1, &turn);
        // One number more than there are events, for the joined notification.
        state.last_event += turn.len() as u64 + 1;
        notified
    }

    /// Removes a watch from a listener.
    pub fn unwatch(&self, listener: &Listener, watch: &Watch) {
        let mut state = self.after_events_before();
        let State { listeners, index, .. } = &mut *state;
        if let Some(Entry { listener, watches }) = listeners.get_mut(&listener.id()) {
            index.remove(listener, watches, watch);
            self.note_wanted(&mut state);
        }
    }

    /// All batches that were running at that beginning have ended.
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

    /// Announces an event, which is constructed only if any listener may watch it.
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
            inbox.discard();
        }
        inbox.wake();
    }

    fn wake_dispatcher(&self) {
        lock(&self.inbox).wake();
    }

    fn end_dispatching(&self, state: &mut State) {
        state.has_dispatcher = false;
        let mut inbox = lock(&self.inbox);
        inbox.discard();
        inbox.is_torn = false;
        inbox.wake = None;
    }

    /// Whether there is any listener.
    pub fn has_listeners(&self) -> bool {
        !lock(&self.state).listeners.is_empty()
    }

    /// All connected listeners, by ascending id.
    pub fn listeners(&self) -> Vec<ListenerView> {
        let state = lock(&self.state);
        let views = state.listeners.values().map(|entry| ListenerView {
            listener: Arc::clone(&entry.listener),
            watches: entry.watches.iter().cloned().collect(),
        });
        views.collect()
    }

    /// Ends the listener with that id, if there is one.
    pub fn drop_listener(&self, id: u64) {
        if let Some(entry) = lock(&self.state).listeners.get(&id) {
            entry.listener.finish(ListenerEnd::Dropped);
        }
    }

    /// Ends all listeners and accepts no more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.end_all(ListenerEnd::DatabaseClosed);
    }
}

impl Inbox {
    /// The number of events that were put in so far.
    fn end(&self) -> u64 {
        self.taken + self.events.len() as u64
    }

    fn take_turn(&mut self) -> Vec<Event> {
        let count = self.events.len().min(TURN_EVENTS_MAX);
        self.taken += count as u64;
        self.events.drain(..count).collect()
    }

    fn discard(&mut self) {
        self.taken = self.end();
        self.events = VecDeque::new();
    }

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
    /// Notifies listeners of the events since the last call.
    pub fn dispatch(&mut self) -> Dispatched {
        let hub = &self.hub;
        let end = lock(&hub.inbox).end();
        let mut notified = 0;
        // Events that arrive meanwhile wake the dispatcher again.
        while lock(&hub.inbox).taken < end {
            // The lock is released after each turn.
            notified += hub.dispatch_turn(&mut lock(&hub.state));
        }
        let mut state = lock(&hub.state);
        if std::mem::take(&mut lock(&hub.inbox).is_torn) {
            state.end_all(ListenerEnd::TooSlow);
        }
        if state.listeners.is_empty() {
            hub.end_dispatching(&mut state);
            self.is_over = true;
            return Dispatched::Over;
        }
        Dispatched::Notified(notified)
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
