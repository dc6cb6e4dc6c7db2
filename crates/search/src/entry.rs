//! One index entry under construction: the terms from a map.

use spatial::{Coordinate, Shape};

use crate::{
    boosts,
    error::SearchError,
    fields::Field,
    ids::FieldId,
    place,
    term::{self, TermKind},
};

/// Bytes of an entry's terms, at most.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A term of the entry; its bytes are in the entry's own buffer.
#[derive(Clone, Copy)]
pub(crate) struct EntryTerm {
    pub(crate) field: FieldId,
    pub(crate) kind: TermKind,
    pub(crate) has_words: bool,
    start: u32,
    bytes: u32,
    pub(crate) position: u32,
}

/// Collects the terms and stored values of one entry. Independent of any batch, so entries can be
/// built on several threads; meant to be reused through [`EntryBuilder::clear`].
#[derive(Default)]
pub struct EntryBuilder {
    bytes: Vec<u8>,
    pub(crate) terms: Vec<EntryTerm>,
    /// The position at which the next value of each analyzed field continues.
    next_positions: Vec<(FieldId, u32)>,
    stored: Vec<(FieldId, Vec<u8>)>,
    /// Of fields, and of the whole entry as that of field 0.
    boosts: Vec<(FieldId, f32)>,
    too_long: bool,
    /// The maximum of [`EntryBuilder::memory_bytes`], if there is one.
    memory_bytes_max: Option<u64>,
    stored_bytes: usize,
}

impl EntryBuilder {
    /// An entry without terms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Clears everything, to begin the next entry.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.terms.clear();
        self.next_positions.clear();
        self.stored.clear();
        self.boosts.clear();
        self.too_long = false;
        self.memory_bytes_max = None;
        self.stored_bytes = 0;
    }

    /// Approximate memory use in bytes, with that of the builder itself.
    pub fn memory_bytes(&self) -> u64 {
        let terms = self.terms.capacity() * size_of::<EntryTerm>();
        let bytes = size_of::<Self>() + self.bytes.capacity() + terms + self.stored_bytes;
        let small = self.next_positions.capacity() + self.boosts.capacity();
        (bytes + small * size_of::<(FieldId, u32)>()) as u64
    }

    /// Adds no more terms when they would take more memory than `bytes_max`: [`EntryBuilder::is_cut`] then.
    pub fn set_memory_bytes_max(&mut self, bytes_max: u64) {
        self.memory_bytes_max = Some(bytes_max);
    }

    /// Whether terms are missing, because the entry is too long.
    pub fn is_cut(&self) -> bool {
        self.too_long
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.stored.is_empty()
    }

    /// Null as a value of the field.
    pub fn null(&mut self, field: &Field) {
        if field.analyzer.is_some() {
            self.push(field, TermKind::Null, &[], 0);
        }
    }

    /// A text as a value of the field, turned into terms by its analyzer. The empty text is one
    /// empty term whatever the analyzer; a text without words yields no terms.
    pub fn text(&mut self, field: &Field, text: &str) {
        let Some(analyzer) = field.analyzer.as_ref() else { return };
        if text.is_empty() {
            let position = self.take_positions(field, 1);
            self.push(field, TermKind::Text, &[], position);
            return;
        }
        let first = self.take_positions(field, 0);
        let mut next = first;
        analyzer.analyze(text, &mut |token| {
            let term = term::shortened(token.text);
            next = first.saturating_add(token.position).saturating_add(1);
            self.push(field, TermKind::Text, term.as_bytes(), next - 1);
        });
        self.take_positions(field, next - first);
    }

    /// A term as it is, past the field's analyzer.
    pub fn term(&mut self, field: &Field, text: &str) {
        if field.analyzer.is_some() {
            let position = self.take_positions(field, 1);
            self.push(field, TermKind::Text, term::shortened(text).as_bytes(), position);
        }
    }

    /// The text of a value that is not a string, such as a date or a number. It becomes one term
    /// verbatim, with case preserved, except in analyzed fields.
    pub fn plain(&mut self, field: &Field, text: &str) {
        match field.has_words {
            true => self.text(field, text),
            false => self.term(field, text),
        }
    }

    /// A number: its text as in [`EntryBuilder::plain`], its value cut to an integer, and its value.
    pub fn number(&mut self, field: &Field, text: &str, long: i64, double: f64) {
        self.plain(field, text);
        self.number_only(field, long, double);
    }

    /// The two numeric terms of a value whose text is added separately, such as a date's ticks.
    pub fn number_only(&mut self, field: &Field, long: i64, double: f64) {
        if field.analyzer.is_some() {
            self.push(field, TermKind::Long, &term::long_bytes(long), 0);
            self.push(field, TermKind::Double, &term::double_bytes(double), 0);
        }
    }

    /// Adds a boolean as the term `true` or `false`.
    pub fn boolean(&mut self, field: &Field, value: bool) {
        self.text(field, if value { "true" } else { "false" });
    }

    /// A place as a value of the field.
    pub fn place(&mut self, field: &Field, at: Coordinate) {
        self.push(field, TermKind::Point, &place::bytes_of(&field.layout().grid, at), 0);
    }

    /// A shape as a value of the field: a point is added as a place, an empty shape not at all.
    pub fn shape(&mut self, field: &Field, shape: &Shape) {
        let layout = field.layout();
        let shape = layout.shape(shape);
        if let Some(at) = shape.as_point() {
            return self.place(field, at);
        }
        let Some(center) = shape.center(&layout.space) else { return };
        self.push(field, TermKind::Shape, &shape.to_bytes(), 0);
        self.push(field, TermKind::Center, &place::bytes_of(&layout.grid, center), 0);
        for cell in place::cells_of(&layout, &shape) {
            self.push(field, TermKind::Cell, &place::cell_bytes(cell), 0);
        }
    }

    /// Bytes to be kept with the entry; one value per field, a later one replaces it.
    pub fn stored(&mut self, field: &Field, bytes: &[u8]) {
        let value_bytes = |bytes: usize| bytes + size_of::<(FieldId, Vec<u8>)>();
        if let Some(at) = self.stored.iter().position(|(id, _)| *id == field.id()) {
            self.stored_bytes -= value_bytes(self.stored.swap_remove(at).1.len());
        }
        self.stored_bytes += value_bytes(bytes.len());
        self.stored.push((field.id(), bytes.to_vec()));
    }

    /// Multiplies the scores that the entry gets by terms of the field. Several boosts of a field
    /// are multiplied; none is below 0.
    pub fn boost(&mut self, field: &Field, factor: f64) {
        self.boost_by_number(field.id(), factor);
    }

    /// Multiplies the scores that the entry gets by terms of any field.
    pub fn boost_entry(&mut self, factor: f64) {
        self.boost_by_number(FieldId::DOCUMENT_ID, factor);
    }

    fn boost_by_number(&mut self, field: FieldId, factor: f64) {
        match self.boosts.binary_search_by_key(&field, |(field, _)| *field) {
            Ok(at) => {
                let boost = &mut self.boosts[at].1;
                *boost = boosts::sound(f64::from(*boost) * factor);
            }
            Err(at) => self.boosts.insert(at, (field, boosts::sound(factor))),
        }
    }

    /// The boosts, ascending by field, of the fields that have terms; `None` when all are 1.
    pub(crate) fn boosts(&self) -> Option<Box<[u8]>> {
        let has_terms = |field: FieldId| {
            field == FieldId::DOCUMENT_ID || self.terms.iter().any(|term| term.field == field)
        };
        boosts::write(self.boosts.iter().copied().filter(|(field, _)| has_terms(*field)))
    }

    pub(crate) fn stored_values(&self) -> &[(FieldId, Vec<u8>)] {
        &self.stored
    }

    pub(crate) fn term_bytes(&self, term: &EntryTerm) -> &[u8] {
        &self.bytes[term.start as usize..][..term.bytes as usize]
    }

    pub(crate) fn check_length(&self) -> Result<(), SearchError> {
        if self.too_long {
            return Err(SearchError::EntryTooLong { bytes: ENTRY_BYTES_MAX });
        }
        Ok(())
    }

    fn push(&mut self, field: &Field, kind: TermKind, bytes: &[u8], position: u32) {
        if self.bytes.len() + bytes.len() + self.terms.len() * 8 > ENTRY_BYTES_MAX {
            self.too_long = true;
            return;
        }
        let is_full = self.terms.len() == self.terms.capacity()
            || self.bytes.capacity() < self.bytes.len() + bytes.len();
        // What a vector grows to is about twice what it has.
        if is_full && self.memory_bytes_max.is_some_and(|max| max / 2 < self.memory_bytes()) {
            self.too_long = true;
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.terms.push(EntryTerm {
            field: field.id(),
            kind,
            has_words: field.has_words,
            start,
            bytes: bytes.len() as u32,
            position,
        });
    }

    /// The next free position of the field, which is moved on by `count`.
    fn take_positions(&mut self, field: &Field, count: u32) -> u32 {
        if !field.has_words {
            return 0;
        }
        let known = self.next_positions.iter().position(|(id, _)| *id == field.id());
        let at = known.unwrap_or_else(|| {
            self.next_positions.push((field.id(), 0));
            self.next_positions.len() - 1
        });
        let next = &mut self.next_positions[at].1;
        let position = *next;
        *next = position.saturating_add(count);
        position
    }
}
