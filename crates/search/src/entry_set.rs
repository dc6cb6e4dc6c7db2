//! A set of entries as bits, in pages of 65,536 that exist only where something is in them.

const PAGE_BITS: u64 = 1 << 16;
const PAGE_WORDS: usize = PAGE_BITS as usize / 64;

type Page = Box<[u64; PAGE_WORDS]>;

/// A set of entries below a limit.
#[derive(Clone, Default)]
pub(crate) struct EntrySet {
    pages: Vec<Option<Page>>,
    limit: u64,
}

impl EntrySet {
    /// A set of entries below `limit`; others are ignored, since they cannot exist.
    pub(crate) fn new(limit: u64) -> Self {
        Self { pages: Vec::new(), limit }
    }

    pub(crate) fn insert(&mut self, entry: u64) {
        if entry >= self.limit {
            return;
        }
        let (page, bit) = ((entry / PAGE_BITS) as usize, entry % PAGE_BITS);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_WORDS]));
        page[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    pub(crate) fn remove(&mut self, entry: u64) {
        if let Some(Some(page)) = self.pages.get_mut((entry / PAGE_BITS) as usize) {
            let bit = entry % PAGE_BITS;
            page[(bit / 64) as usize] &= !(1 << (bit % 64));
        }
    }

    pub(crate) fn contains(&self, entry: u64) -> bool {
        let Some(Some(page)) = self.pages.get((entry / PAGE_BITS) as usize) else { return false };
        let bit = entry % PAGE_BITS;
        page[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next_from(0).is_none()
    }

    pub(crate) fn len(&self) -> u64 {
        let pages = self.pages.iter().flatten();
        pages.flat_map(|page| page.iter()).map(|word| u64::from(word.count_ones())).sum()
    }

    /// The first entry at or above `from`.
    pub(crate) fn next_from(&self, from: u64) -> Option<u64> {
        let mut bit = from % PAGE_BITS;
        for number in (from / PAGE_BITS) as usize..self.pages.len() {
            if let Some(page) = &self.pages[number]
                && let Some(found) = next_in_page(page, bit)
            {
                return Some(number as u64 * PAGE_BITS + found);
            }
            bit = 0;
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut next = self.next_from(0);
        std::iter::from_fn(move || {
            let entry = next?;
            next = self.next_from(entry + 1);
            Some(entry)
        })
    }
}

fn next_in_page(page: &[u64; PAGE_WORDS], bit: u64) -> Option<u64> {
    let mut word = (bit / 64) as usize;
    let mut bits = page[word] & (u64::MAX << (bit % 64));
    loop {
        if bits != 0 {
            return Some(word as u64 * 64 + u64::from(bits.trailing_zeros()));
        }
        word += 1;
        bits = *page.get(word)?;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(entries in prop::collection::vec(0u64..400_000, 0..300), removed in prop::collection::vec(0u64..400_000, 0..300), probe in 0u64..400_000) {
            let mut set = EntrySet::new(300_000);
            let mut model = BTreeSet::new();
            for entry in entries {
                set.insert(entry);
                if entry < 300_000 {
                    model.insert(entry);
                }
            }
            for entry in removed.iter().chain(model.clone().iter().step_by(3)) {
                set.remove(*entry);
                model.remove(entry);
            }
            prop_assert_eq!(set.len(), model.len() as u64);
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert_eq!(set.next_from(probe), model.range(probe..).next().copied());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
