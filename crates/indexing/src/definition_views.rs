//! Views of a definition that need no index: its compiled form, its fields, and whether it can be
//! merged with others.

use linq::{NotPlain, PlainMap};
use model::IndexDefinition;
use script::ScriptPool;

use crate::{
    error::IndexError,
    index_kind::{IndexKind, mapper_of},
    static_definition::is_javascript,
};

/// The fields of a definition that are known without a document.
///
/// # Errors
///
/// [`IndexError::Definition`] when it is invalid.
pub fn fields_of(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
) -> Result<Vec<String>, IndexError> {
    Ok(mapper_of(&IndexKind::Static(Box::new(definition.clone())), scripts)?.fields())
}

/// A C# definition as it was compiled; `None` when it is JavaScript, which is run as written.
///
/// # Errors
///
/// [`IndexError::Definition`] when it is invalid.
pub fn source_of(definition: &IndexDefinition) -> Result<Option<String>, IndexError> {
    if definition.maps.iter().any(|map| is_javascript(map)) {
        return Ok(None);
    }
    let refused = |error: linq::DefinitionError| IndexError::Definition {
        message: format!("Failed to compile index {}: {error}", definition.name),
    };
    let mut parts = Vec::new();
    for text in &definition.maps {
        let map = linq::Map::compile(text).map_err(refused)?;
        let collections = match map.collections() {
            [] => "all collections".to_owned(),
            names => names.join(", "),
        };
        let fields = map.fields().collect::<Vec<_>>().join(", ");
        let mut about = format!("// map of {collections}; fields: {fields}");
        let loaded = map.referenced_collections();
        if !loaded.is_empty() {
            about.push_str(&format!("; follows: {}", loaded.join(", ")));
        }
        parts.push(format!("{about}\n{}", text.trim()));
    }
    if let Some(text) = &definition.reduce {
        let reduce = linq::Reduce::compile(text).map_err(refused)?;
        let keys = match reduce.group_by() {
            [] => "nothing".to_owned(),
            keys => keys.join(", "),
        };
        let fields = reduce.fields().collect::<Vec<_>>().join(", ");
        parts.push(format!("// reduce by {keys}; fields: {fields}\n{}", text.trim()));
    }
    Ok(Some(parts.join("\n\n")))
}

/// The map of a definition that can be merged with others, or the reason why it cannot; `None` when
/// merging does not apply.
pub fn plain_map_of(definition: &IndexDefinition) -> Option<Result<PlainMap, &'static str>> {
    if definition.maps.iter().any(|map| is_javascript(map)) {
        return None;
    }
    if definition.reduce.is_some() {
        return Some(Err("Cannot merge map/reduce indexes."));
    }
    let [map] = definition.maps.as_slice() else {
        return Some(Err("Cannot merge multi map indexes."));
    };
    Some(match PlainMap::of(map).ok()? {
        Ok(map) => Ok(map),
        Err(NotPlain::Where) => Err("Cannot merge indexes that have a where clause."),
        Err(NotPlain::Let) => Err("Cannot merge indexes that are using a let clause."),
        Err(NotPlain::SeveralFroms) => {
            Err("Cannot merge indexes that create several entries for a document.")
        }
        Err(NotPlain::Other) => Err("Cannot merge indexes of this form."),
    })
}
