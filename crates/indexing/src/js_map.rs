//! Maps that an application wrote in JavaScript.
//!
//! A definition is compiled once; each thread that runs it has an engine of its own. Which
//! collections a map loads from is known only while it runs, so an index whose maps load documents
//! follows all of them.

use std::collections::BTreeMap;

use blittable::{BlittableBuf, ObjectBuilder};
use documents::{AttachmentRow, CounterRow, DocumentError, DocumentRow};
use model::{
    ArchivedDataProcessingBehavior, CollectionName, DocumentId, FieldIndexing, IndexDefinition,
    NamedEnum as _,
};
use script::{
    Attachment, Budget, DocumentInfo, FieldValue, Host, HostError, IndexEntry, IndexField, MapKind,
    MapScript, ScriptDocument, ScriptPool, ScriptValue,
};
use search::{Field, FieldOptions, Indexing};

use crate::{
    attachment_reading,
    entry_writer::EntryWriter,
    error::IndexError,
    index_value::{IndexValue, for_each_value},
    map_context::MapContext,
    mapper::{Follows, MapError, Mapper, failed_on},
    output_room::OutputRoom,
    reduce::store_script_entry,
    references::References,
    segment_source,
    source::{SourceItem, SourceKind},
    spatial_fields::coordinate_of_text,
    static_definition::{MIXED_SOURCES, collection_names, is_part_of_a_name},
    static_fields::{check_fields, static_field_options},
};

/// The name of all documents in a map.
const ALL_DOCUMENTS: &str = "@all_docs";
/// The function that loads another document.
const LOAD: &str = "load";
/// The function that reads a compare exchange value.
const READ_VALUE: &str = "cmpxchg";
/// The memory of a result relative to its JSON.
const RESULT_FACTOR: u64 = 2;
/// The bytes of attachments that a map may read per document; repeated reads count again.
const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// See the module.
pub(crate) struct JsMap {
    definition: IndexDefinition,
    script: MapScript,
    pool: ScriptPool,
    /// Of all maps, without duplicates; empty when one of them maps all documents.
    collections: Vec<CollectionName>,
    loads: bool,
    reads_values: bool,
    options: BTreeMap<String, FieldOptions>,
}

impl JsMap {
    /// Compiles the maps of a definition.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when a text is not a map, or fields cannot be indexed as
    /// requested.
    pub(crate) fn new(definition: &IndexDefinition, pool: &ScriptPool) -> Result<Self, IndexError> {
        check_fields(definition)?;
        let refused = |what: &dyn std::fmt::Display| IndexError::Definition {
            message: format!("Failed to compile index {}: {what}", definition.name),
        };
        let texts: Vec<&str> = definition.maps.iter().map(String::as_str).collect();
        let sources: Vec<&str> =
            definition.additional_sources.values().map(String::as_str).collect();
        let reduce = definition.reduce.as_deref();
        let script = MapScript::compile(&pool.engine(), &texts, reduce, &sources)
            .map_err(|error| refused(&error))?;
        for map in script.maps() {
            if map.kind != script.maps()[0].kind {
                let message = MIXED_SOURCES.to_owned();
                return Err(IndexError::Definition { message });
            }
        }
        let collections = collections_of(&script)?;
        let mut options = BTreeMap::new();
        for name in script.fields().iter().flat_map(|fields| &fields.names) {
            options.insert(name.to_string(), static_field_options(definition, name)?);
        }
        let may_call = |function: &str| {
            let mut texts = texts.iter().chain(&sources);
            texts.any(|text| mentions(text, function))
        };
        let (loads, reads_values) = (may_call(LOAD), may_call(READ_VALUE));
        let (definition, pool) = (definition.clone(), pool.clone());
        Ok(Self { definition, script, pool, collections, loads, reads_values, options })
    }
}

/// Whether a script mentions a global function, and so may call it, directly or under another name.
/// A member of an object is another function, such as that of `noTracking`.
fn mentions(script: &str, function: &str) -> bool {
    script.match_indices(function).any(|(start, _)| {
        let (before, after) = (&script[..start], &script[start + function.len()..]);
        let is_part = before.ends_with(is_part_of_a_name) || after.starts_with(is_part_of_a_name);
        !is_part && !is_member(before.trim_end())
    })
}

/// Whether what follows this text is a member of an object other than the global one.
fn is_member(before: &str) -> bool {
    match before.strip_suffix('.') {
        Some(object) if object.ends_with("..") => false,
        Some(object) => !object.trim_end_matches('?').trim_end().ends_with("globalThis"),
        None => false,
    }
}

fn collections_of(script: &MapScript) -> Result<Vec<CollectionName>, IndexError> {
    if script.maps().iter().any(|map| map.collection == ALL_DOCUMENTS) {
        return Ok(Vec::new());
    }
    collection_names(script.maps().iter().map(|map| map.collection.as_str()))
}

impl Mapper for JsMap {
    fn collections(&self) -> &[CollectionName] {
        &self.collections
    }

    fn looks_at(&self) -> Follows<'_> {
        if self.loads { Follows::Everything } else { Follows::Collections(&[]) }
    }

    fn reads_values(&self) -> bool {
        self.reads_values
    }

    fn fields(&self) -> Vec<String> {
        self.options.keys().cloned().collect()
    }

    fn has_created_fields(&self) -> bool {
        self.script.fields().iter().any(|fields| fields.has_others)
    }

    fn source_kind(&self) -> SourceKind {
        match self.script.maps().first().map(|map| map.kind) {
            Some(MapKind::Counters) => SourceKind::Counters,
            Some(MapKind::TimeSeries) => SourceKind::TimeSeries,
            Some(MapKind::Documents) | None => SourceKind::Documents,
        }
    }

    fn archived_documents(&self) -> ArchivedDataProcessingBehavior {
        self.definition.archived_documents()
    }

    fn make_ready(&self) {
        self.pool.engine().make_ready();
    }

    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let mut references = References::default();
        let mapped = self.results_of(item, context, &mut references, entries.room());
        entries.note_references(references);
        let written = mapped?.iter().try_for_each(|entry| self.write(entry, entries));
        written.map_err(|failure| failure.on(&item.name()))
    }
}

impl JsMap {
    /// Runs the maps on an item; what they read is added to `references`, and what they return is counted
    /// in `room`.
    pub(crate) fn results_of(
        &self,
        item: &SourceItem<'_>,
        context: MapContext<'_>,
        references: &mut References,
        room: &mut OutputRoom,
    ) -> Result<Vec<IndexEntry>, MapError> {
        let collection = item.collection(context.documents)?;
        let engine = self.pool.engine();
        let given = match item {
            SourceItem::Document(document) => MapArgument::Document(script_document(document)?),
            SourceItem::Counter(row) => MapArgument::Document(script_counter(row)?),
            SourceItem::Segment(row) => MapArgument::Value(segment_source::script_value(row)?),
        };
        let mut results = Vec::new();
        for (number, map) in self.script.maps().iter().enumerate() {
            let is_over_all = map.collection == ALL_DOCUMENTS;
            if !is_over_all && !map.collection.eq_ignore_ascii_case(&collection) {
                continue;
            }
            if !item.is_called(map.name.as_deref()) {
                continue;
            }
            let held_bytes = room.bytes();
            let mut host = MapHost {
                context,
                references,
                content_bytes_left: CONTENT_BYTES_MAX,
                room,
                held_bytes,
                refused: None,
            };
            let budget = self.budget();
            let (script, out) = (&self.script, &mut results);
            let run = match &given {
                MapArgument::Document(given) => {
                    script.map(&engine, number, given, budget, &mut host, out)
                }
                MapArgument::Value(given) => {
                    script.map_value(&engine, number, given, budget, &mut host, out)
                }
            };
            if let Some(refused) = host.refused {
                return Err(refused.on(&item.name()));
            }
            run.map_err(|error| failed_on(&item.name(), &error.to_string()))?;
        }
        Ok(results)
    }

    /// What one run may use.
    pub(crate) fn budget(&self) -> Budget {
        let standard = Budget::default();
        let memory_bytes_max = self.pool.memory_bytes_max() as u64;
        Budget { result_bytes_max: standard.result_bytes_max.min(memory_bytes_max), ..standard }
    }

    /// The maps, and the reduce if there is one.
    pub(crate) fn script(&self) -> &MapScript {
        &self.script
    }

    /// The engines that run them.
    pub(crate) fn pool(&self) -> &ScriptPool {
        &self.pool
    }
}

/// The argument of a map.
enum MapArgument {
    Document(ScriptDocument),
    Value(ScriptValue),
}

fn script_counter(row: &CounterRow<'_>) -> Result<ScriptDocument, MapError> {
    let mut builder = ObjectBuilder::new();
    builder
        .put("DocumentId", row.lower_document_id())
        .put("Name", row.name())
        .put("Value", row.total());
    Ok(ScriptDocument::unstored(builder.finish().map_err(DocumentError::from)?))
}

fn script_document(document: &DocumentRow<'_>) -> Result<ScriptDocument, DocumentError> {
    let info = DocumentInfo {
        id: document.id().into(),
        change_vector: document.change_vector().into(),
        last_modified_ticks: document.last_modified_ticks(),
    };
    Ok(ScriptDocument::new(document.body()?.to_buf(), info))
}

impl JsMap {
    fn write(&self, entry: &IndexEntry, entries: &mut EntryWriter<'_>) -> Result<(), MapError> {
        entries.begin_entry()?;
        if let Some(factor) = entry.boost {
            entries.boost_entry(factor)?;
        }
        let mut has_values = false;
        for field in &entry.fields {
            has_values |= match field.boost {
                None => self.write_field(field, entries)?,
                Some(factor) => {
                    entries.with_boost(factor, |entries| self.write_field(field, entries))?
                }
            };
        }
        // A value without terms, such as an empty array, still creates an entry.
        if !has_values {
            entries.drop_entry();
            return Ok(());
        }
        match self.source_kind() {
            SourceKind::Documents => Ok(()),
            SourceKind::Counters | SourceKind::TimeSeries => store_script_entry(entry, entries),
        }
    }

    /// Returns whether there is a value.
    fn write_field(
        &self,
        given: &IndexField,
        entries: &mut EntryWriter<'_>,
    ) -> Result<bool, MapError> {
        let mut options = self.options_of(given)?;
        let value = match &given.value {
            FieldValue::Plain(value) => value,
            spatial => {
                options.spatial = Some(options.spatial.unwrap_or_default());
                let field = entries.field(&given.name, options)?;
                add_spatial(&field, spatial, entries)?;
                return Ok(true);
            }
        };
        let field = entries.field(&given.name, options)?;
        let document = document_of(value)?;
        let root = document.as_view().root();
        let Some(value) = root.get(VALUE).map_err(DocumentError::from)? else {
            return Ok(false);
        };
        add(&field, &value, entries)?;
        Ok(true)
    }

    /// The options of a field; options set by the script take precedence.
    fn options_of(&self, given: &IndexField) -> Result<FieldOptions, IndexError> {
        let mut options = match self.options.get(&*given.name) {
            Some(options) => options.clone(),
            None => static_field_options(&self.definition, &given.name)?,
        };
        let Some(inline) = &given.options else { return Ok(options) };
        options.stored = inline.storage.unwrap_or(options.stored);
        match inline.indexing.as_deref().and_then(FieldIndexing::named) {
            None | Some(FieldIndexing::Default) => {}
            Some(FieldIndexing::No) => options.indexing = Indexing::No,
            Some(FieldIndexing::Exact) => options.indexing = Indexing::Exact,
            Some(FieldIndexing::Search) => options.indexing = Indexing::Search,
        }
        Ok(options)
    }
}

/// The property under which a value is stored.
const VALUE: &str = "v";

fn document_of(value: &ScriptValue) -> Result<BlittableBuf, MapError> {
    let refused = |error: &dyn std::fmt::Display| MapError::Document { message: error.to_string() };
    let mut builder = ObjectBuilder::new();
    value.put_into(VALUE, &mut builder).map_err(|error| refused(&error))?;
    builder.finish().map_err(|error| refused(&error))
}

/// Adds a value to a field, and stores it if the field is stored.
pub(crate) fn add(
    field: &Field,
    value: &blittable::Value<'_>,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    // Among words null is not a term; alone it can be searched for.
    let is_array = value.as_array().is_some();
    if is_array {
        entries.mark_array(field)?;
    }
    let skips_null = field.options().has_words() && is_array;
    let mut result = Ok(());
    for_each_value(value, &mut |value| {
        let is_skipped = skips_null && value == IndexValue::Null;
        if result.is_ok() && !is_skipped {
            result = entries.add(field, &value);
        }
    })
    .map_err(DocumentError::from)?;
    result?;
    if field.options().stored {
        let mut json = Vec::new();
        blittable::write_json(value, &mut json).map_err(DocumentError::from)?;
        entries.store(field, &json)?;
    }
    Ok(())
}

/// Adds a point or a shape.
fn add_spatial(
    field: &Field,
    value: &FieldValue,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    let failed = |message| MapError::Document { message };
    match value {
        FieldValue::Plain(_) => Ok(()),
        FieldValue::Shape(text) => entries.add_shape_text(field, text),
        FieldValue::Point(latitude, longitude) => {
            let latitude = coordinate(latitude).map_err(failed)?;
            entries.add_place(field, latitude, coordinate(longitude).map_err(failed)?)
        }
    }
}

/// The number that a script's value represents.
fn coordinate(value: &ScriptValue) -> Result<f64, String> {
    match value {
        ScriptValue::String(text) => coordinate_of_text(text),
        value => value.as_f64().ok_or_else(|| {
            "System.InvalidCastException: Unable to cast a coordinate to type \
             'System.IConvertible'."
                .to_owned()
        }),
    }
}

/// The host of a map: what it can read besides its document, and what it has read.
struct MapHost<'a, 'r> {
    context: MapContext<'a>,
    references: &'r mut References,
    content_bytes_left: u64,
    room: &'r mut OutputRoom,
    /// What the room holds of earlier results.
    held_bytes: u64,
    /// Why there was no room.
    refused: Option<MapError>,
}

impl MapHost<'_, '_> {
    fn document(
        &self,
        id: &DocumentId,
        collection: Option<&str>,
    ) -> Result<Option<ScriptDocument>, HostError> {
        let document = self.context.load(id, collection)?;
        Ok(document.as_ref().map(script_document).transpose()?)
    }
}

fn attachment_of(row: &AttachmentRow<'_>) -> Attachment {
    Attachment {
        name: row.name().to_owned(),
        content_type: row.content_type().to_owned(),
        hash: row.hash().to_string(),
        content_bytes: row.content_bytes(),
    }
}

impl Host for MapHost<'_, '_> {
    fn hold_result(&mut self, bytes: u64) -> Result<(), HostError> {
        let bytes = bytes.saturating_mul(RESULT_FACTOR).saturating_add(self.held_bytes);
        self.room.grow_to(bytes).map_err(|refused| {
            let message = refused.to_string();
            self.refused = Some(refused);
            message.into()
        })
    }

    fn load(
        &mut self,
        id: &str,
        collection: Option<&str>,
    ) -> Result<Option<ScriptDocument>, HostError> {
        // A text that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { return Ok(None) };
        self.references.note_document(id.lower_cased());
        self.document(&id, collection)
    }

    fn load_untracked(
        &mut self,
        id: &str,
        collection: &str,
    ) -> Result<Option<ScriptDocument>, HostError> {
        let Ok(id) = DocumentId::new(id) else { return Ok(None) };
        self.document(&id, Some(collection))
    }

    fn attachment(&mut self, id: &str, name: &str) -> Result<Option<Attachment>, HostError> {
        let found = attachment_reading::attachment(self.context.documents, id, name)?;
        Ok(found.as_ref().map(attachment_of))
    }

    fn attachments(&mut self, id: &str) -> Result<Vec<Attachment>, HostError> {
        let found = attachment_reading::attachments(self.context.documents, id)?;
        Ok(found.iter().map(attachment_of).collect())
    }

    fn attachment_content(&mut self, attachment: &Attachment) -> Result<Vec<u8>, HostError> {
        let left = self.content_bytes_left.checked_sub(attachment.content_bytes);
        self.content_bytes_left =
            left.ok_or("the map reads more bytes of attachments than allowed")?;
        let content = attachment_reading::content(self.context.documents, &attachment.hash)?;
        content.ok_or_else(|| "the content of an attachment is gone".into())
    }

    fn compare_exchange(&mut self, key: &str) -> Result<Option<BlittableBuf>, HostError> {
        self.references.note_value(key);
        let Some(values) = self.context.values else { return Ok(None) };
        Ok(values.get(key)?.map(|entry| entry.value.to_buf()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_may_load_follows_documents() {
        for (text, expected) in [
            ("load(u.Company, 'Companies').Name", true),
            ("load (u.Company, 'Companies').Name", true),
            ("[...load(u.Company, 'Companies').Names]", true),
            ("(find => find(u.Company, 'Companies'))(load)", true),
            ("globalThis.load(u.Company, 'Companies')", true),
            ("globalThis\n  ?. load(u.Company, 'Companies')", true),
            ("noTracking.load(u.Company, 'Companies').Name", false),
            ("noTracking\n  .load(u.Company, 'Companies').Name", false),
            ("noTracking.load(u.A, 'As').N + load(u.B, 'Bs').N", true),
            ("reload(u.Company, 'Companies')", false),
            ("load2(u.Company, 'Companies') + $load", false),
            ("u.load", false),
            ("u?.load", false),
            ("u.Load", false),
        ] {
            assert_eq!(mentions(text, LOAD), expected, "{text}");
        }
    }
}
