//! The machine this process runs on: its file system, clocks and random numbers (Linux).
//!
//! Thin: each operation is one or two system calls and keeps no state. Where the file system lacks
//! a feature (direct I/O, reserving space), there is a slower fallback with the same guarantee.

#![expect(clippy::disallowed_methods, reason = "this is where files and clocks are reached")]

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        CWD, FallocateFlags, FlockOperation, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl,
        flock, fsync, openat, statvfs,
    },
    io::{Errno, retry_on_intr},
};

use crate::{
    Platform,
    clock::{Clock, Timestamp},
    disk::{
        Access, AlignedBuffer, DirectoryLock, Disk, DiskSpace, Exposure, File, LOCK_FILE, Mapping,
        SECTOR_BYTES, check_direct,
    },
    entropy::Entropy,
    mapped::map_shared,
    process_memory::RealProcessMemory,
};

/// The owner reads and writes; no other user has access.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The owner alone enters a directory.
const DIRECTORY_MODE: u32 = 0o700;
/// Every user may write to the directory.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Users other than the owner have some access.
const OPEN_TO_OTHERS: u32 = 0o077;
/// The administrator, whose access cannot be restricted.
const ROOT: u32 = 0;

/// Zeroes written at once where the file system cannot reserve space.
const ZERO_FILL_BYTES: usize = 1 << 20;

impl Platform {
    /// The machine this process runs on.
    pub fn real() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            clock: Arc::new(RealClock::new()),
            entropy: Arc::new(RealEntropy),
            memory: Arc::new(RealProcessMemory),
        }
    }
}

/// The file system of the machine.
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut ancestor = dir;
        while !ancestor.as_os_str().is_empty() && !ancestor.is_dir() {
            missing.push(ancestor);
            let Some(parent) = ancestor.parent() else { break };
            ancestor = parent;
        }
        for new in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(new) {
                Ok(()) => {}
                // Another process created it first; the entry still has to be synced here.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && new.is_dir() => {}
                Err(error) => return Err(error),
            }
            self.sync_dir(new.parent().unwrap_or(Path::new("")))?;
        }
        Ok(())
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        open_file(path, access, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        open_file(path, access, OFlags::empty())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name().into_string();
            names.push(name.map_err(|_| io::ErrorKind::InvalidData)?);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    fn remove_empty_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, or_current(dir), flags, Mode::empty())?;
        match retry_on_intr(|| fsync(&directory)) {
            // File systems that cannot sync a directory return this and persist its entries in
            // their own way.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        // Locks of this kind belong to the open file, not to the process, so a second attempt in this
        // process, which opens the directory again, is refused as well.
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = fs::File::from(openat(CWD, or_current(dir), flags, Mode::empty())?);
        match retry_on_intr(|| flock(&file, exclusive)) {
            Ok(()) => return Ok(Box::new(RealLock { _file: file })),
            // Network file systems only lock files that are open for writing, which a directory
            // never is.
            Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = fs::File::from(openat(CWD, dir.join(LOCK_FILE), flags, FILE_MODE)?);
        retry_on_intr(|| flock(&file, exclusive))?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let status = statvfs(or_current(dir))?;
        let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
        Ok(DiskSpace { free_bytes: bytes(status.f_bavail), total_bytes: bytes(status.f_blocks) })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let (mut ancestor, mut missing) = (path, Vec::new());
        loop {
            match fs::canonicalize(or_current(ancestor)) {
                Ok(found) => {
                    return Ok(missing.iter().rev().fold(found, |path, name| path.join(name)));
                }
                Err(error) => {
                    let is_missing = fs::symlink_metadata(or_current(ancestor))
                        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                    let parts = ancestor.parent().zip(ancestor.file_name());
                    let Some((parent, name)) = parts.filter(|_| is_missing) else {
                        return Err(error);
                    };
                    missing.push(name);
                    ancestor = parent;
                }
            }
        }
    }

    fn exposure(&self, dir: &Path) -> io::Result<Exposure> {
        let metadata = fs::metadata(or_current(dir))?;
        let own = rustix::process::geteuid().as_raw();
        Ok(exposure_of(metadata.mode(), metadata.uid(), own))
    }
}

/// Which users can access a directory of this mode and owner, from the point of view of the user
/// `own`.
fn exposure_of(mode: u32, owner: u32, own: u32) -> Exposure {
    if owner != own && owner != ROOT {
        return Exposure::OwnedByAnother { owner, own };
    }
    match mode {
        mode if mode & WRITABLE_BY_ALL != 0 => Exposure::WritableByAll,
        mode if mode & OPEN_TO_OTHERS != 0 => Exposure::OpenToOthers,
        _ => Exposure::Private,
    }
}

/// The parent of a bare name is the current directory, which the operating system calls `.`.
fn or_current(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

fn open_file(path: &Path, access: Access, extra: OFlags) -> io::Result<Arc<dyn File>> {
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC | extra;
    if access == Access::DirectSync {
        flags |= OFlags::DSYNC;
    }
    let file = fs::File::from(retry_on_intr(|| openat(CWD, path, flags, FILE_MODE))?);
    if access == Access::DirectSync {
        bypass_page_cache(&file)?;
    }
    Ok(Arc::new(RealFile { file, access, path: path.to_owned() }))
}

/// Turns direct I/O on where the file system supports it. Done on an open file rather than when
/// opening, because a refused open may leave the created file behind.
fn bypass_page_cache(file: &fs::File) -> io::Result<()> {
    let flags = fcntl_getfl(file)?;
    match fcntl_setfl(file, flags | OFlags::DIRECT) {
        Err(Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Some file systems accept the flag but refuse the reads and writes.
fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// Reverts to the page cache, still writing synchronously. `false` when the file already uses it.
fn leave_direct(file: &fs::File) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags - OFlags::DIRECT)?;
    Ok(flags.contains(OFlags::DIRECT))
}

/// The open file whose lock is released when it is closed.
struct RealLock {
    _file: fs::File,
}

impl DirectoryLock for RealLock {}

struct RealFile {
    file: fs::File,
    access: Access,
    path: PathBuf,
}

impl RealFile {
    /// Names the file in an error; the operating system only says what went wrong.
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), FileError { path: self.path.clone(), source: error })
    }

    /// Extends the file with written zeroes, for file systems that cannot reserve space.
    fn fill_with_zeroes(&self, len: u64) -> io::Result<()> {
        let zeroes = AlignedBuffer::zeroed(ZERO_FILL_BYTES);
        let mut position = self.file.metadata()?.len().next_multiple_of(SECTOR_BYTES as u64);
        let end = len - len % SECTOR_BYTES as u64;
        while position < end {
            let wanted = (end - position).min(ZERO_FILL_BYTES as u64) as usize;
            self.file.write_all_at(&zeroes[..wanted], position)?;
            position += wanted as u64;
        }
        self.file.set_len(len)
    }
}

/// An error of a system call with the name of its file.
#[derive(Debug)]
struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.named(error))?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(|error| self.named(error))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.len()? < len => {
                self.fill_with_zeroes(len).map_err(|error| self.named(error))
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.named(error.into())),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, buffer, offset)?;
        let end = offset.saturating_add(buffer.len() as u64);
        let outcome = match self.file.read_exact_at(buffer, offset) {
            // A direct read that reaches the end of the file continues at an unaligned offset, and
            // fails with that error instead of reporting the end.
            Err(error) if refuses_direct(&error) && self.len()? < end => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Err(error) if refuses_direct(&error) && leave_direct(&self.file)? => {
                self.file.read_exact_at(buffer, offset)
            }
            outcome => outcome,
        };
        outcome.map_err(|error| self.named(error))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, bytes, offset)?;
        let outcome = match self.file.write_all_at(bytes, offset) {
            Err(error) if refuses_direct(&error) && leave_direct(&self.file)? => {
                self.file.write_all_at(bytes, offset)
            }
            outcome => outcome,
        };
        outcome.map_err(|error| self.named(error))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| self.named(error))
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        map_shared(&self.file, len, ()).map_err(|error| self.named(error))
    }
}

/// The clocks of the machine.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::from_unix(after),
            Err(before) => Timestamp::before_unix(before.duration()),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The random numbers of the operating system.
pub struct RealEntropy;

impl Entropy for RealEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the kernel has random numbers once it has started");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    /// A temporary directory, removed at the end of the test.
    struct TemporaryDirectory(PathBuf);

    impl TemporaryDirectory {
        fn new() -> Self {
            let name = format!("corvus-platform-{:016x}", RealEntropy.next_u64());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TemporaryDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_real_disk_behaves_like_a_disk() {
        let directory = TemporaryDirectory::new();
        conformance::check(&RealDisk, &directory.0);
    }

    #[test]
    fn what_is_created_belongs_to_its_owner_alone() {
        let directory = TemporaryDirectory::new();
        let inner = directory.0.join("a/b");
        RealDisk.create_dir_all(&inner).unwrap();
        RealDisk.create(&inner.join("file"), Access::Buffered).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&directory.0.join("a")), 0o700);
        assert_eq!(mode(&inner), 0o700);
        assert_eq!(mode(&inner.join("file")), 0o600);
        assert_eq!(RealDisk.exposure(&inner).unwrap(), Exposure::Private);
    }

    #[test]
    fn links_are_followed_in_the_existing_part_of_a_path() {
        let directory = TemporaryDirectory::new();
        let place = fs::canonicalize(&directory.0).unwrap();
        fs::create_dir_all(place.join("far/away")).unwrap();
        std::os::unix::fs::symlink(place.join("far"), place.join("link")).unwrap();
        std::os::unix::fs::symlink(place.join("nowhere"), place.join("broken")).unwrap();
        let resolved = |path: &str| RealDisk.resolve(&place.join(path));
        for (path, expected) in [
            ("", ""),
            ("far/away", "far/away"),
            ("link", "far"),
            ("link/away", "far/away"),
            ("link/new/deeper", "far/new/deeper"),
            ("new/deeper", "new/deeper"),
        ] {
            assert_eq!(resolved(path).unwrap(), place.join(expected), "{path}");
        }
        for path in ["broken", "broken/deeper"] {
            assert_eq!(resolved(path).unwrap_err().kind(), io::ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn a_directory_shows_its_exposure() {
        let table = [
            (0o40700, 7, 7, Exposure::Private),
            (0o40700, 0, 7, Exposure::Private),
            (0o40750, 7, 7, Exposure::OpenToOthers),
            (0o42770, 0, 7, Exposure::OpenToOthers),
            (0o40755, 7, 7, Exposure::OpenToOthers),
            (0o40777, 7, 7, Exposure::WritableByAll),
            (0o41777, 0, 7, Exposure::WritableByAll),
            (0o40700, 8, 7, Exposure::OwnedByAnother { owner: 8, own: 7 }),
            (0o40700, 8, 0, Exposure::OwnedByAnother { owner: 8, own: 0 }),
        ];
        for (mode, owner, own, expected) in table {
            assert_eq!(exposure_of(mode, owner, own), expected, "{mode:o} {owner} {own}");
        }
    }

    #[test]
    fn allocated_space_is_really_reserved() {
        let directory = TemporaryDirectory::new();
        let path = directory.0.join("a");
        let file = RealDisk.create(&path, Access::Buffered).unwrap();
        file.set_len(1 << 20).unwrap();
        let sparse = fs::metadata(&path).unwrap().blocks();
        file.allocate(1 << 20).unwrap();
        assert!(sparse < 8 && fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
    }

    #[test]
    fn without_reservation_the_file_is_filled_and_keeps_what_it_had() {
        let directory = TemporaryDirectory::new();
        let path = directory.0.join("a");
        for len in [5000, 8192, 3 << 20] {
            let file = RealFile {
                file: fs::File::options()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(&path)
                    .unwrap(),
                access: Access::Buffered,
                path: path.clone(),
            };
            file.write_all_at(b"kept", 100).unwrap();
            file.fill_with_zeroes(len).unwrap();
            let mut expected = vec![0; len as usize];
            expected[100..104].copy_from_slice(b"kept");
            assert!(fs::read(&path).unwrap() == expected, "length {len}");
        }
    }

    #[test]
    fn direct_files_bypass_the_page_cache_where_that_works_and_can_go_back() {
        let directory = TemporaryDirectory::new();
        let path = directory.0.join("a");
        RealDisk.create(&path, Access::DirectSync).unwrap();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        bypass_page_cache(&file).unwrap();
        let direct = fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT);
        let misaligned = file.write_all_at(b"odd", 1);
        assert_eq!(direct, misaligned.is_err_and(|error| refuses_direct(&error)));
        assert_eq!(leave_direct(&file).unwrap(), direct);
        assert!(!leave_direct(&file).unwrap());
        file.write_all_at(b"odd", 1).unwrap();
    }

    #[test]
    fn errors_name_the_file_and_keep_their_kind() {
        let directory = TemporaryDirectory::new();
        let file = RealDisk.create(&directory.0.join("short"), Access::Buffered).unwrap();
        let error = file.read_exact_at(&mut [0; 10], 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("short"), "{error}");
    }

    #[test]
    fn both_clocks_move_forward() {
        let clock = RealClock::new();
        let (wall, monotonic) = (clock.now(), clock.monotonic());
        assert!(wall > Timestamp::from_unix(Duration::from_secs(1_700_000_000)));
        assert!(clock.monotonic() >= monotonic);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(RealEntropy.next_u64(), RealEntropy.next_u64());
    }
}
