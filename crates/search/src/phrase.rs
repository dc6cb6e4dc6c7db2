//! Whether words are near each other in a field, by the positions in the forward record.

use std::borrow::Cow;

use storage::Transaction;

use crate::{
    cursor::EntryFilter, error::SearchError, ids::FieldId, record::RecordReader,
    scoring::TermScorer, term::TermKind, trees,
};

/// Passes entries in which the words of a phrase appear in order, moved by at most `slop`
/// positions.
pub(crate) struct PhraseFilter<'t, T> {
    tx: &'t T,
    field: FieldId,
    words: Vec<(Vec<u8>, u32)>,
    slop: u32,
    scorer: TermScorer,
}

impl<'t, T: Transaction> PhraseFilter<'t, T> {
    pub(crate) fn new(
        tx: &'t T,
        field: FieldId,
        words: &[(Cow<'_, str>, u32)],
        slop: u32,
        scorer: TermScorer,
    ) -> Self {
        let words =
            words.iter().map(|(text, position)| (text.as_bytes().to_vec(), *position)).collect();
        Self { tx, field, words, slop, scorer }
    }
}

impl<T: Transaction> EntryFilter for PhraseFilter<'_, T> {
    fn matches(&mut self, entry: u64) -> Result<Option<f32>, SearchError> {
        let record = self.tx.tree(&trees::ENTRIES)?.get(&entry.to_be_bytes())?;
        let record = record.ok_or_else(|| SearchError::corrupt("a listed entry has no record"))?;
        let Some(section) = RecordReader::new(record)?.field(self.field)? else { return Ok(None) };
        let mut starts = Vec::with_capacity(self.words.len());
        for (word, place) in &self.words {
            let Some(term) = section.find(TermKind::Text, word)? else { return Ok(None) };
            // Where the phrase would begin if it were exact.
            let places: Vec<i64> = term
                .positions()
                .map(|position| position.map(|position| i64::from(position) - i64::from(*place)))
                .collect::<Result<_, _>>()?;
            if places.is_empty() {
                return Err(SearchError::corrupt("a word has no position in its text"));
            }
            starts.push(places);
        }
        let found = match self.slop {
            0 => count_exact(&starts) as f32,
            slop => self.count_sloppy(&starts, i64::from(slop)),
        };
        let words = section.words.unwrap_or(1);
        Ok((found > 0.0).then(|| self.scorer.score_of(found, words)))
    }
}

impl<T> PhraseFilter<'_, T> {
    /// How often the words are within `slop` of each other; nearer occurrences count more.
    fn count_sloppy(&self, starts: &[Vec<i64>], slop: i64) -> f32 {
        let mut at = vec![0; starts.len()];
        let mut found = 0.0;
        loop {
            if let Some(behind) = self.standing_on_another(starts, &at) {
                at[behind] += 1;
                if at[behind] == starts[behind].len() {
                    return found;
                }
                continue;
            }
            let places = || starts.iter().zip(&at).map(|(places, at)| places[*at]);
            let (lowest, highest) = (places().min().unwrap_or(0), places().max().unwrap_or(0));
            if highest - lowest <= slop {
                found += 1.0 / (1.0 + (highest - lowest) as f32);
            }
            let Some(behind) = places().position(|place| place == lowest) else { return found };
            at[behind] += 1;
            if at[behind] == starts[behind].len() {
                return found;
            }
        }
    }

    /// A word at the same position as an equal one before it in the phrase: one position of the
    /// text cannot match two words.
    fn standing_on_another(&self, starts: &[Vec<i64>], at: &[usize]) -> Option<usize> {
        let place = |word: usize| starts[word][at[word]] + i64::from(self.words[word].1);
        (1..starts.len()).find(|later| {
            (0..*later).any(|earlier| {
                self.words[earlier].0 == self.words[*later].0 && place(earlier) == place(*later)
            })
        })
    }
}

/// How often all words are exactly in the positions of the phrase.
fn count_exact(starts: &[Vec<i64>]) -> usize {
    let Some((first, others)) = starts.split_first() else { return 0 };
    let everywhere = |start: &&i64| others.iter().all(|places| places.binary_search(start).is_ok());
    first.iter().filter(everywhere).count()
}
