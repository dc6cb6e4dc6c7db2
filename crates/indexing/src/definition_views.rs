//! A definition seen without an index: what was understood of it, the fields that it gives, and whether
//! other definitions could take it in.

use linq::{NotPlain, PlainMap};
use script::ScriptPool;
use wire::IndexDefinition;

use crate::{
    error::IndexError,
    index_kind::{IndexKind, mapper_of},
    static_definition::is_javascript,
};

/// The fields that a definition gives, as far as they are known without a document.
///
/// # Errors
///
/// [`IndexError::Definition`] when it is none.
pub fn fields_of(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
) -> Result<Vec<String>, IndexError> {
    Ok(mapper_of(&IndexKind::Static(Box::new(definition.clone())), scripts)?.fields())
}

/// A definition in C# with what was understood of it; `None` when it is JavaScript, which is run as it
/// is.
///
/// # Errors
///
/// [`IndexError::Definition`] when it is none.
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

/// The map of a definition that others could take in, or why none can, in words; `None` when there is
/// nothing to say of it.
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
            Err("Cannot merge indexes that give several entries for a document.")
        }
        Err(NotPlain::Other) => Err("Cannot merge indexes of this form."),
    })
}
