//! The name of a tree, without an allocation.

use std::fmt;

/// A name of up to [`TreeName::BYTES_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeName {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl TreeName {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 63;

    /// The concatenation of these parts.
    ///
    /// # Panics
    /// When the parts are longer than [`TreeName::BYTES_MAX`]: names are the program's own.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut name = Self { bytes: [0; Self::BYTES_MAX], len: 0 };
        for part in parts {
            let at = usize::from(name.len);
            name.bytes[at..at + part.len()].copy_from_slice(part);
            name.len += part.len() as u8;
        }
        name
    }

    /// The bytes of the name, without padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl From<&str> for TreeName {
    fn from(name: &str) -> Self {
        Self::of(&[name.as_bytes()])
    }
}

impl fmt::Debug for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}
