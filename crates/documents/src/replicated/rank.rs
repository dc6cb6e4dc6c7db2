//! Which of two versions of a document is kept if neither knows of the other.
//!
//! Invariant: a version ranks above every version that it was written over. So the highest of any versions is the highest
//! of those that no other one contains, and it does not matter in what order they meet: a document is what the highest
//! of all versions is that its change vector contains.

use std::cmp::Ordering;

use blittable::{BlittableBuf, Value};
use model::ChangeVector;

use crate::{error::DocumentError, metadata};

/// The collection of documents that number others; their highest number is kept.
const NUMBERING: &str = "@hilo";

/// A version, as it is compared.
pub(crate) struct Ranked<'v> {
    pub(crate) change_vector: &'v ChangeVector,
    pub(crate) last_modified_ticks: i64,
    pub(crate) collection: &'v str,
    /// The document without its lists; `None` if it was deleted.
    pub(crate) body: Option<&'v BlittableBuf>,
}

impl Ranked<'_> {
    /// Whether both are the same document, or both deleted.
    pub(crate) fn has_same_content(&self, other: &Ranked<'_>) -> Result<bool, DocumentError> {
        match (self.body, other.body) {
            (None, None) => Ok(true),
            (Some(one), Some(other)) => {
                let (one, other) = (one.as_view(), other.as_view());
                Ok(blittable::equal(&Value::Object(one.root()), &Value::Object(other.root()))?)
            }
            (Some(_), None) | (None, Some(_)) => Ok(false),
        }
    }

    /// Whether it numbers other documents: then the highest number is always kept.
    pub(crate) fn is_numbering(&self) -> bool {
        self.collection.eq_ignore_ascii_case(NUMBERING)
    }

    /// The order of versions. A cluster-wide transaction is above everything that does not know of it. Of documents that
    /// number others the one with the higher number is, of all others the one that was written later; if that does not
    /// decide, the content does.
    pub(crate) fn compare(&self, other: &Ranked<'_>) -> Result<Ordering, DocumentError> {
        let transactions = |version: &Self| version.change_vector.transaction_number();
        let other_transactions = other.change_vector.transaction_number();
        let first = transactions(self)
            .cmp(&other_transactions)
            .then(self.number()?.cmp(&other.number()?))
            .then(self.last_modified_ticks.cmp(&other.last_modified_ticks))
            .then(self.body.is_some().cmp(&other.body.is_some()));
        match (first, self.body, other.body) {
            (Ordering::Equal, Some(one), Some(other)) => {
                Ok(one.as_view().to_json()?.cmp(&other.as_view().to_json()?))
            }
            (decided, ..) => Ok(decided),
        }
    }

    fn number(&self) -> Result<Option<i64>, DocumentError> {
        let Some(body) = self.body.filter(|_| self.collection.eq_ignore_ascii_case(NUMBERING))
        else {
            return Ok(None);
        };
        match body.as_view().root().get("Max")? {
            Some(Value::Integer(number)) => Ok(Some(number)),
            Some(_) | None => Ok(None),
        }
    }
}

/// A document without what its metadata lists, which each database lists by itself.
pub(crate) fn without_lists(body: &blittable::Document<'_>) -> Result<BlittableBuf, DocumentError> {
    match metadata::listed_in(body)? {
        None => Ok(body.to_buf()),
        Some(_) => metadata::with_listed(body, None),
    }
}
