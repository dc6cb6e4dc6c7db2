//! Suggestions: terms of a field that are near to a misspelt one.

use std::{
    cmp::Ordering,
    ops::{Bound, RangeInclusive},
};

use storage::Transaction;

use crate::{
    error::SearchError,
    reader::IndexReader,
    term::{TERM_BYTES_MAX, TermKind, text_of},
    term_match::edit_distance_within,
};

/// Suggestions in one answer, at most.
pub const SUGGESTIONS_MAX: usize = 10_000;

/// The rounding error of a similarity.
const TOLERANCE: f32 = 1e-5;

/// Shorter terms are not suggested.
const SUGGESTED_LETTERS_MIN: usize = 3;

/// How near two texts are, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringDistance {
    /// One less the edits per character of the longer text.
    #[default]
    Levenshtein,
    /// Jaro and Winkler's, which prefers texts that begin alike.
    JaroWinkler,
    /// Kondrak's distance over pairs of characters.
    NGram,
}

/// Options of a suggestion query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuggestOptions {
    /// How nearness is measured.
    pub distance: StringDistance,
    /// The least nearness of a suggestion.
    pub accuracy: f32,
    /// The maximum number of suggestions.
    pub count: usize,
}

impl Default for SuggestOptions {
    fn default() -> Self {
        Self { distance: StringDistance::default(), accuracy: 0.5, count: 15 }
    }
}

/// A suggested term.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The suggested term, as it is in the index.
    pub text: String,
    /// How near it is.
    pub nearness: f32,
    /// How many entries have it.
    pub entries: u64,
}

impl<T: Transaction> IndexReader<'_, T> {
    /// Terms of the field that are similar to the text, except the text itself; none for a text
    /// longer than any term. A term must share some letters with the text. Walks the field's terms.
    pub fn suggest(
        &self,
        field: &str,
        text: &str,
        options: &SuggestOptions,
    ) -> Result<Vec<Suggestion>, SearchError> {
        let Some(field) = self.field(field)? else { return Ok(Vec::new()) };
        let count = options.count.min(SUGGESTIONS_MAX);
        let wanted: Vec<char> = text.chars().take(TERM_BYTES_MAX + 1).collect();
        if TERM_BYTES_MAX < wanted.len() {
            return Ok(Vec::new());
        }
        let mut suggestions: Vec<Suggestion> = Vec::new();
        let mut scan = self.scan_terms(field, TermKind::Text, Bound::Unbounded)?;
        while let Some((bytes, list)) = scan.next()? {
            let term = text_of(bytes)?;
            let nearness = options.distance.nearness(text, &wanted, term, options.accuracy);
            if term == text
                || nearness + TOLERANCE < options.accuracy
                || !share_letters(&wanted, term)
            {
                continue;
            }
            let entries = list.count();
            suggestions.push(Suggestion { text: term.to_owned(), nearness, entries });
            if suggestions.len() > 2 * count + 64 {
                keep_best(&mut suggestions, count);
            }
        }
        keep_best(&mut suggestions, count);
        Ok(suggestions)
    }
}

/// Whether a text and a term of three letters or more share a group of letters. The groups of a
/// long text are longer, to distinguish misspelt texts from texts that are similar by chance.
fn share_letters(text: &[char], term: &str) -> bool {
    let term: Vec<char> = term.chars().collect();
    let (lengths, of_term) = (group_lengths(text.len()), group_lengths(term.len()));
    let common = (*lengths.start()).max(*of_term.start())..=(*lengths.end()).min(*of_term.end());
    let has_common = |length: usize| {
        text.windows(length).any(|group| term.windows(length).any(|other| other == group))
    };
    SUGGESTED_LETTERS_MIN <= term.len() && common.into_iter().any(has_common)
}

/// The lengths of the letter groups compared for a text of `letters` letters.
fn group_lengths(letters: usize) -> RangeInclusive<usize> {
    match letters {
        0..=4 => 1..=2,
        5 => 2..=3,
        _ => 3..=4,
    }
}

/// Keeps the most similar terms; ties go to the term with more entries.
fn keep_best(suggestions: &mut Vec<Suggestion>, count: usize) {
    let compare = |left: &Suggestion, right: &Suggestion| -> Ordering {
        let nearer = right.nearness.total_cmp(&left.nearness);
        let more = right.entries.cmp(&left.entries);
        nearer.then(more).then_with(|| left.text.cmp(&right.text))
    };
    suggestions.sort_by(compare);
    suggestions.truncate(count);
}

impl StringDistance {
    /// How near `term` is; anything below `least` when it is not that near.
    fn nearness(self, text: &str, wanted: &[char], term: &str, least: f32) -> f32 {
        match self {
            StringDistance::Levenshtein => {
                let longer = wanted.len().max(term.chars().count());
                if longer == 0 {
                    return 1.0;
                }
                let edits_max = (1.0 - least + TOLERANCE).clamp(0.0, 1.0) * longer as f32;
                let most = edits_max.floor() as usize;
                edit_distance_within(wanted, term, most)
                    .map_or(-1.0, |edits| 1.0 - edits as f32 / longer as f32)
            }
            StringDistance::JaroWinkler => strsim::jaro_winkler(text, term) as f32,
            StringDistance::NGram => pair_nearness(wanted, &term.chars().collect::<Vec<char>>()),
        }
    }
}

/// Kondrak's distance with pairs: edits between pairs of neighbours, where half a pair that differs
/// costs half. Each text is preceded by a sentinel that no text contains; where both have it, it
/// costs nothing. A text of one character has no pairs and is compared position by position.
fn pair_nearness(left: &[char], right: &[char]) -> f32 {
    let longer = left.len().max(right.len());
    if left.is_empty() || right.is_empty() {
        return if longer == 0 { 1.0 } else { 0.0 };
    }
    if left.len() == 1 || right.len() == 1 {
        let same = left.iter().zip(right).filter(|(left, right)| left == right).count();
        return same as f32 / longer as f32;
    }
    let before = |text: &[char], at: usize| at.checked_sub(1).map(|at| text[at]);
    let mut row: Vec<f32> = (0..=left.len()).map(|at| at as f32).collect();
    for (line, character) in right.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = (line + 1) as f32;
        for (column, own) in left.iter().enumerate() {
            let (own_differs, left, right) =
                (f32::from(own != character), before(left, column), before(right, line));
            let replaced = diagonal
                + match (left, right) {
                    (None, None) => own_differs,
                    (left, right) => (own_differs + f32::from(left != right)) / 2.0,
                };
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1.0).min(row[column] + 1.0);
        }
    }
    1.0 - row[left.len()] / longer as f32
}
