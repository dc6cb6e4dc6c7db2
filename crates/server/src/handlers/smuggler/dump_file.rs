//! The file of an import: how it is compressed, which its first bytes say.

use bytes::{Bytes, BytesMut};
use smuggler::{GZIP_MAGIC, ZSTD_MAGIC};

use crate::{
    api_error::ApiError,
    http::request_coding::{Coding, StreamDecoder},
};

/// Decompresses a file piece by piece.
#[derive(Default)]
pub(super) struct DumpFile {
    /// The first bytes, until there are enough to decide.
    head: BytesMut,
    decoder: Option<StreamDecoder>,
}

impl DumpFile {
    /// Takes a piece of the file. Call [`DumpFile::next`] until it returns nothing.
    pub(super) fn add(&mut self, piece: &Bytes, is_last: bool) -> Result<Bytes, ApiError> {
        if self.decoder.is_some() {
            return Ok(piece.clone());
        }
        self.head.extend_from_slice(piece);
        if self.head.len() < ZSTD_MAGIC.len() && !is_last {
            return Ok(Bytes::new());
        }
        let coding = match () {
            () if self.head.starts_with(&ZSTD_MAGIC) => Coding::Zstd,
            () if self.head.starts_with(&GZIP_MAGIC) => Coding::Gzip,
            () => Coding::Plain,
        };
        self.decoder = Some(coding.stream_decoder()?);
        Ok(self.head.split().freeze())
    }

    /// Decodes some of what was added, and takes it off; the text may be empty.
    pub(super) fn decode(&mut self, coded: &mut Bytes) -> Result<Bytes, ApiError> {
        match &mut self.decoder {
            Some(decoder) => decoder.decode(coded),
            None => Ok(Bytes::new()),
        }
    }
}
