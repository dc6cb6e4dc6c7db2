//! The identity of one database on one node.

use std::fmt;

use crate::base64::{self, sextet};

/// Characters of the text form of a [`DatabaseId`].
pub const DATABASE_ID_TEXT_BYTES: usize = 22;

/// 128 random bits, drawn when the database's environment is created. The text form is base64
/// without padding, 22 characters; its last character carries two bits and four zeroes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub [u8; 16]);

impl DatabaseId {
    /// The text form as bytes of ASCII.
    pub fn text(self) -> [u8; DATABASE_ID_TEXT_BYTES] {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0; DATABASE_ID_TEXT_BYTES];
        for (position, character) in text.iter_mut().enumerate() {
            // 21 groups of six bits from the top, then the last two bits followed by four zeroes.
            let group = match 122_u32.checked_sub(6 * position as u32) {
                Some(shift) => bits >> shift,
                None => bits << 4,
            };
            *character = base64::character((group & 0x3f) as u8);
        }
        text
    }

    /// Reads the text form; `None` unless it is exactly what [`DatabaseId::text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: &[u8; DATABASE_ID_TEXT_BYTES] = text.as_bytes().try_into().ok()?;
        let mut bits = 0_u128;
        for character in &bytes[..DATABASE_ID_TEXT_BYTES - 1] {
            bits = bits << 6 | u128::from(sextet(*character)?);
        }
        let last = sextet(bytes[DATABASE_ID_TEXT_BYTES - 1])?;
        (last & 0xf == 0).then(|| Self((bits << 2 | u128::from(last >> 4)).to_be_bytes()))
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        formatter.pad(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DatabaseId({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_base64_without_padding() {
        let cases: [([u8; 16], &str); 3] = [
            ([0; 16], "AAAAAAAAAAAAAAAAAAAAAA"),
            ([0xff; 16], "/////////////////////w"),
            (*b"0123456789abcdef", "MDEyMzQ1Njc4OWFiY2RlZg"),
        ];
        for (bytes, text) in cases {
            assert_eq!(DatabaseId(bytes).to_string(), text);
            assert_eq!(DatabaseId::parse(text), Some(DatabaseId(bytes)));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = [
            "",
            "AAAA",
            "AAAAAAAAAAAAAAAAAAAAAB",
            "AAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAAA",
        ];
        for text in refused {
            assert_eq!(DatabaseId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_id_survives_its_text(bytes: [u8; 16]) {
            let id = DatabaseId(bytes);
            prop_assert_eq!(DatabaseId::parse(&id.to_string()), Some(id));
        }
    }
}
