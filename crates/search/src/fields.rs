//! The fields of an index: how each is indexed, and what of that is on disk.
//!
//! ```text
//! tree SearchFields   name -> number u16 · flags u16 (1: words) · words u64        little-endian
//! ```
//!
//! `words` is how many words all live entries have in the field; the average length of a text, which
//! scores need, follows from it.

use std::{ops::Bound, sync::Arc};

use rustc_hash::FxHashMap;
use storage::{Transaction, WriteTransaction};

use crate::{
    analysis::Analyzer, error::SearchError, ids::FieldId, place::SpatialLayout, trees,
    varint::ByteReader,
};

/// Fields of an index, at most.
pub const FIELDS_MAX: usize = 16_384;
/// The longest name of a field, in bytes.
pub const FIELD_NAME_BYTES_MAX: usize = 1024;
/// The name of the field that holds the lower-cased id of the document.
pub const DOCUMENT_ID_FIELD: &str = "id()";

const FLAG_WORDS: u16 = 1;

/// How the values of a field become terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// One term, lower-cased; with an explicit analyzer, like [`Indexing::Search`].
    #[default]
    Default,
    /// One term as it is; an analyzer is ignored.
    Exact,
    /// Words, by the analyzer or by `RavenStandardAnalyzer`.
    Search,
    /// No terms: the field is only stored.
    No,
}

/// The options of a field in a definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldOptions {
    /// How values become terms.
    pub indexing: Indexing,
    /// What splits texts into terms, when it is not what `indexing` chooses.
    pub analyzer: Option<Analyzer>,
    /// Whether the caller stores the field's values with the entry.
    pub stored: bool,
    /// Whether the field is used for spelling suggestions.
    pub suggestions: bool,
    /// How places and shapes are kept, when it is not the default.
    pub spatial: Option<SpatialLayout>,
}

impl FieldOptions {
    /// Options with that indexing and nothing else.
    pub fn new(indexing: Indexing) -> Self {
        Self { indexing, ..Self::default() }
    }

    /// The analyzer that turns texts into terms; `None` when the field is not searched.
    pub fn effective_analyzer(&self) -> Option<Analyzer> {
        match (self.indexing, &self.analyzer) {
            (Indexing::No, _) => None,
            (Indexing::Exact, _) => Some(Analyzer::Keyword),
            (Indexing::Default, None) => Some(Analyzer::LowerCaseKeyword),
            (Indexing::Search, None) => Some(Analyzer::RavenStandard),
            (Indexing::Default | Indexing::Search, Some(analyzer)) => Some(analyzer.clone()),
        }
    }

    /// Whether terms are words of a text, with positions and frequencies.
    pub fn has_words(&self) -> bool {
        match self.indexing {
            Indexing::Search => true,
            Indexing::Default => self.analyzer.is_some(),
            Indexing::Exact | Indexing::No => false,
        }
    }
}

/// A field of an index. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Field {
    id: FieldId,
    name: Arc<str>,
    options: Arc<FieldOptions>,
    pub(crate) analyzer: Option<Analyzer>,
    pub(crate) has_words: bool,
}

impl Field {
    fn new(id: FieldId, name: &str, options: FieldOptions) -> Self {
        let (analyzer, has_words) = (options.effective_analyzer(), options.has_words());
        Self { id, name: name.into(), options: Arc::new(options), analyzer, has_words }
    }

    /// The field's number in its index.
    pub fn id(&self) -> FieldId {
        self.id
    }

    /// The name of the field, as the index defined it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its places and shapes are kept.
    pub fn layout(&self) -> SpatialLayout {
        self.options.spatial.unwrap_or_default()
    }

    /// The options from the definition.
    pub fn options(&self) -> &FieldOptions {
        &self.options
    }
}

/// A field as stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldRecord {
    pub(crate) id: FieldId,
    pub(crate) has_words: bool,
    /// Words of all live entries.
    pub(crate) words: u64,
}

impl FieldRecord {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, SearchError> {
        let mut reader = ByteReader::new(bytes);
        let id = FieldId(u16::from_le_bytes(reader.array()?));
        let flags = u16::from_le_bytes(reader.array()?);
        if flags > FLAG_WORDS {
            return Err(SearchError::corrupt("a field has unknown flags"));
        }
        Ok(Self { id, has_words: flags == FLAG_WORDS, words: reader.u64()? })
    }

    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[2] = u8::from(self.has_words);
        bytes[4..].copy_from_slice(&self.words.to_le_bytes());
        bytes
    }
}

/// The fields of an index, for indexing: those on disk and those that the definition names. New ones
/// are written when a batch is applied.
#[derive(Clone, Debug, Default)]
pub struct FieldSet {
    stored: FxHashMap<Arc<str>, FieldRecord>,
    defined: FxHashMap<Arc<str>, Field>,
    next: u16,
    /// Names that are not on disk yet.
    unsaved: Vec<Arc<str>>,
}

impl FieldSet {
    /// The fields on disk; none is defined yet.
    pub fn load(tx: &impl Transaction) -> Result<Self, SearchError> {
        let mut fields = Self { next: 1, ..Self::default() };
        for entry in tx.tree(&trees::FIELDS)?.range(Bound::Unbounded)? {
            let (name, value) = entry?;
            let name = field_name(&name)?;
            let record = FieldRecord::read(value)?;
            fields.next = fields.next.max(record.id.0.saturating_add(1));
            fields.stored.insert(name.into(), record);
        }
        Ok(fields)
    }

    /// The field of that name, with these options. Options are those of the first call for a name:
    /// changing a definition requires a new index.
    pub fn define(&mut self, name: &str, options: FieldOptions) -> Result<Field, SearchError> {
        if let Some(field) = self.defined.get(name) {
            return Ok(field.clone());
        }
        let (id, options) = if name == DOCUMENT_ID_FIELD {
            (FieldId::DOCUMENT_ID, FieldOptions::default())
        } else {
            (self.number(name, options.has_words())?, options)
        };
        let field = Field::new(id, name, options);
        self.defined.insert(field.name.clone(), field.clone());
        Ok(field)
    }

    /// How many fields were defined so far.
    pub fn defined_count(&self) -> usize {
        self.defined.len()
    }

    /// A field that was defined before.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.defined.get(name)
    }

    fn number(&mut self, name: &str, has_words: bool) -> Result<FieldId, SearchError> {
        if let Some(record) = self.stored.get(name) {
            return Ok(record.id);
        }
        if name.is_empty() || name.len() > FIELD_NAME_BYTES_MAX {
            return Err(SearchError::FieldName { bytes: name.len() });
        }
        if usize::from(self.next) >= FIELDS_MAX {
            return Err(SearchError::TooManyFields);
        }
        let (id, name) = (FieldId(self.next), Arc::<str>::from(name));
        self.next += 1;
        self.stored.insert(name.clone(), FieldRecord { id, has_words, words: 0 });
        self.unsaved.push(name);
        Ok(id)
    }

    /// Writes new fields, and the changes of `words`.
    pub(crate) fn save(
        &mut self,
        tx: &mut WriteTransaction,
        words: &FxHashMap<FieldId, i64>,
    ) -> Result<(), SearchError> {
        let mut changed: Vec<_> = self.unsaved.clone();
        let has_changed = |record: &FieldRecord| words.get(&record.id).is_some_and(|n| *n != 0);
        let stored = self.stored.iter().filter(|(_, record)| has_changed(record));
        changed.extend(stored.map(|(name, _)| name.clone()));
        changed.sort_unstable();
        changed.dedup();
        let mut tree = tx.tree_mut(&trees::FIELDS)?;
        for name in changed {
            let Some(record) = self.stored.get(&name) else { continue };
            let mut record = match tree.get(name.as_bytes())? {
                Some(bytes) => FieldRecord::read(bytes)?,
                None => *record,
            };
            let change = words.get(&record.id).copied().unwrap_or_default();
            record.words = record
                .words
                .checked_add_signed(change)
                .ok_or_else(|| SearchError::corrupt("a field has fewer words than are removed"))?;
            tree.put(name.as_bytes(), &record.to_bytes())?;
        }
        self.unsaved.clear();
        Ok(())
    }
}

pub(crate) fn field_name(bytes: &[u8]) -> Result<&str, SearchError> {
    std::str::from_utf8(bytes).map_err(|_| SearchError::corrupt("a field's name is not UTF-8"))
}
