//! The crate as its callers see it.

mod relations;
mod texts;
