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

/// A listener watches as much as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyWatches;

/// See the module.
#[derive(Default)]
pub(super) struct WatchIndex {
    by_watch: HashMap<Watch, Vec<Arc<Listener>>>,
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
        watches.watches.insert(watch.clone());
        self.count(&watch, 1);
        if let Watch::Prefix(prefix) = &watch {
            *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
        }
        self.by_watch.entry(watch).or_default().push(Arc::clone(listener));
        Ok(())
    }

    /// A listener watches something no more.
    pub(super) fn remove(&mut self, listener: &Listener, watches: &mut Watches, watch: &Watch) {
        if watches.watches.remove(watch) {
            watches.bytes -= WATCH_BYTES + watch.name_bytes();
            self.forget(listener, watch);
        }
    }

    /// A listener watches nothing any more.
    pub(super) fn remove_all(&mut self, listener: &Listener, watches: &Watches) {
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
        let Some(listeners) = self.by_watch.get_mut(watch) else { return };
        if let Some(place) = listeners.iter().position(|one| one.id() == listener.id()) {
            listeners.swap_remove(place);
        }
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

    /// Tells everybody who watches it of an event, once.
    pub(super) fn tell(&self, number: u64, event: &Event) {
        if !self.wants(event.family()) {
            return;
        }
        // Made for the first who is told, for all of them.
        let mut text: Option<Arc<str>> = None;
        let mut tell = |watch: &Watch| {
            for listener in self.by_watch.get(watch).into_iter().flatten() {
                listener.tell(number, text.get_or_insert_with(|| event.text().into()));
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
            listeners.into_iter().flatten().for_each(|listener| listener.tell_outdated());
        }
    }
}
