//! `counter()` and `counterRaw()` in `select`: the value of a counter of the row, or of another
//! document.
//!
//! Counters are looked up for each row, as documents are for `load`; the projection returns what
//! was found.

use blittable::{Object, Value};
use documents::{CounterRow, FieldPath, Found};
use model::{CounterName, DocumentId};
use rql::{Expression, Literal, MethodCall};
use storage::Transaction;

use crate::document_path::document_path;
use crate::error::QueryError;
use crate::loaded::Loaded;
use crate::parameters::{QueryContext, QueryValue, place_of};

/// A counter to look up for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedCounter {
    of: CounterOf,
    pub(crate) name: String,
}

/// The document that the counter belongs to.
#[derive(Clone, Debug, PartialEq)]
enum CounterOf {
    /// The document of the row itself.
    Row,
    /// The document loaded at this position of `load`.
    Loaded(usize),
    /// The document whose id is in a field of the row.
    Path(FieldPath),
}

/// Whether a call of `select` returns a counter; if so, whether its values per node.
pub(crate) fn is_counter(call: &MethodCall) -> Option<bool> {
    match () {
        () if call.is("counter") => Some(false),
        () if call.is("counterRaw") => Some(true),
        () => None,
    }
}

impl<'a> QueryContext<'a> {
    /// What `counter(name)` or `counter(document, name)` returns; `loaded` are the aliases of
    /// loaded documents.
    pub(crate) fn planned_counter(
        &self,
        call: &'a MethodCall,
        loaded: &[&str],
    ) -> Result<PlannedCounter, QueryError> {
        let (of, name) = match call.arguments.as_slice() {
            [name] => (CounterOf::Row, name),
            [Expression::Field(path), name] => {
                let text = path.text();
                let loaded = loaded.iter().position(|alias| *alias == text);
                let of = match (loaded, path.without_alias(self.alias())) {
                    (Some(at), _) => CounterOf::Loaded(at),
                    (None, None) => CounterOf::Row,
                    (None, Some(_)) if path.steps.len() == 1 && self.alias().is_some() => {
                        let message = format!("Unknown alias {text} of a document in '{call}'");
                        return Err(self.invalid(message));
                    }
                    (None, Some(inner)) => {
                        self.require_known_alias(path)?;
                        CounterOf::Path(document_path(&inner))
                    }
                };
                (of, name)
            }
            [document, _] => {
                return Err(self.not_yet("a document without a name", place_of(document)));
            }
            arguments => {
                let name = &call.name;
                return Err(self.invalid(format!(
                    "There is no overload of method '{name}' that takes {} arguments. Supported \
                     overloads are : {name}(name), {name}(doc, name).",
                    arguments.len()
                )));
            }
        };
        let name = match name {
            Expression::Literal(literal) => match self.resolve(literal)? {
                QueryValue::Literal(Literal::String(text)) => text.clone(),
                QueryValue::Literal(other) => other.to_string(),
                QueryValue::Parameter(value) => match value.as_text() {
                    Some(text) => text.as_cow()?.into_owned(),
                    None => {
                        let mut json = Vec::new();
                        blittable::write_json(&value, &mut json)?;
                        String::from_utf8_lossy(&json).into_owned()
                    }
                },
            },
            Expression::Field(path) => path.text(),
            other => return Err(self.not_yet("an expression as a counter's name", place_of(other))),
        };
        Ok(PlannedCounter { of, name })
    }
}

impl PlannedCounter {
    /// Looks the counter up; `id` is that of the row, if it is a document, and `loaded` what was
    /// loaded.
    pub(crate) fn find<'t, T: Transaction>(
        &self,
        tx: &'t T,
        id: Option<&str>,
        row: Object<'_>,
        loaded: &[Loaded<'t>],
    ) -> Result<Option<CounterRow<'t>>, QueryError> {
        let related;
        let id = match &self.of {
            CounterOf::Row => id,
            CounterOf::Loaded(at) => match loaded.get(*at) {
                Some(Loaded::One(Some(document))) => Some(document.id()),
                _ => None,
            },
            CounterOf::Path(path) => match path.find(row)? {
                Found::One(Value::String(text)) => {
                    related = text.as_cow()?.into_owned();
                    Some(related.as_str())
                }
                _ => None,
            },
        };
        find(tx, id.unwrap_or_default(), &self.name)
    }
}

/// The counter of that document and name. A string that is too long for an id or a name matches no
/// counter.
pub(crate) fn find<'t>(
    tx: &'t impl Transaction,
    id: &str,
    name: &str,
) -> Result<Option<CounterRow<'t>>, QueryError> {
    let (Ok(id), Ok(name)) = (DocumentId::new(id), CounterName::new(name)) else {
        return Ok(None);
    };
    Ok(documents::counter(tx, &id, &name)?)
}

/// The values of a counter per node and database that counted: `A-` and the database's id.
pub(crate) fn values_of(row: &CounterRow<'_>) -> Result<Vec<(String, i64)>, QueryError> {
    let named = row.values().map(|value| {
        let value = value?;
        Ok((format!("{}-{}", value.node_tag, value.database_id), value.value))
    });
    named.collect()
}

/// Appends the value of a counter, or its values per node; for a missing one `null`, or no values.
pub(crate) fn write_counter(
    row: Option<&CounterRow<'_>>,
    is_raw: bool,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    if !is_raw {
        match row {
            Some(row) => out.extend_from_slice(row.total().to_string().as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        return Ok(());
    }
    out.push(b'{');
    let values = row.map(values_of).transpose()?.unwrap_or_default();
    for (index, (node, value)) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(format!("\"{node}\":{value}").as_bytes());
    }
    out.push(b'}');
    Ok(())
}
