//! Stored values of an entry: bytes of the caller's, by field.
//!
//! ```text
//! value of the tree SearchStored    fields:  number varint · bytes varint · bytes
//! ```

use crate::{
    error::SearchError,
    ids::FieldId,
    varint::{self, ByteReader},
};

pub(crate) fn write(values: &[(FieldId, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, value) in values {
        varint::write(&mut bytes, u64::from(field.0));
        varint::write(&mut bytes, value.len() as u64);
        bytes.extend_from_slice(value);
    }
    bytes
}

/// The stored values of an entry.
#[derive(Clone, Copy)]
pub struct StoredValues<'a> {
    reader: ByteReader<'a>,
}

impl<'a> StoredValues<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: ByteReader::new(bytes) }
    }

    fn next_value(&mut self) -> Result<Option<(FieldId, &'a [u8])>, SearchError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let number = u16::try_from(self.reader.varint()?)
            .map_err(|_| SearchError::corrupt("a stored value has an impossible field"))?;
        let bytes = self.reader.length()?;
        Ok(Some((FieldId(number), self.reader.take(bytes)?)))
    }

    /// The value of one field.
    pub fn get(mut self, field: FieldId) -> Result<Option<&'a [u8]>, SearchError> {
        while let Some((number, value)) = self.next_value()? {
            if number == field {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for StoredValues<'a> {
    type Item = Result<(FieldId, &'a [u8]), SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.next_value();
        if value.is_err() {
            self.reader = ByteReader::new(&[]);
        }
        value.transpose()
    }
}
