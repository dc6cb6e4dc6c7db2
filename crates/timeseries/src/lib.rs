//! Segments of time series: entries in order of their moments, in few bytes. Pure functions.
//!
//! A segment is written once as a whole; a change rewrites it. It has columns, one for the moments,
//! one for the tags and one for each position of the values, and each column has the encoding that
//! makes it smallest:
//!
//! - whole numbers are packed into as many bits as most of them need, counted from a base, with the
//!   others on the side (Zukowski and others, "Super-Scalar RAM-CPU Cache Compression", ICDE 2006);
//! - moments are packed differences, which for a regular series need no bits at all;
//! - values that are decimals of few digits become whole numbers first (after Afroozeh and others, "ALP:
//!   Adaptive Lossless Floating-Point Compression", SIGMOD 2023);
//! - other values are combined with their predecessors by exclusive or (Pelkonen and others, "Gorilla",
//!   VLDB 2015).
//!
//! Invariants: decoding restores exactly what was encoded; no bytes make it panic, or need more
//! memory than [`ENTRIES_MAX`] entries of [`VALUES_MAX`] values.
//!
//! | file | what |
//! |---|---|
//! | `entries` | entries in memory |
//! | `segment` | a segment, drawn |
//! | `tags`, `value_column`, `xor`, `packed` | its columns |
//! | `bytes` | reading and writing the parts |
//! | `summary` | aggregates of many values |
#![forbid(unsafe_code)]

mod bytes;
mod entries;
mod packed;
mod segment;
mod summary;
mod tags;
mod value_column;
mod xor;

pub use bytes::Damaged;
pub use entries::{Entries, Entry};
pub use segment::{decode, encode};
pub use summary::Summary;

/// The most entries of a segment.
pub const ENTRIES_MAX: usize = 1024;
/// The most values of an entry.
pub const VALUES_MAX: usize = 32;
/// The longest tag in bytes.
pub const TAG_BYTES_MAX: usize = 255;
