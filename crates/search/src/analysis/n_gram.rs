//! Parts of words; stop words have none.

use super::{Token, standard_words, without_stop_words};

/// All parts of each standard word, the short ones first. Each has a separate position.
pub(super) fn n_grams(text: &str, min: u8, max: u8, sink: &mut dyn FnMut(Token<'_>)) {
    let mut position = 0;
    let mut boundaries = Vec::new();
    let mut parts = |word: Token<'_>| {
        boundaries.clear();
        boundaries.extend(word.text.char_indices().map(|(at, _)| at));
        boundaries.push(word.text.len());
        for characters in usize::from(min.max(1))..=usize::from(max) {
            for part in boundaries.windows(characters + 1) {
                let text = &word.text[part[0]..part[characters]];
                sink(Token { text, position, start: word.start, end: word.end });
                position += 1;
            }
        }
    };
    standard_words(text, &mut without_stop_words(&mut parts));
}
