//! The position of a change in one database's document log.

use std::fmt;

/// A number that a database assigns to each of its changes, rising by at least one each time. It
/// has no meaning outside that database. Zero precedes the first change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Etag(pub u64);

impl Etag {
    /// Before the first change.
    pub const ZERO: Self = Self(0);

    /// The next etag; `None` after the largest number.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
