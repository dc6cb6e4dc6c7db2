//! `include`: the paths to follow in each row, and the other items of the clause.

use rql::{Expression, FieldPath, Literal, Query};

use crate::counter_includes::is_counters;
use crate::error::{QueryError, unknown_method};
use crate::exchange_value::is_exchange;
use crate::include_path::IncludePath;
use crate::parameters::{QueryContext, QueryValue, place_of};
use crate::projection::{ProjectedValue, Projection};
use crate::requested_notes::is_note;
use crate::revision_includes::is_revisions;
use crate::series_includes::is_series;

/// Methods that `include` supports in addition to paths.
const INCLUDED_METHODS: [&str; 7] =
    ["timings", "explanations", "highlight", "counters", "timeseries", "cmpxchg", "revisions"];

/// A path to follow in each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedInclude {
    /// The path as the response repeats it: without the alias.
    pub path: IncludePath,
    /// The path in the stored document; `None` when a projection does not contain its target.
    pub in_document: Option<IncludePath>,
}

/// Whether the query requests the duration of its stages: `include timings()`.
pub fn wants_timings(query: &Query) -> bool {
    query.include.iter().any(is_timings)
}

pub(crate) fn is_timings(item: &Expression) -> bool {
    matches!(item, Expression::Method(call)
        if call.name.eq_ignore_ascii_case("timings") && call.arguments.is_empty())
}

impl<'a> QueryContext<'a> {
    /// The paths of the clause; `projection` is what the rows contain.
    pub(crate) fn includes(
        &self,
        projection: Option<&Projection>,
    ) -> Result<Vec<PlannedInclude>, QueryError> {
        self.refuse_unknown_includes()?;
        let items = self.query.include.iter();
        let paths = items.filter(|item| {
            !is_timings(item)
                && !is_note(item)
                && !is_revisions(item)
                && !is_counters(item)
                && !is_series(item)
                && !is_exchange(item)
        });
        paths.map(|item| self.include(item, projection)).collect()
    }

    /// Rejects unknown methods of INCLUDE, and arguments that they do not take.
    fn refuse_unknown_includes(&self) -> Result<(), QueryError> {
        for item in &self.query.include {
            let Expression::Method(call) = item else { continue };
            if !INCLUDED_METHODS.iter().any(|known| call.is(known)) {
                return Err(unknown_method(&call.name, &INCLUDED_METHODS));
            }
            if call.is("timings") && !call.arguments.is_empty() {
                return Err(
                    self.invalid("Method 'timings()' expects zero arguments to be provided")
                );
            }
        }
        Ok(())
    }

    /// Plans an item of `include`.
    pub(crate) fn include(
        &self,
        item: &'a Expression,
        projection: Option<&Projection>,
    ) -> Result<PlannedInclude, QueryError> {
        let text = match item {
            Expression::Field(path) => self.include_field(path)?,
            Expression::Literal(literal) => self.include_literal(literal)?,
            Expression::Method(call) => {
                let part = format!("'include {}()'", call.name);
                return Err(self.not_yet(part, Some(call.offset)));
            }
            other => return Err(self.not_yet("a condition in INCLUDE", place_of(other))),
        };
        let in_document = match projection {
            None => Some(text.clone()),
            Some(projection) => projection.path_behind(&text),
        };
        Ok(PlannedInclude {
            path: IncludePath::parse(&text),
            in_document: in_document.map(|text| IncludePath::parse(&text)),
        })
    }

    pub(crate) fn include_field(&self, path: &FieldPath) -> Result<String, QueryError> {
        self.require_known_alias(path)?;
        Ok(path.without_alias(self.alias()).map_or_else(|| path.text(), |path| path.text()))
    }

    pub(crate) fn include_literal(&self, literal: &'a Literal) -> Result<String, QueryError> {
        let text = match self.resolve(literal)? {
            QueryValue::Literal(Literal::String(text)) => text.clone(),
            QueryValue::Literal(other) => other.to_string(),
            QueryValue::Parameter(value) => match value.as_text() {
                Some(text) => text.as_cow()?.into_owned(),
                None => return Err(self.invalid("The path of an INCLUDE must be a text")),
            },
        };
        let behind_alias =
            self.alias().and_then(|alias| text.strip_prefix(alias)?.strip_prefix('.'));
        Ok(behind_alias.map(str::to_owned).unwrap_or(text))
    }
}

impl Projection {
    /// The path in the document that corresponds to a path in the projected row.
    fn path_behind(&self, text: &str) -> Option<String> {
        let (first, rest) = match text.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        let name = first.trim_end_matches("[]");
        let brackets = &first[name.len()..];
        let field = self.fields.iter().find(|field| field.name == name)?;
        let ProjectedValue::Field { path, .. } = &field.value else { return None };
        let path = path.text();
        Some(match rest {
            Some(rest) => format!("{path}{brackets}.{rest}"),
            None => format!("{path}{brackets}"),
        })
    }
}
