//! The bytes of one file in memory.
//!
//! An anonymous file of the kernel (`memfd`), so that several mappings of different lengths all
//! show the same bytes at stable addresses, holes cost nothing, and truncating the file frees
//! memory. It has no name and no durability; those belong to the disks built on it.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{MemfdFlags, SeekFrom, memfd_create, seek},
    io::Errno,
};

use crate::{disk::Mapping, mapped::map_shared, memory::FileMemory};

/// Bytes copied at once when one content is copied into another.
const COPY_BYTES: usize = 1 << 18;

/// Unit of the kernel's count of the blocks of a file.
const BLOCK_BYTES: u64 = 512;

/// The memory that all contents of this process occupy, in bytes.
static OCCUPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The memory that all files in memory of this process occupy, mapped or not, in bytes. The kernel shows
/// only their mapped pages in its report about the process, but counts all of them against the
/// memory of its control group.
pub(crate) fn occupied_bytes() -> u64 {
    OCCUPIED_BYTES.load(Ordering::Relaxed)
}

/// A growable run of bytes, zero where nothing was written.
pub(crate) struct Content {
    file: File,
    counted: Option<Counted>,
    occupied: Occupied,
}

/// The part of [`OCCUPIED_BYTES`] that one content contributes. Holes occupy nothing.
#[derive(Default)]
struct Occupied {
    bytes: Mutex<u64>,
}

impl Occupied {
    /// Asks the kernel again how much `file` occupies. Where it does not answer, what it last
    /// answered stays.
    fn update(&self, file: &File) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(metadata) = file.metadata() else { return };
        let now = metadata.blocks() * BLOCK_BYTES;
        OCCUPIED_BYTES.fetch_add(now.wrapping_sub(*bytes), Ordering::Relaxed);
        *bytes = now;
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        OCCUPIED_BYTES.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

/// The length of a content, counted until it is dropped.
struct Counted {
    bytes: Mutex<u64>,
    memory: Arc<dyn FileMemory>,
}

impl Counted {
    /// Counts `len` bytes, if not more are counted: never less, so that of several writers that extend the
    /// content the slower does not count out what the faster has written.
    fn grow(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *bytes < len {
            if !self.memory.take(len - *bytes) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *bytes = len;
        }
        Ok(())
    }

    /// Counts `len` bytes while the length of the content is changed by `change`.
    fn set(&self, len: u64, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *bytes < len && !self.memory.take(len - *bytes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let before = *bytes;
        *bytes = before.max(len);
        change()?;
        self.memory.give_back(before.saturating_sub(len));
        *bytes = len;
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.memory.give_back(*bytes);
    }
}

impl Content {
    pub(crate) fn empty() -> io::Result<Self> {
        Self::counted_in(None)
    }

    pub(crate) fn counted_in(memory: Option<Arc<dyn FileMemory>>) -> io::Result<Self> {
        let descriptor = memfd_create("corvus", MemfdFlags::CLOEXEC)?;
        let counted = memory.map(|memory| Counted { bytes: Mutex::default(), memory });
        Ok(Self { file: File::from(descriptor), counted, occupied: Occupied::default() })
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.counted {
            None => self.file.set_len(len),
            Some(counted) => counted.set(len, || self.file.set_len(len)),
        }?;
        self.occupied.update(&self.file);
        Ok(())
    }

    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(counted) = &self.counted {
            counted.grow(offset.saturating_add(bytes.len() as u64))?;
        }
        self.file.write_all_at(bytes, offset)?;
        self.occupied.update(&self.file);
        Ok(())
    }

    /// All bytes.
    pub(crate) fn to_vec(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// The first `len` bytes at a stable address. The mapping holds the content, so that its
    /// reference count shows whether it may still be read.
    pub(crate) fn map(self: &Arc<Self>, len: usize) -> io::Result<Mapping> {
        map_shared(&self.file, len, Arc::clone(self))
    }

    /// A second content with the same bytes; holes stay holes.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        let memory = self.counted.as_ref().map(|counted| Arc::clone(&counted.memory));
        let copy = Self::counted_in(memory)?;
        copy.set_len(self.len()?)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut position = 0;
        while let Some((start, end)) = self.data_after(position)? {
            position = start;
            while position < end {
                let wanted = (end - position).min(COPY_BYTES as u64);
                let part = &mut buffer[..wanted as usize];
                self.read_exact_at(part, position)?;
                copy.write_all_at(part, position)?;
                position += wanted;
            }
        }
        Ok(copy)
    }

    /// The next run of bytes at or after `position` that is not a hole.
    fn data_after(&self, position: u64) -> io::Result<Option<(u64, u64)>> {
        let start = match seek(&self.file, SeekFrom::Data(position)) {
            Ok(start) => start,
            // Only a hole up to the end.
            Err(Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = seek(&self.file, SeekFrom::Hole(start))?;
        Ok(Some((start, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_has_the_same_bytes_and_is_independent() {
        let original = Content::empty().unwrap();
        original.set_len(3 << 20).unwrap();
        original.write_all_at(b"early", 5).unwrap();
        original.write_all_at(b"late", (2 << 20) + 7).unwrap();
        let copy = original.duplicate().unwrap();
        assert_eq!(copy.to_vec().unwrap(), original.to_vec().unwrap());
        original.write_all_at(b"EARLY", 5).unwrap();
        assert_eq!(&copy.to_vec().unwrap()[5..10], b"early");
    }

    #[test]
    fn a_mapping_longer_than_the_content_shows_what_is_written_later() {
        let content = Arc::new(Content::empty().unwrap());
        let mapping = content.map(1 << 24).unwrap();
        content.set_len(1 << 20).unwrap();
        content.write_all_at(b"seen", 1 << 19).unwrap();
        // SAFETY: inside the file, and nothing is written while the slice lives.
        assert_eq!(unsafe { mapping.slice(1 << 19, 4) }, b"seen");
    }
}
