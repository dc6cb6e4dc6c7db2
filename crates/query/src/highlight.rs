//! Highlighting: the matches of a query in a text, cut into fragments with tags around the matches.
//!
//! The text is tokenized again by the analyzer of its field. Words, phrases and prefixes that the
//! query searches for are marked, each with its own tags; fragments begin and end at word
//! boundaries.

use search::analysis::Analyzer;
use search::{PhraseWord, Query, TermValue};

/// Characters of context before the first mark of a fragment, used to decide which marks it
/// includes.
const MARGIN: usize = 6;
/// The minimum requestable length of a fragment, in characters.
pub(crate) const FRAGMENT_LENGTH_MIN: i64 = 18;

/// Colors of the marks when the request has no tags of its own.
const COLORS: [&str; 20] = [
    "yellow",
    "lawngreen",
    "aquamarine",
    "magenta",
    "palegreen",
    "coral",
    "wheat",
    "khaki",
    "lime",
    "deepskyblue",
    "deeppink",
    "salmon",
    "peachpuff",
    "violet",
    "mediumpurple",
    "palegoldenrod",
    "darkkhaki",
    "springgreen",
    "turquoise",
    "powderblue",
];

/// What precedes and follows a mark; the n-th part of a query has the n-th tags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tags(Vec<(String, String)>);

impl Default for Tags {
    fn default() -> Self {
        let tag = |color| (format!("<b style=\"background:{color}\">"), "</b>".to_owned());
        Tags(COLORS.into_iter().map(tag).collect())
    }
}

impl Tags {
    /// The tags of a request; `None` when the numbers of opening and closing tags differ.
    pub(crate) fn new(opening: Vec<String>, closing: Vec<String>) -> Option<Tags> {
        if opening.len() != closing.len() {
            return None;
        }
        match opening.is_empty() {
            true => Some(Tags::default()),
            false => Some(Tags(opening.into_iter().zip(closing).collect())),
        }
    }

    fn of_part(&self, part: usize) -> &(String, String) {
        &self.0[part % self.0.len()]
    }
}

/// A part of a query that can be marked in a text.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Word(String),
    Beginning(String),
    Phrase { words: Vec<PhraseWord>, slop: u32 },
}

/// The parts of a query that can be marked, and the fields that they search.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MarkedParts(Vec<(String, Part)>);

impl MarkedParts {
    pub(crate) fn of(query: &Query) -> Self {
        let mut parts = MarkedParts::default();
        parts.collect(query);
        parts
    }

    fn collect(&mut self, query: &Query) {
        let (field, part) = match query {
            Query::And(queries) | Query::Or(queries) => {
                return queries.iter().for_each(|query| self.collect(query));
            }
            Query::Preferring(required, preferred) => {
                self.collect(required);
                return preferred.iter().for_each(|query| self.collect(query));
            }
            Query::Boost(inner, _) => return self.collect(inner),
            Query::Term { field, value: TermValue::Text(text) } => {
                (field, Part::Word(text.clone()))
            }
            Query::Prefix { field, text } if !text.is_empty() => {
                (field, Part::Beginning(text.clone()))
            }
            Query::Phrase { field, words, slop } => {
                (field, Part::Phrase { words: words.clone(), slop: *slop })
            }
            // Excluded conditions, and those that search for no text of their own, are not marked.
            _ => return,
        };
        let part = (field.clone(), part);
        if !self.0.contains(&part) {
            self.0.push(part);
        }
    }

    /// Whether any part searches a field.
    pub(crate) fn has_field(&self, field: &str) -> bool {
        self.0.iter().any(|(own, _)| own == field)
    }

    /// The matches of the query in `text`, the value of `field`; in order, without overlaps.
    fn marks(&self, field: &str, analyzer: &Analyzer, text: &str) -> Vec<Mark> {
        let mut tokens: Vec<OwnedToken> = Vec::new();
        analyzer.analyze(text, &mut |token| {
            tokens.push(OwnedToken {
                text: token.text.to_owned(),
                position: token.position,
                start: token.start,
                end: token.end,
            });
        });
        let mut marks = Vec::new();
        for (number, (own, part)) in self.0.iter().enumerate() {
            if own == field {
                part.find(&tokens, &mut |start, end| marks.push(Mark { start, end, part: number }));
            }
        }
        marks.sort_unstable_by_key(|mark| (mark.start, usize::MAX - mark.end, mark.part));
        let mut end = 0;
        marks.retain(|mark| {
            let is_free = end <= mark.start;
            if is_free {
                end = mark.end;
            }
            is_free
        });
        marks
    }

    /// Fragments of `text`, the value of `field`: at most `count`, of about `length` characters.
    pub(crate) fn fragments(
        &self,
        field: &str,
        analyzer: &Analyzer,
        text: &str,
        (length, count): (usize, usize),
        tags: &Tags,
    ) -> Vec<String> {
        let marks = self.marks(field, analyzer, text);
        if marks.is_empty() {
            return Vec::new();
        }
        let text = CharacterText::new(text);
        let mut fragments = Vec::new();
        let (mut rest, mut from) = (marks.as_slice(), 0);
        while let [first, ..] = rest
            && fragments.len() < count
        {
            if text.place(first.start) < from {
                rest = &rest[1..];
                continue;
            }
            let (start, end) = text.span(rest, from, length);
            let inside = rest.iter().take_while(|mark| text.place(mark.end) <= end).count().max(1);
            fragments.push(text.tagged(&rest[..inside], start, end, tags));
            rest = &rest[inside..];
            from = end;
        }
        fragments
    }
}

/// A token that outlives its analyzer.
struct OwnedToken {
    text: String,
    position: u32,
    start: usize,
    end: usize,
}

/// A part of the text, in bytes, that a part of the query matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    start: usize,
    end: usize,
    part: usize,
}

impl Part {
    fn find(&self, tokens: &[OwnedToken], sink: &mut dyn FnMut(usize, usize)) {
        match self {
            Part::Word(word) => tokens
                .iter()
                .filter(|token| token.text == *word)
                .for_each(|token| sink(token.start, token.end)),
            Part::Beginning(start) => tokens
                .iter()
                .filter(|token| token.text.starts_with(start.as_str()))
                .for_each(|token| sink(token.start, token.end)),
            Part::Phrase { words, slop } => {
                for first in 0..tokens.len() {
                    if let Some(last) = phrase_end(tokens, first, words, *slop) {
                        sink(tokens[first].start, last);
                    }
                }
            }
        }
    }
}

/// Where the phrase that begins with the token `first` ends in the text.
fn phrase_end(
    tokens: &[OwnedToken],
    first: usize,
    words: &[PhraseWord],
    slop: u32,
) -> Option<usize> {
    let (word, others) = words.split_first()?;
    if tokens[first].text != word.text {
        return None;
    }
    let (mut at, mut end) = (first, tokens[first].end);
    let origin = i64::from(tokens[first].position) - i64::from(word.position);
    for word in others {
        let wanted = origin + i64::from(word.position);
        let reached = wanted + i64::from(slop);
        let behind = tokens[at + 1..].iter().take_while(|t| i64::from(t.position) <= reached);
        let near = behind
            .enumerate()
            .find(|(_, token)| token.text == word.text && wanted <= i64::from(token.position));
        let (distance, token) = near?;
        at += 1 + distance;
        end = token.end;
    }
    Some(end)
}

/// A text addressed by characters.
struct CharacterText<'t> {
    text: &'t str,
    /// The byte offset at which each character begins, and where the last one ends.
    starts: Vec<usize>,
}

impl<'t> CharacterText<'t> {
    fn new(text: &'t str) -> Self {
        let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        starts.push(text.len());
        Self { text, starts }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of the character that begins at a byte offset.
    fn place(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start < byte)
    }

    fn character(&self, place: usize) -> Option<char> {
        self.text[*self.starts.get(place)?..].chars().next()
    }

    fn is_inside_of_a_word(&self, place: usize) -> bool {
        let is_word = |place: Option<usize>| {
            place.and_then(|place| self.character(place)).is_some_and(char::is_alphanumeric)
        };
        is_word(place.checked_sub(1)) && is_word(Some(place))
    }

    /// The span of the fragment that begins with the first mark, not before `from`.
    fn span(&self, marks: &[Mark], from: usize, length: usize) -> (usize, usize) {
        let (first_start, first_end) = (self.place(marks[0].start), self.place(marks[0].end));
        let begin = first_start.saturating_sub(MARGIN).max(from);
        let reached = (begin + length).max(first_end);
        let inside = marks.iter().take_while(|mark| self.place(mark.end) <= reached).count().max(1);
        let last_end = self.place(marks[inside - 1].end);
        // The mark is centered.
        let margin = length.saturating_sub(last_end - first_start) / 2;
        let mut start = first_start.saturating_sub(margin).max(from);
        if 1 < inside {
            start = self.sentence_start(start, first_start);
        }
        let end = (start + length.max(last_end - start)).min(self.len());
        (self.word_start(start, first_start), self.word_end(end, last_end))
    }

    /// The start of the last sentence that begins after `place` and not after `limit`.
    fn sentence_start(&self, place: usize, limit: usize) -> usize {
        let is_end = |place: usize| matches!(self.character(place), Some('.' | '!' | '?'));
        let is_space =
            |place: usize| self.character(place).is_some_and(|character| character.is_whitespace());
        let ends = (place..limit.saturating_sub(1)).rev();
        let mut starts = ends.filter(|at| is_end(*at) && is_space(at + 1)).map(|at| at + 2);
        starts.next().unwrap_or(place)
    }

    /// The start of the first whole word from `place` on, at most `limit`.
    fn word_start(&self, place: usize, limit: usize) -> usize {
        let mut start = place;
        let is_cut = self.is_inside_of_a_word(start);
        while start < limit && is_cut && self.is_inside_of_a_word(start) {
            start += 1;
        }
        // After a cut word, the punctuation that follows it is skipped too.
        let is_skipped = |character: char| match is_cut {
            true => !character.is_alphanumeric(),
            false => 0 < place && character.is_whitespace(),
        };
        while start < limit && self.character(start).is_some_and(is_skipped) {
            start += 1;
        }
        start
    }

    /// The end of the last whole word up to `place`, at least `limit`.
    fn word_end(&self, place: usize, limit: usize) -> usize {
        let mut end = place;
        while limit < end && self.is_inside_of_a_word(end) {
            end -= 1;
        }
        let is_space = |place: usize| self.character(place).is_some_and(char::is_whitespace);
        while limit < end && is_space(end - 1) {
            end -= 1;
        }
        end
    }

    fn tagged(&self, marks: &[Mark], start: usize, end: usize, tags: &Tags) -> String {
        let (mut at, end) = (self.starts[start], self.starts[end]);
        let mut fragment = String::with_capacity(end - at + 32 * marks.len());
        for mark in marks {
            let (opening, closing) = tags.of_part(mark.part);
            fragment.push_str(&self.text[at..mark.start]);
            fragment.push_str(opening);
            fragment.push_str(&self.text[mark.start..mark.end]);
            fragment.push_str(closing);
            at = mark.end;
        }
        fragment.push_str(&self.text[at..end.max(at)]);
        fragment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "The quick brown fox jumps over the lazy dog. A second sentence about nothing \
        in particular, but long enough to need several fragments. Then the fox returns, and another \
        fox, quick as ever, runs through the whole forest looking for the lazy dog that it once \
        knew. Finally the story ends with a fox.";

    fn word(text: &str) -> Query {
        Query::text("B", text)
    }

    /// Fragments joined by `|`, with the number of its part around each mark.
    fn fragments(query: &Query, text: &str, length: usize, count: usize) -> String {
        let digits: Vec<String> = (0..4).map(|part| format!("{part}[")).collect();
        let tags = Tags::new(digits, vec!["]".to_owned(); 4]).unwrap();
        let parts = MarkedParts::of(query);
        parts.fragments("B", &Analyzer::RavenStandard, text, (length, count), &tags).join("|")
    }

    #[test]
    fn fragments_are_whole_words_around_marks() {
        let both = Query::Or(vec![word("quick"), word("fox")]);
        let short = "The quick brown fox";
        for (query, text, length, count, expected) in [
            (word("fox"), short, 18, 1, "brown 0[fox]"),
            (word("fox"), short, 50, 2, "The quick brown 0[fox]"),
            (word("fox"), LONG, 18, 1, "brown 0[fox] jumps"),
            (
                word("fox"),
                LONG,
                60,
                2,
                "The quick brown 0[fox] jumps over the lazy dog. A second|Then the 0[fox] returns, \
                 and another 0[fox], quick as ever, runs",
            ),
            (both.clone(), short, 60, 2, "The 0[quick] brown 1[fox]"),
            (both, LONG, 60, 1, "The 0[quick] brown 1[fox] jumps over the lazy dog. A second"),
            (word("bear"), LONG, 60, 2, ""),
            (word("fox"), LONG, 60, 0, ""),
            (word("fox"), "FOX’s fox", 60, 2, "0[FOX]’s 0[fox]"),
            (word("日"), "xx日本日", 18, 1, "xx0[日]本0[日]"),
        ] {
            assert_eq!(fragments(&query, text, length, count), expected, "{query:?}");
        }
        let ends = fragments(&word("fox"), LONG, 100, 5);
        assert!(ends.ends_with("Finally the story ends with a 0[fox]."), "{ends}");
    }

    #[test]
    fn phrases_and_beginnings_are_marked_whole() {
        let words = |texts: &[&str]| {
            let words = texts.iter().zip(0..);
            words
                .map(|(text, position)| PhraseWord { text: (*text).to_owned(), position })
                .collect()
        };
        let phrase = |texts: &[&str], slop| Query::Phrase {
            field: "B".to_owned(),
            words: words(texts),
            slop,
        };
        let text = "quick brown fox, quick fox";
        for (query, expected) in [
            (phrase(&["quick", "brown"], 0), "0[quick brown] fox, quick fox"),
            (phrase(&["quick", "fox"], 0), "quick brown fox, 0[quick fox]"),
            (phrase(&["quick", "fox"], 1), "0[quick brown fox], 0[quick fox]"),
            (
                Query::Prefix { field: "B".to_owned(), text: "qui".to_owned() },
                "0[quick] brown fox, 0[quick] fox",
            ),
            (
                Query::And(vec![word("fox"), word("brown").not()]),
                "quick brown 0[fox], quick 0[fox]",
            ),
            (Query::text("C", "fox"), ""),
        ] {
            assert_eq!(fragments(&query, text, 100, 5), expected, "{query:?}");
        }
    }

    #[test]
    fn any_text_is_cut_without_losing_its_place() {
        let mut state: u64 = 7;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % limit
        };
        for _ in 0..2_000 {
            let words = ["fox", "é日", "a", "quick", ".", "  ", "fox,", "İx", "🦊"];
            let count = below(30);
            let text: Vec<&str> = (0..count).map(|_| words[below(words.len())]).collect();
            let text = text.join([" ", ""][below(2)]);
            let query = Query::Or(vec![word("fox"), word("quick")]);
            let parts = MarkedParts::of(&query);
            let (length, count) = (1 + below(40), below(5));
            let tags = Tags::new(vec!["[".to_owned()], vec!["]".to_owned()]).unwrap();
            let found =
                parts.fragments("B", &Analyzer::RavenStandard, &text, (length, count), &tags);
            assert!(found.len() <= count);
            for fragment in found {
                let plain = fragment.replace(['[', ']'], "");
                assert!(text.contains(&plain), "{text}: {fragment}");
                assert!(fragment.contains('['), "{text}: {fragment}");
            }
        }
    }
}
