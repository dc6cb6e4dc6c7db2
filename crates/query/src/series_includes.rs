//! `include timeseries(…)`: which parts of which time series to include with rows.
//!
//! The series are those of the row itself, of a document whose id is in a field of the row, or of
//! one that `load` loads for it. Only ids are collected here; the entries are read when they are
//! written.

use std::collections::HashMap;

use blittable::{Object, Value};
use documents::{DocumentError, FieldPath, Found};
use model::{DocumentId, date};
use rql::{Expression, Literal, MethodCall};

use crate::error::{QueryError, unknown_method};
use crate::parameters::{QueryContext, QueryValue, place_of};
use crate::time_series::{TimeLength, length_of_unit};

/// Maximum number of documents whose series one response includes.
const DOCUMENTS_MAX: usize = 1 << 17;

/// A series, or all series of a document, and a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesInclude {
    /// `None` for every series of the document.
    pub name: Option<String>,
    /// Which entries of it are included.
    pub part: SeriesPart,
}

/// Which entries of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesPart {
    /// Those between two timestamps, in ticks; `None` for an open end.
    Between(Option<i64>, Option<i64>),
    /// The last ones, this many.
    LastCount(u64),
    /// Those at most this many ticks before the last one.
    LastTicks(i64),
    /// Those at most this many months before the last one.
    LastMonths(i64),
}

/// The time series that a query or subscription includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesIncludes {
    /// With the field that contains the id of the document; `None` for the row itself.
    wanted: Vec<(Option<String>, SeriesInclude)>,
}

/// What to include with the rows seen so far.
#[derive(Debug, Default)]
pub struct IncludedSeries {
    /// By the id as the row or its field spells it, in the order in which they were first
    /// encountered.
    documents: Vec<(String, Vec<SeriesInclude>)>,
    /// By lower-cased id.
    met: HashMap<String, usize>,
}

impl SeriesIncludes {
    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
}

impl IncludedSeries {
    /// Adds what a row requests. `id` is that of the row, if it is a document.
    ///
    /// # Errors
    ///
    /// [`QueryError::InvalidOperation`] when the row lacks a field, or there are too many
    /// documents; errors from reading the documents.
    pub(crate) fn add(
        &mut self,
        includes: &SeriesIncludes,
        id: Option<&str>,
        row: Object<'_>,
    ) -> Result<(), QueryError> {
        for (path, include) in &includes.wanted {
            let Some(path) = path else {
                if let Some(id) = id {
                    self.add_document(id, include)?;
                }
                continue;
            };
            match FieldPath::parse(path).find(row).map_err(DocumentError::from)? {
                Found::One(Value::String(related)) => {
                    let related = related.as_cow().map_err(DocumentError::from)?;
                    self.add_document(&related, include)?;
                }
                Found::Missing => {
                    let id = id.unwrap_or_default();
                    let message = format!(
                        "Cannot include time series for related document '{path}', document {id} \
                         doesn't have a field named '{path}'. "
                    );
                    return Err(QueryError::InvalidOperation { message });
                }
                Found::One(_) | Found::List(_) | Found::Length(_) => {}
            }
        }
        Ok(())
    }

    fn add_document(&mut self, id: &str, include: &SeriesInclude) -> Result<(), QueryError> {
        // A string that is too long for an id matches no document.
        let Ok(document) = DocumentId::new(id) else { return Ok(()) };
        let place = match self.met.get(document.lower_cased()) {
            Some(place) => *place,
            None if self.documents.len() < DOCUMENTS_MAX => {
                self.met.insert(document.lower_cased().to_owned(), self.documents.len());
                self.documents.push((id.to_owned(), Vec::new()));
                self.documents.len() - 1
            }
            None => {
                let message =
                    format!("A response includes time series of at most {DOCUMENTS_MAX} documents");
                return Err(QueryError::InvalidOperation { message });
            }
        };
        let wanted = &mut self.documents[place].1;
        if !wanted.contains(include) {
            wanted.push(include.clone());
        }
        Ok(())
    }

    /// The documents in the order in which they were first encountered, with what to include of
    /// each.
    pub fn documents(&self) -> &[(String, Vec<SeriesInclude>)] {
        &self.documents
    }
}

/// Whether an item of `include` requests time series.
pub(crate) fn is_series(item: &Expression) -> bool {
    matches!(item, Expression::Method(call) if call.is("timeseries"))
}

impl<'a> QueryContext<'a> {
    /// The time series that the query requests.
    pub(crate) fn series_includes(&self) -> Result<SeriesIncludes, QueryError> {
        let mut includes = SeriesIncludes::default();
        for item in &self.query.include {
            if let Expression::Method(call) = item
                && is_series(item)
            {
                includes.wanted.push(self.series_include(call)?);
            }
        }
        Ok(includes)
    }

    /// `timeseries('name', from, to)`, `timeseries('name', last(2))`, `timeseries(last(1,
    /// 'hour'))`, each of them also with a document as the first argument.
    fn series_include(
        &self,
        call: &'a MethodCall,
    ) -> Result<(Option<String>, SeriesInclude), QueryError> {
        let (path, rest) = match call.arguments.split_first() {
            Some((Expression::Field(path), rest)) if !rest.is_empty() => {
                let of_load = self.query.load.iter().find(|load| load.alias == path.text());
                let path = of_load.map_or(path, |load| &load.path);
                let inner = path.without_alias(self.alias()).map(|inner| inner.text());
                // A lone name refers to a series of the row, even without an alias.
                let is_row = path.steps.len() == 1 && of_load.is_none();
                (inner.filter(|_| !is_row), rest)
            }
            _ => (None, call.arguments.as_slice()),
        };
        let (name, part) = match rest {
            [Expression::Method(last)] => (None, self.last_part(last)?),
            [Expression::Literal(name), Expression::Method(last)] => {
                (Some(self.series_name(name, call)?), self.last_part(last)?)
            }
            [Expression::Literal(name), Expression::Literal(from), Expression::Literal(to)] => {
                let name = self.series_name(name, call)?;
                let part = SeriesPart::Between(self.end(&name, from)?, self.end(&name, to)?);
                (Some(name), part)
            }
            _ => return Err(self.no_series_include(call)),
        };
        Ok((path, SeriesInclude { name, part }))
    }

    fn no_series_include(&self, call: &MethodCall) -> QueryError {
        self.invalid(format!(
            "Expected to get include 'TimeSeries' clause expression, but got: '{call}'."
        ))
    }

    fn series_name(&self, name: &'a Literal, call: &MethodCall) -> Result<String, QueryError> {
        match self.resolve(name)? {
            QueryValue::Literal(Literal::String(name)) => Ok(name.clone()),
            QueryValue::Parameter(Value::String(name)) => Ok(name.as_cow()?.into_owned()),
            _ => Err(self.no_series_include(call)),
        }
    }

    fn end(&self, name: &str, end: &'a Literal) -> Result<Option<i64>, QueryError> {
        let text = match self.resolve(end)? {
            QueryValue::Literal(Literal::Null) | QueryValue::Parameter(Value::Null) => {
                return Ok(None);
            }
            QueryValue::Literal(Literal::String(text)) => text.clone(),
            QueryValue::Parameter(Value::String(text)) => text.as_cow()?.into_owned(),
            _ => {
                return Err(self.invalid(format!(
                    "From/To parameters of method of `timeseries` must be of type `string` or `null`, \
                     but got `{end}`"
                )));
            }
        };
        match date::parse(&text) {
            Some(found) if !matches!(found.zone, date::Zone::Offset(_)) => {
                Ok(Some(found.utc_ticks()))
            }
            Some(_) | None => Err(QueryError::Argument {
                message: format!("Could not parse query string '{name}' as date, val '{text}'"),
            }),
        }
    }

    fn last_part(&self, call: &'a MethodCall) -> Result<SeriesPart, QueryError> {
        if !call.is("last") {
            return Err(unknown_method(&call.name, &["last"]));
        }
        let refused = || self.invalid("Could not parse last() method.");
        let (count, unit) = match call.arguments.as_slice() {
            [Expression::Literal(count)] => (count, None),
            [Expression::Literal(count), Expression::Literal(Literal::String(unit))] => {
                (count, Some(unit.as_str()))
            }
            [Expression::Literal(_), other] => {
                return Err(self.not_yet("a unit that is no text", place_of(other)));
            }
            _ => return Err(refused()),
        };
        let Some(count) = self.long(count).ok().flatten() else { return Err(refused()) };
        let Some(unit) = unit else {
            return Ok(SeriesPart::LastCount(u64::try_from(count).unwrap_or(0)));
        };
        match length_of_unit(count.max(0), unit) {
            Some(length) if length.is_in_milliseconds() => Err(refused()),
            Some(TimeLength::Ticks { length, .. }) => Ok(SeriesPart::LastTicks(length)),
            Some(TimeLength::Months(months)) => Ok(SeriesPart::LastMonths(months)),
            None => Err(refused()),
        }
    }
}
