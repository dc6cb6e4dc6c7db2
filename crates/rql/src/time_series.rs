//! The syntax tree of a time series query: the text inside `timeseries(from …)` or between the
//! braces of `declare timeseries`.

use crate::ast::{Expression, FieldPath, Literal, MethodCall, SelectItem};

/// A query over one time series.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeriesQuery {
    /// Which series.
    pub source: TimeSeriesSource,
    /// Which part of it.
    pub range: TimeSeriesRange,
    /// The name of the document that an entry's tag is the id of: `load Tag as name`.
    pub load_alias: Option<String>,
    /// `where`, evaluated on every entry.
    pub condition: Option<Expression>,
    /// `group by`.
    pub grouping: Option<TimeSeriesGrouping>,
    /// The aggregations of `select`; empty when the clause is absent.
    pub select: Vec<SelectItem>,
    /// `scale`: a number or a parameter.
    pub scale: Option<Literal>,
    /// `offset`: the text of a time span or a parameter.
    pub offset: Option<Literal>,
}

/// How a series is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeSeriesSource {
    /// `HR`, `u.HR`, `u.'Heart Rate'`: the name of the series, or a parameter of the declaration.
    Path(FieldPath),
    /// A quoted name or a parameter.
    Literal(Literal),
}

/// Which part of a series is read.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeSeriesRange {
    /// All of it.
    Everything,
    /// `between from and to`, both ends included.
    Between {
        /// The first moment.
        from: Expression,
        /// The last moment.
        to: Expression,
    },
    /// `first 2 hours`: that long from the first entry on.
    First(Literal),
    /// `last 2 hours`: that long up to the last entry.
    Last(Literal),
}

/// The `group by` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeriesGrouping {
    /// The text of a duration, such as `1 h`, or a parameter.
    pub period: Literal,
    /// What further divides the entries of a period: the tag, or something of its document.
    pub key: Option<FieldPath>,
    /// `with interpolation(…)`.
    pub interpolation: Option<MethodCall>,
}
