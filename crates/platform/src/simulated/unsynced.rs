//! The bytes of one simulated file twice over: as a process sees them, and as the disk would have
//! them after a power cut; and the changes between the two.
//!
//! Invariant: applying the unsynced changes in order to the durable bytes yields what a process
//! sees, except where a failed sync dropped a change.

use std::{io, sync::Arc};

use crate::{
    memory::content::Content,
    simulated::{
        power::{Fate, Fates},
        random::Random,
    },
};

/// The unit of atomic writes, in bytes.
const TEAR_BYTES: u64 = 512;

/// The unit of space allocation, in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// One file, named or not.
pub(super) struct FileState {
    content: Arc<Content>,
    durable: Content,
    unsynced: Vec<Unsynced>,
    forgotten: bool,
    blocks: Blocks,
}

struct Unsynced {
    sequence: u64,
    change: Change,
}

enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

impl FileState {
    pub(super) fn empty() -> io::Result<Self> {
        Ok(Self {
            content: Arc::new(Content::empty()?),
            durable: Content::empty()?,
            unsynced: Vec::new(),
            forgotten: false,
            blocks: Blocks::default(),
        })
    }

    /// What a process sees.
    pub(super) fn content(&self) -> &Arc<Content> {
        &self.content
    }

    /// The durable content.
    pub(super) fn durable(&self) -> &Content {
        &self.durable
    }

    /// Writes through the page cache.
    pub(super) fn write(&mut self, sequence: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.content.write_all_at(bytes, offset)?;
        self.blocks.reserve(offset, offset + bytes.len() as u64);
        let change = Change::Write { offset, bytes: bytes.to_vec() };
        self.unsynced.push(Unsynced { sequence, change });
        Ok(())
    }

    /// Writes bypassing the page cache. The length becomes durable along with the bytes, and
    /// earlier unsynced writes to the same range no longer matter.
    pub(super) fn write_durably(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        self.content.write_all_at(bytes, offset)?;
        self.blocks.reserve(offset, end);
        self.settle_lengths()?;
        clip(&mut self.unsynced, offset, end);
        self.durable.write_all_at(bytes, offset)
    }

    /// Makes changed lengths durable, ahead of the writes issued before them.
    fn settle_lengths(&mut self) -> io::Result<()> {
        let mut kept = Vec::new();
        for unsynced in std::mem::take(&mut self.unsynced) {
            match unsynced.change {
                Change::Write { .. } => kept.push(unsynced),
                Change::Length(len) => {
                    self.durable.set_len(len)?;
                    clip(&mut kept, len, u64::MAX);
                }
            }
        }
        self.unsynced = kept;
        Ok(())
    }

    pub(super) fn set_len(&mut self, sequence: u64, len: u64) -> io::Result<()> {
        self.content.set_len(len)?;
        self.blocks.truncate(len);
        self.unsynced.push(Unsynced { sequence, change: Change::Length(len) });
        Ok(())
    }

    pub(super) fn allocate(&mut self, sequence: u64, len: u64) -> io::Result<()> {
        if self.content.len()? < len {
            self.set_len(sequence, len)?;
        }
        self.blocks.reserve(0, len);
        Ok(())
    }

    /// Makes everything durable that was not dropped.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        for unsynced in std::mem::take(&mut self.unsynced) {
            match unsynced.change {
                Change::Write { offset, bytes } => self.durable.write_all_at(&bytes, offset)?,
                Change::Length(len) => self.durable.set_len(len)?,
            }
        }
        Ok(())
    }

    /// A sync failed: processes still see the changes, but they will not be written again.
    pub(super) fn forget_unsynced(&mut self) {
        self.forgotten |= !self.unsynced.is_empty();
        self.unsynced.clear();
    }

    /// The sequence numbers of the unsynced changes.
    pub(super) fn unsynced(&self) -> impl Iterator<Item = u64> {
        self.unsynced.iter().map(|unsynced| unsynced.sequence)
    }

    /// The power is cut: changes become durable as their fates say, and the rest is lost.
    pub(super) fn lose(&mut self, fates: &Fates, random: &mut Random) -> io::Result<()> {
        let differs = self.forgotten || !self.unsynced.is_empty();
        for unsynced in std::mem::take(&mut self.unsynced) {
            let fate = fates.get(&unsynced.sequence).copied().unwrap_or(Fate::Lost);
            match unsynced.change {
                Change::Write { offset, bytes } => self.survive(fate, offset, &bytes, random)?,
                Change::Length(len) if fate != Fate::Lost => self.durable.set_len(len)?,
                Change::Length(_) => {}
            }
        }
        self.forgotten = false;
        // A mapping from before the cut still shows the old content.
        if differs || Arc::strong_count(&self.content) > 1 {
            self.content = Arc::new(self.durable.duplicate()?);
        }
        self.blocks.truncate(self.durable.len()?);
        Ok(())
    }

    fn survive(
        &self,
        fate: Fate,
        offset: u64,
        bytes: &[u8],
        random: &mut Random,
    ) -> io::Result<()> {
        match fate {
            Fate::Lost => Ok(()),
            Fate::LengthOnly => {
                let end = offset + bytes.len() as u64;
                if self.durable.len()? < end { self.durable.set_len(end) } else { Ok(()) }
            }
            Fate::Torn => self.tear(offset, bytes, random, false),
            Fate::Garbled => self.tear(offset, bytes, random, true),
            Fate::Whole => self.durable.write_all_at(bytes, offset),
        }
    }

    /// Each sector of the write survives or not; of those that do not, some become rubbish if
    /// requested.
    fn tear(
        &self,
        offset: u64,
        mut bytes: &[u8],
        random: &mut Random,
        garble: bool,
    ) -> io::Result<()> {
        let mut position = offset;
        while !bytes.is_empty() {
            let in_sector = (TEAR_BYTES - position % TEAR_BYTES).min(bytes.len() as u64);
            let (sector, rest) = bytes.split_at(in_sector as usize);
            if random.coin() {
                self.durable.write_all_at(sector, position)?;
            } else if garble && random.coin() {
                let rubbish: Vec<u8> = sector.iter().map(|_| random.next_u64() as u8).collect();
                self.durable.write_all_at(&rubbish, position)?;
            }
            position += in_sector;
            bytes = rest;
        }
        Ok(())
    }

    /// Inverts a bit everywhere, as if it had been written that way.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> io::Result<()> {
        flip_in(&self.content, offset, bit)?;
        if offset < self.durable.len()? {
            flip_in(&self.durable, offset, bit)?;
        }
        for unsynced in &mut self.unsynced {
            if let Change::Write { offset: start, bytes } = &mut unsynced.change
                && let Some(index) = offset.checked_sub(*start)
                && let Some(byte) = bytes.get_mut(index as usize)
            {
                *byte ^= 1 << bit;
            }
        }
        Ok(())
    }

    /// Bytes of space used by the file.
    pub(super) fn space(&self) -> u64 {
        self.blocks.count * BLOCK_BYTES
    }

    /// Additional bytes of space that a write to the range would use.
    pub(super) fn space_wanted(&self, start: u64, end: u64) -> u64 {
        self.blocks.missing(start, end) * BLOCK_BYTES
    }
}

fn flip_in(content: &Content, offset: u64, bit: u8) -> io::Result<()> {
    let mut byte = [0];
    content.read_exact_at(&mut byte, offset)?;
    content.write_all_at(&[byte[0] ^ (1 << bit)], offset)
}

/// Removes `start..end` from all writes.
fn clip(unsynced: &mut Vec<Unsynced>, start: u64, end: u64) {
    let overlaps = |unsynced: &Unsynced| match &unsynced.change {
        Change::Write { offset, bytes } => *offset < end && offset + bytes.len() as u64 > start,
        Change::Length(_) => false,
    };
    if !unsynced.iter().any(overlaps) {
        return;
    }
    let mut kept = Vec::with_capacity(unsynced.len() + 1);
    for unsynced in unsynced.drain(..) {
        match unsynced.change {
            Change::Write { offset, bytes } => {
                let sequence = unsynced.sequence;
                let parts = outside(offset, bytes, start, end).into_iter();
                kept.extend(parts.filter(|(_, bytes)| !bytes.is_empty()).map(|(offset, bytes)| {
                    Unsynced { sequence, change: Change::Write { offset, bytes } }
                }));
            }
            Change::Length(_) => kept.push(unsynced),
        }
    }
    *unsynced = kept;
}

/// The parts of a write before `start` and from `end` on, either of which may be empty.
fn outside(offset: u64, mut bytes: Vec<u8>, start: u64, end: u64) -> [(u64, Vec<u8>); 2] {
    let index = |position: u64| position.saturating_sub(offset).min(bytes.len() as u64) as usize;
    let (before, after) = (index(start), index(end));
    let tail = bytes[after..].to_vec();
    bytes.truncate(before);
    [(offset, bytes), (offset.max(end), tail)]
}

/// Which blocks of a file use space; holes do not.
#[derive(Default)]
struct Blocks {
    taken: Vec<bool>,
    count: u64,
}

impl Blocks {
    fn missing(&self, start: u64, end: u64) -> u64 {
        let range = block_range(start, end);
        let known = range.start.min(self.taken.len())..range.end.min(self.taken.len());
        let taken = self.taken[known].iter().filter(|taken| **taken).count();
        (range.len() - taken) as u64
    }

    fn reserve(&mut self, start: u64, end: u64) {
        self.count += self.missing(start, end);
        let range = block_range(start, end);
        if self.taken.len() < range.end {
            self.taken.resize(range.end, false);
        }
        self.taken[range].fill(true);
    }

    fn truncate(&mut self, len: u64) {
        self.taken.truncate(block_range(0, len).end);
        self.count = self.taken.iter().filter(|taken| **taken).count() as u64;
    }
}

fn block_range(start: u64, end: u64) -> std::ops::Range<usize> {
    let end = end.div_ceil(BLOCK_BYTES) as usize;
    ((start / BLOCK_BYTES) as usize).min(end)..end
}
