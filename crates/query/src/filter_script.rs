//! `filter`: a condition that is evaluated on every row, as a script.
//!
//! Values are compared as JavaScript compares them, which is what clients expect of this clause:
//! strings are case-sensitive, numbers and strings with `<` compare as numbers, `null` differs from
//! a missing value. Unlike a condition of `where` it needs no index and may call declared
//! functions.

use std::fmt::Write;

use blittable::write_json_string;
use rql::{Comparison, Expression, FieldPath, Literal, MethodCall, NumberValue, PathStep};

use crate::condition::is_id;
use crate::error::{QueryError, unknown_method};
use crate::exchange_value::is_exchange;
use crate::parameters::QueryContext;

/// The functions that the condition may call, besides those of the query.
pub(crate) const FUNCTIONS: [&str; 5] = [
    "function _startsWith(text, start) { return typeof text === 'string' \
     && typeof start === 'string' && text.toLowerCase().startsWith(start.toLowerCase()); }",
    "function _endsWith(text, end) { return typeof text === 'string' \
     && typeof end === 'string' && text.toLowerCase().endsWith(end.toLowerCase()); }",
    "function _regex(text, pattern) { return typeof text === 'string' \
     && new RegExp(pattern).test(text); }",
    "function _in(value, list) { return list.flat(Infinity).includes(value); }",
    "function _allIn(value, list) { const values = [value].flat(Infinity); \
     return list.flat(Infinity).every(one => values.includes(one)); }",
];

/// Methods that `filter` supports without an index.
const METHODS: [&str; 6] = ["startsWith", "endsWith", "regex", "exists", "id", "cmpxchg"];
/// Methods that require an index.
const METHODS_OF_INDEXES: [&str; 11] = [
    "search",
    "lucene",
    "exact",
    "boost",
    "fuzzy",
    "proximity",
    "intersect",
    "moreLikeThis",
    "count",
    "sum",
    "score",
];

/// The name of the document at `place`, the row itself at 0, in a filter script.
pub(crate) fn document_name(place: usize) -> String {
    format!("_{place}")
}

impl<'a> QueryContext<'a> {
    /// The condition of the filter as a JavaScript expression.
    pub(crate) fn filter_text(&self) -> Result<Option<String>, QueryError> {
        let Some(filter) = &self.query.filter else { return Ok(None) };
        let loaded: Vec<&str> = self.query.load.iter().map(|item| item.alias.as_str()).collect();
        let mut script = FilterText { context: self, loaded, out: String::from("!!(") };
        script.condition(filter)?;
        script.out.push(')');
        Ok(Some(script.out))
    }
}

struct FilterText<'s, 'a> {
    context: &'s QueryContext<'a>,
    /// The aliases of the documents loaded with the row.
    loaded: Vec<&'a str>,
    out: String,
}

impl<'a> FilterText<'_, 'a> {
    /// Appends a condition. The parser's nesting limit bounds the recursion.
    fn condition(&mut self, condition: &'a Expression) -> Result<(), QueryError> {
        match condition {
            Expression::And(parts) => self.joined(parts, " && "),
            Expression::Or(parts) => self.joined(parts, " || "),
            Expression::Not(inner) => {
                self.out.push('!');
                self.in_parentheses(|script| script.condition(inner))
            }
            Expression::Compare { left, comparison, right } => {
                let sign = match comparison {
                    Comparison::Equal => "===",
                    Comparison::NotEqual => "!==",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                self.compared(left, sign, right)
            }
            Expression::Between { value, low, high } => {
                self.compared(value, ">=", low)?;
                self.out.push_str(" && ");
                self.compared(value, "<=", high)
            }
            Expression::In { value, list, all } => {
                self.out.push_str(if *all { "_allIn(" } else { "_in(" });
                self.value(value)?;
                self.out.push_str(", [");
                self.values(list)?;
                self.out.push_str("])");
                Ok(())
            }
            // A bare value is not a condition unless it is `true` or `false`.
            Expression::Method(_) if is_exchange(condition) => {
                self.value(condition)?;
                self.out.push_str(" === true");
                Ok(())
            }
            Expression::Method(_) | Expression::Literal(_) => self.value(condition),
            Expression::Field(_) | Expression::TimeSeries(_) => {
                Err(self.context.invalid("Unable to understand query"))
            }
        }
    }

    fn in_parentheses(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        self.out.push('(');
        write(self)?;
        self.out.push(')');
        Ok(())
    }

    fn joined(&mut self, parts: &'a [Expression], joint: &str) -> Result<(), QueryError> {
        for (number, part) in parts.iter().enumerate() {
            if 0 < number {
                self.out.push_str(joint);
            }
            self.in_parentheses(|script| script.condition(part))?;
        }
        Ok(())
    }

    fn compared(
        &mut self,
        left: &'a Expression,
        sign: &str,
        right: &'a Expression,
    ) -> Result<(), QueryError> {
        self.value(left)?;
        self.out.push_str(sign);
        self.value(right)
    }

    fn values(&mut self, values: &'a [Expression]) -> Result<(), QueryError> {
        for (number, value) in values.iter().enumerate() {
            if 0 < number {
                self.out.push_str(", ");
            }
            self.value(value)?;
        }
        Ok(())
    }

    fn value(&mut self, value: &'a Expression) -> Result<(), QueryError> {
        match value {
            Expression::Literal(literal) => self.literal(literal),
            Expression::Field(path) => self.path(path),
            Expression::Method(call) => self.call(call),
            other => self.in_parentheses(|script| script.condition(other)),
        }
    }

    fn literal(&mut self, literal: &'a Literal) -> Result<(), QueryError> {
        match literal {
            Literal::Null => self.out.push_str("null"),
            Literal::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Literal::String(text) => self.text(text),
            Literal::Number(number) => match number.value() {
                // In parentheses, so that a sign followed by a minus is not a decrement.
                NumberValue::Long(value) => self.push_display(&format_args!("({value})")),
                NumberValue::Double(value) => self.push_display(&format_args!("({value:?})")),
                NumberValue::TooLarge => self.push_display(&format_args!("({})", number.text())),
            },
            Literal::Parameter(name) => {
                self.context.resolve(literal)?;
                self.push_display(&format_args!("${name}"));
            }
        }
        Ok(())
    }

    fn push_display(&mut self, display: &dyn std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{display}");
    }

    fn text(&mut self, text: &str) {
        let mut json = Vec::new();
        write_json_string(text, &mut json);
        self.out.push_str(&String::from_utf8_lossy(&json));
    }

    /// A path starting at the row, at the alias, or at a loaded document.
    fn path(&mut self, path: &FieldPath) -> Result<(), QueryError> {
        let first = match path.steps.first() {
            Some(PathStep::Name { name, .. }) => name.as_str(),
            Some(PathStep::Each | PathStep::Index(_)) | None => "",
        };
        let loaded = self.loaded.iter().position(|alias| *alias == first);
        let (place, path) = match loaded {
            Some(at) => (at + 1, path.without_alias(Some(first))),
            None => {
                self.context.require_known_alias(path)?;
                (0, path.without_alias(self.context.alias()))
            }
        };
        self.out.push_str(&document_name(place));
        for step in path.iter().flat_map(|path| &path.steps) {
            match step {
                PathStep::Name { name, .. } => {
                    self.out.push('[');
                    self.text(name);
                    self.out.push(']');
                }
                PathStep::Index(index) => self.push_display(&format_args!("[{index}]")),
                PathStep::Each => {
                    let message = "'[]' cannot be used in FILTER, which compares single values; \
                                   write 'in' or a declared function";
                    return Err(self.context.invalid(message));
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &'a MethodCall) -> Result<(), QueryError> {
        // The .NET client writes a lambda as a function that sees the row as `this`.
        let function = call.name.strip_suffix(".call").unwrap_or(&call.name);
        let declared =
            self.context.query.declarations.iter().any(|declaration| {
                declaration.function().is_some() && declaration.name == function
            });
        if declared {
            self.out.push_str(&call.name);
            return self.arguments(call);
        }
        match call.name.to_ascii_lowercase().as_str() {
            "id" => self.id(call),
            "exists" => {
                self.required_arguments(call, 1)?;
                self.in_parentheses(|script| script.exists(&call.arguments[0]))
            }
            "startswith" => self.helper("_startsWith", call),
            "endswith" => self.helper("_endsWith", call),
            "regex" => self.helper("_regex", call),
            "cmpxchg" => {
                self.out.push_str("cmpxchg");
                self.arguments(call)
            }
            _ => Err(self.unknown(call)),
        }
    }

    fn arguments(&mut self, call: &'a MethodCall) -> Result<(), QueryError> {
        self.in_parentheses(|script| script.values(&call.arguments))
    }

    fn helper(&mut self, name: &str, call: &'a MethodCall) -> Result<(), QueryError> {
        self.required_arguments(call, 2)?;
        self.out.push_str(name);
        self.arguments(call)
    }

    fn required_arguments(&self, call: &MethodCall, count: usize) -> Result<(), QueryError> {
        if call.arguments.len() == count {
            return Ok(());
        }
        let (name, passed) = (&call.name, call.arguments.len());
        let message = format!(
            "Method {name}() takes {count} arguments in FILTER, but was called with {passed}"
        );
        Err(self.context.invalid(message))
    }

    /// What a missing member leads to does not exist either, although it reads as `null`.
    fn exists(&mut self, value: &'a Expression) -> Result<(), QueryError> {
        let parent = match value {
            Expression::Field(path) => path.steps.split_last().filter(|(_, rest)| !rest.is_empty()),
            _ => None,
        };
        if let (Some((_, rest)), Expression::Field(path)) = (parent, value) {
            self.path(&FieldPath { steps: rest.to_vec(), offset: path.offset })?;
            self.out.push_str(" != null && ");
        }
        self.out.push_str("undefined !== ");
        self.value(value)
    }

    fn id(&mut self, call: &'a MethodCall) -> Result<(), QueryError> {
        self.out.push_str("id(");
        match call.arguments.as_slice() {
            [] => self.out.push_str(&document_name(0)),
            [Expression::Field(path)] => self.path(path)?,
            _ if is_id(&Expression::Method(call.clone())) => self.out.push_str(&document_name(0)),
            _ => return Err(self.context.invalid("Method id() expects an alias as its argument")),
        }
        self.out.push(')');
        Ok(())
    }

    fn unknown(&self, call: &MethodCall) -> QueryError {
        let name = &call.name;
        let is_of_indexes = METHODS_OF_INDEXES.iter().any(|known| call.is(known))
            || name.to_ascii_lowercase().starts_with("spatial.");
        if is_of_indexes {
            let message = format!("'{name}' query method is not supported for this type of query");
            return QueryError::Method { message };
        }
        let declared =
            self.context.query.declarations.iter().map(|declared| declared.name.as_str());
        let known: Vec<&str> = METHODS.into_iter().chain(declared).collect();
        unknown_method(name, &known)
    }
}
