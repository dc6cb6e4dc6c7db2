//! How a spatial field is indexed, as part of the definition of an index.

use crate::named_enum::named_enum;

named_enum! {
    /// The surface that shapes are on.
    SpatialFieldType {
        /// The surface of the earth.
        Geography,
        /// A plane.
        Cartesian,
    }
}

named_enum! {
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

named_enum! {
    /// The unit of distances.
    SpatialUnits {
        /// 1,000 metres.
        Kilometers,
        /// 1,609.344 metres.
        Miles,
    }
}

/// How a spatial field is indexed.
#[derive(Clone, Debug, PartialEq)]
pub struct SpatialOptions {
    /// Geography by default.
    pub field_type: SpatialFieldType,
    /// The precision of the cells: the length of their names.
    pub max_tree_level: i64,
    /// The maximum x (longitude).
    pub max_x: f64,
    /// The maximum y (latitude).
    pub max_y: f64,
    /// The minimum x.
    pub min_x: f64,
    /// The minimum y.
    pub min_y: f64,
    /// Geohashes by default.
    pub strategy: SpatialSearchStrategy,
    /// Kilometers by default.
    pub units: SpatialUnits,
}

impl Default for SpatialOptions {
    fn default() -> Self {
        Self {
            field_type: SpatialFieldType::Geography,
            max_tree_level: 9,
            max_x: 180.0,
            max_y: 90.0,
            min_x: -180.0,
            min_y: -90.0,
            strategy: SpatialSearchStrategy::GeohashPrefixTree,
            units: SpatialUnits::Kilometers,
        }
    }
}
