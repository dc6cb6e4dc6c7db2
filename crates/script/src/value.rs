//! Results of scripts: plain values that outlive the engine's memory.
//!
//! Nothing here touches JavaScript; `convert` creates them from it, and [`ScriptValue::write_json`]
//! or [`ScriptValue::put_into`] turn them into JSON or documents. Invariant: parts of documents
//! that the script did not change are kept as they are stored, with the text of their numbers.

use std::rc::Rc;

use blittable::{
    BlittableBuf, BuildError, Corrupt, Item, ObjectBuilder, Value, write_json, write_json_string,
};

use crate::date::date_text;
use crate::number::{double_text, whole};
use crate::source::Source;

/// The properties of an object, in their order.
pub type Properties = Vec<(Rc<str>, ScriptValue)>;

/// A value that a script computed.
#[derive(Clone, Debug)]
pub enum ScriptValue {
    /// `undefined`; a symbol without meaning in JSON becomes it too.
    Undefined,
    /// `null`, and what becomes null: functions, and an object inside of itself.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number without fraction inside of 64 bits.
    Integer(i64),
    /// The text of a document's number that the script did not change.
    Number(Rc<str>),
    /// Any other number, including NaN and the infinities.
    Double(f64),
    /// A string.
    String(Rc<str>),
    /// A `Date`, in milliseconds since 1970 UTC; never NaN.
    Date(f64),
    /// An array; holes are left out.
    Array(Vec<ScriptValue>),
    /// An object, in the order of its properties.
    Object(Properties),
    /// An object of a document, as it is stored.
    Stored(StoredObject),
}

/// An object inside of a document, kept alive with it.
#[derive(Clone, Debug)]
pub struct StoredObject {
    pub(crate) source: Rc<Source>,
    pub(crate) handle: blittable::ObjectHandle,
}

impl StoredObject {
    /// A view of it.
    pub fn view(&self) -> Result<blittable::Object<'_>, Corrupt> {
        self.source.document().object_at(self.handle)
    }

    /// Whether this is the document itself and not a part of it.
    pub fn is_root(&self) -> bool {
        self.source.document().root().handle() == self.handle
    }

    /// Its properties, in their order.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn properties(&self) -> Result<Properties, Corrupt> {
        let property = |property: Result<(&str, Value<'_>), Corrupt>| {
            let (name, value) = property?;
            Ok((Rc::from(name), ScriptValue::of_stored(&self.source, value)?))
        };
        self.view()?.iter().map(property).collect()
    }

    /// The id of the document, if it has one.
    pub fn document_id(&self) -> Option<&str> {
        self.source.id()
    }
}

impl ScriptValue {
    /// Whether this is `undefined` or `null`.
    pub fn is_absent(&self) -> bool {
        matches!(self, ScriptValue::Undefined | ScriptValue::Null)
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let ScriptValue::String(text) = self { Some(text) } else { None }
    }

    /// The number as a double, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            ScriptValue::Integer(value) => Some(*value as f64),
            ScriptValue::Double(value) => Some(*value),
            ScriptValue::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The property `name` of an object; `None` when it is missing or this is no object.
    pub fn get(&self, name: &str) -> Result<Option<ScriptValue>, Corrupt> {
        match self {
            ScriptValue::Object(properties) => {
                Ok(properties.iter().find(|(key, _)| &**key == name).map(|(_, v)| v.clone()))
            }
            ScriptValue::Stored(stored) => match stored.view()?.get(name)? {
                Some(value) => ScriptValue::of_stored(&stored.source, value).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The properties of an object in their order; `None` when this is none.
    pub fn into_properties(self) -> Result<Option<Properties>, Corrupt> {
        match self {
            ScriptValue::Object(properties) => Ok(Some(properties)),
            ScriptValue::Stored(stored) => stored.properties().map(Some),
            _ => Ok(None),
        }
    }

    /// A value of a document.
    pub(crate) fn of_stored(source: &Rc<Source>, value: Value<'_>) -> Result<Self, Corrupt> {
        Ok(match value {
            Value::Null => ScriptValue::Null,
            Value::Bool(value) => ScriptValue::Bool(value),
            Value::Integer(value) => ScriptValue::Integer(value),
            Value::Number(text) => ScriptValue::Number(Rc::from(text)),
            Value::String(text) => ScriptValue::String(Rc::from(&*text.as_cow()?)),
            Value::Array(array) => {
                let items = array.iter().map(|item| ScriptValue::of_stored(source, item?));
                ScriptValue::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(object) => ScriptValue::Stored(StoredObject {
                source: Rc::clone(source),
                handle: object.handle(),
            }),
        })
    }

    /// Appends it to `out` as compact JSON; `undefined` becomes null.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        match self {
            ScriptValue::Undefined | ScriptValue::Null => out.extend_from_slice(b"null"),
            ScriptValue::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            ScriptValue::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            ScriptValue::Number(text) => out.extend_from_slice(text.as_bytes()),
            ScriptValue::Double(value) => match Printed::of(*value) {
                Printed::Number(text) => out.extend_from_slice(text.as_bytes()),
                Printed::Word(word) => write_json_string(word, out),
            },
            ScriptValue::String(text) => write_json_string(text, out),
            ScriptValue::Date(millis) => write_json_string(&date_text(*millis), out),
            ScriptValue::Array(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write_json(out)?;
                }
                out.push(b']');
            }
            ScriptValue::Object(properties) => {
                out.push(b'{');
                for (index, (name, value)) in properties.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_json_string(name, out);
                    out.push(b':');
                    value.write_json(out)?;
                }
                out.push(b'}');
            }
            ScriptValue::Stored(stored) => write_json(&Value::Object(stored.view()?), out)?,
        }
        Ok(())
    }

    /// The compact JSON text.
    pub fn to_json(&self) -> Result<String, Corrupt> {
        let mut out = Vec::new();
        self.write_json(&mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Adds it as property `name` of the builder's innermost object; `undefined` becomes null.
    pub fn put_into(&self, name: &str, builder: &mut ObjectBuilder) -> Result<(), Corrupt> {
        self.place(Place::Property(name), builder)
    }

    /// Converts an object to a document; `None` when this is not an object. Top-level properties
    /// that are `undefined` become null, too: callers that want to omit them remove them first.
    pub fn to_document(&self) -> Result<Option<BlittableBuf>, BuildError> {
        if let ScriptValue::Stored(stored) = self
            && stored.is_root()
        {
            return Ok(Some(stored.source.document().to_buf()));
        }
        let Some(properties) = self.clone().into_properties()? else { return Ok(None) };
        let mut builder = ObjectBuilder::new();
        for (name, value) in &properties {
            value.put_into(name, &mut builder)?;
        }
        Ok(Some(builder.finish()?))
    }

    fn place(&self, place: Place<'_>, builder: &mut ObjectBuilder) -> Result<(), Corrupt> {
        match self {
            ScriptValue::Undefined | ScriptValue::Null => place.put(Item::Null, builder),
            ScriptValue::Bool(value) => place.put(Item::Bool(*value), builder),
            ScriptValue::Integer(value) => place.put(Item::Integer(*value), builder),
            ScriptValue::Number(text) => place.put(Item::Number(text), builder),
            ScriptValue::Double(value) => match Printed::of(*value) {
                Printed::Number(text) => place.put(Item::Number(&text), builder),
                Printed::Word(word) => place.put(Item::String(word), builder),
            },
            ScriptValue::String(text) => place.put(Item::String(text), builder),
            ScriptValue::Date(millis) => place.put(Item::String(&date_text(*millis)), builder),
            ScriptValue::Array(items) => {
                match place {
                    Place::Property(name) => builder.begin_array(name),
                    Place::Element => builder.push_array(),
                };
                for item in items {
                    item.place(Place::Element, builder)?;
                }
                builder.end();
            }
            ScriptValue::Object(properties) => {
                match place {
                    Place::Property(name) => builder.begin_object(name),
                    Place::Element => builder.push_object(),
                };
                for (name, value) in properties {
                    value.place(Place::Property(name), builder)?;
                }
                builder.end();
            }
            ScriptValue::Stored(stored) => {
                place.put(Item::Copy(Value::Object(stored.view()?)), builder);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Property(&'a str),
    Element,
}

impl Place<'_> {
    fn put(self, item: Item<'_>, builder: &mut ObjectBuilder) {
        match self {
            Place::Property(name) => builder.put(name, item),
            Place::Element => builder.push(item),
        };
    }
}

/// A double in JSON.
enum Printed {
    Number(String),
    Word(&'static str),
}

impl Printed {
    fn of(value: f64) -> Printed {
        if value.is_nan() {
            Printed::Word("NaN")
        } else if value.is_infinite() {
            Printed::Word(if value > 0.0 { "Infinity" } else { "-Infinity" })
        } else if let Some(integer) = whole(value) {
            Printed::Number(integer.to_string())
        } else {
            Printed::Number(double_text(value))
        }
    }
}
