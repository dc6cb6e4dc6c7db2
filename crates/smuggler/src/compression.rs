//! How the text of a dump is compressed: Zstandard, gzip, or not at all; the first bytes of a file say which.
//!
//! Writers compress from memory to memory. A reader pulls, so that a short file which would decompress to very
//! much is never held as a whole.

use std::io::{self, BufReader, Chain, Cursor, Read, Write};

use flate2::{read::MultiGzDecoder, write::GzEncoder};
use zstd::stream::{read::Decoder as ZstdDecoder, write::Encoder as ZstdEncoder};

/// The first bytes of a Zstandard frame.
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a gzip member.
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The level of Zstandard: as fast as a disk, at half the size that gzip reaches.
const ZSTD_LEVEL: i32 = 1;
/// Windows of Zstandard up to 128 MB are read; RavenDB writes 2 MB.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How the text of a dump is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DumpCompression {
    /// Zstandard, with a checksum of the text.
    #[default]
    Zstd,
    /// gzip.
    Gzip,
}

/// Compresses the text of a dump piece by piece.
pub enum DumpEncoder {
    /// By Zstandard.
    Zstd(ZstdEncoder<'static, Vec<u8>>),
    /// By gzip.
    Gzip(GzEncoder<Vec<u8>>),
}

impl DumpEncoder {
    /// An encoder that has compressed nothing.
    ///
    /// # Errors
    /// There is no memory for its state.
    pub fn new(compression: DumpCompression) -> io::Result<DumpEncoder> {
        Ok(match compression {
            DumpCompression::Gzip => {
                DumpEncoder::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::fast()))
            }
            DumpCompression::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                DumpEncoder::Zstd(encoder)
            }
        })
    }

    /// Compresses more of the text, and appends what is ready.
    ///
    /// # Errors
    /// Those of the library.
    pub fn write(&mut self, text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let ready = match self {
            DumpEncoder::Gzip(encoder) => {
                encoder.write_all(text)?;
                encoder.get_mut()
            }
            DumpEncoder::Zstd(encoder) => {
                encoder.write_all(text)?;
                encoder.get_mut()
            }
        };
        out.append(ready);
        Ok(())
    }

    /// Appends the end of the file.
    ///
    /// # Errors
    /// Those of the library.
    pub fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = match self {
            DumpEncoder::Gzip(encoder) => encoder.finish(),
            DumpEncoder::Zstd(encoder) => encoder.finish(),
        }?;
        out.append(&mut rest);
        Ok(())
    }
}

/// Reads the text of a dump from its file. RavenDB does not end its frames, so a file that ends inside one is read as
/// far as it goes: whether it is complete is decided by its text.
pub struct DumpText<R: Read>(Text<R>);

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

enum Text<R: Read> {
    Zstd(ZstdDecoder<'static, BufReader<Whole<R>>>),
    Gzip(MultiGzDecoder<Whole<R>>),
    Plain(Whole<R>),
}

impl<R: Read> DumpText<R> {
    /// Reads the first bytes, which say how the file is compressed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn open(mut file: R) -> io::Result<DumpText<R>> {
        let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
        (&mut file).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head)?;
        let (is_zstd, is_gzip) = (head == ZSTD_MAGIC, head.starts_with(&GZIP_MAGIC));
        let whole = Cursor::new(head).chain(file);
        Ok(DumpText(match (is_zstd, is_gzip) {
            (true, _) => {
                let mut decoder = ZstdDecoder::new(whole)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Text::Zstd(decoder)
            }
            (_, true) => Text::Gzip(MultiGzDecoder::new(whole)),
            _ => Text::Plain(whole),
        }))
    }
}

impl<R: Read> Read for DumpText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.0 {
            Text::Zstd(decoder) => decoder.read(buffer),
            Text::Gzip(decoder) => decoder.read(buffer),
            Text::Plain(file) => file.read(buffer),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(compression: DumpCompression, text: &[u8]) -> Vec<u8> {
        let (mut encoder, mut out) = (DumpEncoder::new(compression).unwrap(), Vec::new());
        for piece in text.chunks(7) {
            encoder.write(piece, &mut out).unwrap();
        }
        encoder.finish(&mut out).unwrap();
        out
    }

    fn read(file: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        DumpText::open(file)?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn the_first_bytes_say_how_a_file_is_compressed() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
        for compression in [DumpCompression::Zstd, DumpCompression::Gzip] {
            let file = compressed(compression, &text);
            assert!(file.len() < text.len());
            assert!(read(&file).unwrap() == text, "{compression:?}");
        }
        for text in [&b"{\"Docs\":[]}"[..], b"", b"{", b"\x28\xb5\x2f"] {
            assert_eq!(read(text).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_is_cut_is_read_as_far_as_it_goes() {
        let text = vec![b'a'; 1 << 20];
        for compression in [DumpCompression::Zstd, DumpCompression::Gzip] {
            let file = compressed(compression, &text);
            let read = read(&file[..file.len() - 5]).unwrap();
            assert!(text.starts_with(&read), "{compression:?}");
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error() {
        let text: Vec<u8> =
            (0..20_000u32).flat_map(|n| n.wrapping_mul(7919).to_le_bytes()).collect();
        for compression in [DumpCompression::Zstd, DumpCompression::Gzip] {
            let file = compressed(compression, &text);
            let mut undetected = 0;
            for at in (12..file.len()).step_by(file.len() / 50) {
                let mut damaged = file.clone();
                damaged[at] ^= 4;
                undetected += usize::from(
                    read(&damaged).is_ok_and(|read| read != text && read.len() == text.len()),
                );
            }
            assert_eq!(undetected, 0, "{compression:?}");
        }
    }
}
