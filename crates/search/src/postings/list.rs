//! A posting list for reading.

use std::ops::Bound;

use storage::Transaction;

use super::{
    block::{BlockReader, Chunk},
    format::{
        FLAG_WEIGHTED, Posting, TAG_INLINE, TAG_LARGE, TAG_SINGLE, TAG_SINGLE_WEIGHTED, Weight,
    },
};
use crate::{cursor::END, entry_set::EntrySet, error::SearchError, trees, varint::ByteReader};

/// A posting list: the value of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostingList<'a> {
    Single(Posting, bool),
    Inline { count: u64, block: &'a [u8] },
    Large { weighted: bool, list: u64, count: u64 },
}

impl<'a> PostingList<'a> {
    pub(crate) fn parse(value: &'a [u8]) -> Result<Self, SearchError> {
        let mut reader = ByteReader::new(value);
        Ok(match reader.byte()? {
            TAG_SINGLE => {
                let entry = reader.varint()?;
                PostingList::Single(Posting { entry, weight: Weight::ONE }, false)
            }
            TAG_SINGLE_WEIGHTED => {
                let entry = reader.varint()?;
                let [frequency, length] = reader.array()?;
                let weight = Weight { frequency, length };
                PostingList::Single(Posting { entry, weight }, true)
            }
            TAG_INLINE => PostingList::Inline { count: reader.varint()?, block: reader.rest() },
            TAG_LARGE => PostingList::Large {
                weighted: reader.byte()? == FLAG_WEIGHTED,
                list: reader.u64()?,
                count: reader.u64()?,
            },
            _ => return Err(SearchError::corrupt("a posting list has an unknown tag")),
        })
    }

    /// Entries in the list.
    pub(crate) fn count(&self) -> u64 {
        match self {
            PostingList::Single(..) => 1,
            PostingList::Inline { count, .. } | PostingList::Large { count, .. } => *count,
        }
    }

    pub(crate) fn cursor<T: Transaction>(
        self,
        tx: &'a T,
    ) -> Result<ListCursor<'a, T>, SearchError> {
        ListCursor::new(tx, self)
    }

    /// Puts all entries into the set.
    pub(crate) fn insert_into<T: Transaction>(
        self,
        tx: &T,
        set: &mut EntrySet,
    ) -> Result<(), SearchError> {
        if let PostingList::Single(posting, _) = self {
            set.insert(posting.entry);
            return Ok(());
        }
        self.for_each_chunk(tx, |chunk| chunk.entries().iter().for_each(|entry| set.insert(*entry)))
    }

    /// How many separate blocks the list has.
    pub(crate) fn block_count<T: Transaction>(self, tx: &T) -> Result<u64, SearchError> {
        let PostingList::Large { list, .. } = self else { return Ok(0) };
        let mut blocks = 0;
        for block in tx.tree(&trees::POSTINGS)?.range(Bound::Included(&block_key(list, 0)))? {
            if base_in(&block?.0, list)?.is_none() {
                break;
            }
            blocks += 1;
        }
        Ok(blocks)
    }

    /// Calls `visit` with all entries, a chunk at a time.
    pub(crate) fn for_each_chunk<T: Transaction>(
        self,
        tx: &T,
        mut visit: impl FnMut(&Chunk),
    ) -> Result<(), SearchError> {
        let mut chunk = Chunk::default();
        let mut visit_block = |block: &[u8], base| {
            let mut reader = BlockReader::new(block, base)?;
            while reader.next(&mut chunk)? {
                visit(&chunk);
            }
            Ok::<(), SearchError>(())
        };
        match self {
            PostingList::Single(posting, _) => {
                chunk.entries[0] = posting.entry;
                chunk.weights[0] = posting.weight;
                chunk.len = 1;
                visit(&chunk);
            }
            PostingList::Inline { block, .. } => visit_block(block, 0)?,
            PostingList::Large { list, .. } => {
                let tree = tx.tree(&trees::POSTINGS)?;
                for block in tree.range(Bound::Included(&block_key(list, 0)))? {
                    let (key, block) = block?;
                    let Some(base) = base_in(&key, list)? else { break };
                    visit_block(block, base)?;
                }
            }
        }
        Ok(())
    }
}

/// The key of a block.
pub(crate) fn block_key(list: u64, base: u64) -> [u8; 16] {
    (u128::from(list) << 64 | u128::from(base)).to_be_bytes()
}

/// The base of a block, `None` when it belongs to another list.
pub(crate) fn base_in(key: &[u8], list: u64) -> Result<Option<u64>, SearchError> {
    let (owner, base) = parse_block_key(key)?;
    Ok((owner == list).then_some(base))
}

/// List and base of a block.
pub(crate) fn parse_block_key(key: &[u8]) -> Result<(u64, u64), SearchError> {
    let key: [u8; 16] = key
        .try_into()
        .map_err(|_| SearchError::corrupt("the key of a block of postings has not 16 bytes"))?;
    let key = u128::from_be_bytes(key);
    Ok(((key >> 64) as u64, key as u64))
}

/// A position in a posting list. Before the first `advance` or `seek` it is at the first entry.
pub(crate) struct ListCursor<'a, T> {
    tx: &'a T,
    count: u64,
    chunk: Box<Chunk>,
    at: usize,
    block: Option<BlockReader<'a>>,
    /// The list whose blocks follow, and the lowest base of the next one.
    large: Option<(u64, u64)>,
}

impl<'a, T: Transaction> ListCursor<'a, T> {
    fn new(tx: &'a T, list: PostingList<'a>) -> Result<Self, SearchError> {
        let count = list.count();
        let mut cursor = Self { tx, count, chunk: Box::default(), at: 0, block: None, large: None };
        match list {
            PostingList::Single(posting, _) => {
                cursor.chunk.entries[0] = posting.entry;
                cursor.chunk.weights[0] = posting.weight;
                cursor.chunk.len = 1;
            }
            PostingList::Inline { block, .. } => {
                cursor.block = Some(BlockReader::new(block, 0)?);
                cursor.next_chunk()?;
            }
            PostingList::Large { list, .. } => {
                cursor.large = Some((list, 0));
                cursor.next_chunk()?;
            }
        }
        Ok(cursor)
    }

    /// Entries in the list.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The entry here, [`END`] after the last.
    pub(crate) fn current(&self) -> u64 {
        if self.at < self.chunk.len { self.chunk.entries[self.at] } else { END }
    }

    /// The weight of the entry here.
    pub(crate) fn weight(&self) -> Weight {
        self.chunk.weights[self.at]
    }

    pub(crate) fn advance(&mut self) -> Result<u64, SearchError> {
        if self.at < self.chunk.len {
            self.at += 1;
            if self.at == self.chunk.len {
                self.next_chunk()?;
            }
        }
        Ok(self.current())
    }

    /// Moves to the first entry at or above `target`; never backwards.
    pub(crate) fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        if self.current() >= target {
            return Ok(self.current());
        }
        if self.chunk.entries[self.chunk.len - 1] < target {
            self.seek_chunk(target)?;
        }
        let rest = &self.chunk.entries()[self.at..];
        self.at += rest.partition_point(|entry| *entry < target);
        if self.at == self.chunk.len && self.chunk.len > 0 {
            self.next_chunk()?;
        }
        Ok(self.current())
    }

    /// Unpacks the chunk that may contain `target`; all chunks before it are below `target`.
    fn seek_chunk(&mut self, target: u64) -> Result<(), SearchError> {
        if let Some(block) = &mut self.block
            && block.seek(target, &mut self.chunk)?
        {
            self.at = 0;
            if self.chunk.entries[self.chunk.len - 1] >= target {
                return Ok(());
            }
        }
        if let Some((list, _)) = self.large
            && let Some((base, block)) = self.block_before(list, target)?
        {
            let mut reader = BlockReader::new(block, base)?;
            self.at = 0;
            if reader.seek(target, &mut self.chunk)? {
                self.block = Some(reader);
                self.large = Some((list, base.saturating_add(1)));
                return Ok(());
            }
            return Err(SearchError::corrupt("a block of postings is empty"));
        }
        self.next_chunk()
    }

    /// The last block of the list ahead of the cursor with a base at or below `target`.
    fn block_before(&self, list: u64, target: u64) -> Result<Option<(u64, &'a [u8])>, SearchError> {
        let tree = self.tx.tree(&trees::POSTINGS)?;
        let Some(found) = tree.range_back(Bound::Included(&block_key(list, target)))?.next() else {
            return Ok(None);
        };
        let (key, block) = found?;
        let next = self.large.map_or(0, |(_, next)| next);
        Ok(base_in(&key, list)?.filter(|base| *base >= next).map(|base| (base, block)))
    }

    fn next_chunk(&mut self) -> Result<(), SearchError> {
        self.at = 0;
        loop {
            if let Some(block) = &mut self.block
                && block.next(&mut self.chunk)?
            {
                return Ok(());
            }
            let Some((list, next)) = self.large else { break };
            let tree = self.tx.tree(&trees::POSTINGS)?;
            let Some(found) = tree.range(Bound::Included(&block_key(list, next)))?.next() else {
                break;
            };
            let (key, block) = found?;
            let Some(base) = base_in(&key, list)? else { break };
            let Some(after) = base.checked_add(1) else { break };
            self.block = Some(BlockReader::new(block, base)?);
            self.large = Some((list, after));
        }
        self.chunk.len = 0;
        Ok(())
    }
}
