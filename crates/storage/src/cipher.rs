//! Authenticated encryption of pages, journal records and headers.
//!
//! The cipher is XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): HChaCha20 turns a key and the first 16 bytes of a
//! nonce into a key for ChaCha20-Poly1305 (RFC 8439), whose nonce is four zeroes and the other 8 bytes. Nonces are
//! random: with 192 bits, two of them are never the same.
//!
//! Keys: HKDF-SHA-256 (RFC 5869), with the environment's id (16 bytes, little-endian) as its salt and the database's
//! key as its secret, yields a key for each purpose; the info is the text of the purpose.
//!
//! What is authenticated besides the encrypted bytes:
//!
//! ```text
//! page or run: environment id u128 · page number u64 · bytes 0..24 of its header
//! record:      environment id u128 · bytes 0..72 of its header
//! header:      environment id u128 · bytes 0..104 of the header (nothing is encrypted)
//! ```
//!
//! The page number is the one under which a page was looked for, so that a page in the place of another is
//! noticed. A record's header names the record before it.

use std::io;

use chacha20::{R20, hchacha};
use platform::secret_memory::{SecretMemory, wipe, wipe_stack};
use ring::{
    aead::{self, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey},
    hkdf,
};

use crate::{
    encryption_key::EncryptionKey,
    format::{PAGE_HEADER_BYTES, PageNumber},
};

/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 24;
/// Bytes of a MAC.
pub(crate) const MAC_BYTES: usize = 16;
/// A nonce: random, and never used again.
pub(crate) type Nonce = [u8; NONCE_BYTES];
/// A message authentication code.
pub(crate) type Mac = [u8; MAC_BYTES];

const KEY_BYTES: usize = EncryptionKey::BYTES;
/// The bytes of a page's header that are authenticated and not encrypted.
const PAGE_CLEAR: usize = 24;
const PAGE_NONCE: std::ops::Range<usize> = 24..48;
const PAGE_MAC: std::ops::Range<usize> = 48..64;
const ID_BYTES: usize = size_of::<u128>();
const PAGE_AAD_BYTES: usize = ID_BYTES + 8 + PAGE_CLEAR;

/// What a derived key is used for.
#[derive(Clone, Copy)]
enum Purpose {
    Page,
    Record,
    Header,
}

impl Purpose {
    const ALL: [Purpose; 3] = [Purpose::Page, Purpose::Record, Purpose::Header];

    fn info(self) -> &'static [u8] {
        match self {
            Purpose::Page => b"Corvus page 1",
            Purpose::Record => b"Corvus journal record 1",
            Purpose::Header => b"Corvus header 1",
        }
    }
}

struct KeyLength;

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

/// The keys of one environment, in locked memory.
pub(crate) struct Keys {
    memory: SecretMemory,
    environment_id: u128,
}

impl Keys {
    /// Derives the keys of an environment.
    ///
    /// # Errors
    /// There is no memory, or the kernel does not return the key.
    pub(crate) fn derive(key: &EncryptionKey, environment_id: u128) -> io::Result<Keys> {
        let mut memory = SecretMemory::zeroed((Purpose::ALL.len() + 1) * KEY_BYTES)?;
        let derived = derive_into(&mut memory, key, environment_id);
        wipe_stack();
        derived.map(|()| Keys { memory, environment_id })
    }

    fn of(&self, purpose: Purpose) -> &[u8; KEY_BYTES] {
        let (keys, _) = self.memory.bytes().as_chunks();
        &keys[purpose as usize]
    }

    /// Encrypts a page, or a whole run, in its place, with a nonce that was never used.
    pub(crate) fn seal_page(&self, number: PageNumber, nonce: &Nonce, page: &mut [u8]) {
        let aad = self.page_aad(number, page);
        let mac = seal(self.of(Purpose::Page), nonce, &aad, &mut page[PAGE_HEADER_BYTES..]);
        page[PAGE_NONCE].copy_from_slice(nonce);
        page[PAGE_MAC].copy_from_slice(&mac);
    }

    /// Decrypts a page, or a whole run, in its place; nonce and MAC become zero. False when it is not what was written
    /// as page `number` of this environment; no plaintext is left then.
    pub(crate) fn open_page(&self, number: PageNumber, page: &mut [u8]) -> bool {
        let aad = self.page_aad(number, page);
        let (header, body) = page.split_at_mut(PAGE_HEADER_BYTES);
        let (nonce, mac) = (array(&header[PAGE_NONCE]), array(&header[PAGE_MAC]));
        let is_sound = open(self.of(Purpose::Page), &nonce, &aad, &mac, body);
        header[PAGE_CLEAR..].fill(0);
        is_sound
    }

    fn page_aad(&self, number: PageNumber, page: &[u8]) -> [u8; PAGE_AAD_BYTES] {
        let mut aad = [0; PAGE_AAD_BYTES];
        aad[..ID_BYTES].copy_from_slice(&self.environment_id.to_le_bytes());
        aad[ID_BYTES..ID_BYTES + 8].copy_from_slice(&number.get().to_le_bytes());
        aad[ID_BYTES + 8..].copy_from_slice(&page[..PAGE_CLEAR]);
        aad
    }

    /// Encrypts the payload of a record in its place.
    pub(crate) fn seal_record(&self, nonce: &Nonce, header: &[u8], payload: &mut [u8]) -> Mac {
        seal(self.of(Purpose::Record), nonce, &self.aad(header), payload)
    }

    /// Decrypts the payload of a record in its place; false when it is not what was written.
    pub(crate) fn open_record(
        &self,
        nonce: &Nonce,
        header: &[u8],
        mac: &Mac,
        payload: &mut [u8],
    ) -> bool {
        open(self.of(Purpose::Record), nonce, &self.aad(header), mac, payload)
    }

    /// The MAC of a header.
    pub(crate) fn sign_header(&self, nonce: &Nonce, header: &[u8]) -> Mac {
        seal(self.of(Purpose::Header), nonce, &self.aad(header), &mut [])
    }

    /// Whether a header is what was written.
    pub(crate) fn verifies_header(&self, nonce: &Nonce, header: &[u8], mac: &Mac) -> bool {
        open(self.of(Purpose::Header), nonce, &self.aad(header), mac, &mut [])
    }

    fn aad(&self, header: &[u8]) -> Vec<u8> {
        [&self.environment_id.to_le_bytes()[..], header].concat()
    }
}

/// The nonce of an encrypted page.
pub(crate) fn page_nonce(page: &[u8]) -> Nonce {
    array(&page[PAGE_NONCE])
}

fn array<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    bytes.try_into().expect("a range of that length")
}

#[inline(never)]
fn derive_into(memory: &mut SecretMemory, key: &EncryptionKey, id: u128) -> io::Result<()> {
    let (keys, _) = memory.bytes_mut().as_chunks_mut::<KEY_BYTES>();
    let (keys, rest) = keys.split_at_mut(Purpose::ALL.len());
    // The database's key is in locked memory, too, and for no longer than this.
    let secret = &mut rest[0];
    key.read(secret)?;
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &id.to_le_bytes()).extract(secret);
    wipe(secret);
    for (purpose, key) in Purpose::ALL.into_iter().zip(keys) {
        extracted
            .expand(&[purpose.info()], KeyLength)
            .and_then(|derived| derived.fill(key))
            .expect("HKDF yields up to 8,160 bytes");
    }
    Ok(())
}

fn seal(key: &[u8; KEY_BYTES], nonce: &Nonce, aad: &[u8], bytes: &mut [u8]) -> Mac {
    let mac = seal_with_stack(key, nonce, aad, bytes);
    wipe_stack();
    mac
}

fn open(key: &[u8; KEY_BYTES], nonce: &Nonce, aad: &[u8], mac: &Mac, bytes: &mut [u8]) -> bool {
    let is_sound = open_with_stack(key, nonce, aad, mac, bytes);
    wipe_stack();
    is_sound
}

/// Leaves keys on the stack.
#[inline(never)]
fn seal_with_stack(key: &[u8; KEY_BYTES], nonce: &Nonce, aad: &[u8], bytes: &mut [u8]) -> Mac {
    let (key, nonce) = key_of_nonce(key, nonce);
    let mac = key.seal_in_place_separate_tag(nonce, Aad::from(aad), bytes);
    array(mac.expect("no page and no record has 256 GB").as_ref())
}

/// Leaves keys on the stack.
#[inline(never)]
fn open_with_stack(
    key: &[u8; KEY_BYTES],
    nonce: &Nonce,
    aad: &[u8],
    mac: &Mac,
    bytes: &mut [u8],
) -> bool {
    let (key, nonce) = key_of_nonce(key, nonce);
    let mac = aead::Tag::from(*mac);
    key.open_in_place_separate_tag(nonce, Aad::from(aad), mac, bytes, 0..).is_ok()
}

fn key_of_nonce(key: &[u8; KEY_BYTES], nonce: &Nonce) -> (LessSafeKey, aead::Nonce) {
    let (first, last) = nonce.split_at(16);
    let key = hchacha::<R20>(&(*key).into(), &array::<16>(first).into());
    let mut rest = [0; aead::NONCE_LEN];
    rest[4..].copy_from_slice(last);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("a key of 32 bytes");
    (LessSafeKey::new(key), aead::Nonce::assume_unique_for_key(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{PAGE_BYTES, PageKind, init_page};

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(digits, 16).expect("a byte")
        };
        digits.chunks(2).map(byte).collect()
    }

    /// The example of draft-irtf-cfrg-xchacha-03, appendix A.3.1.
    #[test]
    fn the_cipher_is_xchacha20_poly1305() {
        let key = array(&bytes("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"));
        let nonce = array(&bytes("404142434445464748494a4b4c4d4e4f5051525354555657"));
        let aad = bytes("50515253c0c1c2c3c4c5c6c7");
        let text =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                     the future, sunscreen would be it.";
        let mut sealed = text.to_vec();
        let mac = seal(&key, &nonce, &aad, &mut sealed);
        let expected = bytes(
            "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb
             731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452
             2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9
             21f9664c97637da9768812f615c68b13b52e",
        );
        assert_eq!(sealed, expected);
        assert_eq!(mac[..], bytes("c0875924c1c7987947deafd8780acf49"));
        assert!(open(&key, &nonce, &aad, &mac, &mut sealed));
        assert_eq!(sealed, text);
    }

    fn keys(environment_id: u128) -> Keys {
        let mut bytes = std::array::from_fn(|at| at as u8);
        Keys::derive(&EncryptionKey::take(&mut bytes).expect("kept"), environment_id).expect("keys")
    }

    fn page() -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        init_page(&mut page, PageNumber(42), PageKind::TreeLeaf);
        page[PAGE_HEADER_BYTES..].fill(7);
        page
    }

    #[test]
    fn a_page_opens_in_its_place_of_its_environment_alone() {
        let mut sealed = page();
        keys(1).seal_page(PageNumber(42), &[9; NONCE_BYTES], &mut sealed);
        assert_eq!(sealed[..PAGE_CLEAR], page()[..PAGE_CLEAR]);
        assert!(!sealed.windows(4).any(|part| part == [7; 4]));
        let opens = |keys: &Keys, number, sealed: &[u8]| {
            let mut opened = sealed.to_vec();
            let is_sound = keys.open_page(PageNumber(number), &mut opened);
            assert_eq!(is_sound, opened == page());
            assert!(is_sound || !opened.windows(4).any(|part| part == [7; 4]));
            is_sound
        };
        assert!(opens(&keys(1), 42, &sealed));
        assert!(!opens(&keys(1), 43, &sealed), "in another page's place");
        assert!(!opens(&keys(2), 42, &sealed), "in another environment");
        for at in 0..PAGE_BYTES {
            sealed[at] ^= 1 << (at % 8);
            assert!(!opens(&keys(1), 42, &sealed), "a flip at {at} goes unnoticed");
            sealed[at] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn a_key_of_one_purpose_is_of_no_use_for_another() {
        let keys = keys(1);
        let mut payload = *b"payload";
        let mac = keys.seal_record(&[1; NONCE_BYTES], b"header", &mut payload);
        assert!(!keys.verifies_header(&[1; NONCE_BYTES], b"header", &mac));
        assert!(!keys.open_record(&[1; NONCE_BYTES], b"hEader", &mac, &mut payload.clone()));
        assert!(!keys.open_record(&[2; NONCE_BYTES], b"header", &mac, &mut payload.clone()));
        assert!(keys.open_record(&[1; NONCE_BYTES], b"header", &mac, &mut payload));
        assert_eq!(&payload, b"payload");
        let mac = keys.sign_header(&[1; NONCE_BYTES], b"header");
        assert!(keys.verifies_header(&[1; NONCE_BYTES], b"header", &mac));
        assert!(!keys.verifies_header(&[1; NONCE_BYTES], b"heades", &mac));
    }
}
