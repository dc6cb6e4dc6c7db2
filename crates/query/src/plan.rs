//! From a syntax tree to a plan: every decision about a query that does not depend on a document.

use std::sync::Arc;

use blittable::Object;
use cluster_state::DatabaseValues;
use model::CollectionName;
use rql::{
    Expression, OrderByItem, Ordering, ParseError, ParseErrorKind, PathStep, Query, Select,
    SelectItem, Selection, SourceKind,
};

use crate::condition::{Chosen, is_id};
use crate::counter_includes::CounterIncludes;
use crate::error::QueryError;
use crate::exchange_value::version_of_values;
use crate::id_selection::IdSelection;
use crate::paging::{PageWindow, Paging};
use crate::parameters::{QueryContext, place_of};
use crate::planned_include::PlannedInclude;
use crate::projection::Projection;
use crate::requested_notes::RequestedNotes;
use crate::result_kind::{ResultKind, result_kind};
use crate::revision_includes::RevisionIncludes;
use crate::row_script::{PlannedLoad, is_script};
use crate::script_fields::ScriptFields;
use crate::series_includes::SeriesIncludes;

/// The reported index name of a query over all documents.
const ALL_DOCUMENTS_INDEX: &str = "AllDocs";

/// A query that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which documents are read.
    pub source: SourceDocuments,
    /// The index name that the response reports.
    pub index_name: String,
    /// Which of them are selected.
    pub ids: IdSelection,
    /// The order in which they are returned.
    pub order: RowOrder,
    /// Whether the number of selected documents is left uncounted.
    pub is_total_unknown: bool,
    /// The last change of the compare exchange values before any was read; `None` if the query refers to none.
    pub(crate) version_of_values: Option<u64>,
    /// What is returned of them.
    pub shown: Arc<ShownRows>,
}

/// Which of the selected rows are returned, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownRows {
    /// Which rows are requested.
    pub window: PageWindow,
    /// What the rows contain; `None` for whole documents.
    pub projection: Option<Projection>,
    /// Whether rows equal to an earlier one are dropped. Whole documents are never equal.
    pub is_distinct: bool,
    /// The documents to include.
    pub includes: Vec<PlannedInclude>,
    /// The revisions to include.
    pub revisions: RevisionIncludes,
    /// The time series to include.
    pub series: SeriesIncludes,
    /// The counters to include.
    pub counters: CounterIncludes,
    /// The compare exchange values to include, by the paths to their keys.
    pub(crate) values: Vec<PlannedInclude>,
    /// Whether the query refers to counters, which change independently of their documents.
    pub(crate) names_counters: bool,
    /// The documents to load for each row.
    pub(crate) loads: Vec<PlannedLoad>,
    /// Whether a script produces the rows.
    pub(crate) is_script: bool,
    /// How many rows the filter may scan; `None` without a filter.
    pub(crate) filter_limit: Option<u64>,
    /// The notes requested for each row.
    pub(crate) notes: RequestedNotes,
    /// Which of the loaded documents is returned in place of the row; `None` for the row.
    pub(crate) shows_loaded: Option<usize>,
    /// Whether the query refers to time series, which change independently of their documents.
    pub(crate) names_time_series: bool,
    /// What an index stored for the script that produces the rows.
    pub(crate) script_fields: ScriptFields,
}

impl ShownRows {
    /// Whether anything is returned that is not in the rows' documents.
    pub(crate) fn shows_others(&self) -> bool {
        let names_others = self.names_time_series || self.names_counters;
        !self.includes.is_empty() || !self.revisions.is_empty() || names_others
    }

    /// Whether finding the page requires scanning all rows from the first on.
    pub(crate) fn walks_rows(&self) -> bool {
        self.is_distinct || self.filter_limit.is_some()
    }

    /// Whether the rows are unknown until a script has run.
    pub(crate) fn needs_scripts(&self) -> bool {
        self.filter_limit.is_some() || (self.is_distinct && self.is_script)
    }
}

/// Which documents a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceDocuments {
    /// The documents of all collections.
    All,
    /// Those of a collection.
    Collection(CollectionName),
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// By last write, oldest first.
    Log,
    /// By lower-cased id.
    Id {
        /// Whether the order is descending.
        descending: bool,
    },
}

/// Parses the text of a query request.
///
/// # Errors
///
/// [`QueryError::InvalidOperation`] for a blank text, [`QueryError::Parse`] and
/// [`QueryError::Invalid`] for one that is not a query.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    parse_by(text, rql::parse)
}

/// Parses the text of a query that changes documents, which ends with an `update` clause.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_update(text: &str) -> Result<Query, QueryError> {
    parse_by(text, rql::parse_update)
}

fn parse_by(text: &str, parse: fn(&str) -> Result<Query, ParseError>) -> Result<Query, QueryError> {
    if text.trim().is_empty() {
        let message = "Index query does not contain 'Query' field.".to_owned();
        return Err(QueryError::InvalidOperation { message });
    }
    parsed(text, parse)
}

/// Like [`parse`], for requests that consist of more than the query: a blank text is reported as a
/// query that ends too early.
pub(crate) fn parse_any(text: &str) -> Result<Query, QueryError> {
    parsed(text, rql::parse)
}

fn parsed(text: &str, parse: fn(&str) -> Result<Query, ParseError>) -> Result<Query, QueryError> {
    parse(text).map_err(|error| {
        let query = text.to_owned();
        match error.kind {
            ParseErrorKind::Syntax => QueryError::Parse { error, query },
            ParseErrorKind::Invalid => {
                QueryError::Invalid { message: error.to_string(), query, parameters: None }
            }
        }
    })
}

/// Whether the query refers to time series.
pub fn names_time_series(query: &Query) -> bool {
    const WORD: &[u8] = b"timeseries";
    let text = query.text.as_str().as_bytes();
    text.windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD))
}

/// The loaded document that is the entire result of a `select`.
fn only_loaded(select: &Select, loads: &[PlannedLoad]) -> Option<usize> {
    let Selection::Items(items) = &select.selection else { return None };
    let [SelectItem { value: Expression::Field(path), .. }] = items.as_slice() else { return None };
    let [PathStep::Name { name, .. }] = path.steps.as_slice() else { return None };
    loads.iter().position(|load| load.alias == *name && !load.many)
}

/// Plans the execution of `query`.
///
/// # Errors
///
/// [`QueryError::Invalid`] and [`QueryError::InvalidOperation`] for what no query may request;
/// [`QueryError::NeedsIndex`] and [`QueryError::NotSupportedYet`] for what is not supported yet.
pub fn plan(
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
    values: Option<&DatabaseValues>,
) -> Result<Plan, QueryError> {
    plan_of(&QueryContext::new(query, parameters).reading(values), paging)
}

/// Like [`plan`], also used when the query runs.
pub(crate) fn plan_of(context: &QueryContext<'_>, paging: Paging) -> Result<Plan, QueryError> {
    let query = context.query;
    PageWindow::of(context, paging)?;
    // Before they are read: a response may be newer than its etag says, and never older.
    let version_of_values = version_of_values(query, context.values)?;
    if result_kind(query) != ResultKind::Rows {
        return Err(context.needs_index("facet() and suggest()", query.source.offset));
    }
    let (source, index_name) = context.source()?;
    context.refuse_unanswered_clauses()?;
    if let Some(item) = query.group_by.first() {
        let offset = place_of(&item.key).unwrap_or(query.source.offset);
        return Err(context.needs_index("'group by'", offset));
    }
    let Chosen { ids, is_single_prefix } = context.chosen(query.condition.as_ref())?;
    let order = context.order(&ids)?;
    let mut shown = context.shown_rows(paging)?;
    if shown.notes.explanations.is_some() {
        return Err(context.invalid("Collection queries cannot return explanations."));
    }
    // Without an index search there is nothing to highlight.
    shown.notes = RequestedNotes::default();
    let is_counted = !query.order_by.is_empty() || shown.window.page_size == 0;
    let is_total_unknown = is_single_prefix && !is_counted;
    let shown = Arc::new(shown);
    Ok(Plan { source, index_name, ids, order, is_total_unknown, version_of_values, shown })
}

/// The rows that the text of `query` and the request select together.
///
/// # Errors
///
/// [`QueryError::Invalid`] and [`QueryError::InvalidOperation`] for a page that no query may
/// request.
pub fn page_window(
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<PageWindow, QueryError> {
    PageWindow::of(&QueryContext::new(query, parameters), paging)
}

impl<'a> QueryContext<'a> {
    pub(crate) fn source(&self) -> Result<(SourceDocuments, String), QueryError> {
        let source = &self.query.source;
        match &source.kind {
            SourceKind::AllDocuments => Ok((SourceDocuments::All, ALL_DOCUMENTS_INDEX.to_owned())),
            SourceKind::Collection(name) => {
                let collection = CollectionName::new(name.as_str());
                let collection = collection.map_err(|error| self.invalid(error.to_string()))?;
                let index_name = format!("collection/{name}");
                Ok((SourceDocuments::Collection(collection), index_name))
            }
            SourceKind::Index(name) => Err(QueryError::MissingIndex { name: name.to_string() }),
            SourceKind::Graph(_) => {
                let text = self.query.text.as_str();
                Err(QueryError::Graph {
                    position: source.offset.locate(text),
                    query: text.to_owned(),
                })
            }
        }
    }

    /// What the query returns of the rows that it selects.
    pub(crate) fn shown_rows(&self, paging: Paging) -> Result<ShownRows, QueryError> {
        let query = self.query;
        let loads = self.loads()?;
        let is_script = query.select.as_ref().is_some_and(|select| is_script(query, select));
        // A function over groups may take everything from its arguments.
        let may_be_unnamed = self.is_grouped()
            && matches!(&query.select, Some(Select { selection: Selection::Items(_), .. }));
        if is_script && self.alias().is_none() && !may_be_unnamed {
            let message = "Use of select function body requires that aliases will be defined, but \
                           none had";
            return Err(self.invalid(message));
        }
        let shows_loaded = query.select.as_ref().and_then(|select| only_loaded(select, &loads));
        let projection = match &query.select {
            Some(_) if shows_loaded.is_some() => None,
            Some(select) if !is_script => self.projection(select, &loads)?,
            Some(_) | None => None,
        };
        let shows_values = projection.is_some() || is_script;
        let is_distinct =
            shows_values && query.select.as_ref().is_some_and(|select| select.distinct);
        Ok(ShownRows {
            window: PageWindow::of(self, paging)?,
            includes: self.includes(projection.as_ref())?,
            revisions: self.revision_includes()?,
            series: self.series_includes()?,
            counters: self.counter_includes()?,
            values: self.value_includes(projection.as_ref())?,
            names_counters: query.text.as_str().to_ascii_lowercase().contains("counter"),
            projection,
            is_distinct,
            loads,
            is_script,
            filter_limit: self.filter_limit()?,
            notes: self.notes()?,
            shows_loaded,
            names_time_series: names_time_series(query),
            script_fields: ScriptFields::default(),
        })
    }

    /// Rejects the clauses that are not supported yet, naming the first one.
    pub(crate) fn refuse_unanswered_clauses(&self) -> Result<(), QueryError> {
        let query = self.query;
        self.refuse_group_by_on_index()?;
        if query.update.is_some() {
            return Err(self.not_yet("an UPDATE clause", None));
        }
        Ok(())
    }

    /// How many rows the filter may scan.
    fn filter_limit(&self) -> Result<Option<u64>, QueryError> {
        if self.query.filter.is_none() {
            return Ok(None);
        }
        let Some(limit) = &self.query.filter_limit else { return Ok(Some(u64::MAX)) };
        let refused = |count: i64| {
            self.invalid(format!("FilterLimit cannot be negative or zero, but was {count}."))
        };
        match self.long(limit)? {
            None => Ok(Some(u64::MAX)),
            Some(count) => match u64::try_from(count) {
                Ok(1..) => Ok(Some(count.unsigned_abs())),
                Ok(0) | Err(_) => Err(refused(count)),
            },
        }
    }

    /// Ids are unique, so sort keys after `id()` have no effect.
    fn order(&self, ids: &IdSelection) -> Result<RowOrder, QueryError> {
        match self.query.order_by.first() {
            None => match ids {
                IdSelection::Everything => Ok(RowOrder::Log),
                IdSelection::Listed(_) => Ok(RowOrder::Id { descending: false }),
            },
            Some(OrderByItem { key, ordering: None | Some(Ordering::String), descending })
                if is_id(key) =>
            {
                Ok(RowOrder::Id { descending: *descending })
            }
            Some(item) => {
                let offset = place_of(&item.key).unwrap_or(self.query.source.offset);
                Err(self.needs_index(format!("'order by {item}'"), offset))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;
    use crate::include_path::IncludePath;

    fn planned(text: &str, parameters: &str) -> Result<Plan, String> {
        let parameters = match parameters {
            "" => None,
            json => Some(parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()),
        };
        let parameters = parameters.as_ref().map(|buffer| buffer.as_view().root());
        let query = parse(text).map_err(|error| error.to_string())?;
        plan(&query, parameters, Paging::default(), None).map_err(|error| error.to_string())
    }

    fn ids(texts: &[&str]) -> IdSelection {
        IdSelection::ids(texts.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn conditions_over_ids_need_no_index() {
        let prefix = |text: &str| IdSelection::prefix(text.to_owned());
        for (condition, parameters, expected) in [
            ("id() = 'Boats/1'", "", ids(&["boats/1"])),
            ("ID(b) == $p", r#"{"p":"b/1"}"#, ids(&["b/1"])),
            ("id() = null", "", ids(&[])),
            ("id() = $p", r#"{"p":5}"#, ids(&[])),
            ("id() in ('b/2', 'B/1', 'b/2')", "", ids(&["b/1", "b/2"])),
            ("id() in ()", "", ids(&[])),
            ("id() = $p", r#"{"p":{"a":1}}"#, ids(&[])),
            ("id() in ($p, 'b/9')", r#"{"p":["b/1",null,["B/2"]]}"#, ids(&["b/1", "b/2", "b/9"])),
            ("id() in ($p)", r#"{"p":[7]}"#, ids(&[])),
            ("id() all in ('b/1', 'b/2')", "", ids(&[])),
            ("startsWith(id(), 'B/')", "", prefix("b/")),
            ("startsWith(id(), null)", "", ids(&[])),
            ("id() = 'b/1' or id() in ('b/2')", "", ids(&["b/1", "b/2"])),
            ("startsWith(id(), 'b/') and id() in ('b/1', 'c/1')", "", ids(&["b/1"])),
            ("startsWith(id(), 'b/') or id() = 'b/1'", "", prefix("b/")),
            ("true", "", IdSelection::Everything),
            ("true and id() = 'b/1'", "", ids(&["b/1"])),
            ("false or id() = 'b/1'", "", ids(&["b/1"])),
        ] {
            let plan = planned(&format!("from Boats as b where {condition}"), parameters);
            assert_eq!(plan.unwrap().ids, expected, "{condition}");
        }
    }

    #[test]
    fn order_and_totals_follow_from_the_form() {
        let ascending = RowOrder::Id { descending: false };
        for (text, order, is_total_unknown) in [
            ("from Boats", RowOrder::Log, false),
            ("from Boats where true", RowOrder::Log, false),
            ("from Boats order by id()", ascending, false),
            ("from Boats order by id() desc, Name", RowOrder::Id { descending: true }, false),
            ("from Boats where id() = 'b/1'", ascending, false),
            ("from Boats where startsWith(id(), 'b/')", ascending, true),
            ("from Boats where startsWith(id(), '')", ascending, true),
            ("from Boats where startsWith(id(), 'b/') limit 0", ascending, false),
            ("from Boats where startsWith(id(), 'b/') order by id()", ascending, false),
        ] {
            let plan = planned(text, "").unwrap();
            assert_eq!((plan.order, plan.is_total_unknown), (order, is_total_unknown), "{text}");
        }
    }

    #[test]
    fn sources_have_the_names_that_clients_know() {
        assert_eq!(planned("from 'night Boats'", "").unwrap().index_name, "collection/night Boats");
        assert_eq!(planned("from @all_docs", "").unwrap().index_name, "AllDocs");
        assert_eq!(planned("from @all_docs", "").unwrap().source, SourceDocuments::All);
    }

    #[test]
    fn includes_lose_the_alias_and_see_through_projections() {
        for (text, expected) in [
            (
                "from B as b include b.Crew[].Id, Port, 'b.Yard'",
                "Crew[].Id=Crew[].Id Port=Port Yard=Yard",
            ),
            ("from B include $path", "Port.Id=Port.Id"),
            (
                "from B as b select b.Port as P, b.Crew include b.P.Id, Crew[].Id, Yard",
                "P.Id=Port.Id Crew[].Id=Crew[].Id Yard=-",
            ),
        ] {
            let plan = planned(text, r#"{"path":"Port.Id"}"#).unwrap();
            let shown = plan.shown.includes.iter().map(|include| {
                let inner = include.in_document.as_ref().map_or("-", IncludePath::as_str);
                format!("{}={inner}", include.path.as_str())
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn projections_are_named_by_alias_or_path() {
        let plan = planned("from B as b select b.A.C, id() as Key, id(), 'x', 1.50 as n, D", "");
        let names: Vec<_> = plan
            .unwrap()
            .shown
            .projection
            .clone()
            .unwrap()
            .fields
            .into_iter()
            .map(|field| field.name)
            .collect();
        assert_eq!(names, ["A.C", "Key", "id()", "x", "n", "D"]);
        assert_eq!(planned("from B as b select b", "").unwrap().shown.projection, None);
        assert_eq!(planned("from B select *", "").unwrap().shown.projection, None);
    }

    #[test]
    fn what_is_not_answered_is_refused_with_its_place() {
        let needs = |part: &str| {
            format!("Answering {part} takes an index, and indexes are not supported yet")
        };
        for (text, message) in [
            ("from B where Name = 'x'", format!("1:14 {}", needs("the condition 'Name = 'x''"))),
            ("from B\nwhere id() != 'x'", format!("2:7 {}", needs("the condition 'id() != 'x''"))),
            (
                "from B where true and not id() = 'x'",
                format!("1:27 {}", needs("the condition 'not id() = 'x''")),
            ),
            ("from B group by A", format!("1:17 {}", needs("'group by'"))),
            ("from B order by A as long", format!("1:17 {}", needs("'order by A as long'"))),
            ("from B order by random()", format!("1:17 {}", needs("'order by random()'"))),
            (
                "from B where startsWith(Name, 'x')",
                format!("1:14 {}", needs("'startsWith(Name, 'x')'")),
            ),
            (
                "match (B as b)",
                "1:1 Graph queries ('match') are not supported: RavenDB removed them in version 6. Load \
                 what documents name with 'load' or 'include', or index it with LoadDocument"
                    .to_owned(),
            ),
        ] {
            let refused = planned(text, "").unwrap_err();
            assert_eq!(refused, format!("{message}\nQuery: {text}"), "{text}");
        }
    }

    #[test]
    fn invalid_queries_are_rejected_with_the_expected_messages() {
        for (text, parameters, message) in [
            (
                "from B where id() = $p",
                "",
                "The query is parametrized but the actual values of parameters were not provided",
            ),
            ("from B where id() = $p", r#"{"q":1}"#, "Value of parameter 'p' was not provided"),
            (
                "from B where id() = $p",
                r#"{"p":["x"]}"#,
                r#"Parameter value '["x"]' of type Sparrow.Json.BlittableJsonReaderArray is not supported"#,
            ),
            (
                "from B where id() in ('x', 1)",
                "",
                "Incompatible types of variables in WHERE clause on 'id()' field. It got values of the following types: Value,Value",
            ),
            ("from B where A = C", "", "Expected value, but got: <Field>: C"),
            (
                "from B where startsWith(id())",
                "",
                "Method startsWith() expects second argument to be provided",
            ),
            (
                "from B as b include c.D",
                "",
                "Unknown alias c, but there are aliases specified in the query (b)",
            ),
        ] {
            let tail = if parameters.is_empty() {
                String::new()
            } else {
                format!("\nParameters: {parameters}")
            };
            let refused = planned(text, parameters).unwrap_err();
            assert_eq!(refused, format!("{message}\nQuery: {text}{tail}"), "{text}");
        }
        let refused = planned("from B where", "").unwrap_err();
        let message = "1:13 Unable to parse WHERE clause but got to the end of the query";
        assert_eq!(refused, format!("{message}\nQuery: \nfrom B where"));
        assert_eq!(planned(" ", "").unwrap_err(), "Index query does not contain 'Query' field.");
    }

    #[test]
    fn a_parameter_cannot_multiply_without_end() {
        let ids = vec!["\"b/1\""; 5_000].join(",");
        let list = vec!["$p"; 201].join(",");
        let refused =
            planned(&format!("from B where id() in ({list})"), &format!(r#"{{"p":[{ids}]}}"#));
        let refused = refused.unwrap_err();
        assert!(refused.starts_with("A list may have at most 1000000 ids"), "{refused}");
    }
}
