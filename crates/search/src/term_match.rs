//! Which terms of a field match a pattern: prefixes, parts, wildcards, regular expressions, and texts
//! near to another. The terms are walked in order, and what cannot match is jumped over.

use std::{ops::Bound, sync::LazyLock};

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder, SINK_STATE};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use storage::Transaction;

use crate::{
    error::SearchError,
    ids::FieldId,
    postings::PostingList,
    reader::IndexReader,
    term::{TERM_BYTES_MAX, TermKind, beginning_of, text_of},
};

/// Memory of a compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Terms that are stepped over before descending the tree again.
const WALKED_BEFORE_SEEK: usize = 8;

/// The result of matching a term.
pub(crate) enum Verdict {
    Match,
    No,
    /// No match, nor any term below these bytes.
    SkipTo(Vec<u8>),
    /// No match, nor any term above.
    Stop,
}

/// Decides about terms in ascending order.
pub(crate) trait TermMatcher {
    /// No term below matches.
    fn lowest(&self) -> &[u8];
    fn check(&mut self, term: &[u8]) -> Result<Verdict, SearchError>;
}

impl<'t, T: Transaction> IndexReader<'t, T> {
    /// Calls `visit` with each text of the field that matches, and its postings.
    pub(crate) fn for_each_match(
        &self,
        field: FieldId,
        matcher: &mut impl TermMatcher,
        mut visit: impl FnMut(&[u8], PostingList<'t>) -> Result<(), SearchError>,
    ) -> Result<(), SearchError> {
        let from = matcher.lowest().to_vec();
        let mut scan = self.scan_terms(field, TermKind::Text, Bound::Included(&from))?;
        let mut target: Vec<u8> = Vec::new();
        let mut walked = 0;
        while let Some((bytes, list)) = scan.next()? {
            // Without the first test, most of the time is spent comparing with an empty target.
            if !target.is_empty() && bytes < &target[..] {
                walked += 1;
                if walked == WALKED_BEFORE_SEEK {
                    scan = self.scan_terms(field, TermKind::Text, Bound::Included(&target))?;
                }
                continue;
            }
            walked = 0;
            match matcher.check(bytes)? {
                Verdict::Match => visit(bytes, list)?,
                Verdict::No => {}
                Verdict::SkipTo(next) => target = next,
                Verdict::Stop => break,
            }
        }
        Ok(())
    }
}

/// A pattern over texts.
pub(crate) enum TextPattern<'q> {
    Prefix(&'q str),
    Suffix(&'q str),
    Contains(&'q str, Box<memmem::Finder<'q>>),
    Wildcard { prefix: String, pattern: Vec<char> },
    Regex(Box<Regex>),
}

impl<'q> TextPattern<'q> {
    pub(crate) fn prefix(text: &'q str) -> Self {
        TextPattern::Prefix(text)
    }

    pub(crate) fn suffix(text: &'q str) -> Self {
        TextPattern::Suffix(text)
    }

    pub(crate) fn contains(text: &'q str) -> Self {
        TextPattern::Contains(text, Box::new(memmem::Finder::new(text)))
    }

    pub(crate) fn wildcard(pattern: &'q str) -> Self {
        let literal = pattern.find(['*', '?']).unwrap_or(pattern.len());
        let prefix = pattern[..literal].to_owned();
        TextPattern::Wildcard { prefix, pattern: pattern.chars().collect() }
    }

    pub(crate) fn regex(pattern: &'q str) -> Result<Self, SearchError> {
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build();
        regex.map(|regex| TextPattern::Regex(Box::new(regex))).map_err(|error| {
            SearchError::Pattern { pattern: pattern.to_owned(), reason: error.to_string() }
        })
    }

    /// Whether it matches every text.
    pub(crate) fn matches_everything(&self) -> bool {
        match self {
            TextPattern::Prefix(text)
            | TextPattern::Suffix(text)
            | TextPattern::Contains(text, _) => text.is_empty(),
            TextPattern::Wildcard { pattern, .. } => {
                !pattern.is_empty() && pattern.iter().all(|character| *character == '*')
            }
            TextPattern::Regex(_) => false,
        }
    }
}

/// What of a prefix is in each term of a text that begins with it, however little of a long text is; see term.rs.
fn in_every_term(prefix: &str) -> &[u8] {
    &prefix.as_bytes()[..prefix.floor_char_boundary(TERM_BYTES_MAX - 3)]
}

fn verdict(matches: bool) -> Verdict {
    if matches { Verdict::Match } else { Verdict::No }
}

impl TermMatcher for TextPattern<'_> {
    fn lowest(&self) -> &[u8] {
        match self {
            TextPattern::Prefix(prefix) => in_every_term(prefix),
            TextPattern::Wildcard { prefix, .. } => in_every_term(prefix),
            TextPattern::Suffix(_) | TextPattern::Contains(..) | TextPattern::Regex(_) => &[],
        }
    }

    fn check(&mut self, term: &[u8]) -> Result<Verdict, SearchError> {
        let (beginning, is_cut) = beginning_of(term);
        Ok(match self {
            TextPattern::Prefix(prefix) if !term.starts_with(in_every_term(prefix)) => {
                Verdict::Stop
            }
            TextPattern::Prefix(prefix) if is_cut && beginning.len() < prefix.len() => {
                if prefix.as_bytes().starts_with(beginning) {
                    return Err(SearchError::PrefixTooLong { bytes: prefix.len() });
                }
                Verdict::No
            }
            TextPattern::Prefix(prefix) => verdict(beginning.starts_with(prefix.as_bytes())),
            TextPattern::Suffix(suffix) => {
                verdict(!is_cut && beginning.ends_with(suffix.as_bytes()))
            }
            TextPattern::Contains(_, finder) => verdict(finder.find(beginning).is_some()),
            TextPattern::Wildcard { prefix, .. } if !term.starts_with(in_every_term(prefix)) => {
                Verdict::Stop
            }
            TextPattern::Wildcard { pattern, .. } => {
                verdict(matches_wildcard(pattern, text_of(beginning)?))
            }
            TextPattern::Regex(regex) => verdict(regex.is_match(beginning)),
        })
    }
}

/// `*` matches any characters, `?` exactly one. Backtracks to the last star only, so its time is
/// bounded by the product of both lengths.
fn matches_wildcard(pattern: &[char], text: &str) -> bool {
    let (mut at, mut rest) = (0, text.chars());
    // The position after the last star, and the text it has not consumed.
    let mut star: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, rest.clone()));
            continue;
        }
        match (rest.next(), pattern.get(at)) {
            (None, None) => return true,
            (Some(found), Some(wanted)) if *wanted == '?' || *wanted == found => at += 1,
            (None, Some(_)) => return false,
            (Some(_), _) => {
                let Some((behind, swallowed)) = &mut star else { return false };
                if swallowed.next().is_none() {
                    return false;
                }
                at = *behind;
                rest = swallowed.clone();
            }
        }
    }
}

static AUTOMATA: [LazyLock<LevenshteinAutomatonBuilder>; 3] = [
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(0, false)),
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, false)),
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, false)),
];

/// Texts within some edits of one.
pub(crate) struct FuzzyText {
    text: Vec<char>,
    similarity: f32,
    /// For few edits, which is usual; for more, each term is compared.
    automaton: Option<DFA>,
}

impl FuzzyText {
    pub(crate) fn new(text: &str, similarity: f32) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let similarity = similarity.clamp(0.0, 1.0);
        let edits_max = edits_below(similarity, characters.len());
        let automaton = AUTOMATA.get(edits_max).map(|builder| builder.build_dfa(text));
        Self { text: characters, similarity, automaton }
    }

    fn is_near(&self, edits: usize, term_characters: usize) -> bool {
        let shorter = self.text.len().min(term_characters);
        edits == 0 || edits <= edits_below(self.similarity, shorter)
    }
}

/// The maximum number of edits that leave a text of `characters` characters more similar than
/// `similarity`.
fn edits_below(similarity: f32, characters: usize) -> usize {
    let room = (1.0 - similarity) * characters as f32;
    (room.ceil() as usize).saturating_sub(1)
}

impl TermMatcher for FuzzyText {
    fn lowest(&self) -> &[u8] {
        &[]
    }

    fn check(&mut self, term: &[u8]) -> Result<Verdict, SearchError> {
        let Some(automaton) = &self.automaton else {
            let term = text_of(term)?;
            let characters = term.chars().count();
            let most = edits_below(self.similarity, self.text.len().min(characters));
            if self.text.len().abs_diff(characters) > most {
                return Ok(Verdict::No);
            }
            return Ok(verdict(edit_distance_within(&self.text, term, most).is_some()));
        };
        let mut state = automaton.initial_state();
        for (at, byte) in term.iter().enumerate() {
            state = automaton.transition(state, *byte);
            if state == SINK_STATE {
                return Ok(after_prefix(&term[..=at]).map_or(Verdict::Stop, Verdict::SkipTo));
            }
        }
        Ok(match automaton.distance(state) {
            Distance::Exact(edits) => {
                verdict(self.is_near(usize::from(edits), text_of(term)?.chars().count()))
            }
            Distance::AtLeast(_) => Verdict::No,
        })
    }
}

/// The lowest bytes above everything that begins with the prefix.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(next);
        }
        next.pop();
    }
    None
}

/// The number of insertions, deletions and replacements that turn one text into the other, if it is
/// at most `most`.
pub(crate) fn edit_distance_within(text: &[char], other: &str, most: usize) -> Option<usize> {
    let mut row: Vec<usize> = (0..=text.len()).collect();
    for (line, character) in other.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        let mut lowest = row[0];
        for (column, own) in text.iter().enumerate() {
            let replaced = diagonal + usize::from(*own != character);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
            lowest = lowest.min(row[column + 1]);
        }
        if lowest > most {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wildcard(pattern: &str, text: &str) -> bool {
        matches_wildcard(&pattern.chars().collect::<Vec<_>>(), text)
    }

    #[test]
    fn wildcards_match_any_characters_or_one() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("*b*b*", "abcb", true),
            ("*b*b*", "abc", false),
            ("?", "é", true),
            ("a?c", "ac", false),
            ("**a", "ba", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn patterns_see_the_beginning_of_a_long_text_and_nothing_of_its_hash() {
        let long = format!("{}q", "b".repeat(4999));
        let term = crate::term::shortened(&long).into_owned();
        assert!(term.bytes().any(|byte| byte.is_ascii_digit()), "the hash");
        let matches = |mut pattern: TextPattern<'_>| {
            let verdict = pattern.check(term.as_bytes());
            verdict.map(|verdict| matches!(verdict, Verdict::Match))
        };
        let regex = |pattern| TextPattern::regex(pattern).unwrap();
        assert!(matches(regex("^bb")).unwrap());
        assert!(!matches(regex("[0-9ac-f]")).unwrap());
        assert!(!matches(TextPattern::contains("q")).unwrap());
        assert!(!matches(TextPattern::suffix(&term[term.len() - 4..])).unwrap());
        assert!(matches(TextPattern::wildcard("b*")).unwrap());
        assert!(!matches(TextPattern::wildcard("*0*")).unwrap());
        assert!(matches(TextPattern::prefix(&long[..TERM_BYTES_MAX])).unwrap());
        let stranger = format!("{}m", "b".repeat(TERM_BYTES_MAX - 3));
        assert!(!matches(TextPattern::prefix(&stranger)).unwrap());
        let unknown = matches(TextPattern::prefix(&long[..TERM_BYTES_MAX + 1]));
        assert!(matches!(unknown, Err(SearchError::PrefixTooLong { bytes: 961 })));
    }

    fn fuzzy(text: &str, similarity: f32, term: &str) -> bool {
        let verdict = FuzzyText::new(text, similarity).check(term.as_bytes());
        matches!(verdict, Ok(Verdict::Match))
    }

    #[test]
    fn similarity_counts_edits_per_character_of_the_shorter_text() {
        for (text, similarity, term, expected) in [
            ("abd", 0.5, "abc", true),
            ("abd", 0.5, "xbc", false),
            ("abd", 0.5, "ab", false),
            ("abd", 0.5, "abd", true),
            ("abd", 1.0, "abd", true),
            ("abd", 1.0, "abc", false),
            ("appel", 0.5, "apple", true),
            ("internationalisation", 0.5, "internasionalizazion", true),
            ("internationalisation", 0.9, "internasionalizazion", false),
            ("éa", 0.4, "ea", true),
            ("", 0.5, "", true),
        ] {
            assert_eq!(fuzzy(text, similarity, term), expected, "{text} ~{similarity} {term}");
        }
    }
}
