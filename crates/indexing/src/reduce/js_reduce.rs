//! Maps and a reduce that an application wrote in JavaScript.

use blittable::{BlittableBuf, Document, ObjectBuilder};
use documents::DocumentError;
use model::IndexDefinition;
use script::{Budget, FieldValue, IndexEntry, NoHost, ScriptDocument, ScriptPool, ScriptValue};

use super::{
    MappedRows, Reducer,
    entry::EntryFields,
    key::{KeyValues, ReduceKey, key_json, key_text},
    map_reduce::MapReduce,
};
use crate::{
    entry_writer::EntryWriter, error::IndexError, js_map::JsMap, map_context::MapContext,
    mapper::MapError, source::SourceItem,
};

/// The property under which a key is stored.
const KEY: &str = "Key";

/// See the module.
pub(crate) struct JsReduce {
    map: JsMap,
    fields: EntryFields,
}

impl JsReduce {
    /// Compiles the maps and the reduce of a definition.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when a text is not a map or reduce.
    pub(crate) fn new(definition: &IndexDefinition, pool: &ScriptPool) -> Result<Self, IndexError> {
        let map = JsMap::new(definition, pool)?;
        let script = map.script();
        let reduced = script.reduced_fields().cloned().unwrap_or_default();
        let mapped = script.fields().iter().flat_map(|fields| &fields.names);
        // Properties of the reduce that are not visible in its text are usually those of the maps.
        let more = mapped.filter(|_| reduced.has_others);
        let names = reduced.names.iter().chain(more).map(String::as_str);
        let fields = EntryFields::of_definition(definition, names)?;
        Ok(Self { map, fields })
    }

    /// Rejects a map's output without a field that the reduce groups by. An undefined one counts as
    /// null.
    fn check_has_key(&self, entry: &IndexEntry) -> Result<(), MapError> {
        let has = |name: &String| {
            entry.fields.iter().any(|field| *field.name == **name)
                || entry.undefined.iter().any(|own| **own == **name)
        };
        let Some(missing) = self.map.script().group_fields().iter().find(|name| !has(name)) else {
            return Ok(());
        };
        let message = format!(
            "The output of the mapping function does not contain all fields that the index is \
             supposed to group by: '{missing}' is missing"
        );
        Err(MapError::Document { message })
    }

    /// The values of a key with their names.
    fn key_values<'a>(&self, key: &Document<'a>) -> Result<KeyValues<'a>, DocumentError> {
        let value = key.root().get(KEY)?;
        if let Some(blittable::Value::Object(members)) = &value {
            let members = members.iter();
            return members
                .map(|member| Ok(member.map(|(name, value)| (name.to_owned(), Some(value)))?))
                .collect();
        }
        // A key of one value has the name of the field that it is read from.
        let name = match self.map.script().group_fields() {
            [name] => name.as_str(),
            _ => KEY,
        };
        Ok(vec![(name.to_owned(), value)])
    }

    /// The key of a row, as a document.
    fn key_of(&self, row: &ScriptDocument) -> Result<(ScriptValue, BlittableBuf), MapError> {
        let engine = self.map.pool().engine();
        let key = self.map.script().group_key(&engine, row, Budget::default());
        let key = key.map_err(|error| refused(&error))?;
        let mut builder = ObjectBuilder::new();
        key.put_into(KEY, &mut builder).map_err(|error| refused(&error))?;
        Ok((key, builder.finish().map_err(|error| refused(&error))?))
    }
}

impl MapReduce for JsReduce {
    type Maps = JsMap;

    fn maps(&self) -> &JsMap {
        &self.map
    }

    fn entry_fields(&self) -> &EntryFields {
        &self.fields
    }
}

impl Reducer for JsReduce {
    fn map_rows<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        rows: &mut MappedRows,
    ) -> Result<(), MapError> {
        let (references, room) = rows.references_and_room();
        for entry in self.map.results_of(item, context, references, room)? {
            self.check_has_key(&entry).map_err(|failure| failure.on(&item.name()))?;
            // The reduce sees null where the map returned nothing.
            let row = shown_entry(&entry)?;
            let (_, key) = self.key_of(&ScriptDocument::unstored(row.as_view().to_buf()))?;
            let value = key.as_view().root().get(KEY).map_err(DocumentError::from)?;
            let key = ReduceKey::of([value]).map_err(DocumentError::from)?;
            rows.push(key, row)?;
        }
        Ok(())
    }

    fn reduce<'a>(
        &'a self,
        sample: &Document<'a>,
        items: &[Document<'a>],
        results: &mut Vec<BlittableBuf>,
    ) -> Result<(), MapError> {
        let (key, _) = self.key_of(&ScriptDocument::unstored(sample.to_buf()))?;
        let items: Vec<_> =
            items.iter().map(|item| ScriptDocument::unstored(item.to_buf())).collect();
        let engine = self.map.pool().engine();
        let (budget, mut given) = (self.map.budget(), Vec::new());
        let script = self.map.script();
        let run = script.aggregate(&engine, &key, &items, budget, &mut NoHost, &mut given);
        run.map_err(|error| refused(&error))?;
        for entry in &given {
            results.push(document_of(entry)?);
        }
        Ok(())
    }

    fn key_text(&self, sample: &Document<'_>) -> Result<String, MapError> {
        let (_, key) = self.key_of(&ScriptDocument::unstored(sample.to_buf()))?;
        Ok(key_text(self.key_values(&key.as_view())?).map_err(DocumentError::from)?)
    }

    fn key_json(&self, sample: &Document<'_>) -> Result<Vec<u8>, MapError> {
        let (_, key) = self.key_of(&ScriptDocument::unstored(sample.to_buf()))?;
        Ok(key_json(self.key_values(&key.as_view())?).map_err(DocumentError::from)?)
    }

    fn write_entry(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        self.fields.write(result, entries)
    }
}

fn refused(error: &dyn std::fmt::Display) -> MapError {
    MapError::Document { message: format!("Failed to execute reduce function. Exception: {error}") }
}

/// The output of a function, as it is stored.
pub(super) fn document_of(entry: &IndexEntry) -> Result<BlittableBuf, MapError> {
    let mut builder = builder_of(entry)?;
    builder.finish().map_err(|error| refused(&error))
}

/// The output as a result, where undefined is null.
pub(super) fn shown_entry(entry: &IndexEntry) -> Result<BlittableBuf, MapError> {
    let mut builder = builder_of(entry)?;
    for name in &entry.undefined {
        builder.put(name, None::<&str>);
    }
    builder.finish().map_err(|error| refused(&error))
}

fn builder_of(entry: &IndexEntry) -> Result<ObjectBuilder, MapError> {
    let mut builder = ObjectBuilder::new();
    for field in &entry.fields {
        let FieldValue::Plain(value) = &field.value else {
            let name = &field.name;
            let message = format!("The field '{name}' is spatial, which a reduce does not support");
            return Err(MapError::Document { message });
        };
        value.put_into(&field.name, &mut builder).map_err(|error| refused(&error))?;
    }
    Ok(builder)
}
