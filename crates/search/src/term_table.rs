//! The terms of a batch: each key once, with a small number.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    ids::FieldId,
    term::{self, KEY_PREFIX_BYTES, TermKind},
};

/// The number of a term in its batch.
pub(crate) type TermNumber = u32;

#[derive(Clone, Copy)]
struct Slot {
    start: u32,
    bytes: u16,
    has_words: bool,
}

/// Keys of terms in one buffer, found by hash.
#[derive(Default)]
pub(crate) struct TermTable {
    keys: Vec<u8>,
    slots: Vec<Slot>,
    /// With their hashes, so that growing the table reads no keys.
    table: HashTable<(u32, TermNumber)>,
    /// Terms without bytes by their keys: every entry has some of these, and there are few.
    bare: Vec<([u8; KEY_PREFIX_BYTES], TermNumber)>,
}

/// Approximate bytes of a term besides its key: its slot, and its share of a partially filled
/// table.
const TERM_BYTES: usize = size_of::<Slot>() + 2 * size_of::<(u32, TermNumber)>();
/// More terms without bytes than that are found by hash.
const BARE_MAX: usize = 24;

impl TermTable {
    /// The number of a term; a new one for a new term.
    pub(crate) fn number(
        &mut self,
        field: FieldId,
        kind: TermKind,
        bytes: &[u8],
        has_words: bool,
    ) -> TermNumber {
        if !bytes.is_empty() {
            return self.number_by_hash(field, kind, bytes, has_words);
        }
        let prefix = term::key_prefix(field, kind);
        if let Some((_, number)) = self.bare.iter().find(|(bare, _)| *bare == prefix) {
            return *number;
        }
        let number = self.number_by_hash(field, kind, bytes, has_words);
        if self.bare.len() < BARE_MAX {
            self.bare.push((prefix, number));
        }
        number
    }

    fn number_by_hash(
        &mut self,
        field: FieldId,
        kind: TermKind,
        bytes: &[u8],
        has_words: bool,
    ) -> TermNumber {
        let prefix = term::key_prefix(field, kind);
        // Lookups never concatenate the parts of a key.
        let seed = prefix.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let hash = xxh3_64_with_seed(bytes, seed) as u32;
        let (keys, slots) = (&self.keys, &self.slots);
        let found = self.table.find(spread(hash), |(own, number)| {
            *own == hash
                && key_of(keys, slots, *number).split_first_chunk() == Some((&prefix, bytes))
        });
        if let Some((_, number)) = found {
            return *number;
        }
        let number = self.slots.len() as TermNumber;
        let has_words = has_words && kind == TermKind::Text;
        let (start, length) = (self.keys.len() as u32, (KEY_PREFIX_BYTES + bytes.len()) as u16);
        self.slots.push(Slot { start, bytes: length, has_words });
        self.keys.extend_from_slice(&prefix);
        self.keys.extend_from_slice(bytes);
        self.table.insert_unique(spread(hash), (hash, number), |(hash, _)| spread(*hash));
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn key(&self, number: TermNumber) -> &[u8] {
        key_of(&self.keys, &self.slots, number)
    }

    pub(crate) fn has_words(&self, number: TermNumber) -> bool {
        self.slots[number as usize].has_words
    }

    /// All terms by ascending key.
    pub(crate) fn sorted(&self) -> Vec<TermNumber> {
        let mut order: Vec<(u32, u128, TermNumber)> = (0..self.slots.len() as TermNumber)
            .map(|number| {
                let (prefix, head) = self.sort_head(number);
                (prefix, head, number)
            })
            .collect();
        order.sort_unstable_by(|left, right| {
            (left.0, left.1)
                .cmp(&(right.0, right.1))
                .then_with(|| self.key(left.2).cmp(self.key(right.2)))
        });
        order.into_iter().map(|(_, _, number)| number).collect()
    }

    /// Field and kind, and the first bytes of the term: most comparisons end here. Terms of a field
    /// often share a prefix, such as ids of documents.
    fn sort_head(&self, number: TermNumber) -> (u32, u128) {
        let (prefix, bytes) = self.key(number).split_at(KEY_PREFIX_BYTES);
        let prefix = prefix.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let mut head = [0; size_of::<u128>()];
        let length = bytes.len().min(head.len());
        head[..length].copy_from_slice(&bytes[..length]);
        (prefix, u128::from_be_bytes(head))
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.len() + self.slots.len() * TERM_BYTES
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.slots.clear();
        self.table.clear();
        self.bare.clear();
    }
}

/// The table uses the low bits of a hash for the bucket and the high ones for the tag.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn key_of<'k>(keys: &'k [u8], slots: &[Slot], number: TermNumber) -> &'k [u8] {
    let slot = slots[number as usize];
    &keys[slot.start as usize..][..usize::from(slot.bytes)]
}

const _: () =
    assert!(crate::term::TERM_BYTES_MAX + 32 + KEY_PREFIX_BYTES <= storage::KEY_BYTES_MAX);
