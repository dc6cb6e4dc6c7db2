//! Evaluates plans.
//!
//! Sequences are evaluated when they are created, not when they are read, so that no lambda
//! outlives its variables. Invariant: every evaluated node takes a step of the budget, and
//! recursion follows the plan, whose depth is bounded.

mod aggregate;
pub(crate) mod compare;
mod convert;
pub(crate) mod display;
mod elements;
pub(crate) mod evaluate;
pub(crate) mod fault;
mod functions;
mod methods;
mod operators;
mod pipeline;
mod property;
mod sets;
mod sorting;

use std::rc::Rc;

use fancy_regex::Regex;

use crate::compile::plan::{Argument, CastType, Constant, Known, Lambda, Node, Op, Piece, Slot};
use crate::document::Host;
use crate::limits::{Budget, VALUE_DEPTH_MAX};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::syntax::ast::BinaryOperator;
use crate::value::{ListKind, Names, Text, Value, live};

pub(crate) type Evaluated<'a> = Result<Value<'a>, Fault>;

/// The state of one evaluation.
pub(crate) struct Machine<'a, 'h> {
    host: &'h mut dyn Host<'a>,
    slots: Vec<Value<'a>>,
    steps_left: u64,
    budget: Budget,
    regexes: Vec<(Rc<str>, Rc<Regex>)>,
}

impl<'a, 'h> Machine<'a, 'h> {
    pub(crate) fn new(slots: usize, host: &'h mut dyn Host<'a>, budget: &Budget) -> Self {
        live::begin();
        Machine {
            host,
            slots: vec![Value::Missing; slots],
            steps_left: budget.steps_max,
            budget: *budget,
            regexes: Vec::new(),
        }
    }

    pub(crate) fn set(&mut self, slot: Slot, value: Value<'a>) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = value;
        }
    }

    #[inline]
    fn slot(&self, slot: Slot) -> &Value<'a> {
        // Slots are numbered by the compiler, which also counts them.
        self.slots.get(slot as usize).unwrap_or(&Value::Missing)
    }

    #[inline]
    fn step(&mut self) -> Result<(), Fault> {
        if self.budget.memory_bytes_max < live::live_bytes() {
            return Err(over_budget("memory"));
        }
        match self.steps_left.checked_sub(1) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => Err(over_budget("steps")),
        }
    }

    /// The value of a node.
    #[inline]
    pub(crate) fn eval(&mut self, node: &'a Node) -> Evaluated<'a> {
        let result = match self.step() {
            Ok(()) => self.eval_op(node),
            Err(fault) => Err(fault),
        };
        match result {
            Ok(value) if value.depth() <= VALUE_DEPTH_MAX => Ok(value),
            Ok(_) => Err(over_budget("nesting of values").at(node.span)),
            Err(fault) => Err(fault.at(node.span)),
        }
    }

    fn eval_op(&mut self, node: &'a Node) -> Evaluated<'a> {
        match &node.op {
            Op::Constant(constant) => Ok(constant_value(constant)),
            Op::Slot(slot) => Ok(self.slot(*slot).clone()),
            Op::Property { target, name, property } => match &target.op {
                Op::Slot(slot) => property::of(self.slot(*slot), name, *property),
                _ => property::of(&self.eval(target)?, name, *property),
            },
            Op::Index { target, index } => self.eval_index(target, index),
            Op::Method(call) => self.eval_method(call),
            Op::Function(call) => self.eval_function(call),
            Op::Unary { operator, operand } => operators::unary(*operator, self.eval(operand)?),
            Op::Binary { operator, operands } => self.eval_binary(*operator, operands),
            Op::And(operands) => self.eval_and(operands),
            Op::Or(operands) => self.eval_or(operands),
            Op::Coalesce(operands) => match self.eval(&operands[0])? {
                value if value.is_null() => self.eval(&operands[1]),
                value => Ok(value),
            },
            Op::Choice(operands) => {
                let index = if self.eval_condition(&operands[0])? { 1 } else { 2 };
                self.eval(&operands[index])
            }
            Op::Cast { to, operand } => convert::cast(self.eval(operand)?, *to),
            Op::As { to, operand } => {
                let value = self.eval(operand)?;
                Ok(if convert::is_of(&value, *to) { value } else { Value::Null })
            }
            Op::Is { to, negated, operand } => self.eval_is(*to, *negated, operand),
            Op::Conditionally { target, slot, rest } => {
                let value = self.eval(target)?;
                if value.is_null() {
                    return Ok(value);
                }
                self.set(*slot, value);
                self.eval(rest)
            }
            Op::Interpolated(pieces) => self.eval_interpolated(pieces),
            Op::Record { names, values } => {
                let values = self.eval_all(values)?;
                let names = Names::Definition(names);
                Ok(Value::record(names, values))
            }
            Op::Tuple(items) => {
                let values = self.eval_all(items)?;
                Ok(Value::record(Names::Tuple, values))
            }
            Op::Dictionary(pairs) => self.eval_dictionary(pairs),
            Op::List { items, plain, distinct } => {
                let items = self.eval_all(items)?;
                let items = if *distinct { sets::distinct(items) } else { items };
                let kind = if *plain { ListKind::Plain } else { ListKind::Objects };
                Ok(Value::list_of(kind, items))
            }
            Op::Sequence(pipeline) => self.eval_sequence(pipeline),
        }
    }

    fn eval_all(&mut self, nodes: &'a [Node]) -> Result<Vec<Value<'a>>, Fault> {
        let mut values = Vec::with_capacity(nodes.len());
        for node in nodes {
            values.push(self.eval(node)?);
        }
        Ok(values)
    }

    #[inline(never)]
    fn eval_index(&mut self, target: &'a Node, index: &'a Node) -> Evaluated<'a> {
        let target = self.eval(target)?;
        let index = self.eval(index)?;
        property::at_index(&target, &index)
    }

    #[inline(never)]
    fn eval_binary(&mut self, operator: BinaryOperator, operands: &'a [Node; 2]) -> Evaluated<'a> {
        let left = self.eval(&operands[0])?;
        let right = self.eval(&operands[1])?;
        let is_text = |node: &Node| node.known == Known::Text;
        if operator == BinaryOperator::Add && (is_text(&operands[0]) || is_text(&operands[1])) {
            return self.concat(&left, &right);
        }
        // `null == x` is the same as `x == null`; a typed null is an operand like any other.
        let is_equality = matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual);
        if is_equality && matches!(operands[0].op, Op::Constant(Constant::Null)) {
            return operators::binary(operator, right, left);
        }
        let result = operators::binary(operator, left, right)?;
        if let Value::Text(text) = &result {
            self.check_text(text.len())?;
        }
        Ok(result)
    }

    fn concat(&mut self, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
        let text = operators::concat(left, right)?;
        self.check_text(text.len())?;
        Ok(Value::text(text))
    }

    /// A document's null is itself the result, whatever the right operand.
    #[inline(never)]
    fn eval_and(&mut self, operands: &'a [Node; 2]) -> Evaluated<'a> {
        match self.eval(&operands[0])? {
            Value::Bool(true) => self.eval_bool_operand(&operands[1], "&&"),
            value @ (Value::Bool(false) | Value::Missing | Value::ExplicitNull) => Ok(value),
            other => Err(operators::not_bool(&other)),
        }
    }

    #[inline(never)]
    fn eval_or(&mut self, operands: &'a [Node; 2]) -> Evaluated<'a> {
        match self.eval(&operands[0])? {
            Value::Bool(false) => self.eval_bool_operand(&operands[1], "||"),
            value @ (Value::Bool(true) | Value::Missing | Value::ExplicitNull) => Ok(value),
            other => Err(operators::not_bool(&other)),
        }
    }

    fn eval_bool_operand(&mut self, node: &'a Node, operator: &str) -> Evaluated<'a> {
        let value = self.eval(node)?;
        match value {
            Value::Bool(_) => Ok(value),
            other => {
                let name = other.type_name();
                let message = format!("'{operator}' cannot be applied to bool and {name}");
                Err(Fault::new(EvaluationErrorKind::InvalidOperand, message))
            }
        }
    }

    /// A condition, where null of a document means no.
    pub(crate) fn eval_condition(&mut self, node: &'a Node) -> Result<bool, Fault> {
        let value = self.eval(node)?;
        operators::truth(&value).map_err(|fault| fault.at(node.span))
    }

    fn eval_is(&mut self, to: Option<CastType>, negated: bool, operand: &'a Node) -> Evaluated<'a> {
        let value = self.eval(operand)?;
        let is = match to {
            Some(to) => convert::is_of(&value, to),
            None => matches!(value, Value::Null),
        };
        Ok(Value::Bool(is != negated))
    }

    #[inline(never)]
    fn eval_interpolated(&mut self, pieces: &'a [Piece]) -> Evaluated<'a> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Hole { value, alignment, format } => {
                    let value = self.eval(value)?;
                    let shown = match format {
                        Some(format) => display::format(&value, format, false)?,
                        None => display::display(&value)?,
                    };
                    display::push_aligned(&shown, *alignment, &mut text);
                }
            }
        }
        self.check_text(text.len())?;
        Ok(Value::text(text))
    }

    #[inline(never)]
    fn eval_dictionary(&mut self, pairs: &'a [(Node, Node)]) -> Evaluated<'a> {
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            entries.push((self.eval(key)?, self.eval(value)?));
        }
        sets::dictionary(entries)
    }

    /// The value of a lambda for the values of its parameters; those left over are not set.
    pub(crate) fn call<const COUNT: usize>(
        &mut self,
        lambda: &'a Lambda,
        values: [Value<'a>; COUNT],
    ) -> Evaluated<'a> {
        for (slot, value) in lambda.parameters.iter().zip(values) {
            self.set(*slot, value);
        }
        self.eval(&lambda.body)
    }

    /// Whether a lambda returns true.
    pub(crate) fn test(&mut self, lambda: &'a Lambda, value: Value<'a>) -> Result<bool, Fault> {
        let answer = self.call(lambda, [value])?;
        operators::truth(&answer).map_err(|fault| fault.at(lambda.body.span))
    }

    /// Charges the steps of a text of that size.
    pub(crate) fn check_text(&mut self, bytes: usize) -> Result<(), Fault> {
        self.steps_left = self.steps_left.saturating_sub(bytes as u64 / 64);
        if bytes <= self.budget.string_bytes_max { Ok(()) } else { Err(over_budget("bytes")) }
    }

    /// Charges the steps of a sequence of that length.
    pub(crate) fn check_length(&mut self, elements: usize) -> Result<(), Fault> {
        self.steps_left = self.steps_left.saturating_sub(elements as u64 / 8);
        match elements <= self.budget.sequence_length_max {
            true => Ok(()),
            false => Err(over_budget("elements")),
        }
    }

    pub(crate) fn list(&mut self, items: Vec<Value<'a>>) -> Evaluated<'a> {
        self.check_length(items.len())?;
        Ok(Value::list(items))
    }

    /// The value of an argument that must be a value.
    pub(crate) fn argument(&mut self, arguments: &'a [Argument], index: usize) -> Evaluated<'a> {
        match arguments.get(index) {
            Some(Argument::Value(node)) => self.eval(node),
            Some(Argument::Lambda(_) | Argument::Option(_)) | None => Err(wrong_arguments()),
        }
    }
}

#[cold]
pub(crate) fn over_budget(what: &str) -> Fault {
    let message = format!("the evaluation takes more {what} than allowed");
    Fault::new(EvaluationErrorKind::BudgetExceeded, message)
}

#[cold]
pub(crate) fn wrong_arguments() -> Fault {
    let message = "the method cannot be called with these arguments";
    Fault::new(EvaluationErrorKind::InvalidArgument, message)
}

fn constant_value(constant: &Constant) -> Value<'_> {
    match constant {
        Constant::Null => Value::Null,
        Constant::Bool(value) => Value::Bool(*value),
        Constant::Integer(value) => Value::Integer(*value),
        Constant::Double(value) => Value::Double(*value),
        Constant::Decimal(value) => Value::Decimal(*value),
        Constant::Char(value) => Value::Char(*value),
        Constant::Text(text) => Value::Text(Text::constant(text)),
        Constant::Date(date) => Value::Date(*date),
        Constant::Span(ticks) => Value::Span(*ticks),
        Constant::DayOfWeek(day) => Value::DayOfWeek(*day),
    }
}

#[cold]
pub(crate) fn overflow_index() -> Fault {
    let message = "the index is out of range";
    Fault::new(EvaluationErrorKind::ArgumentOutOfRange, message)
}
