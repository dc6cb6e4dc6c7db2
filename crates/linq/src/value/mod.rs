//! Values during and after an evaluation.
//!
//! Values of a document borrow from it; values created by the definition are reference-counted, so
//! that cloning never copies a text or a sequence. Values stay on the thread that created them.

pub(crate) mod live;
mod text;
mod write;

use std::rc::Rc;

use blittable::{Array, Object};
use rust_decimal::Decimal;

pub use dotnet::date::{Date, DateKind, OffsetDate};
pub use text::Text;
pub use write::{ValueBuildError, put_value};

use crate::document::DocumentInput;
use crate::value::live::Counted;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A property that is not there, or anything reached through one: an index has no field for it.
    Missing,
    /// A property that is null: an index writes its null term.
    ExplicitNull,
    /// The null of C#: an index writes its null term.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of any width.
    Integer(i64),
    /// A double.
    Double(f64),
    /// A number of a document that is no plain 64-bit integer, in its own digits.
    Number(&'a str),
    /// A decimal, trailing zeros kept.
    Decimal(Decimal),
    /// A character.
    Char(char),
    /// A text.
    Text(Text<'a>),
    /// A moment, often a document's text that reads as one.
    Date(Date),
    /// A moment with its distance from UTC.
    OffsetDate(OffsetDate),
    /// A duration in ticks of 100 ns.
    Span(i64),
    /// An array of a document.
    Array(Array<'a>),
    /// An object within a document.
    Object(Object<'a>),
    /// A whole document.
    Document(Rc<DocumentInput<'a>>),
    /// A sequence created by the definition.
    List(Rc<List<'a>>),
    /// The metadata of a whole document.
    Metadata(Rc<DocumentInput<'a>>),
    /// A day of the week, 0 being Sunday; an index writes its name.
    DayOfWeek(u8),
    /// An anonymous object.
    Record(Rc<Record<'a>>),
    /// A dictionary created by the definition.
    Dictionary(Rc<Dictionary<'a>>),
    /// One group of a grouping.
    Group(Rc<Group<'a>>),
    /// The result of `CreateField`.
    Field(Rc<CreatedField<'a>>),
    /// The result of `CreateSpatialField`.
    Spatial(Rc<SpatialValue<'a>>),
    /// The result of `.Boost`.
    Boosted(Rc<Boosted<'a>>),
}

/// A sequence created by the definition.
#[derive(Clone, Debug)]
pub struct List<'a> {
    /// The elements.
    pub items: Vec<Value<'a>>,
    /// A plain array, list or sequence of .NET, which has fewer methods than a document's array
    /// where its type is only known at run time.
    pub(crate) kind: ListKind,
    depth: u16,
    _counted: Counted,
}

/// What a sequence is to .NET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Has every method, whatever is known of its type.
    Dynamic,
    /// An array of objects, or a list: behaves as [`ListKind::Dynamic`], except for its name.
    Objects,
    /// An array of strings or characters.
    Plain,
}

/// An anonymous object.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub(crate) names: Names<'a>,
    pub(crate) values: Vec<Value<'a>>,
    depth: u16,
    _counted: Counted,
}

/// The names of an anonymous object's properties.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names<'a> {
    /// Those of the definition.
    Definition(&'a [Box<str>]),
    /// Those of an object built by the server.
    Fixed(&'static [&'static str]),
    /// Those of an object of the database; all other fields are missing.
    Dynamic(&'static [&'static str]),
    /// Those of an attachment; all other fields are missing.
    Attachment,
    /// `Item1` and so on, which can be read but are not listed.
    Tuple,
}

/// The properties of an attachment.
const ATTACHMENT: &[&str] = &["Name", "ContentType", "Hash", "Size"];

impl<'a> Names<'a> {
    fn position(self, name: &str) -> Option<usize> {
        match self {
            Names::Definition(names) => names.iter().position(|own| **own == *name),
            Names::Fixed(names) | Names::Dynamic(names) => {
                names.iter().position(|own| *own == name)
            }
            Names::Attachment => ATTACHMENT.iter().position(|own| *own == name),
            Names::Tuple => name.strip_prefix("Item")?.parse::<usize>().ok()?.checked_sub(1),
        }
    }

    fn at(self, index: usize) -> &'a str {
        match self {
            Names::Definition(names) => names.get(index).map(|name| &**name),
            Names::Fixed(names) | Names::Dynamic(names) => names.get(index).copied(),
            Names::Attachment => ATTACHMENT.get(index).copied(),
            Names::Tuple => None,
        }
        .unwrap_or_default()
    }
}

impl<'a> Record<'a> {
    /// The value of the property `name`.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.values.get(self.names.position(name)?)
    }

    /// Names and values in the order of the definition.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &Value<'a>)> {
        let shown = match self.names {
            Names::Tuple => &[],
            Names::Definition(_) | Names::Fixed(_) | Names::Dynamic(_) | Names::Attachment => {
                self.values.as_slice()
            }
        };
        shown.iter().enumerate().map(|(index, value)| (self.names.at(index), value))
    }
}

/// A dictionary created by the definition, in the order of its keys' first appearance.
#[derive(Clone, Debug)]
pub struct Dictionary<'a> {
    /// Keys and values.
    pub entries: Vec<(Value<'a>, Value<'a>)>,
    depth: u16,
    _counted: Counted,
}

/// One group of a grouping.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What its items have in common.
    pub key: Value<'a>,
    /// The items, in their order.
    pub items: Vec<Value<'a>>,
    depth: u16,
    _counted: Counted,
}

/// How a field created by `CreateField` is to be indexed; `None` where not specified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreatedFieldOptions {
    /// Store the value in addition to the terms.
    pub stored: Option<bool>,
    /// How it becomes terms.
    pub indexing: Option<FieldIndexing>,
    /// What is stored of the positions of its terms.
    pub term_vector: Option<FieldTermVector>,
}

/// How a value becomes terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldIndexing {
    /// Not at all.
    No,
    /// With the search analyzer.
    Search,
    /// As one term, unchanged.
    Exact,
    /// As for search, and with all that highlighting needs.
    Highlighting,
    /// With the default analyzer.
    Default,
}

/// What is stored of the positions of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTermVector {
    /// Nothing.
    No,
    /// The terms.
    Yes,
    /// And their positions.
    WithPositions,
    /// And their offsets.
    WithOffsets,
    /// And both.
    WithPositionsAndOffsets,
}

/// A field whose name the document decides.
#[derive(Clone, Debug)]
pub struct CreatedField<'a> {
    /// The name of the field.
    pub name: Text<'a>,
    /// Its value.
    pub value: Value<'a>,
    /// How to index it.
    pub options: CreatedFieldOptions,
    depth: u16,
}

/// The value of a spatial field.
#[derive(Clone, Debug)]
pub enum SpatialValue<'a> {
    /// A point; `None` when a coordinate is null, so there is nothing to index.
    Point(Option<(f64, f64)>),
    /// A shape as text; null indexes nothing.
    Shape(Value<'a>),
}

/// A value with a boost.
#[derive(Clone, Debug)]
pub struct Boosted<'a> {
    /// The value.
    pub value: Value<'a>,
    /// How much more.
    pub factor: f64,
    depth: u16,
}

/// The depth of a container of these values.
fn depth_around<'v, 'a: 'v>(values: impl IntoIterator<Item = &'v Value<'a>>) -> u16 {
    let deepest = values.into_iter().map(Value::depth).max().unwrap_or_default();
    deepest.saturating_add(1)
}

impl<'a> Value<'a> {
    /// Whether this is any kind of null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Missing | Value::ExplicitNull | Value::Null)
    }

    /// Whether this is the null of a document: missing or explicit.
    pub(crate) fn is_dynamic_null(&self) -> bool {
        matches!(self, Value::Missing | Value::ExplicitNull)
    }

    /// A text created by the definition.
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Value<'a> {
        Value::Text(Text::shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::list_of(ListKind::Dynamic, items)
    }

    pub(crate) fn list_of(kind: ListKind, items: Vec<Value<'a>>) -> Value<'a> {
        let (depth, _counted) = (depth_around(&items), Counted::elements::<Value<'_>>(items.len()));
        Value::List(Rc::new(List { items, kind, depth, _counted }))
    }

    pub(crate) fn record(names: Names<'a>, values: Vec<Value<'a>>) -> Value<'a> {
        let depth = depth_around(&values);
        let _counted = Counted::elements::<Value<'_>>(values.len());
        Value::Record(Rc::new(Record { names, values, depth, _counted }))
    }

    pub(crate) fn dictionary(entries: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        let depth = depth_around(entries.iter().flat_map(|(key, value)| [key, value]));
        let _counted = Counted::elements::<(Value<'_>, Value<'_>)>(entries.len());
        Value::Dictionary(Rc::new(Dictionary { entries, depth, _counted }))
    }

    pub(crate) fn group(key: Value<'a>, items: Vec<Value<'a>>) -> Value<'a> {
        let depth = depth_around(items.iter().chain([&key]));
        let _counted = Counted::elements::<Value<'_>>(items.len());
        Value::Group(Rc::new(Group { key, items, depth, _counted }))
    }

    pub(crate) fn field(
        name: Text<'a>,
        value: Value<'a>,
        options: CreatedFieldOptions,
    ) -> Value<'a> {
        let depth = depth_around([&value]);
        Value::Field(Rc::new(CreatedField { name, value, options, depth }))
    }

    pub(crate) fn boosted(value: Value<'a>, factor: f64) -> Value<'a> {
        let depth = depth_around([&value]);
        Value::Boosted(Rc::new(Boosted { value, factor, depth }))
    }

    /// How deeply containers created by the definition are nested here.
    pub(crate) fn depth(&self) -> u16 {
        match self {
            Value::List(list) => list.depth,
            Value::Record(record) => record.depth,
            Value::Dictionary(dictionary) => dictionary.depth,
            Value::Group(group) => group.depth,
            Value::Field(field) => field.depth,
            Value::Boosted(boosted) => boosted.depth,
            Value::Spatial(spatial) => match &**spatial {
                SpatialValue::Shape(value) => depth_around([value]),
                SpatialValue::Point(_) => 0,
            },
            _ => 0,
        }
    }

    /// The object of a document, when this is one, metadata among them.
    pub fn as_object(&self) -> Option<Object<'a>> {
        match self {
            Value::Object(object) => Some(*object),
            Value::Document(document) => Some(document.body),
            Value::Metadata(document) => document.stored_metadata(),
            _ => None,
        }
    }

    /// The name of the type in messages about operands.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Missing | Value::ExplicitNull => "missing or null",
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Integer(_) => "long",
            Value::Double(_) => "double",
            Value::Number(_) => "number",
            Value::Decimal(_) => "decimal",
            Value::Char(_) => "char",
            Value::Text(_) => "string",
            Value::Date(_) => "DateTime",
            Value::OffsetDate(_) => "DateTimeOffset",
            Value::Span(_) => "TimeSpan",
            Value::Array(_) | Value::List(_) => "array",
            Value::Object(_) | Value::Document(_) | Value::Metadata(_) | Value::Record(_) => {
                "object"
            }
            Value::DayOfWeek(_) => "DayOfWeek",
            Value::Dictionary(_) => "dictionary",
            Value::Group(_) => "group",
            Value::Field(_) => "created field",
            Value::Spatial(_) => "spatial field",
            Value::Boosted(_) => "boosted value",
        }
    }
}
