//! Scores: BM25 for terms, a constant for everything else.

use crate::postings::{Weight, format::length_of};

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// How much rarer terms count, for a term in `matching` of `entries`.
pub(crate) fn inverse_frequency(entries: u64, matching: u64) -> f32 {
    let (entries, matching) = (entries.max(matching) as f64, matching as f64);
    (1.0 + (entries - matching + 0.5) / (matching + 0.5)).ln() as f32
}

/// The scores of one term in all entries. In fields that are not words, each entry has the term once in
/// a text of one word.
#[derive(Clone, Copy)]
pub(crate) struct TermScorer {
    factor: f32,
    /// `None` when all entries have the same score.
    average_words: Option<f32>,
}

impl TermScorer {
    /// `matching` of `entries` have the term; a text has `average_words`.
    pub(crate) fn new(entries: u64, matching: u64, average_words: f32, boost: f32) -> Self {
        let factor = inverse_frequency(entries, matching) * boost * (K1 + 1.0);
        Self { factor, average_words: Some(average_words.max(1.0)) }
    }

    /// The same score for every entry.
    pub(crate) fn constant(score: f32) -> Self {
        Self { factor: score, average_words: None }
    }

    /// For a phrase: the factors of its words are added.
    pub(crate) fn plus(self, other: TermScorer) -> Self {
        Self { factor: self.factor + other.factor, ..self }
    }

    pub(crate) fn score(&self, weight: Weight) -> f32 {
        self.score_of(f32::from(weight.frequency), length_of(weight.length))
    }

    pub(crate) fn score_of(&self, frequency: f32, words: u64) -> f32 {
        let Some(average_words) = self.average_words else { return self.factor };
        let norm = K1 * (1.0 - B + B * words as f32 / average_words);
        self.factor * frequency / (frequency + norm)
    }
}
