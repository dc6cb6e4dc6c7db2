//! The ids that the database assigns.

use model::{DocumentId, Etag, IdSeparator};

use crate::{error::DocumentError, read, requests::RequestedId};

use super::DocumentWriter;

impl DocumentWriter<'_> {
    /// The id of a new document that is written with this etag.
    pub(super) fn resolve_id(
        &self,
        id: &RequestedId,
        etag: Etag,
    ) -> Result<DocumentId, DocumentError> {
        match id {
            RequestedId::Exactly(id) => Ok(id.clone()),
            RequestedId::Random => Ok(DocumentId::new(self.random_uuid())?),
            RequestedId::Numbered(prefix) => self.numbered_id(prefix, etag),
            RequestedId::Identity(identity) => {
                let id = format!("{}{}", identity.name, IdSeparator::IDENTITY_SUFFIX);
                Err(DocumentError::UnresolvedIdentity { id })
            }
        }
    }

    fn numbered_id(&self, prefix: &str, etag: Etag) -> Result<DocumentId, DocumentError> {
        let numbered = format!("{prefix}{:019}-", etag.0);
        let id = DocumentId::new(format!("{numbered}{}", self.identity.node_tag))?;
        if read::get(self.tx, &id)?.is_none() {
            return Ok(id);
        }
        // A document with this very id exists; a random suffix makes it unique.
        Ok(DocumentId::new(format!("{numbered}{}", self.random_uuid()))?)
    }

    /// A random (version 4) universally unique identifier, lower-case with dashes.
    fn random_uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.context.entropy.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let number = u128::from_be_bytes(bytes);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            number >> 96,
            number >> 80 & 0xffff,
            number >> 64 & 0xffff,
            number >> 48 & 0xffff,
            number & 0xffff_ffff_ffff
        )
    }
}
