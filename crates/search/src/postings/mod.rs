//! Postings: which entries have a term, and for words how often and in how long a text.
//!
//! [`format`] draws the bytes, [`block`] packs and unpacks them, [`list`] is a whole list for reading,
//! [`merge`] changes lists.

pub(crate) mod block;
pub(crate) mod format;
pub(crate) mod list;
pub(crate) mod merge;

#[cfg(test)]
mod tests;

pub(crate) use format::{Posting, Weight};
pub(crate) use list::{ListCursor, PostingList};
