//! A time series query, planned except for what depends on the row.

use documents::FieldPath as DocumentPath;
use model::TimeSpan;
use rql::{
    Declaration, Expression, FieldPath, Literal, MethodCall, NumberValue, PathStep, SelectItem,
    TimeSeriesGrouping, TimeSeriesQuery, TimeSeriesRange, TimeSeriesSource,
};

use crate::document_path::document_path;
use crate::error::QueryError;
use crate::parameters::{Elements, QueryContext, QueryValue, place_of};
use crate::row_script::PlannedLoad;
use crate::time_series::aggregation::{ALL, Aggregation};
use crate::time_series::condition::{Cell, Operand, Test};
use crate::time_series::groups::Interpolation;
use crate::time_series::length::TimeLength;
use crate::time_series::moment_text::{no_moment, parse_moment};

/// Names of the properties that every group has.
const OF_EVERY_GROUP: [&str; 3] = ["From", "To", "Key"];

/// A query over one series of each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedSeries {
    /// The function's name in error messages, and of its result without an alias.
    pub(crate) function: String,
    pub(crate) document: SeriesDocument,
    pub(crate) name: SeriesName,
    pub(crate) range: PlannedRange,
    pub(crate) condition: Option<Test>,
    pub(crate) grouping: PlannedGrouping,
    /// What groups return; `None` for the entries themselves.
    pub(crate) columns: Option<Vec<Column>>,
    pub(crate) scale: Option<f64>,
    /// In ticks; shifted timestamps are no longer marked as UTC.
    pub(crate) offset: Option<i64>,
    pub(crate) arguments: Vec<PlannedArgument>,
}

/// A document of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The document of the row itself.
    Row,
    /// One loaded for it.
    Loaded(usize),
}

/// The document that the series belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeriesDocument {
    At(Place),
    /// An argument if it is a document; else the row.
    Argument(usize),
}

/// The name of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeriesName {
    Known(String),
    Argument(usize),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlannedArgument {
    Document(Place),
    Field(Place, DocumentPath),
    Value(Cell),
}

/// Which part of the series is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlannedRange {
    Everything,
    Between(Operand, Operand),
    First(TimeLength),
    Last(TimeLength),
}

/// What entries are grouped by.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlannedGrouping {
    pub(crate) length: Option<TimeLength>,
    pub(crate) key: Option<GroupKey>,
    pub(crate) interpolation: Option<Interpolation>,
}

/// A further grouping of the entries of one period.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupKey {
    Tag,
    /// A field of the tag's document; with an empty path, its id.
    OfTag(DocumentPath),
}

/// One result of each group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) aggregation: Aggregation,
}

impl<'a> QueryContext<'a> {
    /// `timeseries(from …)`, the `number`th of the query.
    pub(crate) fn inline_series(
        &self,
        series: &'a TimeSeriesQuery,
        loads: &[PlannedLoad],
        number: usize,
    ) -> Result<PlannedSeries, QueryError> {
        let function = format!("__timeSeriesQueryFunction{number}");
        Planner { context: self, loads, function, series, parameters: &[] }.plan(Vec::new())
    }

    /// A call of a declared function.
    pub(crate) fn called_series(
        &self,
        declaration: &'a Declaration,
        series: &'a TimeSeriesQuery,
        call: &'a MethodCall,
        loads: &[PlannedLoad],
    ) -> Result<PlannedSeries, QueryError> {
        let arguments = declaration.parameters.iter().enumerate().map(|(place, _)| {
            match call.arguments.get(place) {
                Some(argument) => self.series_argument(argument, loads),
                None => Ok(PlannedArgument::Value(Cell::Null)),
            }
        });
        let arguments = arguments.collect::<Result<_, _>>()?;
        self.series_with(declaration, series, loads, arguments)
    }

    /// The declared functions, for scripts, which pass the arguments.
    pub(crate) fn series_functions(&self) -> Result<Vec<PlannedSeries>, QueryError> {
        let declared = self.query.declarations.iter().filter_map(|declaration| {
            let series = declaration.time_series()?;
            let arguments = vec![PlannedArgument::Value(Cell::Null); declaration.parameters.len()];
            Some(self.series_with(declaration, series, &[], arguments))
        });
        declared.collect()
    }

    /// A declared function with its arguments.
    fn series_with(
        &self,
        declaration: &'a Declaration,
        series: &'a TimeSeriesQuery,
        loads: &[PlannedLoad],
        arguments: Vec<PlannedArgument>,
    ) -> Result<PlannedSeries, QueryError> {
        let (function, parameters) = (declaration.name.clone(), declaration.parameters.as_slice());
        Planner { context: self, loads, function, series, parameters }.plan(arguments)
    }

    /// The declared time series query that `call` refers to.
    pub(crate) fn declared_series(
        &self,
        call: &MethodCall,
    ) -> Option<(&'a Declaration, &'a TimeSeriesQuery)> {
        self.query.declarations.iter().find_map(|declaration| {
            let series = declaration.time_series()?;
            call.is(&declaration.name).then_some((declaration, series))
        })
    }

    fn series_argument(
        &self,
        argument: &'a Expression,
        loads: &[PlannedLoad],
    ) -> Result<PlannedArgument, QueryError> {
        match argument {
            Expression::Field(path) => {
                let (place, path) = self.place_and_path(path, loads);
                Ok(match path {
                    None => PlannedArgument::Document(place),
                    Some(path) => PlannedArgument::Field(place, document_path(&path)),
                })
            }
            Expression::Literal(literal) => Ok(PlannedArgument::Value(self.cell(literal)?)),
            other => {
                Err(self
                    .not_yet("a call as an argument of a time series function", place_of(other)))
            }
        }
    }

    /// The document of a row that a path starts from, and the rest of the path.
    fn place_and_path(
        &self,
        path: &FieldPath,
        loads: &[PlannedLoad],
    ) -> (Place, Option<FieldPath>) {
        if let Some(PathStep::Name { name, .. }) = path.steps.first()
            && let Some(at) = loads.iter().position(|load| load.alias == *name)
        {
            return (Place::Loaded(at), path.without_alias(Some(name)));
        }
        (Place::Row, path.without_alias(self.alias()))
    }

    fn cell(&self, literal: &'a Literal) -> Result<Cell, QueryError> {
        match self.resolve(literal)? {
            QueryValue::Parameter(value) => Cell::of(&value),
            QueryValue::Literal(literal) => Ok(match literal {
                Literal::Null | Literal::Parameter(_) => Cell::Null,
                Literal::Bool(value) => Cell::Bool(*value),
                Literal::String(text) => Cell::Text(text.clone()),
                Literal::Number(number) => match number.value() {
                    NumberValue::Long(value) => Cell::Number(value as f64),
                    NumberValue::Double(value) => Cell::Number(value),
                    NumberValue::TooLarge => Cell::Number(f64::INFINITY),
                },
            }),
        }
    }
}

impl PlannedSeries {
    /// The names of the members of an entry or a group.
    pub(crate) fn column_names(&self) -> Vec<String> {
        let owned = |name: &&str| (*name).to_owned();
        match &self.columns {
            None => ["Tag", "Timestamp", "Values", "IsRollup"].iter().map(owned).collect(),
            Some(columns) => {
                let results = columns.iter().map(|column| column.name.clone());
                OF_EVERY_GROUP.iter().map(owned).chain(results).collect()
            }
        }
    }
}

struct Planner<'p, 'a> {
    context: &'p QueryContext<'a>,
    loads: &'p [PlannedLoad],
    function: String,
    series: &'a TimeSeriesQuery,
    parameters: &'a [String],
}

impl<'a> Planner<'_, 'a> {
    fn plan(self, arguments: Vec<PlannedArgument>) -> Result<PlannedSeries, QueryError> {
        let series = self.series;
        let (document, name) = self.source()?;
        let grouping = match &series.grouping {
            Some(grouping) => self.grouping(grouping)?,
            None => PlannedGrouping::default(),
        };
        let columns = match series.grouping.is_some() || !series.select.is_empty() {
            true => Some(self.columns(grouping.length.is_some())?),
            false => None,
        };
        let condition = series.condition.as_ref().map(|condition| self.test(condition));
        Ok(PlannedSeries {
            document,
            name,
            range: self.range()?,
            condition: condition.transpose()?,
            grouping,
            columns,
            scale: self.scale()?,
            offset: self.offset()?,
            function: self.function,
            arguments,
        })
    }

    fn invalid(&self, message: impl Into<String>) -> QueryError {
        self.context.invalid(message)
    }

    fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter == name)
    }

    fn source(&self) -> Result<(SeriesDocument, SeriesName), QueryError> {
        let row = SeriesDocument::At(Place::Row);
        let path = match &self.series.source {
            TimeSeriesSource::Path(path) => path,
            TimeSeriesSource::Literal(literal) => {
                return match self.context.cell(literal)? {
                    Cell::Text(name) => Ok((row, SeriesName::Known(name))),
                    other => {
                        let message =
                            format!("'{}' is not a valid name of a time series", other.shown());
                        Err(self.invalid(message))
                    }
                };
            }
        };
        match path.steps.as_slice() {
            [PathStep::Name { name, .. }] => Ok(match self.parameter(name) {
                Some(place) => (row, SeriesName::Argument(place)),
                None => (row, SeriesName::Known(name.clone())),
            }),
            [PathStep::Name { name: document, .. }, PathStep::Name { name, .. }] => {
                Ok((self.source_document(document)?, SeriesName::Known(name.clone())))
            }
            _ => Err(self.invalid(format!("'{path}' is not a valid name of a time series"))),
        }
    }

    fn source_document(&self, name: &str) -> Result<SeriesDocument, QueryError> {
        if let Some(place) = self.parameter(name) {
            return Ok(SeriesDocument::Argument(place));
        }
        if let Some(at) = self.loads.iter().position(|load| load.alias == name) {
            return Ok(SeriesDocument::At(Place::Loaded(at)));
        }
        match self.context.alias() {
            Some(alias) if alias == name => Ok(SeriesDocument::At(Place::Row)),
            _ => Err(self.invalid(format!(
                "Unknown alias '{name}' in time series function '{}'",
                self.function
            ))),
        }
    }

    fn range(&self) -> Result<PlannedRange, QueryError> {
        Ok(match &self.series.range {
            TimeSeriesRange::Everything => PlannedRange::Everything,
            TimeSeriesRange::Between { from, to } => {
                let (from, to) = (self.operand(from)?, self.operand(to)?);
                PlannedRange::Between(self.moment(from)?, self.moment(to)?)
            }
            TimeSeriesRange::First(length) => self.part(length, PlannedRange::First)?,
            TimeSeriesRange::Last(length) => self.part(length, PlannedRange::Last)?,
        })
    }

    fn moment(&self, operand: Operand) -> Result<Operand, QueryError> {
        match operand {
            Operand::Constant(cell) => Ok(Operand::Constant(Cell::Moment(moment_of(&cell)?))),
            Operand::Argument(_) | Operand::ArgumentField(..) => Ok(operand),
            Operand::Named(name) => Err(self.unknown(&name, &name)),
            _ => Err(self.invalid("The ends of a range of time cannot depend on its entries")),
        }
    }

    fn part(
        &self,
        length: &'a Literal,
        part: fn(TimeLength) -> PlannedRange,
    ) -> Result<PlannedRange, QueryError> {
        let Some(length) = self.length(length)? else { return Ok(PlannedRange::Everything) };
        if length.is_in_milliseconds() {
            let message =
                "Unsupported time period. Using milliseconds in Last/First is not supported";
            return Err(QueryError::Method { message: message.to_owned() });
        }
        Ok(part(length))
    }

    fn length(&self, literal: &'a Literal) -> Result<Option<TimeLength>, QueryError> {
        match self.context.cell(literal)? {
            Cell::Null => Ok(None),
            cell => TimeLength::parse(&cell.shown()).map(Some),
        }
    }

    fn grouping(&self, grouping: &'a TimeSeriesGrouping) -> Result<PlannedGrouping, QueryError> {
        let length = self.length(&grouping.period)?;
        if length.is_some_and(TimeLength::is_zero) {
            let message = "The length of the groups of a time series must not be zero".to_owned();
            return Err(QueryError::Argument { message });
        }
        let key = grouping.key.as_ref().map(|key| self.group_key(key)).transpose()?;
        if length.is_none() && key.is_some() {
            return Err(self.invalid("A time series must be grouped by a length of time first"));
        }
        let interpolation = grouping.interpolation.as_ref().map(interpolation).transpose()?;
        Ok(PlannedGrouping { length, key, interpolation })
    }

    fn group_key(&self, key: &FieldPath) -> Result<GroupKey, QueryError> {
        match (key.steps.as_slice(), self.series.load_alias.as_deref()) {
            ([PathStep::Name { name, quoted: false }], _) if name.eq_ignore_ascii_case("tag") => {
                Ok(GroupKey::Tag)
            }
            ([PathStep::Name { name, .. }, rest @ ..], Some(alias)) if name == alias => {
                Ok(GroupKey::OfTag(path_of(rest, key)))
            }
            _ => Err(self.invalid(
                "Group by field expression, is expected to be used with 'Load' document by tag.",
            )),
        }
    }

    fn columns(&self, is_grouped: bool) -> Result<Vec<Column>, QueryError> {
        let column =
            |aggregation: Aggregation| Column { name: aggregation.name().to_owned(), aggregation };
        if self.series.select.is_empty() {
            return Ok(ALL.into_iter().map(column).collect());
        }
        let mut columns = vec![column(Aggregation::Count)];
        for item in &self.series.select {
            let aggregation = self.aggregation(item)?;
            if aggregation == Aggregation::Slope && !is_grouped {
                let message =
                    "Cannot use aggregation method 'Slope' without having a 'GroupBy' clause";
                return Err(QueryError::InvalidOperation { message: message.to_owned() });
            }
            let name = item.alias.clone().unwrap_or_else(|| aggregation.name().to_owned());
            if OF_EVERY_GROUP.contains(&name.as_str()) {
                let message = format!("Every group of a time series already has a '{name}'");
                return Err(self.invalid(message));
            }
            // Of two results with one name the last one wins.
            match columns.iter_mut().find(|column| column.name == name) {
                Some(column) => column.aggregation = aggregation,
                None => columns.push(Column { name, aggregation }),
            }
        }
        Ok(columns)
    }

    fn aggregation(&self, item: &'a SelectItem) -> Result<Aggregation, QueryError> {
        let unknown = || QueryError::Argument {
            message: format!("Unknown method in timeseries query: {}", item.value),
        };
        let Expression::Method(call) = &item.value else { return Err(unknown()) };
        Ok(match call.name.to_ascii_lowercase().as_str() {
            "first" => Aggregation::First,
            "last" => Aggregation::Last,
            "min" => Aggregation::Min,
            "max" => Aggregation::Max,
            "sum" => Aggregation::Sum,
            "count" => Aggregation::Count,
            "avg" | "average" => Aggregation::Average,
            "slope" => Aggregation::Slope,
            "stddev" | "standarddeviation" => Aggregation::StandardDeviation,
            "percentile" => Aggregation::Percentile(self.percent(call)?),
            _ => return Err(unknown()),
        })
    }

    fn percent(&self, call: &'a MethodCall) -> Result<f64, QueryError> {
        let [argument] = call.arguments.as_slice() else {
            let message = "Wrong number of arguments passed to method Percentile".to_owned();
            return Err(QueryError::Argument { message });
        };
        let cell = match argument {
            Expression::Literal(literal) => self.context.cell(literal)?,
            _ => Cell::Composite,
        };
        match cell {
            Cell::Number(percent) if 0.0 < percent && percent <= 100.0 => Ok(percent),
            Cell::Number(percent) => Err(QueryError::OutOfRange {
                message: format!(
                    "Invalid argument passed to 'Percentile' aggregation method: '{percent}'. \
                     Argument must be a number greater than 0 and less than or equal to 100"
                ),
            }),
            other => Err(QueryError::Argument {
                message: format!(
                    "Invalid argument passed to method 'Percentile' : '{}'. Expected a number",
                    other.shown()
                ),
            }),
        }
    }

    fn scale(&self) -> Result<Option<f64>, QueryError> {
        let Some(scale) = &self.series.scale else { return Ok(None) };
        match self.context.cell(scale)? {
            Cell::Number(scale) => Ok(Some(scale)),
            other => Err(QueryError::InvalidOperation {
                message: format!(
                    "Failed to execute time series query function '{}'. Invalid type on 'scale' \
                     argument : expected a number, but got : '{}'.",
                    self.function,
                    other.shown()
                ),
            }),
        }
    }

    fn offset(&self) -> Result<Option<i64>, QueryError> {
        let Some(offset) = &self.series.offset else { return Ok(None) };
        let refused = |message| Err(QueryError::InvalidOperation { message });
        match self.context.cell(offset)? {
            Cell::Null => refused(
                "Unable to parse time series offset. Got null instead of a value".to_owned(),
            ),
            Cell::Text(text) if text.contains(':') && text.parse::<TimeSpan>().is_ok() => {
                Ok(text.parse::<TimeSpan>().ok().map(|span| span.ticks))
            }
            other => refused(format!(
                "Failed to parse object '{}' as TimeSpan, in OFFSET clause of time series function \
                 '{}'",
                other.shown(),
                self.function
            )),
        }
    }

    fn test(&self, condition: &'a Expression) -> Result<Test, QueryError> {
        let all = |parts: &'a [Expression]| {
            parts.iter().map(|part| self.test(part)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match condition {
            Expression::And(parts) => Test::And(all(parts)?),
            Expression::Or(parts) => Test::Or(all(parts)?),
            Expression::Not(part) => Test::Not(Box::new(self.test(part)?)),
            Expression::Compare { left, comparison, right } => {
                Test::Compare(self.operand(left)?, *comparison, self.operand(right)?)
            }
            Expression::Between { value, low, high } => {
                Test::Between(self.operand(value)?, self.operand(low)?, self.operand(high)?)
            }
            Expression::In { value, list, all: false } => {
                Test::In(self.operand(value)?, self.listed(list)?)
            }
            Expression::In { all: true, .. } => {
                return Err(
                    self.invalid("Operator 'ALL IN' is not supported for time series functions")
                );
            }
            Expression::Method(_)
            | Expression::Field(_)
            | Expression::Literal(_)
            | Expression::TimeSeries(_) => {
                return Err(self.invalid(format!(
                    "Unsupported expression '{condition}' inside WHERE clause of TimeSeries function \
                     '{}'. Supported expressions are : Binary Expressions (=, !=, <, >, <=, >=, AND, \
                     OR, NOT), IN expressions, BETWEEN expressions",
                    self.function
                )));
            }
        })
    }

    fn listed(&self, list: &'a [Expression]) -> Result<Vec<Operand>, QueryError> {
        let mut listed = Vec::with_capacity(list.len());
        for value in list {
            match value {
                Expression::Literal(literal @ Literal::Parameter(_)) => {
                    let QueryValue::Parameter(value) = self.context.resolve(literal)? else {
                        continue;
                    };
                    for element in Elements::of(value) {
                        listed.push(Operand::Constant(Cell::of(&element?)?));
                    }
                }
                other => listed.push(self.operand(other)?),
            }
            self.context.require_listable(listed.len(), "values")?;
        }
        Ok(listed)
    }

    fn operand(&self, expression: &'a Expression) -> Result<Operand, QueryError> {
        match expression {
            Expression::Literal(literal) => Ok(Operand::Constant(self.context.cell(literal)?)),
            Expression::Field(path) => self.field(path),
            other => Err(self.invalid(format!(
                "Failed to invoke time series function '{}'. Unable to get the value of expression \
                 '{other}'",
                self.function
            ))),
        }
    }

    fn field(&self, path: &FieldPath) -> Result<Operand, QueryError> {
        let Some(PathStep::Name { name, .. }) = path.steps.first() else {
            return Err(self.unknown(&path.to_string(), ""));
        };
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let rest = &path.steps[1..];
        match rest {
            [] if is("Value") => return Ok(Operand::Value(0)),
            [] if is("Tag") => return Ok(Operand::Tag),
            [] if is("Timestamp") => return Ok(Operand::Timestamp),
            [PathStep::Index(position)] if is("Values") => {
                return Ok(Operand::Value(*position as usize));
            }
            _ => {}
        }
        if self.series.load_alias.as_ref() == Some(name) {
            return Ok(match rest {
                [] => Operand::TagDocument,
                rest => Operand::TagField(path_of(rest, path)),
            });
        }
        match (self.parameter(name), rest) {
            (Some(place), []) => Ok(Operand::Argument(place)),
            (Some(place), rest) => Ok(Operand::ArgumentField(place, path_of(rest, path))),
            (None, []) if !is("Values") => Ok(Operand::Named(name.clone())),
            (None, _) => Err(self.unknown(&path.to_string(), name)),
        }
    }

    fn unknown(&self, path: &str, name: &str) -> QueryError {
        unknown_name(&self.function, path, name)
    }
}

/// The error for a name that cannot be resolved.
pub(crate) fn unknown_name(function: &str, path: &str, name: &str) -> QueryError {
    let message = format!(
        "Unable to get the value of '{path}'. '{name}' is unknown in time series function '{function}': \
         it is neither an argument of the function nor a name of its values"
    );
    QueryError::TimeSeries { message }
}

/// The timestamp in a cell of a range.
pub(crate) fn moment_of(cell: &Cell) -> Result<i64, QueryError> {
    match cell {
        Cell::Moment(moment) => Ok(*moment),
        Cell::Null => Err(QueryError::Argument {
            message: "Unable to parse timeseries from/to values. Got a null instead of a value"
                .to_owned(),
        }),
        other => {
            let text = other.shown();
            parse_moment(&text).ok_or_else(|| no_moment(&text))
        }
    }
}

fn path_of(steps: &[PathStep], path: &FieldPath) -> DocumentPath {
    document_path(&FieldPath { steps: steps.to_vec(), offset: path.offset })
}

fn interpolation(call: &MethodCall) -> Result<Interpolation, QueryError> {
    let refused = |message: String| Err(QueryError::Argument { message });
    if !call.is("interpolation") {
        return refused(format!("Unknown method in WITH clause of time series query: {call}"));
    }
    let name = match call.arguments.as_slice() {
        [Expression::Field(path)] => path.text(),
        [Expression::Literal(Literal::String(name))] => name.clone(),
        _ => {
            return refused(format!(
                "Invalid arguments in method call 'interpolation' in WITH clause of time series \
                 query: {call}"
            ));
        }
    };
    match name.to_ascii_lowercase().as_str() {
        "linear" => Ok(Interpolation::Linear),
        "nearest" => Ok(Interpolation::Nearest),
        "last" => Ok(Interpolation::Last),
        "next" => Ok(Interpolation::Next),
        _ => refused(format!(
            "Unknown interpolation method '{name}' in WITH clause of time series query: {call}"
        )),
    }
}
