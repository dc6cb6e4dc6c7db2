//! The attachments of the naive database.

use std::{collections::BTreeMap, sync::Arc};

use commands::Command;
use documents::ExpectedVersion;
use model::ContentHash;

use crate::{
    Naive,
    database::{AttachmentEntry, version},
    naive::Refused,
};

#[derive(Clone, Debug)]
struct Attachment {
    etag: u64,
    /// Name as written, type, hash, bytes; absent for a tombstone.
    what: Option<(String, String, ContentHash, u64)>,
}

/// Attachments and tombstones by document and name, both lower-cased.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveAttachments {
    rows: BTreeMap<(String, String), Attachment>,
}

impl NaiveAttachments {
    fn live(&self, id: &str, name: &str) -> Option<&Attachment> {
        let found = self.rows.get(&(id.to_lowercase(), name.to_lowercase()));
        found.filter(|attachment| attachment.what.is_some())
    }

    pub(crate) fn delete_all_of(&mut self, lower_id: &str, last_etag: &mut u64) {
        for ((owner, _), attachment) in &mut self.rows {
            if owner == lower_id && attachment.what.is_some() {
                *last_etag += 1;
                *attachment = Attachment { etag: *last_etag, what: None };
            }
        }
    }

    /// The body with the list of attachments in its metadata.
    pub(crate) fn listed_in(&self, lower_id: &str, body: &Arc<str>) -> Arc<str> {
        let mut list = String::new();
        for ((owner, _), attachment) in &self.rows {
            let Some((name, kind, hash, bytes)) = &attachment.what else { continue };
            if owner == lower_id {
                let comma = if list.is_empty() { "" } else { "," };
                list.push_str(&format!(
                    r#"{comma}{{"Name":"{name}","Hash":"{hash}","ContentType":"{kind}","Size":{bytes}}}"#
                ));
            }
        }
        if list.is_empty() {
            return body.clone();
        }
        let metadata = r#""@metadata":{"#;
        body.replacen(metadata, &format!(r#"{metadata}"@attachments":[{list}],"#), 1).into()
    }

    pub(crate) fn log(&self) -> Vec<AttachmentEntry> {
        let entry = |((owner, lower_name), attachment): (&(String, String), &Attachment)| {
            let what = attachment
                .what
                .as_ref()
                .map(|(name, kind, hash, bytes)| format!("{name} {kind} {hash} {bytes}"));
            (attachment.etag, owner.clone(), lower_name.clone(), what)
        };
        let mut log: Vec<_> = self.rows.iter().map(entry).collect();
        log.sort();
        log
    }
}

impl Naive {
    /// The current version of an attachment.
    pub fn attachment_version_of(&self, id: &str, name: &str) -> Option<String> {
        self.attachments.live(id, name).map(|attachment| version(attachment.etag))
    }

    pub(crate) fn apply_to_attachments(&mut self, command: &Command) -> Result<(), Refused> {
        match command {
            Command::PutAttachment(put) => {
                let what =
                    (put.content_type.clone(), *put.content.hash(), put.content.content_bytes());
                self.put_attachment(put.id.as_str(), put.name.as_str(), &put.expected, what)
            }
            Command::DeleteAttachment(delete) => {
                let (id, name) = (delete.id.as_str(), delete.name.as_str());
                self.delete_attachment(id, name, &delete.expected)
            }
            Command::CopyAttachment(transfer) | Command::MoveAttachment(transfer) => {
                let (id, name) = (transfer.id.as_str(), transfer.name.as_str());
                let source = self.attachments.live(id, name).ok_or(Refused)?;
                let (_, kind, hash, bytes) = source.what.clone().ok_or(Refused)?;
                let moves = matches!(command, Command::MoveAttachment(_));
                if moves {
                    self.touch(&id.to_lowercase());
                }
                let to = (transfer.destination_id.as_str(), transfer.destination_name.as_str());
                let what = (kind, hash, bytes);
                self.put_attachment(to.0, to.1, &ExpectedVersion::New, what)?;
                if moves { self.delete_attachment(id, name, &transfer.expected) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn put_attachment(
        &mut self,
        id: &str,
        name: &str,
        expected: &ExpectedVersion,
        (kind, hash, bytes): (String, ContentHash, u64),
    ) -> Result<(), Refused> {
        let present = self.attachment_version_of(id, name);
        let is_expected = expected
            .as_text()
            .is_none_or(|expected| present.as_deref().unwrap_or_default() == expected);
        if !self.is_live(id) || !is_expected {
            return Err(Refused);
        }
        self.last_etag += 1;
        let what = Some((name.to_owned(), kind, hash, bytes));
        let row = Attachment { etag: self.last_etag, what };
        self.attachments.rows.insert((id.to_lowercase(), name.to_lowercase()), row);
        self.touch(&id.to_lowercase());
        Ok(())
    }

    fn delete_attachment(
        &mut self,
        id: &str,
        name: &str,
        expected: &ExpectedVersion,
    ) -> Result<(), Refused> {
        let present = self.attachment_version_of(id, name);
        if expected.as_text().is_some_and(|expected| present.as_deref() != Some(expected)) {
            return Err(Refused);
        }
        if present.is_some() {
            self.last_etag += 1;
            let row = Attachment { etag: self.last_etag, what: None };
            self.attachments.rows.insert((id.to_lowercase(), name.to_lowercase()), row);
            self.touch(&id.to_lowercase());
        }
        Ok(())
    }
}
