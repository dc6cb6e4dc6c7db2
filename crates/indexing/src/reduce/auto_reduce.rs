//! The map and the reduce of an automatic index that groups documents.

use std::collections::BTreeMap;

use blittable::{BlittableBuf, Document, Item, ObjectBuilder, Value};
use documents::DocumentError;
use model::CollectionName;
use search::{FieldOptions, Indexing};

use super::{
    MappedRows, Reducer,
    auto_rows::AutoRows,
    auto_sum::Sum,
    entry::EntryFields,
    key::{KeyValues, key_json, key_text},
};
use crate::{
    auto_grouping::AutoGrouping,
    auto_map::{collections_of, exact_field_name, search_field_name},
    entry_writer::EntryWriter,
    error::IndexError,
    map_context::MapContext,
    mapper::{MapError, Mapper},
    source::SourceItem,
};

/// See the module.
pub(crate) struct AutoReduce {
    collections: Vec<CollectionName>,
    rows: AutoRows,
    /// The names of the sums.
    aggregates: Vec<String>,
    fields: EntryFields,
}

impl AutoReduce {
    /// # Errors
    ///
    /// When the definition names no collection, or uses one name twice.
    pub(crate) fn new(collection: &str, grouping: &AutoGrouping) -> Result<Self, IndexError> {
        let collections = collections_of(collection)?;
        let mut known = BTreeMap::new();
        for key in grouping.keys() {
            let name = key.path.clone();
            let mut targets = vec![(name.clone(), FieldOptions::new(Indexing::Default))];
            if key.ways.search || key.ways.highlight {
                targets.push((search_field_name(&name), FieldOptions::new(Indexing::Search)));
            }
            if key.ways.exact {
                targets.push((exact_field_name(&name), FieldOptions::new(Indexing::Exact)));
            }
            known.insert(name, targets);
        }
        for aggregate in grouping.aggregates() {
            let name = aggregate.name().to_owned();
            let targets = vec![(name.clone(), FieldOptions::new(Indexing::Default))];
            if known.insert(name, targets).is_some() {
                let name = aggregate.name();
                let message = format!("'{name}' cannot be both a group key and an aggregate");
                return Err(IndexError::Definition { message });
            }
        }
        let aggregates = grouping.aggregates().iter();
        Ok(Self {
            collections,
            rows: AutoRows::new(grouping),
            aggregates: aggregates.map(|aggregate| aggregate.name().to_owned()).collect(),
            fields: EntryFields::of_targets(known),
        })
    }
}

impl AutoReduce {
    /// The values by which a row is grouped.
    fn key_values<'a>(&self, sample: &Document<'a>) -> Result<KeyValues<'a>, DocumentError> {
        let root = sample.root();
        self.rows.key_names().map(|name| Ok((name.to_owned(), root.get(name)?))).collect()
    }
}

impl Mapper for AutoReduce {
    fn collections(&self) -> &[CollectionName] {
        &self.collections
    }

    fn fields(&self) -> Vec<String> {
        self.fields.names()
    }

    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        let mut rows = MappedRows::default();
        self.map_rows(item, context, &mut rows)?;
        for row in &rows.rows {
            entries.begin_entry()?;
            let row = Document::new(&row.row).map_err(DocumentError::from)?;
            self.fields.write_terms(&row, entries)?;
        }
        Ok(())
    }

    fn reducer(&self) -> Option<&dyn Reducer> {
        Some(self)
    }
}

impl Reducer for AutoReduce {
    fn map_rows<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        _: MapContext<'a>,
        rows: &mut MappedRows,
    ) -> Result<(), MapError> {
        match item.document() {
            Some(document) => self.rows.map(document, rows),
            None => Ok(()),
        }
    }

    fn reduce<'a>(
        &'a self,
        sample: &Document<'a>,
        items: &[Document<'a>],
        results: &mut Vec<BlittableBuf>,
    ) -> Result<(), MapError> {
        let mut builder = ObjectBuilder::new();
        for name in self.rows.key_names() {
            let value = sample.root().get(name).map_err(DocumentError::from)?;
            builder.put(name, Item::Copy(value.unwrap_or(Value::Null)));
        }
        for name in &self.aggregates {
            let mut sum = Sum::ZERO;
            for item in items {
                if let Some(value) = item.root().get(name).map_err(DocumentError::from)? {
                    sum.add(&value).map_err(DocumentError::from)?;
                }
            }
            if let Some(message) = sum.failure(name) {
                return Err(MapError::Document { message });
            }
            sum.put(name, &mut builder);
        }
        let result = builder.finish();
        results.push(result.map_err(|error| MapError::Document { message: error.to_string() })?);
        Ok(())
    }

    fn key_text(&self, sample: &Document<'_>) -> Result<String, MapError> {
        Ok(key_text(self.key_values(sample)?).map_err(DocumentError::from)?)
    }

    fn key_json(&self, sample: &Document<'_>) -> Result<Vec<u8>, MapError> {
        Ok(key_json(self.key_values(sample)?).map_err(DocumentError::from)?)
    }

    fn write_entry(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        self.fields.write(result, entries)
    }
}
