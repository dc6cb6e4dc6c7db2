//! The alphabet of base64: six bits as a character, and back.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The character of the lowest six bits.
pub(crate) fn character(sextet: u8) -> u8 {
    ALPHABET[usize::from(sextet & 0x3f)]
}

/// The six bits of a character; `None` when it is not one of the alphabet.
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
