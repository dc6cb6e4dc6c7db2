//! A query that is evaluated on one document at a time, in document log order: no index, no order,
//! no pages. Subscriptions use these.
//!
//! `where` is a script here and not an index query: values are compared as `filter` compares them.
//! Over revisions (`from Users (Revisions = true)`) a row is an object with the revision,
//! `Current`, and the one before it, `Previous`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use blittable::{BlittableBuf, Document, ParseLimits, parse_document, write_json_string};
use cluster_state::DatabaseValues;
use documents::{DocumentRow, RevisionRow, write_document_json};
use model::{DocumentFlags, DocumentId, date};
use rql::{Comparison, Expression, Literal, Query, Selection, SourceKind};
use script::{DocumentInfo, ScriptDocument, ScriptPool, ScriptValue};
use storage::{Transaction, WorkingMemory};

use crate::counter_includes::{CounterIncludes, IncludedCounters, is_counters};
use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::plan::SourceDocuments;
use crate::planned_include::PlannedInclude;
use crate::row_script::{
    BoundScripts, PlannedLoad, QueryScripts, RowHost, Sources, Wanted, arguments_of, body_with_id,
    contains_script, is_script, load_for_row, passes,
};
use crate::series_includes::{IncludedSeries, SeriesIncludes, is_series};
use crate::time_series::SeriesCalls;

/// Maximum number of documents included with one batch; clients request further ones when they need
/// them.
const INCLUDED_MAX: usize = 1 << 16;

/// A validated query over the document log.
#[derive(Clone, Debug)]
pub struct LogQuery {
    query: Query,
    source: SourceDocuments,
    is_of_revisions: bool,
    includes: Vec<PlannedInclude>,
    loads: Vec<PlannedLoad>,
    counters: CounterIncludes,
    series: SeriesIncludes,
}

/// The documents, counters and time series that rows include.
#[derive(Default)]
pub struct Includes {
    /// Ids of documents, each once, in the order in which they were first encountered.
    in_order: Vec<DocumentId>,
    met: HashSet<DocumentId>,
    counters: IncludedCounters,
    series: IncludedSeries,
}

/// The sources of a row, and where the memory that it takes is charged.
pub struct LogSources<'r, T> {
    /// The snapshot of the documents.
    pub documents: &'r T,
    /// The compare exchange values, if scripts may read them.
    pub values: Option<&'r DatabaseValues>,
    /// Where memory is charged until the row has been sent.
    pub memory: &'r WorkingMemory,
}

impl<T> Clone for LogSources<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for LogSources<'_, T> {}

/// The outcome for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The query selects it: it is sent.
    Shown,
    /// The query does not select it.
    LeftOut,
}

impl LogQuery {
    /// Parses and validates the text of a query.
    ///
    /// # Errors
    /// When it is not a query, or requests what only an index can provide.
    pub fn parse(text: &str) -> Result<LogQuery, QueryError> {
        let mut query = crate::plan::parse_any(text)?;
        let (source, is_of_revisions) = source_of(&query)?;
        refuse_clauses(&query)?;
        if query.condition.is_some() {
            let conditions = [query.condition.take(), query.filter.take()];
            let mut conditions: Vec<Expression> = conditions.into_iter().flatten().collect();
            query.filter = match conditions.len() {
                1 => conditions.pop(),
                _ => Some(Expression::And(conditions)),
            };
        }
        let context = QueryContext::new(&query, None);
        context.filter_text()?;
        let (includes, loads) = (includes_of(&context)?, context.loads()?);
        let (counters, series) = (context.counter_includes()?, series_of(&context)?);
        Ok(LogQuery { source, is_of_revisions, includes, loads, counters, series, query })
    }

    /// Which documents are read.
    pub fn source(&self) -> &SourceDocuments {
        &self.source
    }

    /// Whether every revision of a document is read, and not only its current version.
    pub fn is_of_revisions(&self) -> bool {
        self.is_of_revisions
    }

    /// Whether documents named by the rows are included.
    pub fn has_includes(&self) -> bool {
        !self.includes.is_empty()
    }

    /// Whether counters are included.
    pub fn has_counters(&self) -> bool {
        !self.counters.is_empty()
    }

    /// Whether time series are included.
    pub fn has_series(&self) -> bool {
        !self.series.is_empty()
    }

    /// The scripts of the query, for the current thread; `None` when it has none.
    ///
    /// # Errors
    /// As [`LogQuery::parse`].
    pub fn scripts(&self, pool: &ScriptPool) -> Result<Option<QueryScripts>, QueryError> {
        QueryScripts::of(&self.query, None, pool)
    }

    /// Whether it runs a script that its text contains.
    pub fn contains_script(&self) -> bool {
        contains_script(&self.query)
    }

    /// Compiles the scripts.
    ///
    /// # Errors
    /// [`QueryError::Memory`] when there is no memory for the row; it may be tried again.
    /// [`QueryError::Invalid`] when a text is no script.
    pub fn bind<'s>(&self, scripts: &'s QueryScripts) -> Result<BoundScripts<'s>, QueryError> {
        scripts.bind(&self.query, None)
    }

    /// Evaluates the query on a document and appends its result.
    ///
    /// [`QueryError::Script`] and [`QueryError::InvalidOperation`] are failures of the query on
    /// this document; `out` may then end anywhere.
    pub fn try_document<T: Transaction>(
        &self,
        sources: LogSources<'_, T>,
        document: &DocumentRow<'_>,
        scripts: Option<&BoundScripts<'_>>,
        included: &mut Includes,
        out: &mut Vec<u8>,
    ) -> Result<Tried, QueryError> {
        let shown = Shown {
            body: document.body()?,
            id: document.id(),
            change_vector: document.change_vector(),
            flags: document.flags(),
            last_modified_ticks: document.last_modified_ticks(),
            write_whole: &|out| Ok(write_document_json(document, out)?),
        };
        self.try_row(sources, &shown, scripts, included, out)
    }

    /// Evaluates the query on a revision of a document and the one before it.
    ///
    /// # Errors
    /// As [`LogQuery::try_document`].
    pub fn try_revision<T: Transaction>(
        &self,
        sources: LogSources<'_, T>,
        current: &RevisionRow<'_>,
        previous: Option<&RevisionRow<'_>>,
        scripts: Option<&BoundScripts<'_>>,
        included: &mut Includes,
        out: &mut Vec<u8>,
    ) -> Result<Tried, QueryError> {
        let sizes = [Some(current), previous].map(|row| row.map_or(Ok(0), revision_bytes));
        let mut pair = 0;
        for size in sizes {
            pair += size?;
        }
        let _pair = sources.memory.scope();
        sources.memory.take(3 * pair)?;
        let mut json = Vec::new();
        write_pair(current, previous, &mut json)?;
        let needs_row = scripts.is_some() || !self.includes.is_empty() || !self.counters.is_empty();
        let body = if needs_row { parsed(&json)? } else { parsed(b"{}")? };
        let write_whole = |out: &mut Vec<u8>| {
            out.extend_from_slice(&json);
            Ok(())
        };
        let shown = Shown {
            body: body.as_view(),
            id: current.id(),
            change_vector: current.change_vector(),
            flags: current.flags(),
            last_modified_ticks: current.last_modified_ticks(),
            write_whole: &write_whole,
        };
        self.try_row(sources, &shown, scripts, included, out)
    }

    fn try_row<T: Transaction>(
        &self,
        LogSources { documents, values, memory }: LogSources<'_, T>,
        shown: &Shown<'_>,
        scripts: Option<&BoundScripts<'_>>,
        included: &mut Includes,
        out: &mut Vec<u8>,
    ) -> Result<Tried, QueryError> {
        let (tx, wanted) = (documents, RefCell::default());
        let sources = Sources { documents, values };
        let _row = memory.scope();
        let body = blittable::Value::Object(shown.body.root());
        memory.take(shown.body.as_bytes().len() as u64 + blittable::printed_bytes(&body)?)?;
        match scripts {
            None => (shown.write_whole)(out)?,
            Some(scripts) => {
                let loaded =
                    load_for_row(sources, &self.loads, Some(shown.id), shown.body.root(), memory)?;
                let arguments = arguments_of(
                    shown.script_document(scripts.rows().is_some())?,
                    &loaded,
                    memory,
                )?;
                let never = AtomicBool::new(false);
                let series = SeriesCalls {
                    functions: scripts.series(),
                    settings: None,
                    stop: &never,
                    memory,
                };
                let mut host =
                    RowHost { sources, wanted: &wanted, series, memory, result_bytes: 0 };
                if let Some(filter) = scripts.filter()
                    && !passes(filter, &arguments, &mut host)?
                {
                    return Ok(Tried::LeftOut);
                }
                let made = match scripts.rows() {
                    Some(rows) => Some(host.evaluate(rows, &arguments)?),
                    None => None,
                };
                // Once more as text.
                memory.take(host.result_bytes)?;
                match made {
                    None => (shown.write_whole)(out)?,
                    Some(value) if value.is_absent() => return Ok(Tried::LeftOut),
                    Some(value) if shown.is_whole(&value) => (shown.write_whole)(out)?,
                    Some(value) => shown.write_made(value, out)?,
                }
            }
        }
        for include in self.includes.iter().filter_map(|include| include.in_document.as_ref()) {
            include.ids(shown.body.root(), &mut |id| included.add(id))?;
        }
        // No compare exchange values are included for workers.
        let Wanted { documents, .. } = wanted.into_inner();
        documents.iter().for_each(|id| included.add(id));
        included.counters.add(tx, &self.counters, Some(shown.id), shown.body.root())?;
        included.series.add(&self.series, Some(shown.id), shown.body.root())?;
        Ok(Tried::Shown)
    }
}

/// One row and its metadata.
struct Shown<'r> {
    body: Document<'r>,
    id: &'r str,
    change_vector: &'r str,
    flags: DocumentFlags,
    last_modified_ticks: i64,
    write_whole: &'r dyn Fn(&mut Vec<u8>) -> Result<(), QueryError>,
}

impl Shown<'_> {
    /// The row as scripts see it. A script that may embed it in another object sees its id in the
    /// metadata.
    fn script_document(&self, may_show_it: bool) -> Result<ScriptDocument, QueryError> {
        let body = match may_show_it {
            true => body_with_id(&self.body, self.id)?,
            false => self.body.to_buf(),
        };
        let info = DocumentInfo {
            id: self.id.into(),
            change_vector: self.change_vector.into(),
            last_modified_ticks: self.last_modified_ticks,
        };
        Ok(ScriptDocument::new(body, info))
    }

    /// Whether a script returned the row itself, unchanged.
    fn is_whole(&self, value: &ScriptValue) -> bool {
        matches!(value, ScriptValue::Stored(stored)
            if stored.is_root() && stored.document_id() == Some(self.id))
    }

    /// Appends what a script produced from the row, with the metadata of a projection.
    fn write_made(&self, value: ScriptValue, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let is_object = matches!(value, ScriptValue::Object(_) | ScriptValue::Stored(_));
        let properties = if is_object { value.into_properties()? } else { None };
        let Some(properties) = properties else {
            let message = "The value is not an object".to_owned();
            return Err(QueryError::Argument { message });
        };
        out.push(b'{');
        for (name, value) in properties.iter().filter(|(name, _)| &**name != "@metadata") {
            write_json_string(name, out);
            out.push(b':');
            value.write_json(out)?;
            out.push(b',');
        }
        out.extend_from_slice(b"\"@metadata\":{\"@projection\":true,");
        write_identity(self.id, self.change_vector, self.flags, self.last_modified_ticks, out);
        out.extend_from_slice(b"}}");
        Ok(())
    }
}

/// Appends the metadata that identifies the document and its version.
fn write_identity(
    id: &str,
    change_vector: &str,
    flags: DocumentFlags,
    last_modified_ticks: i64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"\"@change-vector\":");
    write_json_string(change_vector, out);
    if !flags.is_empty() {
        out.extend_from_slice(b",\"@flags\":\"");
        flags.write_text(out);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"@id\":");
    write_json_string(id, out);
    out.extend_from_slice(b",\"@last-modified\":");
    write_json_string(&date::format(last_modified_ticks), out);
}

/// The size of a version as it is stored.
fn revision_bytes(row: &RevisionRow<'_>) -> Result<u64, QueryError> {
    Ok(match row.is_deletion() {
        true => 0,
        false => row.body()?.as_bytes().len() as u64,
    })
}

/// Appends a revision of a document and the one before it, as sent to subscriptions on revisions.
fn write_pair(
    current: &RevisionRow<'_>,
    previous: Option<&RevisionRow<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    out.extend_from_slice(b"{\"Current\":");
    match current.is_deletion() {
        true => out.extend_from_slice(b"null"),
        false => documents::write_revision_json(current, out)?,
    }
    out.extend_from_slice(b",\"Previous\":");
    match previous {
        Some(previous) => documents::write_revision_json(previous, out)?,
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"@metadata\":{");
    let ticks = current.last_modified_ticks();
    write_identity(current.id(), current.change_vector(), current.flags(), ticks, out);
    out.extend_from_slice(b"}}");
    Ok(())
}

/// Two revisions together may be larger than the maximum size of a document.
fn parsed(json: &[u8]) -> Result<BlittableBuf, QueryError> {
    let limits = ParseLimits { document_bytes_max: usize::MAX, ..ParseLimits::default() };
    parse_document(json, &limits).map_err(|error| {
        let message = format!("A revision and the one before it cannot be shown: {error}");
        QueryError::InvalidOperation { message }
    })
}

impl Includes {
    fn add(&mut self, id: &str) {
        // A string that is too long for an id matches no document.
        if self.in_order.len() < INCLUDED_MAX
            && let Ok(id) = DocumentId::new(id)
            && self.met.insert(id.clone())
        {
            self.in_order.push(id);
        }
    }

    /// The ids of the documents.
    pub fn ids(&self) -> &[DocumentId] {
        &self.in_order
    }

    /// The counters to include with the documents.
    pub fn counters(&self) -> &IncludedCounters {
        &self.counters
    }

    /// The time series to include with the documents.
    pub fn series(&self) -> &IncludedSeries {
        &self.series
    }
}

fn not_supported(message: impl Into<String>) -> QueryError {
    QueryError::Method { message: message.into() }
}

/// Which documents are read, and whether their revisions are.
fn source_of(query: &Query) -> Result<(SourceDocuments, bool), QueryError> {
    let context = QueryContext::new(query, None);
    let source = match &query.source.kind {
        SourceKind::Index(_) => {
            return Err(not_supported("Subscription must specify a collection to use"));
        }
        SourceKind::AllDocuments | SourceKind::Collection(_) | SourceKind::Graph(_) => {
            context.source()?.0
        }
    };
    let Some(restriction) = &query.source.restriction else { return Ok((source, false)) };
    if let Expression::Compare { left, comparison: Comparison::Equal, right } = &**restriction
        && let Expression::Field(path) = &**left
        && path.text().eq_ignore_ascii_case("Revisions")
        && let Expression::Literal(Literal::Bool(is_of_revisions)) = **right
    {
        return Ok((source, is_of_revisions));
    }
    Err(not_supported("Subscription collection filter can only specify 'Revisions = true'"))
}

/// Rejects the clauses that require an index.
fn refuse_clauses(query: &Query) -> Result<(), QueryError> {
    if !query.order_by.is_empty() {
        return Err(not_supported("Subscription cannot specify an order by clause"));
    }
    if !query.group_by.is_empty() {
        return Err(not_supported("Subscription cannot specify a group by clause"));
    }
    if query.source.alias.is_none() && (query.select.is_some() || !query.load.is_empty()) {
        let message = "Cannot specify a select or load clauses without an alias on the query";
        return Err(QueryError::InvalidOperation { message: message.to_owned() });
    }
    if let Some(select) = &query.select {
        if select.distinct {
            return Err(not_supported("Subscription does not support distinct queries"));
        }
        let is_whole = matches!(select.selection, Selection::Everything);
        if is_whole || !is_script(query, select) {
            return Err(not_supported("Subscription select clause must specify an object literal"));
        }
    }
    QueryContext::new(query, None).refuse_unanswered_clauses()
}

/// The time series to include: those of the row itself, and the last entries of each.
fn series_of(context: &QueryContext<'_>) -> Result<SeriesIncludes, QueryError> {
    for item in context.query.include.iter().filter(|item| is_series(item)) {
        let Expression::Method(call) = item else { continue };
        let count = call.arguments.len();
        if !(1..=2).contains(&count) {
            return Err(not_supported(format!(
                "Invalid number of arguments '{count}' in include TimeSeries clause expression."
            )));
        }
        if let Some(Expression::Field(path)) = call.arguments.first() {
            return Err(not_supported(format!(
                "Subscription include expected to get the name of a time series but got {path}"
            )));
        }
    }
    context.series_includes()
}

/// The paths of documents to include.
fn includes_of(context: &QueryContext<'_>) -> Result<Vec<PlannedInclude>, QueryError> {
    let query = context.query;
    let is_row = |item: &&Expression| {
        // A loaded document is included as a whole; there is no path to follow in it.
        !matches!(item, Expression::Field(path)
            if query.load.iter().any(|load| load.alias == path.text()))
    };
    let items = query.include.iter().filter(is_row);
    let items = items.filter(|item| !is_counters(item) && !is_series(item));
    let planned = items.map(|item| match item {
        Expression::Method(call) => {
            let name = &call.name;
            Err(not_supported(format!(
                "Subscription include expected to get Counters or TimeSeries but got {name}"
            )))
        }
        item => context.include(item, None),
    });
    planned.collect()
}
