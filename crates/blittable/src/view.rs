//! Documents read in place: copyable views over the stored bytes.
//!
//! Nothing is decoded before it is read. Invariant: every access is checked against the bounds of
//! the slice, so that bytes which are not a document yield [`Corrupt`] or nonsense, never a panic.

use std::borrow::Cow;
use std::fmt;

use crate::error::Corrupt;
use crate::format::{
    HEADER_BYTES, IDS_ASCEND, MAGIC, Token, VERSION, Width, read_length, read_varint, unzigzag,
};
use crate::name_table::NameTable;
use crate::print::write_json;
use crate::text::Text;

/// An owned document whose header has been checked.
#[derive(Clone, PartialEq, Eq)]
pub struct BlittableBuf(Vec<u8>);

impl BlittableBuf {
    /// Takes the bytes of a document, for example from storage, after checking their header.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<BlittableBuf, Corrupt> {
        Document::new(&bytes)?;
        Ok(BlittableBuf(bytes))
    }

    pub(crate) fn from_writer(bytes: Vec<u8>) -> BlittableBuf {
        debug_assert!(Document::new(&bytes).is_ok(), "the writer follows the format");
        BlittableBuf(bytes)
    }

    /// The document.
    #[inline]
    pub fn as_view(&self) -> Document<'_> {
        Document::new(&self.0).expect("the header was checked on construction")
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes to store.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for BlittableBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_view(), f)
    }
}

/// A view of a whole document; its root is always an object.
#[derive(Clone, Copy)]
pub struct Document<'a> {
    root: Object<'a>,
}

impl<'a> Document<'a> {
    /// Opens a document after checking its header and that `bytes` are neither truncated nor
    /// padded.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Document<'a>, Corrupt> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Corrupt::new("the document is shorter than its header", bytes.len()));
        };
        if header[0] != MAGIC {
            return Err(Corrupt::new("the first byte is not that of a document", 0));
        }
        if header[1] != VERSION {
            return Err(Corrupt::new("the version of the format is unknown", 1));
        }
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        if field(4) as usize != bytes.len() {
            return Err(Corrupt::new("the length differs from the one in the header", 4));
        }
        if !NameTable::open(bytes)?.is_complete() {
            return Err(Corrupt::new("the names do not end with the document", 12));
        }
        let root = Block::open(bytes, field(8) as usize, Token::Object)?;
        Ok(Document { root: Object { bytes, block: root } })
    }

    /// The root object of the document.
    #[inline]
    pub fn root(&self) -> Object<'a> {
        self.root
    }

    /// The object that returned `handle`; any other handle yields [`Corrupt`] or some other part of
    /// the document.
    #[inline]
    pub fn object_at(&self, handle: ObjectHandle) -> Result<Object<'a>, Corrupt> {
        let bytes = self.root.bytes;
        Ok(Object { bytes, block: Block::open(bytes, handle.0 as usize, Token::Object)? })
    }

    /// The stored bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.root.bytes
    }

    /// A copy that owns its bytes.
    pub fn to_buf(&self) -> BlittableBuf {
        BlittableBuf(self.root.bytes.to_vec())
    }

    /// Appends the document to `out` as compact JSON, properties in insertion order.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        write_json(&Value::Object(self.root), out)
    }

    /// The document as compact JSON, properties in insertion order.
    pub fn to_json(&self) -> Result<Vec<u8>, Corrupt> {
        let mut out = Vec::with_capacity(self.root.bytes.len() * 3 / 2);
        self.write_json(&mut out)?;
        Ok(out)
    }
}

impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Value::Object(self.root), f)
    }
}

/// A value in a document.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number that was written in JSON as a plain 64-bit integer.
    Integer(i64),
    /// The exact text of any other number.
    Number(&'a str),
    /// A string.
    String(Text<'a>),
    /// An array.
    Array(Array<'a>),
    /// An object.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    #[inline]
    fn open(bytes: &'a [u8], token: Token, position: usize) -> Result<Value<'a>, Corrupt> {
        match token {
            Token::Object => {
                Ok(Value::Object(Object { bytes, block: Block::open(bytes, position, token)? }))
            }
            Token::Array => {
                Ok(Value::Array(Array { bytes, block: Block::open(bytes, position, token)? }))
            }
            _ => Scalar::open(bytes, token, position)?.0.into_value(),
        }
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// The integer, if the value is a plain 64-bit integer.
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Integer(value) = self { Some(*value) } else { None }
    }

    /// The nearest double of any number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Integer(value) => Some(*value as f64),
            Value::Number(text) => text.parse().ok(),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<Text<'a>> {
        if let Value::String(text) = self { Some(*text) } else { None }
    }

    /// The object, if it is one.
    pub fn as_object(&self) -> Option<Object<'a>> {
        if let Value::Object(object) = self { Some(*object) } else { None }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<Array<'a>> {
        if let Value::Array(array) = self { Some(*array) } else { None }
    }
}

/// A value that is neither object nor array, its text not yet checked.
#[derive(Clone, Copy)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Number(Text<'a>),
    String(Text<'a>),
}

impl<'a> Scalar<'a> {
    /// Opens the value; also returns the position after its bytes, which is 0 when it has none.
    #[inline]
    pub(crate) fn open(
        bytes: &'a [u8],
        token: Token,
        position: usize,
    ) -> Result<(Scalar<'a>, usize), Corrupt> {
        let (packed, needs_escape) = match token {
            Token::Null => return Ok((Scalar::Null, 0)),
            Token::False => return Ok((Scalar::Bool(false), 0)),
            Token::True => return Ok((Scalar::Bool(true), 0)),
            Token::Integer => {
                let (value, end) = read_varint(bytes, position)?;
                return Ok((Scalar::Integer(unzigzag(value)), end));
            }
            Token::Number => {
                let (text, end) = Text::open(bytes, position, false, false)?;
                return Ok((Scalar::Number(text), end));
            }
            Token::String => (false, false),
            Token::StringToEscape => (false, true),
            Token::Packed => (true, false),
            Token::PackedToEscape => (true, true),
            Token::Array | Token::Object => {
                return Err(Corrupt::new("an object or array in place of a scalar", position));
            }
        };
        let (text, end) = Text::open(bytes, position, packed, needs_escape)?;
        Ok((Scalar::String(text), end))
    }

    #[inline]
    fn into_value(self) -> Result<Value<'a>, Corrupt> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Integer(value) => Value::Integer(value),
            Scalar::Number(text) => Value::Number(text.as_stored_str()?),
            Scalar::String(text) => Value::String(text),
        })
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = Vec::new();
        match write_json(self, &mut json) {
            Ok(()) => f.write_str(&String::from_utf8_lossy(&json)),
            Err(corrupt) => fmt::Display::fmt(&corrupt, f),
        }
    }
}

/// The position of an object in its document, for callers that keep the document's bytes and cannot
/// keep a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHandle(u32);

/// A view of an object.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) block: Block,
}

impl<'a> Object<'a> {
    /// Its position, from which [`Document::object_at`] finds it again.
    #[inline]
    pub fn handle(&self) -> ObjectHandle {
        ObjectHandle(self.block.position)
    }

    /// How many properties it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.block.count as usize
    }

    /// Whether it has no property.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of the property `name` (case matters), by two binary searches.
    pub fn get(&self, name: &str) -> Result<Option<Value<'a>>, Corrupt> {
        let Some(id) = NameTable::open(self.bytes)?.find(name.as_bytes())? else {
            return Ok(None);
        };
        match self.find_entry(id)? {
            Some(entry) => Value::open(self.bytes, entry.token, entry.position).map(Some),
            None => Ok(None),
        }
    }

    /// Whether it has the property `name`.
    pub fn contains(&self, name: &str) -> Result<bool, Corrupt> {
        match NameTable::open(self.bytes)?.find(name.as_bytes())? {
            Some(id) => Ok(self.find_entry(id)?.is_some()),
            None => Ok(false),
        }
    }

    /// The value at the end of a path of property names; `None` when a step is missing or no object.
    pub fn get_path(&self, path: &[&str]) -> Result<Option<Value<'a>>, Corrupt> {
        let mut value = Value::Object(*self);
        for name in path {
            let Value::Object(object) = value else { return Ok(None) };
            match object.get(name)? {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// The property `name` when it is a string.
    pub fn get_str(&self, name: &str) -> Result<Option<Cow<'a, str>>, Corrupt> {
        match self.get(name)? {
            Some(Value::String(text)) => text.as_cow().map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// The property `name` when it is an integer.
    pub fn get_i64(&self, name: &str) -> Result<Option<i64>, Corrupt> {
        Ok(self.get(name)?.and_then(|value| value.as_i64()))
    }

    /// The property `name` when it is a boolean.
    pub fn get_bool(&self, name: &str) -> Result<Option<bool>, Corrupt> {
        Ok(self.get(name)?.and_then(|value| value.as_bool()))
    }

    /// The property `name` when it is an object.
    pub fn get_object(&self, name: &str) -> Result<Option<Object<'a>>, Corrupt> {
        Ok(self.get(name)?.and_then(|value| value.as_object()))
    }

    /// The property `name` when it is an array.
    pub fn get_array(&self, name: &str) -> Result<Option<Array<'a>>, Corrupt> {
        Ok(self.get(name)?.and_then(|value| value.as_array()))
    }

    /// The property at `index` in insertion order; `None` beyond the last.
    pub fn at(&self, index: usize) -> Result<Option<(&'a str, Value<'a>)>, Corrupt> {
        if index >= self.len() {
            return Ok(None);
        }
        let names = NameTable::open(self.bytes)?;
        self.property(&names, index).map(Some)
    }

    /// All properties in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = Result<(&'a str, Value<'a>), Corrupt>> + use<'a> {
        let object = *self;
        let names = NameTable::open(self.bytes);
        (0..self.len()).map(move |index| object.property(&names?, index))
    }

    fn property(
        &self,
        names: &NameTable<'a>,
        index: usize,
    ) -> Result<(&'a str, Value<'a>), Corrupt> {
        let entry = self.block.entry(self.bytes, index)?;
        let Ok(name) = std::str::from_utf8(names.name(entry.name)?) else {
            return Err(Corrupt::new("a name is not UTF-8", entry.position));
        };
        Ok((name, Value::open(self.bytes, entry.token, entry.position)?))
    }

    /// The value of one of its entries.
    pub(crate) fn value(&self, entry: Entry) -> Result<Value<'a>, Corrupt> {
        Value::open(self.bytes, entry.token, entry.position)
    }

    fn find_entry(&self, id: u32) -> Result<Option<Entry>, Corrupt> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.block.entry_by_rank(self.bytes, middle)?;
            match entry.name.cmp(&id) {
                std::cmp::Ordering::Equal => return Ok(Some(entry)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Value::Object(*self), f)
    }
}

/// A view of an array.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) block: Block,
}

impl<'a> Array<'a> {
    /// How many elements it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.block.count as usize
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`; `None` beyond the last.
    pub fn get(&self, index: usize) -> Result<Option<Value<'a>>, Corrupt> {
        if index >= self.len() {
            return Ok(None);
        }
        let entry = self.block.entry(self.bytes, index)?;
        Value::open(self.bytes, entry.token, entry.position).map(Some)
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Corrupt>> + use<'a> {
        let Array { bytes, block } = *self;
        (0..self.len()).map(move |index| {
            let entry = block.entry(bytes, index)?;
            Value::open(bytes, entry.token, entry.position)
        })
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Value::Array(*self), f)
    }
}

/// One entry of a block; `name` is 0 in arrays.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: u32,
    pub(crate) token: Token,
    pub(crate) position: usize,
}

/// The block of an object or array: where its entries are and how wide their fields.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) position: u32,
    /// Where the first entry starts.
    entries: u32,
    pub(crate) count: u32,
    /// Where the permutation starts; 0 when ids ascend.
    permutation: u32,
    /// Position after the block.
    pub(crate) end: u32,
    /// 0 in arrays.
    id_bytes: u8,
    id_width: Width,
    distance_width: Width,
    index_width: Width,
    pub(crate) is_object: bool,
}

impl Block {
    /// Opens the block at `position` after checking that it is within `bytes`.
    #[inline]
    pub(crate) fn open(bytes: &[u8], position: usize, token: Token) -> Result<Block, Corrupt> {
        let outside = || Corrupt::new("an object or array is outside the document", position);
        let head = *bytes.get(position).ok_or_else(outside)?;
        let is_object = token == Token::Object;
        let id_width = Width::from_bits(head, position)?;
        let distance_width = Width::from_bits(head >> 2, position)?;
        let index_width = Width::from_bits(head >> 5, position)?;
        let (count, entries) = read_length(bytes, position + 1)?;
        let id_bytes = if is_object { id_width.bytes() } else { 0 };
        // Counts are below 2^32 and entries at most nine bytes: no product overflows 64 bits.
        let entries_end = entries + count * (1 + id_bytes + distance_width.bytes());
        let is_sorted = !is_object || head & IDS_ASCEND != 0;
        let permutation_bytes = if is_sorted { 0 } else { count * index_width.bytes() };
        let end = entries_end + permutation_bytes;
        if end > bytes.len() {
            return Err(outside());
        }
        Ok(Block {
            position: position as u32,
            entries: entries as u32,
            count: count as u32,
            permutation: if is_sorted { 0 } else { entries_end as u32 },
            end: end as u32,
            id_bytes: id_bytes as u8,
            id_width,
            distance_width,
            index_width,
            is_object,
        })
    }

    /// The entry at `index` in insertion order.
    #[inline]
    pub(crate) fn entry(&self, bytes: &[u8], index: usize) -> Result<Entry, Corrupt> {
        self.try_entry(bytes, index)?.ok_or_else(|| self.corrupt("an entry is outside its block"))
    }

    /// The entry at `rank` in the order of name ids.
    #[inline]
    fn entry_by_rank(&self, bytes: &[u8], rank: usize) -> Result<Entry, Corrupt> {
        if self.permutation == 0 {
            return self.entry(bytes, rank);
        }
        let at = self.permutation as usize + rank * self.index_width.bytes();
        let index = self.index_width.read(bytes, at).unwrap_or(u32::MAX);
        self.entry(bytes, index as usize)
    }

    #[inline]
    fn try_entry(&self, bytes: &[u8], index: usize) -> Result<Option<Entry>, Corrupt> {
        if index >= self.count as usize {
            return Ok(None);
        }
        let id_bytes = self.id_bytes as usize;
        let stride = 1 + id_bytes + self.distance_width.bytes();
        let at = self.entries as usize + index * stride;
        let Some(&token) = bytes.get(at) else { return Ok(None) };
        let token = Token::from_byte(token, at)?;
        let name = match id_bytes {
            0 => Some(0),
            _ => self.id_width.read(bytes, at + 1),
        };
        let distance = self.distance_width.read(bytes, at + 1 + id_bytes);
        let (Some(name), Some(distance)) = (name, distance) else { return Ok(None) };
        let position = match token.has_bytes() {
            true => self.value_position(distance)?,
            false => 0,
        };
        Ok(Some(Entry { name, token, position }))
    }

    #[inline]
    fn value_position(&self, distance: u32) -> Result<usize, Corrupt> {
        match self.position.checked_sub(distance) {
            Some(position) if distance > 0 && position as usize >= HEADER_BYTES => {
                Ok(position as usize)
            }
            _ => Err(self.corrupt("an entry does not refer to a value before its block")),
        }
    }

    #[cold]
    fn corrupt(&self, reason: &'static str) -> Corrupt {
        Corrupt::new(reason, self.position as usize)
    }
}
