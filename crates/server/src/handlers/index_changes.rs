//! Making, changing, pausing and deleting indexes.
//!
//! Definitions live in the record of the database; the open database follows its record. So a change
//! is durable before anybody hears of it, and a database that is opened again has the same indexes.

use std::sync::Arc;

use cluster_state::DatabaseRecord;
use database::{DatabaseLease, Decision};
use http::StatusCode;
use indexing::{FaultyIndex, Index, IndexKind};
use model::date;
use serde_json::{Map, Value, json};
use wire::{
    ErrorKind, IndexDefinition, IndexLockMode, IndexPriority, IndexSourceType, IndexState,
    IndexType, ProtocolError, RecordedIndexes,
};

use crate::{
    answer::Answer,
    blocking::blocking,
    call::Call,
    error_mapping::index_error,
    handlers::indexes::{missing, named},
    index_history,
    router::Answering,
    server_state::ServerState,
    stored_record::{body_of, decide_body, read_object, section_of, texts_of},
};

const INDEXES: &str = "Indexes";
const AUTO_INDEXES: &str = "AutoIndexes";
/// Indexes in one request, at most.
const DEFINITIONS_MAX: usize = 256;

/// Where a definition came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Administrator,
    Anybody,
}

/// `PUT /admin/indexes`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(put_from(call, Source::Administrator))
}

/// `PUT /indexes`: only JavaScript, which runs under a budget.
pub(crate) fn put_javascript(call: Call) -> Answering {
    Box::pin(put_from(call, Source::Anybody))
}

async fn put_from(call: Call, source: Source) -> Result<Answer, ProtocolError> {
    let definitions = definitions_of(&call, source)?;
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    blocking(move || {
        let mut results = Vec::new();
        for definition in definitions {
            let name = definition.name.clone();
            let index = put_one(&state, &database, definition)?;
            results.push(json!({"Index": name, "RaftCommandIndex": index}));
        }
        Ok(Answer::shape(StatusCode::CREATED, &json!({"Results": results})))
    })
    .await
}

fn definitions_of(call: &Call, source: Source) -> Result<Vec<IndexDefinition>, ProtocolError> {
    let mut body = read_object(&call.body)?;
    let Some(Value::Array(listed)) = body.remove(INDEXES) else {
        let message = "Request should have a property name 'Indexes' which is mandatory.";
        return Err(ProtocolError::argument(message));
    };
    if DEFINITIONS_MAX < listed.len() {
        let message = format!("One request defines at most {DEFINITIONS_MAX} indexes");
        return Err(ProtocolError::argument(message));
    }
    listed.into_iter().map(|definition| definition_of(definition, source)).collect()
}

/// Makes or changes indexes, as an administrator who sends these definitions. Blocks.
pub(crate) fn define_all(
    state: &ServerState,
    database: &DatabaseLease,
    definitions: Vec<Value>,
) -> Result<(), ProtocolError> {
    for definition in definitions {
        let definition = definition_of(definition, Source::Administrator)?;
        put_one(state, database, definition)?;
    }
    Ok(())
}

/// Reads a definition.
pub(crate) fn definition_in(json: Value) -> Result<IndexDefinition, ProtocolError> {
    serde_json::from_value(json)
        .map_err(|error| ProtocolError::new(ErrorKind::InvalidData, error.to_string()))
}

/// Refuses settings of an index that no index can have.
pub(crate) fn check_configuration(definition: &IndexDefinition) -> Result<(), ProtocolError> {
    for (name, value) in &definition.configuration {
        let Some(value) = value else { continue };
        if let Err(expected) = settings::check_of_index(name, value) {
            let message = format!("Could not set '{name}' configuration setting value.");
            return Err(ProtocolError::invalid_operation(message).caused_by(expected));
        }
    }
    Ok(())
}

/// Reads a definition, and finds out what kind it is.
fn definition_of(json: Value, source: Source) -> Result<IndexDefinition, ProtocolError> {
    let mut definition = definition_in(json)?;
    definition.name = definition.name.trim().to_owned();
    check_name(&definition.name)?;
    let Some(map) = definition.maps.first() else {
        return Err(ProtocolError::argument("Index must have a 'Maps' fields"));
    };
    let is_javascript = indexing::is_javascript(map);
    check_configuration(&definition)?;
    let definition = typed(definition);
    if source == Source::Anybody && !is_javascript {
        let message = format!(
            "Index {} is a C# index but was sent through a non-admin endpoint using REST api, this \
             is not allowed.",
            definition.name
        );
        return Err(ProtocolError::new(ErrorKind::UnauthorizedAccess, message));
    }
    Ok(definition)
}

/// With what the server finds out by itself.
pub(crate) fn typed(mut definition: IndexDefinition) -> IndexDefinition {
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

/// An index's name has at most that many characters.
const NAME_LETTERS_MAX: usize = 206;

/// Refuses a name that an index may not have.
pub(crate) fn check_name(name: &str) -> Result<(), ProtocolError> {
    let is_allowed = |character: char| character.is_alphanumeric() || "_-./".contains(character);
    let length = name.chars().count();
    let message = if name.is_empty() {
        "Index name cannot be empty!".to_owned()
    } else if NAME_LETTERS_MAX < length {
        format!(
            "Index name '{name}' is not permitted. Index name cannot exceed {NAME_LETTERS_MAX} characters."
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
    Err(ProtocolError::argument(message))
}

/// Writes a definition into the record; the index of the change.
fn put_one(
    state: &ServerState,
    database: &DatabaseLease,
    definition: IndexDefinition,
) -> Result<u64, ProtocolError> {
    let indexes = database.indexes();
    let _defining = indexes.begin_defining();
    let kind = IndexKind::Static(Box::new(definition.clone()));
    indexes.check(&kind).map_err(|error| index_error(&error))?;
    // A definition that is known but whose index could not be opened is written again, which makes the index.
    let is_faulty = indexes.faulty_named(&definition.name).is_some();
    write_definition(state, database, &definition, Spelling::Exact, is_faulty)
}

/// Which spelling of its name finds the known definition of an index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// The same; another one is refused.
    Exact,
    /// Any.
    AnyCase,
}

/// With the number of its outputs, if it keeps them; a client cannot give it another.
fn with_known_number(
    definition: IndexDefinition,
    known: Option<&IndexDefinition>,
) -> IndexDefinition {
    let known = known.filter(|known| known.has_the_same_entries_as(&definition));
    let reduce_output_index = known.and_then(|known| known.reduce_output_index);
    IndexDefinition { reduce_output_index, ..definition }
}

/// Writes a definition into the record, which makes the index; the index of the change. It numbers the
/// outputs of a definition that has none yet. Whether the definition is a new one, and whether the lock of the
/// known one allows it, is decided on the record that is replaced. One that is not new is written only if
/// `is_written_again`.
fn write_definition(
    state: &ServerState,
    database: &DatabaseLease,
    wanted: &IndexDefinition,
    spelling: Spelling,
    is_written_again: bool,
) -> Result<u64, ProtocolError> {
    let name = &wanted.name;
    let created = date::format(state.platform.clock.now().ticks());
    let mut is_kept = false;
    let changed = decide_record(state, database, |record, body| {
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
            return Ok(Decision::Keep);
        }
        if definition.has_output() && definition.reduce_output_index.is_none() {
            // Every change of a record takes a later index than the one before.
            definition.reduce_output_index = i64::try_from(record.etag + 1).ok();
        }
        let json = serde_json::to_value(&definition)
            .map_err(|error| ProtocolError::new(ErrorKind::Internal, error.to_string()))?;
        index_history::add(body, name, json.clone(), &created);
        section_of(body, INDEXES).insert(name.clone(), json);
        Ok(Decision::Replace)
    })?;
    if is_kept {
        return Ok(changed);
    }
    let faulty = database.indexes().faulty();
    let replacement = format!("{}{name}", indexing::REPLACEMENT_PREFIX);
    let is_it = |faulty: &&FaultyIndex| {
        faulty.name.eq_ignore_ascii_case(name) || faulty.name.eq_ignore_ascii_case(&replacement)
    };
    match faulty.iter().find(is_it) {
        Some(faulty) => Err(index_error(&faulty.error)),
        None => Ok(changed),
    }
}

/// The newest definition of that name in a record.
fn recorded(
    record: &DatabaseRecord,
    name: &str,
    spelling: Spelling,
) -> Result<Option<IndexDefinition>, ProtocolError> {
    let Some(known) = recorded_in_any_case(record, name)? else { return Ok(None) };
    if known.name == name || spelling == Spelling::AnyCase {
        return Ok(Some(known));
    }
    let message = format!(
        "Failed to create static index '{name}': Can not add index: {name} because an index with \
         the same name but different casing already exist"
    );
    Err(ProtocolError::new(ErrorKind::IndexCreation, message))
}

fn recorded_in_any_case(
    record: &DatabaseRecord,
    name: &str,
) -> Result<Option<IndexDefinition>, ProtocolError> {
    let recorded = RecordedIndexes::of_record(&record.body)
        .map_err(|error| ProtocolError::new(ErrorKind::Internal, error.to_string()))?;
    let found = recorded.indexes.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    Ok(found.map(|(known, definition)| IndexDefinition { name: known, ..definition }))
}

/// Whether a definition says nothing new, or the lock of the known one keeps it as it is, without
/// telling.
fn is_kept_as_it_is(
    known: &IndexDefinition,
    wanted: &IndexDefinition,
) -> Result<bool, ProtocolError> {
    let (known, wanted) = (known.shown(), wanted.shown());
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
            Err(ProtocolError::new(ErrorKind::IndexCreation, message))
        }
        Some(IndexLockMode::Unlock) | None => Ok(false),
    }
}

type Section = Map<String, Value>;

/// Changes the sections of automatic and of other indexes in the record; the index of the change.
fn change_indexes(
    state: &ServerState,
    database: &DatabaseLease,
    mut change: impl FnMut(&mut Section, &mut Section),
) -> Result<u64, ProtocolError> {
    decide_record(state, database, |_, body| {
        let (mut autos, mut statics) = (take(body, AUTO_INDEXES), take(body, INDEXES));
        change(&mut autos, &mut statics);
        body.insert(AUTO_INDEXES.to_owned(), Value::Object(autos));
        body.insert(INDEXES.to_owned(), Value::Object(statics));
        Ok(Decision::Replace)
    })
}

/// Changes the record of a database; the index of the change, or of the record if it is kept.
fn decide_record(
    state: &ServerState,
    database: &DatabaseLease,
    change: impl FnMut(&DatabaseRecord, &mut Section) -> Result<Decision, ProtocolError>,
) -> Result<u64, ProtocolError> {
    let name = database.record().name.clone();
    match decide_body(state, name.as_str(), change)? {
        Some(written) => Ok(written.index),
        None => {
            let message = format!("Database '{}' does not exist.", name.as_str());
            Err(ProtocolError::new(ErrorKind::DatabaseDoesNotExist, message))
        }
    }
}

fn take(body: &mut Section, section: &str) -> Section {
    match body.get_mut(section).map(Value::take) {
        Some(Value::Object(section)) => section,
        _ => Section::new(),
    }
}

/// `DELETE /indexes`. To delete an index that is to take the place of another is to take back the
/// change of the definition.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        if let Some(index) = database.indexes().get(&name).filter(|index| index.is_replacement()) {
            return blocking(move || take_back(&state, &database, &index)).await;
        }
        let indexes = database.indexes();
        let is_faulty =
            || indexes.faulty().iter().any(|faulty| faulty.name.eq_ignore_ascii_case(&name));
        if indexes.get(&name).is_none() && !is_faulty() {
            return Ok(Answer::empty(StatusCode::NOT_FOUND));
        }
        blocking(move || {
            change_indexes(&state, &database, |autos, statics| {
                autos.retain(|known, _| !known.eq_ignore_ascii_case(&name));
                statics.retain(|known, _| !known.eq_ignore_ascii_case(&name));
            })?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// Writes the definition of the index that answers into the record again.
fn take_back(
    state: &ServerState,
    database: &DatabaseLease,
    replacement: &Index,
) -> Result<Answer, ProtocolError> {
    let name = replacement.kind().name();
    let answering = database.indexes().get(&name).ok_or_else(|| missing(&name))?;
    if let IndexKind::Static(definition) = answering.kind().as_ref() {
        write_definition(state, database, definition, Spelling::AnyCase, false)?;
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `POST /indexes/replace`: lets an index take the place of the one before, finished or not.
pub(crate) fn replace(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let database = call.database()?.clone();
        blocking(move || {
            let indexes = database.indexes();
            if indexes.replace_now(&name).map_err(|error| index_error(&error))? {
                return Ok(Answer::empty(StatusCode::NO_CONTENT));
            }
            let message = match indexes.get(&name) {
                Some(_) => format!("Could not find side-by-side index for '{name}'."),
                None => {
                    let prefix = indexing::REPLACEMENT_PREFIX;
                    format!("Could not find '{name}' and '{prefix}{name}' indexes.")
                }
            };
            Err(ProtocolError::new(ErrorKind::IndexDoesNotExist, message))
        })
        .await
    })
}

/// `GET /indexes/history`: the definitions that an index had, the newest first.
pub(crate) fn history(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    let body = body_of(&call.database()?.record());
    Ok(match index_history::of(&body, name) {
        Some(history) => Answer::shape(StatusCode::OK, &json!({"Index": name, "History": history})),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `RESET /indexes`: empties an index, which begins anew.
pub(crate) fn reset(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let database = call.database()?.clone();
        blocking(move || {
            let reset = database.indexes().reset(&name).ok_or_else(|| missing(&name))?;
            let index = reset.map_err(|error| index_error(&error))?;
            Ok(Answer::shape(StatusCode::OK, &json!({"Index": index.shown_definition()})))
        })
        .await
    })
}

/// `DELETE /indexes/errors`: of all, or of those that are named.
pub(crate) fn clear_errors(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let names: Vec<_> = query.all("name").filter(|name| !name.is_empty()).collect();
        let indexes = match names.as_slice() {
            [] => call.database()?.indexes().all(),
            names => names.iter().map(|name| named(&call, name)).collect::<Result<_, _>>()?,
        };
        blocking(move || {
            for index in indexes {
                index.clear_errors().map_err(|error| index_error(&error))?;
            }
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// `POST /indexes/has-changed`: whether the definition would change anything.
pub(crate) fn has_changed(call: &Call) -> Result<Answer, ProtocolError> {
    let body = Value::Object(read_object(&call.body)?);
    let definition = definition_in(body)?;
    let known = recorded_in_any_case(&call.database()?.record(), &definition.name)?;
    let changed = known.is_none_or(|known| {
        let wanted = with_known_number(typed(definition), Some(&known));
        let wanted = IndexDefinition { name: known.name.clone(), ..wanted.shown() };
        known.shown() != wanted
    });
    Ok(Answer::shape(StatusCode::OK, &json!({"Changed": changed})))
}

/// `POST /indexes/set-lock`.
pub(crate) fn set_lock(call: Call) -> Answering {
    configure(call, "Mode", "LockMode", |text| IndexLockMode::named(text).map(|mode| mode.name()))
}

/// `POST /indexes/set-priority`.
pub(crate) fn set_priority(call: Call) -> Answering {
    configure(call, "Priority", "Priority", |text| {
        IndexPriority::named(text).map(|priority| priority.name())
    })
}

fn configure(
    call: Call,
    asked: &'static str,
    property: &'static str,
    read: fn(&str) -> Option<&'static str>,
) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let names = texts_of(&body, "IndexNames")?;
        if names.is_empty() {
            let shown = body.get("IndexNames").unwrap_or(&Value::Null);
            let message = format!("'IndexNames' names no index: {shown}");
            return Err(ProtocolError::argument(message));
        }
        let value = body.get(asked).and_then(Value::as_str).and_then(read).ok_or_else(|| {
            let shown = body.get(asked).unwrap_or(&Value::Null);
            ProtocolError::argument(format!("'{asked}' has no value that is known: {shown}"))
        })?;
        set_in_definitions(&call, names, property, json!(value)).await
    })
}

/// Sets a property of definitions in the record.
async fn set_in_definitions(
    call: &Call,
    names: Vec<String>,
    property: &'static str,
    value: Value,
) -> Result<Answer, ProtocolError> {
    for name in &names {
        let index = named(call, name)?;
        if matches!(index.kind().as_ref(), IndexKind::Auto(_)) && property == "LockMode" {
            let message = format!("'Lock Mode' can't be set for the Auto-Index '{name}'.");
            return Err(ProtocolError::invalid_operation(message));
        }
    }
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    // There is one definition in the record for an index and the one that is to take its place.
    let names: Vec<_> = names.iter().map(|name| without_prefix(name).to_owned()).collect();
    blocking(move || {
        change_indexes(&state, &database, |autos, statics| {
            let listed = autos.iter_mut().chain(statics.iter_mut());
            let meant = listed
                .filter(|(known, _)| names.iter().any(|name| known.eq_ignore_ascii_case(name)));
            for (_, definition) in meant {
                definition[property] = value.clone();
            }
        })?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
    .await
}

/// The name of the definition that an index, or the one that is to take its place, is made after.
fn without_prefix(name: &str) -> &str {
    let prefix = indexing::REPLACEMENT_PREFIX;
    match name.split_at_checked(prefix.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
        _ => name,
    }
}

/// `POST /admin/indexes/enable`.
pub(crate) fn enable(call: Call) -> Answering {
    set_state(call, IndexState::Normal)
}

/// `POST /admin/indexes/disable`.
pub(crate) fn disable(call: Call) -> Answering {
    set_state(call, IndexState::Disabled)
}

fn set_state(call: Call, state: IndexState) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        set_in_definitions(&call, vec![name], "State", json!(state)).await
    })
}

/// `POST /admin/indexes/stop`: of all, or of one, until the server stops.
pub(crate) fn pause(call: &Call) -> Result<Answer, ProtocolError> {
    set_paused(call, true)
}

/// `POST /admin/indexes/start`.
pub(crate) fn resume(call: &Call) -> Result<Answer, ProtocolError> {
    set_paused(call, false)
}

fn set_paused(call: &Call, paused: bool) -> Result<Answer, ProtocolError> {
    let query = call.query();
    match query.get("name").filter(|name| !name.is_empty()) {
        Some(name) => {
            let index = named(call, name)?;
            if paused { index.pause() } else { index.resume() }
        }
        None => {
            let indexes = call.database()?.indexes();
            if paused { indexes.pause() } else { indexes.resume() }
        }
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
