//! The `$names` in a script's text, so that parameters of a query can be passed to it.

use std::collections::BTreeSet;

/// The names, without `$`, in alphabetical order. Found lexically, so names inside strings are
/// included: that only defines a variable that the script does not use.
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
