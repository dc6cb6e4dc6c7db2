//! Recognises data directories of other products, which are never touched.

use std::{fmt, path::Path};

use platform::Disk;

/// Files that identify the data directory of another product.
const FOREIGN: [(&str, &str); 7] = [
    ("Raven.voron", "RavenDB"),
    ("headers.one", "RavenDB"),
    ("PG_VERSION", "PostgreSQL"),
    ("ibdata1", "MySQL"),
    ("WiredTiger", "MongoDB"),
    ("storage.bson", "MongoDB"),
    ("CURRENT", "a RocksDB or LevelDB database"),
];

/// A directory that belongs to another product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignProduct {
    /// The name of the product, for messages.
    pub product: &'static str,
    /// The file that identified it.
    pub file: &'static str,
}

impl fmt::Display for ForeignProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it holds data of {} ({}), which Corvus cannot open", self.product, self.file)
    }
}

/// The product whose data a directory holds; `None` if the directory cannot be listed.
pub fn foreign_product(disk: &dyn Disk, directory: &Path) -> Option<ForeignProduct> {
    let names = disk.list(directory).ok()?;
    let found = FOREIGN.iter().find(|(file, _)| names.iter().any(|name| name == file));
    found.map(|&(file, product)| ForeignProduct { product, file })
}
