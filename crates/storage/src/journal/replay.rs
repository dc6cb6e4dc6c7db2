//! Reading the journal back when an environment opens.
//!
//! Records are replayed in order from the header's floor, each naming the checksum of the one
//! before. The first record that is missing or damaged ends the journal, which is normal: the power
//! was cut while it was written, so it was never acknowledged. If a sound record of a later
//! transaction follows, an acknowledged transaction is lost, and opening fails. It also fails when
//! a file that the header or another file names is missing, truncated, or not this environment's.

use std::path::Path;

use platform::{Disk, File, SECTOR_BYTES};

use super::{
    file::{self, FIRST_RECORD, JournalFile, NextJournal},
    record::{FoundRecord, HEADER_BYTES},
    replayed_pages::ReplayedPages,
};
use crate::{
    cipher::Keys,
    error::{Corruption, StorageError},
    header::{EnvironmentHeader, JournalPosition},
    page_buffer::PageBuffer,
};

const SCAN_BYTES: usize = 1024 * 1024;

/// What replaying found.
pub(crate) struct Replayed {
    /// Where the journal continues: after the last sound record, in a file that does not exist yet.
    pub(crate) position: JournalPosition,
    /// The journal files that are no longer needed once the data file is synced.
    pub(crate) finished: Vec<u64>,
    pub(crate) recovery: Recovery,
}

/// What the last process left in the journal and opening copied to the data file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Recovery {
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Bytes of their changes, before compression in the journal.
    pub bytes: u64,
    /// Whether the data file could not be extended because the disk is full, so that the changes
    /// are in memory and in the journal alone. Writes are refused until there is space.
    pub disk_full: bool,
}

/// Removes files that were replayed, and a spare that an earlier process left behind.
///
/// # Errors
/// The first that could not be removed.
pub(crate) fn remove_replayed(
    disk: &dyn Disk,
    directory: &Path,
    journals: &[u64],
) -> Result<(), StorageError> {
    for number in journals {
        file::remove(disk, directory, *number)?;
    }
    file::remove_spare(disk, directory)
}

/// Removes the spare and the files before the one with this number; returns whether there were any.
///
/// # Errors
/// The first that could not be removed.
pub(crate) fn remove_unneeded(
    disk: &dyn Disk,
    directory: &Path,
    floor: u64,
) -> Result<bool, StorageError> {
    let before = file::numbers(disk, directory)?;
    let unneeded: Vec<u64> = before.iter().copied().filter(|number| *number < floor).collect();
    let has_spare = file::has_spare(disk, directory)?;
    remove_replayed(disk, directory, &unneeded)?;
    Ok(has_spare || !unneeded.is_empty())
}

/// Reads the journal from the header's floor to its end into `pages`, which hold everything at the
/// end or have written it to the data file, not synced.
///
/// # Errors
/// Those of `pages`; [`StorageError::JournalOfAnother`]; [`StorageError::JournalMissing`] when the header or another
/// journal names a file that is not there; [`Corruption`] when an acknowledged transaction cannot be
/// read back.
pub(crate) fn replay(
    disk: &dyn Disk,
    directory: &Path,
    header: &EnvironmentHeader,
    pages: &mut ReplayedPages<'_>,
) -> Result<Replayed, StorageError> {
    let EnvironmentHeader { environment_id, replay_from: from, .. } = *header;
    file::refuse_others(disk, directory, environment_id)?;
    let finished = file::numbers(disk, directory)?;
    let keys = pages.keys();
    let mut reader = Reader { disk, directory, environment_id, keys, position: from };
    let mut number = from.journal;
    let mut recovery = Recovery::default();
    // Version 1 released the floor's file when the floor was its last record.
    let mut open = match header.needs_journal {
        true => Some(reader.needed(number)?),
        false => reader.open(number)?,
    };
    loop {
        if let Some(journal) = &open {
            while let Some(payload) = reader.next(journal)? {
                recovery.transactions += 1;
                recovery.bytes += payload.len() as u64;
                pages.apply(&payload).ok_or_else(|| reader.damaged(journal))??;
            }
            if let Some(later) = reader.later_record(journal, reader.position.offset)? {
                return Err(reader.lost(journal, later));
            }
        }
        let next = match &open {
            Some(journal) => match journal.next(environment_id)? {
                Some(named) => Some(reader.named(journal, named)?),
                None => reader.continuation(number, &finished)?,
            },
            None => reader.continuation(number, &finished)?,
        };
        let Some(next) = next else { break };
        number = next.number;
        open = Some(next);
    }
    pages.finish()?;
    let next = finished.last().copied().unwrap_or(0).max(from.journal) + 1;
    let position = JournalPosition { journal: next, offset: FIRST_RECORD, ..reader.position };
    Ok(Replayed { position, finished, recovery })
}

struct Reader<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    environment_id: u128,
    keys: Option<&'a Keys>,
    /// After the last record that was read.
    position: JournalPosition,
}

impl Reader<'_> {
    /// The journal file of that number, if there is one. Fails when a file with a damaged header
    /// holds later transactions.
    fn open(&self, number: u64) -> Result<Option<JournalFile>, StorageError> {
        let journal = JournalFile::open(self.disk, self.directory, self.environment_id, number)?;
        if journal.is_none()
            && let Some(unnamed) = JournalFile::open_any(self.disk, self.directory, number)?
            && let Some(later) = self.later_record(&unnamed, FIRST_RECORD)?
        {
            return Err(Corruption::Journal {
                path: unnamed.path,
                offset: 0,
                transaction: self.position.transaction + 1,
                later,
            }
            .into());
        }
        Ok(journal)
    }

    /// The journal file of that number, which must exist: it was created before anything in it was
    /// acknowledged.
    fn needed(&self, number: u64) -> Result<JournalFile, StorageError> {
        let path = file::path_of(self.directory, number);
        match self.open(number)? {
            Some(journal) => Ok(journal),
            None if self.is_there(&path)? => Err(Corruption::JournalHeader { path }.into()),
            None => Err(StorageError::JournalMissing { path }),
        }
    }

    fn is_there(&self, path: &Path) -> Result<bool, StorageError> {
        self.disk.exists(path).map_err(|error| StorageError::io(path, "find", error))
    }

    /// The journal file in which the records continue, as named by the one before. Fails when that
    /// one lacks transactions, or this one begins with a later one.
    fn named(
        &mut self,
        journal: &JournalFile,
        named: NextJournal,
    ) -> Result<JournalFile, StorageError> {
        if self.position.transaction < named.after {
            return Err(self.lost(journal, named.after));
        }
        let next = self.needed(named.number)?;
        let first = self.record_at(&next, FIRST_RECORD)?;
        let follows = first.is_some_and(|(found, _)| self.is_next(&found));
        if !follows && let Some(later) = self.later_record(&next, FIRST_RECORD)? {
            return Err(self.lost(&next, later));
        }
        self.position.offset = FIRST_RECORD;
        Ok(next)
    }

    fn is_next(&self, found: &FoundRecord) -> bool {
        found.header.transaction == self.position.transaction + 1
            && found.header.previous == self.position.chain
    }

    /// The payload of the next record in this file, or `None` where its records end.
    fn next(&mut self, journal: &JournalFile) -> Result<Option<PageBuffer>, StorageError> {
        let Some((found, record)) = self.record_at(journal, self.position.offset)? else {
            return Ok(None);
        };
        if !self.is_next(&found) {
            return Ok(None);
        }
        let payload = found.payload(&record).ok_or_else(|| self.damaged(journal))?;
        self.position = JournalPosition {
            transaction: found.header.transaction,
            journal: journal.number,
            offset: self.position.offset + found.sectors_bytes(),
            chain: found.checksum,
        };
        Ok(Some(payload))
    }

    /// The sound record that starts at `offset`, decrypted.
    fn record_at(
        &self,
        journal: &JournalFile,
        offset: u64,
    ) -> Result<Option<(FoundRecord, PageBuffer)>, StorageError> {
        if offset + SECTOR_BYTES as u64 > journal.records_end {
            return Ok(None);
        }
        let mut head = [0; HEADER_BYTES];
        read(&*journal.file, journal, &mut head, offset)?;
        let room = journal.records_end - offset;
        let Some(found) = FoundRecord::parse(&head, self.environment_id as u64, room) else {
            return Ok(None);
        };
        let mut record = PageBuffer::zeroed(found.bytes(), self.keys.is_some());
        read(&*journal.file, journal, &mut record, offset)?;
        Ok(found.is_sound(&mut record, self.keys).then_some((found, record)))
    }

    /// The file after journal `number` in which the records continue, if any. Fails when a later
    /// transaction is there but not the next one.
    fn continuation(
        &mut self,
        number: u64,
        numbers: &[u64],
    ) -> Result<Option<JournalFile>, StorageError> {
        for number in numbers.iter().filter(|other| **other > number) {
            let Some(next) = self.open(*number)? else { continue };
            let first = self.record_at(&next, FIRST_RECORD)?;
            if first.is_some_and(|(found, _)| self.is_next(&found)) {
                self.position.offset = FIRST_RECORD;
                return Ok(Some(next));
            }
            if let Some(later) = self.later_record(&next, FIRST_RECORD)? {
                return Err(self.lost(&next, later));
            }
        }
        Ok(None)
    }

    /// A sound record at or after `from` whose transaction is newer than the last one read.
    fn later_record(&self, journal: &JournalFile, from: u64) -> Result<Option<u64>, StorageError> {
        let mut at = from;
        let mut chunk = vec![0; SCAN_BYTES];
        while at < journal.bytes {
            let bytes = SCAN_BYTES.min((journal.bytes - at) as usize);
            read(&*journal.file, journal, &mut chunk[..bytes], at)?;
            for sector in (0..bytes / SECTOR_BYTES).map(|sector| sector * SECTOR_BYTES) {
                let offset = at + sector as u64;
                let head = &chunk[sector..sector + HEADER_BYTES];
                let id = self.environment_id as u64;
                let newer = FoundRecord::parse(head, id, journal.bytes - offset)
                    .is_some_and(|found| found.header.transaction > self.position.transaction);
                if newer && let Some((found, _)) = self.record_at(journal, offset)? {
                    return Ok(Some(found.header.transaction));
                }
            }
            at += bytes as u64;
        }
        Ok(None)
    }

    fn lost(&self, journal: &JournalFile, later: u64) -> StorageError {
        Corruption::Journal {
            path: journal.path.clone(),
            offset: self.position.offset,
            transaction: self.position.transaction + 1,
            later,
        }
        .into()
    }

    /// A record whose checksum is right contradicts itself.
    fn damaged(&self, journal: &JournalFile) -> StorageError {
        self.lost(journal, self.position.transaction + 1)
    }
}

fn read(
    file: &dyn File,
    journal: &JournalFile,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), StorageError> {
    file.read_exact_at(buffer, offset)
        .map_err(|error| StorageError::io(&journal.path, "read", error))
}
