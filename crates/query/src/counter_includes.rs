//! `include counters(…)`: counter values to include with rows.
//!
//! The counters are those of the row itself, or of a document whose id is in a field of the row.
//! `GET /docs?counter=` has the same semantics, so the server uses this module for it.

use std::collections::HashMap;

use blittable::{Object, Value};
use documents::FieldPath;
use documents::{DocumentError, Found};
use model::{CounterName, DocumentId, Etag};
use rql::{Expression, Literal, MethodCall};
use storage::Transaction;

use crate::error::QueryError;
use crate::parameters::{QueryContext, QueryValue, place_of};

/// Maximum number of counters included in one response.
const INCLUDED_MAX: usize = 1 << 17;

/// Which counters to include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterIncludes {
    wanted: Vec<WantedCounters>,
}

/// The counters of one kind of document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedCounters {
    /// The field that contains the id of the document; `None` for the row itself.
    path: Option<String>,
    /// The counter names; `None` for all.
    names: Option<Vec<String>>,
}

/// The values of the counters to include, by document.
#[derive(Default)]
pub struct IncludedCounters {
    documents: Vec<CountersOfDocument>,
    /// By lower-cased id.
    met: HashMap<String, usize>,
    count: usize,
    /// The approximate memory of all of them.
    bytes: u64,
}

/// The counters of one document.
pub struct CountersOfDocument {
    /// The id, as the row or its field spells it.
    pub id: String,
    /// In the order requested; `None` for one that does not exist.
    pub counters: Vec<Option<IncludedCounter>>,
    /// The requested names; empty for all.
    pub names: Vec<String>,
}

impl CountersOfDocument {
    fn bytes(&self) -> u64 {
        let of_names: usize = self.names.iter().map(|name| size_of::<String>() + name.len()).sum();
        let name_bytes = |counter: &Option<IncludedCounter>| {
            size_of::<IncludedCounter>() + counter.as_ref().map_or(0, |counter| counter.name.len())
        };
        let of_counters: usize = self.counters.iter().map(name_bytes).sum();
        (size_of::<Self>() + 2 * self.id.len() + of_names + of_counters) as u64
    }
}

/// The value of a counter.
pub struct IncludedCounter {
    /// Its name, as requested.
    pub name: String,
    /// The sum of its values.
    pub total: i64,
    /// The etag of its last change.
    pub etag: Etag,
}

impl CounterIncludes {
    /// Counters of each row by their names; all when `names` is `None`.
    pub fn of_rows(names: Option<Vec<String>>) -> Self {
        Self { wanted: vec![WantedCounters { path: None, names }] }
    }

    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Requests further counters of the same document. A request for all counters supersedes
    /// requests by name.
    fn add(&mut self, path: Option<String>, names: Option<Vec<String>>) {
        match self.wanted.iter_mut().find(|known| known.path == path) {
            Some(known) => match (&mut known.names, names) {
                (Some(known), Some(names)) => known.extend(names),
                (known, None) => *known = None,
                (None, Some(_)) => {}
            },
            None => self.wanted.push(WantedCounters { path, names }),
        }
    }
}

impl IncludedCounters {
    /// Adds what a row requests. `id` is that of the row, if it is a document.
    ///
    /// # Errors
    ///
    /// [`QueryError::InvalidOperation`] when the row lacks a field, or there are too many; errors
    /// from reading the documents.
    pub fn add(
        &mut self,
        tx: &impl Transaction,
        includes: &CounterIncludes,
        id: Option<&str>,
        row: Object<'_>,
    ) -> Result<(), QueryError> {
        for WantedCounters { path, names } in &includes.wanted {
            match path {
                None => {
                    if let Some(id) = id {
                        self.add_document(tx, id, names.as_deref())?;
                    }
                }
                Some(path) => {
                    match FieldPath::parse(path).find(row).map_err(DocumentError::from)? {
                        Found::Missing => {
                            let id = id.unwrap_or_default();
                            return Err(invalid(format!(
                                "Cannot include counters for related document '{path}', document {id} \
                             doesn't have a field named '{path}'. "
                            )));
                        }
                        Found::One(Value::String(related)) => {
                            let related = related.as_cow().map_err(DocumentError::from)?;
                            self.add_document(tx, &related, names.as_deref())?;
                        }
                        Found::One(_) | Found::List(_) | Found::Length(_) => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn add_document(
        &mut self,
        tx: &impl Transaction,
        id: &str,
        names: Option<&[String]>,
    ) -> Result<(), QueryError> {
        // A string that is too long for an id matches no document.
        let Ok(document) = DocumentId::new(id) else { return Ok(()) };
        if self.met.contains_key(document.lower_cased()) {
            return Ok(());
        }
        let counters = match names {
            Some(names) => {
                names.iter().map(|name| by_name(tx, &document, name)).collect::<Result<_, _>>()?
            }
            None => all_of(tx, &document)?,
        };
        self.count += counters.len();
        if INCLUDED_MAX < self.count {
            return Err(invalid(format!("A response includes at most {INCLUDED_MAX} counters")));
        }
        self.met.insert(document.lower_cased().to_owned(), self.documents.len());
        let names = names.map(<[String]>::to_vec).unwrap_or_default();
        let document = CountersOfDocument { id: id.to_owned(), counters, names };
        self.bytes += document.bytes();
        self.documents.push(document);
        Ok(())
    }

    /// The approximate memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The documents in the order in which they were first encountered.
    pub fn documents(&self) -> &[CountersOfDocument] {
        &self.documents
    }
}

fn by_name(
    tx: &impl Transaction,
    id: &DocumentId,
    name: &str,
) -> Result<Option<IncludedCounter>, QueryError> {
    // No counter has a name that is too long.
    let Ok(counter_name) = CounterName::new(name) else { return Ok(None) };
    let row = documents::counter(tx, id, &counter_name)?;
    Ok(row.map(|row| IncludedCounter {
        name: name.to_owned(),
        total: row.total(),
        etag: row.etag(),
    }))
}

/// All counters of a document, ordered by the bytes of their names.
fn all_of(
    tx: &impl Transaction,
    id: &DocumentId,
) -> Result<Vec<Option<IncludedCounter>>, QueryError> {
    let mut counters = Vec::new();
    for row in documents::counters_of(tx, id)? {
        let row = row?;
        let (name, total, etag) = (row.name().to_owned(), row.total(), row.etag());
        counters.push(Some(IncludedCounter { name, total, etag }));
    }
    counters.sort_unstable_by(|a, b| {
        let name = |counter: &Option<IncludedCounter>| counter.as_ref().map(|one| one.name.clone());
        name(a).cmp(&name(b))
    });
    Ok(counters)
}

/// Whether an item of `include` requests counters.
pub(crate) fn is_counters(item: &Expression) -> bool {
    matches!(item, Expression::Method(call) if call.is("counters"))
}

impl<'a> QueryContext<'a> {
    /// The counters that the query requests.
    pub(crate) fn counter_includes(&self) -> Result<CounterIncludes, QueryError> {
        let mut includes = CounterIncludes::default();
        for item in &self.query.include {
            if let Expression::Method(call) = item
                && is_counters(item)
            {
                self.add_counters(call, &mut includes)?;
            }
        }
        Ok(includes)
    }

    /// `counters()`, `counters(document)`, `counters('name', …)`, `counters(document, 'name', …)`.
    fn add_counters(
        &self,
        call: &'a MethodCall,
        includes: &mut CounterIncludes,
    ) -> Result<(), QueryError> {
        let (path, names) = match call.arguments.split_first() {
            Some((Expression::Field(path), rest)) => {
                self.require_known_alias(path)?;
                let inner = match self.alias() {
                    Some(alias) if path.text() == alias => None,
                    alias => path.without_alias(alias),
                };
                (inner.map(|path| path.text()), rest)
            }
            _ => (None, call.arguments.as_slice()),
        };
        let mut wanted = Vec::new();
        for name in names {
            let Expression::Literal(literal) = name else {
                return Err(self.not_yet("an expression as the name of a counter", place_of(name)));
            };
            self.add_names(literal, &mut wanted)?;
        }
        includes.add(path, if names.is_empty() { None } else { Some(wanted) });
        Ok(())
    }

    fn add_names(&self, literal: &'a Literal, names: &mut Vec<String>) -> Result<(), QueryError> {
        let refused = |shown: String, kind: &str| {
            self.invalid(format!(
                "Parameters of method `counters` must be of type `string` or `string[]`, but got \
                 `{shown}` of type `{kind}`"
            ))
        };
        match self.resolve(literal)? {
            QueryValue::Literal(Literal::String(text)) => names.push(text.clone()),
            QueryValue::Literal(other @ Literal::Number(_)) => {
                return Err(refused(other.to_string(), "Long"));
            }
            QueryValue::Literal(other) => return Err(refused(other.to_string(), "Unknown")),
            QueryValue::Parameter(Value::String(text)) => names.push(text.as_cow()?.into_owned()),
            QueryValue::Parameter(Value::Array(array)) => {
                for element in array.iter() {
                    match element? {
                        Value::String(text) => names.push(text.as_cow()?.into_owned()),
                        other => return Err(refused(json_of(&other)?, "Unknown")),
                    }
                }
            }
            QueryValue::Parameter(other) => return Err(refused(json_of(&other)?, "Unknown")),
        }
        Ok(())
    }
}

fn json_of(value: &Value<'_>) -> Result<String, QueryError> {
    let mut json = Vec::new();
    blittable::write_json(value, &mut json)?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

fn invalid(message: String) -> QueryError {
    QueryError::InvalidOperation { message }
}
