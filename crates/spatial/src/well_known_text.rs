//! Shapes as clients write them: well-known text with the circles, boxes and buffers of its dialect, and
//! the short forms of points and boxes.
//!
//! | text | what |
//! |---|---|
//! | `POINT`, `LINESTRING`, `POLYGON`, `MULTI…`, `GEOMETRYCOLLECTION` | as in the standard, also `EMPTY`; third and fourth coordinates are left out |
//! | `ENVELOPE(x1, x2, y2, y1)`, `BOX(x1 y1, x2 y2)` | a box |
//! | `CIRCLE(x y d=r)` | a circle, its radius in the units of the field |
//! | `BUFFER(POINT(x y), r)` | a circle, its radius in degrees |
//! | `x y`; `y,x`; `geo:y,x` | a point |
//! | `x1 y1 x2 y2` | a box |

use crate::{
    error::ShapeError,
    polygon::check_ring,
    shape::{Coordinate, POINTS_MAX, Part, Shape, TURN},
    space::{Space, Units},
};

/// Collections inside of collections, at most.
const DEPTH_MAX: usize = 16;

/// Parses a shape.
///
/// # Errors
///
/// When it is invalid, outside the surface, or has a ring that crosses itself.
pub fn parse_shape(text: &str, space: &Space, units: Units) -> Result<Shape, ShapeError> {
    let trimmed = text.trim();
    let mut parser = Parser { rest: trimmed, space, units, parts: Vec::new(), count: 0 };
    if let Some([min_x, min_y, max_x, max_y]) = four_numbers(trimmed) {
        parser.push_box(space.coordinate(min_x, min_y)?, space.coordinate(max_x, max_y)?)?;
        return Ok(Shape { parts: parser.parts });
    }
    if let Some(point) = short_point(trimmed, space)? {
        return Ok(Shape::point(point));
    }
    parser.shape(0)?;
    parser.skip_space();
    if !parser.rest.is_empty() {
        return Err(ShapeError::new(format!(
            "Unexpected text after the shape: [{}]",
            start_of(parser.rest)
        )));
    }
    Ok(Shape { parts: parser.parts })
}

/// The beginning of a text, for messages.
fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}

/// The numbers of `x1 y1 x2 y2`.
fn four_numbers(text: &str) -> Option<[f64; 4]> {
    let mut words = text.split_whitespace().map(number_of);
    let numbers = [words.next()??, words.next()??, words.next()??, words.next()??];
    words.next().is_none().then_some(numbers)
}

/// `x y`, `y,x` or `geo:y,x`.
fn short_point(text: &str, space: &Space) -> Result<Option<Coordinate>, ShapeError> {
    let without_scheme = match text.get(..4) {
        Some(scheme) if scheme.eq_ignore_ascii_case("geo:") => {
            text[4..].split(';').next().unwrap_or_default()
        }
        _ if text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) => {
            text
        }
        _ => return Ok(None),
    };
    let bad = || ShapeError::new(format!("Unknown Shape definition [{}]", start_of(text)));
    let number = |part: &str| number_of(part.trim()).ok_or_else(bad);
    let (x, y) = match without_scheme.split_once(',') {
        Some((y, x)) => (x, y),
        None => without_scheme.split_once(char::is_whitespace).ok_or_else(bad)?,
    };
    space.coordinate(number(x)?, number(y)?).map(Some)
}

fn number_of(text: &str) -> Option<f64> {
    let is_number = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
    let number: f64 = text.chars().all(is_number).then(|| text.parse().ok())??;
    number.is_finite().then_some(number)
}

struct Parser<'a> {
    rest: &'a str,
    space: &'a Space,
    units: Units,
    parts: Vec<Part>,
    /// Coordinates so far.
    count: usize,
}

impl<'a> Parser<'a> {
    /// A named shape; collections call this for each of theirs, [`DEPTH_MAX`] deep at most.
    fn shape(&mut self, depth: usize) -> Result<(), ShapeError> {
        if depth > DEPTH_MAX {
            return Err(ShapeError::new(format!(
                "Collections of shapes are nested deeper than {DEPTH_MAX} levels"
            )));
        }
        let name = self.word();
        let kind = name.to_ascii_uppercase();
        self.skip_dimensions();
        match kind.as_str() {
            "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
            | "MULTIPOLYGON" | "GEOMETRYCOLLECTION"
                if self.skip_word("EMPTY") =>
            {
                Ok(())
            }
            "POINT" => self.point(),
            "LINESTRING" => self.line(),
            "POLYGON" => self.polygon(),
            "MULTIPOINT" => self.list(Self::point_or_place),
            "MULTILINESTRING" => self.list(Self::line),
            "MULTIPOLYGON" => self.list(Self::polygon),
            "GEOMETRYCOLLECTION" => self.list(|parser| parser.shape(depth + 1)),
            "ENVELOPE" => self.envelope(),
            "BOX" => self.box_of_corners(),
            "CIRCLE" => self.circle(),
            "BUFFER" => self.buffer(),
            _ => Err(ShapeError::new(format!("Unknown Shape definition [{}]", start_of(name)))),
        }
    }

    fn point(&mut self) -> Result<(), ShapeError> {
        self.expect('(')?;
        self.place_part()?;
        self.expect(')')
    }

    /// A point of a list, which may go without its parentheses.
    fn point_or_place(&mut self) -> Result<(), ShapeError> {
        match self.peek() {
            Some('(') => self.point(),
            _ => self.place_part(),
        }
    }

    fn place_part(&mut self) -> Result<(), ShapeError> {
        let at = self.place()?;
        self.parts.push(Part::Point(at));
        Ok(())
    }

    fn line(&mut self) -> Result<(), ShapeError> {
        let line = self.places()?;
        self.parts.push(Part::Line(line));
        Ok(())
    }

    fn polygon(&mut self) -> Result<(), ShapeError> {
        let mut rings: Vec<Vec<Coordinate>> = Vec::new();
        self.list(|parser| {
            let mut ring = parser.places()?;
            check_ring(&ring)?;
            if let (Some(last), Some(first)) = (ring.len().checked_sub(1), ring.first().copied()) {
                ring[last] = first;
            }
            rings.push(ring);
            Ok(())
        })?;
        // A hole is on the same side of the antimeridian as the ring around it.
        if let Some((outer, holes)) = rings.split_first_mut()
            && self.space.is_round()
        {
            let least = |ring: &[Coordinate]| ring.iter().map(|at| at.x).fold(f64::MAX, f64::min);
            for hole in holes {
                let by = if least(hole) < least(outer) { TURN } else { 0.0 };
                hole.iter_mut().for_each(|at| at.x += by);
            }
        }
        self.parts.push(Part::Polygon(rings));
        Ok(())
    }

    /// `(min x, max x, max y, min y)`.
    fn envelope(&mut self) -> Result<(), ShapeError> {
        self.expect('(')?;
        let mut numbers = [0.0; 4];
        for (at, number) in numbers.iter_mut().enumerate() {
            if at > 0 {
                self.expect(',')?;
            }
            *number = self.number()?;
        }
        self.expect(')')?;
        let [min_x, max_x, max_y, min_y] = numbers;
        let low = self.space.coordinate(min_x, min_y)?;
        let high = self.space.coordinate(max_x, max_y)?;
        self.push_box(low, high)
    }

    /// `(min x min y, max x max y)`.
    fn box_of_corners(&mut self) -> Result<(), ShapeError> {
        self.expect('(')?;
        let low = self.place()?;
        self.expect(',')?;
        let high = self.place()?;
        self.expect(')')?;
        self.push_box(low, high)
    }

    fn push_box(&mut self, low: Coordinate, mut high: Coordinate) -> Result<(), ShapeError> {
        if high.x < low.x && self.space.is_round() {
            high.x += TURN;
        }
        if high.y < low.y || high.x < low.x {
            let (low_x, low_y, high_x, high_y) = (low.x, low.y, high.x, high.y);
            return Err(ShapeError::new(format!(
                "the least of a box must not be above its greatest: \
                 x {low_x} to {high_x}, y {low_y} to {high_y}"
            )));
        }
        if low == high {
            self.parts.push(Part::Point(low));
            return Ok(());
        }
        let corner = |x: f64, y: f64| Coordinate { x, y };
        if low.x == high.x || low.y == high.y {
            self.parts.push(Part::Line(vec![low, high]));
            return Ok(());
        }
        self.parts.push(Part::Polygon(vec![vec![
            low,
            corner(high.x, low.y),
            high,
            corner(low.x, high.y),
            low,
        ]]));
        Ok(())
    }

    /// `(x y d=radius)`; the dialect also writes `distance=`.
    fn circle(&mut self) -> Result<(), ShapeError> {
        self.expect('(')?;
        let center = self.place()?;
        self.skip_char(',');
        let name = self.word();
        if !name.eq_ignore_ascii_case("d") && !name.eq_ignore_ascii_case("distance") {
            return Err(ShapeError::new(format!("Expected [d=] found [{}]", start_of(self.rest))));
        }
        self.expect('=')?;
        let distance = self.number()?;
        self.expect(')')?;
        let radius = self.space.radius(distance, self.units);
        self.push_circle(center, radius)
    }

    fn buffer(&mut self) -> Result<(), ShapeError> {
        self.expect('(')?;
        if !self.word().eq_ignore_ascii_case("POINT") {
            let message = "a BUFFER around anything but a POINT is not supported yet";
            return Err(ShapeError::new(message));
        }
        self.skip_dimensions();
        self.expect('(')?;
        let center = self.place()?;
        self.expect(')')?;
        self.expect(',')?;
        let radius = self.number()?;
        self.expect(')')?;
        self.push_circle(center, radius)
    }

    fn push_circle(&mut self, center: Coordinate, radius: f64) -> Result<(), ShapeError> {
        if radius < 0.0 {
            return Err(ShapeError::new(format!("distance must be >= 0; got {radius}")));
        }
        self.parts.push(Part::Circle { center, radius });
        Ok(())
    }

    /// `(item, item, …)`.
    fn list(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), ShapeError>,
    ) -> Result<(), ShapeError> {
        self.expect('(')?;
        loop {
            item(self)?;
            if !self.skip_char(',') {
                return self.expect(')');
            }
        }
    }

    /// Places of a line. On the earth each is within half a turn of the one before, beyond the
    /// antimeridian when that is nearer; only a whole turn stays one.
    fn places(&mut self) -> Result<Vec<Coordinate>, ShapeError> {
        let mut places: Vec<Coordinate> = Vec::new();
        let is_round = self.space.is_round();
        let (mut written, mut turns) = (f64::NAN, 0.0);
        self.list(|parser| {
            let mut at = parser.place()?;
            let step: f64 = at.x - written;
            written = at.x;
            if is_round && step.abs() > TURN / 2.0 && step.abs() < TURN {
                turns -= step.signum();
            }
            at.x += turns * TURN;
            places.push(at);
            Ok(())
        })?;
        let least = places.iter().map(|at| at.x).fold(f64::MAX, f64::min);
        let most = places.iter().map(|at| at.x).fold(f64::MIN, f64::max);
        if is_round && most - least > TURN {
            return Err(ShapeError::new("a line goes around the earth more than once"));
        }
        if is_round && least < -180.0 {
            places.iter_mut().for_each(|at| at.x += TURN);
        }
        Ok(places)
    }

    fn place(&mut self) -> Result<Coordinate, ShapeError> {
        self.count += 1;
        if self.count > POINTS_MAX {
            return Err(ShapeError::new(format!("a shape has more than {POINTS_MAX} points")));
        }
        let (x, y) = (self.number()?, self.number()?);
        // Heights and measures are left out.
        for _ in 0..2 {
            if self.peek().is_some_and(|next| next.is_ascii_digit() || "+-.".contains(next)) {
                self.number()?;
            }
        }
        self.space.coordinate(x, y)
    }

    fn number(&mut self) -> Result<f64, ShapeError> {
        self.skip_space();
        let is_part = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        let expected =
            || ShapeError::new(format!("Expected a number found [{}]", start_of(self.rest)));
        let value = number_of(number).ok_or_else(expected)?;
        self.rest = rest;
        Ok(value)
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let is_letter = |character: char| character.is_ascii_alphabetic();
        let end = self.rest.find(|character| !is_letter(character)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// `Z`, `M` or `ZM` after a name.
    fn skip_dimensions(&mut self) {
        let _ = self.skip_word("Z") || self.skip_word("M") || self.skip_word("ZM");
    }

    fn skip_word(&mut self, wanted: &str) -> bool {
        let before = self.rest;
        let is_there = self.word().eq_ignore_ascii_case(wanted);
        if !is_there {
            self.rest = before;
        }
        is_there
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn skip_char(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        is_there
    }

    fn expect(&mut self, wanted: char) -> Result<(), ShapeError> {
        if self.skip_char(wanted) {
            return Ok(());
        }
        let found = if self.rest.is_empty() {
            "EOF".to_owned()
        } else {
            format!("[{}]", start_of(self.rest))
        };
        Err(ShapeError::new(format!("Expected [{wanted}] found {found}")))
    }
}
