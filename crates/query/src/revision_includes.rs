//! `include revisions(…)`: revisions of documents to include with rows.
//!
//! A path leads to the change vector of a revision or to an array of them; a timestamp requests the
//! version of the row itself at that time. `GET /docs?revisions=` has the same semantics, so the
//! server uses this module for it.

use std::collections::HashSet;

use blittable::{Object, Value};
use documents::{FieldPath, Found, RevisionRow};
use model::{DocumentId, date};
use rql::{Expression, MethodCall};
use storage::Transaction;

use crate::error::QueryError;
use crate::parameters::{QueryContext, place_of};

/// Maximum number of revisions included in one response.
const INCLUDED_MAX: usize = 1 << 17;

/// Which revisions to include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionIncludes {
    paths: Vec<String>,
    /// In ticks of UTC.
    moments: Vec<i64>,
}

/// The revisions to include.
#[derive(Default)]
pub struct IncludedRevisions<'t> {
    by_moment: Vec<(i64, RevisionRow<'t>)>,
    by_version: Vec<RevisionRow<'t>>,
    met: HashSet<String>,
}

impl RevisionIncludes {
    /// Adds the path of a field with change vectors.
    pub fn add_path(&mut self, path: &str) {
        self.paths.push(path.to_owned());
    }

    /// Adds a timestamp, if the text is one.
    pub fn add_moment(&mut self, text: &str) -> bool {
        let moment = date::parse(text).map(date::ParsedDate::utc_ticks);
        self.moments.extend(moment);
        moment.is_some()
    }

    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.moments.is_empty()
    }
}

impl<'t> IncludedRevisions<'t> {
    /// Adds what a row requests. `id` is that of the row, if it is a document.
    ///
    /// # Errors
    ///
    /// [`QueryError::InvalidOperation`] when the row lacks a field, or there are too many; errors
    /// from reading the documents.
    pub fn add(
        &mut self,
        tx: &'t impl Transaction,
        wanted: &RevisionIncludes,
        id: Option<&str>,
        row: Object<'_>,
    ) -> Result<(), QueryError> {
        for path in &wanted.paths {
            let found = FieldPath::parse(path).find(row).map_err(documents::DocumentError::from)?;
            self.add_found(tx, path, &found)?;
        }
        // A string that is too long for an id matches no document.
        let id = id.and_then(|id| DocumentId::new(id).ok());
        if let Some(id) = id {
            for moment in &wanted.moments {
                let revision = documents::revision_at(tx, &id, *moment)?;
                self.by_moment.extend(revision.map(|revision| (*moment, revision)));
            }
        }
        self.check_count()
    }

    fn add_found(
        &mut self,
        tx: &'t impl Transaction,
        path: &str,
        found: &Found<'_>,
    ) -> Result<(), QueryError> {
        match found {
            Found::Missing => Err(QueryError::InvalidOperation {
                message: format!(
                    "Field `{path}` (which is mentioned inside `include revisions(..)`) is missing \
                     in document."
                ),
            }),
            Found::One(value) => self.add_value(tx, value),
            Found::List(found) => found.iter().try_for_each(|one| match one {
                Found::Missing => Ok(()),
                one => self.add_found(tx, path, one),
            }),
            Found::Length(_) => Ok(()),
        }
    }

    fn add_value(&mut self, tx: &'t impl Transaction, value: &Value<'_>) -> Result<(), QueryError> {
        match value {
            Value::String(text) => {
                let change_vector = text.as_cow().map_err(documents::DocumentError::from)?;
                if self.met.insert(change_vector.to_string()) {
                    let found = documents::revision_by_change_vector(tx, &change_vector)?;
                    self.by_version.extend(found);
                }
                self.check_count()
            }
            Value::Array(array) => {
                for element in array.iter() {
                    let element = element.map_err(documents::DocumentError::from)?;
                    if matches!(element, Value::String(_)) {
                        self.add_value(tx, &element)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_count(&self) -> Result<(), QueryError> {
        if self.met.len() + self.by_moment.len() <= INCLUDED_MAX {
            return Ok(());
        }
        let message = format!("A response includes at most {INCLUDED_MAX} revisions");
        Err(QueryError::InvalidOperation { message })
    }

    /// The revisions; those requested by timestamp come first, with the timestamp.
    pub fn iter(&self) -> impl Iterator<Item = (Option<i64>, &RevisionRow<'t>)> {
        let by_moment = self.by_moment.iter().map(|(moment, revision)| (Some(*moment), revision));
        by_moment.chain(self.by_version.iter().map(|revision| (None, revision)))
    }
}

/// Whether an item of `include` requests revisions.
pub(crate) fn is_revisions(item: &Expression) -> bool {
    matches!(item, Expression::Method(call) if call.is("revisions"))
}

impl<'a> QueryContext<'a> {
    /// The revisions that the query requests.
    pub(crate) fn revision_includes(&self) -> Result<RevisionIncludes, QueryError> {
        let mut wanted = RevisionIncludes::default();
        for item in &self.query.include {
            if let Expression::Method(call) = item
                && is_revisions(item)
            {
                self.add_revisions(call, &mut wanted)?;
            }
        }
        Ok(wanted)
    }

    fn add_revisions(
        &self,
        call: &'a MethodCall,
        wanted: &mut RevisionIncludes,
    ) -> Result<(), QueryError> {
        for argument in &call.arguments {
            match argument {
                Expression::Field(path) => wanted.add_path(&self.include_field(path)?),
                Expression::Literal(literal) => {
                    let text = self.include_literal(literal)?;
                    if !wanted.add_moment(&text) {
                        wanted.add_path(&text);
                    }
                }
                other => return Err(self.not_yet("a condition in INCLUDE", place_of(other))),
            }
        }
        Ok(())
    }
}
