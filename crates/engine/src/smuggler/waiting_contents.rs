//! Contents of attachments that were read, and wait for a document that has them.
//!
//! A dump has each content once, in front of the first document that has it. That may be left out, so that a later one
//! takes the content.

use std::collections::HashMap;

use documents::{ImportedVersion, NewContent};
use model::ContentHash;

use crate::content_upload::StagedContents;

/// Contents that may be forgotten when there are more: the documents behind them had none of them.
const UNCLAIMED_MAX: usize = 4096;
/// A content up to this length is carried by the command of its document; a longer one is staged.
const CARRIED_BYTES_MAX: usize = 64 << 10;
/// If so much is waiting to be carried, the next contents are staged.
const ALL_CARRIED_BYTES_MAX: usize = 2 << 20;
/// What a content takes in memory, apart from what is carried.
const ENTRY_BYTES: usize = 256;

/// See the module.
#[derive(Default)]
pub(super) struct WaitingContents {
    contents: HashMap<ContentHash, (NewContent, StagedContents)>,
    /// What they carry, in bytes.
    carried_bytes: usize,
    /// How many came behind the last document.
    new: usize,
}

impl WaitingContents {
    /// About how much memory they take, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.carried_bytes + self.contents.len() * ENTRY_BYTES
    }

    /// Up to which length the next content is to be carried.
    pub(super) fn carried_bytes_max(&self) -> usize {
        if self.carried_bytes < ALL_CARRIED_BYTES_MAX { CARRIED_BYTES_MAX } else { 0 }
    }

    /// Adds a content. All that come behind the last document are kept: they may belong to the next one.
    pub(super) fn add(&mut self, content: NewContent, staged: StagedContents) {
        let are_many =
            UNCLAIMED_MAX <= self.contents.len() || ALL_CARRIED_BYTES_MAX <= self.carried_bytes;
        if self.new == 0 && are_many {
            self.clear();
        }
        self.new += 1;
        self.carried_bytes += carried_bytes(&content);
        let hash = *content.hash();
        if let Some((replaced, _)) = self.contents.insert(hash, (content, staged)) {
            self.carried_bytes -= carried_bytes(&replaced);
        }
    }

    /// Passes on the contents of a version.
    pub(super) fn take_for(&mut self, version: &mut ImportedVersion) -> StagedContents {
        let mut all = StagedContents::default();
        if self.contents.is_empty() {
            return all;
        }
        for attachment in &version.attachments {
            if let Some((content, staged)) = self.contents.remove(&attachment.hash) {
                self.carried_bytes -= carried_bytes(&content);
                version.contents.push(content);
                all.append(staged);
            }
        }
        all
    }

    /// A document was read, which has taken what it has, or was left out.
    pub(super) fn end_document(&mut self) {
        self.new = 0;
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = WaitingContents::default();
    }
}

fn carried_bytes(content: &NewContent) -> usize {
    match content {
        NewContent::Bytes { bytes, .. } => bytes.len(),
        NewContent::Staged { .. } => 0,
    }
}
