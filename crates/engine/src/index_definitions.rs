//! Defining, changing and deleting indexes.
//!
//! Definitions are in the record of the database, and the open database follows its record. So a
//! change is durable before any client is notified of it, and a database that is opened again has
//! the same indexes. Whether a definition is new, and whether the lock of the existing one allows
//! it, is decided on the record that is replaced.

use database::{DatabaseLease, Decision};
use indexing::{FaultyIndex, Index, IndexKind};
use model::{
    DatabaseRecord, IndexDefinition, IndexLockMode, IndexPriority, IndexSourceType, IndexState,
    IndexType, NamedEnum as _, date,
};

use crate::{engine::Engine, error::EngineError};

/// The longest name of an index, in characters.
const NAME_CHARACTERS_MAX: usize = 206;
/// The part of a record, at its limit, that former definitions of indexes may take.
const HISTORY_PART: usize = 4;

/// A change of a definition that keeps the index's entries.
#[derive(Clone, Copy, Debug)]
pub enum IndexSetting {
    /// What happens to later definitions of its name. Automatic indexes have none.
    LockMode(IndexLockMode),
    /// Its share of the indexing threads.
    Priority(IndexPriority),
    /// Whether it indexes, is paused or is disabled.
    State(IndexState),
}

impl IndexSetting {
    /// The property of a definition in the record, and its value there.
    fn recorded(self) -> (&'static str, &'static str) {
        match self {
            IndexSetting::LockMode(mode) => ("LockMode", mode.name()),
            IndexSetting::Priority(priority) => ("Priority", priority.name()),
            IndexSetting::State(state) => ("State", state.name()),
        }
    }
}

/// Which spelling of its name matches the existing definition of an index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// The same; any other is rejected.
    Exact,
    AnyCase,
}

impl Engine {
    /// Creates an index, or changes its definition; returns the log index of the change. A
    /// definition that changes nothing, or whose existing one is locked to ignore it, has no
    /// effect. Blocks.
    ///
    /// # Errors
    /// The definition does not compile, or there is no turn or no memory to compile it; the existing one is locked;
    /// another index has the name in another case; the record cannot be written, or the index not be opened.
    pub fn define_index(
        &self,
        database: &DatabaseLease,
        definition: &IndexDefinition,
    ) -> Result<u64, EngineError> {
        let indexes = database.indexes();
        let _turn = self.turn_to_define(indexes, definition)?;
        indexes.check(&IndexKind::Static(Box::new(definition.clone())))?;
        // If the definition exists but its index could not be opened, it is written again, which
        // creates the index.
        let is_faulty = indexes.faulty_named(&definition.name).is_some();
        self.write_definition(database, definition, Spelling::Exact, is_faulty)
    }

    /// Deletes an index with its definition; `false` if there is none. Deleting an index that will
    /// replace another one reverts the change of the definition. Blocks.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn delete_index(&self, database: &DatabaseLease, name: &str) -> Result<bool, EngineError> {
        let indexes = database.indexes();
        if let Some(index) = indexes.get(name).filter(|index| index.is_replacement()) {
            return self.revert_definition(database, &index).map(|()| true);
        }
        if indexes.get(name).is_none() && indexes.faulty_named(name).is_none() {
            return Ok(false);
        }
        self.change_record_body(database.record().name.as_str(), |body| body.remove_index(name))?;
        Ok(true)
    }

    /// Changes a setting of indexes, which may be named by their replacements. Blocks.
    ///
    /// # Errors
    /// An automatic index has no such setting; the record cannot be written.
    pub fn change_index_settings(
        &self,
        database: &DatabaseLease,
        names: &[String],
        setting: IndexSetting,
    ) -> Result<(), EngineError> {
        for name in names {
            let index = database.indexes().get(name);
            let is_auto =
                index.is_some_and(|index| matches!(index.kind().as_ref(), IndexKind::Auto(_)));
            if is_auto && matches!(setting, IndexSetting::LockMode(_)) {
                let message = format!("'Lock Mode' can't be set for the Auto-Index '{name}'.");
                return Err(EngineError::Refused { message });
            }
        }
        let (property, value) = setting.recorded();
        self.change_record_body(database.record().name.as_str(), |body| {
            for name in names {
                // The record has one definition for an index and its replacement.
                body.change_index_setting(without_prefix(name), property, value);
            }
        })?;
        Ok(())
    }

    /// Writes the definition of the index that currently serves queries into the record again.
    fn revert_definition(
        &self,
        database: &DatabaseLease,
        replacement: &Index,
    ) -> Result<(), EngineError> {
        let name = replacement.kind().name();
        let Some(answering) = database.indexes().get(&name) else {
            return Err(EngineError::IndexDeleted { name });
        };
        if let IndexKind::Static(definition) = answering.kind().as_ref() {
            self.write_definition(database, definition, Spelling::AnyCase, false)?;
        }
        Ok(())
    }

    /// Writes a definition into the record, which creates the index. Assigns a number to the
    /// outputs of a definition that has none yet. An unchanged definition is written only if
    /// `is_written_again`.
    fn write_definition(
        &self,
        database: &DatabaseLease,
        wanted: &IndexDefinition,
        spelling: Spelling,
        is_written_again: bool,
    ) -> Result<u64, EngineError> {
        let name = &wanted.name;
        let created = date::format(self.platform.clock.now().ticks());
        let node_tag = database.identity().node_tag.to_string();
        let mut is_kept = false;
        let written =
            self.decide_record_body(database.record().name.as_str(), |record, body| {
                let known = recorded(record, name, spelling)?;
                let mut definition = match spelling {
                    Spelling::Exact => with_known_number(wanted.clone(), known.as_ref()),
                    Spelling::AnyCase => wanted.clone(),
                };
                is_kept = match &known {
                    Some(known) => is_kept_as_it_is(known, &definition)? && !is_written_again,
                    None => false,
                };
                if is_kept {
                    return Ok::<_, EngineError>(Decision::Keep);
                }
                if definition.has_output() && definition.reduce_output_index.is_none() {
                    // Every change of a record has a higher index than the one before.
                    definition.reduce_output_index = i64::try_from(record.etag + 1).ok();
                }
                body.put_index(&definition, &created, &node_tag);
                body.trim_index_history(self.memory.record_bytes_max / HISTORY_PART);
                Ok(Decision::Replace)
            })?;
        if is_kept {
            return Ok(written.index);
        }
        match faulty_of(&database.indexes().faulty(), name) {
            Some(faulty) => Err(EngineError::IndexNotCreated { error: faulty.error.clone() }),
            None => Ok(written.index),
        }
    }
}

/// The index of that name, or its replacement, if it could not be opened.
fn faulty_of<'f>(faulty: &'f [FaultyIndex], name: &str) -> Option<&'f FaultyIndex> {
    let replacement = format!("{}{name}", indexing::REPLACEMENT_PREFIX);
    faulty.iter().find(|faulty| {
        faulty.name.eq_ignore_ascii_case(name) || faulty.name.eq_ignore_ascii_case(&replacement)
    })
}

/// Fills in its type and the type of its source, which follow from its maps and its reduce.
pub fn complete_definition(mut definition: IndexDefinition) -> IndexDefinition {
    let is_javascript = definition.maps.first().is_some_and(|map| indexing::is_javascript(map));
    definition.index_type = Some(match (is_javascript, definition.reduce.is_some()) {
        (false, false) => IndexType::Map,
        (false, true) => IndexType::MapReduce,
        (true, false) => IndexType::JavaScriptMap,
        (true, true) => IndexType::JavaScriptMapReduce,
    });
    let source = definition.maps.first().map(|map| indexing::source_type_of(map));
    definition.source_type = Some(source.unwrap_or(IndexSourceType::Documents));
    definition
}

/// Whether a definition would change the one that the database has.
///
/// # Errors
/// The record is damaged.
pub fn would_change(
    database: &DatabaseLease,
    definition: IndexDefinition,
) -> Result<bool, EngineError> {
    let known = recorded_in_any_case(&database.record(), &definition.name)?;
    Ok(known.is_none_or(|known| {
        let wanted = with_known_number(complete_definition(definition), Some(&known));
        let wanted = IndexDefinition { name: known.name.clone(), ..wanted.with_defaults() };
        known.with_defaults() != wanted
    }))
}

/// Refuses a name that an index must not have.
///
/// # Errors
/// [`EngineError::IndexName`], with the rule.
pub fn check_index_name(name: &str) -> Result<(), EngineError> {
    let is_allowed = |character: char| character.is_alphanumeric() || "_-./".contains(character);
    let length = name.chars().count();
    let message = if name.is_empty() {
        "Index name cannot be empty!".to_owned()
    } else if NAME_CHARACTERS_MAX < length {
        format!(
            "Index name '{name}' is not permitted. Index name cannot exceed {NAME_CHARACTERS_MAX} characters."
        )
    } else if name.to_ascii_lowercase().starts_with("auto/") {
        format!("Index name '{name}' is not permitted. Static index name cannot start with 'Auto/'")
    } else if name.starts_with(indexing::REPLACEMENT_PREFIX) {
        let prefix = indexing::REPLACEMENT_PREFIX;
        format!("Index name must not start with '{prefix}'. Provided index name: '{name}'")
    } else if !name.chars().all(is_allowed) {
        format!(
            "Index name '{name}' is not permitted. Only letters, digits and characters ('_', '-', \
             '.', '/') are allowed."
        )
    } else if name.contains("//") {
        format!(
            "Index name '{name}' is not permitted. Index name cannot contain // (double slashes)"
        )
    } else if name.split('.').any(str::is_empty) {
        format!(
            "Index name '{name}' is not permitted. If a name contains '.' character then it must be \
             surrounded by other allowed characters."
        )
    } else {
        return Ok(());
    };
    Err(EngineError::IndexName { message })
}

/// With the number of its outputs, if it stores them; a client cannot set another.
fn with_known_number(
    definition: IndexDefinition,
    known: Option<&IndexDefinition>,
) -> IndexDefinition {
    let known = known.filter(|known| known.has_the_same_entries_as(&definition));
    let reduce_output_index = known.and_then(|known| known.reduce_output_index);
    IndexDefinition { reduce_output_index, ..definition }
}

/// The newest definition of that name in a record.
fn recorded(
    record: &DatabaseRecord,
    name: &str,
    spelling: Spelling,
) -> Result<Option<IndexDefinition>, EngineError> {
    let Some(known) = recorded_in_any_case(record, name)? else { return Ok(None) };
    if known.name == name || spelling == Spelling::AnyCase {
        return Ok(Some(known));
    }
    let message = format!(
        "Failed to create static index '{name}': Can not add index: {name} because an index with \
         the same name but different casing already exist"
    );
    Err(EngineError::IndexConflict { message })
}

fn recorded_in_any_case(
    record: &DatabaseRecord,
    name: &str,
) -> Result<Option<IndexDefinition>, EngineError> {
    let sections = wire::sections_of(&record.configuration);
    let recorded = sections.indexes.as_ref().map_err(|unreadable| {
        let detail = unreadable.message.clone();
        EngineError::RecordDamaged { detail }
    })?;
    let found = recorded.indexes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    Ok(found
        .map(|(known, definition)| IndexDefinition { name: known.clone(), ..definition.clone() }))
}

/// Whether a definition changes nothing, or the lock of the existing one silently ignores it.
fn is_kept_as_it_is(
    known: &IndexDefinition,
    wanted: &IndexDefinition,
) -> Result<bool, EngineError> {
    let (known, wanted) = (known.with_defaults(), wanted.with_defaults());
    if known == wanted {
        return Ok(true);
    }
    match known.lock_mode {
        Some(IndexLockMode::LockedIgnore) => Ok(true),
        Some(IndexLockMode::LockedError) => {
            let name = &known.name;
            let message = format!(
                "Failed to create static index '{name}': Cannot edit existing index {name} with \
                 lock mode LockedError"
            );
            Err(EngineError::IndexConflict { message })
        }
        Some(IndexLockMode::Unlock) | None => Ok(false),
    }
}

/// The name in the record of the definition that an index, or its replacement, was created from.
fn without_prefix(name: &str) -> &str {
    let prefix = indexing::REPLACEMENT_PREFIX;
    match name.split_at_checked(prefix.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
        _ => name,
    }
}
