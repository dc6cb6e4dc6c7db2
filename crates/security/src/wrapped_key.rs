//! Keys of databases, encrypted with a master key for the time that they are stored.
//!
//! ```text
//! nonce [12] · the key, encrypted [32] · MAC [16]     (AES-256-GCM, RFC 5116)
//! ```
//!
//! The MAC covers the name that the key is stored under, so that keys cannot be exchanged. Nonces are random:
//! few keys are ever wrapped with one master key.

use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use zeroize::Zeroize;

/// Length of a master key, and of the key of a database, in bytes.
pub const SECRET_KEY_BYTES: usize = 32;
/// Length of the nonce of a wrapped key, in bytes.
pub const WRAPPING_NONCE_BYTES: usize = NONCE_LEN;

const WRAPPED_BYTES: usize = NONCE_LEN + SECRET_KEY_BYTES + 16;
const PURPOSE: &[u8] = b"Corvus key of a database 1\0";
const FINGERPRINT_PURPOSE: &[u8] = b"Corvus fingerprint of a key 1\0";
const FINGERPRINT_BYTES: usize = 16;

/// 256 secret bits, at one place in memory, where they are zeroed when it is dropped. They are in no text.
pub struct SecretKey(pub Box<[u8; SECRET_KEY_BYTES]>);

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl SecretKey {
    /// Zeroes, to be overwritten with a key.
    pub fn zeroed() -> SecretKey {
        SecretKey(Box::new([0; SECRET_KEY_BYTES]))
    }

    /// A key of these bytes, which are zeroed; `None` unless there are as many as a key has.
    pub fn take(bytes: &mut [u8]) -> Option<SecretKey> {
        let mut key = SecretKey::zeroed();
        let fits = bytes.len() == SECRET_KEY_BYTES;
        if fits {
            key.0.copy_from_slice(bytes);
        }
        bytes.zeroize();
        fits.then_some(key)
    }

    /// Reads a key as files and requests contain it: its bytes, or their base64 with or without white space around
    /// it. The text is zeroed. `None` when it is neither.
    pub fn read(text: &mut [u8]) -> Option<SecretKey> {
        if text.len() == SECRET_KEY_BYTES {
            return SecretKey::take(text);
        }
        let trimmed = std::str::from_utf8(text).ok().map(|text| text.trim().trim_matches('"'));
        let decoded = trimmed.and_then(model::base64_bytes);
        text.zeroize();
        decoded.and_then(|mut bytes| SecretKey::take(&mut bytes))
    }

    /// What tells this key from others, without telling anything of it: the first 128 bits of an HMAC-SHA-256 with the
    /// key, in hexadecimal digits. Those of one key under two names are different, so that nobody sees that it is the
    /// same one.
    pub fn fingerprint(&self, name: &str) -> String {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0[..]));
        context.update(FINGERPRINT_PURPOSE);
        context.update(name.as_bytes());
        let tag = context.sign();
        let begin = tag.as_ref().iter().take(FINGERPRINT_BYTES);
        begin.map(|byte| format!("{byte:02x}")).collect()
    }

    /// This key, encrypted with `master` and bound to a name.
    pub fn wrapped(
        &self,
        master: &SecretKey,
        name: &str,
        nonce: [u8; WRAPPING_NONCE_BYTES],
    ) -> Vec<u8> {
        // Encrypted before anything else happens to it.
        let mut key = *self.0;
        let tag = cipher(master).seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name_of(name)),
            &mut key,
        );
        let tag = tag.expect("a key is short enough to be encrypted");
        [&nonce[..], &key, tag.as_ref()].concat()
    }

    /// The key that [`SecretKey::wrapped`] encrypted; `None` when the master key or the name is another, or the bytes
    /// were changed.
    pub fn unwrap_with(master: &SecretKey, name: &str, wrapped: &[u8]) -> Option<SecretKey> {
        if wrapped.len() != WRAPPED_BYTES {
            return None;
        }
        let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = cipher(master).open_in_place(nonce, Aad::from(name_of(name)), &mut sealed);
        let key = opened.ok().and_then(SecretKey::take);
        sealed.zeroize();
        key
    }
}

fn cipher(master: &SecretKey) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, &master.0[..]).expect("a key of 32 bytes");
    LessSafeKey::new(key)
}

fn name_of(name: &str) -> Vec<u8> {
    [PURPOSE, name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SecretKey {
        SecretKey(Box::new([byte; SECRET_KEY_BYTES]))
    }

    #[test]
    fn a_wrapped_key_needs_its_master_key_and_its_name() {
        let wrapped = key(5).wrapped(&key(1), "orders", [9; WRAPPING_NONCE_BYTES]);
        let opens = |master, name: &str, wrapped: &[u8]| {
            SecretKey::unwrap_with(&key(master), name, wrapped).map(|key| *key.0)
        };
        assert_eq!(opens(1, "orders", &wrapped), Some([5; SECRET_KEY_BYTES]));
        assert_eq!(opens(2, "orders", &wrapped), None);
        assert_eq!(opens(1, "shop", &wrapped), None);
        assert_eq!(opens(1, "orders", &wrapped[1..]), None);
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert_eq!(opens(1, "orders", &changed), None, "a flip at {at}");
        }
    }

    #[test]
    fn a_fingerprint_is_that_of_one_key_under_one_name() {
        let of = |byte, name: &str| key(byte).fingerprint(name);
        assert_eq!(of(5, "orders"), of(5, "orders"));
        assert_eq!(of(5, "orders").len(), 2 * FINGERPRINT_BYTES);
        assert_ne!(of(5, "orders"), of(6, "orders"));
        assert_ne!(of(5, "orders"), of(5, "shop"));
    }

    #[test]
    fn keys_are_read_as_bytes_or_base64_and_leave_nothing_behind() {
        let base64 = model::base64_text(&[7; SECRET_KEY_BYTES]);
        for mut text in
            [base64.clone().into_bytes(), format!(" {base64}\n").into_bytes(), vec![7; 32]]
        {
            assert_eq!(SecretKey::read(&mut text).map(|key| *key.0), Some([7; SECRET_KEY_BYTES]));
            assert!(text.iter().all(|byte| *byte == 0));
        }
        for mut text in [Vec::new(), vec![b'A'; 31], vec![b'!'; 44], vec![7; 64]] {
            assert!(SecretKey::read(&mut text).is_none());
        }
    }
}
