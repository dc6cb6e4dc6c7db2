//! Expressions.

use crate::compile::constant::{default_of, net_name};
use crate::compile::names::{NetType, Property};
use crate::compile::plan::{Argument, CastType, Constant, Known, Lambda, Node, Op, Piece};
use crate::compile::scope::Binding;
use crate::compile::{Compiled, Compiler};
use crate::definition_error::DefinitionErrorKind;
use crate::syntax::ast::{self, BinaryOperator, Expr, ExprKind, Pattern, TypeName, UnaryOperator};
use crate::syntax::span::Span;

impl Compiler<'_> {
    /// Compiles an expression that yields a value.
    pub(crate) fn node(&mut self, expr: &Expr) -> Compiled<Node> {
        let span = expr.span;
        if let Some(constant) = self.literal(expr)? {
            return Ok(self.constant(constant, span));
        }
        if let Some(binding) = self.binding_of(expr) {
            return Ok(self.read(&binding, span));
        }
        match &expr.kind {
            ExprKind::Interpolated(pieces) => self.interpolated(pieces, span),
            ExprKind::Name { name, .. } => Err(self.unknown_name(name, span)),
            ExprKind::Member { target, name, .. } => self.member(target, name, span),
            ExprKind::Index { target, arguments } => self.index(target, arguments, span),
            ExprKind::Call { target, arguments } => self.call(target, arguments, span),
            ExprKind::Conditionally { target, rest } => self.conditionally(target, rest, span),
            ExprKind::Receiver => Ok(self.receiver(span)),
            ExprKind::Unary { operator, operand } => self.unary(*operator, operand, span),
            ExprKind::Binary { operator, left, right } => self.binary(*operator, left, right, span),
            ExprKind::Choice { condition, when_true, when_false } => {
                let operands =
                    [self.node(condition)?, self.node(when_true)?, self.node(when_false)?];
                let known = common(operands[1].known, operands[2].known);
                Ok(Node { op: Op::Choice(Box::new(operands)), span, known })
            }
            ExprKind::Cast { to, operand } => self.cast(to, operand, span),
            ExprKind::As { operand, to } => {
                let (to, operand) = (self.cast_type(to)?, Box::new(self.node(operand)?));
                Ok(Node { op: Op::As { to, operand }, span, known: Known::Nullable })
            }
            ExprKind::Is { operand, what, negated } => self.is(operand, what, *negated, span),
            ExprKind::Anonymous(members) => self.anonymous(members, span),
            ExprKind::New { what, arguments, initializer } => {
                self.new_object(what, arguments, initializer.as_ref(), span)
            }
            ExprKind::NewArray { element, length, items } => {
                self.new_array(element.as_ref(), length.as_deref(), items, span)
            }
            ExprKind::Tuple(items) => self.tuple(items, span),
            ExprKind::Query(query) => self.nested_query(query, span),
            ExprKind::TypeOf(_) => Err(self.not_supported("a type as a value", span)),
            ExprKind::Lambda { .. } => {
                Err(self.not_supported("a lambda that is not an argument", span))
            }
            _ => Err(self.not_supported("this expression", span)),
        }
    }

    pub(super) fn constant(&self, constant: Constant, span: Span) -> Node {
        let known = constant.known();
        Node { op: Op::Constant(constant), span, known }
    }

    fn literal(&self, expr: &Expr) -> Compiled<Option<Constant>> {
        Ok(Some(match &expr.kind {
            ExprKind::Null => Constant::Null,
            ExprKind::Bool(value) => Constant::Bool(*value),
            ExprKind::Integer(value) => Constant::Integer(*value),
            ExprKind::Unsigned(value) => Constant::Decimal((*value).into()),
            ExprKind::Double(value) => Constant::Double(*value),
            ExprKind::Decimal(digits) => match dotnet::number::decimal_of_digits(digits) {
                Some(value) => Constant::Decimal(value),
                None => {
                    let message = "a decimal has at most 28 digits";
                    return Err(self.error(DefinitionErrorKind::Syntax, message, expr.span));
                }
            },
            ExprKind::Char(value) => Constant::Char(*value),
            ExprKind::String(value) => Constant::Text(value.as_str().into()),
            ExprKind::Default(Some(name)) => match name.nullable || name.is_array {
                true => Constant::Null,
                false => default_of(self.net_type(name)?),
            },
            ExprKind::Default(None) => Constant::Null,
            _ => return Ok(None),
        }))
    }

    /// What a name, or a member of one, is bound to.
    pub(super) fn binding_of(&self, expr: &Expr) -> Option<Binding> {
        match &expr.kind {
            ExprKind::Name { name, type_arguments } if type_arguments.is_empty() => {
                self.scope.find(name).cloned()
            }
            ExprKind::Member { target, name, .. } => self.binding_of(target)?.member(name).cloned(),
            _ => None,
        }
    }

    pub(super) fn unknown_name(&self, name: &str, span: Span) -> crate::DefinitionError {
        if matches!(name, "docs" | "results" | "timeSeries" | "counters") {
            return self.not_supported(format!("'{name}' anywhere but at the start"), span);
        }
        let lower = name.to_lowercase();
        let near = self.scope.names().find(|own| own.to_lowercase() == lower);
        let message = match near {
            Some(near) => format!("the name '{name}' means nothing here; did you mean '{near}'?"),
            None => format!("the name '{name}' means nothing here"),
        };
        self.error(DefinitionErrorKind::UnknownName, message, span)
    }

    fn interpolated(&mut self, pieces: &[ast::Piece], span: Span) -> Compiled<Node> {
        let mut compiled = Vec::with_capacity(pieces.len());
        for piece in pieces {
            compiled.push(match piece {
                ast::Piece::Text(text) => Piece::Text(text.as_str().into()),
                ast::Piece::Hole { value, alignment, format } => Piece::Hole {
                    value: self.node(value)?,
                    alignment: *alignment,
                    format: format.as_deref().map(Into::into),
                },
            });
        }
        Ok(Node { op: Op::Interpolated(compiled.into()), span, known: Known::Text })
    }

    fn member(&mut self, target: &Expr, name: &str, span: Span) -> Compiled<Node> {
        if let ExprKind::TypeOf(type_name) = &target.kind {
            let constant = match name {
                "Name" => Constant::Text(net_name(type_name.short()).into()),
                _ => return Err(self.not_supported("a type as a value", span)),
            };
            return Ok(self.constant(constant, span));
        }
        if let Some(class) = self.class_of(target) {
            return self.static_member(&class, name, span);
        }
        if let Some(Binding::Slot { known: Known::Other, .. }) = self.binding_of(target) {
            self.refuse_count(target, name, span)?;
        }
        if let Some(Binding::Members(_)) = self.binding_of(target) {
            let message = format!("the object has no property '{name}'");
            return Err(self.error(DefinitionErrorKind::UnknownName, message, span));
        }
        let target = Box::new(self.node(target)?);
        if target.known == Known::Nullable {
            match name {
                "Value" => return Ok(*target),
                "HasValue" => return Ok(self.has_value(*target, span)),
                _ => {}
            }
        }
        let property = Property::from_word(name);
        let known = match (target.known, property) {
            (Known::Dynamic | Known::Nullable | Known::Other, _) => Known::Dynamic,
            (Known::Text, Some(Property::Length)) => Known::Integer,
            (known, _) => {
                let message = format!("a {} has no property '{name}'", type_word(known));
                return Err(self.error(DefinitionErrorKind::UnknownMethod, message, span));
            }
        };
        Ok(Node { op: Op::Property { target, name: name.into(), property }, span, known })
    }

    fn has_value(&self, target: Node, span: Span) -> Node {
        let null = self.constant(Constant::Null, span);
        let operands = Box::new([target, null]);
        let op = Op::Binary { operator: BinaryOperator::NotEqual, operands };
        Node { op, span, known: Known::Bool }
    }

    fn index(&mut self, target: &Expr, arguments: &[Expr], span: Span) -> Compiled<Node> {
        let [argument] = arguments else {
            return Err(self.not_supported("an index of several values", span));
        };
        let (target, index) = (Box::new(self.node(target)?), Box::new(self.node(argument)?));
        let known = if target.known == Known::Text { Known::Char } else { Known::Dynamic };
        Ok(Node { op: Op::Index { target, index }, span, known })
    }

    fn conditionally(&mut self, target: &Expr, rest: &Expr, span: Span) -> Compiled<Node> {
        let target = Box::new(self.node(target)?);
        let slot = self.new_slot(span)?;
        self.receivers.push((slot, target.known));
        let rest = self.node(rest);
        self.receivers.pop();
        let rest = Box::new(rest?);
        let known = rest.known;
        Ok(Node { op: Op::Conditionally { target, slot, rest }, span, known })
    }

    fn receiver(&self, span: Span) -> Node {
        // The parser puts a receiver only into the rest of a conditional access.
        let (slot, known) = self.receivers.last().copied().unwrap_or((0, Known::Dynamic));
        Node { op: Op::Slot(slot), span, known }
    }

    fn unary(&mut self, operator: UnaryOperator, operand: &Expr, span: Span) -> Compiled<Node> {
        let operand = Box::new(self.node(operand)?);
        let known = operand.known;
        if operator == UnaryOperator::Negate
            && let Op::Constant(Constant::Integer(value)) = operand.op
        {
            return Ok(self.constant(Constant::Integer(value.wrapping_neg()), span));
        }
        Ok(Node { op: Op::Unary { operator, operand }, span, known })
    }

    fn binary(
        &mut self,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Compiled<Node> {
        let operands = Box::new([self.node(left)?, self.node(right)?]);
        let (left, right) = (operands[0].known, operands[1].known);
        self.check_operands(operator, left, right, span)?;
        let known = binary_known(operator, left, right);
        let op = match operator {
            BinaryOperator::And => Op::And(operands),
            BinaryOperator::Or => Op::Or(operands),
            BinaryOperator::Coalesce => Op::Coalesce(operands),
            operator => Op::Binary { operator, operands },
        };
        Ok(Node { op, span, known })
    }

    /// Refuses what can never work, whatever the document.
    fn check_operands(
        &self,
        operator: BinaryOperator,
        left: Known,
        right: Known,
        span: Span,
    ) -> Compiled<()> {
        let mixed = matches!(
            (left, right),
            (Known::Double, Known::Decimal) | (Known::Decimal, Known::Double)
        );
        if mixed && operator != BinaryOperator::Coalesce {
            let message = "a double and a decimal cannot be combined: cast one of them";
            return Err(self.error(DefinitionErrorKind::NotSupported, message, span));
        }
        Ok(())
    }

    fn cast(&mut self, to: &TypeName, operand: &Expr, span: Span) -> Compiled<Node> {
        if let ExprKind::Lambda { .. } = operand.kind {
            return Err(self.not_supported("a lambda that is not an argument", span));
        }
        let to = self.cast_type(to)?;
        let operand = Box::new(self.node(operand)?);
        let known = match to {
            CastType { nullable: true, .. } => Known::Nullable,
            CastType { to, .. } => known_of(to),
        };
        if operand.known == Known::Text
            && !matches!(
                to.to,
                NetType::String | NetType::Object | NetType::Dynamic | NetType::Sequence
            )
        {
            let message = "a text that C# knows as such cannot be cast: use Parse";
            return Err(self.error(DefinitionErrorKind::NotSupported, message, span));
        }
        Ok(Node { op: Op::Cast { to, operand }, span, known })
    }

    fn is(&mut self, operand: &Expr, what: &Pattern, negated: bool, span: Span) -> Compiled<Node> {
        let to = match what {
            Pattern::Null => None,
            Pattern::Type(name) => Some(self.cast_type(name)?),
        };
        let operand = Box::new(self.node(operand)?);
        Ok(Node { op: Op::Is { to, negated, operand }, span, known: Known::Bool })
    }

    pub(super) fn net_type(&self, name: &TypeName) -> Compiled<NetType> {
        if name.is_array {
            return Ok(NetType::Sequence);
        }
        NetType::from_name(name.short()).ok_or_else(|| {
            let message = format!("the type '{}' is not known in an index", name.name);
            self.error(DefinitionErrorKind::UnknownType, message, name.span)
        })
    }

    pub(super) fn cast_type(&self, name: &TypeName) -> Compiled<CastType> {
        if name.short() == "Nullable" && name.arguments.len() == 1 {
            return Ok(CastType { to: self.net_type(&name.arguments[0])?, nullable: true });
        }
        Ok(CastType { to: self.net_type(name)?, nullable: name.nullable })
    }

    /// The arguments of a call, lambdas among them.
    pub(super) fn arguments(&mut self, arguments: &[Expr]) -> Compiled<Box<[Argument]>> {
        arguments.iter().map(|argument| self.argument(argument)).collect()
    }

    fn argument(&mut self, argument: &Expr) -> Compiled<Argument> {
        if let Some((parameters, body)) = as_lambda(argument) {
            return self.lambda(parameters, body).map(Argument::Lambda);
        }
        if let Some(option) = self.static_option(argument)? {
            return Ok(Argument::Option(option));
        }
        self.node(argument).map(Argument::Value)
    }

    pub(super) fn lambda(&mut self, parameters: &[String], body: &Expr) -> Compiled<Lambda> {
        let mark = self.scope.enter();
        let mut slots = Vec::with_capacity(parameters.len());
        for name in parameters {
            let slot = self.new_slot(body.span)?;
            slots.push(slot);
            self.scope.declare(name, Binding::Slot { slot, known: Known::Dynamic });
        }
        self.nesting += 1;
        let body = self.node(body);
        self.nesting -= 1;
        self.scope.leave(mark);
        Ok(Lambda { parameters: slots.into(), body: body? })
    }
}

/// The parameters and the body, when this is a lambda, possibly cast to a delegate.
pub(super) fn as_lambda(expr: &Expr) -> Option<(&[String], &Expr)> {
    match &expr.kind {
        ExprKind::Lambda { parameters, body } => Some((parameters, body)),
        ExprKind::Cast { to, operand } if matches!(to.short(), "Func" | "Expression") => {
            as_lambda(operand)
        }
        _ => None,
    }
}

fn known_of(to: NetType) -> Known {
    match to {
        NetType::Dynamic => Known::Dynamic,
        NetType::Bool => Known::Bool,
        NetType::Char => Known::Char,
        NetType::Integer { .. } => Known::Integer,
        NetType::Float | NetType::Double => Known::Double,
        NetType::Decimal => Known::Decimal,
        NetType::String => Known::Text,
        NetType::Object
        | NetType::DateTime
        | NetType::DateTimeOffset
        | NetType::TimeSpan
        | NetType::Guid
        | NetType::DayOfWeek
        | NetType::Sequence
        | NetType::Dictionary
        | NetType::DocumentObject => Known::Other,
    }
}

fn common(left: Known, right: Known) -> Known {
    match (left, right) {
        _ if left == right => left,
        (Known::Dynamic, _) | (_, Known::Dynamic) => Known::Dynamic,
        (Known::Nullable, _) | (_, Known::Nullable) => Known::Nullable,
        (Known::Decimal, Known::Integer) | (Known::Integer, Known::Decimal) => Known::Decimal,
        (Known::Double, Known::Integer) | (Known::Integer, Known::Double) => Known::Double,
        _ => Known::Other,
    }
}

fn binary_known(operator: BinaryOperator, left: Known, right: Known) -> Known {
    use BinaryOperator as B;
    match operator {
        _ if left == Known::Dynamic || right == Known::Dynamic => Known::Dynamic,
        B::And | B::Or | B::Equal | B::NotEqual => Known::Bool,
        B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual => Known::Bool,
        B::Add if left == Known::Text || right == Known::Text => Known::Text,
        B::Coalesce if left == Known::Nullable => right,
        B::Add | B::Subtract | B::Multiply | B::Divide | B::Remainder
            if left == Known::Char && right == Known::Char =>
        {
            Known::Integer
        }
        _ => common(left, right),
    }
}

pub(super) fn type_word(known: Known) -> &'static str {
    match known {
        Known::Dynamic | Known::Nullable | Known::Other => "value",
        Known::Bool => "bool",
        Known::Integer => "number",
        Known::Double => "double",
        Known::Decimal => "decimal",
        Known::Text => "string",
        Known::Char => "char",
    }
}
