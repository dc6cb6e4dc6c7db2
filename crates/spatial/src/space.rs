//! The surface of shapes: the earth as a sphere, or a bounded plane.

use crate::{
    error::ShapeError,
    shape::{Bounds, Coordinate},
};

/// The mean radius of the earth, which turns the radius of a circle into an angle.
const EARTH_RADIUS_KILOMETERS: f64 = 6371.0087714;
const MILES_PER_KILOMETER: f64 = 0.621371192;
/// A degree of a great circle has 60 nautical miles, taken as 1.1515 miles each. Distances that
/// clients see are computed from these constants, not from the radius.
const NAUTICAL_MILES_PER_DEGREE: f64 = 60.0;
const MILES_PER_NAUTICAL_MILE: f64 = 1.1515;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;
const DEGREES_PER_RADIAN: f64 = 180.0 / std::f64::consts::PI;

/// The unit of distances on the earth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// 1,000 metres.
    #[default]
    Kilometers,
    /// Statute miles.
    Miles,
}

/// A surface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Space {
    /// The earth: longitudes and latitudes in degrees.
    #[default]
    Geography,
    /// A plane with bounds.
    Cartesian(Bounds),
}

impl Space {
    /// All coordinates that there are.
    pub fn bounds(&self) -> Bounds {
        match self {
            Space::Geography => Bounds { min_x: -180.0, max_x: 180.0, min_y: -90.0, max_y: 90.0 },
            Space::Cartesian(bounds) => *bounds,
        }
    }

    /// Whether the x of the left edge is that of the right one.
    pub(crate) fn is_round(&self) -> bool {
        matches!(self, Space::Geography)
    }

    /// The coordinate, when it is on the surface.
    ///
    /// # Errors
    ///
    /// When it is out of bounds.
    pub fn coordinate(&self, x: f64, y: f64) -> Result<Coordinate, ShapeError> {
        let bounds = self.bounds();
        let Bounds { min_x, max_x, min_y, max_y } = bounds;
        let outside = |axis: &str, value: f64| {
            ShapeError::new(format!(
                "Bad {axis} value {value} is not in boundary \
                 Rect(minX={min_x},maxX={max_x},minY={min_y},maxY={max_y})"
            ))
        };
        if !(min_y..=max_y).contains(&y) {
            return Err(outside("Y", y));
        }
        if !(min_x..=max_x).contains(&x) {
            return Err(outside("X", x));
        }
        // Negative zero is zero.
        Ok(Coordinate { x: x + 0.0, y: y + 0.0 })
    }

    /// A radius in units as circles have it: an angle in degrees on the earth, itself on a plane.
    pub fn radius(&self, distance: f64, units: Units) -> f64 {
        let kilometers = match (self, units) {
            (Space::Cartesian(_), _) => return distance,
            (Space::Geography, Units::Kilometers) => EARTH_RADIUS_KILOMETERS,
            (Space::Geography, Units::Miles) => EARTH_RADIUS_KILOMETERS * MILES_PER_KILOMETER,
        };
        distance / kilometers * DEGREES_PER_RADIAN
    }

    /// How far two coordinates are from each other, as clients see it: in units on the earth.
    pub fn distance(&self, from: Coordinate, to: Coordinate, units: Units) -> f64 {
        let Space::Geography = self else { return planar_distance(from, to) };
        if from == to {
            return 0.0;
        }
        let radians = |degrees: f64| degrees * RADIANS_PER_DEGREE;
        let cosine = radians(from.y).sin() * radians(to.y).sin()
            + radians(from.y).cos() * radians(to.y).cos() * radians(from.x - to.x).cos();
        let degrees = cosine.clamp(-1.0, 1.0).acos() * DEGREES_PER_RADIAN;
        let miles = degrees * NAUTICAL_MILES_PER_DEGREE * MILES_PER_NAUTICAL_MILE;
        match units {
            Units::Kilometers => miles * (1.0 / MILES_PER_KILOMETER),
            Units::Miles => miles,
        }
    }

    /// What an angle on the earth is in the units of [`Space::distance`]; the same number on a plane.
    pub fn distance_of_angle(&self, angle: f64, units: Units) -> f64 {
        match (self, units) {
            (Space::Cartesian(_), _) => angle,
            (Space::Geography, Units::Miles) => {
                angle * NAUTICAL_MILES_PER_DEGREE * MILES_PER_NAUTICAL_MILE
            }
            (Space::Geography, Units::Kilometers) => {
                angle * NAUTICAL_MILES_PER_DEGREE * MILES_PER_NAUTICAL_MILE / MILES_PER_KILOMETER
            }
        }
    }

    /// The exact distance in the measure of radii: degrees of a great circle on the earth.
    pub(crate) fn angle(&self, from: Coordinate, to: Coordinate) -> f64 {
        match self {
            Space::Geography => great_circle_angle(from, to),
            Space::Cartesian(_) => planar_distance(from, to),
        }
    }
}

fn planar_distance(from: Coordinate, to: Coordinate) -> f64 {
    let (x, y) = (to.x - from.x, to.y - from.y);
    (x * x + y * y).sqrt()
}

/// By the haversine formula, which is exact for small angles too.
fn great_circle_angle(from: Coordinate, to: Coordinate) -> f64 {
    let half = |degrees: f64| (degrees * RADIANS_PER_DEGREE / 2.0).sin();
    let (x, y) = (half(to.x - from.x), half(to.y - from.y));
    let cosines = (from.y * RADIANS_PER_DEGREE).cos() * (to.y * RADIANS_PER_DEGREE).cos();
    let h = (y * y + cosines * x * x).clamp(0.0, 1.0);
    2.0 * h.sqrt().atan2((1.0 - h).sqrt()) * DEGREES_PER_RADIAN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latitude and longitude of both ends, kilometers, miles: what the real server answered.
    const MEASURED: [([f64; 4], f64, f64); 7] = [
        ([10.0, 20.0, 11.0, 20.0], 111.1895770024985, 69.09000000001828),
        ([0.0, 0.0, 1.0, 1.0], 157.24181592758822, 97.70553459517008),
        ([10.0, 20.0, 10.0001, 20.0], 0.01111905942384908, 0.006909063208115936),
        ([-33.8, 151.2, 51.5, -0.12], 16986.695727256796, 10555.043372186863),
        ([89.0, 0.0, 89.0, 180.0], 222.37915400493227, 138.17999999999634),
        ([0.0, 0.0, 0.0, 180.0], 20014.123860444433, 12436.199999999999),
        ([45.0, 45.0, 45.0, 45.5], 39.311389578146354, 24.426965001349178),
    ];

    #[test]
    fn distances_are_those_that_were_measured() {
        for ([from_y, from_x, to_y, to_x], kilometers, miles) in MEASURED {
            let (from, to) = (Coordinate { x: from_x, y: from_y }, Coordinate { x: to_x, y: to_y });
            let space = Space::Geography;
            assert_eq!(space.distance(from, to, Units::Kilometers), kilometers);
            assert_eq!(space.distance(from, to, Units::Miles), miles);
            let by_angle = space.distance_of_angle(space.angle(from, to), Units::Kilometers);
            assert!((by_angle - kilometers).abs() < 1e-3, "{by_angle} is not {kilometers}");
        }
    }

    #[test]
    fn a_radius_is_an_angle_by_the_mean_radius_of_the_earth() {
        assert_eq!(Space::Geography.radius(1.0, Units::Kilometers), 0.008993203677616636);
        let plane = Space::Cartesian(Space::Geography.bounds());
        assert_eq!(plane.radius(3.0, Units::Miles), 3.0);
    }

    #[test]
    fn coordinates_outside_are_refused_as_clients_know_it() {
        let refused = |x, y| Space::Geography.coordinate(x, y).unwrap_err().to_string();
        let boundary = "is not in boundary Rect(minX=-180,maxX=180,minY=-90,maxY=90)";
        assert_eq!(refused(20.0, 200.0), format!("Bad Y value 200 {boundary}"));
        assert_eq!(refused(-180.5, 0.0), format!("Bad X value -180.5 {boundary}"));
        assert_eq!(refused(f64::NAN, 0.0), format!("Bad X value NaN {boundary}"));
    }
}
