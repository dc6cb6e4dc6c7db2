//! The bytes of a page while they are being worked on, wiped at the end where the environment is encrypted.

use std::ops::{Deref, DerefMut};

use platform::secret_memory::wipe;

/// Bytes in memory of their own.
pub(crate) struct PageBuffer {
    bytes: Box<[u8]>,
    is_secret: bool,
}

impl PageBuffer {
    /// Takes bytes over. Secret ones are wiped when the buffer is dropped.
    pub(crate) fn new(bytes: impl Into<Box<[u8]>>, is_secret: bool) -> Self {
        Self { bytes: bytes.into(), is_secret }
    }

    pub(crate) fn zeroed(bytes: usize, is_secret: bool) -> Self {
        Self { bytes: vec![0; bytes].into_boxed_slice(), is_secret }
    }

    /// The bytes, which are no longer wiped.
    pub(crate) fn into_bytes(mut self) -> Box<[u8]> {
        std::mem::take(&mut self.bytes)
    }
}

impl Clone for PageBuffer {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), is_secret: self.is_secret }
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        if self.is_secret {
            wipe(&mut self.bytes);
        }
    }
}
