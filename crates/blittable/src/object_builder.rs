//! Builds documents value by value.
//!
//! Mistakes (an end without a begin, an invalid number) are remembered and reported by
//! [`ObjectBuilder::finish`], so that the calls can be chained without a check after each.

use crate::copy::copy_value;
use crate::error::BuildError;
use crate::number::{NumberKind, parse_number};
use crate::string_scan::find_byte_to_escape;
use crate::view::{BlittableBuf, Value};
use crate::writer::{Container, Writer};

/// A value to put into a document.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// Any JSON number; its text is kept.
    Number(&'a str),
    /// A double; one that is not finite becomes the string `NaN`, `Infinity` or `-Infinity`.
    Double(f64),
    /// A string.
    String(&'a str),
    /// An object without properties.
    EmptyObject,
    /// An array without elements.
    EmptyArray,
    /// A value of another document, to be deep-copied.
    Copy(Value<'a>),
}

impl From<bool> for Item<'_> {
    fn from(value: bool) -> Self {
        Item::Bool(value)
    }
}

impl From<i64> for Item<'_> {
    fn from(value: i64) -> Self {
        Item::Integer(value)
    }
}

impl From<f64> for Item<'_> {
    fn from(value: f64) -> Self {
        Item::Double(value)
    }
}

impl<'a> From<&'a str> for Item<'a> {
    fn from(value: &'a str) -> Self {
        Item::String(value)
    }
}

impl<'a> From<&'a String> for Item<'a> {
    fn from(value: &'a String) -> Self {
        Item::String(value)
    }
}

impl<'a> From<Value<'a>> for Item<'a> {
    fn from(value: Value<'a>) -> Self {
        Item::Copy(value)
    }
}

impl<'a, T: Into<Item<'a>>> From<Option<T>> for Item<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Item::Null, Into::into)
    }
}

/// Builds a document; the root object has begun already.
///
/// A name that is set twice keeps the last value, at the last position.
///
/// ```
/// use blittable::ObjectBuilder;
///
/// let mut builder = ObjectBuilder::new();
/// builder.put("Name", "Oscar").put("Age", 4);
/// builder.begin_array("Tags").push("a").push(1.5).end();
/// builder.begin_object("@metadata").put("@collection", "Dogs").end();
/// let json = builder.finish()?.as_view().to_json()?;
/// assert_eq!(
///     String::from_utf8(json)?,
///     r#"{"Name":"Oscar","Age":4,"Tags":["a",1.5],"@metadata":{"@collection":"Dogs"}}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ObjectBuilder {
    writer: Writer,
    error: Option<BuildError>,
}

impl Default for ObjectBuilder {
    fn default() -> Self {
        ObjectBuilder::new()
    }
}

impl ObjectBuilder {
    /// A builder inside an empty root object.
    pub fn new() -> ObjectBuilder {
        let mut writer = Writer::new();
        writer.begin(Container::Object);
        ObjectBuilder { writer, error: None }
    }

    /// Adds a property to the innermost object.
    pub fn put<'a>(&mut self, name: &str, item: impl Into<Item<'a>>) -> &mut Self {
        if self.expect(Container::Object) {
            self.writer.name(name.as_bytes());
            self.write(item.into());
        }
        self
    }

    /// Adds an element to the innermost array.
    pub fn push<'a>(&mut self, item: impl Into<Item<'a>>) -> &mut Self {
        if self.expect(Container::Array) {
            self.write(item.into());
        }
        self
    }

    /// Begins an object as a property of the innermost object.
    pub fn begin_object(&mut self, name: &str) -> &mut Self {
        self.begin_named(name, Container::Object)
    }

    /// Begins an array as a property of the innermost object.
    pub fn begin_array(&mut self, name: &str) -> &mut Self {
        self.begin_named(name, Container::Array)
    }

    /// Begins an object as an element of the innermost array.
    pub fn push_object(&mut self) -> &mut Self {
        self.begin_element(Container::Object)
    }

    /// Begins an array as an element of the innermost array.
    pub fn push_array(&mut self) -> &mut Self {
        self.begin_element(Container::Array)
    }

    /// Ends the innermost object or array.
    pub fn end(&mut self) -> &mut Self {
        if self.writer.depth() > 1 {
            self.writer.end();
        } else {
            self.fail(BuildError::Unbalanced);
        }
        self
    }

    /// Ends the root and returns the document, or the first error. Afterwards the builder is inside
    /// a new empty root, so that its arenas can be reused.
    pub fn finish(&mut self) -> Result<BlittableBuf, BuildError> {
        if self.writer.depth() != 1 {
            self.fail(BuildError::Unbalanced);
        }
        let finished = match self.error.take() {
            Some(error) => Err(error),
            None => {
                self.writer.end();
                finish_writer(&mut self.writer)
            }
        };
        self.writer.reset();
        self.writer.begin(Container::Object);
        finished
    }

    fn begin_named(&mut self, name: &str, container: Container) -> &mut Self {
        if self.expect(Container::Object) {
            self.writer.name(name.as_bytes());
            self.writer.begin(container);
        }
        self
    }

    fn begin_element(&mut self, container: Container) -> &mut Self {
        if self.expect(Container::Array) {
            self.writer.begin(container);
        }
        self
    }

    fn expect(&mut self, container: Container) -> bool {
        if self.writer.innermost() != Some(container) {
            self.fail(BuildError::Unbalanced);
        }
        self.error.is_none()
    }

    fn write(&mut self, item: Item<'_>) {
        if let Err(error) = write_item(item, &mut self.writer) {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

/// Completes a document whose size was not bounded by the length of a JSON text.
pub(crate) fn finish_writer(writer: &mut Writer) -> Result<BlittableBuf, BuildError> {
    if u32::try_from(writer.bytes_with_names()).is_err() {
        return Err(BuildError::TooLarge);
    }
    Ok(BlittableBuf::from_writer(writer.finish()))
}

pub(crate) fn write_item(item: Item<'_>, writer: &mut Writer) -> Result<(), BuildError> {
    match item {
        Item::Null => writer.null(),
        Item::Bool(value) => writer.bool(value),
        Item::Integer(value) => writer.integer(value),
        Item::Number(text) => match parse_number(text) {
            Some(NumberKind::Integer(value)) => writer.integer(value),
            Some(NumberKind::Text) => writer.number(text.as_bytes()),
            None => return Err(BuildError::NotANumber),
        },
        Item::Double(value) => write_double(value, writer),
        Item::String(text) => {
            let needs_escape = find_byte_to_escape(text.as_bytes(), 0).is_some();
            writer.string(text.as_bytes(), needs_escape);
        }
        Item::EmptyObject => {
            writer.begin(Container::Object);
            writer.end();
        }
        Item::EmptyArray => {
            writer.begin(Container::Array);
            writer.end();
        }
        Item::Copy(value) => copy_value(&value, writer)?,
    }
    Ok(())
}

fn write_double(value: f64, writer: &mut Writer) {
    if value.is_nan() {
        writer.string(b"NaN", false);
    } else if value.is_infinite() {
        let word: &[u8] = if value > 0.0 { b"Infinity" } else { b"-Infinity" };
        writer.string(word, false);
    } else {
        // The debug format always has a fraction or an exponent, so the number stays a double.
        writer.number(format!("{value:?}").as_bytes());
    }
}
