//! `select spatial.distance(…)`: the distance between two places of a row.

use blittable::Value;
use documents::{FieldPath as DocumentPath, Found};
use rql::{Expression, Literal, MethodCall, NumberValue};
use spatial::{Coordinate, Space, Units};

use crate::document_path::document_path;
use crate::error::QueryError;
use crate::parameters::{QueryContext, QueryValue};
use crate::row_document::RowDocument;

/// A distance that a row reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProjectedDistance {
    /// Latitude and longitude of the first place, then of the second.
    coordinates: [ProjectedNumber; 4],
    space: Space,
    units: Units,
}

#[derive(Clone, Debug, PartialEq)]
enum ProjectedNumber {
    Constant(f64),
    Field(DocumentPath),
    /// Not a number.
    None,
}

impl<'a> QueryContext<'a> {
    /// The distance that a call in `select` requests.
    pub(crate) fn projected_distance(
        &self,
        call: &'a MethodCall,
    ) -> Result<ProjectedDistance, QueryError> {
        let arguments = call.arguments.as_slice();
        if let Some(inner) = arguments.iter().find(|value| matches!(value, Expression::Method(_))) {
            return Err(self.invalid(format!(
                "Invalid argument of type MethodExpression specified as an argument of {}(). \
                 Text: {inner}.",
                call.name
            )));
        }
        let ([a, b, c, d] | [a, b, c, d, _]) = arguments else {
            let message = "Called with unexpected number of arguments, expected: \
                           spatial.distance(lat1, lng1, lat2, lng2, kilometers | miles | cartesian)";
            return Err(QueryError::Argument { message: message.to_owned() });
        };
        let number = |value| self.projected_number(value);
        let coordinates = [number(a)?, number(b)?, number(c)?, number(d)?];
        let (space, units) = match arguments.get(4) {
            None => (Space::Geography, Units::Kilometers),
            Some(units) => self.distance_units(units)?,
        };
        Ok(ProjectedDistance { coordinates, space, units })
    }

    fn projected_number(&self, value: &'a Expression) -> Result<ProjectedNumber, QueryError> {
        let number = match value {
            Expression::Field(path) => {
                self.require_known_alias(path)?;
                let path = path.without_alias(self.alias()).unwrap_or_else(|| path.clone());
                return Ok(ProjectedNumber::Field(document_path(&path)));
            }
            Expression::Literal(literal) => match self.resolve(literal)? {
                QueryValue::Literal(Literal::Number(number)) => match number.value() {
                    NumberValue::Long(value) => Some(value as f64),
                    NumberValue::Double(value) => Some(value),
                    NumberValue::TooLarge => None,
                },
                QueryValue::Literal(_) => None,
                QueryValue::Parameter(value) => number_of(&value),
            },
            other => return Err(self.invalid(format!("Expected value, but got: {other}"))),
        };
        Ok(number.map_or(ProjectedNumber::None, ProjectedNumber::Constant))
    }

    fn distance_units(&self, units: &'a Expression) -> Result<(Space, Units), QueryError> {
        let name = match units {
            Expression::Literal(literal) => match self.resolve(literal)? {
                QueryValue::Literal(Literal::String(name)) => name.clone(),
                QueryValue::Literal(other) => other.to_string(),
                QueryValue::Parameter(value) => match value.as_text() {
                    Some(text) => text.as_cow()?.into_owned(),
                    None => String::new(),
                },
            },
            other => other.to_string(),
        };
        match name.to_ascii_lowercase().as_str() {
            "kilometers" => Ok((Space::Geography, Units::Kilometers)),
            "miles" => Ok((Space::Geography, Units::Miles)),
            "cartesian" => Ok((Space::Cartesian(Space::Geography.bounds()), Units::Kilometers)),
            _ => Err(QueryError::Argument {
                message: format!("Unable to parse units {name}, expected: 'kilometers' or 'miles'"),
            }),
        }
    }
}

/// The number in a value of a document; strings are not converted.
fn number_of(value: &Value<'_>) -> Option<f64> {
    match value.as_text() {
        Some(_) => None,
        None => value.as_f64(),
    }
}

impl ProjectedDistance {
    /// Appends the distance in a document: `null` unless all four are numbers.
    pub(crate) fn write_json(
        &self,
        document: &RowDocument<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let mut numbers = [0.0; 4];
        for (number, coordinate) in numbers.iter_mut().zip(&self.coordinates) {
            let found = match coordinate {
                ProjectedNumber::Constant(value) => Some(*value),
                ProjectedNumber::None => None,
                ProjectedNumber::Field(path) => match path.find(document.root()?)? {
                    Found::One(value) => number_of(&value),
                    Found::Missing | Found::List(_) | Found::Length(_) => None,
                },
            };
            let Some(found) = found else {
                out.extend_from_slice(b"null");
                return Ok(());
            };
            *number = found;
        }
        let [from_y, from_x, to_y, to_x] = numbers;
        let (from, to) = (Coordinate { x: from_x, y: from_y }, Coordinate { x: to_x, y: to_y });
        let distance = self.space.distance(from, to, self.units);
        let text = if distance.is_finite() { format!("{distance:?}") } else { "null".to_owned() };
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
