//! English stop words: Lucene's list.

const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// Whether the lower-cased word is one of them.
pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() <= 5 && STOP_WORDS.binary_search(&word).is_ok()
}
