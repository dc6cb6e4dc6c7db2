//! An index in memory over a few documents, for somebody who writes a definition and wants to ask it.
//!
//! It belongs to no set and writes nothing but its own entries: no outputs of a reduce, no files.

use std::sync::Arc;

use platform::{Platform, memory::MemoryDisk};
use storage::EnvironmentOptions;
use wire::IndexDefinition;

use crate::{
    error::IndexError,
    index::{Index, IndexContext, IndexParts},
    index_files::{Beginning, IndexFiles},
    index_kind::{IndexKind, mapper_of},
    index_set::IndexSet,
};

/// What its entries may take in memory before they are too many.
const UNFLUSHED_BYTES_MAX: u64 = 64 << 20;
const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// The root of its own disk has nothing else.
const DIRECTORY: &str = "/trial";

impl IndexSet {
    /// Begins an index of this definition over the oldest `items_max` items of each collection. It takes
    /// turns like all others, is not listed, and is gone when it is dropped.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when nothing can be indexed that way; others when there is no memory for
    /// it, or documents cannot be read.
    pub fn begin_trial(
        &self,
        definition: &IndexDefinition,
        items_max: usize,
    ) -> Result<Index, IndexError> {
        let kind = IndexKind::Static(Box::new(IndexDefinition {
            state: None,
            priority: None,
            output_reduce_to_collection: None,
            pattern_for_output_reduce_to_collection_references: None,
            pattern_references_collection_name: None,
            ..definition.clone()
        }));
        let context = &self.context;
        let mapper = mapper_of(&kind, &context.scripts)?;
        let platform = Platform { disk: Arc::new(MemoryDisk::new()), ..context.platform.clone() };
        let environment = EnvironmentOptions {
            directory: DIRECTORY.into(),
            unflushed_bytes_max: UNFLUSHED_BYTES_MAX,
            journal_bytes_max: JOURNAL_BYTES_MAX,
            ..context.environment.clone()
        };
        let beginning = Beginning::at_end_of(&context.documents.read())?;
        let files = IndexFiles::begin(&platform, environment.clone(), &kind, &beginning)?;
        let parts = IndexParts {
            name: definition.name.clone(),
            kind,
            files,
            on_event: Box::new(|_, _| ()),
            items_max: Some(items_max),
        };
        let context = IndexContext {
            platform,
            documents: Arc::clone(&context.documents),
            values: context.values.clone(),
            environment,
            scripts: context.scripts.clone(),
            pool: context.pool.clone(),
            outputs: Arc::clone(&context.outputs),
        };
        let index = Index::start(parts, mapper, context)?;
        index.notice_changes();
        Ok(index)
    }
}
