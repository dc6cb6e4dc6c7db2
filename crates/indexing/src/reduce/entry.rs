//! A result as an entry: its properties are indexed, and the whole result is stored.

use std::collections::BTreeMap;

use blittable::Document;
use documents::DocumentError;
use model::IndexDefinition;
use search::{FieldOptions, Indexing};

use crate::{
    entry_writer::EntryWriter, error::IndexError, js_map::add, mapper::MapError,
    static_fields::static_field_options,
};

/// The field that stores the result; it has no terms.
pub const RESULT_FIELD: &str = "@result";

/// Stores a result in the current entry.
pub(super) fn store_result(
    result: &Document<'_>,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    let options = FieldOptions { stored: true, ..FieldOptions::new(Indexing::No) };
    let field = entries.field(RESULT_FIELD, options)?;
    entries.store(&field, result.as_bytes())
}

/// The index fields of a property.
type Targets = Vec<(String, FieldOptions)>;

/// The index fields of a result's properties.
pub(super) struct EntryFields {
    /// By property.
    known: BTreeMap<String, Targets>,
    /// How unknown properties are indexed; without a definition they are not.
    definition: Option<IndexDefinition>,
}

impl EntryFields {
    /// Those of a definition whose reduce returns these properties, and perhaps others.
    pub(super) fn of_definition<'n>(
        definition: &IndexDefinition,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, IndexError> {
        if let Some((name, _)) = definition.fields.iter().find(|(_, field)| field.spatial.is_some())
        {
            let index = &definition.name;
            let message = format!(
                "Failed to compile index {index}: spatial fields ('{name}') of a reduce are not \
                 supported yet"
            );
            return Err(IndexError::Definition { message });
        }
        let mut known = BTreeMap::new();
        for name in names {
            let options = static_field_options(definition, name)?;
            known.insert(name.to_owned(), vec![(name.to_owned(), options)]);
        }
        Ok(Self { known, definition: Some(definition.clone()) })
    }

    /// These and no others.
    pub(super) fn of_targets(known: BTreeMap<String, Targets>) -> Self {
        Self { known, definition: None }
    }

    /// The fields that are known without a result.
    pub(super) fn names(&self) -> Vec<String> {
        self.known.values().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Adds a result to the current entry.
    pub(super) fn write(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        self.write_terms(result, entries)?;
        store_result(result, entries)
    }

    /// Adds the terms of a result.
    pub(super) fn write_terms(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        for property in result.root().iter() {
            let (name, value) = property.map_err(DocumentError::from)?;
            let of_unknown;
            let targets = match (self.known.get(name), &self.definition) {
                (Some(targets), _) => targets,
                (None, Some(definition)) => {
                    let options = static_field_options(definition, name)?;
                    of_unknown = vec![(name.to_owned(), options)];
                    &of_unknown
                }
                (None, None) => continue,
            };
            for (field, options) in targets {
                let field = entries.field(field, options.clone())?;
                add(&field, &value, entries)?;
            }
        }
        Ok(())
    }
}
