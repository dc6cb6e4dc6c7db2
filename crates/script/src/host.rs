//! The functions outside of the engine that scripts may call, and how the calls reach them.
//!
//! The crate knows no databases: the caller lends a script a [`Host`] for the duration of the call.

use blittable::BlittableBuf;

use crate::error::HostError;
use crate::source::ScriptDocument;
use crate::value::ScriptValue;

/// An entry of a time series as a script reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeriesEntry {
    /// Milliseconds since 1970 UTC.
    pub timestamp_millis: f64,
    /// The tag, if it has one.
    pub tag: Option<String>,
    /// The values of the entry, by position.
    pub values: Vec<f64>,
    /// Whether it was aggregated from others by a policy.
    pub is_rollup: bool,
}

/// Statistics of a whole time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSeriesStats {
    /// The moment of the first entry, in milliseconds since 1970 UTC.
    pub start_millis: f64,
    /// That of the last one.
    pub end_millis: f64,
    /// How many entries there are.
    pub count: u64,
}

/// An attachment of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, as it was put.
    pub name: String,
    /// The content type set by the client.
    pub content_type: String,
    /// The hash of its content, as clients see it.
    pub hash: String,
    /// Bytes of its content.
    pub content_bytes: u64,
}

/// An argument of a time series query that a script calls.
#[derive(Clone, Debug)]
pub enum SeriesArgument {
    /// A document, by its id.
    Document(String),
    /// Any other value.
    Value(ScriptValue),
}

/// The functions available to a script during one call. All of them refuse unless the host
/// implements them. Errors are thrown in the script; if the script does not catch them, the caller
/// of the script gets them as [`crate::ScriptError::Host`].
pub trait Host {
    /// A result under construction now has about that many bytes. Refusing ends the script.
    fn hold_result(&mut self, bytes: u64) -> Result<(), HostError> {
        let _ = bytes;
        Ok(())
    }

    /// `load(id)` or, in index definitions, `load(id, collection)`. `None` when there is no such document.
    fn load(
        &mut self,
        id: &str,
        collection: Option<&str>,
    ) -> Result<Option<ScriptDocument>, HostError> {
        let _ = (id, collection);
        Err(not_here("load"))
    }

    /// `noTracking.load(id, collection)` in index definitions: as `load`, but the index does not
    /// track the document.
    fn load_untracked(
        &mut self,
        id: &str,
        collection: &str,
    ) -> Result<Option<ScriptDocument>, HostError> {
        let _ = (id, collection);
        Err(not_here("noTracking.load"))
    }

    /// `loadAttachment(document, name)` in index definitions. `None` when there is no such attachment.
    fn attachment(&mut self, id: &str, name: &str) -> Result<Option<Attachment>, HostError> {
        let _ = (id, name);
        Err(not_here("loadAttachment"))
    }

    /// `loadAttachments(document)` in index definitions, in the order of names without regard to case.
    fn attachments(&mut self, id: &str) -> Result<Vec<Attachment>, HostError> {
        let _ = id;
        Err(not_here("loadAttachments"))
    }

    /// The content of an attachment. The host decides how much may be read.
    fn attachment_content(&mut self, attachment: &Attachment) -> Result<Vec<u8>, HostError> {
        let _ = attachment;
        Err(not_here("getContentAsString"))
    }

    /// `put(id, document, changeVector)`; returns the id. Without an id the host generates one.
    fn put(
        &mut self,
        id: Option<&str>,
        document: BlittableBuf,
        change_vector: Option<&str>,
    ) -> Result<String, HostError> {
        let _ = (id, document, change_vector);
        Err(not_here("put"))
    }

    /// `loadTo<Collection>(object)` in transformations of ETL tasks; returns the number of what was loaded, by which
    /// the script adds to it. `is_stored` if the object is a document and not one that the script made.
    fn load_to(
        &mut self,
        collection: &str,
        document: BlittableBuf,
        is_stored: bool,
    ) -> Result<u32, HostError> {
        let _ = (collection, document, is_stored);
        Err(not_here("loadTo"))
    }

    /// `.addAttachment(newName, loadAttachment(name))` of what was loaded under a number.
    fn add_attachment(&mut self, number: u32, name: &str, new_name: &str) -> Result<(), HostError> {
        let _ = (number, name, new_name);
        Err(not_here("addAttachment"))
    }

    /// `.addCounter(loadCounter(name))` of what was loaded under a number.
    fn add_counter(&mut self, number: u32, name: &str) -> Result<(), HostError> {
        let _ = (number, name);
        Err(not_here("addCounter"))
    }

    /// `.addTimeSeries(loadTimeSeries(name, from, to))` of what was loaded under a number. The ends of the range are
    /// in milliseconds since 1970, both inclusive and unbounded when missing.
    fn add_time_series(
        &mut self,
        number: u32,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<(), HostError> {
        let _ = (number, name, from, to);
        Err(not_here("addTimeSeries"))
    }

    /// `del(id, changeVector)`; returns whether there was such a document.
    fn delete(&mut self, id: &str, change_vector: Option<&str>) -> Result<bool, HostError> {
        let _ = (id, change_vector);
        Err(not_here("del"))
    }

    /// `include(id)`: the caller wants this document, too.
    fn include(&mut self, id: &str) -> Result<(), HostError> {
        let _ = id;
        Err(not_here("include"))
    }

    /// `includes.cmpxchg(key)`: the caller wants this value, too.
    fn include_value(&mut self, key: &str) -> Result<(), HostError> {
        let _ = key;
        Err(not_here("includes.cmpxchg"))
    }

    /// `cmpxchg(key)`: a document whose property `Object` is the value; `None` when there is no such key.
    fn compare_exchange(&mut self, key: &str) -> Result<Option<BlittableBuf>, HostError> {
        let _ = key;
        Err(not_here("cmpxchg"))
    }

    /// An operation of the administrators' console.
    fn operate(
        &mut self,
        operation: &str,
        arguments: Vec<ScriptValue>,
    ) -> Result<ScriptValue, HostError> {
        let _ = arguments;
        Err(not_here(operation))
    }

    /// `output(…)` and `console.log(…)`. Ignored unless the host implements it.
    fn output(&mut self, line: &str) {
        let _ = line;
    }

    /// `counter(document, name)`: its total.
    fn counter(&mut self, id: &str, name: &str) -> Result<Option<i64>, HostError> {
        let _ = (id, name);
        Err(not_here("counter"))
    }

    /// `counterRaw(document, name)`: its value on each node.
    fn counter_raw(&mut self, id: &str, name: &str) -> Result<Vec<(String, i64)>, HostError> {
        let _ = (id, name);
        Err(not_here("counterRaw"))
    }

    /// `incrementCounter(document, name, by)`; a fraction does not count.
    fn increment_counter(&mut self, id: &str, name: &str, by: f64) -> Result<(), HostError> {
        let _ = (id, name, by);
        Err(not_here("incrementCounter"))
    }

    /// `deleteCounter(document, name)`.
    fn delete_counter(&mut self, id: &str, name: &str) -> Result<(), HostError> {
        let _ = (id, name);
        Err(not_here("deleteCounter"))
    }

    /// `timeseries(document, name).get(from, to)`: entries from `from` to `to`, in milliseconds
    /// since 1970, both inclusive and unbounded when missing.
    fn time_series_get(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<Vec<TimeSeriesEntry>, HostError> {
        let _ = (id, name, from, to);
        Err(not_here("timeseries"))
    }

    /// `timeseries(document, name).getStats()`; `None` when there is no such series.
    fn time_series_stats(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<TimeSeriesStats>, HostError> {
        let _ = (id, name);
        Err(not_here("timeseries"))
    }

    /// A time series query that the text declares, by its name; returns JSON.
    fn time_series_query(
        &mut self,
        function: &str,
        arguments: Vec<SeriesArgument>,
    ) -> Result<Vec<u8>, HostError> {
        let _ = arguments;
        Err(not_here(function))
    }

    /// `timeseries(document, name).append(timestamp, values, tag)`.
    fn time_series_append(
        &mut self,
        id: &str,
        name: &str,
        entry: TimeSeriesEntry,
    ) -> Result<(), HostError> {
        let _ = (id, name, entry);
        Err(not_here("timeseries"))
    }

    /// `timeseries(document, name).increment(timestamp, values)`.
    fn time_series_increment(
        &mut self,
        id: &str,
        name: &str,
        entry: TimeSeriesEntry,
    ) -> Result<(), HostError> {
        let _ = (id, name, entry);
        Err(not_here("timeseries"))
    }

    /// `timeseries(document, name).delete(from, to)`.
    fn time_series_delete(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<(), HostError> {
        let _ = (id, name, from, to);
        Err(not_here("timeseries"))
    }
}

fn not_here(name: &str) -> HostError {
    format!("{name} cannot be called here").into()
}

/// A host that offers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

scoped_tls_hkt::scoped_thread_local!(
    /// The host of the script that runs on this thread.
    pub(crate) static mut CURRENT: for<'a> &'a mut (dyn Host + 'a)
);
