//! When a collection needs a new dictionary.
//!
//! The first one comes when there are enough documents to learn from. Another comes when documents of
//! today get much less small than those of the sample did, or when the collection has grown so much that
//! the sample was a poor one. Numbers of dictionaries are bounded, so this ends.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use model::DocumentsCompression;

use super::dictionary::{DICTIONARIES_MAX, DictionaryFacts};

/// A sample must have that many documents, and that many bytes.
const FIRST_DOCUMENTS: u64 = 128;
const FIRST_BYTES: u64 = 16 << 10;
/// Documents over which is measured how small they get.
const WINDOW_DOCUMENTS: u64 = 1024;
/// A window is made twice as long so often at most.
const DOUBLED_MAX: u32 = 12;
/// A collection that has grown so many times gets a new dictionary.
const GROWTH: u64 = 16;

/// The rules of a database, and what its writer has seen since they are in force.
#[derive(Debug)]
pub struct Compression {
    rules: DocumentsCompression,
    /// By the number of the collection.
    windows: Mutex<BTreeMap<u32, Window>>,
}

/// What was written of a collection.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    documents: u64,
    bytes: u64,
    stored_bytes: u64,
    /// How often a dictionary was asked for. Each time the next window is twice as long, because what
    /// came of it may have been thrown away.
    asked: u32,
}

static NOTHING: Compression = Compression::new(DocumentsCompression::nothing());

impl Compression {
    /// Rules that nothing was written by yet.
    pub const fn new(rules: DocumentsCompression) -> Self {
        Self { rules, windows: Mutex::new(BTreeMap::new()) }
    }

    /// That of a database that compresses nothing.
    pub fn nothing() -> &'static Self {
        &NOTHING
    }

    /// What is compressed.
    pub fn rules(&self) -> &DocumentsCompression {
        &self.rules
    }

    fn windows(&self) -> MutexGuard<'_, BTreeMap<u32, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a document of a collection that was written, and in how many bytes. `newest` is the
    /// dictionary that was used, `documents` how many documents the collection has. Gives whether the
    /// collection needs a new dictionary; after that it is not said again for some time.
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
