//! Opening an environment: creating it, or recovering it from whatever the last process left
//! behind.

use std::{path::Path, sync::Arc};

use platform::{Access, Clock, DirectoryLock, Disk, File, Platform};

use crate::{
    catalog::{TreeKind, TreeState},
    data_file::DataFile,
    environment::{Environment, EnvironmentOptions, Opened},
    error::{Corruption, StorageError},
    flush_state::{FlushState, UnfinishedRecovery},
    format::{PAGE_BYTES, PageKind, PageNumber, init_page, stamp_checksum},
    free_space::{BITMAP_AT, FreeSpaceSummary, bitmap_page},
    header::{EnvironmentHeader, JournalPosition},
    io_statistics::IoMeter,
    journal::{
        self, FIRST_RECORD, Journal, Recovery, Replayed, ReplayedPages, Sealing, any_journal,
        replay,
    },
    origin::Origin,
    page_table::{PageTable, VersionBytes},
    plaintext::{Encryption, Plaintext},
    prepared,
    snapshot::{EnvironmentRoot, Pages, ROOT_PAGE, Snapshot, View},
    unfinished::remove_leftovers,
};

/// The data file's name in the environment's directory.
pub(crate) const DATA_FILE: &str = "corvus.data";
/// A data file that is being created carries this name until it is whole.
pub(crate) const UNFINISHED: &str = "corvus.data.new";
/// Two headers, the root page, and the first bitmap.
const FIRST_PAGES: u64 = BITMAP_AT + 1;

impl Environment {
    /// Opens the environment in `options.directory`, creating it when there is none, and recovering
    /// it when its last process did not close it. Takes the directory's lock.
    ///
    /// Fails with [`StorageError::Locked`] when another environment holds it, with
    /// [`StorageError::UnknownVersion`] when a newer Corvus wrote it, and with
    /// [`StorageError::Corrupt`] when an acknowledged transaction cannot be read back.
    ///
    /// Nothing is changed, and the error names the file, when a part is missing or belongs to another
    /// environment: [`StorageError::DataFileMissing`], [`StorageError::JournalMissing`],
    /// [`StorageError::JournalOfAnother`].
    pub fn open(
        platform: &Platform,
        options: EnvironmentOptions,
    ) -> Result<Arc<Environment>, StorageError> {
        Self::open_from(platform, options, None)
    }

    /// As [`Environment::open`]; a newly created environment continues from `origin`.
    pub(crate) fn open_from(
        platform: &Platform,
        options: EnvironmentOptions,
        origin: Option<Origin>,
    ) -> Result<Arc<Environment>, StorageError> {
        let disk = &*platform.disk;
        let journals = options.journals();
        for directory in [&options.directory, &journals] {
            disk.create_dir_all(directory)
                .map_err(|error| StorageError::io(directory, "create", error))?;
        }
        let mut locks = vec![take_lock(disk, &options.directory)?];
        if options.journals_directory.is_some() {
            locks.push(take_lock(disk, &journals)?);
        }
        prepared::settle(disk, &options)?;
        let path = options.directory.join(DATA_FILE);
        let file = match disk.exists(&path) {
            Ok(true) => disk
                .open(&path, Access::Buffered)
                .map_err(|error| StorageError::io(&path, "open", error))?,
            Ok(false) => {
                if let Some(journal) = any_journal(disk, &journals)? {
                    return Err(StorageError::DataFileMissing { path, journal });
                }
                create_data_file(platform, &options, origin)?
            }
            Err(error) => return Err(StorageError::io(&path, "find", error)),
        };
        let key = options.encryption_key.as_ref();
        let header = EnvironmentHeader::read(&*file, &path, key)?;
        let encryption = encryption_of(platform, &options, header.environment_id);
        let plaintext = encryption.as_ref().map(Encryption::plaintext);
        let data = DataFile::new(file, path, encryption.is_some())?;
        if data.bytes() < FIRST_PAGES * PAGE_BYTES as u64 {
            let (path, bytes) = (data.path().to_path_buf(), data.bytes());
            let expected = FIRST_PAGES * PAGE_BYTES as u64;
            return Err(Corruption::DataFileTooShort { path, bytes, expected }.into());
        }
        let meter = IoMeter::new(platform.clock.clone() as Arc<dyn Clock>, options.slow_io_min);
        let versions = VersionBytes::within(options.memory_budget.clone());
        let keys = plaintext.as_deref().map(Plaintext::keys).transpose()?;
        let sealing =
            keys.zip(encryption.as_ref()).map(|(keys, encryption)| Sealing { keys, encryption });
        let recovering =
            Recovering { disk, options: &options, data: &data, sealing, meter: &meter };
        let Recovered { header, recovery, position, table, unfinished } =
            recovering.recover(header, &versions)?;
        remove_leftovers(platform, &options.directory)?;
        let snapshot = first_snapshot(&data, table, position.transaction, plaintext)?;
        let journal = Journal::new(
            platform,
            journals,
            header.environment_id,
            options.journal_bytes_max,
            options.memory_budget.clone(),
            position,
        );
        Ok(Environment::assemble(Opened {
            options,
            data,
            journal,
            meter,
            encryption,
            snapshot,
            versions,
            flush_state: FlushState::new(header, unfinished),
            recovery,
            incarnation: u64::from_le_bytes(random(platform)),
            locks,
        }))
    }
}

/// The identity of the environment in a directory; `None` when there is none.
///
/// # Errors
/// Errors of reading its header.
pub fn environment_id_in(
    platform: &Platform,
    directory: &Path,
) -> Result<Option<u128>, StorageError> {
    let path = directory.join(DATA_FILE);
    let Some(file) = existing_data_file(platform, &path)? else { return Ok(None) };
    Ok(Some(EnvironmentHeader::read_unverified(&*file, &path)?.environment_id))
}

/// Whether the environment in a directory is encrypted; `None` when there is none, or when its header is damaged.
///
/// # Errors
/// Errors of reading its header.
pub fn is_encrypted_in(
    platform: &Platform,
    directory: &Path,
) -> Result<Option<bool>, StorageError> {
    let path = directory.join(DATA_FILE);
    let Some(file) = existing_data_file(platform, &path)? else { return Ok(None) };
    EnvironmentHeader::is_encrypted(&*file, &path)
}

/// The data file at a path, if there is one.
fn existing_data_file(
    platform: &Platform,
    path: &Path,
) -> Result<Option<Arc<dyn File>>, StorageError> {
    let disk = &*platform.disk;
    if !disk.exists(path).map_err(|error| StorageError::io(path, "find", error))? {
        return Ok(None);
    }
    disk.open(path, Access::Buffered)
        .map(Some)
        .map_err(|error| StorageError::io(path, "open", error))
}

pub(crate) fn random<const BYTES: usize>(platform: &Platform) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    platform.entropy.fill(&mut bytes);
    bytes
}

pub(crate) fn take_lock(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Box<dyn DirectoryLock>, StorageError> {
    let path = directory.to_path_buf();
    disk.lock_dir(directory).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => StorageError::Locked { path },
        _ => StorageError::io(path, "lock", error),
    })
}

/// The data file appears under its name only when it is whole and durable.
fn create_data_file(
    platform: &Platform,
    options: &EnvironmentOptions,
    origin: Option<Origin>,
) -> Result<Arc<dyn File>, StorageError> {
    let (disk, directory) = (&*platform.disk, &options.directory);
    let (unfinished, path) = (directory.join(UNFINISHED), directory.join(DATA_FILE));
    let chain = u128::from_le_bytes(random(platform));
    let origin = origin.unwrap_or(Origin { environment_id: chain, transaction: 0, journal: 1 });
    let header = EnvironmentHeader {
        environment_id: origin.environment_id,
        revision: 1,
        replay_from: JournalPosition {
            transaction: origin.transaction,
            journal: origin.journal,
            offset: FIRST_RECORD,
            chain,
        },
        needs_journal: false,
    };
    let encryption = encryption_of(platform, options, origin.environment_id);
    let plaintext = encryption.as_ref().map(Encryption::plaintext);
    let keys = plaintext.as_deref().map(Plaintext::keys).transpose()?;
    let sealing = keys.zip(encryption.as_ref());
    let build = || {
        if disk.exists(&unfinished)? {
            disk.remove_file(&unfinished)?;
        }
        let file = disk.create(&unfinished, Access::Buffered)?;
        file.allocate(FIRST_PAGES * PAGE_BYTES as u64)?;
        for (number, mut page) in first_pages() {
            match sealing {
                Some((keys, encryption)) => keys.seal_page(number, &encryption.nonce(), &mut page),
                None => stamp_checksum(&mut page),
            }
            file.write_all_at(&page, number.offset())?;
        }
        Ok(file)
    };
    let fail = |error| StorageError::io(&unfinished, "create", error);
    let file = build().map_err(fail)?;
    for revision in 0..2 {
        let signing = sealing.map(|(keys, encryption)| (keys, encryption.nonce()));
        EnvironmentHeader { revision, ..header }.write(&*file, &unfinished, signing)?;
    }
    let publish = || {
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(directory)
    };
    publish().map_err(fail)?;
    Ok(file)
}

pub(crate) fn encryption_of(
    platform: &Platform,
    options: &EnvironmentOptions,
    environment_id: u128,
) -> Option<Encryption> {
    let key = options.encryption_key.clone()?;
    Some(Encryption::new(
        key,
        environment_id,
        options.directory.clone(),
        platform.entropy.clone(),
        options.plaintext_budget.clone(),
        options.plaintext_bytes_max,
    ))
}

fn first_pages() -> [(PageNumber, Box<[u8]>); 2] {
    let root = EnvironmentRoot {
        next_page: PageNumber(FIRST_PAGES),
        root_tree: TreeState::empty(TreeKind::Variable),
    };
    let root_page = root.first_page();
    let mut bitmap = vec![0; PAGE_BYTES].into_boxed_slice();
    init_page(&mut bitmap, bitmap_page(0), PageKind::FreeSpace);
    [(ROOT_PAGE, root_page), (bitmap_page(0), bitmap)]
}

/// What recovery leaves to be opened.
struct Recovered {
    header: EnvironmentHeader,
    recovery: Recovery,
    /// Where the journal continues.
    position: JournalPosition,
    /// Pages that are not in the data file.
    table: PageTable,
    /// The journals that still contain those pages.
    unfinished: Option<UnfinishedRecovery>,
}

/// What recovery works with.
struct Recovering<'a> {
    disk: &'a dyn Disk,
    options: &'a EnvironmentOptions,
    data: &'a DataFile,
    sealing: Option<Sealing<'a>>,
    meter: &'a IoMeter,
}

impl Recovering<'_> {
    /// Replays the journal into the data file and advances the header past it. After a power cut in
    /// between, the same replay simply happens again. On a full disk, journals that no recovery needs make
    /// room; if that is not enough, the changes stay in memory, and nothing is written.
    fn recover(
        &self,
        header: EnvironmentHeader,
        versions: &Arc<VersionBytes>,
    ) -> Result<Recovered, StorageError> {
        let Self { disk, options, data, sealing, meter } = *self;
        let journals = &options.journals();
        let to_data_file = || {
            let mut pages = ReplayedPages::to_data_file(data, sealing, meter);
            replay(disk, journals, &header, &mut pages)
        };
        let mut replayed = to_data_file();
        if matches!(replayed, Err(StorageError::DiskFull { .. })) {
            replayed = match make_room(disk, journals, &header, data, meter) {
                Ok(true) => to_data_file(),
                // Some file systems need room even to sync or to remove a file.
                Ok(false) | Err(StorageError::DiskFull { .. }) => replayed,
                Err(error) => return Err(error),
            };
        }
        let replayed = match replayed {
            Err(full @ StorageError::DiskFull { .. }) => {
                let mut pages = ReplayedPages::in_memory(data, sealing, options, &full);
                let Replayed { position, finished, mut recovery } =
                    replay(disk, journals, &header, &mut pages)?;
                recovery.disk_full = true;
                let table = pages.into_table(position.transaction, versions);
                let unfinished = Some(UnfinishedRecovery { position, journals: finished });
                return Ok(Recovered { header, recovery, position, table, unfinished });
            }
            outcome => outcome?,
        };
        let mut header = header;
        if !replayed.finished.is_empty() {
            data.sync(meter)?;
            header = header.after_replay(replayed.position);
            let signing = sealing.map(|sealing| (sealing.keys, sealing.encryption.nonce()));
            header.write(data.file(), data.path(), signing)?;
            data.sync(meter)?;
        }
        // A spare may exist even when there is nothing to replay: its removal was not synced, so a power
        // cut can bring it back.
        journal::remove_replayed(disk, journals, &replayed.finished)?;
        let (recovery, table) = (replayed.recovery, PageTable::new());
        Ok(Recovered { header, recovery, position: header.replay_from, table, unfinished: None })
    }
}

/// Removes the spare and the journals before the header's floor; returns whether there were any.
fn make_room(
    disk: &dyn Disk,
    journals: &Path,
    header: &EnvironmentHeader,
    data: &DataFile,
    meter: &IoMeter,
) -> Result<bool, StorageError> {
    // A process that was killed may not have synced the header that was read.
    data.sync(meter)?;
    journal::remove_unneeded(disk, journals, header.replay_from.journal)
}

fn first_snapshot(
    data: &DataFile,
    table: PageTable,
    transaction: u64,
    plaintext: Option<Arc<Plaintext>>,
) -> Result<Arc<Snapshot>, StorageError> {
    let root = EnvironmentRoot {
        next_page: PageNumber(0),
        root_tree: TreeState::empty(TreeKind::Variable),
    };
    let (data, free_space) = (data.mapped(), Arc::default());
    let snapshot = Snapshot { transaction, table, root, data, free_space };
    let view = View { snapshot: Arc::new(snapshot), plaintext };
    let root = EnvironmentRoot::read(view.page(ROOT_PAGE)?)?;
    let free_space = Arc::new(FreeSpaceSummary::read(&view, root.next_page)?);
    let (data, table) = (view.data.clone(), view.table.clone());
    Ok(Arc::new(Snapshot { transaction, table, root, data, free_space }))
}
