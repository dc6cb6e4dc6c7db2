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
        }
    }
}
