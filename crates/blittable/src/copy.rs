//! Copies values from one document into another that is being written.
//!
//! Strings are copied as stored, packed or not; only names get the ids of the new document.

use crate::error::Corrupt;
use crate::format::{HEADER_BYTES, Token};
use crate::name_table::NameTable;
use crate::view::{Array, Block, Entry, Object, Scalar, Value};
use crate::walk::{Place, Step, Walk, check_order, container_of};
use crate::writer::Writer;

/// Deep-copies `value` into the document under construction in `writer`.
pub(crate) fn copy_value(value: &Value<'_>, writer: &mut Writer) -> Result<(), Corrupt> {
    match value {
        Value::Object(Object { bytes, block }) | Value::Array(Array { bytes, block }) => {
            copy_block(bytes, &NameTable::open(bytes)?, *block, HEADER_BYTES, writer)?;
        }
        Value::Null => writer.null(),
        Value::Bool(value) => writer.bool(*value),
        Value::Integer(value) => writer.integer(*value),
        Value::Number(text) => writer.number(text.as_bytes()),
        Value::String(text) => writer.text(text),
    }
    Ok(())
}

/// Deep-copies the value of one entry; values before `cursor` were copied already. Returns the new
/// cursor.
pub(crate) fn copy_entry(
    bytes: &[u8],
    names: &NameTable<'_>,
    entry: Entry,
    cursor: usize,
    writer: &mut Writer,
) -> Result<usize, Corrupt> {
    if matches!(entry.token, Token::Object | Token::Array) {
        check_order(entry.position, cursor)?;
        let block = Block::open(bytes, entry.position, entry.token)?;
        return copy_block(bytes, names, block, cursor, writer);
    }
    let (value, end) = Scalar::open(bytes, entry.token, entry.position)?;
    if end != 0 {
        check_order(entry.position, cursor)?;
    }
    copy_scalar(&value, writer);
    Ok(cursor.max(end))
}

fn copy_block(
    bytes: &[u8],
    names: &NameTable<'_>,
    block: Block,
    cursor: usize,
    writer: &mut Writer,
) -> Result<usize, Corrupt> {
    let mut walk = Walk::new(bytes, block, cursor);
    writer.begin(container_of(&block));
    while let Some(step) = walk.step()? {
        if let Step::Scalar(Place { name: Some(id), .. }, _)
        | Step::Begin(Place { name: Some(id), .. }, _) = &step
        {
            writer.name(names.name(*id)?);
        }
        match step {
            Step::Scalar(_, value) => copy_scalar(&value, writer),
            Step::Begin(_, container) => writer.begin(container),
            Step::End(_) => writer.end(),
        }
    }
    writer.end();
    Ok(walk.cursor())
}

fn copy_scalar(value: &Scalar<'_>, writer: &mut Writer) {
    match value {
        Scalar::Null => writer.null(),
        Scalar::Bool(value) => writer.bool(*value),
        Scalar::Integer(value) => writer.integer(*value),
        Scalar::Number(text) => writer.number(text.stored().0),
        Scalar::String(text) => writer.text(text),
    }
}
