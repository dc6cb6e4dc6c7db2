//! `include highlight(…)` and `include explanations(…)`: the notes requested for each row.

use blittable::{BlittableBuf, Object, ParseLimits, Value, parse_document};
use rql::{Expression, Literal, MethodCall, NumberValue};

use crate::error::QueryError;
use crate::highlight::{FRAGMENT_LENGTH_MIN, Tags};
use crate::parameters::QueryContext;

/// The .NET type name of the options of `highlight`, which error messages repeat.
const HIGHLIGHTING_OPTIONS: &str =
    "Raven.Client.Documents.Queries.Highlighting.HighlightingOptions";

/// The notes that a query requests for each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestedNotes {
    pub(crate) highlights: Vec<RequestedHighlight>,
    pub(crate) explanations: Option<RequestedExplanations>,
}

impl RequestedNotes {
    pub(crate) fn is_empty(&self) -> bool {
        self.highlights.is_empty() && self.explanations.is_none()
    }
}

/// `highlight(field, length, count, options)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestedHighlight {
    pub(crate) field: String,
    /// Approximate length of a fragment, in characters.
    pub(crate) length: usize,
    /// Maximum number of fragments per row.
    pub(crate) count: usize,
    pub(crate) tags: Tags,
    pub(crate) group_key: Option<String>,
}

/// The options of `explanations(options)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestedExplanations {
    pub(crate) group_key: Option<String>,
}

/// Whether an item of `include` requests notes of this kind.
pub(crate) fn is_note(item: &Expression) -> bool {
    let names = ["highlight", "explanations"];
    matches!(item, Expression::Method(call) if names.iter().any(|name| call.is(name)))
}

impl<'a> QueryContext<'a> {
    /// The notes that the query requests for each row.
    pub(crate) fn notes(&self) -> Result<RequestedNotes, QueryError> {
        let mut notes = RequestedNotes::default();
        for item in &self.query.include {
            let Expression::Method(call) = item else { continue };
            if call.is("highlight") {
                let highlight = self.highlight(call)?;
                if notes.highlights.iter().any(|other| other.field == highlight.field) {
                    let field = &highlight.field;
                    let message = format!("Query cannot highlight the field '{field}' twice.");
                    return Err(self.invalid(message));
                }
                notes.highlights.push(highlight);
            } else if call.is("explanations") {
                if notes.explanations.is_some() {
                    return Err(self.invalid("Query cannot include duplicate explanations."));
                }
                notes.explanations = Some(self.explanations(call)?);
            }
        }
        Ok(notes)
    }

    fn highlight(&self, call: &'a MethodCall) -> Result<RequestedHighlight, QueryError> {
        let (field, length, count, options) = match call.arguments.as_slice() {
            [field, length, count] => (field, length, count, None),
            [field, length, count, options] => (field, length, count, Some(options)),
            _ => {
                let message = "Method 'highlight()' expects three or four arguments to be provided";
                return Err(self.invalid(message));
            }
        };
        let field = match field {
            Expression::Field(path) => {
                self.require_known_alias(path)?;
                path.without_alias(self.alias()).unwrap_or_else(|| path.clone()).text()
            }
            Expression::Literal(Literal::String(name)) => name.clone(),
            other => {
                let message = format!("Method 'highlight()' expects a field name but got: {other}");
                return Err(self.invalid(message));
            }
        };
        let length = literal_long(length, "FragmentLength")?;
        let count = literal_long(count, "FragmentCount")?;
        if length < FRAGMENT_LENGTH_MIN {
            let message = format!(
                "fragCharSize({length}) is too small. It must be {FRAGMENT_LENGTH_MIN} or higher."
            );
            return Err(QueryError::Argument { message });
        }
        let Ok(count) = usize::try_from(count) else {
            let message = format!("maxNumFragments({count}) must be positive number.");
            return Err(QueryError::Argument { message });
        };
        let options = match options {
            None => Options::default(),
            Some(options) => self.options(options, "HighlightingOptions")?,
        };
        let Some(tags) = Tags::new(options.opening, options.closing) else {
            let message = "Number of pre-tags and post-tags must match.".to_owned();
            return Err(QueryError::InvalidOperation { message });
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(RequestedHighlight { field, length, count, tags, group_key: options.group_key })
    }

    fn explanations(&self, call: &'a MethodCall) -> Result<RequestedExplanations, QueryError> {
        let options = match call.arguments.as_slice() {
            [] => Options::default(),
            [options] => self.options(options, "ExplanationOptions")?,
            _ => {
                let message =
                    "Method 'explanations()' expects zero or one argument(s) to be provided";
                return Err(self.invalid(message));
            }
        };
        Ok(RequestedExplanations { group_key: options.group_key })
    }

    /// Options passed as an object parameter or as a JSON string.
    fn options(&self, expression: &'a Expression, kind: &str) -> Result<Options, QueryError> {
        let refused = |message: String| Err(QueryError::InvalidOperation { message });
        match expression {
            Expression::Literal(Literal::Parameter(name)) => {
                let value = self.parameters.map(|parameters| parameters.get(name)).transpose()?;
                match value.flatten() {
                    Some(Value::Object(object)) => Options::of(object),
                    Some(_) => refused(format!("Parameter '{name}' should contain JSON object.")),
                    None => refused(format!(
                        "Parameter '{name}' containing '{kind}' was not present in the list of \
                         parameters."
                    )),
                }
            }
            Expression::Literal(Literal::String(text)) => {
                let parsed: Result<BlittableBuf, _> =
                    parse_document(text.as_bytes(), &ParseLimits::default());
                match parsed {
                    Ok(document) => Options::of(document.as_view().root()),
                    Err(error) => refused(format!("{kind} are no JSON object: {error}")),
                }
            }
            other => refused(format!(
                "{kind} can only be passed as JSON string or as a parameter pointing to JSON \
                 object, but was '{}'.",
                kind_of(other)
            )),
        }
    }
}

#[derive(Default)]
struct Options {
    group_key: Option<String>,
    opening: Vec<String>,
    closing: Vec<String>,
}

impl Options {
    /// Names are case-insensitive; unknown ones are ignored.
    fn of(object: Object<'_>) -> Result<Options, QueryError> {
        let mut options = Options::default();
        for member in object.iter() {
            let (name, value) = member?;
            if name.eq_ignore_ascii_case("GroupKey") {
                options.group_key = match value {
                    Value::Null => None,
                    value => Some(text_of(&value)?),
                };
            } else if name.eq_ignore_ascii_case("PreTags") {
                options.opening = texts_of(&value)?;
            } else if name.eq_ignore_ascii_case("PostTags") {
                options.closing = texts_of(&value)?;
            }
        }
        Ok(options)
    }
}

fn texts_of(value: &Value<'_>) -> Result<Vec<String>, QueryError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(array) => array.iter().map(|element| text_of(&element?)).collect(),
        _ => Err(not_options()),
    }
}

fn text_of(value: &Value<'_>) -> Result<String, QueryError> {
    match value.as_text() {
        Some(text) => Ok(text.as_cow()?.into_owned()),
        None => Err(not_options()),
    }
}

fn not_options() -> QueryError {
    let message =
        format!("Could not convert document options to entity of type {HIGHLIGHTING_OPTIONS}");
    QueryError::InvalidOperation { message }
}

fn literal_long(expression: &Expression, name: &str) -> Result<i64, QueryError> {
    if let Expression::Literal(Literal::Number(number)) = expression
        && let NumberValue::Long(value) = number.value()
    {
        return Ok(value);
    }
    let kind = kind_of(expression);
    let message = format!("{name} can only be passed as long, but was '{kind}'.");
    Err(QueryError::InvalidOperation { message })
}

fn kind_of(expression: &Expression) -> &'static str {
    match expression {
        Expression::Literal(Literal::Null) => "Null",
        Expression::Literal(Literal::Bool(_)) => "Boolean",
        Expression::Literal(Literal::String(_)) => "String",
        Expression::Literal(Literal::Parameter(_)) => "Parameter",
        Expression::Literal(Literal::Number(number)) => match number.value() {
            NumberValue::Double(_) => "Double",
            NumberValue::Long(_) | NumberValue::TooLarge => "Long",
        },
        Expression::Field(_) => "Field",
        _ => "Expression",
    }
}
