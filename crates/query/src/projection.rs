//! `select` of plain fields: which values a row contains.

use std::collections::HashSet;

use blittable::{write_json, write_json_string};
use documents::{FieldPath as DocumentPath, FieldStep};
use rql::{
    Expression, FieldPath, Literal, MethodCall, PathStep, Select, SelectItem, Selection, nearest,
};

use crate::condition::is_id;
use crate::document_path::document_path;
use crate::error::QueryError;
use crate::exchange_value::is_exchange;
use crate::parameters::{QueryContext, QueryValue, place_of};
use crate::projected_counter::is_counter;
use crate::projected_distance::ProjectedDistance;
use crate::row_script::{Instead, PlannedLoad};
use crate::stored_projection::Lookup;
use crate::time_series::PlannedSeries;

/// Methods of SELECT that are known but not supported yet.
const SELECTED_METHODS: [&str; 4] = ["facet", "suggest", "getMetadata", "score"];

/// The values that each row contains.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// In the order of the query; names are unique.
    pub fields: Vec<ProjectedField>,
    /// Where their values are looked up.
    pub(crate) lookup: Lookup,
    /// Whether the only field has no name of its own, so that its members become those of the row.
    pub(crate) is_spread: bool,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedField {
    /// The name in the result.
    pub name: String,
    pub(crate) value: ProjectedValue,
}

impl ProjectedField {
    pub(crate) fn is_series(&self) -> bool {
        matches!(self.value, ProjectedValue::TimeSeries(_))
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProjectedValue {
    /// The id of the row's document.
    Id,
    /// A constant, as JSON.
    Constant(Vec<u8>),
    /// A field of the document.
    Field {
        path: DocumentPath,
        /// The name of the index field that may store it.
        index_field: String,
        /// Whether a document without the field produces a row without it instead of `null`.
        /// Clients expect this of fields that are written with the alias of the source.
        absent_when_missing: bool,
    },
    /// The document itself, or a loaded one; absent when it is missing.
    Document(Option<usize>),
    /// A field of a document loaded for the row; absent when it is missing.
    Loaded {
        /// Index of the loaded document.
        at: usize,
        path: DocumentPath,
    },
    /// The key of a group of several fields, which are these.
    GroupKey(Vec<String>),
    /// The id of a document loaded for the row; `null` when it is missing.
    LoadedId {
        /// Index of the loaded document.
        at: usize,
    },
    /// A metadata property that the server stores outside the document's body.
    LastModified,
    /// The value of a counter looked up for the row.
    Counter {
        /// Its index among what is loaded for the row.
        at: usize,
        /// Whether its values per node are returned.
        is_raw: bool,
    },
    /// A compare exchange value read for the row.
    Exchange {
        /// Its index among what is loaded for the row.
        at: usize,
    },
    /// The distance between two places.
    Distance(Box<ProjectedDistance>),
    /// A time series result.
    TimeSeries(Box<PlannedSeries>),
}

impl<'a> QueryContext<'a> {
    /// The projection of a `select`; `None` when whole documents are selected.
    pub(crate) fn projection(
        &self,
        select: &'a Select,
        loads: &[PlannedLoad],
    ) -> Result<Option<Projection>, QueryError> {
        let items = match &select.selection {
            // Results that a script produces are not a projection of fields.
            Selection::Everything | Selection::Script(_) => return Ok(None),
            Selection::Items(items) => items,
        };
        if let [SelectItem { value: Expression::Field(path), .. }] = items.as_slice()
            && path.without_alias(self.alias()).is_none()
        {
            return Ok(None);
        }
        let mut fields: Vec<ProjectedField> = Vec::with_capacity(items.len());
        let mut names = HashSet::with_capacity(items.len());
        let mut inline_series = 0;
        for item in items {
            let field = match self.projected_series(item, loads, &mut inline_series)? {
                Some(field) => field,
                None => self.projected_field(item, loads)?,
            };
            if field.name == "@metadata" {
                let message = "Every row has its own '@metadata'; give the metadata of the \
                               document another name with 'as'";
                return Err(self.invalid(message));
            }
            if !names.insert(field.name.clone()) {
                return Err(self.duplicate_alias(&field.name));
            }
            fields.push(field);
        }
        let is_spread = matches!((items.as_slice(), fields.as_slice()), ([item], [field])
            if item.alias.is_none() && field.value.may_be_spread());
        Ok(Some(Projection { fields, lookup: Lookup::default(), is_spread }))
    }

    /// A time series in the selection, inline or through a declared function; `inline` counts the
    /// former.
    fn projected_series(
        &self,
        item: &'a SelectItem,
        loads: &[PlannedLoad],
        inline: &mut usize,
    ) -> Result<Option<ProjectedField>, QueryError> {
        let Expression::Method(call) = &item.value else { return Ok(None) };
        let (implied_name, series) =
            if let [Expression::TimeSeries(series)] = call.arguments.as_slice() {
                let series = self.inline_series(series, loads, *inline)?;
                *inline += 1;
                (series.function.clone(), series)
            } else if let Some((declaration, series)) = self.declared_series(call) {
                (call.name.clone(), self.called_series(declaration, series, call, loads)?)
            } else if call.is("timeseries") {
                let message = "Unable to parse time series query for time series select function, \
                           missing FROM";
                return Err(self.invalid(message));
            } else {
                return Ok(None);
            };
        let name = item.alias.clone().unwrap_or(implied_name);
        let value = ProjectedValue::TimeSeries(Box::new(series));
        Ok(Some(ProjectedField { name, value }))
    }

    fn projected_field(
        &self,
        item: &'a SelectItem,
        loads: &[PlannedLoad],
    ) -> Result<ProjectedField, QueryError> {
        let (implied_name, value) = match &item.value {
            Expression::Method(call) if is_id(&item.value) && !self.is_grouped() => {
                ("id()".to_owned(), self.id_of(call, loads)?)
            }
            Expression::Field(path) => match self.loaded_path(path, loads)? {
                Some(loaded) => loaded,
                None => self.projected_path(path)?,
            },
            Expression::Literal(literal @ Literal::Parameter(name)) => {
                let mut json = Vec::new();
                if let QueryValue::Parameter(value) = self.resolve(literal)? {
                    write_json(&value, &mut json)?;
                }
                (name.clone(), ProjectedValue::Constant(json))
            }
            Expression::Literal(literal) => constant(literal),
            Expression::Method(call) if call.is("spatial.distance") => {
                // A single call without a name would have to return an object.
                if item.alias.is_none() {
                    let message = "spatial.distance() in SELECT requires an alias";
                    return Err(QueryError::InvalidOperation { message: message.to_owned() });
                }
                let distance = self.projected_distance(call)?;
                (call.name.clone(), ProjectedValue::Distance(Box::new(distance)))
            }
            Expression::Method(call) if let Some(is_raw) = is_counter(call) => {
                let aliases = loads.iter().filter(|load| load.instead.is_none());
                let aliases: Vec<&str> = aliases.map(|load| load.alias.as_str()).collect();
                let counter = self.planned_counter(call, &aliases)?;
                let name = counter.name.clone();
                let at = place_of_load(loads, &Instead::Counter(counter));
                (name, ProjectedValue::Counter { at, is_raw })
            }
            Expression::Method(call) if is_exchange(&item.value) => {
                let at = place_of_load(loads, &Instead::Value(self.planned_value(call)?));
                (call.name.clone(), ProjectedValue::Exchange { at })
            }
            Expression::Method(call) => match self.selected_of_group(call)? {
                Some(of_group) => of_group,
                None => return Err(self.selected_method(call)),
            },
            other => return Err(self.not_yet("a condition in SELECT", place_of(other))),
        };
        Ok(ProjectedField { name: item.alias.clone().unwrap_or(implied_name), value })
    }

    fn selected_method(&self, call: &MethodCall) -> QueryError {
        let name = &call.name;
        if ["count", "sum", "key"].iter().any(|known| call.is(known)) {
            return self.invalid(format!("{name} may only be used in group by queries"));
        }
        if SELECTED_METHODS.iter().any(|known| call.is(known)) {
            return self.not_yet(format!("'{name}()' in SELECT"), Some(call.offset));
        }
        let declared = self.query.declarations.iter().map(|declared| declared.name.as_str());
        let known: Vec<&str> = SELECTED_METHODS.into_iter().chain(declared).collect();
        let hint = nearest(name, &known).map(|known| format!(". Did you mean '{known}'?"));
        let hint = hint.unwrap_or_default();
        self.invalid(format!("Unknown method call in SELECT clause: '{name}' method{hint}"))
    }

    /// `id()`, or that of a document by its alias.
    fn id_of(
        &self,
        call: &MethodCall,
        loads: &[PlannedLoad],
    ) -> Result<ProjectedValue, QueryError> {
        let Some(Expression::Field(path)) = call.arguments.first() else {
            return Ok(ProjectedValue::Id);
        };
        let name = path.text();
        match loads.iter().position(|load| load.alias == name) {
            Some(at) => Ok(ProjectedValue::LoadedId { at }),
            None if self.alias() == Some(name.as_str()) => Ok(ProjectedValue::Id),
            None => {
                Err(self.invalid(format!("id() expects the alias of a document, not '{name}'")))
            }
        }
    }

    /// A path that starts at a loaded document.
    fn loaded_path(
        &self,
        path: &FieldPath,
        loads: &[PlannedLoad],
    ) -> Result<Option<(String, ProjectedValue)>, QueryError> {
        let Some(PathStep::Name { name, .. }) = path.steps.first() else { return Ok(None) };
        let Some(at) = loads.iter().position(|load| load.alias == *name) else { return Ok(None) };
        match path.without_alias(Some(name)) {
            None => Ok(Some((name.clone(), ProjectedValue::Document(Some(at))))),
            Some(inner) => {
                let value = ProjectedValue::Loaded { at, path: document_path(&inner) };
                Ok(Some((inner.text(), value)))
            }
        }
    }

    fn projected_path(&self, path: &FieldPath) -> Result<(String, ProjectedValue), QueryError> {
        self.require_known_alias(path)?;
        let Some(inner) = path.without_alias(self.alias()) else {
            return Ok((path.text(), ProjectedValue::Document(None)));
        };
        let absent_when_missing = inner.steps.len() < path.steps.len();
        let value = match inner.text().as_str() {
            "@metadata.@last-modified" => ProjectedValue::LastModified,
            text => ProjectedValue::Field {
                path: document_path(&inner),
                index_field: text.to_owned(),
                absent_when_missing,
            },
        };
        Ok((inner.text(), value))
    }

    /// A path of several steps must start with the alias if there is one.
    pub(crate) fn require_known_alias(&self, path: &FieldPath) -> Result<(), QueryError> {
        let (Some(alias), [PathStep::Name { name, .. }, PathStep::Name { .. }, ..]) =
            (self.alias(), path.steps.as_slice())
        else {
            return Ok(());
        };
        if name == alias || name == "@metadata" {
            return Ok(());
        }
        let message =
            format!("Unknown alias {name}, but there are aliases specified in the query ({alias})");
        Err(self.invalid(message))
    }

    pub(crate) fn alias(&self) -> Option<&'a str> {
        self.query.source.alias.as_deref()
    }

    /// The error for two results with one name.
    pub(crate) fn duplicate_alias(&self, name: &str) -> QueryError {
        self.invalid(format!(
            "Duplicate alias '{name}' detected. A field without an alias is named by its path; \
             give one of the two fields an alias of its own with 'as'."
        ))
    }
}

/// The index of `instead` among what is loaded for a row.
fn place_of_load(loads: &[PlannedLoad], instead: &Instead) -> usize {
    let at = loads.iter().position(|load| load.instead.as_ref() == Some(instead));
    at.unwrap_or(usize::MAX)
}

impl ProjectedValue {
    /// Whether its members may become those of the row when the row has nothing else.
    fn may_be_spread(&self) -> bool {
        matches!(self, Self::TimeSeries(_) | Self::Exchange { .. })
    }
}

/// A field of the index by its full name, even if that is a path.
pub(crate) fn field_value(name: &str) -> ProjectedValue {
    ProjectedValue::Field {
        path: DocumentPath::new(vec![FieldStep::Member(name.to_owned())]),
        index_field: name.to_owned(),
        absent_when_missing: false,
    }
}

fn constant(literal: &Literal) -> (String, ProjectedValue) {
    let mut json = Vec::new();
    let name = match literal {
        Literal::String(text) => {
            write_json_string(text, &mut json);
            text.clone()
        }
        other => {
            json = other.to_string().into_bytes();
            // A number may end with its decimal point in a query, but not in JSON.
            if json.ends_with(b".") {
                json.push(b'0');
            }
            other.to_string()
        }
    };
    (name, ProjectedValue::Constant(json))
}
