//! Static methods of `string` and `char`.

use crate::compile::call::options_of;
use crate::compile::names::Function;
use crate::compile::plan::{Argument, FunctionCall};
use crate::run::display::{display, format, push_aligned};
use crate::run::elements::Elements;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::methods::as_text;
use crate::run::methods::text::{folded_pair, lower, upper};
use crate::run::{Evaluated, Machine, wrong_arguments};
use crate::value::Value;

impl<'a> Machine<'a, '_> {
    pub(super) fn text_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        match call.function {
            Function::StringFormat => self.string_format(arguments),
            Function::StringConcat => {
                let parts = self.rest(arguments, 0)?;
                self.joined("", &parts)
            }
            Function::StringJoin => {
                let separator = self.argument(arguments, 0)?;
                let separator = display(&separator)?.into_owned();
                if let [_, Argument::Value(_)] = arguments
                    && self.argument(arguments, 1)?.is_dynamic_null()
                {
                    let message = "'Join' of null has several meanings";
                    return Err(Fault::new(EvaluationErrorKind::Ambiguous, message));
                }
                let parts = self.rest(arguments, 1)?;
                self.joined(&separator, &parts)
            }
            Function::StringIsNullOrEmpty | Function::StringIsNullOrWhiteSpace => {
                let is_blank = match self.argument(arguments, 0)? {
                    Value::Text(text) if call.function == Function::StringIsNullOrEmpty => {
                        text.is_empty()
                    }
                    Value::Text(text) => text.trim().is_empty(),
                    null if null.is_null() => true,
                    _ => return Err(wrong_arguments()),
                };
                Ok(Value::Bool(is_blank))
            }
            Function::StringNew => self.repeated(arguments),
            _ => self.compared(call.function, arguments),
        }
    }

    /// The values of the arguments from `from` on; a single sequence is replaced by its elements.
    fn rest(&mut self, arguments: &'a [Argument], from: usize) -> Result<Vec<Value<'a>>, Fault> {
        let mut values = Vec::with_capacity(arguments.len());
        for index in from..arguments.len() {
            if let Argument::Value(_) = arguments[index] {
                values.push(self.argument(arguments, index)?);
            }
        }
        match values.as_slice() {
            [only @ (Value::Array(_) | Value::List(_) | Value::Group(_))] => {
                let elements = Elements::of(only)?;
                self.check_length(elements.remaining())?;
                elements.collect()
            }
            _ => Ok(values),
        }
    }

    fn joined(&mut self, separator: &str, parts: &[Value<'a>]) -> Evaluated<'a> {
        let mut text = String::new();
        for (index, part) in parts.iter().enumerate() {
            if 0 < index {
                text.push_str(separator);
            }
            text.push_str(&display(part)?);
            self.check_text(text.len())?;
        }
        Ok(Value::text(text))
    }

    fn string_format(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let first = match arguments.first() {
            // A culture may precede the format.
            Some(Argument::Option(_)) => 1,
            _ => 0,
        };
        let pattern = self.text_argument(arguments, first)?;
        let values = self.rest(arguments, first + 1)?;
        let text = fill(&pattern, &values)?;
        self.check_text(text.len())?;
        Ok(Value::text(text))
    }

    fn compared(&mut self, function: Function, arguments: &'a [Argument]) -> Evaluated<'a> {
        let left = self.argument(arguments, 0)?;
        let right = self.argument(arguments, 1)?;
        let option = options_of(arguments);
        let (left, right) = match (as_text(&left), as_text(&right)) {
            (Some(left), Some(right)) => folded_pair(left, right, option),
            (left_text, right_text)
                if left_text.is_none() != left.is_null()
                    || right_text.is_none() != right.is_null() =>
            {
                return Err(wrong_arguments());
            }
            (left, right) if function == Function::StringEquals => {
                return Ok(Value::Bool(left.is_none() && right.is_none()));
            }
            (left, right) => {
                return Ok(Value::Integer(i64::from(left.is_some()) - i64::from(right.is_some())));
            }
        };
        Ok(match function {
            Function::StringEquals => Value::Bool(left == right),
            _ => Value::Integer(left.cmp(&right) as i64),
        })
    }

    /// `new string(c, count)`
    fn repeated(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let character = self.text_argument(arguments, 0)?;
        let count = usize::try_from(self.integer_argument(arguments, 1)?)
            .map_err(|_| crate::run::overflow_index())?;
        self.check_text(count.saturating_mul(character.len()))?;
        Ok(Value::text(character.repeat(count)))
    }

    pub(super) fn char_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let Value::Char(character) = self.argument(&call.arguments, 0)? else {
            return Err(wrong_arguments());
        };
        let mapped = |text: String| Ok(Value::Char(text.chars().next().unwrap_or(character)));
        Ok(Value::Bool(match call.function {
            Function::CharIsDigit => character.is_numeric(),
            Function::CharIsLetter => character.is_alphabetic(),
            Function::CharIsLetterOrDigit => character.is_alphanumeric(),
            Function::CharIsWhiteSpace => character.is_whitespace(),
            Function::CharIsUpper => character.is_uppercase(),
            Function::CharIsLower => character.is_lowercase(),
            Function::CharToUpper => return mapped(upper(character.encode_utf8(&mut [0; 4]))),
            _ => return mapped(lower(character.encode_utf8(&mut [0; 4]))),
        }))
    }
}

#[cold]
fn bad_format() -> Fault {
    let message = "the format has a hole that is broken or has no value";
    Fault::new(EvaluationErrorKind::Format, message)
}

/// Fills the holes `{0,5:F2}` of a format.
fn fill(pattern: &str, values: &[Value<'_>]) -> Result<String, Fault> {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{").ok_or_else(bad_format)?;
        fill_hole(&rest[..end], values, &mut text)?;
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

fn fill_hole(hole: &str, values: &[Value<'_>], text: &mut String) -> Result<(), Fault> {
    let (head, pattern) = match hole.split_once(':') {
        Some((head, pattern)) => (head, Some(pattern)),
        None => (hole, None),
    };
    let (index, alignment) = head.split_once(',').unwrap_or((head, "0"));
    let index: usize = index.trim().parse().map_err(|_| bad_format())?;
    let alignment: i16 = alignment.trim().parse().map_err(|_| bad_format())?;
    let value = values.get(index).ok_or_else(bad_format)?;
    let shown = match pattern {
        Some(pattern) => format(value, pattern, false)?,
        None => display(value)?,
    };
    push_aligned(&shown, i32::from(alignment), text);
    Ok(())
}
