//! How the fields of a static index are indexed.

use model::{FieldIndexing, FieldStorage, IndexDefinition};
use search::{FieldOptions, Indexing, analysis::Analyzer};

use crate::{error::IndexError, spatial_fields::layout_of};

/// The options of the field of that name.
///
/// # Errors
///
/// [`IndexError::Definition`] when its analyzer is unknown.
pub fn static_field_options(
    definition: &IndexDefinition,
    name: &str,
) -> Result<FieldOptions, IndexError> {
    let wanted = definition.field(name);
    let analyzer = match &wanted.analyzer {
        None => None,
        Some(analyzer) => {
            Some(Analyzer::by_name(analyzer).map_err(|_| IndexError::Definition {
                message: format!("Cannot find analyzer type '{analyzer}' for field: {name}"),
            })?)
        }
    };
    Ok(FieldOptions {
        indexing: match wanted.indexing {
            None | Some(FieldIndexing::Default) => Indexing::Default,
            Some(FieldIndexing::Exact) => Indexing::Exact,
            Some(FieldIndexing::Search) => Indexing::Search,
            Some(FieldIndexing::No) => Indexing::No,
        },
        analyzer,
        stored: wanted.storage == Some(FieldStorage::Yes),
        suggestions: wanted.suggestions.unwrap_or_default(),
        spatial: wanted.spatial.map(|options| layout_of(name, &options)).transpose()?,
    })
}

/// Rejects a definition whose fields cannot be indexed as it says.
pub(crate) fn check_fields(definition: &IndexDefinition) -> Result<(), IndexError> {
    definition.fields.keys().try_for_each(|name| static_field_options(definition, name).map(drop))
}
