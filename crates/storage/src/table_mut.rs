//! Writing the rows of a table, with their entries in all its indexes.

use crate::{
    error::StorageError,
    rows::RowId,
    table::{Table, TableSchema},
    write_transaction::WriteTransaction,
};

/// A table, for writing.
pub struct TableMut<'t> {
    tx: &'t mut WriteTransaction,
    schema: &'static TableSchema,
}

impl<'t> TableMut<'t> {
    pub(crate) fn new(tx: &'t mut WriteTransaction, schema: &'static TableSchema) -> Self {
        Self { tx, schema }
    }

    /// Stores the row, replacing the one with the same primary key.
    pub fn insert(&mut self, row: &[u8]) -> Result<RowId, StorageError> {
        let schema = self.schema;
        let key = (schema.primary)(row);
        let old = Table::new(&*self.tx, schema).get(&key)?.map(|(id, old)| (id, old.to_vec()));
        let is_new = old.is_none();
        if let Some((id, old)) = old {
            self.remove_from_indexes(&old)?;
            self.tx.delete_row(schema, id)?;
        }
        self.store(row, &key, is_new)
    }

    /// Stores a row whose primary key is new, as the caller has checked in this transaction.
    pub fn insert_new(&mut self, row: &[u8]) -> Result<RowId, StorageError> {
        let key = (self.schema.primary)(row);
        self.store(row, &key, true)
    }

    fn store(&mut self, row: &[u8], key: &[u8], is_new: bool) -> Result<RowId, StorageError> {
        let schema = self.schema;
        let id = self.tx.insert_row(schema, row)?;
        if self.tx.owned_tree_put(&schema.primary_tree(), key, &id.to_bytes())? != is_new {
            return Err(StorageError::structure(id.page(), "a new row has the key of another"));
        }
        for index in schema.fixed {
            self.tx.owned_fixed_put(&index.tree.name(row), (index.key)(row), &id.to_bytes())?;
        }
        for index in schema.indexes {
            self.tx.owned_tree_put(&index.tree.name(row), &(index.key)(row), &id.to_bytes())?;
        }
        Ok(id)
    }

    /// Removes the row of that primary key; false when there is none.
    pub fn delete(&mut self, primary_key: &[u8]) -> Result<bool, StorageError> {
        let found = Table::new(&*self.tx, self.schema).get(primary_key)?;
        let Some((id, row)) = found.map(|(id, row)| (id, row.to_vec())) else { return Ok(false) };
        self.remove_from_indexes(&row)?;
        self.tx.owned_tree_delete(&self.schema.primary_tree(), primary_key)?;
        self.tx.delete_row(self.schema, id)?;
        Ok(true)
    }

    fn remove_from_indexes(&mut self, row: &[u8]) -> Result<(), StorageError> {
        for index in self.schema.fixed {
            self.tx.owned_fixed_delete(&index.tree.name(row), (index.key)(row))?;
        }
        for index in self.schema.indexes {
            self.tx.owned_tree_delete(&index.tree.name(row), &(index.key)(row))?;
        }
        Ok(())
    }
}
