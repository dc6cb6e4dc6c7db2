//! The outputs that a definition declares.

use blittable::{BlittableBuf, Document, Edit, Item, modify};
use model::{CollectionName, DocumentId, IndexDefinition};

use super::{
    format::{KeyOutputs, Reference, Sweep},
    output_id::OutputId,
    pattern::Pattern,
};
use crate::{error::IndexError, reduce::ReduceKey};

/// The suffix of a collection of outputs that names the collection of the documents that reference
/// them.
const REFERENCES: &str = "/References";

/// Where the results of an index are written as documents.
pub(crate) struct OutputTarget {
    collection: CollectionName,
    /// The number that distinguishes its outputs from those of earlier definitions.
    number: u64,
    references: Option<References>,
}

struct References {
    pattern: Pattern,
    collection: CollectionName,
}

/// The documents for the results of a key.
pub(super) struct KeyPlan {
    pub(super) key: ReduceKey,
    /// The documents of its results, in order.
    pub(super) bodies: Vec<BlittableBuf>,
    /// The references to them.
    pub(super) references: Vec<Reference>,
}

impl OutputTarget {
    /// The target of a definition, if it has a reduce and names one.
    ///
    /// # Errors
    ///
    /// [`IndexError::Invalid`] when collections or pattern cannot be used.
    pub(crate) fn of(definition: &IndexDefinition) -> Result<Option<Self>, IndexError> {
        let named = |text: &Option<String>| {
            text.as_deref().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        };
        let collection = named(&definition.output_reduce_to_collection);
        let Some(collection) = collection.filter(|_| definition.has_output()) else {
            return Ok(None);
        };
        let pattern = named(&definition.pattern_for_output_reduce_to_collection_references);
        let references = match pattern {
            None => None,
            Some(pattern) => {
                let pattern = Pattern::parse(&pattern)?;
                let own = named(&definition.pattern_references_collection_name);
                if own.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(&collection)) {
                    let message = format!(
                        "Collection defined in PatternReferencesCollectionName must not be the same \
                         as in OutputReduceToCollection. Collection name: '{collection}'"
                    );
                    return Err(IndexError::Invalid { message });
                }
                let name = own.unwrap_or_else(|| format!("{collection}{REFERENCES}"));
                Some(References { pattern, collection: collection_named(name)? })
            }
        };
        let number = definition.reduce_output_index.unwrap_or_default().cast_unsigned();
        Ok(Some(Self { collection: collection_named(collection)?, number, references }))
    }

    /// The collection of its outputs.
    pub(crate) fn collection(&self) -> &CollectionName {
        &self.collection
    }

    /// The collection of the documents that reference outputs, if there is one.
    pub(crate) fn references(&self) -> Option<&CollectionName> {
        self.references.as_ref().map(|references| &references.collection)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The sweep that deletes its outputs, except those recorded by the index of this number.
    pub(crate) fn sweep_before(&self, number: u64) -> Sweep {
        let (collection, references) = (self.collection.clone(), self.references().cloned());
        Sweep { number, collection, references }
    }

    /// These sweeps, and the same ones among the documents that reference its own outputs: a
    /// document that referenced other outputs keeps doing so when it moves to another collection.
    pub(crate) fn also_where_it_refers(&self, mut sweeps: Vec<Sweep>) -> Vec<Sweep> {
        let moved = sweeps
            .iter()
            .map(|sweep| Sweep { references: self.references().cloned(), ..sweep.clone() });
        let moved: Vec<_> = moved.filter(|sweep| sweep.references.is_some()).collect();
        sweeps.extend(moved);
        sweeps
    }

    /// The id of the output at this position among those of its key.
    pub(super) fn id(&self, key: ReduceKey, place: u32) -> String {
        OutputId { number: self.number, key, place }.text(&self.collection)
    }

    /// The documents to write for the results of a key. Also returns why a result is not
    /// referenced.
    pub(crate) fn outputs_of(
        &self,
        results: &[Document<'_>],
        mut failed: impl FnMut(String),
    ) -> Result<KeyOutputs, IndexError> {
        let count = u32::try_from(results.len()).unwrap_or(u32::MAX);
        let mut outputs = KeyOutputs { count, references: Vec::new() };
        let Some(References { pattern, .. }) = &self.references else { return Ok(outputs) };
        for (place, result) in (0..count).zip(results) {
            match pattern.id_of(result)? {
                Ok(id) => outputs.references.push(Reference { place, id }),
                Err(message) => failed(message),
            }
        }
        outputs.references.sort_unstable();
        Ok(outputs)
    }

    /// The document of a result; `Err` says why there is none.
    pub(super) fn body(&self, result: &Document<'_>) -> Result<BlittableBuf, String> {
        let collection = Item::String(self.collection.as_str());
        let edits = [
            Edit::Remove { path: &["@metadata"] },
            Edit::Set { path: &["@metadata", "@collection"], item: collection },
        ];
        modify(result, &edits).map_err(|error| error.to_string())
    }
}

fn collection_named(name: String) -> Result<CollectionName, IndexError> {
    let named = CollectionName::new(name);
    named.map_err(|error| IndexError::Invalid { message: error.to_string() })
}

/// The generated id, if it is valid.
pub(super) fn document_id(text: &str) -> Result<DocumentId, String> {
    DocumentId::new(text).map_err(|error| error.to_string())
}
