//! The bytes of one document under construction, in arenas that are reused for document after
//! document.
//!
//! Neither parses nor checks its input: callers pair begin and end, name every value of an object,
//! and pass valid UTF-8 and valid numbers. Invariant: values are written in the order of their
//! entries and before the block that holds them (see `format`).

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::format::{
    HEADER_BYTES, IDS_ASCEND, MAGIC, PACK_BYTES_MIN, Token, VERSION, Width, write_varint, zigzag,
};
use crate::name_interner::NameInterner;
use crate::text::Text;

/// Arenas that grew beyond this are freed after the document.
pub(crate) const ARENA_BYTES_KEPT_MAX: usize = 1 << 20;

/// An object or an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Container {
    Object,
    Array,
}

#[derive(Clone, Copy)]
struct Entry {
    name: u32,
    position: u32,
    token: Token,
}

struct Frame {
    container: Container,
    first_entry: usize,
    /// The name of the container in the one around it.
    name: u32,
}

pub(crate) struct Writer {
    out: Vec<u8>,
    entries: Vec<Entry>,
    frames: Vec<Frame>,
    names: NameInterner,
    name: u32,
    root: usize,
    permutation: Vec<u32>,
    pack_table: CompressTable,
    packed: Vec<u8>,
    packed_length: usize,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer {
            out: vec![0; HEADER_BYTES],
            entries: Vec::new(),
            frames: Vec::new(),
            names: NameInterner::new(),
            name: 0,
            root: 0,
            permutation: Vec::new(),
            pack_table: CompressTable::small(),
            packed: Vec::new(),
            packed_length: 0,
        }
    }

    /// Begins a document, discarding whatever an earlier one left behind.
    pub(crate) fn reset(&mut self) {
        if self.out.capacity() > ARENA_BYTES_KEPT_MAX {
            self.out = Vec::new();
        }
        if self.entries.capacity() * size_of::<Entry>() > ARENA_BYTES_KEPT_MAX {
            self.entries = Vec::new();
        }
        if self.packed.capacity() > ARENA_BYTES_KEPT_MAX {
            self.packed = Vec::new();
            self.pack_table = CompressTable::small();
        }
        if self.permutation.capacity() * size_of::<u32>() > ARENA_BYTES_KEPT_MAX {
            self.permutation = Vec::new();
        }
        self.out.clear();
        self.out.resize(HEADER_BYTES, 0);
        self.entries.clear();
        self.frames.clear();
        self.names.reset();
        self.root = 0;
    }

    /// The innermost object or array that has begun and not ended.
    #[inline]
    pub(crate) fn innermost(&self) -> Option<Container> {
        self.frames.last().map(|frame| frame.container)
    }

    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Entries of the innermost object or array so far.
    #[inline]
    pub(crate) fn innermost_length(&self) -> usize {
        self.entries.len() - self.frames.last().map_or(0, |frame| frame.first_entry)
    }

    /// Names the value that comes next.
    #[inline]
    pub(crate) fn name(&mut self, name: &[u8]) {
        self.name = self.names.intern(name);
    }

    #[inline]
    pub(crate) fn begin(&mut self, container: Container) {
        let frame = Frame { container, first_entry: self.entries.len(), name: self.name };
        self.frames.push(frame);
    }

    /// Ends the innermost object or array by writing its block.
    pub(crate) fn end(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let token = match frame.container {
            Container::Object => {
                self.write_object(frame.first_entry);
                Token::Object
            }
            Container::Array => {
                self.write_array(frame.first_entry);
                Token::Array
            }
        };
        let position = self.root;
        self.entries.truncate(frame.first_entry);
        self.entries.push(Entry { name: frame.name, position: position as u32, token });
    }

    #[inline]
    pub(crate) fn null(&mut self) {
        self.enter(Token::Null);
    }

    #[inline]
    pub(crate) fn bool(&mut self, value: bool) {
        self.enter(if value { Token::True } else { Token::False });
    }

    #[inline]
    pub(crate) fn integer(&mut self, value: i64) {
        self.enter(Token::Integer);
        write_varint(&mut self.out, zigzag(value));
    }

    #[inline]
    pub(crate) fn number(&mut self, text: &[u8]) {
        self.enter(Token::Number);
        write_varint(&mut self.out, text.len() as u64);
        self.out.extend_from_slice(text);
    }

    /// `needs_escape`: some byte of `text` must be escaped in JSON.
    #[inline]
    pub(crate) fn string(&mut self, text: &[u8], needs_escape: bool) {
        if text.len() >= PACK_BYTES_MIN && self.pack(text) {
            self.enter(if needs_escape { Token::PackedToEscape } else { Token::Packed });
            write_varint(&mut self.out, text.len() as u64);
            write_varint(&mut self.out, self.packed_length as u64);
            self.out.extend_from_slice(&self.packed[..self.packed_length]);
            return;
        }
        self.enter(if needs_escape { Token::StringToEscape } else { Token::String });
        write_varint(&mut self.out, text.len() as u64);
        self.out.extend_from_slice(text);
    }

    /// Writes a string of another document as it is stored there.
    pub(crate) fn text(&mut self, text: &Text<'_>) {
        let (stored, packed) = text.stored();
        self.enter(match (packed, text.needs_escape()) {
            (false, false) => Token::String,
            (false, true) => Token::StringToEscape,
            (true, false) => Token::Packed,
            (true, true) => Token::PackedToEscape,
        });
        write_varint(&mut self.out, text.len() as u64);
        if packed {
            write_varint(&mut self.out, stored.len() as u64);
        }
        self.out.extend_from_slice(stored);
    }

    /// Length of the document if it were finished now, in bytes.
    pub(crate) fn bytes_with_names(&mut self) -> usize {
        self.out.len() + self.names.table_bytes()
    }

    /// Completes the document after its root has ended and returns its bytes.
    ///
    /// The caller ensures that the document stays below four gigabytes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let names_position = self.out.len() as u32;
        let names = self.names.write_table(&mut self.out);
        let total = self.out.len() as u32;
        let header = &mut self.out[..HEADER_BYTES];
        header[..4].copy_from_slice(&[MAGIC, VERSION, names.flags, 0]);
        header[4..8].copy_from_slice(&total.to_le_bytes());
        header[8..12].copy_from_slice(&(self.root as u32).to_le_bytes());
        header[12..16].copy_from_slice(&names_position.to_le_bytes());
        header[16..20].copy_from_slice(&names.count.to_le_bytes());
        if self.out.len() > ARENA_BYTES_KEPT_MAX {
            let mut taken = std::mem::take(&mut self.out);
            taken.shrink_to_fit();
            return taken;
        }
        self.out.as_slice().to_vec()
    }

    #[inline]
    fn enter(&mut self, token: Token) {
        let position = self.out.len() as u32;
        self.entries.push(Entry { name: self.name, position, token });
    }

    /// Packs `text` into `self.packed`; false when that does not save an eighth.
    fn pack(&mut self, text: &[u8]) -> bool {
        let length_max = get_maximum_output_size(text.len());
        if self.packed.len() < length_max {
            self.packed.resize(length_max, 0);
        }
        match compress_into_with_table(text, &mut self.packed, &mut self.pack_table) {
            Ok(length) if length + text.len() / 8 <= text.len() => {
                self.packed_length = length;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    fn write_array(&mut self, first_entry: usize) {
        let position = self.out.len();
        let entries = &self.entries[first_entry..];
        let distance_width = distance_width(entries, position);
        self.out.push(distance_width.bits() << 2);
        write_varint(&mut self.out, entries.len() as u64);
        self.out.reserve(entries.len() * (1 + distance_width.bytes()));
        for entry in entries {
            self.out.push(entry.token as u8);
            distance_width.write(&mut self.out, distance(entry, position));
        }
        self.root = position;
    }

    fn write_object(&mut self, first_entry: usize) {
        let ascending = is_ascending(&self.entries[first_entry..]);
        if !ascending {
            self.sort_and_keep_last(first_entry);
        }
        let position = self.out.len();
        let entries = &self.entries[first_entry..];
        let largest_id = entries.iter().map(|entry| entry.name).max().unwrap_or(0);
        let id_width = Width::for_largest(largest_id);
        let distance_width = distance_width(entries, position);
        let index_width = Width::for_largest((entries.len() as u32).saturating_sub(1));
        let ascend = if ascending { IDS_ASCEND } else { 0 };
        let head = id_width.bits() | distance_width.bits() << 2 | ascend;
        self.out.push(head | if ascending { 0 } else { index_width.bits() << 5 });
        write_varint(&mut self.out, entries.len() as u64);
        self.out.reserve(entries.len() * (1 + id_width.bytes() + distance_width.bytes()));
        for entry in entries {
            self.out.push(entry.token as u8);
            id_width.write(&mut self.out, entry.name);
            distance_width.write(&mut self.out, distance(entry, position));
        }
        if !ascending {
            for index in &self.permutation {
                index_width.write(&mut self.out, *index);
            }
        }
        self.root = position;
    }

    /// Fills `permutation`, after removing each entry whose name is repeated later.
    fn sort_and_keep_last(&mut self, first_entry: usize) {
        self.sort_by_name(first_entry);
        let entries = &self.entries[first_entry..];
        let name_at = |index: u32| entries[index as usize].name;
        let mut replaced: Vec<u32> = self
            .permutation
            .windows(2)
            .filter(|pair| name_at(pair[0]) == name_at(pair[1]))
            .map(|pair| pair[0])
            .collect();
        if replaced.is_empty() {
            return;
        }
        replaced.sort_unstable();
        let mut replaced = replaced.into_iter().peekable();
        let mut kept = first_entry;
        for index in first_entry..self.entries.len() {
            if replaced.next_if_eq(&((index - first_entry) as u32)).is_none() {
                self.entries[kept] = self.entries[index];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        self.sort_by_name(first_entry);
    }

    fn sort_by_name(&mut self, first_entry: usize) {
        let entries = &self.entries[first_entry..];
        self.permutation.clear();
        self.permutation.extend(0..entries.len() as u32);
        self.permutation.sort_unstable_by_key(|index| (entries[*index as usize].name, *index));
    }
}

fn is_ascending(entries: &[Entry]) -> bool {
    entries.windows(2).all(|pair| pair[0].name < pair[1].name)
}

#[inline]
fn distance(entry: &Entry, block: usize) -> u32 {
    if entry.token.has_bytes() { (block as u32).wrapping_sub(entry.position) } else { 0 }
}

/// Values are stored in the order of their entries, so the first one with bytes is the farthest
/// away.
fn distance_width(entries: &[Entry], block: usize) -> Width {
    let farthest = entries.iter().find(|entry| entry.token.has_bytes());
    Width::for_largest(farthest.map_or(0, |entry| distance(entry, block)))
}
