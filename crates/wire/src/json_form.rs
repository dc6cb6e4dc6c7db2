//! How types of `model`, which knows no JSON, are read and printed.
//!
//! A type has a private mirror here (`#[serde(remote = "…")]`) that names its properties, and implements [`JsonForm`]
//! with it. Mirrors refer to the types of their fields by `#[serde(with = "json_form::value")]` and its siblings.

use std::collections::BTreeMap;

use model::{JsonText, NamedEnum};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// A type of `model` that has a form in JSON.
pub(crate) trait JsonForm: Sized {
    /// Prints it.
    fn print<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads it.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Makes such a type one of serde's.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: JsonForm> Serialize for Json<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.print(serializer)
    }
}

impl<'de, T: JsonForm> Deserialize<'de> for Json<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Json)
    }
}

/// Implements [`JsonForm`] by the mirror of a type.
macro_rules! mirrored {
    ($($name:ty => $mirror:ty),+ $(,)?) => {
        $(impl $crate::json_form::JsonForm for $name {
            fn print<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$mirror>::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$mirror>::deserialize(deserializer)
            }
        })+
    };
}

/// Implements [`JsonForm`] for enumerations: values are written by name and read in any case.
macro_rules! named {
    ($($name:ty),+ $(,)?) => {
        $(impl $crate::json_form::JsonForm for $name {
            fn print<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(model::NamedEnum::name(*self))
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json_form::read_named(deserializer)
            }
        })+
    };
}

pub(crate) use {mirrored, named};

pub(crate) fn read_named<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: NamedEnum,
{
    let text = String::deserialize(deserializer)?;
    T::named(&text).ok_or_else(|| {
        de::Error::custom(format_args!("Could not convert '{text}' to {}", T::TYPE_NAME))
    })
}

impl JsonForm for JsonText {
    fn print<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        value_of(self).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| JsonText::new(value.to_string()))
    }
}

/// The JSON value of a text.
pub(crate) fn value_of(text: &JsonText) -> Value {
    serde_json::from_str(text.as_str()).unwrap_or_default()
}

/// Reads `null` as the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A field.
pub(crate) mod value {
    use super::{Deserializer, JsonForm, Serializer};

    pub(crate) fn serialize<S, T>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: JsonForm,
    {
        value.print(serializer)
    }

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: JsonForm,
    {
        T::read(deserializer)
    }
}

/// A field that may be `null`.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Json, JsonForm, Serialize, Serializer};

    pub(crate) fn serialize<S, T>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: JsonForm,
    {
        value.as_ref().map(Json).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: JsonForm,
    {
        Ok(Option::<Json<T>>::deserialize(deserializer)?.map(|Json(value)| value))
    }
}

/// A list; `null` is an empty one.
pub(crate) mod list {
    use super::{Deserializer, Json, JsonForm, Serializer, or_default};

    pub(crate) fn serialize<S, T>(values: &[T], serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: JsonForm,
    {
        serializer.collect_seq(values.iter().map(Json))
    }

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: JsonForm,
    {
        let values: Vec<Json<T>> = or_default(deserializer)?;
        Ok(values.into_iter().map(|Json(value)| value).collect())
    }
}

/// An object whose properties are names of values.
pub(crate) mod map {
    use super::{BTreeMap, Deserialize, Deserializer, Json, JsonForm, Serializer};

    pub(crate) fn serialize<S, T>(
        values: &BTreeMap<String, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: JsonForm,
    {
        serializer.collect_map(values.iter().map(|(name, value)| (name, Json(value))))
    }

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
    where
        D: Deserializer<'de>,
        T: JsonForm,
    {
        BTreeMap::deserialize(deserializer).map(unwrapped)
    }

    pub(super) fn unwrapped<T>(values: BTreeMap<String, Json<T>>) -> BTreeMap<String, T> {
        values.into_iter().map(|(name, Json(value))| (name, value)).collect()
    }
}

/// As [`map`]; `null` is an empty one.
pub(crate) mod nullable_map {
    use super::{BTreeMap, Deserializer, JsonForm, map, or_default};

    pub(crate) use super::map::serialize;

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
    where
        D: Deserializer<'de>,
        T: JsonForm,
    {
        or_default(deserializer).map(map::unwrapped)
    }
}
