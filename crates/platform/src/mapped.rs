//! Read-only shared mappings of open files; the only place that calls the operating system for
//! them.

use std::{any::Any, fs::File, io};

use memmap2::{Advice, MmapOptions, MmapRaw};

use rustix::{
    io::Errno,
    mm::{Advice as MemoryAdvice, madvise},
};

use crate::disk::Mapping;

/// Reads mapped bytes into memory, whole pages of the system at a time.
///
/// # Errors
/// Those of reading: `EIO` for all that the system reports as a bus error on touch.
pub(crate) fn populate(start: *const u8, len: usize) -> io::Result<()> {
    let page_bytes = rustix::param::page_size();
    let before = start.addr() % page_bytes;
    let start = start.wrapping_sub(before).cast_mut().cast();
    // SAFETY: the advice only reads into memory what is mapped already; it changes no contents and moves
    // nothing.
    let advised = unsafe { madvise(start, len + before, MemoryAdvice::LinuxPopulateRead) };
    match advised {
        // An older kernel does not know the advice: bytes are read when they are touched.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::FAULT) => Err(Errno::IO.into()),
        Err(error) => Err(error.into()),
    }
}

/// Maps the first `len` bytes of `file`, which may be shorter: the address space is there at once, and
/// the bytes become readable as the file grows. `owner` lives as long as the mapping.
pub(crate) fn map_shared<O>(file: &File, len: usize, owner: O) -> io::Result<Mapping>
where
    O: Any + Send + Sync,
{
    let map: MmapRaw = MmapOptions::new().len(len).map_raw_read_only(file)?;
    // Pages are found through trees, so the kernel's read-ahead would mostly fetch unrelated pages.
    // It is only advice: a kernel that ignores it still maps correctly.
    let _ = map.advise(Advice::Random);
    let base = map.as_ptr();
    // SAFETY: `map` covers `len` bytes from `base` until it is dropped, and the mapping owns it.
    Ok(unsafe { Mapping::new(base, len, Box::new((map, owner))) })
}
