//! Which pages have a version in memory, as a persistent (immutable, structure-sharing) map.
//!
//! Every snapshot owns one [`PageTable`]. A commit derives the next table from the last, copying only
//! the nodes on the paths to the changed pages, so a reader keeps its table by holding one `Arc` and
//! looks pages up without a lock. Versions are freed when the last table that names them is dropped.
//! A page that is not in the table is read from the data file.
//!
//! The map is a radix tree over the page number, [`FANOUT`] wide, grown in height as numbers grow.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{format::PageNumber, memory_budget::MemoryBudget};

const BITS: u32 = 5;
const FANOUT: usize = 1 << BITS;

/// Bytes of page versions in memory, shared by an environment and its versions, and counted against
/// the budget of all environments.
pub(crate) struct VersionBytes {
    own: AtomicU64,
    budget: Arc<MemoryBudget>,
}

impl VersionBytes {
    pub(crate) fn within(budget: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { own: AtomicU64::new(0), budget })
    }

    pub(crate) fn get(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.budget.take(bytes);
    }

    fn release(&self, bytes: u64) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.release(bytes);
    }
}

/// The content of one page (or run) as one transaction left it. Never changes.
pub(crate) struct PageVersion {
    transaction: u64,
    bytes: Box<[u8]>,
    held: Arc<VersionBytes>,
}

impl PageVersion {
    pub(crate) fn new(transaction: u64, bytes: Box<[u8]>, held: &Arc<VersionBytes>) -> Self {
        held.take(bytes.len() as u64);
        Self { transaction, bytes, held: held.clone() }
    }

    /// The transaction that wrote this version.
    pub(crate) fn transaction(&self) -> u64 {
        self.transaction
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PageVersion {
    fn drop(&mut self) {
        self.held.release(self.bytes.len() as u64);
    }
}

#[derive(Clone, Default)]
enum Slot {
    #[default]
    Empty,
    Node(Arc<Node>),
    Page(Arc<PageVersion>),
}

#[derive(Clone)]
struct Node {
    used: u32,
    slots: [Slot; FANOUT],
}

impl Node {
    fn empty() -> Arc<Node> {
        Arc::new(Node { used: 0, slots: std::array::from_fn(|_| Slot::Empty) })
    }
}

/// An immutable map from page number to version; cloning is one reference count.
#[derive(Clone)]
pub(crate) struct PageTable {
    root: Arc<Node>,
    /// Levels of nodes; the root of a table of height h covers FANOUT^h pages.
    height: u32,
}

impl PageTable {
    pub(crate) fn new() -> Self {
        Self { root: Node::empty(), height: 1 }
    }

    fn covers(&self, page: PageNumber) -> bool {
        let bits = self.height * BITS;
        bits >= 64 || page.0 >> bits == 0
    }

    pub(crate) fn get(&self, page: PageNumber) -> Option<&Arc<PageVersion>> {
        if !self.covers(page) {
            return None;
        }
        let mut node = &self.root;
        let mut level = self.height;
        loop {
            level -= 1;
            match &node.slots[slot_index(page, level)] {
                Slot::Empty => return None,
                Slot::Node(child) => node = child,
                Slot::Page(version) => return Some(version),
            }
        }
    }

    pub(crate) fn insert(&mut self, page: PageNumber, version: Arc<PageVersion>) {
        while !self.covers(page) {
            let mut root = Node { used: 1, slots: std::array::from_fn(|_| Slot::Empty) };
            root.slots[0] = Slot::Node(self.root.clone());
            self.root = Arc::new(root);
            self.height += 1;
        }
        insert_below(&mut self.root, self.height - 1, page, version);
    }

    /// Removes the page if it is there.
    pub(crate) fn remove(&mut self, page: PageNumber) {
        if self.get(page).is_some() {
            remove_below(&mut self.root, self.height - 1, page);
        }
    }

    /// Every page with a version, in page order.
    pub(crate) fn versions(&self) -> Vec<(PageNumber, Arc<PageVersion>)> {
        let mut found = Vec::new();
        collect(&self.root, self.height - 1, 0, &mut found);
        found
    }
}

fn slot_index(page: PageNumber, level: u32) -> usize {
    (page.0 >> (level * BITS)) as usize & (FANOUT - 1)
}

fn insert_below(node: &mut Arc<Node>, level: u32, page: PageNumber, version: Arc<PageVersion>) {
    let node = Arc::make_mut(node);
    let slot = &mut node.slots[slot_index(page, level)];
    if matches!(slot, Slot::Empty) {
        node.used += 1;
    }
    if level == 0 {
        *slot = Slot::Page(version);
        return;
    }
    if matches!(slot, Slot::Empty) {
        *slot = Slot::Node(Node::empty());
    }
    match slot {
        Slot::Node(child) => insert_below(child, level - 1, page, version),
        Slot::Empty | Slot::Page(_) => unreachable!("inner levels hold nodes only"),
    }
}

/// Removes a page that is present; returns whether the node became empty.
fn remove_below(node: &mut Arc<Node>, level: u32, page: PageNumber) -> bool {
    let node = Arc::make_mut(node);
    let slot = &mut node.slots[slot_index(page, level)];
    let emptied = match slot {
        Slot::Node(child) => remove_below(child, level - 1, page),
        Slot::Page(_) => true,
        Slot::Empty => false,
    };
    if emptied {
        *slot = Slot::Empty;
        node.used -= 1;
    }
    node.used == 0
}

fn collect(node: &Node, level: u32, base: u64, found: &mut Vec<(PageNumber, Arc<PageVersion>)>) {
    for (index, slot) in node.slots.iter().enumerate() {
        let at = base | (index as u64) << (level * BITS);
        match slot {
            Slot::Empty => {}
            Slot::Node(child) => collect(child, level - 1, at, found),
            Slot::Page(version) => found.push((PageNumber(at), version.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn version(held: &Arc<VersionBytes>, transaction: u64) -> Arc<PageVersion> {
        Arc::new(PageVersion::new(transaction, vec![0; 16].into_boxed_slice(), held))
    }

    proptest! {
        #[test]
        fn behaves_like_a_map_and_old_tables_stay_as_they_were(
            steps in prop::collection::vec((0u64..5_000_000, any::<bool>()), 1..200)
        ) {
            let held = VersionBytes::within(MemoryBudget::unlimited());
            let mut table = PageTable::new();
            let mut model = BTreeMap::new();
            let mut kept = Vec::new();
            for (transaction, (page, insert)) in steps.into_iter().enumerate() {
                let transaction = transaction as u64;
                kept.push((table.clone(), model.clone()));
                if insert {
                    table.insert(PageNumber(page), version(&held, transaction));
                    model.insert(page, transaction);
                } else {
                    let victim = model.range(page..).next().map_or(page, |(page, _)| *page);
                    table.remove(PageNumber(victim));
                    model.remove(&victim);
                }
            }
            kept.push((table, model));
            for (table, model) in &kept {
                let found: Vec<_> =
                    table.versions().iter().map(|(p, v)| (p.0, v.transaction())).collect();
                let expected: Vec<_> = model.iter().map(|(p, t)| (*p, *t)).collect();
                prop_assert_eq!(found, expected);
                for (page, transaction) in model {
                    let version = table.get(PageNumber(*page)).expect("present");
                    prop_assert_eq!(version.transaction(), *transaction);
                }
            }
            drop(kept);
            prop_assert_eq!(held.get(), 0);
        }
    }

    #[test]
    fn a_page_past_the_height_is_absent() {
        let held = VersionBytes::within(MemoryBudget::unlimited());
        let mut table = PageTable::new();
        assert!(table.get(PageNumber(u64::MAX)).is_none());
        table.insert(PageNumber(u64::MAX), version(&held, 1));
        table.insert(PageNumber(0), version(&held, 2));
        assert_eq!(table.get(PageNumber(u64::MAX)).expect("present").transaction(), 1);
        assert_eq!(table.get(PageNumber(0)).expect("present").transaction(), 2);
        assert!(table.get(PageNumber(1)).is_none());
    }
}
