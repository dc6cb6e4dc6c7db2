//! Appending transactions to the journal, in order, each durable when its write returns.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use platform::{Disk, Platform, SECTOR_BYTES};
use rustc_hash::FxHashSet;

use super::{
    compression::CompressionCosts,
    file::{FIRST_RECORD, JournalFile, NextJournal, OVERHEAD_BYTES, SPARE},
    record::{RecordBuilder, RecordHeader},
};
use crate::{
    cipher::{Keys, Nonce},
    error::StorageError,
    format::PageNumber,
    header::JournalPosition,
    invariant,
    io_statistics::{IoKind, IoMeter},
    memory_budget::{Kept, MemoryBudget},
    plaintext::{Encryption, Plaintext},
    report::JournalReport,
    write_pages::ChangedPage,
};

/// The first journal file of an environment; each next one is twice as long, up to the setting.
const JOURNAL_BYTES_FIRST: u64 = 256 * 1024;

/// Larger buffers are freed after the record that needed them, others when nothing was written
/// between two flushes.
const HELD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Files that are kept to become the next ones.
const SPARES_MAX: usize = 2;

/// Why an append failed.
pub(crate) enum AppendError {
    /// Nothing was written: there was no space for another journal file.
    NothingWritten(StorageError),
    /// It is unknown what was written.
    Unknown(StorageError),
}

struct Retired {
    file: JournalFile,
    last_transaction: u64,
}

struct State {
    /// Where the next record goes; the transaction is the newest durable one.
    position: JournalPosition,
    current: Option<JournalFile>,
    retired: VecDeque<Retired>,
    /// Files ready to become the next ones, at most [`SPARES_MAX`].
    spares: Vec<JournalFile>,
    next_bytes: u64,
    /// Pages journaled whole since the floor: their next record may be a difference.
    whole_since_floor: FxHashSet<PageNumber>,
    compression: CompressionCosts,
    /// Empty while a record is being built, or when memory is short.
    builder: Kept<RecordBuilder>,
    /// Bytes appended since the last flush began.
    bytes_since_floor: u64,
}

impl State {
    /// Whether the current file is half full and has no successor yet.
    fn lacks_spare(&self) -> bool {
        self.spares.is_empty()
            && self.current.as_ref().is_some_and(|file| self.position.offset > file.bytes / 2)
    }
}

pub(crate) struct Journal {
    platform: Platform,
    directory: PathBuf,
    environment_id: u128,
    bytes_max: u64,
    /// Locked while a record is written, for as long as that takes.
    state: Mutex<State>,
    turn: Condvar,
    shown: Shown,
}

/// What is known about the files without waiting for a disk.
struct Shown {
    files: Mutex<Arc<ShownFiles>>,
    /// Where the next record begins in the current file.
    offset: AtomicU64,
    /// The last transaction that was appended.
    transaction: AtomicU64,
}

#[derive(Default)]
struct ShownFiles {
    retired: Vec<(Arc<str>, JournalReport)>,
    /// The file that is written to, and where records in it must end.
    current: Option<(Arc<str>, JournalReport, u64)>,
    spares: Vec<(Arc<str>, JournalReport)>,
}

/// The journal, held by the transaction whose turn it is to append.
pub(crate) struct JournalTurn<'j> {
    journal: &'j Journal,
    state: MutexGuard<'j, State>,
}

impl Journal {
    /// Continues after `position`; its file is created by the first append.
    pub(crate) fn new(
        platform: &Platform,
        directory: PathBuf,
        environment_id: u128,
        bytes_max: u64,
        budget: Arc<MemoryBudget>,
        position: JournalPosition,
    ) -> Self {
        let bytes_max = bytes_max.max(JOURNAL_BYTES_FIRST).next_multiple_of(SECTOR_BYTES as u64);
        let state = State {
            position,
            current: None,
            retired: VecDeque::new(),
            spares: Vec::new(),
            next_bytes: JOURNAL_BYTES_FIRST,
            whole_since_floor: FxHashSet::default(),
            compression: CompressionCosts::default(),
            builder: Kept::nothing(budget),
            bytes_since_floor: 0,
        };
        Self {
            platform: platform.clone(),
            directory,
            environment_id,
            bytes_max,
            state: Mutex::new(state),
            turn: Condvar::new(),
            shown: Shown {
                files: Mutex::default(),
                offset: AtomicU64::new(position.offset),
                transaction: AtomicU64::new(position.transaction),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn environment_id(&self) -> u128 {
        self.environment_id
    }

    /// The number of the current file, or of the first one to be created.
    pub(crate) fn number(&self) -> u64 {
        self.lock().position.journal
    }

    /// Waits until every transaction before `transaction` was appended, or `given_up` returns that
    /// it never will be.
    pub(crate) fn wait_turn(
        &self,
        transaction: u64,
        given_up: impl Fn() -> Option<StorageError>,
    ) -> Result<JournalTurn<'_>, StorageError> {
        let mut state = self.lock();
        loop {
            if let Some(reason) = given_up() {
                return Err(reason);
            }
            if state.position.transaction + 1 == transaction {
                return Ok(JournalTurn { journal: self, state });
            }
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes threads waiting for a turn that will not come.
    pub(crate) fn wake_waiters(&self) {
        let _state = self.lock();
        self.turn.notify_all();
    }

    /// Starts a new floor: from here on, the first record of every page is whole. Returns the floor.
    pub(crate) fn begin_floor(&self) -> JournalPosition {
        let mut state = self.lock();
        if state.bytes_since_floor == 0 {
            // Nothing is being written, so no buffers are kept for the next write.
            drop(state.builder.take());
            state.whole_since_floor.shrink_to_fit();
        }
        state.whole_since_floor.clear();
        state.bytes_since_floor = 0;
        state.position
    }

    /// Releases the buffers kept for the next record.
    pub(crate) fn release_buffers(&self) {
        drop(self.lock().builder.take());
    }

    /// Bytes appended since the last floor.
    pub(crate) fn bytes_since_floor(&self) -> u64 {
        self.lock().bytes_since_floor
    }

    /// Whether the current file is half full and has no successor yet.
    pub(crate) fn spare_is_due(&self) -> bool {
        self.lock().lacks_spare()
    }

    /// Every journal file, spares included. Never waits for a disk.
    pub(crate) fn files(&self) -> Vec<JournalReport> {
        let shown = self.shown.files();
        let current = shown.current.iter().map(|(_, report, records_end)| JournalReport {
            unused_bytes: records_end.saturating_sub(self.shown.offset.load(Ordering::Relaxed)),
            last_transaction: Some(self.shown.transaction.load(Ordering::Relaxed)),
            ..*report
        });
        let retired = shown.retired.iter().map(|(_, report)| *report);
        retired.chain(current).chain(shown.spares.iter().map(|(_, report)| *report)).collect()
    }

    /// The names of the spares and of the files written to. Never waits for a disk.
    pub(crate) fn file_names(&self) -> Vec<Arc<str>> {
        let shown = self.shown.files();
        let current = shown.current.iter().map(|(name, ..)| name);
        let others = shown.retired.iter().chain(&shown.spares).map(|(name, _)| name);
        current.chain(others).cloned().collect()
    }

    /// Releases the files before the one that the header names: some become spares, the others are
    /// removed.
    pub(crate) fn release(&self, floor: JournalPosition) -> Result<(), StorageError> {
        let mut freed = Vec::new();
        {
            let mut state = self.lock();
            let wanted = state.next_bytes;
            while let Some(oldest) = state.retired.front()
                && oldest.file.number < floor.journal
            {
                let Some(Retired { file, .. }) = state.retired.pop_front() else { break };
                if file.bytes == wanted && state.spares.len() < SPARES_MAX {
                    state.spares.push(file);
                } else {
                    freed.push(file);
                }
            }
            self.shown.show(&state);
        }
        for file in freed {
            super::file::remove(&*self.platform.disk, &self.directory, file.number)?;
        }
        Ok(())
    }

    /// Creates the first file, if there is none, and returns its position. The header must name it
    /// before anything is appended.
    ///
    /// # Errors
    /// When there is no room for it, or it cannot be written; nothing has changed in either case.
    pub(crate) fn begin(&self) -> Result<JournalPosition, StorageError> {
        let mut state = self.lock();
        if state.current.is_none() {
            // A floor may be inside a file that version 1 released. In a new file of that number
            // the records before the floor's offset would never be replayed.
            let number = match state.position.offset {
                FIRST_RECORD => state.position.journal,
                _ => state.position.journal + 1,
            };
            state.current = Some(self.create(number, state.next_bytes, 0)?);
            state.next_bytes = (state.next_bytes * 2).min(self.bytes_max);
            state.position.journal = number;
            state.position.offset = FIRST_RECORD;
            self.shown.show(&state);
        }
        Ok(state.position)
    }

    /// The position of the next journal, for a header that needs none of the existing ones; `None`
    /// when something was appended after `floor`.
    pub(crate) fn next_if_passed(&self, floor: JournalPosition) -> Option<JournalPosition> {
        let state = self.lock();
        let journal = state.position.journal + 1;
        (state.position == floor).then_some(JournalPosition {
            journal,
            offset: FIRST_RECORD,
            ..floor
        })
    }

    /// Removes all files. For closing, once the header needs none of them.
    pub(crate) fn remove_all(&self) {
        let mut state = self.lock();
        let mut files: Vec<JournalFile> = state.retired.drain(..).map(|old| old.file).collect();
        files.append(&mut state.spares);
        files.extend(state.current.take());
        self.shown.show(&state);
        for file in files {
            // What cannot be removed now is removed when the environment is next opened.
            drop(super::file::remove(&*self.platform.disk, &self.directory, file.number));
        }
    }

    /// Removes the files of the last process, whose content is in the data file.
    ///
    /// # Errors
    /// The first that could not be removed.
    pub(crate) fn remove_replayed(&self, journals: &[u64]) -> Result<(), StorageError> {
        super::remove_replayed(&*self.platform.disk, &self.directory, journals)
    }

    /// Prepares the next journal file, so that no commit has to wait for it. Like
    /// [`Journal::release`], called only by the flush, of which one runs at a time.
    pub(crate) fn prepare_spare(&self) -> Result<(), StorageError> {
        let bytes = {
            let state = self.lock();
            if !state.lacks_spare() {
                return Ok(());
            }
            state.next_bytes
        };
        let spare = self.create(SPARE, bytes, 0)?;
        let mut state = self.lock();
        state.spares.push(spare);
        self.shown.show(&state);
        Ok(())
    }

    fn create(
        &self,
        number: u64,
        bytes: u64,
        first_record_bytes: u64,
    ) -> Result<JournalFile, StorageError> {
        let (disk, directory): (&dyn Disk, _) = (&*self.platform.disk, &self.directory);
        let id = self.environment_id;
        JournalFile::create(disk, directory, id, number, bytes, first_record_bytes)
    }
}

impl Shown {
    fn files(&self) -> Arc<ShownFiles> {
        Arc::clone(&self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn move_to(&self, position: JournalPosition) {
        self.offset.store(position.offset, Ordering::Relaxed);
        self.transaction.store(position.transaction, Ordering::Relaxed);
    }

    /// Shows a state whose files have changed.
    fn show(&self, state: &State) {
        let report = |file: &JournalFile, last_transaction, unused_bytes| {
            let JournalFile { number, bytes, .. } = *file;
            (file.name.clone(), JournalReport { number, bytes, unused_bytes, last_transaction })
        };
        let retired = state.retired.iter();
        let retired = retired.map(|old| report(&old.file, Some(old.last_transaction), 0));
        let current = state.current.as_ref().map(|file| {
            // Both numbers are those of the moment at which they are shown.
            let (name, report) = report(file, None, 0);
            (name, report, file.records_end)
        });
        let spares = state.spares.iter().map(|file| report(file, None, file.records_end));
        let files = ShownFiles { retired: retired.collect(), current, spares: spares.collect() };
        self.move_to(state.position);
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
    }
}

impl JournalTurn<'_> {
    /// Appends the transaction, encrypted with `sealing`; durable when it returns `Ok`.
    pub(crate) fn append(
        &mut self,
        transaction: u64,
        changed: &[ChangedPage],
        sealing: Option<(&Plaintext, &Encryption)>,
        meter: &IoMeter,
    ) -> Result<(), AppendError> {
        let plaintext = sealing.map(|(plaintext, _)| plaintext);
        let keys =
            plaintext.map(Plaintext::keys).transpose().map_err(AppendError::NothingWritten)?;
        let nonce = sealing.map(|(_, encryption)| encryption.nonce());
        // This transaction can no longer be refused; until it is done, others are.
        let mut memory = self.state.builder.budget().share(0);
        let payload_bytes_max = RecordBuilder::payload_bytes_max(changed);
        memory.grow_to(payload_bytes_max as u64);
        let kept = self.state.builder.take();
        let mut builder = kept.unwrap_or_else(|| RecordBuilder::new(keys.is_some()));
        builder.start(payload_bytes_max);
        for page in changed {
            let difference = self.state.whole_since_floor.contains(&page.number);
            builder.add(page, difference, plaintext);
        }
        let numbers = changed.iter().map(|page| page.number);
        let result = self.append_with(&mut builder, transaction, numbers, keys.zip(nonce), meter);
        drop(memory);
        let held = builder.held_bytes();
        if held <= HELD_BYTES_MAX {
            self.state.builder.keep(builder, held as u64);
        }
        if result.is_ok() {
            self.journal.turn.notify_all();
        }
        result
    }

    /// Replay stops at a gap, so a record behind one would be lost.
    fn check_order(&self, transaction: u64) -> Result<(), StorageError> {
        invariant!(
            transaction == self.state.position.transaction + 1,
            "the journal has every transaction, in order"
        );
        Ok(())
    }

    fn append_with(
        &mut self,
        builder: &mut RecordBuilder,
        transaction: u64,
        numbers: impl Iterator<Item = PageNumber>,
        sealing: Option<(&Keys, Nonce)>,
        meter: &IoMeter,
    ) -> Result<(), AppendError> {
        self.check_order(transaction).map_err(AppendError::NothingWritten)?;
        let header = RecordHeader {
            environment: self.journal.environment_id as u64,
            transaction,
            previous: self.state.position.chain,
            written_at: self.journal.platform.clock.now().ticks(),
        };
        let name = self.state.current.as_ref().map_or_else(|| "journal".into(), |f| f.name.clone());
        let (record, checksum) = self.finish_record(builder, header, sealing, &name, meter);
        let file = self.file_for(record.len() as u64)?;
        let (handle, path, name, bytes) =
            (file.file.clone(), file.path.clone(), file.name.clone(), file.bytes);
        let offset = self.state.position.offset;
        let began = self.journal.platform.clock.monotonic();
        meter
            .measure(IoKind::JournalWrite, &name, bytes, record.len() as u64, || {
                handle.write_all_at(record, offset)
            })
            .map_err(|source| {
                let source = Arc::new(source);
                AppendError::Unknown(StorageError::Io { path, operation: "write", source })
            })?;
        let took = self.journal.platform.clock.monotonic().saturating_sub(began);
        let state = &mut *self.state;
        state.compression.written(record.len() as u64, took);
        state.position.transaction = transaction;
        state.position.offset += record.len() as u64;
        self.journal.shown.move_to(state.position);
        state.position.chain = checksum;
        state.bytes_since_floor += record.len() as u64;
        state.whole_since_floor.extend(numbers);
        Ok(())
    }

    /// The record and its checksum, compressed when recent measurements favour that.
    fn finish_record<'b>(
        &mut self,
        builder: &'b mut RecordBuilder,
        header: RecordHeader,
        sealing: Option<(&Keys, Nonce)>,
        name: &Arc<str>,
        meter: &IoMeter,
    ) -> (&'b [u8], u128) {
        let costs = &mut self.state.compression;
        if !builder.can_compress() || !costs.is_worthwhile() {
            costs.left_uncompressed();
            return builder.finish(header, false, sealing);
        }
        let before = builder.payload_bytes() as u64;
        let began = self.journal.platform.clock.monotonic();
        let (record, checksum) = meter.measure_compression(name, before, || {
            let (record, checksum) = builder.finish(header, true, sealing);
            let bytes = record.len() as u64;
            ((record, checksum), bytes)
        });
        let took = self.journal.platform.clock.monotonic().saturating_sub(began);
        costs.compressed(before, record.len() as u64, took);
        (record, checksum)
    }

    /// The current file if the record fits, else the next one.
    fn file_for(&mut self, record_bytes: u64) -> Result<&JournalFile, AppendError> {
        let offset = self.state.position.offset;
        if self.state.current.as_ref().is_some_and(|current| !current.fits(record_bytes, offset)) {
            let begun = self.begin_next(record_bytes);
            // A spare is taken even if it cannot be used.
            self.journal.shown.show(&self.state);
            begun?;
        }
        match &self.state.current {
            Some(file) => Ok(file),
            None => unreachable!("the journal is begun before the first transaction"),
        }
    }

    /// Continues in the next file: a spare, if the record fits into one.
    fn begin_next(&mut self, record_bytes: u64) -> Result<(), AppendError> {
        let state = &mut *self.state;
        let Some(current) = &state.current else {
            unreachable!("the journal is begun before the first transaction")
        };
        let number = current.number + 1;
        let spare = state.spares.pop_if(|spare| spare.fits(record_bytes, FIRST_RECORD));
        let disk: &dyn Disk = &*self.journal.platform.disk;
        let (directory, id) = (&self.journal.directory, self.journal.environment_id);
        let next = match spare {
            Some(spare) => spare.recycle(disk, directory, id, number),
            None => {
                let needed = (OVERHEAD_BYTES + record_bytes).next_multiple_of(SECTOR_BYTES as u64);
                let bytes = state.next_bytes.max(needed);
                self.journal.create(number, bytes, record_bytes)
            }
        };
        let next = next.map_err(AppendError::NothingWritten)?;
        let after = state.position.transaction;
        current.name_next(id, NextJournal { number, after }).map_err(AppendError::Unknown)?;
        state.next_bytes = (state.next_bytes * 2).min(self.journal.bytes_max);
        if let Some(file) = state.current.replace(next) {
            state.retired.push_back(Retired { file, last_transaction: after });
        }
        state.position.journal = number;
        state.position.offset = FIRST_RECORD;
        Ok(())
    }
}
