//! Encrypted dumps and backups.
//!
//! The compressed file, encrypted as libsodium's *secretstream* does with XChaCha20-Poly1305, in chunks of 4,096 bytes.
//! That is what RavenDB 5.4 decrypts; it was found out by giving it files.
//!
//! ```text
//! header   24   random; the first 16 and the key make the subkey (HChaCha20), the last 8 begin the nonce
//! chunk    1    encrypted: the tag, in the first byte of a block of 64 that is otherwise zero
//!          n    encrypted: 4,096 bytes, in the last chunk fewer, but not none
//!          16   Poly1305 over the block of the tag, the n bytes, n mod 16 zeroes, and the lengths 0 and 64 + n, 8 each
//! ```
//!
//! The nonce of a chunk is a counter of 4 bytes, from 1 on, and 8 bytes into which the code of each chunk is xored. The
//! tag of the last chunk is 3; RavenDB also reads files without it, so a file that ends behind any chunk is
//! accepted: whether it is complete is decided by its text. After a chunk with the bit 2 in its tag, or when the counter
//! is used up, the key changes.

use std::{
    fmt,
    io::{self, Read},
    mem,
};

use chacha20::{
    ChaCha20, R20,
    cipher::{KeyIvInit, StreamCipher, StreamCipherSeek},
    hchacha,
};
use poly1305::{Poly1305, universal_hash::KeyInit};
use zeroize::Zeroizing;

/// The length of a key.
pub const DUMP_KEY_BYTES: usize = 32;
/// The length of the random bytes at the beginning of a file.
pub const DUMP_HEADER_BYTES: usize = 24;
/// The text of a chunk.
const CHUNK_BYTES: usize = 4096;
/// The block that hides the tag.
const TAG_BLOCK_BYTES: usize = 64;
const CODE_BYTES: usize = 16;
/// What a chunk has besides its text.
const OVERHEAD_BYTES: usize = 1 + CODE_BYTES;
const MESSAGE: u8 = 0;
const REKEY: u8 = 2;
const FINAL: u8 = 3;

/// The state between two chunks.
struct SecretStream {
    key: Zeroizing<[u8; DUMP_KEY_BYTES]>,
    /// A counter of 4 bytes, and 8 bytes that depend on all chunks so far.
    nonce: [u8; 12],
}

impl SecretStream {
    fn new(key: &[u8; DUMP_KEY_BYTES], header: &[u8; DUMP_HEADER_BYTES]) -> SecretStream {
        let input: [u8; 16] = std::array::from_fn(|at| header[at]);
        let subkey = hchacha::<R20>(&(*key).into(), &input.into());
        let mut nonce = [0; 12];
        nonce[0] = 1;
        nonce[4..].copy_from_slice(&header[16..]);
        SecretStream { key: Zeroizing::new(subkey.into()), nonce }
    }

    fn cipher(&self) -> ChaCha20 {
        ChaCha20::new(&(*self.key).into(), &self.nonce.into())
    }

    /// Encrypts the next chunk, and appends it.
    fn push(&mut self, tag: u8, text: &[u8], out: &mut Vec<u8>) {
        let mut block = [0; TAG_BLOCK_BYTES];
        block[0] = tag;
        let mut cipher = self.cipher();
        cipher.seek(TAG_BLOCK_BYTES);
        cipher.apply_keystream(&mut block);
        out.push(block[0]);
        let begin = out.len();
        out.extend_from_slice(text);
        cipher.apply_keystream(&mut out[begin..]);
        let code = self.code(&block, &out[begin..]);
        out.extend_from_slice(&code);
        self.advance(tag, &code);
    }

    /// Decrypts the next chunk; `None` if it is not what was encrypted with the key. With its tag.
    fn pull(&mut self, chunk: &[u8]) -> Option<(u8, Vec<u8>)> {
        let text_bytes = chunk.len().checked_sub(OVERHEAD_BYTES)?;
        let (coded, code) = chunk.split_at(1 + text_bytes);
        let mut block = [0; TAG_BLOCK_BYTES];
        block[0] = coded[0];
        let mut cipher = self.cipher();
        cipher.seek(TAG_BLOCK_BYTES);
        cipher.apply_keystream(&mut block);
        let tag = block[0];
        // What was authenticated is the encrypted block.
        block[0] = coded[0];
        let expected = self.code(&block, &coded[1..]);
        let difference = expected.iter().zip(code).fold(0, |all, (one, other)| all | (one ^ other));
        if difference != 0 {
            return None;
        }
        let mut text = coded[1..].to_vec();
        cipher.apply_keystream(&mut text);
        self.advance(tag, &expected);
        Some((tag, text))
    }

    fn code(&self, block: &[u8; TAG_BLOCK_BYTES], coded: &[u8]) -> [u8; CODE_BYTES] {
        let mut key = Zeroizing::new([0; DUMP_KEY_BYTES]);
        self.cipher().apply_keystream(&mut *key);
        let mut all = Vec::with_capacity(block.len() + coded.len() + 32);
        all.extend_from_slice(block);
        all.extend_from_slice(coded);
        all.resize(all.len() + coded.len() % 16, 0);
        all.extend_from_slice(&0_u64.to_le_bytes());
        all.extend_from_slice(&((TAG_BLOCK_BYTES + coded.len()) as u64).to_le_bytes());
        Poly1305::new(&(*key).into()).compute_unpadded(&all).into()
    }

    fn advance(&mut self, tag: u8, code: &[u8; CODE_BYTES]) {
        for (byte, code) in self.nonce[4..].iter_mut().zip(code) {
            *byte ^= code;
        }
        let counter = u32::from_le_bytes(std::array::from_fn(|at| self.nonce[at])).wrapping_add(1);
        self.nonce[..4].copy_from_slice(&counter.to_le_bytes());
        if tag & REKEY != 0 || counter == 0 {
            self.change_key();
        }
    }

    fn change_key(&mut self) {
        let mut both = Zeroizing::new([0; DUMP_KEY_BYTES + 8]);
        both[..DUMP_KEY_BYTES].copy_from_slice(&*self.key);
        both[DUMP_KEY_BYTES..].copy_from_slice(&self.nonce[4..]);
        self.cipher().apply_keystream(&mut *both);
        self.key.copy_from_slice(&both[..DUMP_KEY_BYTES]);
        self.nonce[4..].copy_from_slice(&both[DUMP_KEY_BYTES..]);
        self.nonce[..4].copy_from_slice(&1_u32.to_le_bytes());
    }
}

/// Encrypts a file piece by piece.
pub struct DumpEncryptor {
    stream: SecretStream,
    /// The begin of the next chunk. It is kept until more comes, because the last chunk is marked.
    chunk: Zeroizing<Vec<u8>>,
}

impl DumpEncryptor {
    /// Begins a file, with a header that no other file has.
    pub fn begin(
        key: &[u8; DUMP_KEY_BYTES],
        header: &[u8; DUMP_HEADER_BYTES],
        out: &mut Vec<u8>,
    ) -> DumpEncryptor {
        out.extend_from_slice(header);
        let stream = SecretStream::new(key, header);
        DumpEncryptor { stream, chunk: Zeroizing::new(Vec::with_capacity(CHUNK_BYTES)) }
    }

    /// Encrypts more, and appends what is ready.
    pub fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.chunk.len() == CHUNK_BYTES {
                self.stream.push(MESSAGE, &self.chunk, out);
                self.chunk.clear();
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend_from_slice(taken);
            bytes = rest;
        }
    }

    /// Appends the end of the file.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.stream.push(FINAL, &self.chunk, out);
    }
}

/// The key is not that of the file, or the file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongKey;

impl fmt::Display for WrongKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the key is not that of the file, or the file is damaged")
    }
}

impl std::error::Error for WrongKey {}

/// Decrypts a file that arrives in pieces.
pub struct DumpDecryptor {
    key: Zeroizing<[u8; DUMP_KEY_BYTES]>,
    /// As soon as the header is there.
    stream: Option<SecretStream>,
    /// What is not decrypted yet: less than a header or a chunk.
    coded: Vec<u8>,
    is_over: bool,
}

impl DumpDecryptor {
    /// For a file of which nothing has arrived.
    pub fn new(key: &[u8; DUMP_KEY_BYTES]) -> DumpDecryptor {
        let key = Zeroizing::new(*key);
        DumpDecryptor { key, stream: None, coded: Vec::new(), is_over: false }
    }

    /// Takes more of the file, and appends what can be decrypted.
    ///
    /// # Errors
    /// A chunk is not what was encrypted with the key.
    pub fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WrongKey> {
        while !bytes.is_empty() && !self.is_over {
            let wanted = match self.stream {
                None => DUMP_HEADER_BYTES,
                Some(_) => CHUNK_BYTES + OVERHEAD_BYTES,
            };
            let (taken, rest) = bytes.split_at(bytes.len().min(wanted - self.coded.len()));
            self.coded.extend_from_slice(taken);
            bytes = rest;
            if self.coded.len() == wanted {
                self.take_whole(out)?;
            }
        }
        Ok(())
    }

    fn take_whole(&mut self, out: &mut Vec<u8>) -> Result<(), WrongKey> {
        match &mut self.stream {
            None => {
                let header = std::array::from_fn(|at| self.coded[at]);
                self.stream = Some(SecretStream::new(&self.key, &header));
            }
            Some(stream) => {
                let (tag, text) = stream.pull(&self.coded).ok_or(WrongKey)?;
                let text = Zeroizing::new(text);
                out.extend_from_slice(&text);
                self.is_over = tag == FINAL;
            }
        }
        self.coded.clear();
        Ok(())
    }

    /// The file has ended: decrypts its last chunk, which may be shorter.
    ///
    /// # Errors
    /// As for [`DumpDecryptor::write`]; the file is shorter than a header.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), WrongKey> {
        match (&self.stream, self.coded.is_empty()) {
            (None, _) => Err(WrongKey),
            (Some(_), true) => Ok(()),
            (Some(_), false) => self.take_whole(out),
        }
    }
}

/// Reads an encrypted file.
pub struct DecryptedDump<R> {
    file: R,
    stream: SecretStream,
    text: Zeroizing<Vec<u8>>,
    used: usize,
    is_over: bool,
}

impl<R: Read> DecryptedDump<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of reading; the file has no header.
    pub fn open(mut file: R, key: &[u8; DUMP_KEY_BYTES]) -> io::Result<DecryptedDump<R>> {
        let mut header = [0; DUMP_HEADER_BYTES];
        file.read_exact(&mut header)?;
        let (stream, text) = (SecretStream::new(key, &header), Zeroizing::new(Vec::new()));
        Ok(DecryptedDump { file, stream, text, used: 0, is_over: false })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + OVERHEAD_BYTES);
        let limit = (CHUNK_BYTES + OVERHEAD_BYTES) as u64;
        (&mut self.file).take(limit).read_to_end(&mut chunk)?;
        if chunk.is_empty() {
            self.is_over = true;
            return Ok(());
        }
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, WrongKey);
        let (tag, text) = self.stream.pull(&chunk).ok_or_else(wrong)?;
        drop(mem::replace(&mut self.text, Zeroizing::new(text)));
        (self.used, self.is_over) = (0, tag == FINAL);
        Ok(())
    }
}

impl<R: Read> Read for DecryptedDump<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.used == self.text.len() && !self.is_over {
            self.next_chunk()?;
        }
        let taken = out.len().min(self.text.len() - self.used);
        out[..taken].copy_from_slice(&self.text[self.used..self.used + taken]);
        self.used += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> [u8; DUMP_KEY_BYTES] {
        std::array::from_fn(|at| at as u8)
    }

    fn header() -> [u8; DUMP_HEADER_BYTES] {
        std::array::from_fn(|at| 100 + at as u8)
    }

    fn encrypted(text: &[u8], piece_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encryptor = DumpEncryptor::begin(&key(), &header(), &mut out);
        for piece in text.chunks(piece_bytes) {
            encryptor.write(piece, &mut out);
        }
        encryptor.finish(&mut out);
        out
    }

    fn decrypted(file: &[u8], key: &[u8; DUMP_KEY_BYTES]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        DecryptedDump::open(file, key)?.read_to_end(&mut text)?;
        Ok(text)
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn files_are_those_of_libsodium() {
        let text: Vec<u8> = (0..10_000).map(|at| (at * 7 + 3) as u8).collect();
        // Computed by libsodium 1.0.18; the last code depends on all chunks.
        let file = encrypted(&text, 999);
        assert_eq!(file.len(), 10_075);
        assert_eq!(hex(&file[24..40]), "5f5f10a75e71359b08f58b09d0e7a660");
        assert_eq!(hex(&file[10_075 - 16..]), "8b0dfd76ab5093443d99d5fe54e41742");
        assert_eq!(decrypted(&file, &key()).unwrap(), text);
    }

    #[test]
    fn the_key_changes_when_a_tag_says_so() {
        let (mut stream, mut out) = (SecretStream::new(&key(), &header()), Vec::new());
        stream.push(REKEY, b"hello", &mut out);
        stream.push(FINAL, b"world", &mut out);
        let expected = "5d347fda2a0109f2904e71e7e895bc6fc2125236b06b872c345455139f9fa526369e49005785cd20f1d14ec6";
        assert_eq!(hex(&out), expected);
        let mut stream = SecretStream::new(&key(), &header());
        assert_eq!(stream.pull(&out[..22]).unwrap(), (REKEY, b"hello".to_vec()));
        assert_eq!(stream.pull(&out[22..]).unwrap(), (FINAL, b"world".to_vec()));
    }

    #[test]
    fn every_length_is_read_back_and_only_with_the_key() {
        for bytes in [0, 1, 4095, 4096, 4097, 8192, 20_000] {
            let text: Vec<u8> = (0..bytes).map(|at: usize| (at / 3) as u8).collect();
            let file = encrypted(&text, 4096);
            assert_eq!(decrypted(&file, &key()).unwrap(), text, "{bytes}");
            let other = [7; DUMP_KEY_BYTES];
            assert_eq!(decrypted(&file, &other).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn damage_is_found_and_a_file_that_is_cut_between_chunks_is_read_so_far() {
        let text = vec![b'x'; 10_000];
        let file = encrypted(&text, 4096);
        for at in (DUMP_HEADER_BYTES..file.len()).step_by(97) {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(decrypted(&damaged, &key()).is_err(), "{at}");
        }
        let chunk = CHUNK_BYTES + OVERHEAD_BYTES;
        let cut = &file[..DUMP_HEADER_BYTES + chunk];
        assert_eq!(decrypted(cut, &key()).unwrap(), &text[..CHUNK_BYTES]);
        // Chunks cannot be left out or exchanged.
        let without_first =
            [&file[..DUMP_HEADER_BYTES], &file[DUMP_HEADER_BYTES + chunk..]].concat();
        assert!(decrypted(&without_first, &key()).is_err());
        assert!(decrypted(&file[..10], &key()).is_err());
    }

    #[test]
    fn a_file_that_arrives_in_pieces_is_decrypted_as_one_that_is_read() {
        for bytes in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
            let text: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let mut file = Vec::new();
            let mut encryptor = DumpEncryptor::begin(&key(), &header(), &mut file);
            encryptor.write(&text, &mut file);
            encryptor.finish(&mut file);
            for piece_bytes in [1, 23, 4000, file.len()] {
                let (mut decryptor, mut out) = (DumpDecryptor::new(&key()), Vec::new());
                for piece in file.chunks(piece_bytes) {
                    decryptor.write(piece, &mut out).unwrap();
                }
                decryptor.finish(&mut out).unwrap();
                assert!(out == text, "{bytes} in pieces of {piece_bytes}");
            }
            for at in [DUMP_HEADER_BYTES, file.len() - 1, 0] {
                let mut damaged = file.clone();
                damaged[at] ^= 1;
                let (mut decryptor, mut out) = (DumpDecryptor::new(&key()), Vec::new());
                let written = decryptor.write(&damaged, &mut out);
                assert!(written.and_then(|()| decryptor.finish(&mut out)).is_err(), "{at}");
            }
        }
        let mut decryptor = DumpDecryptor::new(&key());
        decryptor.write(&[1; DUMP_HEADER_BYTES - 1], &mut Vec::new()).unwrap();
        assert_eq!(decryptor.finish(&mut Vec::new()), Err(WrongKey));
    }
}
