//! The pages of replayed records, on their way to the data file.
//!
//! Usually they are written there. When the disk is so full that the data file cannot be extended, the
//! journal is replayed once more into memory, and the pages become versions of the first snapshot, as they
//! were before the last process ended.

use std::{collections::BTreeMap, sync::Arc};

use super::record::{PageChange, apply_difference, page_changes};
use crate::{
    cipher::Keys,
    data_file::DataFile,
    environment::EnvironmentOptions,
    error::{Corruption, StorageError},
    format::{PAGE_BYTES, PageKind, PageNumber, page_kind, run_bytes, run_pages, stamp_checksum},
    io_statistics::IoMeter,
    memory_budget::MemoryShare,
    page_buffer::PageBuffer,
    page_table::{PageTable, PageVersion, VersionBytes},
    plaintext::Encryption,
};

/// Pages are written to the data file when they occupy this much.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A page as replayed so far.
enum ReplayedPage {
    /// A page with a header, to be stamped or encrypted when written.
    Page(PageBuffer),
    /// A page of the run that starts at `run`, stamped or encrypted as a whole.
    RunPart { run: PageNumber, bytes: PageBuffer },
}

impl ReplayedPage {
    fn bytes(&self) -> &[u8] {
        match self {
            ReplayedPage::Page(bytes) | ReplayedPage::RunPart { bytes, .. } => bytes,
        }
    }
}

/// Where the pages go.
enum Destination<'a> {
    DataFile(&'a IoMeter),
    /// As many as there is memory for; otherwise fails with `reason`.
    Memory {
        share: MemoryShare,
        bytes_max: u64,
        reason: &'a StorageError,
    },
}

/// What encrypts the pages of an encrypted environment.
#[derive(Clone, Copy)]
pub(crate) struct Sealing<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) encryption: &'a Encryption,
}

pub(crate) struct ReplayedPages<'a> {
    data: &'a DataFile,
    sealing: Option<Sealing<'a>>,
    destination: Destination<'a>,
    held: BTreeMap<PageNumber, ReplayedPage>,
}

impl<'a> ReplayedPages<'a> {
    /// Pages that are written to the data file.
    pub(crate) fn to_data_file(
        data: &'a DataFile,
        sealing: Option<Sealing<'a>>,
        meter: &'a IoMeter,
    ) -> Self {
        Self { data, sealing, destination: Destination::DataFile(meter), held: BTreeMap::new() }
    }

    /// Pages that stay in memory because the data file cannot be extended for `reason`, which is returned
    /// when they occupy more than an environment may hold.
    pub(crate) fn in_memory(
        data: &'a DataFile,
        sealing: Option<Sealing<'a>>,
        options: &EnvironmentOptions,
        reason: &'a StorageError,
    ) -> Self {
        let share = options.memory_budget.share(0);
        let bytes_max = options.unflushed_bytes_max;
        let destination = Destination::Memory { share, bytes_max, reason };
        Self { data, sealing, destination, held: BTreeMap::new() }
    }

    /// The keys of the journal, if it is encrypted.
    pub(super) fn keys(&self) -> Option<&'a Keys> {
        self.sealing.map(|sealing| sealing.keys)
    }

    fn buffer(&self, bytes: &[u8]) -> PageBuffer {
        PageBuffer::new(bytes, self.sealing.is_some())
    }

    /// `None` when the payload contradicts itself.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Option<Result<(), StorageError>> {
        for (number, change) in page_changes(payload)? {
            match change {
                PageChange::Whole(bytes) => self.put(number, bytes),
                PageChange::Difference(difference) => match self.page_mut(number) {
                    Ok(page) => apply_difference(page, difference)?,
                    Err(error) => return Some(Err(error)),
                },
            }
        }
        Some(self.limit())
    }

    fn limit(&mut self) -> Result<(), StorageError> {
        let held = self.held.len() * PAGE_BYTES;
        match &mut self.destination {
            Destination::DataFile(meter) if HELD_BYTES_MAX < held => {
                let meter = *meter;
                self.write(meter)
            }
            Destination::Memory { share, bytes_max, reason } => {
                let held = held as u64;
                let fits = held <= *bytes_max && share.try_grow_to(held).is_ok();
                if fits { Ok(()) } else { Err(reason.clone()) }
            }
            Destination::DataFile(_) => Ok(()),
        }
    }

    fn put(&mut self, number: PageNumber, bytes: &[u8]) {
        if page_kind(bytes) != Some(PageKind::Run) {
            self.held.insert(number, ReplayedPage::Page(self.buffer(bytes)));
            return;
        }
        let mut run = self.buffer(bytes);
        finish(&mut run, number, self.sealing);
        for (index, part) in run.chunks_exact(PAGE_BYTES).enumerate() {
            let part = ReplayedPage::RunPart { run: number, bytes: self.buffer(part) };
            self.held.insert(number.plus(index as u64), part);
        }
    }

    /// A difference always follows a whole image, in memory or already written to the data file.
    fn page_mut(&mut self, number: PageNumber) -> Result<&mut [u8], StorageError> {
        if !self.held.contains_key(&number) {
            let mut bytes = self.buffer(&[0; PAGE_BYTES]);
            self.data
                .file()
                .read_exact_at(&mut bytes, number.offset())
                .map_err(|error| StorageError::io(self.data.path(), "read", error))?;
            if let Some(Sealing { keys, .. }) = self.sealing
                && !keys.open_page(number, &mut bytes)
            {
                return Err(Corruption::PageAuthentication { page: number }.into());
            }
            self.held.insert(number, ReplayedPage::Page(bytes));
        }
        match self.held.get_mut(&number) {
            Some(ReplayedPage::Page(bytes)) => Ok(bytes),
            Some(ReplayedPage::RunPart { .. }) | None => {
                Err(StorageError::structure(number, "the journal changes a part of a run"))
            }
        }
    }

    /// After the last record.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        match self.destination {
            Destination::DataFile(meter) => self.write(meter),
            Destination::Memory { .. } => Ok(()),
        }
    }

    fn write(&mut self, meter: &IoMeter) -> Result<(), StorageError> {
        if let Some((last, _)) = self.held.last_key_value() {
            self.data.grow_to(last.0 + 1)?;
        }
        for (number, page) in std::mem::take(&mut self.held) {
            let bytes = match page {
                ReplayedPage::Page(mut bytes) => {
                    finish(&mut bytes, number, self.sealing);
                    bytes
                }
                ReplayedPage::RunPart { bytes, .. } => bytes,
            };
            self.data.write_at(&bytes, number, meter)?;
        }
        Ok(())
    }

    /// What stayed in memory, as versions of `transaction`. A run that was freed and used again in part is
    /// left out.
    pub(crate) fn into_table(self, transaction: u64, counted: &Arc<VersionBytes>) -> PageTable {
        // The versions count themselves.
        drop(self.destination);
        let sealing = self.sealing;
        let mut table = PageTable::new();
        let mut insert = |number, bytes: Box<[u8]>| {
            let version = PageVersion::new(transaction, bytes, counted);
            table.insert(number, Arc::new(version));
        };
        let mut pages = self.held.into_iter().peekable();
        while let Some((number, page)) = pages.next() {
            match page {
                ReplayedPage::Page(mut bytes) => {
                    // Checksums are stamped when versions are written, but versions are encrypted already.
                    if sealing.is_some() {
                        finish(&mut bytes, number, sealing);
                    }
                    insert(number, bytes.into_bytes());
                }
                ReplayedPage::RunPart { run, bytes } if run == number => {
                    let whole_bytes = run_pages(run_bytes(&bytes)) as usize * PAGE_BYTES;
                    let mut whole = bytes.into_bytes().into_vec();
                    while whole.len() < whole_bytes
                        && let Some(part) = pages.next_if(|next| is_part(next, run, whole.len()))
                    {
                        whole.extend_from_slice(part.1.bytes());
                    }
                    if whole.len() == whole_bytes {
                        insert(number, whole.into_boxed_slice());
                    }
                }
                ReplayedPage::RunPart { .. } => {}
            }
        }
        table
    }
}

/// Makes a page, or a whole run, what it is at rest.
fn finish(page: &mut [u8], number: PageNumber, sealing: Option<Sealing<'_>>) {
    match sealing {
        Some(Sealing { keys, encryption }) => keys.seal_page(number, &encryption.nonce(), page),
        None => stamp_checksum(page),
    }
}

/// Whether this is the part of the run that begins after its first `bytes`.
fn is_part((number, page): &(PageNumber, ReplayedPage), run: PageNumber, bytes: usize) -> bool {
    matches!(page, ReplayedPage::RunPart { run: of, .. } if *of == run)
        && *number == run.plus((bytes / PAGE_BYTES) as u64)
}
