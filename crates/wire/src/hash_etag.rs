//! The entity tag of an answer that holds several documents: `Hash-` and 44 characters of base64.
//!
//! Clients depend only on its shape and compare it for equality; the server chooses how to compute it.
//! Invariant: the same change vectors in the same order produce the same tag, and missing documents are part
//! of it.

use model::base64_text;
use xxhash_rust::xxh3::Xxh3;

/// Hashes everything that the answer depends on.
pub struct HashEtag {
    first: Xxh3,
    second: Xxh3,
}

impl Default for HashEtag {
    fn default() -> HashEtag {
        HashEtag::new()
    }
}

impl HashEtag {
    /// The state before anything has been added.
    pub fn new() -> HashEtag {
        HashEtag { first: Xxh3::with_seed(1), second: Xxh3::with_seed(2) }
    }

    /// Adds the change vector of a document; `None` if the document is missing.
    pub fn add(&mut self, change_vector: Option<&str>) {
        let (mark, text) = match change_vector {
            Some(text) => (1u8, text),
            None => (0, ""),
        };
        for hasher in [&mut self.first, &mut self.second] {
            hasher.update(&[mark]);
            hasher.update(text.as_bytes());
        }
    }

    /// The tag, without quotes.
    pub fn finish(&self) -> String {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.first.digest128().to_le_bytes());
        bytes[16..].copy_from_slice(&self.second.digest128().to_le_bytes());
        format!("Hash-{}", base64_text(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(parts: &[Option<&str>]) -> String {
        let mut etag = HashEtag::new();
        parts.iter().for_each(|part| etag.add(*part));
        etag.finish()
    }

    #[test]
    fn the_tag_has_the_shape_that_clients_know() {
        let tag = tag(&[Some("A:1-x")]);
        assert_eq!(tag.len(), 49);
        assert!(tag.starts_with("Hash-") && tag.ends_with('='));
    }

    #[test]
    fn order_and_missing_documents_count() {
        let tags = [
            tag(&[]),
            tag(&[None]),
            tag(&[Some("")]),
            tag(&[Some("A:1"), None]),
            tag(&[None, Some("A:1")]),
            tag(&[Some("A:1")]),
        ];
        for (index, one) in tags.iter().enumerate() {
            assert!(tags[index + 1..].iter().all(|other| other != one));
        }
        assert_eq!(tag(&[Some("A:1"), None]), tags[3]);
    }
}
