//! What an index definition's function returned, as fields of index entries.
//!
//! Plain values become fields of their property's name; objects with `$value` carry a separate
//! name, options or boost, and objects with `$spatial` are shapes.

use std::rc::Rc;

use blittable::Corrupt;

use crate::value::ScriptValue;

/// How a field named by the script is indexed; `None` leaves it to the definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InlineOptions {
    /// `No`, `Exact`, `Search` or `Default`, as the script wrote it.
    pub indexing: Option<String>,
    /// Whether the value is to be stored.
    pub storage: Option<bool>,
    /// The term vector option, as written in the script.
    pub term_vector: Option<String>,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// A plain value; never `undefined`.
    Plain(ScriptValue),
    /// A point: latitude and longitude as returned by the script.
    Point(ScriptValue, ScriptValue),
    /// A shape as well-known text.
    Shape(Rc<str>),
}

/// One field of an entry. Several fields may have the same name.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// The name of the field in the index.
    pub name: Rc<str>,
    /// The value to index.
    pub value: FieldValue,
    /// Options returned with the value.
    pub options: Option<InlineOptions>,
    /// The boost returned with the value.
    pub boost: Option<f64>,
}

/// One entry of the index.
#[derive(Clone, Debug, Default)]
pub struct IndexEntry {
    /// Its fields, in the order of the properties.
    pub fields: Vec<IndexField>,
    /// A boost of the whole entry.
    pub boost: Option<f64>,
    /// Names of its properties that are `undefined`, which yield no fields.
    pub undefined: Vec<Rc<str>>,
}

/// Appends the entries in `result`. An object whose properties are all `undefined` is not an entry,
/// unless `is_for_reduce`: there they become nulls. An empty object is an entry without fields.
pub(crate) fn push_entries(
    result: ScriptValue,
    is_for_reduce: bool,
    out: &mut Vec<IndexEntry>,
) -> Result<(), Corrupt> {
    if let ScriptValue::Array(results) = result {
        for result in results {
            push_entries(result, is_for_reduce, out)?;
        }
        return Ok(());
    }
    let boost = match result.get("$boost")? {
        Some(boost) if matches!(result, ScriptValue::Object(_)) => boost.as_f64(),
        Some(_) | None => None,
    };
    let result = match result.get("$value")? {
        Some(inner) if boost.is_some() => inner,
        Some(_) | None => result,
    };
    let Some(properties) = result.into_properties()? else { return Ok(()) };
    let was_empty = properties.is_empty();
    let fields = Vec::with_capacity(properties.len());
    let mut entry = IndexEntry { fields, boost, undefined: Vec::new() };
    for (name, value) in properties {
        match value {
            ScriptValue::Undefined => entry.undefined.push(name),
            value => push_field(&name, value, &mut entry.fields)?,
        }
    }
    if was_empty || is_for_reduce || !entry.fields.is_empty() {
        out.push(entry);
    }
    Ok(())
}

fn push_field(
    name: &Rc<str>,
    value: ScriptValue,
    fields: &mut Vec<IndexField>,
) -> Result<(), Corrupt> {
    match value {
        ScriptValue::Undefined => {}
        ScriptValue::Array(items) if items.iter().any(is_wrapped) => {
            for item in items {
                push_field(name, item, fields)?;
            }
        }
        ScriptValue::Object(_) if is_wrapped(&value) => push_wrapped(name, &value, fields)?,
        value => fields.push(IndexField {
            name: Rc::clone(name),
            value: FieldValue::Plain(without_undefined(value)),
            options: None,
            boost: None,
        }),
    }
    Ok(())
}

/// An array without its undefined elements.
fn without_undefined(value: ScriptValue) -> ScriptValue {
    let ScriptValue::Array(mut items) = value else { return value };
    items.retain(|item| !matches!(item, ScriptValue::Undefined));
    ScriptValue::Array(items.into_iter().map(without_undefined).collect())
}

/// Whether this object represents a field or a shape.
fn is_wrapped(value: &ScriptValue) -> bool {
    let ScriptValue::Object(properties) = value else { return false };
    properties.iter().any(|(name, _)| matches!(&**name, "$value" | "$spatial"))
}

fn push_wrapped(
    name: &Rc<str>,
    wrapped: &ScriptValue,
    fields: &mut Vec<IndexField>,
) -> Result<(), Corrupt> {
    if let Some(shape) = wrapped.get("$spatial")? {
        if let Some(value) = shape_of(shape) {
            let name = Rc::clone(name);
            fields.push(IndexField { name, value, options: None, boost: None });
        }
        return Ok(());
    }
    let own_name = match wrapped.get("$name")? {
        Some(ScriptValue::String(own)) => own,
        Some(_) | None => Rc::clone(name),
    };
    let options = match wrapped.get("$options")? {
        Some(options) if !options.is_absent() => Some(options_of(&options)?),
        Some(_) | None => None,
    };
    let boost = wrapped.get("$boost")?.and_then(|boost| boost.as_f64());
    let first = fields.len();
    push_field(&own_name, wrapped.get("$value")?.unwrap_or(ScriptValue::Undefined), fields)?;
    for field in &mut fields[first..] {
        field.options = options.clone().or(field.options.take());
        field.boost = boost.or(field.boost);
    }
    Ok(())
}

fn shape_of(shape: ScriptValue) -> Option<FieldValue> {
    match shape {
        ScriptValue::String(text) => Some(FieldValue::Shape(text)),
        ScriptValue::Array(mut point) if point.len() == 2 => {
            let longitude = point.pop()?;
            let latitude = point.pop()?;
            let known = !latitude.is_absent() && !longitude.is_absent();
            known.then_some(FieldValue::Point(latitude, longitude))
        }
        _ => None,
    }
}

fn options_of(options: &ScriptValue) -> Result<InlineOptions, Corrupt> {
    let text = |name: &str| -> Result<Option<String>, Corrupt> {
        Ok(options.get(name)?.and_then(|value| value.as_str().map(str::to_owned)))
    };
    let storage = match options.get("storage")? {
        Some(ScriptValue::Bool(storage)) => Some(storage),
        Some(ScriptValue::String(word)) => {
            Some(word.eq_ignore_ascii_case("yes") || &*word == "true")
        }
        Some(_) | None => None,
    };
    Ok(InlineOptions { indexing: text("indexing")?, storage, term_vector: text("termVector")? })
}
