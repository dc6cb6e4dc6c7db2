//! An environment: one data file, its journal, its snapshots, and the one writer.
//!
//! The life of a transaction: [`Environment::write`] takes the writer lock and builds on `latest`;
//! sealing makes its snapshot the new `latest`; [`Environment::make_durable`] appends it to the journal
//! and only then publishes it to readers. The flush copies published versions to the data file.
//!
//! Locks, in the order in which they are taken: flush → journal → writer → published.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use platform::DirectoryLock;

use crate::{
    data_file::DataFile,
    encryption_key::EncryptionKey,
    error::StorageError,
    flush_state::FlushState,
    format::{PAGE_BYTES, PageNumber},
    history::History,
    invariant,
    io_statistics::{FileIo, IoMeter, IoOperation, IoPosition},
    journal::{AppendError, Journal, Recovery},
    memory_budget::{
        ALWAYS_ALLOWED_BYTES, MemoryBudget, MemoryExhausted, TRANSACTION_ALLOWED_BYTES,
    },
    origin::Origin,
    page_table::VersionBytes,
    plaintext::Encryption,
    sealed::{SealedContent, SealedTransaction},
    snapshot::{Snapshot, View},
    transaction::ReadTransaction,
    write_pages::Frozen,
    write_transaction::WriteTransaction,
};

/// The default bound of the decrypted pages of an environment.
const PLAINTEXT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Where an environment lives and how much it may use.
#[derive(Clone, Debug)]
pub struct EnvironmentOptions {
    /// The directory of the data file; created when missing.
    pub directory: PathBuf,
    /// The directory of the journal files, possibly on a separate drive; `journals` in the
    /// directory when `None`. Must not be shared with another environment.
    pub journals_directory: Option<PathBuf>,
    /// Longest journal file, in bytes.
    pub journal_bytes_max: u64,
    /// Page versions held in memory before writers have to wait for the flush, in bytes. A flush is
    /// requested once three quarters of this are held in memory or have been appended to the
    /// journal.
    pub unflushed_bytes_max: u64,
    /// The limit on what all environments that share this budget hold together.
    pub memory_budget: Arc<MemoryBudget>,
    /// The budget for the pages of open transactions until they are in the journal; see
    /// [`StorageError::NoMemory`].
    pub transaction_budget: Arc<MemoryBudget>,
    /// I/O that takes at least this long is recorded as slow.
    pub slow_io_min: Duration,
    /// Whether other environments depend on the history of this one.
    pub history: History,
    /// The key, if the environment is encrypted: everything in its files that comes from its users is. Environments
    /// may share a key, since what they derive from it depends on their identities. A new environment is encrypted
    /// when there is a key; an existing one that is not is refused then, as is an encrypted one without its key.
    pub encryption_key: Option<EncryptionKey>,
    /// Whether `encryption_key`, or that there is none, is known to be what counts: a copy that was prepared for it takes
    /// the place of the environment then, and one for another key is removed ([`crate::prepare_copy`]).
    pub is_key_certain: bool,
    /// Decrypted pages kept in memory, in bytes; beyond that, transactions that begin later start without any.
    pub plaintext_bytes_max: usize,
    /// The budget for decrypted pages: those that are kept, and what a single transaction reads beyond that; see
    /// [`StorageError::NoMemoryToDecrypt`].
    pub plaintext_budget: Arc<MemoryBudget>,
}

impl EnvironmentOptions {
    /// The defaults: journals of up to 64 MB next to the data file; 256 MB of unflushed versions,
    /// in a budget not shared with other environments; I/O counts as slow from half a second.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            journals_directory: None,
            journal_bytes_max: 64 * 1024 * 1024,
            unflushed_bytes_max: 256 * 1024 * 1024,
            memory_budget: MemoryBudget::unlimited(),
            transaction_budget: MemoryBudget::unlimited(),
            slow_io_min: Duration::from_millis(500),
            history: History::NotKept,
            encryption_key: None,
            is_key_certain: false,
            plaintext_bytes_max: PLAINTEXT_BYTES_MAX,
            plaintext_budget: MemoryBudget::unlimited(),
        }
    }

    /// The directory of the journal files.
    pub fn journals(&self) -> PathBuf {
        self.journals_directory.clone().unwrap_or_else(|| self.directory.join("journals"))
    }
}

/// Space in use by an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentStatistics {
    /// Bytes of the data file.
    pub data_file_bytes: u64,
    /// Bytes of all journal files.
    pub journal_bytes: u64,
    /// The number of journal files.
    pub journal_files: usize,
    /// Bytes of page versions in memory.
    pub unflushed_bytes: u64,
    /// Pages that were allocated before and are free now.
    pub free_pages: u64,
    /// Pages below the end of the environment.
    pub allocated_pages: u64,
    /// Bytes in a page.
    pub page_bytes: usize,
    /// The newest durable transaction.
    pub transaction: u64,
    /// Snapshots older than the newest that a reader still holds.
    pub older_snapshots: usize,
}

impl EnvironmentStatistics {
    /// Bytes of the pages that are in use.
    pub fn used_bytes(&self) -> u64 {
        self.allocated_pages.saturating_sub(self.free_pages) * self.page_bytes as u64
    }
}

struct WriterState {
    held: bool,
    /// The newest sealed state, durable or not.
    latest: Arc<Snapshot>,
    /// How many times sealed transactions have been abandoned.
    generation: u64,
    given_up_because: Option<Arc<StorageError>>,
    /// Versions that are in the data file and leave the page table when no writer is active.
    flushed: Vec<(PageNumber, u64)>,
}

struct Published {
    current: Arc<Snapshot>,
    /// Earlier snapshots that a reader may still hold, oldest first.
    earlier: VecDeque<Arc<Snapshot>>,
}

type Notice = Box<dyn Fn() + Send + Sync>;

/// An open environment: a data file, its journal and the page versions in memory.
pub struct Environment {
    pub(crate) options: EnvironmentOptions,
    pub(crate) data: DataFile,
    pub(crate) journal: Journal,
    pub(crate) meter: IoMeter,
    /// `None` unless it is encrypted.
    pub(crate) encryption: Option<Encryption>,
    versions: Arc<VersionBytes>,
    writer: Mutex<WriterState>,
    writer_free: Condvar,
    published: Mutex<Published>,
    failure: OnceLock<Arc<StorageError>>,
    pub(crate) flush_state: Mutex<FlushState>,
    flush_wanted: AtomicBool,
    was_disk_full: AtomicBool,
    on_flush_wanted: OnceLock<Notice>,
    on_published: RwLock<Vec<Notice>>,
    on_memory_short: OnceLock<Notice>,
    recovery: Recovery,
    /// The number of the incarnation that begins with the first transaction.
    incarnation: u64,
    /// Locked while the incarnation begins.
    begun: Mutex<bool>,
    has_begun: AtomicBool,
    /// Locks of the directory and of a separate journal directory; `close` takes them.
    directory_locks: Mutex<Vec<Box<dyn DirectoryLock>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What opening prepared; see open.rs.
pub(crate) struct Opened {
    pub(crate) options: EnvironmentOptions,
    pub(crate) data: DataFile,
    pub(crate) journal: Journal,
    pub(crate) meter: IoMeter,
    pub(crate) encryption: Option<Encryption>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) versions: Arc<VersionBytes>,
    pub(crate) flush_state: FlushState,
    pub(crate) recovery: Recovery,
    pub(crate) incarnation: u64,
    pub(crate) locks: Vec<Box<dyn DirectoryLock>>,
}

impl Environment {
    pub(crate) fn assemble(opened: Opened) -> Arc<Self> {
        let snapshot = opened.snapshot;
        Arc::new(Self {
            options: opened.options,
            data: opened.data,
            journal: opened.journal,
            meter: opened.meter,
            encryption: opened.encryption,
            versions: opened.versions,
            writer: Mutex::new(WriterState {
                held: false,
                latest: snapshot.clone(),
                generation: 0,
                given_up_because: None,
                flushed: Vec::new(),
            }),
            writer_free: Condvar::new(),
            published: Mutex::new(Published { current: snapshot, earlier: VecDeque::new() }),
            failure: OnceLock::new(),
            flush_state: Mutex::new(opened.flush_state),
            flush_wanted: AtomicBool::new(false),
            was_disk_full: AtomicBool::new(false),
            on_flush_wanted: OnceLock::new(),
            on_published: RwLock::default(),
            on_memory_short: OnceLock::new(),
            recovery: opened.recovery,
            incarnation: opened.incarnation,
            begun: Mutex::new(false),
            has_begun: AtomicBool::new(false),
            directory_locks: Mutex::new(opened.locks),
        })
    }

    /// The reason why the environment refuses writes, if it has failed.
    pub fn failure(&self) -> Option<Arc<StorageError>> {
        self.failure.get().cloned()
    }

    /// What opening found in the journal.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The newest durable state, for reading.
    pub fn read(&self) -> ReadTransaction {
        let snapshot = lock(&self.published).current.clone();
        ReadTransaction::new(self.view(snapshot))
    }

    fn view(&self, snapshot: Arc<Snapshot>) -> View {
        View { snapshot, plaintext: self.encryption.as_ref().map(Encryption::plaintext) }
    }

    /// Whether the files of the environment are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Wipes what an encrypted environment has decrypted, and its keys, if no transaction is open and none has begun
    /// since the last call. To be called at short intervals; two calls without a transaction in between suffice.
    /// Returns whether nothing is left, which is always so unless it is encrypted.
    pub fn release_plaintext_when_quiet(&self) -> bool {
        let Some(encryption) = &self.encryption else { return true };
        let is_quiet = encryption.release_when_quiet();
        if is_quiet {
            self.journal.release_buffers();
        }
        is_quiet
    }

    /// Waits until there is no other writer and begins a write transaction. Fails when the
    /// environment has failed, and with [`StorageError::TooManyUnflushed`] when memory is full of
    /// versions that cannot be flushed.
    pub fn write(self: &Arc<Self>) -> Result<WriteTransaction, StorageError> {
        self.begin_writing()?;
        self.write_unbegun()
    }

    pub(crate) fn write_unbegun(self: &Arc<Self>) -> Result<WriteTransaction, StorageError> {
        if self.has_too_many_unflushed() {
            self.make_room()?;
        }
        let mut writer = lock(&self.writer);
        while writer.held {
            writer = self.writer_free.wait(writer).unwrap_or_else(PoisonError::into_inner);
        }
        self.check_failure()?;
        writer.held = true;
        let (base, generation) = (writer.latest.clone(), writer.generation);
        drop(writer);
        let memory = self.options.transaction_budget.share(TRANSACTION_ALLOWED_BYTES);
        Ok(WriteTransaction::new(self.clone(), self.view(base), generation, memory))
    }

    /// The point from which a copy of the newest state continues this environment's history.
    pub(crate) fn origin_of_copy(&self) -> Origin {
        Origin {
            environment_id: self.journal.environment_id(),
            transaction: self.read().id(),
            journal: self.journal.number() + 1,
        }
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Locked while the environment begins to write; true afterwards.
    pub(crate) fn begun(&self) -> &Mutex<bool> {
        &self.begun
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    pub(crate) fn set_begun(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    pub(crate) fn has_too_many_unflushed(&self) -> bool {
        self.exceeded_memory().is_some()
    }

    /// The memory in use and its limit, when the limit is exceeded: by this environment alone, or
    /// by all environments together while this one contributes to it.
    fn exceeded_memory(&self) -> Option<MemoryExhausted> {
        let own = self.versions.get();
        let bytes_max = self.options.unflushed_bytes_max;
        if bytes_max < own {
            return Some(MemoryExhausted { own, taken: own, bytes_max });
        }
        if own <= ALWAYS_ALLOWED_BYTES {
            return None;
        }
        self.options.memory_budget.taken_beyond(100)
    }

    /// Waits for the flush in progress, flushes again when that was not enough, and once more after
    /// the holders of snapshots were asked to release them.
    fn make_room(&self) -> Result<(), StorageError> {
        self.flush_unless(|| !self.has_too_many_unflushed())?;
        if self.has_too_many_unflushed()
            && let Some(notice) = self.on_memory_short.get()
        {
            notice();
            self.flush_unless(|| !self.has_too_many_unflushed())?;
        }
        match self.exceeded_memory() {
            Some(MemoryExhausted { taken, bytes_max, .. }) => {
                Err(StorageError::TooManyUnflushed { bytes: taken, limit: bytes_max })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn release_writer(&self) {
        let mut writer = lock(&self.writer);
        writer.held = false;
        self.forget_flushed(&mut writer);
        self.writer_free.notify_one();
    }

    pub(crate) fn version_bytes(&self) -> &Arc<VersionBytes> {
        &self.versions
    }

    /// Makes a sealed transaction's snapshot the one that the next writer builds on.
    pub(crate) fn accept_sealed(
        self: &Arc<Self>,
        frozen: Frozen,
        generation: u64,
    ) -> Result<SealedTransaction, StorageError> {
        self.check_failure()?;
        let mut writer = lock(&self.writer);
        if let Some(reason) = abandoned(&writer, generation) {
            return Err(reason);
        }
        writer.latest = frozen.snapshot.clone();
        let content = SealedContent { frozen, generation };
        Ok(SealedTransaction::new(self.clone(), content))
    }

    pub(crate) fn make_durable(&self, sealed: SealedContent) -> Result<(), StorageError> {
        let outcome = self.append_and_publish(sealed);
        self.note_full_disk(&outcome);
        outcome
    }

    fn append_and_publish(&self, sealed: SealedContent) -> Result<(), StorageError> {
        let Frozen { snapshot, changed, plaintext, memory } = sealed.frozen;
        let transaction = snapshot.transaction;
        let mut turn = self.journal.wait_turn(transaction, || {
            self.check_failure().err().or_else(|| abandoned(&lock(&self.writer), sealed.generation))
        })?;
        let sealing = plaintext.as_deref().zip(self.encryption.as_ref());
        match turn.append(transaction, &changed, sealing, &self.meter) {
            Ok(()) => {
                drop((changed, memory));
                let published = self.publish(&snapshot).map_err(|error| self.fail(error));
                drop(turn);
                published?;
                self.notify_published();
                self.request_flush_if_due();
                Ok(())
            }
            Err(AppendError::NothingWritten(reason)) => {
                self.rewind(Arc::new(reason.clone()), sealed.generation);
                drop(turn);
                self.journal.wake_waiters();
                Err(reason)
            }
            Err(AppendError::Unknown(reason)) => {
                let failure = self.fail(reason);
                drop(turn);
                self.journal.wake_waiters();
                Err(failure)
            }
        }
    }

    /// Called while the journal is locked, so snapshots are published in transaction order.
    fn publish(&self, sealed: &Arc<Snapshot>) -> Result<(), StorageError> {
        let writer = lock(&self.writer);
        // The writer may have replaced it with one that has dropped its flushed versions.
        let newest = if writer.latest.transaction == sealed.transaction {
            writer.latest.clone()
        } else {
            sealed.clone()
        };
        let mut published = lock(&self.published);
        drop(writer);
        invariant!(
            published.current.transaction < sealed.transaction,
            "snapshots are published in the order of their transactions"
        );
        let before = std::mem::replace(&mut published.current, newest);
        published.earlier.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        if Arc::strong_count(&before) > 1 {
            published.earlier.push_back(before);
        }
        Ok(())
    }

    /// The oldest snapshot that a reader may hold.
    pub(crate) fn oldest_snapshot(&self) -> Arc<Snapshot> {
        let mut published = lock(&self.published);
        published.earlier.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        published.earlier.front().unwrap_or(&published.current).clone()
    }

    /// Whether a reader holds a snapshot that is older than the newest one.
    pub fn has_readers_of_older_snapshots(&self) -> bool {
        let mut published = lock(&self.published);
        published.earlier.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        !published.earlier.is_empty()
    }

    /// Abandons every sealed transaction that is not durable, unless that has already happened.
    fn rewind(&self, reason: Arc<StorageError>, generation: u64) {
        let mut writer = lock(&self.writer);
        if writer.generation == generation {
            writer.generation += 1;
            writer.given_up_because = Some(reason);
            writer.latest = lock(&self.published).current.clone();
        }
    }

    pub(crate) fn abandon(&self, transaction: u64, generation: u64) {
        self.rewind(Arc::new(StorageError::GivenUp { transaction }), generation);
        self.journal.wake_waiters();
    }

    /// Closes the write path permanently; the environment has to be reopened.
    pub(crate) fn fail(&self, reason: StorageError) -> StorageError {
        let reason = self.failure.get_or_init(|| Arc::new(reason)).clone();
        StorageError::Failed { reason }
    }

    pub(crate) fn check_failure(&self) -> Result<(), StorageError> {
        match self.failure.get() {
            Some(reason) => Err(StorageError::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Flushes, then refuses writes and releases the directory, so that it can be reopened while
    /// references to this value still exist. Transactions that are not durable yet are refused;
    /// snapshots stay readable. Whatever could not be flushed is in the journal and is recovered
    /// from there; after a complete flush no journal is left behind.
    pub fn close(&self) -> Result<(), StorageError> {
        let flushed = self.flush();
        let mut flush_state = lock(&self.flush_state);
        self.fail(StorageError::Closed);
        // Waits for a journal write in progress; none starts after a failure.
        self.journal.wake_waiters();
        if flushed.is_ok() {
            self.remove_journal(&mut flush_state);
        }
        lock(&self.directory_locks).clear();
        flushed
    }

    /// Whether a write or a sync has failed; if so, the environment must be reopened before it can
    /// be written again.
    pub fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Whether it was closed, and had not failed before.
    pub fn is_closed(&self) -> bool {
        self.failure.get().is_some_and(|reason| matches!(**reason, StorageError::Closed))
    }

    /// Records that these versions are in the data file.
    pub(crate) fn versions_flushed(&self, flushed: Vec<(PageNumber, u64)>) {
        let mut writer = lock(&self.writer);
        writer.flushed.extend(flushed);
        if !writer.held {
            self.forget_flushed(&mut writer);
        }
    }

    /// Removes flushed versions from the newest page table, except of pages changed since.
    fn forget_flushed(&self, writer: &mut WriterState) {
        if writer.flushed.is_empty() {
            return;
        }
        let mut table = writer.latest.table.clone();
        for (page, transaction) in writer.flushed.drain(..) {
            if table.get(page).is_some_and(|version| version.transaction() == transaction) {
                table.remove(page);
            }
        }
        let latest = &writer.latest;
        let next = Arc::new(Snapshot {
            transaction: latest.transaction,
            table,
            root: latest.root,
            data: self.data.mapped(),
            free_space: latest.free_space.clone(),
        });
        writer.latest = next.clone();
        let mut published = lock(&self.published);
        if published.current.transaction == next.transaction {
            let before = std::mem::replace(&mut published.current, next);
            if Arc::strong_count(&before) > 1 {
                published.earlier.push_back(before);
            }
        }
    }

    /// Registers the callback that is notified, once, that [`Environment::keep_up`] has work to do;
    /// it is notified again only after `keep_up` has been called.
    pub fn on_flush_wanted(&self, notice: impl Fn() + Send + Sync + 'static) {
        drop(self.on_flush_wanted.set(Box::new(notice)));
    }

    /// Registers a further callback that is notified of every transaction that has become durable
    /// and visible, for as long as the environment is open. It runs on the committing thread,
    /// before any caller is acknowledged: it must be quick and must not register callbacks itself.
    pub fn on_published(&self, notice: impl Fn() + Send + Sync + 'static) {
        let mut notices = self.on_published.write().unwrap_or_else(PoisonError::into_inner);
        notices.push(Box::new(notice));
    }

    /// Registers the callback that is invoked before a writer is refused because memory is full of
    /// versions, so that it can release snapshots held on behalf of others. It runs on the writer's
    /// thread. Only the first registration takes effect.
    pub fn on_memory_short(&self, notice: impl Fn() + Send + Sync + 'static) {
        drop(self.on_memory_short.set(Box::new(notice)));
    }

    fn notify_published(&self) {
        let notices = self.on_published.read().unwrap_or_else(PoisonError::into_inner);
        notices.iter().for_each(|notice| notice());
    }

    /// Whether [`Environment::keep_up`] has work to do.
    pub fn flush_wanted(&self) -> bool {
        self.flush_wanted.load(Ordering::Acquire)
    }

    /// Records whether the operation failed because the disk is full.
    pub(crate) fn note_full_disk<T>(&self, outcome: &Result<T, StorageError>) {
        if matches!(outcome, Err(StorageError::DiskFull { .. })) {
            self.was_disk_full.store(true, Ordering::Release);
        }
    }

    /// Whether the disk has been full since the last call.
    pub fn take_disk_full(&self) -> bool {
        self.was_disk_full.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn flush_begins(&self) {
        self.flush_wanted.store(false, Ordering::Release);
    }

    /// Whether enough has been written to make a flush worthwhile.
    pub(crate) fn flush_is_due(&self) -> bool {
        let enough = self.options.unflushed_bytes_max / 4 * 3;
        let own = self.versions.get();
        own > enough
            || self.journal.bytes_since_floor() > enough
            || (own > ALWAYS_ALLOWED_BYTES && self.options.memory_budget.taken_beyond(75).is_some())
    }

    fn request_flush_if_due(&self) {
        if (self.flush_is_due() || self.journal.spare_is_due())
            && !self.flush_wanted.swap(true, Ordering::AcqRel)
            && let Some(notice) = self.on_flush_wanted.get()
        {
            notice();
        }
    }

    /// What the environment occupies.
    pub fn statistics(&self) -> EnvironmentStatistics {
        let journals = self.journal.files();
        let (current, older_snapshots) = {
            let mut published = lock(&self.published);
            published.earlier.retain(|snapshot| Arc::strong_count(snapshot) > 1);
            (published.current.clone(), published.earlier.len())
        };
        EnvironmentStatistics {
            data_file_bytes: self.data.bytes(),
            journal_bytes: journals.iter().map(|journal| journal.bytes).sum(),
            journal_files: journals.len(),
            unflushed_bytes: self.versions.get(),
            free_pages: current.free_space.free_pages(),
            allocated_pages: current.root.next_page.get(),
            page_bytes: PAGE_BYTES,
            transaction: current.transaction,
            older_snapshots,
        }
    }

    /// The I/O operations after `since`, per file in order of name, and the position to continue
    /// from. Files without an operation since are left out; sums of older operations are included
    /// only when reading from the start. A reader misses operations that were summed up before it
    /// came back for them.
    pub fn io(&self, since: IoPosition) -> (Vec<FileIo>, IoPosition) {
        let (mut files, position) = self.meter.operations(since);
        let open = self.journal.file_names();
        for file in &mut files {
            file.is_in_use = *file.file == *self.data.name() || open.contains(&file.file);
        }
        (files, position)
    }

    /// The slow I/O operations after `since`, oldest first, and the position to continue from.
    pub fn slow_io(&self, since: IoPosition) -> (Vec<IoOperation>, IoPosition) {
        self.meter.slow(since)
    }

    /// The options the environment was opened with.
    pub fn options(&self) -> &EnvironmentOptions {
        &self.options
    }
}

fn abandoned(writer: &WriterState, generation: u64) -> Option<StorageError> {
    let reason = writer.given_up_because.as_ref()?;
    (writer.generation != generation)
        .then(|| StorageError::BuiltOnFailed { reason: reason.clone() })
}
