//! The map of an automatic index: one entry for each document of a collection, with the values that
//! the paths of its fields find.

use blittable::Value;
use documents::{DocumentRow, FieldPath, FieldStep, Found};
use model::{CollectionName, date};
use search::{Field, FieldOptions, Indexing, SpatialLayout};

use crate::{
    auto_definition::{AutoField, AutoFieldSource, AutoIndexDefinition},
    entry_writer::EntryWriter,
    error::IndexError,
    index_value::{IndexValue, for_each_value},
    map_context::MapContext,
    mapper::{MapError, Mapper, failed_on},
    source::SourceItem,
    spatial_fields::{coordinate_of, for_each_text},
};

const ALL_DOCUMENTS: &str = "@all_docs";

/// The name of the index field that has a field's analyzed words.
pub fn search_field_name(field: &str) -> String {
    format!("search({field})")
}

/// The name of the index field that has a field as one unanalyzed term.
pub fn exact_field_name(field: &str) -> String {
    format!("exact({field})")
}

/// See the module.
pub(crate) struct AutoMap {
    collections: Vec<CollectionName>,
    fields: Vec<MappedField>,
    places: Vec<MappedPlace>,
}

/// A spatial field, and the paths of its values.
struct MappedPlace {
    name: String,
    /// The latitude and the longitude, or the text of a shape.
    paths: Vec<FieldPath>,
}

/// A path, and the index fields of its values.
struct MappedField {
    path: FieldPath,
    targets: Vec<(String, FieldOptions)>,
}

impl AutoMap {
    /// # Errors
    ///
    /// When the definition names no collection.
    pub(crate) fn new(definition: &AutoIndexDefinition) -> Result<Self, IndexError> {
        let collections = collections_of(&definition.collection)?;
        let fields = definition.fields().iter().filter_map(mapped).collect();
        let places = definition.fields().iter().filter_map(mapped_place).collect();
        Ok(Self { collections, fields, places })
    }
}

/// The collections of the map; empty for all documents.
pub(crate) fn collections_of(collection: &str) -> Result<Vec<CollectionName>, IndexError> {
    if collection == ALL_DOCUMENTS {
        return Ok(Vec::new());
    }
    let name = CollectionName::new(collection);
    Ok(vec![name.map_err(|error| IndexError::Definition { message: error.to_string() })?])
}

fn mapped_place(field: &AutoField) -> Option<MappedPlace> {
    let paths = match &field.source {
        AutoFieldSource::Path { .. } => return None,
        AutoFieldSource::Point { latitude, longitude } => vec![latitude, longitude],
        AutoFieldSource::Shape { path } => vec![path],
    };
    let paths = paths.into_iter().map(|path| FieldPath::parse(path)).collect();
    Some(MappedPlace { name: field.name(), paths })
}

fn mapped(field: &AutoField) -> Option<MappedField> {
    let AutoFieldSource::Path { path, is_quoted } = &field.source else { return None };
    let name = field.name();
    let mut targets = vec![(
        name.clone(),
        FieldOptions { suggestions: field.ways.suggest, ..FieldOptions::new(Indexing::Default) },
    )];
    if field.ways.search || field.ways.highlight {
        let stored = field.ways.highlight;
        let options = FieldOptions { stored, ..FieldOptions::new(Indexing::Search) };
        targets.push((search_field_name(&name), options));
    }
    if field.ways.exact {
        targets.push((exact_field_name(&name), FieldOptions::new(Indexing::Exact)));
    }
    let path = match is_quoted {
        true => FieldPath::new(vec![FieldStep::Member(path.clone())]),
        false => FieldPath::parse(path),
    };
    Some(MappedField { path, targets })
}

impl Mapper for AutoMap {
    fn collections(&self) -> &[CollectionName] {
        &self.collections
    }

    fn fields(&self) -> Vec<String> {
        let targets = self.fields.iter().flat_map(|field| &field.targets);
        let places = self.places.iter().map(|place| &place.name);
        targets.map(|(name, _)| name).chain(places).cloned().collect()
    }

    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        _: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let Some(document) = item.document() else { return Ok(()) };
        entries.begin_entry()?;
        for field in &self.fields {
            let (values, is_list) = values_of(document, &field.path)?;
            if values.is_empty() && !is_list {
                continue;
            }
            for (name, options) in &field.targets {
                let target = entries.field(name, options.clone())?;
                if is_list {
                    entries.mark_array(&target)?;
                }
                add_all(entries, &target, &values, is_list)?;
            }
        }
        self.places.iter().try_for_each(|place| place.add(document, entries))
    }
}

impl MappedPlace {
    fn add(
        &self,
        document: &DocumentRow<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let failed = |message: String| failed_on(document.id(), &message);
        let root = document.body()?.root();
        let found = |path: &FieldPath| path.find(root).map_err(documents::DocumentError::from);
        let options = FieldOptions {
            spatial: Some(SpatialLayout::default()),
            ..FieldOptions::new(Indexing::Default)
        };
        match self.paths.as_slice() {
            [latitude, longitude] => {
                let latitude = coordinate(&found(latitude)?).map_err(failed)?;
                let longitude = coordinate(&found(longitude)?).map_err(failed)?;
                if let Some((latitude, longitude)) = latitude.zip(longitude) {
                    let field = entries.field(&self.name, options)?;
                    entries
                        .add_place(&field, latitude, longitude)
                        .map_err(|failure| failure.on(document.id()))?;
                }
            }
            paths => {
                for path in paths {
                    let mut texts = Vec::new();
                    collect_texts(&found(path)?, &mut texts)
                        .map_err(documents::DocumentError::from)?;
                    for text in texts {
                        let field = entries.field(&self.name, options.clone())?;
                        entries
                            .add_shape_text(&field, &text)
                            .map_err(|failure| failure.on(document.id()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The coordinate at a path.
fn coordinate(found: &Found<'_>) -> Result<Option<f64>, String> {
    match found {
        Found::Missing => Ok(None),
        Found::One(value) => coordinate_of(value),
        Found::Length(length) => Ok(Some(*length as f64)),
        Found::List(_) => Err("System.InvalidCastException: Unable to cast an array to type \
                               'System.IConvertible'."
            .to_owned()),
    }
}

/// The strings at a path; other values are not shapes.
fn collect_texts(found: &Found<'_>, texts: &mut Vec<String>) -> Result<(), blittable::Corrupt> {
    match found {
        Found::Missing | Found::Length(_) => Ok(()),
        Found::List(list) => list.iter().try_for_each(|found| collect_texts(found, texts)),
        Found::One(value) => for_each_text(value, &mut |text| texts.push(text.to_owned())),
    }
}

fn add_all(
    entries: &mut EntryWriter<'_>,
    field: &Field,
    values: &[IndexValue<'_>],
    is_list: bool,
) -> Result<(), MapError> {
    let has_words = field.options().has_words();
    for value in values {
        // Among words null is not a term; alone it can be searched for.
        if has_words && is_list && *value == IndexValue::Null {
            continue;
        }
        entries.add(field, value)?;
    }
    if field.options().stored {
        let texts: Vec<&str> = values.iter().filter_map(text_of).collect();
        entries.store(field, texts.join(" ").as_bytes())?;
    }
    Ok(())
}

fn text_of<'v>(value: &'v IndexValue<'_>) -> Option<&'v str> {
    match value {
        IndexValue::Null => None,
        IndexValue::Word(word) => Some(word),
        IndexValue::Object(json) => Some(json),
        IndexValue::Text(text)
        | IndexValue::Number { text, .. }
        | IndexValue::Time { text, .. } => Some(text),
    }
}

/// The values at a path of a document, including its metadata as the server returns it; and whether
/// they are elements of an array.
fn values_of<'d>(
    document: &'d DocumentRow<'_>,
    path: &FieldPath,
) -> Result<(Vec<IndexValue<'d>>, bool), IndexError> {
    let mut values = Vec::new();
    if let Some(value) = kept_metadata(document, path)? {
        values.push(value);
        return Ok((values, false));
    }
    let found = path.find(document.body()?.root()).map_err(documents::DocumentError::from)?;
    collect(&found, &mut values).map_err(documents::DocumentError::from)?;
    let is_list = matches!(found, Found::List(_) | Found::One(Value::Array(_)));
    Ok((values, is_list))
}

/// The stored metadata next to the body.
pub(crate) fn kept_metadata<'d>(
    document: &'d DocumentRow<'_>,
    path: &FieldPath,
) -> Result<Option<IndexValue<'d>>, IndexError> {
    let [FieldStep::Member(first), FieldStep::Member(name)] = path.steps() else { return Ok(None) };
    if first != "@metadata" {
        return Ok(None);
    }
    Ok(match name.as_str() {
        "@last-modified" => {
            let text = date::format(document.last_modified_ticks());
            Some(IndexValue::of_text(text.into()))
        }
        "@id" => Some(IndexValue::Text(document.id().into())),
        "@change-vector" => Some(IndexValue::Text(document.change_vector().into())),
        "@collection" => Some(IndexValue::Text(document.collection()?)),
        _ => None,
    })
}

fn collect<'d>(
    found: &Found<'d>,
    values: &mut Vec<IndexValue<'d>>,
) -> Result<(), blittable::Corrupt> {
    match found {
        Found::Missing => Ok(()),
        Found::One(value) => for_each_value(value, &mut |value| values.push(value)),
        Found::List(list) => list.iter().try_for_each(|found| collect(found, values)),
        Found::Length(length) => {
            let value = Value::Integer(i64::try_from(*length).unwrap_or(i64::MAX));
            for_each_value(&value, &mut |value| values.push(value))
        }
    }
}
