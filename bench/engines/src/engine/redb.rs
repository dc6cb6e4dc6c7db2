//! redb: durable at each commit, which is its default.

use std::path::Path;

use ::redb::{Database, ReadableDatabase, TableDefinition};

use super::{DurableStep, Engine, EngineError, Found, nothing_left};
use crate::entries::{Entry, Key};

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

struct Redb {
    database: Database,
}

pub(super) fn open(directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(Redb { database: Database::create(directory.join("entries.redb"))? }))
}

impl Engine for Redb {
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            for entry in entries {
                table.insert(entry.key.as_slice(), entry.value)?;
            }
        }
        transaction.commit()?;
        Ok(nothing_left())
    }

    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(ENTRIES)?;
        let mut found = Found::default();
        for key in keys {
            let value = table.get(key.as_slice())?;
            found.add(value.as_ref().map(|value| value.value()));
        }
        Ok(found)
    }
}
