//! Compressed bodies: undoing what clients did to requests, and doing to answers what they asked for.
//!
//! Invariant: decompression never makes more than it was allowed to, whatever the input claims.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::{Compression, read::DeflateDecoder, read::MultiGzDecoder, write::GzEncoder};
use http::{HeaderMap, header};
use wire::{ErrorKind, ProtocolError};

/// Smaller bodies are sent as they are: compressing them costs more than it saves.
const COMPRESS_BYTES_MIN: usize = 1024;

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
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Coding, ProtocolError> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Coding::Plain) };
        let name = value.to_str().unwrap_or("").trim().to_ascii_lowercase();
        match name.as_str() {
            "" | "identity" => Ok(Coding::Plain),
            "gzip" | "x-gzip" => Ok(Coding::Gzip),
            "deflate" => Ok(Coding::Deflate),
            "zstd" => Ok(Coding::Zstd),
            unknown => Err(ProtocolError::new(
                ErrorKind::BadRequest,
                format!(
                    "The content encoding '{unknown}' is not supported. Use gzip, zstd or none."
                ),
            )),
        }
    }

    /// Undoes the coding of a whole body, which may then have `bytes_max` bytes.
    pub(crate) fn decode(self, body: Bytes, bytes_max: u64) -> Result<Bytes, ProtocolError> {
        match self {
            Coding::Plain => Ok(body),
            Coding::Gzip => read_limited(MultiGzDecoder::new(&body[..]), bytes_max),
            Coding::Deflate => read_limited(DeflateDecoder::new(&body[..]), bytes_max),
            Coding::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(&body[..]);
                read_limited(decoder.map_err(|error| undecodable(&error))?, bytes_max)
            }
        }
    }

    /// Undoes the coding of a body that arrives in pieces.
    pub(crate) fn stream_decoder(self) -> Result<StreamDecoder, ProtocolError> {
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

fn read_limited(reader: impl Read, bytes_max: u64) -> Result<Bytes, ProtocolError> {
    let mut decoded = Vec::new();
    let read = reader.take(bytes_max.saturating_add(1)).read_to_end(&mut decoded);
    let count = read.map_err(|error| undecodable(&error))?;
    if count as u64 > bytes_max {
        return Err(body_too_large(bytes_max));
    }
    Ok(Bytes::from(decoded))
}

fn undecodable(error: &io::Error) -> ProtocolError {
    let message = format!("The body is not compressed as its header says: {error}");
    ProtocolError::new(ErrorKind::InvalidData, message)
}

/// The error for a body that is longer than allowed.
pub(crate) fn body_too_large(bytes_max: u64) -> ProtocolError {
    let message = format!(
        "The body of the request exceeds {bytes_max} bytes; the limit is the setting \
         Http.MaxRequestBodySizeInMb"
    );
    ProtocolError::new(ErrorKind::RequestTooLarge, message)
}

/// Decodes a body piece by piece.
pub(crate) enum StreamDecoder {
    Plain(Vec<u8>),
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Deflate(flate2::write::DeflateDecoder<Vec<u8>>),
    Zstd(zstd::stream::write::Decoder<'static, Vec<u8>>),
}

impl StreamDecoder {
    /// Takes a piece and gives what could be decoded so far.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, ProtocolError> {
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

/// Whether the client takes gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().any(|value| {
        value.to_str().unwrap_or("").split(',').any(|part| {
            let mut words = part.split(';').map(str::trim);
            let named = words.next().is_some_and(|word| word.eq_ignore_ascii_case("gzip"));
            named && !words.any(|word| matches!(word, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
    })
}

/// The body compressed, if that is worth it.
pub(crate) fn gzip_whole(body: &[u8], level: Compression) -> Option<Bytes> {
    if body.len() < COMPRESS_BYTES_MIN {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 2), level);
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Compresses a body piece by piece, so that the client can read each piece as it comes.
pub(crate) struct GzipStream(GzEncoder<Vec<u8>>);

impl GzipStream {
    pub(crate) fn new(level: Compression) -> GzipStream {
        GzipStream(GzEncoder::new(Vec::new(), level))
    }

    /// Takes a piece and gives its compressed form.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(Bytes::from(std::mem::take(self.0.get_mut())))
    }

    /// Takes the last piece and gives the end of the compressed body.
    pub(crate) fn finish(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        self.0.write_all(piece)?;
        self.0.try_finish()?;
        Ok(Bytes::from(std::mem::take(self.0.get_mut())))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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

    #[test]
    fn a_client_gets_gzip_only_when_it_takes_it() {
        let table = [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }

    #[test]
    fn a_streamed_answer_is_one_gzip_body() {
        let mut stream = GzipStream::new(Compression::fast());
        let mut coded = stream.push(b"first ").unwrap().to_vec();
        coded.extend(stream.finish(b"second").unwrap());
        let decoded = Coding::Gzip.decode(Bytes::from(coded), 100).unwrap();
        assert_eq!(&decoded[..], b"first second");
    }
}
