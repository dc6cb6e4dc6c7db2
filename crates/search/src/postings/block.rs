//! Packing postings into chunks and blocks, and back.

use super::format::{
    BLOCK_BYTES_TARGET, BLOCK_ENTRIES_MAX, CHUNK_ENTRIES_MAX, FLAG_WEIGHTED, Posting, Weight,
};
use crate::{
    error::SearchError,
    varint::{self, ByteReader},
};

/// In the shape of a chunk: it has a plane of frequencies.
const FREQUENCIES: u8 = 0x80;

/// Packs ascending postings into blocks. The first block has the base passed in, each later one
/// that of its first entry.
pub(crate) struct BlockWriter {
    weighted: bool,
    bytes: Vec<u8>,
    entries: usize,
    base: u64,
    /// The first entry of the chunk before, or the base.
    reference: u64,
}

impl BlockWriter {
    pub(crate) fn new(weighted: bool, base: u64) -> Self {
        let bytes = vec![if weighted { FLAG_WEIGHTED } else { 0 }];
        Self { weighted, bytes, entries: 0, base, reference: base }
    }

    /// Packs everything; calls `full` with base and bytes of each block.
    pub(crate) fn write_all<E>(
        mut self,
        postings: &[Posting],
        mut full: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for chunk in postings.chunks(CHUNK_ENTRIES_MAX) {
            if self.bytes.len() >= BLOCK_BYTES_TARGET || self.entries >= BLOCK_ENTRIES_MAX {
                full(self.base, &self.bytes)?;
                self = Self::new(self.weighted, chunk[0].entry);
            }
            self.chunk(chunk);
        }
        full(self.base, &self.bytes)
    }

    /// One block, whatever its length.
    pub(crate) fn write_one(mut self, postings: &[Posting]) -> Vec<u8> {
        postings.chunks(CHUNK_ENTRIES_MAX).for_each(|chunk| self.chunk(chunk));
        self.bytes
    }

    fn chunk(&mut self, postings: &[Posting]) {
        let first = postings[0].entry;
        varint::write(&mut self.bytes, first - self.reference);
        self.reference = first;
        self.bytes.push((postings.len() - 1) as u8);
        let steps = || postings.windows(2).map(|pair| pair[1].entry - pair[0].entry - 1);
        let width = 64 - steps().fold(0, |all, step| all | step).leading_zeros();
        let frequencies =
            self.weighted && postings.iter().any(|posting| posting.weight.frequency != 1);
        self.bytes.push(width as u8 | if frequencies { FREQUENCIES } else { 0 });
        pack(&mut self.bytes, width, steps());
        if frequencies {
            self.bytes.extend(postings.iter().map(|posting| posting.weight.frequency));
        }
        if self.weighted {
            self.bytes.extend(postings.iter().map(|posting| posting.weight.length));
        }
        self.entries += postings.len();
    }
}

fn pack(bytes: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    let (mut pending, mut bits) = (0u128, 0);
    for value in values {
        pending |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        bytes.push(pending as u8);
    }
}

/// The first bytes of a chunk.
#[derive(Clone, Copy)]
struct ChunkHeader<'a> {
    first: u64,
    entries: usize,
    width: u32,
    frequencies: bool,
    body: &'a [u8],
}

/// Walks the chunks of a block without unpacking them.
#[derive(Clone)]
pub(crate) struct BlockReader<'a> {
    reader: ByteReader<'a>,
    weighted: bool,
    reference: u64,
}

/// The entries of one chunk, unpacked.
pub(crate) struct Chunk {
    pub(crate) entries: [u64; CHUNK_ENTRIES_MAX],
    pub(crate) weights: [Weight; CHUNK_ENTRIES_MAX],
    pub(crate) len: usize,
}

impl Default for Chunk {
    fn default() -> Self {
        let (entries, weights) = ([0; CHUNK_ENTRIES_MAX], [Weight::ONE; CHUNK_ENTRIES_MAX]);
        Self { entries, weights, len: 0 }
    }
}

impl Chunk {
    pub(crate) fn entries(&self) -> &[u64] {
        &self.entries[..self.len]
    }

    pub(crate) fn postings(&self) -> impl Iterator<Item = Posting> + '_ {
        (0..self.len).map(|at| Posting { entry: self.entries[at], weight: self.weights[at] })
    }
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(block: &'a [u8], base: u64) -> Result<Self, SearchError> {
        let mut reader = ByteReader::new(block);
        let flags = reader.byte()?;
        if flags > FLAG_WEIGHTED {
            return Err(SearchError::corrupt("a block of postings has unknown flags"));
        }
        Ok(Self { reader, weighted: flags == FLAG_WEIGHTED, reference: base })
    }

    fn header(&mut self) -> Result<Option<ChunkHeader<'a>>, SearchError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let gap = self.reader.varint()?;
        let entries = usize::from(self.reader.byte()?) + 1;
        let shape = self.reader.byte()?;
        let width = u32::from(shape & !FREQUENCIES);
        let frequencies = shape & FREQUENCIES != 0;
        if entries > CHUNK_ENTRIES_MAX || width > 64 || (frequencies && !self.weighted) {
            return Err(SearchError::corrupt("a chunk of postings has an impossible shape"));
        }
        let first = self.reference.checked_add(gap).ok_or_else(|| {
            SearchError::corrupt("a chunk of postings begins past the last entry")
        })?;
        self.reference = first;
        let planes = usize::from(frequencies) + usize::from(self.weighted);
        let packed = ((entries - 1) * width as usize).div_ceil(8);
        let body = self.reader.take(packed + planes * entries)?;
        Ok(Some(ChunkHeader { first, entries, width, frequencies, body }))
    }

    /// Unpacks the next chunk; false at the end of the block.
    pub(crate) fn next(&mut self, chunk: &mut Chunk) -> Result<bool, SearchError> {
        match self.header()? {
            Some(header) => self.unpack(header, chunk).map(|()| true),
            None => Ok(false),
        }
    }

    /// Unpacks the last chunk from here on whose first entry is at or below `target`, or the next one;
    /// false at the end of the block.
    pub(crate) fn seek(&mut self, target: u64, chunk: &mut Chunk) -> Result<bool, SearchError> {
        let Some(mut header) = self.header()? else { return Ok(false) };
        loop {
            let before = self.clone();
            match self.header()? {
                Some(next) if next.first <= target => header = next,
                _ => {
                    *self = before;
                    return self.unpack(header, chunk).map(|()| true);
                }
            }
        }
    }

    fn unpack(&self, header: ChunkHeader<'a>, chunk: &mut Chunk) -> Result<(), SearchError> {
        chunk.len = header.entries;
        unpack_entries(&header, &mut chunk.entries[..header.entries])?;
        if self.weighted {
            let planes = &header.body[header.body.len() - header.entries..];
            for (weight, length) in chunk.weights.iter_mut().zip(planes) {
                *weight = Weight { frequency: 1, length: *length };
            }
        }
        if header.frequencies {
            let from = header.body.len() - 2 * header.entries;
            for (weight, frequency) in
                chunk.weights.iter_mut().zip(&header.body[from..]).take(header.entries)
            {
                weight.frequency = *frequency;
            }
        }
        Ok(())
    }
}

fn unpack_entries(header: &ChunkHeader<'_>, entries: &mut [u64]) -> Result<(), SearchError> {
    let past_the_end = || SearchError::corrupt("a posting is past the last possible entry");
    entries[0] = header.first;
    let mut entry = header.first;
    if header.width == 0 {
        for place in &mut entries[1..] {
            entry = entry.checked_add(1).ok_or_else(past_the_end)?;
            *place = entry;
        }
        return Ok(());
    }
    let mask = u64::MAX >> (64 - header.width);
    let (mut pending, mut bits) = (0u128, 0);
    let mut bytes = header.body.iter();
    for place in &mut entries[1..] {
        while bits < header.width {
            pending |= u128::from(bytes.next().copied().unwrap_or_default()) << bits;
            bits += 8;
        }
        let step = pending as u64 & mask;
        pending >>= header.width;
        bits -= header.width;
        entry = entry
            .checked_add(step)
            .and_then(|entry| entry.checked_add(1))
            .ok_or_else(past_the_end)?;
        *place = entry;
    }
    Ok(())
}

/// Appends all postings of a block.
pub(crate) fn read_all(
    block: &[u8],
    base: u64,
    postings: &mut Vec<Posting>,
) -> Result<(), SearchError> {
    let mut reader = BlockReader::new(block, base)?;
    let mut chunk = Chunk::default();
    while reader.next(&mut chunk)? {
        if postings.last().is_some_and(|last| last.entry >= chunk.entries[0]) {
            return Err(SearchError::corrupt("the chunks of a posting list overlap"));
        }
        postings.extend(chunk.postings());
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ascending entries: runs, small steps and wide gaps.
    pub(in crate::postings) fn entries() -> impl Strategy<Value = Vec<u64>> {
        let step =
            prop_oneof![6 => Just(1u64), 4 => 1u64..5, 2 => 1u64..5000, 1 => 1u64..(1 << 40)];
        prop::collection::vec(step, 1..900).prop_map(|steps| {
            let mut entry = 0;
            steps
                .into_iter()
                .map(|step| {
                    entry += step;
                    entry
                })
                .collect()
        })
    }

    fn posting(entry: u64, weighted: bool, few: bool) -> Posting {
        let weight = if weighted {
            let frequency = if few { 1 } else { (entry * 7 % 9 + 1) as u8 };
            Weight { frequency, length: (entry * 31) as u8 }
        } else {
            Weight::ONE
        };
        Posting { entry, weight }
    }

    proptest! {
        #[test]
        fn blocks_come_back(entries in entries(), base in 0u64..2, weighted: bool, few: bool) {
            let postings: Vec<Posting> = entries.iter().map(|entry| posting(*entry, weighted, few)).collect();
            let mut back = Vec::new();
            let mut next_base = base;
            BlockWriter::new(weighted, base).write_all(&postings, |base, block| {
                assert!(next_base == base || back.last().is_some_and(|last: &Posting| last.entry < base));
                assert!(block.len() < 2000);
                read_all(block, base, &mut back)?;
                next_base = u64::MAX;
                Ok::<(), SearchError>(())
            }).unwrap();
            prop_assert_eq!(back, postings);
        }

        #[test]
        fn seeking_finds_the_chunk_of_the_target(entries in entries(), target in 0u64..6000) {
            let postings: Vec<Posting> = entries.iter().map(|entry| posting(*entry, true, false)).collect();
            let block = BlockWriter::new(true, 0).write_one(&postings);
            let mut reader = BlockReader::new(&block, 0).unwrap();
            let mut chunk = Chunk::default();
            prop_assert!(reader.seek(target, &mut chunk).unwrap());
            let mut rest: Vec<u64> = chunk.entries().to_vec();
            while reader.next(&mut chunk).unwrap() {
                rest.extend(chunk.entries());
            }
            let expected = entries.iter().find(|entry| **entry >= target);
            prop_assert_eq!(rest.iter().find(|entry| **entry >= target), expected);
        }

        #[test]
        fn damaged_blocks_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), base: u64) {
            let _ = read_all(&bytes, base, &mut Vec::new());
            if let Some(first) = bytes.first_mut() {
                *first &= 1;
            }
            let _ = read_all(&bytes, base, &mut Vec::new());
            if let Ok(mut reader) = BlockReader::new(&bytes, base) {
                let _ = reader.seek(base.saturating_add(1000), &mut Chunk::default());
            }
        }
    }

    #[test]
    fn neighbours_take_no_space() {
        let postings: Vec<Posting> =
            (1..=4096).map(|entry| Posting { entry, weight: Weight::ONE }).collect();
        assert!(BlockWriter::new(false, 0).write_one(&postings).len() < 140);
    }
}
