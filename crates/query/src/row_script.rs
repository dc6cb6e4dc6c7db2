//! The scripts of a query: `select { … }` and `select f(…)`, which produce rows, and the filter,
//! which selects them; and the documents that `load` loads for each row.
//!
//! A script is compiled once per query and called once per row, on the thread that writes the rows.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use blittable::{BlittableBuf, Document, Edit, Item, Object, Value};
use cluster_state::DatabaseValues;
use documents::{DocumentRow, FieldPath, Found};
use model::DocumentId;
use rql::{Expression, Query, Select, SelectItem, Selection};
use script::{
    Argument, BoundProjection, Budget, DocumentInfo, Engine, Host, HostError, ScriptDocument,
    ScriptPool, ScriptValue, SeriesArgument, TimeSeriesEntry, TimeSeriesStats,
};
use storage::{Transaction, WorkingMemory};

use crate::document_path::document_path;
use crate::error::QueryError;
use crate::exchange_value::{PlannedValue, is_exchange, read_value};
use crate::filter_script::{FUNCTIONS, document_name};
use crate::included_values::IncludedValues;
use crate::loaded::Loaded;
use crate::parameters::QueryContext;
use crate::projected_counter::{self, PlannedCounter, is_counter};
use crate::row_document::{RowDocument, decompressed_bytes, printed_bytes};
use crate::time_series::{PlannedSeries, SeriesCalls};

/// Maximum nesting of arrays in a parameter.
const PARAMETER_DEPTH_MAX: usize = 64;
/// Memory of an id besides its text while a document is loaded.
const ID_BYTES: u64 = 128;
/// Memory of a loaded document that is read in place.
const LOADED_BYTES: u64 = 256;

/// The scripts of a query, bound to the thread that created them.
pub struct QueryScripts {
    engine: Rc<Engine>,
    /// Returns the rows of a document; `None` without a script in `select`.
    rows: Option<script::Projection>,
    /// Decides whether a row passes `filter`; `None` without a script.
    filter: Option<script::Projection>,
}

/// The scripts of a query with the values of its parameters.
pub struct BoundScripts<'s> {
    rows: Option<BoundProjection<'s>>,
    filter: Option<BoundProjection<'s>>,
    /// The time series queries that the scripts may call.
    series: Vec<PlannedSeries>,
}

impl<'s> BoundScripts<'s> {
    pub(crate) fn rows(&self) -> Option<&BoundProjection<'s>> {
        self.rows.as_ref()
    }

    /// Limits the time of the scripts of all rows together; see
    /// [`Self::rows_have_run_out_of_time`].
    pub fn limit_time_of_rows(&self, time: Duration) {
        if let Some(rows) = &self.rows {
            rows.limit_time(time);
        }
    }

    /// Whether the time of the scripts of rows is used up; the row that used it up has failed.
    pub fn rows_have_run_out_of_time(&self) -> bool {
        self.rows.as_ref().is_some_and(BoundProjection::has_run_out_of_time)
    }

    pub(crate) fn filter(&self) -> Option<&BoundProjection<'s>> {
        self.filter.as_ref()
    }

    pub(crate) fn series(&self) -> &[PlannedSeries] {
        &self.series
    }
}

impl QueryScripts {
    /// The scripts of `query`; `None` when it has none.
    ///
    /// # Errors
    ///
    /// [`QueryError::Invalid`] and [`QueryError::Method`] for a filter that cannot be evaluated.
    pub fn of(
        query: &Query,
        parameters: Option<Object<'_>>,
        pool: &ScriptPool,
    ) -> Result<Option<QueryScripts>, QueryError> {
        let context = QueryContext::new(query, parameters);
        let rows = match context.group_script()? {
            Some(script) => Some(script.text),
            None => row_text(query, parameters)?,
        };
        let filter = context.filter_text()?;
        if rows.is_none() && filter.is_none() {
            return Ok(None);
        }
        let declared: Vec<String> = functions_of(query).collect();
        let declared: Vec<&str> = declared.iter().map(String::as_str).collect();
        let rows = rows.map(|text| {
            let unnamed = query.source.alias.is_none().then(|| document_name(0));
            let names: Vec<&str> = unnamed.as_deref().into_iter().chain(names_of(query)).collect();
            script::Projection::new(&names, &declared, &text)
        });
        let filter = filter.map(|text| {
            let names: Vec<String> = (0..=query.load.len()).map(document_name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            script::Projection::new(&names, &[&declared, FUNCTIONS.as_slice()].concat(), &text)
        });
        Ok(Some(QueryScripts { engine: pool.engine(), rows, filter }))
    }

    /// Binds the scripts to the values of the query's parameters.
    ///
    /// # Errors
    ///
    /// [`QueryError::Invalid`] when a text is not a valid script.
    pub fn bind(
        &self,
        query: &Query,
        parameters: Option<Object<'_>>,
    ) -> Result<BoundScripts<'_>, QueryError> {
        let context = QueryContext::new(query, parameters);
        Ok(BoundScripts {
            rows: self.bind_one(self.rows.as_ref(), "Select", &context)?,
            filter: self.bind_one(self.filter.as_ref(), "Filter", &context)?,
            series: context.series_functions()?,
        })
    }

    fn bind_one<'s>(
        &'s self,
        script: Option<&'s script::Projection>,
        clause: &str,
        context: &QueryContext<'_>,
    ) -> Result<Option<BoundProjection<'s>>, QueryError> {
        let value_of = |name: &str| {
            let value = context.parameters?.get(name).ok()??;
            script_value(&value, 0)
        };
        let bound = script.map(|script| script.bind(&self.engine, value_of));
        bound.transpose().map_err(|error| {
            context.invalid(format!("{clause} clause contains invalid script\n{error}"))
        })
    }
}

/// The names of a row's documents, in the order of the arguments: the row itself, then those loaded.
fn names_of(query: &Query) -> impl Iterator<Item = &str> {
    query
        .source
        .alias
        .as_deref()
        .into_iter()
        .chain(query.load.iter().map(|item| item.alias.as_str()))
}

/// The functions that the query declares, as JavaScript. Those over time series call the host.
pub(crate) fn functions_of(query: &Query) -> impl Iterator<Item = String> {
    query.declarations.iter().map(|declared| {
        let name = &declared.name;
        match declared.function() {
            Some(body) => {
                format!("function {name}({}) {{{body}\n}}", declared.parameters.join(", "))
            }
            None => {
                format!(
                    "function {name}(...values) {{ return timeSeriesQuery('{name}', values); }}"
                )
            }
        }
    })
}

/// The expression that produces a row, if it is a script.
pub(crate) fn script_text(query: &Query) -> Option<String> {
    match &query.select.as_ref()?.selection {
        // What follows must not become part of a trailing comment.
        Selection::Script(text) => Some(format!("{{{text}\n}}")),
        Selection::Items(items) => match items.as_slice() {
            [SelectItem { value: Expression::Method(call), .. }]
                if is_declared(query, &call.name) =>
            {
                Some(call.to_string())
            }
            _ => None,
        },
        Selection::Everything => None,
    }
}

/// The text of the script that produces a row. A function that is the whole row receives the
/// query's parameters as its last argument, or null when there are none.
fn row_text(query: &Query, parameters: Option<Object<'_>>) -> Result<Option<String>, QueryError> {
    let Some(text) = script_text(query) else { return Ok(None) };
    let is_call =
        query.select.as_ref().is_some_and(|select| matches!(select.selection, Selection::Items(_)));
    let Some(call) = text.strip_suffix(')').filter(|_| is_call) else { return Ok(Some(text)) };
    let last = match parameters {
        None => "null".to_owned(),
        Some(parameters) => {
            let mut members = Vec::new();
            for member in parameters.iter() {
                let (name, _) = member?;
                if is_identifier(name) {
                    members.push(format!("{name}: ${name}"));
                }
            }
            format!("{{{}}}", members.join(", "))
        }
    };
    let separator = if call.ends_with('(') { "" } else { ", " };
    Ok(Some(format!("{call}{separator}{last})")))
}

/// Whether a name is valid for a parameter in scripts.
fn is_identifier(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.chars().next().is_some_and(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

fn is_declared(query: &Query, name: &str) -> bool {
    query
        .declarations
        .iter()
        .any(|declaration| declaration.function().is_some() && declaration.name == name)
}

/// Whether executing the query may run a script that its text contains, rather than one that is made from its clauses.
pub fn contains_script(query: &Query) -> bool {
    let declares = query.declarations.iter().any(|declaration| declaration.function().is_some());
    declares || query.select.as_ref().is_some_and(|select| is_script(query, select))
}

/// Whether a script produces the rows of this `select`.
pub(crate) fn is_script(query: &Query, select: &Select) -> bool {
    matches!(select.selection, Selection::Script(_)) || script_text(query).is_some()
}

/// What is to be loaded for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedLoad {
    /// Which of the row's documents the path starts from.
    from: usize,
    path: FieldPath,
    pub(crate) many: bool,
    /// The name of the loaded document; empty for anything else.
    pub(crate) alias: String,
    /// What is loaded instead of documents.
    pub(crate) instead: Option<Instead>,
}

/// What is loaded for a row and is not a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Instead {
    Counter(PlannedCounter),
    /// A compare exchange value.
    Value(PlannedValue),
}

impl PlannedLoad {
    fn instead(instead: Instead) -> Self {
        let (path, alias) = (FieldPath::new(Vec::new()), String::new());
        Self { from: 0, path, many: false, alias, instead: Some(instead) }
    }
}

impl QueryContext<'_> {
    /// What is to be loaded for each row. A path starts at the row or at what was loaded before.
    pub(crate) fn loads(&self) -> Result<Vec<PlannedLoad>, QueryError> {
        let known: Vec<&str> = names_of(self.query).collect();
        let mut loads: Vec<PlannedLoad> = Vec::with_capacity(self.query.load.len());
        for item in &self.query.load {
            let path = document_path(&item.path);
            let [first, rest @ ..] = path.steps() else { continue };
            let documents::FieldStep::Member(first) = first else { continue };
            let own = loads.len() + 1;
            let Some(from) = known[..own.min(known.len())].iter().position(|name| *name == first)
            else {
                let message = format!("Unknown alias {first} in the LOAD clause");
                return Err(self.invalid(message));
            };
            let path = FieldPath::new(rest.to_vec());
            let (many, alias) = (item.many, item.alias.clone());
            loads.push(PlannedLoad { from, path, many, alias, instead: None });
        }
        self.add_what_is_shown(&mut loads)?;
        Ok(loads)
    }

    /// Adds the counters and values that `select` returns, after the documents.
    fn add_what_is_shown(&self, loads: &mut Vec<PlannedLoad>) -> Result<(), QueryError> {
        let selection = self.query.select.as_ref().map(|select| &select.selection);
        let Some(Selection::Items(items)) = selection else { return Ok(()) };
        let aliases: Vec<&str> = self.query.load.iter().map(|item| item.alias.as_str()).collect();
        for item in items {
            let Expression::Method(call) = &item.value else { continue };
            if is_counter(call).is_some() {
                let counter = self.planned_counter(call, &aliases)?;
                loads.push(PlannedLoad::instead(Instead::Counter(counter)));
            } else if is_exchange(&item.value) {
                let value = self.planned_value(call)?;
                loads.push(PlannedLoad::instead(Instead::Value(value)));
            }
        }
        Ok(())
    }
}

/// Where the rows of a query are loaded from.
pub(crate) struct Sources<'t, T> {
    pub(crate) documents: &'t T,
    /// Compare exchange; `None` for no values.
    pub(crate) values: Option<&'t DatabaseValues>,
}

impl<T> Clone for Sources<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Sources<'_, T> {}

/// The includes that scripts request.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Ids of documents, each once.
    pub(crate) documents: Vec<String>,
    met: HashSet<String>,
    pub(crate) values: IncludedValues,
    /// Approximate memory of the ids, in bytes.
    pub(crate) bytes: u64,
}

impl Wanted {
    fn want(&mut self, id: &str) {
        if self.met.insert(id.to_owned()) {
            // Twice as a string, and once as an id.
            self.bytes += 4 * (size_of::<String>() + id.len()) as u64;
            self.documents.push(id.to_owned());
        }
    }
}

/// Loads what a row needs. `id` is that of the row, if it is a document. Its memory is charged to
/// the scope before it is loaded.
pub(crate) fn load_for_row<'t, T: Transaction>(
    sources: Sources<'t, T>,
    loads: &[PlannedLoad],
    id: Option<&str>,
    row: Object<'_>,
    memory: &WorkingMemory,
) -> Result<Vec<Loaded<'t>>, QueryError> {
    let documents = sources.documents;
    let mut loaded: Vec<Loaded<'t>> = Vec::with_capacity(loads.len());
    for load in loads {
        match &load.instead {
            Some(Instead::Counter(counter)) => {
                let found = counter.find(documents, id, row, &loaded)?;
                loaded.push(Loaded::Counter(found));
                continue;
            }
            Some(Instead::Value(value)) => {
                loaded.push(Loaded::Value(value.find(sources.values, row, memory)?));
                continue;
            }
            None => {}
        }
        let root = match load.from {
            0 => Some(row),
            from => match &loaded[from - 1] {
                Loaded::One(Some(document)) => Some(document.body()?.root()),
                Loaded::One(None) | Loaded::Many(_) | Loaded::Counter(_) | Loaded::Value(_) => None,
            },
        };
        let mut ids = Vec::new();
        if let Some(root) = root {
            collect_ids(&load.path.find(root)?, memory, &mut ids)?;
        }
        let (mut found, mut met) = (Vec::new(), HashSet::new());
        for id in ids {
            // A string that is too long for an id matches no document.
            if let Ok(id) = DocumentId::new(id)
                && met.insert(id.clone())
            {
                let Some(document) = documents::get(documents, &id)? else {
                    documents::require_no_conflict(documents, &id)?;
                    continue;
                };
                memory.take(LOADED_BYTES + decompressed_bytes(&document))?;
                found.push(document);
            }
        }
        loaded.push(match load.many {
            true => Loaded::Many(found),
            false => Loaded::One(found.into_iter().next()),
        });
    }
    Ok(loaded)
}

fn collect_ids(
    found: &Found<'_>,
    memory: &WorkingMemory,
    ids: &mut Vec<String>,
) -> Result<(), QueryError> {
    match found {
        Found::One(Value::String(text)) => {
            // Once as it is, and once as an id.
            memory.take(ID_BYTES + 3 * text.len() as u64)?;
            ids.push(text.as_cow()?.into_owned());
        }
        Found::One(Value::Array(array)) => {
            for element in array.iter() {
                collect_ids(&Found::One(element?), memory, ids)?;
            }
        }
        Found::List(list) => list.iter().try_for_each(|found| collect_ids(found, memory, ids))?,
        Found::Missing | Found::Length(_) | Found::One(_) => {}
    }
    Ok(())
}

/// A row's documents as arguments of the script: `row` as the script is to see it, and those
/// loaded.
pub(crate) fn arguments_of(
    row: ScriptDocument,
    loaded: &[Loaded<'_>],
    memory: &WorkingMemory,
) -> Result<Vec<Argument>, QueryError> {
    let mut arguments = vec![Argument::Document(row)];
    for documents in loaded {
        arguments.push(match documents {
            Loaded::One(Some(document)) => Argument::Document(loaded_document(document, memory)?),
            Loaded::One(None) => Argument::Value(ScriptValue::Null),
            Loaded::Many(documents) => {
                let loaded = |document| Ok(Some(loaded_document(document, memory)?));
                let documents: Result<_, QueryError> = documents.iter().map(loaded).collect();
                Argument::Documents(documents?)
            }
            // A script requests these itself.
            Loaded::Counter(_) | Loaded::Value(_) => continue,
        });
    }
    Ok(arguments)
}

pub(crate) fn info_of(document: &DocumentRow<'_>) -> DocumentInfo {
    DocumentInfo {
        id: document.id().into(),
        change_vector: document.change_vector().into(),
        last_modified_ticks: document.last_modified_ticks(),
    }
}

/// The row as seen by a script that only reads it.
pub(crate) fn row_for_filter(
    row: &RowDocument<'_>,
    memory: &WorkingMemory,
) -> Result<ScriptDocument, QueryError> {
    memory.take(script_bytes(&row.body()?)?)?;
    Ok(match row.stored() {
        Some(document) => ScriptDocument::new(row.to_buf()?, info_of(document)),
        None => ScriptDocument::unstored(row.to_buf()?),
    })
}

/// The row as seen by a script that may embed it in another object, with its id in its metadata.
pub(crate) fn row_for_projection(
    row: &RowDocument<'_>,
    memory: &WorkingMemory,
) -> Result<ScriptDocument, QueryError> {
    match row.stored() {
        Some(document) => loaded_document(document, memory),
        None => {
            memory.take(script_bytes(&row.body()?)?)?;
            Ok(ScriptDocument::unstored(row.to_buf()?))
        }
    }
}

/// Memory of a document while a script sees it: a copy, and the values that the script reads.
pub(crate) fn script_bytes(body: &Document<'_>) -> Result<u64, QueryError> {
    Ok(body.as_bytes().len() as u64 + printed_bytes(body)?)
}

fn loaded_document(
    document: &DocumentRow<'_>,
    memory: &WorkingMemory,
) -> Result<ScriptDocument, QueryError> {
    memory.take(script_bytes(&document.body()?)?)?;
    Ok(ScriptDocument::new(with_id(document)?, info_of(document)))
}

/// A document that is embedded in a row has its id in its metadata.
pub(crate) fn with_id(document: &DocumentRow<'_>) -> Result<BlittableBuf, QueryError> {
    body_with_id(&document.body()?, document.id())
}

pub(crate) fn body_with_id(body: &Document<'_>, id: &str) -> Result<BlittableBuf, QueryError> {
    let edits = [Edit::Set { path: &["@metadata", "@id"], item: Item::String(id) }];
    blittable::modify(body, &edits).map_err(|error| {
        let message = format!("A document inside a row is too large: {error}");
        QueryError::InvalidOperation { message }
    })
}

/// What the script of a row may call.
pub(crate) struct RowHost<'h, T> {
    pub(crate) sources: Sources<'h, T>,
    pub(crate) wanted: &'h RefCell<Wanted>,
    pub(crate) series: SeriesCalls<'h>,
    /// Where the memory of the row is charged.
    pub(crate) memory: &'h WorkingMemory,
    /// How many bytes of the result are charged.
    pub(crate) result_bytes: u64,
}

impl<T> RowHost<'_, T> {
    /// Runs a script for the row. A script cannot catch an error caused by lack of memory.
    pub(crate) fn evaluate(
        &mut self,
        script: &BoundProjection<'_>,
        arguments: &[Argument],
    ) -> Result<ScriptValue, QueryError>
    where
        T: Transaction,
    {
        let made = script.evaluate(arguments, Budget::default(), self);
        self.memory.check()?;
        Ok(made?)
    }
}

impl<T: Transaction> Host for RowHost<'_, T> {
    fn hold_result(&mut self, bytes: u64) -> Result<(), HostError> {
        Ok(self.memory.grow(&mut self.result_bytes, bytes)?)
    }

    fn load(&mut self, id: &str, _: Option<&str>) -> Result<Option<ScriptDocument>, HostError> {
        // A string that is too long for an id matches no document.
        let Ok(id) = DocumentId::new(id) else { return Ok(None) };
        let Some(document) = documents::get(self.sources.documents, &id)? else {
            documents::require_no_conflict(self.sources.documents, &id)?;
            return Ok(None);
        };
        self.memory.take(decompressed_bytes(&document))?;
        Ok(Some(loaded_document(&document, self.memory)?))
    }

    fn include(&mut self, id: &str) -> Result<(), HostError> {
        self.wanted.borrow_mut().want(id);
        Ok(())
    }

    fn include_value(&mut self, key: &str) -> Result<(), HostError> {
        self.wanted.borrow_mut().values.add(key);
        Ok(())
    }

    fn compare_exchange(&mut self, key: &str) -> Result<Option<BlittableBuf>, HostError> {
        Ok(read_value(self.sources.values, key, self.memory)?)
    }

    fn counter(&mut self, id: &str, name: &str) -> Result<Option<i64>, HostError> {
        Ok(projected_counter::find(self.sources.documents, id, name)?.map(|row| row.total()))
    }

    fn counter_raw(&mut self, id: &str, name: &str) -> Result<Vec<(String, i64)>, HostError> {
        let row = projected_counter::find(self.sources.documents, id, name)?;
        Ok(row.as_ref().map(projected_counter::values_of).transpose()?.unwrap_or_default())
    }

    fn time_series_get(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<Vec<TimeSeriesEntry>, HostError> {
        self.series.entries(self.sources.documents, (id, name), (from, to))
    }

    fn time_series_stats(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<TimeSeriesStats>, HostError> {
        self.series.stats(self.sources.documents, id, name)
    }

    fn time_series_query(
        &mut self,
        function: &str,
        arguments: Vec<SeriesArgument>,
    ) -> Result<Vec<u8>, HostError> {
        self.series.call(self.sources.documents, function, arguments)
    }
}

/// Runs the script for one row and returns the objects that it produces: one as a rule, none or
/// several if it returns an array.
pub(crate) fn run<T: Transaction>(
    script: &BoundProjection<'_>,
    arguments: &[Argument],
    host: &mut RowHost<'_, T>,
) -> Result<Vec<ScriptValue>, QueryError> {
    Ok(match host.evaluate(script, arguments)? {
        ScriptValue::Array(values) => values,
        value => vec![value],
    })
}

/// Whether a row passes the script of a filter.
pub(crate) fn passes<T: Transaction>(
    script: &BoundProjection<'_>,
    arguments: &[Argument],
    host: &mut RowHost<'_, T>,
) -> Result<bool, QueryError> {
    let value = host.evaluate(script, arguments)?;
    Ok(matches!(value, ScriptValue::Bool(true)))
}

/// A parameter as a value of the script; `None` for one that is nested too deeply.
fn script_value(value: &Value<'_>, depth: usize) -> Option<ScriptValue> {
    if depth == PARAMETER_DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Null => ScriptValue::Null,
        Value::Bool(value) => ScriptValue::Bool(*value),
        Value::Integer(value) => ScriptValue::Integer(*value),
        Value::Number(digits) => ScriptValue::Number((*digits).into()),
        Value::String(text) => ScriptValue::String(text.as_cow().ok()?.into()),
        Value::Array(array) => ScriptValue::Array(
            array
                .iter()
                .map(|element| script_value(&element.ok()?, depth + 1))
                .collect::<Option<_>>()?,
        ),
        Value::Object(object) => ScriptValue::Object(
            object
                .iter()
                .map(|member| {
                    let (name, value) = member.ok()?;
                    Some((name.into(), script_value(&value, depth + 1)?))
                })
                .collect::<Option<_>>()?,
        ),
    })
}
