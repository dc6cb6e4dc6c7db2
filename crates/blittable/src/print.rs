//! Values to compact JSON, properties in insertion order.
//!
//! Strings without characters to escape are copied whole, so printing is mostly copying. The output
//! of a sound document is valid JSON in UTF-8 (control characters that a lenient client sent are
//! printed as escapes); that of corrupt bytes may be nonsense.

use crate::error::Corrupt;
use crate::format::{HEADER_BYTES, Token};
use crate::name_table::NameTable;
use crate::string_scan::find_byte_to_escape;
use crate::text::Text;
use crate::view::{Array, Block, Entry, Object, Scalar, Value};
use crate::walk::{Place, Step, Walk, check_order, container_of};
use crate::writer::Container;

/// What a hook of [`write_object_with`] did with a property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// Nothing: the value is to be printed as it is.
    No,
    /// It printed the value (name and colon were already written).
    Printed,
    /// The property is to be left out.
    Omitted,
}

/// Appends `value` to `out` as compact JSON.
///
/// On an error `out` holds what was printed so far.
pub fn write_json(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    match value {
        Value::Object(Object { bytes, block }) | Value::Array(Array { bytes, block }) => {
            let names = NameTable::open(bytes)?;
            print_block(bytes, &names, *block, HEADER_BYTES, out).map(drop)
        }
        Value::Null => print_scalar(&Scalar::Null, out),
        Value::Bool(value) => print_scalar(&Scalar::Bool(*value), out),
        Value::Integer(value) => print_scalar(&Scalar::Integer(*value), out),
        Value::Number(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Value::String(text) => print_text(text, out),
    }
}

/// Appends `object` to `out`, calling `hook` for each of its direct properties first.
///
/// The hook receives the name, the value and `out`, positioned right after the printed name and
/// colon.
///
/// ```
/// use blittable::{Handled, ParseLimits, parse_document, write_object_with};
///
/// let document = parse_document(br#"{"a":1,"b":2,"c":3}"#, &ParseLimits::default())?;
/// let mut out = Vec::new();
/// write_object_with(&document.as_view().root(), &mut out, |name, _, out| {
///     Ok(match name {
///         "a" => Handled::Omitted,
///         "b" => {
///             out.extend_from_slice(b"[]");
///             Handled::Printed
///         }
///         _ => Handled::No,
///     })
/// })?;
/// assert_eq!(out, br#"{"b":[],"c":3}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_object_with<'a>(
    object: &Object<'a>,
    out: &mut Vec<u8>,
    hook: impl FnMut(&'a str, Value<'a>, &mut Vec<u8>) -> Result<Handled, Corrupt>,
) -> Result<(), Corrupt> {
    out.push(b'{');
    write_members_with(object, out, hook)?;
    out.push(b'}');
    Ok(())
}

/// Like [`write_object_with`] without the braces, so that the caller can add properties; returns
/// whether any property was printed.
pub fn write_members_with<'a>(
    object: &Object<'a>,
    out: &mut Vec<u8>,
    mut hook: impl FnMut(&'a str, Value<'a>, &mut Vec<u8>) -> Result<Handled, Corrupt>,
) -> Result<bool, Corrupt> {
    let Object { bytes, block } = *object;
    let names = NameTable::open(bytes)?;
    let mut cursor = HEADER_BYTES;
    let mut is_first = true;
    for index in 0..object.len() {
        let Some((name, value)) = object.at(index)? else { break };
        let entry = block.entry(bytes, index)?;
        let mark = out.len();
        print_place(Place { name: Some(entry.name), is_first }, &names, out)?;
        match hook(name, value, out)? {
            Handled::No => {
                cursor = print_entry(bytes, &names, entry, cursor, out)?;
                is_first = false;
            }
            Handled::Printed => is_first = false,
            Handled::Omitted => out.truncate(mark),
        }
    }
    Ok(!is_first)
}

/// Appends `text` to `out` as a JSON string with its quotes.
#[inline]
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    print_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Prints one value of an object whose entries the caller walks; returns the new cursor.
fn print_entry(
    bytes: &[u8],
    names: &NameTable<'_>,
    entry: Entry,
    cursor: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Corrupt> {
    if matches!(entry.token, Token::Object | Token::Array) {
        check_order(entry.position, cursor)?;
        let block = Block::open(bytes, entry.position, entry.token)?;
        return print_block(bytes, names, block, cursor, out);
    }
    let (value, end) = Scalar::open(bytes, entry.token, entry.position)?;
    if end != 0 {
        check_order(entry.position, cursor)?;
    }
    print_scalar(&value, out)?;
    Ok(cursor.max(end))
}

fn print_block(
    bytes: &[u8],
    names: &NameTable<'_>,
    block: Block,
    cursor: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Corrupt> {
    let outermost = container_of(&block);
    let mut walk = Walk::new(bytes, block, cursor);
    out.push(opening(outermost));
    while let Some(step) = walk.step()? {
        match step {
            Step::Scalar(place, value) => {
                print_place(place, names, out)?;
                print_scalar(&value, out)?;
            }
            Step::Begin(place, container) => {
                print_place(place, names, out)?;
                out.push(opening(container));
            }
            Step::End(container) => out.push(closing(container)),
        }
    }
    out.push(closing(outermost));
    Ok(walk.cursor())
}

/// Prints the comma and the name that come before a value.
#[inline]
pub(crate) fn print_place(
    place: Place,
    names: &NameTable<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Corrupt> {
    let Some(id) = place.name else {
        if !place.is_first {
            out.push(b',');
        }
        return Ok(());
    };
    let name = names.name(id)?;
    out.reserve(name.len() + 4);
    out.extend_from_slice(if place.is_first { b"\"" } else { b",\"" });
    if names.needs_escape {
        print_escaped(name, out);
    } else {
        out.extend_from_slice(name);
    }
    out.extend_from_slice(b"\":");
    Ok(())
}

#[inline]
pub(crate) fn print_scalar(value: &Scalar<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    match value {
        Scalar::Null => out.extend_from_slice(b"null"),
        Scalar::Bool(true) => out.extend_from_slice(b"true"),
        Scalar::Bool(false) => out.extend_from_slice(b"false"),
        Scalar::Integer(value) => print_integer(*value, out),
        Scalar::Number(text) => text.append_to(out)?,
        Scalar::String(text) => print_text(text, out)?,
    }
    Ok(())
}

#[inline]
fn print_text(text: &Text<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if text.needs_escape() {
        print_escaped(&text.as_bytes()?, out);
    } else {
        text.append_to(out)?;
    }
    out.push(b'"');
    Ok(())
}

#[inline]
fn print_integer(value: i64, out: &mut Vec<u8>) {
    // Nineteen digits and a sign.
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

pub(crate) fn print_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut printed = 0;
    while let Some(special) = find_byte_to_escape(bytes, printed) {
        out.extend_from_slice(&bytes[printed..special]);
        print_escape(bytes[special], out);
        printed = special + 1;
    }
    out.extend_from_slice(&bytes[printed..]);
}

fn print_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digits = [HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[inline]
pub(crate) fn opening(container: Container) -> u8 {
    match container {
        Container::Object => b'{',
        Container::Array => b'[',
    }
}

#[inline]
pub(crate) fn closing(container: Container) -> u8 {
    match container {
        Container::Object => b'}',
        Container::Array => b']',
    }
}
