//! Patterns like `days/{Day:yyyy-MM}`: the id of the document that references a result, built from
//! its fields.
//!
//! Formats are those of .NET in the invariant culture.

use blittable::{Document, Value};
use documents::DocumentError;

use super::target::document_id;
use crate::error::IndexError;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field { name: String, format: String },
}

impl Pattern {
    /// Parses a pattern, which names at least one field.
    ///
    /// # Errors
    ///
    /// [`IndexError::Invalid`] when it is invalid.
    pub(super) fn parse(text: &str) -> Result<Self, IndexError> {
        let unsupported = || {
            let message = format!("Provided pattern is not supported: {text}");
            IndexError::Invalid { message }
        };
        let (mut parts, mut names) = (Vec::new(), Vec::<String>::new());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (field, behind) = behind.split_once('}').ok_or_else(unsupported)?;
            let (name, format) = field.split_once(':').unwrap_or((field, ""));
            if before.contains('}') || field.contains('{') || name.is_empty() {
                return Err(unsupported());
            }
            if names.iter().any(|known| known == name) {
                let message = format!(
                    "Pattern should contain unique fields only. Duplicated field: '{name}'"
                );
                return Err(IndexError::Invalid { message });
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            names.push(name.to_owned());
            parts.push(Part::Field { name: name.to_owned(), format: format.to_owned() });
            rest = behind;
        }
        if names.is_empty() || rest.contains('}') {
            return Err(unsupported());
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The id for a result; the inner error says why there is none.
    ///
    /// # Errors
    ///
    /// When the result is damaged.
    pub(super) fn id_of(
        &self,
        result: &Document<'_>,
    ) -> Result<Result<String, String>, IndexError> {
        let mut id = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => id.push_str(text),
                Part::Field { name, format } => {
                    let value = result.root().get(name).map_err(DocumentError::from)?;
                    match text_of(value, name, format) {
                        Ok(text) => id.push_str(&text),
                        Err(message) => return Ok(Err(failed(&message))),
                    }
                }
            }
        }
        Ok(checked(id))
    }
}

fn text_of(value: Option<Value<'_>>, name: &str, format: &str) -> Result<String, String> {
    match value {
        None | Some(Value::Null) => {
            Err(format!("Invalid pattern reference document ID. Field '{name}' was null"))
        }
        Some(value) => linq::formatted(value, format).ok_or_else(|| {
            format!("Invalid pattern reference document ID. Field '{name}' cannot be part of an id")
        }),
    }
}

fn checked(id: String) -> Result<String, String> {
    if let Some(last) = id.chars().last().filter(|last| matches!(last, '/' | '|')) {
        return Err(failed(&format!(
            "Invalid pattern reference document ID: '{id}'. Error: reference ID must not end with \
             '{last}' character"
        )));
    }
    match document_id(&id) {
        Ok(_) => Ok(id),
        Err(message) => Err(failed(&message)),
    }
}

fn failed(message: &str) -> String {
    format!(
        "Failed to build document ID based on provided pattern for output to collection references. \
         {message}"
    )
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn id(pattern: &str, json: &str) -> Result<String, String> {
        let result = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        Pattern::parse(pattern).unwrap().id_of(&result.as_view()).unwrap()
    }

    #[test]
    fn ids_are_those_of_the_real_server() {
        let moment = r#"{"K":6,"V":"2020-01-02T03:04:05.0000000Z"}"#;
        for (pattern, json, expected) in [
            ("v/{V}", r#"{"V":true}"#, "v/True"),
            ("v/{V}", r#"{"V":1.5}"#, "v/1.5"),
            ("v/{V}", r#"{"V":2.0}"#, "v/2.0"),
            ("v/{V}", r#"{"V":10}"#, "v/10"),
            ("v/{V}", r#"{"V":"2020-01-02"}"#, "v/2020-01-02"),
            ("v/{V}", moment, "v/01/02/2020 03:04:05"),
            ("v/{V}", r#"{"V":" a b "}"#, "v/ a b "),
            ("v/{V}", r#"{"V":{"a":1}}"#, r#"v/{"a":1}"#),
            ("f/{K}/{V:yyyy-MM-dd}", moment, "f/6/2020-01-02"),
            ("{V:yyyy-MM}", moment, "2020-01"),
            ("f/{V:yyyy-MM-dd}", r#"{"V":1.5}"#, "f/1.5"),
            ("f/{V:yyyy-MM-dd}", r#"{"V":"text"}"#, "f/text"),
            ("n/{V:0.00}", r#"{"V":10}"#, "n/10.00"),
            ("n/{V:0.00}", r#"{"V":2.0}"#, "n/2.0"),
            ("n/{V:0000}/x", r#"{"V":1}"#, "n/0001/x"),
            ("n/{V:}", r#"{"V":1}"#, "n/1"),
        ] {
            assert_eq!(id(pattern, json).as_deref(), Ok(expected), "{pattern} {json}");
        }
        for (json, expected) in [
            (r#"{"V":null}"#, "Field 'V' was null"),
            ("{}", "Field 'V' was null"),
            (r#"{"V":""}"#, "'v/'. Error: reference ID must not end with '/' character"),
            (r#"{"V":"x|"}"#, "'v/x|'. Error: reference ID must not end with '|' character"),
            (r#"{"V":[1,2]}"#, "Field 'V' cannot be part of an id"),
        ] {
            let error = id("v/{V}", json).unwrap_err();
            assert!(error.ends_with(expected), "{json}: {error}");
        }
        let long = format!(r#"{{"V":"{}"}}"#, "x".repeat(600));
        assert!(id("v/{V}", &long).is_err());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["x/const", "x/{A", "x/A}", "x/{}", "x/{{A}}", "x/{:yyyy}", "{A}/}"] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("Provided pattern is not supported: {text}"));
        }
        let error = Pattern::parse("{A}/{A:x}").unwrap_err().to_string();
        assert_eq!(error, "Pattern should contain unique fields only. Duplicated field: 'A'");
    }
}
