//! Assigns ids to the names of a document while it is written, and writes its table of names.
//!
//! Names stay known from one document to the next, because documents written through one builder
//! tend to share their shape: the name that followed the last name in an earlier document is
//! guessed before any hashing, and a document with exactly the names of its predecessor reuses the
//! bytes of its table. Invariant: ids of one document are dense and in the order of first
//! appearance.

use std::collections::BTreeMap;

use crate::format::{NAMES_NEED_ESCAPE, Width};
use crate::string_scan::find_byte_to_escape;

/// Known names in excess of these bounds are dropped when the next document begins.
const KNOWN_NAMES_MAX: usize = 8192;
const KNOWN_NAME_BYTES_MAX: usize = 256 * 1024;

/// Names that collide on more slots than this go to an ordered map, so that names chosen to collide
/// cost no more than a comparison-based lookup.
const PROBES_MAX: usize = 16;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct KnownName {
    start: u32,
    length: u32,
    hash: u32,
    /// The document, counted by `generation`, in which `id` was assigned.
    generation: u32,
    id: u32,
    /// The known name that last followed this one.
    successor: u32,
    needs_escape: bool,
}

/// A table of names as bytes, with its header fields.
#[derive(Default)]
pub(crate) struct WrittenNames {
    pub(crate) flags: u8,
    pub(crate) count: u32,
}

pub(crate) struct NameInterner {
    known: Vec<KnownName>,
    bytes: Vec<u8>,
    /// Indexes into `known`, `NONE` when free; a power of two long, at most half full.
    slots: Vec<u32>,
    crowded: BTreeMap<Box<[u8]>, u32>,
    generation: u32,
    /// Known names of the current document by id.
    current: Vec<u32>,
    last: u32,
    table_of: Vec<u32>,
    table: Vec<u8>,
    table_flags: u8,
}

impl NameInterner {
    pub(crate) fn new() -> NameInterner {
        NameInterner {
            known: Vec::new(),
            bytes: Vec::new(),
            slots: vec![NONE; 64],
            crowded: BTreeMap::new(),
            generation: 1,
            current: Vec::new(),
            last: NONE,
            table_of: Vec::new(),
            table: Vec::new(),
            table_flags: 0,
        }
    }

    /// Begins a document: no ids are assigned yet.
    pub(crate) fn reset(&mut self) {
        if self.known.len() > KNOWN_NAMES_MAX
            || self.bytes.len() > KNOWN_NAME_BYTES_MAX
            || self.generation == u32::MAX
        {
            *self = NameInterner::new();
            return;
        }
        self.generation += 1;
        self.current.clear();
        self.last = NONE;
    }

    /// The id of `name` in the current document.
    #[inline]
    pub(crate) fn intern(&mut self, name: &[u8]) -> u32 {
        if let Some(previous) = self.known.get(self.last as usize) {
            let guess = previous.successor;
            if guess != NONE && self.name_is(guess, name) {
                return self.assign_id(guess);
            }
        }
        self.intern_by_hash(name)
    }

    /// Length of the current document's table of names, in bytes.
    pub(crate) fn table_bytes(&mut self) -> usize {
        self.refresh_table();
        self.table.len()
    }

    /// Appends the table of names of the current document.
    pub(crate) fn write_table(&mut self, out: &mut Vec<u8>) -> WrittenNames {
        self.refresh_table();
        out.extend_from_slice(&self.table);
        WrittenNames { flags: self.table_flags, count: self.current.len() as u32 }
    }

    fn refresh_table(&mut self) {
        if self.table_of != self.current {
            self.build_table();
        }
    }

    #[inline]
    fn name_is(&self, known: u32, name: &[u8]) -> bool {
        self.known.get(known as usize).is_some_and(|entry| self.name_bytes(entry) == name)
    }

    #[inline]
    fn name_bytes(&self, entry: &KnownName) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + entry.length as usize]
    }

    #[inline]
    fn assign_id(&mut self, known: u32) -> u32 {
        self.last = known;
        let entry = &mut self.known[known as usize];
        if entry.generation != self.generation {
            entry.generation = self.generation;
            entry.id = self.current.len() as u32;
            self.current.push(known);
        }
        entry.id
    }

    #[inline(never)]
    fn intern_by_hash(&mut self, name: &[u8]) -> u32 {
        let hash = hash_name(name);
        let known = match self.find(name, hash) {
            Some(known) => known,
            None => self.learn(name, hash),
        };
        if let Some(previous) = self.known.get_mut(self.last as usize) {
            previous.successor = known;
        }
        self.assign_id(known)
    }

    fn find(&self, name: &[u8], hash: u32) -> Option<u32> {
        let mask = self.slots.len() - 1;
        for probe in 0..PROBES_MAX {
            let known = self.slots[(hash as usize + probe) & mask];
            if known == NONE {
                return None;
            }
            if self.known[known as usize].hash == hash && self.name_is(known, name) {
                return Some(known);
            }
        }
        self.crowded.get(name).copied()
    }

    fn learn(&mut self, name: &[u8], hash: u32) -> u32 {
        let known = self.known.len() as u32;
        self.known.push(KnownName {
            start: self.bytes.len() as u32,
            length: name.len() as u32,
            hash,
            generation: 0,
            id: 0,
            successor: NONE,
            needs_escape: find_byte_to_escape(name, 0).is_some(),
        });
        self.bytes.extend_from_slice(name);
        if self.known.len() * 2 > self.slots.len() {
            self.slots = vec![NONE; self.slots.len() * 4];
            self.crowded.clear();
            for index in 0..self.known.len() {
                self.occupy(index as u32);
            }
        } else {
            self.occupy(known);
        }
        known
    }

    fn occupy(&mut self, known: u32) {
        let mask = self.slots.len() - 1;
        let entry = self.known[known as usize];
        for probe in 0..PROBES_MAX {
            let slot = (entry.hash as usize + probe) & mask;
            if self.slots[slot] == NONE {
                self.slots[slot] = known;
                return;
            }
        }
        let name = Box::from(self.name_bytes(&entry));
        self.crowded.insert(name, known);
    }

    fn build_table(&mut self) {
        let count = self.current.len() as u32;
        let mut ids: Vec<u32> = (0..count).collect();
        ids.sort_unstable_by(|a, b| self.name_of(*a).cmp(self.name_of(*b)));

        let total: u32 = self.current.iter().map(|known| self.known[*known as usize].length).sum();
        let end_width = Width::for_largest(total);
        let id_width = Width::for_largest(count.saturating_sub(1));
        let mut table = std::mem::take(&mut self.table);
        table.clear();
        let mut end = 0;
        for known in &self.current {
            end += self.known[*known as usize].length;
            end_width.write(&mut table, end);
        }
        for id in ids {
            id_width.write(&mut table, id);
        }
        for known in &self.current {
            table.extend_from_slice(self.name_bytes(&self.known[*known as usize]));
        }
        let needs_escape =
            self.current.iter().any(|known| self.known[*known as usize].needs_escape);
        self.table_flags = end_width.bits()
            | id_width.bits() << 2
            | if needs_escape { NAMES_NEED_ESCAPE } else { 0 };
        self.table = table;
        self.table_of.clone_from(&self.current);
    }

    fn name_of(&self, id: u32) -> &[u8] {
        self.name_bytes(&self.known[self.current[id as usize] as usize])
    }
}

/// Folds a name into 32 bits, eight bytes at a time.
fn hash_name(name: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = name.len() as u64;
    let mut chunks = name.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("the chunk has eight bytes"));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }
    for &byte in chunks.remainder() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(MULTIPLIER).rotate_left(13);
    }
    hash = hash.wrapping_mul(MULTIPLIER);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_in_order_of_first_appearance_in_each_document() {
        let mut names = NameInterner::new();
        let first: Vec<u32> =
            [b"b", b"a", b"b", b"c"].iter().map(|name| names.intern(*name)).collect();
        assert_eq!(first, [0, 1, 0, 2]);
        names.reset();
        let second: Vec<u32> =
            [b"c", b"b", b"a", b"d"].iter().map(|name| names.intern(*name)).collect();
        assert_eq!(second, [0, 1, 2, 3]);
    }

    #[test]
    fn many_names_keep_their_ids_through_growth() {
        let mut names = NameInterner::new();
        for round in 0..2 {
            for index in 0..20_000u32 {
                let id = names.intern(format!("name{index}").as_bytes());
                assert_eq!(id, index, "round {round}");
            }
        }
        names.reset();
        assert_eq!(names.known.len(), 0, "too many names are forgotten");
    }

    #[test]
    fn names_that_collide_in_the_slots_are_found_in_the_ordered_map() {
        let mut names = NameInterner::new();
        // These hashes reach only the first slots, so most of the names collide.
        for index in 0..30u32 {
            let name = index.to_le_bytes();
            assert_eq!(names.find(&name, 7), None);
            assert_eq!(names.learn(&name, 7), index);
        }
        assert!(!names.crowded.is_empty());
        for index in 0..30u32 {
            assert_eq!(names.find(&index.to_le_bytes(), 7), Some(index));
        }
    }
}
