//! The alphabet of base64: six bits as a character, and back.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The character of the lowest six bits.
pub(crate) fn character(sextet: u8) -> u8 {
    ALPHABET[usize::from(sextet & 0x3f)]
}

/// The text of bytes in base64, padded to a multiple of four characters.
pub fn base64_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place) & 0x3F) as u8;
            text.push(if place <= three.len() { char::from(character(sextet)) } else { '=' });
        }
    }
    text
}

/// The bytes of a text in base64, with or without padding; white space is skipped. `None` if it has other
/// characters, or a length that no encoding has.
pub fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let kept = text.bytes().filter(|character| !character.is_ascii_whitespace());
    let characters: Vec<u8> = kept.collect();
    let end =
        characters.iter().rposition(|character| *character != b'=').map_or(0, |last| last + 1);
    let (characters, padding) = characters.split_at(end);
    if characters.len() % 4 == 1 || 2 < padding.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(characters.len() * 3 / 4);
    for four in characters.chunks(4) {
        let mut bits = 0_u32;
        for character in four {
            bits = bits << 6 | u32::from(sextet(*character)?);
        }
        let bits = bits << (6 * (4 - four.len())) << 8;
        bytes.extend_from_slice(&bits.to_be_bytes()[..four.len() * 3 / 4]);
    }
    Some(bytes)
}

/// The six bits of a character; `None` when it is not in the alphabet.
pub(crate) fn sextet(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_as_in_rfc_4648() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64_text(bytes.as_bytes()), text);
            assert_eq!(base64_bytes(text), Some(bytes.as_bytes().to_vec()));
        }
    }

    #[test]
    fn every_length_is_read_back_with_and_without_padding() {
        for length in 0..40_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(91)).collect();
            let text = base64_text(&bytes);
            assert_eq!(base64_bytes(&text), Some(bytes.clone()));
            assert_eq!(base64_bytes(&format!(" {}\n", text.trim_end_matches('='))), Some(bytes));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["Z", "Zm9vZ", "Zm=v", "Zm9-", "====", "Zm9v===", "ä"] {
            assert_eq!(base64_bytes(text), None, "{text}");
        }
    }
}
