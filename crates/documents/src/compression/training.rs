//! Making a dictionary from a sample of a collection's documents.
//!
//! Training takes up to a second or so, so it runs on a snapshot, outside the writer, which only
//! stores the result. Part of the sample is held out, to measure the dictionary on documents that
//! it was not trained on; one that is no better than the current dictionary is discarded.

use model::Etag;
use storage::Transaction;
use zstd::dict::from_continuous;

use super::{
    coder,
    dictionary::{self, DICTIONARIES_MAX, Dictionary, DictionaryFacts, DictionaryName},
};
use crate::{
    collections::collection_numbered,
    error::DocumentError,
    log::{self, EntryKind, LogEntry},
    schema,
    write::DocumentWriter,
};

/// The maximum sample size; a larger sample does not improve a dictionary of this size.
const SAMPLE_BYTES_MAX: usize = 2 << 20;
/// Only the beginning of a document is sampled.
const DOCUMENT_BYTES_MAX: usize = 16 << 10;
const SAMPLE_DOCUMENTS_MAX: usize = 16 << 10;
/// The number of positions in the collection's log from which the sample is taken.
const PLACES: u64 = 32;
const DICTIONARY_BYTES_MAX: usize = 32 << 10;
/// One in this many documents is held out of the training.
const LEFT_OUT: usize = 8;
/// A new dictionary must save at least this much, in permille of the size with the old one.
const BETTER_PERMILLE: u64 = 50;
/// Where a trained dictionary holds its id. It is set to zero, because frames would repeat it, and
/// rows name their dictionary anyway.
const ID_AT: std::ops::Range<usize> = 4..8;

/// A dictionary to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedDictionary {
    facts: DictionaryFacts,
    bytes: Vec<u8>,
}

impl TrainedDictionary {
    /// Bytes of the dictionary.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Default)]
struct Sample {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl Sample {
    fn add(&mut self, document: &[u8]) {
        let document = &document[..document.len().min(DOCUMENT_BYTES_MAX)];
        self.bytes.extend_from_slice(document);
        self.sizes.push(document.len());
    }

    fn documents(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.sizes.iter().map(move |size| {
            let (document, behind) = rest.split_at(*size);
            rest = behind;
            document
        })
    }

    /// The compressed size with a dictionary, in permille.
    fn left_permille(&self, dictionary: Option<Dictionary<'_>>) -> u64 {
        let (mut frame, mut left) = (Vec::new(), 0);
        for document in self.documents() {
            let is_smaller = coder::compress(dictionary, document, &mut frame);
            left += if is_smaller { frame.len().min(document.len()) } else { document.len() };
        }
        1000 * left as u64 / self.bytes.len().max(1) as u64
    }
}

/// Trains the next dictionary of a collection. `None` when it would not help.
///
/// # Errors
/// Storage errors; damaged rows.
pub fn train_dictionary(
    tx: &impl Transaction,
    collection: u32,
) -> Result<Option<TrainedDictionary>, DocumentError> {
    let newest = dictionary::newest(tx, collection)?;
    let number = newest.map_or(1, |newest| newest.name.number + 1);
    if DICTIONARIES_MAX < number {
        return Ok(None);
    }
    let (known, unknown) = samples(tx, collection)?;
    let bytes_max = DICTIONARY_BYTES_MAX.min(known.bytes.len() / 4);
    // When there is nothing to learn, the library reports an error.
    let Ok(mut bytes) = from_continuous(&known.bytes, &known.sizes, bytes_max) else {
        return Ok(None);
    };
    let Some(id) = bytes.get_mut(ID_AT) else { return Ok(None) };
    id.fill(0);
    let old = newest.and_then(|newest| dictionary::find(tx, newest.name));
    let before = unknown.left_permille(old);
    let after = unknown.left_permille(Some(Dictionary::of(&bytes)));
    if before * (1000 - BETTER_PERMILLE) < after * 1000 {
        return Ok(None);
    }
    let documents = collection_numbered(tx, collection)?.documents;
    let left_permille = u16::try_from(after).unwrap_or(u16::MAX);
    let name = DictionaryName { collection, number };
    let facts = DictionaryFacts { name, left_permille, documents };
    Ok(Some(TrainedDictionary { facts, bytes }))
}

/// Documents to train on, and documents held out to test with.
fn samples(tx: &impl Transaction, collection: u32) -> Result<(Sample, Sample), DocumentError> {
    let log = tx.fixed_tree(&schema::log_of_collection(collection))?;
    let first = log.range(0)?.next().transpose()?.map_or(0, |(etag, _)| etag);
    let last = log.last()?.map_or(0, |(etag, _)| etag);
    let (mut known, mut unknown) = (Sample::default(), Sample::default());
    let (mut taken, mut behind) = (0, Etag(first.saturating_sub(1)));
    for place in 1..=PLACES {
        let share = |all: usize| all * place as usize / PLACES as usize;
        let start = first + (last - first) / PLACES * (place - 1);
        let after = behind.max(Etag(start.saturating_sub(1)));
        for entry in log::read_number(tx, EntryKind::Document, collection, after)? {
            let LogEntry::Document(document) = entry? else { continue };
            behind = document.etag();
            let body = document.body()?;
            let sample = if taken % LEFT_OUT == 0 { &mut unknown } else { &mut known };
            sample.add(body.as_bytes());
            taken += 1;
            let bytes = known.bytes.len() + unknown.bytes.len();
            if share(SAMPLE_DOCUMENTS_MAX) <= taken || share(SAMPLE_BYTES_MAX) <= bytes {
                break;
            }
        }
    }
    Ok((known, unknown))
}

impl DocumentWriter<'_> {
    /// Stores a dictionary, unless another was stored first.
    ///
    /// # Errors
    /// Storage errors.
    pub fn add_dictionary(&mut self, trained: &TrainedDictionary) -> Result<bool, DocumentError> {
        let DictionaryName { collection, number } = trained.facts.name;
        let newest = dictionary::newest(self.tx, collection)?;
        if newest.map_or(0, |newest| newest.name.number) + 1 != number {
            return Ok(false);
        }
        dictionary::store(self.tx, &trained.facts, &trained.bytes)?;
        self.packer.forget(collection);
        Ok(true)
    }
}
