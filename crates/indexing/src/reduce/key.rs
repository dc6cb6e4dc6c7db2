//! The reduce key of a row: a hash of the values by which the reduce groups.

use std::fmt::Write as _;

use blittable::{Array, Corrupt, Object, Value};
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of a reduce key.
pub(crate) const KEY_BYTES: usize = 16;
/// The text of a key in an error is truncated to this length.
const TEXT_BYTES_MAX: usize = 400;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INTEGER: u8 = 3;
const NUMBER: u8 = 4;
const TEXT: u8 = 5;
const ARRAY: u8 = 6;
const OBJECT: u8 = 7;

/// A reduce key. Rows with equal keys are reduced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReduceKey([u8; KEY_BYTES]);

impl ReduceKey {
    /// The key of these values, in order; `None` is a missing one, which counts as null. The key of
    /// only nulls is zero.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] when a value is damaged.
    pub(crate) fn of<'a>(
        values: impl IntoIterator<Item = Option<Value<'a>>>,
    ) -> Result<Self, Corrupt> {
        let mut bytes = Vec::new();
        for value in values {
            write(&value.unwrap_or(Value::Null), &mut bytes)?;
        }
        if bytes.iter().all(|byte| *byte == NULL) {
            return Ok(Self([0; KEY_BYTES]));
        }
        Ok(Self(xxh3_128(&bytes).to_be_bytes()))
    }

    pub(crate) fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// A number to display.
    pub(crate) fn number(&self) -> u64 {
        u64::from_be_bytes(*self.0.first_chunk().expect("a key has more bytes than a number"))
    }

    /// The key as a number, which names its outputs.
    pub(crate) fn whole_number(&self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The key of that number.
    pub(crate) fn of_whole_number(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// The name of the key's entries, in place of a document's id.
    pub(crate) fn name(&self) -> String {
        format!("{:032x}", self.whole_number())
    }
}

/// Appends a value so that values are equal exactly if their bytes are. The depth is bounded by
/// that of a document.
fn write(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Integer(value) => {
            out.push(INTEGER);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Value::Number(digits) => write_number(digits, out),
        Value::String(text) => write_text(TEXT, &text.as_cow()?, out),
        Value::Array(array) => write_array(array, out)?,
        Value::Object(object) => write_object(object, out)?,
    }
    Ok(())
}

/// `1.10` is `1.1`.
fn write_number(digits: &str, out: &mut Vec<u8>) {
    match digits.parse::<f64>() {
        Ok(value) => {
            out.push(NUMBER);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        Err(_) => write_text(NUMBER, digits, out),
    }
}

fn write_text(kind: u8, text: &str, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_array(array: &Array<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    out.push(ARRAY);
    out.extend_from_slice(&(array.len() as u64).to_le_bytes());
    array.iter().try_for_each(|element| write(&element?, out))
}

fn write_object(object: &Object<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    out.push(OBJECT);
    out.extend_from_slice(&(object.len() as u64).to_le_bytes());
    for member in object.iter() {
        let (name, value) = member?;
        write_text(TEXT, name, out);
        write(&value, out)?;
    }
    Ok(())
}

/// The values of a key with their names.
pub(crate) type KeyValues<'a> = Vec<(String, Option<Value<'a>>)>;

/// The key as a JSON object.
pub(crate) fn key_json<'a>(
    values: impl IntoIterator<Item = (String, Option<Value<'a>>)>,
) -> Result<Vec<u8>, Corrupt> {
    let mut json = b"{".to_vec();
    for (number, (name, value)) in values.into_iter().enumerate() {
        if 0 < number {
            json.push(b',');
        }
        blittable::write_json_string(&name, &mut json);
        json.push(b':');
        blittable::write_json(&value.unwrap_or(Value::Null), &mut json)?;
    }
    json.push(b'}');
    Ok(json)
}

/// The key as a message: `Reduce key: { 'Company' : companies/1 }`.
pub(crate) fn key_text<'a>(
    values: impl IntoIterator<Item = (String, Option<Value<'a>>)>,
) -> Result<String, Corrupt> {
    let mut text = "Reduce key: {".to_owned();
    for (number, (name, value)) in values.into_iter().enumerate() {
        let separator = if number == 0 { "" } else { "," };
        let shown = match value.unwrap_or(Value::Null) {
            Value::String(text) => text.as_cow()?.into_owned(),
            value => crate::index_value::json_of(&value)?,
        };
        write!(text, "{separator} '{name}' : {shown}").expect("writing to a String cannot fail");
        if TEXT_BYTES_MAX < text.len() {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push('…');
            break;
        }
    }
    text.push_str(" }");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn key(json: &str) -> ReduceKey {
        let json = format!(r#"{{"K":{json}}}"#);
        let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        ReduceKey::of([document.as_view().root().get("K").unwrap()]).unwrap()
    }

    #[test]
    fn values_of_another_kind_are_another_key() {
        let different = [
            "null",
            "false",
            "true",
            "1",
            "1.0",
            "1.1",
            "\"1\"",
            "\"\"",
            "\"x\"",
            "\"X\"",
            "[]",
            "[1]",
            "[1,2]",
            "[[1],2]",
            "{}",
            r#"{"a":1,"b":2}"#,
            r#"{"b":2,"a":1}"#,
            "12345678901234567890",
        ];
        for (at, one) in different.iter().enumerate() {
            for (other_at, other) in different.iter().enumerate() {
                assert_eq!(key(one) == key(other), at == other_at, "{one} and {other}");
            }
        }
        assert_eq!(key("1.10"), key("1.1"));
        assert_eq!(key("1e0"), key("1.0"));
        assert_eq!(key("null"), ReduceKey::of([None]).unwrap(), "a missing value is null");
        assert_eq!(ReduceKey::of([None, None]).unwrap().whole_number(), 0);
        assert_eq!(ReduceKey::of_whole_number(key("1").whole_number()), key("1"));
    }

    #[test]
    fn two_values_are_not_one() {
        let text =
            parse_document(br#"{"A":"ab","B":"c","C":"a","D":"bc"}"#, &ParseLimits::default());
        let text = text.unwrap();
        let value = |name: &str| text.as_view().root().get(name).unwrap();
        let of = |one: &str, two: &str| ReduceKey::of([value(one), value(two)]).unwrap();
        assert_ne!(of("A", "B"), of("C", "D"));
        assert_ne!(of("A", "B"), of("B", "A"));
        let members = [("A".to_owned(), value("A")), ("Nope".to_owned(), None)];
        assert_eq!(key_json(members).unwrap(), br#"{"A":"ab","Nope":null}"#);
        assert_eq!(
            key_text([("A".to_owned(), value("A")), ("Nope".to_owned(), None)]).unwrap(),
            "Reduce key: { 'A' : ab, 'Nope' : null }"
        );
    }
}
