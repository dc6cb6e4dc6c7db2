//! Names, numbers and counts of collections.
//!
//! A collection is created by its first document, gets the next number, and remains after its last
//! document is deleted. Invariant: `documents` and `tombstones` of a collection are the rows of
//! that kind in its log.

use std::{collections::HashMap, ops::Bound};

use model::CollectionName;
use storage::{Transaction, WriteTransaction};

use crate::{
    collection_record::{self, CollectionRecord},
    database_record::DatabaseProgress,
    error::DocumentError,
    schema,
};

/// The stored facts about a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionStatistics {
    /// The name in the spelling of its first document.
    pub name: CollectionName,
    /// Its number in this database; it never changes and is never reused.
    pub number: u32,
    /// Live documents in the collection.
    pub documents: u64,
    /// Tombstones of documents of the collection.
    pub tombstones: u64,
}

/// All collections in creation order.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn collections(tx: &impl Transaction) -> Result<Vec<CollectionStatistics>, DocumentError> {
    let mut found = Vec::new();
    for entry in tx.tree(&schema::collections())?.range(Bound::Unbounded)? {
        let (key, record) = entry?;
        found.push(statistics(read_number(&key)?, record)?);
    }
    Ok(found)
}

/// One collection; `None` when it never had a document.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn collection(
    tx: &impl Transaction,
    name: &CollectionName,
) -> Result<Option<CollectionStatistics>, DocumentError> {
    match number_of(tx, name)? {
        Some(number) => collection_numbered(tx, number).map(Some),
        None => Ok(None),
    }
}

fn number_of(tx: &impl Transaction, name: &CollectionName) -> Result<Option<u32>, DocumentError> {
    let tree = tx.tree(&schema::collection_numbers())?;
    tree.get(name.key())?.map(read_number).transpose()
}

/// The collection of that number.
///
/// # Errors
/// When there is none; storage errors; a damaged record.
pub fn collection_numbered(
    tx: &impl Transaction,
    number: u32,
) -> Result<CollectionStatistics, DocumentError> {
    let tree = tx.tree(&schema::collections())?;
    let Some(record) = tree.get(&number.to_be_bytes())? else {
        return Err(DocumentError::Corrupt { detail: "a collection has a number but no record" });
    };
    statistics(number, record)
}

fn read_number(bytes: &[u8]) -> Result<u32, DocumentError> {
    let number = <[u8; 4]>::try_from(bytes).map(u32::from_be_bytes);
    number.map_err(|_| DocumentError::Corrupt { detail: "a collection's number is damaged" })
}

fn statistics(number: u32, record: &[u8]) -> Result<CollectionStatistics, DocumentError> {
    let record = collection_record::read(record)?;
    Ok(CollectionStatistics {
        name: CollectionName::new(record.name)?,
        number,
        documents: record.documents,
        tombstones: record.tombstones,
    })
}

/// The collections that a writer has used, with their pending counts.
#[derive(Default)]
pub(crate) struct OpenCollections {
    numbers: HashMap<CollectionName, u32>,
    open: HashMap<u32, OpenCollection>,
}

struct OpenCollection {
    statistics: CollectionStatistics,
    /// A document in it was stored or deleted.
    is_touched: bool,
    /// Its record must be written.
    is_changed: bool,
    /// Its name has no stored number yet.
    is_new: bool,
}

impl OpenCollection {
    fn known(statistics: CollectionStatistics) -> Self {
        Self { statistics, is_touched: false, is_changed: false, is_new: false }
    }
}

impl OpenCollections {
    /// The collection of that name, created if missing.
    pub(crate) fn named(
        &mut self,
        tx: &impl Transaction,
        name: &CollectionName,
        progress: &mut DatabaseProgress,
    ) -> Result<&CollectionStatistics, DocumentError> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.open_named(tx, name, progress)?,
        };
        self.numbered(tx, number)
    }

    fn open_named(
        &mut self,
        tx: &impl Transaction,
        name: &CollectionName,
        progress: &mut DatabaseProgress,
    ) -> Result<u32, DocumentError> {
        let number = match number_of(tx, name)? {
            Some(number) => number,
            None => {
                progress.newest_collection =
                    progress.newest_collection.checked_add(1).ok_or(DocumentError::Corrupt {
                        detail: "no number is left for a collection",
                    })?;
                let number = progress.newest_collection;
                let name = name.clone();
                let statistics = CollectionStatistics { name, number, documents: 0, tombstones: 0 };
                let known = OpenCollection::known(statistics);
                let new = OpenCollection { is_changed: true, is_new: true, ..known };
                self.open.insert(number, new);
                number
            }
        };
        self.numbers.insert(name.clone(), number);
        Ok(number)
    }

    /// The collection of that number.
    pub(crate) fn numbered(
        &mut self,
        tx: &impl Transaction,
        number: u32,
    ) -> Result<&CollectionStatistics, DocumentError> {
        self.entry(tx, number).map(|open| &open.statistics)
    }

    /// Adds documents and tombstones to the counts, or subtracts them, and marks the collection as
    /// written to.
    pub(crate) fn count(
        &mut self,
        tx: &impl Transaction,
        number: u32,
        documents: i64,
        tombstones: i64,
    ) -> Result<(), DocumentError> {
        let open = self.entry(tx, number)?;
        open.is_touched = true;
        open.is_changed |= documents != 0 || tombstones != 0;
        let statistics = &mut open.statistics;
        let counted = statistics.documents.checked_add_signed(documents);
        statistics.documents = counted.ok_or(miscounted())?;
        let counted = statistics.tombstones.checked_add_signed(tombstones);
        statistics.tombstones = counted.ok_or(miscounted())?;
        Ok(())
    }

    /// Subtracts removed tombstones. Readers see no change in the collection.
    pub(crate) fn forget_tombstones(
        &mut self,
        tx: &impl Transaction,
        number: u32,
        count: u64,
    ) -> Result<(), DocumentError> {
        let open = self.entry(tx, number)?;
        open.is_changed = true;
        let left = open.statistics.tombstones.checked_sub(count);
        open.statistics.tombstones = left.ok_or(miscounted())?;
        Ok(())
    }

    fn entry(
        &mut self,
        tx: &impl Transaction,
        number: u32,
    ) -> Result<&mut OpenCollection, DocumentError> {
        use std::collections::hash_map::Entry;
        match self.open.entry(number) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(vacant) => {
                let statistics = collection_numbered(tx, number)?;
                Ok(vacant.insert(OpenCollection::known(statistics)))
            }
        }
    }

    /// The collections in which documents were stored or deleted, in creation order.
    pub(crate) fn touched(&self) -> Vec<CollectionName> {
        let touched = self.sorted(|open| open.is_touched);
        touched.into_iter().map(|open| open.statistics.name.clone()).collect()
    }

    /// Stores names and counts.
    pub(crate) fn write(&self, tx: &mut WriteTransaction) -> Result<(), DocumentError> {
        for OpenCollection { statistics, is_new, .. } in self.sorted(|open| open.is_changed) {
            let CollectionStatistics { name, number, documents, tombstones } = statistics;
            let (documents, tombstones) = (*documents, *tombstones);
            let record = CollectionRecord { name: name.as_str(), documents, tombstones };
            let key = number.to_be_bytes();
            tx.tree_mut(&schema::collections())?.put(&key, &collection_record::write(&record))?;
            if *is_new {
                tx.tree_mut(&schema::collection_numbers())?.put(name.key(), &key)?;
            }
        }
        Ok(())
    }

    /// Sorted, so that the same batch always produces the same pages.
    fn sorted(&self, wanted: impl Fn(&OpenCollection) -> bool) -> Vec<&OpenCollection> {
        let mut found: Vec<_> = self.open.values().filter(|open| wanted(open)).collect();
        found.sort_unstable_by_key(|open| open.statistics.number);
        found
    }
}

fn miscounted() -> DocumentError {
    DocumentError::Corrupt { detail: "a collection counts fewer rows than it has" }
}
