//! B+trees with variable keys: the page format, reading, and writing.

mod node;
mod read;
mod write;

pub(crate) use read::{get, range, range_back, walk_pages};
pub(crate) use write::{delete, drop_pages, put};
