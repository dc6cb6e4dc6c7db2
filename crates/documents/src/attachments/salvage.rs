//! Attachments of a damaged database: which can be rebuilt completely.
//!
//! An attachment survives when its row, the row of its content and every chunk were found. Contents
//! without a reference, including staged ones, are dropped.

use std::collections::{BTreeMap, BTreeSet};

use model::{ChangeVector, ContentHash, Etag};
use storage::{BulkWriter, RowId, Salvage};

use super::{
    content_row::{self, ContentNumber, ContentRecord, chunk_key},
    row::{self, Owner},
    tables::{ATTACHMENT_TOMBSTONES, ATTACHMENTS, CONTENT_CHUNKS, CONTENTS, NEWEST_CONTENT},
};
use crate::{error::DocumentError, schema::meta};

struct NewestRow {
    etag: u64,
    place: RowId,
    /// Absent for a tombstone.
    hash: Option<ContentHash>,
}

/// What the scan of a damaged database found of its attachments.
#[derive(Default)]
pub(crate) struct GatheredAttachments {
    /// By primary key.
    rows: BTreeMap<Box<[u8]>, NewestRow>,
    contents: BTreeMap<ContentHash, (ContentRecord, RowId)>,
    chunks: BTreeMap<(ContentNumber, u32), RowId>,
}

/// The attachments that were rebuilt.
#[derive(Default)]
pub(crate) struct SalvagedAttachments {
    pub(crate) attachments: u64,
    /// Primary keys of incomplete attachments.
    pub(crate) lost: Vec<Box<[u8]>>,
    /// Pages of keys that could not be read.
    pub(crate) unreadable_key_pages: u64,
    pub(crate) last_etag: Etag,
    pub(crate) change_vector: ChangeVector,
}

impl GatheredAttachments {
    /// Adds a row found by the scan, if it belongs to an attachment or content.
    pub(crate) fn row(&mut self, place: RowId, bytes: &[u8]) {
        if let Ok(found) = row::read(bytes) {
            self.keep(found.primary_key(), found.etag().0, place, Some(found.hash()));
        } else if row::read_tombstone(bytes).is_ok() {
            self.keep(row::tombstone_key_of(bytes), row::etag_of(bytes), place, None);
        } else if let Ok(record) = content_row::read(bytes) {
            // Content that was dropped and put again has a newer number.
            let known = self.contents.get(&record.hash).map(|(known, _)| known.number);
            if known.is_none_or(|known| known < record.number) {
                self.contents.insert(record.hash, (record, place));
            }
        } else if let Ok((number, index, _)) = content_row::read_chunk(bytes) {
            self.chunks.insert((number, index), place);
        }
    }

    fn keep(&mut self, key: &[u8], etag: u64, place: RowId, hash: Option<ContentHash>) {
        let newest = NewestRow { etag, place, hash };
        match self.rows.get_mut(key) {
            Some(known) if etag <= known.etag => {}
            Some(known) => *known = newest,
            None => {
                self.rows.insert(key.into(), newest);
            }
        }
    }

    fn is_whole(&self, record: &ContentRecord) -> bool {
        (0..record.chunks()).all(|index| {
            u32::try_from(index)
                .is_ok_and(|index| self.chunks.contains_key(&(record.number, index)))
        })
    }

    /// Copies each complete attachment whose document or revision was found.
    pub(crate) fn rebuild(
        &self,
        salvage: &Salvage,
        writer: &mut BulkWriter<'_>,
        is_there: &dyn Fn(Owner<'_>) -> bool,
    ) -> Result<SalvagedAttachments, DocumentError> {
        let mut salvaged = SalvagedAttachments::default();
        salvaged.unreadable_key_pages =
            salvage.table_keys(&ATTACHMENTS, &mut |key, is_readable| {
                if !is_readable && !key.is_empty() && !self.rows.contains_key(key) {
                    salvaged.lost.push(key.into());
                }
            });
        let mut copied = BTreeSet::new();
        let mut broken = BTreeSet::new();
        for (key, newest) in &self.rows {
            let Some(bytes) = salvage.row(newest.place) else {
                salvaged.lost.push(key.clone());
                continue;
            };
            let Some(hash) = newest.hash else {
                note_version(&mut salvaged, newest.etag, tombstone_version(&bytes));
                writer.transaction()?.table_mut(&ATTACHMENT_TOMBSTONES).insert(&bytes)?;
                continue;
            };
            let found = row::read(&bytes)?;
            note_version(&mut salvaged, newest.etag, Some(found.change_vector()));
            let has_owner = is_there(found.owner()?);
            if !copied.contains(&hash) && has_owner && !broken.contains(&hash) {
                let is_copied = self.copy_content(salvage, writer, &hash)?;
                if is_copied { &mut copied } else { &mut broken }.insert(hash);
            }
            if !has_owner || broken.contains(&hash) {
                salvaged.lost.push(key.clone());
                continue;
            }
            writer.transaction()?.table_mut(&ATTACHMENTS).insert(&bytes)?;
            salvaged.attachments += 1;
        }
        let newest = self.contents.values().map(|(record, _)| record.number);
        let newest = newest.chain(self.chunks.keys().map(|(number, _)| *number)).max();
        if let Some(ContentNumber(newest)) = newest {
            let mut tree = writer.transaction()?.tree_mut(&meta())?;
            tree.put(NEWEST_CONTENT, &newest.to_le_bytes())?;
        }
        Ok(salvaged)
    }

    /// Whether the content was complete and has been copied.
    fn copy_content(
        &self,
        salvage: &Salvage,
        writer: &mut BulkWriter<'_>,
        hash: &ContentHash,
    ) -> Result<bool, DocumentError> {
        let Some((record, place)) = self.contents.get(hash) else { return Ok(false) };
        if !self.is_whole(record) {
            return Ok(false);
        }
        let Some(content) = salvage.row(*place) else { return Ok(false) };
        for index in 0..record.chunks() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let place = self.chunks.get(&(record.number, index));
            let Some(chunk) = place.and_then(|place| salvage.row(*place)) else {
                // The chunks copied so far remain unreferenced.
                for index in 0..index {
                    let key = chunk_key(record.number, index);
                    writer.transaction()?.table_mut(&CONTENT_CHUNKS).delete(&key)?;
                }
                return Ok(false);
            };
            writer.transaction()?.table_mut(&CONTENT_CHUNKS).insert(&chunk)?;
        }
        writer.transaction()?.table_mut(&CONTENTS).insert(&content)?;
        Ok(true)
    }
}

fn tombstone_version(bytes: &[u8]) -> Option<&str> {
    row::read_tombstone(bytes).ok().map(|row| row.change_vector())
}

fn note_version(salvaged: &mut SalvagedAttachments, etag: u64, version: Option<&str>) {
    salvaged.last_etag = salvaged.last_etag.max(Etag(etag));
    if let Some(version) = version.and_then(|version| version.parse().ok()) {
        salvaged.change_vector = salvaged.change_vector.merge(&version);
    }
}
