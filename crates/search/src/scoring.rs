//! Scores: BM25 for terms, TF-IDF for likeness, a constant for everything else.

use crate::postings::{Weight, format::length_of};

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// How much rarer terms count, for a term in `matching` of `entries`.
pub(crate) fn inverse_frequency(entries: u64, matching: u64) -> f32 {
    let (entries, matching) = (entries.max(matching) as f64, matching as f64);
    (1.0 + (entries - matching + 0.5) / (matching + 0.5)).ln() as f32
}

/// How much rarer words count for likeness, for a word in `matching` of `entries`.
pub(crate) fn likeness_rarity(entries: u64, matching: u64) -> f32 {
    (1.0 + (entries as f64 / (matching as f64 + 1.0)).ln()) as f32
}

/// The scores of one term in all entries. In fields that are not words, each entry has the term once in
/// a text of one word.
#[derive(Clone, Copy)]
pub(crate) struct TermScorer {
    factor: f32,
    share: Share,
}

/// What of the factor an entry gets.
#[derive(Clone, Copy)]
enum Share {
    All,
    /// The more the more often it has the term, the less the longer its text is.
    Bm25 {
        average_words: f32,
    },
    /// The more the more often it has the term.
    RootOfFrequency,
}

impl TermScorer {
    /// `matching` of `entries` have the term; a text has `average_words`.
    pub(crate) fn new(entries: u64, matching: u64, average_words: f32, boost: f32) -> Self {
        let factor = inverse_frequency(entries, matching) * boost * (K1 + 1.0);
        Self { factor, share: Share::Bm25 { average_words: average_words.max(1.0) } }
    }

    /// By TF-IDF without the length of texts, as likeness is measured.
    pub(crate) fn likeness(factor: f32) -> Self {
        Self { factor, share: Share::RootOfFrequency }
    }

    /// The same score for every entry.
    pub(crate) fn constant(score: f32) -> Self {
        Self { factor: score, share: Share::All }
    }

    /// For a phrase: the factors of its words are added.
    pub(crate) fn plus(self, other: TermScorer) -> Self {
        Self { factor: self.factor + other.factor, ..self }
    }

    pub(crate) fn score(&self, weight: Weight) -> f32 {
        self.score_of(f32::from(weight.frequency), length_of(weight.length))
    }

    pub(crate) fn score_of(&self, frequency: f32, words: u64) -> f32 {
        match self.share {
            Share::All => self.factor,
            Share::Bm25 { average_words } => {
                let norm = K1 * (1.0 - B + B * words as f32 / average_words);
                self.factor * frequency / (frequency + norm)
            }
            Share::RootOfFrequency => self.factor * frequency.sqrt(),
        }
    }
}
