//! A string inside a document: its bytes in place, unpacked only on demand.

use std::borrow::Cow;

use lz4_flex::block::decompress_into;

use crate::error::Corrupt;
use crate::format::{UNPACK_FACTOR_MAX, read_length};
use crate::unpacker::Unpacker;

/// A view of a string in a document.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// The UTF-8 bytes, or their LZ4 block when `packed`.
    bytes: &'a [u8],
    length: u32,
    position: u32,
    packed: bool,
    needs_escape: bool,
}

/// The bytes of a text, a part at a time.
pub(crate) enum TextParts<'a> {
    /// What is left of a text that is not packed.
    Stored(&'a [u8]),
    Packed(Unpacker<'a>),
}

impl TextParts<'_> {
    /// At most `bytes_max` bytes, which may begin or end inside a character; none at the end.
    pub(crate) fn next_part(&mut self, bytes_max: usize) -> Result<&[u8], Corrupt> {
        match self {
            TextParts::Stored(rest) => {
                let (part, after) = rest.split_at(rest.len().min(bytes_max));
                *rest = after;
                Ok(part)
            }
            TextParts::Packed(unpacker) => unpacker.next_part(bytes_max),
        }
    }
}

impl<'a> Text<'a> {
    /// Opens the string at `position`; also returns the position after its bytes.
    #[inline]
    pub(crate) fn open(
        document: &'a [u8],
        position: usize,
        packed: bool,
        needs_escape: bool,
    ) -> Result<(Text<'a>, usize), Corrupt> {
        let (length, mut start) = read_length(document, position)?;
        let mut stored = length;
        if packed {
            (stored, start) = read_length(document, start)?;
            if length / UNPACK_FACTOR_MAX > stored {
                return Err(Corrupt::new("a packed string claims too great a length", position));
            }
        }
        let end = start + stored;
        let Some(bytes) = document.get(start..end) else {
            return Err(Corrupt::new("a string reaches beyond the document", position));
        };
        let (length, position) = (length as u32, position as u32);
        Ok((Text { bytes, length, position, packed, needs_escape }, end))
    }

    /// Length in UTF-8 bytes; does not unpack.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether the string is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The text; borrowed from the document unless it is packed.
    pub fn as_cow(&self) -> Result<Cow<'a, str>, Corrupt> {
        match self.as_bytes()? {
            Cow::Borrowed(_) => self.as_stored_str().map(Cow::Borrowed),
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(_) => Err(self.not_utf8()),
            },
        }
    }

    /// The bytes of the text; borrowed from the document unless it is packed. Not checked to be
    /// UTF-8, which a sound document's are.
    #[inline]
    pub fn as_bytes(&self) -> Result<Cow<'a, [u8]>, Corrupt> {
        if !self.packed {
            return Ok(Cow::Borrowed(self.bytes));
        }
        let mut unpacked = Vec::new();
        self.append_to(&mut unpacked)?;
        Ok(Cow::Owned(unpacked))
    }

    /// The same in parts, of which one is in memory at a time.
    pub(crate) fn parts(&self) -> TextParts<'a> {
        match self.packed {
            true => {
                TextParts::Packed(Unpacker::new(self.bytes, self.len(), self.position as usize))
            }
            false => TextParts::Stored(self.bytes),
        }
    }

    /// Whether the text equals `other`; unpacks only when the lengths are equal.
    pub fn equals(&self, other: &str) -> Result<bool, Corrupt> {
        if self.len() != other.len() {
            return Ok(false);
        }
        Ok(self.as_bytes()?.as_ref() == other.as_bytes())
    }

    /// Whether two texts, of any documents, have the same bytes.
    pub(crate) fn equals_text(&self, other: &Text<'_>) -> Result<bool, Corrupt> {
        if self.length != other.length {
            return Ok(false);
        }
        if self.packed && other.packed && self.bytes == other.bytes {
            return Ok(true);
        }
        Ok(self.as_bytes()? == other.as_bytes()?)
    }

    /// The stored bytes as text, for texts that are never packed.
    #[inline]
    pub(crate) fn as_stored_str(&self) -> Result<&'a str, Corrupt> {
        std::str::from_utf8(self.bytes).map_err(|_| self.not_utf8())
    }

    /// The bytes as they are stored, and whether they are packed.
    #[inline]
    pub(crate) fn stored(&self) -> (&'a [u8], bool) {
        (self.bytes, self.packed)
    }

    /// Printing as JSON needs escapes.
    #[inline]
    pub(crate) fn needs_escape(&self) -> bool {
        self.needs_escape
    }

    /// Appends the bytes of the text to `out`, unpacking them in place.
    #[inline]
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        if self.packed { self.unpack(out) } else { self.copy(out) }
    }

    #[inline]
    fn copy(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        out.extend_from_slice(self.bytes);
        Ok(())
    }

    fn unpack(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let start = out.len();
        out.resize(start + self.len(), 0);
        match decompress_into(self.bytes, &mut out[start..]) {
            Ok(length) if length == self.len() => Ok(()),
            Ok(_) | Err(_) => {
                out.truncate(start);
                Err(Corrupt::new("a packed string cannot be unpacked", self.position as usize))
            }
        }
    }

    fn not_utf8(&self) -> Corrupt {
        Corrupt::new("a string is not UTF-8", self.position as usize)
    }
}

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.as_cow() {
            Ok(text) => std::fmt::Debug::fmt(&text, f),
            Err(corrupt) => std::fmt::Display::fmt(&corrupt, f),
        }
    }
}
