//! How definitions of static indexes are stored in the files of the indexes.

use model::IndexDefinition;

/// Prints definitions as text and reads them. Indexes whose stored definition is unreadable, or reads as another one,
/// are rebuilt. Invariant: `read` returns what `write` was called with.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionFormat {
    /// Prints a definition. The text does not start with `auto `, which marks automatic indexes.
    pub write: fn(&IndexDefinition) -> String,
    /// Reads it; `None` if the text is not a definition.
    pub read: fn(&str) -> Option<IndexDefinition>,
}
