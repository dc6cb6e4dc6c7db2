//! fjall: its journal synced at each commit, and a cache that holds what the works load.

use std::path::Path;

use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{DurableStep, Engine, EngineError, Found, nothing_left};
use crate::entries::{Entry, Key};

/// The others have as much through the page cache or a cache of their own.
const CACHE_BYTES: u64 = 1 << 30;

struct Fjall {
    database: Database,
    entries: Keyspace,
}

pub(super) fn open(directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let database = Database::builder(directory).cache_size(CACHE_BYTES).open()?;
    let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, entries }))
}

impl Engine for Fjall {
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for entry in entries {
            batch.insert(&self.entries, entry.key, entry.value);
        }
        batch.commit()?;
        Ok(nothing_left())
    }

    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError> {
        let mut found = Found::default();
        for key in keys {
            found.add(self.entries.get(key)?.as_deref());
        }
        Ok(found)
    }
}
