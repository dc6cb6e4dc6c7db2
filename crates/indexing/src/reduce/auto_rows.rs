//! The rows that an automatic index creates for a document: one for each group that it belongs to,
//! with its contribution.
//!
//! Where several keys are in arrays, their elements are paired by position, and the last element of
//! a shorter array is repeated. An empty array yields no rows; a missing array is null. A sum along
//! the array of a key takes the number at the position of the key's element.

use blittable::{BlittableBuf, Item, ObjectBuilder, Value};
use documents::{DocumentError, DocumentRow, FieldPath, FieldStep, Found};

use super::{MappedRows, auto_sum::Sum, key::ReduceKey};
use crate::{
    auto_grouping::{Aggregate, ArrayGroups, AutoGrouping, GroupKey},
    auto_map::kept_metadata,
    index_value::IndexValue,
    mapper::MapError,
};

/// The maximum depth of nested arrays in a key; deeper values count as null.
const NESTED_ARRAYS_MAX: u32 = 64;

/// How the rows of a document are computed.
pub(super) struct AutoRows {
    keys: Vec<KeyPath>,
    aggregates: Vec<AggregatePath>,
}

struct KeyPath {
    name: String,
    path: FieldPath,
    arrays: ArrayGroups,
}

struct AggregatePath {
    name: String,
    /// The values to sum; `None` counts.
    path: Option<FieldPath>,
    /// The key whose array the path goes through.
    along_key: Option<usize>,
}

impl AutoRows {
    pub(super) fn new(grouping: &AutoGrouping) -> Self {
        let keys: Vec<_> = grouping.keys().iter().map(KeyPath::of).collect();
        let aggregates = grouping.aggregates().iter().map(|aggregate| {
            let path = match aggregate {
                Aggregate::Count => None,
                Aggregate::Sum(path) => Some(FieldPath::parse(path)),
            };
            let array = path.as_ref().and_then(array_of);
            let along_key = keys.iter().position(|key| {
                let is_elements = key.arrays == ArrayGroups::Elements;
                is_elements && array.is_some() && array_of(&key.path) == array
            });
            AggregatePath { name: aggregate.name().to_owned(), path, along_key }
        });
        let aggregates = aggregates.collect();
        Self { keys, aggregates }
    }

    /// The names of the keys, in row order.
    pub(super) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    /// Adds the rows of a document.
    pub(super) fn map(
        &self,
        document: &DocumentRow<'_>,
        rows: &mut MappedRows,
    ) -> Result<(), MapError> {
        let keys: Vec<Vec<Part<'_>>> =
            self.keys.iter().map(|key| key.groups(document)).collect::<Result<_, _>>()?;
        if keys.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let count = keys.iter().map(Vec::len).max().unwrap_or_default();
        let sums: Vec<Vec<Sum<'_>>> = self
            .aggregates
            .iter()
            .map(|aggregate| aggregate.sums(document, &keys))
            .collect::<Result<_, _>>()?;
        for at in 0..count {
            let row = self.row(at, &keys, &sums)?;
            let root = row.as_view().root();
            let values: Vec<_> = self.key_names().map(|name| root.get(name)).collect();
            let values: Vec<_> =
                values.into_iter().collect::<Result<_, _>>().map_err(DocumentError::from)?;
            rows.push(ReduceKey::of(values).map_err(DocumentError::from)?, row)?;
        }
        Ok(())
    }

    fn row(
        &self,
        at: usize,
        keys: &[Vec<Part<'_>>],
        sums: &[Vec<Sum<'_>>],
    ) -> Result<BlittableBuf, MapError> {
        let mut builder = ObjectBuilder::new();
        for (key, values) in self.keys.iter().zip(keys) {
            values[at.min(values.len() - 1)].put(&key.name, &mut builder);
        }
        for (aggregate, sums) in self.aggregates.iter().zip(sums) {
            match sums.get(at.min(sums.len().saturating_sub(1))) {
                Some(sum) => sum.put(&aggregate.name, &mut builder),
                None => drop(builder.put(&aggregate.name, 1)),
            }
        }
        let refused = |error: blittable::BuildError| {
            let message = format!("The document cannot be grouped: {error}");
            MapError::Document { message }
        };
        builder.finish().map_err(refused)
    }
}

/// The array that a path goes through, if any.
fn array_of(path: &FieldPath) -> Option<&[FieldStep]> {
    let mut arrays = path.steps().iter().enumerate().filter(|(_, step)| **step == FieldStep::Each);
    let (at, _) = arrays.next()?;
    arrays.next().is_none().then(|| &path.steps()[..at])
}

impl KeyPath {
    fn of(key: &GroupKey) -> Self {
        let path = match key.is_quoted {
            true => FieldPath::new(vec![FieldStep::Member(key.path.clone())]),
            false => FieldPath::parse(&key.path),
        };
        Self { name: key.path.clone(), path, arrays: key.arrays }
    }

    /// The values of a document, each of which is a group.
    fn groups<'d>(&self, document: &'d DocumentRow<'_>) -> Result<Vec<Part<'d>>, MapError> {
        if let Some(value) = kept_metadata(document, &self.path)? {
            return Ok(vec![Part::of_kept(value)]);
        }
        let found = self.path.find(document.body()?.root()).map_err(DocumentError::from)?;
        match (self.arrays, found) {
            (ArrayGroups::Elements, Found::List(list)) => {
                list.into_iter().map(|found| Ok(Part::of(found, 0)?)).collect()
            }
            (_, found) => Ok(vec![Part::of(found, 0)?]),
        }
    }
}

impl AggregatePath {
    /// The contribution of each row, or one for all; empty for a count.
    fn sums<'d>(
        &self,
        document: &'d DocumentRow<'_>,
        keys: &[Vec<Part<'_>>],
    ) -> Result<Vec<Sum<'d>>, MapError> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        let found = path.find(document.body()?.root()).map_err(DocumentError::from)?;
        let rows = self.along_key.map(|key| keys[key].len());
        Ok(match found {
            Found::List(list) if rows == Some(list.len()) => {
                list.iter().map(Sum::of).collect::<Result<_, _>>().map_err(DocumentError::from)?
            }
            found => vec![Sum::of(&found).map_err(DocumentError::from)?],
        })
    }
}

/// A value of a key, as results show it.
enum Part<'d> {
    Value(Value<'d>),
    /// A date in its canonical form, or the digits of a number.
    Text(String),
    Number(String),
    Length(usize),
    List(Vec<Part<'d>>),
}

impl<'d> Part<'d> {
    fn of(found: Found<'d>, depth: u32) -> Result<Self, DocumentError> {
        Ok(match found {
            Found::Missing => Self::Value(Value::Null),
            Found::Length(length) => Self::Length(length),
            Found::One(Value::String(text)) => match IndexValue::of_text(text.as_cow()?) {
                IndexValue::Time { text, .. } => Self::Text(text.into_owned()),
                _ => Self::Value(Value::String(text)),
            },
            Found::One(Value::Number(digits)) => Self::Number(number_text(digits)),
            Found::One(value) => Self::Value(value),
            Found::List(_) if depth == NESTED_ARRAYS_MAX => Self::Value(Value::Null),
            Found::List(list) => {
                let parts = list.into_iter().map(|found| Self::of(found, depth + 1));
                Self::List(parts.collect::<Result<_, _>>()?)
            }
        })
    }

    fn of_kept(value: IndexValue<'d>) -> Self {
        match value {
            IndexValue::Null => Self::Value(Value::Null),
            IndexValue::Word(word) => Self::Text(word.to_owned()),
            IndexValue::Object(json) => Self::Text(json),
            IndexValue::Text(text)
            | IndexValue::Number { text, .. }
            | IndexValue::Time { text, .. } => Self::Text(text.into_owned()),
        }
    }

    fn put(&self, name: &str, builder: &mut ObjectBuilder) {
        match self {
            Self::List(parts) => {
                builder.begin_array(name);
                parts.iter().for_each(|part| part.push(builder));
                builder.end();
            }
            part => drop(builder.put(name, part.item())),
        }
    }

    fn push(&self, builder: &mut ObjectBuilder) {
        match self {
            Self::List(parts) => {
                builder.push_array();
                parts.iter().for_each(|part| part.push(builder));
                builder.end();
            }
            part => drop(builder.push(part.item())),
        }
    }

    fn item(&self) -> Item<'_> {
        match self {
            Self::Value(value) => Item::Copy(*value),
            Self::Text(text) => Item::String(text),
            Self::Number(digits) => Item::Number(digits),
            Self::Length(length) => Item::Integer(i64::try_from(*length).unwrap_or(i64::MAX)),
            Self::List(_) => Item::EmptyArray,
        }
    }
}

/// `1.10` and `1.1` are one number; an integer that is too long for a long is unchanged.
fn number_text(digits: &str) -> String {
    let has_fraction = digits.contains(['.', 'e', 'E']);
    match digits.parse::<f64>() {
        Ok(value) if has_fraction && value.is_finite() => double_text(value),
        Ok(_) | Err(_) => digits.to_owned(),
    }
}

/// The digits of a double, so that it is parsed as a double again: an integral one keeps `.0`.
pub(super) fn double_text(value: f64) -> String {
    let text = script::double_text(value);
    match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        true => format!("{text}.0"),
        false => text,
    }
}
