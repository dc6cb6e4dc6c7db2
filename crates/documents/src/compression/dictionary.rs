//! The dictionaries of collections.
//!
//! ```text
//! table Dictionaries
//!   primary   collection (4), number (2), copy (1), big-endian -> row
//!
//! row   0      kind, 'Z'
//!       1      version, 1
//!       2..4   not used, 0
//!       4..6   what is left of 1,000 bytes of other documents than it was trained with, little-endian
//!       6..14  documents of the collection when it was trained, little-endian
//!      14..22  hash of the dictionary, XXH3 with 64 bits, little-endian
//!      22..26  number of the collection, big-endian
//!      26..28  number of the dictionary, from 1 on, big-endian
//!      28      which copy, 0 or 1
//!      29..    the dictionary, up to the end of the row
//! ```
//!
//! Many documents depend on one dictionary, so two copies are stored, and either suffices.

use std::{borrow::Cow, collections::BTreeMap, ops::Bound};

use storage::{TableSchema, Transaction, WriteTransaction};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::DocumentError;

/// The maximum number of dictionaries of a collection.
pub const DICTIONARIES_MAX: u16 = 8;

const KIND: u8 = b'Z';
const VERSION: u8 = 1;
const KEY_AT: usize = 22;
const HEADER_BYTES: usize = 29;
const COPIES: u8 = 2;

pub(crate) static DICTIONARIES: TableSchema = TableSchema {
    name: "Dictionaries",
    primary: |row| Cow::Borrowed(row.get(KEY_AT..HEADER_BYTES).unwrap_or_default()),
    fixed: &[],
    indexes: &[],
};

/// Identifies a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DictionaryName {
    pub(crate) collection: u32,
    /// Zero means none.
    pub(crate) number: u16,
}

/// The hash of a dictionary's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DictionaryHash(u64);

#[derive(Clone, Copy)]
pub(crate) struct Dictionary<'a> {
    pub(crate) hash: DictionaryHash,
    pub(crate) bytes: &'a [u8],
}

/// What is stored about a dictionary, besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DictionaryFacts {
    pub(crate) name: DictionaryName,
    /// Compressed size, in permille, of documents that it was not trained on.
    pub(crate) left_permille: u16,
    /// Documents of the collection when it was trained.
    pub(crate) documents: u64,
}

impl<'a> Dictionary<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { hash: DictionaryHash(xxh3_64(bytes)), bytes }
    }
}

/// Stores a new dictionary.
pub(crate) fn store(
    tx: &mut WriteTransaction,
    facts: &DictionaryFacts,
    bytes: &[u8],
) -> Result<(), DocumentError> {
    for copy in 0..COPIES {
        tx.table_mut(&DICTIONARIES).insert_new(&row(facts, bytes, copy))?;
    }
    Ok(())
}

fn row(facts: &DictionaryFacts, bytes: &[u8], copy: u8) -> Vec<u8> {
    let mut row = Vec::with_capacity(HEADER_BYTES + bytes.len());
    row.extend_from_slice(&[KIND, VERSION, 0, 0]);
    row.extend_from_slice(&facts.left_permille.to_le_bytes());
    row.extend_from_slice(&facts.documents.to_le_bytes());
    row.extend_from_slice(&Dictionary::of(bytes).hash.0.to_le_bytes());
    row.extend_from_slice(&key(facts.name, copy));
    row.extend_from_slice(bytes);
    row
}

fn key(name: DictionaryName, copy: u8) -> [u8; HEADER_BYTES - KEY_AT] {
    let [a, b, c, d] = name.collection.to_be_bytes();
    let [e, f] = name.number.to_be_bytes();
    [a, b, c, d, e, f, copy]
}

/// Reads a row. The hash is not verified: pages have checksums.
pub(crate) fn read(bytes: &[u8]) -> Result<(DictionaryFacts, Dictionary<'_>), DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let Some((header, dictionary)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("a dictionary is shorter than its header"));
    };
    if header[..2] != [KIND, VERSION] {
        return Err(corrupt("a dictionary has an unknown version"));
    }
    let number = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[at + i]));
    let collection = u32::from_be_bytes([22, 23, 24, 25].map(|at| header[at]));
    let name = DictionaryName { collection, number: u16::from_be_bytes([header[26], header[27]]) };
    let left_permille = u16::from_le_bytes([header[4], header[5]]);
    let facts = DictionaryFacts { name, left_permille, documents: number(6) };
    Ok((facts, Dictionary { hash: DictionaryHash(number(14)), bytes: dictionary }))
}

/// A dictionary, from its first readable copy.
pub(crate) fn find<'t>(tx: &'t impl Transaction, name: DictionaryName) -> Option<Dictionary<'t>> {
    (0..COPIES).find_map(|copy| {
        let (_, row) = tx.table(&DICTIONARIES).get(&key(name, copy)).ok()??;
        read(row).ok().map(|(_, dictionary)| dictionary)
    })
}

/// Returns a lookup of the dictionaries that a transaction sees.
pub(crate) fn finder<'t, T: Transaction>(
    tx: &'t T,
) -> impl Fn(DictionaryName) -> Option<Dictionary<'t>> + use<'t, T> {
    move |name| find(tx, name)
}

/// The newest dictionary of a collection.
pub(crate) fn newest(
    tx: &impl Transaction,
    collection: u32,
) -> Result<Option<DictionaryFacts>, DocumentError> {
    let last = key(DictionaryName { collection, number: u16::MAX }, u8::MAX);
    let mut rows = tx.table(&DICTIONARIES).range_back(Bound::Included(&last))?;
    let Some((_, row)) = rows.next().transpose()? else { return Ok(None) };
    let (facts, _) = read(row)?;
    Ok((facts.name.collection == collection).then_some(facts))
}

/// The dictionaries of a damaged database.
#[derive(Default)]
pub(crate) struct FoundDictionaries(BTreeMap<DictionaryName, (DictionaryFacts, Vec<u8>)>);

impl FoundDictionaries {
    /// Adds a row found by the scan, if it holds a complete dictionary.
    pub(crate) fn add(&mut self, row: &[u8]) -> bool {
        let Ok((facts, dictionary)) = read(row) else { return false };
        let is_whole = Dictionary::of(dictionary.bytes).hash == dictionary.hash;
        if is_whole {
            self.0.entry(facts.name).or_insert_with(|| (facts, dictionary.bytes.to_vec()));
        }
        is_whole
    }

    pub(crate) fn get(&self, name: DictionaryName) -> Option<Dictionary<'_>> {
        self.0.get(&name).map(|(_, bytes)| Dictionary::of(bytes))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&DictionaryFacts, &[u8])> {
        self.0.values().map(|(facts, bytes)| (facts, bytes.as_slice()))
    }
}

/// The number of dictionaries.
///
/// # Errors
/// Storage errors.
pub fn dictionaries_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(tx.table(&DICTIONARIES).len()? / u64::from(COPIES))
}

/// Checks that every dictionary has both copies and matches its hash.
pub(crate) fn check(tx: &impl Transaction) -> Result<(), DocumentError> {
    let corrupt = |detail| Err(DocumentError::Corrupt { detail });
    for entry in tx.table(&DICTIONARIES).range(Bound::Unbounded)? {
        let (facts, dictionary) = read(entry?.1)?;
        if Dictionary::of(dictionary.bytes).hash != dictionary.hash {
            return corrupt("a dictionary has another hash");
        }
        if !(1..=DICTIONARIES_MAX).contains(&facts.name.number) {
            return corrupt("a dictionary has an impossible number");
        }
        for copy in 0..COPIES {
            let Some((_, row)) = tx.table(&DICTIONARIES).get(&key(facts.name, copy))? else {
                return corrupt("a copy of a dictionary is missing");
            };
            if read(row)?.1.hash != dictionary.hash {
                return corrupt("the copies of a dictionary differ");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_lies_where_the_drawing_says() {
        let name = DictionaryName { collection: 258, number: 3 };
        let facts = DictionaryFacts { name, left_permille: 259, documents: 260 };
        let bytes = row(&facts, b"words", 1);
        assert_eq!(&bytes[..14], b"Z\x01\0\0\x03\x01\x04\x01\0\0\0\0\0\0");
        assert_eq!(&bytes[14..22], &xxh3_64(b"words").to_le_bytes());
        assert_eq!(&bytes[22..], b"\0\0\x01\x02\0\x03\x01words");
        assert_eq!((DICTIONARIES.primary)(&bytes), &bytes[22..29]);
        let (read_facts, dictionary) = read(&bytes).unwrap();
        assert_eq!((read_facts, dictionary.bytes), (facts, &b"words"[..]));
        for length in 0..HEADER_BYTES {
            assert!(read(&bytes[..length]).is_err(), "{length}");
            let _ = (DICTIONARIES.primary)(&bytes[..length]);
        }
    }
}
