//! A shape as it is kept.
//!
//! ```text
//! shape   parts
//! part    1 · place                                 point
//!         2 · count u32 · places                    line
//!         3 · rings u32 · (count u32 · places)…     polygon
//!         4 · place · radius f64                    circle
//! place   x f64 · y f64                             little-endian
//! ```

use crate::shape::{Coordinate, POINTS_MAX, Part, Shape};

const POINT: u8 = 1;
const LINE: u8 = 2;
const POLYGON: u8 = 3;
const CIRCLE: u8 = 4;

impl Shape {
    /// The shape as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            match part {
                Part::Point(at) => {
                    bytes.push(POINT);
                    put_place(&mut bytes, *at);
                }
                Part::Line(line) => {
                    bytes.push(LINE);
                    put_line(&mut bytes, line);
                }
                Part::Polygon(rings) => {
                    bytes.push(POLYGON);
                    bytes.extend((rings.len() as u32).to_le_bytes());
                    rings.iter().for_each(|ring| put_line(&mut bytes, ring));
                }
                Part::Circle { center, radius } => {
                    bytes.push(CIRCLE);
                    put_place(&mut bytes, *center);
                    bytes.extend(radius.to_le_bytes());
                }
            }
        }
        bytes
    }

    /// Decodes a shape; `None` for invalid bytes.
    pub fn of_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut parts = Vec::new();
        while let Some((kind, rest)) = bytes.split_first() {
            bytes = rest;
            parts.push(match *kind {
                POINT => Part::Point(take_place(&mut bytes)?),
                LINE => Part::Line(take_line(&mut bytes)?),
                POLYGON => {
                    let count = take_count(&mut bytes)?;
                    let rings = (0..count).map(|_| take_line(&mut bytes));
                    Part::Polygon(rings.collect::<Option<_>>()?)
                }
                CIRCLE => {
                    let center = take_place(&mut bytes)?;
                    Part::Circle { center, radius: take_number(&mut bytes)? }
                }
                _ => return None,
            });
        }
        Some(Self { parts })
    }
}

fn put_place(bytes: &mut Vec<u8>, at: Coordinate) {
    bytes.extend(at.x.to_le_bytes());
    bytes.extend(at.y.to_le_bytes());
}

fn put_line(bytes: &mut Vec<u8>, line: &[Coordinate]) {
    bytes.extend((line.len() as u32).to_le_bytes());
    line.iter().for_each(|at| put_place(bytes, *at));
}

fn take<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn take_number(bytes: &mut &[u8]) -> Option<f64> {
    take(bytes).map(f64::from_le_bytes)
}

fn take_place(bytes: &mut &[u8]) -> Option<Coordinate> {
    Some(Coordinate { x: take_number(bytes)?, y: take_number(bytes)? })
}

fn take_count(bytes: &mut &[u8]) -> Option<usize> {
    let count = u32::from_le_bytes(take(bytes)?) as usize;
    (count <= POINTS_MAX).then_some(count)
}

fn take_line(bytes: &mut &[u8]) -> Option<Vec<Coordinate>> {
    let count = take_count(bytes)?;
    (0..count).map(|_| take_place(bytes)).collect()
}
