//! LMDB through heed: synced at each commit, which is its default.

use std::path::Path;

use heed::{Database, Env, EnvOpenOptions, types::Bytes};

use super::{DurableStep, Engine, EngineError, Found, nothing_left};
use crate::entries::{Entry, Key};

/// Address space, not memory; more than any work here fills.
const MAP_BYTES: usize = 16 << 30;

struct Lmdb {
    env: Env,
    entries: Database<Bytes, Bytes>,
}

pub(super) fn open(directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: the directory was created for this engine alone, nothing else changes or truncates
    // the mapped file while it is open, and no flag that disables locking or syncing is set.
    let env = unsafe { options.open(directory)? };
    let mut transaction = env.write_txn()?;
    let entries = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { env, entries }))
}

impl Engine for Lmdb {
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError> {
        let mut transaction = self.env.write_txn()?;
        for entry in entries {
            self.entries.put(&mut transaction, &entry.key, entry.value)?;
        }
        transaction.commit()?;
        Ok(nothing_left())
    }

    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError> {
        let transaction = self.env.read_txn()?;
        let mut found = Found::default();
        for key in keys {
            found.add(self.entries.get(&transaction, &key)?);
        }
        Ok(found)
    }
}
