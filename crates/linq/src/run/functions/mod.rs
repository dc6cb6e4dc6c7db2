//! Functions that belong to no value: those that every index has, and the static methods of .NET.

mod index;
mod math;
mod moment;
mod parse;
mod pattern;
mod text;

use crate::compile::names::Function as F;
use crate::compile::plan::{Argument, FunctionCall};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::methods::as_text;
use crate::run::{Evaluated, Machine, compare};
use crate::value::{ListKind, Value};

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn eval_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        match call.function {
            F::Id
            | F::MetadataFor
            | F::AsJson
            | F::LoadDocument
            | F::NoTrackingLoadDocument
            | F::LoadAttachment
            | F::LoadAttachments
            | F::Recurse
            | F::CreateField
            | F::CreateSpatialField
            | F::CounterNamesFor
            | F::TimeSeriesNamesFor
            | F::AttachmentsFor
            | F::LoadCompareExchangeValue
            | F::TryConvert => self.index_function(call),
            F::StringFormat
            | F::StringConcat
            | F::StringJoin
            | F::StringIsNullOrEmpty
            | F::StringIsNullOrWhiteSpace
            | F::StringEquals
            | F::StringCompare
            | F::StringCompareOrdinal
            | F::StringNew => self.text_function(call),
            F::CharIsDigit
            | F::CharIsLetter
            | F::CharIsLetterOrDigit
            | F::CharIsWhiteSpace
            | F::CharIsUpper
            | F::CharIsLower
            | F::CharToUpper
            | F::CharToLower => self.char_function(call),
            F::ObjectEquals | F::ObjectReferenceEquals => self.object_equals(&call.arguments),
            F::RegexIsMatch
            | F::RegexReplace
            | F::RegexMatch
            | F::RegexMatches
            | F::RegexSplit
            | F::RegexEscape => self.pattern_function(call),
            F::EnumerableRange | F::EnumerableRepeat | F::EnumerableEmpty => {
                self.enumerable_function(call)
            }
            F::ConvertToInt16
            | F::ConvertToInt32
            | F::ConvertToInt64
            | F::ConvertToDouble
            | F::ConvertToDecimal
            | F::ConvertToSingle
            | F::ConvertToBoolean
            | F::ConvertToString
            | F::ConvertToDateTime => self.convert_function(call),
            F::IntegerParse
            | F::DoubleParse
            | F::FloatParse
            | F::DecimalParse
            | F::BoolParse
            | F::GuidParse
            | F::GuidNew => self.parse_function(call),
            function if is_moment(function) => self.moment_function(call),
            _ => self.math_function(call),
        }
    }

    fn object_equals(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let left = self.argument(arguments, 0)?;
        let right = self.argument(arguments, 1)?;
        // A document's null is a separate object, not the null of C#.
        let differ = left.is_dynamic_null() != right.is_dynamic_null();
        let same = compare::same(&left, &right, compare::Strictness::Characters);
        Ok(Value::Bool(same && !differ))
    }

    fn enumerable_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        if call.function == F::EnumerableEmpty {
            return Ok(Value::list_of(ListKind::Objects, Vec::new()));
        }
        let count = usize::try_from(self.integer_argument(arguments, 1)?)
            .map_err(|_| crate::run::overflow_index())?;
        self.check_length(count)?;
        let first = self.argument(arguments, 0)?;
        let items = match (call.function, first) {
            (F::EnumerableRepeat, value) => vec![value; count],
            (_, Value::Integer(start)) => {
                (0..count as i64).map(|step| Value::Integer(start.wrapping_add(step))).collect()
            }
            _ => return Err(crate::run::wrong_arguments()),
        };
        Ok(Value::list_of(ListKind::Objects, items))
    }
}

fn is_moment(function: F) -> bool {
    matches!(
        function,
        F::DateTimeParse
            | F::DateTimeParseExact
            | F::DateTimeNew
            | F::DateTimeDaysInMonth
            | F::DateTimeIsLeapYear
            | F::DateTimeOffsetParse
            | F::DateTimeOffsetNew
            | F::DateTimeSpecifyKind
            | F::TimeSpanParse
            | F::TimeSpanNew
            | F::TimeSpanFromDays
            | F::TimeSpanFromHours
            | F::TimeSpanFromMinutes
            | F::TimeSpanFromSeconds
            | F::TimeSpanFromMilliseconds
            | F::TimeSpanFromTicks
    )
}

/// The text of an argument of a `Parse`: null is refused, and so is what was recognised already.
fn text_to_parse<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match as_text(value) {
        Some(text) => Ok(text),
        None if value.is_null() => {
            Err(Fault::new(EvaluationErrorKind::ArgumentNull, "null cannot be parsed"))
        }
        None => {
            let message = format!("a {} is no text to parse", value.type_name());
            Err(Fault::new(EvaluationErrorKind::InvalidArgument, message))
        }
    }
}
