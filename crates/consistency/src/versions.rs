//! Which versions each key had, which transactions wrote and saw them, and which followed which.

use std::collections::{BTreeMap, HashMap};

/// The version of a key before any write.
pub(crate) const INITIAL: u64 = 0;

#[derive(Default)]
pub(crate) struct KeyVersions {
    /// The transaction that left the key at a version: its last write of the key. Refused ones are
    /// not included.
    pub(crate) writers: HashMap<u64, usize>,
    /// The transactions that read a version before writing the key themselves.
    pub(crate) readers: BTreeMap<u64, Vec<usize>>,
    /// What directly replaced a version. More than one when their order is unknown.
    pub(crate) next: BTreeMap<u64, Vec<u64>>,
    /// How far a version is from the initial one; empty when the versions are no line.
    pub(crate) ranks: HashMap<u64, usize>,
}

/// All keys.
#[derive(Default)]
pub(crate) struct Versions {
    pub(crate) keys: BTreeMap<u64, KeyVersions>,
}

impl Versions {
    pub(crate) fn key(&mut self, key: u64) -> &mut KeyVersions {
        self.keys.entry(key).or_default()
    }
}
