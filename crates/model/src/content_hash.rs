//! What identifies the content of an attachment: its BLAKE2b-256.

use std::fmt;

use crate::base64;

/// Characters of the text form of a [`ContentHash`].
pub const CONTENT_HASH_TEXT_BYTES: usize = 44;

const BYTES: usize = 32;

/// The 256 bits of BLAKE2b, without a key, of a content. The text form is base64 with padding, 44
/// characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; BYTES]);

impl ContentHash {
    /// The text form as bytes of ASCII.
    pub fn text(&self) -> [u8; CONTENT_HASH_TEXT_BYTES] {
        // Two zero bytes after the last complete the groups; of its four characters, two are
        // padding.
        let byte = |at: usize| self.0.get(at).copied().unwrap_or(0);
        let mut text = [b'='; CONTENT_HASH_TEXT_BYTES];
        for (position, character) in text.iter_mut().take(CONTENT_HASH_TEXT_BYTES - 1).enumerate() {
            let bit = position * 6;
            let pair = u16::from(byte(bit / 8)) << 8 | u16::from(byte(bit / 8 + 1));
            *character = base64::character((pair >> (10 - bit % 8)) as u8);
        }
        text
    }

    /// Reads the text form; `None` unless it is exactly what [`ContentHash::text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let characters = text.strip_suffix('=')?.as_bytes();
        let mut bytes = [0; BYTES];
        let (mut bits, mut count, mut at) = (0_u32, 0, 0);
        for character in characters {
            bits = (bits << 6 | u32::from(base64::sextet(*character)?)) & 0x3fff;
            count += 6;
            if count >= 8 {
                count -= 8;
                *bytes.get_mut(at)? = (bits >> count) as u8;
                at += 1;
            }
        }
        let hash = Self(bytes);
        (hash.text() == *text.as_bytes()).then_some(hash)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        formatter.pad(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContentHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_base64_with_padding() {
        let mut bytes = [0; BYTES];
        assert_eq!(ContentHash(bytes).to_string(), format!("{}=", "A".repeat(43)));
        bytes[0] = 0xfb;
        bytes[31] = 0x03;
        assert_eq!(ContentHash(bytes).to_string(), format!("+w{}AAM=", "A".repeat(38)));
    }

    #[test]
    fn what_is_no_hash_is_not_read() {
        let zeros = "A".repeat(43);
        for text in
            ["", "=", "AAAA", &zeros, &format!("{zeros}A="), &format!("{}B=", "A".repeat(42))]
        {
            assert_eq!(ContentHash::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_are_read_back(bytes in any::<[u8; BYTES]>()) {
            let hash = ContentHash(bytes);
            prop_assert_eq!(ContentHash::parse(&hash.to_string()), Some(hash));
        }
    }
}
