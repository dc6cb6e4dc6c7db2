//! Finds the listeners of an event without asking each of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use wire::changes::Watch;

use super::{
    event::{Event, Family},
    listener::{BudgetShare, Listener},
};

/// Approximate size of a watch in addition to its names.
const WATCH_BYTES: usize = 128;
/// Approximate limit on the watches of one listener, in bytes.
const WATCHES_BYTES_MAX: usize = 1 << 20;
/// Bytes that the watches of one listener may take even if the shared budget has no room for them.
const ALWAYS_ALLOWED_BYTES: usize = 16 << 10;

/// Notifications that many listeners share are joined up to roughly this size.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The listener has reached its limit of watches, or all listeners together have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyWatches;

/// See the module documentation.
#[derive(Default)]
pub(super) struct WatchIndex {
    by_watch: HashMap<Watch, Vec<Arc<Listener>>>,
    /// Listeners that watch all documents and nothing else. They all receive the same notifications, which
    /// are joined into one piece. They are not in `by_watch`.
    of_all_documents: Vec<Arc<Listener>>,
    /// The number of prefix watches by length: for an id, one prefix of each length is looked up.
    prefix_lengths: BTreeMap<usize, usize>,
    /// The number of watches of each family, in the order of [`Family::ALL`].
    families: [usize; Family::ALL.len()],
}

/// The watches of one listener.
pub(super) struct Watches {
    watches: HashSet<Watch>,
    share: BudgetShare,
}

impl Watches {
    pub(super) fn of(listener: &Listener) -> Self {
        let share = BudgetShare::new(Arc::clone(&listener.options().watch_budget));
        Self { watches: HashSet::new(), share }
    }

    /// Whether the watches may take this many bytes more.
    fn has_room_for(&self, bytes: usize) -> bool {
        let total = self.share.bytes() + bytes;
        total <= ALWAYS_ALLOWED_BYTES
            || total <= WATCHES_BYTES_MAX && self.share.budget().has_room_for(bytes)
    }

    /// Whether a listener with these watches belongs to those that watch all documents and nothing else.
    fn are_all_documents(&self, listener: &Listener) -> bool {
        !listener.options().only_last
            && self.watches.len() == 1
            && self.watches.contains(&Watch::Documents)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Watch> {
        self.watches.iter()
    }
}

impl WatchIndex {
    /// Whether any listener watches events of the family.
    pub(super) fn wants(&self, family: Family) -> bool {
        let families = Family::ALL.into_iter().zip(self.families);
        families.into_iter().any(|(one, watches)| one == family && watches != 0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_watch.is_empty()
            && self.of_all_documents.is_empty()
            && self.prefix_lengths.is_empty()
            && self.families == [0; Family::ALL.len()]
    }

    /// Adds a watch to a listener, unless it has it already.
    pub(super) fn add(
        &mut self,
        listener: &Arc<Listener>,
        watches: &mut Watches,
        watch: Watch,
    ) -> Result<(), TooManyWatches> {
        if watches.watches.contains(&watch) {
            return Ok(());
        }
        let bytes = memory_bytes(&watch);
        if !watches.has_room_for(bytes) {
            return Err(TooManyWatches);
        }
        watches.share.grow(bytes);
        self.take_apart(listener, watches);
        watches.watches.insert(watch.clone());
        self.count(&watch, 1);
        if let Watch::Prefix(prefix) = &watch {
            *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
        }
        self.by_watch.entry(watch).or_default().push(Arc::clone(listener));
        self.put_together(listener, watches);
        Ok(())
    }

    /// Before the watches of a listener change: makes sure that it is found by each of them.
    fn take_apart(&mut self, listener: &Arc<Listener>, watches: &Watches) {
        if watches.are_all_documents(listener) {
            remove_from(&mut self.of_all_documents, listener);
            self.by_watch.entry(Watch::Documents).or_default().push(Arc::clone(listener));
        }
    }

    /// After they have changed: moves the listener to those that watch all documents, if it belongs there.
    fn put_together(&mut self, listener: &Arc<Listener>, watches: &Watches) {
        if watches.are_all_documents(listener) {
            self.remove_from_watch(listener, &Watch::Documents);
            self.of_all_documents.push(Arc::clone(listener));
        }
    }

    /// Removes a watch from a listener.
    pub(super) fn remove(
        &mut self,
        listener: &Arc<Listener>,
        watches: &mut Watches,
        watch: &Watch,
    ) {
        if watches.watches.contains(watch) {
            self.take_apart(listener, watches);
            watches.watches.remove(watch);
            watches.share.shrink(memory_bytes(watch));
            self.forget(listener, watch);
            self.put_together(listener, watches);
        }
    }

    /// Removes all watches of a listener.
    pub(super) fn remove_all(&mut self, listener: &Arc<Listener>, watches: &Watches) {
        self.take_apart(listener, watches);
        watches.watches.iter().for_each(|watch| self.forget(listener, watch));
    }

    fn forget(&mut self, listener: &Listener, watch: &Watch) {
        self.count(watch, -1);
        if let Watch::Prefix(prefix) = watch
            && let Some(watches) = self.prefix_lengths.get_mut(&prefix.len())
        {
            *watches -= 1;
            if *watches == 0 {
                self.prefix_lengths.remove(&prefix.len());
            }
        }
        self.remove_from_watch(listener, watch);
    }

    fn remove_from_watch(&mut self, listener: &Listener, watch: &Watch) {
        let Some(listeners) = self.by_watch.get_mut(watch) else { return };
        remove_from(listeners, listener);
        if listeners.is_empty() {
            self.by_watch.remove(watch);
        }
    }

    fn count(&mut self, watch: &Watch, change: isize) {
        for (family, watches) in Family::ALL.into_iter().zip(&mut self.families) {
            if family.concerns(watch) {
                *watches = watches.wrapping_add_signed(change);
            }
        }
    }

    /// Notifies each listener of the events it watches, of each once. Returns the number of notifications
    /// queued. `first` is the number of the first event.
    pub(super) fn notify(&self, first: u64, events: &[Event]) -> usize {
        let mut notified = 0;
        let mut of_all = String::new();
        for (number, event) in (first..).zip(events) {
            if !self.wants(event.family()) {
                continue;
            }
            notified += self.notify_one(number, event, &mut of_all);
            if PIECE_BYTES_MAX <= of_all.len() {
                notified += self.notify_of_all(number, std::mem::take(&mut of_all));
            }
        }
        notified + self.notify_of_all(first + events.len() as u64, of_all)
    }

    /// As [`WatchIndex::notify`]; the text for listeners of all documents is appended to `of_all`.
    fn notify_one(&self, number: u64, event: &Event, of_all: &mut String) -> usize {
        // Formatted for the first listener and shared by all.
        let mut text: Option<Arc<str>> = None;
        let mut notified = 0;
        if event.is_of_document() && !self.of_all_documents.is_empty() {
            let text = text.get_or_insert_with(|| event.text().into());
            if !of_all.is_empty() {
                of_all.push(',');
            }
            of_all.push_str(text);
        }
        let mut notify = |watch: &Watch| {
            for listener in self.by_watch.get(watch).into_iter().flatten() {
                listener.notify(number, text.get_or_insert_with(|| event.text().into()));
                notified += 1;
            }
        };
        event.watches().iter().for_each(&mut notify);
        if let Some(id) = event.prefixed() {
            for length in self.prefix_lengths.range(..=id.len()).map(|(length, _)| *length) {
                if let Some(beginning) = id.get(..length) {
                    notify(&Watch::Prefix(beginning.to_owned()));
                }
            }
        }
        if event.outdates_answers() {
            let listeners = self.by_watch.get(&Watch::AggressiveCaching);
            for listener in listeners.into_iter().flatten() {
                listener.notify_outdated();
                notified += 1;
            }
        }
        notified
    }

    fn notify_of_all(&self, number: u64, text: String) -> usize {
        if text.is_empty() {
            return 0;
        }
        let text = Arc::from(text);
        self.of_all_documents.iter().for_each(|listener| listener.notify(number, &text));
        self.of_all_documents.len()
    }
}

/// Approximate size of a watch, whose names are both in the index and with its listener.
fn memory_bytes(watch: &Watch) -> usize {
    WATCH_BYTES + 2 * watch.name_bytes()
}

fn remove_from(listeners: &mut Vec<Arc<Listener>>, listener: &Listener) {
    if let Some(place) = listeners.iter().position(|one| one.id() == listener.id()) {
        listeners.swap_remove(place);
    }
}
