//! The file of a snapshot backup: the pages of a database, and a dump of what is not in them.
//!
//! ```text
//!   0 magic    [8]   "CORVSNAP"
//!   8 version  u32   1
//!  12 parts
//!     255 u8, then three numbers u64: where the image of the pages ends
//!         u128      XXH3-128 of everything before it
//!
//! a part:  kind u8 · chunks · 0 u32 · length u64 · XXH3-128 u128
//! a chunk: length u32, not 0 · bytes
//! ```
//!
//! Integers are little-endian. The chunks of a part together are one frame of Zstandard; length and checksum at its end
//! are those of what was compressed. An encrypted snapshot is all of this, encrypted as a dump is
//! ([`crate::DumpEncryptor`]).
//!
//! RavenDB's snapshots are archives in zip with files of its storage engine. They are recognised, and refused.

use std::io::{self, BufReader, Read};

use xxhash_rust::xxh3::Xxh3;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::compression::{DumpCompression, DumpEncoder};

const MAGIC: [u8; 8] = *b"CORVSNAP";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 12;
/// What the archives of RavenDB begin with.
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";
const END: u8 = 255;
/// A longer chunk is damage.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// The parts of a snapshot, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SnapshotPart {
    /// A dump without the documents.
    Dump = 1,
    /// The pages of the database.
    Pages = 2,
}

/// Where the image of the pages ends; its numbers mean nothing here.
pub type SnapshotEnd = [u64; 3];

/// Writes a snapshot piece by piece.
pub struct SnapshotWriter {
    all: Xxh3,
    part: Option<(DumpEncoder, Xxh3, u64)>,
    compressed: Vec<u8>,
}

impl SnapshotWriter {
    /// Begins one.
    pub fn begin(out: &mut Vec<u8>) -> SnapshotWriter {
        let mut writer = SnapshotWriter { all: Xxh3::new(), part: None, compressed: Vec::new() };
        writer.put(&MAGIC, out);
        writer.put(&VERSION.to_le_bytes(), out);
        writer
    }

    /// Begins a part, after the end of the one before.
    ///
    /// # Errors
    /// There is no memory for the compression.
    pub fn begin_part(&mut self, part: SnapshotPart, out: &mut Vec<u8>) -> io::Result<()> {
        self.put(&[part as u8], out);
        self.part = Some((DumpEncoder::new(DumpCompression::Zstd)?, Xxh3::new(), 0));
        Ok(())
    }

    /// Appends to the part.
    ///
    /// # Errors
    /// Those of the compression.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if let Some((encoder, hash, length)) = &mut self.part {
            hash.update(bytes);
            *length += bytes.len() as u64;
            encoder.write(bytes, &mut self.compressed)?;
        }
        self.put_chunk(out);
        Ok(())
    }

    /// Ends the part.
    ///
    /// # Errors
    /// Those of the compression.
    pub fn end_part(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Some((encoder, hash, length)) = self.part.take() else { return Ok(()) };
        encoder.finish(&mut self.compressed)?;
        self.put_chunk(out);
        self.put(&0_u32.to_le_bytes(), out);
        self.put(&length.to_le_bytes(), out);
        self.put(&hash.digest128().to_le_bytes(), out);
        Ok(())
    }

    /// Ends the file.
    pub fn end(mut self, end: SnapshotEnd, out: &mut Vec<u8>) {
        self.put(&[END], out);
        for number in end {
            self.put(&number.to_le_bytes(), out);
        }
        let sum = self.all.digest128();
        out.extend_from_slice(&sum.to_le_bytes());
    }

    fn put_chunk(&mut self, out: &mut Vec<u8>) {
        let mut compressed = std::mem::take(&mut self.compressed);
        for chunk in compressed.chunks(CHUNK_BYTES_MAX) {
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            self.put(&length.to_le_bytes(), out);
            self.put(chunk, out);
        }
        compressed.clear();
        self.compressed = compressed;
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.all.update(bytes);
        out.extend_from_slice(bytes);
    }
}

/// Reads a snapshot.
pub struct SnapshotReader<R: Read> {
    input: Summed<R>,
    end: Option<SnapshotEnd>,
}

/// What is read, with its checksum.
struct Summed<R> {
    input: R,
    sum: Xxh3,
}

impl<R: Read> Summed<R> {
    fn exactly<const BYTES: usize>(&mut self) -> io::Result<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        self.input.read_exact(&mut bytes).map_err(cut_off)?;
        self.sum.update(&bytes);
        Ok(bytes)
    }
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// It is something else, such as a snapshot of RavenDB; those of reading.
    pub fn open(input: R) -> io::Result<SnapshotReader<R>> {
        let mut input = Summed { input, sum: Xxh3::new() };
        let head: [u8; HEAD_BYTES] = input.exactly()?;
        if head.starts_with(&ZIP_MAGIC) {
            let text = "it is a snapshot of RavenDB, with files of its storage engine, which only RavenDB reads. Make a \
                        backup of the type Backup there and restore that, or export the database";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        if !head.starts_with(&MAGIC) {
            return Err(damaged("it is no snapshot of a database"));
        }
        if head[MAGIC.len()..] != VERSION.to_le_bytes() {
            let text = "it is a snapshot in a format that this version does not know";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(SnapshotReader { input, end: None })
    }

    /// Goes to the next part, after the one before was read to its end; `None` behind the last, where the whole file was
    /// checked.
    ///
    /// # Errors
    /// The file is damaged; those of reading.
    pub fn next_part(&mut self) -> io::Result<Option<SnapshotPart>> {
        match self.input.exactly::<1>()? {
            [1] => Ok(Some(SnapshotPart::Dump)),
            [2] => Ok(Some(SnapshotPart::Pages)),
            [END] => {
                let mut end = [0; 3];
                for number in &mut end {
                    *number = u64::from_le_bytes(self.input.exactly()?);
                }
                let sum = self.input.sum.digest128();
                if self.input.exactly()? != sum.to_le_bytes() {
                    return Err(damaged("its checksum is wrong"));
                }
                if self.input.input.read(&mut [0])? != 0 {
                    return Err(damaged("something follows its end"));
                }
                self.end = Some(end);
                Ok(None)
            }
            _ => Err(damaged("it has a part of an unknown kind")),
        }
    }

    /// What is in the part.
    ///
    /// # Errors
    /// There is no memory for the decompression.
    pub fn part(&mut self) -> io::Result<PartReader<'_, R>> {
        let chunks = Chunks { input: &mut self.input, left: 0, is_over: false };
        let decoder = ZstdDecoder::new(chunks)?.single_frame();
        Ok(PartReader { decoder, sum: Xxh3::new(), length: 0, is_over: false })
    }

    /// Where the image of the pages ends; `None` before the end of the file was read.
    pub fn end(&self) -> Option<SnapshotEnd> {
        self.end
    }
}

/// What is in a part. An end is only reported when the checksum is right.
pub struct PartReader<'r, R: Read> {
    decoder: ZstdDecoder<'static, BufReader<Chunks<'r, R>>>,
    sum: Xxh3,
    length: u64,
    is_over: bool,
}

impl<R: Read> Read for PartReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_over || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.decoder.read(buffer).map_err(cut_off)?;
        self.sum.update(&buffer[..read]);
        self.length += read as u64;
        if read == 0 {
            self.check()?;
            self.is_over = true;
        }
        Ok(read)
    }
}

impl<R: Read> PartReader<'_, R> {
    fn check(&mut self) -> io::Result<()> {
        let buffered = self.decoder.get_mut();
        if !buffered.buffer().is_empty() || buffered.get_mut().read(&mut [0])? != 0 {
            return Err(damaged("something follows the end of a part"));
        }
        let chunks = buffered.get_mut();
        let length = u64::from_le_bytes(chunks.input.exactly()?);
        let sum = u128::from_le_bytes(chunks.input.exactly()?);
        match (length, sum) == (self.length, self.sum.digest128()) {
            true => Ok(()),
            false => Err(damaged("the checksum of a part is wrong")),
        }
    }
}

/// The chunks of a part as a stream.
struct Chunks<'r, R> {
    input: &'r mut Summed<R>,
    /// Bytes left of the chunk.
    left: usize,
    is_over: bool,
}

impl<R: Read> Read for Chunks<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.left = u32::from_le_bytes(self.input.exactly()?) as usize;
            self.is_over = self.left == 0;
            if CHUNK_BYTES_MAX < self.left {
                return Err(damaged("a chunk of it is too long"));
            }
        }
        let wanted = self.left.min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.input.input.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(cut_off(io::ErrorKind::UnexpectedEof.into()));
        }
        self.input.sum.update(&buffer[..read]);
        self.left -= read;
        Ok(read)
    }
}

fn cut_off(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
        _ => error,
    }
}

fn damaged(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[(SnapshotPart, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = SnapshotWriter::begin(&mut out);
        for (part, bytes) in parts {
            writer.begin_part(*part, &mut out).unwrap();
            for piece in bytes.chunks(70_000) {
                writer.write(piece, &mut out).unwrap();
            }
            writer.end_part(&mut out).unwrap();
        }
        writer.end([1, 2, 3], &mut out);
        out
    }

    type Parts = Vec<(SnapshotPart, Vec<u8>)>;

    fn read(file: &[u8]) -> io::Result<(Parts, SnapshotEnd)> {
        let mut reader = SnapshotReader::open(file)?;
        let mut parts = Vec::new();
        while let Some(part) = reader.next_part()? {
            let mut bytes = Vec::new();
            reader.part()?.read_to_end(&mut bytes)?;
            parts.push((part, bytes));
        }
        Ok((parts, reader.end().unwrap()))
    }

    fn sample() -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Half of it cannot be compressed.
            if state & 0x10_0000 == 0 { 0 } else { (state >> 24) as u8 }
        };
        (0..400_000).map(|_| next()).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let pages = sample();
        let parts: [(SnapshotPart, &[u8]); 2] =
            [(SnapshotPart::Dump, b"{}"), (SnapshotPart::Pages, &pages)];
        let (found, end) = read(&written(&parts)).unwrap();
        assert_eq!(end, [1, 2, 3]);
        assert_eq!(found.len(), 2);
        for ((part, bytes), (kind, expected)) in found.iter().zip(parts) {
            assert!(*part == kind && *bytes == expected);
        }
        assert!(read(&written(&[])).unwrap().0.is_empty());
    }

    #[test]
    fn damage_is_found_wherever_it_is() {
        let pages = &sample()[..3000];
        let file = written(&[(SnapshotPart::Dump, b"{\"a\":1}"), (SnapshotPart::Pages, pages)]);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged).is_err(), "a flip at {at} goes unnoticed");
            assert!(read(&file[..at]).is_err(), "a cut at {at} goes unnoticed");
        }
        let longer = [&file[..], b"x"].concat();
        assert!(read(&longer).unwrap_err().to_string().contains("follows its end"));
    }

    #[test]
    fn a_snapshot_of_ravendb_is_recognised() {
        let error = read(b"PK\x03\x04aaaaaaaaaaaaaaaa").unwrap_err();
        assert!(error.to_string().contains("a snapshot of RavenDB"), "{error}");
        let error = read(b"CORVSNAP\x02\0\0\0aaaaaaaaaaaaa").unwrap_err();
        assert!(error.to_string().contains("in a format that this version"), "{error}");
        assert!(read(b"{}").is_err());
    }
}
