//! Storing the counters of a dump.

use model::{ChangeVector, ChangeVectorEntry, CounterName};

use super::{
    read::{counted_documents, counter, counters_count, has_counters, write_counts},
    requests::CounterValue,
    row::{self, CounterFields},
    tables::COUNTERS,
    write::CounterOwner,
};
use crate::{
    DocumentWriter,
    error::DocumentError,
    import::{Imported, ImportedCounters},
};

impl DocumentWriter<'_> {
    /// Stores what each database has counted, unless something newer of that database is known.
    pub(crate) fn import_counters(
        &mut self,
        imported: &ImportedCounters,
    ) -> Result<Imported, DocumentError> {
        let owner = self.owner_of_counters(&imported.id)?;
        for (name, values) in &imported.counters {
            self.import_counter(owner, name, values)?;
        }
        Ok(Imported::Stored)
    }

    fn import_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        values: &[CounterValue],
    ) -> Result<(), DocumentError> {
        let CounterOwner { id, collection_number } = owner;
        let known = counter(self.transaction(), id, name)?;
        let is_new = known.is_none();
        let written = known.as_ref().map_or(name.as_str(), |known| known.name()).to_owned();
        let mut merged =
            known.iter().flat_map(|known| known.values()).collect::<Result<Vec<_>, _>>()?;
        for value in values {
            match merged.iter_mut().find(|known| known.database_id == value.database_id) {
                Some(known) if known.etag < value.etag => *known = *value,
                Some(_) => {}
                None => merged.push(*value),
            }
        }
        let etag = self.next_etag()?;
        self.next_change_vector(etag);
        self.merge_change_vector(&version_of(values));
        let fields = CounterFields {
            lower_id: id.lower_cased(),
            lower_name: name.lower_cased(),
            collection_number,
            etag,
        };
        row::write_counter(&mut self.row, &fields, &written, &merged)?;
        if is_new {
            let counts = (counters_count(self.tx)?, counted_documents(self.tx)?);
            let is_first = !has_counters(self.tx, id)?;
            let mut counters = self.tx.table_mut(&COUNTERS);
            counters.delete(&row::tombstone_key(id.lower_cased(), name.lower_cased()))?;
            counters.insert_new(&self.row)?;
            write_counts(self.tx, counts.0 + 1, counts.1 + u64::from(is_first))?;
            self.touched.add(id);
        } else {
            self.tx.table_mut(&COUNTERS).insert(&self.row)?;
        }
        self.tally.counters.add(1, self.row.len() as u64);
        self.collections.count(self.tx, collection_number, 0, 0)
    }
}

fn version_of(values: &[CounterValue]) -> ChangeVector {
    values.iter().fold(ChangeVector::empty(), |vector, value| {
        let CounterValue { node_tag: tag, etag, database_id, .. } = *value;
        vector.with(ChangeVectorEntry { tag, etag, database_id })
    })
}
