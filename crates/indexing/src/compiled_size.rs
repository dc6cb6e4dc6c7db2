//! How much memory the compiled form of a definition takes, estimated from its texts.
//!
//! The compiled form of a C# text, with what exists only while it is made, was measured to take up to 62
//! bytes for each token of the text (`1+1+1+…`). JavaScript is compiled within the heap of its
//! thread, which has a limit of its own.

use model::IndexDefinition;

use crate::static_definition::is_javascript;

/// Memory of a compiled C# text for each of its tokens.
const TOKEN_BYTES: u64 = 64;

/// What the compiled form of a definition takes, in bytes, besides copies of its texts; 0 for JavaScript.
pub fn compiled_bytes(definition: &IndexDefinition) -> u64 {
    if definition.maps.iter().any(|map| is_javascript(map)) {
        return 0;
    }
    TOKEN_BYTES * texts_of(definition).map(|text| tokens_in(text)).sum::<u64>()
}

/// The texts of a definition that are compiled.
pub fn texts_of(definition: &IndexDefinition) -> impl Iterator<Item = &String> {
    let texts = definition.maps.iter().chain(&definition.reduce);
    texts.chain(definition.additional_sources.values())
}

/// The number of tokens in a text, at least.
fn tokens_in(text: &str) -> u64 {
    let mut is_in_word = false;
    let begins_token = |byte: &u8| {
        let continues = is_in_word;
        is_in_word = byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        let is_in_same_word = continues && is_in_word;
        !is_in_same_word && !byte.is_ascii_whitespace()
    };
    text.as_bytes().iter().copied().filter(begins_token).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_by_the_tokens_of_the_texts() {
        let definition = |maps: &[&str], reduce: Option<&str>| IndexDefinition {
            maps: maps.iter().map(|&map| map.to_owned()).collect(),
            reduce: reduce.map(str::to_owned),
            ..IndexDefinition::default()
        };
        let map = "from d in docs.Users select new { d.Name }";
        assert_eq!(compiled_bytes(&definition(&[map, map], None)), 2 * 13 * 64);
        assert_eq!(compiled_bytes(&definition(&[map], Some(map))), 2 * 13 * 64);
        assert_eq!(compiled_bytes(&definition(&["map('Users', u => ({ a: u.a }))"], None)), 0);
    }
}
