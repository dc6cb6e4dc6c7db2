//! The forward record of an entry: its terms by field, and where words stand in the text.
//!
//! ```text
//! record    version u8 (1) · fields, by ascending number
//! field     number varint · bytes of the section varint · section
//! section   flags u8 (1: words) · [words varint] · terms, ascending by kind and bytes
//! term      kind u8 · value · [positions]
//!   Null    nothing
//!   Text    bytes varint · UTF-8; with flag 1: how often varint · positions, as varint differences
//!   Long    signed varint
//!   Double, Point, Center, Cell
//!           as in its key
//!   Shape   bytes varint · see the crate `spatial`
//! ```
//!
//! Exists, Many and Numeric follow from the rest and are not written. With the record an entry can be taken out
//! of its posting lists without running the index's map again; sorting, phrases and facets read it.

use crate::{
    error::SearchError,
    ids::FieldId,
    place,
    term::{self, TermKind, TermValue},
    varint::{self, ByteReader},
};

const VERSION: u8 = 1;
pub(crate) const FLAG_WORDS: u8 = 1;

/// Writes a record, fields and terms in ascending order.
#[derive(Default)]
pub(crate) struct RecordWriter {
    section: Vec<u8>,
}

impl RecordWriter {
    /// Begins a record.
    pub(crate) fn begin(&mut self, record: &mut Vec<u8>) {
        record.push(VERSION);
    }

    /// Begins a field; `words` when its terms are words with positions: how many there are.
    pub(crate) fn begin_field(&mut self, words: Option<u64>) {
        self.section.clear();
        self.section.push(if words.is_some() { FLAG_WORDS } else { 0 });
        if let Some(words) = words {
            varint::write(&mut self.section, words);
        }
    }

    /// Adds a term by the bytes of its key; positions only in fields of words.
    pub(crate) fn term(
        &mut self,
        kind: TermKind,
        bytes: &[u8],
        positions: Option<&[u32]>,
    ) -> Result<(), SearchError> {
        self.section.push(kind as u8);
        match kind {
            TermKind::Text => {
                varint::write(&mut self.section, bytes.len() as u64);
                self.section.extend_from_slice(bytes);
                if let Some(positions) = positions {
                    self.positions(positions);
                }
            }
            TermKind::Long => varint::write_signed(&mut self.section, term::long_of(bytes)?),
            TermKind::Double | TermKind::Point | TermKind::Center | TermKind::Cell => {
                self.section.extend_from_slice(bytes);
            }
            TermKind::Shape => {
                varint::write(&mut self.section, bytes.len() as u64);
                self.section.extend_from_slice(bytes);
            }
            TermKind::Null | TermKind::Exists | TermKind::Many | TermKind::Numeric => {}
        }
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) {
        varint::write(&mut self.section, positions.len() as u64);
        let mut last = 0;
        for position in positions {
            varint::write(&mut self.section, u64::from(position - last));
            last = *position;
        }
    }

    /// Ends the field and adds it to the record.
    pub(crate) fn end_field(&mut self, record: &mut Vec<u8>, field: FieldId) {
        varint::write(record, u64::from(field.0));
        varint::write(record, self.section.len() as u64);
        record.extend_from_slice(&self.section);
    }
}

/// A record, read in place.
#[derive(Clone, Copy)]
pub(crate) struct RecordReader<'a> {
    fields: ByteReader<'a>,
}

impl<'a> RecordReader<'a> {
    pub(crate) fn new(record: &'a [u8]) -> Result<Self, SearchError> {
        let mut fields = ByteReader::new(record);
        match fields.byte()? {
            VERSION => Ok(Self { fields }),
            _ => Err(SearchError::corrupt("the record of an entry has an unknown version")),
        }
    }

    pub(crate) fn next_field(
        &mut self,
    ) -> Result<Option<(FieldId, SectionReader<'a>)>, SearchError> {
        if self.fields.is_empty() {
            return Ok(None);
        }
        let number = u16::try_from(self.fields.varint()?)
            .map_err(|_| SearchError::corrupt("a record names an impossible field"))?;
        let bytes = self.fields.length()?;
        Ok(Some((FieldId(number), SectionReader::new(self.fields.take(bytes)?)?)))
    }

    /// A field's terms, if it has any.
    pub(crate) fn field(
        mut self,
        field: FieldId,
    ) -> Result<Option<SectionReader<'a>>, SearchError> {
        while let Some((number, section)) = self.next_field()? {
            if number >= field {
                return Ok((number == field).then_some(section));
            }
        }
        Ok(None)
    }
}

/// The terms of one field of an entry.
#[derive(Clone, Copy)]
pub(crate) struct SectionReader<'a> {
    terms: ByteReader<'a>,
    /// How many words the field has; `None` when its terms have no positions.
    pub(crate) words: Option<u64>,
}

/// In which lists of a field an entry is, besides those of its terms and Exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldShape {
    pub(crate) many: bool,
    pub(crate) numeric: bool,
}

impl FieldShape {
    /// Calls `list` with the kind of each.
    pub(crate) fn for_each(self, mut list: impl FnMut(TermKind)) {
        if self.many {
            list(TermKind::Many);
        }
        if self.numeric {
            list(TermKind::Numeric);
        }
    }
}

/// Finds the shape of a field from its terms in ascending order.
#[derive(Default)]
pub(crate) struct ShapeBuilder {
    shape: FieldShape,
    last: Option<TermKind>,
}

impl ShapeBuilder {
    pub(crate) fn add(&mut self, kind: TermKind) {
        self.shape.many |= self.last == Some(kind) || self.last == Some(TermKind::Null);
        self.shape.numeric |= kind == TermKind::Long;
        self.last = Some(kind);
    }

    pub(crate) fn finish(&self) -> FieldShape {
        self.shape
    }
}

/// A term in a record.
#[derive(Clone, Copy)]
pub(crate) struct RecordTerm<'a> {
    pub(crate) kind: TermKind,
    value: RecordValue<'a>,
    /// How often the entry has the word; 1 in fields without positions.
    pub(crate) frequency: u64,
    positions: ByteReader<'a>,
}

#[derive(Clone, Copy)]
enum RecordValue<'a> {
    Nothing,
    Bytes(&'a [u8]),
    Number([u8; 8]),
}

impl<'a> RecordTerm<'a> {
    /// The bytes of the term's key.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.value {
            RecordValue::Nothing => &[],
            RecordValue::Bytes(bytes) => bytes,
            RecordValue::Number(bytes) => bytes,
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, SearchError> {
        match self.value {
            RecordValue::Bytes(text) if self.kind == TermKind::Text => term::text_of(text),
            RecordValue::Nothing | RecordValue::Bytes(_) | RecordValue::Number(_) => {
                Err(SearchError::corrupt("a text is requested of a term that has none"))
            }
        }
    }

    pub(crate) fn value(&self) -> Result<TermValue, SearchError> {
        TermValue::read(self.kind, self.bytes())
    }

    /// The positions of the word, ascending.
    pub(crate) fn positions(mut self) -> impl Iterator<Item = Result<u32, SearchError>> {
        let mut position = 0u32;
        (0..self.frequency).map(move |_| {
            let step = u32::try_from(self.positions.varint()?).ok();
            let next = step.and_then(|step| position.checked_add(step));
            position = next.ok_or_else(|| {
                SearchError::corrupt("a word's position is past the end of its text")
            })?;
            Ok(position)
        })
    }
}

impl<'a> SectionReader<'a> {
    fn new(section: &'a [u8]) -> Result<Self, SearchError> {
        let mut terms = ByteReader::new(section);
        let words = match terms.byte()? {
            0 => None,
            FLAG_WORDS => Some(terms.varint()?),
            _ => return Err(SearchError::corrupt("a field of a record has unknown flags")),
        };
        Ok(Self { terms, words })
    }

    pub(crate) fn next_term(&mut self) -> Result<Option<RecordTerm<'a>>, SearchError> {
        if self.terms.is_empty() {
            return Ok(None);
        }
        let kind = TermKind::from_byte(self.terms.byte()?)?;
        let mut term = RecordTerm {
            kind,
            value: RecordValue::Nothing,
            frequency: 1,
            positions: ByteReader::new(&[]),
        };
        match kind {
            TermKind::Null => {}
            TermKind::Text => {
                let bytes = self.terms.length()?;
                term.value = RecordValue::Bytes(self.terms.take(bytes)?);
                if self.words.is_some() {
                    self.skip_positions(&mut term)?;
                }
            }
            TermKind::Long => {
                term.value = RecordValue::Number(term::long_bytes(self.terms.signed()?));
            }
            TermKind::Double => term.value = RecordValue::Number(self.terms.array()?),
            TermKind::Point | TermKind::Center => {
                term.value = RecordValue::Bytes(self.terms.take(place::BYTES)?);
            }
            TermKind::Cell => term.value = RecordValue::Bytes(self.terms.take(place::CELL_BYTES)?),
            TermKind::Shape => {
                let bytes = self.terms.length()?;
                term.value = RecordValue::Bytes(self.terms.take(bytes)?);
            }
            TermKind::Exists | TermKind::Many | TermKind::Numeric => {
                return Err(SearchError::corrupt("a record holds a term that follows from others"));
            }
        }
        Ok(Some(term))
    }

    fn skip_positions(&mut self, term: &mut RecordTerm<'a>) -> Result<(), SearchError> {
        term.frequency = self.terms.varint()?;
        term.positions = self.terms;
        // Each position takes at least a byte, so damage cannot make this loop long.
        for _ in 0..term.frequency {
            self.terms.varint()?;
        }
        Ok(())
    }

    /// The term with these bytes.
    pub(crate) fn find(
        mut self,
        kind: TermKind,
        bytes: &[u8],
    ) -> Result<Option<RecordTerm<'a>>, SearchError> {
        while let Some(term) = self.next_term()? {
            if term.kind == kind && term.bytes() == bytes {
                return Ok(Some(term));
            }
        }
        Ok(None)
    }

    /// What follows from the terms of the field.
    pub(crate) fn shape(mut self) -> Result<FieldShape, SearchError> {
        let mut shape = ShapeBuilder::default();
        while let Some(term) = self.next_term()? {
            shape.add(term.kind);
        }
        Ok(shape.finish())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{EntryBuilder, FieldOptions, FieldSet, IndexBatch, Indexing};

    #[test]
    fn the_record_in_the_documentation_is_written() {
        let mut fields = FieldSet::load(&empty_environment().read()).expect("loads");
        let number = fields.define("N", FieldOptions::default()).expect("defines");
        let text = fields.define("T", FieldOptions::new(Indexing::Search)).expect("defines");
        let mut entry = EntryBuilder::new();
        entry.text(&text, "to be quick quick");
        entry.number(&number, "30", 30, 30.0);
        let mut batch = IndexBatch::new();
        batch.put("a/1", &[entry]).expect("puts");
        let expected = [
            "01000600040361 2f31".replace(' ', ""),
            "01100004023330053c06c03e000000000000".to_owned(),
            "020c01020405717569636b020001".to_owned(),
        ];
        let written: String =
            batch.record(&batch.entries[0]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, expected.concat());
    }

    fn empty_environment() -> std::sync::Arc<storage::Environment> {
        let platform = platform::Platform::memory();
        let options = storage::EnvironmentOptions::new("/index");
        storage::Environment::open(&platform, options).expect("opens")
    }

    fn read_all(record: &[u8]) -> Result<(), SearchError> {
        let mut reader = RecordReader::new(record)?;
        while let Some((_, mut section)) = reader.next_field()? {
            section.shape()?;
            while let Some(term) = section.next_term()? {
                if term.kind.is_value() {
                    term.value()?;
                }
                term.positions().try_for_each(|position| position.map(drop))?;
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn damaged_records_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_all(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = read_all(&bytes);
        }
    }
}
