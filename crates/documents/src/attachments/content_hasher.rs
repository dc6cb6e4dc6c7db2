//! The hash of a content that arrives in pieces.

use model::ContentHash;

const HASH_BYTES: usize = 32;

/// Computes the hash of a content, piece by piece.
pub struct ContentHasher(blake2b_simd::State);

impl Default for ContentHasher {
    fn default() -> Self {
        Self(blake2b_simd::Params::new().hash_length(HASH_BYTES).to_state())
    }
}

impl ContentHasher {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces so far.
    pub fn finish(&self) -> ContentHash {
        let mut bytes = [0; HASH_BYTES];
        bytes.copy_from_slice(self.0.finalize().as_bytes());
        ContentHash(bytes)
    }
}

/// The hash of a complete content.
pub fn hash_of(content: &[u8]) -> ContentHash {
    let mut hasher = ContentHasher::default();
    hasher.update(content);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_protocol() {
        for (content, text) in [
            ("", "DldRwCblQ7Loqy6wYJnaodHl30d3j3eH+qtFzfEv46g="),
            ("hello", "Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8="),
        ] {
            assert_eq!(hash_of(content.as_bytes()).to_string(), text);
        }
        let mut pieces = ContentHasher::default();
        pieces.update(b"he");
        pieces.update(b"");
        pieces.update(b"llo");
        assert_eq!(pieces.finish(), hash_of(b"hello"));
    }
}
