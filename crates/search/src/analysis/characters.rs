//! Letters and digits, by their general category.
//!
//! The standard library's `is_alphabetic` includes marks, Roman numerals and circled letters, at
//! which the analyzers of existing indexes split words.

use std::sync::LazyLock;

use regex::Regex;

/// A bit for each character of the basic plane.
type CharacterTable = Box<[u64; 1024]>;

static LETTERS: LazyLock<CharacterTable> = LazyLock::new(|| table(r"\p{L}"));
static DIGITS: LazyLock<CharacterTable> = LazyLock::new(|| table(r"\p{Nd}"));

fn table(class: &str) -> CharacterTable {
    let mut table = Box::new([0; 1024]);
    let class = Regex::new(class).expect("the class is one that the library knows");
    let all: String = ('\0'..='\u{ffff}').collect();
    for character in class.find_iter(&all).flat_map(|found| found.as_str().chars()) {
        let number = character as usize;
        table[number / 64] |= 1 << (number % 64);
    }
    table
}

fn is_in(table: &CharacterTable, character: char) -> bool {
    let number = character as usize;
    table.get(number / 64).is_some_and(|bits| bits & (1 << (number % 64)) != 0)
}

/// Whether it is a letter of the basic plane.
pub(super) fn is_letter(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_alphabetic() } else { is_in(&LETTERS, character) }
}

/// Whether it is a decimal digit of the basic plane, of any script.
pub(super) fn is_digit(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { is_in(&DIGITS, character) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerals_marks_and_circles_are_no_letters() {
        for (character, letter, digit) in [
            ('a', true, false),
            ('é', true, false),
            ('ª', true, false),
            ('日', true, false),
            ('ก', true, false),
            ('7', false, true),
            ('۳', false, true),
            ('Ⅷ', false, false),
            ('①', false, false),
            ('ⓐ', false, false),
            ('½', false, false),
            ('\u{301}', false, false),
            ('\u{93e}', false, false),
            ('😀', false, false),
            ('𝐀', false, false),
        ] {
            assert_eq!((is_letter(character), is_digit(character)), (letter, digit), "{character}");
        }
    }
}
