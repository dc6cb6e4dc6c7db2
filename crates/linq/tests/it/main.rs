//! Tests of whole definitions over documents.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod definitions;
mod expressions;
mod fixture;
mod generated;
mod language;
mod limits;
mod segments;
