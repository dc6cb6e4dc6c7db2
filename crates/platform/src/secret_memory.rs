//! Memory for keys and decrypted data: locked, so that it is not swapped out; left out of core dumps; and
//! zeroed before it is returned to the system. And a place outside of the memory of this process for the few
//! bytes of a key that is not in use.

use std::{
    io,
    os::fd::OwnedFd,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munlock, munmap},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair},
};

use crate::wiping_allocator;

/// Bytes of the stack that [`wipe_stack`] overwrites: more than the functions of a cipher take.
const STACK_BYTES: usize = 4096;

/// Bytes of the stack that [`wipe_stack_after_work`] overwrites: handlers take no more, apart from deep recursions.
const STACK_BYTES_OF_WORK: usize = 128 * 1024;

/// Whether the system has refused to lock memory.
static LOCK_REFUSED: AtomicBool = AtomicBool::new(false);

/// Zeroes bytes for good: the compiler does not leave it out although nothing reads them afterwards.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// Zeroes the part of the stack that functions called just before have used.
#[inline(never)]
pub fn wipe_stack() {
    let mut used = [0xff; STACK_BYTES];
    zeroize::optimization_barrier(&used);
    wipe(&mut used);
}

/// Zeroes the part of the stack that work of a thread has used, at its end, while freed memory is wiped too. For
/// threads that stay: what they have parsed, hashed or copied lies on their stacks until they work again.
pub fn wipe_stack_after_work() {
    if wiping_allocator::is_wiping() {
        wipe_deep_stack();
    }
}

#[inline(never)]
fn wipe_deep_stack() {
    let mut used = [0xff; STACK_BYTES_OF_WORK];
    zeroize::optimization_barrier(&used);
    wipe(&mut used);
}

/// Whether the system has refused, since the process began, to lock memory of [`SecretMemory`]: what is in it may
/// be swapped out. Its limit (`RLIMIT_MEMLOCK`, `LimitMEMLOCK` of a service) is too small.
pub fn has_unlocked_secrets() -> bool {
    LOCK_REFUSED.load(Ordering::Relaxed)
}

/// Zeroed bytes for secrets, in whole pages of the system. They never move, and are zeroed when dropped.
pub struct SecretMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is owned exclusively, like that of a box.
unsafe impl Send for SecretMemory {}
// SAFETY: shared access hands out `&[u8]`, or a pointer that only unsafe code can use.
unsafe impl Sync for SecretMemory {}

impl SecretMemory {
    /// At least `bytes` bytes, rounded up to whole pages of the system. Where the system refuses to lock so much, they
    /// are not locked; [`has_unlocked_secrets`] says so from then on.
    ///
    /// # Errors
    /// There is no memory.
    pub fn zeroed(bytes: usize) -> io::Result<SecretMemory> {
        let len = bytes.max(1).next_multiple_of(rustix::param::page_size());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses, changes no memory in use.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        // SAFETY: the range is the mapping made above; advice and lock change none of its bytes.
        let locked = unsafe {
            // An unknown advice does no harm: a kernel that old dumps the pages.
            let _undumped = madvise(base, len, Advice::LinuxDontDump);
            mlock(base, len)
        };
        if locked.is_err() {
            LOCK_REFUSED.store(true, Ordering::Relaxed);
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SecretMemory { base, len })
    }

    /// The address of the first byte; valid until the value is dropped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: it has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` initialised bytes for as long as the value lives.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive reference makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for SecretMemory {
    fn drop(&mut self) {
        wipe(self.bytes_mut());
        let base = self.base.as_ptr().cast();
        // SAFETY: the mapping is this value's own, and nothing can refer to it any more. Unmapping unlocks it too.
        unsafe {
            let _unlocked = munlock(base, self.len);
            let _unmapped = munmap(base, self.len);
        }
    }
}

/// A few bytes that the kernel keeps for this process, in the buffer of a socket that is connected to itself: they
/// are in no address space, so neither a core dump nor a stray read of memory shows them, and the kernel does not swap
/// its own memory out.
pub struct KernelSecret {
    reader: OwnedFd,
    _writer: OwnedFd,
    len: usize,
}

impl KernelSecret {
    /// Hands bytes, at most 4 KB, to the kernel. The caller wipes its own copy.
    ///
    /// # Errors
    /// Too many files are open, or the kernel has no memory.
    pub fn keep(bytes: &[u8]) -> io::Result<KernelSecret> {
        let (reader, writer) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if send(&writer, bytes, SendFlags::DONTWAIT)? != bytes.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(KernelSecret { reader, _writer: writer, len: bytes.len() })
    }

    /// Copies the bytes, as many as were kept, to the beginning of `buffer`. The kernel keeps them.
    ///
    /// # Errors
    /// The buffer is too short, or the kernel fails.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<()> {
        let place = buffer.get_mut(..self.len).ok_or(io::ErrorKind::InvalidInput)?;
        let (_, read) = recv(&self.reader, place, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        if read == self.len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_memory_is_zeroed_locked_and_left_out_of_dumps() {
        let mut memory = SecretMemory::zeroed(10_000).unwrap();
        assert!(10_000 <= memory.len() && memory.bytes().iter().all(|byte| *byte == 0));
        memory.bytes_mut().fill(7);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", memory.as_ptr().as_ptr().addr());
        // Neighbouring mappings of the same kind are shown as one.
        let own = maps.split("VmFlags:").find(|part| part.contains(&start));
        if let Some(own) = own {
            let rest = &maps[maps.find(own).unwrap() + own.len()..];
            let flags = rest.lines().next().unwrap();
            assert!(flags.contains(" dd"), "{flags}");
            assert!(flags.contains(" lo") || has_unlocked_secrets(), "{flags}");
        }
    }

    #[test]
    fn what_the_kernel_keeps_can_be_read_again_and_again() {
        let kept = KernelSecret::keep(b"a key").unwrap();
        for _ in 0..3 {
            let mut buffer = [0; 8];
            kept.read(&mut buffer).unwrap();
            assert_eq!(&buffer, b"a key\0\0\0");
        }
        assert!(kept.read(&mut [0; 4]).is_err());
    }

    #[test]
    fn wiped_bytes_are_zero() {
        let mut bytes = [3; 100];
        wipe(&mut bytes);
        assert_eq!(bytes, [0; 100]);
        wipe_stack();
    }
}
