//! What the engine needs of a disk, as traits.
//!
//! Paths are names inside one [`Disk`]; nothing here is a general file system. Every operation is
//! blocking. Errors are `std::io::Error`; the kind `StorageFull` means that space may come back,
//! any other error of a write or a sync means that it is unknown what reached the disk.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    any::Any,
    io,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::mapped::populate;

/// The unit in which direct I/O is aligned, in bytes. Offsets, lengths and buffers of files opened
/// with [`Access::DirectSync`] are multiples of it.
pub const SECTOR_BYTES: usize = 4096;

/// How a file is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache; durable only after [`File::sync_data`].
    Buffered,
    /// Bypassing the page cache; each write is durable when it returns (`O_DIRECT|O_DSYNC`). Where
    /// the file system refuses direct I/O, the implementation falls back to synchronous buffered
    /// writes.
    DirectSync,
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process can still write.
    pub free_bytes: u64,
    /// Bytes in total, used or free.
    pub total_bytes: u64,
}

/// The file that is locked instead of a directory where the file system cannot lock the directory
/// itself.
pub const LOCK_FILE: &str = "LOCK";

/// Which users besides that of this process can access a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only the administrator.
    Private,
    /// The group or all other users have some access, but not every user may write.
    OpenToOthers,
    /// Every user of the machine may write there.
    WritableByAll,
    /// It belongs to another user, with full access.
    OwnedByAnother {
        /// The number of that user.
        owner: u32,
        /// The number of the user of this process.
        own: u32,
    },
}

/// A name space of files and directories.
pub trait Disk: Send + Sync + 'static {
    /// Creates the directory and its parents, durably (the entries of new directories are synced).
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that must not exist (`AlreadyExists`), empty. Its entry is durable only after
    /// [`Disk::sync_dir`] of the parent.
    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading and writing (`NotFound`).
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;
    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// The names (not paths) of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames a file or directory, replacing a file of the new name. Durable after
    /// [`Disk::sync_dir`] of the parent(s).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Durable after [`Disk::sync_dir`] of the parent.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and everything in it; a missing directory is not an error.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a directory that is empty (`DirectoryNotEmpty`). Durable after [`Disk::sync_dir`] of the
    /// parent.
    fn remove_empty_dir(&self, dir: &Path) -> io::Result<()> {
        if self.list(dir)?.is_empty() {
            self.remove_dir_all(dir)
        } else {
            Err(io::ErrorKind::DirectoryNotEmpty.into())
        }
    }
    /// Makes creations, renames and removals in the directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the exclusive lock of a directory that exists (`NotFound`), held until the value is
    /// dropped or the process ends. `WouldBlock` when there is another holder, in this process or
    /// another. The lock is on the directory itself, so it cannot be circumvented by removing a
    /// file; where the file system cannot lock directories, it is on [`LOCK_FILE`].
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>>;
    /// The space of the file system that holds `dir`.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;

    /// The path with the links in its existing part resolved. Disks that are not of the machine
    /// have no links.
    ///
    /// `NotFound` when a link leads nowhere.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// Which other users can access a directory. Disks that are not of the machine are private.
    fn exposure(&self, _dir: &Path) -> io::Result<Exposure> {
        Ok(Exposure::Private)
    }

    /// The whole content of a file (`NotFound`). For small files: headers, records, settings.
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, Access::Buffered)?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Makes `bytes` the whole content of a file, durably: after a power cut at any moment the file
    /// has its old content (or is still missing) or all of the new one. The bytes go through a file
    /// next to it named `<name>.new`, so two callers must not write the same file at the same time.
    fn write_file_atomically(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut new_name = name.to_owned();
        new_name.push(".new");
        let new_path = path.with_file_name(new_name);
        // Left behind by an attempt that was interrupted.
        if self.exists(&new_path)? {
            self.remove_file(&new_path)?;
        }
        let file = self.create(&new_path, Access::Buffered)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        self.rename(&new_path, path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }
}

/// Refuses what direct I/O cannot do, on every disk alike, so that a mistake shows in tests rather
/// than on the first file system that really bypasses the page cache.
pub(crate) fn check_direct(access: Access, bytes: &[u8], offset: u64) -> io::Result<()> {
    let aligned = bytes.as_ptr().addr().is_multiple_of(SECTOR_BYTES)
        && bytes.len().is_multiple_of(SECTOR_BYTES)
        && offset.is_multiple_of(SECTOR_BYTES as u64);
    match access {
        Access::DirectSync if !aligned => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "direct I/O needs offset, length and address to be whole sectors",
        )),
        Access::DirectSync | Access::Buffered => Ok(()),
    }
}

/// A held lock; dropping it releases it.
pub trait DirectoryLock: Send + Sync {}

/// An open file. Reads and writes carry their offset; there is no cursor.
pub trait File: Send + Sync {
    /// Current length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Truncates the file to `len` bytes, or extends it with zeroes that occupy no space yet.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Extends the file to at least `len` bytes and reserves the space, so that a later write below
    /// `len` does not fail for lack of space. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset`; `UnexpectedEof` when the file ends before that.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, extending the file when needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns when everything written so far, and the length, is on stable storage.
    fn sync_data(&self) -> io::Result<()>;
    /// Maps the first `len` bytes for reading. `len` may exceed the file: those bytes become readable
    /// as the file grows. Later writes to the file are visible through the mapping.
    fn map(&self, len: usize) -> io::Result<Mapping>;
}

/// A read-only view of a file's bytes at a stable address.
pub struct Mapping {
    base: *const u8,
    len: usize,
    _owner: Box<dyn Any + Send + Sync>,
    /// Asked before bytes are loaded; a simulated disk injects its faults here.
    before_load: Option<BeforeLoad>,
}

/// Notified of the offset and length of bytes that are about to be loaded; an error is the load's.
pub(crate) type BeforeLoad = Box<dyn Fn(u64, u64) -> io::Result<()> + Send + Sync>;

// SAFETY: the pointer is only read through `slice`, whose contract forbids racing writes, and the
// owner that keeps the memory alive is itself Send + Sync.
unsafe impl Send for Mapping {}
// SAFETY: as above; sharing the pointer is no different from sharing a `&[u8]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// # Safety
    /// `base` points to `len` bytes of address space that stay mapped, at the same address, for as
    /// long as `owner` lives.
    pub unsafe fn new(base: *const u8, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self { base, len, _owner: owner, before_load: None }
    }

    pub(crate) fn with_faults(self, before_load: BeforeLoad) -> Self {
        Self { before_load: Some(before_load), ..self }
    }

    /// Reads the bytes `offset..offset + len` from the disk if they are not in memory, so that a device that
    /// cannot read them, or a file that became shorter, is an error here. Touching such bytes without this
    /// call ends the process by SIGBUS. A page that the system evicts afterwards is read again at the next touch.
    ///
    /// # Errors
    /// Those of reading. On systems that cannot load mapped bytes (Linux before 5.14), this does nothing.
    ///
    /// # Panics
    /// When the range ends past [`Mapping::len`].
    pub fn load(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "outside the mapping");
        if let Some(before_load) = &self.before_load {
            before_load(offset as u64, len as u64)?;
        }
        // SAFETY: in bounds of the mapped range (checked above).
        let start = unsafe { self.base.add(offset) };
        populate(start, len)
    }

    /// Bytes of address space, which may be more than the file has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes `offset..offset + len`.
    ///
    /// # Panics
    /// When the range ends past [`Mapping::len`].
    ///
    /// # Safety
    /// The range is within the file's current length and is not written to, through any handle,
    /// while the slice lives.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "outside the mapping");
        // SAFETY: in bounds of the mapped range (checked above); initialised and not written to by
        // the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.add(offset), len) }
    }
}

/// Zeroed bytes whose address and length are multiples of [`SECTOR_BYTES`], as direct I/O requires.
pub struct AlignedBuffer {
    base: *mut u8,
    len: usize,
}

// SAFETY: the buffer owns its allocation exclusively.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only hands out `&[u8]`.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// `len` zeroed bytes, rounded up to whole sectors (at least one).
    pub fn zeroed(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(SECTOR_BYTES);
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Self { base, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, SECTOR_BYTES).expect("a sector multiple below isize::MAX")
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `base` owns `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `base` owns `len` initialised bytes, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout.
        unsafe { dealloc(self.base, Self::layout(self.len)) };
    }
}
