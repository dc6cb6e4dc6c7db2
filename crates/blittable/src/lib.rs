//! blittable
