//! The text of `search()`: words, wildcards and quoted phrases, as index queries.
//!
//! The text is split at white space. A part that begins or ends with `*` is a wildcard there; one
//! in double quotes is a phrase; any other passes the analyzer of the field, and when that produces
//! several words, they are a phrase too. Of several words next to a wildcard, all must be present,
//! and the one at the star is open-ended. In an n-gram field, a word stands for its longest
//! n-grams.

use search::analysis::Analyzer;
use search::{PhraseWord, Query};

use crate::searched_fields::SearchedField;

/// One part of the text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'t> {
    Plain(&'t str),
    Quoted(&'t str),
}

/// The entries that contain any, or all, parts of `text`.
pub(crate) fn words_query(field: &SearchedField, text: &str, must_all: bool) -> Query {
    let mut queries: Vec<Query> =
        parts_of(text).into_iter().filter_map(|part| part_query(field, &part)).collect();
    match queries.len() {
        0 => Query::None,
        1 => queries.remove(0),
        _ if must_all => Query::And(queries),
        _ => Query::Or(queries),
    }
}

/// The words of a text, with their positions, as the field's analyzer produces them.
pub(crate) fn phrase_of(field: &SearchedField, text: &str) -> Vec<PhraseWord> {
    let mut words = Vec::new();
    field.analyzer().analyze(text, &mut |token| {
        words.push(PhraseWord { text: token.text.to_owned(), position: token.position });
    });
    words
}

fn parts_of(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|inner| inner.split_once('"'));
        let (part, behind) = match quoted {
            Some((inner, behind)) => (Part::Quoted(inner), behind),
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (Part::Plain(&rest[..end]), &rest[end..])
            }
        };
        parts.push(part);
        rest = behind.trim_start();
    }
    parts
}

/// `None` when nothing remains of the part: it was a stop word, or punctuation.
fn part_query(field: &SearchedField, part: &Part<'_>) -> Option<Query> {
    let text = match *part {
        Part::Quoted(text) => return phrase_query(field, text),
        Part::Plain(text) => text,
    };
    let stars = Stars { in_front: text.starts_with('*'), at_end: text.ends_with('*') };
    let core = text.trim_matches('*');
    match stars {
        Stars { in_front: false, at_end: false } => phrase_query(field, text),
        _ if core.is_empty() => Some(Query::exists(&field.name)),
        stars => Some(wildcard(field, core, stars)),
    }
}

/// Where a wildcard has stars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stars {
    in_front: bool,
    at_end: bool,
}

impl Stars {
    /// The terms that contain this text between the stars.
    fn around(self, field: &SearchedField, text: String) -> Query {
        let field = field.name.clone();
        match self {
            Stars { in_front: true, at_end: true } => Query::Contains { field, text },
            Stars { in_front: true, at_end: false } => Query::Suffix { field, text },
            Stars { in_front: false, at_end: true } => Query::Prefix { field, text },
            Stars { in_front: false, at_end: false } => Query::text(&field, &text),
        }
    }
}

/// A wildcard with this text between its stars. When the analyzer produces several words, the first
/// and the last have the stars.
fn wildcard(field: &SearchedField, text: &str, stars: Stars) -> Query {
    let mut words: Vec<String> = match has_parts_of_words(field) {
        true => Vec::new(),
        false => phrase_of(field, text).into_iter().map(|word| word.text).collect(),
    };
    match words.len() {
        0 => stars.around(field, model::lower_case(text).into_owned()),
        1 => stars.around(field, words.remove(0)),
        count => {
            let one = |(at, word)| {
                let (is_first, is_last) = (at == 0, at + 1 == count);
                let (in_front, at_end) = (stars.in_front && is_first, stars.at_end && is_last);
                Stars { in_front, at_end }.around(field, word)
            };
            Query::And(words.into_iter().enumerate().map(one).collect())
        }
    }
}

fn has_parts_of_words(field: &SearchedField) -> bool {
    matches!(field.analyzer(), Analyzer::NGram { .. })
}

/// The longest n-grams of the words: a word that is no longer than those is its only one.
fn longest_parts(field: &SearchedField, text: &str) -> Vec<String> {
    let mut longest: Vec<(usize, String)> = Vec::new();
    field.analyzer().analyze(text, &mut |token| {
        // The n-grams of a word follow each other, the short ones first.
        let length = token.text.chars().count();
        while longest
            .last()
            .is_some_and(|(start, part)| *start == token.start && part.chars().count() < length)
        {
            longest.pop();
        }
        longest.push((token.start, token.text.to_owned()));
    });
    longest.into_iter().map(|(_, part)| part).collect()
}

fn phrase_query(field: &SearchedField, text: &str) -> Option<Query> {
    if has_parts_of_words(field) {
        let parts = longest_parts(field, text);
        return match parts.as_slice() {
            [] => None,
            [part] => Some(Query::text(&field.name, part)),
            parts => {
                Some(Query::And(parts.iter().map(|part| Query::text(&field.name, part)).collect()))
            }
        };
    }
    let words = phrase_of(field, text);
    match words.as_slice() {
        [] => None,
        [word] => Some(Query::text(&field.name, &word.text)),
        _ => Some(Query::Phrase { field: field.name.clone(), words, slop: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use search::{FieldOptions, Indexing};

    use super::*;

    fn field() -> SearchedField {
        SearchedField { name: "B".to_owned(), options: FieldOptions::new(Indexing::Search) }
    }

    fn prefix(text: &str) -> Query {
        Query::Prefix { field: "B".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_text_is_words_wildcards_and_phrases() {
        let word = |text: &str| Query::text("B", text);
        for (text, expected) in [
            ("", Query::None),
            ("the", Query::None),
            ("Quick", word("quick")),
            ("quick  fox", Query::Or(vec![word("quick"), word("fox")])),
            ("the quick", word("quick")),
            ("Quick*", prefix("quick")),
            ("*ick", Query::Suffix { field: "B".to_owned(), text: "ick".to_owned() }),
            ("*ui*", Query::Contains { field: "B".to_owned(), text: "ui".to_owned() }),
            ("*", Query::exists("B")),
            ("\"quick\" fox*", Query::Or(vec![word("quick"), prefix("fox")])),
        ] {
            assert_eq!(words_query(&field(), text, false), expected, "{text}");
        }
        let wildcards = [
            ("wi-f*", vec![word("wi"), prefix("f")]),
            ("Wi-Fi-N*", vec![word("wi"), word("fi"), prefix("n")]),
            (
                "*i-fi",
                vec![Query::Suffix { field: "B".to_owned(), text: "i".to_owned() }, word("fi")],
            ),
            (
                "*i-f*",
                vec![Query::Suffix { field: "B".to_owned(), text: "i".to_owned() }, prefix("f")],
            ),
        ];
        for (text, all) in wildcards {
            assert_eq!(words_query(&field(), text, false), Query::And(all), "{text}");
        }
        let all = words_query(&field(), "quick fox", true);
        assert_eq!(all, Query::And(vec![word("quick"), word("fox")]));
        let Query::Phrase { words, slop: 0, .. } = words_query(&field(), "\"quick brown\"", false)
        else {
            panic!("a quoted text is a phrase");
        };
        let words: Vec<_> = words.iter().map(|word| (word.text.as_str(), word.position)).collect();
        assert_eq!(words, [("quick", 0), ("brown", 1)]);
    }

    #[test]
    fn in_a_field_of_parts_a_word_is_its_longest_parts() {
        let analyzer = Analyzer::NGram { min: 2, max: 4 };
        let options =
            FieldOptions { analyzer: Some(analyzer), ..FieldOptions::new(Indexing::Search) };
        let field = SearchedField { name: "B".to_owned(), options };
        let word = |text: &str| Query::text("B", text);
        for (text, expected) in [
            ("o", Query::None),
            ("oo", word("oo")),
            ("Ook", word("ook")),
            ("cook", word("cook")),
            ("cooks", Query::And(vec![word("cook"), word("ooks")])),
            ("ook-fi", Query::And(vec![word("ook"), word("fi")])),
            ("coo*", prefix("coo")),
        ] {
            assert_eq!(words_query(&field, text, false), expected, "{text}");
        }
    }
}
