//! Storing the counters of a dump.

use model::{ChangeVector, ChangeVectorEntry, CounterName};

use super::{
    read::counter,
    requests::CounterValue,
    row::{self, CounterFields},
    write::CounterOwner,
};
use crate::{
    DocumentWriter,
    error::DocumentError,
    import::{Imported, ImportedCounters},
};

impl DocumentWriter<'_> {
    /// Stores what each database has counted, unless they are merged and something newer of that database is known.
    pub(crate) fn import_counters(
        &mut self,
        imported: &ImportedCounters,
    ) -> Result<Imported, DocumentError> {
        let owner = self.owner_of_counters(&imported.id)?;
        for (name, values) in &imported.counters {
            self.import_counter(owner, name, values, imported.replaces)?;
        }
        Ok(Imported::Stored)
    }

    fn import_counter(
        &mut self,
        owner: CounterOwner<'_>,
        name: &CounterName,
        values: &[CounterValue],
        replaces: bool,
    ) -> Result<(), DocumentError> {
        let CounterOwner { id, collection_number } = owner;
        let known = counter(self.transaction(), id, name)?;
        let is_new = known.is_none();
        let written = known.as_ref().map_or(name.as_str(), |known| known.name()).to_owned();
        let merged_with = known.iter().filter(|_| !replaces);
        let mut merged =
            merged_with.flat_map(|known| known.values()).collect::<Result<Vec<_>, _>>()?;
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
        self.put_counter_row(owner, name, is_new)
    }
}

/// The version of a counter: the last value counted by each database.
pub(crate) fn version_of(values: &[CounterValue]) -> ChangeVector {
    values.iter().fold(ChangeVector::empty(), |vector, value| {
        let CounterValue { node_tag: tag, etag, database_id, .. } = *value;
        vector.with(ChangeVectorEntry { tag, etag, database_id })
    })
}
