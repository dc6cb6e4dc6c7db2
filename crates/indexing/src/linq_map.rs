//! Maps that an application wrote in C#: their outputs become entries.

use std::{cell::Cell, collections::BTreeMap};

use blittable::ObjectBuilder;
use documents::{AttachmentRow, DocumentError, DocumentRow};
use linq::{
    AttachmentInput, Budget, CounterInput, DocumentInput, HostError, Output, SpatialValue,
    Tracking, Value,
};
use model::{
    ArchivedDataProcessingBehavior, CollectionName, DocumentId, FieldStorage, IndexDefinition,
};
use search::{Field, FieldOptions};

use crate::{
    attachment_reading,
    empty_values::EmptyValues,
    entry_writer::EntryWriter,
    error::IndexError,
    index_value::{IndexValue, for_each_value},
    loaded_rows::LoadedRows,
    map_context::MapContext,
    mapper::{Follows, MapError, Mapper, failed_on},
    output_room::OutputRoom,
    reduce::store_output,
    references::References,
    segment_source::SegmentSource,
    source::{SourceItem, SourceKind},
    static_definition::{MIXED_SOURCES, collection_names},
    static_fields::{check_fields, static_field_options},
};

/// A placeholder in a map's fields for those that only documents create.
const CREATED_FIELDS: &str = "_";

/// See the module.
pub(crate) struct LinqMap {
    definition: IndexDefinition,
    maps: Vec<linq::Map>,
    /// Of all maps, without duplicates; empty when one of them maps all documents.
    collections: Vec<CollectionName>,
    referenced: Vec<CollectionName>,
    options: BTreeMap<String, FieldOptions>,
    budget: Budget,
    empty: EmptyValues,
}

impl LinqMap {
    /// Compiles the maps of a definition. What they create for one document may take `memory_bytes_max`.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when a text is not a map, or fields cannot be indexed as
    /// requested.
    pub(crate) fn new(
        definition: &IndexDefinition,
        memory_bytes_max: usize,
    ) -> Result<Self, IndexError> {
        check_fields(definition)?;
        let maps = compile(definition)?;
        let fields = maps.iter().flat_map(linq::Map::fields);
        let mut options = BTreeMap::new();
        for name in fields {
            options.insert(name.to_owned(), static_field_options(definition, name)?);
        }
        let collections = collections_of(&maps)?;
        let referenced = maps.iter().flat_map(linq::Map::referenced_collections);
        let mut referenced = collection_names(referenced)?;
        if !referenced.is_empty() {
            // Without a collection, documents of any may be loaded.
            referenced.push(CollectionName::empty());
        }
        let empty = EmptyValues::of(definition);
        let (definition, budget) = (definition.clone(), Budget::within(memory_bytes_max));
        Ok(Self { definition, maps, collections, referenced, options, budget, empty })
    }

    fn options(&self, field: &str) -> Result<FieldOptions, IndexError> {
        match self.options.get(field) {
            Some(options) => Ok(options.clone()),
            None => static_field_options(&self.definition, field),
        }
    }
}

fn compile(definition: &IndexDefinition) -> Result<Vec<linq::Map>, IndexError> {
    let refused = |error: linq::DefinitionError| IndexError::Definition {
        message: format!("Failed to compile index {}: {error}", definition.name),
    };
    let maps: Vec<_> = definition
        .maps
        .iter()
        .map(|text| linq::Map::compile(text).map_err(refused))
        .collect::<Result<_, _>>()?;
    linq::check_same_maps(&maps).map_err(refused)?;
    for map in &maps {
        if map.source_kind() != maps[0].source_kind() {
            let message = MIXED_SOURCES.to_owned();
            return Err(IndexError::Definition { message });
        }
    }
    Ok(maps)
}

fn collections_of(maps: &[linq::Map]) -> Result<Vec<CollectionName>, IndexError> {
    if maps.iter().any(|map| map.collections().is_empty()) {
        return Ok(Vec::new());
    }
    collection_names(maps.iter().flat_map(|map| map.collections().iter().map(String::as_str)))
}

impl Mapper for LinqMap {
    fn collections(&self) -> &[CollectionName] {
        &self.collections
    }

    fn looks_at(&self) -> Follows<'_> {
        Follows::Collections(&self.referenced)
    }

    fn reads_values(&self) -> bool {
        self.maps.iter().any(linq::Map::loads_compare_exchange)
    }

    fn fields(&self) -> Vec<String> {
        self.options.keys().filter(|name| *name != CREATED_FIELDS).cloned().collect()
    }

    fn has_created_fields(&self) -> bool {
        self.options.contains_key(CREATED_FIELDS)
    }

    fn source_kind(&self) -> SourceKind {
        match self.maps.first().map(linq::Map::source_kind) {
            Some(linq::SourceKind::Counters) => SourceKind::Counters,
            Some(linq::SourceKind::TimeSeries) => SourceKind::TimeSeries,
            Some(linq::SourceKind::Documents) | None => SourceKind::Documents,
        }
    }

    fn archived_documents(&self) -> ArchivedDataProcessingBehavior {
        self.definition.archived_documents()
    }

    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let mut references = References::default();
        let mapped = self.for_each_output(item, context, &mut references, &mut |output| {
            self.write(output, entries)
        });
        entries.note_references(references);
        mapped
    }
}

impl LinqMap {
    /// Calls `each` with the outputs of the maps for an item; what they read is added to
    /// `references`.
    pub(crate) fn for_each_output(
        &self,
        item: &SourceItem<'_>,
        context: MapContext<'_>,
        references: &mut References,
        each: &mut dyn FnMut(&Output<'_, '_>) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let collection = item.collection(context.documents)?;
        for map in &self.maps {
            let is_over = |name: &String| name.eq_ignore_ascii_case(&collection);
            if !map.collections().is_empty() && !map.collections().iter().any(is_over) {
                continue;
            }
            if !item.is_called(map.source().name.as_deref()) {
                continue;
            }
            let (segment, measured);
            let rows = LoadedRows::default();
            let has_failed = Cell::new(false);
            let mut host = MapHost { context, rows: &rows, references, has_failed: &has_failed };
            let mut failure = None;
            let mut take = |output: Output<'_, '_>| {
                if failure.is_none() {
                    failure = each(&output).err();
                    has_failed.set(failure.is_some());
                }
            };
            let evaluated = match item {
                SourceItem::Document(document) => {
                    map.evaluate(&input_of(document)?, &mut host, &self.budget, &mut take)
                }
                SourceItem::Counter(row) => {
                    let counter = CounterInput {
                        document_id: row.lower_document_id(),
                        name: row.name(),
                        value: row.total(),
                    };
                    map.evaluate_counter(&counter, &mut host, &self.budget, &mut take)
                }
                SourceItem::Segment(row) => {
                    segment = SegmentSource::of(row)?;
                    measured = segment.entries();
                    let input = segment.input(&measured);
                    map.evaluate_time_series(&input, &mut host, &self.budget, &mut take)
                }
            };
            if let Some(failure) = failure {
                return Err(failure.on(&item.name()));
            }
            evaluated.map_err(|error| failed_on(&item.name(), &error.to_string()))?;
        }
        Ok(())
    }

    /// What the results of a reduce may take.
    pub(crate) fn room_of_results(&self) -> OutputRoom {
        OutputRoom::up_to(self.budget.memory_bytes_max)
    }

    /// The maps.
    pub(crate) fn maps(&self) -> &[linq::Map] {
        &self.maps
    }
}

fn input_of<'a>(document: &'a DocumentRow<'_>) -> Result<DocumentInput<'a>, DocumentError> {
    Ok(DocumentInput {
        id: document.id(),
        body: document.body()?.root(),
        change_vector: document.change_vector(),
        last_modified_ticks: document.last_modified_ticks(),
    })
}

impl LinqMap {
    fn write(
        &self,
        output: &Output<'_, '_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let keeps_empty = self.empty.missing_as_null || self.empty.keeps_entries;
        // A value without terms, such as an empty array or a point without coordinates, still
        // creates an entry.
        let makes_fields =
            output.fields().any(|(name, value)| name == CREATED_FIELDS || is_spatial(value));
        if output.is_empty() && !makes_fields && !keeps_empty {
            return Ok(());
        }
        entries.begin_entry()?;
        if let Some(factor) = output.boost() {
            entries.boost_entry(factor)?;
        }
        for (name, value) in output.fields() {
            self.write_field(name, value, entries)?;
        }
        match self.source_kind() {
            SourceKind::Documents => Ok(()),
            SourceKind::Counters | SourceKind::TimeSeries => store_output(output, entries),
        }
    }

    fn write_field(
        &self,
        name: &str,
        value: &Value<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        match value {
            Value::Missing if self.empty.missing_as_null && name != CREATED_FIELDS => {
                let field = entries.field(name, self.options(name)?)?;
                add(&field, &Value::Null, entries)
            }
            Value::Missing => Ok(()),
            Value::Field(created) => {
                let mut options = self.options(&created.name)?;
                options.stored |= created.options.stored.unwrap_or_default();
                match created.options.indexing {
                    None | Some(linq::FieldIndexing::Default) => {}
                    Some(linq::FieldIndexing::No) => options.indexing = search::Indexing::No,
                    Some(linq::FieldIndexing::Exact) => options.indexing = search::Indexing::Exact,
                    Some(linq::FieldIndexing::Search | linq::FieldIndexing::Highlighting) => {
                        options.indexing = search::Indexing::Search;
                    }
                }
                let field = entries.field(&created.name, options)?;
                add(&field, &created.value, entries)
            }
            Value::List(list) if name == CREATED_FIELDS => {
                list.items.iter().try_for_each(|item| self.write_field(name, item, entries))
            }
            Value::Boosted(boosted) if is_no_plain_value(name, &boosted.value) => entries
                .with_boost(boosted.factor, |entries| {
                    self.write_field(name, &boosted.value, entries)
                }),
            Value::Spatial(spatial) => self.write_spatial(name, spatial, entries),
            Value::List(list) if list.items.iter().any(is_field_or_spatial) => {
                list.items.iter().try_for_each(|item| self.write_field(name, item, entries))
            }
            value => {
                let field = entries.field(name, self.options(name)?)?;
                add(&field, value, entries)
            }
        }
    }
}

impl LinqMap {
    fn write_spatial(
        &self,
        name: &str,
        value: &SpatialValue<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let mut options = self.options(name)?;
        options.spatial = Some(options.spatial.unwrap_or_default());
        let field = entries.field(name, options)?;
        match value {
            SpatialValue::Point(Some((latitude, longitude))) => {
                entries.add_place(&field, *latitude, *longitude)
            }
            SpatialValue::Shape(Value::Text(text)) => entries.add_shape_text(&field, text.as_str()),
            // Other values are not shapes.
            SpatialValue::Point(None) | SpatialValue::Shape(_) => Ok(()),
        }
    }
}

/// Whether a value, apart from its boost, is more than a plain value of the field of that name.
fn is_no_plain_value(name: &str, value: &Value<'_>) -> bool {
    match value {
        Value::Missing | Value::Field(_) | Value::Spatial(_) => true,
        Value::Boosted(boosted) => is_no_plain_value(name, &boosted.value),
        Value::List(list) => name == CREATED_FIELDS || list.items.iter().any(is_field_or_spatial),
        _ => false,
    }
}

fn is_array(value: &Value<'_>) -> bool {
    match value {
        Value::List(_) | Value::Array(_) | Value::Group(_) => true,
        Value::Boosted(boosted) => is_array(&boosted.value),
        _ => false,
    }
}

fn is_field_or_spatial(value: &Value<'_>) -> bool {
    matches!(value, Value::Field(_)) || is_spatial(value)
}

fn is_spatial(value: &Value<'_>) -> bool {
    matches!(value, Value::Spatial(_))
}

/// Adds a value to a field, and stores it if the field is stored.
fn add(field: &Field, value: &Value<'_>, entries: &mut EntryWriter<'_>) -> Result<(), MapError> {
    let is_alone = !matches!(value, Value::List(_) | Value::Array(_));
    if is_array(value) {
        entries.mark_array(field)?;
    }
    add_terms(field, value, is_alone, entries)?;
    if field.options().stored {
        entries.store(field, &json_of(value)?)?;
    }
    Ok(())
}

fn add_terms(
    field: &Field,
    value: &Value<'_>,
    is_alone: bool,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    // Among words null is not a term; alone it can be searched for.
    let skips_null = field.options().has_words() && !is_alone;
    let mut add = |value: &IndexValue<'_>| match value {
        IndexValue::Null if skips_null => Ok(()),
        value => entries.add(field, value),
    };
    match value {
        Value::Missing => Ok(()),
        Value::ExplicitNull | Value::Null => add(&IndexValue::Null),
        Value::Bool(value) => add(&IndexValue::of_bool(*value)),
        Value::Integer(value) => add(&IndexValue::of_long(*value)),
        Value::Text(text) => add(&IndexValue::of_text(text.as_str().into())),
        Value::Date(date) => add(&IndexValue::of_text(date.index_text().into())),
        Value::OffsetDate(date) => add(&IndexValue::of_text(date.index_text().into())),
        Value::Span(ticks) => add(&IndexValue::of_span(*ticks)),
        Value::List(list) => {
            list.items.iter().try_for_each(|item| add_terms(field, item, false, entries))
        }
        Value::Group(group) => {
            group.items.iter().try_for_each(|item| add_terms(field, item, false, entries))
        }
        Value::Boosted(boosted) => entries.with_boost(boosted.factor, |entries| {
            add_terms(field, &boosted.value, is_alone, entries)
        }),
        Value::Array(array) => {
            let value = blittable::Value::Array(*array);
            add_stored_value(&value, &mut add)
        }
        // The text of an object that the definition creates is analyzed; that of a document's is
        // not.
        Value::Record(_) => {
            let json = String::from_utf8_lossy(&json_of(value)?).into_owned();
            add(&IndexValue::Text(json.into()))
        }
        value => {
            // Other values are indexed by their JSON.
            let document = document_of(value)?;
            match document.as_view().root().get(VALUE).map_err(DocumentError::from)? {
                Some(value) => add_stored_value(&value, &mut add),
                None => Ok(()),
            }
        }
    }
}

fn add_stored_value(
    value: &blittable::Value<'_>,
    add: &mut dyn FnMut(&IndexValue<'_>) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let mut result = Ok(());
    for_each_value(value, &mut |value| {
        if result.is_ok() {
            result = add(&value);
        }
    })
    .map_err(DocumentError::from)?;
    result
}

/// The property under which a value is stored.
const VALUE: &str = "v";

fn document_of(value: &Value<'_>) -> Result<blittable::BlittableBuf, MapError> {
    let mut builder = ObjectBuilder::new();
    linq::put_value(&mut builder, VALUE, value)
        .map_err(|error| MapError::Document { message: error.to_string() })?;
    builder.finish().map_err(|error| MapError::Document { message: error.to_string() })
}

/// A value as it is stored: JSON.
fn json_of(value: &Value<'_>) -> Result<Vec<u8>, MapError> {
    let document = document_of(value)?;
    let mut json = Vec::new();
    if let Some(value) = document.as_view().root().get(VALUE).map_err(DocumentError::from)? {
        blittable::write_json(&value, &mut json).map_err(DocumentError::from)?;
    }
    Ok(json)
}

/// Whether a definition stores the values of a field.
pub fn is_stored(definition: &IndexDefinition, field: &str) -> bool {
    definition.field(field).storage == Some(FieldStorage::Yes)
}

fn attachment_of<'a>(row: &AttachmentRow<'a>) -> AttachmentInput<'a> {
    AttachmentInput {
        name: row.name(),
        content_type: row.content_type(),
        hash: row.hash().to_string(),
        size: row.content_bytes().try_into().unwrap_or(i64::MAX),
    }
}

/// The host of a map: what it can read besides its document, and what it has read.
struct MapHost<'a, 't, 'r> {
    context: MapContext<'t>,
    /// The place for the next loaded document.
    rows: &'a LoadedRows<'t>,
    references: &'r mut References,
    /// Whether an output could not be taken.
    has_failed: &'a Cell<bool>,
}

impl<'a, 't: 'a> linq::Host<'a> for MapHost<'a, 't, '_> {
    fn takes_outputs(&self) -> bool {
        !self.has_failed.get()
    }

    fn load_document(
        &mut self,
        id: &str,
        collection: &str,
        tracking: Tracking,
    ) -> Result<Option<DocumentInput<'a>>, HostError> {
        // A text that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { return Ok(None) };
        if tracking == Tracking::Followed {
            self.references.note_document(id.lower_cased());
        }
        let Some(document) = self.context.load(&id, Some(collection))? else { return Ok(None) };
        let (document, behind) = self.rows.add(document);
        self.rows = behind;
        Ok(Some(input_of(document)?))
    }

    fn counter_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError> {
        // A text that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { return Ok(Vec::new()) };
        let rows = documents::counters_of(self.context.documents, &id)?;
        Ok(rows.map(|row| row.map(|row| row.name())).collect::<Result<_, _>>()?)
    }

    fn time_series_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError> {
        // A text that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { return Ok(Vec::new()) };
        let names = documents::time_series::series_names(self.context.documents, &id)?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    fn attachment(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<AttachmentInput<'a>>, HostError> {
        let found = attachment_reading::attachment(self.context.documents, id, name)?;
        Ok(found.as_ref().map(attachment_of))
    }

    fn attachment_content(&mut self, hash: &str) -> Result<Option<Vec<u8>>, HostError> {
        Ok(attachment_reading::content(self.context.documents, hash)?)
    }

    fn attachments(&mut self, id: &str) -> Result<Vec<AttachmentInput<'a>>, HostError> {
        let found = attachment_reading::attachments(self.context.documents, id)?;
        Ok(found.iter().map(attachment_of).collect())
    }

    fn compare_exchange_value(
        &mut self,
        key: &str,
    ) -> Result<Option<blittable::Value<'a>>, HostError> {
        self.references.note_value(key);
        let Some(values) = self.context.values else { return Ok(None) };
        let Some(entry) = values.get(key)? else { return Ok(None) };
        Ok(entry.object()?)
    }
}
