//! Reading the bytes of rows: numbers at fixed positions, and texts whose lengths are in the
//! header.

use crate::error::{DocumentError, corrupt};

/// A 16-bit length at a position inside a header whose presence was checked.
pub(crate) fn length_at(row: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([row[at], row[at + 1]]))
}

/// A 32-bit number; 0 when the row is too short, which reading it reports.
pub(crate) fn u32_at(row: &[u8], at: usize) -> u32 {
    let bytes = row.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// As [`u32_at`], for 64 bits.
pub(crate) fn u64_at(row: &[u8], at: usize) -> u64 {
    let bytes = row.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The error messages for a damaged row of one kind.
pub(crate) struct RowKind {
    pub(crate) ends_early: &'static str,
    pub(crate) is_no_text: &'static str,
}

impl RowKind {
    /// Takes this many bytes from the front.
    pub(crate) fn take<'a>(
        &self,
        rest: &mut &'a [u8],
        length: usize,
    ) -> Result<&'a [u8], DocumentError> {
        let (taken, behind) = rest.split_at_checked(length).ok_or(corrupt(self.ends_early))?;
        *rest = behind;
        Ok(taken)
    }

    /// As [`RowKind::take`], for text.
    pub(crate) fn take_text<'a>(
        &self,
        rest: &mut &'a [u8],
        length: usize,
    ) -> Result<&'a str, DocumentError> {
        self.text(self.take(rest, length)?)
    }

    /// These bytes as text.
    pub(crate) fn text<'a>(&self, bytes: &'a [u8]) -> Result<&'a str, DocumentError> {
        std::str::from_utf8(bytes).map_err(|_| corrupt(self.is_no_text))
    }
}
