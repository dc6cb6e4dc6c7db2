//! The largest documents recently written or loaded, to help an operator find out why a database is slow. In
//! memory only; documents of usual size are not recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use platform::Timestamp;

/// The size from which documents are recorded, and how many are kept.
#[derive(Clone, Copy, Debug)]
pub struct HugeDocumentLimits {
    /// Uncompressed bytes of a body.
    pub bytes: u64,
    /// Number of documents kept; the least recently used is dropped first.
    pub kept: usize,
}

impl Default for HugeDocumentLimits {
    fn default() -> Self {
        Self { bytes: 5 << 20, kept: 100 }
    }
}

/// A document whose body exceeded the configured size when it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugeDocument {
    /// Its id, as stored or as requested.
    pub id: String,
    /// Bytes of its body when it was last used.
    pub bytes: usize,
    /// When it was last used.
    pub used: Timestamp,
}

/// See the module documentation.
pub struct HugeDocuments {
    limits: HugeDocumentLimits,
    /// In order of use, the most recent last.
    known: Mutex<Vec<HugeDocument>>,
}

impl HugeDocuments {
    pub(crate) fn new(limits: HugeDocumentLimits) -> HugeDocuments {
        HugeDocuments { limits, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Vec<HugeDocument>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a document of that size is recorded.
    pub fn is_huge(&self, bytes: usize) -> bool {
        self.limits.bytes < bytes as u64
    }

    /// Records a document that was written or loaded, if it is large.
    pub fn note(&self, id: &str, bytes: usize, used: Timestamp) {
        if !self.is_huge(bytes) {
            return;
        }
        let mut known = self.known();
        known.retain(|document| !document.id.eq_ignore_ascii_case(id));
        if self.limits.kept <= known.len() {
            known.remove(0);
        }
        known.push(HugeDocument { id: id.to_owned(), bytes, used });
    }

    /// The recorded documents, largest first.
    pub fn largest(&self) -> Vec<HugeDocument> {
        let mut largest = self.known().clone();
        largest.sort_by_key(|document| std::cmp::Reverse(document.bytes));
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(documents: &HugeDocuments) -> Vec<String> {
        documents.largest().into_iter().map(|document| document.id).collect()
    }

    #[test]
    fn the_ones_used_last_are_kept_and_the_largest_come_first() {
        let documents = HugeDocuments::new(HugeDocumentLimits { bytes: 10, kept: 2 });
        let now = Timestamp::from_ticks(0);
        documents.note("small", 10, now);
        assert!(ids(&documents).is_empty());
        documents.note("a", 11, now);
        documents.note("b", 30, now);
        assert_eq!(ids(&documents), ["b", "a"]);
        documents.note("A", 12, now);
        documents.note("c", 20, now);
        assert_eq!(ids(&documents), ["c", "A"], "b was used before A was again");
    }
}
