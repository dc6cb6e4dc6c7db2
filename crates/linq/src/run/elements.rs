//! The elements of any sequence, one at a time and without copying the container.

use std::rc::Rc;

use blittable::{Array, Corrupt, Object};
use dotnet::date::{Recognised, recognise};

use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::value::{Dictionary, Group, List, Names, Text, Value};

const PAIR: &[&str] = &["Key", "Value"];

/// The elements of a sequence from some place on.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    holder: Holder<'a>,
    next: usize,
}

#[derive(Clone, Debug)]
enum Holder<'a> {
    Nothing,
    Array(Array<'a>),
    List(Rc<List<'a>>),
    Group(Rc<Group<'a>>),
    Object(Object<'a>),
    Dictionary(Rc<Dictionary<'a>>),
}

impl<'a> Elements<'a> {
    /// The elements of `value`: those of a sequence, the pairs of an object, none of a document's
    /// null.
    pub(crate) fn of(value: &Value<'a>) -> Result<Elements<'a>, Fault> {
        let holder = match value {
            Value::Missing | Value::ExplicitNull => Holder::Nothing,
            Value::Array(array) => Holder::Array(*array),
            Value::List(list) => Holder::List(Rc::clone(list)),
            Value::Group(group) => Holder::Group(Rc::clone(group)),
            Value::Object(_) | Value::Document(_) | Value::Metadata(_) => {
                value.as_object().map_or(Holder::Nothing, Holder::Object)
            }
            Value::Dictionary(dictionary) => Holder::Dictionary(Rc::clone(dictionary)),
            Value::Null => {
                let message = "null has no elements";
                return Err(Fault::new(EvaluationErrorKind::ArgumentNull, message));
            }
            _ => {
                let message = format!("a {} has no elements", value.type_name());
                return Err(Fault::new(EvaluationErrorKind::NotASequence, message));
            }
        };
        Ok(Elements { holder, next: 0 })
    }

    /// How many elements are left.
    pub(crate) fn remaining(&self) -> usize {
        let all = match &self.holder {
            Holder::Nothing => 0,
            Holder::Array(array) => array.len(),
            Holder::List(list) => list.items.len(),
            Holder::Group(group) => group.items.len(),
            Holder::Object(object) => object.len(),
            Holder::Dictionary(dictionary) => dictionary.entries.len(),
        };
        all.saturating_sub(self.next)
    }

    /// Leaves out the next `count` elements.
    pub(crate) fn pass_over(&mut self, count: usize) {
        self.next = self.next.saturating_add(count);
    }

    fn get(&self, index: usize) -> Result<Option<Value<'a>>, Corrupt> {
        Ok(match &self.holder {
            Holder::Nothing => None,
            Holder::Array(array) => array.get(index)?.map(from_document).transpose()?,
            Holder::List(list) => list.items.get(index).cloned(),
            Holder::Group(group) => group.items.get(index).cloned(),
            Holder::Object(object) => match object.at(index)? {
                Some((name, value)) => {
                    let name = Value::Text(Text::of_document(name));
                    Some(pair(name, from_document(value)?))
                }
                None => None,
            },
            Holder::Dictionary(dictionary) => {
                dictionary.entries.get(index).map(|(key, value)| pair(key.clone(), value.clone()))
            }
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = self.get(self.next).map_err(Fault::from).transpose();
        self.next += 1;
        element
    }
}

fn pair<'a>(key: Value<'a>, value: Value<'a>) -> Value<'a> {
    Value::record(Names::Fixed(PAIR), vec![key, value])
}

/// A value as it is read from a document: texts that parse as moments or durations are converted to
/// them.
#[inline]
pub(crate) fn from_document<'a>(value: blittable::Value<'a>) -> Result<Value<'a>, Corrupt> {
    Ok(match value {
        blittable::Value::Null => Value::ExplicitNull,
        blittable::Value::Bool(value) => Value::Bool(value),
        blittable::Value::Integer(value) => Value::Integer(value),
        blittable::Value::Number(digits) => Value::Number(digits),
        blittable::Value::String(text) => match text.as_cow()? {
            std::borrow::Cow::Borrowed(text) => text_of_document(text),
            std::borrow::Cow::Owned(text) => Value::Text(Text::unpacked(text)),
        },
        blittable::Value::Array(array) => Value::Array(array),
        blittable::Value::Object(object) => Value::Object(object),
    })
}

#[inline]
fn text_of_document(text: &str) -> Value<'_> {
    match recognise(text) {
        None => Value::Text(Text::of_document(text)),
        Some(recognised) => recognised_value(recognised),
    }
}

pub(crate) fn recognised_value<'a>(recognised: Recognised) -> Value<'a> {
    match recognised {
        Recognised::Date(date) => Value::Date(date),
        Recognised::OffsetDate(date) => Value::OffsetDate(date),
        Recognised::Span(ticks) => Value::Span(ticks),
    }
}
