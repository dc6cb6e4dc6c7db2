//! Automatic definitions as the record of a database keeps them.

use wire::{AutoIndexFieldShape, AutoIndexShape, AutoSpatialShape};

use crate::auto_definition::{AutoField, AutoFieldSource, AutoFieldWays, AutoIndexDefinition};

const POINT: &str = "Point";
const SHAPE: &str = "Wkt";
/// The flag of a way of indexing.
type Flag = fn(&mut AutoFieldWays) -> &mut bool;

/// How the ways of indexing are listed.
const WAYS: [(&str, Flag); 3] = [
    ("Search", |ways| &mut ways.search),
    ("Exact", |ways| &mut ways.exact),
    ("Highlighting", |ways| &mut ways.highlight),
];
const DEFAULT_WAY: &str = "Default";

impl AutoIndexDefinition {
    /// The definition as a record keeps it.
    pub fn to_shape(&self) -> AutoIndexShape {
        AutoIndexShape {
            collection: self.collection.clone(),
            map_fields: self.fields().iter().map(|field| (field.name(), shape_of(field))).collect(),
            name: self.name(),
            ..AutoIndexShape::default()
        }
    }

    /// The definition that a record keeps.
    pub fn of_shape(shape: &AutoIndexShape) -> Self {
        let fields = shape.map_fields.iter().map(|(name, field)| field_of(name, field));
        Self::new(shape.collection.clone(), fields)
    }
}

fn shape_of(field: &AutoField) -> AutoIndexFieldShape {
    let mut ways = field.ways;
    let mut names: Vec<&str> =
        WAYS.iter().filter_map(|(name, way)| way(&mut ways).then_some(*name)).collect();
    names.push(DEFAULT_WAY);
    let spatial = |method_type: &str, method_arguments| {
        Some(AutoSpatialShape { method_type: method_type.to_owned(), method_arguments })
    };
    AutoIndexFieldShape {
        indexing: names.join(", "),
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
    let mut ways = AutoFieldWays { suggest: shape.suggestions, ..AutoFieldWays::default() };
    for listed in shape.indexing.split(',').map(str::trim) {
        if let Some((_, way)) = WAYS.iter().find(|(name, _)| *name == listed) {
            *way(&mut ways) = true;
        }
    }
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
    AutoField { source, ways }
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
