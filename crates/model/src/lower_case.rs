//! The one case folding of ids, collections and names.

use std::borrow::Cow;

/// Lower-cases each character by its simple, language-independent mapping; one character stays one
/// character. Characters outside the basic plane stay as they are, and so does `İ`, whose lower
/// case would be two characters: that is how the protocol's ids have always compared.
pub fn lower_case(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(text.to_ascii_lowercase());
        }
        return Cow::Borrowed(text);
    }
    if text.chars().all(|character| lower(character) == character) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(lower).collect())
}

fn lower(character: char) -> char {
    if 0xffff < character as u32 {
        return character;
    }
    let mut mapped = character.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_is_folded_alone() {
        let cases = [
            ("users/1-A", "users/1-a"),
            ("already lower", "already lower"),
            ("ÉCLAIR", "éclair"),
            ("İx", "İx"),
            ("ẞ", "ß"),
            ("ΣΣ", "σσ"),
            ("ǅ", "ǆ"),
            ("\u{10400}", "\u{10400}"),
            ("\u{212a}", "k"),
        ];
        for (text, expected) in cases {
            assert_eq!(lower_case(text), expected, "{text}");
        }
        assert!(matches!(lower_case("already lower"), Cow::Borrowed(_)));
        assert!(matches!(lower_case("schön"), Cow::Borrowed(_)));
    }
}
