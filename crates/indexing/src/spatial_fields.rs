//! Spatial fields: how a definition stores points and shapes, and the parsing of their values.

use model::{SpatialFieldType, SpatialOptions, SpatialSearchStrategy, SpatialUnits};
use search::{Field, SpatialLayout};
use spatial::{Bounds, Coordinate, GridKind, Shape, ShapeError, Space, Units, parse_shape};

use crate::{entry_writer::EntryWriter, error::IndexError, mapper::MapError};

/// The maximum number of letters in a geohash.
const GEOHASH_LEVELS_MAX: i64 = 24;

/// How fields with these options store points and shapes.
///
/// # Errors
///
/// [`IndexError::Definition`] when the grid or the plane is invalid.
pub(crate) fn layout_of(name: &str, options: &SpatialOptions) -> Result<SpatialLayout, IndexError> {
    let refused = |what: String| {
        let message = format!("The spatial options of the field '{name}' cannot be: {what}");
        Err(IndexError::Definition { message })
    };
    let level = options.max_tree_level;
    let kind = match options.strategy {
        SpatialSearchStrategy::GeohashPrefixTree if (1..=GEOHASH_LEVELS_MAX).contains(&level) => {
            GridKind::Geohash
        }
        SpatialSearchStrategy::GeohashPrefixTree => {
            return refused(format!("maxLen must be [1-{GEOHASH_LEVELS_MAX}] but got {level}"));
        }
        SpatialSearchStrategy::QuadPrefixTree if level < 1 => {
            return refused(format!("MaxTreeLevel must be at least 1 but is {level}"));
        }
        SpatialSearchStrategy::QuadPrefixTree => GridKind::Quad,
        SpatialSearchStrategy::BoundingBox => GridKind::Unnamed,
    };
    let SpatialOptions { min_x, max_x, min_y, max_y, .. } = *options;
    let space = match options.field_type {
        SpatialFieldType::Geography => Space::Geography,
        SpatialFieldType::Cartesian => Space::Cartesian(Bounds { min_x, max_x, min_y, max_y }),
    };
    let is_area = |low: f64, high: f64| low < high && (high - low).is_finite();
    let bounds = space.bounds();
    if !is_area(bounds.min_x, bounds.max_x) || !is_area(bounds.min_y, bounds.max_y) {
        return refused(format!(
            "Rect(minX={min_x},maxX={max_x},minY={min_y},maxY={max_y}) is not an area"
        ));
    }
    let units = match options.units {
        SpatialUnits::Kilometers => Units::Kilometers,
        SpatialUnits::Miles => Units::Miles,
    };
    let has_boxes_only = options.strategy == SpatialSearchStrategy::BoundingBox;
    let layout = SpatialLayout::new(space, kind, u32::try_from(level).unwrap_or(0), units);
    Ok(SpatialLayout { has_boxes_only, ..layout })
}

/// The name by which clients know a rejected shape.
fn refused_shape(error: &ShapeError) -> MapError {
    MapError::Document { message: format!("Spatial4n.Exceptions.InvalidShapeException: {error}") }
}

impl EntryWriter<'_> {
    /// Adds a point to a field of the current entry.
    ///
    /// # Errors
    ///
    /// When it is not on the field's surface, and as [`EntryWriter::add`].
    pub(crate) fn add_place(
        &mut self,
        field: &Field,
        latitude: f64,
        longitude: f64,
    ) -> Result<(), MapError> {
        let at = field.layout().space.coordinate(longitude, latitude);
        let Coordinate { x, y } = at.map_err(|error| refused_shape(&error))?;
        self.add_shape(field, &Shape::point(Coordinate { x, y }))
    }

    /// Adds a shape, as text, to a field of the current entry.
    ///
    /// # Errors
    ///
    /// As [`EntryWriter::add_place`].
    pub(crate) fn add_shape_text(&mut self, field: &Field, text: &str) -> Result<(), MapError> {
        let layout = field.layout();
        let shape = parse_shape(text, &layout.space, layout.units);
        self.add_shape(field, &shape.map_err(|error| refused_shape(&error))?)
    }
}

/// The coordinate that a document's value represents; `None` for null.
///
/// # Errors
///
/// The name that clients know it by, when it is not a coordinate.
pub(crate) fn coordinate_of(value: &blittable::Value<'_>) -> Result<Option<f64>, String> {
    use blittable::Value;
    let cannot_cast = |kind: &str| {
        Err(format!(
            "System.InvalidCastException: Unable to cast object of type '{kind}' to type \
             'System.IConvertible'."
        ))
    };
    if let Some(text) = value.as_text() {
        let text = text.as_cow().map_err(|error| error.to_string())?;
        return coordinate_of_text(&text).map(Some);
    }
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(f64::from(u8::from(*value)))),
        Value::Array(_) => cannot_cast("Sparrow.Json.BlittableJsonReaderArray"),
        Value::Object(_) => cannot_cast("Sparrow.Json.BlittableJsonReaderObject"),
        number => match number.as_f64() {
            Some(number) => Ok(Some(number)),
            None => cannot_cast("System.Object"),
        },
    }
}

/// The number that a text represents.
///
/// # Errors
///
/// The name that clients know it by, when it is not a number.
pub(crate) fn coordinate_of_text(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let is_number = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
    let number = trimmed.chars().all(is_number).then(|| trimmed.parse().ok()).flatten();
    number.ok_or_else(|| {
        format!("System.FormatException: The input string '{text}' was not in a correct format.")
    })
}

/// Calls `text` with a string, or with those of an array.
pub(crate) fn for_each_text(
    value: &blittable::Value<'_>,
    text: &mut dyn FnMut(&str),
) -> Result<(), blittable::Corrupt> {
    if let Some(own) = value.as_text() {
        text(&own.as_cow()?);
        return Ok(());
    }
    let Some(array) = value.as_array() else { return Ok(()) };
    for element in array.iter() {
        if let Some(own) = element?.as_text() {
            text(&own.as_cow()?);
        }
    }
    Ok(())
}
