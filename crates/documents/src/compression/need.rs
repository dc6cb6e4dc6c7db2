//! When a collection needs a new dictionary.
//!
//! The first one comes when there are enough documents to learn from. Another is trained when
//! current documents compress much worse than the sample did, or when the collection has outgrown
//! the sample. The number of dictionaries is bounded, so this ends.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use model::DocumentsCompression;

use super::dictionary::{DICTIONARIES_MAX, DictionaryFacts};

/// The minimum number of documents in a sample; see also its minimum of bytes.
const FIRST_DOCUMENTS: u64 = 128;
const FIRST_BYTES: u64 = 16 << 10;
/// The number of documents over which the compression ratio is measured.
const WINDOW_DOCUMENTS: u64 = 1024;
/// The maximum number of times that a window is doubled.
const DOUBLED_MAX: u32 = 12;
/// A collection gets a new dictionary when it has grown by this factor.
const GROWTH: u64 = 16;

/// The compression rules of a database, and the ratios measured since they took effect.
#[derive(Debug)]
pub struct Compression {
    rules: DocumentsCompression,
    /// By collection number.
    windows: Mutex<BTreeMap<u32, Window>>,
}

/// Sizes of the documents of a collection written since the window began.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    documents: u64,
    bytes: u64,
    stored_bytes: u64,
    /// How often a dictionary was requested. Each request doubles the next window, because the
    /// trained dictionary may have been discarded.
    asked: u32,
}

static NOTHING: Compression = Compression::new(DocumentsCompression::nothing());

impl Compression {
    /// Rules with nothing measured yet.
    pub const fn new(rules: DocumentsCompression) -> Self {
        Self { rules, windows: Mutex::new(BTreeMap::new()) }
    }

    /// The rules of a database that compresses nothing.
    pub fn nothing() -> &'static Self {
        &NOTHING
    }

    /// The configuration that decides what is compressed.
    pub fn rules(&self) -> &DocumentsCompression {
        &self.rules
    }

    fn windows(&self) -> MutexGuard<'_, BTreeMap<u32, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a written document and its stored size. `newest` is the dictionary that was used,
    /// `documents` the number of documents in the collection. Returns whether the collection needs
    /// a new dictionary; not repeated for some time.
    pub(super) fn note(
        &self,
        collection: u32,
        (bytes, stored_bytes): (usize, usize),
        newest: Option<&DictionaryFacts>,
        documents: u64,
    ) -> bool {
        let mut windows = self.windows();
        let window = windows.entry(collection).or_default();
        window.documents += 1;
        window.bytes += bytes as u64;
        window.stored_bytes += stored_bytes as u64;
        let first = if newest.is_none() { FIRST_DOCUMENTS } else { WINDOW_DOCUMENTS };
        let is_long = first << window.asked.min(DOUBLED_MAX) <= window.documents;
        if !is_long || (newest.is_none() && window.bytes < FIRST_BYTES) {
            return false;
        }
        let over = std::mem::take(window);
        let is_needed = newest.is_none_or(|newest| over.needs_another(newest, documents));
        window.asked = over.asked + u32::from(is_needed);
        is_needed
    }
}

impl Window {
    fn needs_another(&self, newest: &DictionaryFacts, documents: u64) -> bool {
        let left_permille = 1000 * self.stored_bytes / self.bytes.max(1);
        let is_worse = 5 * u64::from(newest.left_permille) < 4 * left_permille;
        let has_grown = newest.documents.saturating_mul(GROWTH) <= documents;
        newest.name.number < DICTIONARIES_MAX && (is_worse || has_grown)
    }
}
