//! Compressed bodies of requests.
//!
//! A few bytes may stand for a gigabyte. Invariant: what decompression produces is small pieces, each
//! of which is charged before the next one is produced, and never more than allowed.

use std::io::{self, Read, Write};

use crate::api_error::ApiError;

use bytes::{Buf as _, Bytes};
use flate2::{read::DeflateDecoder, read::MultiGzDecoder};
use http::{HeaderMap, header};
use wire::ErrorKind;
use zstd::stream::raw::Operation as _;

/// What zstd's decoder asks for next when a frame's blocks so far are complete: the header of another.
const ZSTD_BLOCK_HEADER_BYTES: usize = 3;

/// Approximate size of a decoded piece. What is pending in a decoder may add a block of up to 128 KB.
const DECODED_PIECE_BYTES: usize = 64 << 10;

/// The coding of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    Plain,
    Gzip,
    Deflate,
    Zstd,
}

/// Only `chunked` is decoded: with another coding as well, the body would be taken for what it is not.
///
/// # Errors
/// Another transfer coding is named.
pub(crate) fn check_transfer_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut values = headers.get_all(header::TRANSFER_ENCODING).iter();
    if values.all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Ok(());
    }
    let message = "The only transfer encoding that is supported is 'chunked'. Name the compression of \
                   a body in the header Content-Encoding instead.";
    Err(ApiError::new(ErrorKind::BadRequest, message))
}

impl Coding {
    /// The coding of the body of a request, according to its headers.
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Coding, ApiError> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Coding::Plain) };
        let name = value.to_str().unwrap_or("").trim().to_ascii_lowercase();
        match name.as_str() {
            "" | "identity" => Ok(Coding::Plain),
            "gzip" | "x-gzip" => Ok(Coding::Gzip),
            "deflate" => Ok(Coding::Deflate),
            "zstd" => Ok(Coding::Zstd),
            unknown => Err(ApiError::new(
                ErrorKind::BadRequest,
                format!(
                    "The content encoding '{unknown}' is not supported. Use gzip, zstd or none."
                ),
            )),
        }
    }

    /// Decodes a whole body, which may have at most `bytes_max` bytes then. `charge` is called before
    /// its buffer grows, with the new size.
    pub(crate) fn decode(
        self,
        body: Bytes,
        bytes_max: u64,
        charge: impl FnMut(u64) -> Result<(), ApiError>,
    ) -> Result<Bytes, ApiError> {
        let decoded = Decoded { text: Vec::new(), bytes_max, charge };
        match self {
            Coding::Plain => Ok(body),
            Coding::Gzip => decoded.read_all(MultiGzDecoder::new(&body[..])),
            Coding::Deflate => decoded.read_all(DeflateDecoder::new(&body[..])),
            Coding::Zstd => decoded.read_zstd(&body),
        }
    }

    /// Decodes a body that arrives in pieces.
    pub(crate) fn stream_decoder(self) -> Result<StreamDecoder, ApiError> {
        Ok(match self {
            Coding::Plain => StreamDecoder::Plain,
            Coding::Gzip => StreamDecoder::Gzip(flate2::write::MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => {
                StreamDecoder::Deflate(flate2::write::DeflateDecoder::new(Vec::new()))
            }
            Coding::Zstd => StreamDecoder::Zstd(
                zstd::stream::write::Decoder::new(Vec::new())
                    .map_err(|error| undecodable(&error))?,
            ),
        })
    }
}

/// The text of a whole body, under construction.
struct Decoded<C> {
    text: Vec<u8>,
    bytes_max: u64,
    charge: C,
}

impl<C: FnMut(u64) -> Result<(), ApiError>> Decoded<C> {
    fn add(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        let length = self.text.len() as u64 + piece.len() as u64;
        if self.bytes_max < length {
            return Err(body_too_large(self.bytes_max));
        }
        self.reserve(length)?;
        self.text.extend_from_slice(piece);
        Ok(())
    }

    /// Makes room for a text of `length` bytes, in steps that keep copying rare, and charges for it.
    fn reserve(&mut self, length: u64) -> Result<(), ApiError> {
        let capacity = self.text.capacity() as u64;
        if length <= capacity {
            return Ok(());
        }
        let capacity = length.max((capacity + capacity / 4).min(self.bytes_max));
        (self.charge)(capacity)?;
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        self.text.reserve_exact(capacity.saturating_sub(self.text.len()));
        Ok(())
    }

    /// The text, without room for more: its length is what is charged from now on.
    fn finish(mut self) -> Bytes {
        self.text.shrink_to_fit();
        Bytes::from(self.text)
    }

    fn read_all(mut self, mut reader: impl Read) -> Result<Bytes, ApiError> {
        let mut piece = vec![0; DECODED_PIECE_BYTES];
        loop {
            match reader.read(&mut piece).map_err(|error| undecodable(&error))? {
                0 => return Ok(self.finish()),
                count => self.add(&piece[..count])?,
            }
        }
    }

    /// Decodes zstd frames.
    ///
    /// The last frame may lack its last block when the body ends between two blocks: the .NET client of
    /// version 7 flushes its frames and never ends them. A body that is truncated inside a block is
    /// rejected.
    fn read_zstd(mut self, body: &[u8]) -> Result<Bytes, ApiError> {
        let mut decoder = zstd::stream::raw::Decoder::new().map_err(|error| undecodable(&error))?;
        let mut input = body;
        let mut piece = vec![0; zstd::zstd_safe::DCtx::out_size()];
        loop {
            let status = decoder.run_on_buffers(input, &mut piece);
            let status = status.map_err(|error| undecodable(&error))?;
            self.add(&piece[..status.bytes_written])?;
            input = &input[status.bytes_read..];
            if input.is_empty() && status.bytes_written < piece.len() {
                return match status.remaining {
                    0 | ZSTD_BLOCK_HEADER_BYTES => Ok(self.finish()),
                    _ => Err(undecodable(&io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the last zstd frame is incomplete",
                    ))),
                };
            }
        }
    }
}

fn undecodable(error: &io::Error) -> ApiError {
    let message = format!("The body is not compressed as its header says: {error}");
    ApiError::new(ErrorKind::InvalidData, message)
}

/// The error for a body that is longer than allowed.
pub(crate) fn body_too_large(bytes_max: u64) -> ApiError {
    let message = format!(
        "The body of the request exceeds {bytes_max} bytes; the limit is the setting \
         Http.MaxRequestBodySizeInMb"
    );
    ApiError::new(ErrorKind::RequestTooLarge, message)
}

/// Decodes a body piece by piece.
pub(crate) enum StreamDecoder {
    Plain,
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Deflate(flate2::write::DeflateDecoder<Vec<u8>>),
    Zstd(zstd::stream::write::Decoder<'static, Vec<u8>>),
}

impl StreamDecoder {
    /// Takes off `coded` what it decodes, until there are about [`DECODED_PIECE_BYTES`] of text or
    /// nothing is left. The text may be empty.
    pub(crate) fn decode(&mut self, coded: &mut Bytes) -> Result<Bytes, ApiError> {
        let decoded = match self {
            StreamDecoder::Plain => return Ok(std::mem::take(coded)),
            StreamDecoder::Gzip(decoder) => write_through(decoder, coded, |d| d.get_mut()),
            StreamDecoder::Deflate(decoder) => write_through(decoder, coded, |d| d.get_mut()),
            StreamDecoder::Zstd(decoder) => write_through(decoder, coded, |d| d.get_mut()),
        };
        decoded.map(Bytes::from).map_err(|error| undecodable(&error))
    }
}

/// One `write` of these decoders appends at most their buffer, and `flush` what is pending in them.
fn write_through<W: Write>(
    decoder: &mut W,
    coded: &mut Bytes,
    out: impl Fn(&mut W) -> &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    while !coded.is_empty() && out(decoder).len() < DECODED_PIECE_BYTES {
        let before = out(decoder).len();
        let read = decoder.write(coded)?;
        if read == 0 && out(decoder).len() == before {
            return Err(io::ErrorKind::WriteZero.into());
        }
        coded.advance(read);
    }
    if coded.is_empty() {
        decoder.flush()?;
    }
    Ok(std::mem::take(out(decoder)))
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn uncharged(_: u64) -> Result<(), ApiError> {
        Ok(())
    }

    /// A body of some hundred bytes for each million.
    fn bombs(zeros: usize) -> [(Coding, Bytes); 3] {
        let zeros = vec![0; zeros];
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&zeros).unwrap();
        [
            (Coding::Gzip, gzip(&zeros).into()),
            (Coding::Deflate, deflate.finish().unwrap().into()),
            (Coding::Zstd, zstd::encode_all(&zeros[..], 19).unwrap().into()),
        ]
    }

    #[test]
    fn no_transfer_coding_but_chunked_is_taken() {
        for (values, is_taken) in [
            (&[][..], true),
            (&["chunked"], true),
            (&[" Chunked "], true),
            (&["gzip, chunked"], false),
            (&["gzip", "chunked"], false),
            (&["identity"], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::TRANSFER_ENCODING, value.parse().unwrap());
            }
            assert_eq!(check_transfer_coding(&headers).is_ok(), is_taken, "{values:?}");
        }
    }

    #[test]
    fn a_refused_charge_ends_the_decoding_of_a_whole_body() {
        for (coding, coded) in bombs(20_000_000) {
            let mut charged = 0;
            let refused = coding.decode(coded, u64::MAX, |bytes| {
                charged = bytes;
                match bytes {
                    ..1_000_000 => Ok(()),
                    _ => Err(body_too_large(1_000_000)),
                }
            });
            assert!(refused.is_err() && charged < 1_400_000, "{coding:?}: {charged} bytes");
        }
    }

    #[test]
    fn decoded_pieces_are_small_whatever_the_coded_ones_stand_for() {
        for (coding, mut coded) in bombs(20_000_000) {
            let (mut decoder, mut total) = (coding.stream_decoder().unwrap(), 0);
            while !coded.is_empty() {
                let piece = decoder.decode(&mut coded).unwrap();
                assert!(piece.len() <= DECODED_PIECE_BYTES + (256 << 10), "{coding:?}");
                total += piece.len();
            }
            assert_eq!(total, 20_000_000, "{coding:?}");
        }
    }

    #[test]
    fn whole_bodies_are_decoded_up_to_the_limit_and_no_further() {
        let zeros = vec![0; 100_000];
        let coded = Bytes::from(gzip(&zeros));
        assert!(coded.len() < 1000);
        assert_eq!(Coding::Gzip.decode(coded.clone(), 100_000, uncharged).unwrap(), zeros);
        let error = Coding::Gzip.decode(coded, 99_999, uncharged).unwrap_err();
        assert_eq!(error.kind, ErrorKind::RequestTooLarge);
        let coded = Bytes::from(zstd::encode_all(&zeros[..], 1).unwrap());
        assert_eq!(Coding::Zstd.decode(coded, 100_000, uncharged).unwrap(), zeros);
    }

    #[test]
    fn a_body_that_is_not_what_its_header_says_is_invalid_data() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let error =
                coding.decode(Bytes::from_static(b"{\"a\":1}"), 1000, uncharged).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidData, "{coding:?}");
        }
    }

    #[test]
    fn a_zstd_frame_may_end_after_any_block_but_not_inside_one() {
        let text: Vec<u8> =
            (0..2000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(&text[..5000]).unwrap();
        encoder.flush().unwrap();
        let first = encoder.get_ref().len();
        encoder.write_all(&text[5000..]).unwrap();
        encoder.flush().unwrap();
        let flushed = encoder.get_ref().clone();
        for end in 0..=flushed.len() {
            let decoded =
                Coding::Zstd.decode(Bytes::copy_from_slice(&flushed[..end]), 100_000, uncharged);
            match decoded {
                Ok(decoded) if end == flushed.len() => assert_eq!(decoded, text),
                Ok(decoded) if end == first => assert_eq!(decoded, text[..5000]),
                Ok(decoded) => assert!(decoded.is_empty() && end < first, "cut at {end}"),
                Err(error) => assert_eq!(error.kind, ErrorKind::InvalidData),
            }
        }
        let error = Coding::Zstd.decode(Bytes::from(flushed), 7999, uncharged).unwrap_err();
        assert_eq!(error.kind, ErrorKind::RequestTooLarge);
    }

    #[test]
    fn a_coded_body_can_be_decoded_byte_by_byte() {
        let text = b"one piece after the other, until all of it is there".repeat(50);
        for (coding, coded) in
            [(Coding::Gzip, gzip(&text)), (Coding::Zstd, zstd::encode_all(&text[..], 1).unwrap())]
        {
            let mut decoder = coding.stream_decoder().unwrap();
            let mut decoded = Vec::new();
            for byte in coded {
                let mut coded = Bytes::copy_from_slice(&[byte]);
                decoded.extend(decoder.decode(&mut coded).unwrap());
                assert!(coded.is_empty());
            }
            assert_eq!(decoded, text, "{coding:?}");
        }
    }
}
