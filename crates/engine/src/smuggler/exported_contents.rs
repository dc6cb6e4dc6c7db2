//! Contents of attachments, which a dump has before the documents or revisions that have them.

use std::collections::{HashSet, VecDeque};

use documents::{
    AttachmentRow, Content, DocumentError, DocumentRow, RevisionRow, attachments_of,
    attachments_of_revision, content,
};
use model::{ContentHash, DocumentId};
use smuggler::DumpWriter;
use storage::ReadTransaction;

use crate::error::EngineError;

/// Contents of which is known that they are written. When there are more, some are written again, which readers of
/// dumps accept.
const WRITTEN_MAX: usize = 1 << 18;

/// The contents that come next, and those that a section has already.
#[derive(Default)]
pub(super) struct Contents {
    next: VecDeque<NextContent>,
    written: HashSet<ContentHash>,
}

struct NextContent {
    content: Content,
    /// The key of the attachment, as a dump writes it.
    tag: String,
    /// How much of it is written.
    at: u64,
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Adds the contents of a document's attachments, as far as they are not written; returns how many.
    pub(super) fn add_of_document(
        &mut self,
        tx: &ReadTransaction,
        row: &DocumentRow<'_>,
    ) -> Result<u64, EngineError> {
        let id = DocumentId::new(row.id()).map_err(DocumentError::from)?;
        self.add(tx, row.lower_id(), attachments_of(tx, &id)?)
    }

    /// The same for a revision.
    pub(super) fn add_of_revision(
        &mut self,
        tx: &ReadTransaction,
        row: &RevisionRow<'_>,
    ) -> Result<u64, EngineError> {
        self.add(tx, row.lower_id(), attachments_of_revision(tx, row.etag())?)
    }

    fn add<'t>(
        &mut self,
        tx: &ReadTransaction,
        lower_id: &str,
        attachments: impl Iterator<Item = Result<AttachmentRow<'t>, DocumentError>>,
    ) -> Result<u64, EngineError> {
        let mut count = 0;
        for attachment in attachments {
            let attachment = attachment?;
            let hash = attachment.hash();
            if self.written.len() == WRITTEN_MAX {
                self.written.clear();
            }
            if !self.written.insert(hash) {
                continue;
            }
            let missing =
                DocumentError::Corrupt { detail: "the content of an attachment is missing" };
            let content = content(tx, &hash)?.ok_or(missing)?;
            let (name, kind) = (attachment.lower_name(), attachment.content_type());
            let tag = format!("{lower_id}|d|{name}|{hash}|{kind}");
            self.next.push_back(NextContent { content, tag, at: 0 });
            count += 1;
        }
        Ok(count)
    }

    /// Appends the next part of a content; `false` if there is none.
    pub(super) fn write_next(
        &mut self,
        tx: &ReadTransaction,
        writer: &mut DumpWriter,
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let Some(next) = self.next.front_mut() else { return Ok(false) };
        if next.at == 0 {
            writer.begin_element(out);
            write_head(next, out);
        }
        let bytes = next.content.read_at(tx, next.at)?;
        out.extend_from_slice(bytes);
        next.at += bytes.len() as u64;
        if next.content.bytes() <= next.at {
            self.next.pop_front();
        }
        Ok(true)
    }
}

fn write_head(next: &NextContent, out: &mut Vec<u8>) {
    let (hash, size) = (next.content.hash(), next.content.bytes());
    out.extend_from_slice(b"{\"@metadata\":{\"@export-type\":\"Attachment\"},\"Hash\":\"");
    out.extend_from_slice(format!("{hash}\",\"Size\":{size},\"Tag\":").as_bytes());
    blittable::write_json_string(&next.tag, out);
    out.push(b'}');
}
