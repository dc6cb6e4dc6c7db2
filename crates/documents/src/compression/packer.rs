//! Choosing how a body is written.

use std::collections::HashMap;

use storage::Transaction;

use super::{
    body::StoredBody,
    coder,
    dictionary::{self, DictionaryFacts},
    need::Compression,
};
use crate::{collections::CollectionStatistics, error::DocumentError};

/// A smaller body is not worth compressing.
const BODY_BYTES_MIN: usize = 64;

/// The collection of a body.
pub(crate) struct PackedCollection {
    number: u32,
    /// How many documents it has.
    documents: u64,
}

impl From<&CollectionStatistics> for PackedCollection {
    fn from(collection: &CollectionStatistics) -> Self {
        Self { number: collection.number, documents: collection.documents }
    }
}

/// The compression state of a batch's writer.
#[derive(Default)]
pub(crate) struct Packer {
    /// By collection number.
    newest: HashMap<u32, Option<DictionaryFacts>>,
    frame: Vec<u8>,
    /// Collections that need a dictionary.
    wanted: Vec<u32>,
}

impl Packer {
    /// Encodes the body of a document of a collection in as few bytes as possible.
    pub(crate) fn pack<'a>(
        &'a mut self,
        tx: &impl Transaction,
        compression: &Compression,
        PackedCollection { number: collection, documents }: &PackedCollection,
        body: &'a [u8],
    ) -> Result<StoredBody<'a>, DocumentError> {
        if body.len() < BODY_BYTES_MIN {
            return Ok(StoredBody::Plain(body));
        }
        let (collection, documents) = (*collection, *documents);
        let newest = match self.newest.get(&collection) {
            Some(newest) => *newest,
            None => {
                let newest = dictionary::newest(tx, collection)?;
                *self.newest.entry(collection).or_insert(newest)
            }
        };
        let found = newest.and_then(|newest| dictionary::find(tx, newest.name));
        let number = newest.filter(|_| found.is_some()).map_or(0, |newest| newest.name.number);
        let is_smaller = coder::compress(found, body, &mut self.frame)
            && self.frame.len() + size_of_val(&number) < body.len();
        let stored = match is_smaller {
            true => StoredBody::Compressed { dictionary: number, frame: &self.frame },
            false => StoredBody::Plain(body),
        };
        let stored_bytes = if is_smaller { self.frame.len() } else { body.len() };
        let sizes = (body.len(), stored_bytes);
        if compression.note(collection, sizes, newest.as_ref(), documents)
            && !self.wanted.contains(&collection)
        {
            self.wanted.push(collection);
        }
        Ok(stored)
    }

    /// Discards the cached newest dictionary of a collection.
    pub(crate) fn forget(&mut self, collection: u32) {
        self.newest.remove(&collection);
    }

    /// The numbers of the collections that need a dictionary.
    pub(crate) fn wanted(&self) -> &[u32] {
        &self.wanted
    }
}
