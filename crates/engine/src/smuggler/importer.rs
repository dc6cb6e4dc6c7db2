//! Who imports.

/// What the one who imports may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Importer {
    /// Administers the database: the record and indexes in C# are imported.
    pub is_administrator: bool,
    /// Operates the server: connection strings that tasks use are replaced, and backups may name the servers of buckets.
    pub is_operator: bool,
}
