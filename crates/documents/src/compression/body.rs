//! A body as stored in a row.
//!
//! ```text
//! plain        a blittable document
//! compressed   0..2   number of the dictionary, little-endian; 0: none
//!              2..    a frame of Zstandard with the length of the document in its header
//! ```
//!
//! The version of the row tells them apart. Invariant: a body is decompressed on first use, and
//! only once; a plain body costs nothing beyond its own bytes.

use std::sync::OnceLock;

use blittable::{BlittableBuf, Document};

use super::{
    coder,
    dictionary::{Dictionary, DictionaryName},
};
use crate::error::{DocumentError, corrupt};

const NUMBER_BYTES: usize = 2;
/// No document is larger: its length is a 32-bit number.
const DOCUMENT_BYTES_MAX: u64 = u32::MAX as u64;
/// The highest compression ratio of Zstandard; a frame that claims more is damaged.
const RATIO_MAX: u64 = 1 << 17;

/// A body to be written.
#[derive(Clone, Copy)]
pub(crate) enum StoredBody<'a> {
    Plain(&'a [u8]),
    Compressed { dictionary: u16, frame: &'a [u8] },
}

/// A body that was read.
pub(crate) enum Body<'a> {
    Plain(Document<'a>),
    Compressed(Box<CompressedBody<'a>>),
}

pub(crate) struct CompressedBody<'a> {
    name: DictionaryName,
    /// `None`: the row needs a dictionary that is missing.
    dictionary: Option<Dictionary<'a>>,
    frame: &'a [u8],
    document_bytes: usize,
    document: OnceLock<BlittableBuf>,
}

/// Finds the dictionary of a row that is read.
pub(crate) type FindDictionary<'f, 'a> = &'f dyn Fn(DictionaryName) -> Option<Dictionary<'a>>;

impl StoredBody<'_> {
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self, Self::Compressed { .. })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(document) => out.extend_from_slice(document),
            Self::Compressed { dictionary, frame } => {
                out.extend_from_slice(&dictionary.to_le_bytes());
                out.extend_from_slice(frame);
            }
        }
    }
}

impl<'a> Body<'a> {
    pub(crate) fn plain(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        Ok(Self::Plain(Document::new(bytes)?))
    }

    /// The compressed body of a document of a collection.
    pub(crate) fn compressed(
        bytes: &'a [u8],
        collection: u32,
        find: FindDictionary<'_, 'a>,
    ) -> Result<Self, DocumentError> {
        let Some((number, frame)) = bytes.split_first_chunk::<NUMBER_BYTES>() else {
            return Err(corrupt("a compressed document is shorter than its header"));
        };
        let document_bytes = coder::document_bytes(frame)
            .filter(|bytes| {
                *bytes <= DOCUMENT_BYTES_MAX && *bytes / RATIO_MAX <= frame.len() as u64
            })
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or(corrupt("a compressed document has an impossible length"))?;
        let name = DictionaryName { collection, number: u16::from_le_bytes(*number) };
        let dictionary = if name.number == 0 { None } else { find(name) };
        let document = OnceLock::new();
        let body = CompressedBody { name, dictionary, frame, document_bytes, document };
        Ok(Self::Compressed(Box::new(body)))
    }

    /// The same body, not decompressed yet.
    pub(crate) fn unread(&self) -> Body<'a> {
        match self {
            Self::Plain(document) => Self::Plain(*document),
            Self::Compressed(body) => {
                let CompressedBody { name, dictionary, frame, document_bytes, .. } = **body;
                let document = OnceLock::new();
                let body = CompressedBody { name, dictionary, frame, document_bytes, document };
                Self::Compressed(Box::new(body))
            }
        }
    }

    pub(crate) fn document(&self) -> Result<Document<'_>, DocumentError> {
        match self {
            Self::Plain(document) => Ok(*document),
            Self::Compressed(body) => body.document(),
        }
    }

    /// The uncompressed length, in bytes.
    pub(crate) fn document_bytes(&self) -> usize {
        match self {
            Self::Plain(document) => document.as_bytes().len(),
            Self::Compressed(body) => body.document_bytes,
        }
    }

    /// The length in its row, in bytes.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            Self::Plain(document) => document.as_bytes().len(),
            Self::Compressed(body) => NUMBER_BYTES + body.frame.len(),
        }
    }

    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self, Self::Compressed(_))
    }
}

impl CompressedBody<'_> {
    fn document(&self) -> Result<Document<'_>, DocumentError> {
        if let Some(document) = self.document.get() {
            return Ok(document.as_view());
        }
        if self.name.number != 0 && self.dictionary.is_none() {
            let DictionaryName { collection, number } = self.name;
            return Err(DocumentError::DictionaryMissing { collection, number });
        }
        let bytes = coder::decompress(self.dictionary, self.frame, self.document_bytes)
            .ok_or(corrupt("a compressed document cannot be decompressed"))?;
        let document = BlittableBuf::from_bytes(bytes)?;
        Ok(self.document.get_or_init(|| document).as_view())
    }
}
