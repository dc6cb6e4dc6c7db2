//! Receives the output of a map: entries, and their values by field.
//!
//! A date is indexed by its text and separately by its moment: its ticks are in a field of their
//! own, so that comparisons with dates use moments and comparisons with numbers use numbers.

use search::{EntryBuilder, Field, FieldOptions, FieldSet, Indexing};
use spatial::Shape;

use crate::{
    error::IndexError, index_value::IndexValue, mapper::MapError, output_room::OutputRoom,
    references::References,
};

/// The name of the field with the moments of a field's dates, in ticks.
pub fn time_field_name(field: &str) -> String {
    format!("{field}_Time")
}

/// The name of the field that has a term in each entry whose value of `field` is an array. It is no
/// property name, so queries cannot address it.
pub fn array_mark_name(field: &str) -> String {
    format!("array({field})")
}

/// Whether a field marks the arrays of another one.
pub fn is_array_mark(field: &str) -> bool {
    field.starts_with("array(") && field.ends_with(')')
}

/// The entries of one document while its map runs.
pub struct EntryWriter<'a> {
    fields: &'a mut FieldSet,
    entries: &'a mut Entries,
    /// The boost of each value that is added, if any.
    boost: Option<f64>,
}

/// The entries of one document; reused for the next document.
#[derive(Default)]
pub(crate) struct Entries {
    builders: Vec<EntryBuilder>,
    used: usize,
    /// What the map read.
    references: References,
    /// What the entries take.
    room: OutputRoom,
}

impl Entries {
    /// No entries; those of a document may take what the room has.
    pub(crate) fn within(room: OutputRoom) -> Self {
        Self { room, ..Self::default() }
    }

    /// What the entries take.
    pub(crate) fn room(&mut self) -> &mut OutputRoom {
        &mut self.room
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.room.begin();
        self.references.clear();
    }

    /// Releases the memory of the entries.
    pub(crate) fn release(&mut self) {
        (self.builders, self.used) = (Vec::new(), 0);
    }

    /// Discards the entries, but not the references: the map failed.
    pub(crate) fn forget(&mut self) {
        self.used = 0;
    }

    /// Takes the references of the map.
    pub(crate) fn take_references(&mut self) -> References {
        std::mem::take(&mut self.references)
    }

    pub(crate) fn as_slice(&self) -> &[EntryBuilder] {
        &self.builders[..self.used]
    }

    fn begin(&mut self) -> Result<(), MapError> {
        if self.builders.len() == self.used {
            self.builders.push(EntryBuilder::new());
        }
        let builder = &mut self.builders[self.used];
        builder.clear();
        self.room.take(builder.memory_bytes())?;
        builder.set_memory_bytes_max(builder.memory_bytes() + self.room.left_bytes());
        self.used += 1;
        Ok(())
    }

    fn current(&mut self) -> Result<&mut EntryBuilder, MapError> {
        if self.used == 0 {
            self.begin()?;
        }
        Ok(&mut self.builders[self.used - 1])
    }

    /// Changes the current entry, and counts by how much it grew.
    fn change<R>(&mut self, change: impl FnOnce(&mut EntryBuilder) -> R) -> Result<R, MapError> {
        let entry = self.current()?;
        let before = entry.memory_bytes();
        let changed = change(entry);
        let (after, is_cut) = (entry.memory_bytes(), entry.is_cut());
        self.room.take(after - before.min(after))?;
        // An entry that is too long for an index, however much memory there is, is refused there.
        if is_cut && self.room.left_bytes() / 2 < after {
            Err(self.room.exceed())
        } else {
            Ok(changed)
        }
    }

    fn take_back(&mut self) {
        self.used = self.used.saturating_sub(1);
    }
}

impl<'a> EntryWriter<'a> {
    pub(crate) fn new(fields: &'a mut FieldSet, entries: &'a mut Entries) -> Self {
        Self { fields, entries, boost: None }
    }

    /// Begins the document's next entry; following values are added to it.
    ///
    /// # Errors
    ///
    /// When the entries of the document do not fit in memory.
    pub fn begin_entry(&mut self) -> Result<(), MapError> {
        self.entries.begin()
    }

    /// What the entries take.
    pub(crate) fn room(&mut self) -> &mut OutputRoom {
        &mut self.entries.room
    }

    /// Drops the current entry.
    pub fn drop_entry(&mut self) {
        self.entries.take_back();
    }

    /// Records what the map read besides its document.
    pub(crate) fn note_references(&mut self, looked_at: References) {
        self.entries.references.add(looked_at);
    }

    /// The field of that name. The options of its first call apply.
    ///
    /// # Errors
    ///
    /// When the index has too many fields, or the name is too long.
    pub fn field(&mut self, name: &str, options: FieldOptions) -> Result<Field, IndexError> {
        Ok(self.fields.define(name, options)?)
    }

    /// Adds a value to a field of the current entry.
    ///
    /// # Errors
    ///
    /// When the index has too many fields, or the entries of the document do not fit in memory.
    pub fn add(&mut self, field: &Field, value: &IndexValue<'_>) -> Result<(), MapError> {
        let boost = self.boost;
        self.entries.change(|entry| {
            if let Some(factor) = boost {
                entry.boost(field, factor);
            }
            add_value(entry, field, value);
        })?;
        if let IndexValue::Time { ticks, .. } = value {
            let name = time_field_name(field.name());
            let time = self.fields.define(&name, FieldOptions::new(Indexing::Exact))?;
            self.entries.change(|entry| entry.number_only(&time, *ticks, *ticks as f64))?;
        }
        Ok(())
    }

    /// Marks the value of a field of the current entry as an array, even if it is empty.
    ///
    /// # Errors
    ///
    /// As [`EntryWriter::add`].
    pub(crate) fn mark_array(&mut self, field: &Field) -> Result<(), MapError> {
        let name = array_mark_name(field.name());
        let mark = self.fields.define(&name, FieldOptions::new(Indexing::Exact))?;
        self.entries.change(|entry| entry.term(&mark, "true"))
    }

    /// Adds values with a boost, which multiplies the scores of the entry by its field. Of nested
    /// boosts only the outer one applies.
    pub(crate) fn with_boost<R>(&mut self, factor: f64, add: impl FnOnce(&mut Self) -> R) -> R {
        let around = self.boost;
        self.boost = around.or(Some(factor));
        let added = add(self);
        self.boost = around;
        added
    }

    /// Multiplies the scores of the current entry.
    pub(crate) fn boost_entry(&mut self, factor: f64) -> Result<(), MapError> {
        self.entries.change(|entry| entry.boost_entry(factor))
    }

    /// Adds a shape to a field of the current entry.
    pub(crate) fn add_shape(&mut self, field: &Field, shape: &Shape) -> Result<(), MapError> {
        self.entries.change(|entry| entry.shape(field, shape))
    }

    /// Stores bytes for a field of the current entry.
    ///
    /// # Errors
    ///
    /// When the entries of the document do not fit in memory.
    pub fn store(&mut self, field: &Field, bytes: &[u8]) -> Result<(), MapError> {
        self.entries.change(|entry| entry.stored(field, bytes))
    }
}

/// Adds all but the moment of a date.
fn add_value(entry: &mut EntryBuilder, field: &Field, value: &IndexValue<'_>) {
    match value {
        IndexValue::Null => entry.null(field),
        IndexValue::Text(text) => entry.text(field, text),
        IndexValue::Word(word) => entry.text(field, word),
        IndexValue::Object(json) => add_unanalyzed(entry, field, json),
        IndexValue::Number { text, long, double } => {
            add_unanalyzed(entry, field, text);
            entry.number_only(field, *long, *double);
        }
        IndexValue::Time { text, .. } => add_unanalyzed(entry, field, text),
    }
}

/// Numbers, dates and objects keep their case where a field is one term; words are analyzed like
/// any text.
fn add_unanalyzed(entry: &mut EntryBuilder, field: &Field, text: &str) {
    if field.options().has_words() {
        entry.text(field, text);
    } else {
        entry.term(field, text);
    }
}
