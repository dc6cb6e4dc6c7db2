//! One row per document, where an index has several entries for it.
//!
//! A page counts entries up to its start and documents from there on; a document with an entry
//! before the page is not returned again. Memory use depends on the number of distinct documents.

use std::collections::HashSet;

use crate::error::QueryError;

/// Maximum number of distinct documents of one query when an index has several entries per
/// document.
const DOCUMENTS_MAX: usize = 4 << 20;

/// Identifies the document of an entry; `None` for an entry that is gone.
pub(crate) type DocumentOf<'n, T> = Box<dyn Fn(&T) -> Result<Option<u128>, QueryError> + 'n>;

/// The first entry of each document, from the start of a page on.
pub(crate) struct FirstOfDocument<'n, T, E> {
    entries: E,
    document_of: DocumentOf<'n, T>,
    /// Entries before the page.
    before: usize,
    seen: HashSet<u128>,
    repeated: u64,
}

impl<'n, T, E: Iterator<Item = Result<T, QueryError>>> FirstOfDocument<'n, T, E> {
    pub(crate) fn new(entries: E, before: usize, document_of: DocumentOf<'n, T>) -> Self {
        Self { entries, document_of, before, seen: HashSet::new(), repeated: 0 }
    }

    /// How many entries have been dropped so far.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Whether the entry is the first of its document.
    fn is_new(&mut self, entry: &T) -> Result<bool, QueryError> {
        let Some(document) = (self.document_of)(entry)? else { return Ok(false) };
        if self.seen.len() == DOCUMENTS_MAX {
            let message = format!(
                "The index has several entries of a document, and the query produces more than \
                 {DOCUMENTS_MAX} documents"
            );
            return Err(QueryError::InvalidOperation { message });
        }
        Ok(self.seen.insert(document))
    }
}

impl<T, E: Iterator<Item = Result<T, QueryError>>> Iterator for FirstOfDocument<'_, T, E> {
    type Item = Result<T, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let is_new = match self.is_new(&entry) {
                Ok(is_new) => is_new,
                Err(error) => return Some(Err(error)),
            };
            if 0 < self.before {
                self.before -= 1;
            } else if is_new {
                return Some(Ok(entry));
            } else {
                self.repeated += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page of entries returns, and how many entries it drops.
    fn page(entries: &str, first: usize, count: usize) -> (String, u64) {
        let entries = entries.chars().map(Ok);
        let document_of = |entry: &char| Ok(Some(u128::from(u32::from(*entry))));
        let mut shown = FirstOfDocument::new(entries, first, Box::new(document_of));
        let rows = shown.by_ref().take(count).collect::<Result<String, _>>().unwrap();
        (rows, shown.repeated())
    }

    #[test]
    fn a_document_is_shown_once_over_all_pages() {
        let two_of_each = "aabbccddeeffgghhii";
        for (first, count, shown, repeated) in [
            (0, 99, "abcdefghi", 9),
            (0, 5, "abcde", 4),
            (5, 5, "defgh", 5),
            (2, 2, "bc", 1),
            (0, 0, "", 0),
            (99, 5, "", 0),
        ] {
            assert_eq!(page(two_of_each, first, count), (shown.to_owned(), repeated), "{first}");
        }
        assert_eq!(page("abab", 1, 9), ("b".to_owned(), 2));
    }
}
