//! The plan: what a definition was compiled to and what is evaluated for each document.
//!
//! Names of variables have become slots, names of methods members of an enum, transparent
//! identifiers have vanished. Plans are immutable and shared by threads.

use fancy_regex::Regex;
use rust_decimal::Decimal;

use crate::compile::names::{Function, Method, NetType, Property, StaticOption};
use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::syntax::span::Span;
use crate::value::{CreatedFieldOptions, Date};

/// A place for the value of a variable.
pub(crate) type Slot = u32;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) span: Span,
    /// What its type is known to be without running it.
    pub(crate) known: Known,
}

/// What is known of a type from the text alone. It decides how aggregations add up and which
/// methods there are, as the types of C# do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Comes from a document.
    Dynamic,
    Bool,
    Integer,
    Double,
    Decimal,
    Text,
    Char,
    /// Any type with a `?`, except `dynamic`.
    Nullable,
    /// Anything else that is not dynamic.
    Other,
}

/// What an expression does.
#[derive(Debug)]
pub(crate) enum Op {
    Constant(Constant),
    Slot(Slot),
    Property {
        target: Box<Node>,
        name: Box<str>,
        property: Option<Property>,
    },
    Index {
        target: Box<Node>,
        index: Box<Node>,
    },
    Method(Box<MethodCall>),
    Function(Box<FunctionCall>),
    Unary {
        operator: UnaryOperator,
        operand: Box<Node>,
    },
    Binary {
        operator: BinaryOperator,
        operands: Box<[Node; 2]>,
    },
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Coalesce(Box<[Node; 2]>),
    Choice(Box<[Node; 3]>),
    Cast {
        to: CastType,
        operand: Box<Node>,
    },
    As {
        to: CastType,
        operand: Box<Node>,
    },
    Is {
        to: Option<CastType>,
        negated: bool,
        operand: Box<Node>,
    },
    /// Evaluates `rest`, with the target in the slot, unless the target is null.
    Conditionally {
        target: Box<Node>,
        slot: Slot,
        rest: Box<Node>,
    },
    Interpolated(Box<[Piece]>),
    Record {
        names: Box<[Box<str>]>,
        values: Box<[Node]>,
    },
    Tuple(Box<[Node]>),
    Dictionary(Box<[(Node, Node)]>),
    List {
        items: Box<[Node]>,
        plain: bool,
        distinct: bool,
    },
    /// A nested query.
    Sequence(Box<Pipeline>),
}

/// A value that is written in the definition.
#[derive(Debug)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Decimal(Decimal),
    Char(char),
    Text(Box<str>),
    Date(Date),
    Span(i64),
    DayOfWeek(u8),
}

/// The type in a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CastType {
    pub(crate) to: NetType,
    pub(crate) nullable: bool,
}

/// A piece of an interpolated string.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(Box<str>),
    Hole { value: Node, alignment: i32, format: Option<Box<str>> },
}

/// A call of a method of a value.
#[derive(Debug)]
pub(crate) struct MethodCall {
    pub(crate) target: Node,
    /// `None` for a method name that no known type has.
    pub(crate) method: Option<Method>,
    pub(crate) name: Box<str>,
    pub(crate) arguments: Box<[Argument]>,
    pub(crate) types: Box<[CastType]>,
    pub(crate) style: Style,
}

/// How a method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `target.Method(…)`
    Instance,
    /// `Enumerable.Method(target, …)`: null counts as an empty sequence.
    Enumerable,
    /// `DynamicEnumerable.Method(target, …)`: the same, and nothing is missing rather than null.
    DynamicEnumerable,
}

/// A call of a function that belongs to no value.
#[derive(Debug)]
pub(crate) struct FunctionCall {
    pub(crate) function: Function,
    pub(crate) arguments: Box<[Argument]>,
    pub(crate) types: Box<[CastType]>,
    pub(crate) options: CreatedFieldOptions,
    /// The pattern, when it is written in the definition.
    pub(crate) regex: Option<Box<Regex>>,
}

/// An argument of a call.
#[derive(Debug)]
pub(crate) enum Argument {
    Value(Node),
    Lambda(Lambda),
    Option(StaticOption),
}

/// A lambda: its parameters' slots are set, then its body is evaluated.
#[derive(Debug)]
pub(crate) struct Lambda {
    pub(crate) parameters: Box<[Slot]>,
    pub(crate) body: Node,
}

/// A query: rows pass through the stages; each row that comes out yields one result.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) stages: Box<[Stage]>,
    pub(crate) result: Node,
}

/// A stage of a pipeline.
#[derive(Debug)]
pub(crate) enum Stage {
    Set {
        slot: Slot,
        value: Node,
    },
    Filter {
        condition: Node,
        keeps_null: bool,
    },
    /// Runs the rest once per element.
    Each {
        slot: Slot,
        source: Node,
    },
    /// Gathers all rows; runs the rest once per group.
    Group {
        slot: Slot,
        element: Node,
        key: Node,
    },
    /// Collects all rows; runs the rest in order. The slots are those that later stages may read.
    Order {
        keys: Box<[(Node, bool)]>,
        live: Box<[Slot]>,
    },
}
