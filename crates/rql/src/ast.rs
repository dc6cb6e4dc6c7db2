//! The abstract syntax tree of a query: what its author wrote, without white space, comments and
//! keyword case.
//!
//! Scripts (function bodies, object literals) are kept as raw text; the crates that run them parse
//! them. Names keep their spelling and whether they were quoted, because the
//! names of automatic indexes show it.

use crate::position::Offset;
use crate::time_series::TimeSeriesQuery;

/// A parsed query, with its original text.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The text that was parsed; error messages repeat it and offsets point into it.
    pub text: QueryText,
    /// `declare function`, `declare timeseries`.
    pub declarations: Vec<Declaration>,
    /// `from`.
    pub source: Source,
    /// `group by`; empty when the clause is absent.
    pub group_by: Vec<GroupByItem>,
    /// `where`.
    pub condition: Option<Expression>,
    /// `order by`; empty when the clause is absent.
    pub order_by: Vec<OrderByItem>,
    /// `load`; empty when the clause is absent.
    pub load: Vec<LoadItem>,
    /// `filter`, a condition that is evaluated on every row instead of using an index.
    pub filter: Option<Expression>,
    /// `select`.
    pub select: Option<Select>,
    /// `include`; fields, quoted paths, parameters or methods.
    pub include: Vec<Expression>,
    /// The raw text between the braces of `update { … }`.
    pub update: Option<String>,
    /// `limit`: a literal or a parameter.
    pub limit: Option<Literal>,
    /// `offset`, or the first value of `limit skip, take`: a literal or a parameter.
    pub offset: Option<Literal>,
    /// `filter_limit`: a literal or a parameter.
    pub filter_limit: Option<Literal>,
}

/// The text of a query, equal to every other text: see [`Offset`].
#[derive(Clone, Debug, Default)]
pub struct QueryText(String);

impl QueryText {
    pub(crate) fn new(text: &str) -> QueryText {
        QueryText(text.to_owned())
    }

    /// The text as it was passed to the parser.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for QueryText {
    fn eq(&self, _: &QueryText) -> bool {
        true
    }
}

/// A function or time series definition in front of `from`.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The name that `select` calls.
    pub name: String,
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// The text between the braces.
    pub body: DeclarationBody,
}

impl Declaration {
    /// The text of a function; `None` for a time series query.
    pub fn function(&self) -> Option<&str> {
        match &self.body {
            DeclarationBody::Function(script) => Some(script),
            DeclarationBody::TimeSeries(_) => None,
        }
    }

    /// The time series query; `None` for a function.
    pub fn time_series(&self) -> Option<&TimeSeriesQuery> {
        match &self.body {
            DeclarationBody::Function(_) => None,
            DeclarationBody::TimeSeries(query) => Some(query),
        }
    }
}

/// The body of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclarationBody {
    /// The raw text of JavaScript.
    Function(String),
    /// A time series query.
    TimeSeries(Box<TimeSeriesQuery>),
}

/// The `from` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// A collection, an index or all documents.
    pub kind: SourceKind,
    /// The condition in parentheses after the name, as used by subscriptions: `from Users
    /// (Revisions = true)`.
    pub restriction: Option<Box<Expression>>,
    /// The alias of the rows.
    pub alias: Option<String>,
    /// Where the source is named.
    pub offset: Offset,
}

/// What a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The documents of a collection; the name as written, without quotes.
    Collection(String),
    /// Every document: `from @all_docs`.
    AllDocuments,
    /// The entries of a named index.
    Index(String),
    /// A graph query (`match …` or `with …`), kept as raw text to the end of the query.
    Graph(String),
}

/// One key of `group by`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupByItem {
    /// A field, a method such as `array(…)`, or a constant.
    pub key: Expression,
    /// The name after `as`, if there is one.
    pub alias: Option<String>,
}

/// One key of `order by`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderByItem {
    /// A field or a method such as `id()`, `score()`, `spatial.distance(…)`.
    pub key: Expression,
    /// `as string|long|double|alphaNumeric`.
    pub ordering: Option<Ordering>,
    /// `desc` or `descending`.
    pub descending: bool,
}

/// How the values of a sort key are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// As text.
    String,
    /// As whole numbers.
    Long,
    /// As floating point numbers.
    Double,
    /// As text whose digit runs compare as numbers.
    AlphaNumeric,
}

/// One document to load along with each row.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadItem {
    /// The field that holds the id or ids.
    pub path: FieldPath,
    /// The name of the loaded document in `select`.
    pub alias: String,
    /// Whether the alias is written `name[]`, which loads every id of the field.
    pub many: bool,
}

/// The `select` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `select distinct`.
    pub distinct: bool,
    /// What each row becomes.
    pub selection: Selection,
}

/// The three forms of a selection.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`: the whole document.
    Everything,
    /// A list of fields, values and method calls.
    Items(Vec<SelectItem>),
    /// The raw text between the braces of a JavaScript object literal.
    Script(String),
}

/// One item of `select`, with its alias.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// A field, a literal, a parameter or a method call.
    pub value: Expression,
    /// The name in the result; without it the text of the value names it.
    pub alias: Option<String>,
}

/// A condition or a value.
///
/// `where` and `filter` hold conditions only (the parser refuses a lone field there); the
/// arguments of methods may be either.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Two or more conditions, all of which must hold.
    And(Vec<Expression>),
    /// Two or more conditions, one of which must hold.
    Or(Vec<Expression>),
    /// The contrary of a condition.
    Not(Box<Expression>),
    /// `left operator right`; the left side is a field or a method.
    Compare {
        /// The field or method.
        left: Box<Expression>,
        /// How they are compared.
        comparison: Comparison,
        /// A literal, a parameter, a method or a field.
        right: Box<Expression>,
    },
    /// `value between low and high`, both ends included.
    Between {
        /// The field or method.
        value: Box<Expression>,
        /// The least value.
        low: Box<Expression>,
        /// The greatest value.
        high: Box<Expression>,
    },
    /// `value in (…)` or `value all in (…)`.
    In {
        /// The field or method.
        value: Box<Expression>,
        /// The listed values; parameters may hold arrays.
        list: Vec<Expression>,
        /// Whether every listed value must be there, not only one.
        all: bool,
    },
    /// A method call.
    Method(MethodCall),
    /// A field.
    Field(FieldPath),
    /// A literal or a parameter.
    Literal(Literal),
    /// A time series query, the sole argument of `timeseries(from …)`.
    TimeSeries(Box<TimeSeriesQuery>),
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=` or `==`.
    Equal,
    /// `!=` or `<>`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

/// A call such as `search(Name, 'x')` or `spatial.point(Lat, Lng)`.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodCall {
    /// The name as written; a dotted name has its dots.
    pub name: String,
    /// The arguments in order.
    pub arguments: Vec<Expression>,
    /// Its name in the result, where the call is an argument: `facet(Brand, sum(Cost) as Total)`.
    pub alias: Option<String>,
    /// Where the call starts.
    pub offset: Offset,
}

impl MethodCall {
    /// Whether this calls the method `name`; method names ignore case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The path of a field: `Address.City`, `Lines[].Product`, `'Some Name'.x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// At least one step; the first is a name.
    pub steps: Vec<PathStep>,
    /// Where the path starts.
    pub offset: Offset,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// A member.
    Name {
        /// Its name without quotes.
        name: String,
        /// Whether it was written in quotes.
        quoted: bool,
    },
    /// `[]`: every element of an array.
    Each,
    /// `[3]`: one element of an array.
    Index(u32),
}

impl FieldPath {
    /// The path without quotes: `Lines[].Product`. An index is written `.3`, as the names of
    /// automatic indexes have it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                PathStep::Each => text.push_str("[]"),
                PathStep::Name { name, .. } => push_step(&mut text, name),
                PathStep::Index(index) => push_step(&mut text, &index.to_string()),
            }
        }
        text
    }

    /// The path after the alias `alias`, or the whole path when it does not start with the alias.
    /// `None` when the path is the alias itself.
    pub fn without_alias(&self, alias: Option<&str>) -> Option<FieldPath> {
        let starts_with_alias = match (self.steps.first(), alias) {
            (Some(PathStep::Name { name, .. }), Some(alias)) => name == alias,
            _ => false,
        };
        if !starts_with_alias {
            return Some(self.clone());
        }
        match &self.steps[1..] {
            [] => None,
            rest => Some(FieldPath { steps: rest.to_vec(), offset: self.offset }),
        }
    }
}

fn push_step(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}

/// A literal or the name of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text with its escapes resolved.
    String(String),
    /// `$name`, without the dollar.
    Parameter(String),
}

/// A number as written, without digit separators, so that no digit is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    pub(crate) text: String,
}

/// The value of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberValue {
    /// A whole number of 64 bits.
    Long(i64),
    /// Anything with a point.
    Double(f64),
    /// A whole number beyond 64 bits.
    TooLarge,
}

impl Number {
    /// The digits, with a leading minus and a point where written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number that the text denotes.
    pub fn value(&self) -> NumberValue {
        if self.text.contains('.') {
            return self.text.parse().map_or(NumberValue::TooLarge, NumberValue::Double);
        }
        self.text.parse().map_or(NumberValue::TooLarge, NumberValue::Long)
    }
}
