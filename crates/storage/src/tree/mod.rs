//! B+trees with variable keys: the page format, reading, and writing.

mod node;
mod read;
mod salvage;
mod write;

pub(crate) use read::{Scan, Step, children, get, range, range_back, walk_pages};
pub(crate) use salvage::{LeafValue, ReadPage, leaf_entries, surviving_entries};
pub(crate) use write::{delete, insert_new, put};
