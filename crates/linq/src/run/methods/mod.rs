//! Methods of values, by the type that the value has now.

mod attachment;
mod moment;
mod object;
mod sequence;
pub(crate) mod text;

pub(crate) use sequence::empty_sequence;

use std::rc::Rc;

use dotnet::number::{double_of_decimal, double_of_digits};

use crate::compile::names::Method;
use crate::compile::plan::{Argument, Known, Lambda, MethodCall, Node, Op, Style};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::property::no_such;
use crate::run::{Evaluated, Machine, compare, display, wrong_arguments};
use crate::value::{ListKind, Names, Text, Value};

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn eval_method(&mut self, call: &'a MethodCall) -> Evaluated<'a> {
        let target = self.eval(&call.target)?;
        let Some(method) = call.method else { return self.unknown_method(call, target) };
        if call.style != Style::Instance {
            return self.sequence_method(call, method, target);
        }
        if method == Method::Boost {
            return self.boosted(call, target);
        }
        match &target {
            Value::Missing | Value::ExplicitNull => self.null_method(call, method),
            Value::Null => {
                let message = format!("'{}' is called on null", call.name);
                Err(Fault::new(EvaluationErrorKind::NullReference, message))
            }
            Value::Text(text) => {
                let text = text.clone();
                self.text_method(call, method, text)
            }
            Value::Date(_) | Value::OffsetDate(_) => self.moment_method(call, method, target),
            Value::Span(ticks) => {
                let ticks = *ticks;
                self.span_method(call, method, ticks)
            }
            Value::List(list) if list.kind == ListKind::Plain && is_bound_late(&call.target) => {
                Err(no_such(&target, &call.name))
            }
            Value::Array(_) | Value::List(_) | Value::Group(_) => {
                self.sequence_method(call, method, target)
            }
            Value::Object(_) | Value::Document(_) | Value::Metadata(_) => {
                self.object_method(call, method, target)
            }
            Value::Record(record) if matches!(record.names, Names::Attachment) => {
                let record = Rc::clone(record);
                self.attachment_method(call, method, &record)
            }
            Value::Record(_) => self.scalar_method(call, method, target),
            Value::Dictionary(_) => self.dictionary_method(call, method, target),
            _ => self.scalar_method(call, method, target),
        }
    }

    /// A method that no type has: an object of a document answers anything with nothing.
    fn unknown_method(&mut self, call: &'a MethodCall, target: Value<'a>) -> Evaluated<'a> {
        match &target {
            Value::Missing | Value::ExplicitNull => Ok(Value::Missing),
            Value::Object(_) | Value::Document(_) | Value::Metadata(_) => Ok(Value::Missing),
            other => Err(no_such(other, &call.name)),
        }
    }

    fn boosted(&mut self, call: &'a MethodCall, value: Value<'a>) -> Evaluated<'a> {
        let factor = self.argument(&call.arguments, 0)?;
        let factor = as_factor(&factor).ok_or_else(wrong_arguments)?;
        Ok(Value::boosted(value, factor))
    }

    /// The factor of an output.
    pub(super) fn eval_factor(&mut self, node: &'a Node) -> Result<f64, Fault> {
        let value = self.eval(node)?;
        as_factor(&value).ok_or_else(|| wrong_arguments().at(node.span))
    }

    /// The result of a method on a document's null. Few methods support it; all others yield a
    /// missing value.
    fn null_method(&mut self, call: &'a MethodCall, method: Method) -> Evaluated<'a> {
        Ok(match method {
            Method::ToString if call.arguments.is_empty() => Value::Text(Text::constant("")),
            Method::Equals => Value::Bool(self.argument(&call.arguments, 0)?.is_null()),
            Method::CompareTo => {
                let other = self.argument(&call.arguments, 0)?;
                Value::Integer(if other.is_null() { 0 } else { -1 })
            }
            Method::GetHashCode | Method::Count | Method::LongCount => Value::Integer(0),
            // Only the null of a property is treated as an empty sequence.
            Method::Select | Method::SelectMany => match call.target.op {
                Op::Method(_) | Op::Function(_) => Value::Missing,
                _ => Value::list(Vec::new()),
            },
            Method::DefaultIfEmpty => Value::list(vec![Value::Missing]),
            _ => Value::Missing,
        })
    }

    /// The methods that everything has.
    pub(super) fn scalar_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        match method {
            Method::ToString => self.shown(call, &target),
            Method::Equals => {
                let other = self.argument(&call.arguments, 0)?;
                let same = compare::same(&target, &other, compare::Strictness::Characters);
                Ok(Value::Bool(same))
            }
            Method::CompareTo => {
                let other = self.argument(&call.arguments, 0)?;
                let ordering = match compare::numbers(&target, &other).flatten() {
                    Some(ordering) => ordering,
                    None => compare::order(&target, &other)?,
                };
                Ok(Value::Integer(ordering as i64))
            }
            Method::GetHashCode => Ok(Value::Integer(i64::from(compare::hash(&target) as i32))),
            _ => Err(no_such(&target, &call.name)),
        }
    }

    /// `ToString()` and `ToString(format)`; a culture makes no difference.
    pub(super) fn shown(&mut self, call: &'a MethodCall, target: &Value<'a>) -> Evaluated<'a> {
        let text = match call.arguments.first() {
            Some(Argument::Value(node)) => {
                let format = self.eval(node)?;
                let format = as_text(&format).ok_or_else(wrong_arguments)?;
                display::format(target, format, true)?.into_owned()
            }
            Some(Argument::Option(_)) | None => display::display(target)?.into_owned(),
            Some(Argument::Lambda(_)) => return Err(wrong_arguments()),
        };
        self.check_text(text.len())?;
        Ok(Value::text(text))
    }

    /// The text of an argument that is a string or a character.
    pub(super) fn text_argument(
        &mut self,
        arguments: &'a [Argument],
        index: usize,
    ) -> Result<Text<'a>, Fault> {
        match self.argument(arguments, index)? {
            Value::Text(text) => Ok(text),
            Value::Char(character) => Ok(Text::shared(character.to_string().into())),
            null if null.is_null() => {
                let message = "null is passed where a text is required";
                Err(Fault::new(EvaluationErrorKind::ArgumentNull, message))
            }
            _ => Err(wrong_arguments()),
        }
    }

    /// An argument that is an integer of an int's range.
    pub(super) fn integer_argument(
        &mut self,
        arguments: &'a [Argument],
        index: usize,
    ) -> Result<i64, Fault> {
        match self.argument(arguments, index)? {
            Value::Integer(value) => Ok(value),
            Value::Number(digits) => crate::run::operators::integer(digits),
            null if null.is_dynamic_null() => Ok(0),
            _ => Err(wrong_arguments()),
        }
    }

    pub(super) fn double_argument(
        &mut self,
        arguments: &'a [Argument],
        index: usize,
    ) -> Result<f64, Fault> {
        let value = self.argument(arguments, index)?;
        match as_double(&value) {
            Some(value) => Ok(value),
            None if value.is_dynamic_null() => Ok(f64::NAN),
            None => Err(wrong_arguments()),
        }
    }
}

/// Whether C# only learns at run time what type this is, and so finds no extension methods.
fn is_bound_late(target: &Node) -> bool {
    target.known == Known::Dynamic
}

pub(crate) fn as_text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The double nearest to a number of any kind.
pub(crate) fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        Value::Number(digits) => Some(double_of_digits(digits)),
        Value::Decimal(value) => Some(double_of_decimal(value)),
        _ => None,
    }
}

/// The factor of a boost: a number, or the text of one.
fn as_factor(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Text(text) => text.as_str().trim().parse().ok(),
        value => as_double(value),
    }
}

/// The lambda at `index`.
pub(crate) fn lambda(arguments: &[Argument], index: usize) -> Option<&Lambda> {
    match arguments.get(index) {
        Some(Argument::Lambda(lambda)) => Some(lambda),
        Some(Argument::Value(_) | Argument::Option(_)) | None => None,
    }
}
