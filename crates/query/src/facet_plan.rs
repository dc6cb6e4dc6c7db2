//! `facet()` in `select`: what is counted, and what is aggregated.

use blittable::Value;
use rql::{Expression, Literal, MethodCall};

use crate::error::QueryError;
use crate::facet_order::compare_terms;
use crate::facet_ranges::RangePlanner;
use crate::method_options::MethodOptions;
use crate::parameters::{QueryContext, QueryValue};
use crate::result_kind::ResultKind;
use crate::searched_fields::SearchedFields;

/// The name of the facet and range of all entries in the response.
pub(crate) const ALL_RESULTS: &str = "@AllResults";
/// Maximum number of facets of one query, including those of setup documents.
const FACETS_MAX: usize = 1024;
const METHOD: &str = "facet";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedFacet {
    pub(crate) name: String,
    pub(crate) by: FacetBy,
    pub(crate) sums: Vec<Aggregation>,
}

/// How entries are grouped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FacetBy {
    /// Not at all: one group.
    Nothing,
    /// The terms of a field.
    Terms { field: String, options: FacetOptions },
    /// Ranges of one field.
    Ranges(Vec<PlannedRange>),
}

/// A range, and its text in the response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedRange {
    pub(crate) text: String,
    pub(crate) query: search::Query,
}

/// The aggregations of the numbers of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aggregation {
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) has_average: bool,
    pub(crate) has_max: bool,
    pub(crate) has_min: bool,
    pub(crate) has_sum: bool,
}

/// Which terms of a facet are returned, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FacetOptions {
    pub(crate) order: TermOrder,
    pub(crate) start: usize,
    pub(crate) page_size: usize,
    /// Whether the terms after the page are listed by name.
    pub(crate) names_remaining: bool,
}

/// The order of the terms of a facet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermOrder {
    ValueAscending,
    ValueDescending,
    CountAscending,
    CountDescending,
}

/// Names of orders; clients may send their ordinals instead.
const ORDERS: [(&str, TermOrder); 4] = [
    ("ValueAsc", TermOrder::ValueAscending),
    ("ValueDesc", TermOrder::ValueDescending),
    ("CountAsc", TermOrder::CountAscending),
    ("CountDesc", TermOrder::CountDescending),
];

impl Default for FacetOptions {
    fn default() -> Self {
        let order = TermOrder::ValueAscending;
        Self { order, start: 0, page_size: usize::MAX, names_remaining: false }
    }
}

impl FacetOptions {
    pub(crate) fn read(options: &MethodOptions<'_>) -> Result<Self, QueryError> {
        let count = |name, default| {
            let count = options.whole(name)?.map(|count| usize::try_from(count).unwrap_or(0));
            Ok::<_, QueryError>(count.unwrap_or(default))
        };
        Ok(Self {
            order: options.choice("TermSortMode", &ORDERS)?.unwrap_or(TermOrder::ValueAscending),
            start: count("Start", 0)?,
            page_size: count("PageSize", usize::MAX)?,
            names_remaining: options.flag("IncludeRemainingTerms")?.unwrap_or(false),
        })
    }
}

impl TermOrder {
    /// Sorts terms with their counts.
    pub(crate) fn sort<T>(self, terms: &mut [T], of: impl Fn(&T) -> (&str, u64)) {
        terms.sort_unstable_by(|left, right| {
            let ((left, fewer), (right, more)) = (of(left), of(right));
            let by_value = || compare_terms(left, right);
            match self {
                TermOrder::ValueAscending => by_value(),
                TermOrder::ValueDescending => by_value().reverse(),
                TermOrder::CountAscending => fewer.cmp(&more).then_with(by_value),
                TermOrder::CountDescending => more.cmp(&fewer).then_with(by_value),
            }
        });
    }
}

/// The requested aggregations; those of one field under one name are merged.
#[derive(Default)]
pub(crate) struct Aggregations(pub(crate) Vec<Aggregation>);

impl Aggregations {
    /// Adds one; `false` when the kind is unknown.
    pub(crate) fn add(&mut self, kind: &str, field: &str, name: &str) -> bool {
        let known = self.0.iter().position(|sums| sums.field == field && sums.name == name);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            let (field, name) = (field.to_owned(), name.to_owned());
            self.0.push(Aggregation { field, name, ..Aggregation::default() });
        }
        let sums = &mut self.0[at];
        match kind.to_ascii_lowercase().as_str() {
            "avg" | "average" => sums.has_average = true,
            "max" => sums.has_max = true,
            "min" => sums.has_min = true,
            "sum" => sums.has_sum = true,
            _ => return false,
        }
        true
    }
}

/// Plans the facets of a query on an index.
pub(crate) struct FacetPlanner<'s, 'a> {
    pub(crate) context: &'s QueryContext<'a>,
    pub(crate) fields: &'s dyn SearchedFields,
    /// Reads the facets of a setup document.
    pub(crate) setup: &'s dyn Fn(&str) -> Result<Vec<PlannedFacet>, QueryError>,
}

impl<'a> FacetPlanner<'_, 'a> {
    /// All facets, in the order of the query.
    pub(crate) fn facets(&self) -> Result<Vec<PlannedFacet>, QueryError> {
        let mut facets: Vec<PlannedFacet> = Vec::new();
        for (call, alias) in self.context.calls_of(ResultKind::Facets)? {
            if let Some(id) = self.setup_id(call)? {
                facets.extend((self.setup)(&id)?);
            } else {
                let facet = self.facet(call, alias)?;
                if facets.iter().any(|earlier| earlier.name == facet.name) {
                    return Err(self.context.duplicate_alias(&facet.name));
                }
                facets.push(facet);
            }
            if FACETS_MAX < facets.len() {
                let message = format!("A facet query may have {FACETS_MAX} facets at most");
                return Err(self.context.invalid(message));
            }
        }
        Ok(facets)
    }

    /// The id of the setup document of `facet(id('facets/1'))`.
    fn setup_id(&self, call: &'a MethodCall) -> Result<Option<String>, QueryError> {
        let id = match call.arguments.first() {
            Some(Expression::Method(id)) if id.is("id") => id,
            _ => return Ok(None),
        };
        if 1 < call.arguments.len() {
            let message = "facet() with the id of a setup document takes no other arguments";
            return Err(self.context.invalid(message));
        }
        let id = match id.arguments.as_slice() {
            [Expression::Literal(literal)] => self.text_of(literal)?,
            _ => None,
        };
        id.map(Some).ok_or_else(|| {
            self.context.invalid("id() in facet() takes one argument, the id of a setup document")
        })
    }

    fn text_of(&self, literal: &'a Literal) -> Result<Option<String>, QueryError> {
        Ok(match self.context.resolve(literal)? {
            QueryValue::Literal(Literal::String(text)) => Some(text.clone()),
            QueryValue::Parameter(Value::String(text)) => Some(text.as_cow()?.into_owned()),
            QueryValue::Literal(_) | QueryValue::Parameter(_) => None,
        })
    }

    fn facet(&self, call: &'a MethodCall, alias: Option<&str>) -> Result<PlannedFacet, QueryError> {
        let (mut field, mut options, mut ranges) = (None, FacetOptions::default(), Vec::new());
        let mut sums = Aggregations::default();
        for (number, argument) in call.arguments.iter().enumerate() {
            match argument {
                Expression::Field(_) | Expression::Literal(_) if number == 0 => {
                    field = Some(self.field_of(argument)?);
                }
                Expression::Literal(_) => {
                    options = FacetOptions::read(&self.context.method_options(argument, METHOD)?)?;
                }
                Expression::Method(call) => self.add_sum(call, &mut sums)?,
                _ => ranges.push(argument),
            }
        }
        let (implied_name, by) = match (field, ranges.is_empty()) {
            (None, true) => (ALL_RESULTS.to_owned(), FacetBy::Nothing),
            (None, false) => {
                RangePlanner { context: self.context, fields: self.fields }.plan(&ranges)?
            }
            (Some(field), true) => (field.clone(), FacetBy::Terms { field, options }),
            (Some(_), false) => return Err(self.context.unexpected_in_facet(ranges[0])),
        };
        let name = alias.map_or(implied_name, str::to_owned);
        Ok(PlannedFacet { name, by, sums: sums.0 })
    }

    /// The field that an argument names.
    fn field_of(&self, argument: &'a Expression) -> Result<String, QueryError> {
        let field = match argument {
            Expression::Field(path) => Some(self.context.field_text(path)?),
            Expression::Literal(literal) => self.text_of(literal)?,
            _ => None,
        };
        field.ok_or_else(|| self.context.unexpected_in_facet(argument))
    }

    fn add_sum(&self, call: &'a MethodCall, sums: &mut Aggregations) -> Result<(), QueryError> {
        let [argument] = call.arguments.as_slice() else {
            let (name, count) = (&call.name, call.arguments.len());
            return Err(self.context.invalid(format!(
                "Invalid number of arguments of {name}() in a facet query. Expected 1, got {count}"
            )));
        };
        let field = self.field_of(argument)?;
        match sums.add(&call.name, &field, call.alias.as_deref().unwrap_or(&field)) {
            true => Ok(()),
            false => Err(QueryError::Method {
                message: format!("Method '{}' is not supported in facet().", call.name),
            }),
        }
    }
}
