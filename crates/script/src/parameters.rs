//! The `$names` that a script's text uses, so that parameters of a query can be given to it.

use std::collections::BTreeSet;

/// The names, without `$`, in alphabetical order. Found by their looks alone, so that a name inside of a
/// string is among them: that gives the script a variable that it does not use, no more.
pub(crate) fn parameter_names(texts: &[&str]) -> Vec<String> {
    let mut names = BTreeSet::new();
    for text in texts {
        let mut before = ' ';
        for (start, c) in text.char_indices() {
            if c == '$' && !is_word(before) {
                let name: &str = &text[start + 1..];
                let end = name.find(|c: char| !is_word(c)).unwrap_or(name.len());
                if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    names.insert(name[..end].to_owned());
                }
            }
            before = c;
        }
    }
    names.into_iter().collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_their_dollar() {
        for (text, names) in [
            ("o.x = $b + $a.c", vec!["a", "b"]),
            ("a$b + $$c + ${x} + $1 + $", vec![]),
            ("($p0,$p0)", vec!["p0"]),
        ] {
            assert_eq!(parameter_names(&[text]), names, "{text}");
        }
    }
}
