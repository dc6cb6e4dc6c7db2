//! The words of the language: which may not start a name, and which one a misspelt word resembles.

/// Words that cannot be a name or an alias unless quoted.
const RESERVED: [&str; 10] =
    ["as", "select", "where", "load", "group", "order", "include", "update", "offset", "limit"];

/// Words that start a clause after the source, for suggestions.
pub(crate) const CLAUSES: [&str; 10] = [
    "where",
    "group by",
    "order by",
    "load",
    "filter",
    "select",
    "include",
    "limit",
    "offset",
    "filter_limit",
];

/// The comparison words and joints of a condition, for suggestions.
pub(crate) const OPERATORS: [&str; 7] = ["in", "between", "all in", "and", "or", "not", "order by"];

/// The type words of an `order by`.
pub(crate) const ORDERINGS: [&str; 4] = ["string", "long", "double", "alphaNumeric"];

/// Whether `word` may not be used as a name without quotes.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// The longest word that is compared, in characters; longer ones get no suggestion.
const WORD_CHARACTERS_MAX: usize = 32;

/// The entry of `known` that `word` probably meant to be: at most two typing slips away (one for
/// short words), ignoring case. `None` when nothing is close or the word is spelt right.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = word.chars().count();
    if !(2..=WORD_CHARACTERS_MAX).contains(&length) {
        return None;
    }
    let slips_max = if length <= 4 { 1 } else { 2 };
    let scored = known.iter().map(|candidate| (slips(word, candidate), *candidate));
    scored
        .filter(|(slips, _)| (1..=slips_max).contains(slips))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words, ignoring case.
fn slips(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut before_last = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row; right.len() + 1];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let replaced = last[column - 1] + usize::from(!same);
            let mut best = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(before_last[column - 2] + 1);
            }
            current[column] = best;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        for (word, expected) in [
            ("selec", Some("select")),
            ("wehre", Some("where")),
            ("WHER", Some("where")),
            ("inclde", Some("include")),
            ("select", None),
            ("customer", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, &CLAUSES), expected, "{word}");
        }
    }

    #[test]
    fn reserved_words_are_known_in_any_case() {
        assert!(is_reserved("Select"));
        assert!(!is_reserved("filter"));
        assert!(!is_reserved("selection"));
    }
}
