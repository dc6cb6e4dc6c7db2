//! Spatial conditions and orders: `spatial.within(…)` and its like, `spatial.distance(…)`.
//!
//! The share of error that a condition may allow is validated and otherwise ignored: results are
//! exact.

use std::sync::Arc;

use indexing::{AutoField, AutoFieldSource, AutoFieldWays};
use rql::{Expression, FieldPath, Literal, MethodCall, PathStep};
use search::{DistanceFrom, Query, SortBy, SpatialLayout};
use spatial::{Coordinate, Relation, Shape, Units, parse_shape};

use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::searched_fields::{MatchMode, SearchedFields};
use crate::sought_value::Sought;

/// Maximum share of error that a condition may allow.
const ERROR_SHARE_MAX: f64 = 0.5;

/// A spatial field and how it indexes places.
struct SpatialField {
    name: String,
    layout: SpatialLayout,
}

impl<'a> QueryContext<'a> {
    /// The index query of a spatial condition.
    pub(crate) fn spatial_condition(
        &self,
        fields: &dyn SearchedFields,
        call: &'a MethodCall,
    ) -> Result<Query, QueryError> {
        let relation = match call.name.to_ascii_lowercase().as_str() {
            "spatial.within" => Relation::Within,
            "spatial.contains" => Relation::Contains,
            "spatial.disjoint" => Relation::Disjoint,
            "spatial.intersects" => Relation::Intersects,
            _ => return Err(unknown(call)),
        };
        self.require_arguments(call)?;
        let field = self.spatial_field(fields, call)?;
        if let Some(share) = call.arguments.get(2) {
            let share = self.double(share, &field)?;
            if !(0.0..=ERROR_SHARE_MAX).contains(&share) {
                let message = format!(
                    "distErrPct {share} must be between [0 to {ERROR_SHARE_MAX}] (Parameter 'distErrPct')"
                );
                return Err(QueryError::Argument { message });
            }
        }
        let shape = match self.shape_call(call)? {
            shape if shape.is("spatial.circle") => self.circle(shape, &field)?,
            shape if shape.is("spatial.wkt") => self.wkt(shape, &field)?,
            shape if shape.is("spatial.point") => {
                return Err(self.invalid("Method 'Spatial_Point' is not supported."));
            }
            other => return Err(unknown(other)),
        };
        let SpatialField { name, layout } = field;
        let shape = Arc::new(layout.shape(&shape).into_owned());
        Ok(Query::Spatial { field: name, layout, relation, shape })
    }

    /// The sort key of `order by spatial.distance(…)`.
    pub(crate) fn distance_order(
        &self,
        fields: &dyn SearchedFields,
        call: &'a MethodCall,
    ) -> Result<SortBy, QueryError> {
        self.require_arguments(call)?;
        let field = self.spatial_field(fields, call)?;
        let shape = match self.shape_call(call)? {
            shape if shape.is("spatial.point") => {
                let [latitude, longitude] = shape.arguments.as_slice() else {
                    return Err(
                        self.invalid("Method 'point()' expects two arguments to be provided")
                    );
                };
                Shape::point(self.place(latitude, longitude, &field)?)
            }
            shape if shape.is("spatial.circle") => self.circle(shape, &field)?,
            shape if shape.is("spatial.wkt") => self.wkt(shape, &field)?,
            other => return Err(unknown(other)),
        };
        let Some(at) = shape.center(&field.layout.space) else {
            return Err(self.invalid("There is no distance from an empty shape"));
        };
        let round_to = match call.arguments.get(2) {
            None => 0.0,
            // A null parameter means no rounding.
            Some(value) if self.sought(value)? == Sought::Null => 0.0,
            Some(value) => self.number(value)?,
        };
        let SpatialField { name, layout } = field;
        Ok(SortBy::Distance(name, DistanceFrom { at, layout, round_to }))
    }

    fn require_arguments(&self, call: &MethodCall) -> Result<(), QueryError> {
        match call.arguments.len() {
            2 | 3 => Ok(()),
            _ => Err(self
                .invalid(format!("Method {}() expects 2-3 arguments to be provided", call.name))),
        }
    }

    /// The first argument: a field of a static index, the source of one in an automatic index.
    fn spatial_field(
        &self,
        fields: &dyn SearchedFields,
        call: &'a MethodCall,
    ) -> Result<SpatialField, QueryError> {
        let name = match call.arguments.first() {
            Some(Expression::Method(source)) if fields.is_automatic() => {
                self.automatic_name(call, source)?
            }
            Some(Expression::Method(_)) => {
                return Err(self.invalid(format!(
                    "Method {}() expects that first argument will be a field name when static \
                     index is queried",
                    call.name
                )));
            }
            Some(argument) if !fields.is_automatic() => {
                let Some(path) = path_of(argument) else {
                    return Err(self.invalid(format!(
                        "Method {}() expects a field name as its first argument but got: {argument}",
                        call.name
                    )));
                };
                self.searched_field(fields, &path, MatchMode::Default)?.name
            }
            // Clients name the field of a condition; entries without a place sort as having no
            // location.
            Some(argument) if call.is("spatial.distance") => match path_of(argument) {
                Some(path) => self.named_field(&path)?.name(),
                None => return Err(self.no_method(call)),
            },
            _ => return Err(self.no_method(call)),
        };
        let options = fields.options(&name).unwrap_or_default();
        Ok(SpatialField { name, layout: options.spatial.unwrap_or_default() })
    }

    fn no_method(&self, call: &MethodCall) -> QueryError {
        self.invalid(format!(
            "Method {}() expects first argument to be a method expression",
            call.name
        ))
    }

    /// The field of an automatic index that a name refers to: `'spatial.point(Lat, Lng)'` or a
    /// path.
    pub(crate) fn named_field(&self, path: &FieldPath) -> Result<AutoField, QueryError> {
        self.require_known_alias(path)?;
        let inner = path.without_alias(self.alias());
        let text = inner.as_ref().unwrap_or(path).text();
        let of = |method: &str| text.strip_prefix(method)?.strip_prefix('(')?.strip_suffix(')');
        let point = of("spatial.point").and_then(|arguments| arguments.split_once(", "));
        let source = if let Some((latitude, longitude)) = point {
            let (latitude, longitude) = (latitude.to_owned(), longitude.to_owned());
            AutoFieldSource::Point { latitude, longitude }
        } else if let Some(path) = of("spatial.wkt") {
            AutoFieldSource::Shape { path: path.to_owned() }
        } else {
            let is_quoted = matches!(path.steps.as_slice(), [PathStep::Name { quoted: true, .. }]);
            AutoFieldSource::Path { path: text, is_quoted }
        };
        Ok(AutoField { source, ways: AutoFieldWays::default() })
    }

    /// The name of the field of an automatic index for `spatial.point(…)` or `spatial.wkt(…)`.
    fn automatic_name(&self, call: &MethodCall, source: &MethodCall) -> Result<String, QueryError> {
        let paths = source.arguments.iter().map(path_of).collect::<Option<Vec<_>>>();
        let texts = paths.unwrap_or_default().into_iter().map(|path| {
            self.require_known_alias(&path)?;
            Ok(path.without_alias(self.alias()).unwrap_or(path).text())
        });
        let mut texts = texts.collect::<Result<Vec<_>, QueryError>>()?.into_iter();
        let source = match (texts.next(), texts.next(), texts.next()) {
            (Some(latitude), Some(longitude), None) if source.is("spatial.point") => {
                AutoFieldSource::Point { latitude, longitude }
            }
            (Some(path), None, None) if source.is("spatial.wkt") => AutoFieldSource::Shape { path },
            _ => {
                let wanted = match source.name.to_ascii_lowercase().as_str() {
                    "spatial.point" => "a point() method with 2 arguments",
                    "spatial.wkt" => "a wkt() method with 1 argument",
                    _ => return Err(unknown(source)),
                };
                return Err(self.invalid(format!(
                    "Method {}() expects first argument to be {wanted}",
                    call.name
                )));
            }
        };
        Ok(AutoField { source, ways: AutoFieldWays::default() }.name())
    }

    /// The second argument, a method that constructs a shape.
    fn shape_call(&self, call: &'a MethodCall) -> Result<&'a MethodCall, QueryError> {
        let shown = match &call.arguments[1] {
            Expression::Method(shape) => return Ok(shape),
            Expression::Field(path) => format!("<Field>: {}", path.text()),
            literal @ Expression::Literal(_) => {
                format!("{literal} ({})", self.sought(literal)?.type_name())
            }
            other => other.to_string(),
        };
        Err(self.invalid(format!(
            "Method {}() expects expression as second argument, got {shown} type",
            call.name
        )))
    }

    /// `spatial.circle(radius, latitude, longitude[, units])`.
    fn circle(&self, call: &'a MethodCall, field: &SpatialField) -> Result<Shape, QueryError> {
        let arguments = call.arguments.as_slice();
        let ([radius, latitude, longitude] | [radius, latitude, longitude, _]) = arguments else {
            let message = "Method 'circle()' expects three or four arguments to be provided";
            return Err(self.invalid(message));
        };
        let distance = self.double(radius, field)?;
        let units = self.units(arguments.get(3), field)?;
        let center = self.place(latitude, longitude, field)?;
        let radius = field.layout.space.radius(distance, units);
        if radius.is_nan() || radius < 0.0 {
            let message = format!("distance must be >= 0; got {radius}");
            return Err(QueryError::Shape { message });
        }
        Ok(Shape::circle(center, radius))
    }

    /// `spatial.wkt(text[, units])`.
    fn wkt(&self, call: &'a MethodCall, field: &SpatialField) -> Result<Shape, QueryError> {
        let arguments = call.arguments.as_slice();
        let ([text] | [text, _]) = arguments else {
            let message = "Method 'wkt()' expects one or two arguments to be provided";
            return Err(self.invalid(message));
        };
        let text = match self.sought(text)? {
            Sought::Text(text) => text,
            other => return Err(wrong_type(field, "String", &other)),
        };
        let units = self.units(arguments.get(1), field)?;
        parse_shape(&text, &field.layout.space, units)
            .map_err(|_| self.invalid(format!("Value '{text}' is not a valid WKT value.")))
    }

    fn place(
        &self,
        latitude: &'a Expression,
        longitude: &'a Expression,
        field: &SpatialField,
    ) -> Result<Coordinate, QueryError> {
        let (y, x) = (self.double(latitude, field)?, self.double(longitude, field)?);
        let place = field.layout.space.coordinate(x, y);
        place.map_err(|error| QueryError::Shape { message: error.to_string() })
    }

    fn units(
        &self,
        value: Option<&'a Expression>,
        field: &SpatialField,
    ) -> Result<Units, QueryError> {
        let Some(value) = value else { return Ok(field.layout.units) };
        match self.sought(value)? {
            Sought::Text(name) if name.eq_ignore_ascii_case("kilometers") => Ok(Units::Kilometers),
            Sought::Text(name) if name.eq_ignore_ascii_case("miles") => Ok(Units::Miles),
            Sought::Text(name) => Err(QueryError::InvalidOperation {
                message: format!(
                    "SpatialUnits value must be either 'Kilometers' or 'Miles' but was '{name}'."
                ),
            }),
            other => Err(wrong_type(field, "String", &other)),
        }
    }

    fn double(&self, value: &'a Expression, field: &SpatialField) -> Result<f64, QueryError> {
        match self.sought(value)? {
            Sought::Long(value) => Ok(value as f64),
            Sought::Double { value, .. } => Ok(value),
            other => Err(wrong_type(field, "Double", &other)),
        }
    }

    /// A number, which may also be written as a string.
    fn number(&self, value: &'a Expression) -> Result<f64, QueryError> {
        let text = match self.sought(value)? {
            Sought::Long(value) => return Ok(value as f64),
            Sought::Double { value, .. } => return Ok(value),
            Sought::Text(text) => text,
            other => other.type_name().to_owned(),
        };
        text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| {
            let message = format!("The input string '{text}' was not in a correct format.");
            QueryError::Format { message }
        })
    }
}

/// The path that an argument denotes: a field, or a string that names one.
pub(crate) fn path_of(argument: &Expression) -> Option<FieldPath> {
    match argument {
        Expression::Field(path) => Some(path.clone()),
        Expression::Literal(Literal::String(name)) => {
            let step = PathStep::Name { name: name.clone(), quoted: true };
            Some(FieldPath { steps: vec![step], offset: rql::Offset::default() })
        }
        _ => None,
    }
}

fn unknown(call: &MethodCall) -> QueryError {
    QueryError::Method { message: format!("Method '{}' is not supported.", call.name) }
}

fn wrong_type(field: &SpatialField, wanted: &str, found: &Sought) -> QueryError {
    let (name, found) = (&field.name, found.type_name());
    let message = format!("Field '{name}' should be a '{wanted}' but was '{found}'.");
    QueryError::InvalidOperation { message }
}
