//! SQLite: write-ahead log, synced at each commit, a cache that holds what the works load.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension};

use super::{DurableStep, Engine, EngineError, Found, nothing_left};
use crate::entries::{Entry, Key};

const SETTINGS: &str = "\
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -1048576;
    CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;";

struct Sqlite {
    connection: Mutex<Connection>,
}

pub(super) fn open(directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let connection = Connection::open(directory.join("entries.sqlite"))?;
    connection.execute_batch(SETTINGS)?;
    Ok(Box::new(Sqlite { connection: Mutex::new(connection) }))
}

impl Engine for Sqlite {
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction
                .prepare_cached("INSERT OR REPLACE INTO entries (key, value) VALUES (?1, ?2)")?;
            for entry in entries {
                insert.execute((entry.key.as_slice(), entry.value))?;
            }
        }
        transaction.commit()?;
        Ok(nothing_left())
    }

    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        let mut select = transaction.prepare_cached("SELECT value FROM entries WHERE key = ?1")?;
        let mut found = Found::default();
        for key in keys {
            let value: Option<Vec<u8>> =
                select.query_row([key.as_slice()], |row| row.get(0)).optional()?;
            found.add(value.as_deref());
        }
        Ok(found)
    }
}
