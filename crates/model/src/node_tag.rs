//! The short name of a node in a cluster.

use std::{fmt, str::FromStr};

const LENGTH_MAX: usize = 4;

/// One to four letters `A`..`Z`. It is for display: the identity behind a change is its
/// [`DatabaseId`](crate::DatabaseId). The four-letter tags `RAFT`, `TRXN`, `SINK` and `MOVE`, and
/// `HUB`, mark changes that do not originate from a single node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTag {
    /// The letters, filled up with zeroes.
    letters: [u8; LENGTH_MAX],
}

impl NodeTag {
    /// The tag of the first node of a cluster, and of a standalone server.
    pub const A: Self = Self { letters: [b'A', 0, 0, 0] };

    /// The letters of the tag.
    pub fn as_str(&self) -> &str {
        let length = self.letters.iter().position(|letter| *letter == 0).unwrap_or(LENGTH_MAX);
        std::str::from_utf8(&self.letters[..length]).expect("only ASCII letters are let in")
    }
}

/// The text is not one to four letters `A`..`Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNodeTag;

impl FromStr for NodeTag {
    type Err = InvalidNodeTag;

    fn from_str(text: &str) -> Result<Self, InvalidNodeTag> {
        let bytes = text.as_bytes();
        if bytes.is_empty() || LENGTH_MAX < bytes.len() {
            return Err(InvalidNodeTag);
        }
        if !bytes.iter().all(u8::is_ascii_uppercase) {
            return Err(InvalidNodeTag);
        }
        let mut letters = [0; LENGTH_MAX];
        letters[..bytes.len()].copy_from_slice(bytes);
        Ok(Self { letters })
    }
}

impl fmt::Display for NodeTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Debug for NodeTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeTag({self})")
    }
}

impl fmt::Display for InvalidNodeTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a node tag has one to four letters A..Z")
    }
}

impl std::error::Error for InvalidNodeTag {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_to_four_capitals_make_a_tag() {
        for text in ["A", "Z", "AB", "RAFT"] {
            assert_eq!(text.parse::<NodeTag>().unwrap().as_str(), text);
        }
        for text in ["", "a", "ABCDE", "A1", "É", "A "] {
            assert_eq!(text.parse::<NodeTag>(), Err(InvalidNodeTag), "{text}");
        }
    }
}
