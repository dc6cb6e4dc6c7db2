//! The JSON of the options of a spatial field, as part of index definitions. Missing or null options are shown with
//! their defaults.

use model::{SpatialFieldType, SpatialOptions, SpatialSearchStrategy, SpatialUnits};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json_form::{self, JsonForm, named};

named!(SpatialFieldType, SpatialSearchStrategy, SpatialUnits);

impl JsonForm for SpatialOptions {
    fn print<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SpatialOptionsMirror::serialize(self, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SentSpatialOptions::deserialize(deserializer).map(Self::from)
    }
}

#[derive(Serialize)]
#[serde(remote = "SpatialOptions", rename_all = "PascalCase")]
struct SpatialOptionsMirror {
    #[serde(rename = "Type", with = "json_form::value")]
    field_type: SpatialFieldType,
    max_tree_level: i64,
    #[serde(serialize_with = "whole_without_point")]
    max_x: f64,
    #[serde(serialize_with = "whole_without_point")]
    max_y: f64,
    #[serde(serialize_with = "whole_without_point")]
    min_x: f64,
    #[serde(serialize_with = "whole_without_point")]
    min_y: f64,
    #[serde(with = "json_form::value")]
    strategy: SpatialSearchStrategy,
    #[serde(with = "json_form::value")]
    units: SpatialUnits,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct SentSpatialOptions {
    #[serde(rename = "Type", with = "json_form::option")]
    field_type: Option<SpatialFieldType>,
    max_tree_level: Option<i64>,
    max_x: Option<f64>,
    max_y: Option<f64>,
    min_x: Option<f64>,
    min_y: Option<f64>,
    #[serde(with = "json_form::option")]
    strategy: Option<SpatialSearchStrategy>,
    #[serde(with = "json_form::option")]
    units: Option<SpatialUnits>,
}

impl From<SentSpatialOptions> for SpatialOptions {
    fn from(sent: SentSpatialOptions) -> Self {
        let default = Self::default();
        Self {
            field_type: sent.field_type.unwrap_or(default.field_type),
            max_tree_level: sent.max_tree_level.unwrap_or(default.max_tree_level),
            max_x: sent.max_x.unwrap_or(default.max_x),
            max_y: sent.max_y.unwrap_or(default.max_y),
            min_x: sent.min_x.unwrap_or(default.min_x),
            min_y: sent.min_y.unwrap_or(default.min_y),
            strategy: sent.strategy.unwrap_or(default.strategy),
            units: sent.units.unwrap_or(default.units),
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
    use crate::json_form::Json;

    #[test]
    fn what_is_left_out_is_shown_as_the_default() {
        let read = |json: &str| serde_json::from_str(json).map(|Json(options)| options).unwrap();
        let options: SpatialOptions = read(r#"{"Type":"cartesian","MaxX":1.5,"Units":null}"#);
        let shown = concat!(
            r#"{"Type":"Cartesian","MaxTreeLevel":9,"MaxX":1.5,"MaxY":90,"MinX":-180,"MinY":-90,"#,
            r#""Strategy":"GeohashPrefixTree","Units":"Kilometers"}"#
        );
        assert_eq!(serde_json::to_string(&Json(&options)).unwrap(), shown);
        assert_eq!(read(shown), options);
    }
}
