//! Trying a definition on some documents, without an index, for the author of the definition.

use std::collections::HashMap;

use blittable::{BlittableBuf, Document, ObjectBuilder, prints_within};
use documents::{
    DocumentError,
    time_series::{MomentRange, segments, series_of},
};
use linq::{Output, SpatialValue, Value};
use model::{DocumentId, IndexDefinition, TimeSeriesName};
use script::{FieldValue, IndexEntry, ScriptPool, ScriptValue};
use storage::{ReadTransaction, StorageError, WorkingMemory};

use crate::{
    error::IndexError,
    index_kind::{IndexKind, mapper_of},
    js_map::JsMap,
    linq_map::LinqMap,
    map_context::MapContext,
    mapper::{MapError, Mapper},
    output_room::OutputRoom,
    reduce::{MappedRow, MappedRows, ReduceKey, Reducer, RowBounds},
    references::References,
    source::{self, SourceItem, SourceKind},
    static_definition::is_javascript,
};

/// The default number of items of each collection.
pub const TRIAL_ITEMS: usize = 10;
/// A trial with more results is aborted.
const RESULTS_MAX: usize = 10_000;
/// So is one whose results, those of the maps or those of the reduce, are larger together: all of them are in memory.
const RESULTS_BYTES_MAX: usize = 4 << 20;

/// The results of a trial, as JSON objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The outputs of the maps, in the order of the documents.
    pub mapped: Vec<Vec<u8>>,
    /// The results of the reduce, in the order in which keys were found; `None` without a reduce.
    pub reduced: Option<Vec<Vec<u8>>>,
}

/// The items that a definition is tried on.
#[derive(Clone, Copy, Debug)]
pub enum TrialSource<'s> {
    /// The documents of these ids, if they exist and a map covers their collection.
    Documents(&'s [DocumentId]),
    /// This many items of each collection, oldest first.
    Oldest(usize),
}

/// How a trial responds when the maps fail on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialFailure {
    /// It ends with the error.
    Ends,
    /// It continues without the item, as an index does.
    LeavesOut,
}

/// Runs the maps and the reduce of a definition. What they give is counted in `memory`.
///
/// # Errors
///
/// When the definition is not valid for an index, fails on an item where that ends the trial, or
/// has too many results; when they do not fit in memory.
pub fn try_definition(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
    context: MapContext<'_>,
    source: TrialSource<'_>,
    on_failure: TrialFailure,
    memory: &WorkingMemory,
) -> Result<Trial, MapError> {
    let mapper = mapper_of(&IndexKind::Static(Box::new(definition.clone())), scripts)?;
    let chosen = match source {
        TrialSource::Documents(ids) => named(mapper.as_ref(), context.documents, ids)?,
        TrialSource::Oldest(items_max) => oldest(mapper.as_ref(), context.documents, items_max)?,
    };
    let mut results = Results::of("maps", memory);
    if let Some(reducer) = mapper.reducer() {
        return reduced(reducer, &chosen, context, (results, on_failure));
    }
    if definition.maps.iter().any(|map| is_javascript(map)) {
        let map = JsMap::new(definition, scripts)?;
        results.of_each(&chosen, on_failure, |item, results| {
            let (references, room) = (&mut References::default(), &mut trial_room());
            let entries = map.results_of(item, context, references, room);
            if room.is_exceeded() {
                return Err(results.too_large());
            }
            let entries = entries?;
            entries.iter().try_for_each(|entry| results.add(&shown_entry(entry)?.as_view()))
        })?;
    } else {
        let map = LinqMap::new(definition, scripts.memory_bytes_max())?;
        results.of_each(&chosen, on_failure, |item, results| {
            map.for_each_output(item, context, &mut References::default(), &mut |output| {
                results.add(&shown_output(output)?.as_view())
            })
        })?;
    }
    Ok(Trial { mapped: results.rows, reduced: None })
}

/// What the results for one item may take in memory, while the ones that are shown are chosen.
fn trial_room() -> OutputRoom {
    OutputRoom::up_to(2 * RESULTS_BYTES_MAX as u64)
}

fn named<'d>(
    mapper: &dyn Mapper,
    documents: &'d ReadTransaction,
    ids: &[DocumentId],
) -> Result<Vec<SourceItem<'d>>, IndexError> {
    let (kind, collections) = (mapper.source_kind(), mapper.collections());
    let mut found = Vec::new();
    for id in ids {
        let Some(document) = documents::get(documents, id)? else { continue };
        let own = document.collection()?;
        let is_own = |name: &model::CollectionName| name.as_str().eq_ignore_ascii_case(&own);
        let is_mapped = collections.is_empty() || collections.iter().any(is_own);
        drop(own);
        match kind {
            _ if !is_mapped => {}
            SourceKind::Documents => found.push(SourceItem::Document(document)),
            SourceKind::Counters => {
                for row in documents::counters_of(documents, id)? {
                    found.push(SourceItem::Counter(row?));
                }
            }
            SourceKind::TimeSeries => {
                for series in series_of(documents, id)? {
                    let name = TimeSeriesName::new(series?.name).map_err(DocumentError::from)?;
                    for row in segments(documents, id, &name, MomentRange::ALL)? {
                        found.push(SourceItem::Segment(row?));
                    }
                }
            }
        }
    }
    Ok(found)
}

fn oldest<'d>(
    mapper: &dyn Mapper,
    documents: &'d ReadTransaction,
    items_max: usize,
) -> Result<Vec<SourceItem<'d>>, IndexError> {
    let (kind, collections) = (mapper.source_kind(), mapper.collections());
    Ok(source::oldest_of_each(kind, collections, documents, items_max)?)
}

/// What the maps gave, or the reduce, as JSON objects.
struct Results<'m> {
    /// Who gave it, in the words of an error.
    of: &'static str,
    rows: Vec<Vec<u8>>,
    bytes: usize,
    /// Whether another result did not fit.
    is_full: bool,
    memory: &'m WorkingMemory,
}

impl<'m> Results<'m> {
    fn of(of: &'static str, memory: &'m WorkingMemory) -> Self {
        Self { of, rows: Vec::new(), bytes: 0, is_full: false, memory }
    }

    /// Maps every item.
    fn of_each<'i>(
        &mut self,
        items: &[SourceItem<'i>],
        on_failure: TrialFailure,
        mut map: impl FnMut(&SourceItem<'i>, &mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        for item in items {
            let (rows, bytes) = (self.rows.len(), self.bytes);
            match map(item, self) {
                Err(MapError::Document { .. })
                    if on_failure == TrialFailure::LeavesOut && !self.is_full =>
                {
                    self.rows.truncate(rows);
                    self.bytes = bytes;
                }
                mapped => mapped?,
            }
        }
        Ok(())
    }

    /// The failure of a trial with results that are too large.
    fn too_large(&mut self) -> MapError {
        self.is_full = true;
        let message = format!(
            "The results of the {} for these documents take more than {RESULTS_BYTES_MAX} bytes. \
             Try the definition on fewer documents, or smaller ones.",
            self.of
        );
        MapError::Document { message }
    }

    fn add(&mut self, row: &Document<'_>) -> Result<(), MapError> {
        let left = (RESULTS_BYTES_MAX - self.bytes) as u64;
        let root = blittable::Value::Object(row.root());
        let message = if self.rows.len() == RESULTS_MAX {
            format!("The {} give more than {RESULTS_MAX} results for these documents", self.of)
        } else if prints_within(&root, left).map_err(DocumentError::from)? {
            let row = row.to_json().map_err(DocumentError::from)?;
            count(self.memory, row.len())?;
            // An escape is longer than it was thought to be.
            self.bytes = (self.bytes + row.len()).min(RESULTS_BYTES_MAX);
            self.rows.push(row);
            return Ok(());
        } else {
            return Err(self.too_large());
        };
        self.is_full = true;
        Err(MapError::Document { message })
    }
}

fn reduced(
    reducer: &dyn Reducer,
    chosen: &[SourceItem<'_>],
    context: MapContext<'_>,
    (mut results, on_failure): (Results<'_>, TrialFailure),
) -> Result<Trial, MapError> {
    let mut places = HashMap::new();
    let mut keys: Vec<Vec<Vec<u8>>> = Vec::new();
    results.of_each(chosen, on_failure, |item, results| {
        let left = RESULTS_MAX.saturating_sub(results.rows.len());
        let mut rows = MappedRows::within(RowBounds { rows: left, bytes: RESULTS_BYTES_MAX });
        *rows.room() = trial_room();
        let mapped = reducer.map_rows(item, context, &mut rows);
        results.is_full |= rows.is_full();
        mapped?;
        let rows = rows.into_rows();
        rows.iter().try_for_each(|row| results.add(&document_of(&row.row)?))?;
        for MappedRow { key, row } in rows {
            count(results.memory, size_of::<ReduceKey>() + row.len())?;
            let place = *places.entry(key).or_insert_with(|| {
                keys.push(Vec::new());
                keys.len() - 1
            });
            keys[place].push(row);
        }
        Ok(())
    })?;
    let mut reduced = Results::of("reduce", results.memory);
    for rows in &keys {
        match reduce_key(reducer, rows, &mut reduced) {
            Err(MapError::Document { .. })
                if on_failure == TrialFailure::LeavesOut && !reduced.is_full => {}
            given => given?,
        }
    }
    Ok(Trial { mapped: results.rows, reduced: Some(reduced.rows) })
}

fn reduce_key(
    reducer: &dyn Reducer,
    rows: &[Vec<u8>],
    results: &mut Results<'_>,
) -> Result<(), MapError> {
    let items: Vec<_> = rows.iter().map(|row| document_of(row)).collect::<Result<_, _>>()?;
    let Some(sample) = items.first() else { return Ok(()) };
    let mut given = Vec::new();
    reducer.reduce(sample, &items, &mut given)?;
    given.iter().try_for_each(|result| results.add(&result.as_view()))
}

fn count(memory: &WorkingMemory, bytes: usize) -> Result<(), IndexError> {
    let counted = memory.take((size_of::<Vec<u8>>() + bytes) as u64);
    Ok(counted.map_err(StorageError::from)?)
}

fn document_of(bytes: &[u8]) -> Result<Document<'_>, IndexError> {
    Ok(Document::new(bytes).map_err(DocumentError::from)?)
}

fn failed(error: impl std::fmt::Display) -> MapError {
    MapError::Document { message: error.to_string() }
}

/// An output as a document. A point is shown by its coordinates, a field that the map names by its
/// name.
fn shown_output(output: &Output<'_, '_>) -> Result<BlittableBuf, MapError> {
    let mut builder = ObjectBuilder::new();
    for (name, value) in output.fields() {
        match value {
            Value::Spatial(spatial) => match &**spatial {
                SpatialValue::Point(Some((latitude, longitude))) => {
                    builder.begin_object(name);
                    builder.put("Latitude", *latitude).put("Longitude", *longitude).end();
                }
                SpatialValue::Point(None) => drop(builder.put(name, None::<&str>)),
                SpatialValue::Shape(shape) => {
                    linq::put_value(&mut builder, name, shape).map_err(failed)?;
                }
            },
            Value::Field(field) => {
                linq::put_value(&mut builder, &field.name, &field.value).map_err(failed)?;
            }
            Value::Missing => {}
            value => linq::put_value(&mut builder, name, value).map_err(failed)?,
        }
    }
    builder.finish().map_err(failed)
}

/// The output of a script, as a document.
fn shown_entry(entry: &IndexEntry) -> Result<BlittableBuf, MapError> {
    let mut builder = ObjectBuilder::new();
    for field in &entry.fields {
        match &field.value {
            FieldValue::Plain(value) => value.put_into(&field.name, &mut builder),
            FieldValue::Point(latitude, longitude) => {
                let point = ScriptValue::Object(vec![
                    ("Latitude".into(), latitude.clone()),
                    ("Longitude".into(), longitude.clone()),
                ]);
                point.put_into(&field.name, &mut builder)
            }
            FieldValue::Shape(text) => {
                ScriptValue::String(text.clone()).put_into(&field.name, &mut builder)
            }
        }
        .map_err(failed)?;
    }
    builder.finish().map_err(failed)
}
