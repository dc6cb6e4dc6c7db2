//! A page that is being changed, and which of its lines were.
//!
//! Invariant: outside the marked lines, a transaction's page and the version it was copied from
//! agree. Pages are changed only through a [`PageMut`], which marks what is written, so that the
//! journal finds the difference without reading and comparing two whole pages.

use std::ops::{Deref, Range};

use crate::format::{PAGE_BYTES, PAGE_COUNT, PAGE_LOWER, PAGE_UPPER, to_u16, write_u16, write_u64};

/// Bytes in a line: what a processor loads from memory at once.
const LINE_BYTES: usize = PAGE_BYTES / u128::BITS as usize;

/// A set of a page's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines(u128);

impl Lines {
    pub(crate) const NONE: Lines = Lines(0);
    pub(crate) const ALL: Lines = Lines(u128::MAX);

    /// Adds the lines that `bytes` bytes from `at` touch.
    pub(crate) fn mark(&mut self, at: usize, bytes: usize) {
        if bytes > 0 {
            let (first, last) = (at / LINE_BYTES, (at + bytes - 1) / LINE_BYTES);
            self.0 |= (u128::MAX >> (u128::BITS as usize - 1 - (last - first))) << first;
        }
    }

    /// The marked lines as ranges of bytes, ascending and not adjacent.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros();
            let end = first + (rest >> first).trailing_ones();
            rest = rest.checked_shr(end).unwrap_or(0).checked_shl(end).unwrap_or(0);
            Some(first as usize * LINE_BYTES..end as usize * LINE_BYTES)
        })
    }
}

/// A page, to be changed. Positions are those of the page.
pub(crate) struct PageMut<'p> {
    bytes: &'p mut [u8],
    lines: &'p mut Lines,
}

impl Deref for PageMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<'p> PageMut<'p> {
    pub(crate) fn new(bytes: &'p mut [u8], lines: &'p mut Lines) -> Self {
        Self { bytes, lines }
    }

    /// The whole page, to be rewritten from scratch.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        *self.lines = Lines::ALL;
        self.bytes
    }

    /// The page, when only these parts of it are changed. (That this is so is asserted when the
    /// journal takes the difference.)
    pub(crate) fn parts<const N: usize>(&mut self, parts: [Range<usize>; N]) -> &mut [u8] {
        for part in parts {
            self.lines.mark(part.start, part.len());
        }
        self.bytes
    }

    pub(crate) fn write(&mut self, at: usize, content: &[u8]) {
        self.lines.mark(at, content.len());
        self.bytes[at..at + content.len()].copy_from_slice(content);
    }

    /// Copies a part of the page to another place in it; they may overlap.
    pub(crate) fn shift(&mut self, from: Range<usize>, to: usize) {
        self.lines.mark(to, from.len());
        self.bytes.copy_within(from, to);
    }

    pub(crate) fn write_u16(&mut self, at: usize, value: u16) {
        self.lines.mark(at, 2);
        write_u16(self.bytes, at, value);
    }

    pub(crate) fn write_u64(&mut self, at: usize, value: u64) {
        self.lines.mark(at, 8);
        write_u64(self.bytes, at, value);
    }

    pub(crate) fn set_count(&mut self, count: usize) {
        self.write_u16(PAGE_COUNT, to_u16(count));
    }

    pub(crate) fn set_lower(&mut self, lower: usize) {
        self.write_u16(PAGE_LOWER, to_u16(lower));
    }

    pub(crate) fn set_upper(&mut self, upper: usize) {
        self.write_u16(PAGE_UPPER, to_u16(upper));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_what_a_processor_brings_at_once() {
        assert_eq!(LINE_BYTES, 64);
        let mut last = Lines::NONE;
        last.mark(PAGE_BYTES - 1, 1);
        assert_eq!(last.ranges().next(), Some(PAGE_BYTES - 64..PAGE_BYTES));
        assert_eq!(last.ranges().count(), 1);
        let mut all = Lines::NONE;
        all.mark(0, PAGE_BYTES);
        assert_eq!(all, Lines::ALL);
        assert_eq!(all.ranges().next(), Some(0..PAGE_BYTES));
        assert_eq!(all.ranges().count(), 1);
    }

    proptest! {
        #[test]
        fn what_is_written_is_marked(
            writes in prop::collection::vec((0..PAGE_BYTES, 0..300usize, any::<bool>()), 0..20)
        ) {
            let old: Vec<u8> = (0..PAGE_BYTES).map(|at| (at % 251) as u8).collect();
            let (mut bytes, mut lines) = (old.clone(), Lines::NONE);
            for (at, length, shifts) in writes {
                let length = length.min(PAGE_BYTES - at);
                let mut page = PageMut::new(&mut bytes, &mut lines);
                if shifts {
                    page.shift(0..length, at);
                } else {
                    page.write(at, &vec![255; length]);
                }
            }
            let mut end = 0;
            for range in lines.ranges() {
                prop_assert_eq!(&bytes[end..range.start], &old[end..range.start]);
                end = range.end;
            }
            prop_assert_eq!(&bytes[end..], &old[end..]);
        }
    }
}
