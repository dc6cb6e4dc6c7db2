//! The key of an encrypted environment, as its owner hands it over.

use std::{fmt, io, sync::Arc};

use platform::secret_memory::{KernelSecret, wipe};

/// A key of 256 bits from which an environment derives the keys of its files. Environments may share one: what
/// they derive differs, see [`crate::EnvironmentOptions::encryption_key`].
///
/// The bytes are kept by the kernel, outside of the memory of this process, and are read only while something is
/// decrypted. Clones share them. They are in no text of this value.
#[derive(Clone)]
pub struct EncryptionKey {
    secret: Arc<KernelSecret>,
}

impl EncryptionKey {
    /// Length of a key, in bytes.
    pub const BYTES: usize = 32;

    /// Takes the key over and wipes the caller's copy.
    ///
    /// # Errors
    /// The kernel has no room for it, or too many files are open. The copy is wiped all the same.
    pub fn take(bytes: &mut [u8; Self::BYTES]) -> io::Result<EncryptionKey> {
        let secret = KernelSecret::keep(bytes);
        wipe(bytes);
        Ok(EncryptionKey { secret: Arc::new(secret?) })
    }

    /// Copies the key to memory that the caller wipes.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn read(&self, place: &mut [u8; Self::BYTES]) -> io::Result<()> {
        self.secret.read(place)
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_from_its_owner_and_never_printed() {
        let mut bytes = [0xab; EncryptionKey::BYTES];
        let key = EncryptionKey::take(&mut bytes).expect("the kernel keeps it");
        assert_eq!(bytes, [0; EncryptionKey::BYTES]);
        key.clone().read(&mut bytes).expect("reads");
        assert_eq!(bytes, [0xab; EncryptionKey::BYTES]);
        let text = format!("{key:?} {key:#?}").to_lowercase();
        assert!(!text.contains("ab") && !text.contains("171"), "{text}");
    }
}
