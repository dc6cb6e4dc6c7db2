//! `@counters-snapshot`: the values of the counters when a revision was created.

use blittable::{BlittableBuf, Document, Edit, Item, modify};
use model::{CounterName, DocumentId};

use super::{read::of_document, write::CounterOwner};
use crate::{
    DocumentWriter,
    error::{DocumentError, corrupt},
    metadata::{COUNTERS, METADATA},
};

/// The property of a revision's metadata that replaces the names.
const SNAPSHOT: &str = "@counters-snapshot";

/// The body of a revision: the document's, with the values of its counters instead of their names.
pub(crate) fn with_snapshot(
    tx: &impl storage::Transaction,
    lower_id: &str,
    body: &Document<'_>,
) -> Result<BlittableBuf, DocumentError> {
    let mut edits = vec![Edit::Remove { path: &[METADATA, COUNTERS] }];
    let rows = of_document(tx, lower_id)?.collect::<Result<Vec<_>, _>>()?;
    let mut said: Vec<(&str, i64)> = rows.iter().map(|row| (row.name(), row.total())).collect();
    said.sort_unstable();
    let paths: Vec<[&str; 3]> = said.iter().map(|(name, _)| [METADATA, SNAPSHOT, *name]).collect();
    edits.push(Edit::Set { path: &[METADATA, SNAPSHOT], item: Item::EmptyObject });
    for (path, (_, total)) in paths.iter().zip(&said) {
        edits.push(Edit::Set { path, item: Item::from(*total) });
    }
    Ok(modify(body, &edits)?)
}

/// The body of a document that is restored from a revision.
pub(crate) fn without_snapshot(body: &Document<'_>) -> Result<BlittableBuf, DocumentError> {
    Ok(modify(body, &[Edit::Remove { path: &[METADATA, SNAPSHOT] }])?)
}

impl DocumentWriter<'_> {
    /// Restores the counters of a document to their values in one of its revisions, whose body this
    /// is. The document exists, or is stored next, in the collection of that number.
    pub(crate) fn restore_counters_of_revision(
        &mut self,
        id: &DocumentId,
        collection_number: u32,
        body: &Document<'_>,
    ) -> Result<(), DocumentError> {
        let owner = CounterOwner { id, collection_number };
        let metadata = body.root().get_object(METADATA)?;
        let snapshot = metadata.map(|metadata| metadata.get_object(SNAPSHOT)).transpose()?;
        let mut wanted = Vec::new();
        for property in snapshot.flatten().iter().flat_map(|snapshot| snapshot.iter()) {
            let (name, value) = property?;
            let name = CounterName::new(name).map_err(|_| corrupt("a snapshot has no name"))?;
            wanted.push((name, value.as_i64().ok_or(corrupt("a snapshot has no number"))?));
        }
        let rows = of_document(self.transaction(), id.lower_cased())?;
        let names = rows.map(|row| row.map(|row| row.name().to_owned()));
        for name in names.collect::<Result<Vec<_>, _>>()? {
            let name = CounterName::new(name).map_err(|_| corrupt("a counter has no name"))?;
            if !wanted.iter().any(|(wanted, _)| *wanted == name) {
                self.remove_counter(owner, &name)?;
            }
        }
        for (name, total) in &wanted {
            self.set_counter(owner, name, *total)?;
        }
        Ok(())
    }
}
