//! The file of an import: its encryption, if the client has its key, and how it is compressed, which its first bytes say.

use bytes::{Bytes, BytesMut};
use security::SecretKey;
use smuggler::{DumpDecryptor, GZIP_MAGIC, WrongKey, ZSTD_MAGIC};
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    http::request_coding::{Coding, StreamDecoder},
};

/// Decrypts and decompresses a file piece by piece.
pub(super) struct DumpFile {
    decryptor: Option<DumpDecryptor>,
    /// The first bytes, until there are enough to decide.
    head: BytesMut,
    decoder: Option<StreamDecoder>,
}

impl DumpFile {
    /// A file of which nothing has arrived.
    pub(super) fn of(key: Option<&SecretKey>) -> DumpFile {
        let decryptor = key.map(|key| DumpDecryptor::new(&key.0));
        DumpFile { decryptor, head: BytesMut::new(), decoder: None }
    }

    /// Takes a piece of the file. Call [`DumpFile::next`] until it returns nothing.
    pub(super) fn add(&mut self, piece: &Bytes, is_last: bool) -> Result<Bytes, ApiError> {
        let Some(decryptor) = &mut self.decryptor else { return self.add_plain(piece, is_last) };
        let mut plain = Vec::with_capacity(piece.len());
        let written = decryptor.write(piece, &mut plain);
        let written = match is_last {
            true => written.and_then(|()| decryptor.finish(&mut plain)),
            false => written,
        };
        written.map_err(wrong_key)?;
        self.add_plain(&plain.into(), is_last)
    }

    fn add_plain(&mut self, piece: &Bytes, is_last: bool) -> Result<Bytes, ApiError> {
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

fn wrong_key(error: WrongKey) -> ApiError {
    ApiError::new(ErrorKind::InvalidData, format!("The file cannot be decrypted: {error}."))
}
