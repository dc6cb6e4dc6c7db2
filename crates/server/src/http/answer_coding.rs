//! Compression of responses for clients that request it: gzip, deflate (as .NET understands it,
//! without zlib's frame) or zstd.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use bytes::Bytes;
use flate2::{
    Compress, Compression, Crc, FlushCompress, Status,
    write::{DeflateEncoder, GzEncoder},
};
use http::{HeaderMap, HeaderValue, header};
use settings::{CompressionLevel, HttpSettings};

/// How the body of a response is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coding {
    Gzip,
    Deflate,
    Zstd,
}

/// The codings; the first is preferred if a client accepts several equally well.
const CODINGS: [(Coding, &str); 3] =
    [(Coding::Gzip, "gzip"), (Coding::Deflate, "deflate"), (Coding::Zstd, "zstd")];

/// Which codings the settings allow, and their effort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerCompression {
    gzip: Option<Compression>,
    deflate: Option<Compression>,
    zstd: Option<i32>,
    /// A smaller complete body is sent uncompressed.
    bytes_min: usize,
}

impl AnswerCompression {
    /// From the settings. Without any coding, nothing is compressed.
    pub(crate) fn new(settings: &HttpSettings) -> AnswerCompression {
        let is_used = settings.use_response_compression;
        AnswerCompression {
            gzip: deflate_effort(settings.gzip_level).filter(|_| is_used),
            deflate: deflate_effort(settings.deflate_level).filter(|_| is_used),
            zstd: zstd_effort(settings.zstd_level).filter(|_| is_used),
            bytes_min: settings.compressed_response_bytes_min,
        }
    }

    /// The coding for a client that sent these headers: the one with the highest `q`, if it accepts
    /// any.
    pub(crate) fn for_client(&self, headers: &HeaderMap) -> Option<AnswerCoder> {
        let mut best = None;
        let mut best_quality = 0.0;
        for (coding, name) in CODINGS {
            let Some(effort) = self.effort(coding) else { continue };
            let quality = accepted_quality(headers, name);
            if quality > best_quality {
                best_quality = quality;
                best = Some(AnswerCoder { coding, name, effort, bytes_min: self.bytes_min });
            }
        }
        best
    }

    fn effort(&self, coding: Coding) -> Option<i32> {
        let deflate = match coding {
            Coding::Gzip => self.gzip,
            Coding::Deflate => self.deflate,
            Coding::Zstd => return self.zstd,
        };
        // flate2's levels are 0 to 9.
        deflate.map(|effort| effort.level() as i32)
    }
}

fn deflate_effort(level: CompressionLevel) -> Option<Compression> {
    match level {
        CompressionLevel::NoCompression => None,
        CompressionLevel::Fastest => Some(Compression::fast()),
        CompressionLevel::Optimal => Some(Compression::default()),
        CompressionLevel::SmallestSize => Some(Compression::best()),
    }
}

fn zstd_effort(level: CompressionLevel) -> Option<i32> {
    match level {
        CompressionLevel::NoCompression => None,
        CompressionLevel::Fastest => Some(1),
        CompressionLevel::Optimal => Some(zstd::DEFAULT_COMPRESSION_LEVEL),
        // Higher levels take tens of megabytes for each response.
        CompressionLevel::SmallestSize => Some(12),
    }
}

/// The quality value of a coding, 0 to 1 (RFC 9110, 12.5.3); 0 if the client does not accept it.
pub(crate) fn accepted_quality(headers: &HeaderMap, name: &str) -> f32 {
    let mut any = 0.0;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for part in value.to_str().unwrap_or("").split(',') {
            let mut words = part.split(';').map(str::trim);
            let coding = words.next().unwrap_or("");
            let quality =
                words.find_map(|word| word.strip_prefix("q=")).map_or(Some(1.0), |text| {
                    text.trim().parse().ok().filter(|quality| (0.0..=1.0).contains(quality))
                });
            let quality = quality.unwrap_or(0.0);
            if coding.eq_ignore_ascii_case(name) {
                return quality;
            }
            if coding == "*" {
                any = quality;
            }
        }
    }
    any
}

/// The negotiated compression of one response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerCoder {
    coding: Coding,
    name: &'static str,
    effort: i32,
    bytes_min: usize,
}

impl AnswerCoder {
    /// The value of `Content-Encoding`.
    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_static(self.name)
    }

    /// A complete body, compressed, if that makes it smaller.
    pub(crate) fn whole(&self, body: &[u8]) -> Option<Bytes> {
        if body.len() < self.bytes_min {
            return None;
        }
        let compressed = match self.coding {
            Coding::Gzip => gzip(body, self.effort),
            Coding::Deflate => deflated(body, Vec::new(), self.effort),
            Coding::Zstd => zstd::bulk::compress(body, self.effort).ok(),
        };
        compressed.map(Bytes::from)
    }

    /// Starts a body that is compressed piece by piece.
    ///
    /// # Errors
    ///
    /// If there is not enough memory for the compressor's state.
    pub(crate) fn stream(&self) -> io::Result<CodedStream> {
        let deflate = Compression::new(self.effort.unsigned_abs());
        Ok(CodedStream(match self.coding {
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), deflate)),
            Coding::Deflate => Encoder::Deflate(DeflateEncoder::new(Vec::new(), deflate)),
            Coding::Zstd => {
                Encoder::Zstd(zstd::stream::write::Encoder::new(Vec::new(), self.effort)?)
            }
        }))
    }
}

/// The body in gzip's format (RFC 1952).
fn gzip(body: &[u8], effort: i32) -> Option<Vec<u8>> {
    // Deflate, no flags, no time, no hint about the effort, an unknown operating system.
    const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut compressed = deflated(body, HEAD.to_vec(), effort)?;
    let mut checksum = Crc::new();
    checksum.update(body);
    compressed.extend_from_slice(&checksum.sum().to_le_bytes());
    compressed.extend_from_slice(&checksum.amount().to_le_bytes());
    Some(compressed)
}

/// Appends the compressed body to `out`.
///
/// Most responses are small, and most of the cost of a small one would be the allocation of the
/// compressor's state, some 300 KB: each thread reuses one.
fn deflated(body: &[u8], mut out: Vec<u8>, effort: i32) -> Option<Vec<u8>> {
    thread_local! {
        static STATE: RefCell<Option<(i32, Compress)>> = const { RefCell::new(None) };
    }
    STATE.with_borrow_mut(|state| {
        let state = match state {
            Some((made_for, state)) if *made_for == effort => {
                state.reset();
                state
            }
            _ => {
                let new = Compress::new(Compression::new(effort.unsigned_abs()), false);
                &mut state.insert((effort, new)).1
            }
        };
        out.reserve(body.len() / 2 + 64);
        loop {
            // The state is fresh, so its total input is what was consumed of this body.
            let taken = usize::try_from(state.total_in()).ok()?;
            match state.compress_vec(body.get(taken..)?, &mut out, FlushCompress::Finish).ok()? {
                Status::StreamEnd => return Some(out),
                Status::Ok | Status::BufError => out.reserve(out.capacity().max(64)),
            }
        }
    })
}

/// Compresses a body piece by piece, so that the client can read each piece when it arrives.
pub(crate) struct CodedStream(Encoder);

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(DeflateEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl CodedStream {
    /// Takes a piece and returns its compressed form.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        self.write(piece)?;
        match &mut self.0 {
            Encoder::Gzip(encoder) => encoder.flush()?,
            Encoder::Deflate(encoder) => encoder.flush()?,
            Encoder::Zstd(encoder) => encoder.flush()?,
        }
        Ok(self.take())
    }

    /// Takes the last piece and returns the end of the compressed body.
    pub(crate) fn finish(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        self.write(piece)?;
        match &mut self.0 {
            Encoder::Gzip(encoder) => encoder.try_finish()?,
            Encoder::Deflate(encoder) => encoder.try_finish()?,
            Encoder::Zstd(encoder) => encoder.do_finish()?,
        }
        Ok(self.take())
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Encoder::Gzip(encoder) => encoder.write_all(piece),
            Encoder::Deflate(encoder) => encoder.write_all(piece),
            Encoder::Zstd(encoder) => encoder.write_all(piece),
        }
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(match &mut self.0 {
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Deflate(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const ALL: AnswerCompression = AnswerCompression {
        gzip: Some(Compression::fast()),
        deflate: Some(Compression::fast()),
        zstd: Some(1),
        bytes_min: 3,
    };

    fn coder(accepted: &str) -> Option<AnswerCoder> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(accepted).unwrap());
        ALL.for_client(&headers)
    }

    fn decode(coding: &str, body: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        match coding {
            "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut decoded),
            "deflate" => flate2::read::DeflateDecoder::new(body).read_to_end(&mut decoded),
            _ => zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut decoded),
        }
        .unwrap();
        decoded
    }

    #[test]
    fn a_client_gets_the_coding_that_it_likes_best() {
        let table = [
            ("gzip", Some("gzip")),
            ("GZIP;q=0.5", Some("gzip")),
            ("gzip, deflate, br", Some("gzip")),
            ("deflate, gzip", Some("gzip")),
            ("deflate;q=1, gzip;q=0.5", Some("deflate")),
            ("zstd", Some("zstd")),
            ("zstd, gzip;q=0.9", Some("zstd")),
            ("*", Some("gzip")),
            ("*;q=0.5, gzip;q=0", Some("deflate")),
            ("gzip;q=0", None),
            ("gzip;q=2", None),
            ("br, identity", None),
            ("", None),
        ];
        for (accepted, expected) in table {
            assert_eq!(coder(accepted).map(|coder| coder.name), expected, "{accepted}");
        }
        let without = AnswerCompression { gzip: None, deflate: None, zstd: None, bytes_min: 3 };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate, zstd"));
        assert!(without.for_client(&headers).is_none());
    }

    #[test]
    fn whole_bodies_are_decoded_to_what_they_were() {
        let mut noise = 1_u32;
        let incompressible: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(300_000)
        .collect();
        for name in ["gzip", "deflate", "zstd"] {
            let coder = coder(name).unwrap();
            assert_eq!(coder.whole(b"ab"), None);
            for body in [&b"abc"[..], &[b'x'; 1_000_000], &incompressible, b"after large ones"] {
                let coded = coder.whole(body).unwrap();
                assert!(decode(name, &coded) == body, "{name}, {} bytes", body.len());
            }
        }
    }

    #[test]
    fn a_stream_is_one_body_of_which_each_piece_can_be_read_as_it_comes() {
        for name in ["gzip", "deflate", "zstd"] {
            let mut stream = coder(name).unwrap().stream().unwrap();
            let mut coded = stream.push(b"first ").unwrap().to_vec();
            let mut first = [0; 6];
            match name {
                "gzip" => flate2::read::GzDecoder::new(&coded[..]).read_exact(&mut first),
                "deflate" => flate2::read::DeflateDecoder::new(&coded[..]).read_exact(&mut first),
                _ => zstd::stream::read::Decoder::new(&coded[..]).unwrap().read_exact(&mut first),
            }
            .unwrap();
            assert_eq!(&first, b"first ", "{name}");
            coded.extend(stream.finish(b"second").unwrap());
            assert_eq!(decode(name, &coded), b"first second", "{name}");
        }
    }
}
