//! The order of terms in a facet: linguistic, not by bytes.
//!
//! Punctuation sorts before digits, digits before letters, and case and accents only break ties.
//! Punctuation is in the order of Unicode's default collation; letters of other alphabets are in
//! code point order.

use std::cmp::Ordering;

/// Punctuation in its order.
const SIGNS: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
/// Accented letters, grouped by their base letter.
const ACCENTED: [(&str, &str); 22] = [
    ("a", "àáâãäåāăą"),
    ("c", "çćĉċč"),
    ("d", "ďđ"),
    ("e", "èéêëēĕėęě"),
    ("g", "ĝğġģ"),
    ("h", "ĥħ"),
    ("i", "ìíîïĩīĭįı"),
    ("j", "ĵ"),
    ("k", "ķ"),
    ("l", "ĺļľŀł"),
    ("n", "ñńņňŉ"),
    ("o", "òóôõöøōŏő"),
    ("r", "ŕŗř"),
    ("s", "śŝşš"),
    ("t", "ţťŧ"),
    ("u", "ùúûüũūŭůűų"),
    ("w", "ŵ"),
    ("y", "ýÿŷ"),
    ("z", "źżž"),
    ("ss", "ß"),
    ("ae", "æ"),
    ("oe", "œ"),
];

/// Compares two terms in the order in which facets list them: by letters, then accents, then case.
pub(crate) fn compare_terms(left: &str, right: &str) -> Ordering {
    let accents = || lower(left).cmp(lower(right));
    // Lower case sorts before upper case.
    weights(left).cmp(weights(right)).then_with(accents).then_with(|| right.cmp(left))
}

fn lower(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_lowercase)
}

fn weights(text: &str) -> impl Iterator<Item = u32> + '_ {
    lower(text).flat_map(|character| {
        let base: &'static str = match character.is_ascii() {
            true => "",
            false => without_accent(character),
        };
        let own = base.is_empty().then(|| weight_of(character));
        own.into_iter().chain(base.chars().map(weight_of))
    })
}

/// Empty for a letter without accents.
fn without_accent(letter: char) -> &'static str {
    let found = ACCENTED.iter().find(|(_, accented)| accented.contains(letter));
    found.map_or("", |(base, _)| base)
}

/// Blanks, then punctuation, then everything else: digits and letters already are in order there.
fn weight_of(character: char) -> u32 {
    if character.is_whitespace() {
        return 0;
    }
    match SIGNS.find(character) {
        Some(place) => 1 + place as u32,
        None => SIGNS.len() as u32 + character as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_ordered_as_the_real_server_was_seen_to() {
        let expected = [
            "_", "-", ".5", "[", "{", "@x", "#1", "~", "0.5", "1", "10", "2", "a", "ä", "a b",
            "A b c", "a_b", "a-b", "ab", "co op", "co-op", "coop", "e", "é", "É", "f", "i", "ı",
            "naive", "naïve", "o'neil", "oneil", "ss", "ß", "st", "z", "zz", "Ω", "я", "日本",
        ];
        let mut terms = expected;
        terms.reverse();
        terms.sort_by(|left, right| compare_terms(left, right));
        assert_eq!(terms, expected);
        let mut names = ["sony", "NULL_VALUE", "nikon", "EMPTY_STRING", "canon", "_under"];
        names.sort_by(|left, right| compare_terms(left, right));
        assert_eq!(names, ["_under", "canon", "EMPTY_STRING", "nikon", "NULL_VALUE", "sony"]);
    }

    #[test]
    fn different_terms_are_never_equal() {
        assert_ne!(compare_terms("É", "é"), Ordering::Equal);
        assert_ne!(compare_terms("ss", "ß"), Ordering::Equal);
    }
}
