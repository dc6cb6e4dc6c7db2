//! What the script of a patch may call: the documents of the open transaction.
//!
//! Everything happens in the transaction of the batch, so a script sees the effects of earlier
//! commands and its own. Invariant: after a failed call nothing more is done, even if the script
//! catches the error: the transaction is in doubt and will be rolled back.

use blittable::BlittableBuf;
use documents::{CounterDetail, DocumentError, DocumentWriter, ExpectedVersion, RequestedId};
use model::{CounterName, DocumentId};
use script::{
    DocumentInfo, Host, HostError, Refusal, ScriptDocument, TimeSeriesEntry, TimeSeriesStats,
};

use storage::{MemoryShare, StorageError};

use crate::{
    error::CommandError,
    patch::ValueReader,
    patch_command::{IncrementNote, PatchNotes},
    patch_error::PatchError,
    patch_time_series::{self, SeriesCall},
};

/// The maximum size that one script may load.
pub(crate) const LOADED_BYTES_MAX: usize = 256 << 20;
/// The maximum size that one script may put, or record for its caller.
pub(crate) const PUT_BYTES_MAX: usize = 64 << 20;

/// A note takes this many times its bytes: once when taken, and again in the response.
const NOTE_TIMES: u64 = 2;

/// The transaction as one script sees it.
pub(crate) struct PatchHost<'h, 'w> {
    writer: &'h mut DocumentWriter<'w>,
    notes: Option<PatchNotes>,
    loaded_bytes: usize,
    put_bytes: usize,
    failure: Option<CommandError>,
    values: Option<&'h ValueReader>,
    /// Accounts for the results of the batch.
    results: &'h mut MemoryShare,
    /// Bytes held before this script.
    results_before: u64,
}

impl<'h, 'w> PatchHost<'h, 'w> {
    pub(crate) fn new(
        writer: &'h mut DocumentWriter<'w>,
        wants_notes: bool,
        values: Option<&'h ValueReader>,
        results: &'h mut MemoryShare,
    ) -> Self {
        let notes = wants_notes.then(PatchNotes::default);
        let (loaded_bytes, put_bytes, failure) = (0, 0, None);
        let results_before = results.bytes();
        PatchHost {
            writer,
            notes,
            loaded_bytes,
            put_bytes,
            failure,
            values,
            results,
            results_before,
        }
    }

    /// Returns the script's calls, or the call that failed.
    pub(crate) fn finish(self) -> Result<PatchCalls, CommandError> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(PatchCalls { notes: self.notes, put_bytes: self.put_bytes }),
        }
    }

    /// Executes a call, unless one has failed before.
    fn call<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<R, CommandError>,
    ) -> Result<R, HostError> {
        if let Some(failure) = &self.failure {
            return Err(failure.to_string().into());
        }
        work(self).map_err(|failure| {
            let message = failure.to_string();
            self.failure = Some(failure);
            message.into()
        })
    }

    fn change_time_series(
        &mut self,
        id: &str,
        name: &str,
        call: &SeriesCall,
    ) -> Result<(), HostError> {
        self.call(|host| patch_time_series::change(host.writer, (id, name), call))
    }

    /// The current value of a counter. `None` for an invalid name.
    fn find_counter(&self, id: &str, name: &str) -> Result<Option<CounterDetail>, CommandError> {
        match CounterName::new(name) {
            Ok(name) => Ok(self.writer.counter_detail(&document_id(id)?, &name)?),
            Err(_) => Ok(None),
        }
    }

    /// Records a note; without enough memory it is dropped.
    fn take_note(&mut self, bytes: usize, note: impl FnOnce(&mut PatchNotes)) {
        let held = self.results_before.saturating_add(NOTE_TIMES * bytes as u64);
        if let Some(notes) = &mut self.notes
            && self.put_bytes.saturating_add(bytes) <= PUT_BYTES_MAX
            && self.results.try_grow_to(held).is_ok()
        {
            (self.put_bytes, self.results_before) = (self.put_bytes + bytes, held);
            note(notes);
        }
    }
}

/// The calls of a script.
pub(crate) struct PatchCalls {
    pub(crate) notes: Option<PatchNotes>,
    /// The approximate size of the documents that it put.
    pub(crate) put_bytes: usize,
}

fn expected(change_vector: Option<&str>) -> ExpectedVersion {
    ExpectedVersion::parse(change_vector)
}

fn document_id(text: &str) -> Result<DocumentId, CommandError> {
    Ok(DocumentId::new(text).map_err(DocumentError::from)?)
}

fn counter_name(text: &str) -> Result<CounterName, CommandError> {
    let name = CounterName::new(text);
    name.map_err(|error| {
        PatchError::Refused { kind: Refusal::Value, message: error.to_string() }.into()
    })
}

impl Host for PatchHost<'_, '_> {
    /// Consecutive results count as the largest of them: the earlier ones are in the transaction by
    /// then.
    fn hold_result(&mut self, bytes: u64) -> Result<(), HostError> {
        self.call(|host| {
            let bytes = host.results_before.saturating_add(bytes);
            let held = host.results.try_grow_to(bytes).map_err(StorageError::from);
            held.map_err(|error| CommandError::Document(error.into()))
        })
    }

    fn load(&mut self, id: &str, _: Option<&str>) -> Result<Option<ScriptDocument>, HostError> {
        self.call(|host| {
            let row = host.writer.get(&document_id(id)?)?;
            let found = row.map(|row| {
                let info = DocumentInfo {
                    id: row.id().into(),
                    change_vector: row.change_vector().into(),
                    last_modified_ticks: row.last_modified_ticks(),
                };
                Ok::<_, DocumentError>(ScriptDocument::new(row.body()?.to_buf(), info))
            });
            let found = found.transpose()?;
            let bytes = found.as_ref().map_or(0, |document| document.size_bytes());
            host.loaded_bytes = host.loaded_bytes.saturating_add(bytes);
            if LOADED_BYTES_MAX < host.loaded_bytes {
                return Err(
                    PatchError::TooMuch { verb: "load", bytes_max: LOADED_BYTES_MAX }.into()
                );
            }
            let exists = found.is_some();
            host.take_note(id.len(), |notes| notes.loaded.push((id.to_owned(), exists)));
            Ok(found)
        })
    }

    fn put(
        &mut self,
        id: Option<&str>,
        document: BlittableBuf,
        change_vector: Option<&str>,
    ) -> Result<String, HostError> {
        self.call(|host| {
            host.put_bytes = host.put_bytes.saturating_add(document.as_bytes().len());
            if PUT_BYTES_MAX < host.put_bytes {
                return Err(PatchError::TooMuch { verb: "put", bytes_max: PUT_BYTES_MAX }.into());
            }
            let id = RequestedId::parse(id, host.writer.id_separator());
            let id = id.map_err(DocumentError::from)?;
            let stored = host.writer.put(&id, &expected(change_vector), &document)?;
            let id = stored.id.to_string();
            let bytes = document.as_bytes().len();
            host.take_note(bytes, |notes| notes.put.push((id.clone(), document)));
            Ok(id)
        })
    }

    fn delete(&mut self, id: &str, change_vector: Option<&str>) -> Result<bool, HostError> {
        self.call(|host| {
            let deleted = host.writer.delete(&document_id(id)?, &expected(change_vector))?;
            host.take_note(id.len(), |notes| notes.deleted.push(id.to_owned()));
            Ok(deleted.is_some())
        })
    }

    /// A patch includes no other documents.
    fn include(&mut self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn include_value(&mut self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    /// The value while the script runs: compare exchange is not part of the transaction.
    fn compare_exchange(&mut self, key: &str) -> Result<Option<BlittableBuf>, HostError> {
        match self.values {
            Some(values) => values(key).map_err(Into::into),
            None => Ok(None),
        }
    }

    fn output(&mut self, line: &str) {
        self.take_note(line.len(), |notes| notes.output.push(line.to_owned()));
    }

    fn counter(&mut self, id: &str, name: &str) -> Result<Option<i64>, HostError> {
        self.call(|host| {
            let found = host.find_counter(id, name)?.map(|found| found.total);
            host.take_note(name.len(), |notes| notes.counters_read.push((name.to_owned(), found)));
            Ok(found)
        })
    }

    fn counter_raw(&mut self, id: &str, name: &str) -> Result<Vec<(String, i64)>, HostError> {
        self.call(|host| {
            let found = host.find_counter(id, name)?;
            let values = found.into_iter().flat_map(|found| found.values);
            let named = values
                .map(|value| (format!("{}-{}", value.node_tag, value.database_id), value.value));
            Ok(named.collect())
        })
    }

    fn increment_counter(&mut self, id: &str, name: &str, by: f64) -> Result<(), HostError> {
        self.call(|host| {
            let old_value = host.find_counter(id, name)?.map(|found| found.total);
            // The conversion saturates.
            let added = by as i64;
            host.writer.increment_counter(&document_id(id)?, &counter_name(name)?, added)?;
            let new_value = host.find_counter(id, name)?.map_or(0, |found| found.total);
            let (name, added) = (name.to_owned(), format!("{by:?}"));
            host.take_note(name.len(), |notes| {
                let note = IncrementNote { name, old_value, added, new_value };
                notes.counters_incremented.push(note);
            });
            Ok(())
        })
    }

    fn delete_counter(&mut self, id: &str, name: &str) -> Result<(), HostError> {
        self.call(|host| {
            host.writer.delete_counter(&document_id(id)?, &counter_name(name)?)?;
            host.take_note(name.len(), |notes| notes.counters_deleted.push(name.to_owned()));
            Ok(())
        })
    }

    fn time_series_get(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<Vec<TimeSeriesEntry>, HostError> {
        self.call(|host| {
            let bytes_max = LOADED_BYTES_MAX.saturating_sub(host.loaded_bytes);
            let found = patch_time_series::entries(host.writer, (id, name), (from, to), bytes_max)?;
            let too_much = PatchError::TooMuch { verb: "load", bytes_max: LOADED_BYTES_MAX };
            let (entries, bytes) = found.ok_or(too_much)?;
            host.loaded_bytes += bytes;
            Ok(entries)
        })
    }

    fn time_series_stats(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<TimeSeriesStats>, HostError> {
        self.call(|host| patch_time_series::stats(host.writer, (id, name)))
    }

    fn time_series_append(
        &mut self,
        id: &str,
        name: &str,
        entry: TimeSeriesEntry,
    ) -> Result<(), HostError> {
        self.change_time_series(id, name, &SeriesCall::Append(entry))
    }

    fn time_series_increment(
        &mut self,
        id: &str,
        name: &str,
        entry: TimeSeriesEntry,
    ) -> Result<(), HostError> {
        self.change_time_series(id, name, &SeriesCall::Increment(entry))
    }

    fn time_series_delete(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<(), HostError> {
        self.change_time_series(id, name, &SeriesCall::Delete { from, to })
    }
}
