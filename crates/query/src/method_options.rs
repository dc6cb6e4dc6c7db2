//! Options that a method takes as JSON: an object parameter, or a string that contains one.
//!
//! Names are case-insensitive, unknown ones are ignored, and `null` counts as absent, which is what
//! clients rely on.

use std::borrow::Cow;

use blittable::{BlittableBuf, Object, ParseLimits, Value, parse_document};
use rql::{Expression, Literal};

use crate::error::QueryError;
use crate::parameters::{QueryContext, QueryValue, shown};

/// Maximum size of options that are written as a string, in bytes.
const OPTIONS_BYTES_MAX: usize = 64 * 1024;

/// The options of one call.
pub(crate) struct MethodOptions<'a> {
    /// The method's name, for error messages.
    of: &'static str,
    json: Json<'a>,
}

enum Json<'a> {
    Object(Object<'a>),
    Parsed(BlittableBuf),
}

impl<'a> QueryContext<'a> {
    /// The options in an argument of the method `of`.
    pub(crate) fn method_options(
        &self,
        argument: &'a Expression,
        of: &'static str,
    ) -> Result<MethodOptions<'a>, QueryError> {
        let text = match argument {
            Expression::Literal(literal) => match self.resolve(literal)? {
                QueryValue::Parameter(Value::Object(object)) => {
                    return Ok(MethodOptions { of, json: Json::Object(object) });
                }
                QueryValue::Literal(Literal::String(text)) => text.clone(),
                QueryValue::Parameter(Value::String(text)) => text.as_cow()?.into_owned(),
                QueryValue::Parameter(other) => return Err(no_object(of, &shown(&other))),
                QueryValue::Literal(other) => return Err(no_object(of, &other.to_string())),
            },
            other => return Err(no_object(of, &other.to_string())),
        };
        let limits = ParseLimits { document_bytes_max: OPTIONS_BYTES_MAX, ..Default::default() };
        match parse_document(text.as_bytes(), &limits) {
            Ok(object) => Ok(MethodOptions { of, json: Json::Parsed(object) }),
            Err(_) => Err(no_object(of, &format!("'{text}'"))),
        }
    }
}

fn no_object(of: &str, found: &str) -> QueryError {
    let message = format!("The options of {of}() must be a JSON object, but were: {found}");
    QueryError::InvalidOperation { message }
}

impl<'a> MethodOptions<'a> {
    /// Options inside a document.
    pub(crate) fn of_object(object: Object<'a>, of: &'static str) -> Self {
        Self { of, json: Json::Object(object) }
    }

    /// An option; `None` when it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Value<'_>>, QueryError> {
        let object = match &self.json {
            Json::Object(object) => *object,
            Json::Parsed(document) => document.as_view().root(),
        };
        value_of(object, name)
    }

    /// A whole number; a fraction is truncated.
    pub(crate) fn whole(&self, name: &str) -> Result<Option<i64>, QueryError> {
        Ok(self.number(name)?.map(|number| number as i64))
    }

    /// A number; a string of digits is accepted too.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, QueryError> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        let number = match value {
            Value::Integer(_) | Value::Number(_) => value.as_f64(),
            Value::String(text) => text.as_cow()?.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, "a number", &value)),
        }
    }

    /// The boolean option of this name; `None` if it is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, QueryError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// The string option of this name; `None` if it is missing.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, QueryError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_cow()?.into_owned())),
            Some(other) => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// A list of strings; elements that are not strings are skipped.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, QueryError> {
        let array = match self.get(name)? {
            None => return Ok(None),
            Some(Value::Array(array)) => array,
            Some(other) => return Err(self.wrong(name, "an array", &other)),
        };
        let mut texts = Vec::new();
        for value in array.iter() {
            if let Value::String(text) = value? {
                texts.push(text.as_cow()?.into_owned());
            }
        }
        Ok(Some(texts))
    }

    /// One of some values, by its case-insensitive name or by its ordinal.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, QueryError> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        let text = match &value {
            Value::String(text) => text.as_cow()?,
            Value::Integer(_) => Cow::Borrowed(""),
            other => return Err(self.wrong(name, "a name", other)),
        };
        let named = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text));
        let numbered = || choices.get(usize::try_from(value.as_i64()?).ok()?);
        match named.or_else(numbered) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                Err(self.wrong(name, &format!("one of {}", names.join(", ")), &value))
            }
        }
    }

    fn wrong(&self, name: &str, wanted: &str, value: &Value<'_>) -> QueryError {
        let (of, value) = (self.of, shown(value));
        let message = format!("The option '{name}' of {of}() must be {wanted}, but was: {value}");
        QueryError::InvalidOperation { message }
    }
}

/// A property by its case-insensitive name; `None` when it is absent or null.
pub(crate) fn value_of<'v>(
    object: Object<'v>,
    name: &str,
) -> Result<Option<Value<'v>>, QueryError> {
    for at in 0..object.len() {
        if let Some((known, value)) = object.at(at)?
            && known.eq_ignore_ascii_case(name)
            && !matches!(value, Value::Null)
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &str, mode: impl FnOnce(&MethodOptions<'_>) -> T) -> T {
        let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        mode(&MethodOptions::of_object(document.as_view().root(), "facet"))
    }

    #[test]
    fn options_are_found_without_their_case_and_read_as_they_are_meant() {
        let json = r#"{"pageSize":2.9,"START":"4","sum":"1.5","On":true,"Texts":["a",1,"b"],
            "Word":"two","Number":1,"None":null}"#;
        with(json, |options| {
            assert_eq!(options.whole("PageSize").unwrap(), Some(2));
            assert_eq!(options.whole("Start").unwrap(), Some(4));
            assert_eq!(options.number("Sum").unwrap(), Some(1.5));
            assert_eq!(options.flag("On").unwrap(), Some(true));
            assert_eq!(options.texts("texts").unwrap().unwrap(), ["a", "b"]);
            let choices = [("One", 1), ("Two", 2)];
            assert_eq!(options.choice("Word", &choices).unwrap(), Some(2));
            assert_eq!(options.choice("Number", &choices).unwrap(), Some(2));
            assert_eq!(options.whole("None").unwrap(), None);
            assert_eq!(options.text("Nope").unwrap(), None);
        });
    }

    #[test]
    fn options_of_the_wrong_type_are_refused_by_name() {
        let json = r#"{"A":"x","B":[1],"C":7}"#;
        with(json, |options| {
            let whole = options.whole("A").unwrap_err().to_string();
            assert_eq!(whole, "The option 'A' of facet() must be a number, but was: \"x\"");
            assert!(options.flag("C").is_err());
            assert!(options.text("B").is_err());
            assert!(options.texts("C").is_err());
            let choice = options.choice("C", &[("One", 1)]).unwrap_err().to_string();
            assert_eq!(choice, "The option 'C' of facet() must be one of One, but was: 7");
        });
    }
}
