//! Automatic definitions as stored in a database record.

use std::collections::BTreeMap;

use model::{AutoIndexFieldShape, AutoIndexShape, AutoSpatialShape, IndexType};

use crate::{
    auto_definition::{AutoField, AutoFieldSource, AutoFieldWays, AutoIndexDefinition},
    auto_grouping::{Aggregate, ArrayGroups, AutoGrouping, GroupKey},
};

const POINT: &str = "Point";
const SHAPE: &str = "Wkt";
/// The flag of a way of indexing.
type Flag = fn(&mut AutoFieldWays) -> &mut bool;

/// The names of the ways of indexing.
const WAYS: [(&str, Flag); 3] = [
    ("Search", |ways| &mut ways.search),
    ("Exact", |ways| &mut ways.exact),
    ("Highlighting", |ways| &mut ways.highlight),
];
const DEFAULT_WAY: &str = "Default";
/// The names of the groupings of arrays.
const ARRAY_GROUPS: [(ArrayGroups, &str); 3] = [
    (ArrayGroups::Whole, "NotApplicable"),
    (ArrayGroups::Content, "ByContent"),
    (ArrayGroups::Elements, "ByIndividualValues"),
];

impl AutoIndexDefinition {
    /// The definition as stored in a record.
    pub fn to_shape(&self) -> AutoIndexShape {
        let (collection, name) = (self.collection.clone(), self.name());
        if let Some(grouping) = self.grouping() {
            let index_type = IndexType::AutoMapReduce;
            let (map_fields, group_by_fields) = shapes_of(grouping);
            let rest = AutoIndexShape::default();
            return AutoIndexShape {
                index_type,
                collection,
                map_fields,
                group_by_fields,
                name,
                ..rest
            };
        }
        AutoIndexShape {
            collection,
            map_fields: self.fields().iter().map(|field| (field.name(), shape_of(field))).collect(),
            name,
            ..AutoIndexShape::default()
        }
    }

    /// The definition stored in a record.
    pub fn of_shape(shape: &AutoIndexShape) -> Self {
        if !shape.group_by_fields.is_empty() {
            return Self::grouped(shape.collection.clone(), grouping_of(shape));
        }
        let fields = shape.map_fields.iter().map(|(name, field)| field_of(name, field));
        Self::new(shape.collection.clone(), fields)
    }
}

type FieldShapes = BTreeMap<String, AutoIndexFieldShape>;

/// The aggregates and the keys.
fn shapes_of(grouping: &AutoGrouping) -> (FieldShapes, FieldShapes) {
    let of_aggregate = |aggregate: &Aggregate| {
        let aggregation = aggregate.operation().to_owned();
        let shape = AutoIndexFieldShape { aggregation, ..AutoIndexFieldShape::default() };
        (aggregate.name().to_owned(), shape)
    };
    let of_key = |key: &GroupKey| {
        let (_, behavior) = ARRAY_GROUPS.into_iter().find(|(arrays, _)| *arrays == key.arrays)?;
        let shape = AutoIndexFieldShape {
            indexing: indexing_of(key.ways),
            group_by_array_behavior: behavior.to_owned(),
            suggestions: key.ways.suggest,
            is_name_quoted: key.is_quoted,
            ..AutoIndexFieldShape::default()
        };
        Some((key.path.clone(), shape))
    };
    let aggregates = grouping.aggregates().iter().map(of_aggregate).collect();
    (aggregates, grouping.keys().iter().filter_map(of_key).collect())
}

fn grouping_of(shape: &AutoIndexShape) -> AutoGrouping {
    let keys = shape.group_by_fields.iter().map(|(path, field)| {
        let behavior = &field.group_by_array_behavior;
        let known = ARRAY_GROUPS.into_iter().find(|(_, name)| behavior == name);
        let arrays = known.map_or(ArrayGroups::Whole, |(arrays, _)| arrays);
        let (is_quoted, ways) = (field.is_name_quoted, ways_of(field));
        GroupKey { path: path.clone(), is_quoted, arrays, ways }
    });
    let aggregates = shape.map_fields.iter().map(|(path, field)| {
        match field.aggregation == Aggregate::Count.operation() {
            true => Aggregate::Count,
            false => Aggregate::Sum(path.clone()),
        }
    });
    AutoGrouping::new(keys, aggregates)
}

fn indexing_of(mut ways: AutoFieldWays) -> String {
    let mut names: Vec<&str> =
        WAYS.iter().filter_map(|(name, way)| way(&mut ways).then_some(*name)).collect();
    names.push(DEFAULT_WAY);
    names.join(", ")
}

fn ways_of(shape: &AutoIndexFieldShape) -> AutoFieldWays {
    let mut ways = AutoFieldWays { suggest: shape.suggestions, ..AutoFieldWays::default() };
    for listed in shape.indexing.split(',').map(str::trim) {
        if let Some((_, way)) = WAYS.iter().find(|(name, _)| *name == listed) {
            *way(&mut ways) = true;
        }
    }
    ways
}

fn shape_of(field: &AutoField) -> AutoIndexFieldShape {
    let spatial = |method_type: &str, method_arguments| {
        Some(AutoSpatialShape { method_type: method_type.to_owned(), method_arguments })
    };
    AutoIndexFieldShape {
        indexing: indexing_of(field.ways),
        spatial: match &field.source {
            AutoFieldSource::Path { .. } => None,
            AutoFieldSource::Point { latitude, longitude } => {
                spatial(POINT, vec![latitude.clone(), longitude.clone()])
            }
            AutoFieldSource::Shape { path } => spatial(SHAPE, vec![path.clone()]),
        },
        suggestions: field.ways.suggest,
        is_name_quoted: matches!(field.source, AutoFieldSource::Path { is_quoted: true, .. }),
        ..AutoIndexFieldShape::default()
    }
}

fn field_of(name: &str, shape: &AutoIndexFieldShape) -> AutoField {
    let arguments = shape.spatial.as_ref().map(|spatial| spatial.method_arguments.as_slice());
    let source = match arguments {
        Some([latitude, longitude]) => {
            AutoFieldSource::Point { latitude: latitude.clone(), longitude: longitude.clone() }
        }
        Some([path]) => AutoFieldSource::Shape { path: path.clone() },
        Some(_) | None => {
            AutoFieldSource::Path { path: name.to_owned(), is_quoted: shape.is_name_quoted }
        }
    };
    AutoField { source, ways: ways_of(shape) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_comes_back_from_the_record() {
        let ways = AutoFieldWays { search: true, exact: true, highlight: true, suggest: true };
        let quoted = AutoFieldSource::Path { path: "Some Name".to_owned(), is_quoted: true };
        let point =
            AutoFieldSource::Point { latitude: "A.Lat".to_owned(), longitude: "A.Lng".to_owned() };
        let shape = AutoFieldSource::Shape { path: "Place".to_owned() };
        let none = AutoFieldWays::default();
        let definition = AutoIndexDefinition::new(
            "Users",
            [
                AutoField { ways, ..AutoField::of_path("Name") },
                AutoField { source: quoted, ways: none },
                AutoField { source: point, ways: none },
                AutoField { source: shape, ways: none },
            ],
        );
        let kept = definition.to_shape();
        assert_eq!(kept.map_fields["Name"].indexing, "Search, Exact, Highlighting, Default");
        assert_eq!(AutoIndexDefinition::of_shape(&kept), definition);
        assert_eq!(kept.name, definition.name());
    }
}
