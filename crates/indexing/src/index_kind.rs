//! The definition of an index, automatic or static, and its map.

use model::{
    IndexDefinition, IndexFieldOptions, IndexLockMode, IndexPriority, IndexSourceType, IndexState,
    IndexType, NamedEnum as _, SpatialOptions,
};
use script::ScriptPool;

use crate::{
    auto_definition::AutoIndexDefinition,
    auto_map::AutoMap,
    error::IndexError,
    index_change::IndexChange,
    index_files::Owner,
    js_map::JsMap,
    linq_map::LinqMap,
    mapper::Mapper,
    output::OutputTarget,
    reduce::{AutoReduce, JsReduce, LinqReduce},
    static_definition::is_javascript,
};

/// The definition of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKind {
    /// A definition derived from queries.
    Auto(AutoIndexDefinition),
    /// A definition written by an application.
    Static(Box<IndexDefinition>),
}

impl IndexKind {
    /// Whether entries of `other` are valid for this definition.
    pub fn has_the_same_entries_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Auto(own), Self::Auto(other)) => own == other,
            (Self::Static(own), Self::Static(other)) => own.has_the_same_entries_as(other),
            (Self::Auto(_), Self::Static(_)) | (Self::Static(_), Self::Auto(_)) => false,
        }
    }

    /// The name in its definition.
    pub fn name(&self) -> String {
        match self {
            Self::Auto(definition) => definition.name(),
            Self::Static(definition) => definition.name.clone(),
        }
    }

    /// Where its results are written as documents, if anywhere.
    pub(crate) fn output_target(&self) -> Result<Option<OutputTarget>, IndexError> {
        match self {
            Self::Auto(_) => Ok(None),
            Self::Static(definition) => OutputTarget::of(definition),
        }
    }

    /// With the output number that the files were created with.
    pub(crate) fn with_outputs_of(mut self, owner: Option<&Owner>) -> Self {
        if let (Self::Static(definition), Some(Owner::Static(owner))) = (&mut self, owner) {
            definition.reduce_output_index = owner.reduce_output_index;
        }
        self
    }

    /// With the output number of the other.
    pub(crate) fn with_output_number_of(mut self, other: &Self) -> Self {
        if let (Self::Static(definition), Self::Static(other)) = (&mut self, other) {
            definition.reduce_output_index = other.reduce_output_index;
        }
        self
    }

    /// The changes to report when a definition with the same entries replaces it.
    pub(crate) fn changes_to(&self, after: &Self) -> Vec<IndexChange> {
        let (Self::Static(before), Self::Static(after)) = (self, after) else { return Vec::new() };
        let lock = |definition: &IndexDefinition| {
            definition.lock_mode.unwrap_or(IndexLockMode::Unlock).name()
        };
        let priority = |definition: &IndexDefinition| {
            definition.priority.unwrap_or(IndexPriority::Normal).name()
        };
        let is_disabled =
            |definition: &IndexDefinition| definition.state == Some(IndexState::Disabled);
        let changes = [
            (IndexChange::LockModeChanged, lock(before) != lock(after)),
            (IndexChange::PriorityChanged, priority(before) != priority(after)),
            (IndexChange::Disabled, !is_disabled(before) && is_disabled(after)),
        ];
        changes.into_iter().filter(|(_, is_so)| *is_so).map(|(change, _)| change).collect()
    }

    pub(crate) fn is_disabled(&self) -> bool {
        match self {
            Self::Auto(_) => false,
            Self::Static(definition) => definition.state == Some(IndexState::Disabled),
        }
    }
}

/// The definition of an automatic index as the protocol returns it.
pub(crate) fn shown_auto_definition(
    name: &str,
    definition: &AutoIndexDefinition,
) -> IndexDefinition {
    let listed = |parts: Vec<String>| format!("{}:[{}]", definition.collection, parts.join(";"));
    let (names, maps, reduce): (Vec<_>, _, _) = match definition.grouping() {
        None => {
            let names: Vec<_> = definition.fields().iter().map(|field| field.name()).collect();
            let map = names.iter().map(|name| format!("<Name:{name}>")).collect();
            (names, listed(map), None)
        }
        Some(grouping) => {
            let (aggregates, keys) = (grouping.aggregates(), grouping.keys());
            let map = aggregates.iter().map(|aggregate| {
                format!("<Name:{}#Operation:{}>", aggregate.name(), aggregate.operation())
            });
            let reduce = keys.iter().map(|key| format!("<Name:{}>", key.path)).collect();
            let names = aggregates.iter().map(|aggregate| aggregate.name().to_owned());
            let names = names.chain(keys.iter().map(|key| key.path.clone())).collect();
            (names, listed(map.collect()), Some(listed(reduce)))
        }
    };
    let index_type = match reduce {
        None => IndexType::AutoMap,
        Some(_) => IndexType::AutoMapReduce,
    };
    let is_spatial = |name: &str| {
        let mut fields = definition.fields().iter();
        fields.any(|field| field.name() == name && field.is_spatial())
    };
    let fields = names.into_iter().map(|name| {
        let spatial = is_spatial(&name).then(SpatialOptions::default);
        (name, IndexFieldOptions { spatial, ..IndexFieldOptions::default() })
    });
    IndexDefinition {
        name: name.to_owned(),
        index_type: Some(index_type),
        source_type: Some(IndexSourceType::Documents),
        priority: Some(IndexPriority::Normal),
        maps: vec![maps],
        reduce,
        fields: fields.collect(),
        ..IndexDefinition::default()
    }
    .with_defaults()
}

/// The map, and the reduce if there is one.
pub(crate) fn mapper_of(
    kind: &IndexKind,
    scripts: &ScriptPool,
) -> Result<Box<dyn Mapper>, IndexError> {
    match kind {
        IndexKind::Auto(definition) => Ok(match definition.grouping() {
            Some(grouping) => Box::new(AutoReduce::new(&definition.collection, grouping)?),
            None => Box::new(AutoMap::new(definition)?),
        }),
        IndexKind::Static(definition) => static_mapper(definition, scripts),
    }
}

fn static_mapper(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
) -> Result<Box<dyn Mapper>, IndexError> {
    let refused = |what: &str| {
        let message = format!("Failed to compile index {}: {what}", definition.name);
        Err(IndexError::Definition { message })
    };
    if !definition.additional_assemblies.is_empty() {
        return refused("libraries of .NET cannot be used");
    }
    let is_script = definition.maps.iter().any(|map| is_javascript(map));
    if !is_script && !definition.additional_sources.is_empty() {
        return refused("additional sources in C# cannot be used");
    }
    Ok(match (is_script, &definition.reduce) {
        (true, None) => Box::new(JsMap::new(definition, scripts)?),
        (true, Some(_)) => Box::new(JsReduce::new(definition, scripts)?),
        (false, None) => Box::new(LinqMap::new(definition, scripts.memory_bytes_max())?),
        (false, Some(reduce)) => {
            Box::new(LinqReduce::new(definition, reduce, scripts.memory_bytes_max())?)
        }
    })
}
