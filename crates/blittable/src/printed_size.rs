//! Bounds the length of a value's JSON text without printing it.
//!
//! Stored documents may be far smaller than their JSON text, because long strings are packed and
//! names are stored once. So a limit on documents has to be checked against their text.

use crate::error::Corrupt;
use crate::format::{HEADER_BYTES, UNPACK_FACTOR_MAX};
use crate::name_table::NameTable;
use crate::view::{Array, Object, Scalar, Value};
use crate::walk::{Place, Step, Walk};

/// Digits of an integer, its sign, and the comma after it.
const INTEGER_BYTES: u64 = 21;
/// `false`, and the comma after it.
const WORD_BYTES: u64 = 6;
/// Quotes around a name or text, and the colon or comma after it.
const QUOTES_BYTES: u64 = 3;

/// The size of a value as JSON as [`prints_within`] counts it, rounded up to a power of two.
///
/// # Errors
///
/// When the document is damaged.
pub fn printed_bytes(value: &Value<'_>) -> Result<u64, Corrupt> {
    let mut bytes = PRINTED_BYTES_MIN;
    while !prints_within(value, bytes)? {
        bytes = bytes.saturating_mul(2);
    }
    Ok(bytes)
}

/// Smaller texts are not told apart.
const PRINTED_BYTES_MIN: u64 = 1 << 10;

/// Whether the compact JSON text of `value` has at most `bytes_max` bytes, counting an escape in a
/// string as one byte and every integer as the longest.
///
/// # Errors
///
/// When the document is damaged.
pub fn prints_within(value: &Value<'_>, bytes_max: u64) -> Result<bool, Corrupt> {
    let (bytes, block) = match value {
        Value::Object(Object { bytes, block }) | Value::Array(Array { bytes, block }) => {
            (*bytes, *block)
        }
        Value::Null | Value::Bool(_) => return Ok(WORD_BYTES <= bytes_max),
        Value::Integer(_) => return Ok(INTEGER_BYTES <= bytes_max),
        Value::Number(text) => return Ok(text.len() as u64 <= bytes_max),
        Value::String(text) => return Ok(text.len() as u64 + QUOTES_BYTES <= bytes_max),
    };
    if longest_text(bytes.len() as u64) <= bytes_max {
        return Ok(true);
    }
    let names = NameTable::open(bytes)?;
    let mut walk = Walk::new(bytes, block, HEADER_BYTES);
    let mut printed = QUOTES_BYTES;
    while let Some(step) = walk.step()? {
        printed += match step {
            Step::Scalar(place, scalar) => name_bytes(place, &names)? + scalar_bytes(&scalar),
            Step::Begin(place, _) => name_bytes(place, &names)? + QUOTES_BYTES,
            Step::End(_) => 0,
        };
        if bytes_max < printed {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Upper bound on the text of any value in a document of that many bytes: strings unpack to a
/// bounded multiple of their bytes, and each entry, of two bytes or more, may repeat a name.
fn longest_text(bytes: u64) -> u64 {
    let names = bytes.saturating_mul(bytes);
    names.saturating_add(bytes.saturating_mul(UNPACK_FACTOR_MAX as u64 + INTEGER_BYTES))
}

fn name_bytes(place: Place, names: &NameTable<'_>) -> Result<u64, Corrupt> {
    Ok(match place.name {
        Some(id) => names.name(id)?.len() as u64 + QUOTES_BYTES,
        None => 0,
    })
}

fn scalar_bytes(scalar: &Scalar<'_>) -> u64 {
    match scalar {
        Scalar::Null | Scalar::Bool(_) => WORD_BYTES,
        Scalar::Integer(_) => INTEGER_BYTES,
        Scalar::Number(text) => text.len() as u64 + 1,
        Scalar::String(text) => text.len() as u64 + QUOTES_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use crate::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn packed_strings_and_repeated_names_count_as_they_are_printed() {
        let long = "x".repeat(1 << 20);
        let texts = vec![format!("\"{long}\""); 8].join(",");
        let names = vec![format!("{{\"{}\":1}}", "n".repeat(10_000)); 1000].join(",");
        for json in [format!("{{\"a\":[{texts}]}}"), format!("{{\"a\":[{names}]}}")] {
            let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
            let document = document.as_view();
            let value = Value::Object(document.root());
            assert!(document.as_bytes().len() * 20 < json.len());
            assert!(!prints_within(&value, json.len() as u64 / 2).unwrap());
            assert!(prints_within(&value, json.len() as u64 * 2).unwrap());
        }
    }

    #[test]
    fn a_small_document_is_within_without_a_walk() {
        let document = parse_document(b"{\"a\":[1,true,\"b\"]}", &ParseLimits::default()).unwrap();
        let document = document.as_view();
        let value = Value::Object(document.root());
        assert!(prints_within(&value, 1 << 20).unwrap());
        assert!(!prints_within(&value, 10).unwrap());
        assert!(prints_within(&Value::Null, 6).unwrap());
    }
}
