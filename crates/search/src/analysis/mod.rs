//! Analysis: how a text becomes terms.
//!
//! Not here: which analyzer a field has ([`crate::FieldOptions`]), and how null, numbers and dates
//! are indexed, which the caller decides. Tokens are in text order, their positions count words
//! (those of [`Analyzer::RavenStandard`] skip its stop words, so that the words around one are
//! adjacent; those of the others leave gaps there), and their offsets refer to the original text,
//! so it can be highlighted.

mod characters;
mod n_gram;
mod names;
mod standard;
mod stop_words;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use model::lower_case;

use crate::error::SearchError;

/// In characters; longer words are dropped by the standard analyzers and split by the others.
pub const WORD_CHARACTERS_MAX: usize = 255;
/// The default lengths of the shortest and the longest part of [`Analyzer::NGram`].
pub const N_GRAM_DEFAULT: (u8, u8) = (2, 6);

/// A term with its position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// The term, as it is stored in the index.
    pub text: &'t str,
    /// Which word of the text it is, from 0; dropped words count.
    pub position: u32,
    /// Where the word begins in the text, in bytes.
    pub start: usize,
    /// Where the word ends in the text, in bytes.
    pub end: usize,
}

/// A way to turn a text into terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Analyzer {
    /// The whole text, lower-cased: what a field without options has.
    LowerCaseKeyword,
    /// The whole text as it is.
    Keyword,
    /// Words by Lucene's grammar of version 2.9, lower-cased, without English stop words. The default
    /// of full-text fields.
    RavenStandard,
    /// The same words, but those on both sides of a stop word are not adjacent.
    Standard,
    /// The words between spaces, verbatim.
    Whitespace,
    /// The words between spaces, lower-cased.
    LowerCaseWhitespace,
    /// Runs of letters, lower-cased.
    Simple,
    /// Runs of letters, lower-cased, without English stop words.
    Stop,
    /// All parts of the words of [`Analyzer::Standard`] with `min` to `max` characters.
    NGram {
        /// Characters of the shortest part, at least 1.
        min: u8,
        /// Characters of the longest part.
        max: u8,
    },
}

impl Analyzer {
    /// The analyzer of that name: its own, or its .NET type's with or without the assembly.
    pub fn by_name(name: &str) -> Result<Self, SearchError> {
        names::resolve(name)
    }

    /// Calls `sink` with every token of the text, in order.
    pub fn analyze(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
        match self {
            Analyzer::LowerCaseKeyword => whole(text, &lower_case(text), sink),
            Analyzer::Keyword => whole(text, text, sink),
            Analyzer::RavenStandard => raven_standard_words(text, sink),
            Analyzer::Standard => standard_words(text, &mut without_stop_words(sink)),
            Analyzer::Whitespace => split(text, is_no_space, &mut |token| sink(token)),
            Analyzer::LowerCaseWhitespace => split(text, is_no_space, &mut lower_cased(sink)),
            Analyzer::Simple => split(text, characters::is_letter, &mut lower_cased(sink)),
            Analyzer::Stop => {
                let mut words = without_stop_words(sink);
                split(text, characters::is_letter, &mut lower_cased(&mut words));
            }
            Analyzer::NGram { min, max } => n_gram::n_grams(text, *min, *max, sink),
        }
    }

    /// The tokens of a text as terms with their places, for queries.
    pub fn terms(&self, text: &str) -> Vec<(String, u32)> {
        let mut terms = Vec::new();
        self.analyze(text, &mut |token| terms.push((token.text.to_owned(), token.position)));
        terms
    }
}

fn whole(text: &str, term: &str, sink: &mut dyn FnMut(Token<'_>)) {
    sink(Token { text: term, position: 0, start: 0, end: text.len() });
}

fn is_no_space(character: char) -> bool {
    !character.is_whitespace()
}

/// Words of [`standard`], lower-cased.
fn standard_words(text: &str, sink: &mut dyn FnMut(Token<'_>)) {
    let mut lower = lower_cased(sink);
    standard::words(text, &mut |token| lower(token));
}

/// Runs of characters that belong to words.
fn split(text: &str, belongs: fn(char) -> bool, sink: &mut dyn FnMut(Token<'_>)) {
    let mut position = 0;
    let mut rest = 0;
    while let Some(begin) = text[rest..].find(belongs) {
        let start = rest + begin;
        let word = text[start..].chars().take_while(|character| belongs(*character));
        let bytes: usize = word.take(WORD_CHARACTERS_MAX).map(char::len_utf8).sum();
        let end = start + bytes;
        sink(Token { text: &text[start..end], position, start, end });
        position += 1;
        rest = end;
    }
}

/// Lower-cases the tokens passed to `sink`.
fn lower_cased(sink: &mut dyn FnMut(Token<'_>)) -> impl FnMut(Token<'_>) {
    |token: Token<'_>| {
        let lower: Cow<'_, str> = lower_case(token.text);
        sink(Token { text: &lower, ..token });
    }
}

fn without_stop_words(sink: &mut dyn FnMut(Token<'_>)) -> impl FnMut(Token<'_>) {
    |token: Token<'_>| {
        if !stop_words::is_stop_word(token.text) {
            sink(token);
        }
    }
}

/// Words of [`standard`], lower-cased; stop words are dropped as if they had not been there. The
/// word as written decides: `it's` is not a stop word, though its term is `it`.
fn raven_standard_words(text: &str, sink: &mut dyn FnMut(Token<'_>)) {
    let mut dropped = 0;
    standard_words(text, &mut |token| {
        if stop_words::is_stop_word(&lower_case(&text[token.start..token.end])) {
            dropped += 1;
        } else {
            sink(Token { position: token.position - dropped, ..token });
        }
    });
}
