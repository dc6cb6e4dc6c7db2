//! Access to attachments for maps.

use documents::{AttachmentRow, DocumentError};
use model::{AttachmentName, ContentHash, DocumentId};
use storage::ReadTransaction;

/// The attachment of that name; `None` also when the document or name is invalid.
pub(crate) fn attachment<'t>(
    tx: &'t ReadTransaction,
    id: &str,
    name: &str,
) -> Result<Option<AttachmentRow<'t>>, DocumentError> {
    let (Ok(id), Ok(name)) = (DocumentId::new(id), AttachmentName::new(name)) else {
        return Ok(None);
    };
    documents::attachment(tx, &id, &name)
}

/// All attachments of a document, in the order of their lower-cased names.
pub(crate) fn attachments<'t>(
    tx: &'t ReadTransaction,
    id: &str,
) -> Result<Vec<AttachmentRow<'t>>, DocumentError> {
    let Ok(id) = DocumentId::new(id) else { return Ok(Vec::new()) };
    documents::attachments_of(tx, &id)?.collect()
}

/// The whole content with that hash. The caller has checked its length.
pub(crate) fn content(tx: &ReadTransaction, hash: &str) -> Result<Option<Vec<u8>>, DocumentError> {
    let Some(hash) = ContentHash::parse(hash) else { return Ok(None) };
    let Some(content) = documents::content(tx, &hash)? else { return Ok(None) };
    let mut bytes = Vec::new();
    loop {
        let piece = content.read_at(tx, bytes.len() as u64)?;
        if piece.is_empty() {
            return Ok(Some(bytes));
        }
        bytes.extend_from_slice(piece);
    }
}
