//! Finding what is left of a journal that can no longer be replayed, for salvage.
//!
//! Replaying trusts the header of the environment and of each file, and stops at the first record
//! that is not there. This examines every sector of every file instead, and keeps every record
//! whose checksum is right, wherever it is. Nothing is written.
//!
//! Invariant: records are handed out in the order of their transactions, each marked with whether
//! it directly follows the one before; only then may its differences be applied.

use std::{path::Path, sync::Arc};

use platform::{Access, Disk, File, SECTOR_BYTES};

use super::{
    file::{self, FIRST_RECORD},
    record::{FoundRecord, HEADER_BYTES, PageChange, page_changes},
};
use crate::{
    cipher::Keys,
    error::StorageError,
    format::{PageNumber, read_u64},
    header::JournalPosition,
    page_buffer::PageBuffer,
};

const SCAN_BYTES: usize = 1024 * 1024;

/// A record whose checksum is right. About 64 bytes of memory for at least 4 KB of journal.
#[derive(Clone, Copy)]
struct SurvivingRecord {
    found: FoundRecord,
    file: usize,
    offset: u64,
}

/// The records that survive of a journal.
pub(crate) struct SurvivingJournal<'k> {
    /// Those of an encrypted environment.
    keys: Option<&'k Keys>,
    files: Vec<(Arc<dyn File>, u64)>,
    /// By transaction.
    records: Vec<SurvivingRecord>,
    /// The record that the first one should follow.
    from: Option<JournalPosition>,
    /// The first and the last of transactions in a row that are missing although a later one is there.
    pub(crate) lost: Vec<(u64, u64)>,
}

/// The pages that one transaction changed.
pub(crate) struct SurvivingChanges<'a> {
    pub(crate) transaction: u64,
    /// Whether the transaction before it was handed out just before.
    pub(crate) follows: bool,
    /// In the order of the record.
    pub(crate) pages: Vec<(PageNumber, PageChange<'a>)>,
}

impl<'k> SurvivingJournal<'k> {
    /// Searches all journal files of `directory`. With `from`, only transactions after that
    /// position count; without it, all from the first record of the oldest file on. An unknown id
    /// is taken from the first record found.
    pub(crate) fn find(
        disk: &dyn Disk,
        directory: &Path,
        environment_id: Option<u128>,
        from: Option<JournalPosition>,
        keys: Option<&'k Keys>,
    ) -> Result<Self, StorageError> {
        let mut journal =
            Self { keys, files: Vec::new(), records: Vec::new(), from, lost: Vec::new() };
        let exists = disk.exists(directory);
        if !exists.map_err(|error| StorageError::io(directory, "find", error))? {
            return Ok(journal);
        }
        let mut id = environment_id.map(|id| id as u64);
        for number in file::numbers(disk, directory)? {
            let path = file::path_of(directory, number);
            let opened = disk.open(&path, Access::Buffered).and_then(|f| Ok((f.len()?, f)));
            // A file that cannot be opened is lost, like one that cannot be read.
            if let Ok((bytes, file)) = opened {
                journal.files.push((file, bytes));
                journal.scan(journal.files.len() - 1, &mut id);
            }
        }
        journal.arrange();
        Ok(journal)
    }

    /// Collects every sound record of a file.
    fn scan(&mut self, file: usize, id: &mut Option<u64>) {
        let (handle, bytes) = (self.files[file].0.clone(), self.files[file].1);
        let mut chunk = vec![0; SCAN_BYTES];
        let (mut chunk_at, mut chunk_end) = (0, 0);
        let mut at = FIRST_RECORD;
        while at + SECTOR_BYTES as u64 <= bytes {
            if at < chunk_at || chunk_end < at + SECTOR_BYTES as u64 {
                let length = SCAN_BYTES.min((bytes - at) as usize);
                read_or_zero(&*handle, &mut chunk[..length], at);
                (chunk_at, chunk_end) = (at, at + length as u64);
            }
            let head = &chunk[(at - chunk_at) as usize..][..HEADER_BYTES];
            let wanted = id.unwrap_or_else(|| read_u64(head, 8));
            let found = FoundRecord::parse(head, wanted, bytes - at);
            let is_sound = |found: &FoundRecord| self.read(&*handle, found, at).is_some();
            match found.filter(is_sound) {
                Some(found) => {
                    *id = Some(wanted);
                    self.records.push(SurvivingRecord { found, file, offset: at });
                    at += found.sectors_bytes();
                }
                None => at += SECTOR_BYTES as u64,
            }
        }
    }

    /// Drops records from before the start, sorts the others, and finds the gaps.
    fn arrange(&mut self) {
        // Behind the records of a reused file are older ones, released long ago; their transactions
        // precede the first of the oldest file.
        let first = self.records.first().map_or(0, |record| record.transaction());
        let start = self.from.map_or(first, |from| from.transaction + 1);
        self.records.retain(|record| start <= record.transaction());
        self.records.sort_by_key(|record| (record.transaction(), record.file));
        self.records.dedup_by_key(|record| record.transaction());
        let mut expected = start;
        for record in &self.records {
            if expected < record.transaction() {
                self.lost.push((expected, record.transaction() - 1));
            }
            expected = record.transaction() + 1;
        }
    }

    /// The record's bytes, decrypted, when they are sound.
    fn read(&self, file: &dyn File, found: &FoundRecord, offset: u64) -> Option<PageBuffer> {
        let mut record = PageBuffer::zeroed(found.bytes(), self.keys.is_some());
        file.read_exact_at(&mut record, offset).ok()?;
        found.is_sound(&mut record, self.keys).then_some(record)
    }

    /// Calls `visit` with every transaction that survives.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(SurvivingChanges<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut last = self.from.map(|from| (from.transaction, from.chain));
        for record in &self.records {
            let header = record.found.header;
            let follows = last.is_none_or(|(transaction, chain)| {
                header.transaction == transaction + 1 && header.previous == chain
            });
            let bytes = self.read(&*self.files[record.file].0, &record.found, record.offset);
            let payload = bytes.and_then(|bytes| record.found.payload(&bytes));
            let Some(pages) = payload.as_deref().and_then(page_changes) else { continue };
            visit(SurvivingChanges { transaction: header.transaction, follows, pages })?;
            last = Some((header.transaction, record.found.checksum));
        }
        Ok(())
    }
}

impl SurvivingRecord {
    fn transaction(&self) -> u64 {
        self.found.header.transaction
    }
}

/// Reads what can be read; unreadable sectors are left zero.
fn read_or_zero(file: &dyn File, buffer: &mut [u8], at: u64) {
    if file.read_exact_at(buffer, at).is_ok() {
        return;
    }
    for (index, sector) in buffer.chunks_mut(SECTOR_BYTES).enumerate() {
        if file.read_exact_at(sector, at + (index * SECTOR_BYTES) as u64).is_err() {
            sector.fill(0);
        }
    }
}
