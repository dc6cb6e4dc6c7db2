//! Values written into a document: values stored along with an index, and input of a reduce.

use std::fmt;

use blittable::{Corrupt, Item, ObjectBuilder};
use dotnet::{date_format, number::double_text};

use crate::limits::VALUE_DEPTH_MAX;
use crate::value::Value;

/// A value could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueBuildError {
    /// Nested too deeply.
    TooDeep,
    /// The document it comes from is damaged.
    Corrupt(Corrupt),
}

impl fmt::Display for ValueBuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueBuildError::TooDeep => write!(out, "the value is nested too deeply"),
            ValueBuildError::Corrupt(corrupt) => corrupt.fmt(out),
        }
    }
}

impl std::error::Error for ValueBuildError {}

impl From<Corrupt> for ValueBuildError {
    fn from(corrupt: Corrupt) -> Self {
        ValueBuildError::Corrupt(corrupt)
    }
}

/// Puts `value` as the property `name` of the innermost object. Nulls of any kind become null,
/// moments and durations their texts, decimals and doubles their digits.
pub fn put_value(
    builder: &mut ObjectBuilder,
    name: &str,
    value: &Value<'_>,
) -> Result<(), ValueBuildError> {
    Writer { builder }.write(Place::Property(name), value, 0)
}

#[derive(Clone, Copy)]
enum Place<'n> {
    Property(&'n str),
    Element,
}

struct Writer<'b> {
    builder: &'b mut ObjectBuilder,
}

impl Writer<'_> {
    fn item(&mut self, place: Place<'_>, item: Item<'_>) {
        match place {
            Place::Property(name) => self.builder.put(name, item),
            Place::Element => self.builder.push(item),
        };
    }

    fn begin_object(&mut self, place: Place<'_>) {
        match place {
            Place::Property(name) => self.builder.begin_object(name),
            Place::Element => self.builder.push_object(),
        };
    }

    fn text(&mut self, place: Place<'_>, text: &str) {
        self.item(place, Item::String(text));
    }

    fn write(
        &mut self,
        place: Place<'_>,
        value: &Value<'_>,
        depth: u16,
    ) -> Result<(), ValueBuildError> {
        if VALUE_DEPTH_MAX < depth {
            return Err(ValueBuildError::TooDeep);
        }
        match value {
            Value::Missing | Value::ExplicitNull | Value::Null => self.item(place, Item::Null),
            Value::Bool(value) => self.item(place, Item::Bool(*value)),
            Value::Integer(value) => self.item(place, Item::Integer(*value)),
            Value::Double(value) if value.is_finite() => {
                self.item(place, Item::Number(&json_digits(*value)));
            }
            Value::Double(value) => self.item(place, Item::Double(*value)),
            Value::Number(digits) => self.item(place, Item::Number(digits)),
            Value::Decimal(value) => self.item(place, Item::Number(&value.to_string())),
            Value::Char(value) => self.text(place, value.encode_utf8(&mut [0; 4])),
            Value::Text(value) => self.text(place, value),
            Value::Date(date) => self.text(place, &date_format::index_text(*date)),
            Value::OffsetDate(date) => {
                let text = date_format::format_offset_date(*date, "o").unwrap_or_default();
                self.text(place, &text);
            }
            Value::Span(ticks) => {
                self.text(place, &model::TimeSpan { ticks: *ticks }.to_string());
            }
            Value::Array(array) => {
                self.item(place, Item::Copy(blittable::Value::Array(*array)));
            }
            Value::Object(object) => {
                self.item(place, Item::Copy(blittable::Value::Object(*object)));
            }
            Value::Document(_) | Value::Metadata(_) => match value.as_object() {
                Some(object) => self.item(place, Item::Copy(blittable::Value::Object(object))),
                None => self.item(place, Item::EmptyObject),
            },
            Value::DayOfWeek(day) => self.text(place, date_format::day_name(i64::from(*day))),
            Value::List(list) => self.elements(place, &list.items, depth)?,
            Value::Group(group) => self.elements(place, &group.items, depth)?,
            Value::Record(record) => {
                self.begin_object(place);
                for (name, value) in record.iter() {
                    self.write(Place::Property(name), value, depth + 1)?;
                }
                self.builder.end();
            }
            Value::Dictionary(dictionary) => {
                self.begin_object(place);
                for (key, value) in &dictionary.entries {
                    let name = crate::run::display::display(key)?;
                    self.write(Place::Property(&name), value, depth + 1)?;
                }
                self.builder.end();
            }
            Value::Field(field) => self.write(place, &field.value, depth + 1)?,
            Value::Boosted(boosted) => self.write(place, &boosted.value, depth + 1)?,
            Value::Spatial(_) => self.item(place, Item::Null),
        }
        Ok(())
    }

    fn elements(
        &mut self,
        place: Place<'_>,
        items: &[Value<'_>],
        depth: u16,
    ) -> Result<(), ValueBuildError> {
        match place {
            Place::Property(name) => self.builder.begin_array(name),
            Place::Element => self.builder.push_array(),
        };
        for item in items {
            self.write(Place::Element, item, depth + 1)?;
        }
        self.builder.end();
        Ok(())
    }
}

/// A double as digits that parse back as a double: a whole one keeps `.0`.
fn json_digits(value: f64) -> String {
    let text = double_text(value);
    match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        true => format!("{text}.0"),
        false => text,
    }
}
