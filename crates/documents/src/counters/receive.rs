//! Storing the counters that another database has sent.
//!
//! A counter is what each database has counted, and a deletion says which of those values it has seen: they are gone,
//! whenever they arrive. So beside a counter there may be the tombstone of an earlier deletion. Invariant: no value of a
//! live counter is covered by its tombstone, and the counter is later in the log.

use model::{ChangeVector, Comparison, CounterName, DocumentId};

use super::{
    read::{
        counted_documents, counter, counter_tombstone, counters_count, has_counters, of_document,
        write_counts,
    },
    requests::CounterValue,
    row::{self, CounterFields},
    tables::COUNTERS,
    write::CounterOwner,
};
use crate::{
    DocumentWriter,
    error::DocumentError,
    read,
    replicated::{ReceivedCounter, ReceivedCounterTombstone},
    write::parsed,
};

impl DocumentWriter<'_> {
    pub(crate) fn receive_counter(
        &mut self,
        received: &ReceivedCounter,
    ) -> Result<(), DocumentError> {
        let ReceivedCounter { id, name, values, .. } = received;
        let deleted = self.deleted_values(id, name)?;
        let stored = counter(self.transaction(), id, name)?;
        let before = match &stored {
            Some(stored) => stored.values().collect::<Result<Vec<_>, _>>()?,
            None => Vec::new(),
        };
        let written = stored.as_ref().map_or(name.as_str(), |stored| stored.name()).to_owned();
        let mut merged = before.clone();
        for value in values.iter().filter(|value| is_live(value, &deleted)) {
            match merged.iter_mut().find(|known| known.database_id == value.database_id) {
                Some(known) if known.etag < value.etag => *known = *value,
                Some(_) => {}
                None => merged.push(*value),
            }
        }
        if merged == before {
            return Ok(());
        }
        let number = self.number_of_owner(id, &received.collection)?;
        self.store_received_counter((id, number), (name, &written), &merged, before.is_empty())
    }

    pub(crate) fn receive_counter_tombstone(
        &mut self,
        received: &ReceivedCounterTombstone,
    ) -> Result<(), DocumentError> {
        let ReceivedCounterTombstone { id, name, change_vector, .. } = received;
        let known = self.deleted_values(id, name)?;
        if change_vector.compare(&known) == Comparison::AlreadyMerged {
            return Ok(());
        }
        let deleted = known.join(change_vector);
        let stored = counter(self.transaction(), id, name)?;
        let before = match &stored {
            Some(stored) => stored.values().collect::<Result<Vec<_>, _>>()?,
            None => Vec::new(),
        };
        let (etag_before, written) = match &stored {
            Some(stored) => (stored.etag(), stored.name().to_owned()),
            None => (model::Etag::ZERO, name.as_str().to_owned()),
        };
        let number = self.number_of_owner(id, &received.collection)?;
        let etag = self.next_etag()?;
        let fields = CounterFields {
            lower_id: id.lower_cased(),
            lower_name: name.lower_cased(),
            collection_number: number,
            etag,
        };
        row::write_tombstone(&mut self.row, &fields, etag_before, deleted.as_str())?;
        self.tx.table_mut(&COUNTERS).insert(&self.row)?;
        self.collections.count(self.tx, number, 0, 0)?;
        let left: Vec<CounterValue> =
            before.iter().filter(|value| is_live(value, &deleted)).copied().collect();
        match left.is_empty() {
            true if before.is_empty() => Ok(()),
            true => self.remove_received_counter(id, name),
            // Also one that is as it was: readers of the log find it behind the deletion.
            false => self.store_received_counter((id, number), (name, &written), &left, false),
        }
    }

    /// Moves the counters of a document to its collection: it may be in another one than where they came from.
    pub(crate) fn move_counters(
        &mut self,
        id: &DocumentId,
        number: u32,
    ) -> Result<(), DocumentError> {
        let rows = of_document(self.transaction(), id.lower_cased())?;
        let mut moved = Vec::new();
        for row in rows {
            let row = row?;
            if row.collection_number() != number {
                moved.push(row.as_bytes().to_vec());
            }
        }
        for mut row in moved {
            row::set_place(&mut row, number, self.next_etag()?);
            self.tx.table_mut(&COUNTERS).insert(&row)?;
        }
        Ok(())
    }

    /// What a deletion of a counter has seen of it.
    pub(super) fn deleted_values(
        &self,
        id: &DocumentId,
        name: &CounterName,
    ) -> Result<ChangeVector, DocumentError> {
        match counter_tombstone(self.transaction(), id, name)? {
            Some(tombstone) => parsed(tombstone.change_vector()),
            None => Ok(ChangeVector::empty()),
        }
    }

    fn store_received_counter(
        &mut self,
        (id, collection_number): (&DocumentId, u32),
        (name, written): (&CounterName, &str),
        values: &[CounterValue],
        is_new: bool,
    ) -> Result<(), DocumentError> {
        let etag = self.next_etag()?;
        let fields = CounterFields {
            lower_id: id.lower_cased(),
            lower_name: name.lower_cased(),
            collection_number,
            etag,
        };
        row::write_counter(&mut self.row, &fields, written, values)?;
        self.put_counter_row(CounterOwner { id, collection_number }, name, is_new)
    }

    fn remove_received_counter(
        &mut self,
        id: &DocumentId,
        name: &CounterName,
    ) -> Result<(), DocumentError> {
        let counts = (counters_count(self.tx)?, counted_documents(self.tx)?);
        let key = row::counter_key(id.lower_cased(), name.lower_cased());
        self.tx.table_mut(&COUNTERS).delete(&key)?;
        let was_last = !has_counters(self.tx, id)?;
        let (left, owners) =
            (counts.0.saturating_sub(1), counts.1.saturating_sub(u64::from(was_last)));
        write_counts(self.tx, left, owners)?;
        self.touched.add(id);
        Ok(())
    }

    /// The number of the collection of a document; of one that is not there, by the name that the sender says.
    pub(crate) fn number_of_owner(
        &mut self,
        id: &DocumentId,
        collection: &model::CollectionName,
    ) -> Result<u32, DocumentError> {
        match read::get(self.transaction(), id)? {
            Some(document) => Ok(document.collection_number()),
            None => Ok(self.collections.named(self.tx, collection, &mut self.progress)?.number),
        }
    }
}

/// Whether a value is later than what a deletion has seen.
pub(super) fn is_live(value: &CounterValue, deleted: &ChangeVector) -> bool {
    deleted.etag_of(value.database_id) < value.etag
}
