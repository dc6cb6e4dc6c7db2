//! Who watches what: from an event to its listeners without asking each of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use wire::changes::Watch;

use super::{
    event::{Event, Family},
    listener::Listener,
};

/// What a watch takes besides its names, about.
const WATCH_BYTES: usize = 128;
/// What the watches of one listener may take, about.
const WATCHES_BYTES_MAX: usize = 1 << 20;

/// Notifications that are the same for many are joined up to about so many bytes.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// A listener watches as much as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyWatches;

/// See the module.
#[derive(Default)]
pub(super) struct WatchIndex {
    by_watch: HashMap<Watch, Vec<Arc<Listener>>>,
    /// Those who watch every document and nothing else: what they are told is the same for all of them,
    /// and is told in one piece. They are not found by that watch.
    of_all_documents: Vec<Arc<Listener>>,
    /// How many watches of prefixes there are of each length: an id has as many beginnings to be
    /// looked up as there are lengths.
    prefix_lengths: BTreeMap<usize, usize>,
    /// How many watches there are of each family, in the order of [`Family::ALL`].
    families: [usize; Family::ALL.len()],
}

/// What one listener watches.
#[derive(Default)]
pub(super) struct Watches {
    watches: HashSet<Watch>,
    bytes: usize,
}

impl Watches {
    /// Whether a listener with these watches is told the same as others of the kind.
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
    /// Whether some event of the family has a listener.
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

    /// A listener begins to watch something, unless it does already.
    pub(super) fn add(
        &mut self,
        listener: &Arc<Listener>,
        watches: &mut Watches,
        watch: Watch,
    ) -> Result<(), TooManyWatches> {
        if watches.watches.contains(&watch) {
            return Ok(());
        }
        let bytes = watches.bytes + WATCH_BYTES + watch.name_bytes();
        if WATCHES_BYTES_MAX < bytes {
            return Err(TooManyWatches);
        }
        watches.bytes = bytes;
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

    /// Before the watches of a listener change: it is found by each of them.
    fn take_apart(&mut self, listener: &Arc<Listener>, watches: &Watches) {
        if watches.are_all_documents(listener) {
            remove_from(&mut self.of_all_documents, listener);
            self.by_watch.entry(Watch::Documents).or_default().push(Arc::clone(listener));
        }
    }

    /// After they have changed: it may be like others now.
    fn put_together(&mut self, listener: &Arc<Listener>, watches: &Watches) {
        if watches.are_all_documents(listener) {
            self.remove_from_watch(listener, &Watch::Documents);
            self.of_all_documents.push(Arc::clone(listener));
        }
    }

    /// A listener watches something no more.
    pub(super) fn remove(
        &mut self,
        listener: &Arc<Listener>,
        watches: &mut Watches,
        watch: &Watch,
    ) {
        if watches.watches.contains(watch) {
            self.take_apart(listener, watches);
            watches.watches.remove(watch);
            watches.bytes -= WATCH_BYTES + watch.name_bytes();
            self.forget(listener, watch);
            self.put_together(listener, watches);
        }
    }

    /// A listener watches nothing any more.
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

    /// Tells everybody who watches them of events, of each once; how many queues that took. The first
    /// has that number.
    pub(super) fn tell(&self, first: u64, events: &[Event]) -> usize {
        let mut told = 0;
        let mut of_all = String::new();
        for (number, event) in (first..).zip(events) {
            if !self.wants(event.family()) {
                continue;
            }
            told += self.tell_one(number, event, &mut of_all);
            if PIECE_BYTES_MAX <= of_all.len() {
                told += self.tell_of_all(number, std::mem::take(&mut of_all));
            }
        }
        told + self.tell_of_all(first + events.len() as u64, of_all)
    }

    /// As [`WatchIndex::tell`]; what those who watch all documents are told goes into `of_all`.
    fn tell_one(&self, number: u64, event: &Event, of_all: &mut String) -> usize {
        // Made for the first who is told, for all of them.
        let mut text: Option<Arc<str>> = None;
        let mut told = 0;
        if event.is_of_document() && !self.of_all_documents.is_empty() {
            let text = text.get_or_insert_with(|| event.text().into());
            if !of_all.is_empty() {
                of_all.push(',');
            }
            of_all.push_str(text);
        }
        let mut tell = |watch: &Watch| {
            for listener in self.by_watch.get(watch).into_iter().flatten() {
                listener.tell(number, text.get_or_insert_with(|| event.text().into()));
                told += 1;
            }
        };
        event.watches().iter().for_each(&mut tell);
        if let Some(id) = event.prefixed() {
            for length in self.prefix_lengths.range(..=id.len()).map(|(length, _)| *length) {
                if let Some(beginning) = id.get(..length) {
                    tell(&Watch::Prefix(beginning.to_owned()));
                }
            }
        }
        if event.outdates_answers() {
            let listeners = self.by_watch.get(&Watch::AggressiveCaching);
            for listener in listeners.into_iter().flatten() {
                listener.tell_outdated();
                told += 1;
            }
        }
        told
    }

    fn tell_of_all(&self, number: u64, text: String) -> usize {
        if text.is_empty() {
            return 0;
        }
        let text = Arc::from(text);
        self.of_all_documents.iter().for_each(|listener| listener.tell(number, &text));
        self.of_all_documents.len()
    }
}

fn remove_from(listeners: &mut Vec<Arc<Listener>>, listener: &Listener) {
    if let Some(place) = listeners.iter().position(|one| one.id() == listener.id()) {
        listeners.swap_remove(place);
    }
}
