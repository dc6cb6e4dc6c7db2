//! Properties and indexes of values.

use std::rc::Rc;

use blittable::Object;
use model::ticks::{
    TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND,
};

use crate::compile::names::Property;
use crate::document::DocumentInput;
use crate::run::compare::{Strictness, same};
use crate::run::display::display;
use crate::run::elements::{Elements, from_document};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::{Evaluated, overflow_index};
use crate::value::{Date, DateKind, Names, OffsetDate, Text, Value};

/// `value.name`
#[inline]
pub(crate) fn of<'a>(value: &Value<'a>, name: &str, property: Option<Property>) -> Evaluated<'a> {
    match value {
        Value::Document(document) => of_document(document, name),
        Value::Object(object) => of_object(object, name, property),
        Value::Missing | Value::ExplicitNull => Ok(Value::Missing),
        other => of_other(other, name, property),
    }
}

fn of_document<'a>(document: &Rc<DocumentInput<'a>>, name: &str) -> Evaluated<'a> {
    match document.body.get(name)? {
        Some(blittable::Value::Object(_)) if name == "@metadata" => {
            Ok(Value::Metadata(Rc::clone(document)))
        }
        Some(value) => Ok(from_document(value)?),
        None => Ok(match name {
            "Id" | "@id" => Value::Text(Text::of_document(document.id)),
            "@metadata" => Value::Metadata(Rc::clone(document)),
            _ => Value::Missing,
        }),
    }
}

fn of_object<'a>(object: &Object<'a>, name: &str, property: Option<Property>) -> Evaluated<'a> {
    match object.get(name)? {
        Some(value) => Ok(from_document(value)?),
        None if property == Some(Property::Count) => Ok(Value::Integer(object.len() as i64)),
        None => Ok(Value::Missing),
    }
}

/// The metadata of a document: what the client sent, and what the server adds.
fn of_metadata<'a>(document: &DocumentInput<'a>, name: &str) -> Evaluated<'a> {
    if let Some(metadata) = document.stored_metadata()
        && let Some(value) = metadata.get(name)?
    {
        return Ok(from_document(value)?);
    }
    Ok(match name {
        "@id" => Value::Text(Text::of_document(document.id)),
        "@change-vector" => Value::Text(Text::of_document(document.change_vector)),
        "@last-modified" => {
            Value::Date(Date { ticks: document.last_modified_ticks, kind: DateKind::Utc })
        }
        _ => Value::Missing,
    })
}

#[inline(never)]
fn of_other<'a>(value: &Value<'a>, name: &str, property: Option<Property>) -> Evaluated<'a> {
    let found = match value {
        Value::Metadata(document) => return of_metadata(document, name),
        Value::Record(record) => match record.get(name) {
            None if matches!(record.names, Names::Dynamic(_) | Names::Attachment) => {
                return Ok(Value::Missing);
            }
            found => found.cloned(),
        },
        Value::Null => {
            let message = format!("'{name}' is read from null");
            return Err(Fault::new(EvaluationErrorKind::NullReference, message));
        }
        _ => match property {
            Some(property) => known_property(value, property)?,
            None => None,
        },
    };
    found.ok_or_else(|| no_such(value, name))
}

#[cold]
pub(crate) fn no_such(value: &Value<'_>, name: &str) -> Fault {
    let message = format!("a {} has no '{name}'", value.type_name());
    Fault::new(EvaluationErrorKind::NoSuchMember, message)
}

fn known_property<'a>(value: &Value<'a>, property: Property) -> Result<Option<Value<'a>>, Fault> {
    Ok(match value {
        Value::Text(text) if property == Property::Length => {
            Some(Value::Integer(text.encode_utf16().count() as i64))
        }
        Value::Date(date) => date_property(*date, property),
        Value::OffsetDate(date) => offset_date_property(*date, property),
        Value::Span(ticks) => span_property(*ticks, property),
        Value::Array(_) | Value::List(_) | Value::Dictionary(_) => match property {
            Property::Count | Property::Length => {
                Some(Value::Integer(Elements::of(value)?.remaining() as i64))
            }
            Property::Keys | Property::Values => dictionary_part(value, property),
            _ => None,
        },
        Value::Group(group) if property == Property::Key => Some(group.key.clone()),
        _ => None,
    })
}

fn dictionary_part<'a>(value: &Value<'a>, property: Property) -> Option<Value<'a>> {
    let Value::Dictionary(dictionary) = value else { return None };
    let part = dictionary.entries.iter().map(|(key, value)| match property {
        Property::Keys => key.clone(),
        _ => value.clone(),
    });
    Some(Value::list(part.collect()))
}

fn date_property<'a>(date: Date, property: Property) -> Option<Value<'a>> {
    let calendar = date.calendar();
    let time = date.time_of_day();
    Some(Value::Integer(match property {
        Property::Year => calendar.year,
        Property::Month => calendar.month,
        Property::Day => calendar.day,
        Property::Hour => time / TICKS_PER_HOUR,
        Property::Minute => time / TICKS_PER_MINUTE % 60,
        Property::Second => time / TICKS_PER_SECOND % 60,
        Property::Millisecond => time / TICKS_PER_MILLISECOND % 1000,
        Property::Ticks => date.ticks,
        Property::DayOfYear => date.day_of_year(),
        Property::DayOfWeek => return Some(Value::DayOfWeek(date.day_of_week() as u8)),
        Property::TimeOfDay => return Some(Value::Span(time)),
        Property::Date => return Some(Value::Date(Date { ticks: date.ticks - time, ..date })),
        Property::Kind => {
            let kind = if date.kind == DateKind::Utc { "Utc" } else { "Unspecified" };
            return Some(Value::Text(Text::constant(kind)));
        }
        _ => return None,
    }))
}

fn offset_date_property<'a>(date: OffsetDate, property: Property) -> Option<Value<'a>> {
    let clock = Date { ticks: date.clock_ticks, kind: DateKind::Unspecified };
    match property {
        Property::UtcDateTime => {
            Some(Value::Date(Date { ticks: date.utc_ticks(), kind: DateKind::Utc }))
        }
        Property::DateTime | Property::LocalDateTime => Some(Value::Date(clock)),
        Property::Offset => Some(Value::Span(i64::from(date.offset_minutes) * TICKS_PER_MINUTE)),
        Property::Kind => None,
        _ => date_property(clock, property),
    }
}

fn span_property<'a>(ticks: i64, property: Property) -> Option<Value<'a>> {
    let total = |unit: i64| Value::Double(ticks as f64 / unit as f64);
    Some(match property {
        Property::Ticks => Value::Integer(ticks),
        Property::Days => Value::Integer(ticks / TICKS_PER_DAY),
        Property::Hours => Value::Integer(ticks / TICKS_PER_HOUR % 24),
        Property::Minutes => Value::Integer(ticks / TICKS_PER_MINUTE % 60),
        Property::Seconds => Value::Integer(ticks / TICKS_PER_SECOND % 60),
        Property::Milliseconds => Value::Integer(ticks / TICKS_PER_MILLISECOND % 1000),
        Property::TotalDays => total(TICKS_PER_DAY),
        Property::TotalHours => total(TICKS_PER_HOUR),
        Property::TotalMinutes => total(TICKS_PER_MINUTE),
        Property::TotalSeconds => total(TICKS_PER_SECOND),
        Property::TotalMilliseconds => total(TICKS_PER_MILLISECOND),
        _ => return None,
    })
}

/// `value[index]`
pub(crate) fn at_index<'a>(value: &Value<'a>, index: &Value<'a>) -> Evaluated<'a> {
    match value {
        // An explicit null stays null when indexed by a name or number.
        Value::Missing | Value::ExplicitNull => Ok(value.clone()),
        Value::Null => Err(Fault::new(EvaluationErrorKind::NullReference, "an index of null")),
        Value::Document(_) | Value::Object(_) | Value::Metadata(_) | Value::Record(_) => {
            let Value::Text(name) = index else {
                let message = format!("an object is indexed by name, not by {}", index.type_name());
                return Err(Fault::new(EvaluationErrorKind::InvalidCast, message));
            };
            of(value, name, None)
        }
        Value::Dictionary(dictionary) => {
            let entry =
                dictionary.entries.iter().find(|(key, _)| same(key, index, Strictness::Origin));
            match entry {
                Some((_, value)) => Ok(value.clone()),
                None => {
                    let message = format!("the dictionary has no key '{}'", display(index)?);
                    Err(Fault::new(EvaluationErrorKind::KeyNotFound, message))
                }
            }
        }
        Value::Array(_) | Value::List(_) | Value::Group(_) => element_at(value, index),
        Value::Text(text) => character_at(text, index),
        other => {
            let message = format!("a {} has no index", other.type_name());
            Err(Fault::new(EvaluationErrorKind::NoSuchMember, message))
        }
    }
}

/// An integer that is used as an index.
pub(crate) fn position(index: &Value<'_>) -> Result<usize, Fault> {
    match index {
        Value::Integer(index) => usize::try_from(*index).map_err(|_| overflow_index()),
        Value::Missing | Value::ExplicitNull => Ok(0),
        other => {
            let message = format!("a {} is not an index", other.type_name());
            Err(Fault::new(EvaluationErrorKind::InvalidArgument, message))
        }
    }
}

fn element_at<'a>(value: &Value<'a>, index: &Value<'a>) -> Evaluated<'a> {
    let mut elements = Elements::of(value)?;
    elements.pass_over(position(index)?);
    elements.next().unwrap_or_else(|| Err(overflow_index()))
}

/// Indexing a string yields a character, indexing a document's text the number of a byte.
fn character_at<'a>(text: &Text<'a>, index: &Value<'a>) -> Evaluated<'a> {
    let position = position(index)?;
    if text.is_from_document() {
        let byte = text.as_bytes().get(position).copied().ok_or_else(overflow_index)?;
        return Ok(Value::Integer(i64::from(byte)));
    }
    text.chars().nth(position).map(Value::Char).ok_or_else(overflow_index)
}
