//! Maps and a reduce that an application wrote in C#.

use blittable::{BlittableBuf, Document, Object, ObjectBuilder};
use documents::DocumentError;
use linq::{Budget, Output, Value};
use model::IndexDefinition;

use super::{
    MappedRows, Reducer,
    entry::EntryFields,
    key::{ReduceKey, key_json, key_text},
    map_reduce::MapReduce,
};
use crate::{
    entry_writer::EntryWriter, error::IndexError, linq_map::LinqMap, map_context::MapContext,
    mapper::MapError, references::References, source::SourceItem,
};

/// A placeholder in a map's fields for those that only documents create.
const CREATED_FIELDS: &str = "_";

/// See the module.
pub(crate) struct LinqReduce {
    map: LinqMap,
    reduce: linq::Reduce,
    fields: EntryFields,
    budget: Budget,
}

impl LinqReduce {
    /// Compiles the maps and the reduce of a definition.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when a text is not a map or reduce, or they do not match.
    pub(crate) fn new(
        definition: &IndexDefinition,
        reduce: &str,
        memory_bytes_max: usize,
    ) -> Result<Self, IndexError> {
        let refused = |what: &dyn std::fmt::Display| IndexError::Definition {
            message: format!("Failed to compile index {}: {what}", definition.name),
        };
        let map = LinqMap::new(definition, memory_bytes_max)?;
        let reduce = linq::Reduce::compile(reduce).map_err(|error| refused(&error))?;
        reduce.check_maps(map.maps()).map_err(|error| refused(&error))?;
        if reduce.fields().any(|name| name == CREATED_FIELDS) {
            return Err(refused(&"CreateField in a reduce is not supported yet"));
        }
        let fields = EntryFields::of_definition(definition, reduce.fields())?;
        Ok(Self { map, reduce, fields, budget: Budget::within(memory_bytes_max) })
    }

    fn key_of(&self, row: &Object<'_>) -> Result<ReduceKey, DocumentError> {
        let fields = self.reduce.group_by().iter();
        let values = fields.map(|field| row.get(field)).collect::<Result<Vec<_>, _>>()?;
        Ok(ReduceKey::of(values)?)
    }

    /// The values by which a row is grouped.
    fn key_values<'a>(
        &self,
        row: &Object<'a>,
    ) -> Result<Vec<(String, Option<blittable::Value<'a>>)>, DocumentError> {
        let fields = self.reduce.group_by().iter();
        fields.map(|field| Ok((field.clone(), row.get(field)?))).collect()
    }
}

impl MapReduce for LinqReduce {
    type Maps = LinqMap;

    fn maps(&self) -> &LinqMap {
        &self.map
    }

    fn entry_fields(&self) -> &EntryFields {
        &self.fields
    }
}

impl Reducer for LinqReduce {
    fn map_rows<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        rows: &mut MappedRows,
    ) -> Result<(), MapError> {
        let mut references = References::default();
        let mapped = self.map.for_each_output(item, context, &mut references, &mut |output| {
            let row = document_of(output)?;
            let key = self.key_of(&row.as_view().root())?;
            rows.push(key, row)
        });
        rows.references_and_room().0.add(references);
        mapped
    }

    fn reduce<'a>(
        &'a self,
        _: &Document<'a>,
        items: &[Document<'a>],
        results: &mut Vec<BlittableBuf>,
    ) -> Result<(), MapError> {
        let (mut failure, mut room) = (None, self.map.room_of_results());
        let mut items = items.iter().map(Document::root);
        let evaluated =
            self.reduce.evaluate(
                &mut items,
                &self.budget,
                &mut |output| match document_of(&output) {
                    Ok(result) => match room.take(result.as_bytes().len() as u64) {
                        Ok(()) => results.push(result),
                        Err(error) => failure = failure.take().or(Some(error)),
                    },
                    Err(error) => failure = failure.take().or(Some(error)),
                },
            );
        if let Some(failure) = failure {
            return Err(failure);
        }
        evaluated.map_err(|error| MapError::Document {
            message: format!("Failed to execute reduce function. Exception: {error}"),
        })
    }

    fn key_text(&self, sample: &Document<'_>) -> Result<String, MapError> {
        Ok(key_text(self.key_values(&sample.root())?).map_err(DocumentError::from)?)
    }

    fn key_json(&self, sample: &Document<'_>) -> Result<Vec<u8>, MapError> {
        Ok(key_json(self.key_values(&sample.root())?).map_err(DocumentError::from)?)
    }

    fn write_entry(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        self.fields.write(result, entries)
    }
}

/// An output as a row or a result; missing values are null.
pub(super) fn document_of(output: &Output<'_, '_>) -> Result<BlittableBuf, MapError> {
    document_of_fields(output.fields())
}

/// An output as a result, without missing values.
pub(super) fn shown_output(output: &Output<'_, '_>) -> Result<BlittableBuf, MapError> {
    document_of_fields(output.fields().filter(|(_, value)| !matches!(value, Value::Missing)))
}

fn document_of_fields<'o, 'a: 'o>(
    fields: impl Iterator<Item = (&'a str, &'o Value<'a>)>,
) -> Result<BlittableBuf, MapError> {
    let refused = |what: &dyn std::fmt::Display| MapError::Document { message: what.to_string() };
    let mut builder = ObjectBuilder::new();
    for (name, value) in fields {
        let is_spatial = match value {
            Value::Spatial(_) => true,
            Value::List(list) => list.items.iter().any(|item| matches!(item, Value::Spatial(_))),
            _ => false,
        };
        if is_spatial {
            let what = format!("The field '{name}' is spatial, which a reduce does not support");
            return Err(refused(&what));
        }
        linq::put_value(&mut builder, name, value).map_err(|error| refused(&error))?;
    }
    builder.finish().map_err(|error| refused(&error))
}
