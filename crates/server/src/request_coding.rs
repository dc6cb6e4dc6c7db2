//! Compressed bodies of requests.
//!
//! Invariant: decompression never makes more than it was allowed to, whatever the input claims.

use std::io::{self, Read, Write};

use crate::api_error::ApiError;

use bytes::Bytes;
use flate2::{read::DeflateDecoder, read::MultiGzDecoder};
use http::{HeaderMap, header};
use wire::ErrorKind;
use zstd::stream::raw::Operation as _;

/// What zstd's decoder asks for next when a frame's blocks so far are complete: the header of another.
const ZSTD_BLOCK_HEADER_BYTES: usize = 3;

/// How a body is coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    Plain,
    Gzip,
    Deflate,
    Zstd,
}

impl Coding {
    /// How the body of a request is coded, as its headers say.
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

    /// Undoes the coding of a whole body, which may then have `bytes_max` bytes.
    pub(crate) fn decode(self, body: Bytes, bytes_max: u64) -> Result<Bytes, ApiError> {
        match self {
            Coding::Plain => Ok(body),
            Coding::Gzip => read_limited(MultiGzDecoder::new(&body[..]), bytes_max),
            Coding::Deflate => read_limited(DeflateDecoder::new(&body[..]), bytes_max),
            Coding::Zstd => decode_zstd(&body, bytes_max),
        }
    }

    /// Undoes the coding of a body that arrives in pieces.
    pub(crate) fn stream_decoder(self) -> Result<StreamDecoder, ApiError> {
        Ok(match self {
            Coding::Plain => StreamDecoder::Plain(Vec::new()),
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

fn read_limited(reader: impl Read, bytes_max: u64) -> Result<Bytes, ApiError> {
    let mut decoded = Vec::new();
    let read = reader.take(bytes_max.saturating_add(1)).read_to_end(&mut decoded);
    let count = read.map_err(|error| undecodable(&error))?;
    if count as u64 > bytes_max {
        return Err(body_too_large(bytes_max));
    }
    Ok(Bytes::from(decoded))
}

/// Decodes a body of zstd frames.
///
/// The last frame may lack its last block when the body ends between two blocks: the .NET client of
/// version 7 flushes its frames and never ends them. A body that is cut inside a block is refused.
fn decode_zstd(body: &[u8], bytes_max: u64) -> Result<Bytes, ApiError> {
    let mut decoder = zstd::stream::raw::Decoder::new().map_err(|error| undecodable(&error))?;
    let mut input = body;
    let mut decoded = Vec::new();
    let mut piece = vec![0; zstd::zstd_safe::DCtx::out_size()];
    loop {
        let status = decoder.run_on_buffers(input, &mut piece);
        let status = status.map_err(|error| undecodable(&error))?;
        decoded.extend_from_slice(&piece[..status.bytes_written]);
        if decoded.len() as u64 > bytes_max {
            return Err(body_too_large(bytes_max));
        }
        input = &input[status.bytes_read..];
        if input.is_empty() && status.bytes_written < piece.len() {
            return match status.remaining {
                0 | ZSTD_BLOCK_HEADER_BYTES => Ok(Bytes::from(decoded)),
                _ => Err(undecodable(&io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the last zstd frame is incomplete",
                ))),
            };
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
    Plain(Vec<u8>),
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Deflate(flate2::write::DeflateDecoder<Vec<u8>>),
    Zstd(zstd::stream::write::Decoder<'static, Vec<u8>>),
}

impl StreamDecoder {
    /// Takes a piece and returns what could be decoded so far.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, ApiError> {
        let decoded = match self {
            StreamDecoder::Plain(out) => {
                out.extend_from_slice(piece);
                Ok(std::mem::take(out))
            }
            StreamDecoder::Gzip(decoder) => write_through(decoder, piece, |d| d.get_mut()),
            StreamDecoder::Deflate(decoder) => write_through(decoder, piece, |d| d.get_mut()),
            StreamDecoder::Zstd(decoder) => write_through(decoder, piece, |d| d.get_mut()),
        };
        decoded.map_err(|error| undecodable(&error))
    }
}

fn write_through<W: Write>(
    decoder: &mut W,
    piece: &[u8],
    out: impl Fn(&mut W) -> &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    decoder.write_all(piece)?;
    decoder.flush()?;
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

    #[test]
    fn whole_bodies_are_decoded_up_to_the_limit_and_no_further() {
        let zeros = vec![0; 100_000];
        let coded = Bytes::from(gzip(&zeros));
        assert!(coded.len() < 1000);
        assert_eq!(Coding::Gzip.decode(coded.clone(), 100_000).unwrap(), zeros);
        let error = Coding::Gzip.decode(coded, 99_999).unwrap_err();
        assert_eq!(error.kind, ErrorKind::RequestTooLarge);
        let coded = Bytes::from(zstd::encode_all(&zeros[..], 1).unwrap());
        assert_eq!(Coding::Zstd.decode(coded, 100_000).unwrap(), zeros);
    }

    #[test]
    fn a_body_that_is_not_what_its_header_says_is_invalid_data() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let error = coding.decode(Bytes::from_static(b"{\"a\":1}"), 1000).unwrap_err();
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
            let decoded = Coding::Zstd.decode(Bytes::copy_from_slice(&flushed[..end]), 100_000);
            match decoded {
                Ok(decoded) if end == flushed.len() => assert_eq!(decoded, text),
                Ok(decoded) if end == first => assert_eq!(decoded, text[..5000]),
                Ok(decoded) => assert!(decoded.is_empty() && end < first, "cut at {end}"),
                Err(error) => assert_eq!(error.kind, ErrorKind::InvalidData),
            }
        }
        let error = Coding::Zstd.decode(Bytes::from(flushed), 7999).unwrap_err();
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
                decoded.extend(decoder.push(&[byte]).unwrap());
            }
            assert_eq!(decoded, text, "{coding:?}");
        }
    }
}
