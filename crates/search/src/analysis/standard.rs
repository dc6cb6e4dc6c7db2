//! Words by the grammar of Lucene 2.9's standard tokenizer.
//!
//! ```text
//! word      letters and digits; Thai and Korean ones are letters, Chinese and Japanese ones are not
//! letters   letters only
//! digits    letters and digits, one digit at least
//!
//! ALPHANUM  word
//! APOSTROPHE letters ( ' letters )+                    a final 's is dropped
//! ACRONYM   letter . ( letter . )+                     its dots are dropped
//! DEPRECATED word . ( word . )+                        its last dot is dropped
//! COMPANY   letters (& or @) letters
//! EMAIL     word ( (. - _) word )* @ word ( (. -) word )+
//! HOST      word ( . word )+
//! NUMBER    words and digits in turn, joined by one of _ - / . ,    every other one with a digit
//! CJK       one Chinese or Japanese character
//! ```
//!
//! The longest match wins; of equally long ones, the first in Lucene's order, which is the one above
//! except that DEPRECATED is last. What no rule matches stands between words.

use super::{
    Token, WORD_CHARACTERS_MAX,
    characters::{is_digit, is_letter},
};

/// What a character is in the grammar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Cjk,
    Other,
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        '0'..='9' => Class::Digit,
        '\0'..='\x7f' => Class::Other,
        _ if is_cjk(character) => Class::Cjk,
        '\u{e00}'..='\u{e59}' => Class::Letter,
        // Lucene classifies UTF-16 units, so it sees no letters beyond the basic plane.
        _ if is_letter(character) => Class::Letter,
        _ if is_digit(character) => Class::Digit,
        _ => Class::Other,
    }
}

fn is_cjk(character: char) -> bool {
    matches!(
        character,
        '\u{3040}'..='\u{30ff}'
            | '\u{3100}'..='\u{312f}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3300}'..='\u{337f}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff65}'..='\u{ff9f}'
    )
}

/// The rule that matched a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Apostrophe,
    Acronym,
    Deprecated,
    Plain,
}

/// Calls `sink` with every word; words that are too long only consume a position.
pub(super) fn words(text: &str, sink: &mut dyn FnMut(Token<'_>)) {
    let mut position = 0;
    let mut at = 0;
    let mut buffer = String::new();
    while let Some(character) = text[at..].chars().next() {
        let end = match class(character) {
            Class::Other => {
                at += character.len_utf8();
                continue;
            }
            Class::Cjk => (at + character.len_utf8(), Rule::Plain),
            Class::Letter | Class::Digit => longest_word(text, at),
        };
        let (end, rule) = end;
        let word = &text[at..end];
        if word.len() <= WORD_CHARACTERS_MAX || word.chars().count() <= WORD_CHARACTERS_MAX {
            let term = filtered(word, rule, &mut buffer);
            sink(Token { text: term, position, start: at, end });
        }
        position += 1;
        at = end;
    }
}

/// The word after the standard filter.
fn filtered<'w>(word: &'w str, rule: Rule, buffer: &'w mut String) -> &'w str {
    match rule {
        Rule::Plain => word,
        Rule::Apostrophe => {
            word.strip_suffix("'s").or_else(|| word.strip_suffix("'S")).unwrap_or(word)
        }
        Rule::Deprecated => word.strip_suffix('.').unwrap_or(word),
        Rule::Acronym => {
            buffer.clear();
            buffer.extend(word.chars().filter(|character| *character != '.'));
            buffer
        }
    }
}

/// A run of letters and digits.
#[derive(Clone, Copy)]
struct Run {
    end: usize,
    letters_only: bool,
    has_digit: bool,
    one_letter: bool,
}

fn run(text: &str, start: usize) -> Option<Run> {
    let (mut end, mut letters, mut digits) = (start, 0usize, 0usize);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(end) {
        if byte.is_ascii_alphabetic() {
            letters += 1;
            end += 1;
        } else if byte.is_ascii_digit() {
            digits += 1;
            end += 1;
        } else if byte < 0x80 {
            break;
        } else {
            let Some(character) = text[end..].chars().next() else { break };
            match class(character) {
                Class::Letter => letters += 1,
                Class::Digit => digits += 1,
                Class::Cjk | Class::Other => break,
            }
            end += character.len_utf8();
        }
    }
    (letters + digits > 0).then_some(Run {
        end,
        letters_only: digits == 0,
        has_digit: digits > 0,
        one_letter: letters == 1 && digits == 0,
    })
}

/// The longest word that begins with the run at `start`, and the rule that matched it.
fn longest_word(text: &str, start: usize) -> (usize, Rule) {
    let Some(first) = run(text, start) else { return (start, Rule::Plain) };
    let mut best = (first.end, Rule::Plain);
    let joint = text.as_bytes().get(first.end).copied();
    if !matches!(joint, Some(b'\'' | b'.' | b'&' | b'@' | b'_' | b'-' | b'/' | b',')) {
        return best;
    }
    let mut consider = |end: Option<usize>, rule| {
        if let Some(end) = end
            && end > best.0
        {
            best = (end, rule);
        }
    };
    consider(apostrophe(text, first), Rule::Apostrophe);
    consider(dotted(text, first, true), Rule::Acronym);
    consider(company(text, first), Rule::Plain);
    consider(email(text, first), Rule::Plain);
    consider(host(text, first), Rule::Plain);
    consider(number(text, first, true), Rule::Plain);
    consider(number(text, first, false), Rule::Plain);
    consider(dotted(text, first, false), Rule::Deprecated);
    best
}

/// The run after one of these characters.
fn joined(text: &str, end: usize, joints: &[u8]) -> Option<Run> {
    let joint = text.as_bytes().get(end)?;
    joints.contains(joint).then(|| run(text, end + 1))?
}

fn apostrophe(text: &str, first: Run) -> Option<usize> {
    let mut last = first;
    while last.letters_only
        && let Some(next) = joined(text, last.end, b"'")
    {
        if !next.letters_only {
            // The letters before the digit may still belong to it.
            let letters = letters_end(text, last.end + 1);
            return if letters > last.end + 1 { Some(letters) } else { Some(last.end) };
        }
        last = next;
    }
    Some(last.end)
}

fn letters_end(text: &str, start: usize) -> usize {
    let length = text[start..].find(|character| class(character) != Class::Letter);
    length.map_or(text.len(), |length| start + length)
}

/// `A.B.C.`, or `ab.c1.` when not only single letters.
fn dotted(text: &str, first: Run, letters: bool) -> Option<usize> {
    let dot = |end: usize| text.as_bytes().get(end) == Some(&b'.');
    let fits = |run: Run| !letters || run.one_letter;
    let mut last = first;
    let mut parts = 0;
    let mut end = None;
    while fits(last) && dot(last.end) {
        parts += 1;
        if parts > 1 {
            end = Some(last.end + 1);
        }
        match run(text, last.end + 1) {
            Some(next) => last = next,
            None => break,
        }
    }
    end
}

fn company(text: &str, first: Run) -> Option<usize> {
    if !first.letters_only || !matches!(text.as_bytes().get(first.end), Some(b'&' | b'@')) {
        return None;
    }
    let end = letters_end(text, first.end + 1);
    (end > first.end + 1).then_some(end)
}

fn email(text: &str, first: Run) -> Option<usize> {
    let mut last = first;
    while let Some(next) = joined(text, last.end, b".-_") {
        last = next;
    }
    let mut last = joined(text, last.end, b"@")?;
    let mut end = None;
    while let Some(next) = joined(text, last.end, b".-") {
        last = next;
        end = Some(next.end);
    }
    end
}

fn host(text: &str, first: Run) -> Option<usize> {
    let mut last = first;
    while let Some(next) = joined(text, last.end, b".") {
        last = next;
    }
    Some(last.end)
}

/// Runs joined by punctuation; every other one, the first or the second and so on, has a digit.
fn number(text: &str, first: Run, first_has_digit: bool) -> Option<usize> {
    let mut needs_digit = first_has_digit;
    let mut last = first;
    if needs_digit && !last.has_digit {
        return None;
    }
    let mut end = None;
    while let Some(next) = joined(text, last.end, b"_-/.,") {
        needs_digit = !needs_digit;
        if needs_digit && !next.has_digit {
            break;
        }
        last = next;
        end = Some(next.end);
    }
    end
}
