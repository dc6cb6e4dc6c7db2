//! One page of a tree with variable keys.
//!
//! ```text
//! 64 prefix bytes u16 · 66 dead bytes u16 · 68 leftmost child u64 (branches) · 76 prefix …
//! slots, from 76 + prefix:   head u32 · offset u16          sorted by key, 6 bytes each
//! free space
//! entries, downwards from the end of the page:
//!   leaf     suffix bytes u16 · value bytes u16 · suffix · value
//!            value bytes 0xFFFF: the value is in a run; followed by its page u64 and length u32
//!   branch   suffix bytes u16 · child u64 · suffix
//! ```
//!
//! The keys of a page share its prefix, which is stored once; a suffix is what follows it. `head` is
//! the first four bytes of the suffix as a big-endian number (zero padded), so most comparisons of a
//! binary search stay in the slot array. In a branch, child 0 is the leftmost child and child i + 1
//! belongs to entry i: it holds the keys at or above the entry's key.

use crate::{
    error::StorageError,
    format::{
        PAGE_BYTES, PAGE_COUNT, PAGE_FLAGS, PAGE_LOWER, PAGE_UPPER, PageKind, PageNumber,
        page_count, page_flags, page_kind, page_lower, page_upper, read_u16, read_u32, read_u64,
        to_u16, write_u16, write_u32, write_u64,
    },
    page_mut::PageMut,
};

/// Longer values, in bytes, are stored in separate runs.
pub(super) const VALUE_INLINE_MAX: usize = 2000;

const PREFIX_BYTES: usize = 64;
const DEAD_BYTES: usize = 66;
const LEFTMOST: usize = 68;
const PREFIX: usize = 76;
const SLOT_BYTES: usize = 6;
type Slot = [u8; SLOT_BYTES];
const LEAF_ENTRY_HEADER: usize = 4;
const BRANCH_ENTRY_HEADER: usize = 10;
const RUN_MARK: u16 = u16::MAX;
const RUN_POINTER_BYTES: usize = 12;
/// The last entry was added at the end of the page: the next split leaves this page full.
const FLAG_ASCENDING: u8 = 1;

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Value(&'a [u8]),
    Run { page: PageNumber, bytes: u32 },
    Child(PageNumber),
}

impl Payload<'_> {
    fn bytes(&self) -> usize {
        match self {
            Payload::Value(value) => LEAF_ENTRY_HEADER + value.len(),
            Payload::Run { .. } => LEAF_ENTRY_HEADER + RUN_POINTER_BYTES,
            Payload::Child(_) => BRANCH_ENTRY_HEADER,
        }
    }
}

/// An entry whose key is in two pieces, as pages store it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) suffix: &'a [u8],
    pub(super) payload: Payload<'a>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(key: &'a [u8], payload: Payload<'a>) -> Self {
        Self { prefix: &[], suffix: key, payload }
    }

    fn key_bytes(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    pub(super) fn key(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    fn key_iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.prefix.iter().chain(self.suffix).copied()
    }

    /// The key after its first `skip` bytes, in two pieces.
    fn key_after(&self, skip: usize) -> (&'a [u8], &'a [u8]) {
        if skip <= self.prefix.len() {
            (&self.prefix[skip..], self.suffix)
        } else {
            (&[], &self.suffix[skip - self.prefix.len()..])
        }
    }
}

/// A page of a tree, for reading.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(&'a [u8]);

impl<'a> Node<'a> {
    pub(super) fn leaf(page: &'a [u8], number: PageNumber) -> Result<Self, StorageError> {
        if page_kind(page) != Some(PageKind::TreeLeaf) {
            return Err(StorageError::structure(number, "it is not a leaf of a tree"));
        }
        Ok(Self(page))
    }

    pub(super) fn branch(page: &'a [u8], number: PageNumber) -> Result<Self, StorageError> {
        if page_kind(page) != Some(PageKind::TreeBranch) {
            return Err(StorageError::structure(number, "it is not a branch of a tree"));
        }
        Ok(Self(page))
    }

    pub(super) fn count(&self) -> usize {
        page_count(self.0)
    }

    fn is_branch(&self) -> bool {
        page_kind(self.0) == Some(PageKind::TreeBranch)
    }

    pub(super) fn prefix(&self) -> &'a [u8] {
        &self.0[PREFIX..PREFIX + usize::from(read_u16(self.0, PREFIX_BYTES))]
    }

    fn slot(&self, index: usize) -> usize {
        slots_start(self.0) + index * SLOT_BYTES
    }

    fn entry_at(&self, index: usize) -> usize {
        usize::from(read_u16(self.0, self.slot(index) + 4))
    }

    pub(super) fn suffix(&self, index: usize) -> &'a [u8] {
        self.suffix_at(self.entry_at(index), self.entry_header())
    }

    fn entry_header(&self) -> usize {
        if self.is_branch() { BRANCH_ENTRY_HEADER } else { LEAF_ENTRY_HEADER }
    }

    fn suffix_at(&self, at: usize, header: usize) -> &'a [u8] {
        &self.0[at + header..at + header + usize::from(read_u16(self.0, at))]
    }

    pub(super) fn payload(&self, index: usize) -> Payload<'a> {
        let at = self.entry_at(index);
        if self.is_branch() {
            return Payload::Child(PageNumber(read_u64(self.0, at + 2)));
        }
        let value = at + LEAF_ENTRY_HEADER + usize::from(read_u16(self.0, at));
        match read_u16(self.0, at + 2) {
            RUN_MARK => Payload::Run {
                page: PageNumber(read_u64(self.0, value)),
                bytes: read_u32(self.0, value + 8),
            },
            bytes => Payload::Value(&self.0[value..value + usize::from(bytes)]),
        }
    }

    /// Child `index` of a branch, 0..=count.
    pub(super) fn child(&self, index: usize) -> PageNumber {
        match index.checked_sub(1) {
            None => PageNumber(read_u64(self.0, LEFTMOST)),
            Some(entry) => PageNumber(read_u64(self.0, self.entry_at(entry) + 2)),
        }
    }

    pub(super) fn entry(&self, index: usize) -> Entry<'a> {
        Entry { prefix: self.prefix(), suffix: self.suffix(index), payload: self.payload(index) }
    }

    /// `Ok` with the entry of that key, or `Err` with the place where it belongs.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let shared = key.len().min(prefix.len());
        match key[..shared].cmp(&prefix[..shared]) {
            std::cmp::Ordering::Less => return Err(0),
            std::cmp::Ordering::Greater => return Err(self.count()),
            std::cmp::Ordering::Equal if key.len() < prefix.len() => return Err(0),
            std::cmp::Ordering::Equal => {}
        }
        let suffix = &key[prefix.len()..];
        let head = head_of(suffix);
        let slots = self.slots();
        let first = slots.partition_point(|slot| slot_head(slot) < head);
        // Most heads are unique, and then only one entry is compared.
        let same = &slots[first..];
        if same.first().is_none_or(|slot| slot_head(slot) != head) {
            return Err(first);
        }
        let same = &same[..same.partition_point(|slot| slot_head(slot) == head)];
        let header = self.entry_header();
        same.binary_search_by(|slot| self.suffix_at(slot_entry(slot), header).cmp(suffix))
            .map(|place| first + place)
            .map_err(|place| first + place)
    }

    fn slots(&self) -> &'a [Slot] {
        let start = slots_start(self.0);
        self.0[start..start + self.count() * SLOT_BYTES].as_chunks().0
    }

    /// The child of a branch in which the key belongs.
    pub(super) fn child_for(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(entry) => entry + 1,
            Err(entry) => entry,
        }
    }

    /// Bytes in use, without what deleted entries left behind.
    pub(super) fn live_bytes(&self) -> usize {
        page_lower(self.0) + PAGE_BYTES
            - page_upper(self.0)
            - usize::from(read_u16(self.0, DEAD_BYTES))
    }

    /// Whether everything the page refers to is inside it. Reading relies on that: a page is
    /// checked by its checksum when it is first touched, and by this when an environment is
    /// checked.
    pub(super) fn is_well_formed(&self) -> bool {
        let is_inside = |end: usize| end <= self.0.len();
        is_inside(slots_start(self.0) + self.count() * SLOT_BYTES)
            && (0..self.count()).all(|index| self.end_of(index).is_some_and(is_inside))
    }

    /// Where an entry ends according to its lengths; `None` when that is outside of the page.
    fn end_of(&self, index: usize) -> Option<usize> {
        let at = self.entry_at(index);
        let lengths = self.0.get(at..at + LEAF_ENTRY_HEADER)?;
        let suffix = usize::from(read_u16(lengths, 0));
        if self.is_branch() {
            return Some(at + BRANCH_ENTRY_HEADER + suffix);
        }
        let value = match read_u16(lengths, 2) {
            RUN_MARK => RUN_POINTER_BYTES,
            bytes => usize::from(bytes),
        };
        Some(at + LEAF_ENTRY_HEADER + suffix + value)
    }

    pub(super) fn ascending(&self) -> bool {
        page_flags(self.0) & FLAG_ASCENDING != 0
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let node = *self;
        (0..node.count()).map(move |index| node.entry(index))
    }
}

fn slot_head(slot: &Slot) -> u32 {
    read_u32(slot, 0)
}

/// The offset of the slot's entry in the page.
fn slot_entry(slot: &Slot) -> usize {
    usize::from(read_u16(slot, 4))
}

fn slots_start(page: &[u8]) -> usize {
    PREFIX + usize::from(read_u16(page, PREFIX_BYTES))
}

fn head_of(suffix: &[u8]) -> u32 {
    let mut head = [0; 4];
    let bytes = suffix.len().min(4);
    head[..bytes].copy_from_slice(&suffix[..bytes]);
    u32::from_be_bytes(head)
}

/// Turns a page that has only a header into an empty node.
pub(super) fn init_node(page: &mut PageMut<'_>, leftmost: Option<PageNumber>) {
    write_node(page, leftmost, &[]);
}

pub(super) fn set_leftmost(page: &mut PageMut<'_>, child: PageNumber) {
    page.write_u64(LEFTMOST, child.0);
}

/// Bytes of a page that holds exactly these entries.
pub(super) fn node_bytes(entries: &[Entry<'_>]) -> usize {
    let prefix = common_prefix(entries);
    let content: usize = entries
        .iter()
        .map(|entry| SLOT_BYTES + entry.payload.bytes() + entry.key_bytes() - prefix)
        .sum();
    PREFIX + prefix + content
}

/// Upper bound on the bytes of one entry.
pub(super) fn entry_bytes(entry: &Entry<'_>) -> usize {
    SLOT_BYTES + entry.payload.bytes() + entry.key_bytes()
}

/// All keys share the prefix that the first and the last share, since they are sorted.
fn common_prefix(entries: &[Entry<'_>]) -> usize {
    match (entries.first(), entries.last()) {
        (Some(first), Some(last)) if entries.len() > 1 => {
            first.key_iter().zip(last.key_iter()).take_while(|(a, b)| a == b).count()
        }
        _ => 0,
    }
}

/// Rewrites the node with these entries, which fit (see [`node_bytes`]).
pub(super) fn write_node(
    page: &mut PageMut<'_>,
    leftmost: Option<PageNumber>,
    entries: &[Entry<'_>],
) {
    let page = page.whole();
    let prefix = common_prefix(entries);
    write_u16(page, PREFIX_BYTES, to_u16(prefix));
    write_u16(page, DEAD_BYTES, 0);
    write_u64(page, LEFTMOST, leftmost.map_or(0, PageNumber::get));
    if let Some(first) = entries.first() {
        let in_front = first.prefix.len().min(prefix);
        page[PREFIX..PREFIX + in_front].copy_from_slice(&first.prefix[..in_front]);
        page[PREFIX + in_front..PREFIX + prefix]
            .copy_from_slice(&first.suffix[..prefix - in_front]);
    }
    page[PAGE_FLAGS] = 0;
    write_u16(page, PAGE_COUNT, 0);
    write_u16(page, PAGE_LOWER, to_u16(PREFIX + prefix));
    write_u16(page, PAGE_UPPER, to_u16(PAGE_BYTES));
    for (index, entry) in entries.iter().enumerate() {
        let (front, back) = entry.key_after(prefix);
        write_entry(page, index, front, back, entry.payload);
    }
    // Zeroes compress better in the journal than leftover bytes.
    let free = page_lower(page)..page_upper(page);
    page[free].fill(0);
}

/// Adds an entry if there is room between slots and heap and the key shares the page's prefix.
pub(super) fn try_insert(
    page: &mut PageMut<'_>,
    index: usize,
    key: &[u8],
    payload: Payload<'_>,
) -> bool {
    let node = Node(page);
    let (prefix, count) = (node.prefix(), node.count());
    if !key.starts_with(prefix) {
        return false;
    }
    let skip = prefix.len();
    let need = SLOT_BYTES + payload.bytes() + key.len() - skip;
    if page_upper(page) - page_lower(page) < need {
        return false;
    }
    let flags = page_flags(page) & !FLAG_ASCENDING;
    let flags = if index == count { flags | FLAG_ASCENDING } else { flags };
    let (slots, heap) = (node.slot(index)..page_lower(page) + SLOT_BYTES, page_upper(page));
    let entry = heap - (need - SLOT_BYTES)..heap;
    let page = page.parts([PAGE_FLAGS..PAGE_UPPER + 2, slots, entry]);
    page[PAGE_FLAGS] = flags;
    write_entry(page, index, &key[skip..], &[], payload);
    true
}

/// Changes count, lower and upper of the page, the slots from `index` on, and the heap's new entry.
fn write_entry(page: &mut [u8], index: usize, front: &[u8], back: &[u8], payload: Payload<'_>) {
    let suffix = front.len() + back.len();
    let at = page_upper(page) - payload.bytes() - suffix;
    write_u16(page, at, to_u16(suffix));
    let key_at = match payload {
        Payload::Child(_) => at + BRANCH_ENTRY_HEADER,
        Payload::Value(_) | Payload::Run { .. } => at + LEAF_ENTRY_HEADER,
    };
    page[key_at..key_at + front.len()].copy_from_slice(front);
    page[key_at + front.len()..key_at + suffix].copy_from_slice(back);
    let head = head_of(&page[key_at..key_at + suffix]);
    match payload {
        Payload::Child(child) => write_u64(page, at + 2, child.0),
        Payload::Value(value) => {
            write_u16(page, at + 2, to_u16(value.len()));
            page[key_at + suffix..key_at + suffix + value.len()].copy_from_slice(value);
        }
        Payload::Run { page: run, bytes } => {
            write_u16(page, at + 2, RUN_MARK);
            write_u64(page, key_at + suffix, run.0);
            write_u32(page, key_at + suffix + 8, bytes);
        }
    }
    write_u16(page, PAGE_UPPER, to_u16(at));
    let (count, lower) = (page_count(page), page_lower(page));
    let slot = slots_start(page) + index * SLOT_BYTES;
    page.copy_within(slot..lower, slot + SLOT_BYTES);
    write_u32(page, slot, head);
    write_u16(page, slot + 4, to_u16(at));
    write_u16(page, PAGE_LOWER, to_u16(lower + SLOT_BYTES));
    write_u16(page, PAGE_COUNT, to_u16(count + 1));
}

/// Removes an entry; its bytes stay behind as dead ones until the page is rewritten.
pub(super) fn remove_entry(page: &mut PageMut<'_>, index: usize) {
    let node = Node(page);
    let entry = node.entry(index);
    let bytes = entry.payload.bytes() + entry.suffix.len();
    let (count, slot, lower) = (node.count(), node.slot(index), page_lower(page));
    let dead = usize::from(read_u16(page, DEAD_BYTES)) + bytes;
    page.write_u16(DEAD_BYTES, to_u16(dead));
    page.shift(slot + SLOT_BYTES..lower, slot);
    page.set_lower(lower - SLOT_BYTES);
    page.set_count(count - 1);
}

/// Overwrites the value of a leaf entry if the new one has the same length and both are inline.
pub(super) fn overwrite_value(page: &mut PageMut<'_>, index: usize, value: &[u8]) -> bool {
    let node = Node(page);
    let Payload::Value(old) = node.payload(index) else { return false };
    if old.len() != value.len() {
        return false;
    }
    let at = node.entry_at(index);
    let start = at + LEAF_ENTRY_HEADER + usize::from(read_u16(page, at));
    page.write(start, value);
    true
}

/// The shortest key above `left` and not above `right`.
pub(super) fn shortest_separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..right.len().min(shared + 1)].to_vec()
}
