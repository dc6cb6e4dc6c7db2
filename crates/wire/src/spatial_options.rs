//! How a spatial field is indexed, as part of index definitions. Missing or null options are shown with their
//! defaults.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::index_definition::protocol_enum;

protocol_enum! {
    /// The surface that shapes are on.
    SpatialFieldType {
        /// The surface of the earth.
        Geography,
        /// A plane.
        Cartesian,
    }
}

protocol_enum! {
    /// How shapes are turned into terms.
    SpatialSearchStrategy {
        /// Cells named by geohashes.
        GeohashPrefixTree,
        /// Cells of a quadtree.
        QuadPrefixTree,
        /// Only the bounding box of a shape.
        BoundingBox,
    }
}

protocol_enum! {
    /// The unit of distances.
    SpatialUnits {
        /// 1,000 metres.
        Kilometers,
        /// 1,609.344 metres.
        Miles,
    }
}

/// How a spatial field is indexed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", from = "SentSpatialOptions")]
pub struct SpatialOptions {
    /// Geography by default.
    #[serde(rename = "Type")]
    pub field_type: SpatialFieldType,
    /// The precision of the cells: the length of their names.
    pub max_tree_level: i64,
    /// The maximum x (longitude).
    #[serde(serialize_with = "whole_without_point")]
    pub max_x: f64,
    /// The maximum y (latitude).
    #[serde(serialize_with = "whole_without_point")]
    pub max_y: f64,
    /// The minimum x.
    #[serde(serialize_with = "whole_without_point")]
    pub min_x: f64,
    /// The minimum y.
    #[serde(serialize_with = "whole_without_point")]
    pub min_y: f64,
    /// Geohashes by default.
    pub strategy: SpatialSearchStrategy,
    /// Kilometers by default.
    pub units: SpatialUnits,
}

impl Default for SpatialOptions {
    fn default() -> Self {
        SentSpatialOptions::default().into()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct SentSpatialOptions {
    #[serde(rename = "Type")]
    field_type: Option<SpatialFieldType>,
    max_tree_level: Option<i64>,
    max_x: Option<f64>,
    max_y: Option<f64>,
    min_x: Option<f64>,
    min_y: Option<f64>,
    strategy: Option<SpatialSearchStrategy>,
    units: Option<SpatialUnits>,
}

impl From<SentSpatialOptions> for SpatialOptions {
    fn from(sent: SentSpatialOptions) -> Self {
        Self {
            field_type: sent.field_type.unwrap_or(SpatialFieldType::Geography),
            max_tree_level: sent.max_tree_level.unwrap_or(9),
            max_x: sent.max_x.unwrap_or(180.0),
            max_y: sent.max_y.unwrap_or(90.0),
            min_x: sent.min_x.unwrap_or(-180.0),
            min_y: sent.min_y.unwrap_or(-90.0),
            strategy: sent.strategy.unwrap_or(SpatialSearchStrategy::GeohashPrefixTree),
            units: sent.units.unwrap_or(SpatialUnits::Kilometers),
        }
    }
}

fn whole_without_point<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const WHOLE_MAX: f64 = 1e15;
    match value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        true => serializer.serialize_i64(*value as i64),
        false => serializer.serialize_f64(*value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_shown_as_the_default() {
        let sent = r#"{"Type":"cartesian","MaxX":1.5,"Units":null}"#;
        let options: SpatialOptions = serde_json::from_str(sent).unwrap();
        let shown = concat!(
            r#"{"Type":"Cartesian","MaxTreeLevel":9,"MaxX":1.5,"MaxY":90,"MinX":-180,"MinY":-90,"#,
            r#""Strategy":"GeohashPrefixTree","Units":"Kilometers"}"#
        );
        assert_eq!(serde_json::to_string(&options).unwrap(), shown);
        assert_eq!(serde_json::from_str::<SpatialOptions>(shown).unwrap(), options);
    }
}
