//! Incrementing and deleting counters.

use model::{ChangeVector, CounterName, DocumentFlags, DocumentId, Etag};

use super::{
    read::{counted_documents, counter, counters_count, has_counters, of_document, write_counts},
    requests::{ChangeCounters, CounterDetail, CounterStep, CounterValue, CountersChanged},
    row::{self, CounterFields, CounterRow},
    tables::COUNTERS,
};
use crate::{
    Change, CounterChange, CounterChangeKind, DocumentWriter,
    error::{DocumentError, corrupt},
    read,
};

/// What a counter's row stores about its document.
#[derive(Clone, Copy)]
pub(crate) struct CounterOwner<'a> {
    pub(super) id: &'a DocumentId,
    pub(super) collection_number: u32,
}

/// The row of a counter before a change, and this database's value in it.
struct Before {
    row: Vec<u8>,
    /// The position of this database's value among the values, and the value; `None` when it has
    /// none yet.
    own: Option<(usize, i64)>,
    total: i64,
}

impl DocumentWriter<'_> {
    /// Changes counters of a document, in order.
    ///
    /// # Errors
    /// The caller's errors in [`DocumentError`]; storage errors. The transaction has to be rolled
    /// back then.
    pub fn change_counters(
        &mut self,
        request: &ChangeCounters,
    ) -> Result<CountersChanged, DocumentError> {
        let ChangeCounters { id, steps, ignores_missing } = request;
        let mut outcome = CountersChanged {
            id: id.clone(),
            counters: Vec::with_capacity(steps.len()),
            change_vector: None,
            touches_document: false,
            document_change_vector: None,
        };
        if *ignores_missing && read::get(self.transaction(), id)?.is_none() {
            return Ok(outcome);
        }
        for step in steps {
            match step {
                CounterStep::Set { name, value } => {
                    let owner = self.owner_of_counters(id)?;
                    let is_new = counter(self.transaction(), id, name)?.is_none();
                    let (before, _) = self.last_change();
                    self.set_counter(owner, name, *value)?;
                    let (after, change_vector) = self.last_change();
                    if before != after {
                        outcome.change_vector = Some(change_vector.clone());
                    }
                    outcome.touches_document |= is_new;
                    outcome.counters.push(self.counter_detail(id, name)?);
                }
                CounterStep::Increment { name, by } => {
                    let (change_vector, is_new) = self.increment_counter(id, name, *by)?;
                    outcome.change_vector = Some(change_vector);
                    outcome.touches_document |= is_new;
                    outcome.counters.push(self.counter_detail(id, name)?);
                }
                CounterStep::Delete { name } => {
                    if let Some(change_vector) = self.delete_counter(id, name)? {
                        outcome.change_vector = Some(change_vector);
                        outcome.touches_document = true;
                    }
                }
                CounterStep::Get { name } => {
                    outcome.counters.push(self.counter_detail(id, name)?);
                }
            }
        }
        Ok(outcome)
    }

    /// Increments or decrements a counter; returns the version of the change, and whether the
    /// counter is new.
    ///
    /// # Errors
    /// [`DocumentError::DocumentMissing`], [`DocumentError::CounterOverflow`] and others of the caller;
    /// storage errors.
    pub fn increment_counter(
        &mut self,
        id: &DocumentId,
        name: &CounterName,
        by: i64,
    ) -> Result<(ChangeVector, bool), DocumentError> {
        let owner = self.owner_of_counters(id)?;
        let before = self.before(id, name)?;
        let counted = before.as_ref().and_then(|before| before.own).map_or(0, |(_, value)| value);
        let Some(value) = counted.checked_add(by) else {
            return Err(overflow(id, name, counted, by));
        };
        self.store_counter(owner, name, before, value)
    }

    /// Sets the value of a counter.
    pub(super) fn set_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        total: i64,
    ) -> Result<(), DocumentError> {
        let id = owner.id;
        let before = self.before(id, name)?;
        let (own, said) = match &before {
            Some(Before { own, total, .. }) => (own.map_or(0, |(_, value)| value), *total),
            None => (0, 0),
        };
        if before.is_some() && said == total {
            return Ok(());
        }
        // The values of other databases stay; this database's value makes up the difference.
        let value = total.checked_sub(said).and_then(|missing| own.checked_add(missing));
        let value = value.ok_or_else(|| overflow(id, name, own, total))?;
        self.store_counter(owner, name, before, value).map(drop)
    }

    /// Deletes a counter; `None` when there is none.
    ///
    /// # Errors
    /// [`DocumentError::DocumentMissing`]; storage errors.
    pub fn delete_counter(
        &mut self,
        id: &DocumentId,
        name: &CounterName,
    ) -> Result<Option<ChangeVector>, DocumentError> {
        let owner = self.owner_of_counters(id)?;
        self.remove_counter(owner, name)
    }

    /// As [`DocumentWriter::delete_counter`], whether or not the document exists.
    pub(super) fn remove_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
    ) -> Result<Option<ChangeVector>, DocumentError> {
        let Some(found) = counter(self.transaction(), owner.id, name)? else { return Ok(None) };
        let deleted = found.etag();
        self.keep_before_change(owner.id)?;
        let change_vector =
            self.replace_counter_with_tombstone(owner, name.lower_cased(), deleted)?;
        self.note_counter(owner, name, (CounterChangeKind::Delete, 0), &change_vector)?;
        self.touched.add(owner.id);
        Ok(Some(change_vector))
    }

    /// Deletes all counters of a document that was just deleted.
    pub(crate) fn delete_counters_of(
        &mut self,
        id: &DocumentId,
        collection_number: u32,
    ) -> Result<(), DocumentError> {
        let owner = CounterOwner { id, collection_number };
        let rows = of_document(self.transaction(), id.lower_cased())?;
        let rows = rows.map(|row| row.map(|row| (row.lower_name().to_owned(), row.etag())));
        for (lower_name, etag) in rows.collect::<Result<Vec<_>, _>>()? {
            self.replace_counter_with_tombstone(owner, &lower_name, etag)?;
        }
        Ok(())
    }

    /// The current value of a counter, under the name in the request.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn counter_detail(
        &self,
        id: &DocumentId,
        name: &CounterName,
    ) -> Result<Option<CounterDetail>, DocumentError> {
        let Some(found) = counter(self.transaction(), id, name)? else { return Ok(None) };
        let values = found.values().collect::<Result<_, _>>()?;
        Ok(Some(CounterDetail { name: name.clone(), total: found.total(), values }))
    }

    pub(crate) fn owner_of_counters<'a>(
        &self,
        id: &'a DocumentId,
    ) -> Result<CounterOwner<'a>, DocumentError> {
        let Some(document) = read::get(self.transaction(), id)? else {
            return Err(DocumentError::DocumentMissing {
                message: format!(
                    "Document '{id}' does not exist. Cannot operate on counters of a missing \
                     document."
                ),
            });
        };
        if document.flags().contains(DocumentFlags::ARTIFICIAL) {
            return Err(DocumentError::ArtificialDocument { id: id.to_string() });
        }
        Ok(CounterOwner { id, collection_number: document.collection_number() })
    }

    fn before(&self, id: &DocumentId, name: &CounterName) -> Result<Option<Before>, DocumentError> {
        let Some(found) = counter(self.transaction(), id, name)? else { return Ok(None) };
        let mut own = None;
        for (position, value) in found.values().enumerate() {
            let value = value?;
            if value.database_id == self.database_id() {
                own = Some((position, value.value));
            }
        }
        Ok(Some(Before { row: found.as_bytes().to_vec(), own, total: found.total() }))
    }

    /// Stores this database's value of a counter; returns the version, and whether the counter is
    /// new.
    fn store_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        before: Option<Before>,
        value: i64,
    ) -> Result<(ChangeVector, bool), DocumentError> {
        let CounterOwner { id, collection_number } = owner;
        if before.is_none() {
            self.keep_before_change(id)?;
        }
        let etag = self.next_etag()?;
        let change_vector = self.next_change_vector(etag);
        let (node_tag, database_id) = (self.node_tag(), self.database_id());
        let new = CounterValue { node_tag, database_id, value, etag };
        let is_new = before.is_none();
        match before {
            Some(Before { mut row, own: Some((position, _)), .. }) => {
                row::set_value(&mut row, position, &new);
                self.row = row;
            }
            other => {
                let fields = CounterFields {
                    lower_id: id.lower_cased(),
                    lower_name: name.lower_cased(),
                    collection_number,
                    etag,
                };
                let known = other.as_ref().map(|before| row::read(&before.row)).transpose()?;
                let others = known.iter().flat_map(CounterRow::values);
                let mut values = others.collect::<Result<Vec<_>, _>>()?;
                values.push(new);
                let name = known.map_or(name.as_str(), |known| known.name());
                row::write_counter(&mut self.row, &fields, name, &values)?;
            }
        }
        self.put_counter_row(owner, name, is_new)?;
        let kind = if is_new { CounterChangeKind::Put } else { CounterChangeKind::Increment };
        if self.changes.are_wanted() {
            let total = row::read(&self.row)?.total();
            self.note_counter(owner, name, (kind, total), &change_vector)?;
        }
        Ok((change_vector, is_new))
    }

    /// Stores the row that was just written.
    pub(super) fn put_counter_row(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        is_new: bool,
    ) -> Result<(), DocumentError> {
        let CounterOwner { id, collection_number } = owner;
        if is_new {
            let counts = (counters_count(self.tx)?, counted_documents(self.tx)?);
            let is_first = !has_counters(self.tx, id)?;
            let mut counters = self.tx.table_mut(&COUNTERS);
            // What others have counted, and was deleted, may arrive yet.
            if !self.has_sources {
                counters.delete(&row::tombstone_key(id.lower_cased(), name.lower_cased()))?;
            }
            counters.insert_new(&self.row)?;
            write_counts(self.tx, counts.0 + 1, counts.1 + u64::from(is_first))?;
            self.touched.add(id);
        } else {
            self.tx.table_mut(&COUNTERS).insert(&self.row)?;
        }
        self.tally.counters.add(1, self.row.len() as u64);
        // Indexes of counters also follow collections.
        self.collections.count(self.tx, collection_number, 0, 0)
    }

    /// Records the current value of a counter for change listeners.
    fn note_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        (kind, value): (CounterChangeKind, i64),
        change_vector: &ChangeVector,
    ) -> Result<(), DocumentError> {
        if !self.changes.are_wanted() {
            return Ok(());
        }
        let collection = self.collections.numbered(self.tx, owner.collection_number)?.name.clone();
        self.changes.note(|| {
            Change::Counter(CounterChange {
                kind,
                name: name.as_str().to_owned(),
                value,
                document_id: owner.id.clone(),
                collection,
                change_vector: change_vector.to_string(),
            })
        });
        Ok(())
    }

    /// The version of a counter and of what was deleted of it; only of a database that receives from others.
    fn version_with_deletions(
        &self,
        lower_id: &str,
        lower_name: &str,
    ) -> Result<ChangeVector, DocumentError> {
        if !self.has_sources {
            return Ok(ChangeVector::empty());
        }
        let (id, name) = (DocumentId::new(lower_id)?, CounterName::new(lower_name));
        let name = name.map_err(|_| corrupt("a counter has an impossible name"))?;
        let deleted = self.deleted_values(&id, &name)?;
        let version = counter(self.transaction(), &id, &name)?.map(|row| row.change_vector());
        Ok(deleted.merge(&version.unwrap_or_default()))
    }

    /// Replaces a counter by its tombstone.
    fn replace_counter_with_tombstone(
        &mut self,
        owner: CounterOwner<'_>,
        lower_name: &str,
        deleted: Etag,
    ) -> Result<ChangeVector, DocumentError> {
        let CounterOwner { id, collection_number } = owner;
        let etag = self.next_etag()?;
        let lower_id = id.lower_cased();
        let version = self.version_with_deletions(lower_id, lower_name)?;
        let change_vector = self.next_version_over(etag, Some(version.as_str()))?;
        let fields = CounterFields { lower_id, lower_name, collection_number, etag };
        row::write_tombstone(&mut self.row, &fields, deleted, change_vector.as_str())?;
        let counts = (counters_count(self.tx)?, counted_documents(self.tx)?);
        let mut counters = self.tx.table_mut(&COUNTERS);
        if !counters.delete(&row::counter_key(lower_id, lower_name))? {
            return Err(corrupt("a counter that was read cannot be removed"));
        }
        counters.insert(&self.row)?;
        let was_last = !has_counters(self.tx, id)?;
        let left = counts.0.checked_sub(1).zip(counts.1.checked_sub(u64::from(was_last)));
        let (left, owners) = left.ok_or(corrupt("there are fewer counters than are deleted"))?;
        write_counts(self.tx, left, owners)?;
        self.collections.count(self.tx, collection_number, 0, 0)?;
        Ok(change_vector)
    }
}

fn overflow(id: &DocumentId, name: &CounterName, value: i64, by: i64) -> DocumentError {
    DocumentError::CounterOverflow {
        message: format!(
            "Could not increment counter '{name}' from document '{id}' with value '{value}' by \
             '{by}'."
        ),
    }
}
