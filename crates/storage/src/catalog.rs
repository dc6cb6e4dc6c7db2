//! Named trees: what the tree of trees stores about each.

use crate::{
    error::StorageError,
    format::{PageNumber, read_u16, read_u64, write_u16, write_u64},
};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TreeKind {
    /// A tree with variable keys.
    Variable = 1,
    /// A tree with 8-byte keys.
    Fixed = 2,
    /// The rows of a table: no tree, but pages of rows.
    Rows = 3,
}

/// The state of a named tree, as it is stored under its name.
///
/// ```text
/// 0 kind u8 · 1 depth u8 · 2 value bytes u16 · 4 flags u32 · 8 root u64 · 16 entries u64 · 24 extra u64
/// ```
///
/// `depth` is 0 for an empty tree, 1 when the root is a leaf. For rows, `root` is the page that takes
/// new rows and `extra` the bytes of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeState {
    pub(crate) kind: TreeKind,
    pub(crate) depth: u8,
    /// Bytes of each value in a fixed tree.
    pub(crate) value_bytes: u16,
    /// [`TreeState::OWNED_BY_TABLE`] or 0.
    pub(crate) flags: u32,
    pub(crate) root: PageNumber,
    pub(crate) entries: u64,
    pub(crate) extra: u64,
}

impl TreeState {
    pub(crate) const BYTES: usize = 32;
    /// The tree is an index of a table; compaction rebuilds it instead of copying it.
    pub(crate) const OWNED_BY_TABLE: u32 = 1;
    /// More levels than any tree of 2^64 pages can have.
    pub(crate) const DEPTH_MAX: u8 = 24;

    pub(crate) fn empty(kind: TreeKind) -> Self {
        Self { kind, depth: 0, value_bytes: 0, flags: 0, root: PageNumber(0), entries: 0, extra: 0 }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = self.depth;
        write_u16(&mut bytes, 2, self.value_bytes);
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        write_u64(&mut bytes, 8, self.root.0);
        write_u64(&mut bytes, 16, self.entries);
        write_u64(&mut bytes, 24, self.extra);
        bytes
    }

    /// `page` is the page that holds the bytes, for error messages.
    pub(crate) fn read(bytes: &[u8], page: PageNumber) -> Result<Self, StorageError> {
        let corrupt = |detail| StorageError::structure(page, detail);
        if bytes.len() != Self::BYTES {
            return Err(corrupt("the state of a tree has the wrong length"));
        }
        let kind = match bytes[0] {
            1 => TreeKind::Variable,
            2 => TreeKind::Fixed,
            3 => TreeKind::Rows,
            _ => return Err(corrupt("the state of a tree names an unknown kind")),
        };
        if bytes[1] > Self::DEPTH_MAX {
            return Err(corrupt("a tree is deeper than any tree can be"));
        }
        Ok(Self {
            kind,
            depth: bytes[1],
            value_bytes: read_u16(bytes, 2),
            flags: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            root: PageNumber(read_u64(bytes, 8)),
            entries: read_u64(bytes, 16),
            extra: read_u64(bytes, 24),
        })
    }
}
