//! The keys of encrypted backups and dumps.
//!
//! Invariant: what is backed up of an encrypted database is encrypted.

use model::DatabaseRecord;
use security::SecretKey;
use smuggler::{DUMP_HEADER_BYTES, DumpEncryptor};
use wire::{BackupEncryption, RecordBody, SmugglerOptions};

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// The key that a backup of a database is encrypted with; `None` if it is not encrypted.
    ///
    /// # Errors
    /// The key in the configuration is none; that of the database is asked for, which has none, or cannot be read.
    pub(super) fn backup_key(
        &self,
        record: &DatabaseRecord,
        encryption: &BackupEncryption,
    ) -> Result<Option<SecretKey>, EngineError> {
        Ok(match check_key(record, encryption)? {
            KeyOrigin::NoKey => None,
            KeyOrigin::Given(key) => Some(key),
            KeyOrigin::Database => Some(self.encryption_keys.secret(record.name.as_str())?),
        })
    }

    /// The key of an encrypted dump; `None` if it is not encrypted.
    ///
    /// # Errors
    /// What the options have is no key.
    pub fn smuggler_key(
        &self,
        options: &SmugglerOptions,
    ) -> Result<Option<SecretKey>, EngineError> {
        options.encryption_key.as_ref().map(|key| key_of_text(&key.0)).transpose()
    }

    /// Begins to encrypt a file.
    pub fn begin_encryption(&self, key: &SecretKey, out: &mut Vec<u8>) -> DumpEncryptor {
        let mut header = [0; DUMP_HEADER_BYTES];
        self.platform.entropy.fill(&mut header);
        DumpEncryptor::begin(&key.0, &header, out)
    }
}

/// Where the key of a backup comes from.
pub(super) enum KeyOrigin {
    /// It is not encrypted.
    NoKey,
    /// It is in the configuration.
    Given(SecretKey),
    /// It is that of the database, which is still to be read.
    Database,
}

/// Which key a backup of a database is encrypted with. Waits for nothing.
///
/// # Errors
/// The key in the configuration is none; that of the database is asked for, which has none.
pub(super) fn check_key(
    record: &DatabaseRecord,
    encryption: &BackupEncryption,
) -> Result<KeyOrigin, EngineError> {
    let is_encrypted = RecordBody::of_record(record).is_encrypted();
    match encryption {
        BackupEncryption::Key(text) => key_of_text(text).map(KeyOrigin::Given),
        BackupEncryption::None if !is_encrypted => Ok(KeyOrigin::NoKey),
        BackupEncryption::None | BackupEncryption::DatabaseKey if is_encrypted => {
            Ok(KeyOrigin::Database)
        }
        _ => {
            let message = "The key of the database cannot be used: the database is not encrypted. Use the \
                           'EncryptionMode' UseProvidedKey, with a 'Key'.";
            Err(EngineError::Refused { message: message.to_owned() })
        }
    }
}

/// A key in base64.
pub(super) fn key_of_text(text: &str) -> Result<SecretKey, EngineError> {
    let key = SecretKey::read(&mut text.as_bytes().to_vec());
    key.ok_or_else(|| EngineError::Refused {
        message: "The key must be 32 bytes, in base64.".to_owned(),
    })
}
