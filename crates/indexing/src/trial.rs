//! What a definition makes of some documents, without an index: for whoever writes one.

use std::collections::HashMap;

use blittable::{BlittableBuf, Document, ObjectBuilder};
use documents::{
    DocumentError,
    time_series::{MomentRange, segments, series_of},
};
use linq::{Output, SpatialValue, Value};
use model::{DocumentId, Etag, TimeSeriesName};
use script::{FieldValue, IndexEntry, ScriptPool, ScriptValue};
use storage::ReadTransaction;
use wire::IndexDefinition;

use crate::{
    beside::Beside,
    error::IndexError,
    index_kind::{IndexKind, mapper_of},
    js_map::JsMap,
    linq_map::LinqMap,
    mapper::{MapError, Mapper},
    reduce::{MappedRow, MappedRows, Reducer},
    references::References,
    source::{self, SourceChange, SourceItem, SourceKind},
    static_definition::is_javascript,
};

/// Documents that are taken of each collection when nobody says which.
pub const TRIAL_DOCUMENTS_MAX: usize = 10;
/// A trial that gives more is broken off.
const RESULTS_MAX: usize = 10_000;
/// So is one whose results are larger together: all of them are in memory.
const RESULTS_BYTES_MAX: usize = 4 << 20;

/// Everything that a trial gave, as JSON objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// What the maps gave, in the order of the documents.
    pub mapped: Vec<Vec<u8>>,
    /// What the reduce gave, in the order in which keys were met; `None` without a reduce.
    pub reduced: Option<Vec<Vec<u8>>>,
    /// Bytes of the former.
    mapped_bytes: usize,
}

/// Runs the maps of a definition over the documents of these ids, as far as there are such and a map is
/// over their collection; over the oldest of each collection when there are no ids.
///
/// # Errors
///
/// When the definition is none of an index, or fails on a document.
pub fn try_definition(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
    beside: Beside<'_>,
    ids: &[DocumentId],
) -> Result<Trial, MapError> {
    let mapper = mapper_of(&IndexKind::Static(Box::new(definition.clone())), scripts)?;
    let chosen = chosen(mapper.as_ref(), beside.documents, ids)?;
    if let Some(reducer) = mapper.reducer() {
        return reduced(reducer, &chosen, beside);
    }
    let mut trial = Trial::default();
    match definition.maps.iter().any(|map| is_javascript(map)) {
        true => map_scripts(&JsMap::new(definition, scripts)?, &chosen, beside, &mut trial)?,
        false => map_linq(&LinqMap::new(definition)?, &chosen, beside, &mut trial)?,
    }
    Ok(trial)
}

fn chosen<'d>(
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
    if !ids.is_empty() {
        return Ok(found);
    }
    let logs = source::logs_of(kind, collections, documents, Etag::ZERO)?;
    for log in logs {
        let there = log.filter_map(|change| match change {
            Ok(SourceChange::There(item)) => Some(Ok(item)),
            Ok(
                SourceChange::Gone { .. }
                | SourceChange::AllGone { .. }
                | SourceChange::LookedAt { .. },
            ) => None,
            Err(error) => Some(Err(error)),
        });
        for item in there.take(TRIAL_DOCUMENTS_MAX) {
            found.push(item?);
        }
    }
    Ok(found)
}

impl Trial {
    fn add(&mut self, row: &Document<'_>) -> Result<(), MapError> {
        if self.mapped.len() == RESULTS_MAX {
            let message =
                format!("The maps give more than {RESULTS_MAX} results for these documents");
            return Err(MapError::Document { message });
        }
        let row = row.to_json().map_err(DocumentError::from)?;
        self.mapped_bytes += row.len();
        if RESULTS_BYTES_MAX < self.mapped_bytes {
            let message = format!(
                "The results of the maps for these documents take more than {RESULTS_BYTES_MAX} bytes. \
                 Name fewer documents, or smaller ones."
            );
            return Err(MapError::Document { message });
        }
        self.mapped.push(row);
        Ok(())
    }
}

fn reduced(
    reducer: &dyn Reducer,
    chosen: &[SourceItem<'_>],
    beside: Beside<'_>,
) -> Result<Trial, MapError> {
    let mut trial = Trial::default();
    let mut places = HashMap::new();
    let mut keys: Vec<Vec<Vec<u8>>> = Vec::new();
    for item in chosen {
        let mut rows = MappedRows::default();
        reducer.map_rows(item, beside, &mut rows)?;
        for MappedRow { key, row } in rows.into_rows() {
            trial.add(&document_of(&row)?)?;
            let place = *places.entry(key).or_insert_with(|| {
                keys.push(Vec::new());
                keys.len() - 1
            });
            keys[place].push(row);
        }
    }
    let mut results = Vec::new();
    for rows in &keys {
        results.append(&mut reduced_key(reducer, rows)?);
    }
    trial.reduced = Some(results);
    Ok(trial)
}

fn reduced_key(reducer: &dyn Reducer, rows: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, MapError> {
    let items: Vec<_> = rows.iter().map(|row| document_of(row)).collect::<Result<_, _>>()?;
    let Some(sample) = items.first() else { return Ok(Vec::new()) };
    let mut given = Vec::new();
    reducer.reduce(sample, &items, &mut given)?;
    let shown = given.iter().map(|result| result.as_view().to_json());
    Ok(shown.collect::<Result<_, _>>().map_err(DocumentError::from)?)
}

fn document_of(bytes: &[u8]) -> Result<Document<'_>, IndexError> {
    Ok(Document::new(bytes).map_err(DocumentError::from)?)
}

fn map_linq(
    map: &LinqMap,
    chosen: &[SourceItem<'_>],
    beside: Beside<'_>,
    trial: &mut Trial,
) -> Result<(), MapError> {
    for item in chosen {
        map.for_each_output(item, beside, &mut References::default(), &mut |output| {
            trial.add(&shown_output(output)?.as_view())
        })?;
    }
    Ok(())
}

fn map_scripts(
    map: &JsMap,
    chosen: &[SourceItem<'_>],
    beside: Beside<'_>,
    trial: &mut Trial,
) -> Result<(), MapError> {
    for item in chosen {
        for entry in map.results_of(item, beside, &mut References::default())? {
            trial.add(&shown_entry(&entry)?.as_view())?;
        }
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> MapError {
    MapError::Document { message: error.to_string() }
}

/// An output as a document. A place is shown by its coordinates, a field that the map names by its name.
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

/// What a script gave, as a document.
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
