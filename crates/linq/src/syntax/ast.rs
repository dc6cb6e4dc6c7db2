//! The syntax tree of a definition: what was written, with its position, and nothing about its
//! meaning.
//!
//! Invariant: no tree is deeper than `TREE_DEPTH_MAX`, because every node is created by
//! [`Expr::new`], which checks the depth of its children. That allows later stages to recurse.

use crate::limits::TREE_DEPTH_MAX;
use crate::syntax::span::Span;

/// An expression and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    depth: u16,
}

/// The tree would be deeper than `TREE_DEPTH_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

impl Expr {
    pub(crate) fn new(kind: ExprKind, span: Span) -> Result<Expr, TooDeep> {
        let mut deepest = 0;
        kind.each_child(&mut |child| deepest = deepest.max(child.depth));
        if TREE_DEPTH_MAX <= deepest {
            return Err(TooDeep);
        }
        Ok(Expr { kind, span, depth: deepest + 1 })
    }

    /// The name, when this is a plain one.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name { name, type_arguments } if type_arguments.is_empty() => Some(name),
            _ => None,
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    Double(f64),
    /// The digits before the suffix `m`.
    Decimal(String),
    Char(char),
    String(String),
    Interpolated(Vec<Piece>),
    Name {
        name: String,
        type_arguments: Vec<TypeName>,
    },
    Member {
        target: Box<Expr>,
        name: String,
        type_arguments: Vec<TypeName>,
    },
    Index {
        target: Box<Expr>,
        arguments: Vec<Expr>,
    },
    Call {
        target: Box<Expr>,
        arguments: Vec<Expr>,
    },
    /// `target?.rest`: `rest` starts at [`ExprKind::Receiver`].
    Conditionally {
        target: Box<Expr>,
        rest: Box<Expr>,
    },
    /// The value before the nearest `?.`.
    Receiver,
    Unary {
        operator: UnaryOperator,
        operand: Box<Expr>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Choice {
        condition: Box<Expr>,
        when_true: Box<Expr>,
        when_false: Box<Expr>,
    },
    Cast {
        to: TypeName,
        operand: Box<Expr>,
    },
    As {
        operand: Box<Expr>,
        to: TypeName,
    },
    Is {
        operand: Box<Expr>,
        what: Pattern,
        negated: bool,
    },
    TypeOf(TypeName),
    Default(Option<TypeName>),
    Lambda {
        parameters: Vec<String>,
        body: Box<Expr>,
    },
    Anonymous(Vec<Member>),
    New {
        what: TypeName,
        arguments: Vec<Expr>,
        initializer: Option<Initializer>,
    },
    NewArray {
        element: Option<TypeName>,
        length: Option<Box<Expr>>,
        items: Vec<Expr>,
    },
    Tuple(Vec<Expr>),
    Query(Box<Query>),
}

/// One property of an anonymous object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// As written, or the last name of the value.
    pub(crate) name: String,
    pub(crate) value: Expr,
}

/// A piece of an interpolated string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Hole { value: Expr, alignment: i32, format: Option<String> },
}

/// An initializer in braces after a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Initializer {
    /// `{ A = 1, B = 2 }`
    Properties(Vec<Member>),
    /// `{ 1, 2 }`
    Items(Vec<Expr>),
    /// `{ { "a", 1 }, { "b", 2 } }` or `{ ["a"] = 1 }`
    Pairs(Vec<(Expr, Expr)>),
}

/// The pattern after `is`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    Null,
    Type(TypeName),
}

/// The name of a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeName {
    /// With its dots, as written.
    pub(crate) name: String,
    pub(crate) arguments: Vec<TypeName>,
    pub(crate) nullable: bool,
    pub(crate) is_array: bool,
    pub(crate) span: Span,
}

impl TypeName {
    /// The part after the last dot.
    pub(crate) fn short(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Not,
    Negate,
    Plus,
    Complement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Coalesce,
}

/// `from x in … … select …`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) variable: String,
    pub(crate) source: Expr,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) end: QueryEnd,
}

/// A clause between the first `from` and the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause {
    From { variable: String, source: Expr },
    Let { variable: String, value: Expr },
    Where(Expr),
    OrderBy { keys: Vec<(Expr, bool)>, span: Span },
    Join(Box<Join>),
}

/// `join x in source on left equals right [into group]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    pub(crate) variable: String,
    pub(crate) source: Expr,
    pub(crate) left: Expr,
    pub(crate) right: Expr,
    pub(crate) into: Option<String>,
}

/// How a query ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueryEnd {
    Select { value: Expr, into: Option<(String, Box<QueryRest>)> },
    Group { element: Expr, key: Expr, span: Span, into: Option<(String, Box<QueryRest>)> },
}

/// What follows `into x`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryRest {
    pub(crate) clauses: Vec<Clause>,
    pub(crate) end: QueryEnd,
}

impl ExprKind {
    /// Calls `visit` with every direct child.
    pub(crate) fn each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match self {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Integer(_)
            | ExprKind::Unsigned(_)
            | ExprKind::Double(_)
            | ExprKind::Decimal(_)
            | ExprKind::Char(_)
            | ExprKind::String(_)
            | ExprKind::Name { .. }
            | ExprKind::Receiver
            | ExprKind::TypeOf(_)
            | ExprKind::Default(_) => {}
            ExprKind::Interpolated(pieces) => pieces.iter().for_each(|piece| match piece {
                Piece::Hole { value, .. } => visit(value),
                Piece::Text(_) => {}
            }),
            ExprKind::Member { target: child, .. }
            | ExprKind::Unary { operand: child, .. }
            | ExprKind::Cast { operand: child, .. }
            | ExprKind::As { operand: child, .. }
            | ExprKind::Is { operand: child, .. }
            | ExprKind::Lambda { body: child, .. } => visit(child),
            ExprKind::Index { target, arguments } | ExprKind::Call { target, arguments } => {
                visit(target);
                arguments.iter().for_each(visit);
            }
            ExprKind::Conditionally { target: left, rest: right }
            | ExprKind::Binary { left, right, .. } => {
                visit(left);
                visit(right);
            }
            ExprKind::Choice { condition, when_true, when_false } => {
                visit(condition);
                visit(when_true);
                visit(when_false);
            }
            ExprKind::Anonymous(members) => members.iter().for_each(|member| visit(&member.value)),
            ExprKind::New { arguments, initializer, .. } => {
                arguments.iter().for_each(&mut *visit);
                if let Some(initializer) = initializer {
                    initializer.each_child(visit);
                }
            }
            ExprKind::NewArray { length, items, .. } => {
                length.iter().for_each(|length| visit(length));
                items.iter().for_each(visit);
            }
            ExprKind::Tuple(items) => items.iter().for_each(visit),
            ExprKind::Query(query) => query.each_child(visit),
        }
    }
}

impl Initializer {
    fn each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match self {
            Initializer::Properties(members) => members.iter().for_each(|m| visit(&m.value)),
            Initializer::Items(items) => items.iter().for_each(visit),
            Initializer::Pairs(pairs) => pairs.iter().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
        }
    }
}

impl Query {
    fn each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(&self.source);
        each_in_rest(&self.clauses, &self.end, visit);
    }
}

fn each_in_rest<'e>(clauses: &'e [Clause], end: &'e QueryEnd, visit: &mut dyn FnMut(&'e Expr)) {
    for clause in clauses {
        match clause {
            Clause::From { source: child, .. }
            | Clause::Let { value: child, .. }
            | Clause::Where(child) => visit(child),
            Clause::OrderBy { keys, .. } => keys.iter().for_each(|(key, _)| visit(key)),
            Clause::Join(join) => {
                visit(&join.source);
                visit(&join.left);
                visit(&join.right);
            }
        }
    }
    let into = match end {
        QueryEnd::Select { value, into } => {
            visit(value);
            into
        }
        QueryEnd::Group { element, key, into, .. } => {
            visit(element);
            visit(key);
            into
        }
    };
    if let Some((_, rest)) = into {
        each_in_rest(&rest.clauses, &rest.end, visit);
    }
}
