//! The table of names at the end of a document, read in place.
//!
//! Opening it only slices bytes, so each lookup opens it again instead of carrying it around in
//! every value.

use std::cmp::Ordering;

use crate::error::Corrupt;
use crate::format::{HEADER_BYTES, NAMES_NEED_ESCAPE, Width};

#[derive(Clone, Copy)]
pub(crate) struct NameTable<'a> {
    ends: &'a [u8],
    sorted_ids: &'a [u8],
    names: &'a [u8],
    count: usize,
    end_width: Width,
    id_width: Width,
    /// Position of the table, for error messages.
    position: usize,
    pub(crate) needs_escape: bool,
}

impl<'a> NameTable<'a> {
    /// The table of the document `bytes`.
    #[inline]
    pub(crate) fn open(bytes: &'a [u8]) -> Result<NameTable<'a>, Corrupt> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Corrupt::new("the document is shorter than its header", bytes.len()));
        };
        let flags = header[2];
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let position = field(12) as usize;
        let count = field(16) as usize;
        let end_width = Width::from_bits(flags, 2)?;
        let id_width = Width::from_bits(flags >> 2, 2)?;
        let outside = || Corrupt::new("the table of names is outside the document", 12);
        let table = bytes.get(position..).ok_or_else(outside)?;
        // Counts and widths are below 2^32 and 8: no product overflows a 64-bit size.
        let (ends, rest) = table.split_at_checked(count * end_width.bytes()).ok_or_else(outside)?;
        let (sorted_ids, names) =
            rest.split_at_checked(count * id_width.bytes()).ok_or_else(outside)?;
        let needs_escape = flags & NAMES_NEED_ESCAPE != 0;
        Ok(NameTable {
            ends,
            sorted_ids,
            names,
            count,
            end_width,
            id_width,
            position,
            needs_escape,
        })
    }

    /// Whether the name bytes end where the document does.
    pub(crate) fn is_complete(&self) -> bool {
        let last_end = match self.count.checked_sub(1) {
            Some(last) => self.end_of(last),
            None => Some(0),
        };
        last_end == Some(self.names.len())
    }

    /// The bytes of the name `id`.
    #[inline]
    pub(crate) fn name(&self, id: u32) -> Result<&'a [u8], Corrupt> {
        self.name_at(id as usize)
            .ok_or_else(|| Corrupt::new("a name is outside the table of names", self.position))
    }

    /// The id of `name`, `None` when no object of the document has such a property.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<u32>, Corrupt> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let id = self.id_width.read(self.sorted_ids, middle * self.id_width.bytes());
            let id = id.unwrap_or(u32::MAX);
            match self.name(id)?.cmp(name) {
                Ordering::Equal => return Ok(Some(id)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    #[inline]
    fn name_at(&self, id: usize) -> Option<&'a [u8]> {
        if id >= self.count {
            return None;
        }
        let end = self.end_of(id)?;
        let start = if id == 0 { 0 } else { self.end_of(id - 1)? };
        self.names.get(start..end)
    }

    #[inline]
    fn end_of(&self, id: usize) -> Option<usize> {
        self.end_width.read(self.ends, id * self.end_width.bytes()).map(|end| end as usize)
    }
}
